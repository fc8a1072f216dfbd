"""One good record of every kind that logs are known to hold, typed by hand.

The keys are the census's names: ``type``, or ``type/subtype``. Shapes are those of real logs, the
words and ids are this project's own.
"""

from __future__ import annotations

from typing import Any

SESSION = "7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b10"
AT = "2026-03-04T05:06:07.089Z"

_TREE = {
    "parentUuid": "b5a2c7d1-0000-4000-8000-000000000001",
    "isSidechain": False,
    "userType": "external",
    "cwd": "/srv/kites",
    "sessionId": SESSION,
    "version": "2.1.99",
    "gitBranch": "main",
    "uuid": "b5a2c7d1-0000-4000-8000-000000000002",
    "timestamp": AT,
}
_USAGE = {
    "input_tokens": 7,
    "output_tokens": 41,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 5000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    "service_tier": "standard",
    "inference_geo": "eu",
    "speed": "standard",
    "iterations": [{"input_tokens": 7, "output_tokens": 41, "type": "message"}],
    "output_tokens_details": {"thinking_tokens": 9},
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return _TREE | {"type": role, "message": {"role": role, "content": content}} | more


def answered(*blocks: Any, **more: Any) -> dict[str, Any]:
    message = {
        "id": "msg_01Kites",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(blocks),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": _USAGE,
    }
    return _TREE | {"type": "assistant", "message": message, "requestId": "req_01Kites"} | more


def system(subtype: str | None, **more: Any) -> dict[str, Any]:
    named = {} if subtype is None else {"subtype": subtype}
    return _TREE | {"type": "system", "level": "info", "isMeta": False} | named | more


def attached(kind: str, **more: Any) -> dict[str, Any]:
    return _TREE | {"type": "attachment", "attachment": {"type": kind} | more}


def progressed(kind: str, **more: Any) -> dict[str, Any]:
    ids = {"toolUseID": "toolu_01Wind", "parentToolUseID": "toolu_01Kite"}
    return _TREE | {"type": "progress", "data": {"type": kind} | more} | ids


def queued(operation: str | None, **more: Any) -> dict[str, Any]:
    named = {} if operation is None else {"operation": operation}
    return {"type": "queue-operation", "sessionId": SESSION, "timestamp": AT} | named | more


def state(name: str, **more: Any) -> dict[str, Any]:
    return {"type": name, **more, "sessionId": SESSION}


TEXT = {"type": "text", "text": "The kite needs a longer tail."}
THINKING = {"type": "thinking", "thinking": "Tails steady kites.", "signature": "c2ln"}
CALL = {"type": "tool_use", "id": "toolu_01Kite", "name": "Read", "input": {"path": "kite.txt"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_01Kite", "content": "red", "is_error": False}
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aVZCT1I="},
}
_HOOK = {"hookName": "PostToolUse:Edit", "hookEvent": "PostToolUse", "toolUseID": "toolu_01Kite"}
_RAN = {"stdout": "", "stderr": "", "exitCode": 0, "command": "fmt", "durationMs": 12}

CLAUDE: dict[str, dict[str, Any]] = {
    "user": said("user", "Why does the kite spin?", promptId="p1", permissionMode="default"),
    "user/blocks": said("user", [TEXT, PICTURE, {"type": "document", "source": {"type": "text"}}]),
    "user/result": said(
        "user", [RESULT], toolUseResult={"stdout": "red", "stderr": "", "interrupted": False}
    ),
    "user/result-string": said("user", [RESULT], toolUseResult="Error: no wind"),
    "user/result-array": said("user", [RESULT], toolUseResult=[{"type": "text", "text": "red"}]),
    "user/compact-summary": said(
        "user", "We built a kite.", isCompactSummary=True, isVisibleInTranscriptOnly=True
    ),
    "assistant": answered(TEXT),
    "assistant/thinking": answered(THINKING),
    "assistant/call": answered(CALL),
    "assistant/several": answered(
        THINKING, TEXT, {"type": "redacted_thinking", "data": "eHh4"}, CALL
    ),
    "assistant/synthetic": answered(
        {"type": "text", "text": "API Error"}, isApiErrorMessage=True, error="rate_limit"
    ),
    "system": system(None, content="Compacting", toolUseID="toolu_01Kite"),
    "system/message": system(None, message={"role": "system", "content": "You fly kites."}),
    "system/turn_duration": system("turn_duration", durationMs=8123, messageCount=4),
    "system/stop_hook_summary": system(
        "stop_hook_summary",
        hookCount=1,
        hookInfos=[{"command": "fmt"}],
        hookErrors=[],
        preventedContinuation=False,
        stopReason="",
        hasOutput=True,
        toolUseID="toolu_01Kite",
    ),
    "system/away_summary": system("away_summary", content="The tail was made longer."),
    "system/local_command": system("local_command", content="<command-name>/cost</command-name>"),
    "system/api_error": system(
        "api_error",
        error={"status": 529},
        cause={"code": "ECONNRESET"},
        retryInMs=512.25,
        retryAttempt=1,
        maxRetries=10,
    ),
    "system/compact_boundary": system(
        "compact_boundary",
        parentUuid=None,
        logicalParentUuid="b5a2c7d1-0000-4000-8000-000000000001",
        content="Conversation compacted",
        compactMetadata={"trigger": "auto", "preTokens": 155000},
    ),
    "system/microcompact_boundary": system(
        "microcompact_boundary", microcompactMetadata={"trigger": "auto", "tokensSaved": 900}
    ),
    "system/informational": system("informational", content="A newer version is here."),
    "system/bridge_status": system("bridge_status", content="connected", url="https://kite.test/b"),
    "system/ui_telemetry": system("ui_telemetry", systemPayload={"clicks": 3}),
    "system/attribution_snapshot": system("attribution_snapshot", systemPayload={"files": {}}),
    "summary": {
        "type": "summary",
        "summary": "A kite that spins",
        "leafUuid": "b5a2c7d1-0000-4000-8000-000000000002",
    },
    "summary/older": {
        "type": "summary",
        "sessionId": SESSION,
        "timestamp": AT,
        "content": {"summary": "A kite that spun", "messageCount": 10, "summarizedUntil": "m-9"},
    },
    "file-history": {
        "type": "file-history",
        "sessionId": SESSION,
        "timestamp": AT,
        "path": "/srv/kites/tail.md",
        "operation": "edit",
        "snippet": "+ ribbon",
    },
    "file-history-snapshot": {
        "type": "file-history-snapshot",
        "messageId": "b5a2c7d1-0000-4000-8000-000000000002",
        "snapshot": {
            "messageId": "b5a2c7d1-0000-4000-8000-000000000002",
            "trackedFileBackups": {"tail.md": {"backupFileName": "9f@v1", "version": 1}},
            "timestamp": AT,
        },
        "isSnapshotUpdate": False,
    },
    "file-history-delta": {
        "type": "file-history-delta",
        "messageId": "m-2",
        "snapshotMessageId": "m-1",
        "trackingPath": "tail.md",
        "backup": {"backupFileName": "9f@v2", "version": 2},
        "timestamp": AT,
    },
    "queue-operation/enqueue": queued("enqueue", content="and paint it blue"),
    "queue-operation/dequeue": queued("dequeue"),
    "queue-operation/remove": queued("remove", content="and paint it blue"),
    "queue-operation/popAll": queued("popAll", content="all of it"),
    "queue-operation/none": queued(None, uuid="q-1"),
    "last-prompt": state("last-prompt", lastPrompt="paint it", leafUuid="m-2"),
    "permission-mode": state("permission-mode", permissionMode="plan"),
    "ai-title": state("ai-title", aiTitle="Kite trouble"),
    "custom-title": state("custom-title", customTitle="Kites"),
    "mode": state("mode", mode="normal"),
    "tag": state("tag", tag="toys"),
    "bridge-session": state("bridge-session", bridgeSessionId="br_1", lastSequenceNum=4),
    "agent-name": state("agent-name", agentName="sailmaker"),
    "agent_metadata": state("agent_metadata", agentType="Plan", description="plan the tail"),
    "pr-link": state(
        "pr-link",
        prNumber=12,
        prUrl="https://kite.test/pr/12",
        prRepository="kites/tail",
        timestamp=AT,
    ),
    "frame-link": state(
        "frame-link", path="tail.svg", frameUrl="https://kite.test/f", title="Tail", timestamp=AT
    ),
    "worktree-state": state("worktree-state", worktreeSession={"path": "/srv/kites-2"}),
    "fork-context-ref": {
        "type": "fork-context-ref",
        "agentId": "a1b2c3d",
        "parentSessionId": SESSION,
        "parentLastUuid": "m-2",
        "contextLength": 812,
    },
    "content-replacement": state("content-replacement", replacements=[{"uuid": "m-2"}]),
    "relocated": state("relocated", relocatedCwd="/srv/kites-2"),
    "turnlog": {"type": "turnlog", "format": 1, "writer": "turnlog 0.1"},
    "progress/bash_progress": progressed(
        "bash_progress", output="1", fullOutput="1", elapsedTimeSeconds=3, totalLines=1
    ),
    "progress/hook_progress": progressed("hook_progress", command="fmt", **_HOOK),
    "progress/agent_progress": progressed(
        "agent_progress",
        message={"type": "assistant", "message": {"role": "assistant", "content": [TEXT]}},
        normalizedMessages=[],
        prompt="sew",
        agentId="a1b2c3d",
    ),
    "progress/mcp_progress": progressed(
        "mcp_progress", status="started", serverName="wind", toolName="gust"
    ),
    "progress/waiting_for_task": progressed(
        "waiting_for_task", taskDescription="sewing", taskType="local_agent"
    ),
    "progress/query_update": progressed("query_update", query="kite tails"),
    "progress/search_results_received": progressed(
        "search_results_received", query="kite tails", resultCount=9
    ),
    "progress/skill_progress": progressed("skill_progress", skill="knots"),
    "progress/task_progress": progressed("task_progress", done=1),
    "progress/tool_progress": progressed("tool_progress", done=1),
    "progress/none": {"type": "progress", "uuid": "m-3", "content": "…", "timestamp": AT},
}

ATTACHMENTS: dict[str, dict[str, Any]] = {
    "agent_listing_delta": {"addedTypes": ["Plan"], "addedLines": [], "isInitial": True},
    "async_hook_response": {"processId": "9", "response": {}, "hookEvent": "Stop", "exitCode": 0},
    "auto_mode": {"reminderType": "full"},
    "auto_mode_exit": {},
    "bash_output_audience_note": {"text": "seen by the model"},
    "batching_reminder_sent": {},
    "command_permissions": {"allowedTools": ["Read"]},
    "compact_file_reference": {"filename": "/srv/kites/tail.md", "displayPath": "tail.md"},
    "date_change": {"newDate": "2026-03-05"},
    "deferred_tools_delta": {"addedNames": ["gust"], "addedLines": [], "removedNames": []},
    "diagnostics": {"files": [], "isNew": True},
    "directory": {"path": "/srv/kites", "content": "tail.md", "displayPath": "."},
    "edited_text_file": {"filename": "tail.md", "snippet": "1 ribbon"},
    "file": {"filename": "tail.md", "content": {"type": "text"}, "displayPath": "tail.md"},
    "goal_status": {"met": False, "condition": "it flies", "reason": "no wind"},
    "hook_additional_context": {"content": ["mind the trees"], **_HOOK},
    "hook_blocking_error": {"blockingError": {"blockingError": "no"}, **_HOOK},
    "hook_cancelled": {"timedOut": True, "timeoutMs": 60000, **_HOOK},
    "hook_non_blocking_error": {**_HOOK, **_RAN},
    "hook_success": {"content": "", **_HOOK, **_RAN},
    "hook_system_message": {"content": "done", **_HOOK},
    "invoked_skills": {"skills": [{"name": "knots"}]},
    "mcp_instructions_delta": {"addedNames": ["wind"], "addedBlocks": ["# wind"]},
    "nested_memory": {"path": "/srv/kites/CLAUDE.md", "content": {}, "displayPath": "CLAUDE.md"},
    "opened_file_in_ide": {"filename": "tail.md"},
    "plan_mode": {"reminderType": "full", "isSubAgent": False, "planExists": False},
    "plan_mode_exit": {"planFilePath": "/srv/plan.md", "planExists": True},
    "plan_mode_reentry": {"planFilePath": "/srv/plan.md"},
    "prompt_snapshot": {"prompt": "paint it"},
    "queued_command": {"prompt": "paint it", "commandMode": "prompt", "timestamp": AT},
    "read_truncation_notice": {"banner": "cut", "toolUseID": "toolu_01Kite"},
    "selected_lines_in_ide": {"ideName": "ed", "lineStart": 1, "lineEnd": 2, "content": "ribbon"},
    "silent_turn_reminder": {"text": "say something"},
    "skill_listing": {"content": "- knots", "skillCount": 1, "isInitial": True},
    "task_reminder": {"content": [], "itemCount": 0},
    "task_status": {"taskId": "t1", "status": "completed"},
    "todo_reminder": {"content": [], "itemCount": 0},
    "total_tokens_reminder": {"text": "5000 left"},
    "ultra_effort_enter": {"reminderType": "full"},
    "ultrathink_effort": {},
}
CLAUDE |= {f"attachment/{kind}": attached(kind, **more) for kind, more in ATTACHMENTS.items()}

# Known by name; nobody promises their shape.
STATES = (
    "agent-color",
    "agent-setting",
    "artifact-autoreact-ledger",
    "artifact-comment-monitor",
    "atis-latch",
    "attribution-snapshot",
    "continued-in",
    "cost-state",
    "ended-by-model",
    "failed",
    "history-suppression",
    "isolation-latch",
    "launched",
    "marble-origami-commit",
    "observer-ref",
    "repl-mode",
    "result",
    "started",
    "tool",
)
CLAUDE |= {name: state(name, key="k-1", agentId="a1b2c3d") for name in STATES}

ORCHESTRATOR: dict[str, dict[str, Any]] = {
    "user": {
        "type": "user",
        "content": "Check the spars.",
        "timestamp": AT,
        "metadata": {"source": "cli", "sessionId": SESSION},
    },
    "assistant": {
        "type": "assistant",
        "content": "Both are straight.",
        "timestamp": AT,
        "usage": {
            "input_tokens": 20,
            "output_tokens": 8,
            "cache_creation_tokens": 3,
            "cache_read_tokens": 4,
        },
        "model": "claude-sonnet-4-5-20250929",
        "stopReason": "end_turn",
    },
    "tool_call": {
        "type": "tool_call",
        "tool": "Read",
        "arguments": {"file_path": "/srv/kites/spar.txt"},
        "timestamp": AT,
        "toolCallId": "call_7",
    },
    "tool_result": {
        "type": "tool_result",
        "tool": "Read",
        "result": "bamboo",
        "timestamp": AT,
        "duration_ms": 31,
        "toolCallId": "call_7",
    },
    "tool_result/error": {
        "type": "tool_result",
        "tool": "Read",
        "error": "no such spar",
        "timestamp": AT,
        "duration_ms": 2,
        "toolCallId": "call_7",
    },
}

FLAT: dict[str, dict[str, Any]] = {
    "system_init": {
        "type": "system_init",
        "timestamp": 1772600000000,
        "cwd": "/srv/kites",
        "model": "claude-sonnet-4-6",
    },
    "user": {"type": "user", "uuid": "f-1", "content": [TEXT], "timestamp": 1772600001000},
    "assistant": {
        "type": "assistant",
        "uuid": "f-2",
        "content": [TEXT],
        "thinking": {"thinking": "Longer, then.", "signature": "c2ln"},
        "timestamp": 1772600002000,
        "usage": {"input_tokens": 11, "output_tokens": 12},
    },
    "tool_use": {
        "type": "tool_use",
        "uuid": "call-1",
        "name": "Bash",
        "input": {"command": "ls"},
        "timestamp": 1772600003000,
    },
    "tool_result": {
        "type": "tool_result",
        "tool_use_id": "call-1",
        "content": "tail.md",
        "is_error": False,
        "timestamp": 1772600004000,
    },
}
