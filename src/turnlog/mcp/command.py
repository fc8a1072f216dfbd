"""``turnlog mcp``: run the server, or print settings for clients."""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Final

import click

from turnlog.errors import UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.mcp.context import ToolContext
    from turnlog.mcp.server import TurnlogServer

_PORT: Final = 7433  # As in http.py, which is slow to import; a test compares them.


@click.command(
    name="mcp",
    epilog="""\b
Examples:
  turnlog mcp --install                   print settings for Claude Code and others
  turnlog mcp                             serve the project in this directory, over stdio
  turnlog mcp --project ~/orchard --http  serve over HTTP, protected by a token
  turnlog mcp --all-projects              serve sessions of all projects
In config.toml:
  [mcp]
  scope = "all"                           # as --all-projects; else "project"
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
    help="Only sessions that worked in DIR or below it.  [default: this directory]",
)
@click.option("--all-projects", is_flag=True, help="Sessions of all projects.")
@click.option("--http", "over_http", is_flag=True, help="Serve streamable HTTP instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback addresses only.")
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
@click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    help="Put TEXT before every tool's name, to keep it distinct from other servers' tools.",
)
@click.option("--install", is_flag=True, help="Print the settings for programs; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --install: print one JSON document.")
def command(
    homes: tuple[str, ...],
    *,
    project: str | None,
    all_projects: bool,
    over_http: bool,
    host: str,
    port: int,
    token_file: str | None,
    prefix: str,
    install: bool,
    as_json: bool,
) -> int:
    """Serve past sessions to agents: a read-only MCP server.

    It shows the project it is started in, framed as data, without secrets, in answers of limited
    size.
    """
    if project is not None and all_projects:
        raise UsageError(
            "--project and --all-projects cannot be combined", hint="leave out one of them"
        )
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,30}", prefix):
        raise UsageError(
            f"invalid prefix: {prefix[:80]!r}", hint="use up to 30 letters, digits, _ and -"
        )
    if install:
        return _show_settings(
            homes, project, all_projects=all_projects, prefix=prefix, as_json=as_json
        )
    if as_json:
        raise UsageError("--json requires --install", hint="the server itself uses JSON-RPC")
    server = _server(homes, project, all_projects=all_projects, prefix=prefix)
    if over_http:
        _run_http(server, host, port, token_file)
    else:
        server.run("stdio")
    _leave()
    return 0


def _server(
    homes: tuple[str, ...], project: str | None, *, all_projects: bool, prefix: str
) -> TurnlogServer:
    from turnlog.mcp.server import make_server

    return make_server(make_context(homes, project, all_projects=all_projects, prefix=prefix))


def make_context(
    homes: tuple[str, ...], project: str | None, *, all_projects: bool, prefix: str = ""
) -> ToolContext:
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
    is_wide = all_projects or (settings.scope == "all" and project is None)
    return ToolContext(
        homes=resolved,
        scope=None if is_wide else scope_of(project),
        rules=rules,
        settings=settings,
        background=BackgroundRefresh(resolved),
        parent=os.getppid(),
        prefix=prefix,
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
            hint="pass one with --project DIR, or use --all-projects",
        )
    return directory


def _run_http(server: TurnlogServer, host: str, port: int, token_file: str | None) -> None:
    from turnlog.mcp.http import serve_http

    serve_http(server, host=host, port=port, token_file=token_file)


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


def _show_settings(
    homes: tuple[str, ...],
    project: str | None,
    *,
    all_projects: bool,
    prefix: str,
    as_json: bool,
) -> int:
    import msgspec

    from turnlog.mcp.client_settings import settings_for

    document = settings_for(homes=homes, project=project, all_projects=all_projects, prefix=prefix)
    if as_json:
        click.echo(msgspec.json.encode(document))
        return 0
    for number, setting in enumerate(document.settings):
        if number:
            click.echo()
        how = "run" if setting.where == "shell" else f"put into {setting.where}"
        click.echo(f"# {setting.program}: {how}")
        click.echo(inert(setting.text, keep="\n"))
    return 0
