"""``turnlog mcp``: run the server."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

import click

from turnlog.errors import UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.mcp.context import ToolContext
    from turnlog.mcp.server import TurnlogServer

_ALL: Final = "all"
_PORT: Final = 7433  # As in http.py, which is slow to import; a test compares them.


@click.command(
    name="mcp",
    epilog="""\b
Examples:
  turnlog hooks install mcp               add it to Claude Code
  turnlog mcp                             serve the project here, over stdio
  turnlog mcp --project ~/orchard --http  serve over HTTP, with a token
  turnlog mcp --project all               serve sessions of all projects
In config.toml:
  [mcp]
  scope = "all"                           # as --project all; else "project"
  answer_bytes = 24000                    # largest answer
  seconds = 20                            # time limit of an answer""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Agent's home; repeatable.  [default: ~/.claude and others]",
)
@click.option(
    "--project",
    metavar="DIR",
    help='Only sessions in DIR or below, or "all".  [default: this directory]',
)
@click.option("--http", "over_http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="Read the token from FILE, created if missing, instead of a new one each time.",
)
def command(
    homes: tuple[str, ...],
    *,
    project: str | None,
    over_http: bool,
    port: int,
    token_file: str | None,
) -> int:
    """Serve past sessions to agents: a read-only MCP server.

    It shows the project it is started in, framed as data, without secrets, in answers of limited
    size.
    """
    server = _server(homes, project)
    if over_http:
        _run_http(server, port, token_file)
    else:
        server.run("stdio")
    _leave()
    return 0


def _server(homes: tuple[str, ...], project: str | None) -> TurnlogServer:
    from turnlog.mcp.server import make_server

    return make_server(make_context(homes, project))


def make_context(homes: tuple[str, ...], project: str | None) -> ToolContext:
    """Return the context for the options and config.toml; print invalid settings."""
    from turnlog.api.background_refresh import BackgroundRefresh
    from turnlog.api.homes import all_homes, turnlog_home
    from turnlog.config import load_config, problem_message
    from turnlog.mcp.context import ToolContext, settings_from
    from turnlog.redact import rules_from

    config = load_config(turnlog_home())
    settings, invalid = settings_from(config.mcp)
    rules, invalid_rules = rules_from(config.redact)
    for problem in (*config.problems, *invalid, *invalid_rules):
        click.echo(f"warning: {inert(problem_message(problem, turnlog_home()))}", err=True)
    resolved = all_homes(homes)
    is_wide = project == _ALL or (settings.scope == "all" and project is None)
    return ToolContext(
        homes=resolved,
        scope=None if is_wide else scope_of(project),
        rules=rules,
        settings=settings,
        background=BackgroundRefresh(resolved),
        parent=os.getppid(),
    )


def scope_of(project: str | None) -> str:
    """Return the directory whose sessions the server shows."""
    if project is not None and "${" in project:
        raise UsageError(
            f"{project!r} was not filled in by the program that started the server",
            hint="pass the directory itself with --project",
        )
    try:
        directory = os.path.realpath(os.path.expanduser(project or os.getcwd()))
    except (FileNotFoundError, ValueError):
        raise UsageError("no such directory", hint="pass another with --project") from None
    if os.path.dirname(directory) == directory:  # Clients without a project start here.
        raise UsageError(
            f"refusing to use {directory} as a project",
            hint="pass one with --project DIR, or use --project all",
        )
    return directory


def _run_http(server: TurnlogServer, port: int, token_file: str | None) -> None:
    from turnlog.mcp.http import serve_http

    serve_http(server, port=port, token_file=token_file)


def _leave() -> None:
    """Exit without waiting for calls that are still running: the client is gone."""
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    ]
    if any(not thread.daemon for thread in others):
        from turnlog.api.refresh import delete_temporary_indexes

        delete_temporary_indexes()
        sys.stdout.flush()
        os._exit(0)
