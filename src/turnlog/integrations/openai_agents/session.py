"""The memory of the OpenAI Agents SDK: its Session protocol, over a turnlog session.

    session = TurnlogSession("user_123", "~/agent")
    result = await Runner.run(agent, "Hello", session=session)
    await session.store_run_usage(result)

What is added is durable when the call returns, and lies in an ordinary session: listed, shown,
searched, priced and archived like any other. Items come back deep-equal. Nothing is ever taken out
of the log, so what was popped or cleared stays in it as history; see ``openai_history``.

Any number of processes and tasks may use one session; no two of them pop the same item. Nothing is
held open between calls. Whoever is cancelled while changing something waits for the outcome first.
The SDK is imported only to read settings given as a dict, and to ask for its default model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync

from turnlog.api.store import Store, open_store
from turnlog.api.threads import run_in_thread
from turnlog.errors import ClosedLog, NotFound, UsageError
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
from turnlog.integrations.openai_agents.places import SessionPlace, id_of
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

Decide = Callable[[History], Sequence[Fields]]


class TurnlogSession:
    """A session of the OpenAI Agents SDK.

    *session_id* is any name the program has for it, *root* where its log goes: a directory or a
    store, else turnlog's own. An existing session is continued wherever it is under the root; a new
    one is listed under *project*. *session_settings* are the SDK's.
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
        """The id by which turnlog knows the session."""
        self._settings = _settings(session_settings)
        self._is_closed = False
        store = root if isinstance(root, Store) else open_store(root)
        try:
            self._project = os.path.abspath(project)
        except FileNotFoundError:
            raise UsageError(
                "the working directory is gone", hint="name the project that the session works in"
            ) from None
        self._place = SessionPlace(store.root, self._project, self.log_id)
        self._memory = Memory()

    def __repr__(self) -> str:
        return f"TurnlogSession({self.session_id!r}, {os.fspath(self._place.root)!r})"

    @property
    def session_settings(self) -> SessionSettings | None:
        """The SDK's settings for this session; its defaults unless given."""
        if self._settings is None:
            from agents.memory import SessionSettings  # noqa: PLC0415 - Only if it is in use.

            self._settings = SessionSettings()
        return self._settings

    @session_settings.setter
    def session_settings(self, settings: SessionSettings | dict[str, Any] | None) -> None:
        self._settings = _settings(settings)

    # -- the SDK's protocol -------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest *limit* items, or all of them, the oldest first."""
        self._check_open()
        if limit is None and self._settings is not None:
            limit = self._settings.limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise UsageError(f"a limit is a whole number, not {limit!r}", hint="or None for all")
        if limit is not None and limit < 0:
            raise UsageError(f"a limit of {limit} means nothing", hint="None gives all items")
        if limit == 0:
            return []
        read = partial(self._read, limit)
        return await run_sync(read, abandon_on_cancel=True)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add *items*, all or none of them; they are durable on return."""
        self._check_open()
        given = checked(items)
        if given:
            await run_in_thread(self._write, partial(self._add, given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back and give it; None if there is none."""
        self._check_open()
        popped: list[Any] = []
        await run_in_thread(self._change, partial(self._pop, popped))
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """Take all items back."""
        self._check_open()
        await run_in_thread(self._change, self._clear)

    # -- and beyond it ------------------------------------------------------------------------

    async def store_run_usage(self, result: Any, *, model: str | None = None) -> None:
        """Account for what a run used; *result* is what ``Runner.run`` gave back.

        *model* is the name to price it by, if the agents do not say which models they use.
        """
        self._check_open()
        used = usage_records(result, model)
        if used:
            await run_in_thread(self._write, partial(self._account, used))

    def close(self) -> None:
        """Refuse further calls. Nothing is held open between them."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedLog(f"session {self.session_id!r} is closed", hint="make a new one")

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
        # They hang beside the thread, which goes on from the newest item.
        placer, now = self._placer(), datetime.now(UTC)
        return [placer.place(each, history.tip, now)[0] for each in used]

    # -- the log ------------------------------------------------------------------------------

    def _read(self, limit: int | None) -> list[Any]:
        path = self._place.to_read()
        found = list(look_back(path, limit).items.values()) if path is not None else []
        return found if limit is None else found[-limit:]

    def _change(self, decide: Decide) -> None:
        """Change what is there; where nothing is, there is nothing to change."""
        if self._place.to_read() is not None:
            self._write(decide, create=False)

    def _write(self, decide: Decide, *, create: bool = True) -> None:
        """Append what *decide* says, which sees at least the newest item, under the log's lock."""
        path = self._place.to_write()

        def lines(_news: News) -> Sequence[Fields]:
            history = self._memory.recall(path)
            decided = decide(history)
            return [self._mark({"type": CUT}), *decided] if decided and history.is_cut else decided

        try:
            log = LogWriter(path, create=create, head=self._head(), root=self._place.root)
        except NotFound:
            return  # Deleted just now, and all its items with it.
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
        """A person finds a session by its name, unless that is its id."""
        return self.log_id != self.session_id and history.is_whole and not history.records

    def _mark(self, said: Fields) -> Fields:
        return said | {"sessionId": self.log_id, "timestamp": iso(datetime.now(UTC))}


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings | None:
    """Return the SDK's settings; a dict of them is what its own sessions take as well."""
    if given is None or not isinstance(given, dict):
        return given
    from agents.memory import SessionSettings  # noqa: PLC0415 - Only if it is in use.

    try:
        if unknown := given.keys() - {field.name for field in fields(SessionSettings)}:
            raise ValueError(f"{sorted(map(str, unknown))} means nothing")
        return SessionSettings(**given)
    except ValueError as error:
        raise UsageError(
            f"these are no session settings: {error}", hint='such as {"limit": 50}'
        ) from None
