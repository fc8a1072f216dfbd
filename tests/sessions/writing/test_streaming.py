"""A streamed response: however it is cut into pieces, one record; whatever arrives, no loss."""

import json
from itertools import pairwise
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from strategies import json_values, words
from turnlog.errors import UsageError
from turnlog.records.codec import decode, encode
from turnlog.records.record import Assistant, CallBlock, TextBlock, ThinkingBlock
from turnlog.records.usage import Usage
from turnlog.sessions.writing import build
from turnlog.sessions.writing.streaming import UNPARSED, StreamedMessage

START = {
    "type": "message_start",
    "message": {
        "id": "msg_kite",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 7,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 1,
            "service_tier": "standard",
        },
    },
}
STOP = {"type": "message_stop"}


def begin(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **said):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | said}


def end(index):
    return {"type": "content_block_stop", "index": index}


def changes(reason, output, **more):
    said = {"stop_reason": reason, "stop_sequence": None} | more
    return {"type": "message_delta", "delta": said, "usage": {"output_tokens": output}}


def text(index, *pieces):
    deltas = (delta(index, "text_delta", text=piece) for piece in pieces)
    return [begin(index, type="text", text=""), *deltas, end(index)]


def call(index, *pieces, kind="tool_use", name="Read"):
    deltas = (delta(index, "input_json_delta", partial_json=piece) for piece in pieces)
    block = begin(index, type=kind, id="toolu_1", name=name, input={})
    return [block, *deltas, end(index)]


def thought(index, *pieces):
    deltas = (delta(index, "thinking_delta", thinking=piece) for piece in pieces)
    block = begin(index, type="thinking", thinking="", signature="")
    return [block, *deltas, delta(index, "signature_delta", signature="c2ln"), end(index)]


def folded(*events):
    message = StreamedMessage()
    for event in events:
        message.take(event)
    return message


def content(message):
    return message.record()["message"]["content"]


WHOLE = [
    START,
    {"type": "ping"},
    *thought(0, "The tail", " is short."),
    *text(1, "Look", "ing", "."),
    *call(2, "", '{"file_pa', 'th": "tail.md"}'),
    changes("tool_use", 61),
    STOP,
]


def test_a_stream_becomes_the_record_that_the_builder_would_make():
    message = folded(*WHOLE)
    usage = START["message"]["usage"] | {"output_tokens": 61}
    wanted = build.assistant(
        [
            build.thinking("The tail is short.", "c2ln"),
            build.text("Looking."),
            build.call("Read", {"file_path": "tail.md"}, call_id="toolu_1"),
        ],
        model="claude-opus-4-6",
        usage=usage,
        stop_reason="tool_use",
        message_id="msg_kite",
    )
    assert encode(message.record()) == encode(wanted)
    assert message.is_complete
    assert (message.strays, message.error) == ([], None)


def test_the_record_is_read_back_as_what_was_said():
    record = decode(encode(folded(*WHOLE).record()))
    assert isinstance(record, Assistant)
    assert record.odd == ()
    assert record.blocks == (
        ThinkingBlock("The tail is short.", "c2ln"),
        TextBlock("Looking."),
        CallBlock("toolu_1", "Read", {"file_path": "tail.md"}),
    )
    assert (record.usage.input, record.usage.output, record.usage.cache_read) == (40, 61, 7)


def pieces_of(value, cuts):
    edges = [0, *sorted(cut % (len(value) + 1) for cut in cuts), len(value)]
    return [value[a:b] for a, b in pairwise(edges)]


cuts = st.lists(st.integers(0, 1000), max_size=6)


@given(words, words, st.dictionaries(words, json_values, max_size=3), st.tuples(cuts, cuts, cuts))
def test_where_the_pieces_are_cut_does_not_matter(said, thinking, asked, three_cuts):
    one, two, three = three_cuts
    message = folded(
        START,
        *thought(0, *pieces_of(thinking, one)),
        *text(1, *pieces_of(said, two)),
        *call(2, *pieces_of(json.dumps(asked), three)),
        changes("tool_use", 5),
        STOP,
    )
    first, second, third = content(message)
    assert first == {"type": "thinking", "thinking": thinking, "signature": "c2ln"}
    assert second == {"type": "text", "text": said}
    assert third["input"] == asked
    assert message.strays == []


@given(st.integers(0, len(WHOLE)))
def test_a_stream_that_breaks_off_anywhere_leaves_what_had_arrived(count):
    message = folded(*WHOLE[:count])
    record = decode(encode(message.record()))
    assert record.message.id == message.record()["message"]["id"]
    finished = folded(*WHOLE).record()["message"]
    assert message.is_complete is (count == len(WHOLE))
    if count <= len(WHOLE) - 2:
        assert record.message.stop_reason is None
    for have, want in zip(content(message), finished["content"], strict=False):
        for key in ("text", "thinking"):
            assert want.get(key, "").startswith(have.get(key, ""))


def test_asking_on_the_way_changes_nothing():
    message = StreamedMessage()
    for event in WHOLE:
        message.take(event)
        message.record()["message"]["content"].append("mine")
        message.record()["message"]["usage"]["output_tokens"] = -1
        for block in content(message):
            block["text"] = "mine"
    assert message.record() == folded(*WHOLE).record()


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"file_path": "tai'],
        ['{"a": 1} {"b": 2}'],
        ["[1, 2]"],
        ["7"],
        ["null"],
        ['{"n": NaN}'],
        ['{"n": 1e999}'],
        ["{" * 100_000],
        ['{"a":' * 100_000, "1"],
    ],
    ids=lambda pieces: pieces[0][:12],
)
def test_an_input_that_is_no_object_is_kept_as_text_and_marked(pieces):
    message = folded(START, *call(0, *pieces), changes("max_tokens", 9), STOP)
    (block,) = content(message)
    assert block["input"] == {UNPARSED: "".join(pieces)}
    record = decode(encode(message.record()))
    assert record.calls[0].input == {UNPARSED: "".join(pieces)}
    assert record.message.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        ([], {}),
        (["", ""], {}),
        (["{}"], {}),
        (['{"a": "x\ny"}'], {"a": "x\ny"}),
        (['{"a": "\\ud83d', '\\ude80"}'], {"a": "\U0001f680"}),
        (['{"a": 12345678901234567890123}'], {"a": 12345678901234567890123}),
        ([' {"a": 1}\n'], {"a": 1}),
    ],
)
def test_an_input_in_any_spelling_of_an_object_is_parsed(pieces, wanted):
    for kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        (block,) = content(folded(START, *call(0, *pieces, kind=kind)))
        assert block["input"] == wanted


def test_an_input_that_came_whole_stays():
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "kite"}}
    assert content(folded(START, begin(0, **block), end(0))) == [block]


def test_citations_gather_in_their_block():
    cited = [{"type": "char_location", "cited_text": each} for each in "ab"]
    start = begin(0, type="text", text="", citations=None)
    deltas = [delta(0, "citations_delta", citation=each) for each in cited]
    (block,) = content(folded(START, start, *deltas, delta(0, "text_delta", text="Long.")))
    assert block == {"type": "text", "text": "Long.", "citations": cited}
    assert start["content_block"]["citations"] is None


def test_the_last_counters_are_totals_and_silence_changes_none():
    late = {"input_tokens": 44, "cache_read_input_tokens": None, "output_tokens": 80}
    tools = {"web_search_requests": 1}
    message = folded(START, changes(None, 12), changes("end_turn", 70))
    message.take({"type": "message_delta", "usage": late | {"server_tool_use": tools}})
    record = decode(encode(message.record()))
    assert record.usage == Usage(
        input=44,
        output=80,
        cache_read=7,
        cache_writes=record.usage.cache_writes,
        server_tools=record.usage.server_tools,
        service_tier="standard",
    )
    assert record.usage.web_searches == 1
    assert record.message.stop_reason == "end_turn"


def test_what_else_a_message_says_of_itself_is_kept():
    details = {"type": "refusal", "category": "cyber"}
    last = changes("refusal", 0, stop_details=details, container=None)
    message = folded(START, last | {"context_management": {"applied_edits": []}})
    said = message.record()["message"]
    assert said["stop_details"] == details
    assert said["context_management"] == {"applied_edits": []}
    assert "container" not in said
    assert message.strays == []


def test_a_stop_sequence_is_told():
    said = folded(START, changes("stop_sequence", 3, stop_sequence="END")).record()["message"]
    assert (said["stop_reason"], said["stop_sequence"]) == ("stop_sequence", "END")


def test_compaction_and_a_change_of_models_are_followed():
    message = folded(
        START,
        begin(0, type="compaction", content=None, encrypted_content=None),
        delta(0, "compaction_delta", content="Earlier: a kite.", encrypted_content="ZW5j"),
        begin(1, type="fallback", **{"from": {"model": "a"}, "to": {"model": "claude-haiku-4-5"}}),
        *text(2, "Hi"),
    )
    assert content(message)[0]["content"] == "Earlier: a kite."
    assert message.record()["message"]["model"] == "claude-haiku-4-5"
    assert message.strays == []


def test_an_error_ends_the_stream_without_a_stop_reason():
    error = {"type": "overloaded_error", "message": "Overloaded"}
    message = folded(START, *text(0, "Loo")[:2], {"type": "error", "error": error})
    assert message.error == error
    assert not message.is_complete
    assert message.record()["message"]["stop_reason"] is None
    assert content(message) == [build.text("Loo")]


def test_half_a_character_waits_for_its_other_half():
    message = folded(START, *text(0, "up \ud83d"))
    encode(message.record())
    message.take(delta(0, "text_delta", text="\ude80!"))
    assert content(message) == [build.text("up \U0001f680!")]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "hologram_delta", "z": 3}, "not known"),
        ({}, "not known"),
        ({"type": ["ping"]}, "not known"),
        (delta(0, "hologram_delta", z=3), "does not fit"),
        (delta(0, "input_json_delta", partial_json="{}"), "does not fit"),
        (delta(0, "text_delta", text=7), "does not fit"),
        (delta(0, "thinking_delta", thinking="x"), "does not fit"),
        (delta(9, "input_json_delta", partial_json="{}"), "not begun"),
        (delta(True, "text_delta", text="x"), "no index"),
        ({"type": "content_block_delta", "index": 0, "delta": "x"}, "no delta"),
        ({"type": "content_block_start", "content_block": {"type": "text"}}, "no index"),
        ({"type": "content_block_start", "index": 1, "content_block": 3}, "no block"),
        ({"type": "message_delta", "delta": [1]}, "not an object"),
        ({"type": "message_delta", "usage": 3}, "usage"),
        ({"type": "message_delta", "delta": {"content": []}}, "change of the content"),
        (START, "begun already"),
        ({"type": "message_start", "message": None}, "no message"),
    ],
)
def test_what_has_no_place_is_kept_aside_and_costs_nothing(event, reason):
    message = folded(START, *text(0, "Look", "ing."))
    before = message.record()
    message.take(event)
    (stray,) = message.strays
    assert stray.event is event
    assert reason in stray.reason
    assert message.record() == before


def test_a_block_begun_twice_is_two_blocks():
    message = folded(START, *text(0, "Look"), *text(1, "!"), *text(0, "ing"))
    assert content(message) == [build.text("Look"), build.text("ing"), build.text("!")]
    assert len(message.strays) == 1


def test_blocks_stand_by_their_index_and_a_beginning_may_be_missing():
    message = folded(START, delta(2, "text_delta", text="c"), *text(1, "b"), *thought(0, "a")[1:])
    assert [block["type"] for block in content(message)] == ["thinking", "text", "text"]
    assert content(message)[2] == build.text("c")
    assert message.strays == []


def test_the_echoes_of_an_sdk_are_passed_over():
    events = [
        START,
        begin(0, type="text", text=""),
        delta(0, "text_delta", text="Hi"),
        {"type": "text", "text": "Hi", "snapshot": "Hi"},
        end(0) | {"content_block": build.text("Hi")},
        changes("end_turn", 2),
        STOP | {"message": {"id": "msg_kite"}},
    ]
    message = folded(*map(MappingProxyType, events))
    assert content(message) == [build.text("Hi")]
    assert message.strays == []


def test_pieces_of_text_are_enough():
    message = StreamedMessage(model="kite-1", message_id="msg_1", request_id="req_1")
    for piece in ("Up", "", " it goes"):
        message.add_text(piece)
    assert message.record()["message"]["stop_reason"] is None
    message.finish(usage={"input_tokens": 3, "output_tokens": 4})
    usage = {"input_tokens": 3, "output_tokens": 4}
    wanted = build.assistant(
        "Up it goes", model="kite-1", usage=usage, message_id="msg_1", request_id="req_1"
    )
    assert encode(message.record()) == encode(wanted)
    assert message.is_complete


def test_text_may_be_added_around_events():
    message = StreamedMessage()
    message.add_text("before ")
    for event in (START, *call(0, "{}"), *text(1, "x")):
        message.take(event)
    message.add_text("y")
    assert [block.get("text") for block in content(message)] == ["before ", None, "xy"]


def test_a_message_that_nobody_named_keeps_the_name_it_was_given():
    message = StreamedMessage()
    name = message.record()["message"]["id"]
    message.add_text("Hi")
    assert message.record()["message"]["id"] == name
    assert StreamedMessage().record()["message"]["id"] != name


@pytest.mark.parametrize("wrong", ["message_stop", b"{}", None, 7, [("type", "ping")]])
def test_what_is_no_event_or_no_text_is_the_callers_mistake(wrong):
    with pytest.raises(UsageError) as refusal:
        StreamedMessage().take(wrong)
    assert "model_dump" in refusal.value.hint
    if not isinstance(wrong, str):
        with pytest.raises(UsageError):
            StreamedMessage().add_text(wrong)


KINDS = ["message_start", "content_block_start", "content_block_delta", "message_delta", "error"]
DELTAS = ["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta"]
block_keys = ["text", "thinking", "input", "citations", "to", "id"]
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "compaction", "fallback"])},
    optional=dict.fromkeys(block_keys, json_values),
)
delta_keys = ["text", "thinking", "partial_json", "signature", "citation", "content", "usage"]
deltas = st.fixed_dictionaries(
    {"type": st.sampled_from([*DELTAS, "compaction_delta"])},
    optional=dict.fromkeys(delta_keys, json_values | words),
)
message_keys = st.sampled_from(["content", "usage", "model", "id", "x"])
events = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | json_values},
    optional={
        "index": st.integers(-1, 2) | json_values,
        "content_block": blocks | json_values,
        "delta": deltas | json_values,
        "usage": json_values,
        "message": st.dictionaries(message_keys, json_values | st.lists(blocks)) | json_values,
    },
)


@given(st.lists(events, max_size=8))
def test_any_events_at_all_give_a_record(stream):
    message = folded(*stream)
    assert isinstance(decode(encode(message.record())), Assistant)


# -- block by block -------------------------------------------------------------------------------


def stream_of_three():
    """Thinking, a text and a call, as the API sends them."""
    yield START
    yield begin(0, type="thinking", thinking="", signature="")
    yield delta(0, "thinking_delta", thinking="Count them.")
    yield delta(0, "signature_delta", signature="s1")
    yield end(0)
    yield begin(1, type="text", text="")
    yield delta(1, "text_delta", text="I count ")
    yield delta(1, "text_delta", text="the apples.")
    yield end(1)
    yield begin(2, type="tool_use", id="toolu_1", name="Bash", input={})
    yield delta(2, "input_json_delta", partial_json='{"command": "ls"}')
    yield end(2)
    yield changes("tool_use", 33)
    yield STOP


def block_by_block(session, events):
    message = StreamedMessage()
    try:
        for event in events:
            message.take(event)
            session.append_many(message.finished())
    finally:
        session.append_many(message.rest())
    return message


def test_blocks_that_are_appended_one_by_one_are_one_response(tmp_path):
    with turnlog.open(tmp_path).create(project=tmp_path) as session:
        message = block_by_block(session, stream_of_three())
        totals = session.totals
    found = [item.record for item in turnlog.open(tmp_path).session("latest").items()]
    records = [record for record in found if isinstance(record, Assistant)]
    assert [len(record.message.content) for record in records] == [1, 1, 1]
    assert {record.message.id for record in records} == {"msg_kite"}
    blocks = [block for record in records for block in record.fields["message"]["content"]]
    assert blocks == message.record()["message"]["content"]
    assert [record.message.stop_reason for record in records] == [None, None, "tool_use"]
    assert (totals.messages, totals.tokens.output) == (1, 33)
    assert message.finished() == message.rest() == []


@pytest.mark.parametrize("count", range(14))
def test_a_crash_in_mid_stream_loses_only_the_block_that_was_arriving(tmp_path, count):
    """Whatever was appended when the process dies is what there is: nothing is appended later."""
    session = turnlog.open(tmp_path).create(project=tmp_path)
    message = StreamedMessage()
    for event in [*stream_of_three()][:count]:
        message.take(event)
        session.append_many(message.finished())
    session.abandon()
    kept = [b"Count them." in session.path.read_bytes(), b"apples" in session.path.read_bytes()]
    assert kept == [count > 5, count > 9]


def test_a_stream_that_breaks_off_leaves_all_that_arrived(tmp_path):
    def breaking():
        yield from [*stream_of_three()][:8]
        raise ConnectionError

    session = turnlog.open(tmp_path).create(project=tmp_path)
    with pytest.raises(ConnectionError), session:
        block_by_block(session, breaking())
    texts = [item.record.text for item in turnlog.open(tmp_path).session("latest").items()]
    assert "I count the apples." in texts


def test_a_delta_behind_its_block_is_a_stray():
    message = StreamedMessage()
    for event in [*stream_of_three()][:6]:
        message.take(event)
    assert len(message.finished()) == 1
    message.take(delta(0, "thinking_delta", thinking="More."))
    assert [each.reason for each in message.strays] == ["its block was finished"]


def test_the_objects_of_an_sdk_are_events():
    pydantic = pytest.importorskip("pydantic")

    class Event(pydantic.BaseModel):
        """As the events of the anthropic package: fields that were not sent are None."""

        model_config = pydantic.ConfigDict(extra="allow")
        type: str
        citations: list[str] | None = None

    plain, made = StreamedMessage(), StreamedMessage()
    for event in stream_of_three():
        plain.take(event)
        made.take(Event(**event))
    assert made.record() == plain.record()
    assert made.strays == []
    with pytest.raises(UsageError):
        made.take(object())
