"""``turnlog prompts``: what people typed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    resolve_session,
    session_option,
    show_json,
)
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.formats import Problem
    from turnlog.sessions.side_files.prompts import Prompt, PromptPage


class PastedRow(Struct, kw_only=True):
    """Something pasted into a prompt."""

    id: str
    kind: str | None
    text: str | None


class PromptRow(Struct, kw_only=True):
    """One prompt as it was typed."""

    text: str
    at: datetime | None
    project: str | None
    session: str | None
    pasted: list[PastedRow]
    home: str


class PromptsDocument(Struct, kw_only=True):
    """What `turnlog prompts --json` prints."""

    prompts: list[PromptRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int
    damaged: int
    odd: int
    unreadable: list[str]


@click.command(
    name="prompts",
    epilog="""\b
Examples:
  turnlog prompts                  the last twenty, in whatever project
  turnlog prompts frost            those that say "frost", in any case
  turnlog prompts --project .      those typed in this directory
Exit code: 0 done, 1 nothing was found or the history is damaged, 2 a mistake, 3 a failure.""",
)
@click.argument("text", metavar="[TEXT]", required=False)
@home_option
@json_option
@csv_option
@period_options
@session_option
@click.option("--full", is_flag=True, help="Show whole prompts, with what was pasted.")
@page_options
def command(
    text: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    session: str | None,
    full: bool,
    limit: int,
    offset: int,
    **asked: Any,
) -> int:
    """List the prompts that were typed, newest first, from the history that a home keeps."""
    from turnlog.formats import all_homes
    from turnlog.sessions.side_files.prompts import find_prompts

    problems: list[Problem] = []
    found = find_prompts(
        all_homes(homes),
        session=resolve_session(session, homes),
        text=text,
        limit=limit or None,
        offset=offset,
        problems=problems,
        **asked,
    )
    document = _document(found, offset, problems)
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(PromptRow, document.prompts, more=document.next)
    else:
        _show(document, homes, asked | {"session": session}, full=full)
    wrong = document.damaged or document.unreadable
    return 1 if wrong or not document.prompts else 0


def _document(found: PromptPage, first: int, problems: list[Problem]) -> PromptsDocument:
    end = first + len(found.prompts)
    return PromptsDocument(
        prompts=[_row(prompt) for prompt in found.prompts],
        next=end if found.prompts and end < found.total else None,
        total=found.total,
        damaged=found.damaged,
        odd=found.odd,
        unreadable=[problem.reason for problem in problems],
    )


def _row(prompt: Prompt) -> PromptRow:
    return PromptRow(
        text=prompt.text,
        at=prompt.at,
        project=prompt.project,
        session=prompt.session_id,
        pasted=[PastedRow(id=each.id, kind=each.kind, text=each.text) for each in prompt.pasted],
        home=prompt.home,
    )


def _show(
    found: PromptsDocument, homes: tuple[str, ...], asked: dict[str, Any], *, full: bool
) -> None:
    from rich.markup import escape

    from turnlog.cli.browse.sessions import project_name
    from turnlog.cli.terminal.console import age, at_most, console, counted, safe, safe_text

    out = console()
    if not found.prompts:
        from turnlog.cli.terminal.empty_results import has_any, print_nothing_found

        hint = "turnlog search WORDS looks for them in the logs, too"
        if not has_any(homes, "history.jsonl"):
            asked = {}
            hint = (
                "no home here has a history.jsonl; turnlog show SESSION --prompts lists those of a"
                " session, turnlog search WORDS finds them in all"
            )
        print_nothing_found("prompts", homes, asked, hint=hint)
    now = datetime.now(UTC)
    names = [inert(project_name(row.project)) for row in found.prompts]
    width = min(at_most(20, out.width), max(map(len, names), default=0))
    for row, name in zip(found.prompts, names, strict=True):
        cut = name if len(name) <= width else f"{name[: width - 1]}…"
        head = f"[dim]{age(now, row.at):>10}[/]  [cyan]{escape(cut.ljust(width))}[/]"
        if not full:
            line = " ".join(row.text.split())
            out.print(f"{head}  {safe(line)}", overflow="ellipsis", no_wrap=True, soft_wrap=False)
            continue
        out.print(f"{head}  [dim]{safe((row.session or '')[:8])}[/]\n{safe_text(row.text)}")
        for each in row.pasted:
            what = safe_text(each.text) if each.text is not None else "[dim](not text)[/]"
            out.print(f"[dim]pasted {safe(each.id)}:[/]\n{what}")
        out.print()
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")
    if found.damaged:
        out.print(f"[yellow]{counted(found.damaged, 'range')} of the history is no record[/]")
    for reason in found.unreadable:
        out.print(f"[red]✗[/] {safe(reason)}")
