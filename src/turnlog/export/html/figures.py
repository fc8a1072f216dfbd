"""Figures as people read them on a page: counts, parts, time, money; and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from turnlog.export.html.page import Child, Fragment, element
from turnlog.pricing.money import shown


def counted(value: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def count(value: int) -> str:
    """Write a count whole."""
    return f"{value:,}"


def short(value: float) -> str:
    """Write a count in few characters."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:,.1f}{unit}"
    return f"{value:,.0f}"


def part(value: float | None) -> str:
    """Write which part of a whole it is."""
    if value is None:
        return "—"
    return f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


def money(usd: str | Decimal | None) -> str:
    """Write dollars, to the cent."""
    return "—" if usd is None else shown(Decimal(usd))


def time(ms: int | None) -> str:
    """Write how long something took, as two units at most."""
    if ms is None:
        return "—"
    seconds = ms // 1000
    for unit, size, less, small in (("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // small
            return (
                f"{seconds // size:,} {unit} {rest} {less}"
                if rest
                else f"{seconds // size:,} {unit}"
            )
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms} ms"


def table(heads: Sequence[str], rows: Iterable[Sequence[Child]], *, names: int = 1) -> Fragment:
    """Make a table; the first *names* columns are text, the others figures."""

    def cell(tag: str, number: int, content: Child) -> Fragment:
        return element(tag, content, class_=None if number < names else "number")

    head = element("tr", [cell("th", number, each) for number, each in enumerate(heads)])
    body = [
        element("tr", [cell("td", number, each) for number, each in enumerate(row)]) for row in rows
    ]
    whole = element("table", element("thead", head), element("tbody", body))
    return element("div", whole, class_="scroll")
