"""A session's records as entries of a conversation, read on while the session goes on.

The end of the log comes first, so that a long one is there as fast as a short one; ``earlier``
reads further back. A call and its result are one entry: when the answer comes, the entry is given
once more, under the same number. Entries are in the order of the log, and where the conversation
went back to an earlier point, a mark says so. No thread but one may use a reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.export.conversation import (
    Block,
    ConversationOptions,
    Mark,
    MarkKind,
    PromptPiece,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.records.annotations import session_of
from turnlog.records.damage import Damage
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Linked, Record
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import LogFollower, Restart, read_last

STEPS: Final = (1_000, 5_000, 20_000)
"""How many of the last records are read: at first, and each time more is wanted."""
_SHOWN_LENGTH: Final = 100_000


class ConversationEntry(Struct, frozen=True):
    """One thing that was said or done. *number* says which, also when it is given again."""

    number: int
    block: Block
    at: datetime | None

    @property
    def is_prompt(self) -> bool:
        """Somebody asked something."""
        return isinstance(self.block, PromptPiece) and self.block.is_prompt


class Growth(Struct, frozen=True):
    """What a look has found. What *begins* replaces everything that was given before."""

    entries: list[ConversationEntry]
    begins: bool = False
    is_whole: bool = True
    """Nothing stands before the first entry; told when it begins."""
    records: int = 0
    problem: str = ""


class ConversationReader:
    """The main log of a session, or the log of a subagent. *session* is whose records count."""

    def __init__(self, path: str | os.PathLike[str], *, session: str | None = None) -> None:
        self.path = os.fspath(path)
        self._session = session
        self._step = -1
        self._follower: LogFollower | None = None
        self._seen: tuple[int, int] | None = None
        self._begin()

    def look(self) -> Growth | None:
        """Return what is new; None if nothing is."""
        try:
            if self._step < 0:
                return self._read_last(0)
            status = os.stat(self.path)
            seen = (status.st_size, status.st_mtime_ns)
            if self._follower is None or seen == self._seen:
                return None
            self._seen = seen
            return self._read_on(self._follower)
        except (OSError, TurnlogError) as error:
            if self._step >= 0:
                return None  # It was moved or deleted; what was read stays.
            self._step = 0
            return Growth([], begins=True, problem=str(error))

    def earlier(self) -> Growth | None:
        """Read further back; None if there is nothing more, or too much."""
        if not self.can_go_back:
            return None
        try:
            return self._read_last(self._step + 1)
        except (OSError, TurnlogError):
            return None

    @property
    def can_go_back(self) -> bool:
        """There is more before, and it may be read."""
        return not self._is_whole and self._step + 1 < len(STEPS)

    def _begin(self) -> None:
        self._blocks = Blocks(ConversationOptions(), Unmasked())
        self._count = 0
        self._records = 0
        self._calls: dict[str, tuple[int, CallRequest]] = {}
        self._places: dict[str, int] = {}
        self._last_prompt = -1
        self._is_whole = True

    def _read_last(self, step: int) -> Growth:
        self._begin()
        last = read_last(self.path, STEPS[step])
        start = last[0].offset if last else 0
        self._step, self._is_whole = step, start == 0
        if self.path.endswith(".jsonl"):
            status = os.stat(self.path)
            self._seen = (status.st_size, status.st_mtime_ns)
            self._follower = LogFollower(self.path, start=start)
            entries = list(self._all(self._follower))
        else:
            entries = self._take(last if start else read_log(self.path))
        return Growth(entries, begins=True, is_whole=self._is_whole, records=self._records)

    def _all(self, follower: LogFollower) -> Iterator[ConversationEntry]:
        while items := follower.look():
            yield from self._take(items)

    def _read_on(self, follower: LogFollower) -> Growth | None:
        entries: list[ConversationEntry] = []
        begins = False
        while items := follower.look():
            if any(isinstance(item, Restart) for item in items):
                self._begin()
                entries, begins = [], True
            entries += self._take(items)
        if not entries and not begins:
            return None
        return Growth(entries, begins=begins, records=self._records)

    def _take(self, items: Iterable[Placed | Damage | Restart]) -> list[ConversationEntry]:
        """Turn records into entries; one that changed comes under its old number."""
        found: dict[int, ConversationEntry] = {}
        for item in items:
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._records += 1
                for entry in self._entries(item.record):
                    found[entry.number] = entry
            elif isinstance(item, Damage):
                mark = Mark(kind=MarkKind.DAMAGE, text=f"{item.length:,} bytes are no record")
                entry = self._new(mark, None)
                found[entry.number] = entry
        return list(found.values())

    def _entries(self, record: Record) -> Iterator[ConversationEntry]:
        if isinstance(record, Linked):
            yield from self._turned_back(record)
        for block in self._blocks.of(record):
            if isinstance(block, CallRequest):
                entry = self._new(self._blocks.call(block, None), block.at)
                self._calls[block.id] = (entry.number, block)
                yield entry
            elif isinstance(block, Answered):
                yield self._answered(block)
            else:
                yield self._new(block, record.at)

    def _answered(self, answer: Answered) -> ConversationEntry:
        number, asked = self._calls.pop(answer.id, (None, None))
        call = self._blocks.call(asked, answer)
        if call.result is not None and len(call.result.text) > _SHOWN_LENGTH:
            left = len(call.result.text) - _SHOWN_LENGTH
            call.result.text = f"{call.result.text[:_SHOWN_LENGTH]}\n… {left:,} more characters"
        if number is None:
            return self._new(call, answer.at)
        return ConversationEntry(number, call, asked.at if asked else answer.at)

    def _turned_back(self, record: Linked) -> Iterator[ConversationEntry]:
        """Return where a prompt follows something that stands before the prompt above it."""
        place = len(self._places)
        if meaning_of(record) is Meaning.PROMPT and not record.is_sidechain:
            parent = self._places.get(record.parent_uuid or "")
            if parent is not None and parent < self._last_prompt:
                words = "the conversation went back, and on from an earlier point"
                yield self._new(Mark(kind=MarkKind.BRANCH, text=words), record.at)
            self._last_prompt = place
        if record.uuid:
            self._places[record.uuid] = place

    def _new(self, block: Block, at: datetime | None) -> ConversationEntry:
        self._count += 1
        return ConversationEntry(self._count - 1, block, at)

    def _is_mine(self, record: Record) -> bool:
        return self._session is None or session_of(record) == self._session
