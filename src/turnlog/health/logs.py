"""`turnlog check`: read every log of some homes once, and report damage.

Nothing is changed. A log that cannot be read is reported like other findings.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from turnlog.catalog.count import count_sessions
from turnlog.errors import TurnlogError
from turnlog.formats import Home, LogFile, Problem
from turnlog.keep.copies.shortfall import Shortfall, Shortfalls
from turnlog.storage.repair import Finding, Severity, Validation, validate
from turnlog.storage.sources import LINE_CAP

LESS_THAN_KEPT: Final = "less-than-kept"


class LogHealth(Struct, kw_only=True, frozen=True):
    """The result for one log."""

    path: str
    session: str | None
    in_home: bool
    """Whether it is in a home, so that its session id names it."""
    size_bytes: int
    total: int
    valid: int
    corrupt: list[int]
    blank: int
    records: int
    salvaged: int
    is_valid: bool
    """Whether it has no findings except notes."""


class LocatedFinding(Finding, kw_only=True, frozen=True):
    """A finding with the path of its log."""

    path: str


class HealthTotals(Struct, kw_only=True):
    """The totals of all logs."""

    homes: int = 0
    projects: int = 0
    sessions: int = 0
    subagents: int = 0
    logs: int = 0
    records: int = 0
    salvaged: int = 0
    damaged_logs: int = 0
    size_bytes: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    versions: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)


class Health(Struct, kw_only=True):
    """The result of `turnlog check --json`."""

    findings: list[LocatedFinding] = field(default_factory=list)
    unlisted: int = 0
    """The findings beyond ten thousand in one log, which are only counted."""
    logs: list[LogHealth] = field(default_factory=list)
    totals: HealthTotals = field(default_factory=HealthTotals)

    @property
    def is_well(self) -> bool:
        """Whether there are no findings except notes."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)


def examine(
    logs: Iterable[LogFile],
    *,
    homes: Sequence[Home] | None = None,
    problems: Iterable[Problem] = (),
    strict: bool = False,
    cap: int = LINE_CAP,
    progress: Callable[[int], None] = lambda _size_bytes: None,
) -> Health:
    """Check every log; *progress* is called with the size of each.

    Lines longer than *cap* are damage. If these are all logs of some *homes*, their sessions are
    counted as in lists.
    """
    health = Health()
    count = _Count()
    shortfalls = Shortfalls()
    for log in logs:
        try:
            result = validate(log.path, strict=strict, cap=cap)
        except (TurnlogError, OSError) as error:
            health.findings.append(_unreadable(log.path, str(error)))
            count.add(log, is_subagent=log.kind == "subagent")
            continue
        count.add(log, is_subagent=log.kind == "subagent" or result.is_sidechain)
        _add(health, count, log, result)
        shortfall = shortfalls.of(log, is_suspect=not result.is_valid)
        if shortfall is not None:
            health.findings.append(_shortened(log.path, shortfall))
            health.totals.damaged_logs += result.is_valid
        progress(result.size_bytes)
    health.findings += [_unreadable(problem.path, problem.reason) for problem in problems]
    count.finish(health.totals)
    if homes is not None:
        health.totals.sessions = count_sessions(homes)
    return health


class _Count:
    """Sets and counters that the totals are computed from."""

    def __init__(self) -> None:
        self.homes: set[str] = set()
        self.projects: set[tuple[str, str]] = set()
        self.sessions: set[str] = set()
        self.subagents = 0
        self.versions: Counter[str] = Counter()
        self.types: Counter[str] = Counter()

    def add(self, log: LogFile, *, is_subagent: bool) -> None:
        home = os.fspath(log.home)
        self.homes.add(home)
        if log.project_key is not None:
            self.projects.add((home, log.project_key))
        if is_subagent:
            self.subagents += 1
        elif log.session_id is not None:
            self.sessions.add(log.session_id)

    def finish(self, totals: HealthTotals) -> None:
        totals.homes = len(self.homes)
        totals.projects = len(self.projects)
        totals.sessions = len(self.sessions)
        totals.subagents = self.subagents
        totals.versions = dict(sorted(self.versions.items(), key=lambda item: version_key(item[0])))
        totals.types = dict(self.types.most_common())


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that puts 2.1.9 before 2.1.10."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in version.split("."))


def _add(health: Health, count: _Count, log: LogFile, result: Validation) -> None:
    totals = health.totals
    totals.logs += 1
    totals.records += result.records
    totals.salvaged += result.salvaged
    totals.size_bytes += result.size_bytes
    totals.damaged_logs += not result.is_valid
    if result.first_at and (totals.first_at is None or result.first_at < totals.first_at):
        totals.first_at = result.first_at
    if result.last_at and (totals.last_at is None or result.last_at > totals.last_at):
        totals.last_at = result.last_at
    count.versions += result.versions
    count.types += result.types
    health.unlisted += result.unlisted
    path = os.fspath(log.path)
    health.findings += [
        LocatedFinding(path=path, **{f: getattr(finding, f) for f in Finding.__struct_fields__})
        for finding in result.findings
    ]
    health.logs.append(
        LogHealth(
            path=path,
            session=log.session_id,
            in_home=log.project_key is not None,
            size_bytes=result.size_bytes,
            total=result.total,
            valid=result.valid,
            corrupt=result.corrupt,
            blank=result.blank,
            records=result.records,
            salvaged=result.salvaged,
            is_valid=result.is_valid,
        )
    )


def _shortened(path: Path, shortfall: Shortfall) -> LocatedFinding:
    records = f"{shortfall.records:,} record{'s' if shortfall.records > 1 else ''}"
    return LocatedFinding(
        path=os.fspath(path),
        severity=Severity.ERROR,
        code=LESS_THAN_KEPT,
        line=0,
        offset=0,
        length=0,
        message=f"holds less than was kept: {records} in generation {shortfall.generation} only",
    )


def _unreadable(path: Path | str, reason: str) -> LocatedFinding:
    return LocatedFinding(
        path=os.fspath(path),
        severity=Severity.ERROR,
        code="unreadable",
        line=0,
        offset=0,
        length=0,
        message=reason,
    )
