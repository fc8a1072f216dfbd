"""The records at both ends of a log, and nothing of what lies between."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.logs import add, lines, numbered, put, read
from strategies import to_line, untidy_logs
from turnlog.errors import NotFound
from turnlog.records.session_summary import QuickRun, SessionSummary
from turnlog.storage import tail
from turnlog.storage.reader import Placed
from turnlog.storage.tail import read_ends


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@pytest.fixture(scope="module")
def scratch(hushed):
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "log.jsonl"


def fold(records):
    found = SessionSummary()
    for record in records:
        found.take(record)
    return found


def names(records):
    return [record.uuid for record in records]


def records_between(path, first, last):
    """The records of the lines that lie wholly between two offsets, by a forward read."""
    data = path.read_bytes()
    placed = [item for item in read(path) if isinstance(item, Placed)]
    found = []
    for item in placed:
        start = data.rfind(b"\n", 0, item.offset) + 1
        end = data.find(b"\n", item.offset)
        # A whole line includes its end; only the log's last line may do without.
        end = len(data) if end < 0 else end + 1
        if start >= first and end <= last:
            found.append(item.record)
    return found


@given(data=untidy_logs(12), size=st.integers(1, 4000))
@example(data=lines(1, 2, 3), size=len(lines(1)))
@example(data=lines(1, 2), size=len(lines(1)))
@example(data=b"\n" * 9, size=2)
@example(data=lines(1)[:-1], size=len(lines(1)) * 2 // 3)
def test_the_ends_are_the_lines_that_lie_in_them(scratch, data, size):
    put(scratch, data)
    ends = read_ends(scratch, size)
    tail_start = len(data) - size
    assert fold(ends.tail) == fold(records_between(scratch, tail_start, len(data)))
    if ends.is_whole:
        everything = fold(item.record for item in read(scratch) if isinstance(item, Placed))
        assert fold([*ends.head, *ends.tail]) == everything
    else:
        assert fold(ends.head) == fold(records_between(scratch, 0, size))


@given(data=untidy_logs(12), size=st.integers(1, 600), block=st.integers(1, 300))
@example(data=lines(1, "b" * 400, 3), size=100, block=7)
@example(data=lines("a" * 400), size=10, block=7)
def test_lines_that_are_cut_come_whole_and_once(scratch, data, size, block):
    put(scratch, data)
    plain = read_ends(scratch, size)
    patch = pytest.MonkeyPatch()
    patch.setattr(tail, "_FIRST_BLOCK", block)
    try:
        ends = read_ends(scratch, size, with_cut_lines=True)
    finally:
        patch.undo()
    placed = [item.record for item in read(scratch) if isinstance(item, Placed)]
    everything = fold(placed)
    both = fold([*ends.head, *ends.tail])
    assert both.records <= everything.records
    assert fold(ends.head).records >= fold(plain.head).records
    assert fold(ends.tail).records >= fold(plain.tail).records
    if ends.is_whole:
        assert both == everything


def test_the_first_and_the_last_record_are_found_however_long_they_are(log):
    first, last = (to_line(numbered(name, blob="k" * 900_000)) + b"\n" for name in "az")
    put(log, first, lines(*range(3000)), last)
    ends = read_ends(log)
    assert (ends.head, ends.tail) == ([], [])
    ends = read_ends(log, with_cut_lines=True)
    assert (names(ends.head), names(ends.tail)) == (["u-a"], ["u-z"])
    assert not ends.is_whole


def test_one_line_that_fills_the_log_is_the_whole_log(log):
    put(log, to_line(numbered("only", blob="k" * 900_000)), b"\n")
    ends = read_ends(log, with_cut_lines=True)
    assert names([*ends.head, *ends.tail]) == ["u-only"]
    assert ends.is_whole


def test_a_line_past_the_cap_is_left_alone(log, monkeypatch):
    monkeypatch.setattr(tail, "LINE_CAP", 200_000)
    monster = to_line(numbered("monster", blob="k" * 900_000)) + b"\n"
    put(log, lines(1), monster, lines(2), monster, lines(3))
    ends = read_ends(log, with_cut_lines=True)
    assert (names(ends.head), names(ends.tail)) == (["u-1"], ["u-3"])


def test_what_lies_between_is_not_read(log):
    put(log, lines(*range(2000)))
    middle = log.stat().st_size // 2
    with log.open("r+b") as file:
        file.seek(middle)
        file.write(b"\xff" * 1000)
    ends = read_ends(log)
    assert names(ends.head)[0] == "u-0"
    assert names(ends.tail)[-1] == "u-1999"
    assert not ends.is_whole


def test_a_record_that_is_still_being_written_is_left_out(log):
    put(log, lines(1, 2), to_line(numbered(3))[:-9])
    assert names(read_ends(log).tail) == ["u-1", "u-2"]
    put(log, lines(1, 2), to_line(numbered(3)))
    assert names(read_ends(log).tail) == ["u-1", "u-2", "u-3"]


def test_what_a_damaged_line_still_holds_is_given(log):
    put(log, lines(1), to_line(numbered(2)), lines(3), b"\0" * 20, b"\n", lines(4))
    assert names(read_ends(log).tail) == ["u-1", "u-2", "u-3", "u-4"]


def test_lines_that_were_only_glanced_at_come_as_one(log):
    answer = {"type": "assistant", "message": {"role": "assistant", "model": "m", "content": []}}
    put(log, lines(1), *[to_line(answer | {"timestamp": f"2026-03-0{day}T00:00:00Z"}) + b"\n"
                         for day in (2, 1, 3)], lines(2))  # fmt: skip
    one, stretch, two = read_ends(log).tail
    assert names([one, two]) == ["u-1", "u-2"]
    assert isinstance(stretch, QuickRun)
    assert (stretch.lines, stretch.models) == (3, {"m": 3})
    assert (stretch.first_at.day, stretch.at.day) == (1, 3)


def test_a_compressed_log_is_read_through(log):
    packed = log.with_name("log.jsonl.gz")
    packed.write_bytes(gzip.compress(lines(*range(5000))))
    ends = read_ends(packed)
    assert ends.is_whole
    assert len(list(ends.tail)) == 5000


def test_an_empty_log_has_no_ends(log):
    ends = read_ends(put(log))
    assert (ends.head, ends.tail, ends.is_whole) == ([], [], True)


def test_a_log_that_grows_or_is_gone(log):
    put(log, lines(*range(900)))
    add(log, lines("new"))
    assert names(read_ends(log).tail)[-1] == "u-new"
    log.unlink()
    with pytest.raises(NotFound):
        read_ends(log)
