"""An asynchronous storage provider for agent programs: ``ClaudeStorageProvider``."""

from __future__ import annotations

from turnlog.integrations.provider.chat_messages import ChatMessage
from turnlog.integrations.provider.protocols import (
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
from turnlog.integrations.provider.provider import ClaudeStorageProvider

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
