"""Seed 004: its five sample lines survive untouched, comments are damage, archives are read."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest

from turnlog.formats import flat_archive, flat_log, flat_meta
from turnlog.records.codec import decode, encode
from turnlog.records.damage import Damage, Reason
from turnlog.records.record import Assistant, Call, Result, SystemInit, User
from turnlog.storage.reader import Placed, read_log, read_range
from turnlog.storage.repair import repair, validate
from turnlog.storage.tail import read_last

# The seed's sample, comments and all: its shapes, our words.
SAMPLE = (
    b"// Line 1: System initialization\n"
    b'{"type":"system_init","timestamp":1703001600000,"cwd":"/Users/mira/boat",'
    b'"model":"claude-sonnet-4-6"}\n\n'
    b"// Line 2: User message\n"
    b'{"type":"user","uuid":"msg-001","content":[{"type":"text","text":"Stop the leak"}],'
    b'"timestamp":1703001605000}\n\n'
    b"// Line 3: Assistant response (streaming chunks aggregated)\n"
    b'{"type":"assistant","uuid":"msg-002","content":[{"type":"text","text":"On it."}],'
    b'"thinking":{"thinking":"Port side.","signature":"c2ln"},"timestamp":1703001610000,'
    b'"usage":{"input_tokens":100,"output_tokens":500}}\n\n'
    b"// Line 4: Tool use\n"
    b'{"type":"tool_use","uuid":"tool-001","name":"BashTool","input":{"command":"grep -r leak '
    b'hull/"},"timestamp":1703001615000}\n\n'
    b"// Line 5: Tool result\n"
    b'{"type":"tool_result","tool_use_id":"tool-001","content":"Found in hull/port.ts:42",'
    b'"is_error":false,"timestamp":1703001620000}\n'
)
LINES = [line for line in SAMPLE.split(b"\n") if line.startswith(b"{")]
STRIPPED = b"".join(line + b"\n" for line in LINES)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "abc123def.jsonl"


def sample_records():
    return [decode(line) for line in LINES]


def records(path):
    with read_log(path) as reader:
        return [item.record for item in reader if isinstance(item, Placed)]


# -- Z6 -------------------------------------------------------------------------------------


def test_the_five_lines_survive_recovery_untouched(log):
    log.write_bytes(STRIPPED)
    assert len(LINES) == 5
    assert validate(log, strict=True).is_valid
    report = repair(log, write=True)
    assert not report.written
    assert log.read_bytes() == STRIPPED
    assert [encode(record) for record in records(log)] == LINES


def test_comment_lines_are_reported_and_cost_no_record(log):
    log.write_bytes(SAMPLE)
    with read_log(log) as reader:
        found = list(reader)
        assert reader.blank_lines == 4
    assert [item.record.raw for item in found if isinstance(item, Placed)] == LINES
    comments = [item for item in found if isinstance(item, Damage)]
    assert [item.line for item in comments] == [1, 4, 7, 10, 13]
    assert {item.reason for item in comments} == {Reason.NOT_JSON}
    repair(log, write=True)
    assert log.read_bytes() == STRIPPED


def test_the_five_lines_are_typed():
    init, user, assistant, call, result = sample_records()
    assert isinstance(init, SystemInit)
    assert isinstance(user, User)
    assert isinstance(assistant, Assistant)
    assert isinstance(call, Call)
    assert isinstance(result, Result)
    assert (init.cwd, init.model) == ("/Users/mira/boat", "claude-sonnet-4-6")
    assert (user.text, assistant.text) == ("Stop the leak", "On it.")
    assert assistant.blocks[0].thinking == "Port side."
    assert (assistant.usage.input, assistant.usage.output) == (100, 500)
    assert result.text == "Found in hull/port.ts:42"


def test_a_call_and_its_result_find_each_other():
    _, _, _, call, result = sample_records()
    assert call.call_id == result.call_id == "tool-001"


def test_milliseconds_and_iso_mean_the_same_instant():
    at = sample_records()[0].at
    assert at == datetime(2023, 12, 19, 16, 0, tzinfo=UTC)
    assert [record.at is not None for record in sample_records()] == [True] * 5


# -- reading parts, archives, places --------------------------------------------------------


def test_a_range_and_the_last_records_agree_with_the_whole(log):
    log.write_bytes(b"\n" + SAMPLE)
    assert [item.record.raw for item in read_range(log, 1, 3)] == LINES[1:3]
    last = [item.record.raw for item in read_last(log, 2) if isinstance(item, Placed)]
    assert last == LINES[-2:]


def test_an_archived_session_is_still_readable(tmp_path):
    archive = flat_archive(tmp_path, "abc123def")
    assert archive == tmp_path / "compressed" / "abc123def.jsonl.gz"
    archive.parent.mkdir()
    archive.write_bytes(gzip.compress(STRIPPED))
    assert [record.raw for record in records(archive)] == LINES


def test_a_session_has_its_log_and_its_metadata_side_by_side(tmp_path):
    assert flat_log(tmp_path, "abc123def") == tmp_path / "abc123def.jsonl"
    assert flat_meta(tmp_path, "abc123def") == tmp_path / "abc123def.meta.json"
