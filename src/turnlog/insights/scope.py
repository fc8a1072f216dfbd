"""The period and the project of a report, and the SQL conditions for them.

A period is half-open. Undated records are in no period; without both ends everything is included.
Records that a fork or a resume copied count where they were first. All subjects use the same
conditions, so all figures are about the same records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from turnlog.catalog.period import Period
from turnlog.costs.ledger import Figures, Question, Unit, sum_of
from turnlog.index.connection import Index
from turnlog.index.ids import IS_FIRST, SECOND_BITS, instant_at, microseconds
from turnlog.query.filters import projects_in

SHOWN: Final = 10
"""The default number of rows in a list."""
_US: Final = 1_000_000
_ALL_OF_TIME: Final = -(1 << 62)
T = TypeVar("T")


class Scope(Struct, frozen=True, kw_only=True):
    """The period, the project, the time zone of days, and the *limit* of lists."""

    zone: tzinfo = UTC
    now: datetime
    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    """An absolute path: sessions that began there or below."""
    limit: int | None = SHOWN
    mask: Callable[[str], str] = str
    """Applied to texts before they are shortened."""

    @property
    def end(self) -> datetime:
        """The end of the period, at most now."""
        return self.now if self.until is None else min(self.until, self.now)

    @property
    def period(self) -> Period:
        return Period(since=self.since, until=self.until, project=self.project)

    def by(self, *units: Unit) -> Question:
        """Return the question for a ledger by *units*."""
        return Question(by=units, zone=self.zone, period=self.period)

    def first(self, rows: list[T]) -> list[T]:
        """Return the first *limit* rows."""
        return rows if self.limit is None else rows[: self.limit]


class Evidence(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A record or a session behind a figure, with its log and offset."""

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
    """Return an SQL condition on a record r, and the values of its placeholders."""
    where, values = "TRUE" if with_repeats else IS_FIRST, list[Any]()
    for bound, sign in ((asked.since, ">="), (asked.until, "<")):
        if bound is not None:
            where += f" AND r.at {sign} ?"
            values.append(microseconds(bound))
    if asked.project is not None:
        projects = projects_in(index.db, asked.project)
        where += f" AND r.session IN (SELECT id FROM sessions WHERE project IN {projects})"  # noqa: S608 - No user input.
    return where, values


def is_within(asked: Scope, at: int | None) -> bool:
    """Return whether an instant, in microseconds, is in the period."""
    since, until = microseconds(asked.since), microseconds(asked.until)
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def first_text(asked: Scope) -> int:
    """Return the smallest id that a text of the period can have; ids start with the second."""
    since = microseconds(asked.since)
    return _ALL_OF_TIME if since is None else (since // _US) << SECOND_BITS


def names_of(index: Index) -> dict[int, str]:
    """Return every name by its id."""
    return dict(index.db.execute("SELECT id, name FROM names"))


def sessions_of(index: Index) -> dict[int, tuple[str, str | None]]:
    """Return the id and the project of every session, by its number in the index."""
    rows = index.db.execute(
        "SELECT s.id, s.session, p.path FROM sessions AS s LEFT JOIN projects AS p"
        " ON p.id = s.project"
    )
    return {number: (session, project) for number, session, project in rows}


def with_main_log(index: Index) -> set[str]:
    """Return the sessions that have or had a main log, as lists of sessions do.

    Others are known only from logs of subagents or from records in other logs.
    """
    rows = index.db.execute("SELECT session FROM sessions WHERE NOT is_sidechain AND path <> ''")
    return {session for (session,) in rows}


class Places:
    """Finds the session, project, log and offset of records."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._sessions = sessions_of(index)

    def session(self, number: int | None) -> tuple[str | None, str | None]:
        """Return the session and the project of a record's session number."""
        return self._sessions.get(number or 0, (None, None))

    def behind(
        self, record: int, number: int | None, at: int | None, what: str, **figures: Any
    ) -> Evidence:
        """Return a record as evidence."""
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


NOTHING: Final = sum_of(())
"""The figures of no usage."""
_FIGURES: Final = tuple(field.name for field in structs.fields(Figures))


def figures_in(row: Figures | None) -> dict[str, Any]:
    """Return only the figures of a row."""
    return {name: getattr(row or NOTHING, name) for name in _FIGURES}


def part_of(part: int, whole: int) -> float | None:
    """Return the ratio to four decimals; None if *whole* is 0."""
    return round(part / whole, 4) if whole else None
