"""The parts of a storage provider, as protocols.

    async def remember(log: MessageLog, text: str) -> None: ...

`ClaudeStorageProvider` implements all of them (``StorageProvider``); a test or another store may
implement one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypedDict, Unpack, runtime_checkable

from msgspec import Struct

from turnlog.api.costs import Ledger, Unit
from turnlog.integrations.provider.chat_messages import ChatMessage
from turnlog.integrations.provider.messages import Selection
from turnlog.integrations.provider.writers import PathLike
from turnlog.keep.trash.delete import Deletion
from turnlog.sessions.side_files.prompts import Prompt


class Counts(Struct, frozen=True, kw_only=True):
    """Counts of a project or a session."""

    sessions: int
    messages: int
    """The number of messages that get_session_messages returns."""
    prompts: int
    calls: int


class SessionInfo(TypedDict):
    """A session in a list."""

    sessionId: str
    projectPath: str | None
    title: str | None
    startedAt: datetime | None
    lastActiveAt: datetime | None
    state: str
    gitBranch: str | None
    tag: str | None
    models: list[str]
    sizeBytes: int


@runtime_checkable
class MessageLog(Protocol):
    """Stores messages."""

    async def log_message(
        self,
        project_path: PathLike,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None = None,
    ) -> str:
        """Append a message to a session or subagent; return the message id."""
        ...


@runtime_checkable
class SessionReader(Protocol):
    """Lists sessions and reads messages."""

    async def get_sessions(self, project_path: PathLike) -> list[SessionInfo]:
        """Return the sessions of a project, most recently active first."""
        ...

    async def get_session_messages(
        self,
        project_path: PathLike,
        session_id: str,
        limit: int | None = None,
        *,
        agent_id: str | None = None,
        **selection: Unpack[Selection],
    ) -> list[ChatMessage]:
        """Return the last *limit* messages of a session or subagent, oldest first."""
        ...

    async def get_agents(self, project_path: PathLike, session_id: str) -> list[str]:
        """Return the ids of a session's subagents."""
        ...


@runtime_checkable
class MessageFinder(Protocol):
    """Finds messages by id."""

    async def get_message(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> ChatMessage:
        """Return a message from any log."""
        ...

    async def get_message_ancestry(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> list[ChatMessage]:
        """Return a message and its ancestors, oldest first."""
        ...


@runtime_checkable
class Conversations(Protocol):
    """Forks and deletes sessions."""

    async def fork_conversation(
        self,
        project_path: PathLike,
        session_id: str,
        message_id: str | None = None,
        *,
        new_session_id: str | None = None,
    ) -> str:
        """Copy a session up to a message, or all of it, into a new session; return its id."""
        ...

    async def reset(self, project_path: PathLike) -> list[Deletion]:
        """Move all sessions of a project to the trash."""
        ...


@runtime_checkable
class Statistics(Protocol):
    """Counts messages and usage."""

    async def get_counts(self, project_path: PathLike, session_id: str | None = None) -> Counts:
        """Return the number of messages of a project or a session."""
        ...

    async def get_statistics(
        self,
        project_path: PathLike,
        session_id: str | None = None,
        *,
        by: Iterable[Unit] = ("model",),
    ) -> Ledger:
        """Return tokens and cost of a project or a session."""
        ...


@runtime_checkable
class Commands(Protocol):
    """Stores the prompt history."""

    async def log_command(
        self, project_path: PathLike, command: str, session_id: str | None = None
    ) -> None:
        """Add a command or prompt to the history."""
        ...

    async def get_commands(
        self, project_path: PathLike, session_id: str | None = None, *, limit: int | None = None
    ) -> list[Prompt]:
        """Return the last *limit* commands and prompts, oldest first."""
        ...


@runtime_checkable
class StorageProvider(
    MessageLog, SessionReader, MessageFinder, Conversations, Statistics, Commands, Protocol
):
    """All of the above."""
