"""The rows of a chunk, gathered record by record.

Rows are named by the id of their record. An answer whose call is in the same chunk, or comes
later, goes into the call's own row; one to an earlier call is a row that says whose answer it is.

Of a line that was decoded fast the rows are made at once, of any other record from what was found
in it. Both give the same, and a test compares them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from turnlog.index.database import utf8_safe_row
from turnlog.index.ids import OFFSET_BITS, microseconds, short_uuid
from turnlog.index.refresh.line_decoder import (
    IS_ERROR,
    OF_SUBAGENT,
    LineFields,
    RecordFacts,
    digest_of,
    noted,
    signature_of,
    touched,
)
from turnlog.index.refresh.log_state import EarlyResult, LogState, OpenCall
from turnlog.index.texts import TextKind, as_indexed, text_of_block
from turnlog.records.damage import Damage
from turnlog.records.meaning import Author
from turnlog.records.record import CallBlock, ResultBlock
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS

if TYPE_CHECKING:
    from turnlog.index.refresh.chunks import Unplaced

_NO_ANSWER: Final = (None, None, None, None)
# Plain values, looked up once: there are several for every line.
_SUBAGENT, _ASSISTANT = Author.SUBAGENT.value, Author.ASSISTANT.value
_PROGRAM, _TOOL = Author.PROGRAM.value, Author.TOOL.value
_PROMPT, _RESPONSE = TextKind.PROMPT, TextKind.RESPONSE


class ChunkRows:
    """What was gathered since the last chunk; ``Chunk`` tells what the rows hold."""

    def __init__(self, folded: LogState, log: int) -> None:
        self.folded = folded
        self._log = log << OFFSET_BITS
        self._uuid_before: str | None = None
        self._short_uuid_before: bytes | str | None = None
        self.clear()

    def clear(self) -> None:
        """Begin anew; the lists that were gathered go to whoever took them."""
        self.records: list[tuple[Any, ...]] = []
        self.carried: list[tuple[Any, ...]] = []
        self.texts: list[Unplaced] = []
        self.calls: list[list[Any]] = []
        self.answers: list[tuple[Any, ...]] = []
        self.damages: list[tuple[Any, ...]] = []
        self.text_bytes = 0
        self._calls_here: dict[str, list[Any]] = {}

    def remember(self, found: RecordFacts, offset: int, length: int, session: str) -> None:
        """Make rows of what was found in a record; its texts may be such as UTF-8 cannot hold."""
        record = self._log | offset
        at = self._dated(found.at)
        parent = self._short(found.parent)
        uuid = self._next(found.uuid)
        row = (
            record,
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
        self.records.append(utf8_safe_row(row))
        if found.is_copy or (found.session or session) != session:
            self._carry(record, uuid, found.origin)
        for part, (kind, text) in enumerate(found.texts):
            self._text(record, part, kind, text)
        for asked in found.asked:
            told = (record, asked.block, asked.call_id, asked.tool, asked.digest)
            call = utf8_safe_row((*told, asked.path, asked.action, *_NO_ANSWER))
            self._asked([*call], at)
        for answer in found.answers:
            came = (record, answer.is_error, answer.duration_us, answer.signature)
            self._answered(answer.call_id, at, came)

    def remember_line(
        self, line: LineFields, at: datetime | None, offset: int, length: int, session: str
    ) -> bool:
        """Make rows of a line that was decoded fast; tell whether it asks for a subagent."""
        message, kind = line.message, line.type
        record = self._log | offset
        at_us = self._dated(at)
        in_subagent = line.is_sidechain is True or line.agent_id is not None
        flags = OF_SUBAGENT if in_subagent else 0
        model = said = None
        asks_for_subagent = False
        if kind == "progress" or message is None or type(message.content) is not tuple:
            author = _PROGRAM
            note, meant = noted(line)
            flags |= meant
            if note is not None:
                self._text(record, 0, note.kind, note.text)
        elif kind == "assistant":
            author = _SUBAGENT if in_subagent else _ASSISTANT
            model, said = message.model, message.id
            if line.is_api_error_message is True:
                flags |= IS_ERROR
            asks_for_subagent, _ = self._take(message.content, _RESPONSE, record, at_us)
        else:
            author = _TOOL
            _, failed = self._take(message.content, _PROMPT, record, at_us)
            if failed:
                flags |= IS_ERROR
        parent = self._short(line.parent_uuid)
        uuid = self._next(line.uuid)
        if line.forked_from is not None:
            self._carry(record, uuid, line.forked_from.message_uuid)
        elif (line.session_id or session) != session:
            self._carry(record, uuid, None)
        self.records.append(
            (
                record,
                length,
                kind,
                author,
                session,
                uuid,
                parent,
                at_us,
                model,
                line.git_branch,
                said,
                flags,
            )
        )
        return asks_for_subagent

    def damaged(self, damage: Damage) -> None:
        """Make a row of what could not be read."""
        why = damage.reason.value, damage.detail, damage.excerpt
        self.damages.append(utf8_safe_row((self._log | damage.offset, damage.length, *why)))

    def _dated(self, at: datetime | None) -> int | None:
        """Give an instant as rows have it; texts of records without one have the last that was."""
        at_us = microseconds(at)
        if at_us is not None:
            self.folded.last_second = at_us // 1_000_000 if at_us > 0 else 0
        return at_us

    def _short(self, parent: str | None) -> bytes | str | None:
        """Return a parent as rows have it; nearly always it is the record before."""
        return self._short_uuid_before if parent == self._uuid_before else short_uuid(parent)

    def _next(self, uuid: str | None) -> bytes | str | None:
        """Return a record's own id as rows have it, and remember it for the next one's parent."""
        self._uuid_before, self._short_uuid_before = uuid, short_uuid(uuid)
        return self._short_uuid_before

    def _carry(self, record: int, uuid: bytes | str | None, origin: str | None) -> None:
        """Make a row of a record that says that it was another session's."""
        named = short_uuid(origin)
        if isinstance(uuid, bytes):
            self.carried.append((record, named if isinstance(named, bytes) else uuid))

    def _text(self, record: int, part: int, kind: TextKind, text: str) -> None:
        words = as_indexed(text)
        self.texts.append((self.folded.last_second, record, part, int(kind), words))
        self.text_bytes += len(words)

    def _take(
        self, blocks: tuple[Any, ...], plain: TextKind, record: int, at_us: int | None
    ) -> tuple[bool, bool]:
        """Make rows of a message's blocks, of which *plain* text is this.

        Tell whether a subagent is asked for, and whether a tool failed.
        """
        part = 0
        asks = failed = False
        for number, block in enumerate(blocks):
            kind, text = text_of_block(block, plain)
            if text:
                self._text(record, part, kind, text)
                part += 1
            if type(block) is CallBlock:
                asks = asks or block.name in SUBAGENT_TOOLS
                told = (record, number, block.id, block.name, digest_of(block.input))
                self._asked([*told, *touched(block.name, block.input), *_NO_ANSWER], at_us)
            elif type(block) is ResultBlock:
                is_error = block.is_error is True
                failed = failed or is_error
                came = record, is_error, None, signature_of(text) if is_error else None
                self._answered(block.tool_use_id, at_us, came)
        return asks, failed

    def _asked(self, call: list[Any], at_us: int | None) -> None:
        record, block, call_id = call[:3]
        if call_id is not None:
            early = self.folded.early_results
            result = early.pop(call_id, None) if early else None
            if result is None:
                self.folded.wait_for(call_id, OpenCall(record - self._log, block, at_us))
                self._calls_here[call_id] = call
            else:
                took = _took(result.duration_us, at_us, result.at_us)
                answer = self._log | result.offset, result.is_error, took, result.signature
                call[-len(answer) :] = answer
        self.calls.append(call)

    def _answered(self, call_id: str, at_us: int | None, came: tuple[Any, ...]) -> None:
        """Put an answer to its call, or say whose it is if that call's row is gone already."""
        call = self.folded.open_calls.pop(call_id, None)
        record, is_error, took, signature = came
        if call is None:
            result = EarlyResult(record - self._log, is_error, took, signature, at_us)
            self.folded.hold(call_id, result)
            return
        took = _took(took, call.at_us, at_us)
        here = self._calls_here.pop(call_id, None)
        if here is None:
            asked = self._log | call.offset
            self.answers.append((record, is_error, took, signature, asked, call.block))
        else:
            here[-len(came) :] = record, is_error, took, signature


def _took(told_us: int | None, asked_us: int | None, answered_us: int | None) -> int | None:
    """Return how long a call took, if the answer does not say so itself."""
    if told_us is not None or asked_us is None or answered_us is None:
        return told_us
    return max(0, answered_us - asked_us)
