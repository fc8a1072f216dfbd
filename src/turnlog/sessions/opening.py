"""Opening a session for writing, in the way of its layout."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from turnlog.errors import UsageError
from turnlog.formats import LayoutName, claude_log, dated_log, flat_directory, flat_log
from turnlog.formats.projects import whole
from turnlog.sessions.dated_writing import DatedWriter
from turnlog.sessions.flat_writing import FlatWriter
from turnlog.sessions.session import Session
from turnlog.sessions.writing import SessionWriter
from turnlog.storage.writer import Durability


def open_writer(
    root: Path,
    layout: LayoutName,
    session_id: str,
    cwd: str | os.PathLike[str],
    durability: Durability,
    *,
    session: Session | None = None,
    model: str | None = None,
) -> SessionWriter:
    """Open a writer: of *session*, where it lies, or of a new one under *root*.

    Until its first append nobody knows of a writer, and the session may be archived or deleted. So
    a log that was there is never made anew: what it held would be hidden behind it.
    """
    try:
        cwd = whole(os.fspath(cwd))
    except FileNotFoundError:
        raise UsageError(
            "the working directory is gone", hint="name the project that the session works in"
        ) from None
    if layout == "dated":
        return DatedWriter(
            partial(dated_log, root, cwd),
            session_id=session_id,
            cwd=cwd,
            earlier=session.paths if session else (),
            root=root,
            durability=durability,
        )
    if layout == "flat":
        return FlatWriter(
            session.path if session else flat_log(flat_directory(root), session_id),
            session_id=session_id,
            cwd=cwd,
            root=root,
            create=session is None,
            durability=durability,
            model=model,
        )
    if layout != "claude":
        raise UsageError(f"no layout called {layout!r}", hint="claude, dated or flat")
    return SessionWriter(
        session.path if session else claude_log(root, cwd, session_id),
        session_id=session_id,
        cwd=cwd,
        root=root,
        create=session is None,
        durability=durability,
    )
