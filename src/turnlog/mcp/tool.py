"""Definitions shared by the tools: parameters, patterns for names, references to records.

    def list_sessions(ctx: ToolContext, page: PageStart, *, project: Project = None) -> ToolAnswer:
        '''List sessions …'''          # The agent reads this to choose the tool.

    SESSIONS = Tool(list_sessions, title="Sessions")

The keyword arguments of the function are those of the tool, with pydantic's types and descriptions;
a cursor is added to them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

from pydantic import Field

from turnlog.api.homes import is_uuid
from turnlog.api.index import OFFSET_BITS, SUBAGENT, Index, instant_at, long_uuid, short_uuid
from turnlog.api.query import RecordTurn
from turnlog.errors import UsageError
from turnlog.mcp.pages import ToolAnswer

Project: TypeAlias = Annotated[
    str | None,
    Field(
        description="Directory that sessions worked in or below; absolute, or relative to the"
        " server's project.",
        max_length=4096,
    ),
]
Since: TypeAlias = Annotated[
    str | None,
    Field(
        description="From this time on: 7d, 12h, yesterday, 2026-11-01, 2026-11-01T18:00.",
        max_length=100,
    ),
]
Until: TypeAlias = Annotated[str | None, Field(description="Before this time.", max_length=100)]
Limit: TypeAlias = Annotated[int, Field(description="Maximum rows.", ge=1, le=200)]
_SESSION: Final = Field(
    description="Session id, a prefix of it, or `latest`.", min_length=1, max_length=128
)
SessionName: TypeAlias = Annotated[str, _SESSION]
OneSession: TypeAlias = Annotated[str | None, _SESSION]
Cursor: TypeAlias = Annotated[
    str | None,
    Field(
        description="`next` of the previous answer; repeat the other arguments.",
        max_length=100,
    ),
]


@dataclass(frozen=True)
class PageStart:
    """The position where an answer continues, from the cursor; 0 at the beginning."""

    place: int = 0


@dataclass(frozen=True)
class Tool:
    """A read-only tool."""

    answer: Callable[..., ToolAnswer]
    """A function of a ToolContext, a PageStart, and the agent's arguments by name."""
    title: str
    seconds: float = 20
    """The time limit of an answer; the owner's setting may be stricter."""
    has_pages: bool = True

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def description(self) -> str:
        return inspect.getdoc(self.answer) or ""

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters that an agent sees."""
        hints = get_type_hints(self.answer, include_extras=True)
        own = list(inspect.signature(self.answer).parameters.values())[2:]
        parameters = [each.replace(annotation=hints[each.name]) for each in own]
        if self.has_pages:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter("cursor", kind, default=None, annotation=Cursor))
        return parameters

    def as_function(self, call: Callable[[Tool, dict[str, Any]], Any], returns: Any) -> Any:
        """Return a function with the agent's parameters, which passes them to *call*."""

        async def function(**arguments: Any) -> Any:
            return await call(self, arguments)

        function.__name__ = function.__qualname__ = self.name
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            self.parameters, return_annotation=returns
        )
        function.__annotations__ = {each.name: each.annotation for each in self.parameters}
        return function


ToolName: TypeAlias = Annotated[
    str | None,
    Field(
        description="Tool names: Bash, or Edit,Write, or mcp__github__*.",
        min_length=1,
        max_length=200,
    ),
]
FileName: TypeAlias = Annotated[
    str | None,
    Field(
        description="Path, end of a path, or pattern: *.py, */src/*.",
        min_length=1,
        max_length=1000,
    ),
]
_MOST_STARS: Final = 3


def listed(value: Any) -> Any:
    """Split a string at its commas; return other values unchanged."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def tool_pattern(names: str | None) -> str | None:
    """Return a regular expression that matches names of tools, ignoring case.

    Only ``*`` is special in a name, so no pattern can be slow.
    """
    if names is None:
        return None
    wanted = [name for name in listed(names) if name]
    if not wanted:
        raise UsageError("no tool name given", hint="pass a name such as Bash")
    if names.count("*") > _MOST_STARS:
        raise UsageError(f"too many * in {names!r}", hint=f"use at most {_MOST_STARS}")
    alternatives = "|".join(".*".join(map(re.escape, name.split("*"))) for name in wanted)
    return rf"(?is)\A(?:{alternatives})\Z"


def file_glob(name: str) -> list[str]:
    """Return the patterns for SQLite's GLOB that match the name of a file."""
    if name.count("*") > _MOST_STARS:
        raise UsageError(f"too many * in {name!r}", hint=f"use at most {_MOST_STARS}")
    plain = re.sub(r"[\[?]", lambda match: f"[{match[0]}]", name)
    return [plain, f"*/{plain}", f"*\\{plain}"]


OFFSETS: Final = (1 << OFFSET_BITS) - 1
_UUID_BYTES: Final = 16
_LONGEST_NAME: Final = 100
_PLACED: Final = (
    f"SELECT s.session, {SUBAGENT}, r.uuid, r.id FROM logs AS l"  # noqa: S608 - Ours.
    " JOIN records AS r ON r.id = l.id << 40 | :offset"
    " LEFT JOIN sessions AS s ON s.id = r.session WHERE l.path = :log AND l.layout <> 'beside'"
)


def extent(log: int) -> tuple[int, int]:
    """Return the lowest and the highest id that a record of a log can have."""
    return log << OFFSET_BITS, log << OFFSET_BITS | OFFSETS


def record_name(uuid: bytes | str | None, record: int) -> str:
    """Return a record's uuid, or its offset in the log such as ``@1024``, for other tools."""
    return long_uuid(uuid) or f"@{record & OFFSETS}"


def pointer(index: Index, log: str, offset: int) -> dict[str, Any]:
    """Return the session, subagent and name of the record at *offset*, or an empty dict."""
    row = index.db.execute(_PLACED, {"log": log, "offset": offset}).fetchone()
    if row is None:
        return {}
    session, subagent, uuid, record = row
    return sparse({"session": session, "subagent": subagent, "record": record_name(uuid, record)})


UUID_START: Final = 8
"""The length of a shortened uuid, which costs an agent a third of the tokens of a whole one."""


def uuid_range(start: str) -> tuple[bytes, bytes]:
    """Return the lowest and the highest uuid that begins with *start*, as in the index."""
    digits = start.replace("-", "")
    low = bytes.fromhex(digits[: len(digits) // 2 * 2])
    return low, low.ljust(_UUID_BYTES, b"\xff")


def short_sessions(index: Index, ids: Collection[str]) -> dict[str, str]:
    """Return *ids* of sessions, shortened where no other session's id begins like that."""
    starts = {each[:UUID_START] for each in ids if is_uuid(each)}
    rows = index.db.execute(
        "SELECT a.value, count(DISTINCT s.session) FROM json_each(?) AS a CROSS JOIN sessions AS s"
        " ON s.session >= a.value AND s.session < a.value || '~' GROUP BY a.value",
        (json.dumps(sorted(starts)),),
    )
    unique = {start for start, count in rows if count == 1}
    return {each: each[:UUID_START] if each[:UUID_START] in unique else each for each in ids}


def short_records(index: Index, records: Iterable[RecordTurn]) -> dict[int, str]:
    """Return names of *records*, by number: short uuids where they are unique in the session."""
    names: dict[int, str] = {}
    ranges: dict[int, tuple[bytes, bytes, int | None]] = {}
    for each in records:
        is_short = len(each.uuid or "") <= _LONGEST_NAME
        names[each.record] = record_name(each.uuid if is_short else None, each.record)
        if each.uuid is not None and isinstance(short_uuid(each.uuid), bytes):
            ranges[each.record] = (*uuid_range(each.uuid[:UUID_START]), each.session)
    if not ranges:
        return names
    distinct = list(dict.fromkeys(ranges.values()))
    rows = index.db.execute(
        f"WITH a(low, high, session) AS (VALUES {', '.join(['(?, ?, ?)'] * len(distinct))})"  # noqa: S608
        " SELECT a.low, a.high, a.session FROM a CROSS JOIN records AS r ON r.uuid IS NOT NULL"
        " AND r.uuid BETWEEN a.low AND a.high AND +r.session IS a.session"
        " GROUP BY a.low, a.session HAVING count(DISTINCT r.uuid) = 1",
        [value for each in distinct for value in each],
    )
    unique = set(rows)
    for record, each_range in ranges.items():
        if each_range in unique:
            names[record] = names[record][:UUID_START]
    return names


def instant_text(at: datetime | int | None) -> str | None:
    """Return an instant, or the index's microseconds, as text to the second."""
    if isinstance(at, int):
        at = instant_at(at)
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


def sparse(fields: dict[str, Any]) -> dict[str, Any]:
    """Return *fields* without null and empty values, which would cost tokens."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }
