"""Records about the session itself (title, mode, links, origins), and the class of each type.

Claude Code appends them repeatedly; the last one of a type counts. They have no uuid and mostly no
timestamp, and equal lines are not duplicates. Types with a stable shape have a class of their own;
types known only by name become SessionRecord, with their content in ``fields``.

``breaches`` checks the required fields of each type, for strict validation. Real logs break most
rules somewhere, so these never keep a record from being read. The rules are Claude Code's as
observed, the orchestrator's and the flat store's as specified.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import field

from turnlog.records.record import (
    Assistant,
    Attachment,
    Call,
    FileHistory,
    FileHistoryDelta,
    FileHistorySnapshot,
    Linked,
    Progress,
    QueueOperation,
    Record,
    Result,
    Summary,
    System,
    SystemInit,
    User,
)

# No string annotations here: msgspec would have to evaluate them at every start.


class CustomTitle(Record, frozen=True, kw_only=True, tag="custom-title"):
    custom_title: str | None = None


class AiTitle(Record, frozen=True, kw_only=True, tag="ai-title"):
    ai_title: str | None = None


class Tag(Record, frozen=True, kw_only=True, tag="tag"):
    """The session's tag; an empty one clears it."""

    tag: str | None = None


class LastPrompt(Record, frozen=True, kw_only=True, tag="last-prompt"):
    last_prompt: str | None = None
    leaf_uuid: str | None = None


class Mode(Record, frozen=True, kw_only=True, tag="mode"):
    mode: str | None = None


class PermissionMode(Record, frozen=True, kw_only=True, tag="permission-mode"):
    permission_mode: str | None = None


class AgentName(Record, frozen=True, kw_only=True, tag="agent-name"):
    agent_name: str | None = None


class AgentMetadata(Record, frozen=True, kw_only=True, tag="agent_metadata"):
    """The content of ``agent-ID.meta.json``, as the SDK mirrors it into a log."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_agent_id: str | None = None
    worktree_path: str | None = None


class PrLink(Record, frozen=True, kw_only=True, tag="pr-link"):
    pr_number: int | None = None
    pr_url: str | None = None
    pr_repository: str | None = None


class FrameLink(Record, frozen=True, kw_only=True, tag="frame-link"):
    path: str | None = None
    frame_url: str | None = None
    title: str | None = None


class WorktreeState(Record, frozen=True, kw_only=True, tag="worktree-state"):
    worktree_session: Any = None


class BridgeSession(Record, frozen=True, kw_only=True, tag="bridge-session"):
    bridge_session_id: str | None = None
    last_sequence_num: int | None = None


class ForkContextRef(Record, frozen=True, kw_only=True, tag="fork-context-ref"):
    agent_id: str | None = None
    parent_session_id: str | None = None
    parent_last_uuid: str | None = None
    context_length: int | None = None


class ContentReplacement(Record, frozen=True, kw_only=True, tag="content-replacement"):
    replacements: Any = None


class Relocated(Record, frozen=True, kw_only=True, tag="relocated"):
    """The session continued in another directory."""

    relocated_cwd: str | None = None


class Marker(Record, frozen=True, kw_only=True, tag="turnlog"):
    """turnlog's own record: the head of a log, or an event in it; see docs/log-format.md."""

    format: int | None = None
    writer: str | None = None
    event: str | None = None
    continued: bool | None = None
    """The session continues from the previous day's log."""
    process: Any = None
    cwd: str | None = None
    git_commit: str | None = None


class SessionRecord(Linked, frozen=True, kw_only=True):
    """A record of a known type without a stable shape."""

    wire_type: str = field(default="", name="(type)")

    @property
    def type(self) -> str:
        return self.wire_type


# Types found in Claude Code's logs and workflow journals (``tool`` is by imitators) and in Codex's.
# Their content is read through ``fields``.
STATE_TYPES = {
    "agent-color", "agent-setting", "api-request", "api-request-blob", "api-request-shape",
    "artifact-autoreact-ledger", "artifact-comment-monitor", "atis-latch", "attribution-snapshot",
    "continued-in", "cost-state", "data-flow-incomplete", "data-flow-records", "derived-from",
    "dev-mods", "ended-by-model", "failed", "launched", "result", "started",
    "history-suppression", "isolation-latch", "memory-mode", "observer-ref", "repl-mode",
    "resume-head-vouch", "session-owner", "tool", "tools-used",
    # Codex's: what is only for the program, and the copies of texts that are in other lines.
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "compaction",
    "context_compacted", "context_compaction", "entered_review_mode", "exec_command_end",
    "exited_review_mode", "image_generation_end", "inter_agent_communication_metadata",
    "item_completed", "mcp_tool_call_end", "message", "patch_apply_end", "reasoning",
    "security_risk_score", "task_started", "thread_goal_updated", "thread_settings_applied",
    "token_count", "token_usage_record", "turn_started", "web_search_end", "world_state",
}  # fmt: skip
# Groups of session records that share a prefix.
STATE_PREFIXES = (
    "marble-origami-",
    # Copilot CLI's events without text.
    *("assistant.turn_", "hook.", "permission.", "session.", "system.", "tool.execution_"),
)


# Types whose lines can be decoded without detecting their dialect first.
CLAUDE_KINDS: tuple[type[Record], ...] = (
    AgentMetadata, AgentName, AiTitle, Assistant, Attachment, BridgeSession, ContentReplacement,
    CustomTitle, FileHistory, FileHistoryDelta, FileHistorySnapshot, ForkContextRef, Marker,
    FrameLink, LastPrompt, Mode, PermissionMode, PrLink, Progress, QueueOperation, Relocated,
    Summary, System, Tag, User, WorktreeState,
)  # fmt: skip
_KINDS: tuple[type[Record], ...] = (*CLAUDE_KINDS, Call, Result, SystemInit)
KIND_BY_TYPE = {str(kind.__struct_config__.tag): kind for kind in _KINDS} | {"tool_call": Call}


# Required fields by dialect and type; alternatives are separated by a bar.
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
        *("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"),
    ),
}
STOP_REASONS: Final = (
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal",
    "model_context_window_exceeded", None,
)  # fmt: skip
SOURCES: Final = ("cli", "api", "agent", None)


def breaches(record: Record) -> Iterator[str]:
    """Yield every rule of its type that *record* breaks."""
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
        yield f"{record.type} with an invalid timestamp: {record.timestamp!r}"
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
