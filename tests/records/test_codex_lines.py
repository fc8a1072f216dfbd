"""Lines of Codex: whatever their payload is, they are records and keep their bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.records.codec import decode, decode_envelope, encode
from turnlog.records.dialects.codex import _EVENTS, _ITEMS, _LINES
from turnlog.records.dialects.codex_usage import CodexUsage
from turnlog.records.meaning import Author, author_of
from turnlog.records.record import Assistant, Record, Unknown, User
from turnlog.storage.reader import Placed, read_log

_CLAUDE = Path(__file__).parents[3] / "shared" / "corpus" / "claude"
CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or _CLAUDE).with_name("codex")

leaves = st.none() | st.booleans() | st.integers(-9, 10**6) | st.text(max_size=9)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["type", "text", "content", "path", "plan", "step", "cmd", "agent_id"]), inner
), max_leaves=8)  # fmt: skip
NAMES = (
    "name", "arguments", "input", "output", "content", "summary", "message", "images", "action",
    "call_id", "namespace", "role", "reason", "info", "usage", "turn_id", "model", "cwd", "git",
    "item", "tools", "source", "id", "history_base", "success", "thread_name",
)  # fmt: skip
KINDS = [
    *((line, None) for line in _LINES),
    *(("response_item", kind) for kind in (*_ITEMS, "unheard")),
    *(("event_msg", kind.partition(" ")[0]) for kind in (*_EVENTS, "token_count", "unheard")),
    ("token_usage_record", None),
    ("unheard", None),
]


@st.composite
def lines(draw):
    line, kind = draw(st.sampled_from(KINDS))
    payload = draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=6))
    if kind is not None:
        payload["type"] = kind
    if kind == "item_completed":
        item = draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=4))
        named = [each.partition(" ")[2] for each in _EVENTS if " " in each]
        payload["item"] = item | {"type": draw(st.sampled_from([*named, "Unheard"]))}
    return {"timestamp": "2026-10-05T09:30:00.000Z", "type": line, "payload": payload}


@given(st.lists(lines(), max_size=5))
def test_any_payload_is_a_record(found):
    usage = CodexUsage()
    for fields in found:
        raw = json.dumps(fields).encode()
        record = decode(raw)
        assert isinstance(record, Record)
        assert (record.dialect, record.at is not None) == ("codex", True)
        assert encode(record) == raw
        assert decode_envelope(raw) is not None
        usage.take(fields)


def item(kind, **payload):
    fields = {"timestamp": "2026-10-05T09:30:00.000Z", "type": "response_item"}
    record = decode(json.dumps(fields | {"payload": {"type": kind, **payload}}).encode())
    assert isinstance(record, User | Assistant)
    return record


@pytest.mark.parametrize(
    ("output", "text", "is_error"),
    [
        ("plain", "plain", False),
        (
            "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nyes\n",
            "yes\n",
            False,
        ),
        ("Exit code: 2\nWall time: 1 seconds\nOutput:\nno\n", "Exit code 2\nno\n", True),
        ('{"output":"no\\n","metadata":{"exit_code":1}}', "Exit code 1\nno\n", True),
        (
            [
                {"type": "input_text", "text": "Script failed\nWall time 1 seconds\nOutput:\n"},
                {"type": "input_text", "text": "boom"},
            ],
            "boom",
            True,
        ),
        ({"content": "old", "success": True}, "old", False),
    ],
)
def test_an_output_has_no_head_and_says_whether_it_failed(output, text, is_error):
    (result,) = item("function_call_output", call_id="call_1", output=output).results
    assert (result.tool_use_id, result.text, result.is_error) == ("call_1", text, is_error)


@pytest.mark.parametrize(
    ("call", "name", "given"),
    [
        (
            {
                "type": "function_call",
                "name": "shell",
                "arguments": '{"command":["bash","-lc","ls"]}',
            },
            "shell",
            {"command": "ls"},
        ),
        (
            {
                "type": "function_call",
                "name": "exec_command",
                "arguments": '{"cmd":"ls","workdir":"/"}',
            },
            "exec_command",
            {"command": "ls", "workdir": "/"},
        ),
        (
            {"type": "function_call", "name": "get", "namespace": "mcp__docs__", "arguments": "{}"},
            "mcp__docs__get",
            {},
        ),
        (
            {"type": "function_call", "name": "broken", "arguments": '{"cmd":'},
            "broken",
            {"input": '{"cmd":'},
        ),
        (
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls", "-l"]}},
            "local_shell",
            {"command": "ls -l", "type": "exec"},
        ),
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "kites"}},
            "web_search",
            {"type": "search", "query": "kites"},
        ),
        (
            {"type": "custom_tool_call", "name": "exec", "input": "text(1)"},
            "exec",
            {"command": "text(1)"},
        ),
    ],
)
def test_a_call_has_readable_arguments(call, name, given):
    kind = call.pop("type")
    (found,) = item(kind, call_id="call_1", **call).calls
    assert (found.name, found.input) == (name, given)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus")
def test_prompts_of_real_sessions_are_what_reached_the_model_without_injected_context():
    logs = sorted(CORPUS.rglob("*.jsonl"))
    for path in logs:
        records = [each.record for each in read_log(path) if isinstance(each, Placed)]
        assert [record.raw for record in records] == path.read_bytes().splitlines()
        assert not [record.type for record in records if isinstance(record, Unknown)]
        prompts = [record.text.strip() for record in records if author_of(record) is Author.HUMAN]
        sent = []
        for line in path.read_text().splitlines():
            payload = json.loads(line)["payload"]
            if (payload.get("type"), payload.get("role")) == ("message", "user"):
                text = "\n".join(part.get("text", "") for part in payload["content"]).strip()
                if not text.startswith(("<", "# AGENTS.md")):
                    sent.append(text)
        assert prompts == sent
    assert len(logs) == 20
