"""Prompts that wait: typed while the agent was busy, and not taken by it.

Claude Code notes in the log when a prompt enters its queue and when it leaves: taken in turn
(dequeue), taken out before (remove), or all of them handed back to whoever typed them (popAll). So
the operations tell the course of each prompt. What waits still when a session has ended was never
answered, and stands nowhere else in the log.

    for prompt in queued_in(session.paths, session.id):
        print(prompt.at, prompt.text)

The program puts notices of its own into the same queue, and does not always say that they left it.
They are no prompts and are passed over; if one leaves while a prompt waits, the prompt is taken to
have left: nobody is told that a prompt waits that was answered.
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
from turnlog.records.blocks import text_in
from turnlog.records.codec import decode
from turnlog.records.meaning import is_news
from turnlog.records.record import QueueOperation, Record
from turnlog.storage.scan import find_lines

_NEEDLE: Final = b'"queue-operation"'
# How the program's own notices began in earlier versions.
_OLD_NOTICE: Final = '{"task_id"'


class QueuedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt in the queue."""

    text: str
    at: datetime | None


class Queue(Struct):
    """What waits, the oldest first; feed it a session's records with ``take``."""

    _waiting: dict[int, QueuedPrompt] = field(default_factory=dict)
    """By the number with which each came."""
    _numbers: dict[str, deque[int]] = field(default_factory=dict)
    _count: int = 0

    @property
    def waiting(self) -> list[QueuedPrompt]:
        return list(self._waiting.values())

    def take(self, record: Record) -> None:
        """Fold one more record in."""
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
                self._leave(text_in(record.content))
            case "popAll":
                self._waiting.clear()
                self._numbers.clear()

    def _leave(self, text: str) -> None:
        """Remove the first prompt of this *text*, else the first of all."""
        if not self._numbers.get(text):
            text = next(iter(self._waiting.values())).text
        del self._waiting[self._numbers[text].popleft()]


def queued_in(paths: Iterable[Path], session_id: str) -> list[QueuedPrompt]:
    """List the prompts of a session that wait, as its main logs at *paths* say."""
    queue = Queue()
    for path in paths:
        try:
            for _, line in find_lines(path, _NEEDLE):
                record = decode(line) if isinstance(line, bytes) else None
                if isinstance(record, QueueOperation) and session_of(record) in (None, session_id):
                    queue.take(record)
        except NotFound:
            continue  # It vanished since.
    return queue.waiting
