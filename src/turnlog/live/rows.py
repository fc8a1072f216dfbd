"""What the index and the ledger know of the sessions that a live view shows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Any, Final

import msgspec
from msgspec import Struct, field, structs

from turnlog.catalog.pages import COUNTERS, IS_THERE, LISTED, models_in
from turnlog.catalog.period import Period
from turnlog.catalog.sessions import Keeping, Keepings
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at, microseconds
from turnlog.live.activity import Program
from turnlog.pricing.cost import Prices
from turnlog.sessions.state import SessionState

_MOST_SESSIONS: Final = 60


class Row(Struct, kw_only=True):
    """What is known of a session without its running program."""

    id: str
    home: str
    path: str
    layout: str = "claude"
    project: str | None = None
    title: str | None = None
    started_at: datetime | None = None
    last_active_at: datetime | None = None
    records: int | None = None
    git_branch: str | None = None
    model: str | None = None
    life: SessionState = field(default_factory=SessionState)
    keeping: Keeping = "live"
    sums: dict[str, Any] = field(default_factory=dict)


_ROWS: Final = (
    f"WITH {LISTED} SELECT session, home, path, layout, place, title, started_at, active_at,"  # noqa: S608
    f" records, git_branch, models, life FROM listed WHERE {IS_THERE}"
    " AND (active_at >= ? OR session IN (SELECT value FROM json_each(?)))"
    " ORDER BY active_at DESC LIMIT ?"
)
_decode_life = msgspec.msgpack.Decoder(SessionState).decode


def known_rows(index: Index, since: datetime, running: dict[str, Program]) -> dict[str, Row]:
    """Ask for the sessions that were active since then, and for those that run."""
    ids = json.dumps(list(running))
    keepings = Keepings()
    found: dict[str, Row] = {}
    for row in index.db.execute(_ROWS, (microseconds(since), ids, _MOST_SESSIONS + len(running))):
        (
            session,
            home,
            path,
            layout,
            place,
            title,
            started,
            active,
            records,
            branch,
            models,
            life,
        ) = row
        if session in found and not _is_home_of(home, running.get(session)):
            continue  # A copy in another home, that was active earlier.
        found[session] = Row(
            id=session,
            home=home,
            path=path,
            layout=layout,
            project=place,
            title=title,
            started_at=instant_at(started),
            last_active_at=instant_at(active),
            records=records,
            git_branch=branch,
            model=next(iter(models_in(models)), None),
            life=_decode_life(life) if life else SessionState(),
            keeping=keepings.of(home, path),
        )
    return found


def _is_home_of(home: str, program: Program | None) -> bool:
    return program is not None and os.path.realpath(program.home.path) == os.path.realpath(home)


def sums_of(
    index: Index, prices: Prices, sessions: Iterable[str], zone: tzinfo
) -> dict[str, dict[str, Any]]:
    """Ask the ledger what *sessions* used and cost."""
    wanted = set(sessions)
    scan = IndexSource(index, prices).sums(Period())
    mine = [each for each in scan.responses if each.session in wanted]
    found = ledger(
        structs.replace(scan, responses=mine), prices, Question(by=("session",), zone=zone)
    )
    names = ("messages", "cost_usd", *COUNTERS)
    return {str(row.session): {name: getattr(row, name) for name in names} for row in found.rows}
