"""``turnlog prompts``: typed prompts, from the history of a home."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.browse.sessions import project_name
from turnlog.cli.options import page_options, period_options, report_options, session_option
from turnlog.cli.terminal.console import age, at_most, console, counted, safe, safe_text
from turnlog.cli.terminal.empty_results import has_any, print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.sessions.side_files import PromptsDocument


@click.command(
    name="prompts",
    epilog="""\b
Examples:
  turnlog prompts                  the last twenty, in all projects
  turnlog prompts frost            those that contain "frost", ignoring case
  turnlog prompts --project .      those typed in this directory
Exit codes: 0 success, 1 nothing found or a damaged history,
2 usage error, 3 failure.""",
)
@click.argument("text", metavar="[TEXT]", required=False)
@report_options
@period_options
@session_option
@click.option("--full", is_flag=True, help="Show whole prompts, with pasted text.")
@page_options
def command(
    text: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    full: bool,
    limit: int,
    offset: int,
    **filters: Any,
) -> int:
    """List typed prompts, newest first, from the agent's history file."""
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.side_files import PromptRow, list_prompts

    document = list_prompts(all_homes(homes), text, limit=limit, offset=offset, **filters)
    if not show_data(document, PromptRow, document.prompts, as_json=as_json, as_csv=as_csv):
        _show(document, homes, filters, full=full)
    return 1 if document.damaged or document.unreadable or not document.prompts else 0


def _show(
    document: PromptsDocument, homes: tuple[str, ...], filters: dict[str, Any], *, full: bool
) -> None:
    from rich.markup import escape

    out, now = console(), datetime.now(UTC)
    if not document.prompts:
        hint = "turnlog search WORDS also searches the logs"
        if not has_any(homes, "history.jsonl"):
            filters = {}
            hint = (
                "no home has a history.jsonl; turnlog show SESSION --prompts lists the prompts of"
                " one session, turnlog search WORDS finds them in all"
            )
        print_nothing_found("prompts", homes, filters, hint=hint)
    names = [inert(project_name(row.project)) for row in document.prompts]
    width = min(at_most(20, out.width), max(map(len, names), default=0))
    for row, name in zip(document.prompts, names, strict=True):
        cut = name if len(name) <= width else f"{name[: width - 1]}…"
        head = f"[dim]{age(now, row.at):>10}[/]  [cyan]{escape(cut.ljust(width))}[/]"
        if not full:
            line = " ".join(row.text.split())
            out.print(f"{head}  {safe(line)}", overflow="ellipsis", no_wrap=True, soft_wrap=False)
            continue
        out.print(f"{head}  [dim]{safe((row.session or '')[:8])}[/]\n{safe_text(row.text)}")
        for paste in row.pasted:
            pasted = safe_text(paste.text) if paste.text is not None else "[dim](not text)[/]"
            out.print(f"[dim]pasted {safe(paste.id)}:[/]\n{pasted}")
        out.print()
    show_more(out, document)
    if document.damaged:
        out.print(f"[yellow]{counted(document.damaged, 'damaged range')} in the history[/]")
    for reason in document.unreadable:
        out.print(f"[red]✗[/] {safe(reason)}")
