"""Records of other dialects, told to Claude Code: a whole conversation that an API accepts."""

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import CLAUDE, FLAT, ORCHESTRATOR, TEXT, THINKING
from sessions.conversions import ID, NAMELESS, found, lines, named, write
from strategies import to_line
from turnlog.formats import is_uuid
from turnlog.records.codec import decode, encode
from turnlog.records.dates import instant
from turnlog.records.record import Call, Record, Result
from turnlog.records.record_types import breaches
from turnlog.records.responses import RunningTotals
from turnlog.sessions.convert.convert import convert
from turnlog.sessions.convert.translate import NativeTranslator
from turnlog.sessions.reading.ranges import replay
from turnlog.sessions.reading.threads import visible

AT = 1_772_600_000_000


def flat(kind, at=AT, **fields):
    return {"type": kind, "timestamp": at} | fields


def flat_text(kind, text, **fields):
    return flat(kind, content=[{"type": "text", "text": text}], **fields)


def spoken(kind, text, **fields):
    """What the orchestrator's dialect says."""
    return {"type": kind, "content": text, "timestamp": "2026-03-04T05:06:07Z"} | fields


def tell(tmp_path, records, session_id="kite_1"):
    """Convert a flat session of *records* to Claude Code's layout; give it as it is there."""
    write(tmp_path / "from", "flat", [to_line(fields) for fields in records], session_id)
    done = convert(found(tmp_path / "from", session_id), tmp_path / "to", "claude")
    return found(tmp_path / "to", done.id)


def messages(session):
    return replay(record for _, record in session.records(session.thread))


def blocks(session, kind):
    return [
        block
        for message in messages(session)
        for block in message["content"]
        if block["type"] == kind
    ]


SEED = [
    flat("system_init", cwd="/srv/kites", model="claude-sonnet-4-6"),
    flat_text("user", "Fix the kite", uuid="msg-001"),
    flat_text(
        "assistant", "I look.", uuid="msg-002", usage={"input_tokens": 7, "output_tokens": 5}
    ),
    flat("tool_use", uuid="tool-001", name="Bash", input={"command": "ls"}),
    flat("tool_use", uuid="tool-002", name="Read", input={"file_path": "tail"}),
    flat("tool_result", tool_use_id="tool-001", content="tail", is_error=False),
    flat("tool_result", tool_use_id="tool-002", content="no such file", is_error=True),
    flat_text("assistant", "Done.", uuid="msg-003", usage={"input_tokens": 9, "output_tokens": 2}),
]
ORCHESTRATED = [
    spoken("user", "Fix the kite", metadata={"source": "cli"}),
    spoken("assistant", "I look.", usage={"input_tokens": 7, "output_tokens": 5}, model="m"),
    {"type": "tool_call", "tool": "Bash", "arguments": {"command": "ls"}},
    {"type": "tool_call", "tool": "Read", "arguments": {"file_path": "tail"}},
    {"type": "tool_result", "tool": "Read", "error": "no such file"},
    {"type": "tool_result", "tool": "Bash", "result": {"stdout": "tail"}},
    spoken("assistant", "Done.", usage={"input_tokens": 9, "output_tokens": 2}, model="m"),
]


@pytest.mark.parametrize("records", [SEED, ORCHESTRATED], ids=["flat", "orchestrator"])
def test_a_whole_conversation_is_told(tmp_path, records):
    session = tell(tmp_path, records)
    assert not session.tree.gaps
    assert [message["role"] for message in messages(session)] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [block["text"] for block in blocks(session, "text")] == [
        "Fix the kite",
        "I look.",
        "Done.",
    ]
    asked = {block["id"]: block["name"] for block in blocks(session, "tool_use")}
    answered = {asked[b["tool_use_id"]]: b for b in blocks(session, "tool_result")}
    assert sorted(answered) == ["Bash", "Read"]
    assert answered["Read"]["is_error"] is True
    assert answered["Read"]["content"] == "no such file"
    assert "tail" in answered["Bash"]["content"]
    assert len(visible(session.thread)) == 7


@pytest.mark.parametrize("records", [SEED, ORCHESTRATED], ids=["flat", "orchestrator"])
def test_calls_in_a_row_are_one_response_and_its_tokens_count_once(tmp_path, records):
    session = tell(tmp_path, records)
    totals = RunningTotals()
    for item in session.items():
        totals.take(item.record)
    assert (totals.counters.input, totals.counters.output) == (16, 7)
    assert totals.messages == 2
    told = [item.record for item in session.items() if item.record.type == "assistant"]
    ids = [record.message.id for record in told]
    assert ids == [ids[0]] * 3 + [ids[3]]
    assert ids[0] != ids[3]
    assert {record.model for record in told} <= {"claude-sonnet-4-6", "m"}


def test_every_told_record_has_what_claude_code_writes(tmp_path):
    session = tell(tmp_path, SEED)
    told = [item.record for item in session.items() if item.record.type in ("user", "assistant")]
    assert len(told) == len(SEED) - 1
    before = None
    for record in told:
        assert record.parent_uuid == before
        assert is_uuid(record.uuid)
        assert (record.session_id, record.cwd) == (session.id, "/srv/kites")
        assert isinstance(record.timestamp, str)
        assert record.at == instant(AT)
        assert record.version
        assert (record.is_sidechain, record.user_type) == (False, "external")
        assert not list(breaches(record))
        before = record.uuid


def test_the_same_ids_come_of_telling_again(tmp_path):
    assert [item.record.raw for item in tell(tmp_path / "1", SEED).items()] == [
        item.record.raw for item in tell(tmp_path / "2", SEED).items()
    ]


# -- what an API would refuse ---------------------------------------------------------------


def test_a_call_that_stands_twice_is_told_once(tmp_path):
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    session = tell(
        tmp_path,
        [
            flat_text("user", "go"),
            flat("assistant", content=[TEXT, block]),
            flat("tool_use", uuid="t1", name="Bash", input={}),
            flat("tool_result", tool_use_id="t1", content="ok"),
            flat("tool_result", tool_use_id="t1", content="ok, again"),
            flat("user", content=[{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]),
        ],
    )
    assert len(blocks(session, "tool_use")) == 1
    assert [block["content"] for block in blocks(session, "tool_result")] == ["ok"]
    assert not session.tree.gaps


def test_an_id_that_is_used_again_is_another_call(tmp_path):
    calls = [
        flat("tool_use", uuid="t1", name="Bash", input={"command": "ls"}),
        flat("tool_result", tool_use_id="t1", content="first"),
        flat("tool_use", uuid="t1", name="Bash", input={"command": "pwd"}),
        flat("tool_result", tool_use_id="t1", content="second"),
    ]
    session = tell(tmp_path, [flat_text("user", "go"), *calls])
    asked = [block["id"] for block in blocks(session, "tool_use")]
    assert len(set(asked)) == 2
    assert [block["tool_use_id"] for block in blocks(session, "tool_result")] == asked


@pytest.mark.parametrize("call_id", ["call:1", "é", "x" * 300, "", None, 7, ["t"]])
def test_ids_that_no_api_accepts_are_made_anew(tmp_path, call_id):
    session = tell(
        tmp_path,
        [
            flat_text("user", "go"),
            flat("tool_use", id=call_id, name="Bash", input={}),
            {"type": "tool_result", "toolCallId": call_id, "tool": "Bash", "result": "ok"},
        ],
    )
    (call,), (result,) = blocks(session, "tool_use"), blocks(session, "tool_result")
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["id"])
    assert result["tool_use_id"] == call["id"]


@pytest.mark.parametrize(
    "mute",
    [
        flat("tool_result", tool_use_id="gone", content="to what?"),
        flat("tool_result", tool_use_id=None, content="to what?"),
        flat("tool_use", uuid="t9", name="", input={}),
        flat("tool_use", uuid="t9", name=None, input={}),
        flat("assistant", content=[]),
        flat_text("assistant", " \n"),
        flat("assistant", content=[{"type": "thinking", "thinking": "unsigned"}]),
        flat("assistant", content=[{"type": "text"}, {"text": "x"}, 5, None, []]),
        flat("user", content=[]),
        spoken("user", ""),
        spoken("assistant", ""),
    ],
)
def test_what_cannot_be_sent_stays_as_it_is_and_breaks_nothing(tmp_path, mute):
    uuid = {"uuid": "0d6ba9a1-0000-4000-8000-000000000001"}
    after = CLAUDE["system"] | {"parentUuid": uuid["uuid"], "uuid": "after"}
    records = [flat_text("user", "before"), mute | uuid, after, flat_text("assistant", "behind")]
    session = tell(tmp_path, records)
    assert [block["text"] for block in blocks(session, "text")] == ["before", "behind"]
    assert not session.tree.gaps
    assert to_line(mute | uuid) in [item.record.raw for item in session.items()]


def test_thinking_that_is_signed_is_told(tmp_path):
    session = tell(tmp_path, [flat_text("user", "go"), FLAT["assistant"]])
    told = list(session.items())[-1].record
    assert [block["type"] for block in told.fields["message"]["content"]] == ["thinking", "text"]
    assert told.fields["message"]["content"][0]["signature"] == THINKING["signature"]


def test_odd_usage_and_input_become_what_is_expected(tmp_path):
    session = tell(
        tmp_path,
        [
            flat_text("assistant", "a", usage="much"),
            flat_text("assistant", "b", usage={"input_tokens": "7", "cache_read_input_tokens": 3}),
            flat("tool_use", uuid="t1", name="Bash", input="ls"),
            flat("tool_use", uuid="t2", name="Bash", input=None),
        ],
    )
    told = [item.record.fields["message"] for item in session.items() if item.record.uuid]
    assert told[0]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert told[1]["usage"]["cache_read_input_tokens"] == 3
    assert told[1]["usage"]["input_tokens"] == 0
    assert [message["content"][0]["input"] for message in told[2:]] == [{"input": "ls"}, {}]


def test_answers_that_are_no_text_become_text(tmp_path):
    records = [flat_text("user", "go")]
    for number, content in enumerate([[TEXT], None, {"a": 1}, [1, 2], 5, []]):
        records += [
            flat("tool_use", uuid=f"t{number}", name="Bash", input={}),
            flat("tool_result", tool_use_id=f"t{number}", content=content),
        ]
    session = tell(tmp_path, records)
    told = [item.record.fields for item in session.items() if item.record.type == "user"][1:]
    assert [fields["message"]["content"][0]["content"] for fields in told] == [
        [TEXT],
        "",
        '{"a": 1}',
        "[1, 2]",
        "5",
        [],
    ]


# -- logs that mix dialects -----------------------------------------------------------------


def test_claude_codes_own_records_follow_the_new_names(tmp_path):
    own = CLAUDE["system"] | {"parentUuid": "msg-001", "uuid": "own", "sessionId": "kite_1"}
    title = {"type": "custom-title", "customTitle": "Kites", "sessionId": "kite_1"}
    other = CLAUDE["mode"] | {"sessionId": "another"}
    records = [*SEED[:2], own, title, other, *SEED[2:]]
    session = tell(tmp_path, records)
    assert not session.tree.gaps
    thread = [record for _, record in session.records(session.thread)]
    assert [record.uuid for record in thread].index("own") == 1
    assert len(thread) == 8
    assert session.summary.title == "Kites"
    by_type = {item.record.type: item.record for item in session.items()}
    assert by_type["system"].session_id == by_type["custom-title"].session_id == session.id
    assert by_type["mode"].session_id == "another"


def test_results_find_the_calls_of_claude_codes_own_records(tmp_path):
    call = CLAUDE["assistant/call"] | {"parentUuid": None, "uuid": "asks"}
    asked = call["message"]["content"][0]["id"]
    session = tell(tmp_path, [call, flat("tool_result", tool_use_id=asked, content="red")])
    (result,) = blocks(session, "tool_result")
    assert (result["tool_use_id"], result["content"]) == (asked, "red")


@pytest.mark.parametrize("layout", ["flat", "dated"])
@given(data=st.data())
def test_whatever_stands_in_a_log_what_is_told_hangs_together(layout, data):
    drawn = data.draw(st.lists(lines, min_size=1, max_size=12))
    drawn = [line for line in drawn if b'"turnlog"' not in line and b"turnlogNote" not in line]
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        chosen = [named(line, ID) for line in drawn] if layout == "dated" else drawn
        write(
            root / "from",
            layout,
            chosen or [b'{"type":"mode"}' if layout == "flat" else named(b'{"type":"mode"}', ID)],
        )
        done = convert(found(root / "from"), root / "to", "claude")
        session = found(root / "to", done.id)
        told = [item.record for item in session.items() if b'"was' in item.record.raw]
        assert len(told) == done.rewritten
        uuids, calls, answered = set(), set(), set()
        for item in session.items():
            record = item.record
            if record in told and record.session_id == done.id and is_uuid(record.uuid or ""):
                assert record.dialect == "claude"
                assert record.parent_uuid is None or record.parent_uuid in uuids
                for call in record.calls:
                    assert call.id not in calls
                    calls.add(call.id)
                for result in record.results:
                    assert result.tool_use_id in calls - answered
                    answered.add(result.tool_use_id)
            elif record.dialect == "claude":
                calls |= {call.id for call in getattr(record, "calls", ())}
                answered -= {call.id for call in getattr(record, "calls", ())}
            if record.dialect == "claude" and record.uuid:
                uuids.add(record.uuid)


# -- in the dialect at home -----------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["flat", "orchestrator"])
@given(data=st.data())
def test_native_records_are_of_the_dialect_at_home(dialect, data):
    translator = NativeTranslator(dialect)
    for line in data.draw(st.lists(lines, max_size=8)):
        record = decode(line)
        for fields in translator.translate(record) or ():
            try:
                told = decode(encode(fields))
            except ValueError:
                continue  # NaN, for one: it stays as it is.
            assert isinstance(told, Record)
            assert told.dialect == dialect


def test_calls_and_results_go_from_one_dialect_to_the_other():
    translator = NativeTranslator("orchestrator")
    told = [
        decode(encode(translator.translate(decode(to_line(fields)))[0])) for fields in SEED[3:6]
    ]
    assert [type(record) for record in told] == [Call, Call, Result]
    assert (told[2].call_id, told[2].content, told[2].at) == ("tool-001", "tail", instant(AT))
    back = NativeTranslator("flat").translate(decode(to_line(ORCHESTRATOR["tool_call"])))
    assert back[0]["timestamp"] == round(
        instant(ORCHESTRATOR["tool_call"]["timestamp"]).timestamp() * 1000
    )
    assert back[0]["name"] == "Read"


def test_the_orchestrators_results_repeat_the_tools_name():
    translator = NativeTranslator("orchestrator")
    translator.translate(decode(to_line(CLAUDE["assistant/call"])))
    (told,) = translator.translate(decode(to_line(CLAUDE["user/result"])))
    assert told["tool"] == "Read"


def test_a_session_without_ids_is_told_too(tmp_path):
    write(tmp_path / "from", "dated", [to_line(fields) for fields in ORCHESTRATED])
    session = found(tmp_path / "from", NAMELESS)
    done = convert(session, tmp_path / "to", "claude", project=tmp_path)
    there = found(tmp_path / "to", done.id)
    assert len(visible(there.thread)) == 7
    assert {record.cwd for _, record in there.records(there.thread)} == {str(tmp_path)}
