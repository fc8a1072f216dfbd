"""The rows of a chunk, collected record by record.

Rows refer to their record by its id. A result whose call is in the same chunk, or comes later, goes
into the row of the call; a result of an earlier call is a row of its own.

Rows of a line that was decoded fast are made directly, those of any other record from its facts.
Both ways give the same rows, and a test compares them.
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
from turnlog.index.texts import ANSWERED, TextKind, as_indexed, split_identifiers, text_of_block
from turnlog.records.damage import Damage
from turnlog.records.meaning import Author
from turnlog.records.record import CallBlock, ResultBlock
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS

if TYPE_CHECKING:
    from turnlog.index.refresh.chunks import UnnumberedText

_NO_RESULT: Final = (None, None, None, None)
# Looked up once, since every line uses several.
_SUBAGENT, _ASSISTANT = Author.SUBAGENT.value, Author.ASSISTANT.value
_PROGRAM, _TOOL = Author.PROGRAM.value, Author.TOOL.value
_PROMPT, _RESPONSE = TextKind.PROMPT, TextKind.RESPONSE


class ChunkRows:
    """The rows since the last chunk; ``Chunk`` describes their columns."""

    def __init__(self, folded: LogState, log: int) -> None:
        self.folded = folded
        self._log = log << OFFSET_BITS
        self._uuid_before: str | None = None
        self._short_uuid_before: bytes | str | None = None
        self.clear()

    def clear(self) -> None:
        """Start new lists; the old ones belong to the chunk."""
        self.records: list[tuple[Any, ...]] = []
        self.carried: list[tuple[Any, ...]] = []
        self.texts: list[UnnumberedText] = []
        self.calls: list[list[Any]] = []
        self.answers: list[tuple[Any, ...]] = []
        self.damages: list[tuple[Any, ...]] = []
        self.text_bytes = 0
        self._calls_here: dict[str, list[Any]] = {}

    def add(self, facts: RecordFacts, offset: int, length: int, session: str) -> None:
        """Add the rows of a record; its texts may contain lone surrogates."""
        record = self._log | offset
        at = self._dated(facts.at)
        parent = self._short(facts.parent)
        uuid = self._next(facts.uuid)
        row = (
            record,
            length,
            facts.type,
            facts.author,
            session,
            uuid,
            parent,
            at,
            facts.model,
            facts.branch,
            facts.message,
            facts.flags,
        )
        self.records.append(utf8_safe_row(row))
        if facts.is_copy or (facts.session or session) != session:
            self._carry(record, uuid, facts.origin)
        for part, (kind, text) in enumerate(facts.texts):
            self._text(record, part, kind, text)
        for call in facts.calls:
            key = (record, call.block, call.call_id, call.tool, call.digest)
            columns = utf8_safe_row((*key, call.path, call.action, *_NO_RESULT))
            self._add_call([*columns], at)
        for result in facts.results:
            came = (record, result.is_error, result.duration_us, result.signature)
            self._add_result(result.call_id, at, came)

    def add_line(
        self, line: LineFields, at: datetime | None, offset: int, length: int, session: str
    ) -> bool:
        """Add the rows of a line that was decoded fast; return whether it calls a subagent."""
        message, kind = line.message, line.type
        record = self._log | offset
        at_us = self._dated(at)
        in_subagent = line.is_sidechain is True or line.agent_id is not None
        flags = OF_SUBAGENT if in_subagent else 0
        model = message_id = None
        calls_subagent = False
        if kind == "progress" or message is None or type(message.content) is not tuple:
            author = _PROGRAM
            note, note_flags = noted(line)
            flags |= note_flags
            if note is not None:
                self._text(record, 0, note.kind, note.text)
        elif kind == "assistant":
            author = _SUBAGENT if in_subagent else _ASSISTANT
            model, message_id = message.model, message.id
            if line.is_api_error_message is True:
                flags |= IS_ERROR
            calls_subagent, _ = self._add_blocks(message.content, _RESPONSE, record, at_us)
        else:
            author = _TOOL
            _, failed = self._add_blocks(message.content, _PROMPT, record, at_us)
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
                message_id,
                flags,
            )
        )
        return calls_subagent

    def damaged(self, damage: Damage) -> None:
        """Add a row for bytes that could not be read."""
        why = damage.reason.value, damage.detail, damage.excerpt
        self.damages.append(utf8_safe_row((self._log | damage.offset, damage.length, *why)))

    def _dated(self, at: datetime | None) -> int | None:
        """Return an instant for a row, and remember its second for texts without one."""
        at_us = microseconds(at)
        if at_us is not None:
            self.folded.last_second = at_us // 1_000_000 if at_us > 0 else 0
        return at_us

    def _short(self, parent: str | None) -> bytes | str | None:
        """Return a parent for a row; nearly always it is the previous record."""
        return self._short_uuid_before if parent == self._uuid_before else short_uuid(parent)

    def _next(self, uuid: str | None) -> bytes | str | None:
        """Return a record's uuid for a row, and remember it for the next parent."""
        self._uuid_before, self._short_uuid_before = uuid, short_uuid(uuid)
        return self._short_uuid_before

    def _carry(self, record: int, uuid: bytes | str | None, origin: str | None) -> None:
        """Add a row for a record that was copied from another session."""
        named = short_uuid(origin)
        if isinstance(uuid, bytes):
            self.carried.append((record, named if isinstance(named, bytes) else uuid))

    def _text(self, record: int, part: int, kind: TextKind, text: str) -> None:
        words = as_indexed(text)
        split = words if kind in ANSWERED else split_identifiers(words)
        changed = None if split is words else split
        self.texts.append((self.folded.last_second, record, part, int(kind), words, changed))
        self.text_bytes += len(words)

    def _add_blocks(
        self, blocks: tuple[Any, ...], plain: TextKind, record: int, at_us: int | None
    ) -> tuple[bool, bool]:
        """Add the rows of a message's blocks; text blocks are of the kind *plain*.

        Return whether a subagent is called, and whether a tool failed.
        """
        part = 0
        calls_subagent = failed = False
        for number, block in enumerate(blocks):
            kind, text = text_of_block(block, plain)
            if text:
                self._text(record, part, kind, text)
                part += 1
            if type(block) is CallBlock:
                calls_subagent = calls_subagent or block.name in SUBAGENT_TOOLS
                row = (record, number, block.id, block.name, digest_of(block.input))
                self._add_call([*row, *touched(block.name, block.input), *_NO_RESULT], at_us)
            elif type(block) is ResultBlock:
                is_error = block.is_error is True
                failed = failed or is_error
                columns = record, is_error, None, signature_of(text) if is_error else None
                self._add_result(block.tool_use_id, at_us, columns)
        return calls_subagent, failed

    def _add_call(self, call: list[Any], at_us: int | None) -> None:
        record, block, call_id = call[:3]
        if call_id is not None:
            early = self.folded.early_results
            result = early.pop(call_id, None) if early else None
            if result is None:
                self.folded.wait_for(call_id, OpenCall(record - self._log, block, at_us))
                self._calls_here[call_id] = call
            else:
                took = _duration(result.duration_us, at_us, result.at_us)
                columns = self._log | result.offset, result.is_error, took, result.signature
                call[-len(columns) :] = columns
        self.calls.append(call)

    def _add_result(self, call_id: str, at_us: int | None, columns: tuple[Any, ...]) -> None:
        """Add a result to the row of its call, or as a row of its own."""
        call = self.folded.open_calls.pop(call_id, None)
        record, is_error, took, signature = columns
        if call is None:
            result = EarlyResult(record - self._log, is_error, took, signature, at_us)
            self.folded.hold(call_id, result)
            return
        took = _duration(took, call.at_us, at_us)
        row = self._calls_here.pop(call_id, None)
        if row is None:
            caller = self._log | call.offset
            self.answers.append((record, is_error, took, signature, caller, call.block))
        else:
            row[-len(columns) :] = record, is_error, took, signature


def _duration(known_us: int | None, called_us: int | None, result_us: int | None) -> int | None:
    """Return the duration of a call: as its result says, or the time between the two records."""
    if known_us is not None or called_us is None or result_us is None:
        return known_us
    return max(0, result_us - called_us)
