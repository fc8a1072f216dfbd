"""The rows of a chunk, gathered record by record.

Rows are named by the offset of their record. An answer whose call is in the same chunk goes into
the call's own row; one to an earlier call is a row that says whose answer it is.
"""

from __future__ import annotations

from typing import Any, Final

from turnlog.index.folds import Folded, OpenCall
from turnlog.index.ids import microseconds, short_uuid
from turnlog.index.lines import Answer, Found
from turnlog.index.sound import sound_row
from turnlog.index.words import as_indexed
from turnlog.records.damage import Damage

_NO_ANSWER: Final = (None, None, None, None)


class Rows:
    """What was gathered since the last chunk; ``Chunk`` tells what the rows hold."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self._uuid_before: str | None = None
        self._short_uuid_before: bytes | str | None = None
        self.clear()

    def clear(self) -> None:
        """Begin anew; the lists that were gathered go to whoever took them."""
        self.records: list[tuple[Any, ...]] = []
        self.texts: list[tuple[Any, ...]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.answers: list[tuple[Any, ...]] = []
        self.damages: list[tuple[Any, ...]] = []
        self.text_bytes = 0
        self._calls_here: dict[str, int] = {}

    def remember(
        self, found: Found, offset: int, length: int, session: str, *, is_sound: bool = True
    ) -> None:
        """Make rows of what was found."""
        folded = self.folded
        at = microseconds(found.at)
        if at is not None:
            folded.last_second = at // 1_000_000 if at > 0 else 0
        # Nearly always the parent is the record before.
        is_next = found.parent == self._uuid_before
        parent = self._short_uuid_before if is_next else short_uuid(found.parent)
        uuid = short_uuid(found.uuid)
        self._uuid_before, self._short_uuid_before = found.uuid, uuid
        row = (
            offset,
            length,
            found.type,
            found.author,
            session,
            uuid,
            parent,
            at,
            found.model,
            found.branch,
            found.message,
            found.flags,
        )
        self.records.append(row if is_sound else sound_row(row))
        for part, (kind, text) in enumerate(found.texts):
            words = as_indexed(text)
            self.texts.append((folded.last_second, offset, part, int(kind), words))
            self.text_bytes += len(words)
        for asked in found.asked:
            if asked.call_id is not None:
                folded.wait_for(asked.call_id, OpenCall(offset, asked.block, at))
                self._calls_here[asked.call_id] = len(self.calls)
            call = (
                offset,
                asked.block,
                asked.call_id,
                asked.tool,
                asked.digest,
                asked.path,
                asked.action,
                *_NO_ANSWER,
            )
            self.calls.append(call if is_sound else sound_row(call))
        for answer in found.answers:
            self._answered(answer, offset, at)

    def _answered(self, answer: Answer, offset: int, at: int | None) -> None:
        """Put an answer to its call, or say whose it is if that call's row is gone already."""
        call = self.folded.open_calls.pop(answer.call_id, None)
        if call is None:
            return
        took = answer.duration_us
        if took is None and at is not None and call.at_us is not None:
            took = max(0, at - call.at_us)
        came = (offset, answer.is_error, took, answer.signature)
        here = self._calls_here.pop(answer.call_id, None)
        if here is None:
            self.answers.append((*came, call.offset, call.block))
        else:
            self.calls[here] = (*self.calls[here][: -len(came)], *came)

    def damaged(self, damage: Damage) -> None:
        """Make a row of what could not be read."""
        row = (damage.offset, damage.length, damage.reason.value, damage.detail, damage.excerpt)
        self.damages.append(sound_row(row))
