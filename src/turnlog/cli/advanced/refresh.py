"""``turnlog refresh``: let the index catch up with the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.advanced.quick_refresh import line_of
from turnlog.cli.index_access import print_notices, refreshed
from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.index.refresh.refresh import RefreshResult


class UnreadFile(Struct, kw_only=True):
    """Something that could not be read, and why."""

    path: str
    reason: str


class RefreshDocument(Struct, kw_only=True):
    """What `turnlog refresh --json` prints."""

    logs: int
    """Logs that are there, and files beside them."""
    read: int
    """Those that were read, whole or on from their bookmark."""
    read_bytes: int
    replaced: list[str]
    """Logs that were read again from the start, since they were rewritten or replaced."""
    gone: list[str]
    """Logs that were found to be gone at their source."""
    forgotten: int
    """Logs that were gone before, and which a rebuilt index knows no more."""
    problems: list[UnreadFile]
    notices: list[str]


@click.command(
    name="refresh",
    epilog="""\b
Examples:
  turnlog refresh               read what was appended since
  turnlog refresh --rebuild     make the index anew from the logs""",
)
@home_option
@json_option
@click.option("--rebuild", is_flag=True, help="Forget the index and read everything again.")
def command(homes: tuple[str, ...], *, as_json: bool, rebuild: bool) -> int:
    """Bring the index up to date with the logs.

    Every command that needs the index does this first; by itself it is for scripts, and for those
    who want the work done before they ask. The index can be deleted at any time.
    """
    from turnlog.formats import all_homes

    done = refreshed(all_homes(homes), rebuild=rebuild)
    if as_json:
        print_notices(done.notices)
        show_json(_document(done))
    else:
        show(done)
    return 0


def _document(done: RefreshResult) -> RefreshDocument:
    return RefreshDocument(
        logs=done.logs,
        read=done.read,
        read_bytes=done.read_bytes,
        replaced=done.replaced,
        gone=done.gone,
        forgotten=done.forgotten,
        problems=[UnreadFile(path=str(each.path), reason=each.reason) for each in done.problems],
        notices=done.notices,
    )


def show(done: RefreshResult) -> None:
    """Show what a refresh found."""
    from turnlog.cli.terminal.console import console, counted, log_name

    print_notices(done.notices)
    out = console()
    out.print(line_of(done.logs, done.read, done.read_bytes))
    for what, paths in (("rewritten since", done.replaced), ("gone at its source", done.gone)):
        for path in paths[:5]:
            out.print(f"[yellow]{what}:[/] {log_name(path)}")
        if len(paths) > 5:
            out.print(f"[yellow]… and {len(paths) - 5:,} more[/]")
    if done.forgotten:
        gone = counted(done.forgotten, "log")
        out.print(f"[yellow]{gone} gone at the source, without a kept copy: forgotten.[/]")
    for problem in done.problems:
        out.print(f"[yellow]not read:[/] {log_name(problem.path)}: {problem.reason}")
