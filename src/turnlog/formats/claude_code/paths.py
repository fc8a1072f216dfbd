"""The paths of Claude Code's logs and todos, and the keys of projects in them.

A project's key (`-home-u-my-app`) is the directory of its logs, exactly as Claude Code names it,
also for astral characters and paths beyond the cap of 200. It loses information (/a/b, /a-b and
/a.b share a key), so it is never converted back to a path: the real directory is in the records.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from turnlog.errors import InvalidId
from turnlog.formats.ids import check_session_id, check_subagent_id, is_device
from turnlog.formats.log_file import new_session_name, path_beneath, subagent_name
from turnlog.formats.projects import is_windows_path, project_text

_NAME_MAX = 255  # What common file systems allow for one component.
KEY_CAP = 200
"""A key of more UTF-16 units than this is cut and gets a hash of the whole path."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PLAIN = frozenset((_DIGITS + _DIGITS.upper()).encode())
_CHOSEN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def claude_log(
    home: str | os.PathLike[str],
    project_dir: str | os.PathLike[str],
    session_id: str,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the path of a session's main log: `projects/KEY/ID.jsonl`."""
    key = project_key(project_dir, environ=environ)
    return path_beneath(home, "projects", key, new_session_name(session_id))


def claude_subagent_log(
    home: str | os.PathLike[str],
    project_dir: str | os.PathLike[str],
    session_id: str,
    agent_id: str,
    *,
    nested: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the path of a subagent's log: under its session, or next to it in early versions."""
    new_session_name(session_id)
    name = subagent_name(agent_id)
    key = project_key(project_dir, environ=environ)
    between = (session_id, "subagents") if nested else ()
    return path_beneath(home, "projects", key, *between, name)


def todo_file(home: str | os.PathLike[str], session_id: str, agent_id: str) -> Path:
    """Return the path of an agent's todos. The main agent's id is the session's own."""
    name = f"{check_session_id(session_id)}-agent-{check_subagent_id(agent_id)}.json"
    if len(name) > _NAME_MAX:
        raise InvalidId(
            f"the two ids make a file name of {len(name)} characters",
            hint=f"file systems allow {_NAME_MAX}; choose a shorter session or subagent id",
        )
    return path_beneath(home, "todos", name)


def key_of(path: str) -> str:
    """Return the key of a path that is already resolved and in NFC.

    Counts in UTF-16 units as JavaScript does: an astral character becomes two hyphens.
    """
    units = memoryview(path.encode("utf-16-le", "surrogatepass")).cast("B")
    codes = [low | high << 8 for low, high in zip(units[::2], units[1::2], strict=True)]
    key = "".join(chr(code) if code in _PLAIN else "-" for code in codes)
    if len(key) <= KEY_CAP:
        return key
    return f"{key[:KEY_CAP]}-{_base36(_hash32(codes))}"


def project_key(
    directory: str | os.PathLike[str], *, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the key under which Claude Code stores the sessions of *directory*.

    CLAUDE_CODE_PROJECT_DIR_NAME overrides it as in Claude Code: only with CLAUDE_CONFIG_DIR, and
    only if it is a safe name.
    """
    chosen = environ.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    if (
        environ.get("CLAUDE_CONFIG_DIR")
        and _CHOSEN_NAME.fullmatch(chosen) is not None
        and not is_device(chosen)
    ):
        return chosen
    path = project_text(directory)
    if os.name != "nt" and is_windows_path(path):  # It cannot be resolved here.
        return key_of(unicodedata.normalize("NFC", path.rstrip("\\/")))
    return key_of(unicodedata.normalize("NFC", os.path.realpath(path)))


def same_project_key(key: str, other: str) -> bool:
    """Return whether two keys may name one project.

    Older builds of Claude Code hashed long paths differently, so of two cut keys only the first 200
    characters are compared. To be sure, compare the records' cwd.
    """
    if key == other:
        return True
    return _is_cut(key) and _is_cut(other) and key[:KEY_CAP] == other[:KEY_CAP]


def _is_cut(key: str) -> bool:
    return len(key) > KEY_CAP and key[KEY_CAP] == "-"


def _hash32(codes: list[int]) -> int:
    # JavaScript's `h = (h << 5) - h + c | 0`, then Math.abs: a signed 32-bit value made positive.
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"
