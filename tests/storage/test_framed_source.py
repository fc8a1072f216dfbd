"""A log packed in frames reads like the plain one, anywhere; a broken frame costs no other."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import in_child, lines, numbered, put, read, spans, told
from storage.packed import SMALL, all_of, contents, framed, frames_of, pack_to, quick_folder
from strategies import to_line, untidy_logs
from turnlog.errors import TurnlogError
from turnlog.records.damage import Damage
from turnlog.sessions.session import records_of, tree_of
from turnlog.storage.compressed import unpack
from turnlog.storage.reader import Placed, read_log, read_range, scan_log
from turnlog.storage.repair import validate
from turnlog.storage.scan import FoundLines
from turnlog.storage.sources import FramedSource, fingerprint_by, open_source
from turnlog.storage.tail import read_ends, read_last


@pytest.fixture(autouse=True, scope="module")
def _small_frames(hushed):
    with frames_of(SMALL):
        yield


@pytest.fixture(scope="module")
def folder():
    with quick_folder() as made:
        yield made


def both(folder, data):
    """The same log plain and packed."""
    plain, packed = put(folder / "plain.jsonl", data), folder / "packed.jsonl.zst"
    pack_to(packed, [data])
    assert isinstance(_opened(packed), FramedSource)
    return plain, packed


def _opened(path):
    source = open_source(path)
    source.close()
    return source


def found_lines(path, *needles, **how):
    with FoundLines(path, *needles, **how) as found:
        return list(found), found.offset, found.is_pending


# -- the same bytes --------------------------------------------------------------------------


@given(data=contents(), places=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 600))))
def test_any_range_is_that_of_the_plain_log(folder, data, places):
    path = folder / "ranges.zst"
    pack_to(path, [data])
    with framed(path) as source:
        assert source.size_bytes == len(data)
        for offset, size in (*places, (0, len(data)), (len(data), 9), (len(data) + 9, 9)):
            assert source.read_at(size, offset) == data[offset : offset + size]
        assert source.read_at(9, -1) == b""
        assert source.broken == []
    assert all_of(path) == data


@given(
    data=contents(),
    start=st.integers(0, 500),
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=9),
)
def test_background_is_not_disturbed_by_looking_elsewhere(folder, data, start, sizes):
    path = folder / "on.zst"
    pack_to(path, [data])
    with framed(path) as source:
        source._position = start
        read_so_far = b""
        for size in sizes * 5:
            source.read_at(size, size)
            piece = source.read(size)
            assert len(piece) <= size
            read_so_far += piece
        assert data[start:].startswith(read_so_far)
        while piece := source.read(77):
            read_so_far += piece
        assert read_so_far == data[start:]


@given(data=contents(), size=st.integers(0, 500))
def test_its_fingerprint_is_that_of_the_plain_log(folder, data, size):
    path = folder / "print.zst"
    pack_to(path, [data])
    size = min(size, len(data))
    with framed(path) as source:
        theirs = fingerprint_by(lambda count, at: data[at : at + count], size)
        assert fingerprint_by(source.read_at, size) == theirs


@pytest.mark.parametrize(
    "size", [0, 1, 4095, 4096, 4097, 8191, 8193, 9000, 15_872, 15_873, 300_000]
)
def test_a_fingerprint_covers_both_ends_and_what_lies_between(size):
    data = random.Random(size).randbytes(size)

    def of(data):
        return fingerprint_by(lambda count, at: data[at : at + count], size)

    assert of(data + b"more") == of(data), "what was appended does not show"
    is_whole = size <= 2 * 4096 + 30 * 256
    places = range(0, size, 97) if is_whole else (0, 4095, size - 4096, size - 1)
    for at in places:
        other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert of(other) != of(data), at


# -- the same records ------------------------------------------------------------------------


@given(data=untidy_logs(max_lines=12))
def test_any_log_reads_the_same_in_frames(folder, data):
    plain, packed = both(folder, data)
    assert read(packed) == read(plain)
    assert list(scan_log(packed)) == list(scan_log(plain))
    with read_log(packed) as one, read_log(plain) as other:
        assert list(one) == list(other)
        assert (one.offset, one.pending) == (other.offset, other.pending)
    for count in (0, 1, 3, 99):
        assert read_last(packed, count) == read_last(plain, count)
    assert list(read_range(packed, 1, 3)) == list(read_range(plain, 1, 3))
    for needles in ((b"type",), (b"kite", b"{")):
        assert found_lines(packed, *needles) == found_lines(plain, *needles)


@given(data=untidy_logs(max_lines=12), size=st.integers(1, 400), with_cut_lines=st.booleans())
def test_the_ends_of_a_log_are_the_same_in_frames(folder, data, size, with_cut_lines):
    plain, packed = both(folder, data)
    one = read_ends(packed, size, with_cut_lines=with_cut_lines)
    other = read_ends(plain, size, with_cut_lines=with_cut_lines)
    assert (
        (one.size_bytes, one.is_whole)
        == (other.size_bytes, other.is_whole)
        == (
            len(data),
            other.is_whole,
        )
    )
    assert list(map(repr, one.head)) == list(map(repr, other.head))
    assert list(map(repr, one.tail)) == list(map(repr, other.tail))


@given(data=untidy_logs(), start=st.integers(0, 900))
def test_reading_begins_at_any_offset(folder, data, start):
    plain, packed = both(folder, data)
    assert read(packed, start=start) == read(plain, start=start)
    assert found_lines(packed, b"type", start=start) == found_lines(plain, b"type", start=start)


def test_threads_and_their_records_are_the_same(folder):
    parent, data = None, b""
    for number in range(40):
        record = numbered(number, parentUuid=parent)
        parent = record["uuid"]
        data += to_line(record) + b"\n"
    plain, packed = both(folder, data)
    one, other = tree_of(packed), tree_of(plain)
    assert list(map(repr, one.nodes)) == list(map(repr, other.nodes))
    backwards = list(one.nodes)[::-1]
    found = [record.raw for _, record in records_of(packed, backwards)]
    assert found == data.splitlines()[::-1]
    assert found == [record.raw for _, record in records_of(plain, backwards)]


def test_lines_longer_than_many_frames(folder):
    data = to_line(numbered(1, filling="x" * (9 * SMALL))) + b"\n" + lines(2)
    plain, packed = both(folder, data)
    assert read(packed) == read(plain)
    assert told(read_last(packed, 2)) == ["u-1", "u-2"]
    assert told(read_last(packed, 9, cap=5 * SMALL)) == told(read_last(plain, 9, cap=5 * SMALL))
    assert told(read(packed, cap=5 * SMALL)) == told(read(plain, cap=5 * SMALL))


def test_the_last_records_need_only_the_last_frames(folder):
    with frames_of(16 * 1024):
        packed = folder / "long.zst"
        pack_to(packed, [lines(*range(5000))])
        spoil_all_but_the_last(packed)
        assert told(read_last(packed, 3)) == ["u-4997", "u-4998", "u-4999"]


def spoil_all_but_the_last(path):
    with framed(path) as source:
        frames = source.table.frames
    data = bytearray(path.read_bytes())
    # The tail is read in blocks of 64 KiB.
    for frame in frames[:-6]:
        data[frame.packed_at + frame.packed_bytes // 2] ^= 0xFF
    put(path, bytes(data))


# -- broken frames ---------------------------------------------------------------------------


def spoilt(path, number):
    """Flip a bit of a frame; give where the frame's bytes lie in the log."""
    with framed(path) as source:
        frame = source.table.frames[number]
    data = bytearray(path.read_bytes())
    data[frame.packed_at + frame.packed_bytes - 2] ^= 0x04
    put(path, bytes(data))
    return frame.start, frame.start + frame.size_bytes


def test_a_broken_frame_costs_no_record_of_another(folder):
    data = lines(*range(30))
    with frames_of(300):
        plain, packed = both(folder, data)
        whole = packed.read_bytes()
        with framed(packed) as source:
            count = len(source.table.frames)
        everything = spans(read(plain))
        assert count > 8
        for number in range(count):
            put(packed, whole)
            start, end = spoilt(packed, number)
            others = [span for span in everything if not start <= span[1] < end]
            found = read(packed)
            records = [span for span in spans(found) if span[0] == "record"]
            assert records == others, number
            damages = [item for item in found if isinstance(item, Damage)]
            assert [(each.offset, each.offset + each.length + 1) for each in damages] == [
                (start, end)
            ]
            assert not validate(packed).is_valid
            backwards = read_last(packed, 99)
            assert [s for s in spans(backwards) if s[0] == "record"] == others
            assert any(isinstance(item, Damage) for item in backwards)
            seen, _, _ = found_lines(packed, b"kite")
            assert [at for at, line in seen if isinstance(line, bytes)] == [s[1] for s in others]
            assert [(line.offset, line.length) for _, line in seen if isinstance(line, Damage)] == [
                (start, end - start)
            ]


def test_broken_frames_are_told_once_with_their_places(folder):
    data = lines(*range(30))
    with frames_of(300):
        _, packed = both(folder, data)
        start, end = spoilt(packed, 2)
        with framed(packed) as source:
            for _ in range(3):
                assert source.read_at(end - start, start) == b"\0" * (end - start - 1) + b"\n"
            assert [(each.offset, each.length) for each in source.broken] == [(start, end - start)]
            assert source.broken[0].why
            assert source.read_at(20, end) == data[end : end + 20]


def _every_way(path):
    """Read a log in every way; give the uuids that were found from front to end."""
    found = [item.record.uuid for item in read(path) if isinstance(item, Placed)]
    list(scan_log(path))
    read_last(path, 5)
    ends = read_ends(path, 100)
    list(ends.tail)
    found_lines(path, b"kite")
    validate(path)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_any_damage_to_the_file_is_damage_in_the_log(folder, seed):
    """Bits flipped, pieces cut, garbage behind: every reader comes to an end."""
    rng = random.Random(seed)
    data = lines(*range(12))
    _, packed = both(folder, data)
    whole = packed.read_bytes()
    wanted = [f"u-{number}" for number in range(12)]
    for _ in range(60):
        spoiled = bytearray(whole)
        how = rng.choice(["flip", "cut", "tail", "drop", "zero"])
        at = rng.randrange(len(whole))
        if how == "flip":
            spoiled[at] ^= 1 << rng.randrange(8)
        elif how == "cut":
            del spoiled[at:]
        elif how == "tail":
            spoiled += rng.randbytes(rng.randint(1, 40))
        elif how == "drop":
            del spoiled[at : at + rng.randint(1, 40)]
        else:
            spoiled[at : at + 20] = b"\0" * len(spoiled[at : at + 20])
        put(packed, bytes(spoiled))
        found = _every_way(packed)
        assert [uuid for uuid in wanted if uuid in found] == found, (how, at)
        with suppress(TurnlogError):
            assert b"".join(unpack(packed)) == data


def test_reading_leaves_nothing_open(folder):
    data = lines(*range(12))
    _, packed = both(folder, data)

    def opened_by_reading():
        _every_way(packed)
        before = len(os.listdir("/proc/self/fd"))
        _every_way(packed)
        put(packed, packed.read_bytes()[:-3])
        _every_way(packed)
        return len(os.listdir("/proc/self/fd")) - before

    assert in_child(opened_by_reading) == 0


def test_a_packed_log_that_shrinks_while_it_is_read_is_damage(folder):
    data = lines(*range(40))
    _, packed = both(folder, data)
    with read_log(packed) as reader:
        first = next(reader)
        assert isinstance(first, Placed)
        os.truncate(packed, packed.stat().st_size // 2)
        rest = list(reader)
    assert any(isinstance(item, Damage) for item in rest)
    records = [item.record.raw for item in rest if isinstance(item, Placed)]
    assert all(json.loads(raw)["type"] == "user" for raw in records)
