"""Lines that were moved out of their log: read as if they stood there, or reported."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import lines, numbered, put, read, told
from strategies import good_lines, to_line
from turnlog.records.codec import Envelope
from turnlog.records.damage import Damage, Reason
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.session import records_of, tree_of
from turnlog.sessions.state import marks_of
from turnlog.storage.blobs import STUB, blob_of, blob_place, whole_line
from turnlog.storage.compressed import Packer
from turnlog.storage.reader import Placed, read_range, scan_log
from turnlog.storage.repair import repair, validate
from turnlog.storage.scan import FoundLines
from turnlog.storage.tail import read_ends, read_last

LARGE = numbered("large", toolUseResult={"stdout": "kite " * 2000})
LINE = to_line(LARGE)


def move(log, line=LINE):
    """Put the blob of *line* beside *log*; give its stub and its place."""
    blob = blob_of(line)
    place = blob_place(log, blob.sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(blob.packed)
    return blob.stub, place


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@pytest.fixture
def moved(log):
    """A log whose second of three records lies in a blob, and the blob."""
    stub, place = move(log)
    put(log, lines(1), stub, b"\n", lines(2))
    return log, place


def damage_in(log):
    """The one damage that the log has; the other two records are read all the same."""
    items = read(log)
    assert told(items)[::2] == ["u-1", "u-2"]
    damage = items[1]
    assert isinstance(damage, Damage)
    assert damage.reason is Reason.BROKEN_BLOB
    stub = log.read_bytes().split(b"\n")[1]
    assert (damage.offset, damage.length, damage.line) == (len(lines(1)), len(stub), 2)
    return damage


# -- as if it stood there -------------------------------------------------------------------


def test_a_reader_gives_the_line_itself_in_the_stubs_place(moved):
    log, _ = moved
    items = read(log)
    stub = log.read_bytes().split(b"\n")[1]
    assert told(items) == ["u-1", "u-large", "u-2"]
    assert items[1].record.raw == LINE
    assert items[1][1:4] == (len(lines(1)), len(stub), 2)
    assert len(stub) < 400


def test_every_other_way_of_reading_gives_the_same(moved):
    log, _ = moved
    assert read_last(log, 3)[1].record.raw == LINE
    assert [item.record.raw for item in read_range(log, 1, 2)] == [LINE]
    nodes = tree_of(log).nodes
    assert [record.raw for _, record in records_of(log, nodes)][1] == LINE
    uuids = [item.uuid for item in scan_log(log) if isinstance(item, Envelope)]
    assert uuids == ["u-1", "u-large", "u-2"]


def test_the_ends_of_a_log_sum_up_alike(log, tmp_path):
    plain = put(tmp_path / "plain.jsonl", lines(1), LINE, b"\n", lines(2))
    stub, _ = move(log)
    put(log, lines(1), stub, b"\n", lines(2))
    sums = []
    for path in (plain, log):
        ends, fold = read_ends(path), SessionSummary()
        for record in (*ends.head, *ends.tail):
            fold.take(record)
        sums.append(fold)
    assert sums[0] == sums[1]


def test_a_stub_passes_for_one_of_turnlogs_marks(moved):
    log, _ = moved
    stub = json.loads(log.read_bytes().split(b"\n")[1])
    assert (stub["type"], stub["event"], stub["length"]) == ("turnlog", "blob", len(LINE))
    assert (stub["uuid"], stub["sessionId"]) == (LARGE["uuid"], LARGE["sessionId"])
    assert "message" not in stub
    assert marks_of(log).opened == 0


def test_a_search_meets_the_stub_and_can_follow_it(moved):
    log, _ = moved
    assert [offset for offset, _ in FoundLines(log, b'"stdout"')] == []
    ((_, stub),) = FoundLines(log, STUB)
    assert b'"stdout"' in whole_line(log, stub)


@given(line=good_lines(), ending=st.sampled_from([b"", b"\r"]))
def test_any_line_comes_back_byte_for_byte(tmp_path_factory, hushed, line, ending):
    log = tmp_path_factory.mktemp("moved") / "log.jsonl"
    stub, _ = move(log, line + ending)
    put(log, stub, b"\n")
    (item,) = read(log)
    assert item.record.raw == line + ending
    assert b"\n" not in stub
    assert json.loads(stub)["sha256"]


@pytest.mark.parametrize(
    "odd",
    [b'"uuid":"\\ud800"', b'"timestamp":NaN', b'"timestamp":1e999', b'"timestamp":%d' % 10**40],
)
def test_a_line_that_only_patience_can_read_can_be_moved(log, odd):
    line = b'{"type":"user",' + odd + b',"message":{"role":"user","content":"kite"}}'
    stub, _ = move(log, line)
    put(log, stub, b"\n")
    assert [item.record.raw for item in read(log)] == [line]


def test_a_stub_that_lost_its_newline_and_one_that_others_wrote_behind(log):
    stub, _ = move(log)
    assert told(read(put(log, stub))) == ["u-large"]
    assert told(read_last(log, 1)) == ["u-large"]
    put(log, stub, lines(1))
    assert told(read(log)) == ["u-large", "u-1"]
    assert told(read_last(log, 2)) == ["u-large", "u-1"]


# -- where it is looked for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "blobs"),
    [
        ("projects/K/ID.jsonl.zst", "projects/K/ID/blobs"),
        ("generations/3/projects/K/ID.jsonl.zst", "projects/K/ID/blobs"),
        ("sessions/compressed/ID.jsonl.gz", "sessions/ID/blobs"),
        ("projects/K/ID/subagents/agent-a1.jsonl", "projects/K/ID/subagents/agent-a1/blobs"),
        ("projects/K/ID.jsonl.original-20261101T100000.000000Z", "projects/K/ID/blobs"),
        ("projects/K/.ID.jsonl.repair-20261101T100000.000000Z", "projects/K/ID/blobs"),
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_wherever_a_log_is_taken_its_blobs_are_found(tmp_path, log, blobs, is_kept):
    blob = blob_of(LINE)
    place = tmp_path / blobs / f"{blob.sha256}.zst"
    place.parent.mkdir(parents=True)
    if is_kept:  # Packed once more, as a kept copy of any file is.
        fd = os.open(f"{place}.zst", os.O_RDWR | os.O_CREAT)
        packer = Packer(fd)
        packer.feed(blob.packed)
        packer.finish()
        os.close(fd)
    else:
        place.write_bytes(blob.packed)
    path = tmp_path / log
    path.parent.mkdir(parents=True, exist_ok=True)
    put(path, blob.stub, b"\n")
    assert told(read(path)) == ["u-large"]


# -- what may be wrong with it --------------------------------------------------------------


def test_a_missing_blob_is_damage_and_says_so(moved):
    log, place = moved
    place.unlink()
    assert "is missing" in damage_in(log).detail
    assert told(read_last(log, 2)) == ["u-1", "broken-blob", "u-2"]
    result = validate(log)
    assert result.corrupt == [2]
    assert "is missing" in result.findings[0].message


@given(data=st.data())
def test_an_altered_blob_never_passes_for_the_line(tmp_path_factory, hushed, data):
    log = tmp_path_factory.mktemp("altered") / "log.jsonl"
    stub, place = move(log)
    put(log, lines(1), stub, b"\n", lines(2))
    good = place.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = data.draw(
        st.sampled_from(
            [
                good[:at],
                good[:at]
                + bytes([good[at] ^ (1 << data.draw(st.integers(0, 7)))])
                + good[at + 1 :],
                good[at:],
                zstd.compress(LINE + b" "),
                zstd.compress(LINE[:-1]),
                LINE,
                b"",
            ]
        )
        | st.binary(max_size=300)
    )
    place.write_bytes(bad)
    items = read(log)
    if isinstance(items[1], Placed):  # Some bits of a frame's head mean nothing.
        assert items[1].record.raw == LINE
    else:
        damage_in(log)


def test_a_bomb_is_unpacked_no_further_than_its_line_is_long(moved):
    log, place = moved
    place.write_bytes(zstd.compress(b"\0" * 300_000_000))
    assert place.stat().st_size < 100_000
    tracemalloc.start()
    try:
        damage_in(log)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_stub_that_claims_too_much_is_not_believed(log):
    stub, place = move(log)
    claims = stub.replace(b'"length":%d' % len(LINE), b'"length":%d' % 10**15)
    put(log, lines(1), claims, b"\n", lines(2))
    assert "over the cap" in damage_in(log).detail
    shorter = stub.replace(b'"length":%d' % len(LINE), b'"length":7')
    put(log, lines(1), shorter, b"\n", lines(2))
    assert "altered" in damage_in(log).detail
    assert place.exists()


def test_a_huge_file_in_a_blobs_place_is_not_read(moved):
    log, place = moved
    os.truncate(place, 2**40)
    tracemalloc.start()
    try:
        damage_in(log)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_links_pipes_and_directories_are_no_blobs(moved, tmp_path):
    log, place = moved
    elsewhere = tmp_path / "elsewhere.zst"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert "symbolic link" in damage_in(log).detail
    place.unlink()
    os.mkfifo(place)
    assert "not a regular file" in damage_in(log).detail
    place.unlink()
    place.mkdir()
    damage_in(log)


@pytest.mark.parametrize(
    "content",
    [b"no record", b"[]", lines(1).strip() * 2, blob_of(b"{}").stub + b"{", b'{"type":"user"'],
)
def test_a_blob_that_holds_no_record_is_damage(log, content):
    stub, _ = move(log, content)
    put(log, lines(1), stub, b"\n", lines(2))
    assert "holds no record" in damage_in(log).detail


def test_a_stub_in_a_blob_is_not_followed_again(log):
    inner, _ = move(log)
    outer, _ = move(log, inner)
    put(log, outer, b"\n")
    (item,) = read(log)
    assert item.record.raw == inner


def test_a_stub_that_is_none_is_a_mark_like_any_other(log):
    stub, _ = move(log)
    for odd in (stub[:60], STUB + b'x"}', STUB + b'../../etc/passwd","length":3}'):
        put(log, lines(1), odd, b"\n", lines(2))
        assert told(read(log))[0::2][:1] == ["u-1"]
        assert told(read(log))[-1] == "u-2"
        assert "broken-blob" not in told(read(log))


# -- repairing beside it --------------------------------------------------------------------


def test_a_repair_leaves_stubs_alone_whether_their_blobs_are_there_or_not(moved):
    log, place = moved
    place.unlink()
    assert not repair(log).needed
    stub = log.read_bytes().split(b"\n")[1]
    put(log, b"junk\n", lines(1), stub, b"\n", lines(2))
    repair(log, write=True)
    assert log.read_bytes() == lines(1) + stub + b"\n" + lines(2)
