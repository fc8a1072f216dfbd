"""``ClaudeStorageProvider``: an asynchronous store for agent programs.

    provider = ClaudeStorageProvider(base_dir="~/.claude")
    await provider.log_message(project, ChatMessage(role="user", content="Hello"), session_id)

It stores ordinary sessions in Claude Code's layout, which Claude Code can resume. A logged message
is durable when the call returns, and follows the latest message at that moment. Logging it again
changes nothing, so a call whose outcome is unknown can be repeated. The work is done in threads,
on asyncio and trio; a cancelled call still completes.

Tokens and costs are those of `turnlog cost`: each response counts once, for the session that first
paid for it, so forks add nothing and sessions add up to their project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from types import TracebackType
from typing import Any, Final, Self, Unpack, get_args

from msgspec.structs import replace

from turnlog.api.async_store import run_in_thread
from turnlog.api.costs import TRACED, Ledger, Period, Question, Unit, ledger, open_source
from turnlog.api.sessions.lists import SessionRow
from turnlog.api.store import Store
from turnlog.errors import UsageError
from turnlog.formats import LogFile, find_logs, history_log, same_project_key, turnlog_home
from turnlog.formats.walk import refuse_unreadable
from turnlog.integrations.provider.chat_messages import ChatMessage
from turnlog.integrations.provider.messages import (
    Selection,
    ancestry_of,
    check_limit,
    count_messages,
    filter_of,
    find_message,
    forkable,
    last_messages,
    thread_of,
)
from turnlog.integrations.provider.protocols import Counts, SessionInfo, StorageProvider
from turnlog.integrations.provider.writers import (
    OPEN_LOGS,
    PathLike,
    Project,
    Writers,
    check_ids,
    find_log,
    home_at,
    logs_in,
    project_in,
    provider_subagents,
    sessions_in,
)
from turnlog.keep.activity import refuse_if_running
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.delete import Deletion, DeletionTerms, delete_found
from turnlog.keep.trash.trash import Trash
from turnlog.records.tags import join_tags
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.prompts import Prompt, find_prompts
from turnlog.sessions.totals import usual_prices
from turnlog.sessions.writing import build
from turnlog.sessions.writing.fork import fork
from turnlog.storage.writer import LogWriter

_UNITS: Final = tuple(unit for unit in get_args(Unit) if unit not in TRACED)


def counts_of(project: Project, session_id: str | None = None) -> Counts:
    """Return the counts of the main threads."""
    if session_id is not None:
        sessions = [find_log(project, session_id)]
    else:
        rows = sessions_in(project, archived=None)
        sessions = [find_log(project, row.id) for row in rows]
    counts = [_counts(session) for session in sessions]
    return Counts(
        sessions=len(counts),
        messages=sum(count.messages for count in counts),
        prompts=sum(count.prompts for count in counts),
        calls=sum(count.calls for count in counts),
    )


def statistics_of(
    project: Project, session_id: str | None, by: Iterable[Unit], zone: tzinfo = UTC
) -> Ledger:
    """Return usage and cost of a project or a session, grouped by *by*."""
    question = Question(by=_units(by), zone=zone)
    if session_id is not None:
        find_log(project, session_id)
        wanted = {session_id}
    else:
        wanted = {row.id for row in sessions_in(project, archived=None)}
    prices = usual_prices()
    with open_source((project.home,), prices) as source:
        scan = source.responses(Period())
    chosen = [response for response in scan.responses if response.session in wanted]
    return ledger(replace(scan, responses=chosen), prices, question)


def _counts(session: Session) -> Counts:
    thread = thread_of(session)
    return Counts(
        sessions=1,
        messages=count_messages(session),
        prompts=sum(node.is_prompt for node in thread),
        calls=len({call for node in thread for call in node.calls}),
    )


def _units(by: Iterable[Unit]) -> tuple[Unit, ...]:
    units: tuple[Any, ...] = (by,) if isinstance(by, str) else tuple(by)
    for unit in units:
        if unit not in _UNITS:
            raise UsageError(f"cannot group by {str(unit)[:40]!r}", hint=f"use {', '.join(_UNITS)}")
    return units


def commands_of(project: Project, session_id: str | None, limit: int | None) -> list[Prompt]:
    """Return the commands and prompts of a project or a session, oldest first."""
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
    """Add a command or prompt to the history of the home."""
    if not isinstance(command, str) or not command:
        raise UsageError("the command is empty", hint="pass a string")
    if session_id is not None:
        check_ids(session_id)
    record = {
        "display": command,
        "pastedContents": {},
        "timestamp": round(datetime.now(UTC).timestamp() * 1000),
        "project": project.directory,
        **({"sessionId": session_id} if session_id is not None else {}),
    }
    path = history_log(project.home) or project.home.path / "history.jsonl"
    with LogWriter(path, root=project.home.path) as log:
        log.append(record)


def _is_here(project: Project, prompt: Prompt) -> bool:
    there = os.path.abspath(os.path.expanduser(prompt.project or ""))
    return there == project.directory


def reset(project: Project) -> list[Deletion]:
    """Move all sessions of the project to the trash, or none if one of them is running."""
    index = SessionFileIndex(project.home)
    refuse_unreadable(index.unseen)  # Subagent logs without a session are deleted, too.
    mine = {row.id for row in sessions_in(project, archived=None)}
    mains = {log.session_id for log in find_logs(project.home) if log.kind == "session"}
    logs_by_session: dict[str, list[LogFile]] = {}
    for owner, log in logs_in(project):
        if owner in mine or owner not in mains:
            logs_by_session.setdefault(owner, []).append(log)
    for session_id, logs in logs_by_session.items():
        refuse_if_running(session_id, logs, (project.home,))
    own = turnlog_home()
    terms = DeletionTerms(f"reset of {project.directory}", datetime.now(UTC), load_grace(own))
    trash = Trash(own)
    return [
        delete_found(session_id, logs, [index], trash, terms)
        for session_id, logs in logs_by_session.items()
    ]


_BY_MODEL: Final[tuple[Unit, ...]] = ("model",)


class ClaudeStorageProvider(StorageProvider):
    """The sessions of the home *base_dir*.

    At most *open_logs* logs stay open between messages. Closing the provider, leaving ``async
    with`` or exiting the program marks the sessions as ended.
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
        """Append a message to a session, which is created if needed; return the message id.

        With *agent_id*, append it to the log of that subagent and create its todo list. The id of
        the main agent is the session id. Without a parent, the message follows the last one.
        """
        return await run_in_thread(self._log_message, project_path, message, session_id, agent_id)

    # -- SessionReader ------------------------------------------------------------------------

    async def get_sessions(self, project_path: PathLike) -> list[SessionInfo]:
        """Return the sessions of a project, most recently active first."""
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
        """Return the last *limit* messages of a session or subagent, oldest first.

        Filter them with ``types``, ``since``, ``until``, ``with_tools`` and ``with_system``.
        """
        last, only = check_limit(limit), filter_of(selection)
        return await run_in_thread(
            lambda: last_messages(
                find_log(self._project(project_path), session_id, agent_id), only, last
            )
        )

    async def get_agents(self, project_path: PathLike, session_id: str) -> list[str]:
        """Return the ids of a session's subagents."""
        return await run_in_thread(
            lambda: provider_subagents(self._project(project_path), session_id)
        )

    # -- MessageFinder ------------------------------------------------------------------------

    async def get_message(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> ChatMessage:
        """Return a message by its uuid, from any log."""
        return await run_in_thread(
            lambda: find_message(self._project(project_path), message_id, session_id)
        )

    async def get_message_ancestry(
        self, project_path: PathLike, message_id: str, session_id: str | None = None
    ) -> list[ChatMessage]:
        """Return a message and its ancestors, oldest first."""
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
        """Copy a session up to a message, or all of it, into a new session; return its id.

        The copies get new uuids. The old session is not changed.
        """
        return await run_in_thread(self._fork, project_path, session_id, message_id, new_session_id)

    async def reset(self, project_path: PathLike) -> list[Deletion]:
        """Move all sessions of a project to the trash, or none if one runs in another program.

        Sessions that this provider has open are closed first.
        """
        return await run_in_thread(self._reset, project_path)

    # -- Statistics ---------------------------------------------------------------------------

    async def get_counts(self, project_path: PathLike, session_id: str | None = None) -> Counts:
        """Return the number of messages, prompts and calls of a project or a session."""
        return await run_in_thread(lambda: counts_of(self._project(project_path), session_id))

    async def get_statistics(
        self,
        project_path: PathLike,
        session_id: str | None = None,
        *,
        by: Iterable[Unit] = _BY_MODEL,
    ) -> Ledger:
        """Return tokens and costs as `turnlog cost` does, including subagents.

        ``rows`` are grouped *by* hour, day, week, month (in UTC), session, project, model or
        agent.
        """
        return await run_in_thread(
            lambda: statistics_of(self._project(project_path), session_id, by)
        )

    # -- Commands -----------------------------------------------------------------------------

    async def log_command(
        self, project_path: PathLike, command: str, session_id: str | None = None
    ) -> None:
        """Add a command or prompt to the history of the home."""
        await run_in_thread(lambda: log_command(self._project(project_path), command, session_id))

    async def get_commands(
        self, project_path: PathLike, session_id: str | None = None, *, limit: int | None = None
    ) -> list[Prompt]:
        """Return the last *limit* commands and prompts of a project, oldest first."""
        last = check_limit(limit)
        return await run_in_thread(
            lambda: commands_of(self._project(project_path), session_id, last)
        )

    async def aclose(self) -> None:
        """Close the open logs and mark their sessions as ended. Later calls reopen them."""
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

    # -- run in threads -----------------------------------------------------------------------

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
                f"{type(message).__name__} is not a ChatMessage",
                hint='use ChatMessage(role="user", content="Hello")',
            )
        record = _record_to_log(message, session_id, check_ids(session_id, agent_id))
        self._writers.append(self._project(project_path), session_id, agent_id, record)
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
    """Return the record of *message*, without its parent if the writer shall choose it."""
    if message.session_id is not None and message.session_id != session_id:
        raise UsageError(
            f"the message belongs to session {message.session_id[:80]}, not {session_id}",
            hint="omit the message's session_id, or fork the other session",
        )
    if message.agent_id is not None and message.agent_id != agent_id:
        raise UsageError(
            f"the message belongs to agent {message.agent_id[:80]}, not "
            f"{agent_id or 'the main agent'}",
            hint="omit the message's agent_id, or log it for that agent",
        )
    record = message.to_record()
    if record.get("parentUuid", "") is None:
        del record["parentUuid"]
    if message.role == "assistant" and isinstance(record["message"], dict):
        # Records without an id would count as parts of one response.
        record["message"] = {"id": f"msg_{message.id}", "type": "message"} | record["message"]
    elif message.role == "system" and "message" not in record:
        defaults = build.system("")
        record = {key: defaults[key] for key in ("subtype", "level")} | record
    return record


def _info(row: SessionRow) -> SessionInfo:
    return SessionInfo(
        sessionId=row.id,
        projectPath=row.project,
        title=row.title,
        startedAt=row.started_at,
        lastActiveAt=row.last_active_at,
        state=str(row.state),
        gitBranch=row.git_branch,
        tag=join_tags(row.tags) or None,
        models=list(row.models),
        sizeBytes=row.size_bytes,
    )
