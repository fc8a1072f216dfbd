"""``turnlog statusline``: a line for Claude Code's prompt; how to install it, and its update.

The line itself is answered in ``statusline_answered``, before this module is imported.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress

import click

from turnlog.cli.options import home_option, naming, print_problems

_BACKGROUND_NICENESS = 10


@click.command(
    name="statusline",
    epilog="""\b
Fields of --format:
  {model} {project}     the model, and the directory's name
  {session} {today}     what this session and this day cost
  {block} {left}        the running five-hour block: its cost, and the time left
  {burn}                dollars an hour, in this block
  {context}             how much of the model's context is in use
  {age}                 how old the figures are, once that is more than a minute
\b
Examples:
  turnlog statusline --install
  turnlog statusline --install --format "{model} {context} {today}\"""",
)
@home_option
@click.option("--format", "pattern", metavar="TEXT", help="Show this, with its {fields} filled in.")
@click.option("--install", is_flag=True, help="Show what to add to Claude Code's settings.json.")
@click.option("--update", is_flag=True, help="Bring the figures up to date; print nothing.")
@click.option("--session", metavar="ID", hidden=True, help="With --update: a session to tell of.")
def command(
    homes: tuple[str, ...],
    *,
    pattern: str | None,
    install: bool,
    update: bool,
    session: str | None,
) -> int:
    """Print a status line for Claude Code: model, costs, five-hour block, context.

    Claude Code runs it at every prompt and says on stdin what it is about. It shows figures that
    were noted before and has them brought up to date in the background; they are those of
    `turnlog cost`.
    """
    if install:
        _show_settings(homes, pattern)
    elif update:
        _update(homes, session)
    else:
        from turnlog.cli.statusline.answer import answer

        answer([*naming(homes), *(() if pattern is None else ("--format", pattern))])
    return 0


def _show_settings(homes: tuple[str, ...], pattern: str | None) -> None:
    """Show what to add; settings are the user's to change."""
    from turnlog.formats.home_paths import configured_homes, turnlog_home_path
    from turnlog.text import inert

    program = "turnlog"
    if shutil.which(program) is None and os.access(sys.argv[0], os.X_OK):
        program = os.path.abspath(sys.argv[0])
    words = [program, "statusline", *naming(map(os.path.abspath, homes))]
    if pattern is not None:
        words += ["--format", pattern]
    line = shlex.join(words)
    if os.environ.get("TURNLOG_HOME", "").strip():  # Claude Code may be started without it.
        line = f"TURNLOG_HOME={shlex.quote(turnlog_home_path())} {line}"
    settings = {"statusLine": {"type": "command", "command": line}}
    configured = configured_homes()
    where = os.path.join(configured[0] if configured else "~/.claude", "settings.json")
    click.echo(f"Add this to {inert(where)}:", err=True)
    click.echo(json.dumps(settings, indent=2))


def _update(homes: tuple[str, ...], session: str | None) -> None:
    from turnlog.costs.statusline import update_figures
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.pricing.cost import configured_prices

    if not sys.stderr.isatty():  # Nobody watches, so nobody should have to wait for it either.
        with suppress(AttributeError, OSError):
            os.setsid()
        with suppress(AttributeError, OSError):
            os.nice(_BACKGROUND_NICENESS)
    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    update_figures(all_homes(homes), prices, session=session)
