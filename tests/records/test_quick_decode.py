"""A summary comes to the same, whether lines were glanced at or read."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import CLAUDE, FLAT, ORCHESTRATOR
from strategies import good_lines, spoiled, spoiled_lines, to_line
from turnlog.records.codec import decode
from turnlog.records.record import Record
from turnlog.records.session_summary import QuickRecord, SessionSummary, quick_decode, quick_run

SAMPLES = [*CLAUDE.values(), *FLAT.values(), *ORCHESTRATOR.values()]

instants = st.sampled_from(
    [
        "2026-03-04T05:06:07.089Z",
        "2026-03-01T00:00:00.000Z",
        "2026-03-04T05:06:07+02:00",
        "2026-03-04T05:06:07",
        "2026-03-04",
        "9999-99-99T99:99:99Z",
        "",
        1772600000000,
        1772600000.5,
        True,
        None,
    ]
)


@st.composite
def lines_of_any_time(draw) -> bytes:
    """A record at an odd time, in an odd place, from a branch of its own."""
    record = dict(draw(st.sampled_from(SAMPLES)))
    for key, values in (
        ("timestamp", instants),
        ("cwd", st.sampled_from(["/a", "/b", "", None, 7])),
        ("gitBranch", st.sampled_from(["main", "", None, []])),
        ("version", st.sampled_from(["2.1.0", "2.0.1", None])),
        ("isSidechain", st.sampled_from([True, False, None])),
    ):
        if key in record and draw(st.booleans()):
            record[key] = draw(values)
    return to_line(record, spaced=draw(st.booleans()))


any_lines = lines_of_any_time() | good_lines() | spoiled().map(to_line) | spoiled_lines()


def fold(records) -> SessionSummary:
    found = SessionSummary()
    for record in records:
        found.take(record)
    return found


def glanced(lines) -> SessionSummary:
    seen = [each for each in map(quick_decode, lines) if isinstance(each, QuickRecord | Record)]
    records = []
    for is_glance, run in groupby(seen, key=lambda each: isinstance(each, QuickRecord)):
        together = list(run)
        records += [quick_run(together)] if is_glance else together
    return fold(records)


def read(lines) -> SessionSummary:
    return fold(each for each in map(decode, lines) if isinstance(each, Record))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample.get("type")))
def test_every_kind_of_record_is_summed_up_alike(sample):
    assert glanced([to_line(sample)]) == read([to_line(sample)])


@given(st.lists(any_lines, max_size=8))
def test_any_lines_are_summed_up_alike(lines):
    assert glanced(lines) == read(lines)


@given(st.lists(any_lines, max_size=4))
def test_where_a_run_of_lines_is_cut_does_not_matter(lines):
    seen = [each for each in map(quick_decode, lines) if isinstance(each, QuickRecord | Record)]
    singly = fold(quick_run([each]) if isinstance(each, QuickRecord) else each for each in seen)
    assert singly == glanced(lines)


@given(spoiled_lines() | st.binary(max_size=60))
def test_damage_is_the_same_damage(line):
    seen, record = quick_decode(line), decode(line)
    assert isinstance(record, Record) == isinstance(seen, QuickRecord | Record)
    if not isinstance(record, Record):
        assert seen == record


@pytest.mark.parametrize(
    "name",
    [
        "assistant",
        "assistant/thinking",
        "file-history-snapshot",
        "progress/bash_progress",
        "queue-operation/enqueue",
        "system/api_error",
        "user/result",
    ],
)
def test_what_weighs_most_is_only_glanced_at(name):
    assert isinstance(quick_decode(to_line(CLAUDE[name])), QuickRecord)


def test_what_only_looks_like_a_result_is_read():
    sly = {"type": "user", "message": {"role": "user", "content": '"tool_result"'}}
    assert isinstance(quick_decode(to_line(sly)), Record)
    nameless = {"type": "user", "message": {"content": [{"type": "tool_result"}]}}
    assert isinstance(quick_decode(to_line(nameless)), Record)


def test_a_line_may_be_given_as_a_view():
    line = to_line(CLAUDE["user"])
    assert quick_decode(memoryview(line)) == decode(line)
