"""The tracer of paths counts what it says, and the same every time."""

import sys

from bench import paths


def test_every_path_is_counted_beside_its_bar():
    rows = paths.bench()
    assert [row.bar for row in rows] == [f"<= {bar}" for bar in paths.BARS.values()]
    found = paths.walks()
    assert list(found) == list(paths.BARS)
    assert [row.ours for row in rows] == [str(each) for each in found.values()]
    for each in found.values():
        assert each.functions > each.modules > 1
        assert each.transitions >= each.modules - 1


def test_only_calls_within_turnlog_are_counted():
    assert paths.walk(lambda: sorted("pear")) == (0, 0, 0)
    assert sys.getprofile() is None
