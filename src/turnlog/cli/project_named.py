"""Which directory --project means: a path, or the name of a project as lists show it.

A path is what it is to a shell. A name without a slash, if no directory here is called so, is that
of one in which sessions worked: lists show no more of it, and people type what they see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from turnlog.errors import TurnlogError, UsageError
from turnlog.layout import Home, LogFile, find_everywhere
from turnlog.layout.directories import whole
from turnlog.layout.keys import key_of

_TRIED: Final = 5
_SHOWN: Final = 5


def project_meant(text: str, homes: Iterable[Home]) -> str:
    """Give the whole path of the directory that *text* means."""
    path = whole(text)
    is_name = os.path.basename(text) == text and text not in {os.curdir, os.pardir}
    if not is_name or text.startswith("~") or os.path.isdir(path):
        return path
    found = sorted(_called(text, homes))
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(
            f"{len(found)} projects are called {text}: {', '.join(found[:_SHOWN])}{more}",
            hint="give the whole path of one, or of a directory above it",
        )
    return found[0] if found else path


def _called(name: str, homes: Iterable[Home]) -> set[str]:
    """Give the directories of that name in which sessions worked."""
    ending = key_of(f"/{name}")
    logs: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes):
        # The name of its directory tells nearly all of a project's path: few have to be read.
        if log.kind == "session" and log.project_key and log.project_key.endswith(ending):
            logs.setdefault(log.project_key, []).append(log)
    found = {_worked_in(log) for each in logs.values() for log in each[:_TRIED]}
    return {path for path in found if path and path.rstrip("/").rpartition("/")[2] == name}


def _worked_in(log: LogFile) -> str | None:
    from turnlog.sessions.glanced import glance_at

    try:
        return glance_at(log.path).summary.cwd
    except (TurnlogError, OSError):
        return None
