"""A storage for agent programs: log messages, list sessions, read them again, asynchronously.

    provider = ClaudeStorageProvider(base_dir="~/.claude")
    await provider.log_message(project, ChatMessage(role="user", content="Hello"), session_id)

What it stores are ordinary sessions in Claude Code's own layout, which that program resumes and all
of turnlog reads. A message that was logged is durable when the call returns, and stands behind the
last one at that moment, whoever wrote that. Logging it again changes nothing, so a call whose
outcome is unknown may be repeated.

The work is done by the synchronous core in a thread, on asyncio and trio alike. A call that is
cancelled in the middle still finishes what it began.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from turnlog.adapters.chat_messages import ChatMessage
from turnlog.adapters.provider_commands import commands_of, log_command
from turnlog.adapters.provider_places import (
    PathLike,
    Project,
    agents_of,
    check_ids,
    find_log,
    home_at,
    project_in,
    sessions_in,
)
from turnlog.adapters.provider_protocols import (
    Commands,
    Conversations,
    MessageFinder,
    MessageLog,
    SessionInfo,
    SessionReader,
    Statistics,
    StorageProvider,
)
from turnlog.adapters.provider_reading import (
    Selection,
    ancestry_of,
    check_limit,
    filter_of,
    find_message,
    forkable,
    last_messages,
)
from turnlog.adapters.provider_resetting import reset
from turnlog.adapters.provider_statistics import Counts, counts_of, statistics_of
from turnlog.adapters.provider_writers import OPEN_LOGS, Writers
from turnlog.adapters.threads import settled
from turnlog.catalog.sessions import SessionRow
from turnlog.costs.ledger import Ledger, Unit
from turnlog.errors import UsageError
from turnlog.formats import same_project_key
from turnlog.keep.trash.delete import Deletion
from turnlog.sessions.side_files.prompts import Prompt
from turnlog.sessions.writing import build
from turnlog.sessions.writing.fork import fork
from turnlog.store import Store

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

_BY_MODEL: Final[tuple[Unit, ...]] = ("model",)


class ClaudeStorageProvider(StorageProvider):
    """The sessions of one home. *base_dir* is written to, since the caller named it.

    At most *open_logs* logs are kept open between messages. Close it, or use it with ``async
    with``, to say that the sessions ended well; the end of the program does so, too.
    """

    def __init__(self, base_dir: PathLike = "~/.claude", *, open_logs: int = OPEN_LOGS) -> None:
        self._home = home_at(base_dir)
        self._writers = Writers(open_logs)

    # -- MessageLog ---------------------------------------------------------------------------

    async def log_message(
        self,
        project_path: PathLike,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None = None,
    ) -> str:
        """Append a message to a session, which begins with its first; give the message's id.

        With *agent_id* it goes to the log of that agent, who gets a list of todos, too. The main
        agent's id is the session's own. Without a parent it follows the last message.
        """
        return await settled(self._log_message, project_path, message, session_id, agent_id)

    # -- SessionReader ------------------------------------------------------------------------

    async def get_sessions(self, project_path: PathLike) -> list[SessionInfo]:
        """List a project's sessions, the one that was active last first."""
        rows = await settled(lambda: sessions_in(self._project(project_path)))
        return [_info(row) for row in rows]

    async def get_session_messages(
        self,
        project_path: PathLike,
        session_id: str,
        limit: int | None = None,
        *,
        agent_id: str | None = None,
        **selection: Unpack[Selection],
    ) -> list[ChatMessage]:
        """Give the last *limit* messages of a session or one of its agents, oldest first.

        *selection* tells which are counted and given: ``types``, ``since``, ``until``,
        ``with_tools``, ``with_system``.
        """
        last, only = check_limit(limit), filter_of(selection)
        return await settled(
            lambda: last_messages(
                find_log(self._project(project_path), session_id, agent_id), only, last
            )
        )

    async def get_agents(self, project_path: PathLike, session_id: str) -> list[str]:
        """List the ids of a session's agents."""
        return await settled(lambda: agents_of(self._project(project_path), session_id))

    # -- MessageFinder ------------------------------------------------------------------------

    async def get_message(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> ChatMessage:
        """Give one message by its uuid, of an agent's log too."""
        return await settled(
            lambda: find_message(self._project(project_path), message_id, session_id)
        )

    async def get_message_ancestry(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> list[ChatMessage]:
        """Give the messages that lead to one, from the very first; itself is the last."""
        return await settled(
            lambda: ancestry_of(self._project(project_path), message_id, session_id)
        )

    # -- Conversations ------------------------------------------------------------------------

    async def fork_conversation(
        self,
        project_path: PathLike,
        session_id: str,
        message_id: str | None = None,
        *,
        new_session_id: str | None = None,
    ) -> str:
        """Begin a new session as another stood at a message, or at its end; give its id.

        The copies have uuids of their own. The old session is not touched.
        """
        return await settled(self._fork, project_path, session_id, message_id, new_session_id)

    async def reset(self, project_path: PathLike) -> list[Deletion]:
        """Move all sessions of a project to the trash; if one of them runs elsewhere, none goes.

        Those that this provider has open are closed first.
        """
        return await settled(self._reset, project_path)

    # -- Statistics ---------------------------------------------------------------------------

    async def get_counts(self, project_path: PathLike, session_id: str | None = None) -> Counts:
        """Count the messages, prompts and calls of a project or a session."""
        return await settled(lambda: counts_of(self._project(project_path), session_id))

    async def get_statistics(
        self,
        project_path: PathLike,
        session_id: str | None = None,
        *,
        by: Iterable[Unit] = _BY_MODEL,
    ) -> Ledger:
        """Account for tokens and costs as `turnlog cost` does, agents included.

        ``totals`` are those of the project or the session; ``rows`` are grouped *by* hour, day,
        week, month (in UTC), session, project, model or agent.
        """
        return await settled(lambda: statistics_of(self._project(project_path), session_id, by))

    # -- Commands -----------------------------------------------------------------------------

    async def log_command(
        self, project_path: PathLike, command: str, session_id: str | None = None
    ) -> None:
        """Add to the home's history what somebody typed."""
        await settled(lambda: log_command(self._project(project_path), command, session_id))

    async def get_commands(
        self, project_path: PathLike, session_id: str | None = None, *, limit: int | None = None
    ) -> list[Prompt]:
        """Give the last *limit* commands and prompts typed in a project, oldest first."""
        last = check_limit(limit)
        return await settled(lambda: commands_of(self._project(project_path), session_id, last))

    # -- its own life -------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close what is open, saying goodbye in each log. Further calls open them again."""
        await settled(self._writers.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"ClaudeStorageProvider({str(self._home.path)!r})"

    # -- the synchronous side -----------------------------------------------------------------

    def _project(self, project_path: PathLike) -> Project:
        return project_in(self._home, project_path)

    def _log_message(
        self,
        project_path: PathLike,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None,
    ) -> str:
        if not isinstance(message, ChatMessage):
            raise UsageError(
                f"a {type(message).__name__} is no message",
                hint='give a ChatMessage, such as ChatMessage(role="user", content="Hello")',
            )
        said = _record_to_log(message, session_id, check_ids(session_id, agent_id))
        self._writers.append(self._project(project_path), session_id, agent_id, said)
        return message.id

    def _fork(
        self,
        project_path: PathLike,
        session_id: str,
        message_id: str | None,
        new_session_id: str | None,
    ) -> str:
        project = self._project(project_path)
        if new_session_id is not None:
            check_ids(new_session_id)
        session, at = forkable(project, session_id, message_id)
        store = Store((self._home,), self._home.path)
        with store.create(project=project.directory, session_id=new_session_id) as writer:
            fork(session, writer, at)
        return writer.session_id

    def _reset(self, project_path: PathLike) -> list[Deletion]:
        project = self._project(project_path)
        self._writers.release(
            lambda directory: same_project_key(self._project(directory).key, project.key)
        )
        return reset(project)


def _record_to_log(message: ChatMessage, session_id: str, agent_id: str | None) -> dict[str, Any]:
    """Give the record that says *message*, without the place that it gets in its log."""
    if message.session_id is not None and message.session_id != session_id:
        raise UsageError(
            f"a message of session {message.session_id[:80]} is logged for session {session_id}",
            hint="leave the message's session_id out, or fork the other session",
        )
    if message.agent_id is not None and message.agent_id != agent_id:
        raise UsageError(
            f"a message of agent {message.agent_id[:80]} is logged for "
            f"{agent_id or 'the main agent'}",
            hint="leave the message's agent_id out, or log it for that agent",
        )
    said = message.to_record()
    if said.get("parentUuid", "") is None:
        del said["parentUuid"]
    if message.role == "assistant" and isinstance(said["message"], dict):
        # Records without an id would be taken for parts of one response.
        said["message"] = {"id": f"msg_{message.id}", "type": "message"} | said["message"]
    elif message.role == "system" and "message" not in said:
        defaults = build.system("")
        said = {key: defaults[key] for key in ("subtype", "level")} | said
    return said


def _info(row: SessionRow) -> SessionInfo:
    return SessionInfo(
        sessionId=row.id,
        projectPath=row.project,
        title=row.title,
        startedAt=row.started_at,
        lastActiveAt=row.last_active_at,
        state=str(row.state),
        gitBranch=row.git_branch,
        tag=row.tag,
        models=list(row.models),
        sizeBytes=row.size_bytes,
    )
