"""A session store for the Claude Agent SDK, on turnlog's durable logs.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from turnlog.integrations.claude_agent_sdk.store import TurnlogSessionStore

    options = ClaudeAgentOptions(session_store=TurnlogSessionStore("~/agent"))

It has all six methods of the SDK's protocol and need not be told about the SDK: importing this
module imports none of it. What it stores lies where Claude Code itself would put it, so that every
session is one like any other: `turnlog sessions`, `search`, `cost` and `archive` know it, and
Claude Code can go on with it from the disk.

An append returns when its batch is on the disk. It is one write; after a crash a prefix may stand,
and doing it again writes the rest, since an entry with a uuid is written once in its log. Entries
without one are written every time. Reading never fails because of what the log looks like.
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

from turnlog.api.store import Store
from turnlog.api.threads import run_in_thread
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

    It may be shared by tasks, threads and event loops, and any number of processes may have one on
    the same root. There is nothing to close, but ``close`` gives back what is held open. On a
    network's file system locks reach this machine only: say so if nobody else writes there.
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
        """Write *entries* behind what the key's log holds; return when they are on the disk.

        Appends to one key are written in the order in which they are asked for. One that is
        cancelled waits for its outcome; repeating it is harmless.
        """
        checked, batch = read_key(key), prepare(entries)
        if batch:
            async with _turn(self.root, checked):
                await run_in_thread(self._append, checked, batch)

    async def load(self, key: sdk.SessionKey) -> list[sdk.SessionStoreEntry] | None:
        """Return all entries of the key's log, in order; None if there are none."""
        found = await run_sync(self._load, read_key(key), abandon_on_cancel=True)
        return cast("list[sdk.SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[sdk.SessionStoreListEntry]:
        """List the sessions of a project that have a main log, the one written last first."""
        project = check_project_key(project_key)
        found = await run_sync(self._sessions, project, abandon_on_cancel=True)
        return [{"session_id": session, "mtime": log.mtime_ms} for session, log in found]

    async def list_session_summaries(self, project_key: str) -> list[sdk.SessionSummaryEntry]:
        """Return what the SDK lists of each session of a project; the time is the listing's."""
        project = check_project_key(project_key)
        return await run_sync(self._summaries, project, abandon_on_cancel=True)

    async def delete(self, key: sdk.SessionKey) -> None:
        """Move a session and its agents, or the log of one subpath, to turnlog's trash."""
        checked = read_key(key)
        async with _turn(self.root, checked):
            await run_in_thread(self._delete, checked)

    async def list_subkeys(self, key: sdk.SessionListSubkeysKey) -> list[str]:
        """List the subpaths of a session that something was written to."""
        checked = read_key(key, of_session=True)
        return await run_sync(find_subpaths, self.root, checked, abandon_on_cancel=True)

    def close(self) -> None:
        """Close the logs that are held open for further appends; the next one opens them again."""
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
        except NotFound:  # Deleted, or archived, at this very moment.
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
            except NotFound:  # Gone since it was listed.
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
            f"a store has a directory as its root, not a {type(root).__name__}",
            hint='as in TurnlogSessionStore("~/agent")',
        )
    path = Path(root).expanduser().absolute()
    if "\0" in str(path) or (path.exists() and not path.is_dir()):
        raise UsageError(f"{str(path)!r} is not a directory", hint="name another root")
    return path


# -- one after the other --------------------------------------------------------------------


class _KeyQueue:
    """Those who wait in one event loop for their turn at one key."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.users = 0


_queues: RunVar[dict[tuple[Path, Key], _KeyQueue]] = RunVar("turnlog_claude_agent_sdk")


@asynccontextmanager
async def _turn(root: Path, key: Key) -> AsyncIterator[None]:
    """Wait until those are done who asked before; threads alone would not keep the order."""
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
