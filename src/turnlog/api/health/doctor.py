"""Diagnose problems of homes, their sessions and the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from turnlog.api.homes import Home, all_homes, turnlog_home
from turnlog.api.index import Index
from turnlog.errors import TurnlogError
from turnlog.health.doctor import CheckContext, Checkup, DoctorFinding, Example, check_up

__all__ = ["CheckContext", "Checkup", "DoctorFinding", "Example", "check_up", "doctor_context"]


def doctor_context(
    homes: Sequence[Home],
    *,
    open_index: Callable[[], Index],
    cap: int,
    named: Sequence[str] = (),
) -> CheckContext:
    """Return the state of *homes* to pass to ``check_up``; close its *index* afterwards.

    Without an index the logs are read instead. *named* are the homes that the caller named.
    """
    index, reason = None, ""
    if homes:
        try:
            index = open_index()
        except (TurnlogError, OSError, sqlite3.Error) as error:
            reason = str(error)
    return CheckContext(
        homes,
        own=turnlog_home(),
        now=datetime.now(UTC),
        index=index,
        no_index=reason,
        named=named,
        elsewhere=all_homes() if named else (),
        cap=cap,
    )
