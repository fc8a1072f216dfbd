"""Codex's sessions: rollouts in directories by date, and archived ones in a directory of their own.

    sessions/2026/11/18/rollout-2026-11-18T20-02-29-ID.jsonl
    sessions/2026/11/18/rollout-2026-11-18T20-02-29-ID_ROLLOUT.jsonl     after a revert
    archived_sessions/rollout-2026-11-18T20-02-29-ID.jsonl

Rollouts that were not used for long may end in ``.zst``. Subagents have rollouts like sessions:
only their first line says whose they are. Forks refer to bytes of their parent's rollout, so no
rollout is ever rewritten.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from turnlog.formats.codex.heads import head_of, own_start
from turnlog.formats.format import (
    HOME,
    Format,
    InheritedPart,
    ListMismatch,
    LogBase,
    Place,
)
from turnlog.formats.homes import Home
from turnlog.formats.log_file import Compression, LogFile, LogName

if TYPE_CHECKING:
    from turnlog.formats.walk import Item

SESSIONS: Final = "sessions"
ARCHIVED: Final = "archived_sessions"
_YEARS, _MONTHS, _DAYS, _ROLLOUTS = "years", "months", "days", "rollouts"
_BELOW: Final = {_YEARS: _MONTHS, _MONTHS: _DAYS, _DAYS: _ROLLOUTS}
_NUMBER: Final = re.compile(r"[0-9]{2}|[0-9]{4}")
_OWN: Final = re.compile(
    r"(?:archived_sessions|session_index\.jsonl|state_[0-9]+\.sqlite)(?:\.zst)?"
)
_UUID: Final = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_ROLLOUT: Final = re.compile(
    rf"rollout-[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}-[0-9]{{2}}-[0-9]{{2}}"
    rf"-(?P<id>{_UUID})(?:_(?P<rollout>{_UUID}))?\.jsonl(?:\.(?P<compression>gz|zst))?"
)

_COMPRESSIONS: Final[dict[str | None, Compression | None]] = {None: None, "gz": "gz", "zst": "zst"}


class Codex(Format):
    """The sessions of Codex."""

    name = "codex"
    dialect = "codex"
    agent = "Codex"
    program: ClassVar[str] = "codex"
    home_variable: ClassVar[str] = "CODEX_HOME"
    may_rewrite = False
    kept_directories = frozenset({SESSIONS, ARCHIVED})
    kept_files = frozenset({"history.jsonl", "session_index.jsonl"})
    program_files = frozenset(
        {
            "AGENTS.md", "auth.json", "config.toml", "installation_id", "log", "memories",
            "models_cache.json", "plugins", "prompts", "rules", "shell_snapshots", "skills", "tmp",
            "version.json",
        }
    )  # fmt: skip

    def is_home(self, items: Iterable[Item]) -> bool:
        return any(_OWN.fullmatch(item.name) for item in items)

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        if place.role == HOME:
            years = Place(self, _YEARS, has_logs=False)
            return {SESSIONS: years, ARCHIVED: Place(self, _ROLLOUTS)}
        role = _BELOW.get(place.role)
        if role is None:
            return {}
        below = Place(self, role, has_logs=role == _ROLLOUTS)
        return {item.name: below for item in items if _NUMBER.fullmatch(item.name)}

    def log_name(self, place: Place, name: str) -> LogName | None:
        return rollout_name(name)

    def log_at(self, place: Place, item: Item) -> LogName | None:
        name = rollout_name(item.name)
        session_id = head_of(item.path).session_id if name is not None else None
        if name is None or session_id is None:
            return name
        return LogName("subagent", name.id, name.compression, session_id)

    def inherited(self, log: LogFile) -> Sequence[InheritedPart]:
        parts: list[InheritedPart] = []
        base = head_of(os.fspath(log.path)).base
        rollouts: dict[str, LogFile] = {}
        while base is not None:
            if not rollouts:
                rollouts = _rollouts_of(log.home)
            # Each once: the parents of a damaged rollout may lead back to it.
            parent = rollouts.pop(base.thread_id.lower(), None)
            if parent is None:
                break
            parts.append(InheritedPart(parent, base.end_byte_offset))
            base = head_of(os.fspath(parent.path)).base
        return parts[::-1]

    def own_start(self, path: str | os.PathLike[str]) -> int:
        return own_start(os.fspath(path))

    def owner_of(self, name: str) -> str | None:
        rollout = rollout_name(name.rpartition("/")[2])
        return rollout.id if rollout is not None else None

    def owner_at(self, name: str, path: str) -> str | None:
        owner = self.owner_of(name)
        return owner if owner is None else head_of(path).session_id or owner

    def own_home(self) -> str:
        return os.environ.get(self.home_variable) or os.path.expanduser("~/.codex")

    def is_found_at(self, path: Path, expected: Path | None) -> bool:
        return rollout_name(path.name) is not None

    def resume_command(self, session_id: str) -> list[str]:
        return [self.program, "resume", session_id]

    def list_mismatches(self, home: Home, logs: Iterable[LogFile]) -> Iterable[ListMismatch]:
        from turnlog.formats.codex.state import mismatches

        is_own = os.path.realpath(home) == os.path.realpath(self.own_home())
        variable = "" if is_own else f"{self.home_variable}={shlex.quote(str(home.path))} "
        return mismatches(home.path, logs, variable + self.program)

    def base_of(self, path: Path) -> LogBase | None:
        base = head_of(str(path)).base
        if base is None:
            return None
        return LogBase(base.thread_id, base.end_byte_offset, base.end_ordinal_exclusive)

    def base_problem(self, base: LogBase, path: Path) -> str | None:
        from turnlog.formats.codex.forks import base_problem

        return base_problem(base, path)


FORMAT = Codex()


def _rollouts_of(home: Home) -> dict[str, LogFile]:
    """Return the rollouts of a home by their own id, which a revert changes."""
    from turnlog.formats.find import find_logs

    named = ((_ROLLOUT.fullmatch(log.path.name), log) for log in find_logs(home))
    return {
        (found["rollout"] or found["id"]).lower(): log
        for found, log in named
        if found is not None and log.layout == FORMAT.name
    }


def rollout_name(name: str) -> LogName | None:
    """Parse the name of a rollout; None if it is another file."""
    found = _ROLLOUT.fullmatch(name)
    if found is None:
        return None
    compression = _COMPRESSIONS[found["compression"]]
    return LogName("session", found["id"].lower(), compression)
