"""Lines that hold a needle: every one, once, whole, whatever the buffer and the log's fate."""

from __future__ import annotations

import gzip
import os
import tracemalloc

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import LogError, NotALog, NotFound, UsageError
from turnlog.records.damage import Damage, Reason
from turnlog.storage.scan import BUFFER_BYTES, FoundLines

NEEDLE = b'"usage"'


def found(path, *needles, **how):
    with FoundLines(path, *needles, **how) as lines:
        return list(lines)


def expected(data, *needles, cap=1 << 30):
    """What a patient reader would find: (offset, line), or (offset, length) past the cap."""
    answer, offset = [], 0
    for line in data.split(b"\n"):
        if any(needle in line for needle in needles):
            answer.append((offset, line if len(line) <= cap else len(line)))
        offset += len(line) + 1
    return answer


def plain(items):
    return [(at, item.length if isinstance(item, Damage) else item) for at, item in items]


# -- every line, whatever the buffer --------------------------------------------------------

pieces = st.sampled_from([b"a", b"b", b"ab", b"ba", b"\n", b"\n", b"\r\n", b"aab", b"\0", b"x" * 9])
logs = st.lists(pieces, max_size=40).map(b"".join).filter(lambda log: log[:2] != b"\x1f\x8b")


@given(
    logs,
    st.lists(st.sampled_from([b"a", b"b", b"ab", b"aab", b"bab"]), min_size=1, max_size=3),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_any_log_any_buffer_any_cap(tmp_path_factory, log, needles, size, cap):
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    path.write_bytes(log)
    items = found(path, *needles, buffer=bytearray(size), cap=cap)
    assert plain(items) == expected(log, *needles, cap=cap)
    for at, item in items:
        if isinstance(item, Damage):
            assert (item.reason, item.offset) == (Reason.TOO_LONG, at) or not item.excerpt.strip(
                b"\0"
            )


@given(logs, st.lists(st.sampled_from([b"a", b"ab", b"bab"]), min_size=1), st.integers(1, 30))
def test_a_search_that_ignores_case_finds_capitals_too(tmp_path_factory, log, needles, size):
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    log = b"".join(log[at : at + 2].upper() + log[at + 2 : at + 3] for at in range(0, len(log), 3))
    path.write_bytes(log)
    items = found(path, *needles, buffer=bytearray(size), ignores_case=True)
    places = [at for at, _ in expected(log.lower(), *needles)]
    assert [at for at, _ in items] == places
    assert all(item == log[at : at + len(item)] for at, item in items)


@given(logs, st.integers(1, 30), st.data())
def test_a_search_goes_on_where_another_ended(tmp_path_factory, log, size, data):
    path = tmp_path_factory.mktemp("log") / "s.jsonl"
    cut = data.draw(st.integers(0, len(log)))
    path.write_bytes(log[:cut])
    with FoundLines(path, b"ab", tail="wait", buffer=bytearray(size)) as lines:
        first = list(lines)
    assert lines.offset == log.rfind(b"\n", 0, cut) + 1
    path.write_bytes(log)
    rest = found(path, b"ab", start=lines.offset, buffer=bytearray(size))
    assert first + rest == expected(log, b"ab")


def test_the_last_line_needs_no_newline_but_says_so(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab\nxx\nab")
    with FoundLines(path, b"ab") as lines:
        assert next(lines) == (0, b"ab")
        assert not lines.is_pending
        assert next(lines) == (6, b"ab")
        assert lines.is_pending
        assert list(lines) == []
        assert lines.offset == 6
    assert found(path, b"ab", tail="wait") == [(0, b"ab")]


def test_lines_longer_than_the_buffer_and_lines_past_the_cap(tmp_path):
    path = tmp_path / "s.jsonl"
    long = b"x" * (3 * BUFFER_BYTES) + NEEDLE + b"x" * 99
    beyond = b"y" * (5 * BUFFER_BYTES) + NEEDLE
    nobody = b"z" * (5 * BUFFER_BYTES)
    short = NEEDLE + b"short"
    path.write_bytes(b"\n".join([short, long, beyond, nobody, short]))
    items = found(path, NEEDLE, cap=4 * BUFFER_BYTES)
    assert plain(items) == [
        (0, short),
        (len(short) + 1, long),
        (len(short) + len(long) + 2, len(beyond)),
        (len(short) + len(long) + len(beyond) + len(nobody) + 4, short),
    ]
    assert items[2][1].reason is Reason.TOO_LONG


def test_a_needle_on_the_seam_of_two_buffers_is_found(tmp_path):
    path = tmp_path / "s.jsonl"
    for shift in range(len(NEEDLE) + 2):
        line = b"x" * (64 - shift) + NEEDLE + b"x" * 200
        path.write_bytes(line + b"\n")
        assert found(path, NEEDLE, buffer=bytearray(64)) == [(0, line)]
        assert plain(found(path, NEEDLE, buffer=bytearray(64), cap=80)) == [(0, len(line))]


def test_memory_is_bounded_by_the_buffer_and_the_cap(tmp_path):
    path = tmp_path / "s.jsonl"
    with path.open("wb") as file:
        for _ in range(40):
            file.write(b"x" * 1_000_000)
        file.write(NEEDLE + b"\n" + NEEDLE)
    tracemalloc.start()
    try:
        items = found(path, NEEDLE, cap=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [at for at, _ in items] == [0, 40_000_000 + len(NEEDLE) + 1]
    assert peak < 6 * BUFFER_BYTES


# -- the log's fate -------------------------------------------------------------------------


def test_a_log_that_shrinks_under_it_ends_early(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab one\n" * 100)
    lines = FoundLines(path, b"ab", buffer=bytearray(70))
    first = next(lines)
    os.truncate(path, 14)
    rest = list(lines)
    assert first == (0, b"ab one")
    assert rest == [(at, b"ab one") for at in range(7, 70, 7)]  # What was in the buffer.


def test_a_log_that_grows_under_it_is_read_on(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab\n")
    lines = FoundLines(path, b"ab")
    assert next(lines) == (0, b"ab")
    with path.open("ab") as file:
        file.write(b"ab\n")
    assert list(lines) == [(3, b"ab")]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_compressed_logs_are_searched_as_any_other(tmp_path, pack):
    path = tmp_path / "s.jsonl.packed"
    data = b"".join(b"%d %s\n" % (n, b"ab" if n % 7 == 0 else b"--") for n in range(5_000))
    path.write_bytes(pack(data))
    assert found(path, b"ab", buffer=bytearray(1000)) == expected(data, b"ab")
    start = data.index(b"\n") + 1
    assert found(path, b"ab", start=start) == [
        each for each in expected(data, b"ab") if each[0] >= start
    ]


def test_a_broken_archive_gives_what_it_holds_and_the_damage(tmp_path):
    path = tmp_path / "s.jsonl.gz"
    packed = gzip.compress(b"".join(os.urandom(30).hex().encode() + b" ab\n" for _ in range(999)))
    path.write_bytes(packed[: len(packed) // 2])
    *lines, (_, damage) = found(path, b"ab")
    assert len(lines) > 100
    assert damage.reason is Reason.BROKEN_ARCHIVE


def test_an_empty_log_has_nothing(tmp_path):
    path = tmp_path / "s.jsonl"
    path.touch()
    assert found(path, b"ab") == []
    assert found(path, b"ab", start=1_000) == []


# -- the caller's mistakes, and the machine's -----------------------------------------------


@pytest.mark.parametrize("needles", [(), (b"",), (b"a\nb",), (b"ok", b"")])
def test_a_needle_must_fit_into_a_line(tmp_path, needles):
    path = tmp_path / "s.jsonl"
    path.touch()
    with pytest.raises(UsageError, match="needle"):
        FoundLines(path, *needles)


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(NotFound):
        FoundLines(tmp_path / "none.jsonl", b"ab")
    with pytest.raises(NotALog):
        FoundLines(tmp_path, b"ab")
    os.mkfifo(tmp_path / "fifo.jsonl")
    with pytest.raises(NotALog):
        FoundLines(tmp_path / "fifo.jsonl", b"ab")


def test_a_failing_disk_is_told_with_the_logs_name(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab\n")
    lines = FoundLines(path, b"ab")
    os.close(lines._source.fd)  # As near to a failing disk as a test can get.
    with pytest.raises(LogError, match="reading failed") as caught:
        next(lines)
    assert caught.value.path == os.fspath(path)
    lines._source.fd = -1


def test_closing_early_gives_the_descriptor_back(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab\n" * 9)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with FoundLines(path, b"ab") as lines:
            next(lines)
    assert len(os.listdir("/proc/self/fd")) == before


def test_searching_changes_nothing(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"ab\nab")
    path.chmod(0o400)
    before = path.stat()
    found(path, b"ab")
    assert path.read_bytes() == b"ab\nab"
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_long_stretches_are_searched_alike(tmp_path):
    """Several buffers full between two hits."""
    path = tmp_path / "s.jsonl"
    rest = b"\n".join([b'{"usag":"e"}' * 500] * 60)
    lines = [b'{"usage":%d}' % number for number in range(9)]
    path.write_bytes(b"\n".join(line + b"\n" + rest for line in lines))
    assert path.stat().st_size > 2 * BUFFER_BYTES
    assert [line for _, line in FoundLines(path, b'"usage"')] == lines
    path.write_bytes(path.read_bytes().upper())
    small = [line.lower() for _, line in FoundLines(path, b'"usage"', ignores_case=True)]
    assert small == lines


def test_a_needle_that_is_not_there_is_looked_for_once_however_many_lines_are_found(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"usage":1}\n' * 50_000)
    absent = [b"needle %d" % number for number in range(20)]
    assert sum(1 for _ in FoundLines(path, *absent, b'"usage"')) == 50_000
