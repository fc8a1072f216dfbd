"""What the doctor's checks share: the examined homes, and findings with the commands that fix them.

A CheckContext is a snapshot of some homes: their logs, the index if there is one, the running
sessions. What several checks need is computed here once. Nothing is changed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from turnlog.formats import Home, LogFile, Problem, find_everywhere
from turnlog.formats.home_files import log_in
from turnlog.health.survey import Planned, SessionReview, Surveyed, look_closer, plans_of, survey
from turnlog.index.connection import Index
from turnlog.keep.copies.shortfall import Shortfall, Shortfalls
from turnlog.keep.restore.restorable import mirrors
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.state import Running, running_sessions
from turnlog.storage.sources import LINE_CAP

EXAMPLES: Final = 100
"""The most examples of a finding; further ones are only counted."""
_SHORT: Final = 8
_FRESH_NS: Final = 60 * 1_000_000_000
_REMEDIES: Final = ("repair", "recover", "delete")

Kind = Literal[
    "damage", "unreadable", "empty", "large", "crashed", "parents", "reach", "calls", "orphans",
    "todos", "permissions", "index", "cleanup", "losses", "space", "shortened",
    "listed", "forks",
]  # fmt: skip


class Urgency(StrEnum):
    """How urgent a finding is."""

    ACT = "act"  # Data is lost, or will be.
    LOOK = "look"  # Something is wrong but does not get worse.
    NOTE = "note"  # Nothing is wrong.


class Example(Struct, kw_only=True, frozen=True):
    """One case of a finding: a session, or a file or directory."""

    detail: str
    path: str
    session: str | None = None
    title: str | None = None
    command: str | None = None
    """The command that fixes this case, if the finding's command does not fix all."""


class DoctorFinding(Struct, kw_only=True, frozen=True):
    """A problem, with examples and the command that fixes it."""

    kind: Kind
    urgency: Urgency
    message: str
    count: int
    """The number of cases, including examples."""
    examples: list[Example] = []
    """The worst first."""
    unlisted: int = 0
    command: str
    """The command that fixes all cases, or the first example."""
    mends_all: bool = True
    """Whether the command fixes every case; otherwise each example has its own."""


class CheckContext:
    """The homes to check. *named* are those that the user gave by name.

    *elsewhere* are other homes that may have sessions whose files are in these.
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
        """turnlog's own home, which need not exist."""
        self.now = now
        self.index = index
        self.no_index = no_index
        """Why there is no index."""
        self.cap = cap
        self.progress = progress
        """Called with the size of each log that was examined."""
        self.elsewhere = tuple(elsewhere)
        self._named = tuple(named)
        self.problems: list[Problem] = []
        """What could not be read while searching for logs."""

    @cached_property
    def everything(self) -> list[LogFile]:
        """The logs of the homes, and kept copies of deleted ones."""
        return list(find_everywhere(self.homes, problems=self.problems))

    @cached_property
    def logs(self) -> list[LogFile]:
        """The logs in the homes."""
        return [log for log in self.everything if not log.is_kept]

    @cached_property
    def surveyed(self) -> list[Surveyed]:
        """Every log, and whether it should be examined."""
        return survey(self.logs, self.index)

    @cached_property
    def shortfalls(self) -> dict[str, Shortfall]:
        """What logs lack compared with their kept copies, by path."""
        compare = Shortfalls()
        found = {
            os.fspath(seen.log.path): compare.of(seen.log, is_suspect=seen.is_damaged)
            for seen in self.surveyed
        }
        return {path: shortfall for path, shortfall in found.items() if shortfall is not None}

    @cached_property
    def plans(self) -> list[Planned]:
        """What a repair would do to the logs that may need one."""
        return list(plans_of(self.surveyed, self.is_live, self.progress, self.cap))

    @cached_property
    def looks(self) -> list[SessionReview]:
        """The results of examining suspect sessions."""
        return list(look_closer(self.surveyed, self.is_live, self.progress))

    @cached_property
    def restorable(self) -> dict[str, str]:
        """What to restore for the log of a session or subagent: a session, by the log's id."""
        trash = Trash(self.own).entries()
        found = {session: session for each in trash for session in each.entry.sessions}
        for mirror in mirrors(self.homes):
            for name, session in mirror.owners.items():
                if (log := log_in(name)) is not None:
                    found[log[1].id] = session
        return found

    @property
    def in_use(self) -> list[Surveyed]:
        """Logs that seem damaged but may only be incomplete, since they are being written."""
        if self.index is None:
            return []  # Without one, every log seems damaged until it is read.
        return [seen for seen in self.surveyed if seen.is_damaged and self.is_live(seen.log)]

    @property
    def to_read_bytes(self) -> int:
        """The bytes to read for all examinations."""
        return sum(seen.size_bytes * (seen.is_damaged + seen.is_tangled) for seen in self.surveyed)

    @cached_property
    def sessions(self) -> dict[tuple[str, str], list[LogFile]]:
        """The logs of each session, by home and id, its main log first."""
        sessions: dict[tuple[str, str], list[LogFile]] = {}
        for log in sorted(self.logs, key=lambda log: (log.kind != "session", str(log.path))):
            if log.session_id is not None:
                sessions.setdefault((os.fspath(log.home), log.session_id), []).append(log)
        return sessions

    @cached_property
    def running(self) -> dict[str, Running]:
        """Claude Code's process files, by session."""
        return running_sessions(self.homes)

    @cached_property
    def titles(self) -> dict[tuple[str, str], str]:
        """The titles of sessions in the index, by home and id."""
        if self.index is None:
            return {}
        rows = self.index.db.execute(
            "SELECT home, session, title FROM sessions WHERE title IS NOT NULL"
        )
        return {(home, session): title for home, session, title in rows}

    def is_live(self, log: LogFile) -> bool:
        """Return whether *log* may be in the middle of being written."""
        running = self.running.get(log.session_id or "")
        if running is not None and running.is_alive:
            return True
        try:
            age_ns = int(self.now.timestamp() * 1e9) - os.stat(log.path).st_mtime_ns
        except OSError:
            return True  # Deleted: nothing to report.
        return -_FRESH_NS < age_ns < _FRESH_NS

    def command(self, *words: str, homes: Sequence[str] = ()) -> str:
        """Return a turnlog command line for the named homes, or for *homes*."""
        named = (word for home in homes or self._named for word in ("--home", home))
        return shlex.join(("turnlog", *words, *named))

    @staticmethod
    def shell(*words: str) -> str:
        """Return the command line of another program."""
        return shlex.join(words)

    def name_of(self, log: LogFile) -> str:
        """Return the argument that names a log: a short session id, or its path."""
        if log.session_id is None:
            return os.fspath(log.path)
        return self._short_ids.get(log.session_id, log.session_id)

    def example(self, log: LogFile, detail: str, *words: str) -> Example:
        """Return an example for one log; *words* are the command that fixes it, without "turnlog".

        If a kept copy holds more than the log, restoring it comes before any other fix.
        """
        if words and words[0] in _REMEDIES and os.fspath(log.path) in self.shortfalls:
            words = ("restore", "--force")
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
        """The shortest unique prefix of each id, with at least eight characters."""
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
    """Return a list with the finding for *examples*, the worst first, or an empty list.

    Without a *command* for all of them, the command of the first is used.
    """
    cases = list(examples)
    if not cases:
        return []
    return [
        DoctorFinding(
            kind=kind,
            urgency=urgency,
            message=message,
            count=len(cases),
            examples=cases[:EXAMPLES],
            unlisted=max(0, len(cases) - EXAMPLES),
            command=command or cases[0].command or "",
            mends_all=bool(command) or len(cases) == 1,
        )
    ]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* with its noun in the right number."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
