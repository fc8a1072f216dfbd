"""Seed 000's own tests and samples, under our names: persistence, corruption, validate, repair."""

from __future__ import annotations

import logging
from datetime import date
from pathlib import Path

import pytest

from turnlog.errors import LogLocked, NotFound, NotSerialisable
from turnlog.formats import dated_log, project_hash
from turnlog.records.damage import Damage, Reason
from turnlog.records.record import Assistant, Call, Result, User
from turnlog.records.usage import Usage
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.repair import repair, validate
from turnlog.storage.writer import LogWriter

MODEL = "claude-sonnet-4-5-20250929"

# The seed's five examples: its shapes, our words.
USER = (
    b'{"type":"user","content":"Look for leaks in the hull.",'
    b'"timestamp":"2025-11-16T10:30:00.000Z"}'
)
ASSISTANT = (
    b'{"type":"assistant","content":"I will begin below the waterline.",'
    b'"timestamp":"2025-11-16T10:30:05.123Z","usage":{"input_tokens":15234,"output_tokens":2156,'
    b'"cache_creation_tokens":8543,"cache_read_tokens":0},"model":"claude-sonnet-4-5-20250929",'
    b'"stopReason":"tool_use"}'
)
CALL = (
    b'{"type":"tool_call","tool":"Read","arguments":{"file_path":"/srv/boat/hull.ts"},'
    b'"timestamp":"2025-11-16T10:30:06.000Z","toolCallId":"call_abc123"}'
)
RESULT = (
    b'{"type":"tool_result","tool":"Read","result":"planks\\n\\n  oak","timestamp":'
    b'"2025-11-16T10:30:06.543Z","duration_ms":543,"toolCallId":"call_abc123"}'
)
FAILURE = (
    b'{"type":"tool_result","tool":"Read","error":"File not found: /srv/boat/hull.ts","timestamp":'
    b'"2025-11-16T10:30:06.123Z","duration_ms":123,"toolCallId":"call_abc123"}'
)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "2025-11-16.jsonl"


def records(path):
    with read_log(path) as reader:
        return [item.record for item in reader if isinstance(item, Placed)]


# -- Z1: message persistence ----------------------------------------------------------------


def test_messages_are_written_and_read_back(log):
    messages = [
        {"type": "user", "content": "Hello", "timestamp": "2025-11-16T10:00:00Z"},
        {
            "type": "assistant",
            "content": "Hi!",
            "timestamp": "2025-11-16T10:00:01Z",
            "usage": {
                "input_tokens": 100,
                "output_tokens": 50,
                "cache_creation_tokens": 0,
                "cache_read_tokens": 0,
            },
            "model": MODEL,
        },
    ]
    with LogWriter(log) as writer:
        for message in messages:
            writer.append(message)
    parsed = records(log)
    assert len(parsed) == 2
    assert [record.type for record in parsed] == ["user", "assistant"]
    assert [record.text for record in parsed] == ["Hello", "Hi!"]
    assert parsed[1].usage == Usage(input=100, output=50)
    assert [record.fields for record in parsed] == messages


def test_lines_are_compact_json_ended_by_a_newline(log):
    with LogWriter(log) as writer:
        writer.append({"type": "user", "content": "Hello", "timestamp": "2025-11-16T10:00:00Z"})
    assert log.read_bytes() == (
        b'{"type":"user","content":"Hello","timestamp":"2025-11-16T10:00:00Z"}\n'
    )


# -- Z3: corruption recovery ----------------------------------------------------------------


def test_of_three_lines_two_are_read_and_the_corrupt_one_is_reported(log, caplog):
    log.write_bytes(
        b'{"type":"user","content":"Valid 1","timestamp":"2025-11-16T10:00:00Z"}\n'
        b'{"type":"user","content":"Corrupt line\n'
        b'{"type":"user","content":"Valid 2","timestamp":"2025-11-16T10:00:02Z"}\n'
    )
    with caplog.at_level(logging.WARNING, logger="turnlog.storage"):
        found = list(read_log(log))
    assert [item.record.text for item in found if isinstance(item, Placed)] == [
        "Valid 1",
        "Valid 2",
    ]
    (damage,) = (item for item in found if isinstance(item, Damage))
    assert (damage.line, damage.reason) == (2, Reason.FRAGMENT)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "line 2" in warning
    assert "Corrupt line" in warning


def test_a_file_of_another_encoding_is_no_end_of_the_reading(log):
    log.write_bytes(USER + b"\n" + "Äpfel".encode("latin-1") + b"\n" + CALL + b"\n")
    assert [record.type for record in records(log)] == ["user", "tool_call"]


def test_new_fields_cost_no_record(log):
    log.write_bytes(USER[:-1] + b',"mood":"calm","metadata":{"source":"cli","deck":3}}\n')
    (record,) = records(log)
    assert record.text == "Look for leaks in the hull."
    assert record.fields["mood"] == "calm"


def test_an_unknown_type_is_kept(log):
    log.write_bytes(USER + b"\n" + b'{"type":"semaphore","flags":2}\n')
    assert [record.type for record in records(log)] == ["user", "semaphore"]
    assert records(log)[1].fields == {"type": "semaphore", "flags": 2}


# -- the samples ----------------------------------------------------------------------------


def test_the_five_examples_are_typed_and_survive(log):
    log.write_bytes(b"".join(line + b"\n" for line in (USER, ASSISTANT, CALL, RESULT, FAILURE)))
    user, assistant, call, result, failure = records(log)
    assert isinstance(user, User)
    assert isinstance(assistant, Assistant)
    assert isinstance(call, Call)
    assert isinstance(result, Result)
    assert assistant.usage == Usage(input=15234, output=2156, cache_write=8543)
    assert assistant.usage.total == 15234 + 2156 + 8543
    assert (assistant.model, assistant.message.stop_reason) == (MODEL, "tool_use")
    assert (call.name, call.input) == ("Read", {"file_path": "/srv/boat/hull.ts"})
    assert (result.text, result.duration_ms, result.is_error) == ("planks\n\n  oak", 543, False)
    assert (failure.text, failure.is_error) == ("File not found: /srv/boat/hull.ts", True)
    assert call.call_id == result.call_id == failure.call_id == "call_abc123"
    assert validate(log, strict=True).is_valid


# -- validate and repair (C24, C25) ---------------------------------------------------------

MIXED = USER + b"\n\n" + b'{"type":"user","content":"cut\n' + b"42\n" + CALL + b"\n"


def test_validation_counts_valid_corrupt_and_blank_lines(log):
    log.write_bytes(MIXED)
    result = validate(log)
    assert (result.total, result.valid, result.corrupt, result.blank) == (5, 2, [3, 4], 1)
    assert result.total == result.valid + len(result.corrupt) + result.blank
    assert not result.is_valid
    for finding in result.findings:
        assert finding.line in result.corrupt
        assert MIXED[finding.offset : finding.offset + finding.length]
        assert finding.code
        assert finding.severity == "error"


def test_a_number_is_json_but_no_record(log):
    log.write_bytes(b'42\n"text"\n[]\nnull\n')
    assert validate(log).corrupt == [1, 2, 3, 4]


def test_repair_removes_corrupt_lines_from_the_log_but_not_from_the_world(log):
    log.write_bytes(MIXED)
    report = repair(log, write=True)
    assert log.read_bytes() == USER + b"\n" + CALL + b"\n"
    assert len(report.quarantined) == 2
    assert validate(log).is_valid
    assert Path(report.original).read_bytes() == MIXED
    rest = Path(report.quarantine).read_text()
    assert "cut" in rest
    assert "42" in rest


def test_repair_does_nothing_unless_told_to(log):
    log.write_bytes(MIXED)
    assert len(repair(log).quarantined) == 2
    assert log.read_bytes() == MIXED


def test_repair_saves_what_a_delete_would_have_lost(log):
    log.write_bytes(USER + CALL + b"\n\0\0\0" + RESULT + b"\n")
    report = repair(log, write=True)
    assert report.salvaged == 3
    assert log.read_bytes() == USER + b"\n" + CALL + b"\n" + RESULT + b"\n"


# -- places, locks, refusals ----------------------------------------------------------------


def test_the_project_hash_has_its_true_value():
    assert project_hash("/Users/nick/projects/my-app") == "v_FXjHoCS5zUJmfyn-5v"
    assert project_hash("/Users/nick/projects/../projects/my-app") == "v_FXjHoCS5zUJmfyn-5v"
    assert len(project_hash("/")) == 20


def test_a_day_of_a_project_has_its_place(tmp_path):
    place = dated_log(tmp_path, "/Users/nick/projects/my-app", date(2025, 11, 16))
    assert place == tmp_path / "projects" / "v_FXjHoCS5zUJmfyn-5v" / "2025-11-16.jsonl"


def test_creating_a_session_again_does_not_empty_it(log):
    with LogWriter(log) as writer:
        writer.append({"type": "user", "content": "kept"})
    LogWriter(log).close()
    assert [record.text for record in records(log)] == ["kept"]


def test_a_missing_session_is_told_apart_from_an_empty_one(log):
    with pytest.raises(NotFound):
        read_log(log)
    log.write_bytes(b"")
    assert records(log) == []


def test_what_is_not_serialisable_is_refused_before_a_byte_is_written(log):
    with LogWriter(log) as writer, pytest.raises(NotSerialisable):
        writer.append({"type": "user", "content": object()})
    assert log.read_bytes() == b""


def test_a_locked_session_is_refused_and_no_lock_file_is_left(log):
    with LogWriter(log) as writer, LogWriter(log, lock_timeout=0) as other:

        def decide(news):
            with pytest.raises(LogLocked):
                other.append({"type": "user", "content": "too soon"})
            return []

        writer.append_after(decide)
    assert [path.name for path in log.parent.iterdir()] == [log.name]
