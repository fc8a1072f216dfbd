"""Side files: a home's files about a session besides its logs.

Also locates a home's prompts, plans and running processes, and names what belongs to the agent
program alone (settings, plugins, skills, caches) and must be left alone. Only existing files are
listed, sorted; no file of one session is attributed to another, and nothing on disk raises.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.formats.homes import Home
from turnlog.formats.ids import check_session_id
from turnlog.formats.log_file import AGENT_PREFIX
from turnlog.formats.walk import DirectoryWalk, Problem

PROGRAMS_OWN = frozenset(
    {
        "CLAUDE.md",
        "agents",
        "cache",
        "commands",
        "config.json",
        "debug",
        "ide",
        "plugins",
        "settings.json",
        "settings.local.json",
        "shell-snapshots",
        "skills",
        "statsig",
    }
)
"""Names in a home that belong to the agent program alone. turnlog never writes them."""


class SideFiles(Struct, frozen=True):
    """The side files of one session. Missing directories are None."""

    session_id: str
    todos: tuple[Path, ...]
    tasks: Path | None
    file_history: Path | None
    session_env: Path | None
    tool_results: tuple[Path, ...]
    subagent_metas: tuple[Path, ...]
    flat_metas: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them, files and directories."""
        directories = (self.tasks, self.file_history, self.session_env)
        return (
            *self.todos,
            *(path for path in directories if path is not None),
            *self.tool_results,
            *self.subagent_metas,
            *self.flat_metas,
        )


def side_files(home: Home, session_id: str, *, problems: list[Problem] | None = None) -> SideFiles:
    """Return the side files of the session in *home*, whether or not its log still exists."""
    check_session_id(session_id)
    walk = DirectoryWalk(problems)
    results: list[Path] = []
    metas: list[Path] = []
    for directory in _session_directories(home, session_id, walk):
        results.extend(_files(walk, os.path.join(directory, "tool-results")))
        subagents = _files(walk, os.path.join(directory, "subagents"))
        metas.extend(path for path in subagents if _is_subagent_meta(path.name))
    meta = session_id + ".meta.json"
    return SideFiles(
        session_id=session_id,
        todos=tuple(_todos(home, session_id, walk)),
        tasks=_directory(home, "tasks", session_id),
        file_history=_directory(home, "file-history", session_id),
        session_env=_directory(home, "session-env", session_id),
        tool_results=tuple(results),
        subagent_metas=tuple(metas),
        flat_metas=tuple(
            path for path in (home.path / "sessions" / meta, home.path / meta) if path.is_file()
        ),
    )


def program_files(home: Home, *, problems: list[Problem] | None = None) -> tuple[Path, ...]:
    """Return the agent program's own files: its settings, plugins, skills and caches."""
    items = DirectoryWalk(problems).enter(str(home.path))
    return tuple(Path(item.path) for item in items if item.name in PROGRAMS_OWN)


def history_log(home: Home) -> Path | None:
    """Return the home's log of prompts, if it exists."""
    path = home.path / "history.jsonl"
    return path if os.path.isfile(path) else None


def plans(home: Home, *, problems: list[Problem] | None = None) -> tuple[Path, ...]:
    items = DirectoryWalk(problems).enter(str(home.path / "plans"))
    return tuple(
        Path(item.path) for item in items if item.kind == "file" and item.name.endswith(".md")
    )


def running(home: Home, *, problems: list[Problem] | None = None) -> tuple[Path, ...]:
    """Return the PID.json files of processes that are running or were killed, by pid.

    The name's stem is the pid. Whether the process is alive is not checked here.
    """
    items = DirectoryWalk(problems).enter(str(home.path / "sessions"))
    paths = [Path(item.path) for item in items if item.kind == "file" and _is_pid_file(item.name)]
    return tuple(sorted(paths, key=lambda path: (len(path.stem), path.stem)))


def _session_directories(home: Home, session_id: str, walk: DirectoryWalk) -> Iterator[str]:
    """Return the possible directories of the session: one in each project."""
    yield str(home.path / session_id)  # A copied project directory given as a home.
    for item in walk.enter(str(home.path / "projects")):
        if item.kind == "directory" and not item.name.startswith("."):
            yield os.path.join(item.path, session_id)


def _files(walk: DirectoryWalk, directory: str) -> Iterator[Path]:
    return (Path(item.path) for item in walk.files_beneath(directory))


def _todos(home: Home, session_id: str, walk: DirectoryWalk) -> Iterator[Path]:
    prefix = session_id + "-agent-"
    for item in walk.enter(str(home.path / "todos")):
        if item.kind != "file" or not item.name.endswith(".json"):
            continue
        agent_id = item.name.removesuffix(".json").removeprefix(prefix)
        if not item.name.startswith(prefix) or not agent_id:
            continue
        # "a-agent-b-agent-c" may be subagent c of a session called "a-agent-b", so it is skipped.
        # The main agent has the session's id, which may itself contain the separator.
        if "-agent-" in agent_id and agent_id != session_id:
            continue
        yield Path(item.path)


def _directory(home: Home, kind: str, session_id: str) -> Path | None:
    path = home.path / kind / session_id
    return path if os.path.isdir(path) else None


def _is_subagent_meta(name: str) -> bool:
    return name.startswith(AGENT_PREFIX) and name.endswith(".meta.json")


def _is_pid_file(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix == ".json" and stem.isascii() and stem.isdigit()
