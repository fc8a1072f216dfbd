"""How many sessions of a list have each agent, project, model, branch, tool and tag.

One pass reads what decides, as small numbers, and the numbers are counted: few sessions differ in
their sets of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from turnlog.formats.supported import FORMATS, agent_of
from turnlog.index.connection import Index
from turnlog.records.tags import tags_in

_MOST_STATS: Final = 2_000
"""In longer lists, kept sessions are not counted: each takes two looks at the disk."""
_FLAGS: Final = ("errors > 0", "subagents > 0", "damages > 0")
_LAYOUTS: Final = [each.name for each in FORMATS]
_CASES: Final = " ".join(f"WHEN '{name}' THEN {at}" for at, name in enumerate(_LAYOUTS, 1))
# Few columns, since making Python objects of them takes most of the time.
_PACKED: Final = " | ".join(
    (
        *(f"(({flag}) << {place})" for place, flag in enumerate(_FLAGS)),
        f"(CASE layout {_CASES} ELSE 0 END << {len(_FLAGS)})",
    )
)
_COLUMNS: Final = ("project", "model_set", "branch_set", "tool_set", "tag", _PACKED)


class FacetValue(Struct, frozen=True):
    """A value, and how many sessions of a list have it."""

    value: str
    count: int


class SessionFacets(Struct, kw_only=True):
    """How many sessions of a list have each value; the most frequent values come first."""

    total: int
    agents: list[FacetValue]
    projects: list[FacetValue]
    """Directories; each counts the sessions below it, too."""
    models: list[FacetValue]
    branches: list[FacetValue]
    tools: list[FacetValue]
    tags: list[FacetValue]
    errors: int
    """Sessions with calls that failed."""
    subagents: int
    """Sessions with subagents."""
    damaged: int
    running: int
    pinned: int
    kept: int | None
    """Null in a long list: it would take too long."""


class ListFacts(Protocol):
    """What a list needs and SQLite does not know."""

    @property
    def alive_ids(self) -> str: ...
    @property
    def pinned_ids(self) -> str: ...
    def is_kept(self, home: str, path: str, is_gone: int) -> bool: ...


def _agent(packed: int) -> str:
    return agent_of(["", *_LAYOUTS][packed >> len(_FLAGS)])


def count_facets(
    index: Index,
    query: str,
    values: list[Any],
    facts: ListFacts,
    *,
    most: int,
) -> SessionFacets:
    """Count the values of the sessions that *query* selects, the *most* frequent of each kind.

    *query* has a place for the columns; *values* are those to bind after it.
    """
    rows = index.db.execute(query.format(", ".join(_COLUMNS)), values).fetchall()
    by_column: list[Mapping[Any, int]] = [Counter(each) for each in zip(*rows, strict=True)]
    projects, models, branches, tools, tags, packed = by_column or [{} for _ in _COLUMNS]
    errors, subagents, damaged = (
        sum(count for bits, count in packed.items() if bits >> place & 1)
        for place in range(len(_FLAGS))
    )
    those = query.format("count(*)") + " AND listed.session IN (SELECT value FROM json_each(?))"  # noqa: S608
    alive, pins = (
        int(index.db.execute(those, (*values, ids)).fetchone()[0])
        for ids in (facts.alive_ids, facts.pinned_ids)
    )
    kept = None
    if len(rows) <= _MOST_STATS:
        sql = query.format("listed.home, listed.path, is_gone")
        kept = sum(facts.is_kept(*row) for row in index.db.execute(sql, values))
    paths = dict(index.db.execute("SELECT id, path FROM projects"))
    sets: dict[int | None, list[str]] = {
        number: msgspec.json.decode(names)
        for number, names in index.db.execute("SELECT id, names FROM name_sets")
    }
    return SessionFacets(
        total=len(rows),
        agents=_top(((_agent(bits),), count) for bits, count in packed.items()),
        projects=_top(
            (
                ((path,), count)
                for path, count in with_parents(
                    {paths[project]: count for project, count in projects.items() if project}
                ).items()
            ),
            most,
        ),
        models=_top(((sets.get(each, ()), count) for each, count in models.items()), most),
        branches=_top(((sets.get(each, ()), count) for each, count in branches.items()), most),
        tools=_top(((sets.get(each, ()), count) for each, count in tools.items()), most),
        tags=_top(((tags_in(each), count) for each, count in tags.items()), most),
        errors=errors,
        subagents=subagents,
        damaged=damaged,
        running=alive,
        pinned=pins,
        kept=kept,
    )


def with_parents(counts: Mapping[str, int]) -> dict[str, int]:
    """Return *counts* of directories, each with those below it, as filters by project match."""
    whole = dict(counts)
    for path, count in counts.items():
        parent = path
        while "/" in parent.strip("/"):
            parent = parent.rpartition("/")[0]
            if parent in counts:
                whole[parent] += count
    return whole


def _top(found: Iterable[tuple[Iterable[str], int]], most: int | None = None) -> list[FacetValue]:
    """Return the *most* frequent names, then by the alphabet."""
    counts: Counter[str] = Counter()
    for names, count in found:
        for name in names:
            counts[name] += count
    order = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [FacetValue(name, count) for name, count in order[:most]]
