"""Twice the log is twice the work, whatever its shape.

Work is counted in lines of Python that were executed: the same number each time, on any machine.
What happens in C does not show; `python -m faults --only complexity` measures that, and
test_patterns.py counts the steps of regular expressions.
"""

import os
import re
import sys
import threading

import pytest
from faults.complexity_shapes import SHAPES, VIEWS, world

from turnlog.storage.reader import read_log, scan_log

pytestmark = pytest.mark.slow

N = 16
# What each step up may cost more than twice the one before: sorting, growing tables.
SLACK = 1.15
LINES = 400

PATTERNS = os.path.dirname(re.__file__)
EVERYWHERE = ("turns", "agents")
TELLING = (
    "show --tools full", "show every branch", "info", "export html", "doctor", "recover", "refresh",
)  # fmt: skip
# These compile all prices for each new home, which takes longer than anything else.
COSTLY = ("cost", "insights")


def pairs():
    for shape in SHAPES:
        if not shape.startswith(("text of", "a line of")):
            views = VIEWS if shape in EVERYWHERE else TELLING
            yield from ((shape, view) for view in views if view not in COSTLY)
    yield from ((shape, "info") for shape in SHAPES if shape.startswith("a line of"))


def lines_executed(run):
    count = 0

    def line(_frame, _event, _arg):
        nonlocal count
        count += 1
        return line

    def called(frame, _event, _arg):
        # Patterns are compiled once, whichever run comes first.
        return None if frame.f_code.co_filename.startswith(PATTERNS) else line

    before = sys.gettrace()
    threading.settrace(called)
    sys.settrace(called)
    try:
        run()
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return count


@pytest.fixture(scope="module", autouse=True)
def _imported(tmp_path_factory):
    """Import everything first: that is not work."""
    with world(tmp_path_factory.mktemp("first"), "agents", 2) as home:
        for name, view in VIEWS.items():
            if name not in COSTLY:
                view(home)


@pytest.mark.parametrize(("shape", "view"), [*pairs()])
def test_the_work_of_a_view_grows_with_the_log(shape, view, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    work = []
    for number, times in enumerate((1, 1, 2, 4)):
        with world(tmp_path / str(number), shape, N * times) as home:
            work.append(lines_executed(lambda: VIEWS[view](home)))
    _, once, twice, four_times = work  # The first run fills caches.
    assert four_times - twice <= 2 * SLACK * (twice - once) + LINES, work


def test_the_counter_sees_nested_loops():
    def quadratic(n):
        return sum(1 for a in range(n) for b in range(n) if a == b)

    work = [lines_executed(lambda n=n: quadratic(n)) for n in (40, 80, 160)]
    assert work[2] - work[1] > 3 * (work[1] - work[0])


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n"])
@pytest.mark.parametrize("read", [read_log, scan_log], ids=["read_log", "scan_log"])
def test_blank_lines_cost_no_work_each(tmp_path, blank, read):
    path = tmp_path / "log.jsonl"
    work = []
    for times in (1, 100):
        path.write_bytes(b'{"type":"x"}\n' + blank * 100 * times + b'{"type":"y"}\n')
        work.append(lines_executed(lambda: [*read(path)]))
    assert work[1] <= work[0] + 10


@pytest.mark.parametrize("unit", [b'{"a":', b'{"type":', b'{"uuid":[', b"["])
def test_a_line_without_an_end_takes_bounded_work(tmp_path, monkeypatch, unit):
    monkeypatch.setattr("turnlog.records.lenient_json._BUDGET", 3_000)
    path = tmp_path / "log.jsonl"
    work = []
    for times in (1, 4):
        path.write_bytes(unit * 4_000 * times + b"\n" + b'{"type":"y"}\n')
        work.append(lines_executed(lambda: [*read_log(path)]))
    assert work[1] <= work[0] + 100
