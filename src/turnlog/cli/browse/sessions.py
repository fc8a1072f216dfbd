"""``turnlog sessions``: list sessions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from turnlog.cli import options
from turnlog.cli.terminal.console import (
    UNLIMITED,
    age,
    at_most,
    console,
    counted,
    plain_title,
    safe,
    short_count,
    size,
)
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more
from turnlog.cli.terminal.tables import GAP, Need, cut_right, widths_for
from turnlog.pricing.money import shown

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.sessions.lists import IndexedSession, SessionCatalog, SessionRow, SessionSort

# Repeated here so that --help imports nothing slow; a test compares them with the API's.
SORTS: Final = (
    "active", "started", "title", "project", "records", "prompts", "tokens", "cost", "subagents",
    "errors", "duration", "size",
)  # fmt: skip
LIFE: Final = ("created", "active", "resumed", "expired", "deleted")
# What else a session can be, with the name of the filter.
_FILTERS: Final = {
    "running": "running",
    "pinned": "pinned",
    "kept": "kept",
    "archived": "archived",
    "gone": "gone",
    "damaged": "has_damage",
    "crashed": "crashed",
    "errors": "has_errors",
    "subagents": "has_subagents",
}
_TITLE_AT_LEAST: Final = 20
_TITLE_AT_BEST: Final = 44


@click.command(
    name="sessions",
    epilog="""\b
Examples:
  turnlog sessions                        the twenty most recently active
  turnlog sessions retry                  with "retry" in the title or prompt
  turnlog sessions --project .            those in this directory
  turnlog sessions --is archived          archived ones
  turnlog sessions --since 7d --sort cost
  turnlog sessions --tag billing --limit 0""",
)
@click.argument("words", metavar="[WORDS]...", nargs=-1)
@options.report_options
@options.period_options
@options.model_option
@click.option("--agent", metavar="NAME", help="Only this agent, such as codex.")
@click.option("--branch", metavar="NAME", help="Only this git branch.")
@options.tool_option
@click.option("--tag", metavar="TAG", help="Only this tag.")
@click.option(
    "--is",
    "states",
    type=click.Choice([*LIFE, *_FILTERS]),
    multiple=True,
    metavar="STATE",
    help="Only this state; repeatable: archived, pinned, kept, gone (deleted by the agent),"
    " damaged, crashed, running, errors (has some), subagents (has some), created, active,"
    " resumed, expired, deleted.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    metavar="FIELD",
    default="active",
    help=f"Sort by {', '.join(SORTS[:-1])} or {SORTS[-1]}.  [default: active]",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--wide", is_flag=True, help="Also show prompts, tokens, model and branch.")
@options.page_options
@options.no_refresh_option
def command(
    words: tuple[str, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    states: tuple[str, ...],
    sort: SessionSort,
    limit: int,
    no_refresh: bool,
    wide: bool,
    **filters: Any,
) -> int:
    """List sessions, most recently active first.

    WORDS must all be in the title or the first prompt. --since and --until match sessions that
    overlap the period. Costs are estimates at API prices.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.lists import (
        IndexedSession,
        SessionCosts,
        list_indexed,
        unknown_names,
    )

    of_states = _state_filters(states)
    with options.open_index(all_homes(homes), no_refresh=no_refresh) as index:
        listed = list_indexed(
            index,
            words=words,
            sort=sort,
            limit=limit or None,
            with_tools=as_json or as_csv,
            costs=SessionCosts(index, options.configured_prices()),
            **filters,
            **of_states,
        )
        problems = index.refreshed.problems if index.refreshed else []
        if not listed.sessions:
            filters["unknown"] = unknown_names(index, tool=filters["tool"], model=filters["model"])
    if not show_data(listed, IndexedSession, listed.sessions, as_json=as_json, as_csv=as_csv):
        _show(listed, homes, filters | {"words": words, "is": states}, sort=sort, wide=wide)
    options.print_unread(problems, "listed")
    return 0 if listed.sessions else 1


def _state_filters(states: tuple[str, ...]) -> dict[str, Any]:
    """Return the filters for *states*; those that are gone or archived are listed on request."""
    life = [state for state in states if state in LIFE]
    if len(life) > 1:
        raise click.UsageError(f"a session cannot be {' and '.join(life)}")
    filters: dict[str, Any] = {_FILTERS[state]: True for state in states if state in _FILTERS}
    return {"gone": False, "state": life[0] if life else None} | filters


# How safe a session is: a mark, and what it means.
_KEEPINGS: Final = {
    "kept": ("[green]✓[/]", "kept"),
    "live": ("·", "not kept: turnlog keep"),
    "restorable": ("[yellow]↺[/]", "deleted, but kept: turnlog restore"),
    "gone": ("[red]✗[/]", "deleted; only the index is left"),
}


class _Column(NamedTuple):
    head: str
    cell: Callable[[Any], str]
    rank: int
    """The columns with the highest are dropped first."""
    least: int = UNLIMITED
    """The width to which it may be cut."""
    justify: Any = "right"


def _show(
    listed: SessionCatalog,
    homes: tuple[str, ...],
    filters: dict[str, Any],
    *,
    sort: str,
    wide: bool,
) -> None:
    if not listed.sessions:
        archived = "archived" in filters["is"]
        hint = "archive one with turnlog archive SESSION" if archived else "all are archived"
        what = "archived sessions" if archived else "sessions"
        print_nothing_found(
            what, homes, {} if filters["is"] == ("archived",) else filters, hint=hint
        )
        return
    out = console()
    out.print(session_table(out, listed.sessions, sort=sort, wide=wide))
    if out.is_terminal:
        marks = [*{_KEEPINGS[row.keeping]: None for row in listed.sessions}]
        if any(row.pinned for row in listed.sessions):
            marks.append((_PIN, "pinned"))
        out.print(f"[dim]{'   '.join(f'{mark} {words}' for mark, words in sorted(marks))}[/]")
    show_more(out, listed)


def session_table(out: Console, rows: Any, *, sort: str = "active", wide: bool = False) -> Any:
    """Return a table of sessions, as wide as the terminal."""
    from rich.table import Table

    now = datetime.now(UTC)
    columns = _columns(out, rows, now, sort)
    needs = [_need(column, rows) for column in columns]
    title = Need(max(_width(_title(row, UNLIMITED)) for row in rows), _TITLE_AT_LEAST, 1)
    # The other columns are shown if they leave enough room for the title.
    best = min(title.width, _TITLE_AT_LEAST if wide else _TITLE_AT_BEST)
    used = sum(need.width + GAP for need in needs) + best
    for column in _more_columns(rows, sort):
        need = _need(column, rows)
        if used + need.least + GAP <= out.width:
            used += need.least + GAP
            columns.append(column)
            needs.append(need)
    *widths, room = widths_for([*needs, title], out.width)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    visible = [(column, width) for column, width in zip(columns, widths, strict=True) if width]
    for column, width in visible:
        table.add_column(
            column.head, no_wrap=True, overflow="ellipsis", width=width, justify=column.justify
        )
    table.add_column("title", no_wrap=True, overflow="ellipsis", max_width=room)
    for row in rows:
        table.add_row(*(column.cell(row) for column, _ in visible), _title(row, room))
    return table


def _columns(out: Console, rows: Any, now: datetime, sort: str) -> list[_Column]:
    """Return the columns before the title that every list has, and the one it is sorted by."""
    widest = at_most(max(12, out.width // 6), out.width)

    def project(row: SessionRow) -> str:
        return f"[cyan]{safe(cut_right(project_name(row.project), widest))}[/]"

    def session(row: SessionRow) -> str:
        return f"[{'dim' if row.state == 'expired' else 'bold'}]{safe(row.id[:8])}[/]"

    columns = [
        _Column("session", session, 0, justify="left"),
        _Column("", lambda row: _KEEPINGS[row.keeping][0], 6),
        _Column("active", lambda row: age(now, row.last_active_at), 4),
        _Column("project", project, 5, least=8, justify="left"),
    ]
    if any(getattr(row, "cost_usd", None) for row in rows):
        columns.append(_Column("cost", _cost, 3))
    sorted_by = {
        "started": _Column("started", lambda row: age(now, row.started_at), 2),
        "records": _Column("records", lambda row: f"{row.records:,}", 2),
        "subagents": _Column("subagents", lambda row: f"{row.subagents:,}", 2),
        "errors": _Column("errors", lambda row: f"{row.errors:,}", 2),
        "duration": _Column("lasted", _lasted, 2),
        "size": _Column("size", lambda row: size(row.size_bytes), 2),
        "prompts": _Column("prompts", _prompts, 2),
        "tokens": _Column("tokens", _tokens, 2),
    }
    return [*columns, sorted_by[sort]] if sort in sorted_by else columns


def _more_columns(rows: Any, sort: str) -> list[_Column]:
    """Return the columns that are shown if there is room, the most important first."""
    agents = {getattr(row, "agent", None) for row in rows}
    columns = [
        *(
            [_Column("agent", lambda row: safe(row.agent), 9, 11, "left")]
            if len(agents) > 1
            else []
        ),
        _Column("model", lambda row: safe(short_models(row.models)), 12, 16, "left"),
        _Column("branch", lambda row: safe(row.git_branch or ""), 13, 18, "left"),
    ]
    if hasattr(rows[0], "prompts"):
        first = {
            "prompts": _Column("prompts", _prompts, 10),
            "tokens": _Column("tokens", _tokens, 11),
        }
        columns = [*(column for name, column in first.items() if name != sort), *columns]
    return columns


def _need(column: _Column, rows: Any) -> Need:
    width = max(_width(column.head), *(_width(column.cell(row)) for row in rows))
    return Need(width, min(width, column.least), column.rank)


def _width(markup: str) -> int:
    from rich.text import Text

    return Text.from_markup(markup).cell_len


_PIN: Final = "[yellow]★[/]"


def _title(row: SessionRow | IndexedSession, room: int) -> str:
    """Return the title with marks before it, and with tags after it, which are not cut."""
    before = f"{_PIN} " if row.pinned else ""
    if row.running is not None:
        before += f"[green]● {safe(row.running)}[/] "
    before += "".join(f"[{style}]({mark})[/] " for style, mark in _marks(row))
    after = "".join(f" [magenta]#{safe(tag)}[/]" for tag in row.tags)
    left = room - _width(before) - _width(after)
    if left < _TITLE_AT_LEAST // 2:
        after, left = "", room - _width(before)
    title = safe(cut_right(plain_title(row.title), left))
    subagents = f" [dim]+{counted(row.subagents, 'subagent')}[/]" if row.subagents else ""
    has_room = _width(title) + _width(subagents) <= left
    return f"{before}{title}{after}{subagents if has_room else ''}"


def _cost(row: Any) -> str:
    return shown(Decimal(row.cost_usd)) if row.cost_usd else ""


def _prompts(row: Any) -> str:
    return f"{row.prompts:,}"


def _tokens(row: Any) -> str:
    return short_count(row.tokens)


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
