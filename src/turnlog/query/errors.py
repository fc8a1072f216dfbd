"""Recurring errors, and what happened around them.

Errors are grouped by a signature: how they begin, without digits and spaces. Errors of the API have
no call; they are counted under the tool "API", and grouped by their text, which is read from the
log. Copies made by a fork or a resume count once. Examples are read from the logs, and are null if
the log is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.catalog.names import no_such_tool, tools_named
from turnlog.errors import NotFound, UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import IS_BESIDE, IS_FIRST, instant_at
from turnlog.index.texts import leaves
from turnlog.query.filters import pattern_of, scope_sql, tools_like
from turnlog.query.query import answer_of, content_of, gist_of
from turnlog.records.record import Assistant, Record, System
from turnlog.search.regex import check_pattern
from turnlog.text import one_line

API: Final = "API"
"""The tool that errors of the API are counted under."""
_API_READ: Final = 5_000


class ErrorPattern(Struct, kw_only=True, frozen=True):
    """Errors that are alike."""

    signature: str
    tool: str
    count: int
    sessions: int
    first_at: datetime | None
    last_at: datetime | None
    example: str | None
    """How the latest one begins."""
    log: str
    offset: int


class ErrorPatterns(Struct, kw_only=True):
    """What `turnlog errors --json` prints."""

    errors: list[ErrorPattern]
    next: int | None
    total: int
    notes: list[str] = []


class Nearby(Struct, kw_only=True, frozen=True):
    """A record near an error."""

    type: str
    author: str
    at: datetime | None
    text: str
    is_error: bool
    """Whether it is the requested error."""
    log: str
    offset: int


class Occurrence(Struct, kw_only=True, frozen=True):
    """One error, with the records around it, in their order."""

    tool: str
    session: str | None
    project: str | None
    at: datetime | None
    records: list[Nearby]


class ErrorContext(Struct, kw_only=True):
    """What `turnlog errors SIGNATURE --json` prints, the latest first."""

    signatures: list[str]
    occurrences: list[Occurrence]
    next: int | None
    total: int


class _Failed(NamedTuple):
    """One error as the index has it."""

    record: int
    signature: str
    tool: str
    session: str | None
    project: str | None
    at: int | None
    call_id: str | None


def error_patterns(
    index: Index,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
    tool: str | None = None,
    minimum: int = 1,
    limit: int | None = 20,
    offset: int = 0,
    mask: Callable[[str], str] = str,
) -> ErrorPatterns:
    """Group similar errors, the most frequent first.

    *tool* is a regular expression, as in queries. Examples go through *mask* before they are cut,
    because half a secret would not be recognised.
    """
    notes: list[str] = []
    groups: dict[tuple[str, str], list[_Failed]] = {}
    if tool is not None and tools_like(index.db, tool, "tool") == "()" and not _is_api(tool):
        notes += filter(None, [no_such_tool(index.db, tool)])
    for each in _failed(index, since, until, project, tool=tool, notes=notes):
        groups.setdefault((each.signature, each.tool), []).append(each)
    patterns = [group for group in groups.values() if len(group) >= minimum]
    patterns.sort(key=lambda group: (-len(group), -(group[0].at or 0), group[0].signature))
    end = len(patterns) if limit is None else offset + limit
    return ErrorPatterns(
        errors=[_pattern(index, group, mask) for group in patterns[offset:end]],
        next=end if end < len(patterns) else None,
        total=len(patterns),
        notes=notes,
    )


def unknown_tool(index: Index, name: str) -> str:
    """Return a note that no tool is called *name*, or an empty string."""
    is_known = name.upper() == API or tools_named(index.db, name)
    return "" if is_known else no_such_tool(index.db, name)


def error_context(
    index: Index,
    signature: str,
    *,
    window: int = 3,
    limit: int | None = 5,
    offset: int = 0,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
    tool: str | None = None,
    mask: Callable[[str], str] = str,
) -> ErrorContext:
    """Return the latest errors whose signature begins with *signature*, with their context.

    *window* counts the records before, and those after, without the agent program's own notes.
    Texts go through *mask* before they are cut.
    """
    wanted = signature.lower()
    if not re.fullmatch("[0-9a-f]+", wanted):
        raise UsageError(
            f"invalid error signature: {signature!r}",
            hint="give the beginning of one that is listed",
            code="unknown-signature",
        )
    errors = [
        each
        for each in _failed(index, since, until, project, tool=tool, notes=[])
        if each.signature.startswith(wanted)
    ]
    if not errors:
        raise NotFound(
            f"no error has a signature that begins with {signature!r}",
            hint="give the beginning of one that is listed",
            code="unknown-signature",
        )
    end = len(errors) if limit is None else offset + limit
    return ErrorContext(
        signatures=sorted({each.signature for each in errors}),
        occurrences=[_occurrence(index, each, max(0, window), mask) for each in errors[offset:end]],
        next=end if end < len(errors) else None,
        total=len(errors),
    )


def _failed(
    index: Index,
    since: datetime | None,
    until: datetime | None,
    project: str | None,
    *,
    tool: str | None,
    notes: list[str],
) -> list[_Failed]:
    """Return all errors, the latest first."""
    where, values = scope_sql(index, since, until, project)
    where = f"{IS_FIRST} AND {where}"
    errors = list(_failed_calls(index, where, values, tool))
    if tool is None or _is_api(tool):
        errors += _failed_responses(index, where, values, notes)
    return sorted(errors, key=lambda each: (-(each.at or 0), -each.record))


def _is_api(tool: str) -> bool:
    return pattern_of(tool, "tool", check_pattern).search(API) is not None or tool.upper() == API


def _failed_calls(
    index: Index, where: str, values: dict[str, Any], tool: str | None
) -> Iterator[_Failed]:
    if tool is not None:
        where += f" AND c.tool IN {tools_like(index.db, tool, 'tool')}"
    rows = index.db.execute(
        "SELECT c.result, lower(hex(c.signature)), n.name, s.session, p.path, r.at, c.call_id"  # noqa: S608 - Ours.
        " FROM calls AS c JOIN records AS r ON r.id = c.result"
        " LEFT JOIN names AS n ON n.id = c.tool LEFT JOIN sessions AS s ON s.id = r.session"
        f" LEFT JOIN projects AS p ON p.id = s.project WHERE c.is_error AND {where}",
        values,
    )
    return map(_Failed._make, rows)


def _failed_responses(
    index: Index, where: str, values: dict[str, Any], notes: list[str]
) -> Iterator[_Failed]:
    """Yield the errors of the API, which belong to no tool."""
    rows = index.db.execute(
        "SELECT r.id, r.length, s.session, p.path, r.at FROM records AS r"  # noqa: S608 - Ours.
        " LEFT JOIN sessions AS s ON s.id = r.session LEFT JOIN projects AS p ON p.id = s.project"
        " WHERE r.flags & 1 AND r.author IS NOT (SELECT id FROM names WHERE name = 'tool')"
        f" AND NOT {IS_BESIDE} AND {where} ORDER BY r.at DESC LIMIT :most",
        values | {"most": _API_READ + 1},
    ).fetchall()
    if len(rows) > _API_READ:
        notes.append(f"only the latest {_API_READ:,} errors of the API were read")
    for record, length, session, project, at in rows[:_API_READ]:
        text = _api_text(index.record(record, length))
        yield _Failed(record, _signature(text), API, session, project, at, None)


def _signature(text: str) -> str:
    """Name an error of the API as the index names those of tools: by how it begins."""
    head = re.sub(r"\d+", "0", one_line(text).lower())[:100]
    return blake2b(f"{API}\0{head}".encode(errors="replace"), digest_size=8).hexdigest()


def _api_text(record: Record | None) -> str:
    text = content_of(record) or ""
    if not text and isinstance(record, System | Assistant):
        text = _error_text(record.error)
    if not text and isinstance(record, System):
        text = leaves(record.cause)
    return text


def _error_text(error: Any) -> str:
    """Return the status and message of an API error, wherever they are nested.

    Without a message, all of its texts but the HTTP headers.
    """
    if not isinstance(error, dict):
        return leaves(error)
    innermost = error
    while isinstance(innermost.get("error"), dict):
        innermost = innermost["error"]
    kind, message = innermost.get("type"), innermost.get("message") or error.get("message")
    if isinstance(message, str):
        text = f"{kind}: {message}" if isinstance(kind, str) else message
    else:
        text = leaves({key: value for key, value in error.items() if key != "headers"})
    status = error.get("status")
    is_status = isinstance(status, int) and not isinstance(status, bool)
    if not is_status or text.startswith(str(status)):
        return text
    return f"{status} {text}".strip()


def _pattern(index: Index, group: list[_Failed], mask: Callable[[str], str]) -> ErrorPattern:
    latest = group[0]
    times = [each.at for each in group if each.at is not None]
    log, offset = index.place(latest.record)
    record = index.record(latest.record)
    text = _api_text(record) if latest.tool == API else answer_of(record, latest.call_id)
    return ErrorPattern(
        signature=latest.signature,
        tool=latest.tool,
        count=len(group),
        sessions=len({each.session for each in group}),
        first_at=instant_at(min(times, default=None)),
        last_at=instant_at(max(times, default=None)),
        example=None if record is None else one_line(mask(text or "")),
        log=log,
        offset=offset,
    )


_NEAR: Final = (
    "SELECT r.id, t.name, a.name, r.at, r.length FROM records AS r"
    " JOIN names AS t ON t.id = r.type JOIN names AS a ON a.id = r.author"
    " WHERE r.id {sign} :here AND r.id >> 40 = :here >> 40 AND r.session IS"
    " (SELECT session FROM records WHERE id = :here) AND (a.name <> 'program' OR r.id = :here)"
    " AND r.id BETWEEN :low AND :high ORDER BY r.id {order} LIMIT :most"
)


def _occurrence(
    index: Index, failed: _Failed, window: int, mask: Callable[[str], str]
) -> Occurrence:
    log = failed.record >> 40
    values = {"here": failed.record, "low": log << 40, "high": ((log + 1) << 40) - 1}
    before = index.db.execute(
        _NEAR.format(sign="<=", order="DESC"), values | {"most": window + 1}
    ).fetchall()
    after = index.db.execute(
        _NEAR.format(sign=">", order="ASC"), values | {"most": window}
    ).fetchall()
    return Occurrence(
        tool=failed.tool,
        session=failed.session,
        project=failed.project,
        at=instant_at(failed.at),
        records=[_nearby(index, row, failed, mask) for row in (*before[::-1], *after)],
    )


def _nearby(
    index: Index, row: tuple[Any, ...], failed: _Failed, mask: Callable[[str], str]
) -> Nearby:
    number, kind, author, at, length = row
    log, offset = index.place(number)
    return Nearby(
        type=kind,
        author=author,
        at=instant_at(at),
        text=_line_of(index.record(number, length), mask),
        is_error=number == failed.record,
        log=log,
        offset=offset,
    )


def _line_of(record: Record | None, mask: Callable[[str], str]) -> str:
    """Return the text of a record on one line, or the tool of a call."""
    if record is None:
        return "(not there any more)"
    return one_line(mask(gist_of([record]) or _api_text(record)))
