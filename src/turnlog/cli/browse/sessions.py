"""``turnlog sessions``: which sessions there are.

The plain list comes from the logs themselves. Whoever asks for more, a filter or another order,
asks the index; the table is the same, and grows with the terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from turnlog.cli.index_access import no_refresh_option
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    model_option,
    page_options,
    period_options,
    print_unread,
    show_json,
)

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.index import Index
    from turnlog.api.indexed_sessions import IndexedSession, SessionCatalog, SessionSort
    from turnlog.api.sessions import SessionList, SessionRow
    from turnlog.formats import Problem

# Written out, since what knows them is imported only when it is asked; a test compares.
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
  turnlog sessions                        the twenty that were active last
  turnlog sessions --project .            those that worked in this directory
  turnlog sessions --limit 0              all of them
  turnlog sessions --archived             those that are archived
  turnlog sessions --since 7d --sort tokens
  turnlog sessions --tool WebSearch --model opus""",
)
@home_option
@json_option
@csv_option
@period_options
@click.option("--title", "text_in_title", metavar="TEXT", help="Only those with TEXT in the title.")
@model_option
@click.option("--branch", metavar="NAME", help="Only those that were on this git branch.")
@click.option("--tool", metavar="NAME", help="Only those that called this tool.")
@click.option("--tag", metavar="TAG", help="Only those with this tag.")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--damaged", is_flag=True, help="Only those with damage in their logs.")
@click.option("--with-subagents", is_flag=True, help="Only those that had subagents.")
@click.option("--archived", is_flag=True, help="Those that are archived, and no others.")
@click.option("--gone", is_flag=True, help="Only those whose log is gone at its source.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="active", show_default=True, help="Which first."
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--wide", is_flag=True, help="Show prompts, tokens, model and branch.")
@page_options
@no_refresh_option
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
    **asked: Any,
) -> int:
    """List sessions, the one that was active last first.

    A session is of every time from its first record to its last. A filter, another order or --wide
    asks the index, which is brought up to date first. The plain list reads the two ends of each
    log: a name given between them it knows only if an index was made before.
    """
    from turnlog.formats import all_homes

    found: SessionList | SessionCatalog
    problems: list[Problem] = []
    is_narrowed = any(value not in {None, False} for value in asked.values())
    if wide or sort != "active" or is_narrowed:
        from turnlog.api.indexed_sessions import list_indexed
        from turnlog.cli.index_access import open_index

        filters = _filters(**asked)
        with open_index(all_homes(homes), no_refresh=no_refresh) as index:
            found = list_indexed(
                index,
                project=project,
                archived=archived,
                sort=sort,
                limit=limit or None,
                offset=offset,
                **filters,
            )
            if not found.sessions:
                asked["unknown"] = _unknown(index, asked)
    else:
        from turnlog.api.sessions import list_sessions

        found = list_sessions(
            all_homes(homes),
            project=project,
            archived=archived,
            limit=limit or None,
            offset=offset,
            problems=problems,
        )
    if as_json:
        show_json(found)
    elif as_csv:
        from turnlog.api.sessions import SessionRow
        from turnlog.cli.terminal.output import show_csv

        show_csv(SessionRow, found.sessions, more=found.next)
    else:
        _show(found, homes, asked | {"project": project}, archived=archived, sort=sort, wide=wide)
    print_unread(problems, "listed")
    return 0 if found.sessions else 1


def _unknown(index: Index, asked: dict[str, Any]) -> str:
    """Return which names that were asked for nothing has, and what comes near."""
    from turnlog.api.names import models_used, no_such_model, no_such_tool, tools_named

    told = []
    if asked["tool"] is not None and not tools_named(index.db, asked["tool"]):
        told.append(no_such_tool(index.db, asked["tool"]))
    if asked["model"] is not None:
        told.append(no_such_model(asked["model"], models_used(index.db)))
    return "; ".join(filter(None, told))


def _filters(*, damaged: bool, with_subagents: bool, **others: Any) -> dict[str, Any]:
    """Return what was asked for in the words of `list_indexed`."""
    return others | {
        "has_damage": damaged or None,
        "has_subagents": with_subagents or None,
        "now": datetime.now(UTC),
    }


# How safe a session is, in one character; and what it means.
_KEEPINGS: Final = {
    "kept": ("[green]✓[/]", "kept"),
    "live": ("·", "not kept: turnlog keep"),
    "restorable": ("[yellow]↺[/]", "gone, but kept: turnlog restore"),
    "gone": ("[red]✗[/]", "gone, and only its index is left"),
}


class _Column(NamedTuple):
    head: str
    width: int
    cell: Callable[[Any], str]
    justify: Any = "right"


def _show(
    found: SessionList | SessionCatalog,
    homes: tuple[str, ...],
    asked: dict[str, Any],
    *,
    archived: bool,
    sort: str,
    wide: bool,
) -> None:
    from turnlog.cli.terminal.console import console

    if not found.sessions:
        from turnlog.cli.terminal.empty_results import print_nothing_found

        hint = "turnlog archive SESSION archives one" if archived else "all of them are archived"
        print_nothing_found(
            "archived sessions" if archived else "sessions", homes, asked, hint=hint
        )
        return
    out = console()
    out.print(session_table(out, found.sessions, sort=sort, wide=wide))
    if out.is_terminal:  # Whoever counts lines knows what they mean.
        signs = {_KEEPINGS[row.keeping] for row in found.sessions}
        out.print(f"[dim]{'   '.join(f'{sign} {words}' for sign, words in sorted(signs))}[/]")
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")


def session_table(out: Console, rows: Any, *, sort: str = "active", wide: bool = False) -> Any:
    """Draw a list of sessions, as wide as the terminal."""
    from rich.cells import cell_len
    from rich.table import Table

    from turnlog.cli.terminal.console import at_most

    now = datetime.now(UTC)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    project = max(7, *(min(at_most(20, out.width), len(project_name(row.project))) for row in rows))
    # Fixed widths but for the last column: rich would shrink them all alike, down to nothing.
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
    table.add_column("what it is about", no_wrap=True, overflow="ellipsis", max_width=room)
    for row, (first, title) in zip(rows, lines, strict=True):
        table.add_row(*first, *(column.cell(row) for column in more), title)
    return table


def _spare(room: int, titles: list[str]) -> int:
    """Return how much of a title's *room* others may have: what it needs not, or half."""
    from rich.text import Text

    longest = max(Text.from_markup(title).cell_len for title in titles)
    return max(room - longest, (room - _TITLE_AT_BEST) // 2)


def _more(rows: Any, now: datetime, *, sort: str, wide: bool, room: int) -> list[_Column]:
    """Choose columns: what the list is sorted by, and what else there is room for."""
    from turnlog.cli.terminal.console import age, safe, short_count, size

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
        # Who asks for much gets it as long as a title can still be told from another.
        least = _TITLE_AT_LEAST if wide else _TITLE_AT_BEST
        if room - column.width - 2 >= least:
            chosen.append(column)
            room -= column.width + 2
    return chosen


def _cells(row: SessionRow | IndexedSession, now: datetime) -> tuple[tuple[str, ...], str]:
    from turnlog.cli.terminal.console import age, safe, titled

    title = titled(row.title)
    subagents = (
        f" [dim]+{row.subagents} subagent{'s' if row.subagents > 1 else ''}[/]"
        if row.subagents
        else ""
    )
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
    """Say what is amiss with a session, as far as the list knows."""
    from turnlog.cli.terminal.console import counted

    found = []
    if damages := getattr(row, "damages", 0):
        found.append(("yellow", counted(damages, "damage")))
    if getattr(row, "crashed", False):
        found.append(("yellow", "crashed"))
    return found


def _lasted(row: Any) -> str:
    if row.started_at is None or row.last_active_at is None:
        return ""
    minutes = max(0, int((row.last_active_at - row.started_at).total_seconds() // 60))
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60:02}" if hours else f"{minutes} min"


def short_models(models: list[str]) -> str:
    """Name the last of *models* the way people say it, and how many there were besides."""
    from turnlog.api.names import short_model

    if not models:
        return ""
    name = short_model(models[-1])
    return f"{name} +{len(models) - 1}" if len(models) > 1 else name


def project_name(path: str | None) -> str:
    """Return the last part of a project's path, of whatever system it is."""
    from turnlog.formats.projects import last_part

    return last_part(path or "") or "?"
