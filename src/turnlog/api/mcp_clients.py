"""Settings for MCP clients. Only Claude Code's are changed, by its own command.

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

from msgspec import Struct, structs

from turnlog.formats.settings_changes import Run, State, Step

NAME: Final = "turnlog"
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


def own_command() -> list[str]:
    """Return the command that starts turnlog from anywhere."""
    own = Path(sys.executable).parent / ("turnlog.exe" if os.name == "nt" else "turnlog")
    path = str(own) if own.is_file() else shutil.which("turnlog")
    return [path] if path else [sys.executable, "-m", "turnlog.cli"]


def client_settings(
    *,
    homes: Sequence[str] = (),
    command: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[ClientSetting]:
    """Return the settings for all supported clients."""
    start, env = _server_command(homes, command, environ)
    return list(_settings(start, env, ["--project", os.getcwd()], ["--project", _WORKSPACE]))


def mcp_step(
    *, homes: Sequence[str] = (), is_removed: bool = False, environ: Mapping[str, str] = os.environ
) -> Step:
    """Return the step that adds the server to Claude Code, or removes it."""
    home = environ.get("CLAUDE_CONFIG_DIR", "").strip() or "~"
    place = os.path.join(os.path.expanduser(home), ".claude.json")
    words = _add_command(*_server_command(homes, None, environ))
    state: State = "installed" if _is_added(place) else "missing"
    is_done = (state == "installed") != is_removed
    if is_removed:
        words = ["claude", "mcp", "remove", "--scope", "user", NAME]
    step = Step(kind="mcp", place=place, state=state, command=shlex.join(words))
    if is_done:
        return step
    if shutil.which("claude") is None:
        hint = "turnlog hooks install mcp --json prints the settings of other programs"
        return structs.replace(step, state="refused", reason="claude is not on the PATH", hint=hint)
    return structs.replace(step, deeds=(Run(words=tuple(words)),))


def _is_added(path: str) -> bool:
    """Return whether Claude Code's own file lists the server for all projects."""
    try:
        with open(path, "rb") as file:
            found = json.load(file)
        return NAME in found["mcpServers"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _server_command(
    homes: Sequence[str], command: Sequence[str] | None, environ: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command that starts the server, and the variables that it needs."""
    start = [*(command or own_command()), "mcp"]
    for home in homes:
        start += ["--home", os.path.abspath(os.path.expanduser(home))]
    return start, {name: environ[name] for name in _COPIED_VARIABLES if environ.get(name)}


def _add_command(start: list[str], env: dict[str, str]) -> list[str]:
    flags = [part for name, value in env.items() for part in ("--env", f"{name}={value}")]
    return ["claude", "mcp", "add", "--scope", "user", NAME, *flags, "--", *start]


def _settings(
    start: list[str],
    env: dict[str, str],
    desktop_scope: list[str],
    editor_scope: list[str],
) -> Iterator[ClientSetting]:
    yield ClientSetting(
        program="Claude Code", where="shell", text=shlex.join(_add_command(start, env))
    )
    yield ClientSetting(
        program="Claude Code, for one project",
        where=".mcp.json in the project",
        text=_json({"mcpServers": {"turnlog": _server(start, env)}}),
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
    yield ClientSetting(program="Codex", where="~/.codex/config.toml", text=_toml(start, env))


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
