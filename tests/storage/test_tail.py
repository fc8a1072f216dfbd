"""The last records, read from the end, are the end of what reading forwards gives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.logs import add, lines, numbered, put, read, spans, told
from strategies import good_lines, to_line, untidy_logs
from turnlog.storage import tail
from turnlog.storage.reader import Placed
from turnlog.storage.tail import read_last


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@pytest.fixture(scope="module")
def scratch(hushed):
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "log.jsonl"


def last_forwards(path, count, **how):
    """The end of a forward read: the last *count* records and what stands between and behind."""
    items = read(path, **how)
    records = [index for index, item in enumerate(items) if isinstance(item, Placed)]
    if count <= 0:
        return []
    return items if len(records) < count else items[records[-count] :]


def with_blocks(first, largest):
    """Let the tail be read in blocks of other sizes."""
    patch = pytest.MonkeyPatch()
    patch.setattr(tail, "_FIRST_BLOCK", first)
    patch.setattr(tail, "_LARGEST_BLOCK", largest)
    return patch


@given(
    data=untidy_logs().map(lambda data: data + b"\n"),
    count=st.integers(0, 8),
    first=st.integers(16, 300),
    largest=st.integers(16, 2000),
)
@example(data=b"\n\n", count=1, first=1, largest=1)
@example(data=lines(1, 2), count=1, first=1, largest=1)
def test_the_last_records_equal_the_end_of_a_forward_read(scratch, data, count, first, largest):
    put(scratch, data)
    patch = with_blocks(first, largest)
    try:
        found = read_last(scratch, count)
    finally:
        patch.undo()
    assert spans(found) == spans(last_forwards(scratch, count))


@example(data=lines(1) + b'{"torn', count=5)
@given(data=untidy_logs(), count=st.integers(0, 8))
def test_an_unfinished_end_is_treated_as_a_forward_read_treats_it(scratch, data, count):
    put(scratch, data)
    assert spans(read_last(scratch, count)) == spans(last_forwards(scratch, count))


@given(
    data=untidy_logs().map(lambda data: data + b"\n"),
    cap=st.integers(1, 500),
    first=st.integers(16, 300),
)
@example(data=lines(1) + b"  \n\n", cap=1, first=16)
def test_the_cap_counts_backwards_too(scratch, data, cap, first):
    put(scratch, data)
    patch = with_blocks(first, 512)
    try:
        found = read_last(scratch, 99, cap=cap)
    finally:
        patch.undo()
    assert [span[1:] for span in spans(found)] == [
        span[1:] for span in spans(read(scratch, cap=cap))
    ]


@given(st.lists(good_lines(), max_size=6), st.booleans())
def test_a_whole_last_record_counts_with_or_without_its_newline(scratch, records, ended):
    put(scratch, b"\n".join(records), b"\n" if ended else b"")
    found = [item.record.raw for item in read_last(scratch, 2)]
    assert found == records[-2:]


def test_the_last_records_come_in_the_logs_order(log):
    put(log, lines(1, 2, 3, 4))
    assert told(read_last(log, 2)) == ["u-3", "u-4"]
    assert told(read_last(log, 4)) == told(read_last(log, 99)) == ["u-1", "u-2", "u-3", "u-4"]


def test_damage_among_the_last_records_is_given_and_damage_before_them_is_not(log):
    put(log, b"junk\n", lines(1), b"junk\n", lines(2), b"junk\n", lines(3), b"42\n")
    assert told(read_last(log, 2)) == ["u-2", "not-json", "u-3", "not-an-object"]
    assert told(read_last(log, 9))[0] == "not-json"


def test_nothing_asked_nothing_given(log):
    put(log, lines(1))
    assert read_last(log, 0) == []
    assert read_last(put(log), 5) == []


def test_an_array_of_records_is_no_record_in_either_direction(log):
    put(log, b"[" + to_line(numbered(1)) + b"]\n")
    assert told(read_last(log, 5)) == told(read(log)) == ["not-an-object"]


def test_a_record_longer_than_any_block_is_read(log):
    big = to_line(numbered("big", blob="k" * 9_000_000))
    put(log, lines(1), big, b"\n", lines(2))
    found = read_last(log, 3)
    assert told(found) == ["u-1", "u-big", "u-2"]
    assert found[1].record.raw == big


def test_the_cost_does_not_depend_on_the_log(log):
    put(log, lines(*range(1000)) * 50)
    add(log, lines("last"))
    with log.open("r+b") as file:
        file.write(b"\0" * 5_000_000)  # Whoever looked there would have to report it.
    assert told(read_last(log, 2)) == ["u-999", "u-last"]


def test_the_last_records_of_a_log_being_cut_are_fewer_not_wrong(log):
    put(log, lines(*range(50)))
    os.truncate(log, len(lines(*range(20))) + 30)
    found = read_last(log, 3)
    assert [word for word in told(found) if word.startswith("u-")] == ["u-17", "u-18", "u-19"]


@pytest.mark.parametrize("count", [0, -1])
def test_no_records_are_asked_for_and_none_are_given(log, count):
    import gzip

    put(log, lines(1, 2))
    packed = log.with_name("packed.jsonl.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert read_last(log, count) == read_last(packed, count) == []
