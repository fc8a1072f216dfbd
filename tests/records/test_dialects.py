"""Three dialects, told apart line by line, read as the same records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from records.samples import AT, CLAUDE, FLAT, ORCHESTRATOR, SESSION
from strategies import DIALECTS, to_line
from turnlog.records.blocks import TextBlock, ThinkingBlock
from turnlog.records.codec import decode
from turnlog.records.record import Assistant, Call, Result, User
from turnlog.records.usage import Usage, with_api_names


def read(sample):
    return decode(to_line(sample))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_sample_is_recognised_as_its_own_dialect(dialect):
    for sample in DIALECTS[dialect].values():
        assert read(sample).dialect == dialect


def test_the_lines_of_a_mixed_log_are_told_apart_one_by_one():
    mixed = [
        FLAT["user"],
        CLAUDE["user"],
        ORCHESTRATOR["user"],
        FLAT["tool_result"],
        CLAUDE["mode"],
    ]
    assert [read(sample).dialect for sample in mixed] == [
        "flat",
        "claude",
        "orchestrator",
        "flat",
        "claude",
    ]


@pytest.mark.parametrize(
    ("fields", "dialect"),
    [
        ({"type": "user", "content": "text"}, "orchestrator"),
        ({"type": "user", "content": []}, "flat"),
        ({"type": "user", "message": {"content": "x"}, "content": "x"}, "claude"),
        ({"type": "user", "message": None, "content": []}, "claude"),
        ({"type": "user"}, "claude"),
        ({"type": "user", "content": {"a": 1}}, "claude"),
        ({"type": "assistant", "content": "text"}, "orchestrator"),
        ({"type": "tool_call"}, "orchestrator"),
        ({"type": "tool_use"}, "flat"),
        ({"type": "tool_result", "toolCallId": "c"}, "orchestrator"),
        ({"type": "tool_result", "tool_use_id": "c"}, "flat"),
        ({"type": "tool_result", "tool": "Read", "tool_use_id": "c"}, "orchestrator"),
        ({"type": "tool_result"}, "claude"),
        ({"type": "system_init"}, "flat"),
        ({"role": "user", "content": "text"}, "orchestrator"),
        ({"role": ["user"], "content": "text"}, "claude"),
        ({"type": "summary", "content": "text"}, "claude"),
    ],
)
def test_a_dialect_is_told_by_type_and_shape(fields, dialect):
    assert read(fields).dialect == dialect


# -- the orchestrator's ---------------------------------------------------------------------


def test_the_orchestrators_prompt_reads_like_any_prompt():
    record = read(ORCHESTRATOR["user"])
    assert (record.text, record.session_id) == ("Check the spars.", SESSION)
    assert record.message.role == "user"
    assert record.metadata == {"source": "cli", "sessionId": SESSION}
    assert record.at == datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)


def test_the_orchestrators_answer_has_the_same_counters():
    record = read(ORCHESTRATOR["assistant"])
    assert record.text == "Both are straight."
    assert record.usage == Usage(input=20, output=8, cache_write=3, cache_read=4)
    assert record.model == "claude-sonnet-4-5-20250929"
    assert record.message.stop_reason == "end_turn"


def test_the_orchestrators_call_and_result_meet_by_id():
    call, result = read(ORCHESTRATOR["tool_call"]), read(ORCHESTRATOR["tool_result"])
    assert call.call_id == result.call_id == "call_7"
    assert (call.name, call.input) == ("Read", {"file_path": "/srv/kites/spar.txt"})
    assert (result.name, result.content, result.text) == ("Read", "bamboo", "bamboo")
    assert (result.is_error, result.duration_ms) == (False, 31)


def test_the_orchestrators_error_is_the_content_of_a_failed_result():
    failed = read(ORCHESTRATOR["tool_result/error"])
    assert (failed.is_error, failed.text) == (True, "no such spar")


@pytest.mark.parametrize("value", [["a", 1], {"a": 1}, 7, None, True])
def test_the_orchestrators_result_may_be_any_value(value):
    record = read(ORCHESTRATOR["tool_result"] | {"result": value})
    assert record.content == value
    assert record.text == ""


def test_the_camel_case_sibling_is_read_too():
    asked = read({"role": "user", "content": "Hm?", "timestamp": AT})
    said = read(
        {
            "role": "assistant",
            "content": "Yes.",
            "timestamp": AT,
            "inputTokens": 1,
            "outputTokens": 2,
            "cacheCreationTokens": 3,
            "cacheReadTokens": 4,
            "model": "m",
        }
    )
    tool = read(
        {
            "role": "tool",
            "toolName": "Bash",
            "toolCallId": "c",
            "output": "ok",
            "executionTimeMs": 9,
            "timestamp": AT,
        }
    )
    failed = read({"role": "tool", "toolName": "Bash", "output": "no", "status": "error"})
    call = read({"role": "tool_call", "toolName": "Bash", "toolInput": {"c": 1}})
    assert isinstance(asked, User)
    assert isinstance(said, Assistant)
    assert said.usage == Usage(input=1, output=2, cache_write=3, cache_read=4)
    assert isinstance(tool, Result)
    assert (tool.name, tool.call_id, tool.content, tool.duration_ms) == ("Bash", "c", "ok", 9)
    assert failed.is_error
    assert isinstance(call, Call)
    assert (call.name, call.input) == ("Bash", {"c": 1})


# -- the flat store's -----------------------------------------------------------------------


def test_the_flat_stores_answer_begins_with_its_thinking():
    record = read(FLAT["assistant"])
    assert record.blocks == (
        ThinkingBlock("Longer, then.", "c2ln"),
        TextBlock("The kite needs a longer tail."),
    )
    assert record.text == "The kite needs a longer tail."
    assert record.usage == Usage(input=11, output=12)


def test_the_flat_stores_times_are_milliseconds():
    assert read(FLAT["user"]).at == datetime.fromtimestamp(1772600001, tz=UTC)


def test_the_flat_stores_call_is_named_by_its_id_or_its_uuid():
    result = read(FLAT["tool_result"])
    assert read(FLAT["tool_use"]).call_id == result.call_id == "call-1"
    assert read(FLAT["tool_use"] | {"id": "own"}).call_id == "own"
    assert (result.text, result.is_error) == ("tail.md", False)


def test_the_flat_stores_first_record_tells_place_and_model():
    record = read(FLAT["system_init"])
    assert (record.cwd, record.model) == ("/srv/kites", "claude-sonnet-4-6")


# -- usage by any name ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3, "cache_read_tokens": 4},
        {"inputTokens": 1, "outputTokens": 2, "cacheCreationTokens": 3, "cacheReadTokens": 4},
        {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 4,
        },
    ],
)
def test_counters_have_one_meaning_whatever_they_are_called(written):
    record = read(ORCHESTRATOR["assistant"] | {"usage": written})
    assert record.usage == Usage(input=1, output=2, cache_write=3, cache_read=4)


def test_an_api_name_wins_over_an_alias_and_unknown_names_stay():
    both = {"cacheReadTokens": 9, "cache_read_input_tokens": 4, "novel": 1}
    assert with_api_names(both) == {"cache_read_input_tokens": 4, "novel": 1}
