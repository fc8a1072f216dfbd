"""File formats and paths: homes, layouts, log names, side files, settings of agent programs.

The only package that knows where files are, in the three layouts `claude`, `dated` and `flat`.
``homes`` finds homes, ``find`` and ``home_logs`` find logs, ``places`` names new ones,
``kept_copies`` locates backups; ``claude_code`` edits its settings, ``flat`` maintains the caches
of a flat store.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.formats.find import find_everywhere, find_logs, find_session
    from turnlog.formats.home_logs import subagent_logs_near
    from turnlog.formats.homes import Home, all_homes, find_homes, turnlog_home
    from turnlog.formats.ids import (
        check_session_id,
        check_subagent_id,
        is_session_id,
        is_subagent_id,
        is_uuid,
        new_session_id,
        new_subagent_id,
    )
    from turnlog.formats.log_file import (
        Compression,
        LayoutName,
        LogFile,
        LogKind,
        LogName,
        looks_like_log,
        read_name,
    )
    from turnlog.formats.places import (
        claude_log,
        claude_subagent_log,
        dated_log,
        flat_archive,
        flat_directory,
        flat_index,
        flat_log,
        flat_meta,
        journal_log,
        subagent_log_near,
        todo_file,
    )
    from turnlog.formats.projects import (
        hash_of,
        key_of,
        project_hash,
        project_key,
        same_project_key,
    )
    from turnlog.formats.side_paths import (
        SideFiles,
        history_log,
        plans,
        program_files,
        running,
        side_files,
    )
    from turnlog.formats.walk import Problem

__all__ = [
    "Compression",
    "Home",
    "LayoutName",
    "LogFile",
    "LogKind",
    "LogName",
    "Problem",
    "SideFiles",
    "all_homes",
    "check_session_id",
    "check_subagent_id",
    "claude_log",
    "claude_subagent_log",
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
    "is_session_id",
    "is_subagent_id",
    "is_uuid",
    "journal_log",
    "key_of",
    "looks_like_log",
    "new_session_id",
    "new_subagent_id",
    "plans",
    "program_files",
    "project_hash",
    "project_key",
    "read_name",
    "running",
    "same_project_key",
    "side_files",
    "subagent_log_near",
    "subagent_logs_near",
    "todo_file",
    "turnlog_home",
]

# Loaded on first use, so that asking for a path does not import the rest.
_HOMES = {
    "turnlog.formats.find": (
        "find_everywhere",
        "find_logs",
        "find_session",
    ),
    "turnlog.formats.home_logs": ("subagent_logs_near",),
    "turnlog.formats.homes": (
        "Home",
        "all_homes",
        "find_homes",
        "turnlog_home",
    ),
    "turnlog.formats.ids": (
        "check_session_id",
        "check_subagent_id",
        "is_session_id",
        "is_subagent_id",
        "is_uuid",
        "new_session_id",
        "new_subagent_id",
    ),
    "turnlog.formats.log_file": (
        "Compression",
        "LayoutName",
        "LogFile",
        "LogKind",
        "LogName",
        "looks_like_log",
        "read_name",
    ),
    "turnlog.formats.places": (
        "claude_log",
        "claude_subagent_log",
        "dated_log",
        "flat_archive",
        "flat_directory",
        "flat_index",
        "flat_log",
        "flat_meta",
        "journal_log",
        "subagent_log_near",
        "todo_file",
    ),
    "turnlog.formats.projects": (
        "hash_of",
        "key_of",
        "project_hash",
        "project_key",
        "same_project_key",
    ),
    "turnlog.formats.side_paths": (
        "SideFiles",
        "history_log",
        "plans",
        "program_files",
        "running",
        "side_files",
    ),
    "turnlog.formats.walk": ("Problem",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - Some commands need none of this.

    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
