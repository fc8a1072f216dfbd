"""One document for the health page: findings, deletions to come, copies, trash, the index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from turnlog.api.arguments import line_cap
from turnlog.api.health.doctor import QUICK, Checkup, Footprint, check_up, doctor_context, footprint
from turnlog.api.homes import Home, all_homes
from turnlog.api.index import Index, open_fresh
from turnlog.api.keep.copies import KeepStatus, keep_status
from turnlog.api.keep.trash import TrashDocument, find_trashed
from turnlog.api.sessions.lists import IndexedSession, list_indexed
from turnlog.index.database import index_path
from turnlog.storage.atomic_files import size_at

MOST_ROWS = 20
"""The most sessions of one kind that are listed."""


class IndexFacts(Struct, kw_only=True):
    """The index of some homes."""

    path: str
    size_bytes: int
    made_by: str
    """The version of turnlog that made it."""
    logs: int
    records: int


class SessionGroup(Struct, kw_only=True):
    """Some sessions, and how many there are in all."""

    sessions: list[IndexedSession]
    total: int


class HealthSummary(Struct, kw_only=True):
    """What is wrong, what will be deleted, what is kept, and where everything is."""

    checkup: Checkup
    is_complete: bool
    """Whether all logs were checked."""
    damaged: int
    """Sessions with damage in their logs, as far as the index knows."""
    keep: KeepStatus
    gone: SessionGroup
    """Sessions that are gone at their source, kept or not; the last active ones first."""
    archived: SessionGroup
    trash: TrashDocument
    index: IndexFacts | None
    """Null if it cannot be read."""
    footprint: Footprint
    named: list[str]
    """The homes that commands have to name; empty if they are the default ones."""


def health_summary(
    homes: Sequence[Home], *, now: datetime, everything: bool = False, within_days: float = 7
) -> HealthSummary:
    """Return the state of *homes*; with *everything*, also check all logs, which takes longer.

    *within_days* is how far ahead deletions are listed.
    """
    named = _names(homes)
    context = doctor_context(
        homes, open_index=lambda: open_fresh(homes, fallback="none"), cap=line_cap(), named=named
    )
    index = context.index
    try:
        checkup = check_up(context, None if everything else QUICK)
        gone, archived, damaged, facts = _in_index(index, homes, now)
        titles = context.titles
    finally:
        if index is not None:
            index.close()
    keep = keep_status(named, now=now, within_days=within_days)
    keep.losses = [
        replace(loss, title=titles.get((loss.home, loss.id), loss.title)) for loss in keep.losses
    ]
    return HealthSummary(
        checkup=checkup,
        is_complete=everything,
        damaged=damaged,
        keep=keep,
        gone=gone,
        archived=archived,
        trash=find_trashed(named).document(),
        index=facts,
        footprint=footprint(homes),
        named=named,
    )


def _names(homes: Sequence[Home]) -> list[str]:
    """Return the paths of *homes*, or an empty list if they are the default ones."""
    given = [os.fspath(home) for home in homes]
    return [] if set(given) == {os.fspath(home) for home in all_homes()} else given


def _in_index(
    index: Index | None, homes: Sequence[Home], now: datetime
) -> tuple[SessionGroup, SessionGroup, int, IndexFacts | None]:
    if index is None:
        nothing = SessionGroup(sessions=[], total=0)
        return nothing, nothing, 0, None
    gone = list_indexed(index, gone=True, archived=None, limit=MOST_ROWS, detailed=0, now=now)
    archived = list_indexed(index, archived=True, limit=MOST_ROWS, detailed=0, now=now)
    damaged = list_indexed(index, has_damage=True, archived=None, limit=0, now=now)
    path = index_path(homes)
    made_by, logs, records = index.db.execute(
        "SELECT made_by, (SELECT count(*) FROM logs WHERE gone_at IS NULL AND layout <> 'beside'),"
        " (SELECT count(*) FROM records) FROM about"
    ).fetchone()
    return (
        SessionGroup(sessions=gone.sessions, total=gone.total),
        SessionGroup(sessions=archived.sessions, total=archived.total),
        damaged.total,
        IndexFacts(
            path=str(path), size_bytes=size_at(path), made_by=made_by, logs=logs, records=records
        ),
    )
