"""The turns of a session, from the index: prompts, calls and answers.

A turn is a prompt and all records up to the next prompt. The index has the positions of prompts and
calls, so only the records that are shown are read. Turns are in the order of the log; branches of a
rewound session follow each other.

A record is named by its uuid or the first eight digits of it or, without one, by its offset in the
log, such as ``@1024``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from turnlog.api.homes import is_uuid
from turnlog.api.index import OFFSET_BITS, SUBAGENT, Index, long_uuid, short_uuid
from turnlog.api.query import answer_of, input_of
from turnlog.errors import NotFound, UsageError
from turnlog.export.conversation import (
    Answer,
    ConversationOptions,
    Mark,
    Other,
    Picture,
    PromptPiece,
    Thinking,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.mcp.context import KnownSession
from turnlog.mcp.tool import OFFSETS, extent, instant_text, uuid_range
from turnlog.records.call_lines import call_text
from turnlog.records.record import Record
from turnlog.text import one_line

_LOOKED_AT: Final = 40
"""At most this many records are searched for the final answer of a turn."""
_LINE: Final = 160
_SOME: Final = 5
_PLACE: Final = re.compile(r"@([0-9]{1,12})")
_START: Final = re.compile(r"[0-9A-Fa-f]{8}[0-9A-Fa-f-]{0,27}")
_RECORDS: Final = (
    f"records AS r JOIN logs AS l ON l.id = r.id >> 40 WHERE r.session = ? AND {SUBAGENT} IS ?"
)
"""The records of one thread: a session's or a subagent's."""
_STATUS: Final = {None: "pending", 0: "ok", 1: "error"}


class TurnStart(NamedTuple):
    """The prompt that starts a turn."""

    record: int
    at: int | None
    uuid: bytes | str | None


class CallLine(NamedTuple):
    """A call in one line."""

    record: int
    tool: str
    is_error: int | None
    summary: str

    @property
    def text(self) -> str:
        status = "" if self.is_error == 0 else f" [{status_of(self.is_error)}]"
        return f"{self.tool}: {self.summary}{status}" if self.summary else f"{self.tool}{status}"


class Thread(NamedTuple):
    """The logs of a session, or of one of its subagents, in order.

    *number* is the session's number in the index. Records of other subagents in the same log do
    not belong to the thread.
    """

    number: int
    logs: tuple[int, ...]
    subagent: str | None

    def prompts(self, index: Index) -> list[TurnStart]:
        """Return the prompts, in order."""
        people = "('human', 'caller')" if self.subagent is not None else "('human')"
        sql = (
            f"SELECT r.id, r.at, r.uuid FROM {_RECORDS} AND r.id BETWEEN ? AND ?"  # noqa: S608 - Ours.
            " AND r.type = (SELECT id FROM names WHERE name = 'user') AND r.author IN"
            f" (SELECT id FROM names WHERE name IN {people}) ORDER BY r.id"
        )
        return [
            TurnStart._make(row)
            for log in self.logs
            for row in index.db.execute(sql, (self.number, self.subagent, *extent(log)))
        ]

    def records(self, index: Index, start: int, end: int | None) -> Iterator[tuple[int, int]]:
        """Yield the ids and lengths of the records from *start* up to *end* (exclusive)."""
        sql = (
            f"SELECT r.id, r.length FROM {_RECORDS} AND r.id BETWEEN ? AND ?"  # noqa: S608 - Ours.
            " AND r.id < ? ORDER BY r.id"
        )
        first = self.logs.index(start >> OFFSET_BITS) if start >> OFFSET_BITS in self.logs else 0
        for log in self.logs[first:]:
            low, high = extent(log)
            is_last = end is not None and end >> OFFSET_BITS == log
            stop = end if is_last and end is not None else high + 1
            here = max(low, start) if log == start >> OFFSET_BITS else low
            yield from index.db.execute(sql, (self.number, self.subagent, here, high, stop))
            if is_last:
                return

    def last_at(self, index: Index, start: int, end: int) -> int | None:
        """Return the timestamp of the last record from *start* up to *end* (exclusive)."""
        (at,) = index.db.execute(
            f"SELECT max(r.at) FROM {_RECORDS} AND r.id >= ? AND r.id < ?",  # noqa: S608 - Ours.
            (self.number, self.subagent, start, end),
        ).fetchone()
        return None if at is None else int(at)


def status_of(is_error: int | None) -> str:
    """Return the status of a call: ok, error or pending."""
    return _STATUS[is_error if is_error is None else int(bool(is_error))]


def thread_of(index: Index, session: KnownSession, subagent: str | None = None) -> Thread:
    """Return the thread of a session, or of the subagent whose id starts with *subagent*."""
    logs = index.db.execute(
        "SELECT id, path, kind, subagent FROM logs WHERE layout <> 'beside' AND id IN"
        " (SELECT DISTINCT id >> 40 FROM records WHERE session = ?) ORDER BY path",
        (session.number,),
    ).fetchall()
    if subagent is None:
        own = [each for each in logs if each[2] == "session"]
        mine = [each for each in own if each[1] == session.path] or own
        # Several logs of one session are copies; parts in daily logs follow each other.
        mine = mine[:1] or [each for each in logs if each[2] == "day"]
        return Thread(session.number, tuple(each[0] for each in mine), None)
    logs += index.db.execute(
        "SELECT DISTINCT c.record >> 40, NULL, 'sidechain', c.subagent FROM sidechains AS c"
        " JOIN records AS r ON r.id = c.record WHERE r.session = ?",
        (session.number,),
    ).fetchall()
    names = sorted({each[3] for each in logs if (each[3] or "").startswith(subagent)})
    if subagent in names:
        names = [subagent]
    if len(names) > 1:
        some = ", ".join(names[:_SOME])
        raise UsageError(
            f"{len(names)} subagents start with {subagent!r}", hint=f"use one of {some}"
        )
    if not names:
        raise NotFound(
            f"session {session.id} has no subagent {subagent!r} with records",
            hint="`session_overview` lists the subagents of a session",
        )
    return Thread(session.number, tuple(e[0] for e in logs if e[3] == names[0])[:1], names[0])


def find_record(
    index: Index, session: KnownSession, name: str, subagent: str | None
) -> tuple[Thread, int]:
    """Return a record of a session and its thread, by uuid, the start of one, or offset."""
    wanted = name.strip()
    place = _PLACE.fullmatch(wanted)
    values: tuple[Any, ...] = ()
    if place is not None:
        thread = thread_of(index, session, subagent)
        which = ",".join(
            str(log << OFFSET_BITS | min(int(place[1]), OFFSETS)) for log in thread.logs
        )
        sql, values = f"id IN ({which})", ()
    else:
        sql, values = "uuid = ?", (short_uuid(wanted.lower() if is_uuid(wanted) else wanted),)
    rows = _named(index, session, sql, values)
    if not rows and _START.fullmatch(wanted):
        rows = _starting(index, session, wanted.lower())
    if not rows:
        raise NotFound(
            f"the session has no record {wanted[:80]!r}",
            hint="use the `record` (and `subagent`) of another answer",
        )
    number, owner, _ = rows[0]
    thread = thread_of(index, session, owner)
    if number >> OFFSET_BITS not in thread.logs:  # In a copy of the log: stay in it.
        thread = thread._replace(logs=(number >> OFFSET_BITS,))
    return thread, number


def _named(index: Index, session: KnownSession, sql: str, values: tuple[Any, ...]) -> list[Any]:
    """Return the numbers, subagents and uuids of the records that match *sql*, in order."""
    return index.db.execute(
        f"SELECT r.id, {SUBAGENT}, r.uuid FROM records AS r JOIN logs AS l ON l.id = r.id >> 40"  # noqa: S608
        f" WHERE r.{sql} AND r.session = ? AND l.layout <> 'beside' ORDER BY r.id",
        (*values, session.number),
    ).fetchall()


def _starting(index: Index, session: KnownSession, start: str) -> list[Any]:
    """Return the records whose uuid begins with *start*, as `_named` does."""
    rows = _named(index, session, "uuid BETWEEN ? AND ?", uuid_range(start))
    rows = [row for row in rows if (long_uuid(row[2]) or "").startswith(start)]
    uuids = list(dict.fromkeys(str(long_uuid(row[2])) for row in rows))
    if len(uuids) > 1:
        raise UsageError(
            f"{len(uuids)} records start with {start}",
            hint=f"use the whole uuid: {', '.join(uuids[:_SOME])}",
        )
    return rows


class RecordLines:
    """Renders records as prompts, answers, calls and results."""

    def __init__(self, index: Index, *, is_subagent: bool = False) -> None:
        self._index = index
        # A BoundedIndex has masked the secrets already.
        options = ConversationOptions(thinking=False, images=False)
        self._blocks = Blocks(options, Unmasked(), is_subagent=is_subagent)

    def prompt(self, record: int) -> str:
        """Return the typed prompt, or all text of the record if it has none."""
        stored = self._index.record(record)
        pieces = [] if stored is None else [
            piece for piece in self._blocks.of(stored) if isinstance(piece, PromptPiece)
        ]  # fmt: skip
        typed = [piece.text for piece in pieces if piece.is_prompt]
        return "\n\n".join(typed or [piece.text for piece in pieces])

    def answer(self, thread: Thread, start: int, end: int) -> str:
        """Return the last answer of the assistant before *end*."""
        rows = self._index.db.execute(
            f"SELECT r.id, r.length FROM {_RECORDS} AND r.id > ? AND r.id < ? AND r.type IN"  # noqa: S608
            " (SELECT id FROM names WHERE name IN ('assistant', 'ai')) ORDER BY r.id DESC LIMIT ?",
            (thread.number, thread.subagent, start, end, _LOOKED_AT),
        ).fetchall()
        for row in rows:
            record = self._index.record(*row)
            blocks = () if record is None else self._blocks.of(record)
            texts = [block.text for block in blocks if isinstance(block, Answer)]
            if texts:
                return "\n\n".join(texts)
        return ""

    def calls(self, thread: Thread, start: int, end: int, most: int) -> tuple[list[CallLine], int]:
        """Return the first calls between two records as lines, and the number of all calls."""
        source = (
            f"calls AS c JOIN names AS n ON n.id = c.tool JOIN {_RECORDS} AND r.id = c.record"
            " AND c.record >= ? AND c.record < ? AND c.call_id IS NOT NULL"
        )
        values = (thread.number, thread.subagent, start, end)
        (count,) = self._index.db.execute(
            f"SELECT count(*) FROM {source}",  # noqa: S608 - Ours.
            values,
        ).fetchone()
        rows = self._index.db.execute(
            f"SELECT c.record, r.length, c.block, n.name, c.is_error FROM {source}"  # noqa: S608
            " ORDER BY c.record, c.block LIMIT ?",
            (*values, most),
        ).fetchall()
        lines = [
            CallLine(record, tool, is_error, call_line(self._index.record(record, length), block))
            for record, length, block, tool, is_error in rows
        ]
        return lines, count

    def steps(self, number: int, length: int) -> list[dict[str, Any]]:
        """Return the steps of a record; a call includes its result."""
        record = self._index.record(number, length)
        if record is None:
            return []
        head: dict[str, Any] = {"record": record.uuid or f"@{number & OFFSETS}"}
        if record.at is not None:
            head["at"] = instant_text(record.at)
        answers = self._answers(number)
        steps: list[dict[str, Any]] = []
        for block in self._blocks.of(record):
            match block:
                case CallRequest():
                    steps.append(head | self._call(block, answers.get(block.id)))
                case Answered():
                    if not self._has_call(number, block.id):
                        steps.append(head | {"result": block.block.text, "of_call": block.id})
                case PromptPiece():
                    steps.append(head | {str(block.kind): block.text})
                case Answer():
                    kind = "error" if block.is_error else "answer"
                    steps.append(head | {kind: block.text})
                case Mark() | Other():
                    steps.append(head | {str(block.kind): block.text})
                case Picture():
                    steps.append(head | {"image": block.media_type})
                case Thinking():
                    pass
        return steps

    def _call(
        self, request: CallRequest, row: tuple[int | None, int | None] | None
    ) -> dict[str, Any]:
        result, is_error = row or (None, None)
        step: dict[str, Any] = {"call": request.name, "input": request.input}
        step["status"] = status_of(is_error)
        if result is not None:
            step["result"] = answer_of(self._index.record(result), request.id)
        return step

    def _answers(self, record: int) -> dict[str, tuple[int | None, int | None]]:
        rows = self._index.db.execute(
            "SELECT call_id, result, is_error FROM calls WHERE record = ? AND call_id IS NOT NULL",
            (record,),
        )
        return {call: (result, is_error) for call, result, is_error in rows}

    def _has_call(self, result: int, call_id: str) -> bool:
        """Return whether a result is shown with its call."""
        rows = self._index.db.execute(
            "SELECT 1 FROM calls WHERE result = ? AND call_id = ?", (result, call_id)
        )
        return rows.fetchone() is not None


def call_line(record: Record | None, block: int) -> str:
    """Return the input of a call in one line."""
    options = input_of(record, block)
    if options is None:
        return ""
    cwd = getattr(record, "cwd", None)
    return one_line(call_text(options, cwd if isinstance(cwd, str) else None).text, _LINE)
