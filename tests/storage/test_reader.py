"""Reading forwards: from any line's start, whatever stands between the records."""

from __future__ import annotations

import gc
import logging
import os

import pytest

from storage.logs import add, lines, numbered, put, read, spans, told, unaccounted
from storage.packed import pack_to
from strategies import to_line
from turnlog.errors import UsageError
from turnlog.records.damage import Damage, Reason
from turnlog.storage.reader import Placed, Reader, read_log, read_range


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_records_come_in_order_with_their_place(log):
    put(log, lines(1, 2, 3))
    length = len(lines(1)) - 1
    found = read(log)
    assert told(found) == ["u-1", "u-2", "u-3"]
    assert [(item.offset, item.length, item.line) for item in found] == [
        (0, length, 1),
        (length + 1, length, 2),
        (2 * length + 2, length, 3),
    ]


def test_an_empty_log_has_nothing(log):
    with read_log(put(log)) as reader:
        assert list(reader) == []
        assert (reader.offset, reader.pending, reader.lines) == (0, None, 0)


def test_reading_begins_at_any_line(log):
    data = lines(1, 2, 3)
    put(log, data)
    for first, number in ((data.index(b"\n") + 1, 2), (len(lines(1, 2)), 3)):
        found = read(log, start=first)
        assert told(found)[0] == f"u-{number}"
        assert found[0].offset == first
        assert found[0].line == 0  # Nobody counted the lines before it.
    assert read(log, start=len(data)) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("is_packed", [False, True])
def test_whoever_stops_in_the_middle_leaves_nothing_open(log, is_packed):
    put(log, lines(1, 2, 3))
    if is_packed:
        pack_to(log, [log.read_bytes()])
    gc.collect()  # What others left behind goes first.
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        next(read_log(log))
        for _item in read_log(log):
            break
        read_log(log)  # Nobody even begins.
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_log_begins_at_its_first_byte(log):
    with pytest.raises(UsageError, match="from 0"):
        read_log(put(log, lines(1)), start=-5)


def test_a_reader_that_goes_on_keeps_counting_lines(log):
    put(log, lines(1, 2, 3))
    assert [item.line for item in read(log, start=len(lines(1)), line=2)] == [2, 3]


def test_reading_past_the_end_gives_nothing(log):
    assert read(put(log, lines(1)), start=10_000) == []


def test_blank_lines_are_counted_and_not_reported(log):
    put(log, b"\n", lines(1), b"  \n\t\r\n\n", lines(2))
    with read_log(log) as reader:
        found = list(reader)
        assert told(found) == ["u-1", "u-2"]
        assert [item.line for item in found] == [2, 6]
        assert (reader.blank_lines, reader.lines) == (4, 6)


def test_windows_line_ends_are_no_part_of_a_record(log):
    put(log, lines(1, 2).replace(b"\n", b"\r\n"))
    found = read(log)
    assert told(found) == ["u-1", "u-2"]
    assert found[0].record.fields == numbered(1)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line(log, separator):
    record = numbered(1, note=f"a{separator}b")
    put(log, to_line(record), b"\n", lines(2))
    found = read(log)
    assert told(found) == ["u-1", "u-2"]
    assert found[0].record.fields["note"] == f"a{separator}b"


def test_a_byte_order_mark_at_the_head_is_no_damage(log):
    assert told(read(put(log, b"\xef\xbb\xbf", lines(1, 2)))) == ["u-1", "u-2"]


def test_damage_is_reported_between_the_records_it_stands_between(log):
    put(log, lines(1), b'{"type":"user","mess\n', lines(2), b"42\n// note\n\0\0\0\n", lines(3))
    found = read(log)
    assert told(found) == [
        "u-1", "fragment", "u-2", "not-an-object", "not-json", "nul-run", "u-3",
    ]  # fmt: skip
    damage = found[1]
    assert (damage.line, damage.offset, damage.length) == (2, len(lines(1)), 20)
    assert damage.excerpt == b'{"type":"user","mess'


def test_damage_is_logged_with_file_line_and_a_harmless_excerpt(log, caplog):
    put(log, lines(1), b"\x1b[31mred" + b"x" * 300 + b"\n")
    with caplog.at_level(logging.WARNING, logger="turnlog.storage"):
        read(log)
    (message,) = (record.getMessage() for record in caplog.records)
    assert f"{log}: line 2" in message
    assert "\x1b" not in message
    assert "red" + "x" * 92 in message
    assert "x" * 100 not in message


# -- the end of the log ---------------------------------------------------------------------


def test_a_partial_last_line_is_pending_and_no_damage(log):
    whole, part = lines(1), b'{"type":"user","mess'
    put(log, whole, part)
    with read_log(log) as reader:
        assert told(reader) == ["u-1"]
        assert reader.offset == len(whole)
        pending = reader.pending
    assert (pending.offset, pending.length, pending.line) == (len(whole), len(part), 2)
    assert (pending.record, pending.excerpt) == (None, part)


def test_a_whole_last_record_without_newline_is_taken(log):
    put(log, lines(1, 2)[:-1])
    with read_log(log) as reader:
        assert told(reader) == ["u-1", "u-2"]
        assert reader.offset == len(lines(1))
        assert reader.pending.record.uuid == "u-2"


def test_a_whole_last_record_without_newline_is_left_to_those_who_come_back(log):
    put(log, lines(1, 2)[:-1])
    with read_log(log, tail="wait") as reader:
        assert told(reader) == ["u-1"]
        assert reader.offset == len(lines(1))
        assert reader.pending.record.uuid == "u-2"
    add(log, b"\n")
    assert told(read(log, start=reader.offset)) == ["u-2"]


def test_a_tail_of_nuls_is_pending(log):
    put(log, lines(1), b"\0" * 500)
    with read_log(log) as reader:
        assert told(reader) == ["u-1"]
        assert (reader.pending.length, reader.pending.record) == (500, None)


# -- a range of records ---------------------------------------------------------------------


def test_a_range_counts_records_not_lines(log):
    put(log, lines(0), b"\n\nnot a record\n", lines(1, 2), b"\n", lines(3))
    assert told(read_range(log, 1, 3)) == ["u-1", "u-2"]
    assert told(read_range(log, 0, 100)) == ["u-0", "u-1", "u-2", "u-3"]
    assert told(read_range(log, 3, 3)) == []
    assert told(read_range(log, 9, 12)) == []


def test_a_range_counts_every_record_of_a_glued_line(log):
    put(log, lines(0, 1).replace(b"\n", b""), b"\n", lines(2))
    assert told(read_range(log, 1, 3)) == ["u-1", "u-2"]


def test_a_range_stops_reading_when_it_has_enough(log):
    put(log, lines(*range(20_000)))
    found = read_range(log, 2, 4)
    assert told([next(found), next(found)]) == ["u-2", "u-3"]
    os.truncate(log, 0)
    assert list(found) == []


# -- a reader's own life --------------------------------------------------------------------


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


@needs_proc
def test_a_reader_used_as_a_context_gives_its_file_back(log):
    put(log, lines(1, 2))
    before = open_files()
    with read_log(log) as reader:
        next(iter(reader))
    with Reader(log):
        pass
    assert open_files() == before


@needs_proc
def test_a_reader_used_to_its_end_gives_its_file_back(log):
    put(log, lines(1, 2))
    before = open_files()
    for _ in range(3):
        assert told(read_log(log)) == ["u-1", "u-2"]
    assert open_files() == before


def test_a_reader_may_be_closed_twice(log):
    reader = read_log(put(log, lines(1)))
    reader.close()
    reader.close()


def test_reading_changes_nothing(log):
    put(log, lines(1), b"torn")
    os.utime(log, ns=(10**18, 10**18))
    before = os.stat(log)
    read(log)
    after = os.stat(log)
    assert (after.st_size, after.st_mtime_ns, after.st_mode) == (
        before.st_size, before.st_mtime_ns, before.st_mode,
    )  # fmt: skip
    assert sorted(os.listdir(log.parent)) == ["log.jsonl"]


def test_items_can_be_matched(log):
    put(log, lines(1), b"junk\n")
    seen = []
    for item in read(log):
        match item:
            case Placed(record, offset):
                seen.append((record.uuid, offset))
            case Damage(reason=reason, line=line):
                seen.append((reason, line))
    assert seen == [("u-1", 0), (Reason.NOT_JSON, 2)]


def test_every_byte_is_accounted_for_in_a_log_of_all_troubles(log):
    data = b"".join(
        (
            b"\xef\xbb\xbf",
            lines(1),
            lines(2, 3).replace(b"\n", b""),
            b"\r\n\0\0\0",
            lines(4),
            to_line(numbered(5))[:40],
            lines(6),
            b"junk\n\n",
            lines(7)[:-20],
        )
    )
    with read_log(put(log, data)) as reader:
        found = list(reader)
        rest = unaccounted(data, reader, found)
    assert [word for word in told(found) if word.startswith("u-")] == [
        "u-1", "u-2", "u-3", "u-4", "u-6",
    ]  # fmt: skip
    assert rest.strip(b"\r\n") == b""
    assert spans(found)[0] == ("record", 0, len(lines(1)) + 2)
