"""The context of a tool's call: homes, scope, rules for secrets, time limit, and the index.

The scope is the directory of the project that the server was started for; None means all projects,
which only the owner can choose. Tools get directories from `ToolContext.project` and sessions from
`ToolContext.session`, which raise NotFound for anything outside the scope.

The index that a tool gets stops at the deadline, skips records that are too large, and masks
secrets. Lines are masked whole as they are read, because half a secret is not recognized. Text
that a pattern or a search is matched against is masked too; otherwise a secret could be guessed
letter by letter.

The owner's settings are in config.toml; no argument of a tool can widen them:

    [mcp]
    scope = "all"               # all projects, not only the one the server was started in
    answer_bytes = 24000        # largest answer
    seconds = 20                # time limit of an answer
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

from turnlog.api.background_refresh import BackgroundRefresh
from turnlog.api.homes import Home, check_session_id, expand_path, is_windows_path, is_within
from turnlog.api.index import Index, open_fresh
from turnlog.api.query import projects_in
from turnlog.api.sessions.reading import running_sessions
from turnlog.config import SettingProblem
from turnlog.errors import AmbiguousSession, NotFound, UsageError
from turnlog.records.dates import MachineZone, moment
from turnlog.redact import NO_RULES, Rules, redact, redact_line

Scope: TypeAlias = Literal["project", "all"]
LEAST_BYTES: Final = 4_000
MOST_BYTES: Final = 200_000
MOST_SECONDS: Final = 300


class Settings(Struct, frozen=True, kw_only=True):
    """The owner's settings."""

    scope: Scope = "project"
    answer_bytes: int = 24_000
    """The largest answer, with its frame."""
    seconds: float = 20
    """The time limit of an answer."""


def settings_from(table: Mapping[str, Any]) -> tuple[Settings, tuple[SettingProblem, ...]]:
    """Parse the ``[mcp]`` table of config.toml; invalid settings are returned as problems."""
    settings, problems = Settings(), []
    for name, value in table.items():
        reason = _reason(name, value)
        if reason is None:
            settings = structs.replace(settings, **{name: value})
        else:
            problems.append(SettingProblem(f"mcp.{name}", reason))
    return settings, tuple(problems)


def _reason(name: str, value: Any) -> str | None:
    """Return why a setting is invalid, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "scope":
            return None if value in ("project", "all") else f'{value!r} is not "project" or "all"'
        case "answer_bytes":
            if isinstance(value, int) and is_number and LEAST_BYTES <= value <= MOST_BYTES:
                return None
            return f"{value!r} is not a number of bytes from {LEAST_BYTES:,} to {MOST_BYTES:,}"
        case "seconds":
            if is_number and 1 <= value <= MOST_SECONDS:
                return None
            return f"{value!r} is not a number of seconds from 1 to {MOST_SECONDS}"
        case _:
            return f"unknown setting; use one of {', '.join(Settings.__struct_fields__)}"


LARGEST_RECORD_BYTES: Final = 8 * 1024 * 1024
"""Larger records are skipped: parsed, they need several times as much memory."""
LATEST: Final = "latest"
_WIDEN: Final = "this server is limited to one project; its owner can start it with --project all"
_SOME: Final = 5
_STEPS_OF_SQLITE: Final = 20_000


class Deadline:
    """The time limit of a call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The remaining seconds."""
        return max(0.0, self._ends - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    def check(self) -> None:
        """Raise UsageError after the deadline."""
        if self.is_over:
            raise self.late()

    def late(self) -> UsageError:
        """Return the error for a call that took too long."""
        return UsageError(
            f"no answer within {self.seconds:g} seconds",
            hint="ask for less: one session, a shorter period, or fewer rows",
        )


class BoundedIndex(Index):
    """An index with a time limit that skips large records and masks secrets."""

    is_masked = True

    def __init__(self, plain: Index, deadline: Deadline, rules: Rules) -> None:
        super().__init__(plain.db, plain.refreshed)
        self._deadline = deadline
        self._rules = rules
        self.unread = 0
        """The number of records that were too large."""
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
    """A session in the index, within the scope."""

    number: int
    """Its number in the index."""
    id: str
    home: str
    path: str
    project: str | None
    title: str | None


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The context of tool calls."""

    homes: tuple[Home, ...]
    scope: str | None
    """The directory whose sessions are visible; None for all."""
    rules: Rules = NO_RULES
    settings: Settings = field(default_factory=Settings)
    zone: tzinfo = field(default_factory=MachineZone)
    deadline: Deadline = field(default_factory=lambda: Deadline(Settings().seconds))
    background: BackgroundRefresh | None = None
    """Keeps the index fresh; without it, each call does."""
    parent: int | None = None
    """The process that started the server, which may be an agent with its own session."""

    def for_a_call(self, seconds: float) -> ToolContext:
        """Return the context for one call; its time limit starts now."""
        return replace(self, deadline=Deadline(min(seconds, self.settings.seconds)))

    def now(self) -> datetime:
        return datetime.now(UTC)

    def moment(self, text: str | None) -> datetime | None:
        """Parse a time such as 7d or yesterday."""
        return None if text is None else moment(text, now=self.now(), zone=self.zone)

    def mask(self, text: str) -> str:
        """Return *text* without its secrets; do this before cutting a text."""
        return redact(text, self.rules)

    def asking_sessions(self) -> set[str]:
        """Return the ids of the sessions of the process that started the server."""
        if self.parent is None:
            return set()
        running = running_sessions(self.homes).values()
        return {each.session_id for each in running if each.pid == self.parent}

    def project(self, name: str | None = None) -> str | None:
        """Return the directory *name*, or the scope if None; raise NotFound outside the scope."""
        if name is None:
            return self.scope
        if "\0" in name or not name.strip():
            raise UsageError("a project is a directory", hint="pass its absolute path")
        name = os.path.expanduser(name)
        if self.scope is None:
            if is_windows_path(name):
                return expand_path(name)
            if not os.path.isabs(name):
                raise UsageError(
                    f"{name!r} is not an absolute path", hint="pass the absolute path of a project"
                )
            return os.path.normpath(name)
        wanted = os.path.normpath(os.path.join(self.scope, name))
        if not is_within(wanted, self.scope):
            raise NotFound(f"no project {name!r} here", hint=_WIDEN)
        return wanted

    @contextmanager
    def index(self) -> Iterator[BoundedIndex]:
        """Open the refreshed index until the deadline."""
        if self.background is not None:
            self.background.wait(self.deadline.left)
        plain = open_fresh(self.homes, is_stale_allowed=self.background is not None)
        with BoundedIndex(plain, self.deadline, self.rules) as index:
            try:
                yield index
            except sqlite3.OperationalError:
                self.deadline.check()  # The deadline interrupts SQLite.
                raise

    def session(self, index: Index, text: str, *, but: Collection[str] = ()) -> KnownSession:
        """Return the session whose id starts with *text*, or the ``latest``; never one of *but*."""
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
        matches = [known for row in rows if (known := KnownSession(*row)).id not in but]
        chosen = [each for each in matches if each.id == text] or matches
        if not chosen:
            here = "" if self.scope is None else " in this project"
            hint = "`list_sessions` lists them"
            what = "no sessions yet" if text == LATEST else f"no session {text!r}"
            raise NotFound(
                f"{what}{here}", hint=hint if self.scope is None else f"{hint}; {_WIDEN}"
            )
        ids = dict.fromkeys(each.id for each in chosen)
        if text != LATEST and len(ids) > 1:
            some = ", ".join(list(ids)[:_SOME]) + (", …" if len(ids) > _SOME else "")
            raise AmbiguousSession(
                f"{len(ids)} sessions start with {text}", hint=f"pass more of the id: {some}"
            )
        return chosen[0]
