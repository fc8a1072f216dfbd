"""A session store for the Claude Agent SDK, on turnlog's durable logs.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from turnlog.integrations.claude_agent_sdk.store import TurnlogSessionStore

    options = ClaudeAgentOptions(session_store=TurnlogSessionStore("~/agent"))

It implements all six methods of the SDK's protocol without importing the SDK. Logs are where
Claude Code would put them, so `turnlog sessions`, `search`, `cost` and `archive` work, and Claude
Code can resume them.

An append returns when its batch is on disk. After a crash, part of a batch may be missing;
appending it again writes the rest, since a uuid is written once. Entries without a uuid are always
written. Reading never fails because of damage in a log.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from turnlog.api.async_store import run_in_thread
from turnlog.api.store import Store
from turnlog.errors import NotFound, UsageError
from turnlog.formats import turnlog_home
from turnlog.integrations.claude_agent_sdk.append import OpenLogs, Prepared, prepare
from turnlog.integrations.claude_agent_sdk.delete import delete
from turnlog.integrations.claude_agent_sdk.entries import Entry, entries_in
from turnlog.integrations.claude_agent_sdk.find import (
    FoundLog,
    find_log,
    find_sessions,
    find_subpaths,
    newest_first,
    restore_log,
)
from turnlog.integrations.claude_agent_sdk.keys import Key, check_project_key, read_key
from turnlog.integrations.claude_agent_sdk.metadata import note_metadata, with_metadata
from turnlog.integrations.claude_agent_sdk.summaries import SessionSummaryFile

if TYPE_CHECKING:
    import claude_agent_sdk as sdk

__all__ = ["TurnlogSessionStore"]

_stores: weakref.WeakSet[TurnlogSessionStore] = weakref.WeakSet()


class TurnlogSessionStore:
    """The sessions under *root*: a directory, a turnlog store, or turnlog's own home if None.

    It can be shared by tasks, threads and event loops, and several processes can use one root.
    Closing it is optional. On a network file system, locks only work on this machine: pass
    *allow_network_filesystem* if no other machine writes there.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | Store | None = None,
        *,
        allow_network_filesystem: bool = False,
    ) -> None:
        self.root = _root(root)
        self._lines = OpenLogs(self.root, allow_network_filesystem=allow_network_filesystem)
        _stores.add(self)

    def __repr__(self) -> str:
        return f"TurnlogSessionStore({str(self.root)!r})"

    async def append(self, key: sdk.SessionKey, entries: list[sdk.SessionStoreEntry]) -> None:
        """Append *entries* to the log of *key*; return when they are on disk.

        Appends to one key are written in the order in which they are asked for. One that is
        cancelled waits for its outcome; repeating it is harmless.
        """
        checked, batch = read_key(key), prepare(entries)
        if batch:
            async with _turn(self.root, checked):
                await run_in_thread(self._append, checked, batch)

    async def load(self, key: sdk.SessionKey) -> list[sdk.SessionStoreEntry] | None:
        """Return all entries of the log of *key*, in order, or None."""
        found = await run_sync(self._load, read_key(key), abandon_on_cancel=True)
        return cast("list[sdk.SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[sdk.SessionStoreListEntry]:
        """Return the sessions of a project with a main log, most recently written first."""
        project = check_project_key(project_key)
        found = await run_sync(self._sessions, project, abandon_on_cancel=True)
        return [{"session_id": session, "mtime": log.mtime_ms} for session, log in found]

    async def list_session_summaries(self, project_key: str) -> list[sdk.SessionSummaryEntry]:
        """Return the SDK's summaries of the sessions of a project."""
        project = check_project_key(project_key)
        return await run_sync(self._summaries, project, abandon_on_cancel=True)

    async def delete(self, key: sdk.SessionKey) -> None:
        """Move a session with its subagents, or the log of one subpath, to the trash."""
        checked = read_key(key)
        async with _turn(self.root, checked):
            await run_in_thread(self._delete, checked)

    async def list_subkeys(self, key: sdk.SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session that have a log."""
        checked = read_key(key, of_session=True)
        return await run_sync(find_subpaths, self.root, checked, abandon_on_cancel=True)

    def close(self) -> None:
        """Close the open logs; the next append reopens them."""
        self._lines.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await run_sync(self.close)

    # -- in a thread --------------------------------------------------------------------------

    def _append(self, key: Key, batch: list[Prepared]) -> None:
        with self._lines.line(key) as line:
            restore_log(self.root, key)
            written = line.append(batch)
            if key.meta is not None:
                line.is_noted = note_metadata(self.root, key, written, is_known=line.is_noted)

    def _load(self, key: Key) -> list[Entry] | None:
        found = find_log(self.root, key)
        if found is None:
            return None
        try:
            entries = entries_in(found.path)
        except NotFound:  # Just deleted or archived.
            again = find_log(self.root, key)
            entries = entries_in(again.path) if again is not None else []
        return with_metadata(self.root, key, entries) or None

    def _sessions(self, project: str) -> list[tuple[str, FoundLog]]:
        return newest_first(find_sessions(self.root, project))

    def _summaries(self, project: str) -> list[sdk.SessionSummaryEntry]:
        summaries: list[Any] = []
        for session, log in self._sessions(project):
            try:
                data = SessionSummaryFile(self.root, Key(project, session)).of(log)
            except NotFound:  # Just deleted.
                continue
            summaries.append({"session_id": session, "mtime": log.mtime_ms, "data": data})
        return summaries

    def _delete(self, key: Key) -> None:
        with self._lines.line(key) as line:
            delete(self.root, key)
            line.close()
        if key.subpath is None:
            self._lines.close(lambda each: each[:2] == key[:2])
            SessionSummaryFile(self.root, key).remove()


def _root(root: str | os.PathLike[str] | Store | None) -> Path:
    if root is None:
        return turnlog_home()
    if isinstance(root, Store):
        return root.root
    if not isinstance(root, str | os.PathLike) or not isinstance(os.fspath(root), str):
        raise UsageError(
            f"root must be a directory, not a {type(root).__name__}",
            hint='use TurnlogSessionStore("~/agent")',
        )
    path = Path(root).expanduser().absolute()
    if "\0" in str(path) or (path.exists() and not path.is_dir()):
        raise UsageError(f"{str(path)!r} is not a directory", hint="name another root")
    return path


class _KeyQueue:
    """The tasks of an event loop that wait for one key."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.users = 0


_queues: RunVar[dict[tuple[Path, Key], _KeyQueue]] = RunVar("turnlog_claude_agent_sdk")


@asynccontextmanager
async def _turn(root: Path, key: Key) -> AsyncIterator[None]:
    """Wait for earlier calls with this key; threads alone would not keep the order."""
    queues = _queues.get(None)
    if queues is None:
        queues = {}
        _queues.set(queues)
    queue = queues.setdefault((root, key), _KeyQueue())
    queue.users += 1
    try:
        async with queue.lock:
            yield
    finally:
        queue.users -= 1
        if not queue.users:
            del queues[root, key]


def _after_fork_in_child() -> None:
    for store in list(_stores):
        store._lines.after_fork_in_child()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

if TYPE_CHECKING:

    def _is_what_the_sdk_expects(store: TurnlogSessionStore) -> sdk.SessionStore:
        return store
