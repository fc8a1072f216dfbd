"""One session: the tree of its records, its threads, turns and agents; and writing one."""

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
