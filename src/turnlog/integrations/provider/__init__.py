"""An asynchronous storage provider for agent programs: ``ClaudeStorageProvider``."""

from __future__ import annotations

from turnlog.integrations.provider.provider import (
    ChatMessage,
    ClaudeStorageProvider,
    Commands,
    Conversations,
    Counts,
    MessageFinder,
    MessageLog,
    SessionInfo,
    SessionReader,
    Statistics,
    StorageProvider,
)

__all__ = [
    "ChatMessage",
    "ClaudeStorageProvider",
    "Commands",
    "Conversations",
    "Counts",
    "MessageFinder",
    "MessageLog",
    "SessionInfo",
    "SessionReader",
    "Statistics",
    "StorageProvider",
]
