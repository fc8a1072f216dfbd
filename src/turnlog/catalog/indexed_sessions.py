"""List sessions with what was done in them, from the index.

A row has what ``sessions`` lists, under the same names, and what needs a whole log: counts, tokens,
tools, branches, damage. SQL filters, sorts and pages the list; tokens, tools and branches are
collected for the page only. Filters match literally.

Responses are counted once, for the session that paid, as in costs. A session whose main log is gone
stays in the list while the index has it, with its keeping.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from turnlog.catalog.names import tools_named
from turnlog.catalog.pages import (
    COUNTERS,
    IS_THERE,
    JOIN_PAID,
    LISTED,
    REGISTRY_LAYOUTS,
    SHARED_LAYOUTS,
    ListConditions,
    ListPage,
    models_in,
    order_by,
    session_costs_sql,
    tokens_of,
)
from turnlog.catalog.sessions import Keepings, SessionRow, pinned_sessions
from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.formats.projects import expand_path, is_within
from turnlog.index.connection import Index
from turnlog.index.ids import IS_CALL, instant_at
from turnlog.keep.archive.archives import Archives
from turnlog.records.tags import tags_in
from turnlog.sessions.state import Running, SessionState, State, running_sessions

SessionSort = Literal[
    "active",
    "started",
    "title",
    "records",
    "prompts",
    "tokens",
    "cost",
    "subagents",
    "duration",
    "size",
]
SESSION_SORTS: Final[dict[str, str]] = {
    "active": "active_at",
    "started": "started_at",
    "title": "folded_text(title)",
    "records": "records",
    "prompts": "prompts",
    "tokens": "coalesce(tokens, 0)",
    "cost": "cost_of(listed.session)",
    "subagents": "subagents",
    "duration": "last_active_at - started_at",
    "size": "bytes",
}
"""The sort orders, as SQL."""
TOP_TOOLS: Final = 5
"""How many tools a row lists with their counts."""


class IndexedSession(SessionRow, kw_only=True, frozen=True):
    """One session in a list, with what the index knows of it."""

    prompts: int
    branches: list[str]
    """Every branch it was on, its subagents included; `git_branch` is the last."""
    tools: dict[str, int]
    """The tools it called most, its subagents included, and how often."""
    damages: int
    crashed: bool
    messages: int = 0
    """API responses, each counted once, its subagents' included; so are the tokens."""
    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    cost_usd: str | None = None
    """Exact, an estimate at API prices; null if nothing was used, or in a list without costs."""

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return tokens_of(self)


class SessionCatalog(Struct, kw_only=True):
    """What `turnlog sessions --json` prints."""

    sessions: list[IndexedSession]
    next: int | None
    """The offset of the next page, or null."""
    total: int


_IN_PROJECTS: Final = "project IN (SELECT value FROM json_each(?))"


def list_indexed(
    index: Index,
    *,
    project: str | None = None,
    model: str | None = None,
    branch: str | None = None,
    tool: str | None = None,
    tag: str | None = None,
    text_in_title: str | None = None,
    words: Sequence[str] = (),
    state: State | str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    has_damage: bool | None = None,
    has_subagents: bool | None = None,
    crashed: bool | None = None,
    running: bool | None = None,
    pinned: bool | None = None,
    kept: bool | None = None,
    gone: bool | None = None,
    archived: bool | None = False,
    sidechains: bool = False,
    sort: SessionSort = "active",
    reverse: bool = False,
    limit: int | None = None,
    offset: int = 0,
    detailed: int | None = None,
    costs: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> SessionCatalog:
    """List sessions by what the index knows, the one that was active last first.

    *project* keeps those that worked in that directory or below it; *model* and *text_in_title* are
    parts of a name, in capitals or not; *branch*, *tool* and *tag* are whole names; a comma
    separates several tags, of which a session must have all. Each of *words* must be in the title
    or the first prompt. *since* and *until* keep the sessions
    that were active in that time, at its beginning or within it. Those that are *archived* are left
    out, or listed alone; or, with None, among the others. What is counted is sorted with the most
    first, titles by the alphabet; *reverse* turns that round, and those of which it is not known
    come last either way. *gone* keeps those that are gone at their source, kept or not; if it is
    false, those that can be read. With *sidechains*, main logs that hold only a subagent's records
    are listed, too. If *detailed* is given, only so many of the first have tokens, tools and
    branches, which take most of the time. *costs* are by session id.
    """
    asked = ListConditions()
    if not sidechains:
        asked.keep("NOT is_sidechain")
    if project is not None:
        asked.keep(_IN_PROJECTS, json.dumps(_projects_in(index, project)))
    called = (_TOOL, None if tool is None else json.dumps(tools_named(index.db, tool)))
    for condition, wanted in (
        ("has_model(models, ?)", model),
        called,
        ("has_tags(tag, ?)", tag),
    ):
        if wanted is not None:
            asked.keep(condition, wanted)
    if branch is not None:
        asked.keep(_BRANCH, branch, branch)
    if text_in_title is not None:
        asked.keep("is_part(?, title)", text_in_title)
    for word in words:
        asked.keep("(is_part(?, title) OR is_part(?, first_prompt))", word, word)
    if state is not None:
        asked.keep("state_of(life, active_at) = ?", _state_named(state))
    gone_fact = (_IS_GONE if gone else "is_gone", gone)
    for fact, is_wanted in (
        ("damages > 0", has_damage),
        ("subagents > 0", has_subagents),
        ("is_crashed(session, life, active_at)", crashed),
        ("is_running(session)", running),
        ("is_pinned(session)", pinned),
        ("is_kept(home, path, is_gone)", kept),
        gone_fact,
    ):
        if is_wanted is not None:
            asked.keep(f"({fact}) IS {'true' if is_wanted else 'false'}")
    asked.keep_period(since, until)
    order = order_by(sort, SESSION_SORTS, is_rising=reverse != (sort == "title"))
    archives, moment = Archives.load(), now or datetime.now(UTC)
    facts = _Facts(index, moment, costs or {})
    facts.give_functions()
    if archived is not None:
        which = json.dumps(_archived_in(index, archives))
        asked.keep(_ARCHIVED if archived else f"NOT {_ARCHIVED}", which)
    tables, join = (
        (f"{LISTED}, {session_costs_sql()}", JOIN_PAID) if sort == "tokens" else (LISTED, "")
    )
    query = (
        f"WITH {tables} SELECT listed.id, count(*) OVER () AS total"  # noqa: S608 - Ours.
        f" FROM listed{join} WHERE {asked.where}"
        f" ORDER BY {order}, active_at DESC, listed.session, listed.home"
    )
    page = ListPage(index, query, asked.values, limit, offset)
    sessions = _sessions(index, [row["id"] for row in page.rows], archives, facts, detailed)
    return SessionCatalog(sessions=sessions, next=page.next, total=page.total)


class SessionTotals(Struct, kw_only=True):
    """All sessions that can be read, archived ones included."""

    sessions: int
    projects: int
    since: datetime | None
    """When the first of them began."""
    size_bytes: int
    """Of their main logs."""


def session_totals(index: Index) -> SessionTotals:
    """Count the sessions of *index*, and their projects and bytes."""
    sessions, projects, since, size_bytes = index.db.execute(
        f"WITH {LISTED} SELECT count(*), count(DISTINCT project), min(started_at),"  # noqa: S608
        f" coalesce(sum(bytes), 0) FROM listed WHERE {IS_THERE}"
    ).fetchone()
    return SessionTotals(
        sessions=sessions, projects=projects, since=instant_at(since), size_bytes=size_bytes
    )


_AS_STORED: Final = (
    "title", "records", "prompts", "subagents", "damages", "git_branch", "home", "layout",
    "path",
)  # fmt: skip
_COLUMNS: Final = (
    "id", "session", "place", "started_at", "active_at", "bytes", "is_gone", "models", "life",
    "tag",    *_AS_STORED,
)  # fmt: skip
_OF_ARCHIVE: Final = ("session", "home", "path", "layout", "bytes")
_ARCHIVED: Final = "listed.id IN (SELECT value FROM json_each(?))"
_ON_PAGE: Final = "id IN (SELECT value FROM json_each(?))"
_BRANCH: Final = (
    "(git_branch = ? OR EXISTS (SELECT 1 FROM names JOIN records ON records.branch = names.id"
    " WHERE names.name = ? AND records.session = listed.id))"
)
# At its source; a kept copy, which is packed, may be read instead.
_IS_GONE: Final = (
    "is_gone OR EXISTS (SELECT 1 FROM logs"
    " WHERE logs.path = listed.path AND logs.packed_bytes IS NOT NULL)"
)
_TOOL: Final = (
    "id IN (SELECT records.session FROM calls JOIN records ON records.id = calls.record"
    " WHERE calls.tool IN (SELECT value FROM json_each(?)))"
)


def _archived_in(index: Index, archives: Archives) -> list[int]:
    """Find the sessions that are archived."""
    found = index.db.execute(
        f"WITH {LISTED} SELECT id, {', '.join(_OF_ARCHIVE)} FROM listed"  # noqa: S608 - Ours.
        f" WHERE layout IN {REGISTRY_LAYOUTS} OR session IN (SELECT value FROM json_each(?))",
        (json.dumps(archives.ids),),
    )
    return [number for number, *told in found if archives.holds(*told)]


def _sessions(
    index: Index, ids: list[int], archives: Archives, facts: _Facts, detailed: int | None
) -> list[IndexedSession]:
    """Return the full rows of the sessions with *ids*, in that order."""
    if not ids:
        return []
    page = json.dumps(ids)
    query = f"WITH {LISTED} SELECT {', '.join(_COLUMNS)} FROM listed WHERE {_ON_PAGE}"  # noqa: S608
    found = (dict(zip(_COLUMNS, row, strict=True)) for row in index.db.execute(query, (page,)))
    rows = {row["id"]: row for row in found}
    first = json.dumps(ids[:detailed])
    used, tools, branches = _used(index, first), _tools(index, first), _branches(index, first)
    return [
        _session(
            rows[each],
            used.get((rows[each]["session"], rows[each]["home"]), {}),
            tools.get(each, {}),
            branches.get(each, []),
            archives=archives,
            facts=facts,
        )
        for each in ids
    ]


def _session(
    row: dict[str, Any],
    used: dict[str, Any],
    tools: dict[str, int],
    branches: list[str],
    *,
    archives: Archives,
    facts: _Facts,
) -> IndexedSession:
    life = _life(row["life"], row["active_at"])
    running = facts.running.get(row["session"])
    return IndexedSession(
        id=row["session"],
        project=row["place"],
        started_at=instant_at(row["started_at"]),
        last_active_at=life.last_active_at,
        state=life.state(facts.now),
        keeping=facts.keepings.of(row["home"], row["path"], is_gone=bool(row["is_gone"])),
        archived=archives.holds(*(row[name] for name in _OF_ARCHIVE)),
        size_bytes=row["bytes"],
        models=list(models_in(row["models"])),
        tags=tags_in(row["tag"]),
        pinned=row["session"] in facts.pins,
        cost_usd=facts.costs.get(row["session"]),
        branches=branches,
        tools=tools,
        running=running.doing if running and running.is_alive else None,
        crashed=facts.is_crashed(row["session"], life),
        **{name: row[name] for name in _AS_STORED},
        **used,
    )


def _used(index: Index, ids: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what the sessions with *ids* paid for, by session and home."""
    which = (
        "messages.session IN (SELECT names.id FROM json_each(?) AS page"
        " CROSS JOIN sessions ON sessions.id = page.value"
        " CROSS JOIN names ON names.name = sessions.session)"
    )
    columns = ("messages", *COUNTERS)
    found = index.db.execute(
        f"WITH {session_costs_sql(which)} SELECT paid_by, paid_in, {', '.join(columns)} FROM paid",  # noqa: S608
        (ids,),
    )
    return {(row[0], row[1]): dict(zip(columns, row[2:], strict=True)) for row in found}


# Records and calls lie in the order of their logs: those of a session that has its logs to itself
# are found without the index on sessions, which takes a third of the time.
_ALONE: Final = (
    "json_each(?1) AS page"
    f" CROSS JOIN sessions ON sessions.id = page.value AND sessions.layout NOT IN {SHARED_LAYOUTS}"
    " CROSS JOIN logs ON logs.session = sessions.session AND logs.home = sessions.home"
)
_TOGETHER: Final = (
    "json_each(?1) AS page"
    f" CROSS JOIN sessions ON sessions.id = page.value AND sessions.layout IN {SHARED_LAYOUTS}"
    " CROSS JOIN records ON records.session = sessions.id"
)
_TOOLS: Final = (
    "SELECT called.id, name, sum(count) AS count FROM ("  # noqa: S608 - Ours.
    f"SELECT sessions.id AS id, c.tool, count(*) AS count FROM {_ALONE}"
    " CROSS JOIN calls AS c ON c.record >= logs.id << 40 AND c.record < (logs.id + 1) << 40"
    f" CROSS JOIN records AS r ON r.id = c.record WHERE {IS_CALL} GROUP BY 1, 2 UNION ALL"
    f" SELECT sessions.id, c.tool, count(*) FROM {_TOGETHER}"
    " CROSS JOIN records AS r ON r.id = records.id"
    f" CROSS JOIN calls AS c ON c.record = r.id WHERE {IS_CALL} GROUP BY 1, 2"
    ") AS called JOIN names ON names.id = tool GROUP BY 1, 2 ORDER BY count DESC, name"
)
_BRANCHES: Final = (
    "SELECT been.id, name FROM ("  # noqa: S608 - Ours.
    f"SELECT DISTINCT sessions.id AS id, branch FROM {_ALONE}"
    " CROSS JOIN records ON records.id >= logs.id << 40 AND records.id < (logs.id + 1) << 40"
    f" UNION SELECT DISTINCT sessions.id, branch FROM {_TOGETHER}"
    ") AS been JOIN names ON names.id = branch ORDER BY name"
)


def _tools(index: Index, ids: str) -> dict[int, dict[str, int]]:
    """Return which tools the sessions with *ids* called most."""
    tools: dict[int, dict[str, int]] = {}
    for session, name, count in index.db.execute(_TOOLS, (ids,)):
        most = tools.setdefault(session, {})
        if len(most) < TOP_TOOLS:
            most[name] = count
    return tools


def _branches(index: Index, ids: str) -> dict[int, list[str]]:
    """Return which branches the sessions with *ids* were on, by the alphabet."""
    branches: dict[int, list[str]] = {}
    for session, name in index.db.execute(_BRANCHES, (ids,)):
        branches.setdefault(session, []).append(name)
    return branches


def _projects_in(index: Index, directory: str) -> list[int]:
    """Return the projects in *directory* or below it."""
    wanted = expand_path(directory)
    return [
        project
        for project, path in index.db.execute("SELECT id, path FROM projects")
        if is_within(path, wanted)
    ]


class _Facts:
    """What a list needs and SQLite does not know."""

    def __init__(self, index: Index, now: datetime, costs: Mapping[str, str]) -> None:
        self._index, self.now, self.costs = index, now, costs
        self.keepings = Keepings()

    @cached_property
    def running(self) -> dict[str, Running]:
        """The sessions that an agent runs, or ran when it was killed, by id."""
        (homes,) = self._index.db.execute("SELECT homes FROM about").fetchone()
        return running_sessions(Home(Path(each)) for each in json.loads(homes))

    @cached_property
    def pins(self) -> frozenset[str]:
        """The ids of the pinned sessions."""
        return pinned_sessions()

    def is_crashed(self, session: str, life: SessionState) -> bool:
        """Return whether a session ended without a clean exit."""
        running = self.running.get(session)
        return life.crashed or (running is not None and running.was_killed(life))

    def is_running(self, session: str) -> bool:
        """Return whether an agent has a session open."""
        running = self.running.get(session)
        return running is not None and running.is_alive

    def give_functions(self) -> None:
        """Add functions to SQLite for the conditions and orders of lists."""
        shown = self._index.shown
        functions: Iterable[tuple[str, int, Any]] = (
            ("folded_text", 1, lambda text: None if text is None else shown(text).casefold()),
            ("is_part", 2, lambda part, text: text is not None and _is_part(part, shown(text))),
            (
                "has_model",
                2,
                lambda models, part: any(_is_part(part, each) for each in models_in(models)),
            ),
            ("has_tags", 2, _has_tags),
            ("state_of", 2, lambda life, at: str(_life(life, at).state(self.now))),
            ("is_crashed", 3, lambda session, life, at: self.is_crashed(session, _life(life, at))),
            ("is_running", 1, self.is_running),
            ("is_pinned", 1, lambda session: session in self.pins),
            ("is_kept", 3, self._is_kept),
            ("cost_of", 1, lambda session: float(self.costs.get(session, 0))),
        )
        for name, parameters, function in functions:
            self._index.db.create_function(name, parameters, function)

    def _is_kept(self, home: str, path: str, is_gone: int) -> bool:
        return self.keepings.of(home, path, is_gone=bool(is_gone)) == "kept"


def _is_part(part: str, text: str | None) -> bool:
    return bool(text) and part.casefold() in str(text).casefold()


def _has_tags(tag: str | None, wanted: str) -> bool:
    return bool(names := set(tags_in(wanted))) and names.issubset(tags_in(tag))


def _life(folded: bytes | None, active_at: int | None) -> SessionState:
    life = _decode_life(folded) if folded else SessionState()
    life.last_active_at = instant_at(active_at)
    return life


def _state_named(state: State | str) -> str:
    try:
        return State(state).value
    except ValueError:
        raise UsageError(
            f"{state!r} is no state of a session", hint=f"it can be {', '.join(State)}"
        ) from None


_decode_life = msgspec.msgpack.Decoder(SessionState).decode


ProjectSort = Literal[
    "active", "path", "sessions", "prompts", "messages", "tokens", "cost", "subagents", "size"
]
PROJECT_SORTS: Final[dict[str, str]] = {
    "active": "last_at",
    "path": "place",
    "sessions": "sessions",
    "prompts": "prompts",
    "messages": "messages",
    "tokens": "tokens",
    "cost": "cost_of(place)",
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
    """As many as `turnlog sessions` lists; archived ones are only in the other figures."""
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
    cost_usd: str | None = None
    """Exact, an estimate at API prices; null if nothing was used, or in a list without costs."""

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
    costs: Mapping[str, str] | None = None,
) -> ProjectCatalog:
    """List the directories that sessions worked in, the one where something happened last first.

    *since* and *until* choose sessions as `list_indexed` does; each counts with all it has. *costs*
    are by path.
    """
    known = costs or {}
    index.db.create_function("cost_of", 1, lambda place: float(known.get(place, 0)))
    asked = ListConditions()
    asked.keep_period(since, until)
    sums = ", ".join(
        f"coalesce(sum({each}), 0) AS {each}" for each in ("messages", *COUNTERS, "tokens")
    )
    query = (
        f"WITH {LISTED}, {session_costs_sql()}, {_REPEATED}, summed AS (SELECT place,"  # noqa: S608 - Ours.
        f" sum({IS_THERE} AND NOT {_ARCHIVED}) AS sessions,"
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
    archived = json.dumps(_archived_in(index, Archives.load()))
    page = ListPage(index, query, [archived, *asked.values], limit, offset)
    projects = [
        ProjectRow(
            path=row["place"],
            models=_models_of(index, row["ids"]),
            first_at=instant_at(row["first_at"]),
            last_at=instant_at(row["last_at"]),
            size_bytes=row["bytes"],
            cost_usd=known.get(row["place"]),
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
