"""``turnlog projects``: list the directories that sessions worked in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli import options
from turnlog.cli.terminal.console import age, at_most, console, from_user, safe, short_count, size
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.sessions.lists import ProjectCatalog, ProjectRow, ProjectSort

# Repeated here so that --help imports nothing slow; a test compares them with the API's.
SORTS: Final = (
    "active", "path", "sessions", "prompts", "messages", "tokens", "subagents", "size",
)  # fmt: skip


@click.command(
    name="projects",
    epilog="""\b
Examples:
  turnlog projects                          the twenty most recently active
  turnlog projects --sort tokens --limit 5
  turnlog projects --since 'this month'     counting only sessions of this month""",
)
@options.report_options
@options.since_option
@options.until_option
@click.option(
    "--sort", type=click.Choice(SORTS), default="active", show_default=True, help="Sort order."
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@options.page_options
@options.no_refresh_option
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
    """List the directories that sessions worked in, most recently active first.

    --since and --until select sessions that overlap the period; each counts as a whole, with its
    subagents. For costs, and for exact periods, use turnlog cost project.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.lists import ProjectRow, list_projects

    with options.open_index(all_homes(homes), no_refresh=no_refresh) as index:
        listed = list_projects(
            index,
            since=since,
            until=until,
            sort=sort,
            reverse=reverse,
            limit=limit or None,
            offset=offset,
        )
    if not show_data(listed, ProjectRow, listed.projects, as_json=as_json, as_csv=as_csv):
        _show(listed, homes, {"since": since, "until": until}, sort)
    return 0 if listed.projects else 1


# Columns, the most important first, and their widths.
_COLUMNS: Final = {
    "sessions": 8,
    "gone": 5,
    "prompts": 7,
    "tokens": 7,
    "active": 10,
    "messages": 8,
    "subagents": 9,
    "size": 9,
    "started": 10,
    "models": 30,
}
_PATH_AT_LEAST: Final = 30


def _show(
    listed: ProjectCatalog, homes: tuple[str, ...], filters: dict[str, Any], sort: str
) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not listed.projects:
        print_nothing_found("projects", homes, filters)
        return
    out, now = console(), datetime.now(UTC)
    names = [
        "unknown" if row.path is None else inert(from_user(row.path)) for row in listed.projects
    ]
    longest = max(map(len, names))
    least = min(longest, _PATH_AT_LEAST)
    shown = []
    room = out.width - least
    for column in sorted(_COLUMNS, key=lambda column: column != sort):
        if column == "gone" and not any(row.gone for row in listed.projects):
            continue
        if room < _COLUMNS[column] + 2:
            break
        room -= _COLUMNS[column] + 2
        shown.append(column)
    width = min(longest, least + room)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("project", no_wrap=True, overflow="ellipsis", width=width)
    for column in shown:
        table.add_column(
            column, no_wrap=True, overflow="ellipsis", min_width=_COLUMNS[column],
            max_width=at_most(_COLUMNS[column], out.width),
            justify="left" if column == "models" else "right",
        )  # fmt: skip
    for row, name in zip(listed.projects, names, strict=True):
        cells = _cells(row, now)
        style = "dim" if row.path is None else "cyan"
        # Cut on the left: paths are alike at their start.
        cut = escape(name if len(name) <= width else f"…{name[1 - width :]}")
        table.add_row(f"[{style}]{cut}[/]", *(cells[column] for column in shown))
    out.print(table)
    show_more(out, listed)


def _cells(row: ProjectRow, now: datetime) -> dict[str, str]:
    from turnlog.api.arguments import short_model

    return {
        "sessions": f"{row.sessions:,}",
        "gone": f"{row.gone:,}" if row.gone else "",
        "prompts": f"{row.prompts:,}",
        "tokens": short_count(row.tokens),
        "active": age(now, row.last_at),
        "messages": f"{row.messages:,}",
        "subagents": f"{row.subagents:,}",
        "size": size(row.size_bytes),
        "started": age(now, row.first_at),
        "models": safe(", ".join(dict.fromkeys(map(short_model, row.models)))),
    }
