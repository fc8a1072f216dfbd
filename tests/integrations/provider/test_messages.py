"""Messages become records and records messages; nothing is lost on the way, in either direction."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strategies import good_records, json_values, spoiled, to_line, words
from turnlog import build
from turnlog.errors import NotSerialisable, UsageError
from turnlog.integrations.provider.chat_messages import ROLES, ChatMessage
from turnlog.records.codec import decode, encode
from turnlog.records.record import Record
from turnlog.storage.blobs import decode_line

names = words.filter(bool)
objects = st.dictionaries(words, json_values, max_size=3)
blocks = st.one_of(
    st.builds(build.text, words),
    st.builds(build.thinking, words, words),
    st.builds(build.call, names, objects),
    st.builds(lambda call, said: build.result(call, said)["message"]["content"][0], names, words),
    st.builds(lambda kind, more: more | {"type": kind}, names, objects),
    objects,
)
instants = st.datetimes(
    min_value=datetime(1975, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone.
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
# Keys with a meaning on the wire come often: they must not be taken for it.
wire_keys = st.sampled_from(
    ["uuid", "type", "message", "content", "timestamp", "metadata", "parentUuid", "role", "usage"]
)
extras = st.dictionaries(words | wire_keys, json_values | objects, max_size=4)


@st.composite
def messages(draw, roles=ROLES):
    role = draw(st.sampled_from(roles))
    of_models = {
        "model": draw(st.none() | words),
        "usage": draw(st.none() | objects),
        "stop_reason": draw(st.none() | words),
        "response_id": draw(st.none() | words),
    }
    return ChatMessage(
        role=role,
        content=draw(words | st.lists(blocks, max_size=4)),
        id=draw(names),
        parent_id=draw(st.none() | words),
        session_id=draw(st.none() | words),
        agent_id=draw(st.none() | words),
        request_id=draw(st.none() | words),
        timestamp=draw(st.none() | instants),
        metadata=draw(extras),
        extra=draw(extras),
        **(of_models if role != "system" else {}),
    )


@given(messages())
def test_a_message_comes_back_from_its_record_as_it_was(message):
    fields = message.to_record()
    assert ChatMessage.from_record(fields) == message
    assert fields["type"] == message.role


@given(messages())
def test_a_message_comes_back_from_a_line_of_a_log(message):
    record = decode(encode(message.to_record()))
    assert isinstance(record, Record)
    assert ChatMessage.from_record(record) == message


@given(messages())
def test_a_message_is_json_and_comes_back_from_it(message):
    try:
        said = msgspec.json.encode(message)
    except UnicodeEncodeError:
        assume(False)
    again = msgspec.json.decode(said, type=ChatMessage, strict=False)
    assert again.to_record() == message.to_record()


def gained(before, after):
    """What a record says after it has been a message and did not say before."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    return {key: value for key, value in after.items() if key not in before}


def is_kept(before, after):
    """Whether everything that was said is still said; bool, int and float are told apart."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and is_kept(before[key], after[key]) for key in before)
    return type(before) is type(after) and before == after


@given(good_records("claude") | spoiled("claude"), st.sampled_from(ROLES))
def test_a_record_loses_nothing_by_becoming_a_message(fields, role):
    if fields.get("type") not in ROLES:
        fields["type"] = role  # With all the fields of another kind.
    after = ChatMessage.from_record(fields).to_record()
    if not fields.get("uuid") or not isinstance(fields["uuid"], str):
        # What is to be a message has a name; an odd one is replaced.
        after.pop("uuid")
        fields.pop("uuid", None)
    if fields.get("message", "") is None and after["message"] is not None:
        del fields["message"]  # A null gives way to a message.
    assert is_kept(fields, after), after
    assert set(gained(fields, after)) <= {"message"}
    if "message" in fields:
        assert set(gained(fields["message"], after["message"])) <= {"role", "content"}


@given(spoiled("claude") | good_records())
def test_any_record_is_a_message_or_a_mistake(fields):
    record = decode_line("s.jsonl", to_line(fields))
    assert isinstance(record, Record)
    if record.type not in ROLES:
        with pytest.raises(UsageError, match="no chat message"):
            ChatMessage.from_record(record)
        return
    message = ChatMessage.from_record(record)
    assert ChatMessage.from_record(message.to_record()) == message
    assert isinstance(message.text, str)
    assert isinstance(message.thinking, str)
    assert all(call.id is not None for call in message.calls)


def test_kinds_of_blocks_that_nobody_knows_stay_where_they_are():
    content = [
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}},
        {"type": "hologram", "beams": [1, 2]},
        {"type": "text", "text": "Well?"},
        {"no": "type"},
    ]
    message = ChatMessage(role="assistant", content=content)
    assert message.text == "Look:\nWell?"
    assert message.to_record()["message"]["content"] == content
    assert [type(block).__name__ for block in message.blocks][1::2] == ["UnknownBlock"] * 2


def test_the_parts_of_a_response_can_be_asked_for():
    message = ChatMessage.response(
        "I will look.",
        thinking="Which file?",
        calls=[build.call("Read", {"file_path": "well.py"}, call_id="toolu_1")],
        model="claude-sonnet-4-5",
        usage={"input_tokens": 12, "output_tokens": 7},
    )
    assert (message.text, message.thinking) == ("I will look.", "Which file?")
    assert [(call.id, call.name, call.input) for call in message.calls] == [
        ("toolu_1", "Read", {"file_path": "well.py"})
    ]
    answer = ChatMessage.result("toolu_1", "no such file", failed=True)
    assert answer.role == "user"
    assert [(each.tool_use_id, each.text, each.is_error) for each in answer.results] == [
        ("toolu_1", "no such file", True)
    ]


def test_what_a_model_says_is_blocks_in_a_record_and_text_in_a_message():
    message = ChatMessage(role="assistant", content="Good evening.")
    fields = message.to_record()
    assert fields["message"]["content"] == [{"type": "text", "text": "Good evening."}]
    assert ChatMessage.from_record(fields).content == "Good evening."
    assert message == msgspec.structs.replace(message, content=[build.text("Good evening.")])


def test_a_spelling_is_kept_for_as_long_as_it_is_true():
    fields = build.user("Hello") | {"uuid": "u", "timestamp": "2026-03-01T10:00:00+02:00"}
    message = ChatMessage.from_record(fields)
    assert message.timestamp == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert message.to_record()["timestamp"] == fields["timestamp"]
    later = msgspec.structs.replace(message, timestamp=datetime(2026, 3, 2, tzinfo=UTC))
    assert later.to_record()["timestamp"] == "2026-03-02T00:00:00.000Z"
    assert later.extra == {}


def test_metadata_of_any_name_means_nothing_to_the_log():
    metadata = {"type": "summary", "uuid": "x", "isSidechain": True, "message": {"role": "q"}}
    message = ChatMessage(role="user", content="Hello", id="m-1", metadata=metadata)
    record = decode(encode(message.to_record()))
    assert (record.type, record.uuid, record.text) == ("user", "m-1", "Hello")
    assert not record.is_sidechain
    assert ChatMessage.from_record(record).metadata == metadata


def test_the_older_shape_of_a_systems_record_is_read_and_kept():
    fields = {"type": "system", "uuid": "s", "message": {"role": "system", "content": "West wind"}}
    message = ChatMessage.from_record(fields)
    assert message.text == "West wind"
    assert message.to_record() == fields


@pytest.mark.parametrize(
    "mistake",
    [
        {"role": "tool"},
        {"role": ""},
        {"role": None},
        {"content": None},
        {"content": 5},
        {"content": b"bytes"},
        {"content": ["words"]},
        {"content": {"type": "text"}},
        {"id": ""},
        {"id": 7},
        {"parent_id": 7},
        {"usage": [1]},
        {"metadata": None},
        {"extra": "x"},
        {"timestamp": "2026-03-01"},
        {"timestamp": datetime(2026, 3, 1)},  # noqa: DTZ001 - That is the mistake.
        {"role": "system", "model": "m"},
    ],
    ids=repr,
)
def test_a_message_that_cannot_be_meant_is_a_mistake(mistake):
    with pytest.raises(UsageError) as raised:
        ChatMessage(**{"role": "user", "content": "Hello"} | mistake)
    assert raised.value.hint


@pytest.mark.parametrize("kind", ["summary", "attachment", "progress", "", None, 5])
def test_other_records_are_no_messages(kind):
    with pytest.raises(UsageError, match="no chat message") as raised:
        ChatMessage.from_record({"type": kind})
    assert "user, assistant, system" in raised.value.hint


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), 1 + 2j],
    ids=["nan", "infinity", "object", "complex"],
)
@pytest.mark.parametrize("place", ["metadata", "extra", "usage"])
def test_what_json_cannot_hold_is_refused_when_it_is_written(place, value):
    message = ChatMessage(role="user", content="Hello", **{place: {"n": value}})
    with pytest.raises(NotSerialisable):
        encode(message.to_record())
