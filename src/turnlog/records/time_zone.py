"""Hours, days, weeks and months in a time zone: names, boundaries, sequences.

A week is named by its first day. Names sort chronologically.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal, get_args

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: Final[tuple[Weekday, ...]] = get_args(Weekday)
TIMES: Final = ("hour", "day", "week", "month")
# How much of an ISO timestamp names each; %Y would drop the leading zeros of early years.
_LENGTHS: Final = {"hour": 13, "day": 10, "week": 10, "month": 7}
_QUARTER: Final = timedelta(minutes=15)
_INSTANT: Final = timedelta(microseconds=1)


class MachineZone(tzinfo):
    """The time zone of this machine, with all its clock changes, not only the current offset."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        return self._here(at).utcoffset()

    def dst(self, _at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str | None:
        return self._here(at).tzname()

    def fromutc(self, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)

    @staticmethod
    def _here(at: datetime | None) -> datetime:
        """Return a local time with the offset valid then."""
        return (datetime.now(UTC) if at is None else at.replace(tzinfo=None)).astimezone()


class LocalTimes:
    """Names of hours, days, weeks and months in one time zone.

    Conversions are slow, so names are cached per quarter of an hour: no zone changes its clock at
    any other time.
    """

    def __init__(self, zone: tzinfo, week_starts: int = 0) -> None:
        self._zone = zone
        self._week_starts = week_starts
        self._names: dict[tuple[str, int, int, int, int, int], str] = {}

    def name(self, unit: str, at: datetime) -> str:
        """Return the name of the *unit* that contains *at*."""
        key = (unit, at.year, at.month, at.day, at.hour, at.minute // 15)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self._named(unit, at)
        return found

    def names_between(self, unit: str, since: datetime, until: datetime) -> list[str]:
        """Return the names of all *unit*s that overlap the range, in order."""
        if since >= until:
            return []
        last = self.name(unit, until - _INSTANT)
        if unit == "hour":
            quarters = -(-(until - since) // _QUARTER)
            named = (self.name(unit, since + _QUARTER * number) for number in range(quarters))
            return list(dict.fromkeys((*named, last)))
        names = [self.name(unit, since)]
        while names[-1] < last:
            names.append(_next(unit, names[-1]))
        return names

    def begin(self, unit: str, at: datetime) -> tuple[datetime, datetime]:
        """Return when the day, week or month of *at* begins and when the next one does."""
        name = self.name(unit, at)
        return self.midnight(name), self.midnight(_next(unit, name))

    def midnight(self, name: str) -> datetime:
        """Return when the day, week or month called *name* begins."""
        day = date.fromisoformat(f"{name}-01" if len(name) == _LENGTHS["month"] else name)
        return datetime(day.year, day.month, day.day, tzinfo=self._zone).astimezone(UTC)

    def _named(self, unit: str, at: datetime) -> str:
        try:
            local = at.astimezone(self._zone).replace(tzinfo=None)
            if unit == "week":
                local -= timedelta(days=(local.weekday() - self._week_starts) % 7)
        except (OverflowError, ValueError, OSError):  # At the ends of the calendar.
            local = at.replace(tzinfo=None)
        name = local.isoformat(" ")[: _LENGTHS[unit]]
        return f"{name}:00" if unit == "hour" else name


def _next(unit: str, name: str) -> str:
    """Return the name of the day, week or month after *name*."""
    if unit == "month":
        year, month = divmod(int(name[:4]) * 12 + int(name[5:]), 12)
        return f"{year:04}-{month + 1:02}"
    day = date.fromisoformat(name) + timedelta(days=7 if unit == "week" else 1)
    return day.isoformat()
