"""Queued prompts: typed while the agent was busy, and not yet taken.

Claude Code logs when a prompt enters its queue and when it leaves: taken in turn (dequeue), removed
before that (remove), or all of them returned to the user (popAll). What still waits when a session
has ended was never answered, and is nowhere else in the log.

    for prompt in queued_in(session.paths, session.id):
        print(prompt.at, prompt.text)

The program also queues notices of its own, and does not always log that they left. They are
ignored; if one leaves while a prompt waits, the prompt counts as gone, so that an answered prompt
is never reported as waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.records.annotations import session_of
from turnlog.records.codec import decode
from turnlog.records.meaning import is_news
from turnlog.records.record import QueueOperation, Record, text_in
from turnlog.storage.scan import FoundLines

_NEEDLE: Final = b'"queue-operation"'
# How the program's own notices began in earlier versions.
_OLD_NOTICE: Final = '{"task_id"'


class QueuedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt in the queue."""

    text: str
    at: datetime | None


class Queue(Struct):
    """Waiting prompts, oldest first; call ``take`` for each record of a session."""

    _waiting: dict[int, QueuedPrompt] = field(default_factory=dict)
    """By the sequence number of each."""
    _numbers: dict[str, deque[int]] = field(default_factory=dict)
    _count: int = 0

    @property
    def waiting(self) -> list[QueuedPrompt]:
        return list(self._waiting.values())

    def take(self, record: Record) -> None:
        """Add a record."""
        if not isinstance(record, QueueOperation):
            return
        match record.operation:
            case "enqueue":
                text = text_in(record.content)
                if text and not (is_news(text) or text.lstrip().startswith(_OLD_NOTICE)):
                    self._waiting[self._count] = QueuedPrompt(text=text, at=record.at)
                    self._numbers.setdefault(text, deque()).append(self._count)
                    self._count += 1
            case "dequeue" | "remove" if self._waiting:
                text = text_in(record.content)
                if not self._numbers.get(text):  # Otherwise the first of all leaves.
                    text = next(iter(self._waiting.values())).text
                del self._waiting[self._numbers[text].popleft()]
            case "popAll":
                self._waiting.clear()
                self._numbers.clear()


def queued_in(paths: Iterable[Path], session_id: str) -> list[QueuedPrompt]:
    """Return the waiting prompts of a session, from its main logs at *paths*."""
    queue = Queue()
    for path in paths:
        try:
            for _, line in FoundLines(path, _NEEDLE):
                record = decode(line) if isinstance(line, bytes) else None
                if isinstance(record, QueueOperation) and session_of(record) in (None, session_id):
                    queue.take(record)
        except NotFound:
            continue  # It vanished since.
    return queue.waiting
