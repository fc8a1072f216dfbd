"""The desk: what a tool works with. Homes, scope, rules for secrets, the clock, and the index.

The scope is a directory, that of the project for which the server was started; None is everything,
and only the owner of the server can say so. A tool never decides by itself what is within it: it
asks the desk for the directory (`Desk.project`) or the session (`Desk.session`) and hands on what
it gets. What lies outside is not there: nobody learns whether it exists.

An index that a tool gets is read only, stops when the time is up, does not read a record that is
larger than a server should hold, and lets no secret out of a log. Answers show how texts begin, and
a secret that was cut in two is not known any more. So lines are masked where they are read, whole,
before anything is made of them; what a pattern or a search is matched with is masked too, or it
could ask a secret out letter by letter. What the index itself has (titles, names, paths) is masked
on its way out like everything else.

What the owner of a server sets: ``[mcp]`` in config.toml.

    [mcp]
    scope = "all"               # every project, not only the one that the server was started in
    answer_bytes = 24000        # no answer is larger
    seconds = 20                # no answer takes longer

Only the owner sets these: no argument of a tool widens anything. A setting that cannot be read is
reported and changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from turnlog.api.index import Index, open_fresh
from turnlog.api.query import projects_in
from turnlog.config import SettingProblem
from turnlog.errors import AmbiguousSession, NotFound, UsageError
from turnlog.formats import Home, check_session_id
from turnlog.formats.projects import expand_path, is_windows_path, is_within
from turnlog.mcp.background_refresh import BackgroundRefresh
from turnlog.records.dates import MachineZone, moment
from turnlog.redact import NO_RULES, Rules, redact, redact_line
from turnlog.sessions.state import running_sessions

Scope: TypeAlias = Literal["project", "all"]
LEAST_BYTES: Final = 4_000
MOST_BYTES: Final = 200_000
MOST_SECONDS: Final = 300


class Settings(Struct, frozen=True, kw_only=True):
    """The settings that hold."""

    scope: Scope = "project"
    answer_bytes: int = 24_000
    """No answer is larger, its frame included."""
    seconds: float = 20
    """No answer takes longer."""


def settings_from(said: Mapping[str, Any]) -> tuple[Settings, tuple[SettingProblem, ...]]:
    """Read the plain ``[mcp]`` table of a parsed config.toml."""
    settings, problems = Settings(), []
    for name, value in said.items():
        reason = _reason(name, value)
        if reason is None:
            settings = structs.replace(settings, **{name: value})
        else:
            problems.append(SettingProblem(f"mcp.{name}", reason))
    return settings, tuple(problems)


def _reason(name: str, value: Any) -> str | None:
    """Return why a setting cannot be used; None if it can."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "scope":
            return None if value in ("project", "all") else f'{value!r} is not "project" or "all"'
        case "answer_bytes":
            if isinstance(value, int) and is_number and LEAST_BYTES <= value <= MOST_BYTES:
                return None
            return f"{value!r} is no number of bytes from {LEAST_BYTES:,} to {MOST_BYTES:,}"
        case "seconds":
            if is_number and 1 <= value <= MOST_SECONDS:
                return None
            return f"{value!r} is no number of seconds from 1 to {MOST_SECONDS}"
        case _:
            return f"no such setting; there are {', '.join(Settings.__struct_fields__)}"


LARGEST_RECORD_BYTES: Final = 8 * 1024 * 1024
"""A longer record is not read: in memory it takes several times as much."""
LATEST: Final = "latest"
_WIDEN: Final = "this server tells of one project; its owner can start it with --all-projects"
_SOME: Final = 5
_STEPS_OF_SQLITE: Final = 20_000


class Deadline:
    """When an answer must be there."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """How many seconds there are."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    def check(self) -> None:
        """Raise if the time is up."""
        if self.is_over:
            raise self.late()

    def late(self) -> UsageError:
        """Return the error that says so."""
        return UsageError(
            f"no answer within {self.seconds:g} seconds",
            hint="ask for less: one session, a shorter period, or fewer rows",
        )


class BoundedIndex(Index):
    """An index that stops in time, reads no record that is too large, and masks what it reads."""

    is_masked = True

    def __init__(self, plain: Index, deadline: Deadline, rules: Rules) -> None:
        super().__init__(plain.db, plain.refreshed)
        self._deadline = deadline
        self._rules = rules
        self.unread = 0
        """How many records were too large to be read."""
        self.db.set_progress_handler(lambda: deadline.is_over, _STEPS_OF_SQLITE)

    def shown(self, text: str) -> str:
        return redact(text, self._rules)

    def raw(self, record: int, length: int | None = None) -> bytes | None:
        self._deadline.check()
        length = self.length(record) if length is None else length
        if length is None:
            return None
        if length > LARGEST_RECORD_BYTES:
            self.unread += 1
            return None
        data = super().raw(record, length)
        return None if data is None else redact_line(data, self._rules)


class KnownSession(NamedTuple):
    """A session that the index knows, within the scope."""

    number: int
    """As `records.session` has it."""
    id: str
    home: str
    path: str
    project: str | None
    title: str | None


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """What a tool works with."""

    homes: tuple[Home, ...]
    scope: str | None
    """The directory of which sessions may be told; None: all."""
    rules: Rules = NO_RULES
    settings: Settings = field(default_factory=Settings)
    zone: tzinfo = field(default_factory=MachineZone)
    deadline: Deadline = field(default_factory=lambda: Deadline(Settings().seconds))
    reading_on: BackgroundRefresh | None = None
    """Who keeps the index fresh; None: whoever asks."""
    parent: int | None = None
    """The process that started the server: an agent, perhaps, with a session of its own."""
    prefix: str = ""
    """Put before the name of every tool."""

    def for_a_call(self, seconds: float) -> ToolContext:
        """Return the desk for one call, whose time begins now."""
        return replace(self, deadline=Deadline(min(seconds, self.settings.seconds)))

    def now(self) -> datetime:
        return datetime.now(UTC)

    def moment(self, text: str | None) -> datetime | None:
        """Read a time as people say it, such as 7d or yesterday."""
        return None if text is None else moment(text, now=self.now(), zone=self.zone)

    def mask(self, text: str) -> str:
        """Return *text* without its secrets. Whoever cuts a text himself masks it first."""
        return redact(text, self.rules)

    def asking_sessions(self) -> set[str]:
        """Return the ids of the sessions that the process which started the server is running."""
        if self.parent is None:
            return set()
        running = running_sessions(self.homes).values()
        return {each.session_id for each in running if each.pid == self.parent}

    def project(self, asked: str | None = None) -> str | None:
        """Give the directory to ask for: *asked* if it is within the scope, else the scope itself.

        A relative path is taken from the scope. What lies outside is refused.
        """
        if asked is None:
            return self.scope
        if "\0" in asked or not asked.strip():
            raise UsageError("a project is a directory", hint="give its whole path")
        asked = os.path.expanduser(asked)
        if self.scope is None:
            if is_windows_path(asked):
                return expand_path(asked)
            if not os.path.isabs(asked):
                raise UsageError(
                    f"{asked!r} is no whole path", hint="projects are known by their whole path"
                )
            return os.path.normpath(asked)
        wanted = os.path.normpath(os.path.join(self.scope, asked))
        if not is_within(wanted, self.scope):
            raise NotFound(f"there is no project {asked!r} here", hint=_WIDEN)
        return wanted

    @contextmanager
    def index(self) -> Iterator[BoundedIndex]:
        """Open the index, fresh, for as long as the call may take."""
        if self.reading_on is not None:
            self.reading_on.wait(self.deadline)
        plain = open_fresh(self.homes, is_stale_allowed=self.reading_on is not None)
        with BoundedIndex(plain, self.deadline, self.rules) as index:
            try:
                yield index
            except sqlite3.OperationalError:
                self.deadline.check()  # That is why SQLite stopped, if the time is up.
                raise

    def session(self, index: Index, text: str, *, but: Collection[str] = ()) -> KnownSession:
        """Return the session whose id begins with *text*, or the ``latest``; of the scope only.

        Those with an id in *but* are not meant.
        """
        begins = "" if text == LATEST else check_session_id(text)
        which = "s.path <> '' AND s.gone_at IS NULL"  # As `list_sessions` lists them.
        if begins:
            which = "substr(s.session, 1, length(?1)) = ?1"
        if self.scope is not None:
            which += f" AND s.project IN {projects_in(index.db, self.scope)}"
        rows = index.db.execute(
            "SELECT s.id, s.session, s.home, s.path, p.path, s.title FROM sessions AS s"  # noqa: S608 - Ours.
            f" LEFT JOIN projects AS p ON p.id = s.project WHERE NOT s.is_sidechain AND {which}"
            " ORDER BY s.last_active_at DESC, s.session, s.id LIMIT 1000",
            (begins,) if begins else (),
        ).fetchall()
        found = [known for row in rows if (known := KnownSession(*row)).id not in but]
        exact = [each for each in found if each.id == text]
        chosen = exact or found
        if not chosen:
            here = "" if self.scope is None else " in this project"
            hint = "`list_sessions` lists them"
            what = "no session yet" if text == LATEST else f"no session {text!r}"
            raise NotFound(
                f"there is {what}{here}", hint=hint if self.scope is None else f"{hint}; {_WIDEN}"
            )
        ids = dict.fromkeys(each.id for each in chosen)
        if text != LATEST and len(ids) > 1:
            some = ", ".join(list(ids)[:_SOME]) + (", …" if len(ids) > _SOME else "")
            raise AmbiguousSession(
                f"{len(ids)} sessions begin with {text}", hint=f"say more of the id: {some}"
            )
        return chosen[0]
