"""Charts in which every mark is a link: stacked bars over time, and treemaps.

Colors are the classes ``series-0`` to ``series-7`` and ``series-rest`` of costs.css, so they
follow light and dark. Widths are percentages, so the text of bars keeps its size on a phone; a
treemap is drawn twice, for wide and for narrow screens. Marks cannot be reached with the Tab key: a
chart has hundreds of them, and the page has a table with the same links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from turnlog.export.html.charts import finite, plain, spread
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.web.report_strip import SWAPPED

COLORS: Final = 8
"""The number of series with a color of their own."""
REST: Final = -1
"""The color of everything else."""

_HEIGHT: Final = 220
_TOP: Final = 18
_BOTTOM: Final = 22
_GAP: Final = 0.22
"""The part of a bar's room that is empty."""
_LABELS: Final = 8
_MANY: Final = 60
_VERY_MANY: Final = 150
_HEADER: Final = 18
_LETTER: Final = 6.6
"""The width of a letter, and of a bold one."""
_BOLD_LETTER: Final = 7.6
_WIDE: Final = (1120, 340)
_NARROW: Final = (358, 420)

Shown = Callable[[float], str]


class Segment(NamedTuple):
    """A part of a bar."""

    name: str
    value: float
    color: int
    href: OwnUrl


class Stack(NamedTuple):
    """A bar, with its parts from bottom to top."""

    label: str
    segments: Sequence[Segment]
    href: OwnUrl
    axis: str = ""
    """Its label on the axis, if that is shorter."""


class Series(NamedTuple):
    """An entry of a legend."""

    name: str
    shown: str
    color: int
    href: OwnUrl


class TreeCell(NamedTuple):
    """A cell of a treemap, or a group of cells."""

    name: str
    value: float
    color: int
    href: OwnUrl
    cells: Sequence[TreeCell] = ()


class Rectangle(NamedTuple):
    """A place in a treemap."""

    x: float
    y: float
    width: float
    height: float


def stacked_bars(title: str, stacks: Sequence[Stack], *, shown: Shown = plain) -> Fragment:
    """Return a chart of stacked bars; few of many labels are shown, but every bar is drawn."""
    totals = [sum(finite(each.value) for each in stack.segments) for stack in stacks]
    top = max(totals, default=0)
    if not top > 0:
        return _nothing(title)
    room = 100 / len(stacks)
    drawn: list[Fragment] = []
    for part in (0.0, 0.5, 1.0):
        y = round(_TOP + (1 - part) * (_HEIGHT - _TOP - _BOTTOM), 1)
        drawn.append(element("line", x1="0", x2="100%", y1=y, y2=y, class_="rule"))
    for number, (stack, total) in enumerate(zip(stacks, totals, strict=True)):
        x = room * (number + _GAP / 2)
        drawn.extend(_bar(stack, total, top, (x, room * (1 - _GAP)), shown))
    drawn.extend(_axis([stack.axis or stack.label for stack in stacks], room))
    # Above the bars, so that no bar covers them.
    drawn += [
        _words(shown(top * part), "0", _TOP + (1 - part) * (_HEIGHT - _TOP - _BOTTOM) - 4)
        for part in (0.5, 1.0)
    ]
    size = " very-many" if len(stacks) > _VERY_MANY else " many" if len(stacks) > _MANY else ""
    svg = element(
        "svg", drawn, role="group", aria_label=title, height=_HEIGHT, class_=f"bars{size}"
    )
    # What scrolls on a phone must be reachable with keys.
    return element("div", svg, class_="linked-chart", tabindex="0" if size else None)


def legend(series: Sequence[Series]) -> Fragment:
    """Return the names of a chart's series with their colors; each is a link."""
    entries = [
        element(
            "li",
            element(
                "a",
                element("i", class_=_color(each.color), aria_hidden="true"),
                element("span", each.name),
                " ",
                element("b", each.shown),
                href=each.href,
                data_swap=None if each.href.startswith("#") else SWAPPED,
            ),
        )
        for each in series
    ]
    return element("ul", entries, class_="legend")


def treemap(title: str, cells: Sequence[TreeCell], *, shown: Shown = plain) -> Fragment:
    """Return a treemap: areas are values, groups of cells have a header."""
    if not sum(finite(each.value) for each in cells) > 0:
        return _nothing(title)
    return element(
        "div",
        [
            element(
                "svg",
                list(_tree(cells, Rectangle(0, 0, *size), shown)),
                viewBox=f"0 0 {size[0]} {size[1]}",
                role="group",
                aria_label=title,
                class_=f"treemap {name}",
            )
            for name, size in (("on-wide", _WIDE), ("on-narrow", _NARROW))
        ],
        class_="linked-chart",
    )


def squarified(values: Sequence[float], place: Rectangle) -> list[Rectangle]:
    """Divide *place* by *values*, largest first, into rectangles that are almost squares."""
    total = sum(values)
    if not total > 0:
        return [Rectangle(place.x, place.y, 0, 0) for _ in values]
    found: list[Rectangle] = []
    rest = place
    areas = [value / total * place.width * place.height for value in values]
    while len(found) < len(areas):
        left = areas[len(found) :]
        side = min(rest.width, rest.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row = left[:count]
        thick = sum(row) / side if side else 0.0
        along = 0.0
        for area in row:
            long = area / thick if thick else 0.0
            if rest.width >= rest.height:
                found.append(Rectangle(rest.x, rest.y + along, thick, long))
            else:
                found.append(Rectangle(rest.x + along, rest.y, long, thick))
            along += long
        if rest.width >= rest.height:
            rest = Rectangle(rest.x + thick, rest.y, max(0.0, rest.width - thick), rest.height)
        else:
            rest = Rectangle(rest.x, rest.y + thick, rest.width, max(0.0, rest.height - thick))
    return found


def _worst(row: Sequence[float], side: float) -> float:
    """Return the worst ratio of sides if the areas in *row* share a strip along *side*."""
    thick = sum(row) / side if side else 0.0
    shortest = row[-1] / thick if thick else 0.0
    if not shortest:
        return math.inf
    return max(row[0] / thick / thick, thick / shortest)


def _bar(
    stack: Stack, total: float, top: float, across: tuple[float, float], shown: Shown
) -> Iterator[Fragment]:
    tall = _HEIGHT - _TOP - _BOTTOM
    where = {"x": f"{across[0]:.3f}%", "width": f"{across[1]:.3f}%"}
    yield _link(
        stack.href,
        f"{stack.label}: {shown(total)}",
        element("rect", **where, y=_TOP, height=tall, class_="room"),
    )
    below = 0.0
    for each in stack.segments:
        value = finite(each.value)
        if not value:
            continue
        long = max(1.0, value / top * tall)
        y = max(0.0, _TOP + tall - below - long)
        rect = element(
            "rect", **where, y=round(y, 1), height=round(long, 1), class_=_color(each.color)
        )
        yield _link(each.href, f"{stack.label}, {each.name}: {shown(value)}", rect)
        below += value / top * tall


def _axis(labels: Sequence[str], room: float) -> Iterator[Fragment]:
    """Yield a few labels, half of them only for wide screens."""
    places = spread(len(labels), _LABELS)
    for number, place in enumerate(places):
        is_first, is_last = place == 0, place == len(labels) - 1 and len(labels) > 1
        anchor = "start" if is_first else "end" if is_last else "middle"
        x = room * (place if is_first else place + 1 if is_last else place + 0.5)
        is_middle = number == len(places) // 2
        is_extra = len(places) > 4 and not (is_first or is_last or is_middle)
        yield _words(
            labels[place],
            f"{x:.2f}%",
            _HEIGHT - 6,
            text_anchor=anchor,
            class_="extra" if is_extra else None,
        )


def _tree(cells: Sequence[TreeCell], place: Rectangle, shown: Shown) -> Iterator[Fragment]:
    """Yield the cells of a treemap, and those inside them."""
    cells = [each for each in cells if finite(each.value) > 0]
    places = squarified([finite(each.value) for each in cells], place)
    for each, where in zip(cells, places, strict=True):
        if where.width < 1 or where.height < 1:
            continue
        words = f"{each.name}: {shown(each.value)}"
        box = element("rect", **_box(where), class_=f"cell {_color(each.color)}")
        if each.cells and where.width > 60 and where.height > 50:
            name = _cut(words, where.width - 8, _BOLD_LETTER)
            header = _words(name, f"{where.x + 5:.1f}", where.y + 13, class_="header")
            yield _link(each.href, words, box, header)
            inner = Rectangle(
                where.x + 2, where.y + _HEADER, where.width - 4, where.height - _HEADER - 2
            )
            inside = [cell._replace(name=f"{each.name}, {cell.name}") for cell in each.cells]
            yield from _tree(inside, inner, shown)
            continue
        own = each.name.rpartition(", ")[2]
        label: list[Fragment] = []
        if where.width > 44 and where.height > 20:
            label.append(_words(_cut(own, where.width - 8), f"{where.x + 5:.1f}", where.y + 15))
            if where.height > 36:
                value = _cut(shown(each.value), where.width - 8)
                label.append(_words(value, f"{where.x + 5:.1f}", where.y + 30))
        yield _link(each.href, words, box, *label)


def _box(where: Rectangle) -> dict[str, float]:
    return {name: round(value, 1) for name, value in where._asdict().items()}


def _link(href: OwnUrl, words: str, *marks: Child) -> Fragment:
    return element(
        "a", element("title", words), *marks, href=href, tabindex="-1", data_swap=SWAPPED
    )


def _words(text: str, x: str, y: float, **attributes: str | None) -> Fragment:
    return element("text", text, x=x, y=round(y, 1), **attributes)


def _cut(label: str, width: float, letter: float = _LETTER) -> str:
    most = max(1, int(width / letter))
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _color(number: int) -> str:
    return f"series-{number}" if 0 <= number < COLORS else "series-rest"


def _nothing(title: str) -> Fragment:
    return element("p", f"{title}: nothing to show.", class_="faint")
