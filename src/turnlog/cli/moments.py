"""Instants as people type them: a day, a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import click

from turnlog.records.instants import instant

_AGO: Final = re.compile(r"(\d{1,6})\s*(min|h|d|w)")
_UNITS: Final = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def zone_named(name: str | None) -> tzinfo:
    """Give the time zone that is called *name*, or this machine's."""
    from zoneinfo import ZoneInfo

    from turnlog.questions.local_times import MachineZone

    if name is None:
        return MachineZone()
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise click.UsageError(
            f"--timezone takes a name such as UTC or Europe/Berlin, not {name!r}"
        ) from None


def moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    """Read an option's value: 2026-01-31, 2026-01-31T18:00 or 30min, 6h, 2d, 1w ago.

    Without a time zone it is UTC, as everything is shown.
    """
    if value is None:
        return None
    ago = _AGO.fullmatch(value.strip())
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = instant(value.strip())
    except OverflowError:  # Longer ago than there are years.
        at = None
    if at is None:
        raise click.BadParameter(
            f"{value!r} is no instant: say 2026-01-31, 2026-01-31T18:00, 30min, 6h or 2d"
        )
    return at
