"""How and where agents keep their sessions: homes, logs, side files, settings.

The only package that knows where files are. Each format has a folder with a subclass of `Format`.
``find`` finds logs, ``home_files`` all other files of a home, ``kept_copies`` turnlog's own copies
of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.formats.claude_code.paths import (
        claude_log,
        claude_subagent_log,
        key_of,
        project_key,
        same_project_key,
        todo_file,
    )
    from turnlog.formats.dated.format import dated_log, hash_of, project_hash
    from turnlog.formats.find import find_everywhere, find_logs, find_session, subagent_logs_near
    from turnlog.formats.flat.format import (
        flat_archive,
        flat_directory,
        flat_index,
        flat_log,
        flat_meta,
    )
    from turnlog.formats.format import Format
    from turnlog.formats.home_files import history_log, plans
    from turnlog.formats.homes import Home, all_homes, find_homes, journal_log, turnlog_home
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
        subagent_log_near,
    )
    from turnlog.formats.supported import FORMATS, format_named
    from turnlog.formats.walk import Problem

FOLDERS = {
    "claude": "claude_code",
    "codex": "codex",
    "copilot": "copilot",
    "dated": "dated",
    "flat": "flat",
}
"""The folder of each format, in the order in which they are asked. Its ``format`` has a FORMAT."""
AGENT_HOMES = {
    "CLAUDE_CONFIG_DIR": ("~/.claude", "$XDG_CONFIG_HOME/claude"),
    "CODEX_HOME": ("~/.codex",),
    "COPILOT_HOME": ("~/.copilot",),
}
"""Each agent's variable that names its home or homes, and its usual homes.

They are here because the status line needs them, and importing a format takes too long for it.
"""

__all__ = [
    "AGENT_HOMES", "FOLDERS", "FORMATS", "Compression", "Format", "Home", "LayoutName", "LogFile",
    "LogKind", "LogName", "Problem", "all_homes", "check_session_id", "check_subagent_id",
    "claude_log", "claude_subagent_log", "dated_log", "find_everywhere", "find_homes", "find_logs",
    "find_session", "flat_archive", "flat_directory", "flat_index", "flat_log", "flat_meta",
    "format_named", "hash_of", "history_log", "is_session_id", "is_subagent_id", "is_uuid",
    "journal_log", "key_of", "looks_like_log", "new_session_id", "new_subagent_id", "plans",
    "project_hash", "project_key", "read_name", "same_project_key", "subagent_log_near",
    "subagent_logs_near", "todo_file", "turnlog_home",
]  # fmt: skip

# Loaded on first use, so that asking for a path does not import the rest.
_NAMES = {
    "claude_code.paths": "claude_log claude_subagent_log key_of"
    " project_key same_project_key todo_file",
    "dated.format": "dated_log hash_of project_hash",
    "find": "find_everywhere find_logs find_session subagent_logs_near",
    "flat.format": "flat_archive flat_directory flat_index flat_log flat_meta",
    "format": "Format",
    "home_files": "history_log plans",
    "homes": "Home all_homes find_homes journal_log turnlog_home",
    "ids": "check_session_id check_subagent_id is_session_id"
    " is_subagent_id is_uuid new_session_id new_subagent_id",
    "log_file": "Compression LayoutName LogFile LogKind"
    " LogName looks_like_log read_name subagent_log_near",
    "supported": "FORMATS format_named",
    "walk": "Problem",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - Some commands need none of this.

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
