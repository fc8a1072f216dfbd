"""What people mean by a time, a time zone, a project or a session: one answer for every question.

A path is what it is to a shell. A name without a slash, if no directory here is called so, is that
of a project in which sessions worked: lists show no more of it, and people type what they see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, tzinfo
from typing import Final, TypeAlias

from turnlog.errors import TurnlogError, UsageError
from turnlog.formats import Home, LogFile, find_everywhere, key_of
from turnlog.formats.find import LATEST
from turnlog.formats.projects import expand_path, last_part
from turnlog.records.dates import MachineZone

When: TypeAlias = str | date
"""A time as people say it (7d, yesterday, 2026-11), a datetime, or a date: its midnight."""
_TRIED: Final = 5
_SHOWN: Final = 5


def resolve_instant(when: When | None, zone: tzinfo) -> datetime | None:
    """Return the first instant that *when* covers; days and times without a zone are of *zone*."""
    if when is None:
        return None
    if isinstance(when, str):
        from turnlog.records.dates import moment

        return moment(when, now=datetime.now(UTC), zone=zone)
    if not isinstance(when, datetime):
        if not isinstance(when, date):
            raise UsageError(
                f"a time cannot be {type(when).__name__}", hint='say "7d", or give a datetime'
            )
        when = datetime.combine(when, time.min)
    try:
        return (when if when.tzinfo is not None else when.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{when} is beyond the calendar", hint="its ends have no time zone"
        ) from None


def resolve_zone(name: str | tzinfo | None) -> tzinfo:
    """Return the time zone that is called *name*, or this machine's."""
    if name is None:
        return MachineZone()
    if isinstance(name, tzinfo):
        return name
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise UsageError(
            f"{name!r} is no time zone", hint="give a name such as UTC or Europe/Berlin"
        ) from None


def resolve_session_id(text: str | None, homes: Iterable[Home]) -> str | None:
    """Return the beginning of the ids that *text* means: itself, or that of the latest session."""
    if text is None:
        return None
    if not text.strip():
        raise UsageError("a session has to be named", hint="give the beginning of its id")
    if text != LATEST:
        return text
    from turnlog.sessions.owners import find_any_session

    return find_any_session(tuple(homes), text)[0].session_id


def resolve_project(project: str | os.PathLike[str], homes: Iterable[Home]) -> str:
    """Return the whole path of the directory that *project* means."""
    text = os.fspath(project)
    path = expand_path(text)
    is_name = os.path.basename(text) == text and text not in {os.curdir, os.pardir, path}
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
    """Return the directories of that name in which sessions worked."""
    ending = key_of(f"/{name}")
    logs: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes):
        # The name of its directory tells nearly all of a project's path: few have to be read.
        if log.kind == "session" and log.project_key and log.project_key.endswith(ending):
            logs.setdefault(log.project_key, []).append(log)
    found = {_worked_in(log) for each in logs.values() for log in each[:_TRIED]}
    return {path for path in found if path and last_part(path) == name}


def _worked_in(log: LogFile) -> str | None:
    from turnlog.sessions.metadata import read_head_tail

    try:
        return read_head_tail(log.path).summary.cwd
    except (TurnlogError, OSError):
        return None
