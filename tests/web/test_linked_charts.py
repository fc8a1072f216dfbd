"""Charts in which every mark is a link: well-formed, within their room, inert."""

import math
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from export.html.test_charts import labels, values
from turnlog.export.html.page import OwnUrl
from turnlog.web.linked_charts import (
    Rectangle,
    Segment,
    Series,
    Stack,
    TreeCell,
    legend,
    squarified,
    stacked_bars,
    treemap,
)

HERE = OwnUrl("/costs")
parts = st.lists(st.tuples(labels, values), max_size=5)


def checked(chart):
    """Read a chart as XML; nothing in it acts, and every mark is inside a link with a title."""
    root = ET.fromstring(chart)
    for node in root.iter():
        assert node.tag in {"div", "svg", "a", "title", "rect", "line", "text", "p"}
        for name, value in node.attrib.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name != "href" or value == HERE
            if name in {"x", "y", "width", "height"}:
                number = float(value.rstrip("%"))
                assert math.isfinite(number)
                assert -0.1 <= number <= 1200
    links = list(root.iter("a"))
    assert sum(len(link.findall("rect")) for link in links) == len(list(root.iter("rect")))
    assert all(link.find("title") is not None for link in links)
    return root


@given(st.lists(st.tuples(labels, parts), max_size=6))
def test_bars_are_links_within_their_room(stacks):
    bars = [
        Stack(label, [Segment(name, value, 9, HERE) for name, value in inside], HERE)
        for label, inside in stacks
    ]
    checked(stacked_bars("Cost", bars))


@given(st.lists(st.tuples(labels, values, parts), max_size=6))
def test_cells_are_links_within_their_room(groups):
    cells = [
        TreeCell(label, value, 0, HERE, [TreeCell(*each, 1, HERE) for each in inside])
        for label, value, inside in groups
    ]
    checked(treemap("Cost", cells))


@given(
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=30),
    st.floats(10, 2000),
    st.floats(10, 2000),
)
def test_areas_are_the_values_and_fill_the_room(sizes, width, height):
    sizes.sort(reverse=True)
    places = squarified(sizes, Rectangle(0, 0, width, height))
    slack = (
        1e-3  # Charts are drawn to a tenth of a pixel; what is left for the last row is rounded.
    )
    for size, place in zip(sizes, places, strict=True):
        area = size / sum(sizes) * width * height
        assert math.isclose(place.width * place.height, area, rel_tol=1e-6, abs_tol=1e-6)
        assert -slack <= place.x <= place.x + place.width <= width + slack
        assert -slack <= place.y <= place.y + place.height <= height + slack


def test_a_legend_is_of_links_and_has_no_style():
    text = legend([Series("<b>", "$1", 0, HERE), Series("others", "$2", -1, OwnUrl("#by"))])
    assert text.count("<a ") == 2
    assert "series-rest" in text
    assert "<b>&lt;" not in text
    assert "&lt;b&gt;" in text
    assert "style=" not in text
