"""What Claude Code tells its hooks: which session has ended, and in which home it lies.

It arrives as JSON on stdin, from a program that may be of any version; what cannot be understood
names no session, and then nothing is done.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.layout import Home, all_homes, is_session_id


class _Told(Struct):
    session_id: str | None = None
    transcript_path: str | None = None


def ended_session(told: bytes) -> tuple[str | None, tuple[Home, ...]]:
    """Give the session that has ended, and the homes to look for it in: its own, if that is told.

    The hook may run where another environment holds than in the shell of whoever set it up, so
    where the log lies says more than any setting.
    """
    try:
        said = msgspec.json.decode(told, type=_Told)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, ()
    if said.session_id is None or not is_session_id(said.session_id):
        return None, ()
    home = _home_of(said.transcript_path or "", said.session_id)
    return said.session_id, (home,) if home is not None else all_homes()


def _home_of(log: str, session_id: str) -> Home | None:
    """Give the home of a log that lies where Claude Code puts logs."""
    if "\0" in log or not os.path.isabs(os.path.expanduser(log)):
        return None
    path = Path(os.path.abspath(os.path.expanduser(log)))
    is_there = path.name == f"{session_id}.jsonl" and path.parent.parent.name == "projects"
    home = path.parent.parent.parent
    return Home(home) if is_there and home.is_dir() else None
