"""Required fields of each record type, for strict validation.

Real logs break most rules somewhere, so these never keep a record from being read. The rules are
Claude Code's as observed, the orchestrator's and the flat store's as specified.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from turnlog.records.record import Assistant, Record, User

# Required fields by dialect and type.
REQUIRED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("claude", "user"): ("uuid", "sessionId", "timestamp", "message"),
    ("claude", "assistant"): ("uuid", "sessionId", "timestamp", "message"),
    ("claude", "system"): ("sessionId", "timestamp"),
    ("claude", "attachment"): ("uuid", "sessionId", "timestamp", "attachment"),
    ("claude", "progress"): ("uuid", "sessionId", "timestamp", "data"),
    ("claude", "summary"): ("summary|content",),
    ("claude", "queue-operation"): ("operation", "sessionId", "timestamp"),
    ("claude", "file-history"): ("path", "operation", "sessionId", "timestamp"),
    ("claude", "file-history-snapshot"): ("messageId", "snapshot"),
    ("claude", "file-history-delta"): ("messageId", "snapshotMessageId", "trackingPath"),
    ("claude", "custom-title"): ("customTitle", "sessionId"),
    ("claude", "ai-title"): ("aiTitle", "sessionId"),
    ("claude", "tag"): ("tag", "sessionId"),
    ("claude", "last-prompt"): ("sessionId",),
    ("claude", "mode"): ("mode", "sessionId"),
    ("claude", "permission-mode"): ("permissionMode", "sessionId"),
    ("claude", "agent-name"): ("agentName", "sessionId"),
    ("claude", "pr-link"): ("prNumber", "prUrl", "sessionId"),
    ("claude", "worktree-state"): ("worktreeSession", "sessionId"),
    ("claude", "turnlog"): ("format|event",),
    ("orchestrator", "user"): ("content", "timestamp"),
    ("orchestrator", "assistant"): ("content", "timestamp", "usage|inputTokens", "model"),
    ("orchestrator", "tool_call"): ("tool|toolName", "arguments|toolInput", "timestamp"),
    ("orchestrator", "tool_result"): ("tool|toolName", "result|error|output", "timestamp"),
    ("flat", "system_init"): ("timestamp", "cwd", "model"),
    ("flat", "user"): ("uuid", "content", "timestamp"),
    ("flat", "assistant"): ("uuid", "content", "timestamp"),
    ("flat", "tool_use"): ("uuid|id", "name", "input", "timestamp"),
    ("flat", "tool_result"): ("tool_use_id", "content", "timestamp"),
}

# Fields with a closed set of values. None means absent or null.
ENUMERATED: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("queue-operation", "operation"): ("enqueue", "dequeue", "remove", "popAll"),
    ("file-history", "operation"): ("edit", "create", "delete"),
    ("system", "level"): ("info", "warning", "error", "suggestion", None),
    ("permission-mode", "permissionMode"): (
        "acceptEdits",
        "auto",
        "bypassPermissions",
        "default",
        "dontAsk",
        "plan",
    ),
}
STOP_REASONS: Final = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    None,
)
SOURCES: Final = ("cli", "api", "agent", None)


def breaches(record: Record) -> Iterator[str]:
    """Return every rule of its type that *record* breaks."""
    fields = record.fields
    for wanted in REQUIRED.get((record.dialect, record.type), ()):
        if not any(name in fields for name in wanted.split("|")):
            yield f"{record.type} without {wanted.replace('|', ' or ')}"
    for (kind, name), allowed in ENUMERATED.items():
        if record.type == kind and fields.get(name) not in allowed:
            yield f"{kind} with {name} {fields.get(name)!r}"
    for name in record.odd:
        if not name.startswith("("):
            yield f"{record.type} whose {name} has an unexpected shape"
    if record.timestamp is not None and record.at is None:
        yield f"{record.type} with a timestamp that is no instant: {record.timestamp!r}"
    yield from _of_speaker(record, fields)


def _of_speaker(record: Record, fields: dict[str, Any]) -> Iterator[str]:
    message = record.message if isinstance(record, User | Assistant) else None
    if message and message.stop_reason not in STOP_REASONS:
        yield f"{record.type} with stop reason {message.stop_reason!r}"
    if message and record.dialect == "claude" and message.role != record.type:
        yield f"{record.type} whose message has role {message.role!r}"
    if record.dialect == "orchestrator" and isinstance(record, User):
        metadata = fields.get("metadata")
        if isinstance(metadata, dict) and metadata.get("source") not in SOURCES:
            yield f"user with source {metadata.get('source')!r}"
    if record.dialect == "orchestrator" and "result" in fields and "error" in fields:
        yield "tool_result with both result and error"
