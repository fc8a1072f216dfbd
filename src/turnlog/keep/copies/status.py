"""The status of safekeeping: what is kept, what changed since, what will be deleted soon.

Reads names, sizes, the catalogs, and the first record of each main log, which may be an agent's.
Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats import Home, Problem, all_homes
from turnlog.formats.format import CleanupPeriod
from turnlog.formats.home_files import home_files, is_main_log, owner_at, owner_of
from turnlog.formats.kept_copies import kept_place
from turnlog.formats.settings_changes import Kind, State
from turnlog.keep.catalog import Catalogue, find_copy, kept_homes, last_run_at
from turnlog.keep.copies.keep import changed_files, owner_of_file
from turnlog.keep.retention.agent_cleanup import Loss, cleanup_period, losses
from turnlog.keep.schedule import install_steps
from turnlog.sessions.owners import is_subagent_log

WITHIN_DAYS = 7


class HomeStatus(Struct, kw_only=True):
    """What is kept of one home."""

    home: str
    is_there: bool
    sessions: int
    """Sessions whose main logs are kept."""
    gone: int
    """Those among them that are gone from their home."""
    files: int
    size_bytes: int
    """The decompressed size of the copies, including earlier generations."""
    packed_bytes: int
    """Their size on disk."""
    older: int
    """Copies of earlier generations."""
    missing: int
    """Copies in the catalog that are missing; they are not part of other counts."""
    behind_sessions: int
    """Sessions with changes that are not kept yet."""
    behind_files: int
    """Changed files that are not kept yet, including those of no session."""
    behind_bytes: int
    """The total size of the changed files."""
    last_run_at: datetime | None
    """When everything was checked last."""
    last_kept_at: datetime | None
    """When something was copied last."""
    cleanup_days: int | None
    """After how many days the agent deletes sessions; null for a home without cleanup."""


class Installed(Struct, kw_only=True):
    """Something that runs ``turnlog keep`` automatically."""

    kind: Kind
    place: str
    state: State
    command: str
    reason: str
    notes: list[str]


class KeepStatus(Struct, kw_only=True):
    """What `turnlog keep status --json` prints."""

    homes: list[HomeStatus]
    losses: list[Loss]
    """What the agents' own cleanup deletes within the next days, soonest first."""
    within_days: float
    installed: list[Installed]
    problems: list[str]
    """Why the status may be incomplete."""


def keep_status(
    named: Sequence[str | os.PathLike[str]] = (),
    *,
    now: datetime,
    within_days: float = WITHIN_DAYS,
) -> KeepStatus:
    """Return the status of the homes *named*, else of all that exist or existed."""
    homes = list(all_homes(named))
    if not named:
        known = {os.path.realpath(home) for home in homes}
        homes += [Home(Path(path)) for path, _ in kept_homes() if path not in known]
    problems: list[Problem] = []
    found, periods = [], []
    for home in homes:
        period = cleanup_period(home)
        periods += [period] if period is not None else []
        found.append(_home_status(home, period, problems))
    there = [home for home in homes if os.path.isdir(home)]
    messages = [f"{each.where}: {each.reason}" for period in periods for each in period.problems]
    messages += [f"{problem.path}: {problem.reason}" for problem in problems]
    try:
        installed = [
            Installed(
                kind=step.kind,
                place=step.place,
                state=step.state,
                command=step.command,
                reason=step.reason,
                notes=list(step.notes),
            )
            for step in install_steps(named)
        ]
    except UsageError as error:
        installed = []
        messages.append(error.message)
    return KeepStatus(
        homes=found,
        losses=losses(there, now, within_days),
        within_days=within_days,
        installed=installed,
        problems=messages,
    )


def _home_status(home: Home, period: CleanupPeriod | None, problems: list[Problem]) -> HomeStatus:
    catalogue = Catalogue.of_home(home)
    is_there = os.path.isdir(home)
    files = list(home_files(home, problems=problems)) if is_there else []
    present = {file.name for file in files}
    missing = set(catalogue.missing())
    current = [kept for kept in catalogue.current.values() if kept not in missing]
    older = [kept for each in catalogue.older.values() for kept in each if kept not in missing]
    logs = [kept for kept in current if is_main_log(kept.name)]
    behind = list(changed_files(files, catalogue))
    mains = {name for name in present if is_main_log(name)} | {kept.name for kept in logs}
    subagents = {owner_of(name) for name in mains if _is_subagent(home, name)}
    sessions = {owner_of(kept.name) for kept in logs} - subagents
    with_log = {owner_of(name) for name in mains} - subagents
    return HomeStatus(
        home=str(home.path),
        is_there=is_there,
        sessions=len(sessions),
        gone=len(sessions - {owner_of(kept.name) for kept in logs if kept.name in present}),
        files=len(current),
        size_bytes=sum(kept.size_bytes for kept in (*current, *older)),
        packed_bytes=sum(kept.packed_bytes for kept in (*current, *older)),
        older=len(older),
        missing=len(missing),
        behind_sessions=len({owner_of_file(file) for file in behind} & with_log),
        behind_files=len(behind),
        behind_bytes=sum(file.size_bytes for file in behind),
        last_run_at=last_run_at(kept_place(home)),
        last_kept_at=max((kept.kept_at for kept in current), default=None),
        cleanup_days=period.days if period is not None else None,
    )


def _is_subagent(home: Home, name: str) -> bool:
    """Return whether a log named like a session's is a subagent's, by its copy if it is gone."""
    path = home.path / name
    path = path if path.is_file() else find_copy(kept_place(home), name)
    return owner_at(name, path) != owner_of(name) or is_subagent_log(path)
