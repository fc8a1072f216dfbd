"""Bounded memory, whatever the file: long lines, holes, bombs of nesting."""

from __future__ import annotations

import pytest

from storage.logs import lines, numbered, put, read, run_fresh, told
from strategies import to_line
from turnlog.records.damage import Reason
from turnlog.storage.reader import read_log
from turnlog.storage.tail import read_last

MB = 1024 * 1024


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def put_hole(path, size, *, head=b"", tail=b""):
    """A file of *size* NULs between *head* and *tail* that takes no room on disk."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(size, 1)
        file.write(tail)
        file.truncate()


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_line_is_a_record_up_to_the_cap_and_damage_beyond(log, extra):
    line = to_line(numbered(1))
    put(log, line, b"\n", lines(2))
    found = read(log, cap=len(line) - extra)
    assert told(found) == (["too-long", "too-long"] if extra > 0 else ["u-1", "u-2"])


def test_an_over_long_line_is_measured_and_its_neighbours_are_read(log):
    put(log, lines(1), b'{"x":"', b"y" * 5000, b'"}\n', lines(2))
    found = read(log, cap=1000)
    assert told(found) == ["u-1", "too-long", "u-2"]
    damage = found[1]
    assert (damage.offset, damage.length, damage.line) == (len(lines(1)), 5008, 2)
    assert damage.excerpt.startswith(b'{"x":"yyyy')
    assert found[2].offset == damage.end + 1


def test_an_over_long_line_without_an_end_is_damage_to_those_who_take_it_all(log):
    put(log, lines(1), b"x" * 5000)
    assert told(read(log, cap=1000)) == ["u-1", "too-long"]


def test_an_over_long_line_that_still_grows_is_pending_to_those_who_come_back(log):
    put(log, lines(1), b"x" * 5000)
    with read_log(log, cap=1000, tail="wait") as reader:
        assert told(reader) == ["u-1"]
        assert (reader.pending.offset, reader.pending.length) == (len(lines(1)), 5000)
        assert reader.offset == len(lines(1))


def test_the_excerpt_of_an_over_long_line_is_short(log):
    put(log, b"x" * 10_000, b"\n")
    (damage,) = read(log, cap=500)
    assert damage.excerpt == b"x" * 100
    assert damage.reason is Reason.TOO_LONG


PEAK = """
    import re, sys
    from turnlog.storage.reader import read_log, scan_log
    from turnlog.storage.tail import read_last
    path, cap, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    def peak():
        with open("/proc/self/status") as status:
            return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024
    before = peak()
    ways = {"read": read_log, "scan": scan_log, "last": lambda p, cap: read_last(p, 5, cap=cap)}
    count = sum(1 for _ in ways[how](path, cap=cap))
    print(count, peak() - before)
"""


def peak_mb(path, cap, how="read") -> tuple[int, int]:
    """How many items reading gives, and by how many MB it raises a fresh process's peak."""
    count, grown = run_fresh(PEAK, path, cap, how).split()
    return int(count), int(grown)


@pytest.mark.parametrize("how", ["read", "scan", "last"])
def test_a_line_of_300_mb_is_damage_and_takes_no_memory(log, how):
    head, tail = b'{"type":"user","x":"', b'"}\n' + lines(1)
    put_hole(log, 300 * MB, head=head, tail=tail)
    count, grown = peak_mb(log, MB, how)
    assert count == 2
    assert grown < 40


def test_a_line_of_300_mb_stays_within_a_few_times_the_default_cap(log):
    put_hole(log, 300 * MB, head=b'{"type":"user","x":"', tail=b'"}\n' + lines(1))
    count, grown = peak_mb(log, 64 * MB)
    assert count == 2
    assert grown < 200


def test_a_record_of_40_mb_is_read_in_a_few_times_its_size(log):
    put(log, to_line(numbered(1, blob="k" * (40 * MB))), b"\n", lines(2))
    count, grown = peak_mb(log, 64 * MB)
    assert count == 2
    assert grown < 200


def test_memory_does_not_grow_with_the_log(log):
    put(log, lines(*range(100)) * 4000)
    assert log.stat().st_size > 40 * MB
    count, grown = peak_mb(log, MB)
    assert count == 400_000
    assert grown < 20


@pytest.mark.slow
def test_4_gb_of_nuls_are_one_damage_in_little_time(log):
    put_hole(log, 4 * 1024 * MB, tail=b"\n" + lines(1))
    found = read(log, cap=MB)
    assert told(found) == ["nul-run", "u-1"]
    assert (found[0].offset, found[0].length) == (0, 4 * 1024 * MB)


def test_the_last_records_before_a_hole_can_be_had(log):
    put_hole(log, 200 * MB, head=lines(1, 2) + b"x", tail=b"\n" + lines(3))
    found = read_last(log, 2, cap=MB)
    assert told(found) == ["u-2", "too-long", "u-3"]
    assert found[1].length == 200 * MB + 1


def test_a_log_of_braces_is_read_in_little_time(log):
    put(log, (b'{"a' * 20_000 + b"\n") * 3, b'{"type":"x",' * 10_000, b"\n", lines(1))
    found = read(log)
    assert told(found)[-1] == "u-1"
