"""Charts as inert SVG, and formatted numbers and tables for pages.

Colors come from the page's style (``CHART_CSS``), so they follow light and dark. Labels are
escaped. Each chart has a title for screen readers, and every mark a tooltip with its value. Charts
without data say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from turnlog.export.html.page import Child, Fragment, OwnUrl, asset, element
from turnlog.pricing.money import shown

LEVELS: Final = 5
"""Color levels of heat maps and calendars; the first means none."""
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LONGEST_LABEL: Final = 34
_MOST_WEEKS: Final = 54
_CELL: Final = 14
_USUAL_WIDTH: Final = 760

_WIDE: Final = 640
"""Wider charts scroll on a phone instead of shrinking."""

CHART_CSS: Final = asset("charts.css")
"""The style of charts; a page with a chart needs it."""

Shown = Callable[[float], str]
Link = Callable[[str], OwnUrl | None]
"""Returns the address that the mark with this name leads to."""


def no_link(_name: str) -> OwnUrl | None:
    """Return no address, as on a page without a server."""
    return None


def linked(href: OwnUrl | None, content: Child, **attributes: str | None) -> Child:
    """Return *content* as a link, if there is an address."""
    return element("a", content, href=href, **attributes) if href else content


class Bar(NamedTuple):
    """One row of a bar chart."""

    label: str
    value: float
    shown: str = ""
    """The formatted value; by default ``plain``."""


class ChartPoint(NamedTuple):
    """One point of a line chart."""

    label: str
    value: float


def plain(value: float) -> str:
    """Format a number in few characters."""
    size = abs(value)
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= scale:
            scaled = value / scale
            return f"{scaled:,.1f}{unit}" if abs(scaled) < 1e6 else f"{value:.2g}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def bars(title: str, rows: Sequence[Bar], *, width: int = 640, link: Link = no_link) -> Fragment:
    """Return a chart of horizontal bars with names and values."""
    if not rows:
        return _empty(title, width)
    height = 26
    names = min(240, width * 2 // 5)
    values = 90
    room = max(1, width - names - values)
    top = max((finite(row.value) for row in rows), default=0) or 1
    drawn: list[Child] = []
    for number, row in enumerate(rows):
        y = number * height
        long = _length(finite(row.value), top, room)
        shown = row.shown or plain(finite(row.value))
        drawn += [
            _text(_cut(row.label), 0, y + 17, class_="name"),
            element("rect", x=names, y=y + 6, width=room, height=14, rx=3, class_="track"),
            _mark(
                link(row.label),
                element(
                    "rect",
                    element("title", f"{row.label}: {shown}"),
                    x=names,
                    y=y + 6,
                    width=long,
                    height=14,
                    rx=min(3.0, long / 2),
                    class_="mark",
                ),
            ),
            _text(shown, width, y + 17, class_="value", text_anchor="end"),
        ]
    return _chart(title, width, len(rows) * height, drawn)


def lines(
    title: str,
    points: Sequence[ChartPoint],
    *,
    shown: Shown = plain,
    width: int = 640,
    height: int = 180,
    link: Link = no_link,
) -> Fragment:
    """Return a line chart from zero up, with a few labels below."""
    if not points:
        return _empty(title, width)
    left, bottom, top_space = 52, 22, 10
    room, tall = width - left - 8, height - bottom - top_space
    values = [finite(point.value) for point in points]
    top = max(values) or 1
    step = room / max(1, len(points) - 1)
    places = [
        (left + (step * n if len(points) > 1 else room / 2), top_space + tall * (1 - value / top))
        for n, value in enumerate(values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    floor = top_space + tall
    drawn: list[Child] = [
        *_rules((left, width - 8), (top_space, tall), top, shown),
        element(
            "polygon",
            points=f"{places[0][0]:.1f},{floor:.1f} {path} {places[-1][0]:.1f},{floor:.1f}",
            class_="area",
        ),
        element("polyline", points=path, class_="line"),
    ]
    radius = 3 if len(points) == 1 else max(1.5, min(3.0, step / 3))
    for point, value, (x, y) in zip(points, values, places, strict=True):
        tooltip = element("title", f"{point.label}: {shown(value)}")
        circle = element("circle", tooltip, cx=round(x, 1), cy=round(y, 1), r=radius, class_="mark")
        drawn.append(_mark(link(point.label), circle))
    for n in spread(len(points), 6):
        anchor = "start" if n == 0 and len(points) > 1 else "middle"
        anchor = "end" if n == len(points) - 1 and len(points) > 1 else anchor
        drawn.append(_text(points[n].label, places[n][0], height - 5, text_anchor=anchor))
    return _chart(title, width, height, drawn)


def heat_map(
    title: str,
    rows: Sequence[Sequence[float]],
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    shown: Shown = plain,
    link: Link = no_link,
) -> Fragment:
    """Return a heat map: the larger the value, the stronger the color."""
    cells = [[finite(value) for value in row] for row in rows]
    top = max((value for row in cells for value in row), default=0)
    if not cells or not any(cells):
        return _empty(title, 640)
    left, above, size = 40, 18, 24
    columns = max(map(len, cells))
    drawn: list[Child] = [
        _text(_name(column_names, n), left + n * size + size / 2, 12, text_anchor="middle")
        for n in range(0, columns, 3 if columns > 12 else 1)
    ]
    for y, row in enumerate(cells):
        drawn.append(_text(_name(row_names, y), 0, above + y * size + 15))
        for x, value in enumerate(row):
            name = f"{_name(row_names, y)} {_name(column_names, x)}"
            tooltip = f"{name}: {shown(value)}"
            cell = _cell(left + x * size, above + y * size, size - 3, level(value, top), tooltip)
            drawn.append(_mark(link(name) if value else None, cell))
    return _chart(title, left + columns * size, above + len(cells) * size, drawn)


def calendar(
    title: str,
    values: Mapping[str, float],
    first: str,
    last: str,
    *,
    shown: Shown = plain,
    link: Link = no_link,
) -> Fragment:
    """Return a calendar of the days from *first* to *last* (ISO dates), one column per week.

    At most the last 54 weeks are shown; the fewer weeks, the larger the cells.
    """
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    if begin > end:
        return _empty(title, 640)
    begin = max(begin, end - timedelta(days=min(7 * _MOST_WEEKS - 1, end.toordinal() - 1)))
    top = max((finite(value) for value in values.values()), default=0)
    left, above = 34, 18
    offset = begin.weekday()
    size = max(_CELL, min(2 * _CELL, _USUAL_WIDTH // ((end - begin).days // 7 + 2)))
    drawn: list[Child] = [
        _text(_WEEKDAYS[n], 0, above + n * size + size / 2 + 4) for n in (0, 2, 4)
    ]
    weeks = 0
    labelled_month = None
    for n in range((end - begin).days + 1):
        day = begin + timedelta(days=n)
        weeks, row = divmod(n + offset, 7)
        if labelled_month != day.month and (day.day <= 7 or n == 0):
            # Two month names need more room than one column.
            if labelled_month is None or day.day <= 7:
                drawn.append(_text(_MONTHS[day.month - 1], left + weeks * size, 11))
            labelled_month = day.month
        value = finite(values.get(day.isoformat(), 0))
        where = (left + weeks * size, above + row * size)
        cell = _cell(*where, size - 2, level(value, top), f"{day}: {shown(value)}")
        drawn.append(_mark(link(day.isoformat()) if value else None, cell))
    return _chart(title, left + (weeks + 1) * size, above + 7 * size, drawn)


def level(value: float, top: float) -> int:
    """Return the color level of a value; only zero has level 0."""
    if not value > 0 or not top > 0:
        return 0
    # The square root: otherwise a few busy hours make all others look alike.
    return max(1, min(LEVELS - 1, math.ceil(math.sqrt(min(1.0, value / top)) * (LEVELS - 1))))


def _mark(href: OwnUrl | None, mark: Fragment) -> Child:
    """Return a mark; its link is not reached by the Tab key, since there are hundreds of them."""
    return linked(href, mark, tabindex="-1")


def _chart(title: str, width: float, height: float, drawn: Sequence[Child]) -> Fragment:
    has_links = any("<a " in each for each in drawn if isinstance(each, str))
    svg = element(
        "svg",
        element("title", title),
        drawn,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=_number(width),
        height=_number(height),
        role="group" if has_links else "img",
        aria_label=title if has_links else None,
        class_="chart wide" if width > _WIDE else "chart",
    )
    # What scrolls on a phone must be reachable with keys.
    return element("div", svg, class_="drawn", tabindex="0" if width > _WIDE else None)


def _empty(title: str, width: int) -> Fragment:
    return _chart(title, width, 40, [_text("Nothing to show.", 0, 24)])


def _rules(
    across: tuple[float, float], down: tuple[float, float], top: float, shown: Shown
) -> list[Fragment]:
    """Return rules at zero, half and the maximum; *down* is their top and height."""
    left, right = across
    above, tall = down
    drawn = []
    for part in (0.0, 0.5, 1.0):
        y = round(above + tall * (1 - part), 1)
        drawn.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="rule"))
        drawn.append(_text(shown(top * part), left - 6, y + 4, text_anchor="end"))
    return drawn


def _cell(x: float, y: float, size: float, step: int, tooltip: str) -> Fragment:
    return element(
        "rect",
        element("title", tooltip),
        x=x,
        y=y,
        width=size,
        height=size,
        rx=2,
        class_=f"level-{step}",
    )


def _text(text: str, x: float, y: float, **attributes: str) -> Fragment:
    return element("text", text, x=round(x, 1), y=round(y, 1), **attributes)


def finite(value: float) -> float:
    """Return *value* as a finite number that is not negative."""
    if not value > 0:
        return 0.0
    return min(float(value), 1e300)


def _length(value: float, top: float, room: float) -> float:
    """Return the length of a bar; only zero has no length."""
    return round(max(1.5, value / top * room), 1) if value > 0 else 0.0


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _name(names: Sequence[str], n: int) -> str:
    return names[n] if n < len(names) else ""


def spread(count: int, most: int) -> list[int]:
    """Return up to *most* evenly spaced indexes below *count*, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})


def counted(value: int, noun: str) -> str:
    """Format a count with its noun."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def count(value: int) -> str:
    """Format a count in full."""
    return f"{value:,}"


def short(value: float) -> str:
    """Format a count in few characters."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:,.1f}{unit}"
    return f"{value:,.0f}"


def part(value: float | None) -> str:
    """Format a ratio as a percentage."""
    if value is None:
        return "—"
    return f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


def money(usd: str | Decimal | None) -> str:
    """Format dollars, to the cent."""
    return "—" if usd is None else shown(Decimal(usd))


def time(ms: int | None) -> str:
    """Format a duration, in at most two units."""
    if ms is None:
        return "—"
    seconds = ms // 1000
    for unit, size, less, small in (("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // small
            return f"{seconds // size:,} {unit}" + (f" {rest} {less}" if rest else "")
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms} ms"


def table(heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, names: int = 1) -> Fragment:
    """Return a table; the first *names* columns are text, the others numbers."""

    def cell(tag: str, number: int, content: Child) -> Fragment:
        return element(tag, content, class_=None if number < names else "number")

    def line(tag: str, cells: Sequence[Child]) -> Fragment:
        return element("tr", [cell(tag, number, child) for number, child in enumerate(cells)])

    head, body = line("th", heads), [line("td", row) for row in rows]
    whole = element("table", element("thead", head), element("tbody", body))
    return element("div", whole, class_="scroll")
