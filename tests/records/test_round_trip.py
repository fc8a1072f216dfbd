"""Bytes to record to bytes, record to bytes to record; and what cannot be bytes is refused."""

from __future__ import annotations

import math
from collections import UserDict
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from uuid import UUID

import msgspec
import pytest
from hypothesis import given

from records.samples import CLAUDE, SESSION
from strategies import good_lines, good_records, to_line
from turnlog.errors import NotSerialisable, UsageError
from turnlog.records.codec import decode, encode
from turnlog.records.record import (
    Assistant,
    Attachment,
    Call,
    CallBlock,
    FileHistorySnapshot,
    ImageBlock,
    Message,
    Result,
    ResultBlock,
    Summary,
    System,
    SystemInit,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
    User,
)
from turnlog.records.record_types import AiTitle, CustomTitle, PrLink
from turnlog.records.usage import CacheWrites, Usage


@given(good_lines())
def test_a_decoded_line_encodes_to_the_same_bytes(line):
    assert encode(decode(line)) == line


@pytest.mark.parametrize(
    "line",
    [
        b'{ "type" : "mode" , "mode" : "x" }',
        b'{"mode":"x","type":"mode"}',
        rb'{"type":"mode","mode":"\u0041\/"}',
        b'{"type":"mode","n":1.0,"m":1E5,"k":-0}',
        b'{"type":"mode","mode":"a","mode":"b"}',
        b'\xef\xbb\xbf{"type":"mode"}\r',
        b'{"type":"mode","x":"\xff"}',
        b'{"type":"mode","n":123456789012345678901234567890}',
    ],
)
def test_whatever_is_unusual_about_a_line_survives(line):
    assert encode(decode(line)) == line


@given(good_records())
def test_a_mapping_encodes_to_one_line_that_holds_it(record):
    line = encode(record)
    assert b"\n" not in line
    assert decode(line).fields == record
    assert line == to_line(record)


@given(good_records())
def test_what_a_record_tells_as_fields_can_be_written_again(record):
    assert decode(encode(decode(to_line(record)).fields)).fields == record


TREE = {
    "uuid": "u-2",
    "parent_uuid": "u-1",
    "session_id": SESSION,
    "timestamp": "2026-03-04T05:06:07.089Z",
    "cwd": "/srv/kites",
}
USAGE = Usage(input=5, output=6, cache_write=7, cache_read=8)
BLOCKS = (
    ThinkingBlock("Hm.", "sig"),
    TextBlock("Sew it."),
    CallBlock("t-1", "Read", {"path": "a", "deep": [{"b": None}]}),
)

HAND_BUILT = {
    "claude user": User(message=Message(role="user", content="hi"), **TREE),
    "claude user with blocks": User(
        message=Message(
            role="user",
            content=(
                ResultBlock("t-1", (TextBlock("red"), ImageBlock({"type": "base64"})), False),
                ResultBlock("t-2", "plain", True),
            ),
        ),
        tool_use_result={"stdout": "red"},
        is_sidechain=True,
        agent_id="a1b2c3d",
        **TREE,
    ),
    "claude assistant": Assistant(
        message=Message(
            role="assistant",
            content=BLOCKS,
            id="msg_1",
            type="message",
            model="claude-opus-4-6",
            stop_reason="tool_use",
            usage=Usage(
                input=5,
                cache_write=30,
                cache_writes=CacheWrites(five_minutes=10, one_hour=20),
                service_tier="standard",
                iterations=[{"input_tokens": 5}],
            ),
        ),
        request_id="req_1",
        **TREE,
    ),
    "claude system": System(subtype="turn_duration", duration_ms=81.5, message_count=3, **TREE),
    "claude summary": Summary(summary="A kite", leaf_uuid="u-2"),
    "claude attachment": Attachment(attachment={"type": "date_change"}, **TREE),
    "claude snapshot": FileHistorySnapshot(message_id="u-2", snapshot={"a": {}}),
    "claude titles": CustomTitle(custom_title="Kites", session_id=SESSION),
    "claude ai title": AiTitle(ai_title="Kites", session_id=SESSION),
    "claude link": PrLink(pr_number=3, pr_url="https://kite.test/3", session_id=SESSION),
    "orchestrator user": User(
        dialect="orchestrator", message=Message(role="user", content="hi"), **TREE
    ),
    "orchestrator assistant": Assistant(
        dialect="orchestrator",
        message=Message(
            role="assistant",
            content="Sew it.",
            usage=USAGE,
            model="claude-opus-4-6",
            stop_reason="end_turn",
        ),
        **TREE,
    ),
    "orchestrator call": Call(
        dialect="orchestrator",
        call_id="c-1",
        name="Read",
        input={"path": "a"},
        **TREE,
    ),
    "orchestrator result": Result(
        dialect="orchestrator",
        call_id="c-1",
        name="Read",
        content=["red", 1],
        is_error=False,
        duration_ms=12,
        **TREE,
    ),
    "orchestrator failure": Result(
        dialect="orchestrator", call_id="c-1", name="Read", content="no", is_error=True, **TREE
    ),
    "flat init": SystemInit(dialect="flat", model="claude-opus-4-6", cwd="/srv", timestamp=1),
    "flat user": User(
        dialect="flat", message=Message(role="user", content=(TextBlock("hi"),)), **TREE
    ),
    "flat assistant": Assistant(
        dialect="flat",
        message=Message(role="assistant", content=BLOCKS[:2], usage=USAGE, model="m"),
        **TREE,
    ),
    "flat call": Call(dialect="flat", uuid="c-1", call_id="c-1", name="Read", input={"path": "a"}),
    "flat call with an id of its own": Call(dialect="flat", uuid="u-9", call_id="c-1", name="Read"),
    "flat result": Result(
        dialect="flat", call_id="c-1", content="red", is_error=False, timestamp=1772600000000
    ),
}


@pytest.mark.parametrize("name", HAND_BUILT)
def test_a_hand_built_record_comes_back_equal(name):
    record = HAND_BUILT[name]
    back = decode(encode(record))
    assert msgspec.structs.replace(back, raw=b"") == record


def test_a_prompt_built_as_text_is_a_text_block_in_the_flat_dialect():
    record = User(dialect="flat", message=Message(role="user", content="hi"))
    assert encode(record) == b'{"type":"user","content":[{"type":"text","text":"hi"}]}'
    assert decode(encode(record)).text == "hi"


def test_a_call_built_without_a_wire_type_is_still_a_call():
    record = Call(dialect="orchestrator", call_id="c-1", name="Read", input={"path": "a"})
    back = decode(encode(record))
    assert isinstance(back, Call)
    assert (back.name, back.call_id, back.input) == ("Read", "c-1", {"path": "a"})


def test_a_record_that_a_dialect_cannot_say_never_turns_into_another():
    record = Summary(dialect="orchestrator", summary="A kite", leaf_uuid="u-2")
    try:
        line = encode(record)
    except NotSerialisable:
        return
    assert decode(line).text == "A kite"


def test_an_unknown_block_survives_a_change_elsewhere_in_its_record():
    block = {"type": "hologram", "z": 3}
    sample = CLAUDE["user"] | {"message": {"role": "user", "content": [block]}}
    record = decode(to_line(sample))
    assert record.blocks == (UnknownBlock("hologram", block),)
    changed = msgspec.structs.replace(record, raw=b"", uuid="u-3")
    assert decode(encode(changed)).message == record.message


def test_a_lone_surrogate_is_written_as_an_escape():
    line = encode({"type": "mode", "mode": "a\ud83db"})
    assert line == rb'{"type":"mode","mode":"a\ud83db"}'
    assert decode(line).mode == "a\ud83db"


def test_big_integers_are_written_exactly():
    for number in (2**63, 2**64, -(2**63) - 1, 10**40):
        assert decode(encode({"type": "x", "n": number})).fields["n"] == number


def test_text_is_written_as_it_is_and_never_breaks_the_line():
    line = encode({"type": "mode", "mode": "ä\u2028\u2029\x85\n\r\0"})
    assert b"\n" not in line
    assert "ä\u2028".encode() in line
    assert decode(line).mode == "ä\u2028\u2029\x85\n\r\0"


@pytest.mark.parametrize("value", [datetime(2026, 3, 4, tzinfo=UTC), UUID(int=7)])
def test_instants_and_uuids_are_refused(value):
    """They would come back as text; `append` writes a record's own uuid and time itself."""
    with pytest.raises(NotSerialisable):
        encode({"type": "user", "value": value})


@pytest.mark.parametrize("wrap", [dict, MappingProxyType, UserDict])
def test_any_mapping_will_do(wrap):
    assert encode(wrap({"type": "mode", "mode": "x"})) == b'{"type":"mode","mode":"x"}'


def _loop():
    loop: dict[str, object] = {}
    loop["again"] = [loop]
    return loop


def _deep():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        [1, [math.nan]],
        {"a": {"b": (math.inf,)}},
        {"a": None, "b": math.nan},
        object(),
        print,
        1 + 2j,
        {(1, 2): "tuple key"},
        _loop(),
        _deep(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused(value):
    for surrogate in ("", "\ud800"):  # Each of the two ways of writing.
        with pytest.raises(NotSerialisable) as refusal:
            encode({"type": "x", "text": surrogate, "value": value})
        assert isinstance(refusal.value, UsageError)
        assert refusal.value.hint


def test_a_null_beside_finite_numbers_is_no_reason_to_refuse():
    assert encode({"a": None, "b": [1.5, None]}) == b'{"a":null,"b":[1.5,null]}'


@dataclass
class Reading:
    wind: float


def test_nan_is_refused_inside_a_dataclass_too():
    with pytest.raises(NotSerialisable):
        encode({"type": "x", "reading": Reading(math.nan)})


def test_a_hand_built_record_with_nan_is_refused():
    with pytest.raises(NotSerialisable):
        encode(Assistant(cost_usd=math.nan))


@pytest.mark.parametrize("value", [None, 7, "text", b"bytes", ["list"], ("a", 1), object()])
def test_what_is_neither_record_nor_mapping_is_refused(value):
    with pytest.raises(NotSerialisable, match=type(value).__name__):
        encode(value)
