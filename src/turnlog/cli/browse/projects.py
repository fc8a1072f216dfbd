"""``turnlog projects``: list the directories that sessions worked in."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli import options
from turnlog.cli.terminal.console import age, console, from_user, short_count, size
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more
from turnlog.cli.terminal.tables import Need, cut_left, widths_for
from turnlog.pricing.money import shown as shown_usd
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.sessions.lists import ProjectCatalog, ProjectRow, ProjectSort

# Repeated here so that --help imports nothing slow; a test compares them with the API's.
SORTS: Final = (
    "active", "path", "sessions", "prompts", "messages", "tokens", "cost", "subagents", "size",
)  # fmt: skip


@click.command(
    name="projects",
    epilog="""\b
Examples:
  turnlog projects                          the twenty most recently active
  turnlog projects --sort cost --limit 5
  turnlog projects --since 'this month'     only sessions of this month""",
)
@options.report_options
@options.since_option
@options.until_option
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    metavar="FIELD",
    default="active",
    help=f"Sort by {', '.join(SORTS[:-1])} or {SORTS[-1]}.  [default: active]",
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
    subagents. Costs are those of the period itself, as in turnlog cost project.
    """
    from turnlog.api.costs import Period
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.lists import ProjectRow, costs_by, list_projects

    prices, period = options.configured_prices(), Period(since=since, until=until)
    with options.open_index(all_homes(homes), no_refresh=no_refresh) as index:
        listed = list_projects(
            index,
            since=since,
            until=until,
            sort=sort,
            reverse=reverse,
            limit=limit or None,
            offset=offset,
            costs=costs_by("project", index, prices, period),
        )
    if not show_data(listed, ProjectRow, listed.projects, as_json=as_json, as_csv=as_csv):
        _show(listed, homes, {"since": since, "until": until}, sort)
    return 0 if listed.projects else 1


# Columns in their order. Those with the highest number are dropped first.
_COLUMNS: Final = {
    "sessions": 2,
    "gone": 7,
    "prompts": 5,
    "tokens": 4,
    "cost": 1,
    "active": 3,
    "messages": 8,
    "subagents": 9,
    "size": 10,
    "started": 11,
    "models": 12,
}
_PATH_AT_LEAST: Final = 24
_MODELS_AT_LEAST: Final = 30


def _show(
    listed: ProjectCatalog, homes: tuple[str, ...], filters: dict[str, Any], sort: str
) -> None:
    from rich.cells import cell_len
    from rich.markup import escape
    from rich.table import Table

    if not listed.projects:
        print_nothing_found("projects", homes, filters)
        return
    out, now = console(), datetime.now(UTC)
    names = [
        "unknown" if row.path is None else inert(from_user(row.path)) for row in listed.projects
    ]
    cells = [_cells(row, now) for row in listed.projects]
    needs = [Need(max(map(cell_len, ("project", *names))), _PATH_AT_LEAST, 0)]
    columns = [name for name in _COLUMNS if any(line[name] for line in cells)]
    for name in columns:
        width = max(map(cell_len, (name, *(line[name] for line in cells))))
        least = _MODELS_AT_LEAST if name == "models" else width
        needs.append(Need(width, least, 1 if name == sort else _COLUMNS[name]))
    width, *widths = widths_for(needs, out.width)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("project", no_wrap=True, width=width)
    shown = [(name, each) for name, each in zip(columns, widths, strict=True) if each]
    for name, each in shown:
        justify: Any = "left" if name == "models" else "right"
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=each, justify=justify)
    for row, path, line in zip(listed.projects, names, cells, strict=True):
        style = "dim" if row.path is None else "cyan"
        table.add_row(
            f"[{style}]{escape(cut_left(path, width))}[/]",
            *(escape(line[name]) for name, _ in shown),
        )
    out.print(table)
    show_more(out, listed)


def _cells(row: ProjectRow, now: datetime) -> dict[str, str]:
    from turnlog.api.arguments import short_model

    return {
        "sessions": f"{row.sessions:,}",
        "gone": f"{row.gone:,}" if row.gone else "",
        "prompts": f"{row.prompts:,}",
        "tokens": short_count(row.tokens),
        "cost": shown_usd(Decimal(row.cost_usd)) if row.cost_usd else "",
        "active": age(now, row.last_at),
        "messages": f"{row.messages:,}",
        "subagents": f"{row.subagents:,}",
        "size": size(row.size_bytes),
        "started": age(now, row.first_at),
        "models": inert(", ".join(dict.fromkeys(map(short_model, row.models)))),
    }
