"""What differs between the ways of keeping sessions: the base class of every format.

A format is a folder of this package with a subclass of `Format`, and an entry in ``supported``.
All other code asks the format of a log (`LogFile.format`) instead of comparing names, so a new
agent needs no change elsewhere. A home may hold logs of several formats.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from msgspec import Struct

from turnlog.config import SettingProblem
from turnlog.errors import UsageError
from turnlog.formats.homes import Home
from turnlog.formats.ids import is_session_id, is_uuid
from turnlog.formats.log_file import LayoutName, LogFile, LogName, read_name

if TYPE_CHECKING:
    from turnlog.formats.settings_changes import Step
    from turnlog.formats.walk import Item, Problem

HOME = "home"
"""The role of a home's own directory."""


class Place(NamedTuple):
    """A directory that may hold logs of *format*, or directories with logs.

    *role* is the format's own name for directories of this kind, apart from HOME.
    """

    format: Format
    role: str
    project_key: str | None = None
    session_id: str | None = None
    has_logs: bool = True


class ProcessFile(NamedTuple):
    """What an agent's file says about one of its processes, which may be gone by now."""

    path: Path
    session_id: str
    pid: int
    started: str | None = None
    """When the process started, as the system counts; None if unknown."""
    status: str | None = None
    status_at: dt.datetime | None = None
    waiting_for: str | None = None
    cwd: str | None = None


class InheritedPart(NamedTuple):
    """The beginning of another session's log that a session continues."""

    log: LogFile
    end: int
    """The offset after its last record."""


class CleanupPeriod(Struct, kw_only=True, frozen=True):
    """After how many days without a change a home's sessions are deleted."""

    home: str
    days: int
    """The shortest period that may apply."""
    where: str | None = None
    """The settings file it comes from; None for the default."""
    problems: list[SettingProblem] = []
    """Why a different number may apply."""


class SettingsEntry(Struct, frozen=True):
    """An entry in an agent's settings that starts turnlog."""

    path: str
    """The settings file."""
    key: str
    """The setting, such as ``statusLine``."""
    remove: tuple[str, ...] = ()
    """The agent's own command that removes it, if there is one."""
    directory: str = ""
    """Where to run this command; "" for anywhere."""


class ListMismatch(NamedTuple):
    """A session that is in an agent's own list but not among its logs, or the other way round."""

    session_id: str
    path: Path
    """Its log, or the list that it is in."""
    detail: str
    has_log: bool
    command: str = ""
    """What to run to have it listed again."""


class LogBase(NamedTuple):
    """The beginning of another session's log that a log continues without repeating it."""

    session_id: str
    end_offset: int
    end_ordinal: int
    """The number of the first record after it."""


class Format:
    """One way to keep sessions. The defaults are those of a format that has nothing special."""

    name: ClassVar[LayoutName]
    dialect: ClassVar[str]
    """How new lines are spelled: a name of ``records.dialects``. Logs may mix dialects."""
    agent: ClassVar[str | None] = None
    """The agent that writes it; None if it is written by turnlog alone."""
    program: ClassVar[str | None] = None
    """The agent's command."""
    home_variable: ClassVar[str | None] = None
    """The environment variable that names the agent's home."""

    may_rewrite: ClassVar[bool] = True
    """Whether a log may be replaced by another, or appended to by a repair."""
    why_not_rewritten: ClassVar[str] = "refers to its records by offset"
    """What the agent does with its logs that forbids it."""
    shares_logs: ClassVar[bool] = False
    """Whether several sessions write to one log, each day's."""
    has_registry: ClassVar[bool] = False
    """Whether each session has a metadata file, and the store an index and archives of its own."""

    kept_directories: ClassVar[frozenset[str]] = frozenset()
    """The directories of a home whose files are kept. Nothing else in a home is ever written."""
    project_directory: ClassVar[str | None] = None
    """The one of them that has a directory for each project, with its logs."""
    side_directories: ClassVar[frozenset[str]] = frozenset()
    """Those of them that have side files of sessions."""
    session_directories: ClassVar[Sequence[str]] = ()
    """Those of them that have one directory for each session."""
    kept_files: ClassVar[frozenset[str]] = frozenset()
    """Files of a home's own directory that are kept."""
    program_files: ClassVar[frozenset[str]] = frozenset()
    """Names in a home that belong to the agent alone. turnlog never writes them."""
    text_files: ClassVar[Mapping[str, str]] = {}
    """Files of a home with text, besides logs: the pattern of their names, such as "plans/*.md".

    The kinds are "prompts", "plan", "todos" and "task".
    """
    temporary_files: ClassVar[re.Pattern[str] | None] = None
    """Names of files about running processes, which are not kept."""
    top_role: ClassVar[str | None] = None
    """The role of a home that has logs in its own directory."""

    # -- finding logs

    def is_home(self, items: Iterable[Item]) -> bool:
        """Return whether a directory with these entries is certainly a home of this format."""
        return False

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        """Return the directories in *place* to search, by name; *items* are all its entries."""
        return {}

    def log_name(self, place: Place, name: str) -> LogName | None:
        """Parse the name of a file in *place*; None if it is not a log of this format."""
        return None

    def log_at(self, place: Place, item: Item) -> LogName | None:
        """Return what *item* is; override it if a name does not say whether it is a subagent's."""
        return self.log_name(place, item.name)

    def inherited(self, log: LogFile) -> Sequence[InheritedPart]:
        """Return the parts of other logs that *log* continues, in reading order."""
        return ()

    def own_start(self, path: str | os.PathLike[str]) -> int:
        """Return where a log's own records begin, after copies of another session's.

        Its first record is always its own.
        """
        return 0

    @property
    def log_directories(self) -> frozenset[str]:
        """The directories of a home that may hold logs, or directories with logs."""
        return frozenset(self.places(Place(self, HOME), ()))

    def refuse_rewriting(self, path: str | os.PathLike[str]) -> None:
        """Raise UsageError if the log at *path* must not be rewritten."""
        if not self.may_rewrite:
            raise UsageError(
                f"{os.fspath(path)} must not be rewritten:"
                f" {self.agent or self.name} {self.why_not_rewritten}",
                hint="nothing was changed; records that are not damaged can still be read",
            )

    # -- new logs

    def accepts_id(self, session_id: str) -> bool:
        """Return whether a session copied from another format can keep this id."""
        return True

    def project_name(self, directory: str, *, is_here: bool = True) -> str:
        """Return the name of the directory that has the logs of a project.

        A path from a log, or of another system, is not *here*: it is used as it is.
        """
        return ""

    def is_project_name(self, name: str, directory: str) -> bool:
        """Return whether *name* is that of the project at *directory*, a path from a log."""
        return name == self.project_name(directory, is_here=False)

    def new_log(
        self, root: str | os.PathLike[str], project: str | os.PathLike[str], session_id: str
    ) -> Path:
        """Return the path of a new session's main log under *root*."""
        raise UsageError(f"turnlog creates no {self.name} sessions", hint="name another layout")

    def day_log(
        self, root: str | os.PathLike[str], project: str | os.PathLike[str], day: dt.date
    ) -> Path:
        """Return the path of a project's log for one UTC day, if the format shares logs."""
        raise NotImplementedError

    # -- other files of a home

    def owner_of(self, name: str) -> str | None:
        """Return the id of the session that the file *name* of a home belongs to, or None."""
        return None

    def owner_at(self, name: str, path: str) -> str | None:
        """Return the same for the file at *path*; override it if the name does not tell."""
        return self.owner_of(name)

    def kept_at_top(self, items: Sequence[Item]) -> list[Item]:
        """Return the entries to keep of a home that has logs in its own directory."""
        return []

    def todo_owners(self, name: str) -> list[tuple[str, str]]:
        """Return the ids of the session and agent that the todos in the file *name* may be of.

        There are several if an id contains what separates the two.
        """
        return []

    def file_history(self, home: Home, session_id: str) -> Path | None:
        """Return the directory with versions of the files that a session edited."""
        return None

    # -- the agent

    def processes(self, home: Home, problems: list[Problem] | None) -> Iterable[ProcessFile]:
        """Return the processes that run a session of *home*, or did when they were killed."""
        return ()

    def cleanup_period(self, home: Home) -> CleanupPeriod | None:
        """Return when the agent deletes old sessions of *home*; None if it does not."""
        return None

    def is_cleaned(self, log: LogFile) -> bool:
        """Return whether the agent's cleanup deletes *log* by its mtime."""
        return False

    def hook_step(
        self, home: Home, program: Sequence[str], environ: Mapping[str, str]
    ) -> Step | None:
        """Return the step that runs *program* when a session of *home* ends; None without hooks."""
        return None

    def unhook_step(self, home: Home) -> Step | None:
        """Return the step that removes this hook."""
        return None

    def settings_entries(self, home: Home) -> Iterator[SettingsEntry]:
        """Yield the other entries for turnlog in the agent's settings."""
        return iter(())

    def status_line_step(
        self, home: Home, program: Sequence[str], environ: Mapping[str, str]
    ) -> Step | None:
        """Return the step that makes *program* print the status line; None if there is none."""
        return None

    def remove_status_line_step(self, home: Home) -> Step | None:
        """Return the step that removes this status line."""
        return None

    def ended_session(self, data: bytes) -> tuple[str, Home | None] | None:
        """Return the session and home in a hook's input; None if it is not this agent's."""
        return None

    def own_home(self) -> str | None:
        """Return the home that the agent itself uses, started from here."""
        return None

    def is_filed_under(self, log: LogFile, directory: str) -> bool:
        """Return whether the agent finds *log* when it is started in *directory*."""
        return True

    def is_found_at(self, path: Path, expected: Path | None) -> bool:
        """Return whether the agent finds the log at *path*; it would put a new one at *expected*.

        *expected* is None if no log could be there.
        """
        return expected is not None and os.path.realpath(path) == os.path.realpath(expected)

    def resume_command(self, session_id: str) -> list[str] | None:
        """Return the command that continues a session; None if there is none."""
        return None

    def list_mismatches(self, home: Home, logs: Iterable[LogFile]) -> Iterable[ListMismatch]:
        """Return how the agent's own list of sessions differs from *logs*, those of *home*."""
        return ()

    def base_of(self, path: Path) -> LogBase | None:
        """Return the part of another session's log that the log at *path* continues, or None."""
        return None

    def base_problem(self, base: LogBase, path: Path) -> str | None:
        """Return why *base* is not the beginning of the log at *path* any more; None if it is."""
        return None


def refuse_rewriting(logs: Iterable[LogFile]) -> None:
    """Raise UsageError if the format of one of *logs* forbids to rewrite it."""
    for log in logs:
        log.format.refuse_rewriting(log.path)


_SESSION, _SUBAGENTS = "session", "subagents"
_IN_SESSION = ("blobs", "opaque", "subagents", "tool-results")


class LogPerSession(Format):
    """A format with one log for each session, ``ID.jsonl``, and a directory ``ID`` next to it.

    The directory has the logs of the session's subagents, and other files of the session.
    """

    def session_place(self, session_id: str, project_key: str | None = None) -> Place:
        """Return the directory of a session as a place."""
        return Place(self, _SESSION, project_key, session_id, has_logs=False)

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        inner = place._replace(role=_SUBAGENTS, has_logs=True)
        if place.role == _SESSION:
            return {"subagents": inner}
        # Workflows nest their subagents' logs in directories of their own.
        return {item.name: inner for item in items if item.kind != "file"}

    def log_name(self, place: Place, name: str) -> LogName | None:
        parsed = read_name(name)
        if parsed is None or parsed.kind == "day":
            return None
        return parsed if place.session_id is None or parsed.kind == "subagent" else None

    def owner_beneath(self, name: str) -> str | None:
        """Return the owner of a file; *name* is relative to the directory of the logs."""
        first, _, inner = name.partition("/")
        if inner:
            # Any name could be an id; a project's memory is in such a directory too.
            is_of_session = is_uuid(first) or inner.partition("/")[0] in _IN_SESSION
            return first if is_of_session and is_session_id(first) else None
        log = read_name(first)
        return log.id if log is not None and log.kind == "session" else None
