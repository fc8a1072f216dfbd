"""Names and places: the only room that knows paths.

Owns where logs lie, what they are called and what lies beside them, in the three layouts `claude`,
`dated` and `flat`. It reads names, never contents, changes nothing on disk, and imports nothing
but the errors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.layout.find import find_everywhere, find_logs, find_session
    from turnlog.layout.homes import Home, all_homes, find_homes, turnlog_home
    from turnlog.layout.ids import (
        check_agent_id,
        check_session_id,
        is_agent_id,
        is_session_id,
        is_uuid,
        new_agent_id,
        new_session_id,
    )
    from turnlog.layout.keys import hash_of, key_of, project_hash, project_key, same_project_key
    from turnlog.layout.log_file import LayoutName, LogFile
    from turnlog.layout.names import Compression, LogKind, LogName, looks_like_log, read_name
    from turnlog.layout.places import (
        agent_log_beside,
        claude_agent_log,
        claude_log,
        dated_log,
        flat_archive,
        flat_directory,
        flat_index,
        flat_log,
        flat_meta,
        journal_log,
        todo_file,
    )
    from turnlog.layout.search import agent_logs_beside
    from turnlog.layout.side import SideFiles, history_log, plans, programs_own, running, side_files
    from turnlog.layout.walk import Problem

__all__ = [
    "Compression",
    "Home",
    "LayoutName",
    "LogFile",
    "LogKind",
    "LogName",
    "Problem",
    "SideFiles",
    "agent_log_beside",
    "agent_logs_beside",
    "all_homes",
    "check_agent_id",
    "check_session_id",
    "claude_agent_log",
    "claude_log",
    "dated_log",
    "find_everywhere",
    "find_homes",
    "find_logs",
    "find_session",
    "flat_archive",
    "flat_directory",
    "flat_index",
    "flat_log",
    "flat_meta",
    "hash_of",
    "history_log",
    "is_agent_id",
    "is_session_id",
    "is_uuid",
    "journal_log",
    "key_of",
    "looks_like_log",
    "new_agent_id",
    "new_session_id",
    "plans",
    "programs_own",
    "project_hash",
    "project_key",
    "read_name",
    "running",
    "same_project_key",
    "side_files",
    "todo_file",
    "turnlog_home",
]

# Loaded when they are first used: whoever only asks where things are does not wait for the rest.
_HOMES = {
    "turnlog.layout.find": (
        "find_everywhere",
        "find_logs",
        "find_session",
    ),
    "turnlog.layout.homes": (
        "Home",
        "all_homes",
        "find_homes",
        "turnlog_home",
    ),
    "turnlog.layout.ids": (
        "check_agent_id",
        "check_session_id",
        "is_agent_id",
        "is_session_id",
        "is_uuid",
        "new_agent_id",
        "new_session_id",
    ),
    "turnlog.layout.keys": (
        "hash_of",
        "key_of",
        "project_hash",
        "project_key",
        "same_project_key",
    ),
    "turnlog.layout.log_file": (
        "LayoutName",
        "LogFile",
    ),
    "turnlog.layout.names": (
        "Compression",
        "LogKind",
        "LogName",
        "looks_like_log",
        "read_name",
    ),
    "turnlog.layout.places": (
        "agent_log_beside",
        "claude_agent_log",
        "claude_log",
        "dated_log",
        "flat_archive",
        "flat_directory",
        "flat_index",
        "flat_log",
        "flat_meta",
        "journal_log",
        "todo_file",
    ),
    "turnlog.layout.search": ("agent_logs_beside",),
    "turnlog.layout.side": (
        "SideFiles",
        "history_log",
        "plans",
        "programs_own",
        "running",
        "side_files",
    ),
    "turnlog.layout.walk": ("Problem",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - Some commands need none of this.

    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
