"""User and assistant records: blocks, results, usage, place in the tree."""

from __future__ import annotations

import pytest

from records.samples import CALL, CLAUDE, PICTURE, RESULT, SESSION, TEXT, THINKING, answered, said
from strategies import to_line
from turnlog.records import record as b
from turnlog.records.codec import decode
from turnlog.records.usage import CacheWrites, ServerTools, Usage


def read(sample):
    return decode(to_line(sample))


def test_a_prompt_is_plain_text_or_blocks_and_reads_the_same():
    plain, blocks = (
        read(said("user", "Fly!")),
        read(said("user", [{"type": "text", "text": "Fly!"}])),
    )
    assert plain.text == blocks.text == "Fly!"
    assert plain.blocks == blocks.blocks == (b.TextBlock("Fly!"),)


def test_text_leaves_out_thinking_calls_and_results():
    record = read(answered(THINKING, TEXT, CALL, {"type": "text", "text": "Sew."}))
    assert record.text == "The kite needs a longer tail.\nSew."


def test_a_record_knows_its_place():
    record = read(CLAUDE["user"] | {"agentId": "a1b2c3d", "slug": "red-kite", "isSidechain": True})
    assert record.uuid == CLAUDE["user"]["uuid"]
    assert record.parent_uuid == CLAUDE["user"]["parentUuid"]
    assert record.session_id == SESSION
    assert (record.cwd, record.version, record.git_branch) == ("/srv/kites", "2.1.99", "main")
    assert (record.agent_id, record.slug, record.is_sidechain) == ("a1b2c3d", "red-kite", True)
    assert record.user_type == "external"


def test_an_answer_has_three_identities():
    record = read(CLAUDE["assistant"])
    assert record.uuid == CLAUDE["assistant"]["uuid"]
    assert record.message.id == "msg_01Kites"
    assert record.request_id == "req_01Kites"
    assert record.model == "claude-opus-4-6"
    assert record.message.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("block", "typed"),
    [
        (TEXT, b.TextBlock("The kite needs a longer tail.")),
        (TEXT | {"citations": []}, b.TextBlock("The kite needs a longer tail.", [])),
        (THINKING, b.ThinkingBlock("Tails steady kites.", "c2ln")),
        ({"type": "thinking", "thinking": "", "signature": "s"}, b.ThinkingBlock("", "s")),
        ({"type": "redacted_thinking", "data": "eHh4"}, b.RedactedThinkingBlock("eHh4")),
        (CALL, b.CallBlock("toolu_01Kite", "Read", {"path": "kite.txt"})),
        (
            CALL | {"caller": {"type": "direct"}},
            b.CallBlock("toolu_01Kite", "Read", {"path": "kite.txt"}, {"type": "direct"}),
        ),
        (RESULT, b.ResultBlock("toolu_01Kite", "red", False)),
        (PICTURE, b.ImageBlock(PICTURE["source"])),
        ({"type": "document", "source": {}, "title": "T"}, b.DocumentBlock({}, "T")),
        ({"type": "tool_reference", "tool_name": "gust"}, b.ToolReferenceBlock("gust")),
        ({"type": "hologram", "z": 3}, b.UnknownBlock("hologram", {"type": "hologram", "z": 3})),
        ({"type": "text"}, b.UnknownBlock("text", {"type": "text"})),
        ({"no": "type"}, b.UnknownBlock("", {"no": "type"})),
        ("bare words", b.UnknownBlock("", "bare words")),
        (None, b.UnknownBlock("", None)),
    ],
)  # fmt: skip
def test_a_block_is_typed_and_an_unknown_one_keeps_its_value(block, typed):
    assert read(answered(TEXT, block)).blocks[1] == typed


def test_one_strange_block_does_not_cost_its_neighbours():
    record = read(answered({"type": "hologram"}, CALL, {"type": "tool_use"}, TEXT))
    assert [call.id for call in record.calls] == ["toolu_01Kite"]
    assert record.text == TEXT["text"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("red", "red"),
        ([{"type": "text", "text": "red"}, PICTURE], "red"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"odd": "object"}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_a_result_says_what_a_person_would_read(content, text):
    record = read(said("user", [RESULT | {"content": content}]))
    assert [result.text for result in record.results] == [text]
    assert record.text == ""


def test_a_result_with_an_unknown_block_inside_is_still_a_result():
    inner = [{"type": "hologram"}, {"type": "text", "text": "red"}]
    record = read(said("user", [RESULT | {"content": inner}]))
    assert [result.text for result in record.results] == ["red"]
    assert record.results[0].tool_use_id == "toolu_01Kite"


@pytest.mark.parametrize(("flag", "told"), [({}, None), ({"is_error": True}, True)])
def test_a_result_tells_whether_it_failed_if_the_log_does(flag, told):
    bare = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    assert read(said("user", [bare | flag])).results[0].is_error is told


@pytest.mark.parametrize(
    "detail",
    [
        {"stdout": "red", "stderr": "", "interrupted": False, "isImage": False},
        {"type": "tool_result", "name": "Read", "result": "red", "success": True},
        {"status": "completed", "agentId": "a1b2c3d", "prompt": "sew"},
        "Error: no wind",
        ["red", {"type": "text", "text": "kite"}],
    ],
)
def test_what_a_tool_reported_is_an_object_a_string_or_an_array(detail):
    record = read(said("user", [RESULT], toolUseResult=detail))
    assert record.tool_use_result == detail
    assert record.odd == ()


def test_usage_has_every_counter_and_what_decides_the_price():
    usage = read(CLAUDE["assistant"]).usage
    assert (usage.input, usage.output, usage.cache_write, usage.cache_read) == (7, 41, 300, 5000)
    assert usage.cache_writes == CacheWrites(five_minutes=100, one_hour=200)
    assert (usage.cache_write_5m, usage.cache_write_1h) == (100, 200)
    assert usage.server_tools == ServerTools(web_searches=2, web_fetches=1)
    assert usage.web_searches == 2
    assert (usage.service_tier, usage.inference_geo, usage.speed) == ("standard", "eu", "standard")
    assert usage.iterations == [{"input_tokens": 7, "output_tokens": 41, "type": "message"}]
    assert usage.output_tokens_details == {"thinking_tokens": 9}
    assert usage.total == 7 + 41 + 300 + 5000


def test_cache_writes_of_unknown_life_count_as_short_lived():
    usage = Usage(cache_write=30)
    assert (usage.cache_write_5m, usage.cache_write_1h) == (30, 0)


def test_an_explicit_null_in_usage_is_no_oddity():
    nulls = dict.fromkeys(("cache_creation", "server_tool_use", "service_tier", "inference_geo"))
    sample = answered(TEXT)
    sample["message"]["usage"] = {"input_tokens": 1, "output_tokens": None, **nulls}
    record = read(sample)
    assert record.odd == ()
    assert record.usage == Usage(input=1)


def test_a_counter_written_as_a_float_counts_if_it_is_whole():
    sample = answered(TEXT)
    sample["message"]["usage"] = {"input_tokens": 12.0, "output_tokens": 1.5}
    record = read(sample)
    assert record.usage == Usage(input=12)
    assert record.odd == ("message.usage.output_tokens",)


def test_a_record_without_usage_says_so():
    assert read({"type": "assistant", "message": {"content": []}}).usage is None
    assert read({"type": "assistant"}).usage is None


def test_records_are_values():
    one, two = read(CLAUDE["user"]), read(CLAUDE["user"])
    assert one == two
    with pytest.raises(AttributeError):
        one.uuid = "other"
