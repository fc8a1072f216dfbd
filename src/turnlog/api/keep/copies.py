"""Keep copies of sessions: now, while they change, or by a hook and a schedule; and the status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct

from turnlog.api.homes import Home, UnreadFile, find_homes, row_from, unread_files
from turnlog.errors import TurnlogError
from turnlog.formats.kept_copies import kept_place
from turnlog.formats.supported import ended_session
from turnlog.keep.copies.keep import KeepRun
from turnlog.keep.copies.keep import keep as _keep
from turnlog.keep.copies.status import HomeStatus, Installed, KeepStatus, keep_status
from turnlog.keep.copies.watch import watch
from turnlog.keep.retention.agent_cleanup import Loss, LossCount, cleanup_period, losses

__all__ = [
    "HomeStatus",
    "Installed",
    "KeepDocument",
    "KeepRun",
    "KeepStatus",
    "LossCount",
    "keep",
    "keep_document",
    "keep_ended_session",
    "keep_status",
    "unkept",
    "watch",
]


class KeepDocument(Struct, kw_only=True):
    """The output of `turnlog keep --json`; with --watch, one line per run."""

    at: datetime
    """When the run ended."""
    elapsed_ms: int | None
    """Null with --watch."""
    files: int
    """The number of files that are kept."""
    copied: int
    """Files that were copied, whole or in part."""
    sessions: list[str]
    """Their sessions, including those with only subagent logs left."""
    without_log: list[str]
    """Sessions without a main log; lists do not count them."""
    read_bytes: int
    """Bytes that were new."""
    written_bytes: int
    """Size of the written copies on disk."""
    begun_anew: list[str]
    """Files rewritten since they were kept; the earlier copy stays."""
    problems: list[UnreadFile]
    """Files that could not be kept, and why."""


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
    return row_from(
        KeepDocument,
        run,
        at=datetime.now(UTC),
        elapsed_ms=None if elapsed_seconds is None else round(elapsed_seconds * 1000),
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
