"""A storage for agent programs: log messages, list sessions, read them again, asynchronously.

    provider = ClaudeStorageProvider(base_dir="~/.claude")
    await provider.log_message(project, ChatMessage(role="user", content="Hello"), session_id)

What it stores are ordinary sessions in Claude Code's own layout, which that program resumes and all
of turnlog reads. A message that was logged is durable when the call returns, and stands behind the
last one at that moment, whoever wrote that. Logging it again changes nothing, so a call whose
outcome is unknown may be repeated.

The work is done by the synchronous core in a thread, on asyncio and trio alike. A call that is
cancelled in the middle still finishes what it began.

What people typed in a project: the home's history of prompts, read and written.

Forgetting a project: everything a provider would list of it goes to the trash.

With the sessions go what lies beside them and the logs of agents whose session is not there. If one
of them runs, none goes. `turnlog trash` shows what went and puts it back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack

from turnlog.api.costs import Ledger, Unit
from turnlog.api.sessions import SessionRow
from turnlog.api.store import Store
from turnlog.api.threads import run_in_thread
from turnlog.errors import UsageError
from turnlog.formats import LogFile, find_logs, history_log, same_project_key, turnlog_home
from turnlog.formats.walk import refuse_unreadable
from turnlog.integrations.provider.chat_messages import ChatMessage
from turnlog.integrations.provider.messages import (
    Selection,
    ancestry_of,
    check_limit,
    filter_of,
    find_message,
    forkable,
    last_messages,
)
from turnlog.integrations.provider.places import (
    PathLike,
    Project,
    check_ids,
    find_log,
    home_at,
    logs_in,
    project_in,
    provider_subagents,
    sessions_in,
)
from turnlog.integrations.provider.protocols import (
    SessionInfo,
    StorageProvider,
)
from turnlog.integrations.provider.statistics import Counts, counts_of, statistics_of
from turnlog.integrations.provider.writers import OPEN_LOGS, Writers
from turnlog.keep.activity import refuse_if_running
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.delete import Deletion, DeletionTerms, delete_found
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.side_files.prompts import Prompt, find_prompts
from turnlog.sessions.writing import build
from turnlog.sessions.writing.fork import fork
from turnlog.storage.writer import LogWriter


def commands_of(project: Project, session_id: str | None, limit: int | None) -> list[Prompt]:
    """Return what was typed in the project itself, or in one session, oldest first."""
    if session_id is not None:
        check_ids(session_id)
    page = find_prompts((project.home,), project=project.directory, session=session_id)
    found = [
        each
        for each in page.prompts
        if session_id in (None, each.session_id) and _is_here(project, each)
    ]
    return found[:limit][::-1]


def log_command(project: Project, command: str, session_id: str | None) -> None:
    """Add to the home's history what somebody typed."""
    if not isinstance(command, str) or not command:
        raise UsageError("nothing was typed", hint="give the command or the prompt as text")
    if session_id is not None:
        check_ids(session_id)
    said = {
        "display": command,
        "pastedContents": {},
        "timestamp": round(datetime.now(UTC).timestamp() * 1000),
        "project": project.directory,
        **({"sessionId": session_id} if session_id is not None else {}),
    }
    path = history_log(project.home) or project.home.path / "history.jsonl"
    with LogWriter(path, root=project.home.path) as log:
        log.append(said)


def _is_here(project: Project, prompt: Prompt) -> bool:
    there = os.path.abspath(os.path.expanduser(prompt.project or ""))
    return there == project.directory


def reset(project: Project) -> list[Deletion]:
    """Move all sessions of the project to the trash."""
    belongings = SessionFileIndex(project.home)
    refuse_unreadable(belongings.unseen)  # Agents whose session is not found go as well.
    mine = {row.id for row in sessions_in(project, archived=None)}
    mains = {log.session_id for log in find_logs(project.home) if log.kind == "session"}
    doomed: dict[str, list[LogFile]] = {}
    for owner, log in logs_in(project):
        if owner in mine or owner not in mains:
            doomed.setdefault(owner, []).append(log)
    for session_id, logs in doomed.items():
        refuse_if_running(session_id, logs, (project.home,))
    own = turnlog_home()
    terms = DeletionTerms(f"reset of {project.directory}", datetime.now(UTC), load_grace(own))
    trash = Trash(own)
    return [delete_found(each, logs, [belongings], trash, terms) for each, logs in doomed.items()]


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
        return await run_in_thread(self._log_message, project_path, message, session_id, agent_id)

    # -- SessionReader ------------------------------------------------------------------------

    async def get_sessions(self, project_path: PathLike) -> list[SessionInfo]:
        """List a project's sessions, the one that was active last first."""
        rows = await run_in_thread(lambda: sessions_in(self._project(project_path)))
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
        """Return the last *limit* messages of a session or one of its agents, oldest first.

        *selection* tells which are counted and given: ``types``, ``since``, ``until``,
        ``with_tools``, ``with_system``.
        """
        last, only = check_limit(limit), filter_of(selection)
        return await run_in_thread(
            lambda: last_messages(
                find_log(self._project(project_path), session_id, agent_id), only, last
            )
        )

    async def get_agents(self, project_path: PathLike, session_id: str) -> list[str]:
        """List the ids of a session's agents."""
        return await run_in_thread(
            lambda: provider_subagents(self._project(project_path), session_id)
        )

    # -- MessageFinder ------------------------------------------------------------------------

    async def get_message(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> ChatMessage:
        """Return one message by its uuid, of an agent's log too."""
        return await run_in_thread(
            lambda: find_message(self._project(project_path), message_id, session_id)
        )

    async def get_message_ancestry(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> list[ChatMessage]:
        """Return the messages that lead to one, from the very first; itself is the last."""
        return await run_in_thread(
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
        return await run_in_thread(self._fork, project_path, session_id, message_id, new_session_id)

    async def reset(self, project_path: PathLike) -> list[Deletion]:
        """Move all sessions of a project to the trash; if one of them runs elsewhere, none goes.

        Those that this provider has open are closed first.
        """
        return await run_in_thread(self._reset, project_path)

    # -- Statistics ---------------------------------------------------------------------------

    async def get_counts(self, project_path: PathLike, session_id: str | None = None) -> Counts:
        """Count the messages, prompts and calls of a project or a session."""
        return await run_in_thread(lambda: counts_of(self._project(project_path), session_id))

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
        return await run_in_thread(
            lambda: statistics_of(self._project(project_path), session_id, by)
        )

    # -- Commands -----------------------------------------------------------------------------

    async def log_command(
        self, project_path: PathLike, command: str, session_id: str | None = None
    ) -> None:
        """Add to the home's history what somebody typed."""
        await run_in_thread(lambda: log_command(self._project(project_path), command, session_id))

    async def get_commands(
        self, project_path: PathLike, session_id: str | None = None, *, limit: int | None = None
    ) -> list[Prompt]:
        """Return the last *limit* commands and prompts typed in a project, oldest first."""
        last = check_limit(limit)
        return await run_in_thread(
            lambda: commands_of(self._project(project_path), session_id, last)
        )

    # -- its own life -------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close what is open, saying goodbye in each log. Further calls open them again."""
        await run_in_thread(self._writers.close)

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
    """Return the record that says *message*, without the place that it gets in its log."""
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
