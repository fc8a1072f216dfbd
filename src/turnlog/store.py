"""The store: the sessions of some homes, seen as one; and new ones, written durably.

    with turnlog.open("~/agent") as store:
        with store.create(project=".") as session:
            session.append(turnlog.build.user("Hello"))

Without a root the store is the user's own homes, and what turnlog itself was asked to keep in
``$TURNLOG_HOME``. New sessions go to the root, else to ``$TURNLOG_HOME``; an agent's own home is
written only when it is named. Sessions are found anew at each call: the logs are the truth.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from turnlog.errors import UsageError
from turnlog.layout import (
    Home,
    check_session_id,
    claude_agent_log,
    claude_log,
    find_homes,
    new_agent_id,
    new_session_id,
    turnlog_home,
)
from turnlog.log.closing import Closing
from turnlog.log.reader import Placed, read_log
from turnlog.log.writer import Durability
from turnlog.questions.catalog import SessionRow, list_sessions
from turnlog.sessions.life import Life, life_of
from turnlog.sessions.session import Session
from turnlog.sessions.writing import SessionWriter


class Store(Closing):
    """The sessions of some homes; *root* is where new ones are written."""

    def __init__(self, homes: Iterable[Home], root: Path) -> None:
        self.homes = tuple(homes)
        self.root = root

    def sessions(self, *, project: str | None = None) -> list[SessionRow]:
        """List the sessions, the one that was active last first."""
        return list_sessions(self.homes, project=project).sessions

    def session(self, text: str) -> Session:
        """Give the session whose id begins with *text*, or the ``latest``, for reading."""
        return Session.find(self.homes, text)

    def create(
        self,
        *,
        project: str | os.PathLike[str] = ".",
        session_id: str | None = None,
        durability: Durability = "fsync",
    ) -> SessionWriter:
        """Begin a session that works in *project*; its log is there at once, and empty."""
        made = check_session_id(session_id) if session_id is not None else new_session_id()
        path = claude_log(self.root, project, made)
        if path.exists():
            raise UsageError(f"session {made} exists", hint="resume it instead")
        return self._writer(path, made, project, durability=durability)

    def resume(self, text: str, *, durability: Durability = "fsync") -> SessionWriter:
        """Open a session of this store's root for more."""
        session = self.session(text)
        if not session.path.resolve().is_relative_to(self.root.resolve()):
            raise UsageError(
                f"session {session.id} is not turnlog's to write: {session.path}",
                hint="open its home by name, as in turnlog.open(home), to write there",
            )
        cwd = session.summary.cwd or "."
        return self._writer(session.path, session.id, cwd, durability=durability)

    def agent(self, parent: SessionWriter, agent_id: str | None = None) -> SessionWriter:
        """Begin an agent of *parent*: a log of its own in the same session."""
        made = agent_id or new_agent_id()
        path = claude_agent_log(self.root, parent.cwd, parent.session_id, made)
        return self._writer(path, parent.session_id, parent.cwd, agent_id=made)

    def crashed(self) -> list[SessionRow]:
        """List the sessions whose writer is gone without having said goodbye."""
        return [row for row in self.sessions() if self.life(row).crashed]

    def life(self, row: SessionRow) -> Life:
        """Gather the facts of a session's life from its log."""
        items = (item for item in read_log(row.path) if isinstance(item, Placed))
        return life_of(item.record for item in items)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _writer(
        self,
        path: Path,
        session_id: str,
        cwd: str | os.PathLike[str],
        *,
        agent_id: str | None = None,
        durability: Durability = "fsync",
    ) -> SessionWriter:
        return SessionWriter(
            path,
            session_id=session_id,
            cwd=cwd,
            agent_id=agent_id,
            root=self.root,
            durability=durability,
        )


def open_store(root: str | os.PathLike[str] | None = None) -> Store:
    """Open the sessions under *root*, or the user's own."""
    if root is None:
        own = turnlog_home(os.environ)
        homes = find_homes()
        return Store((*homes, *([Home(own)] if own.is_dir() else [])), own)
    path = Path(root).expanduser().absolute()
    return Store((Home(path),), path)


open = open_store  # noqa: A001 - as in turnlog.open()
