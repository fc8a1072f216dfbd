"""Predict the agent's own cleanup: which sessions it will delete, and when.

Claude Code silently deletes at startup every log that has not changed for ``cleanupPeriodDays``, 30
days by default. File mtimes count there, not records, so this differs from our retention.

The prediction is meant as a warning, so the shortest period that may apply counts: if a setting
cannot be read, or Claude Code may reject it, that is reported as a problem and the default may
apply. Settings of individual projects are not read. Nothing is changed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from msgspec import Struct

from turnlog.config import SettingProblem
from turnlog.errors import UsageError
from turnlog.formats import Home, LogFile, LogKind, Problem, find_logs, turnlog_home
from turnlog.formats.home_files import HomeFile
from turnlog.formats.home_paths import configured_homes, usual_homes
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.dates import instant_of_ns
from turnlog.sessions.owners import is_subagent_log
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
_DAY_NS: Final = 86_400 * 1_000_000_000
_MISSING: Final = "missing"
_MANAGED: Final = {
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": r"C:\Program Files\ClaudeCode",
}

IsKept = Callable[[Home, HomeFile], bool]
"""Returns whether the current version of a file is kept."""


class CleanupPeriod(Struct, kw_only=True, frozen=True):
    """After how many days without a change a home's sessions are deleted."""

    home: str
    days: int
    """The shortest period that may apply."""
    where: str | None = None
    """The settings file it comes from; None for the default."""
    problems: list[SettingProblem] = []
    """Why a different number may apply."""


class Loss(Struct, kw_only=True, frozen=True):
    """A session, or a subagent's log next to the sessions, that the cleanup would delete."""

    home: str
    id: str
    kind: LogKind
    path: str
    title: str | None = None
    size_bytes: int
    """Including the session's own directory."""
    changed_at: datetime | None
    deleted_at: datetime | None
    """When the agent's next start deletes it; null if out of the calendar's range."""
    is_due: bool
    """Whether it is due now: the next start deletes it."""
    is_kept: bool
    """Whether turnlog has a current copy of all of it."""


class LossCount(NamedTuple):
    """The number of sessions in some losses; copies of a session count once."""

    sessions: int
    subagents: int
    """Agents' logs next to the sessions."""

    @classmethod
    def of(cls, found: Iterable[Loss]) -> Self:
        """Count *found*."""
        found = list(found)
        sessions = {(loss.home, loss.id) for loss in found if loss.kind == "session"}
        return cls(len(sessions), sum(loss.kind != "session" for loss in found))


def managed_settings() -> Path:
    """Return the path of an administrator's settings, which override all others."""
    return Path(_MANAGED.get(sys.platform, "/etc/claude-code"))


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


def losses(
    homes: Iterable[Home],
    now: datetime,
    within_days: float = 7,
    *,
    is_kept: IsKept | None = None,
    title_of: Callable[[LogFile], str | None] | None = None,
    managed: Path | None = None,
    problems: list[Problem] | None = None,
) -> list[Loss]:
    """Return what the cleanup would delete until *within_days* from *now*, soonest first.

    *is_kept* tests whether a file is kept, by default with the catalog. Titles need a read of each
    log, so they come from *title_of*, if given.
    """
    if now.tzinfo is None:
        raise UsageError("the clock needs a time zone", hint="give an aware datetime")
    now_ns = int(now.timestamp() * 1_000_000_000)
    until_ns = now_ns + int(within_days * _DAY_NS)
    found = []
    for home in filter(is_cleaned, homes):
        period_ns = period_of(home, managed=managed).days * _DAY_NS
        kept = is_kept or _by_catalogue(home)
        for log, status in _old_logs(home, until_ns - period_ns, problems):
            files = [_described(home, str(log.path), status), *_side_files(home, log)]
            due_ns = status.st_mtime_ns + period_ns
            loss = Loss(
                home=str(home.path),
                id=log.session_id or log.agent_id or "",
                kind="subagent"
                if log.kind == "session" and is_subagent_log(log.path)
                else log.kind,
                path=str(log.path),
                title=title_of(log) if title_of is not None else None,
                size_bytes=sum(file.size_bytes for file in files),
                changed_at=instant_of_ns(status.st_mtime_ns),
                deleted_at=instant_of_ns(due_ns),
                is_due=due_ns <= now_ns,
                is_kept=all(kept(home, file) for file in files),
            )
            found.append((due_ns, loss.path, loss))
    return [loss for _, _, loss in sorted(found, key=lambda each: each[:2])]


# -- the setting ----------------------------------------------------------------------------


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
        problems.append(SettingProblem(str(path), f"no JSON that can be read: {reason}"))
        return None
    values = [value for key, value in settings if key == SETTING]
    if not values:
        return None
    fault = f"{SETTING} stands there twice" if len(values) > 1 else _fault(values[0])
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
        return f"{SETTING} is {shown}, which is no number of days"
    if value == 0:
        return (
            f"{SETTING} is 0: newer versions of Claude Code refuse that, and older ones delete"
            " every session and write none"
        )
    if value < 0 or value != int(value):
        return f"{SETTING} is {shown}, which is no whole number of days"
    if value > _LONGEST_DAYS:
        return f"{SETTING} is {shown}, and no calendar goes back that far"
    return ""


# -- the sessions ---------------------------------------------------------------------------


def _old_logs(
    home: Home, until_ns: int, problems: list[Problem] | None
) -> Iterator[tuple[LogFile, os.stat_result]]:
    """Yield the logs directly in a project's directory that have not changed after *until_ns*."""
    for log in find_logs(home, problems=problems):
        is_swept = log.layout == "claude" and log.compression is None and not log.is_kept
        if not is_swept or (log.kind == "subagent" and log.session_id is not None):
            continue
        try:
            status = os.stat(log.path)
        except OSError:
            continue  # Gone since it was listed.
        if status.st_mtime_ns <= until_ns:
            yield log, status


def _side_files(home: Home, log: LogFile) -> Iterator[HomeFile]:
    """Yield the files in the session's own directory."""
    if log.kind != "session" or log.session_id is None:
        return
    for item in DirectoryWalk().files_beneath(str(log.path.parent / log.session_id)):
        try:
            yield _described(home, item.path, os.stat(item.path))
        except OSError:
            continue


def _described(home: Home, path: str, status: os.stat_result) -> HomeFile:
    name = os.path.relpath(path, home.path).replace(os.sep, "/")
    return HomeFile(name, path, status.st_size, status.st_mtime_ns)


def _by_catalogue(home: Home) -> IsKept:
    # Asking for the period only must not import what reads copies.
    from turnlog.keep.catalog import Catalogue  # noqa: PLC0415

    catalogue = Catalogue.of_home(home)

    def is_kept(_home: Home, file: HomeFile) -> bool:
        return catalogue.has_all_of(file.name, file.size_bytes, file.mtime_ns)

    return is_kept
