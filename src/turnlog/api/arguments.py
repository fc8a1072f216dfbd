"""What is meant by what a program asks, in the words of the command line.

Times, projects and sessions may be said as there. What a setting says that cannot be read goes to
the program's log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from turnlog.errors import UsageError
from turnlog.formats import Home

if TYPE_CHECKING:
    from turnlog.catalog.resolve import When
    from turnlog.pricing.cost import Prices


class Scoped(NamedTuple):
    """What a question is about, as it was meant: instants, a whole path, a time zone."""

    since: datetime | None
    until: datetime | None
    project: str | None
    zone: tzinfo


class Arguments:
    """Knows what is meant by what is asked about the sessions of some *homes*."""

    homes: tuple[Home, ...]

    def _within(
        self,
        since: When | None,
        until: When | None,
        project: str | os.PathLike[str] | None,
        timezone: str | tzinfo | None = None,
    ) -> Scoped:
        from turnlog.catalog.resolve import resolve_instant, resolve_project, resolve_zone

        zone = resolve_zone(timezone)
        return Scoped(
            resolve_instant(since, zone),
            resolve_instant(until, zone),
            None if project is None else resolve_project(project, self.homes),
            zone,
        )

    def _session(self, text: str | None) -> str | None:
        from turnlog.catalog.resolve import resolve_session_id

        return resolve_session_id(text, self.homes)


def configured() -> Prices:
    """Load the prices, with those that config.toml sets."""
    from turnlog.formats import turnlog_home
    from turnlog.pricing.cost import configured_prices
    from turnlog.storage.logger import warn_of_settings

    prices, problems = configured_prices(turnlog_home())
    warn_of_settings(problems)
    return prices


def check_count(limit: int) -> None:
    """Refuse a number of rows that is none."""
    if limit < 0:
        raise UsageError(f"{limit} is no count", hint="give 0 or more; 0 is all")


def number_of(day: str) -> int:
    """Return the number of a day of the week, Monday's being 0."""
    from turnlog.records.time_zone import WEEKDAYS

    named: Sequence[str] = WEEKDAYS
    if day not in named:
        raise UsageError(f"no week starts on {day!r}", hint=f"there are {', '.join(named)}")
    return named.index(day)
