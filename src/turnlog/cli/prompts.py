"""``turnlog prompts``: what people typed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.layout import Problem
    from turnlog.sessions.prompts import Prompt, PromptPage


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
@click.option("--project", metavar="DIR", help="Only prompts typed in DIR or below it.")
@click.option("--session", metavar="ID", help="Only prompts of sessions whose id begins so.")
@click.option("--full", is_flag=True, help="Show whole prompts, with what was pasted.")
@click.option("--limit", default=20, show_default=True, help="How many to show; 0 shows all.")
@click.option("--offset", default=0, show_default=True, help="How many to leave out first.")
def command(
    text: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    project: str | None,
    session: str | None,
    full: bool,
    limit: int,
    offset: int,
) -> int:
    """List the prompts that were typed, newest first, from the history that a home keeps."""
    from turnlog.layout import all_homes
    from turnlog.sessions.prompts import find_prompts

    problems: list[Problem] = []
    first = max(0, offset)
    found = find_prompts(
        all_homes(homes),
        project=project,
        session=session,
        text=text,
        limit=limit if limit > 0 else None,
        offset=first,
        problems=problems,
    )
    document = _document(found, first, problems)
    if as_json:
        show_json(document)
    else:
        _show(document, full=full)
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


def _show(found: PromptsDocument, *, full: bool) -> None:
    from turnlog.cli.terminal import age, console, counted, safe, safe_text

    out = console()
    if not found.prompts:
        out.print("No prompts found.")
        out.print("[dim]hint: the history is history.jsonl in a home; name one with --home[/]")
    now = datetime.now(UTC)
    for row in found.prompts:
        name = (row.project or "").replace("\\", "/").rstrip("/").rpartition("/")[2] or "?"
        head = f"[dim]{age(now, row.at):>10}[/] [cyan]{safe(name)}[/]"
        if not full:
            line = " ".join(row.text.split())
            out.print(f"{head} {safe(line)}", overflow="ellipsis", no_wrap=True, soft_wrap=False)
            continue
        out.print(f"{head} [dim]{safe((row.session or '')[:8])}[/]\n{safe_text(row.text)}")
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
