"""Keep copies of sessions: now, while they change, or by a hook and a schedule; and the status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from turnlog.api.homes import Home, UnreadFile, find_homes, unread_files
from turnlog.errors import TurnlogError
from turnlog.formats.kept_copies import kept_place
from turnlog.formats.settings_changes import Deed, Remove, Run, Step, Write, carry_out
from turnlog.formats.supported import ended_session
from turnlog.keep.copies.keep import KeepRun
from turnlog.keep.copies.keep import keep as _keep
from turnlog.keep.copies.status import HomeStatus, Installed, KeepStatus, keep_status
from turnlog.keep.copies.watch import watch
from turnlog.keep.retention.agent_cleanup import Loss, LossCount, cleanup_period, losses
from turnlog.keep.schedule import install_steps, passing_place, program, uninstall_steps

__all__ = [
    "Deed",
    "HomeStatus",
    "InstallDocument",
    "Installed",
    "KeepDocument",
    "KeepRun",
    "KeepStatus",
    "Loss",
    "LossCount",
    "Remove",
    "Run",
    "Step",
    "StepRow",
    "Unkept",
    "Write",
    "apply_steps",
    "install_document",
    "install_steps",
    "keep",
    "keep_document",
    "keep_ended_session",
    "keep_status",
    "passing_place",
    "program",
    "uninstall_steps",
    "unkept",
    "watch",
]


class KeepDocument(Struct, kw_only=True):
    """What `turnlog keep --json` prints; with --watch, a line for each run."""

    at: datetime
    """When it was done."""
    elapsed_ms: int | None
    """How long it took; null with --watch."""
    files: int
    """Files that are worth keeping."""
    copied: int
    """Those of which a copy was made or added to."""
    sessions: list[str]
    """The sessions they belong to, also those of which only subagents' logs are left."""
    without_log: list[str]
    """Those of them that have no main log any more, and count in no list."""
    read_bytes: int
    """How much of them was new."""
    written_bytes: int
    """How large the copies are that were written, on disk."""
    begun_anew: list[str]
    """Files that were rewritten since they were kept; the copy of what they held stays."""
    problems: list[UnreadFile]
    """What could not be kept, and why."""


def keep(
    homes: Sequence[Home],
    session: str | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> KeepRun:
    """Update the kept copies of *homes*, or of one session by the beginning of its id."""
    if session is None:
        return _keep(homes, progress=progress)
    from turnlog.sessions.session import Session

    wanted = frozenset({Session.find(homes, session).id})
    return _keep(homes, sessions=wanted, progress=progress)


def keep_document(run: KeepRun, elapsed_seconds: float | None = None) -> KeepDocument:
    """Return a run as it is printed."""
    return KeepDocument(
        at=datetime.now(UTC),
        elapsed_ms=None if elapsed_seconds is None else round(elapsed_seconds * 1000),
        files=run.files,
        copied=run.copied,
        sessions=run.sessions,
        without_log=run.without_log,
        read_bytes=run.read_bytes,
        written_bytes=run.written_bytes,
        begun_anew=run.begun_anew,
        problems=unread_files(run.problems),
    )


def keep_ended_session(hook_input: bytes) -> None:
    """Keep the session that Claude Code's SessionEnd hook names; ignore failures."""
    session, homes = ended_session(hook_input)
    if session is not None:
        with suppress(TurnlogError, OSError):
            _keep(homes, sessions=frozenset({session}))


class Unkept(Struct, frozen=True):
    """What the agents' own cleanup will delete within some days, and has no kept copy."""

    losses: list[Loss]
    cleanup_days: int | None
    """The shortest cleanup period of the homes, or None if nothing is deleted in any of them."""
    has_copies: bool


def unkept(names: Sequence[str], within_days: int) -> Unkept:
    """Return what will be lost within *within_days* unless it is kept."""
    periods = {home: period for home in find_homes(names) if (period := cleanup_period(home))}
    found = losses(periods, datetime.now(UTC), within_days)
    return Unkept(
        losses=[loss for loss in found if not loss.is_kept],
        cleanup_days=min((period.days for period in periods.values()), default=None),
        has_copies=any(kept_place(home).is_dir() for home in periods),
    )


class StepRow(Struct, kw_only=True):
    """What one place needs, or needed."""

    kind: Literal["claude", "systemd", "launchd", "cron", "none"]
    place: str
    state: Literal["installed", "outdated", "missing", "refused"]
    """How it was found."""
    command: str
    """What is run from there, or would be."""
    writes: list[str]
    removes: list[str]
    runs: list[str]
    reason: str
    hint: str
    notes: list[str]


class InstallDocument(Struct, kw_only=True):
    """What `turnlog keep --install --json` and `--uninstall --json` print."""

    steps: list[StepRow]
    done: bool
    """False if nothing was changed, since nobody agreed with --yes."""


def apply_steps(steps: Sequence[Step]) -> None:
    """Carry out what `install_steps` or `uninstall_steps` planned."""
    for step in steps:
        carry_out(step)


def install_document(steps: Sequence[Step], *, done: bool) -> InstallDocument:
    """Return *steps* as they are printed."""
    return InstallDocument(steps=[_step_row(step) for step in steps], done=done)


def _step_row(step: Step) -> StepRow:
    return StepRow(
        kind=step.kind,
        place=step.place,
        state=step.state,
        command=step.command,
        writes=[str(deed.path) for deed in step.deeds if isinstance(deed, Write)],
        removes=[str(deed.path) for deed in step.deeds if isinstance(deed, Remove)],
        runs=[deed.line for deed in step.deeds if isinstance(deed, Run)],
        reason=step.reason,
        hint=step.hint,
        notes=list(step.notes),
    )
