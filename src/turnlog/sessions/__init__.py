"""One session: reading it, writing it, its side files, state, recovery and conversion.

``session`` is the entry point. ``reading`` has the tree of records with its threads, branches and
subagents; ``writing`` appends; ``side_files`` reads todos, plans and file history; ``convert``
copies a session between layouts; ``recover`` repairs it after a crash.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.sessions.writing import build as build


def __getattr__(name: str) -> Any:
    if name != "build":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - Whoever only reads builds nothing.

    return import_module("turnlog.sessions.writing.build")
