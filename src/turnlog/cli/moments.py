"""The time zone that a person names."""

from __future__ import annotations

from datetime import tzinfo

import click


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
