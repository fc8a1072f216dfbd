"""Settings for the programs that can ask: printed, never written.

Claude Code, Cursor, VS Code and Codex start the server in a project, or can name it, so that it
tells of that project. A program that works nowhere, as Claude Desktop does, must be told a project.
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

_FROM_HERE: Final = ("TURNLOG_HOME", "CLAUDE_CONFIG_DIR")
"""What decides which logs are read, if it is set: a program started elsewhere has not got it."""
_WORKSPACE: Final = "${workspaceFolder}"


class ClientSetting(Struct, kw_only=True):
    """What one program must be told."""

    program: str
    where: str
    """The file that it stands in, or the shell."""
    text: str
    """What to put there, or to run."""


class SettingsDocument(Struct, kw_only=True):
    """What `turnlog mcp --install --json` prints."""

    settings: list[ClientSetting]


def own_command() -> list[str]:
    """Return the command that starts turnlog from anywhere."""
    beside = Path(sys.executable).parent / ("turnlog.exe" if os.name == "nt" else "turnlog")
    found = str(beside) if beside.is_file() else shutil.which("turnlog")
    return [found] if found else [sys.executable, "-m", "turnlog.cli"]


def settings_for(
    *,
    homes: Sequence[str] = (),
    project: str | None = None,
    all_projects: bool = False,
    prefix: str = "",
    command: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> SettingsDocument:
    """Return the settings for every program that we know."""
    start = [*(command or own_command()), "mcp"]
    for home in homes:
        start += ["--home", os.path.abspath(os.path.expanduser(home))]
    if prefix:
        start += ["--prefix", prefix]
    env = {name: environ[name] for name in _FROM_HERE if environ.get(name)}
    named = [] if project is None else ["--project", os.path.realpath(os.path.expanduser(project))]
    if all_projects:
        named = ["--all-projects"]
    somewhere = named or ["--project", os.getcwd()]
    in_editor = named or ["--project", _WORKSPACE]
    return SettingsDocument(settings=list(_settings(start, env, named, somewhere, in_editor)))


def _settings(
    start: list[str],
    env: dict[str, str],
    named: list[str],
    somewhere: list[str],
    in_editor: list[str],
) -> Iterator[ClientSetting]:
    flags = [part for name, value in env.items() for part in ("--env", f"{name}={value}")]
    added = ["mcp", "add", "--scope", "user", "turnlog", *flags, "--", *start, *named]
    yield ClientSetting(program="Claude Code", where="shell", text=shlex.join(["claude", *added]))
    yield ClientSetting(
        program="Claude Code, for one project",
        where=".mcp.json in the project",
        text=_json({"mcpServers": {"turnlog": _server(start + named, env)}}),
    )
    yield ClientSetting(
        program="Claude Desktop",
        where=_desktop_file(),
        text=_json({"mcpServers": {"turnlog": _server(start + somewhere, env)}}),
    )
    yield ClientSetting(
        program="Cursor",
        where="~/.cursor/mcp.json",
        text=_json({"mcpServers": {"turnlog": _server(start + in_editor, env)}}),
    )
    server = {"type": "stdio"} | _server(start + in_editor, env)
    yield ClientSetting(
        program="VS Code",
        where=".vscode/mcp.json in the project",
        text=_json({"servers": {"turnlog": server}}),
    )
    yield ClientSetting(
        program="Codex", where="~/.codex/config.toml", text=_toml(start + named, env)
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
    # A JSON string is a TOML string, and a list of them a list, but for what JSON leaves unescaped.
    said = [_toml_string(each) for each in command]
    text = f"[mcp_servers.turnlog]\ncommand = {said[0]}\nargs = [{', '.join(said[1:])}]"
    if env:
        pairs = ", ".join(f"{name} = {_toml_string(value)}" for name, value in env.items())
        text += f"\nenv = {{ {pairs} }}"
    return text


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
