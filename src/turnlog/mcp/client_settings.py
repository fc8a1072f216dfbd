"""Settings for MCP clients: printed, never written.

Claude Code, Cursor, VS Code and Codex start the server in a project or can pass its directory.
Claude Desktop has no project, so its settings name one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_COPIED_VARIABLES: Final = ("TURNLOG_HOME", "CLAUDE_CONFIG_DIR")
"""Variables that decide which logs are read; copied because clients may not inherit them."""
_WORKSPACE: Final = "${workspaceFolder}"


class ClientSetting(Struct, kw_only=True):
    """The setting for one client."""

    program: str
    where: str
    """The file to edit, or ``shell``."""
    text: str
    """The text to add, or the command to run."""


class SettingsDocument(Struct, kw_only=True):
    """The output of `turnlog mcp --install --json`."""

    settings: list[ClientSetting]


def own_command() -> list[str]:
    """Return the command that starts turnlog from anywhere."""
    own = Path(sys.executable).parent / ("turnlog.exe" if os.name == "nt" else "turnlog")
    path = str(own) if own.is_file() else shutil.which("turnlog")
    return [path] if path else [sys.executable, "-m", "turnlog.cli"]


def settings_for(
    *,
    homes: Sequence[str] = (),
    project: str | None = None,
    all_projects: bool = False,
    prefix: str = "",
    command: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> SettingsDocument:
    """Return the settings for all supported clients."""
    start = [*(command or own_command()), "mcp"]
    for home in homes:
        start += ["--home", os.path.abspath(os.path.expanduser(home))]
    if prefix:
        start += ["--prefix", prefix]
    env = {name: environ[name] for name in _COPIED_VARIABLES if environ.get(name)}
    scope = [] if project is None else ["--project", os.path.realpath(os.path.expanduser(project))]
    if all_projects:
        scope = ["--all-projects"]
    desktop_scope = scope or ["--project", os.getcwd()]
    editor_scope = scope or ["--project", _WORKSPACE]
    return SettingsDocument(
        settings=list(_settings(start, env, scope, desktop_scope, editor_scope))
    )


def _settings(
    start: list[str],
    env: dict[str, str],
    scope: list[str],
    desktop_scope: list[str],
    editor_scope: list[str],
) -> Iterator[ClientSetting]:
    flags = [part for name, value in env.items() for part in ("--env", f"{name}={value}")]
    arguments = ["mcp", "add", "--scope", "user", "turnlog", *flags, "--", *start, *scope]
    yield ClientSetting(
        program="Claude Code", where="shell", text=shlex.join(["claude", *arguments])
    )
    yield ClientSetting(
        program="Claude Code, for one project",
        where=".mcp.json in the project",
        text=_json({"mcpServers": {"turnlog": _server(start + scope, env)}}),
    )
    yield ClientSetting(
        program="Claude Desktop",
        where=_desktop_file(),
        text=_json({"mcpServers": {"turnlog": _server(start + desktop_scope, env)}}),
    )
    yield ClientSetting(
        program="Cursor",
        where="~/.cursor/mcp.json",
        text=_json({"mcpServers": {"turnlog": _server(start + editor_scope, env)}}),
    )
    server = {"type": "stdio"} | _server(start + editor_scope, env)
    yield ClientSetting(
        program="VS Code",
        where=".vscode/mcp.json in the project",
        text=_json({"servers": {"turnlog": server}}),
    )
    yield ClientSetting(
        program="Codex", where="~/.codex/config.toml", text=_toml(start + scope, env)
    )


def _server(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    server: dict[str, Any] = {"command": command[0], "args": command[1:]}
    return server | {"env": env} if env else server


def _desktop_file() -> str:
    if sys.platform == "darwin":
        return "~/Library/Application Support/Claude/claude_desktop_config.json"
    if sys.platform == "win32":
        return "%APPDATA%\\Claude\\claude_desktop_config.json"
    return "~/.config/Claude/claude_desktop_config.json"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _toml(command: list[str], env: dict[str, str]) -> str:
    # JSON strings are valid TOML strings, except for characters that JSON leaves unescaped.
    parts = [_toml_string(part) for part in command]
    text = f"[mcp_servers.turnlog]\ncommand = {parts[0]}\nargs = [{', '.join(parts[1:])}]"
    if env:
        pairs = ", ".join(f"{name} = {_toml_string(value)}" for name, value in env.items())
        text += f"\nenv = {{ {pairs} }}"
    return text


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
