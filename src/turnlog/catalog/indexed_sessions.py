"""List sessions with what was done in them, from the index.

A row has what ``sessions`` lists, under the same names, and what needs a whole log: counts, tokens,
tools, branches, errors, damage. SQL filters, sorts and pages the list, and counts the values of
each filter in it (``facets``); tokens and tools are collected for the page only. Filters match
literally.

Responses are counted once, for the session that paid, as in costs. A session whose main log is gone
stays in the list while the index has it, with its keeping.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turnlog.catalog.facets import SessionFacets, count_facets
from turnlog.catalog.pages import (
    COUNTERS,
    IS_THERE,
    JOIN_PAID,
    LISTED,
    PICO,
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
from turnlog.errors import AmbiguousSession, NotFound, UsageError
from turnlog.formats import Home
from turnlog.formats.projects import expand_path, is_within, last_part
from turnlog.formats.supported import agent_layouts, agent_of
from turnlog.index.connection import Index
from turnlog.index.ids import IS_CALL, instant_at, json_array
from turnlog.keep.archive.archives import Archives
from turnlog.records.tags import tags_in
from turnlog.sessions.state import Running, SessionState, State, running_sessions
from turnlog.text import utf8_safe

SessionSort = Literal[
    "active",
    "started",
    "title",
    "project",
    "records",
    "prompts",
    "tokens",
    "cost",
    "subagents",
    "errors",
    "duration",
    "size",
]
SESSION_SORTS: Final[dict[str, str]] = {
    "active": "active_at",
    "started": "started_at",
    "title": "CASE WHEN length(CAST(title AS BLOB)) = length(title) AND NOT is_masked()"
    " THEN lower(title) ELSE folded_text(title) END",
    "project": "rank_of(project)",
    "records": "records",
    "prompts": "prompts",
    "tokens": "tokens_of(session, home)",
    "cost": "pico_of(session)",
    "subagents": "subagents",
    "errors": "errors",
    "duration": "last_active_at - started_at",
    "size": "bytes",
}
"""The sort orders, as SQL."""
RISING: Final = ("title", "project")
"""The orders that begin with the first of the alphabet, not with the most."""
TOP_TOOLS: Final = 5
"""How many tools a row lists with their counts."""
_MOST_ORIGINS: Final = 3


class CostLookup(Protocol):
    """The costs of sessions (``costs.lists``)."""

    def of(self, sessions: Iterable[str]) -> Mapping[str, str]:
        """Return the exact cost of each of *sessions* that used something, by id."""
        ...

    def picodollars(self) -> Mapping[str, int]:
        """Return the cost of every session that used something, by id."""
        ...


class IndexedSession(SessionRow, kw_only=True, frozen=True):
    """One session in a list, with what the index knows of it."""

    prompts: int
    branches: list[str]
    """Every branch it was on, its subagents included; `git_branch` is the last."""
    tools: dict[str, int]
    """The tools it called most, its subagents included, and how often."""
    damages: int
    errors: int
    """Calls that failed, its subagents' included, and those that a fork copied."""
    crashed: bool
    agent: str = ""
    """The program that wrote it, such as "Claude Code"."""
    messages: int = 0
    """API responses, each counted once, its subagents' included; so are the tokens."""
    copied: int = 0
    """Responses in its logs that a fork or a resume copied: they count for another session."""
    copied_from: list[str] = msgspec.field(default_factory=list)
    """The sessions for which they count, the one with the most first."""
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
    facets: SessionFacets | UnsetType = UNSET
    """How many sessions of the whole list have each value; only if asked for."""


_SHOWN_IDS: Final = 5
_GIVEN: Final = "(SELECT value FROM json_each(?))"


def list_indexed(
    index: Index,
    *,
    project: str | Sequence[str] | None = None,
    model: str | None = None,
    branch: str | None = None,
    tool: str | None = None,
    tag: str | None = None,
    agent: str | None = None,
    text_in_title: str | None = None,
    words: Sequence[str] = (),
    state: State | str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    cost_at_least: Decimal | None = None,
    has_errors: bool | None = None,
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
    with_tools: bool = True,
    facets: int | None = None,
    costs: CostLookup | None = None,
    now: datetime | None = None,
) -> SessionCatalog:
    """List sessions by what the index knows, the one that was active last first.

    *project* keeps those that worked in that directory or below it, or in one of a list; *model*
    and *text_in_title* are parts of a name, in capitals or not; *branch*, *tool*, *tag* and *agent*
    are whole names; a comma separates several tags, of which a session must have all. Each of
    *words* must be in the title or the first prompt. *since* and *until* keep the sessions that
    were active in that time, at its beginning or within it. *cost_at_least* is in dollars, and
    needs *costs*. Those that are *archived* are left out, or listed alone; or, with None, among the
    others. What is counted is sorted with the most first, titles and projects by the alphabet;
    *reverse* turns that round, and those of which it is not known come last either way. *gone*
    keeps those that are gone at their source, kept or not; if it is false, those that can be read.
    With *sidechains*, main logs that hold only a subagent's records are listed, too. If *detailed*
    is given, only so many of the first have tokens, costs, tools and copied responses, which take
    most of the time; half of it is for the tools, which need not be counted. With *facets*, the
    values of each filter are counted, the most frequent so many.
    """
    asked = ListConditions()
    archives, moment = Archives.load(), now or datetime.now(UTC)
    facts = _Facts(index, moment, costs)
    facts.give_functions()
    if not sidechains:
        asked.keep("NOT is_sidechain")
    if project is not None:
        within = [expand_path(project)] if isinstance(project, str) else project
        asked.keep(f"project IN {_GIVEN}", json_array(_projects_in(index, within)))
    _keep_named(asked, index, model, branch, tool)
    if tag is not None:
        asked.keep("tag IS NOT NULL AND has_tags(tag, ?)", tag)
    if agent is not None:
        asked.keep(f"layout IN {_GIVEN}", json_array(agent_layouts(agent)))
    if text_in_title is not None:
        asked.keep_word(text_in_title, ("title",), is_masked=index.is_masked)
    for word in words:
        asked.keep_word(word, ("title", "first_prompt"), is_masked=index.is_masked)
    if state is not None:
        asked.keep("state_of(life, active_at) = ?", _state_named(state))
    gone_fact = (_IS_GONE if gone else "is_gone", gone)
    for fact, is_wanted in (
        ("errors > 0", has_errors),
        ("damages > 0", has_damage),
        ("subagents > 0", has_subagents),
        ("is_crashed(session, life, active_at)", crashed),
        ("is_kept(home, path, is_gone)", kept),
        gone_fact,
    ):
        if is_wanted is not None:
            asked.keep(f"({fact}) IS {'true' if is_wanted else 'false'}")
    for name, is_wanted in (("alive_ids", running), ("pinned_ids", pinned)):
        if is_wanted is not None:
            is_one = f"listed.session {'' if is_wanted else 'NOT'} IN {_GIVEN}"
            asked.keep(is_one, getattr(facts, name))
    asked.keep_period(since, until)
    order = order_by(sort, SESSION_SORTS, is_rising=reverse != (sort in RISING))
    if archived is not None:
        which = json_array(_archived_in(index, archives))
        asked.keep(_ARCHIVED if archived else f"NOT {_ARCHIVED}", which)
    if cost_at_least is not None:
        asked.keep("pico_of(session) >= ?", int(cost_at_least * PICO))
    found: SessionFacets | UnsetType = UNSET
    if facets is not None:
        listed = f"WITH {LISTED} SELECT {{}} FROM listed WHERE {asked.where}"  # noqa: S608
        found = count_facets(index, listed, asked.values, facts, most=facets)
    total = "count(*) OVER ()" if isinstance(found, UnsetType) else "NULL"
    query = (
        f"WITH {LISTED} SELECT listed.id, {total} AS total"  # noqa: S608 - Ours.
        f" FROM listed WHERE {asked.where}"
        f" ORDER BY {order}, active_at DESC, listed.session, listed.home"
    )
    page = ListPage(
        index,
        query,
        asked.values,
        limit,
        offset,
        total=None if isinstance(found, UnsetType) else found.total,
    )
    ids = [row["id"] for row in page.rows]
    first = ids if detailed is None else ids[:detailed]
    sessions = _sessions(
        index, ids, archives, facts, detailed=first, with_tools=with_tools, costs=costs
    )
    return SessionCatalog(sessions=sessions, next=page.next, total=page.total, facets=found)


def _keep_named(
    asked: ListConditions, index: Index, model: str | None, branch: str | None, tool: str | None
) -> None:
    """Keep sessions with a model, branch or tool, by the sets of names that have it."""
    if model is None and branch is None and tool is None:
        return
    sets = {
        number: msgspec.json.decode(names, type=list[str])
        for number, names in index.db.execute("SELECT id, names FROM name_sets")
    }
    tests: list[tuple[str, Callable[[list[str]], bool]]] = []
    if model is not None:
        tests.append(("model_set", lambda names: any(_is_part(model, each) for each in names)))
    if branch is not None:
        name = utf8_safe(branch)
        tests.append(("branch_set", lambda names: name in names))
    if tool is not None:
        wanted = _tools_called(utf8_safe(tool), sets.values())
        tests.append(("tool_set", lambda names: not wanted.isdisjoint(names)))
    for column, fits in tests:
        ids = [number for number, names in sets.items() if fits(names)]
        asked.keep(f"{column} IN {_GIVEN}", json_array(ids))


def _tools_called(tool: str, sets: Iterable[list[str]]) -> set[str]:
    """Return the names of the tools that are called *tool*, exactly or else in any case."""
    names = {name for names in sets for name in names}
    return {tool} & names or {name for name in names if name.casefold() == tool.casefold()}


def find_indexed(
    index: Index,
    name: str,
    *,
    costs: CostLookup | None = None,
    now: datetime | None = None,
) -> tuple[int, IndexedSession]:
    """Return one session by the beginning of its id, and its number in the index.

    Of copies in several homes, the one that was active last is returned.
    """
    rows = index.db.execute(
        f"WITH {LISTED} SELECT id, session FROM listed WHERE substr(session, 1, length(?)) = ?"  # noqa: S608
        " AND session <> '' AND ? <> '' ORDER BY is_gone, active_at DESC, id LIMIT 1000",
        (name, name, name),
    ).fetchall()
    chosen = [row for row in rows if row[1] == name] or rows
    ids = list(dict.fromkeys(session for _, session in chosen))
    if not ids:
        raise NotFound(f"no session's id begins with {name[:80]!r}", hint="list the sessions")
    if len(ids) > 1:
        raise AmbiguousSession(
            f"{len(ids)} sessions begin with {name[:80]!r}",
            hint=f"give more of the id: {', '.join(ids[:_SHOWN_IDS])}",
        )
    facts = _Facts(index, now or datetime.now(UTC), costs)
    number = chosen[0][0]
    (session,) = _sessions(
        index, [number], Archives.load(), facts, detailed=[number], with_tools=True, costs=costs
    )
    return number, session


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
    "title", "records", "prompts", "subagents", "damages", "errors", "git_branch", "home", "layout",
    "path",
)  # fmt: skip
_COLUMNS: Final = (
    "id", "session", "place", "started_at", "active_at", "bytes", "is_gone", "models", "life",
    "tag", "branch_set", *_AS_STORED,
)  # fmt: skip
_OF_ARCHIVE: Final = ("session", "home", "path", "layout", "bytes")
_ARCHIVED: Final = f"listed.id IN {_GIVEN}"
_ON_PAGE: Final = f"id IN {_GIVEN}"
# At its source; a kept copy, which is packed, may be read instead.
_IS_GONE: Final = (
    "is_gone OR EXISTS (SELECT 1 FROM logs"
    " WHERE logs.path = listed.path AND logs.packed_bytes IS NOT NULL)"
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
    index: Index,
    ids: list[int],
    archives: Archives,
    facts: _Facts,
    *,
    detailed: list[int],
    with_tools: bool,
    costs: CostLookup | None,
) -> list[IndexedSession]:
    """Return the rows of the sessions with *ids*, in that order; the *detailed* ones in full."""
    if not ids:
        return []
    page = json_array(ids)
    query = f"WITH {LISTED} SELECT {', '.join(_COLUMNS)} FROM listed WHERE {_ON_PAGE}"  # noqa: S608
    found = (dict(zip(_COLUMNS, row, strict=True)) for row in index.db.execute(query, (page,)))
    rows = {row["id"]: row for row in found}
    branches = _name_sets(index, {row["branch_set"] for row in rows.values()})
    first = json_array(detailed)
    tools = _tools(index, first) if with_tools else {}
    copied, used = _copied(index, first), _used(index, first)
    paid = costs.of({rows[each]["session"] for each in detailed}) if costs else {}
    return [
        _session(
            rows[each],
            used.get((rows[each]["session"], rows[each]["home"]), {}),
            tools=tools.get(each, {}),
            branches=branches.get(rows[each]["branch_set"], []),
            copied=copied.get(each, {}),
            cost_usd=paid.get(rows[each]["session"]),
            archives=archives,
            facts=facts,
        )
        for each in ids
    ]


def _session(
    row: dict[str, Any],
    used: dict[str, Any],
    *,
    tools: dict[str, int],
    branches: list[str],
    copied: dict[str, int],
    cost_usd: str | None,
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
        cost_usd=cost_usd,
        branches=branches,
        tools=tools,
        copied=sum(copied.values()),
        copied_from=sorted(copied, key=lambda each: (-copied[each], each))[:_MOST_ORIGINS],
        agent=agent_of(row["layout"]),
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


def _tools(index: Index, ids: str) -> dict[int, dict[str, int]]:
    """Return which tools the sessions with *ids* called most."""
    tools: dict[int, dict[str, int]] = {}
    for session, name, count in index.db.execute(_TOOLS, (ids,)):
        most = tools.setdefault(session, {})
        if len(most) < TOP_TOOLS:
            most[name] = count
    return tools


def _name_sets(index: Index, ids: Iterable[int | None]) -> dict[int, list[str]]:
    """Return the names in the sets with *ids*."""
    query = f"SELECT id, names FROM name_sets WHERE id IN {_GIVEN}"  # noqa: S608 - Ours.
    rows = index.db.execute(query, (json_array(ids),))
    return {number: msgspec.json.decode(names) for number, names in rows}


_PAID_RESPONSES: Final = f"""
SELECT sessions.id, count(DISTINCT m.name) FROM json_each(?1) AS page
CROSS JOIN sessions ON sessions.id = page.value AND sessions.layout NOT IN {SHARED_LAYOUTS}
CROSS JOIN names ON names.name = sessions.session CROSS JOIN messages AS m ON m.session = names.id
CROSS JOIN logs ON logs.id = m.record >> 40
    AND logs.session = sessions.session AND logs.home = sessions.home
GROUP BY sessions.id
"""  # noqa: S608 - Ours.
_RESPONSES: Final = f"""
SELECT sessions.id, count(DISTINCT u.name) FROM {_ALONE}
CROSS JOIN usage_entries AS u ON u.log = logs.id GROUP BY sessions.id
"""  # noqa: S608 - Ours.
# A response may be in several logs: it is a copy in those of every session but one. The plus keeps
# SQLite from looking through all responses of the session for each of them.
_COPIED: Final = f"""
SELECT sessions.id, payer.name, count(DISTINCT u.name) FROM {_ALONE}
CROSS JOIN usage_entries AS u ON u.log = logs.id
CROSS JOIN messages AS m ON m.name = u.name
CROSS JOIN names AS payer ON payer.id = m.session
WHERE NOT EXISTS (
    SELECT 1 FROM messages AS own JOIN names ON names.id = +own.session
    JOIN logs AS its ON its.id = own.record >> 40
    WHERE own.name = u.name AND names.name = sessions.session AND its.home = sessions.home
)
GROUP BY 1, 2
"""  # noqa: S608 - Ours.


def _copied(index: Index, ids: str) -> dict[int, dict[str, int]]:
    """Return how many responses of the sessions with *ids* count for which other sessions."""
    paid = dict(index.db.execute(_PAID_RESPONSES, (ids,)))
    found = index.db.execute(_RESPONSES, (ids,))
    suspects = [session for session, count in found if count > paid.get(session, 0)]
    copied: dict[int, dict[str, int]] = {}
    if suspects:  # Few are: looking at every response takes longer.
        for session, payer, count in index.db.execute(_COPIED, (json_array(suspects),)):
            copied.setdefault(session, {})[payer] = count
    return copied


def _projects_in(index: Index, directories: Iterable[str]) -> list[int]:
    """Return the projects in *directories* or below them."""
    wanted = set(directories)
    return [
        project
        for project, path in index.db.execute("SELECT id, path FROM projects")
        if path in wanted or any(is_within(path, each) for each in wanted)
    ]


_SUMMED: Final = (
    f"SELECT names.name, sum({' + '.join(COUNTERS)}) FROM usage_sums"  # noqa: S608 - Ours.
    " CROSS JOIN names ON names.id = usage_sums.session GROUP BY usage_sums.session"
)


class _Facts:
    """What a list needs and SQLite does not know."""

    def __init__(self, index: Index, now: datetime, costs: CostLookup | None) -> None:
        self._index, self.now, self._costs = index, now, costs
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

    @property
    def alive_ids(self) -> str:
        """The ids of the sessions that an agent has open, as JSON."""
        return json_array(each for each, found in self.running.items() if found.is_alive)

    @property
    def pinned_ids(self) -> str:
        """The ids of the pinned sessions, as JSON."""
        return json_array(self.pins)

    @cached_property
    def _picodollars(self) -> Mapping[str, int]:
        return self._costs.picodollars() if self._costs else {}

    @cached_property
    def _tokens(self) -> dict[tuple[str, str], int]:
        """The tokens of each session in each home."""
        db = self._index.db
        homes: dict[str, list[str]] = {}
        for session, home in db.execute("SELECT session, home FROM sessions"):
            homes.setdefault(session, []).append(home)
        copies = json_array(session for session, each in homes.items() if len(each) > 1)
        found = {
            (session, homes[session][0]): tokens
            for session, tokens in db.execute(_SUMMED)
            if len(homes.get(session, ())) == 1
        }
        which = f"session IN (SELECT id FROM names WHERE name IN {_GIVEN})"  # noqa: S608 - Ours.
        rows = db.execute(
            f"WITH {session_costs_sql(which)} SELECT paid_by, paid_in, tokens FROM paid",  # noqa: S608
            (copies,),
        )
        return found | {(session, home): tokens for session, home, tokens in rows}

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """The order of the projects, by the names that lists show."""
        paths = self._index.db.execute("SELECT id, path FROM projects").fetchall()
        paths.sort(key=lambda row: (last_part(self._index.shown(row[1])).casefold(), row[1]))
        return {project: rank for rank, (project, _) in enumerate(paths)}

    def give_functions(self) -> None:
        """Add functions to SQLite for the conditions and orders of lists."""
        shown = self._index.shown
        functions: Iterable[tuple[str, int, Any]] = (
            ("folded_text", 1, lambda text: None if text is None else shown(text).casefold()),
            ("is_part", 2, lambda part, text: text is not None and _is_part(part, shown(text))),
            ("has_tags", 2, _has_tags),
            ("state_of", 2, lambda life, at: str(_life(life, at).state(self.now))),
            ("is_crashed", 3, lambda session, life, at: self.is_crashed(session, _life(life, at))),
            ("is_kept", 3, self.is_kept),
            ("pico_of", 1, lambda session: self._picodollars.get(session, 0)),
            ("tokens_of", 2, lambda session, home: self._tokens.get((session, home), 0)),
            ("rank_of", 1, lambda project: self._ranks.get(project, None)),
            ("is_masked", 0, lambda: self._index.is_masked),
        )
        for name, parameters, function in functions:
            self._index.db.create_function(name, parameters, function)

    def is_kept(self, home: str, path: str, is_gone: int) -> bool:
        """Return whether a kept copy has all of a session."""
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
