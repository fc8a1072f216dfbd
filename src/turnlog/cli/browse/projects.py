"""``turnlog projects``: where sessions worked, and what was done there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

import click

from turnlog.cli.index_access import no_refresh_option
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    show_json,
    since_option,
    until_option,
)

if TYPE_CHECKING:
    from turnlog.api.indexed_sessions import ProjectCatalog, ProjectRow, ProjectSort

# Written out, since what knows them is imported only when it is asked; a test compares.
SORTS: Final = (
    "active", "path", "sessions", "prompts", "messages", "tokens", "subagents", "size",
)  # fmt: skip


@click.command(
    name="projects",
    epilog="""\b
Examples:
  turnlog projects                          the twenty where something happened last
  turnlog projects --sort tokens --limit 5
  turnlog projects --since 'this month'     with the sessions of this month only""",
)
@home_option
@json_option
@csv_option
@since_option
@until_option
@click.option(
    "--sort", type=click.Choice(SORTS), default="active", show_default=True, help="Which first."
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@page_options
@no_refresh_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    since: datetime | None,
    until: datetime | None,
    sort: ProjectSort,
    reverse: bool,
    limit: int,
    offset: int,
    no_refresh: bool,
) -> int:
    """List the directories that sessions worked in, the one where something happened last first.

    With --since and --until sessions that were active then count, each with all it has, also what
    its subagents used. For costs, and for what was used in a certain time to the minute, see:
    turnlog cost project
    """
    from turnlog.api.indexed_sessions import list_projects
    from turnlog.cli.index_access import open_index
    from turnlog.formats import all_homes

    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = list_projects(
            index,
            since=since,
            until=until,
            sort=sort,
            reverse=reverse,
            limit=limit or None,
            offset=offset,
        )
    if as_json:
        show_json(found)
    elif as_csv:
        from turnlog.api.indexed_sessions import ProjectRow
        from turnlog.cli.terminal.output import show_csv

        show_csv(ProjectRow, found.projects, more=found.next)
    else:
        _show(found, homes, {"since": since, "until": until}, sort)
    return 0 if found.projects else 1


_Justify = Literal["left", "right"]
# What is shown, from the most to the least wanted, and how wide it is.
_FIGURES: Final[tuple[tuple[str, int, _Justify], ...]] = (
    ("sessions", 8, "right"),
    ("gone", 5, "right"),
    ("prompts", 7, "right"),
    ("tokens", 7, "right"),
    ("active", 10, "right"),
    ("messages", 8, "right"),
    ("subagents", 9, "right"),
    ("size", 9, "right"),
    ("began", 10, "right"),
    ("models", 30, "left"),
)
_PATH_AT_LEAST: Final = 30


def _show(
    found: ProjectCatalog, homes: tuple[str, ...], asked: dict[str, datetime | None], sort: str
) -> None:
    from rich.table import Table

    from turnlog.cli.terminal.console import at_most, console

    if not found.projects:
        from turnlog.cli.terminal.empty_results import print_nothing_found

        print_nothing_found("projects", homes, asked)
        return
    out, now = console(), datetime.now(UTC)
    names = [_name(row.path) for row in found.projects]
    longest = max(map(len, names))
    least = min(longest, _PATH_AT_LEAST)
    shown = []
    room = out.width - least
    for figure in sorted(_FIGURES, key=lambda figure: figure[0] != sort):
        if figure[0] == "gone" and not any(row.gone for row in found.projects):
            continue
        if room < figure[1] + 2:
            break
        room -= figure[1] + 2
        shown.append(figure)
    width = min(longest, least + room)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("project", no_wrap=True, overflow="ellipsis", width=width)
    for head, column, justify in shown:
        table.add_column(
            head, no_wrap=True, overflow="ellipsis", min_width=column,
            max_width=at_most(column, out.width), justify=justify,
        )  # fmt: skip
    for row, name in zip(found.projects, names, strict=True):
        cells = _cells(row, now)
        style = "dim" if row.path is None else "cyan"
        table.add_row(f"[{style}]{_cut(name, width)}[/]", *(cells[head] for head, _, _ in shown))
    out.print(table)
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")


def _name(path: str | None) -> str:
    """Write a project's path the way people say it; harmless, but rich must not read it yet."""
    from rich.text import Text

    from turnlog.cli.terminal.console import short_path

    return "not known" if path is None else Text.from_markup(short_path(path), emoji=False).plain


def _cut(name: str, width: int) -> str:
    """Cut a path on the left: paths are alike at their beginning."""
    from rich.markup import escape

    return escape(name if len(name) <= width else f"…{name[1 - width :]}")


def _cells(row: ProjectRow, now: datetime) -> dict[str, str]:
    from turnlog.api.names import short_model
    from turnlog.cli.terminal.console import age, safe, short_count, size

    return {
        "sessions": f"{row.sessions:,}",
        "gone": f"{row.gone:,}" if row.gone else "",
        "prompts": f"{row.prompts:,}",
        "tokens": short_count(row.tokens),
        "active": age(now, row.last_at),
        "messages": f"{row.messages:,}",
        "subagents": f"{row.subagents:,}",
        "size": size(row.size_bytes),
        "began": age(now, row.first_at),
        "models": safe(", ".join(dict.fromkeys(map(short_model, row.models)))),
    }
