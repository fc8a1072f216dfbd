"""``turnlog sessions``: list sessions.

The plain list is read from the logs. Filters, other orders and --wide use the index.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from turnlog.cli import options
from turnlog.cli.terminal.console import (
    age,
    at_most,
    console,
    counted,
    safe,
    short_count,
    size,
    titled,
)
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.homes import Problem
    from turnlog.api.sessions.lists import (
        IndexedSession,
        SessionCatalog,
        SessionList,
        SessionRow,
        SessionSort,
    )

# Repeated here so that --help imports nothing slow; a test compares them with the API's.
SORTS: Final = (
    "active", "started", "title", "records", "prompts", "tokens", "subagents", "duration", "size",
)  # fmt: skip
STATES: Final = ("created", "active", "resumed", "expired", "deleted")
_TITLE_AT_LEAST: Final = 20
_TITLE_AT_BEST: Final = 44


@click.command(
    name="sessions",
    epilog="""\b
Examples:
  turnlog sessions                        the twenty most recently active
  turnlog sessions --project .            those in this directory
  turnlog sessions --limit 0              all of them
  turnlog sessions --archived             archived ones
  turnlog sessions --since 7d --sort tokens
  turnlog sessions --tool WebSearch --model opus""",
)
@options.report_options
@options.period_options
@click.option("--title", "text_in_title", metavar="TEXT", help="Only titles that contain TEXT.")
@options.model_option
@click.option("--branch", metavar="NAME", help="Only this git branch.")
@options.tool_option
@click.option("--tag", metavar="TAG", help="Only this tag.")
@click.option("--state", type=click.Choice(STATES), help="Only this state.")
@click.option("--damaged", is_flag=True, help="Only sessions with damaged logs.")
@click.option("--with-subagents", is_flag=True, help="Only sessions with subagents.")
@click.option("--archived", is_flag=True, help="Show archived sessions instead.")
@click.option("--gone", is_flag=True, help="Only sessions whose log was deleted by the agent.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="active", show_default=True, help="Sort order."
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--wide", is_flag=True, help="Also show prompts, tokens, model and branch.")
@options.page_options
@options.no_refresh_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    project: str | None,
    archived: bool,
    sort: SessionSort,
    limit: int,
    offset: int,
    no_refresh: bool,
    wide: bool,
    **filters: Any,
) -> int:
    """List sessions, most recently active first.

    --since and --until match sessions that overlap the period. Filters, --sort and --wide use the
    index, which is updated first. The plain list reads both ends of each log; a title in between is
    known only if there is an index.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.lists import SessionRow, list_indexed, list_sessions, unknown_names

    listed: SessionList | SessionCatalog
    problems: list[Problem] = []
    places = all_homes(homes)
    page: dict[str, Any] = {
        "project": project, "archived": archived, "limit": limit or None, "offset": offset,
    }  # fmt: skip
    if wide or sort != "active" or any(value not in {None, False} for value in filters.values()):
        with options.open_index(places, no_refresh=no_refresh) as index:
            listed = list_indexed(
                index, sort=sort, now=datetime.now(UTC), **page, **_api_filters(**filters)
            )
            if not listed.sessions:
                filters["unknown"] = unknown_names(
                    index, tool=filters["tool"], model=filters["model"]
                )
    else:
        listed = list_sessions(places, problems=problems, **page)
    if not show_data(listed, SessionRow, listed.sessions, as_json=as_json, as_csv=as_csv):
        filters["project"] = project
        _show(listed, homes, filters, archived=archived, sort=sort, wide=wide)
    options.print_unread(problems, "listed")
    return 0 if listed.sessions else 1


def _api_filters(*, damaged: bool, with_subagents: bool, **others: Any) -> dict[str, Any]:
    return others | {"has_damage": damaged or None, "has_subagents": with_subagents or None}


# How safe a session is: a mark, and what it means.
_KEEPINGS: Final = {
    "kept": ("[green]✓[/]", "kept"),
    "live": ("·", "not kept: turnlog keep"),
    "restorable": ("[yellow]↺[/]", "deleted, but kept: turnlog restore"),
    "gone": ("[red]✗[/]", "deleted; only the index is left"),
}


class _Column(NamedTuple):
    head: str
    width: int
    cell: Callable[[Any], str]
    justify: Any = "right"


def _show(
    listed: SessionList | SessionCatalog,
    homes: tuple[str, ...],
    filters: dict[str, Any],
    *,
    archived: bool,
    sort: str,
    wide: bool,
) -> None:
    if not listed.sessions:
        hint = "archive one with turnlog archive SESSION" if archived else "all are archived"
        what = "archived sessions" if archived else "sessions"
        print_nothing_found(what, homes, filters, hint=hint)
        return
    out = console()
    out.print(session_table(out, listed.sessions, sort=sort, wide=wide))
    if out.is_terminal:
        marks = {_KEEPINGS[row.keeping] for row in listed.sessions}
        out.print(f"[dim]{'   '.join(f'{mark} {words}' for mark, words in sorted(marks))}[/]")
    show_more(out, listed)


def session_table(out: Console, rows: Any, *, sort: str = "active", wide: bool = False) -> Any:
    """Return a table of sessions, as wide as the terminal."""
    from rich.cells import cell_len
    from rich.table import Table

    now = datetime.now(UTC)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    project = max(7, *(min(at_most(20, out.width), len(project_name(row.project))) for row in rows))
    # Only the last column may shrink: rich would shrink all of them.
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("", no_wrap=True, width=1)
    table.add_column("active", justify="right", no_wrap=True, width=10)
    table.add_column("project", no_wrap=True, overflow="ellipsis", width=project)
    room = out.width - 8 - 1 - 10 - project - 8
    more = _more(rows, now, sort=sort, wide=wide, room=room)
    room -= sum(column.width + 2 for column in more)
    lines = [_cells(row, now) for row in rows]
    spare = _spare(room, [title for _, title in lines])
    for column in more:
        cells = [column.cell(row) for row in rows]
        wider = min(max(0, spare), max(0, *(cell_len(cell) - column.width for cell in cells)))
        spare, room, width = spare - wider, room - wider, column.width + wider
        table.add_column(
            column.head, no_wrap=True, overflow="ellipsis", min_width=width,
            max_width=at_most(width, out.width), justify=column.justify,
        )  # fmt: skip
    room = max(_TITLE_AT_LEAST, room)
    table.add_column("title", no_wrap=True, overflow="ellipsis", max_width=room)
    for row, (first, title) in zip(rows, lines, strict=True):
        table.add_row(*first, *(column.cell(row) for column in more), title)
    return table


def _spare(room: int, titles: list[str]) -> int:
    """Return how much of the titles' *room* other columns may use."""
    from rich.text import Text

    longest = max(Text.from_markup(title).cell_len for title in titles)
    return max(room - longest, (room - _TITLE_AT_BEST) // 2)


def _more(rows: Any, now: datetime, *, sort: str, wide: bool, room: int) -> list[_Column]:
    """Choose the column that the list is sorted by, and others that fit."""
    columns = {
        "started": _Column("started", 10, lambda row: age(now, row.started_at)),
        "records": _Column("records", 7, lambda row: f"{row.records:,}"),
        "prompts": _Column("prompts", 7, lambda row: f"{row.prompts:,}"),
        "tokens": _Column("tokens", 7, lambda row: short_count(row.tokens)),
        "subagents": _Column("subagents", 9, lambda row: f"{row.subagents:,}"),
        "duration": _Column("lasted", 8, _lasted),
        "size": _Column("size", 9, lambda row: size(row.size_bytes)),
        "model": _Column("model", 16, lambda row: safe(short_models(row.models)), "left"),
        "branch": _Column("branch", 18, lambda row: safe(row.git_branch or ""), "left"),
    }
    is_indexed = hasattr(rows[0], "prompts")
    wanted = [sort] if sort in columns else []
    chosen = [columns[each] for each in wanted]
    room -= sum(column.width + 2 for column in chosen)
    for each in ("prompts", "tokens", "model", "branch"):
        column = columns[each]
        if each in wanted or not (is_indexed or each in {"model", "branch"}):
            continue
        least = _TITLE_AT_LEAST if wide else _TITLE_AT_BEST
        if room - column.width - 2 >= least:
            chosen.append(column)
            room -= column.width + 2
    return chosen


def _cells(row: SessionRow | IndexedSession, now: datetime) -> tuple[tuple[str, ...], str]:
    title = titled(row.title)
    subagents = f" [dim]+{counted(row.subagents, 'subagent')}[/]" if row.subagents else ""
    title = "".join(f"[{style}]({mark})[/] " for style, mark in _marks(row)) + title
    if row.running is not None:
        title = f"[green]● {safe(row.running)}[/] {title}"
    style = "dim" if row.state == "expired" else "bold"
    first = (
        f"[{style}]{safe(row.id[:8])}[/]",
        _KEEPINGS[row.keeping][0],
        age(now, row.last_active_at),
        f"[cyan]{safe(project_name(row.project))}[/]",
    )
    return first, f"{title}{subagents}"


def _marks(row: Any) -> list[tuple[str, str]]:
    """Return the problems of a session that the list knows, each with its colour."""
    marks = []
    if damages := getattr(row, "damages", 0):
        marks.append(("yellow", counted(damages, "damage")))
    if getattr(row, "crashed", False):
        marks.append(("yellow", "crashed"))
    return marks


def _lasted(row: Any) -> str:
    if row.started_at is None or row.last_active_at is None:
        return ""
    minutes = max(0, int((row.last_active_at - row.started_at).total_seconds() // 60))
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60:02}" if hours else f"{minutes} min"


def short_models(models: list[str]) -> str:
    """Return the short name of the last of *models*, and how many others there are."""
    from turnlog.api.arguments import short_model

    if not models:
        return ""
    name = short_model(models[-1])
    return f"{name} +{len(models) - 1}" if len(models) > 1 else name


def project_name(path: str | None) -> str:
    """Return the last part of a project's path, or "?"."""
    from turnlog.api.homes import last_part

    return last_part(path or "") or "?"
