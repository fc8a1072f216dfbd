"""Charts are pictures: valid, bounded, and inert whatever their labels say."""

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.export.html.charts import (
    LEVELS,
    Bar,
    ChartPoint,
    bars,
    calendar,
    heat_map,
    level,
    lines,
    plain,
)

HOSTILE = (
    "<script>alert(1)</script>",
    '"/><image href="http://x/y" onload="alert(1)"/>',
    "]]><svg onload=alert(1)>",
    "&lt;b&gt; &amp; ' \"",
    "\x00\x1b[31m\u202e\ud800",
    "javascript:alert(1)",
    "x" * 5000,
)
NUMBERS = (0, 1, -1, 0.5, 1e-9, 10**18, 1e300, math.inf, -math.inf, math.nan)
values = st.one_of(st.sampled_from(NUMBERS), st.floats(), st.integers(-(10**20), 10**20))
labels = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))


def parsed(chart):
    """Read a chart as XML, and refuse whatever could act or does not fit."""
    (root,) = ET.fromstring(chart)
    assert root.tag == "svg"
    wide, tall = (float(each) for each in root.attrib["viewBox"].split()[2:])
    assert 0 < wide < 5000
    assert 0 < tall < 100_000
    for node in root.iter():
        assert node.tag in {
            "svg", "title", "text", "rect", "line", "circle", "polygon", "polyline",
        }  # fmt: skip
        for name, value in node.attrib.items():
            assert not name.startswith("on")
            assert name not in {"style", "href"}
            if name in {"x", "y", "width", "height", "cx", "cy", "r", "rx", "x1", "x2", "y1", "y2"}:
                assert math.isfinite(float(value))
                assert -1 <= float(value) <= max(wide, tall)
            if name == "points":
                assert re.fullmatch(r"(-?\d+(\.\d+)?,-?\d+(\.\d+)?( |$))+", value)
    return root


@given(st.lists(st.tuples(labels, values, st.one_of(st.just(""), labels)), max_size=8))
def test_bars_are_inert_and_within_their_room(rows):
    root = parsed(bars("Calls", [Bar(*row) for row in rows]))
    marks = [node for node in root.iter("rect") if node.get("class") == "mark"]
    assert len(marks) == len(rows)
    for (_, value, _), mark in zip(rows, marks, strict=True):
        assert (float(mark.get("width")) > 0) == (value > 0)


@given(st.lists(st.tuples(labels, values), max_size=40))
def test_lines_are_inert_and_within_their_room(points):
    root = parsed(lines("Cost", [ChartPoint(*point) for point in points]))
    assert len(list(root.iter("circle"))) == len(points)


@given(st.lists(st.lists(values, min_size=3, max_size=3), max_size=4), st.lists(labels, max_size=4))
def test_heat_maps_are_inert_and_have_every_cell(rows, names):
    root = parsed(heat_map("Hours", rows, names, names))
    assert len(list(root.iter("rect"))) == sum(map(len, rows))


@given(st.dates(), st.integers(-3, 900), st.dictionaries(st.dates().map(str), values, max_size=5))
def test_calendars_have_a_cell_for_each_day_of_a_year_at_most(end, days, found):
    from datetime import timedelta

    try:
        begin = end - timedelta(days=days)
    except OverflowError:
        return
    root = parsed(calendar("Days", found, begin.isoformat(), end.isoformat()))
    cells = len(list(root.iter("rect")))
    assert cells == min(max(0, days + 1), 54 * 7)


@pytest.mark.parametrize(
    "chart",
    [bars("A", []), lines("A", []), heat_map("A", [], [], []),
     calendar("A", {}, "2026-02-02", "2026-02-01")],
)  # fmt: skip
def test_nothing_is_said_to_be_nothing(chart):
    assert "Nothing to show." in "".join(parsed(chart).itertext())


def test_one_point_is_drawn_in_the_middle():
    (point,) = parsed(lines("A", [ChartPoint("today", 3)])).iter("circle")
    assert 200 < float(point.get("cx")) < 500


def test_every_mark_says_its_value():
    texts = ["".join(node.itertext()) for node in parsed(bars("A", [Bar("Read", 3)])).iter("rect")]
    assert texts == ["", "Read: 3"]
    (cell,) = [
        each
        for each in parsed(calendar("A", {"2026-07-22": 5}, "2026-07-20", "2026-07-26")).iter(
            "rect"
        )
        if each.get("class") == "level-4"
    ]
    assert "".join(cell.itertext()) == "2026-07-22: 5"


@given(values, values)
def test_something_is_never_nothing(value, top):
    step = level(value, top)
    assert 0 <= step < LEVELS
    if math.isfinite(value) and math.isfinite(top) and top > 0:
        assert (step > 0) == (value > 0)


@given(values.filter(math.isfinite))
def test_numbers_are_short(value):
    assert len(plain(value)) <= 12
