"""Homes and logs: the directories that hold sessions, and the logs that a name refers to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from turnlog.formats import FORMATS, format_named
from turnlog.formats.home_paths import all_home_paths, configured_homes, usual_homes
from turnlog.formats.homes import Home, all_homes, find_homes, turnlog_home
from turnlog.formats.ids import check_session_id, is_uuid
from turnlog.formats.log_file import LayoutName, LogFile, read_name
from turnlog.formats.projects import expand_path, is_windows_path, is_within, last_part
from turnlog.formats.walk import Problem

__all__ = [
    "FORMATS",
    "Home",
    "LayoutName",
    "LogFile",
    "Problem",
    "UnreadFile",
    "all_home_paths",
    "all_homes",
    "all_logs",
    "check_session_id",
    "configured_homes",
    "expand_path",
    "find_homes",
    "format_named",
    "has_logs",
    "homes_to_watch",
    "is_uuid",
    "is_windows_path",
    "is_within",
    "last_part",
    "logs_named",
    "row_from",
    "turnlog_home",
    "unread_files",
    "usual_homes",
]


Row = TypeVar("Row", bound=Struct)


class UnreadFile(Struct, kw_only=True):
    """Something that could not be read, and why."""

    path: str
    reason: str


def row_from(kind: type[Row], source: object, **others: Any) -> Row:
    """Return a row with the fields that *source* has under the same names, and the *others*."""
    same = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**{name: getattr(source, name) for name in same}, **others)


def unread_files(problems: Iterable[Problem]) -> list[UnreadFile]:
    """Return *problems* as they appear in documents."""
    return [UnreadFile(path=str(each.path), reason=each.reason) for each in problems]


def all_logs(homes: Iterable[Home], problems: list[Problem] | None = None) -> list[LogFile]:
    """Return all logs of *homes*; directories that cannot be read are added to *problems*."""
    from turnlog.formats import find_everywhere

    return list(find_everywhere(homes, problems=problems))


def has_logs(homes: Iterable[Home]) -> bool:
    """Return whether *homes* have any log."""
    from turnlog.formats import find_everywhere

    return next(iter(find_everywhere(homes)), None) is not None


def logs_named(
    names: Iterable[str], homes: tuple[Home, ...], problems: list[Problem] | None = None
) -> Iterator[LogFile]:
    """Return the logs of *names*: files, directories, beginnings of session ids, or ``latest``."""
    from turnlog.sessions.owners import find_any_session

    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from all_logs((Home(path),), problems)
        elif path.exists() or os.sep in name or name.endswith((".jsonl", ".gz", ".zst")):
            yield _log_at(path)
        else:
            yield from find_any_session(homes, name, problems=problems)


def _log_at(path: Path) -> LogFile:
    """Return the file at *path* as a log, or raise if it cannot be opened."""
    from turnlog.storage.sources import open_regular

    os.close(open_regular(path))
    name = read_name(path.name)
    kind = name.kind if name else "session"
    return LogFile(
        path=path,
        home=Home(path.parent),
        layout="flat",
        kind=kind,
        session_id=name.id if name and kind == "session" else path.name,
        agent_id=name.id if name and kind == "subagent" else None,
        project_key=None,
        compression=name.compression if name else None,
    )


def homes_to_watch(names: tuple[str, ...]) -> tuple[Home, ...]:
    """Return the homes of *names*, or the default ones; they need not exist yet."""
    if not names:
        if find_homes():
            return all_homes()
        return (Home(Path((configured_homes() or usual_homes())[0])), *all_homes())
    homes: list[Home] = []
    for name in names:
        path = Path(name).expanduser().absolute()
        homes += all_homes((name,)) if os.path.lexists(path) else (Home(path),)
    return tuple(dict.fromkeys(homes))
