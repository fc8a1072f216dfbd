"""Which class a type on the wire becomes."""

from __future__ import annotations

from turnlog.records.record import (
    Assistant,
    Attachment,
    Call,
    FileHistory,
    FileHistoryDelta,
    FileHistorySnapshot,
    Progress,
    QueueOperation,
    Record,
    Result,
    Summary,
    System,
    SystemInit,
    User,
)
from turnlog.records.state import (
    AgentMetadata,
    AgentName,
    AiTitle,
    BridgeSession,
    ContentReplacement,
    CustomTitle,
    ForkContextRef,
    Format,
    FrameLink,
    LastPrompt,
    Mode,
    PermissionMode,
    PrLink,
    Relocated,
    Tag,
    WorktreeState,
)

# Types whose every line can be decoded without looking at its dialect first.
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
