"""``turnlog errors``: group failed tool calls by their error message."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from turnlog.cli import options

if TYPE_CHECKING:
    from turnlog.api.query import ErrorContext, Nearby


@click.command(
    name="errors",
    epilog="""\b
Examples:
  turnlog errors                      list errors, most frequent first
  turnlog errors --since 7d --tool Bash
  turnlog errors 3f2a                 show the latest occurrences of one error
  turnlog errors 3f2a --context 6 --limit 1
Exit codes: 0 success, 1 no errors found, 2 usage error, 3 failure.""",
)
@click.argument("signature", metavar="[SIGNATURE]", required=False)
@options.report_options
@options.no_refresh_option
@options.period_options
@options.tool_option
@click.option(
    "-C",
    "--context",
    "window",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="With SIGNATURE: number of records to show before and after.",
)
@click.option("--min", "least", default=1, show_default=True, help="Minimum number of occurrences.")
@options.page_options
def command(
    signature: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    tool: str | None,
    window: int,
    least: int,
    limit: int,
    **filters: Any,
) -> int:
    """List failed tool calls, grouped by error message.

    Errors with the same beginning, apart from numbers, share a signature. With SIGNATURE, or its
    beginning, show the latest occurrences and the records around them. Errors of the API count as
    the tool API.
    """
    import re

    from turnlog.api.homes import all_homes
    from turnlog.api.query import (
        ErrorPattern,
        Occurrence,
        error_context,
        error_patterns,
        unknown_tool,
    )
    from turnlog.cli.terminal.empty_results import print_nothing_found
    from turnlog.cli.terminal.output import print_rest, show_data, show_table

    pattern = None if tool is None else rf"(?i)\A{re.escape(tool)}\Z"
    wanted = {"limit": limit or None, "tool": pattern, **filters}
    with options.open_index(all_homes(homes), no_refresh=no_refresh) as index:
        if signature is not None:
            around = error_context(index, signature, window=window, **wanted)
            rows = around.occurrences
            if not show_data(around, Occurrence, rows, as_json=as_json, as_csv=as_csv):
                _show_context(around)
                print_rest(around.next)
            return 0
        found = error_patterns(index, minimum=least, **wanted)
        if tool is not None and (note := unknown_tool(index, tool)):
            found.notes.append(note)
    if show_data(found, ErrorPattern, found.errors, as_json=as_json, as_csv=as_csv):
        return 0 if found.errors else 1
    if found.errors:
        cells = [structs.asdict(error) for error in found.errors]
        for row in cells:
            row |= {"signature": row["signature"][:8], "last": row["last_at"]}
        show_table(["count", "tool", "last", "signature", "example"], cells)
        print_rest(found.next, found.notes)
        if sys.stdout.isatty():
            from turnlog.cli.terminal.console import console

            console().print("[dim]hint: turnlog errors SIGNATURE shows the latest in context[/]")
    else:
        filters |= {"tool": tool, "unknown": "; ".join(found.notes)}
        print_nothing_found("errors", homes, filters, hint="no tool call has failed")
    return 0 if found.errors else 1


def _show_context(around: ErrorContext) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, when

    out = console()
    out.print(f"{counted(around.total, 'error')}, {counted(len(around.signatures), 'signature')}")
    for item in around.occurrences:
        session, project = safe((item.session or "")[:8]), safe(item.project or "")
        out.print(f"\n[bold]{safe(item.tool)}[/]  {when(item.at)}  {session}  [dim]{project}[/]")
        for record in item.records:
            out.print(_line(record), overflow="ellipsis", no_wrap=True, soft_wrap=False)


def _line(record: Nearby) -> str:
    from turnlog.cli.terminal.console import safe, when

    mark, style = ("✗", "red") if record.is_error else (" ", "default")
    at = when(record.at, seconds=True)[11:]
    return f"  [{style}]{mark}[/] {at:8} [cyan]{safe(record.author):9}[/] {safe(record.text)}"
