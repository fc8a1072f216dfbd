"""``turnlog refresh``: update the index from the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.advanced.quick_refresh import summary
from turnlog.cli.options import home_option, json_option, print_notices, show_json
from turnlog.cli.terminal.console import bar

if TYPE_CHECKING:
    from turnlog.api.refresh import RefreshResult

_SHOWN = 5


@click.command(
    name="refresh",
    epilog="""\b
Examples:
  turnlog refresh               read new records
  turnlog refresh --rebuild     rebuild the index from scratch""",
)
@home_option
@json_option
@click.option("--rebuild", is_flag=True, help="Delete the index and read all logs again.")
def command(homes: tuple[str, ...], *, as_json: bool, rebuild: bool) -> int:
    """Update the index with new records.

    Commands that need the index do this automatically. Run it from a script or a timer to have it
    done in advance. The index can be deleted at any time.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.refresh import refresh, refresh_document

    with bar() as progress:
        result = refresh(all_homes(homes), rebuild=rebuild, progress=progress)
    if as_json:
        print_notices(result.notices)
        show_json(refresh_document(result))
    else:
        show(result)
    return 0


def show(result: RefreshResult) -> None:
    """Print what a refresh read and noticed."""
    from turnlog.cli.terminal.console import console, counted, log_name, show_some

    print_notices(result.notices)
    out = console()
    out.print(summary(result.logs, result.read, result.read_bytes))
    for what, paths in (("rewritten", result.replaced), ("deleted at the source", result.gone)):
        show_some(out, [f"[yellow]{what}:[/] {log_name(path)}" for path in paths], _SHOWN)
    if result.forgotten:
        logs = counted(result.forgotten, "deleted log")
        out.print(f"[yellow]{logs} without a kept copy removed from the index[/]")
    for problem in result.problems:
        out.print(f"[yellow]not read:[/] {log_name(problem.path)}: {problem.reason}")
