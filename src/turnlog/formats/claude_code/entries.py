"""Entries in Claude Code's settings that start turnlog: its status line and MCP servers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from turnlog.formats.format import SettingsEntry
from turnlog.formats.homes import Home
from turnlog.storage.atomic_files import Unreadable, read_file

_SETTINGS: Final = ("settings.json", "settings.local.json")
_SERVERS: Final = ".claude.json"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]+=", re.ASCII)

Kind = TypeVar("Kind")


def settings_entries(home: Home) -> Iterator[SettingsEntry]:
    """Yield the entries for turnlog in the settings of *home*; unreadable files have none."""
    for name in _SETTINGS:
        line: dict[str, Any] = _get(_read(home.path / name), "statusLine", {})
        if _starts(_words(_get(line, "command", "")), "statusline"):
            yield SettingsEntry(str(home.path / name), "statusLine")
    # Claude Code keeps this file next to ~/.claude, but inside a home that CLAUDE_CONFIG_DIR names.
    beside = [home.path.parent / _SERVERS] if home.path.name == ".claude" else []
    for path in (home.path / _SERVERS, *beside):
        servers = _read(path)
        for key in _turnlog_servers(servers):
            remove = ("claude", "mcp", "remove", "--scope", "user", key)
            yield SettingsEntry(str(path), f"mcpServers.{key}", remove)
        projects: dict[str, Any] = _get(servers, "projects", {})
        for directory, project in projects.items():
            for key in _turnlog_servers(project):
                remove = ("claude", "mcp", "remove", "--scope", "local", key)
                yield SettingsEntry(str(path), f"mcpServers.{key}", remove, directory)


def _turnlog_servers(settings: Any) -> Iterator[str]:
    servers: dict[str, Any] = _get(settings, "mcpServers", {})
    for key, server in servers.items():
        words: list[Any] = [_get(server, "command", ""), *_get(server, "args", [])]
        if _starts([str(word) for word in words], "mcp"):
            yield key


def _starts(words: Sequence[str], name: str) -> bool:
    """Return whether a command line starts the command *name* of turnlog."""
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    match list(words):
        case [program, word, *_] if os.path.basename(program) == "turnlog":
            return word == name
        case [_, "-m", "turnlog.cli", word, *_]:
            return word == name
    return False


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _read(path: os.PathLike[str]) -> Any:
    found = read_file(path)
    try:
        return None if isinstance(found, Unreadable) else msgspec.json.decode(found)
    except (ValueError, RecursionError):
        return None


def _get(settings: Any, key: str, default: Kind) -> Kind:
    """Return a member of *settings*, or *default* if it is missing or of another type."""
    found = settings.get(key) if isinstance(settings, dict) else None
    return found if isinstance(found, type(default)) else default
