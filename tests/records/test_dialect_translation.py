"""One record of Claude Code's, said in another dialect: what was said is said there, too."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import AT, CALL, CLAUDE, PICTURE, RESULT, TEXT, THINKING, answered, said
from strategies import good_records, json_values, words
from turnlog.records.codec import decode, encode
from turnlog.records.dates import instant
from turnlog.records.dialects.translate import in_dialect
from turnlog.records.record import Assistant, Call, Record, Result, Spoken

OTHERS = ["flat", "orchestrator"]
TYPES = {
    "flat": {"user", "assistant", "tool_use", "tool_result"},
    "orchestrator": {"user", "assistant", "tool_call", "tool_result"},
}

ids = st.sampled_from(["toolu_1", "toolu_2", "call:3"])
texts = words.map(lambda text: {"type": "text", "text": text})
calls = st.builds(
    lambda call_id, asked: {"type": "tool_use", "id": call_id, "name": "Bash", "input": asked},
    ids,
    st.dictionaries(words, json_values, max_size=2),
)
results = st.builds(
    lambda call_id, content, failed: {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
        "is_error": failed,
    },
    ids,
    words | st.lists(texts, max_size=2),
    st.booleans(),
)
others = st.sampled_from([THINKING, PICTURE, {"type": "redacted_thinking", "data": "eHh4"}])


@st.composite
def spoken(draw):
    """What a person, a model or a tool said: text, or any blocks."""
    if draw(st.booleans()):
        content = draw(words | st.lists(texts | results | others, max_size=4))
        return said("user", content)
    return answered(*draw(st.lists(texts | calls | others, max_size=4)))


def told(fields, dialect, tools=None):
    """Give the records that *fields* become, as a reader of the log would see them."""
    parts = in_dialect(fields, dialect, tools)
    return None if parts is None else [decode(encode(part)) for part in parts]


@given(spoken() | good_records("claude"), st.sampled_from(OTHERS))
def test_what_is_said_in_a_dialect_is_of_that_dialect(fields, dialect):
    before = copy.deepcopy(fields)
    records = told(fields, dialect)
    assert fields == before
    assert records is None or records
    for record in records or ():
        assert isinstance(record, Record)
        assert record.dialect == dialect
        assert record.type in TYPES[dialect]


@given(spoken(), st.sampled_from(OTHERS))
def test_words_calls_and_results_survive(fields, dialect):
    records = told(fields, dialect)
    if records is None:
        return
    original = decode(encode(fields))
    heads = [record for record in records if isinstance(record, Spoken) and record.message]
    assert "".join(record.text for record in heads) == original.text
    asked = [record for record in records if isinstance(record, Call)]
    assert [(call.call_id, call.name, call.input) for call in asked] == [
        (call.id, call.name, call.input) for call in original.calls
    ]
    blocks = [block for block in fields["message"]["content"] if isinstance(block, dict)]
    expected = [block for block in blocks if block["type"] == "tool_result"]
    given_back = [record for record in records if isinstance(record, Result)]
    assert [(each.call_id, each.content, bool(each.is_error)) for each in given_back] == [
        (block["tool_use_id"], block["content"], block["is_error"]) for block in expected
    ]


@given(spoken(), st.sampled_from(OTHERS))
def test_usage_is_said_once_and_time_on_every_part(fields, dialect):
    records = told(fields, dialect)
    if records is None:
        return
    assert {record.at for record in records} == {instant(AT)}
    used = [record.usage for record in records if isinstance(record, Assistant)]
    if fields["type"] == "assistant":
        assert [usage.output for usage in used] == [41]
    assert len([record for record in records if record.uuid == fields["uuid"]]) == 1
    assert records[0].uuid == fields["uuid"]


@given(spoken())
def test_flat_holds_all_that_was_said(fields):
    records = told(fields, "flat")
    kept = [block for record in records for block in getattr(record, "blocks", ())]
    original = decode(encode(fields))
    beside = {"tool_use", "tool_result"}
    wanted = [block for block in original.blocks if block.__struct_config__.tag not in beside]
    assert [encode_block(block) for block in kept] == [encode_block(block) for block in wanted]
    assert all(isinstance(fields["timestamp"], int) for fields in in_dialect(fields, "flat"))


def encode_block(block):
    return type(block).__name__, getattr(block, "text", None), getattr(block, "thinking", None)


@pytest.mark.parametrize("blocks", [[TEXT, PICTURE], [THINKING], [TEXT, TEXT]])
def test_the_orchestrator_holds_one_text_and_no_more(blocks):
    assert in_dialect(said("user", blocks), "orchestrator") is None
    assert in_dialect(said("user", blocks), "flat")


def test_a_response_with_calls_is_parted():
    first, second = told(answered(TEXT, CALL), "orchestrator")
    assert (first.text, first.model, first.type) == (TEXT["text"], "claude-opus-4-6", "assistant")
    assert (second.call_id, second.name, second.input) == (CALL["id"], "Read", CALL["input"])
    assert second.uuid is None


def test_a_result_alone_keeps_the_records_uuid_and_the_tools_report():
    fields = CLAUDE["user/result"]
    (part,) = in_dialect(fields, "flat")
    assert part["uuid"] == fields["uuid"]
    assert part["toolUseResult"] == fields["toolUseResult"]
    assert part["tool_use_id"] == RESULT["tool_use_id"]


def test_results_repeat_the_name_of_the_tool_where_they_should():
    (part,) = told(said("user", [RESULT]), "orchestrator", {RESULT["tool_use_id"]: "Read"})
    assert part.name == "Read"
    (nameless,) = told(said("user", [RESULT]), "orchestrator", {"another": "Read"})
    assert nameless.name is None


UNSAYABLE = sorted(name for name in CLAUDE if name.partition("/")[0] not in ("user", "assistant"))


@pytest.mark.parametrize("dialect", OTHERS)
@pytest.mark.parametrize("name", UNSAYABLE)
def test_what_a_dialect_has_no_type_for_cannot_be_said(name, dialect):
    assert in_dialect(CLAUDE[name], dialect) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "user"},
        {"type": "user", "message": None},
        {"type": "user", "message": {"content": 5}},
        {"type": "user", "message": {"content": ["a", {"type": "text", "text": "b"}]}},
        {"type": "user", "message": {"content": [{"text": "no type"}]}},
        {"type": "user", "message": {"content": [None]}},
    ],
)
@pytest.mark.parametrize("dialect", OTHERS)
def test_what_is_not_a_message_cannot_be_said(fields, dialect):
    assert in_dialect(fields, dialect) is None


def test_there_is_nothing_to_say_in_its_own_dialect_or_in_an_unknown_one():
    assert in_dialect(CLAUDE["user"], "claude") is None
    assert in_dialect(CLAUDE["user"], "morse") is None
