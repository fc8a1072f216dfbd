"""``turnlog sessions``: which sessions there are."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.questions.catalog import SessionList, SessionRow


@click.command(
    name="sessions",
    epilog="""\b
Examples:
  turnlog sessions                 the twenty that were active last
  turnlog sessions --project .     those that worked in this directory
  turnlog sessions --limit 0       all of them""",
)
@home_option
@json_option
@click.option("--project", metavar="DIR", help="Only sessions that worked in DIR or below it.")
@click.option("--limit", default=20, show_default=True, help="How many to show; 0 shows all.")
@click.option("--offset", default=0, show_default=True, help="How many to leave out first.")
def command(
    homes: tuple[str, ...], *, as_json: bool, project: str | None, limit: int, offset: int
) -> int:
    """List sessions, the one that was active last first."""
    from turnlog.layout import all_homes
    from turnlog.questions.catalog import list_sessions

    found = list_sessions(
        all_homes(homes), project=project, limit=limit or None, offset=max(0, offset)
    )
    if as_json:
        show_json(found)
    else:
        _show(found)
    return 0 if found.sessions else 1


def _show(found: SessionList) -> None:
    from rich.table import Table

    from turnlog.cli.terminal import console

    out = console()
    if not found.sessions:
        out.print("No sessions found.")
        out.print("[dim]hint: name a home with --home, or run: turnlog check[/]")
        return
    now = datetime.now(UTC)
    cells = [_cells(row, now) for row in found.sessions]
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    project = max(7, *(min(20, len(_name(row))) for row in found.sessions))
    # Fixed widths but for the last column: rich would shrink them all alike, down to nothing.
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("active", justify="right", no_wrap=True, width=10)
    table.add_column("project", no_wrap=True, overflow="ellipsis", width=project)
    room = max(20, out.width - 8 - 10 - project - 6)
    table.add_column("what it is about", no_wrap=True, overflow="ellipsis", max_width=room)
    for row in cells:
        table.add_row(*row)
    out.print(table)
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")


def _cells(row: SessionRow, now: datetime) -> tuple[str, ...]:
    from turnlog.cli.terminal import age, safe

    title = safe(row.title or "untitled")
    agents = f" [dim]+{row.agents} agent{'s' if row.agents > 1 else ''}[/]" if row.agents else ""
    if row.running is not None:
        title = f"[green]● {safe(row.running)}[/] {title}"
    style = "dim" if row.state == "expired" else "bold"
    return (
        f"[{style}]{safe(row.id[:8])}[/]",
        age(now, row.last_active_at),
        f"[cyan]{safe(_name(row))}[/]",
        f"{title}{agents}",
    )


def _name(row: SessionRow) -> str:
    """Give the last part of a project's path, of whatever system it is."""
    return re.split(r"[/\\]", (row.project or "").rstrip("/\\"))[-1] or "?"
