"""Session memory for the OpenAI Agents SDK, stored as a turnlog session.

    session = TurnlogSession("user_123", "~/agent")
    result = await Runner.run(agent, "Hello", session=session)
    await session.store_run_usage(result)

Added items are durable when the call returns, and come back deep-equal. The session is listed,
shown, searched, priced and archived like any other. Popped and cleared items stay in the log as
history.

Any number of processes and tasks may use one session; no two of them pop the same item. Nothing is
kept open between calls. A cancelled call that changes something still completes.

A session can have any name. A valid session id is used as it is; any other name is hashed into a
UUID of version 5, and the header of the log keeps the name. A session stays where it was created,
whatever project it is opened for; an archived or deleted one is read from its copy, and restored
before it is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from anyio.to_thread import run_sync

from turnlog.api.async_store import run_in_thread
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.api.store import Store, open_store
from turnlog.errors import ClosedLog, NotFound, UsageError
from turnlog.formats import Home, LogName, claude_log, is_uuid, read_name
from turnlog.formats.find import LATEST
from turnlog.formats.kept_copies import copy_roots, kept_place
from turnlog.integrations.openai_agents.history import (
    CLEAR,
    CUT,
    MORE,
    POP,
    History,
    Memory,
    look_back,
)
from turnlog.integrations.openai_agents.items import checked, record_of, usage_records
from turnlog.records.annotations import format_marker
from turnlog.records.dates import iso
from turnlog.sessions.environment import git_branch, git_commit
from turnlog.sessions.writing import build
from turnlog.sessions.writing.build import Fields
from turnlog.sessions.writing.stamp import RecordStamper
from turnlog.sessions.writing.writer import WRITER
from turnlog.storage.writer import LogWriter, News

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings


_NAMES: Final = UUID("0b8f3f0e-6a35-4c57-9d0c-2f6f1f6f8a41")
_LONGEST: Final = 512
_VERSION_AT: Final = 14


def id_of(name: str) -> str:
    """Return the session id for *name*."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        raise UsageError(
            f"a session name must be a string of 1 to {_LONGEST} characters",
            hint='use a name such as "user_123"',
        )
    # Names may contain lone surrogates, which UTF-8 cannot encode.
    return name if is_id(name) else str(uuid5(_NAMES, name.encode(errors="surrogatepass").hex()))


def is_id(name: str) -> bool:
    """Return True if *name* is used as the session id."""
    if name != name.lower() or name == LATEST:  # Some file systems ignore case.
        return False
    if is_uuid(name) and name[_VERSION_AT] == "5":
        return False
    return read_name(f"{name}.jsonl") == LogName("session", name, None)


class SessionPlace:
    """The path of a session's log."""

    def __init__(self, root: Path, project: str, session_id: str) -> None:
        self.root = root
        self._new = claude_log(root, project, session_id)
        self._id = session_id
        self._found: Path | None = None

    def to_read(self) -> Path | None:
        """Return the path to read from, or None if there is no log."""
        found = self._at_home()
        if found is None:
            kept = self._kept()
            found = kept.path if kept is not None else None
        return found

    def to_write(self) -> Path:
        """Return the path to append to; restore an archived or deleted log first."""
        found = self._at_home()
        if found is None and (kept := self._kept()) is not None:
            kept.unarchive()
            found = kept.path
        return found or self._new

    def _at_home(self) -> Path | None:
        for path in (self._found, self._new):
            if path is not None and path.is_file():
                self._found = path
                return path
        projects = self._new.parent.parent
        others = sorted(projects.glob(f"*/{self._new.name}"))
        self._found = next((path for path in others if _is_log(path)), None)
        return self._found

    def _kept(self) -> KeptSession | None:
        """Return the session from its kept copy or archive, or None."""
        roots = copy_roots(kept_place(self.root)).values()
        mirrors = [root / self._new.parent.parent.name for root in roots]
        has_copy = any(path for mirror in mirrors for path in mirror.glob(f"*/{self._new.name}*"))
        is_packed = any(self._new.parent.parent.glob(f"*/{self._new.name}.*"))
        if not (has_copy or is_packed):
            return None
        found = KeptSession.find_exactly((Home(self.root),), self._id)
        return found if found is not None and found.main_logs else None


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.parent.name.startswith(".")


Decide = Callable[[History], Sequence[Fields]]


class TurnlogSession:
    """A session of the OpenAI Agents SDK.

    *session_id* is any name. *root* is a directory or a store, turnlog's own by default. A new
    session is listed under *project*. *session_settings* are those of the SDK.
    """

    def __init__(
        self,
        session_id: str,
        root: str | os.PathLike[str] | Store | None = None,
        *,
        project: str | os.PathLike[str] = ".",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.log_id = id_of(session_id)
        """The session id in turnlog."""
        self._settings = _settings(session_settings)
        self._is_closed = False
        store = root if isinstance(root, Store) else open_store(root)
        try:
            self._project = os.path.abspath(project)
        except FileNotFoundError:
            raise UsageError("the working directory does not exist", hint="pass project=") from None
        self._place = SessionPlace(store.root, self._project, self.log_id)
        self._memory = Memory()

    def __repr__(self) -> str:
        return f"TurnlogSession({self.session_id!r}, {os.fspath(self._place.root)!r})"

    @property
    def session_settings(self) -> SessionSettings | None:
        """The SDK's settings for this session."""
        if self._settings is None:
            from agents.memory import SessionSettings  # noqa: PLC0415 - An optional dependency.

            self._settings = SessionSettings()
        return self._settings

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | dict[str, Any] | None) -> None:
        self._settings = _settings(settings)

    # -- the SDK's protocol -------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest *limit* items, or all, oldest first."""
        self._check_open()
        if limit is None and self._settings is not None:
            limit = self._settings.limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise UsageError(f"limit must be an int, not {limit!r}", hint="use None for all")
        if limit is not None and limit < 0:
            raise UsageError(f"invalid limit {limit}", hint="use None for all")
        if limit == 0:
            return []
        read = partial(self._read, limit)
        return await run_sync(read, abandon_on_cancel=True)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add *items*, all or none of them; they are durable on return."""
        self._check_open()
        plain = checked(items)
        if plain:
            await run_in_thread(self._write, partial(self._add, plain))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item, or None."""
        self._check_open()
        popped: list[Any] = []
        await run_in_thread(self._change, partial(self._pop, popped))
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """Remove all items."""
        self._check_open()
        await run_in_thread(self._change, self._clear)

    # -- additions ----------------------------------------------------------------------------

    async def store_run_usage(self, result: Any, *, model: str | None = None) -> None:
        """Record the usage of a run; *result* is the return value of ``Runner.run``.

        *model* is used for prices if the agents do not name their models.
        """
        self._check_open()
        used = usage_records(result, model)
        if used:
            await run_in_thread(self._write, partial(self._account, used))

    def close(self) -> None:
        """Reject further calls."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedLog(f"session {self.session_id!r} is closed", hint="create a new one")

    # -- under the log's lock -----------------------------------------------------------------

    def _add(self, items: list[Fields], history: History) -> list[Fields]:
        lines = [self._mark(build.title(self.session_id))] if self._needs_title(history) else []
        placer, tip, now = self._placer(), history.tip, datetime.now(UTC)
        for number, item in enumerate(items, 1):
            record = record_of(item)
            if number < len(items):
                record[MORE] = len(items) - number
            placed = placer.place(record, tip, now)[0]
            tip = placed["uuid"]
            lines.append(placed)
        return lines

    def _pop(self, popped: list[Any], history: History) -> list[Fields]:
        tip = history.tip
        if tip is None:
            return []
        popped.append(history.items[tip])
        return [self._mark({"type": POP, "popped": tip})]

    def _clear(self, history: History) -> list[Fields]:
        return [self._mark({"type": CLEAR})] if history.items else []

    def _account(self, used: list[Fields], history: History) -> list[Fields]:
        # Usage is not part of the thread, which continues from the newest item.
        placer, now = self._placer(), datetime.now(UTC)
        return [placer.place(record, history.tip, now)[0] for record in used]

    # -- the log ------------------------------------------------------------------------------

    def _read(self, limit: int | None) -> list[Any]:
        path = self._place.to_read()
        found = list(look_back(path, limit).items.values()) if path is not None else []
        return found if limit is None else found[-limit:]

    def _change(self, decide: Decide) -> None:
        """Write, unless there is no session yet."""
        if self._place.to_read() is not None:
            self._write(decide, create=False)

    def _write(self, decide: Decide, *, create: bool = True) -> None:
        """Append the records that *decide* returns, under the log's lock."""
        path = self._place.to_write()

        def lines(_news: News) -> Sequence[Fields]:
            history = self._memory.recall(path)
            decided = decide(history)
            return [self._mark({"type": CUT}), *decided] if decided and history.is_cut else decided

        try:
            log = LogWriter(path, create=create, head=self._head(), root=self._place.root)
        except NotFound:
            return  # Just deleted.
        with log:
            log.append_after(lines)

    def _head(self) -> bytes:
        return format_marker(
            WRITER,
            sessionId=self.log_id,
            cwd=self._project,
            gitCommit=git_commit(Path(self._project)),
            openaiSession=self.session_id,
        )

    def _placer(self) -> RecordStamper:
        branch = git_branch(Path(self._project)) or ""
        return RecordStamper(session_id=self.log_id, cwd=self._project, branch=branch)

    def _needs_title(self, history: History) -> bool:
        """Return True for a new session whose name is not its id."""
        return self.log_id != self.session_id and history.is_whole and not history.records

    def _mark(self, said: Fields) -> Fields:
        return said | {"sessionId": self.log_id, "timestamp": iso(datetime.now(UTC))}


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings | None:
    """Return *given* as settings of the SDK."""
    if given is None or not isinstance(given, dict):
        return given
    from agents.memory import SessionSettings  # noqa: PLC0415 - An optional dependency.

    try:
        if unknown := given.keys() - {field.name for field in fields(SessionSettings)}:
            raise ValueError(f"unknown: {sorted(map(str, unknown))}")
        return SessionSettings(**given)
    except ValueError as error:
        raise UsageError(
            f"invalid session settings: {error}", hint='use a dict such as {"limit": 50}'
        ) from None
