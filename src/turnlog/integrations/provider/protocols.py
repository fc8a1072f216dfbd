"""What a provider can do, in pieces: whoever needs one piece asks for that one only.

    async def remember(log: MessageLog, words: str) -> None: ...

`ClaudeStorageProvider` has all of them; a test, or a program with a storage of its own, may have
one. ``StorageProvider`` is the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypedDict, Unpack, runtime_checkable

from turnlog.api.costs import Ledger, Unit
from turnlog.integrations.provider.chat_messages import ChatMessage
from turnlog.integrations.provider.messages import Selection
from turnlog.integrations.provider.places import PathLike
from turnlog.integrations.provider.statistics import Counts
from turnlog.keep.trash.delete import Deletion
from turnlog.sessions.side_files.prompts import Prompt


class SessionInfo(TypedDict):
    """One session in a list."""

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
    """Keeps messages."""

    async def log_message(
        self,
        project_path: PathLike,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None = None,
    ) -> str:
        """Append a message to a session, or to one of its agents; give the message's id."""
        ...


@runtime_checkable
class SessionReader(Protocol):
    """Lists sessions and reads their messages."""

    async def get_sessions(self, project_path: PathLike) -> list[SessionInfo]:
        """List a project's sessions, the one that was active last first."""
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
        """Return the last *limit* messages of a session or one of its agents, oldest first."""
        ...

    async def get_agents(self, project_path: PathLike, session_id: str) -> list[str]:
        """List the ids of a session's agents."""
        ...


@runtime_checkable
class MessageFinder(Protocol):
    """Finds messages by their ids."""

    async def get_message(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> ChatMessage:
        """Return one message, of an agent's log too."""
        ...

    async def get_message_ancestry(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> list[ChatMessage]:
        """Return the messages that lead to one, from the very first; itself is the last."""
        ...


@runtime_checkable
class Conversations(Protocol):
    """Forks sessions, and forgets them."""

    async def fork_conversation(
        self,
        project_path: PathLike,
        session_id: str,
        message_id: str | None = None,
        *,
        new_session_id: str | None = None,
    ) -> str:
        """Begin a new session as another stood at a message, or at its end; give its id."""
        ...

    async def reset(self, project_path: PathLike) -> list[Deletion]:
        """Move all sessions of a project to the trash."""
        ...


@runtime_checkable
class Statistics(Protocol):
    """Counts what was said and used."""

    async def get_counts(self, project_path: PathLike, session_id: str | None = None) -> Counts:
        """Count the messages of a project or a session."""
        ...

    async def get_statistics(
        self,
        project_path: PathLike,
        session_id: str | None = None,
        *,
        by: Iterable[Unit] = ("model",),
    ) -> Ledger:
        """Account for the tokens of a project or a session, and what they cost."""
        ...


@runtime_checkable
class Commands(Protocol):
    """Keeps what people typed."""

    async def log_command(
        self, project_path: PathLike, command: str, session_id: str | None = None
    ) -> None:
        """Add to the history what somebody typed."""
        ...

    async def get_commands(
        self, project_path: PathLike, session_id: str | None = None, *, limit: int | None = None
    ) -> list[Prompt]:
        """Return the last *limit* commands and prompts that were typed, oldest first."""
        ...


@runtime_checkable
class StorageProvider(
    MessageLog, SessionReader, MessageFinder, Conversations, Statistics, Commands, Protocol
):
    """All of it."""
