"""The form of packed logs: any program's zstd, and nothing that a hostile table could ask for."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import lines, put, read, run_fresh, told
from storage.packed import SMALL, all_of, frames_of, pack_to, quick_folder
from turnlog.errors import BrokenCopy
from turnlog.storage.compressed import (
    FRAME_BYTES,
    BrokenFrame,
    Frames,
    FrameTable,
    end_of_frame,
    pack,
    read_table,
    unpack,
    unpack_frame,
)
from turnlog.storage.sources import FramedSource, open_source

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 1024 * 1024
ENTRY = struct.Struct("<II")
FOOTER = struct.Struct("<IBI")
ZSTD = shutil.which("zstd")


@pytest.fixture(scope="module")
def folder():
    with quick_folder() as made:
        yield made


@pytest.fixture
def tmp_path():
    with quick_folder() as made:
        yield made


@pytest.fixture(autouse=True, scope="module")
def _small_frames(hushed):
    with frames_of(SMALL):
        yield


def table_in(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_table(fd)
    finally:
        os.close(fd)


def a_table(*entries, flags=0, count=None, mark=0x8F92EAB1, length=None, skip=0x184D2A5E):
    """A table as one would forge it."""
    data = b"".join(ENTRY.pack(*entry) for entry in entries)
    data += FOOTER.pack(len(entries) if count is None else count, flags, mark)
    return struct.pack("<II", skip, len(data) if length is None else length) + data


# -- the form --------------------------------------------------------------------------------


@given(data=st.binary(max_size=4 * SMALL))
def test_a_frame_ends_behind_the_last_newline_it_has_room_for(data):
    data = data.ljust(SMALL, b"x")
    end = end_of_frame(data)
    assert 0 < end <= SMALL
    assert b"\n" not in data[end:SMALL]
    assert end == SMALL or data[end - 1 : end] == b"\n"
    assert end_of_frame(memoryview(data)) == end_of_frame(bytearray(data)) == end


@given(lengths=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))))
def test_a_table_knows_where_everything_lies(lengths):
    table = FrameTable(lengths)
    assert [(frame.packed_bytes, frame.size_bytes) for frame in table.frames] == lengths
    assert table.packed_bytes == sum(packed for packed, _ in lengths)
    assert table.size_bytes == sum(size for _, size in lengths)
    for number, frame in enumerate(table.frames):
        if frame.size_bytes:
            assert table.at(frame.start) == number
            assert table.at(frame.start + frame.size_bytes - 1) == number
    assert table.at(-1) == -1


def test_an_empty_log_packs_to_a_table_alone(tmp_path):
    path = tmp_path / "log.zst"
    pack_to(path, [])
    assert table_in(path).frames == []
    assert isinstance(open_and_close(path), FramedSource)
    assert all_of(path) == b"".join(unpack(path)) == b""
    assert zstd.decompress(zstd.compress(b"") + path.read_bytes()) == b""


def open_and_close(path):
    source = open_source(path)
    source.close()
    return source


@pytest.mark.skipif(ZSTD is None, reason="there is no zstd program here")
@pytest.mark.parametrize(
    "data", [b"", b"x", lines(*range(40)), b"x" * (5 * SMALL)], ids=["none", "one", "lines", "line"]
)
def test_the_zstd_program_reads_it(tmp_path, data):
    path = tmp_path / "log.zst"
    pack_to(path, [data])
    done = subprocess.run([ZSTD, "-dcq", path], capture_output=True, check=True)
    assert done.stdout == data
    subprocess.run([ZSTD, "-tq", path], check=True)


@given(data=st.binary(max_size=6 * SMALL))
def test_a_stream_that_knows_no_tables_reads_it(folder, data):
    path = folder / "stream.zst"
    pack_to(path, [data])
    with zstd.ZstdFile(path) as file:
        assert file.read() == data


def test_frames_carry_checksums(tmp_path):
    packed = pack(b"kite " * 20)
    assert packed[4] & 0b100, "the header says that a checksum follows"
    with pytest.raises(BrokenFrame):
        unpack_frame(packed[:-1] + bytes([packed[-1] ^ 1]), 100)


def test_a_table_with_checksums_as_other_programs_write_it_is_read(tmp_path):
    frames = [pack(b"one\n"), pack(b"two\n")]
    entries = b"".join(struct.pack("<III", len(each), 4, 0xDEAD) for each in frames)
    tail = FOOTER.pack(2, 0x80, 0x8F92EAB1)
    table = struct.pack("<II", 0x184D2A5E, len(entries) + len(tail)) + entries + tail
    path = put(tmp_path / "log.zst", *frames, table)
    assert [frame.size_bytes for frame in table_in(path).frames] == [4, 4]
    assert b"".join(unpack(path)) == b"one\ntwo\n"


# -- hostile tables --------------------------------------------------------------------------

BODY = [pack(lines(1)), pack(lines(2, 3))]
SIZES = [len(lines(1)), len(lines(2, 3))]
TRUE = list(zip(map(len, BODY), SIZES, strict=True))
(P1, S1), (P2, S2) = TRUE

NOT_TO_RELY_ON = {
    "a frame missing": a_table(TRUE[0]),
    "a frame too many": a_table(*TRUE, (9, 9)),
    "packed sizes that do not add up": a_table((P1 + 1, S1), (P2, S2)),
    "packed sizes that add up around 2**32": a_table((P1 - 1 & 0xFFFFFFFF, S1), (P2, S2)),
    "a count beyond the file": a_table(*TRUE, count=0xFFFFFFFF),
    "a count of none": a_table(*TRUE, count=0),
    "another mark": a_table(*TRUE, mark=0x8F92EAB0),
    "another length": a_table(*TRUE, length=4),
    "not skippable": a_table(*TRUE, skip=0x184D2A60),
    "a frame of 4 GiB": a_table((P1, 0xFFFFFFFF), (P2, S2)),
    "a frame beyond the largest": a_table((P1, 16 * MB + 1), (P2, S2)),
    "a frame of no packed bytes": a_table((0, 0), *TRUE),
    "checksums that are not there": a_table(*TRUE, flags=0x80),
}


@pytest.mark.parametrize("table", NOT_TO_RELY_ON.values(), ids=NOT_TO_RELY_ON)
def test_a_table_that_cannot_be_relied_on_is_not_used(tmp_path, table):
    path = put(tmp_path / "log.zst", *BODY, table)
    assert table_in(path) is None
    with pytest.raises(BrokenCopy) as raised:
        list(unpack(path))
    assert raised.value.hint
    # The frames are read from the front, table or not.
    assert told(read(path))[:3] == ["u-1", "u-2", "u-3"]


WRONG = {
    "too small": [(P1, S1 - 1), (P2, S2)],
    "too large": [(P1, S1 + 1), (P2, S2)],
    "far too large": [(P1, 16 * MB), (P2, S2)],
    "empty": [(P1, 0), (P2, S2)],
    "cut elsewhere": [(P1 + 1, S1), (P2 - 1, S2)],
    "two as one": [(P1 + P2, S1 + S2)],
}


@pytest.mark.parametrize("entries", WRONG.values(), ids=WRONG)
def test_sizes_that_no_frame_has_are_damage(tmp_path, entries):
    path = put(tmp_path / "log.zst", *BODY, a_table(*entries))
    with pytest.raises(BrokenCopy):
        list(unpack(path))
    found = told(read(path))
    assert set(found) <= {"u-1", "u-2", "u-3", "nul-run", "not-json", "broken-archive"}
    if entries[-1] == (P2, S2):
        assert found[-2:] == ["u-2", "u-3"], "the other frame is whole"


def test_frames_claim_more_than_they_hold_in_bounded_memory(tmp_path):
    """A table may claim 16 MiB for each of many frames; nobody believes more than two at once."""
    entries = [(P1, 16 * MB)] * 64
    path = put(tmp_path / "log.zst", BODY[0] * 64, a_table(*entries))
    assert _growth(path, "read") < 150


def test_a_table_of_countless_frames_is_not_read(tmp_path):
    """Zeros cost nothing in a file with holes; as entries of a table they would fill memory."""
    count = 2_000_000
    path = tmp_path / "log.zst"
    with path.open("wb") as file:
        file.write(struct.pack("<II", 0x184D2A5E, count * 8 + FOOTER.size))
        file.seek(8 + count * 8)
        file.write(FOOTER.pack(count, 0, 0x8F92EAB1))
    assert table_in(path) is None
    assert _growth(path, "read") < 60


def test_a_frame_packed_into_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "log.zst"
    size = 2**31
    with path.open("wb") as file:
        file.write(BODY[0])
        file.seek(size)
        file.write(a_table((size, 100)))
    assert table_in(path) is None
    assert _growth(path, "read") < 60
    assert told(read(path))[0] == "u-1"


def _growth(path, way):
    """Tell by how many MB a reader's memory grows at most."""
    code = """
        import logging, re, sys
        logging.disable(logging.CRITICAL)
        from turnlog.storage.compressed import unpack
        from turnlog.storage.reader import read_log
        from turnlog.storage.tail import read_ends, read_last
        from turnlog.errors import TurnlogError
        def peak():
            with open("/proc/self/status") as status:
                return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024
        before = peak()
        way, path = sys.argv[1:]
        with read_log(path, cap=1 << 20) as reader:
            for item in reader:
                pass
        try:
            for data in unpack(path):
                pass
        except TurnlogError:
            pass
        print(peak() - before)
    """
    return int(run_fresh(code, way, path))


# -- bombs -----------------------------------------------------------------------------------


def a_bomb(frames, unpacked=16 * MB):
    options = {zstd.CompressionParameter.checksum_flag: 1}
    packed = zstd.compress(b"\0" * unpacked, options=options)
    return packed * frames + a_table(*[(len(packed), unpacked)] * frames)


def test_a_framed_bomb_is_cut_off_like_any_other(tmp_path):
    path = put(tmp_path / "log.zst", a_bomb(300))
    assert path.stat().st_size < MB
    found = read(path, cap=MB)
    assert "broken-archive" in told(found)
    assert max(item.offset + item.length for item in found) < 250 * MB


def test_a_frame_never_unpacks_to_more_than_it_should(tmp_path):
    packed = zstd.compress(b"x" * (64 * MB))
    for size in (0, 1, 1000):
        with pytest.raises(BrokenFrame):
            unpack_frame(packed, size)


def test_several_frames_do_not_pass_for_one():
    packed = pack(b"one\n") + pack(b"two\n")
    with pytest.raises(BrokenFrame):
        unpack_frame(packed, 8)
    with pytest.raises(BrokenFrame):
        unpack_frame(packed, 4)


def test_a_frame_cut_short_is_broken():
    packed = pack(lines(1))
    for end in range(len(packed)):
        with pytest.raises(BrokenFrame):
            unpack_frame(packed[:end], len(lines(1)))


@given(packed=st.binary(max_size=80), size=st.integers(0, 100))
def test_any_bytes_are_a_frame_or_a_broken_one(packed, size):
    with contextlib.suppress(BrokenFrame):
        assert len(unpack_frame(packed, size)) == size


@given(data=st.binary(max_size=300))
def test_any_file_has_a_table_or_none(folder, data):
    path = put(folder / "any.zst", data)
    table = table_in(path)
    assert table is None or table.packed_bytes <= len(data)


# -- what is held in memory ------------------------------------------------------------------


def test_two_frames_stay_in_memory_and_no_more(tmp_path):
    path = tmp_path / "log.zst"
    pack_to(path, [lines(*range(30))])
    fd = os.open(path, os.O_RDONLY)
    try:
        frames = Frames(fd, read_table(fd))
        first = frames.unpacked(0)
        assert frames.unpacked(0) is first
        assert frames.unpacked(1)
        assert frames.unpacked(0) is first
        frames.unpacked(2)
        frames.unpacked(3)
        assert frames.unpacked(0) is not first
    finally:
        os.close(fd)


def test_a_frame_is_a_mebibyte():
    assert FRAME_BYTES == MB
