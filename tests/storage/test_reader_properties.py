"""What holds for every log, tidy or not: nothing whole is lost, every byte is accounted for."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import lines, put, read, spans, unaccounted
from strategies import cut_logs, untidy_logs
from turnlog.records.codec import Envelope, decode_envelope
from turnlog.records.damage import Damage, Reason
from turnlog.storage.reader import Placed, Reader, scan_log


@pytest.fixture(scope="module")
def log(hushed):
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "log.jsonl"


def plain_records(data: bytes) -> list[tuple[int, bytes]]:
    """Every line that Python's own decoder reads as an object, with its offset."""
    found, offset = [], 0
    for line in data.split(b"\n"):
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found.append((offset, line))
        offset += len(line) + 1
    return found


@given(data=untidy_logs())
def test_no_whole_record_is_ever_lost(log, data):
    found = {
        (item.offset, item.record.raw) for item in read(put(log, data)) if isinstance(item, Placed)
    }
    assert found >= set(plain_records(data))


@given(data=untidy_logs())
def test_every_byte_is_a_record_a_damage_pending_or_blank(log, data):
    with Reader(put(log, data)) as reader:
        items = list(reader)
        rest = unaccounted(data, reader, items)
    assert rest.translate(None, b" \t\r\n\xef\xbb\xbf") == b""


@given(data=untidy_logs())
def test_every_record_stands_where_it_is_said_to_stand(log, data):
    for item in read(put(log, data)):
        part = data[item.offset : item.offset + item.length]
        if isinstance(item, Placed):
            assert part == item.record.raw
        else:
            assert part.startswith(item.excerpt)
        assert item.line == data.count(b"\n", 0, item.offset) + 1


@given(data=untidy_logs())
def test_lines_are_counted(log, data):
    with Reader(put(log, data)) as reader:
        list(reader)
    assert reader.lines == data.count(b"\n")
    blank = [line for line in data.split(b"\n")[:-1] if not line.strip(b" \t\r")]
    assert reader.blank_lines == len(blank)


@given(log_and_cut=cut_logs())
def test_two_reads_equal_one_wherever_the_log_was_cut(log, log_and_cut):
    data, cut = log_and_cut
    with Reader(put(log, data[:cut]), tail="wait") as first:
        early = list(first)
    put(log, data)
    with Reader(log, start=first.offset, line=first.line, tail="wait") as second:
        late = list(second)
    with Reader(log, tail="wait") as whole:
        assert early + late == list(whole)
    assert second.offset == whole.offset
    assert second.pending == whole.pending
    assert first.blank_lines + second.blank_lines == whole.blank_lines


@given(data=untidy_logs(), cap=st.integers(1, 400))
def test_a_line_past_the_cap_is_one_damage_and_the_others_read_as_ever(log, data, cap):
    everything = spans(read(put(log, data)))
    complete = data[: data.rfind(b"\n") + 1]
    offset, expected = 0, []
    for line in complete.split(b"\n")[:-1]:
        if len(line) > cap:
            expected.append((offset, len(line)))
        else:
            expected += [span[1:] for span in everything if 0 <= span[1] - offset < len(line)]
        offset += len(line) + 1
    found = spans(read(log, cap=cap))
    assert [span[1:] for span in found if span[1] < len(complete)] == expected
    for reason, _, length in found:
        assert length <= cap or reason in ("too-long", "nul-run")


@given(data=untidy_logs())
def test_a_scan_tells_the_envelope_of_every_whole_line(log, data):
    found = [item for item in scan_log(put(log, data)) if isinstance(item, Envelope)]
    alone = [decode_envelope(line) for line in data.split(b"\n")]
    assert found == [item for item in alone if isinstance(item, Envelope)]


def test_a_scan_reports_damage_where_it_stands(log):
    put(log, lines(1), b"junk\n\n", lines(2))
    found = list(scan_log(log))
    assert [type(item) for item in found] == [Envelope, Damage, Envelope]
    assert (found[1].offset, found[1].length) == (len(lines(1)), 4)


def test_a_scan_begins_anywhere_and_takes_an_unfinished_whole_record(log):
    put(log, lines(1, 2, 3)[:-1])
    assert [item.uuid for item in scan_log(log, start=len(lines(1)))] == ["u-2", "u-3"]


def test_a_scan_measures_a_line_past_the_cap(log):
    put(log, lines(1), b"x" * 500, b"\n", lines(2))
    found = list(scan_log(log, cap=200))
    assert [getattr(item, "reason", None) for item in found] == [None, Reason.TOO_LONG, None]
    assert found[1].length == 500


def test_a_scan_is_not_fooled_by_a_glued_line_and_a_blank_one(log):
    glued = lines(1, 2).replace(b"\n", b"") + b"\n"
    alone = [type(item) for item in scan_log(put(log, glued))]
    beside_blank = [type(item) for item in scan_log(put(log, glued, b"\n"))]
    assert alone == beside_blank == [Damage]
