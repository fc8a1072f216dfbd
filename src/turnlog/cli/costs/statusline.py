"""``turnlog statusline``: its help.

The line itself is printed by ``cli.statusline``, before this module is imported.
"""

from __future__ import annotations

import click

from turnlog.cli.options import home_arguments, home_option


@click.command(
    name="statusline",
    epilog="""\b
Fields of --template:
  {model} {project}     model, and name of the directory
  {session} {today}     cost of this session, and of today
  {block} {left}        cost of the current five-hour block, and the time left
  {burn}                dollars per hour in this block
  {context}             percentage of the model's context in use
  {age}                 age of the figures, if over a minute
\b
Examples:
  turnlog hooks install statusline
  turnlog statusline --template "{model} {context} {today}\"""",
)
@home_option
@click.option("--template", metavar="TEXT", help="Text of the line, with {fields}.")
def command(homes: tuple[str, ...], *, template: str | None) -> int:
    """Print a status line for Claude Code: model, costs, five-hour block, context.

    Claude Code runs it at every prompt, with a JSON request on stdin. The figures are those of
    `turnlog cost`; they are stored, and updated in the background. `turnlog hooks` sets it up;
    options can be added to the command in settings.json.
    """
    from turnlog.cli.statusline import answer

    answer([*home_arguments(homes), *(() if template is None else ("--template", template))])
    return 0
