"""How a session went, told by the index: its turns, and what was said and done in each.

A turn is a prompt and all that follows in the log until the next. The index knows where prompts and
calls stand, so that of a long session only what is shown is read. The order is that of the log: if
somebody went back and tried again, both ways are told, one after the other.

A record is named by its uuid; one that has none by its place in the log, such as ``@1024``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from turnlog.api.homes import is_uuid
from turnlog.api.index import OFFSET_BITS, SUBAGENT, Index, short_uuid
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
from turnlog.mcp.tool import OFFSETS, extent, instant_text
from turnlog.records.call_lines import call_text
from turnlog.records.record import Record
from turnlog.text import one_line

_LOOKED_AT: Final = 40
"""So many records are read for the last words of a turn."""
_LINE: Final = 160
_SOME: Final = 5
_PLACE: Final = re.compile(r"@([0-9]{1,12})")
_RECORDS: Final = (
    f"records AS r JOIN logs AS l ON l.id = r.id >> 40 WHERE r.session = ? AND {SUBAGENT} IS ?"
)
"""The records of one thread: a session's or a subagent's."""
_STATUS: Final = {None: "pending", 0: "ok", 1: "error"}


class TurnStart(NamedTuple):
    """Where a turn begins; the records before the first prompt have none of their own."""

    record: int
    at: int | None
    uuid: bytes | str | None


class CallLine(NamedTuple):
    """A call in one line."""

    record: int
    tool: str
    is_error: int | None
    asked: str

    @property
    def text(self) -> str:
        """Write it down."""
        status = "" if self.is_error == 0 else f" [{status_of(self.is_error)}]"
        return f"{self.tool}: {self.asked}{status}" if self.asked else f"{self.tool}{status}"


class Thread(NamedTuple):
    """The logs of a session, or of one of its subagents, in order; *number* is the index's for it.

    In the main log there may be records of subagents: a thread has those of its *subagent* alone.
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
        """Return the ids and lengths of the records from *start* up to and without *end*."""
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
        """Return when the last record from *start* up to and without *end* was written."""
        (at,) = index.db.execute(
            f"SELECT max(r.at) FROM {_RECORDS} AND r.id >= ? AND r.id < ?",  # noqa: S608 - Ours.
            (self.number, self.subagent, start, end),
        ).fetchone()
        return None if at is None else int(at)


def status_of(is_error: int | None) -> str:
    """Say what came of a call."""
    return _STATUS[is_error if is_error is None else int(bool(is_error))]


def thread_of(index: Index, session: KnownSession, subagent: str | None = None) -> Thread:
    """Find the logs of a session, or of a subagent of it whose id begins so."""
    logs = index.db.execute(
        "SELECT id, path, kind, subagent FROM logs WHERE layout <> 'beside' AND id IN"
        " (SELECT DISTINCT id >> 40 FROM records WHERE session = ?) ORDER BY path",
        (session.number,),
    ).fetchall()
    if subagent is None:
        own = [each for each in logs if each[2] == "session"]
        mine = [each for each in own if each[1] == session.path] or own
        # Several logs of its own are copies of one; its shares of days' logs follow each other.
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
        raise UsageError(f"{len(names)} subagents begin with {subagent!r}", hint=f"say one: {some}")
    if not names:
        raise NotFound(
            f"session {session.id} has no subagent {subagent!r} with records",
            hint="`session_overview` lists the subagents of a session",
        )
    return Thread(session.number, tuple(e[0] for e in logs if e[3] == names[0])[:1], names[0])


def find_record(
    index: Index, session: KnownSession, name: str, subagent: str | None
) -> tuple[Thread, int]:
    """Find a record by its uuid, in whichever of a session's logs it stands, or by its place."""
    said = name.strip()
    place = _PLACE.fullmatch(said)
    given: tuple[Any, ...] = ()
    if place is not None:
        thread = thread_of(index, session, subagent)
        which = ",".join(
            str(log << OFFSET_BITS | min(int(place[1]), OFFSETS)) for log in thread.logs
        )
        sql, given = f"id IN ({which})", ()
    else:
        sql, given = "uuid = ?", (short_uuid(said.lower() if is_uuid(said) else said),)
    row = index.db.execute(
        f"SELECT r.id, {SUBAGENT} FROM records AS r JOIN logs AS l ON l.id = r.id >> 40"  # noqa: S608
        f" WHERE r.{sql} AND r.session = ? AND l.layout <> 'beside' ORDER BY r.id",
        (*given, session.number),
    ).fetchone()
    if row is None:
        raise NotFound(
            f"the session has no record {said[:80]!r}",
            hint="use the `record` (and `subagent`) of another answer",
        )
    number, owner = row
    thread = thread_of(index, session, owner)
    if number >> OFFSET_BITS not in thread.logs:  # A copy; it goes on where it stands.
        thread = thread._replace(logs=(number >> OFFSET_BITS,))
    return thread, number


class RecordLines:
    """Says what records say, in the words of a conversation."""

    def __init__(self, index: Index, *, is_subagent: bool = False) -> None:
        self._index = index
        # What a BoundedIndex reads has no secrets any more.
        options = ConversationOptions(thinking=False, images=False)
        self._blocks = Blocks(options, Unmasked(), is_subagent=is_subagent)

    def prompt(self, record: int) -> str:
        """Say what was asked; else whatever the record says."""
        found = self._index.record(record)
        said = [] if found is None else [
            each for each in self._blocks.of(found) if isinstance(each, PromptPiece)
        ]  # fmt: skip
        typed = [each.text for each in said if each.is_prompt]
        return "\n\n".join(typed or [each.text for each in said])

    def answer(self, thread: Thread, start: int, end: int) -> str:
        """Say the last words of an assistant before *end*."""
        rows = self._index.db.execute(
            f"SELECT r.id, r.length FROM {_RECORDS} AND r.id > ? AND r.id < ? AND r.type IN"  # noqa: S608
            " (SELECT id FROM names WHERE name IN ('assistant', 'ai')) ORDER BY r.id DESC LIMIT ?",
            (thread.number, thread.subagent, start, end, _LOOKED_AT),
        ).fetchall()
        for row in rows:
            found = self._index.record(*row)
            blocks = () if found is None else self._blocks.of(found)
            texts = [each.text for each in blocks if isinstance(each, Answer)]
            if texts:
                return "\n\n".join(texts)
        return ""

    def calls(self, thread: Thread, start: int, end: int, most: int) -> tuple[list[CallLine], int]:
        """Return the first calls between two records in a line each, and how many there are."""
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
        """Say what one record says and does, step by step; a call is told with its result."""
        record = self._index.record(number, length)
        if record is None:
            return []
        head: dict[str, Any] = {"record": record.uuid or f"@{number & OFFSETS}"}
        if record.at is not None:
            head["at"] = instant_text(record.at)
        answers = self._answers(number)
        given: list[dict[str, Any]] = []
        for each in self._blocks.of(record):
            match each:
                case CallRequest():
                    given.append(head | self._call(each, answers.get(each.id)))
                case Answered():
                    if not self._has_call(number, each.id):
                        given.append(head | {"result": each.block.text, "of_call": each.id})
                case PromptPiece():
                    given.append(head | {str(each.kind): each.text})
                case Answer():
                    kind = "error" if each.is_error else "answer"
                    given.append(head | {kind: each.text})
                case Mark() | Other():
                    given.append(head | {str(each.kind): each.text})
                case Picture():
                    given.append(head | {"image": each.media_type})
                case Thinking():
                    pass
        return given

    def _call(
        self, asked: CallRequest, row: tuple[int | None, int | None] | None
    ) -> dict[str, Any]:
        result, is_error = row or (None, None)
        given: dict[str, Any] = {"call": asked.name, "input": asked.input}
        given["status"] = status_of(is_error)
        if result is not None:
            given["result"] = answer_of(self._index.record(result), asked.id)
        return given

    def _answers(self, record: int) -> dict[str, tuple[int | None, int | None]]:
        rows = self._index.db.execute(
            "SELECT call_id, result, is_error FROM calls WHERE record = ? AND call_id IS NOT NULL",
            (record,),
        )
        return {call: (result, is_error) for call, result, is_error in rows}

    def _has_call(self, result: int, call_id: str) -> bool:
        """Return whether a result is told with its call."""
        found = self._index.db.execute(
            "SELECT 1 FROM calls WHERE result = ? AND call_id = ?", (result, call_id)
        )
        return found.fetchone() is not None


def call_line(record: Record | None, block: int) -> str:
    """Say in one line what a call asks for."""
    given = input_of(record, block)
    if given is None:
        return ""
    cwd = getattr(record, "cwd", None)
    return one_line(call_text(given, cwd if isinstance(cwd, str) else None).text, _LINE)
