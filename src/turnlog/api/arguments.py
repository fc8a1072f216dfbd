"""Arguments that functions of the API share: periods, time zones, projects, sessions, settings.

They are written as on the command line, such as ``7d`` or ``latest``. Settings that cannot be read
are reported to a callback, by default to the log of the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
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
    from turnlog.config import SettingProblem
    from turnlog.formats import Home
    from turnlog.pricing.cost import Prices
    from turnlog.redact import Rules

    Report = Callable[[Iterable[SettingProblem]], None]

__all__ = [
    "Period",
    "Scoped",
    "When",
    "check_count",
    "check_period",
    "configured_prices",
    "line_cap",
    "redaction_rules",
    "resolve_instant",
    "resolve_project",
    "resolve_scope",
    "resolve_session_id",
    "resolve_zone",
    "weekday_number",
]


class Scoped(NamedTuple):
    """A period, a project and a time zone, resolved."""

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
    """Return the instants, the absolute path and the time zone of these arguments."""
    zone = resolve_zone(timezone)
    return Scoped(
        resolve_instant(since, zone),
        resolve_instant(until, zone),
        None if project is None else resolve_project(project, homes),
        zone,
    )


def configured_prices(report: Report | None = None) -> Prices:
    """Return the prices, with those that config.toml sets."""
    from turnlog.formats import turnlog_home
    from turnlog.pricing import cost

    prices, problems = cost.configured_prices(turnlog_home())
    (report or _log)(problems)
    return prices


def line_cap(report: Report | None = None) -> int:
    """Return the number of bytes above which a line is damage."""
    from turnlog.config import load_config
    from turnlog.formats import turnlog_home
    from turnlog.storage.sources import LINE_CAP

    config = load_config(turnlog_home())
    (report or _log)(config.problems)
    return config.line_cap_bytes or LINE_CAP


def redaction_rules(report: Report | None = None) -> Rules:
    """Return the rules for secrets, with those that config.toml adds."""
    from turnlog.config import load_config
    from turnlog.formats import turnlog_home
    from turnlog.redact import rules_from

    config = load_config(turnlog_home())
    rules, problems = rules_from(config.redact)
    (report or _log)((*config.problems, *problems))
    return rules


def _log(problems: Iterable[SettingProblem]) -> None:
    from turnlog.storage.logger import warn_of_settings

    warn_of_settings(tuple(problems))


def check_count(limit: int) -> None:
    """Raise UsageError if *limit* is negative."""
    if limit < 0:
        raise UsageError(f"{limit} is no count", hint="give 0 or more; 0 is all")


def weekday_number(day: str) -> int:
    """Return the number of a day of the week; Monday is 0."""
    from turnlog.records.dates import WEEKDAYS

    days: Sequence[str] = WEEKDAYS
    if day not in days:
        raise UsageError(f"no week starts on {day!r}", hint=f"there are {', '.join(days)}")
    return days.index(day)
