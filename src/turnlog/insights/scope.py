"""What insights are asked of: a period, a project, whose days; and how the index is asked for it.

A period is half-open. Whatever has no date is in no period; with neither end all of it is asked
for. What a fork or a resume carried along counts where it first stood. Every subject uses the same
conditions, so that no two figures differ in what they look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from turnlog.catalog.period import Period
from turnlog.costs.ledger import Figures, Question, Unit
from turnlog.index.connection import Index
from turnlog.index.ids import IS_FIRST, SECOND_BITS, instant_at, microseconds
from turnlog.query.filters import projects_in

SHOWN: Final = 10
"""So many rows of a list are given, unless more are asked for."""
_US: Final = 1_000_000
_ALL_OF_TIME: Final = -(1 << 62)
T = TypeVar("T")


class Scope(Struct, frozen=True, kw_only=True):
    """The period, the project, and the time zone whose days they are; *limit* bounds lists."""

    zone: tzinfo = UTC
    now: datetime
    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    """A whole path: sessions that began there or below."""
    limit: int | None = SHOWN
    mask: Callable[[str], str] = str
    """What texts that are shown go through before they are cut."""

    @property
    def end(self) -> datetime:
        """Where the period ends: at its end, or now if that is earlier or not said."""
        return self.now if self.until is None else min(self.until, self.now)

    @property
    def period(self) -> Period:
        return Period(since=self.since, until=self.until, project=self.project)

    def by(self, *units: Unit) -> Question:
        """Put the ledger's question."""
        return Question(by=units, zone=self.zone, period=self.period)

    def first(self, rows: list[T]) -> list[T]:
        """Return as many rows as are asked for."""
        return rows if self.limit is None else rows[: self.limit]


class Evidence(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A record, or a session, behind a figure, and where it stands."""

    at: datetime | None
    session: str | None
    project: str | None
    what: str
    log: str
    offset: int
    tokens: int | UnsetType = UNSET
    cost_usd: str | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    added: int | UnsetType = UNSET
    removed: int | UnsetType = UNSET


def conditions(index: Index, asked: Scope, *, with_repeats: bool = False) -> tuple[str, list[Any]]:
    """Give, as SQL about a record r, what is asked for; and the values of its marks, in order."""
    where, values = "TRUE" if with_repeats else IS_FIRST, list[Any]()
    for bound, sign in ((asked.since, ">="), (asked.until, "<")):
        if bound is not None:
            where += f" AND r.at {sign} ?"
            values.append(microseconds(bound))
    if asked.project is not None:
        projects = projects_in(index.db, asked.project)
        where += f" AND r.session IN (SELECT id FROM sessions WHERE project IN {projects})"  # noqa: S608 - Ours.
    return where, values


def is_within(asked: Scope, at: int | None) -> bool:
    """Return whether an instant, in microseconds, is of the period."""
    since, until = microseconds(asked.since), microseconds(asked.until)
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def first_text(asked: Scope) -> int:
    """Return the smallest id that a text of the period can have: an id begins with the second."""
    since = microseconds(asked.since)
    return _ALL_OF_TIME if since is None else (since // _US) << SECOND_BITS


def names_of(index: Index) -> dict[int, str]:
    """Return every name by its id."""
    return dict(index.db.execute("SELECT id, name FROM names"))


def sessions_of(index: Index) -> dict[int, tuple[str, str | None]]:
    """Return the id and the project of every session, by the number that records know it by."""
    rows = index.db.execute(
        "SELECT s.id, s.session, p.path FROM sessions AS s LEFT JOIN projects AS p"
        " ON p.id = s.project"
    )
    return {number: (session, project) for number, session, project in rows}


def with_main_log(index: Index) -> set[str]:
    """Name the sessions that lists tell of: they have a main log of their own, or had one.

    Of others only subagents' logs are left, or their records' word for it.
    """
    rows = index.db.execute("SELECT session FROM sessions WHERE NOT is_sidechain AND path <> ''")
    return {session for (session,) in rows}


class Places:
    """Says of records which session and project they are of, and where they stand."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._sessions = sessions_of(index)

    def session(self, number: int | None) -> tuple[str | None, str | None]:
        """Return the session and the project of a record's session number."""
        return self._sessions.get(number or 0, (None, None))

    def behind(
        self, record: int, number: int | None, at: int | None, what: str, **figures: Any
    ) -> Evidence:
        """Describe a record."""
        session, project = self.session(number)
        log, offset = self._index.place(record)
        return Evidence(
            at=instant_at(at),
            session=session,
            project=project,
            what=what,
            log=log,
            offset=offset,
            **figures,
        )

    def all(self, rows: Iterator[Any]) -> Iterator[Evidence]:
        """Describe records, given as rows of id, session, instant and what they are."""
        return (self.behind(*row) for row in rows)


NOTHING: Final = Figures(
    messages=0,
    input=0,
    output=0,
    cache_write_5m=0,
    cache_write_1h=0,
    cache_read=0,
    web_searches=0,
    cost_usd="0",
    cache_efficiency=None,
)
"""The figures of what was not there."""
_FIGURES: Final = tuple(field.name for field in structs.fields(Figures))


def figures_in(row: Figures | None) -> dict[str, Any]:
    """Return the figures of a row, and nothing else of it."""
    return {name: getattr(row or NOTHING, name) for name in _FIGURES}


def part_of(part: int, whole: int) -> float | None:
    """Return which part of a whole it is, to four decimals; None of nothing."""
    return round(part / whole, 4) if whole else None
