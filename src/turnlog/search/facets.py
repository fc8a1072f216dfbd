"""How many of the texts that a search found are of each kind, tool, project and month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from msgspec import Struct

from turnlog.catalog.facets import FacetValue, with_parents
from turnlog.index.connection import Index
from turnlog.index.ids import SECOND_BITS, json_array
from turnlog.index.texts import TextKind
from turnlog.search.ranking import Row

_KINDS: Final = {int(kind): kind.name.lower() for kind in TextKind} | {
    int(TextKind.HISTORY): "prompt"
}
_WITH_TOOL: Final = {int(TextKind.CALL): "record", int(TextKind.RESULT): "result"}
_DAY_SECONDS: Final = 86_400
_PROJECTS: Final = """
SELECT s.id, p.path FROM json_each(?) AS a CROSS JOIN sessions AS s ON s.id = a.value
JOIN projects AS p ON p.id = s.project
"""
_TOOLS: Final = """
SELECT DISTINCT c.{0}, n.name FROM json_each(?) AS a CROSS JOIN calls AS c ON c.{0} = a.value
JOIN names AS n ON n.id = c.tool
"""


class SearchFacets(Struct, kw_only=True):
    """How many of the texts that match have each value; the most frequent values come first."""

    total: int
    sessions: int
    is_complete: bool
    """Whether all texts were counted; otherwise there may be more."""
    kinds: list[FacetValue]
    tools: list[FacetValue]
    projects: list[FacetValue]
    months: list[FacetValue]
    """The latest first."""


def count_hits(
    index: Index, rows: Sequence[Row], zone: tzinfo | None, *, most: int, is_complete: bool
) -> SearchFacets:
    """Count the values of texts, the *most* frequent of each kind."""
    sessions = Counter(row[4] for row in rows)
    paths = dict(index.db.execute(_PROJECTS, (json_array(filter(None, sessions)),)))
    projects: Counter[str] = Counter()
    for session, count in sessions.items():
        if session in paths:
            projects[paths[session]] += count
    kinds = Counter(_KINDS[row[3]] for row in rows)
    days = Counter((row[0] >> SECOND_BITS) // _DAY_SECONDS for row in rows)
    near = {
        day: {datetime.fromtimestamp(day * _DAY_SECONDS + at, zone).strftime("%Y-%m")
              for at in (0, _DAY_SECONDS - 1)}
        for day in days
    }  # fmt: skip
    months: Counter[str] = Counter()
    for row in rows:  # Only days at the end of a month need the exact time.
        second = row[0] >> SECOND_BITS
        found = near[second // _DAY_SECONDS]
        months[
            next(iter(found))
            if len(found) == 1
            else datetime.fromtimestamp(second, zone).strftime("%Y-%m")
        ] += 1
    return SearchFacets(
        total=len(rows),
        sessions=len(sessions),
        is_complete=is_complete,
        kinds=_top(kinds, most),
        tools=_top(_tools(index, rows), most),
        projects=_top(with_parents(projects), most),
        months=[FacetValue(each, months[each]) for each in sorted(months, reverse=True)[:most]],
    )


def _tools(index: Index, rows: Iterable[Row]) -> Counter[str]:
    """Count the texts of calls and results by tool; a record may have several calls."""
    counts: Counter[str] = Counter()
    rows = list(rows)
    for kind, column in _WITH_TOOL.items():
        records = Counter(row[1] for row in rows if row[3] == kind)
        if records:
            found = index.db.execute(_TOOLS.format(column), (json_array(records),))
            for record, tool in found:
                counts[tool] += records[record]
    return counts


def _top(counts: Mapping[str, int], most: int) -> list[FacetValue]:
    order = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [FacetValue(name, count) for name, count in order[:most]]
