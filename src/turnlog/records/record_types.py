"""Records about the session itself (title, mode, links, origins), and the class of each type.

Claude Code appends them repeatedly; the last one of a type counts. They have no uuid and mostly no
timestamp, and equal lines are not duplicates. Types with a stable shape have a class of their own;
types known only by name become SessionRecord, with their content in ``fields``.
"""

from __future__ import annotations

# No string annotations here: msgspec would have to evaluate them at every start.
from typing import Any

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


class Format(Record, frozen=True, kw_only=True, tag="turnlog"):
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


# Types found in Claude Code's logs; their content is read through ``fields``.
STATE_TYPES = frozenset(
    {
        "agent-color",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attribution-snapshot",
        "continued-in",
        "cost-state",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "failed",  # This and the next three: workflow journals.
        "launched",
        "result",
        "started",
        "history-suppression",
        "isolation-latch",
        "memory-mode",
        "observer-ref",
        "repl-mode",
        "resume-head-vouch",
        "session-owner",
        "tool",  # Call and result in one, by imitators of Claude Code.
        "tools-used",
    }
)
# Groups of session records that share a prefix.
STATE_PREFIXES = ("marble-origami-",)


# Types whose lines can be decoded without detecting their dialect first.
CLAUDE_KINDS: tuple[type[Record], ...] = (
    AgentMetadata,
    AgentName,
    AiTitle,
    Assistant,
    Attachment,
    BridgeSession,
    ContentReplacement,
    CustomTitle,
    FileHistory,
    FileHistoryDelta,
    FileHistorySnapshot,
    ForkContextRef,
    Format,
    FrameLink,
    LastPrompt,
    Mode,
    PermissionMode,
    PrLink,
    Progress,
    QueueOperation,
    Relocated,
    Summary,
    System,
    Tag,
    User,
    WorktreeState,
)

_KINDS: tuple[type[Record], ...] = (*CLAUDE_KINDS, Call, Result, SystemInit)
KIND_BY_TYPE = {str(kind.__struct_config__.tag): kind for kind in _KINDS} | {"tool_call": Call}
