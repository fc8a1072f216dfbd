"""What a doctor's check is given, and what it gives: findings, each with the command that mends it.

A check is a function from the patient to findings. The patient is some homes as they are now: their
logs, the index if there is one, who is running. Everything that several checks ask for is gathered
here once. Nothing is changed.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from turnlog.formats import Home, LogFile, Problem, find_everywhere
from turnlog.health.survey import Planned, SessionReview, Surveyed, look_closer, plans_of, survey
from turnlog.index.connection import Index
from turnlog.keep.copies.shortfall import Shortfall, Shortfalls
from turnlog.sessions.owners import is_subagent_log
from turnlog.sessions.state import Running, running_sessions
from turnlog.storage.sources import LINE_CAP

EXAMPLES: Final = 100
"""So many examples of a finding are given; the rest is counted."""
_SHORT: Final = 8
_FRESH_NS: Final = 60 * 1_000_000_000
_REMEDIES: Final = ("repair", "recover", "delete")

Kind = Literal[
    "damage", "unreadable", "empty", "large", "crashed", "parents", "reach", "calls", "orphans",
    "todos", "permissions", "index", "cleanup", "losses", "space", "shortened",
]  # fmt: skip


class Urgency(StrEnum):
    """What a finding asks of a person."""

    ACT = "act"  # Something is lost, or will be, unless something is done.
    LOOK = "look"  # Something is not as it should be; nothing gets worse by waiting.
    NOTE = "note"  # Good to know; all is well.


class Example(Struct, kw_only=True, frozen=True):
    """One case of a finding: a session, or a file or directory."""

    detail: str
    path: str
    session: str | None = None
    title: str | None = None
    command: str | None = None
    """What mends this one alone, where the finding's command does not mend all."""


class DoctorFinding(Struct, kw_only=True, frozen=True):
    """Something that is not as it should be."""

    kind: Kind
    urgency: Urgency
    message: str
    count: int
    """How many cases there are, examples and all."""
    examples: list[Example] = []
    """The worst first."""
    unlisted: int = 0
    command: str
    """What mends it: all of it, or the first example."""
    mends_all: bool = True
    """Whether the command mends every case; else each example has one of its own."""


class CheckContext:
    """Some homes, as they are now. *named* are those that the caller gave by name.

    *elsewhere* are other homes in which there may be sessions whose files lie here.
    """

    def __init__(
        self,
        homes: Sequence[Home],
        *,
        own: Path,
        now: datetime,
        index: Index | None = None,
        no_index: str = "",
        named: Sequence[str] = (),
        elsewhere: Sequence[Home] = (),
        cap: int = LINE_CAP,
        progress: Callable[[int], None] = lambda _size_bytes: None,
    ) -> None:
        self.homes = tuple(homes)
        self.own = own
        """Where turnlog keeps its own things; it need not exist."""
        self.now = now
        self.index = index
        self.no_index = no_index
        """Why there is no index."""
        self.cap = cap
        self.progress = progress
        """Told the bytes of each log that was looked at closely."""
        self.elsewhere = tuple(elsewhere)
        self._named = tuple(named)
        self.problems: list[Problem] = []
        """What could not be read where logs were looked for."""

    @cached_property
    def everything(self) -> list[LogFile]:
        """The logs of the homes, and kept copies of those that are gone."""
        return list(find_everywhere(self.homes, problems=self.problems))

    @cached_property
    def logs(self) -> list[LogFile]:
        """The logs that lie in the homes."""
        return [log for log in self.everything if not log.is_kept]

    @cached_property
    def surveyed(self) -> list[Surveyed]:
        """Every log, and whether it deserves a closer look."""
        return survey(self.logs, self.index)

    @cached_property
    def shortfalls(self) -> dict[str, Shortfall]:
        """What logs lack of what was kept of them, by path."""
        compare = Shortfalls()
        found = {
            os.fspath(each.log.path): compare.of(each.log, is_suspect=each.is_damaged)
            for each in self.surveyed
        }
        return {path: each for path, each in found.items() if each is not None}

    @cached_property
    def plans(self) -> list[Planned]:
        """What a repair would do to the logs that may need one."""
        return list(plans_of(self.surveyed, self.is_live, self.progress, self.cap))

    @cached_property
    def looks(self) -> list[SessionReview]:
        """What a closer look at the suspect sessions found."""
        return list(look_closer(self.surveyed, self.is_live, self.progress))

    @property
    def in_use(self) -> list[Surveyed]:
        """What seems damaged, and may be only unfinished: whoever writes it is at work."""
        if self.index is None:
            return []  # Without one everything seems so, until it is read.
        return [each for each in self.surveyed if each.is_damaged and self.is_live(each.log)]

    @property
    def to_read_bytes(self) -> int:
        """How much is to be read for that."""
        return sum(each.size_bytes * (each.is_damaged + each.is_tangled) for each in self.surveyed)

    @cached_property
    def sessions(self) -> dict[tuple[str, str], list[LogFile]]:
        """The logs of each session, by home and id, its main log first."""
        found: dict[tuple[str, str], list[LogFile]] = {}
        for log in sorted(self.logs, key=lambda log: (log.kind != "session", str(log.path))):
            if log.session_id is not None:
                found.setdefault((os.fspath(log.home), log.session_id), []).append(log)
        return found

    @property
    def session_ids(self) -> set[str]:
        """The sessions that have a main log which is not a subagent's."""
        mains = {each for each, logs in self.sessions.items() if logs[0].kind == "session"}
        if self.index is None:
            mains = {each for each in mains if not is_subagent_log(self.sessions[each][0].path)}
        else:
            query = "SELECT home, session FROM sessions WHERE is_sidechain"
            with suppress(sqlite3.Error):  # That it is broken is a check of its own.
                mains -= set(self.index.db.execute(query).fetchall())
        return {session for _, session in mains}

    @cached_property
    def running(self) -> dict[str, Running]:
        """What Claude Code's processes left about themselves, by session."""
        return running_sessions(self.homes)

    @cached_property
    def titles(self) -> dict[tuple[str, str], str]:
        """What sessions are called, by home and id, as far as the index knows."""
        if self.index is None:
            return {}
        rows = self.index.db.execute(
            "SELECT home, session, title FROM sessions WHERE title IS NOT NULL"
        )
        return {(home, session): title for home, session, title in rows}

    def is_live(self, log: LogFile) -> bool:
        """Return whether somebody may be writing *log*: what looks unfinished there is not."""
        found = self.running.get(log.session_id or "")
        if found is not None and found.is_alive:
            return True
        try:
            age_ns = int(self.now.timestamp() * 1e9) - os.stat(log.path).st_mtime_ns
        except OSError:
            return True  # Gone: nobody's business any more.
        return -_FRESH_NS < age_ns < _FRESH_NS

    def command(self, *words: str, homes: Sequence[str] = ()) -> str:
        """Write a command of turnlog's such that it means these homes, or those given."""
        named = (word for home in homes or self._named for word in ("--home", home))
        return shlex.join(("turnlog", *words, *named))

    @staticmethod
    def shell(*words: str) -> str:
        """Write a command that is not turnlog's."""
        return shlex.join(words)

    def name_of(self, log: LogFile) -> str:
        """Name a log as a command takes it: the beginning of its session's id, or its path."""
        if log.session_id is None:
            return os.fspath(log.path)
        return self._short_ids.get(log.session_id, log.session_id)

    def example(self, log: LogFile, detail: str, *words: str) -> Example:
        """Return an example for one log; *words* are the command that fixes it, without "turnlog".

        Where a kept copy holds more than the log, restoring it comes before any other remedy.
        """
        if words and words[0] in _REMEDIES and os.fspath(log.path) in self.shortfalls:
            words = ("restore", "--replace")
        command = self.command(words[0], self.name_of(log), *words[1:]) if words else None
        title = self.titles.get((os.fspath(log.home), log.session_id or ""))
        return Example(
            detail=detail,
            path=os.fspath(log.path),
            session=log.session_id,
            title=title,
            command=command,
        )

    @cached_property
    def _short_ids(self) -> dict[str, str]:
        """The beginning of each id that no other has, of eight characters if that is enough."""
        short: dict[str, str] = {}
        ids = sorted({session for _, session in self.sessions})
        for before, this, after in zip(("", *ids), ids, (*ids[1:], ""), strict=False):
            shared = max(_shared(before, this), _shared(this, after))
            short[this] = this[: max(_SHORT, shared + 1)]
        return short


def finding(
    kind: Kind,
    urgency: Urgency,
    message: str,
    examples: Iterable[Example],
    command: str = "",
) -> list[DoctorFinding]:
    """Make a finding of its examples, the worst first; none if there are none.

    Without a *command* for all of them, that of the first is given.
    """
    found = list(examples)
    if not found:
        return []
    return [
        DoctorFinding(
            kind=kind,
            urgency=urgency,
            message=message,
            count=len(found),
            examples=found[:EXAMPLES],
            unlisted=max(0, len(found) - EXAMPLES),
            command=command or found[0].command or "",
            mends_all=bool(command) or len(found) == 1,
        )
    ]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
