"""List projects with what was done in each, from the index.

A row sums what the list says about its sessions, so the two always agree, except for prompts that
were copied by a fork or a resume: every log has them, but they count once. The log of a subagent in
place of a session is not a session, but its usage counts here.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from turnlog.catalog.pages import (
    COUNTERS,
    IS_THERE,
    JOIN_PAID,
    LISTED,
    ListConditions,
    ListPage,
    models_in,
    order_by,
    session_costs_sql,
    tokens_of,
)
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at

ProjectSort = Literal[
    "active", "path", "sessions", "prompts", "messages", "tokens", "subagents", "size"
]
PROJECT_SORTS: Final[dict[str, str]] = {
    "active": "last_at",
    "path": "place",
    "sessions": "sessions",
    "prompts": "prompts",
    "messages": "messages",
    "tokens": "tokens",
    "subagents": "subagents",
    "size": "bytes",
}
"""The sort orders, as SQL."""


_REPEATED: Final = """
repeated AS (
    SELECT r.session AS repeated_in, count(*) AS repeated
    FROM repeats JOIN records AS r ON r.id = repeats.record
    WHERE r.type = (SELECT id FROM names WHERE name = 'user')
        AND r.author = (SELECT id FROM names WHERE name = 'human')
    GROUP BY r.session
)"""
"""How many prompts of each session another one had before."""


class ProjectRow(Struct, kw_only=True, frozen=True):
    """One project in a list."""

    path: str | None
    """Null for sessions that do not say where they worked."""
    sessions: int
    gone: int
    """Sessions whose log is gone: not among `sessions`, but in every other figure."""
    prompts: int
    models: list[str]
    """The one with the most records first."""
    first_at: datetime | None
    last_at: datetime | None
    subagents: int
    damages: int
    size_bytes: int
    """Of the sessions' main logs."""
    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return tokens_of(self)


class ProjectCatalog(Struct, kw_only=True):
    """What `turnlog projects --json` prints."""

    projects: list[ProjectRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int


def list_projects(
    index: Index,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    sort: ProjectSort = "active",
    reverse: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> ProjectCatalog:
    """List the directories that sessions worked in, the one where something happened last first.

    *since* and *until* choose sessions as `list_indexed` does; each counts with all it has.
    """
    asked = ListConditions()
    asked.keep_period(since, until)
    sums = ", ".join(
        f"coalesce(sum({each}), 0) AS {each}" for each in ("messages", *COUNTERS, "tokens")
    )
    query = (
        f"WITH {LISTED}, {session_costs_sql()}, {_REPEATED}, summed AS (SELECT place,"  # noqa: S608 - Ours.
        f" sum({IS_THERE}) AS sessions,"
        " sum(NOT is_sidechain AND is_gone) AS gone,"
        f" sum(CASE WHEN is_sidechain THEN 0 ELSE prompts - coalesce(repeated, 0) END) AS prompts,"
        f" {sums},"
        " min(started_at) AS first_at, max(active_at) AS last_at, sum(subagents) AS subagents,"
        " sum(damages) AS damages, sum(bytes) AS bytes, json_group_array(listed.id) AS ids"
        f" FROM listed{JOIN_PAID} LEFT JOIN repeated ON repeated_in = listed.id"
        f" WHERE {asked.where} GROUP BY project)"
        " SELECT *, count(*) OVER () AS total FROM summed"
        f" ORDER BY {order_by(sort, PROJECT_SORTS, is_rising=reverse != (sort == 'path'))},"
        " last_at DESC, place"
    )
    plain = ("sessions", "gone", "prompts", "subagents", "damages", "messages", *COUNTERS)
    page = ListPage(index, query, asked.values, limit, offset)
    projects = [
        ProjectRow(
            path=row["place"],
            models=_models_of(index, row["ids"]),
            first_at=instant_at(row["first_at"]),
            last_at=instant_at(row["last_at"]),
            size_bytes=row["bytes"],
            **{name: row[name] for name in plain},
        )
        for row in page.rows
    ]
    return ProjectCatalog(projects=projects, next=page.next, total=page.total)


def _models_of(index: Index, ids: str) -> list[str]:
    """Name the models of the sessions with *ids*."""
    counts: Counter[str] = Counter()
    query = "SELECT models FROM sessions WHERE id IN (SELECT value FROM json_each(?))"
    for (models,) in index.db.execute(query, (ids,)):
        counts.update(models_in(models))
    return sorted(counts, key=lambda model: (-counts[model], model))
