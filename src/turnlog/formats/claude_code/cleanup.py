"""Claude Code's own cleanup: which homes it cleans, and after how many days.

It silently deletes at startup every log that has not changed for ``cleanupPeriodDays``, 30 days by
default. The shortest period that may apply counts: if a setting cannot be read, or Claude Code may
reject it, that is reported as a problem and the default may apply. Settings of individual projects
are not read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from turnlog.config import SettingProblem
from turnlog.formats.format import CleanupPeriod
from turnlog.formats.home_paths import configured_homes, usual_homes
from turnlog.formats.homes import Home, turnlog_home
from turnlog.storage.atomic_files import Unreadable, read_file

SETTING: Final = "cleanupPeriodDays"
DEFAULT_DAYS: Final = 30
"""The default, also if the settings are unreadable."""

_SETTINGS: Final = "settings.json"
_LOCAL: Final = "settings.local.json"
_PROGRAM_FILES: Final = (
    _SETTINGS, _LOCAL, ".claude.json", ".credentials.json", "history.jsonl", "plugins",
    "shell-snapshots", "statsig",
)  # fmt: skip
"""Files that only Claude Code keeps in its directory."""
_LARGEST_BYTES: Final = 4 * 1024 * 1024
_LONGEST_DAYS: Final = 100_000_000  # JavaScript has no earlier date.
_MISSING: Final = "missing"
_MANAGED: Final = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": r"C:\Program Files\ClaudeCode",
}


def is_cleaned(home: Home) -> bool:
    """Return whether Claude Code cleans *home*: it is configured, or has files of the program.

    turnlog's own home, other stores and directories with copies of logs are not cleaned.
    """
    path = os.path.realpath(home)
    if path == os.path.realpath(turnlog_home()) or not os.path.isdir(home.path / "projects"):
        return False
    known = (*(configured_homes() or ()), *usual_homes())
    if os.path.basename(path) == ".claude" or path in map(os.path.realpath, known):
        return True
    return any(os.path.exists(os.path.join(path, name)) for name in _PROGRAM_FILES)


def period_of(home: Home, *, managed: Path | None = None) -> CleanupPeriod:
    """Return after how many days the sessions of *home* are deleted, at worst."""
    problems: list[SettingProblem] = []
    for path in _managed_files(managed or managed_settings()):
        days = _days_in(path, problems)
        if days is not None:
            # Later files override earlier ones: the list has the strongest first.
            return CleanupPeriod(home=str(home.path), days=days, where=str(path), problems=problems)
    found = {
        path: days
        for path in (home.path / _LOCAL, home.path / _SETTINGS)
        if (days := _days_in(path, problems)) is not None
    }
    choice: list[tuple[int, str | None]] = [(days, str(path)) for path, days in found.items()]
    if problems or not found:
        choice.append((DEFAULT_DAYS, None))
    if len(set(found.values())) > 1:
        words = " and ".join(f"{days} in {path.name}" for path, days in found.items())
        why = "which of them counts depends on where Claude Code is started"
        problems.append(SettingProblem(SETTING, f"{words}: {why}"))
    days, where = min(choice, key=lambda each: each[0])
    return CleanupPeriod(home=str(home.path), days=days, where=where, problems=problems)


def managed_settings() -> Path:
    """Return the path of an administrator's settings, which override all others."""
    return Path(_MANAGED.get(sys.platform, "/etc/claude-code"))


def _managed_files(directory: Path) -> list[Path]:
    """Return an administrator's settings files, the strongest first."""
    try:
        names = sorted(os.listdir(directory / "managed-settings.d"), reverse=True)
    except OSError:
        names = []
    parts_of_it = [directory / "managed-settings.d" / each for each in names]
    return [
        *(path for path in parts_of_it if path.suffix == ".json" and path.name[0] != "."),
        directory / "managed-settings.json",
    ]


def _days_in(path: Path, problems: list[SettingProblem]) -> int | None:
    """Return the days in the settings at *path*; None if absent or invalid."""
    data = read_file(path, limit=_LARGEST_BYTES)
    if isinstance(data, Unreadable):
        if data.reason != _MISSING:
            problems.append(SettingProblem(str(path), data.reason))
        return None
    try:
        settings = _read_settings(data)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        problems.append(SettingProblem(str(path), f"not valid JSON: {reason}"))
        return None
    values = [value for key, value in settings if key == SETTING]
    if not values:
        return None
    fault = f"{SETTING} is set twice" if len(values) > 1 else _fault(values[0])
    if fault:
        problems.append(SettingProblem(str(path), fault))
        return None
    return int(values[0])


def _read_settings(data: bytes) -> list[tuple[str, Any]]:
    """Return the settings as pairs, with duplicate keys."""
    text = data.decode("utf-8-sig")
    pairs = json.loads(text, object_pairs_hook=tuple) if text.strip() else ()
    if not isinstance(pairs, tuple):
        raise ValueError("not an object")  # noqa: TRY004 - It is the file's value that is wrong.
    return list(pairs)


def _fault(value: Any) -> str:
    """Return what is wrong with a number of days, or ""."""
    shown = repr(value) if not isinstance(value, str) else f'"{value}"'
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
        return f"{SETTING} is {shown}, not a number of days"
    if value == 0:
        return (
            f"{SETTING} is 0: newer versions of Claude Code refuse that, and older ones delete"
            " every session and write none"
        )
    if value < 0 or value != int(value):
        return f"{SETTING} is {shown}, not a whole number of days"
    if value > _LONGEST_DAYS:
        return f"{SETTING} is {shown}, more than any calendar has"
    return ""
