"""Packing loses no byte, takes the room of one step however many it took, and proves itself."""

from __future__ import annotations

import os
import random
from hashlib import sha256
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import lines, put, run_fresh
from storage.packed import SMALL, frames_of, pack_to, packed_in_steps, quick_folder, stepped
from turnlog.errors import BrokenCopy, NotALog, NotFound
from turnlog.storage.compressed import (
    DIGEST_BYTES,
    FRAME_BYTES,
    BrokenFrame,
    Packed,
    check_packed,
    digest_of,
    pack,
    packed_at,
    unpack,
)

MB = 1024 * 1024


@pytest.fixture
def tmp_path():
    with quick_folder() as made:
        yield made


@pytest.fixture(scope="module")
def folder():
    with quick_folder() as made:
        yield made


@pytest.fixture
def small():
    with frames_of(SMALL):
        yield


def checked(path, expected, **how):
    fd = os.open(path, os.O_RDONLY)
    try:
        return check_packed(fd, expected, **how)
    finally:
        os.close(fd)


# -- any steps, the same file ----------------------------------------------------------------


@given(case=stepped())
def test_any_number_of_steps_gives_the_file_of_one(folder, case):
    data, steps = case
    with frames_of(SMALL):
        once, often = folder / "once.zst", folder / "often.zst"
        one, other = pack_to(once, [data]), packed_in_steps(often, steps)
        assert often.read_bytes() == once.read_bytes()
        assert (other.digests, other.table.frames) == (one.digests, one.table.frames)
        assert b"".join(unpack(often)) == data
        assert packed_at(often).digests == one.digests
        assert checked(often, one) == []


@given(case=stepped())
def test_how_bytes_are_fed_does_not_show(folder, case):
    data, pieces = case
    with frames_of(SMALL):
        once, often = folder / "once.zst", folder / "fed.zst"
        assert pack_to(once, [data]).digest == pack_to(often, pieces).digest
        assert often.read_bytes() == once.read_bytes()


def test_steps_of_one_byte(tmp_path, small):
    data = lines(1, 2) + b"x" * (2 * SMALL) + b"\n\n" + lines(3)
    pack_to(tmp_path / "once.zst", [data])
    packed_in_steps(tmp_path / "often.zst", [data[at : at + 1] for at in range(len(data))])
    assert (tmp_path / "often.zst").read_bytes() == (tmp_path / "once.zst").read_bytes()


def real_sized():
    rng = random.Random(7)
    words = [bytes(rng.choices(b'abcdefgh {}":,', k=rng.randint(40, 4000))) for _ in range(300)]
    text = b"\n".join(rng.choices(words, k=1200))
    yield "lines", text
    yield "a line longer than a frame", text[: MB // 3] + b"y" * (2 * MB + 17) + b"\n" + text[:99]
    yield "no newline at all", rng.randbytes(MB // 2).replace(b"\n", b"") * 5
    yield "exactly a frame", b"z" * (MB - 1) + b"\n"
    yield "exactly a frame without a newline", b"z" * MB
    yield "one byte more", b"z" * (MB + 1)
    yield "one byte less", b"z" * (MB - 1)
    yield "a newline at the start alone", b"\n" + b"q" * (2 * MB)
    yield "two whole frames", (b"z" * (MB - 1) + b"\n") * 2


@pytest.mark.parametrize("data", dict(real_sized()).values(), ids=dict(real_sized()))
def test_frames_of_their_real_size(tmp_path, data):
    one = pack_to(tmp_path / "once.zst", [data])
    rng = random.Random(len(data))
    cuts = sorted({rng.randrange(len(data)) for _ in range(3)} | {MB, MB - 1, MB + 1})
    edges = [0, *(cut for cut in cuts if cut < len(data)), len(data)]
    steps = [data[start:end] for start, end in pairwise(edges)]
    packed_in_steps(tmp_path / "often.zst", steps)
    assert (tmp_path / "often.zst").read_bytes() == (tmp_path / "once.zst").read_bytes()
    assert b"".join(unpack(tmp_path / "often.zst")) == data
    assert all(0 < frame.size_bytes <= FRAME_BYTES for frame in one.table.frames)
    for frame in one.table.frames[:-1]:
        piece = data[frame.start : frame.start + frame.size_bytes]
        assert piece.endswith(b"\n") or (len(piece) == MB and b"\n" not in piece)


def test_a_thousand_small_steps_take_the_room_of_one(tmp_path):
    rng = random.Random(3)
    steps = [lines(rng.random()) * rng.randint(1, 3) for _ in range(1000)]
    with frames_of(16 * 1024):
        pack_to(tmp_path / "once.zst", steps)
        packed_in_steps(tmp_path / "often.zst", steps)
    assert (tmp_path / "often.zst").read_bytes() == (tmp_path / "once.zst").read_bytes()


def test_packing_goes_on_behind_frames_that_others_cut(tmp_path, small):
    """Who adds to a file of larger frames gets the bytes right, if not the cuts."""
    with frames_of(4 * SMALL):
        before = pack_to(tmp_path / "log.zst", [lines(*range(9))])
    after = pack_to(tmp_path / "log.zst", [lines(*range(9, 20))], (tmp_path / "log.zst", before))
    assert b"".join(unpack(tmp_path / "log.zst")) == lines(*range(20))
    assert checked(tmp_path / "log.zst", after) == []


# -- the proof -------------------------------------------------------------------------------


def test_the_digest_is_that_of_the_frames_digests(tmp_path, small):
    data = lines(*range(9))
    packed = pack_to(tmp_path / "log.zst", [data])
    digests = b"".join(
        sha256(data[frame.start : frame.start + frame.size_bytes]).digest()
        for frame in packed.table.frames
    )
    assert packed.digests == digests
    assert packed.digest == digest_of(digests) == sha256(digests).hexdigest()
    assert packed.size_bytes == len(data)
    assert list(accumulate(f.size_bytes for f in packed.table.frames))[-1] == len(data)


def test_reading_back_tells_which_frames_are_not_as_written(tmp_path, small):
    path = tmp_path / "log.zst"
    packed = pack_to(path, [lines(*range(12))])
    whole = path.read_bytes()
    for number, frame in enumerate(packed.table.frames):
        spoiled = bytearray(whole)
        spoiled[frame.packed_at + frame.packed_bytes // 2] ^= 0x20
        put(path, bytes(spoiled))
        assert checked(path, packed) == [frame]
        assert checked(path, packed, first=number + 1) == []
    put(path, whole[:-1])
    assert checked(path, packed) == list(packed.table.frames)
    assert checked(path, Packed(packed.table, b"\0" * len(packed.digests))) != []


def test_a_frame_of_other_bytes_is_noticed_though_it_unpacks(tmp_path, small):
    """Sound zstd of the same length, but not what was packed: only the digest knows."""
    path = tmp_path / "log.zst"
    first = pack_to(path, [b"one\n" * 40])
    pack_to(path, [b"two\n" * 40])
    assert first.table.frames == packed_at(path).table.frames
    assert checked(path, first) == list(first.table.frames)


def test_an_empty_file_that_lost_its_table_is_noticed(tmp_path):
    path = tmp_path / "log.zst"
    packed = pack_to(path, [])
    assert checked(path, packed) == []
    put(path, b"")
    assert checked(path, packed) != []


# -- broken files ----------------------------------------------------------------------------


def broken_or(path, data):
    """What is unpacked before it breaks is right; and it breaks, unless all of it is."""
    given_so_far = b""
    try:
        for piece in unpack(path):
            given_so_far += piece
    except BrokenCopy:
        assert data.startswith(given_so_far)
        return True
    assert given_so_far == data
    return False


def test_a_bit_flipped_anywhere_is_never_a_wrong_byte(tmp_path, small):
    data = lines(*range(6))
    path = tmp_path / "log.zst"
    pack_to(path, [data])
    whole = path.read_bytes()
    noticed = 0
    for at in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1 << at % 8
        noticed += broken_or(put(path, bytes(spoiled)), data)
    assert noticed > 0.9 * len(whole)


def test_a_file_cut_anywhere_does_not_unpack(tmp_path, small):
    data = lines(*range(6))
    path = tmp_path / "log.zst"
    pack_to(path, [data])
    whole = path.read_bytes()
    for end in range(len(whole)):
        assert broken_or(put(path, whole[:end]), data), end


@given(tail=st.binary(min_size=1, max_size=64))
def test_garbage_behind_a_file_is_noticed(folder, tail):
    data = lines(1, 2, 3)
    with frames_of(SMALL):
        path = folder / "tail.zst"
        pack_to(path, [data])
        put(path, path.read_bytes(), tail)
        assert broken_or(path, data)


def test_a_hidden_frame_between_the_others_is_noticed(tmp_path, small):
    path = tmp_path / "log.zst"
    pack_to(path, [lines(1)])
    put(path, pack(b"hidden\n"), path.read_bytes())
    assert broken_or(path, b"")


def test_what_is_no_packed_file_does_not_unpack(tmp_path):
    for data in (b"", b"{}\n", lines(1, 2), b"\0" * 100, pack(lines(1))):
        assert broken_or(put(tmp_path / "log.zst", data), b"")
    with pytest.raises(BrokenCopy) as raised:
        list(unpack(tmp_path / "log.zst"))
    assert raised.value.hint
    with pytest.raises(NotFound):
        list(unpack(tmp_path / "missing.zst"))
    with pytest.raises(NotALog):
        list(unpack(tmp_path))
    os.mkfifo(tmp_path / "fifo.zst")
    with pytest.raises(NotALog):
        list(unpack(tmp_path / "fifo.zst"))


def test_a_disk_that_fails_is_a_broken_copy_and_no_other_error(tmp_path, small, monkeypatch):
    from turnlog.storage import compressed

    path = tmp_path / "log.zst"
    pack_to(path, [lines(*range(9))])
    real = compressed.read_at

    def failing(fd, size, offset):
        if 150 < offset < 400:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(compressed, "read_at", failing)
    with pytest.raises(BrokenCopy, match="nput/output"):
        list(unpack(path))


def test_who_stops_in_the_middle_leaves_nothing_open(tmp_path, small):
    path = tmp_path / "log.zst"
    pack_to(path, [lines(*range(9))])
    before = len(os.listdir("/proc/self/fd"))
    some = unpack(path)
    next(some)
    some.close()
    for damage in (b"", path.read_bytes()[:-9], b"\0" + path.read_bytes()[1:]):
        put(path, damage)
        with pytest.raises(BrokenCopy):
            list(unpack(path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_going_on_behind_a_broken_last_frame_is_refused(tmp_path, small):
    path = tmp_path / "log.zst"
    packed = pack_to(path, [lines(*range(9))])
    spoiled = bytearray(path.read_bytes())
    last = packed.table.frames[-1]
    spoiled[last.packed_at + last.packed_bytes - 1] ^= 1
    put(path, bytes(spoiled))
    with pytest.raises(BrokenFrame):
        pack_to(tmp_path / "more.zst", [b"more\n"], (path, packed))


@pytest.mark.parametrize("with_sums", [True, False], ids=["by sums", "by digests"])
def test_going_on_behind_any_broken_frame_is_refused(tmp_path, small, with_sums):
    path = tmp_path / "log.zst"
    packed = pack_to(path, [lines(*range(9))])
    whole = path.read_bytes()
    known = packed if with_sums else Packed(packed.table, packed.digests)
    for frame in packed.table.frames:
        spoiled = bytearray(whole)
        spoiled[frame.packed_at + frame.packed_bytes // 2] ^= 1
        put(path, bytes(spoiled))
        with pytest.raises(BrokenFrame):
            pack_to(tmp_path / "more.zst", [b"more\n"], (path, known))
    put(path, whole)
    after = pack_to(tmp_path / "more.zst", [b"more\n"], (path, known))
    once = pack_to(tmp_path / "once.zst", [lines(*range(9)) + b"more\n"])
    assert (after.digests, after.sums) == (once.digests, once.sums)


def test_going_on_behind_a_last_frame_of_other_bytes_is_refused(tmp_path, small):
    """It unpacks, but it is not what was packed: whoever knows better must not build on it."""
    path = tmp_path / "log.zst"
    first = pack_to(path, [b"one\n" * 40])
    pack_to(path, [b"two\n" * 40])
    with pytest.raises(BrokenFrame):
        pack_to(tmp_path / "more.zst", [b"more\n"], (path, first))


def test_packing_much_takes_little_memory(tmp_path):
    grown = run_fresh(
        """
        import os, re, sys
        from turnlog.storage.compressed import Packer, unpack
        def peak():
            with open("/proc/self/status") as status:
                return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        before = peak()
        packer = Packer(fd)
        piece = os.urandom(1 << 16) * 16
        for _ in range(100):
            packer.feed(piece)
        packer.finish()
        assert sum(map(len, unpack(sys.argv[1]))) == 100 << 20
        print(peak() - before)
        """,
        tmp_path / "log.zst",
    )
    assert int(grown) < 60


def test_a_digest_has_as_many_bytes_as_it_says():
    assert len(sha256().digest()) == DIGEST_BYTES
