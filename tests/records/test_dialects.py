"""Three dialects, told apart line by line, read as the same records."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import AT, CLAUDE, FLAT, ORCHESTRATOR, SESSION
from strategies import DIALECTS, good_records, json_values, spoiled, to_line
from turnlog.errors import NotSerialisable
from turnlog.records.codec import decode
from turnlog.records.dialects import BY_NAME, dialect_of
from turnlog.records.record import Assistant, Call, Result, TextBlock, ThinkingBlock, User
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


# -- there and back -------------------------------------------------------------------------

OTHERS = ["flat", "orchestrator"]
# Names that mean something in one dialect or another, and some that mean nothing anywhere.
NAMES = sorted(
    {key for sample in (*FLAT.values(), *ORCHESTRATOR.values()) for key in sample} - {"type"}
    | {"id", "role", "message", "stop_reason", "stop_sequence", "status", "turnlog", "sessionId"}
    | {"toolName", "toolInput", "output", "executionTimeMs", "inputTokens", "requestId", "novel"}
)
HOUSE = {
    "user": CLAUDE["user"],
    "assistant": CLAUDE["assistant"],
    "system_init": FLAT["system_init"],
    "tool_use": FLAT["tool_use"] | {"id": "call-1"},
    "tool_result": FLAT["tool_result"] | {"tool": "Bash", "duration_ms": 3, "toolUseResult": [1]},
}
asides = st.dictionaries(
    st.sampled_from(["message", "record", "line"]),
    json_values | st.dictionaries(st.sampled_from(NAMES), json_values, max_size=2),
    max_size=2,
)
strays = st.dictionaries(st.sampled_from(NAMES), json_values | asides, max_size=3)


def exact(value):
    """A text that tells 1, 1.0 and true apart, which Python's equality does not."""
    return json.dumps(value, sort_keys=True)


def can_say(name, fields):
    return name == "flat" or fields["type"] != "system_init"


def assert_nothing_lost(house, back):
    """Everything *house* says stands in *back*, too; defaults may have been added."""
    for key, value in house.items():
        if key == "type":
            assert {value, back[key]} <= {"tool_use", "tool_call"} or value == back[key]
        elif key == "message" and isinstance(value, dict):
            assert {name: exact(back[key].get(name, ...)) for name in value} == {
                name: exact(said) for name, said in value.items()
            }
        else:
            assert exact(back[key]) == exact(value)


def as_blocks(house):
    """The flat dialect says a text as a block of text: the one thing it does not give back."""
    message = house.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        block = {"type": "text", "text": message["content"]}
        return house | {"message": message | {"content": [block]}}
    return house


@pytest.mark.parametrize("name", OTHERS)
@given(data=st.data())
def test_nothing_of_a_record_is_lost_in_another_dialect(name, data):
    base = st.sampled_from(list(HOUSE.values())) | spoiled("claude").filter(
        lambda each: each.get("type") in ("user", "assistant")
    )
    house = data.draw(base) | data.draw(strays)
    if not can_say(name, house):
        return
    dialect = BY_NAME[name]
    line = dialect.from_house(house)
    assert dialect_of(line) is dialect
    wanted = as_blocks(house) if name == "flat" else house
    assert_nothing_lost(wanted, dialect.to_house(line))
    assert dialect_of(json.loads(to_line(line))) is dialect


@pytest.mark.parametrize("name", OTHERS)
@given(data=st.data())
def test_a_line_means_the_same_after_it_was_written_again(name, data):
    line = data.draw(spoiled(name)) | data.draw(strays)
    dialect = BY_NAME[name]
    if dialect_of(line) is not dialect:
        return
    house = dialect.to_house(line)
    again = dialect.from_house(house)
    assert dialect_of(again) is dialect
    assert exact(dialect.to_house(again)) == exact(house)


@pytest.mark.parametrize("name", OTHERS)
@given(data=st.data())
def test_a_tidy_line_comes_back_as_it_was(name, data):
    novel = st.dictionaries(
        st.sampled_from(["novel", "requestId", "version", "isSidechain", "forkedFrom", "status"]),
        json_values,
        max_size=3,
    )
    line = data.draw(good_records(name)) | data.draw(novel)
    dialect = BY_NAME[name]
    assert exact(dialect.from_house(dialect.to_house(line))) == exact(line)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("kind", ["user", "assistant"])
def test_a_record_of_claude_codes_is_the_same_record_after_a_stay(name, kind):
    house = CLAUDE[kind]
    dialect = BY_NAME[name]
    back = dialect.to_house(json.loads(to_line(dialect.from_house(house))))
    assert exact(back) == exact(as_blocks(house) if name == "flat" else house)


@pytest.mark.parametrize("house", [HOUSE["assistant"], CLAUDE["assistant"] | {"requestId": "r"}])
def test_an_assistants_line_in_the_flat_store_needs_nothing_put_aside(house):
    line = BY_NAME["flat"].from_house(house)
    assert "turnlog" not in line
    assert list(line)[:3] == ["type", "uuid", "content"]
    for key in ("id", "model", "stop_reason", "stop_sequence", "usage"):
        assert line[key] == house["message"][key]
    record = decode(to_line(line))
    assert (record.message.id, record.message.type) == (house["message"]["id"], "message")


def test_calls_and_results_go_from_dialect_to_dialect():
    for kind in ("tool_call", "tool_result", "tool_result/error"):
        line = ORCHESTRATOR[kind]
        record = read(line)
        flat = BY_NAME["flat"].from_house(BY_NAME["orchestrator"].to_house(line))
        moved = read(flat)
        assert (moved.dialect, moved.call_id, moved.name) == ("flat", "call_7", "Read")
        if isinstance(record, Result):
            assert (moved.content, moved.is_error) == (record.content, record.is_error)
        house = BY_NAME["flat"].to_house(flat)
        assert BY_NAME["orchestrator"].from_house(house) == line


def test_blocks_are_text_to_the_orchestrator_and_blocks_again_in_the_house():
    blocks = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t"}, {"text": "b"}, 3]
    house = {"type": "user", "message": {"role": "user", "content": blocks}}
    line = BY_NAME["orchestrator"].from_house(house)
    assert line["content"] == "a\nb"
    assert BY_NAME["orchestrator"].to_house(line) == house


def test_a_result_may_mix_the_words_of_two_dialects():
    mixed = {"type": "tool_result", "tool": "Read", "tool_use_id": "c", "content": "red"}
    record = read(mixed)
    assert (record.dialect, record.call_id, record.content) == ("orchestrator", "c", "red")
    assert read(mixed | {"is_error": True}).is_error is True
    assert read(ORCHESTRATOR["tool_result"] | {"error": None}).text == "bamboo"


@pytest.mark.parametrize("odd", [7, "x", [], {}, {"line": 1}, {"record": {"type": "user"}}])
def test_a_key_that_only_looks_like_ours_is_left_alone(odd):
    for line in (FLAT["user"], ORCHESTRATOR["user"]):
        dialect = dialect_of(line)
        house = dialect.to_house(line | {"turnlog": odd})
        assert house["type"] == "user"
        assert dialect.to_house(dialect.from_house(house)) == house


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("kind", ["summary", "system", None, 7, ["user"]])
def test_what_a_dialect_has_no_type_for_is_refused(name, kind):
    with pytest.raises(NotSerialisable, match="no record of type"):
        BY_NAME[name].from_house({"type": kind})
