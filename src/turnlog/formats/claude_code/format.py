"""Claude Code's format: its logs, and what else its home has.

projects/KEY/ID.jsonl                            a session
projects/KEY/ID/subagents/**/agent-ID.jsonl      its subagents
projects/KEY/agent-ID.jsonl                      a subagent of early versions: its records
name the session
todos/ID-agent-ID.json, tasks/ID, file-history/ID, session-env/ID, image-cache/ID
plans/*.md, paste-cache, history.jsonl           of no session
sessions/PID.json                                a running process
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from turnlog.formats.claude_code.paths import claude_log, key_of, project_key, same_project_key
from turnlog.formats.format import (
    HOME,
    CleanupPeriod,
    LogPerSession,
    Place,
    ProcessFile,
    SettingsEntry,
)
from turnlog.formats.homes import Home
from turnlog.formats.ids import is_session_id, is_subagent_id, is_uuid
from turnlog.formats.log_file import LogFile

if TYPE_CHECKING:
    from turnlog.formats.settings_changes import Step
    from turnlog.formats.walk import DirectoryWalk, Item, Problem

_PROJECTS, _PROJECT = "projects", "project"
_SEPARATOR = "-agent-"


class ClaudeCode(LogPerSession):
    """The sessions of Claude Code."""

    name = "claude"
    dialect = "claude"
    agent = "Claude Code"
    program: ClassVar[str] = "claude"
    home_variable: ClassVar[str] = "CLAUDE_CONFIG_DIR"
    session_directories = ("file-history", "image-cache", "session-env", "tasks")
    side_directories = frozenset({"todos", *session_directories})
    kept_directories = frozenset({"paste-cache", "plans", "projects", *side_directories})
    project_directory = "projects"
    kept_files = frozenset({"history.jsonl"})
    text_files: ClassVar[Mapping[str, str]] = {
        "prompts": "history.jsonl",
        "plan": "plans/*.md",
        "todos": "todos/*.json",
        "task": "tasks/*/*.json",
    }
    program_files = frozenset(
        {
            "CLAUDE.md", "agents", "cache", "commands", "config.json", "debug", "ide", "plugins",
            "settings.json", "settings.local.json", "shell-snapshots", "skills", "statsig",
        }
    )  # fmt: skip
    temporary_files: ClassVar[re.Pattern[str]] = re.compile(r"sessions/[0-9]+\.json")

    # -- logs

    def is_home(self, items: Iterable[Item]) -> bool:
        return any(item.name == "projects" and item.kind != "broken" for item in items)

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        if place.role == HOME:
            return {"projects": Place(self, _PROJECTS, has_logs=False)}
        if place.role == _PROJECTS:
            return {item.name: Place(self, _PROJECT, item.name) for item in items}
        if place.role == _PROJECT:
            names = (item.name for item in items if item.kind != "file")
            key = place.project_key
            return {name: self.session_place(name, key) for name in names if is_session_id(name)}
        return super().places(place, items)

    def accepts_id(self, session_id: str) -> bool:
        return is_uuid(session_id)

    def project_name(self, directory: str, *, is_here: bool = True) -> str:
        if is_here:
            return project_key(directory)
        return key_of(unicodedata.normalize("NFC", directory))

    def is_project_name(self, name: str, directory: str) -> bool:
        return same_project_key(name, self.project_name(directory, is_here=False))

    def new_log(
        self, root: str | os.PathLike[str], project: str | os.PathLike[str], session_id: str
    ) -> Path:
        return claude_log(root, project, session_id)

    # -- side files

    def owner_of(self, name: str) -> str | None:
        top, _, rest = name.partition("/")
        if top == "projects":
            return self.owner_beneath(rest.partition("/")[2])
        owner = None
        if top == "todos":
            owners = self.todo_owners(name)
            is_sure = rest.count(_SEPARATOR) == 1
            owner = next((each for each, agent in owners if is_sure or each == agent), None)
        elif top in self.session_directories and "/" in rest:
            owner = rest.partition("/")[0]
        return owner if owner is not None and is_session_id(owner) else None

    def todo_owners(self, name: str) -> list[tuple[str, str]]:
        stem, suffix = os.path.splitext(name.partition("/")[2])
        if suffix != ".json":
            return []
        cuts = (at for at in range(len(stem)) if stem.startswith(_SEPARATOR, at))
        pairs = ((stem[:at], stem[at + len(_SEPARATOR) :]) for at in cuts)
        # "a-agent-b-agent-c" may be subagent c of a session called "a-agent-b". The main agent has
        # the session's id, which may itself contain the separator.
        return [
            (session, agent)
            for session, agent in pairs
            if is_session_id(session)
            and is_subagent_id(agent)
            and (_SEPARATOR not in agent or agent == session)
        ]

    def file_history(self, home: Home, session_id: str) -> Path | None:
        return home.path / "file-history" / session_id

    # -- the program

    def processes(self, home: Home, problems: list[Problem] | None) -> Iterator[ProcessFile]:
        from turnlog.formats.walk import DirectoryWalk, UnreadablePlace, reason_of

        for path in process_files(home, DirectoryWalk(problems)):
            try:
                content: Any = msgspec.json.decode(path.read_bytes())
                session_id, pid = content["sessionId"], int(content.get("pid", path.stem))
            except FileNotFoundError:
                continue  # The program ended just now.
            except OSError as error:
                if problems is not None:
                    problems.append(UnreadablePlace(path, reason_of(error)))
                continue
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if isinstance(session_id, str):
                started = content.get("procStart")
                yield ProcessFile(
                    path,
                    session_id,
                    pid,
                    started=None if started is None else str(started),
                    status=_text(content.get("status")),
                    status_at=_instant(content.get("statusUpdatedAt")),
                    waiting_for=_text(content.get("waitingFor")),
                    cwd=_text(content.get("cwd")),
                )

    def cleanup_period(self, home: Home) -> CleanupPeriod | None:
        from turnlog.formats.claude_code.cleanup import is_cleaned, period_of

        return period_of(home) if is_cleaned(home) else None

    def is_cleaned(self, log: LogFile) -> bool:
        # Directly in a project's directory; a session's own directory goes with its log.
        is_nested = log.kind == "subagent" and log.session_id is not None
        return log.compression is None and not is_nested

    def hook_step(
        self, home: Home, program: Sequence[str], environ: Mapping[str, str]
    ) -> Step | None:
        from turnlog.formats.claude_code.hooks import hook_command, hook_step

        return hook_step(home, hook_command(program, environ)) if _has_settings(home) else None

    def unhook_step(self, home: Home) -> Step | None:
        from turnlog.formats.claude_code.hooks import unhook_step

        return unhook_step(home) if _has_settings(home) else None

    def settings_entries(self, home: Home) -> Iterator[SettingsEntry]:
        from turnlog.formats.claude_code.entries import settings_entries

        return settings_entries(home) if _has_settings(home) else iter(())

    def status_line_step(
        self, home: Home, program: Sequence[str], environ: Mapping[str, str]
    ) -> Step | None:
        from turnlog.formats.claude_code.status_line import status_line_step

        return status_line_step(home, program, environ) if _has_settings(home) else None

    def remove_status_line_step(self, home: Home) -> Step | None:
        from turnlog.formats.claude_code.status_line import remove_status_line_step

        return remove_status_line_step(home) if _has_settings(home) else None

    def ended_session(self, data: bytes) -> tuple[str, Home | None] | None:
        from turnlog.formats.claude_code.hooks import ended_session

        return ended_session(data)

    def own_home(self) -> str:
        # Unlike turnlog, it reads a list of homes as one name.
        setting = os.environ.get(self.home_variable, "")
        return unicodedata.normalize("NFC", setting) if setting else os.path.expanduser("~/.claude")

    def is_filed_under(self, log: LogFile, directory: str) -> bool:
        return log.project_key is None or self.is_project_name(log.project_key, directory)

    def is_found_at(self, path: Path, expected: Path | None) -> bool:
        # Long keys end in a hash that builds make differently; Claude Code looks for both.
        return super().is_found_at(path, expected) or (
            expected is not None
            and path.name == expected.name
            and super().is_found_at(path.parent.parent, expected.parent.parent)
            and same_project_key(path.parent.name, expected.parent.name)
        )

    def resume_command(self, session_id: str) -> list[str]:
        return [self.program, "--resume", session_id]


FORMAT = ClaudeCode()


def _has_settings(home: Home) -> bool:
    """Return whether *home* is Claude Code's own, or could be: only there it reads settings."""
    path = home.path
    return os.path.isdir(path) and (
        path.name == ".claude"
        or os.path.isdir(path / "projects")
        or os.path.lexists(path / "settings.json")
    )


def process_files(home: Home, walk: DirectoryWalk) -> list[Path]:
    """Return the PID.json files of processes that are running or were killed, by pid."""
    pattern = ClaudeCode.temporary_files
    items = walk.enter(str(home.path / "sessions"))
    files = (item for item in items if item.kind == "file")
    paths = [Path(item.path) for item in files if pattern.fullmatch(f"sessions/{item.name}")]
    return sorted(paths, key=lambda path: (len(path.stem), path.stem))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _instant(value: Any) -> datetime | None:
    """Read milliseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
