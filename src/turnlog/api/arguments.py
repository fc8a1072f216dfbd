"""What is meant by the words of a question: times, time zones, projects, sessions, weekdays.

They may be said as on the command line. What a setting says that cannot be read goes to the
program's log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from turnlog.catalog.period import Period, check_period
from turnlog.catalog.resolve import (
    When,
    resolve_instant,
    resolve_project,
    resolve_session_id,
    resolve_zone,
)
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.pricing.cost import Prices

__all__ = [
    "Period",
    "Scoped",
    "When",
    "check_count",
    "check_period",
    "configured_prices",
    "resolve_instant",
    "resolve_project",
    "resolve_scope",
    "resolve_session_id",
    "resolve_zone",
    "weekday_number",
]


class Scoped(NamedTuple):
    """What a question is about, as it was meant: instants, a whole path, a time zone."""

    since: datetime | None
    until: datetime | None
    project: str | None
    zone: tzinfo


def resolve_scope(
    homes: Iterable[Home],
    since: When | None,
    until: When | None,
    project: str | os.PathLike[str] | None,
    timezone: str | tzinfo | None = None,
) -> Scoped:
    """Return the instants, the whole path and the time zone that are meant."""
    zone = resolve_zone(timezone)
    return Scoped(
        resolve_instant(since, zone),
        resolve_instant(until, zone),
        None if project is None else resolve_project(project, homes),
        zone,
    )


def configured_prices() -> Prices:
    """Load the prices, with those that config.toml sets."""
    from turnlog.formats import turnlog_home
    from turnlog.pricing import cost
    from turnlog.storage.logger import warn_of_settings

    prices, problems = cost.configured_prices(turnlog_home())
    warn_of_settings(problems)
    return prices


def check_count(limit: int) -> None:
    """Refuse a number of rows that is none."""
    if limit < 0:
        raise UsageError(f"{limit} is no count", hint="give 0 or more; 0 is all")


def weekday_number(day: str) -> int:
    """Return the number of a day of the week, Monday's being 0."""
    from turnlog.records.dates import WEEKDAYS

    named: Sequence[str] = WEEKDAYS
    if day not in named:
        raise UsageError(f"no week starts on {day!r}", hint=f"there are {', '.join(named)}")
    return named.index(day)
