"""``turnlog statusline``: its help and background update.

The line itself is printed by ``cli.statusline``, before this module is imported.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from turnlog.cli.options import home_arguments, home_option, print_problems

_BACKGROUND_NICENESS = 10


@click.command(
    name="statusline",
    epilog="""\b
Fields of --format:
  {model} {project}     model, and name of the directory
  {session} {today}     cost of this session, and of today
  {block} {left}        cost of the current five-hour block, and the time left
  {burn}                dollars per hour in this block
  {context}             percentage of the model's context in use
  {age}                 age of the figures, if over a minute
\b
Examples:
  turnlog hooks install statusline
  turnlog statusline --format "{model} {context} {today}\"""",
)
@home_option
@click.option("--format", "pattern", metavar="TEXT", help="Template of the line, with {fields}.")
@click.option("--update", is_flag=True, help="Update the figures; print nothing.")
@click.option("--session", metavar="ID", hidden=True, help="With --update: a session to include.")
def command(
    homes: tuple[str, ...],
    *,
    pattern: str | None,
    update: bool,
    session: str | None,
) -> int:
    """Print a status line for Claude Code: model, costs, five-hour block, context.

    Claude Code runs it at every prompt, with a JSON request on stdin. The figures are those of
    `turnlog cost`; they are stored, and updated in the background. `turnlog hooks` sets it up, and
    options can be added to the command in settings.json.
    """
    if update:
        _update(homes, session)
    else:
        from turnlog.cli.statusline import answer

        answer([*home_arguments(homes), *(() if pattern is None else ("--format", pattern))])
    return 0


def _update(homes: tuple[str, ...], session: str | None) -> None:
    from turnlog.api.homes import all_homes, turnlog_home
    from turnlog.costs.statusline import update_figures
    from turnlog.pricing.cost import configured_prices

    if not sys.stderr.isatty():  # In the background.
        with suppress(AttributeError, OSError):
            os.setsid()
        with suppress(AttributeError, OSError):
            os.nice(_BACKGROUND_NICENESS)
    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    update_figures(all_homes(homes), prices, session=session)
