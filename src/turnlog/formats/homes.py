"""Homes: the directories in which agents keep their sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from turnlog.formats.home_paths import all_home_paths, home_paths, turnlog_home_path


class Home(Struct, frozen=True):
    """A directory in which an agent keeps its sessions. Usable wherever a path is."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


def find_homes(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> tuple[Home, ...]:
    """List the homes: those *named*, else CLAUDE_CONFIG_DIR's, else the usual two that exist."""
    return tuple(Home(Path(path)) for path in home_paths(named, environ))


def all_homes(
    named: Sequence[str | os.PathLike[str]] = (), environ: Mapping[str, str] = os.environ
) -> tuple[Home, ...]:
    """List the homes as `find_homes` does, and turnlog's own unless others are *named*."""
    return tuple(Home(Path(path)) for path in all_home_paths(named, environ))


def turnlog_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where turnlog keeps its own things; the directory need not exist yet."""
    return Path(turnlog_home_path(environ))


def journal_log(root: str | os.PathLike[str]) -> Path:
    """Return the path of turnlog's own journal."""
    return Path(os.path.abspath(root), "journal.jsonl")
