"""Compressed logs read like plain ones; broken ones and bombs are damage, not death."""

from __future__ import annotations

import gzip
import sys
import zlib
from itertools import pairwise

import pytest
from hypothesis import given

from storage.logs import in_child, lines, put, read, run_fresh, spans, told
from strategies import untidy_logs
from turnlog.errors import NotALog
from turnlog.records.damage import Damage, Reason
from turnlog.storage.reader import read_log, read_range, scan_log
from turnlog.storage.repair import repair, validate
from turnlog.storage.tail import read_last

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACKERS = {"gz": gzip.compress, "zst": zstd.compress}
MB = 1024 * 1024

packed = pytest.mark.parametrize("kind", PACKERS)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@packed
def test_a_compressed_log_reads_like_a_plain_one(tmp_path, kind):
    data = lines(1, 2) + b"junk\n\n" + lines(3) + b"torn"
    plain = put(tmp_path / "plain.jsonl", data)
    small = put(tmp_path / f"small.jsonl.{kind}", PACKERS[kind](data))
    assert read(small) == read(plain)
    assert list(scan_log(small)) == list(scan_log(plain))
    assert list(read_range(small, 1, 3)) == list(read_range(plain, 1, 3))
    with read_log(small) as reader, read_log(plain) as other:
        assert list(reader) == list(other)
        assert (reader.offset, reader.pending) == (other.offset, other.pending)


@packed
@given(data=untidy_logs())
def test_any_log_reads_the_same_when_packed(tmp_path_factory, hushed, kind, data):
    folder = tmp_path_factory.getbasetemp()
    plain, small = put(folder / "plain", data), put(folder / "small", PACKERS[kind](data))
    assert read(small) == read(plain)


@packed
def test_reading_a_packed_log_begins_at_any_line(log, kind):
    put(log, PACKERS[kind](lines(1, 2, 3)))
    found = read(log, start=len(lines(1)))
    assert told(found) == ["u-2", "u-3"]
    assert found[0].offset == len(lines(1))
    assert read(log, start=10_000) == []


@packed
def test_the_last_records_of_a_packed_log_are_those_of_the_plain_one(log, kind):
    put(log, PACKERS[kind](lines(1, 2) + b"junk\n" + lines(3, 4)))
    assert told(read_last(log, 3)) == ["u-2", "not-json", "u-3", "u-4"]
    assert told(read_last(log, 99)) == ["u-1", "u-2", "not-json", "u-3", "u-4"]
    assert read_last(log, 0) == []


@packed
def test_a_log_packed_in_several_pieces_is_one_log(log, kind):
    put(log, PACKERS[kind](lines(1, 2)[:50]), PACKERS[kind](lines(1, 2)[50:]))
    assert told(read(log)) == ["u-1", "u-2"]


@packed
def test_an_empty_log_packs_to_an_empty_log(log, kind):
    assert read(put(log, PACKERS[kind](b""))) == []


def test_compression_is_told_from_the_bytes_not_from_the_name(tmp_path):
    assert told(read(put(tmp_path / "plain.jsonl.gz", lines(1)))) == ["u-1"]
    assert told(read(put(tmp_path / "packed.jsonl", gzip.compress(lines(1))))) == ["u-1"]


def test_a_zstd_log_may_begin_with_a_skippable_frame(log):
    frame = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"kite"
    assert told(read(put(log, frame, zstd.compress(lines(1))))) == ["u-1"]


def test_zeros_behind_a_gzip_log_are_no_damage(log):
    assert told(read(put(log, gzip.compress(lines(1)), b"\0" * 512))) == ["u-1"]


@packed
def test_an_archive_cut_anywhere_gives_what_is_whole_and_one_damage(log, hushed, kind):
    data = b"".join(lines(number, f"{number:x}-{number * 7919}") for number in range(200))
    archive = PACKERS[kind](data)
    everything = spans(read(put(log, data)))
    for cut in range(5, len(archive), max(1, len(archive) // 60)):
        found = read(put(log, archive[:cut]))
        assert isinstance(found[-1], Damage), cut
        assert found[-1].reason is Reason.BROKEN_ARCHIVE
        assert found[-1].detail
        kept = spans(found[:-1])
        assert kept == everything[: len(kept)]


@packed
def test_garbage_behind_an_archive_costs_no_record(log, kind):
    put(log, PACKERS[kind](lines(1, 2)), b"garbage and more of it")
    assert told(read(log)) == ["u-1", "u-2", "broken-archive"]
    assert told(read_last(log, 1)) == ["u-2", "broken-archive"]
    assert isinstance(list(scan_log(log))[-1], Damage)


@packed
def test_a_flipped_byte_in_an_archive_is_noticed(log, kind):
    if kind == "gz":
        archive = bytearray(gzip.compress(lines(*range(300))))
    else:
        options = {zstd.CompressionParameter.checksum_flag: 1}
        archive = bytearray(zstd.compress(lines(*range(300)), options=options))
    archive[len(archive) // 2] ^= 0x10
    found = read(put(log, bytes(archive)))
    assert any(isinstance(item, Damage) for item in found)


@packed
def test_a_broken_archive_read_from_an_offset_behind_the_break_is_damage(log, kind):
    archive = PACKERS[kind](b"".join(lines(f"{number}{number * 7919}") for number in range(3000)))
    put(log, archive[: len(archive) // 3])
    # In a child: an error there would leave a file open here.
    assert in_child(lambda: told(read(log, start=300_000))) == ["broken-archive"]
    assert in_child(lambda: len(list(scan_log(log, start=300_000)))) == 1


def test_a_record_read_from_a_broken_archive_is_not_damage_as_well(log):
    put(log, gzip.compress(lines(1, 2)[:-1])[:-4])  # The last bytes, a checksum, are gone.
    places = sorted(
        (item.offset, item.offset + item.length, type(item).__name__) for item in read(log)
    )
    for (_, end, _), (start, _, _) in pairwise(places):
        assert end <= start, places


@packed
def test_a_broken_archive_is_validated_without_strange_numbers(log, kind):
    put(log, PACKERS[kind](lines(1, 2, 3))[:12])
    result = validate(log)
    assert not result.is_valid
    assert result.total == result.valid + len(result.corrupt) + result.blank
    assert result.valid >= 0


@packed
def test_an_archive_is_never_repaired_in_place(log, kind):
    archive = PACKERS[kind](lines(1) + b"junk\n")
    put(log, archive)
    assert repair(log).needed
    with pytest.raises(NotALog) as refusal:
        repair(log, write=True)
    assert refusal.value.hint
    assert log.read_bytes() == archive


# -- bombs ----------------------------------------------------------------------------------


def gzip_bomb(unpacked_mb: int, filling: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = filling * MB
    return b"".join([packer.compress(block) for _ in range(unpacked_mb)] + [packer.flush()])


@pytest.mark.parametrize("filling", [b"\0", b"x"], ids=["nuls", "letters"])
def test_a_gzip_bomb_is_cut_off(log, filling):
    put(log, gzip_bomb(130, filling))
    assert log.stat().st_size < MB
    found = read(log, cap=MB)
    assert "broken-archive" in told(found)
    assert max(item.offset + item.length for item in found) < 110 * MB


def test_a_zstd_bomb_is_cut_off_in_bounded_memory(log):
    put(log, zstd.compress(b"\0" * (200 * MB)))
    assert log.stat().st_size < MB
    grown = run_fresh(
        """
        import re, sys
        from turnlog.storage.reader import read_log
        def peak():
            with open("/proc/self/status") as status:
                return int(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]) // 1024
        before = peak()
        with read_log(sys.argv[1], cap=1 << 20) as reader:
            reasons = {item.reason.value for item in reader}
        assert "broken-archive" in reasons, reasons
        print(peak() - before)
        """,
        log,
    )
    assert int(grown) < 60
