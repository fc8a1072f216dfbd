"""Every type, subtype and kind that logs are known to hold gets a type of its own."""

from __future__ import annotations

import pytest

from records.samples import ATTACHMENTS, CLAUDE, FLAT, ORCHESTRATOR, SESSION, STATES
from strategies import to_line
from turnlog.records import record as r
from turnlog.records import record_types as s
from turnlog.records.codec import decode, encode

CLASS_OF_TYPE = {
    "user": r.User,
    "assistant": r.Assistant,
    "system": r.System,
    "summary": r.Summary,
    "attachment": r.Attachment,
    "progress": r.Progress,
    "queue-operation": r.QueueOperation,
    "file-history": r.FileHistory,
    "file-history-snapshot": r.FileHistorySnapshot,
    "file-history-delta": r.FileHistoryDelta,
    "last-prompt": s.LastPrompt,
    "permission-mode": s.PermissionMode,
    "ai-title": s.AiTitle,
    "custom-title": s.CustomTitle,
    "mode": s.Mode,
    "tag": s.Tag,
    "bridge-session": s.BridgeSession,
    "agent-name": s.AgentName,
    "agent_metadata": s.AgentMetadata,
    "pr-link": s.PrLink,
    "frame-link": s.FrameLink,
    "worktree-state": s.WorktreeState,
    "fork-context-ref": s.ForkContextRef,
    "content-replacement": s.ContentReplacement,
    "relocated": s.Relocated,
    "turnlog": s.Marker,
} | dict.fromkeys(STATES, s.SessionRecord)


def read(sample):
    line = to_line(sample)
    record = decode(line)
    assert encode(record) == line
    return record


@pytest.mark.parametrize("name", CLAUDE)
def test_a_record_of_claude_codes_is_typed(name):
    record = read(CLAUDE[name])
    assert type(record) is CLASS_OF_TYPE[CLAUDE[name]["type"]]
    assert record.type == CLAUDE[name]["type"]
    assert record.dialect == "claude"
    assert record.odd == ()
    assert record.fields == CLAUDE[name]
    assert record.session_id == CLAUDE[name].get("sessionId")


@pytest.mark.parametrize("name", ORCHESTRATOR)
def test_a_record_of_the_orchestrators_is_typed(name):
    classes = {"user": r.User, "assistant": r.Assistant, "tool_call": r.Call}
    record = read(ORCHESTRATOR[name])
    assert type(record) is classes.get(name, r.Result)
    assert record.type == ORCHESTRATOR[name]["type"]
    assert record.dialect == "orchestrator"
    assert record.odd == ()


@pytest.mark.parametrize("name", FLAT)
def test_a_record_of_the_flat_stores_is_typed(name):
    classes = {
        "system_init": r.SystemInit,
        "user": r.User,
        "assistant": r.Assistant,
        "tool_use": r.Call,
        "tool_result": r.Result,
    }
    record = read(FLAT[name])
    assert type(record) is classes[name]
    assert record.type == name
    assert record.dialect == "flat"
    assert record.odd == ()


@pytest.mark.parametrize("kind", ATTACHMENTS)
def test_an_attachment_tells_its_kind(kind):
    record = read(CLAUDE[f"attachment/{kind}"])
    assert record.kind == kind
    assert record.attachment == {"type": kind} | ATTACHMENTS[kind]


@pytest.mark.parametrize("name", [name for name in CLAUDE if name.startswith("progress/")])
def test_progress_tells_its_kind(name):
    record = read(CLAUDE[name])
    kind = name.removeprefix("progress/")
    assert record.kind == (None if kind == "none" else kind)


def test_progress_names_the_call_it_belongs_to():
    record = read(CLAUDE["progress/bash_progress"])
    assert (record.tool_use_id, record.parent_tool_use_id) == ("toolu_01Wind", "toolu_01Kite")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("turn_duration", {"duration_ms": 8123, "message_count": 4}),
        (
            "stop_hook_summary",
            {"hook_count": 1, "hook_errors": [], "prevented_continuation": False},
        ),
        ("away_summary", {"text": "The tail was made longer."}),
        ("local_command", {"text": "<command-name>/cost</command-name>"}),
        ("api_error", {"retry_in_ms": 512.25, "retry_attempt": 1, "max_retries": 10}),
        ("compact_boundary", {"parent_uuid": None, "text": "Conversation compacted"}),
        (
            "microcompact_boundary",
            {"microcompact_metadata": {"trigger": "auto", "tokensSaved": 900}},
        ),
        ("informational", {"level": "info"}),
        ("bridge_status", {"url": "https://kite.test/b"}),
        ("ui_telemetry", {"text": ""}),
        ("attribution_snapshot", {"text": ""}),
    ],
)
def test_a_system_record_tells_its_subtype_and_what_goes_with_it(name, told):
    record = read(CLAUDE[f"system/{name}"])
    assert record.subtype == name
    assert {key: getattr(record, key) for key in told} == told


def test_a_compact_boundary_keeps_the_logical_parent_and_its_figures():
    record = read(CLAUDE["system/compact_boundary"])
    assert record.logical_parent_uuid == CLAUDE["user"]["parentUuid"]
    assert record.compact_metadata["preTokens"] == 155000


def test_a_system_record_of_an_early_version_speaks_through_content_or_a_message():
    assert read(CLAUDE["system"]).subtype is None
    assert read(CLAUDE["system"]).text == "Compacting"
    assert read(CLAUDE["system/message"]).text == "You fly kites."


@pytest.mark.parametrize("operation", ["enqueue", "dequeue", "remove", "popAll"])
def test_a_queue_operation_tells_which(operation):
    record = read(CLAUDE[f"queue-operation/{operation}"])
    assert record.operation == operation
    assert record.content == CLAUDE[f"queue-operation/{operation}"].get("content")


def test_a_queue_operation_may_carry_blocks_or_nothing():
    blocks = [{"type": "text", "text": "two"}]
    assert read(CLAUDE["queue-operation/enqueue"] | {"content": blocks}).content == blocks
    assert read(CLAUDE["queue-operation/none"]).operation is None


def test_both_shapes_of_a_summary_give_its_text():
    today, older = read(CLAUDE["summary"]), read(CLAUDE["summary/older"])
    assert (today.text, today.leaf_uuid) == ("A kite that spins", CLAUDE["user"]["uuid"])
    assert today.session_id is None
    assert (older.text, older.session_id) == ("A kite that spun", SESSION)
    assert older.content["messageCount"] == 10


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("last-prompt", "last_prompt", "paint it"),
        ("permission-mode", "permission_mode", "plan"),
        ("ai-title", "ai_title", "Kite trouble"),
        ("custom-title", "custom_title", "Kites"),
        ("mode", "mode", "normal"),
        ("tag", "tag", "toys"),
        ("bridge-session", "last_sequence_num", 4),
        ("agent-name", "agent_name", "sailmaker"),
        ("agent_metadata", "agent_type", "Plan"),
        ("pr-link", "pr_number", 12),
        ("frame-link", "frame_url", "https://kite.test/f"),
        ("worktree-state", "worktree_session", {"path": "/srv/kites-2"}),
        ("fork-context-ref", "context_length", 812),
        ("content-replacement", "replacements", [{"uuid": "m-2"}]),
        ("relocated", "relocated_cwd", "/srv/kites-2"),
        ("turnlog", "format", 1),
        ("file-history", "operation", "edit"),
        ("file-history-snapshot", "message_id", CLAUDE["user"]["uuid"]),
        ("file-history-delta", "tracking_path", "tail.md"),
    ],
)
def test_a_record_beside_the_conversation_tells_its_one_fact(name, field, value):
    assert getattr(read(CLAUDE[name]), field) == value


@pytest.mark.parametrize("name", STATES)
def test_a_type_known_by_name_only_keeps_its_name_and_content(name):
    record = read(CLAUDE[name])
    assert record.type == name
    assert record.agent_id == "a1b2c3d"
    assert record.fields["key"] == "k-1"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b'{"type":"event_of_tomorrow","uuid":"u-1","detail":{"a":1}}', "event_of_tomorrow"),
        (b'{"type":"text","text":"a block is no record"}', "text"),
        (b'{"uuid":"u-1"}', ""),
        (b'{"type":7,"uuid":"u-1"}', ""),
        (b'{"type":null}', ""),
        (b"{}", ""),
    ],
)
def test_what_nobody_knows_is_unknown_and_nothing_of_it_is_lost(line, name):
    record = decode(line)
    assert type(record) is r.Unknown
    assert record.type == name
    assert encode(record) == line


def test_an_unknown_record_still_has_its_place_in_the_tree():
    record = read(CLAUDE["user"] | {"type": "event_of_tomorrow"})
    assert (record.parent_uuid, record.cwd) == (CLAUDE["user"]["parentUuid"], "/srv/kites")


def test_an_imitators_result_with_a_message_is_a_result():
    sample = CLAUDE["user"] | {"type": "tool_result", "message": {"role": "user", "content": "red"}}
    record = read(sample)
    assert type(record) is r.Result
    assert record.text == "red"
