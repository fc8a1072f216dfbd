"""Seed 001: every entry type it shows is read, in its shape, and comes back byte for byte."""

from __future__ import annotations

import json

import pytest

from turnlog.formats import is_subagent_id, new_subagent_id, project_key, todo_file
from turnlog.records import record as r
from turnlog.records.codec import decode, encode

SESSION = "e8d973c7-0000-43d9-809d-9a4880e8cebc"
AT = "2026-02-03T04:05:06.007Z"
LINK = {"sessionId": SESSION, "uuid": "m-2", "parentUuid": "m-1", "timestamp": AT}

ENTRIES = {
    "user": LINK | {"type": "user", "message": {"role": "user", "content": "Trim the sails."}},
    "assistant": LINK
    | {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Trimming."},
                {"type": "tool_use", "id": "toolu_9", "name": "Winch", "input": {"turns": 3}},
            ],
        },
        "requestId": "req_9",
        "model": "claude-opus-4-6",
    },
    "queue-operation": {
        "type": "queue-operation",
        "operation": "enqueue",
        "sessionId": SESSION,
        "timestamp": AT,
    },
    "system": {
        "type": "system",
        "sessionId": SESSION,
        "timestamp": AT,
        "message": {"role": "system", "content": "Wind from the west."},
    },
    "tool result": {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "done"}],
        },
        "toolUseResult": ["done"],
    },
    "summary": {
        "type": "summary",
        "sessionId": SESSION,
        "timestamp": AT,
        "content": {"summary": "Sails trimmed", "messageCount": 10, "summarizedUntil": "m-1"},
    },
    "file-history": {
        "type": "file-history",
        "sessionId": SESSION,
        "timestamp": AT,
        "path": "/srv/boat/rig.md",
        "operation": "create",
        "snippet": "# Rig",
    },
}
KINDS = {
    "user": r.User,
    "assistant": r.Assistant,
    "queue-operation": r.QueueOperation,
    "system": r.System,
    "tool result": r.User,
    "summary": r.Summary,
    "file-history": r.FileHistory,
}


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("indent", [None, "compact"])
def test_an_entry_is_typed_and_comes_back(name, indent):
    separators = (",", ":") if indent else None
    line = json.dumps(ENTRIES[name], separators=separators).encode()
    record = decode(line)
    assert type(record) is KINDS[name]
    assert record.odd == ()
    assert record.dialect == "claude"
    assert encode(record) == line


def read(name):
    return decode(json.dumps(ENTRIES[name]).encode())


def test_the_entries_say_what_they_say():
    assert read("user").text == "Trim the sails."
    assert [call.name for call in read("assistant").calls] == ["Winch"]
    assert read("assistant").request_id == "req_9"
    assert read("system").text == "Wind from the west."
    assert read("tool result").results[0].text == "done"
    assert read("tool result").tool_use_result == ["done"]
    assert read("summary").text == "Sails trimmed"
    assert read("file-history").operation == "create"
    assert read("queue-operation").operation == "enqueue"


def test_a_message_knows_its_parent():
    assert read("assistant").parent_uuid == "m-1"
    assert not read("assistant").is_sidechain


def test_a_project_path_keeps_its_leading_dash():
    assert project_key("/home/user/myproject", environ={}) == "-home-user-myproject"


def test_an_agents_id_is_an_a_and_hex_digits():
    made = new_subagent_id()
    assert made.startswith("a")
    assert int(made, 16)
    assert is_subagent_id("a753668")
    assert is_subagent_id("a1a93487")


def test_the_main_agents_todos_carry_the_session_twice(tmp_path):
    assert todo_file(tmp_path, SESSION, SESSION).name == f"{SESSION}-agent-{SESSION}.json"
    assert todo_file(tmp_path, SESSION, "a753668").name == f"{SESSION}-agent-a753668.json"
