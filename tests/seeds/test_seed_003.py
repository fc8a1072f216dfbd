"""Seed 003: its four sample records parse and come back, its usage has all counters (Z5)."""

from __future__ import annotations

import json

import pytest

from turnlog.records.codec import decode, encode
from turnlog.records.record import Assistant, FileHistorySnapshot, User
from turnlog.records.usage import CacheWrites
from turnlog.storage.reader import read_log
from turnlog.storage.repair import validate
from turnlog.storage.writer import LogWriter

BASE = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/home/ada/work/loom",
    "sessionId": "687796fe-0000-442e-9927-037254b7f28a",
    "version": "2.0.1",
    "gitBranch": "develop",
}
ASKED = "b8a04fc8-0000-460a-98cd-b1bd604aea4a"
USAGE = {
    "input_tokens": 4,
    "output_tokens": 1,
    "cache_creation_input_tokens": 48096,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 48096, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
}
SAMPLES = {
    "user": {
        "parentUuid": None,
        **BASE,
        "type": "user",
        "message": {"role": "user", "content": "Why is the warp loose?"},
        "uuid": ASKED,
        "timestamp": "2025-10-02T05:58:22.167Z",
        "thinkingMetadata": {"level": "none", "disabled": True, "triggers": []},
    },
    "assistant": {
        "parentUuid": ASKED,
        **BASE,
        "message": {
            "id": "msg_01Loom",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "text", "text": "The beam slips."}],
            "usage": USAGE,
        },
        "requestId": "req_01Loom",
        "type": "assistant",
        "uuid": "45c5c637-0000-4300-9ad2-3ec49f7aba2c",
        "timestamp": "2025-10-02T05:58:27.447Z",
    },
    "tool result": {
        "parentUuid": "7d71c43c-0000-4fb1-9342-295dc13e3bc0",
        **BASE,
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {
                    "tool_use_id": "toolu_01Loom",
                    "type": "tool_result",
                    "content": "beam.md",
                    "is_error": False,
                }
            ],
        },
        "uuid": "8fa82366-0000-43fb-926a-6ce3fb141961",
        "timestamp": "2025-10-02T05:58:30.083Z",
        "toolUseResult": {
            "stdout": "beam.md",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
        },
    },
    "snapshot": {
        "type": "file-history-snapshot",
        "messageId": ASKED,
        "snapshot": {
            "messageId": ASKED,
            "trackedFileBackups": {},
            "timestamp": "2025-10-02T05:58:22.189Z",
        },
        "isSnapshotUpdate": False,
    },
}


def line_of(name):
    return json.dumps(SAMPLES[name], separators=(",", ":")).encode()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_parses_and_comes_back(name):
    record = decode(line_of(name))
    assert record.odd == ()
    assert encode(record) == line_of(name)
    assert record.fields == SAMPLES[name]


def test_the_samples_survive_a_log(tmp_path):
    log = tmp_path / "687796fe.jsonl"
    with LogWriter(log) as writer:
        writer.append_many(SAMPLES.values())
    assert log.read_bytes() == b"".join(line_of(name) + b"\n" for name in SAMPLES)
    assert [type(item.record) for item in read_log(log)] == [
        User,
        Assistant,
        User,
        FileHistorySnapshot,
    ]
    assert validate(log, strict=True).is_valid


def test_the_first_record_has_no_parent_and_its_thinking_is_told():
    record = decode(line_of("user"))
    assert record.parent_uuid is None
    assert record.thinking_metadata == {"level": "none", "disabled": True, "triggers": []}


def test_an_answer_has_three_ids_and_five_counters():
    record = decode(line_of("assistant"))
    assert (record.message.id, record.request_id) == ("msg_01Loom", "req_01Loom")
    assert record.uuid == "45c5c637-0000-4300-9ad2-3ec49f7aba2c"
    usage = record.usage
    assert (usage.input, usage.output, usage.cache_write, usage.cache_read) == (4, 1, 48096, 0)
    assert usage.cache_writes == CacheWrites(five_minutes=48096, one_hour=0)
    assert usage.service_tier == "standard"


def test_a_tools_result_is_told_twice_and_read_once():
    record = decode(line_of("tool result"))
    assert [result.text for result in record.results] == ["beam.md"]
    assert record.tool_use_result["stdout"] == "beam.md"


def test_a_snapshot_has_no_session_and_names_the_message_it_belongs_to():
    record = decode(line_of("snapshot"))
    assert (record.uuid, record.session_id) == (None, None)
    assert record.message_id == decode(line_of("user")).uuid
    assert record.at is None
