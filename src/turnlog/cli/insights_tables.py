"""The tables of insights on a terminal. A name is cut where it must be, a figure never.

Where the figures of a row leave no room for its name, the last of them go; ``--json`` has all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from turnlog.catalog.names import shown_name
from turnlog.export.html.figures import count, counted, money, part, short, time
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.insights.report import Insights

_SHORTEST_NAME: Final = 10
_GAP: Final = 2
_WIDEST: Final = 120
_TEXTS: Final = ("signature", "tool", "when", "session")


def show_tables(out: Console, found: Insights, zone: tzinfo) -> None:
    """Draw every list that has rows."""
    _models(out, found)
    _agents(out, found)
    _projects(out, found)
    _tools(out, found)
    _sequences(out, found)
    _errors(out, found)
    _edits(out, found)
    _cache(out, found)
    _turns(out, found, zone)
    _commands(out, found)


def draw(
    out: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: str = "right",
    name_is_last: bool = False,
) -> None:
    """Draw a table of a name and its figures; *cut* says at which end a name is cut."""
    from rich.cells import cell_len
    from rich.markup import escape
    from rich.table import Table

    cells = [[inert(cell) for cell in row] for row in rows]
    figures = list(range(len(heads) - 1)) if name_is_last else list(range(1, len(heads)))
    name = len(heads) - 1 if name_is_last else 0
    widths = [max(cell_len(row[place]) for row in (heads, *cells)) for place in range(len(heads))]
    while figures and _room(out, widths, figures) < min(_SHORTEST_NAME, widths[name]):
        figures.pop()
    room = max(1, min(widths[name], _room(out, widths, figures)))
    shown = sorted([*figures, name])
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for place in shown:
        if place == name:
            table.add_column(heads[place], no_wrap=True, overflow="ellipsis", width=room)
        else:
            side: Literal["left", "right"] = "left" if heads[place] in _TEXTS else "right"
            table.add_column(heads[place], justify=side, no_wrap=True, width=widths[place])
    for row in cells:
        kept = [
            _cut(row[place], room) if place == name and cut == "left" else row[place]
            for place in shown
        ]
        table.add_row(*map(escape, kept))
    out.print(table)


def _room(out: Console, widths: Sequence[int], figures: Sequence[int]) -> int:
    from turnlog.cli.terminal import at_most

    taken = sum(widths[place] + _GAP for place in figures)
    return min(out.width, at_most(_WIDEST, out.width)) - taken


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"…{text[1 - room :]}" if room > 1 else "…"


def _title(out: Console, name: str, told: str = "") -> None:
    out.print(f"\n[bold]{name}[/]  [dim]{told}[/]" if told else f"\n[bold]{name}[/]")


def _models(out: Console, found: Insights) -> None:
    rows = [
        (
            shown_name("model", row.model),
            money(row.cost_usd),
            part(row.cost_share),
            count(row.messages),
            short(row.output),
            part(row.cache_efficiency),
            part(row.failure_rate),
            "—" if row.usd_per_message is None else f"${Decimal(row.usd_per_message):.3f}",
        )
        for row in found.models
    ]
    if rows:
        _title(out, "models")
        heads = ("model", "cost", "share", "messages", "output", "cached", "failed", "a message")
        draw(out, heads, rows)


def _agents(out: Console, found: Insights) -> None:
    rows = [
        (
            row.kind or "not known",
            money(row.cost_usd),
            part(row.cost_share),
            count(row.agents) if row.kind != "main" else "",
            count(row.messages),
        )
        for row in found.agents
    ]
    if len(rows) > 1:
        _title(out, "agents", "main is the sessions themselves")
        draw(out, ("kind", "cost", "share", "agents", "messages"), rows)


def _projects(out: Console, found: Insights) -> None:
    rows = [
        (
            shown_name("project", row.project),
            money(row.cost_usd),
            part(row.cost_share),
            count(row.sessions),
            count(row.prompts),
            count(row.messages),
            part(row.failure_rate),
        )
        for row in found.projects
    ]
    if rows:
        rest = found.overview.projects - len(rows)
        _title(out, "projects", f"and {rest:,} more" if rest > 0 else "")
        heads = ("project", "cost", "share", "sessions", "prompts", "messages", "failed")
        draw(out, heads, rows, cut="left")


def _tools(out: Console, found: Insights) -> None:
    rows = [
        (
            row.tool,
            count(row.calls),
            part(row.failure_rate),
            time(row.median_ms),
            time(row.total_ms),
            time(row.longest_ms),
            count(row.unanswered),
        )
        for row in found.tools
    ]
    if rows:
        _title(out, "tools")
        heads = ("tool", "calls", "failed", "median", "in all", "longest", "no answer")
        draw(out, heads, rows)


def _sequences(out: Console, found: Insights) -> None:
    rows = [(" → ".join(row.tools), count(row.count)) for row in found.sequences]
    if rows:
        _title(out, "sequences", "tools called one after another")
        draw(out, ("tools", "times"), rows)


def _errors(out: Console, found: Insights) -> None:
    rows = [
        (
            count(row.count),
            row.tool,
            row.signature[:8],
            count(row.sessions),
            row.example or "(its log is gone)",
        )
        for row in found.errors
    ]
    if rows:
        _title(out, "errors", "turnlog errors SIGNATURE shows what was around them")
        heads = ("times", "tool", "signature", "sessions", "how it begins")
        draw(out, heads, rows, name_is_last=True)


def _edits(out: Console, found: Insights) -> None:
    edits = found.edits
    if not edits.edits and not edits.failed:
        return
    _title(out, "edits")
    out.print(
        f"{counted(edits.edits, 'edit')} of {counted(edits.files, 'file')}, +{edits.added:,}"
        f" -{edits.removed:,} lines. {part(edits.first_try_rate)} of files edited once in their"
        f" session; {part(edits.failure_rate)} of edits failed."
    )
    if edits.unknown:
        out.print(f"[dim]The lines of {count(edits.unknown)} edits are not known.[/]")
    rows = [
        (
            row.file,
            count(row.edits),
            count(row.failed),
            f"+{row.added:,} -{row.removed:,}",
            count(row.sessions),
            count(row.most_in_a_session),
        )
        for row in edits.rows
    ]
    heads = ("file", "edits", "failed", "lines", "sessions", "most in one")
    draw(out, heads, rows, cut="left")


def _cache(out: Console, found: Insights) -> None:
    from turnlog.insights.cache import REASONS

    cache, compactions, cut = found.cache, found.compactions, found.interruptions
    if cache.misses:
        _title(out, "cache misses", "tokens paid again")
        rows = [
            (REASONS[row.reason], money(row.cost_usd), count(row.misses), short(row.tokens))
            for row in cache.reasons
        ]
        draw(out, ("why", "cost", "times", "tokens"), rows)
    from turnlog.cli.terminal import counted

    told = []
    if compactions.compactions:
        size = compactions.average_tokens
        at = "" if size is None else f" at {short(size)} tokens"
        many = counted(compactions.compactions, "compaction")
        told.append(f"{many}{at}, {count(compactions.manual)} by hand")
    if cut.interruptions:
        told.append(f"a person stopped an agent {counted(cut.interruptions, 'time')}")
    if cut.unanswered:
        told.append(f"{counted(cut.unanswered, 'call')} never answered")
    if told:
        _title(out, "cut short")
        for line in told:
            out.print(line)


def _turns(out: Console, found: Insights, zone: tzinfo) -> None:
    rows = [
        (
            time(row.duration_ms),
            f"{row.at.astimezone(zone):%Y-%m-%d %H:%M}" if row.at else "",
            (row.session or "")[:8],
            row.prompt or "—",
        )
        for row in found.turns.longest
    ]
    if rows:
        _title(out, "longest turns", f"{count(found.turns.turns)} in all")
        draw(out, ("took", "when", "session", "prompt"), rows, name_is_last=True)


def _commands(out: Console, found: Insights) -> None:
    rows = [(row.command, count(row.count), count(row.sessions)) for row in found.commands]
    if rows:
        _title(out, "commands")
        draw(out, ("command", "times", "sessions"), rows)
