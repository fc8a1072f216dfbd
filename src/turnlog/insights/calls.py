"""Tool calls: how often, how many failed, how long they took, and in which sequences.

A call belongs to the period in which it was made and counts once, as in ``turnlog query tools``.
Calls without a result are not part of failure rates. The duration is the time from the record of
the call to that of its result. A sequence is two or three consecutive calls of one session in one
log, with at least two different tools; it counts at each position where it begins.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from turnlog.index.connection import Index
from turnlog.index.ids import IS_CALL
from turnlog.insights.scope import Evidence, Places, Scope, conditions, names_of, part_of

LEAST: Final = 3
"""The smallest count of a sequence in the report."""
_TOOL_BITS: Final = 24
_MASK: Final = (1 << _TOOL_BITS) - 1
_MS: Final = 1_000


class Tally(Struct):
    """Counts of calls, results and failures."""

    calls: int = 0
    answered: int = 0
    failed: int = 0

    def add(self, is_error: int | None, count: int = 1) -> None:
        """Count *count* more calls."""
        self.calls += count
        if is_error is not None:
            self.answered += count
            self.failed += count if is_error else 0

    def join(self, more: Tally) -> None:
        """Add another tally."""
        self.calls += more.calls
        self.answered += more.answered
        self.failed += more.failed

    @property
    def failure_rate(self) -> float | None:
        return part_of(self.failed, self.answered)


class ToolRow(Struct, kw_only=True):
    """The calls of a tool."""

    tool: str
    calls: int
    failed: int
    unanswered: int
    failure_rate: float | None
    """The share of results that are errors; null without results."""
    total_ms: int
    median_ms: int | None
    longest_ms: int | None


class SequenceRow(Struct, kw_only=True):
    """Tools called one after another."""

    tools: list[str]
    count: int


class CallFigures(Struct):
    """The figures of all calls of a period."""

    total: Tally
    tools: list[ToolRow]
    sequences: list[SequenceRow]
    by_model: dict[str, Tally]
    by_session: dict[int, Tally]
    """By the number of the session in the index."""


def calls_of(index: Index, asked: Scope) -> CallFigures:
    """Return the figures of the calls in the period."""
    counts: dict[tuple[int | None, ...], int] = {}
    times: dict[int, list[int]] = {}
    runs: dict[int, int] = {}
    place: tuple[int, int | None] | None = None
    earlier = before = 0
    for log, session, tool, is_error, took, model in _rows(index, asked):
        key = (session, tool, is_error, model)
        counts[key] = counts.get(key, 0) + 1
        if took is not None:
            times.setdefault(tool, []).append(took)
        if place != (log, session):
            place, earlier, before = (log, session), 0, 0
        # Two or three tools are one integer, because integers are fast and there are many.
        two = before << _TOOL_BITS | tool
        if before and before != tool:
            runs[two] = runs.get(two, 0) + 1
        if earlier and not earlier == before == tool:
            three = earlier << 2 * _TOOL_BITS | two
            runs[three] = runs.get(three, 0) + 1
        earlier, before = before, tool
    return _figures(counts, times, runs, names_of(index))


def _figures(
    counts: dict[tuple[int | None, ...], int],
    times: dict[int, list[int]],
    runs: dict[int, int],
    names: dict[int, str],
) -> CallFigures:
    total = Tally()
    tools: dict[int, Tally] = {}
    models: dict[str, Tally] = {}
    sessions: dict[int, Tally] = {}
    for (session, tool, is_error, model), count in counts.items():
        total.add(is_error, count)
        tools.setdefault(tool or 0, Tally()).add(is_error, count)
        sessions.setdefault(session or 0, Tally()).add(is_error, count)
        if model is not None:
            models.setdefault(names[model], Tally()).add(is_error, count)
    return CallFigures(
        total=total,
        tools=_tool_rows(tools, times, names),
        sequences=_sequences(runs, names),
        by_model=models,
        by_session=sessions,
    )


def explain_calls(
    index: Index,
    asked: Scope,
    tool: str | None = None,
    *,
    condition: str = "TRUE",
) -> Iterator[Evidence]:
    """Yield the calls of a tool, or of all, that an SQL condition holds for."""
    where, values = conditions(index, asked, with_repeats=True)  # IS_CALL excludes repeats.
    rows = index.db.execute(
        "SELECT r.id, r.session, r.at, n.name, c.is_error, c.duration_us FROM calls AS c"  # noqa: S608
        " JOIN records AS r ON r.id = c.record JOIN names AS n ON n.id = c.tool"
        f" WHERE {IS_CALL} AND {condition} AND {where}"
        " ORDER BY r.id, c.block",
        values,
    )
    places = Places(index)
    for record, session, at, name, is_error, took in rows:
        if tool is not None and name != tool:
            continue
        result = {None: "not answered", 0: "answered", 1: "failed"}[is_error]
        figures = {} if took is None else {"duration_ms": took // _MS}
        yield places.behind(record, session, at, f"{name}: {result}", **figures)


def explain_sequences(index: Index, asked: Scope, wanted: list[str]) -> Iterator[Evidence]:
    """Yield the calls at which a sequence begins."""
    where, values = conditions(index, asked, with_repeats=True)  # IS_CALL excludes repeats.
    rows = index.db.execute(
        "SELECT r.id, r.session, r.at, c.record >> 40, n.name FROM calls AS c"  # noqa: S608 - No user input.
        " JOIN records AS r ON r.id = c.record JOIN names AS n ON n.id = c.tool"
        f" WHERE {IS_CALL} AND {where} ORDER BY c.record, c.block",
        values,
    )
    places = Places(index)
    runs: dict[tuple[int, int | None], list[tuple[Any, ...]]] = {}
    for row in rows:
        run = runs.setdefault((row[3], row[1]), [])
        run.append(row)
        if len(run) > len(wanted):
            del run[0]
        if [call[4] for call in run] == wanted:
            record, session, at = run[0][:3]
            yield places.behind(record, session, at, " -> ".join(wanted))


def _rows(index: Index, asked: Scope) -> Iterator[Any]:
    where, values = conditions(index, asked, with_repeats=True)  # IS_CALL excludes repeats.
    return index.db.execute(
        "SELECT c.record >> 40, r.session, c.tool, c.is_error, c.duration_us, r.model"  # noqa: S608
        " FROM calls AS c JOIN records AS r ON r.id = c.record"
        f" WHERE {IS_CALL} AND {where} ORDER BY c.record, c.block",
        values,
    )


def _tool_rows(
    tools: dict[int, Tally], times: dict[int, list[int]], names: dict[int, str]
) -> list[ToolRow]:
    rows = []
    for tool, tally in tools.items():
        took = times.get(tool, [])
        rows.append(
            ToolRow(
                tool=names[tool],
                calls=tally.calls,
                failed=tally.failed,
                unanswered=tally.calls - tally.answered,
                failure_rate=tally.failure_rate,
                total_ms=sum(took) // _MS,
                median_ms=round(statistics.median(took) / _MS) if took else None,
                longest_ms=max(took) // _MS if took else None,
            )
        )
    return sorted(rows, key=lambda row: (-row.calls, row.tool))


def _sequences(runs: dict[int, int], names: dict[int, str]) -> list[SequenceRow]:
    rows = []
    for key, count in runs.items():
        if count >= LEAST:
            parts = (key >> 2 * _TOOL_BITS, key >> _TOOL_BITS & _MASK, key & _MASK)
            rows.append(SequenceRow(tools=[names[part] for part in parts if part], count=count))
    return sorted(rows, key=lambda row: (-row.count, -len(row.tools), row.tools))
