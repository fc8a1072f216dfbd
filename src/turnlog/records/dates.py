"""Timestamps of logs, days and weeks in a time zone, and expressions such as ``7d``.

ISO 8601 text and milliseconds since 1970 become aware UTC datetimes. An invalid timestamp
(``9999-99-99T99:99:99Z`` occurs in real logs) becomes None and never invalidates its record.

LocalTimes names hours, days, weeks and months. A week is named by its first day, and names sort
chronologically. ``moment`` parses what people type. Each expression is the first instant it covers:
a day its midnight, a week its Monday, a duration that long before *now*. Midnight is looked up for
the day itself, never computed as hours ago. Where a clock change skips midnight, the day begins at
the change.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, get_args

from turnlog.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Epoch values below this are seconds: 1e11 seconds is the year 5138, 1e11 ms is March 1973.
_SMALLEST_MS = 100_000_000_000


def instant(value: Any) -> datetime | None:
    """Return *value* as a datetime, or None if it is not a timestamp."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            if at.tzinfo is UTC:  # As nearly all are: no conversion needed.
                return at
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            ms = value if abs(value) >= _SMALLEST_MS else value * 1000
            return _EPOCH + timedelta(milliseconds=ms)
    except (ValueError, OverflowError):
        pass
    return None


def instant_of_ns(at_ns: int) -> datetime | None:
    """Return the datetime of *at_ns*, a file time in nanoseconds; None if out of range."""
    try:
        return _EPOCH + timedelta(microseconds=at_ns // 1000)
    except OverflowError:
        return None


def iso(at: datetime) -> str:
    """Format *at* as Claude Code does: UTC, milliseconds, Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
        name = self._names.get(key)
        if name is None:
            try:
                local = at.astimezone(self._zone).replace(tzinfo=None)
                if unit == "week":
                    local -= timedelta(days=(local.weekday() - self._week_starts) % 7)
            except (OverflowError, ValueError, OSError):  # At the ends of the calendar.
                local = at.replace(tzinfo=None)
            name = local.isoformat(" ")[: _LENGTHS[unit]]
            name = self._names[key] = f"{name}:00" if unit == "hour" else name
        return name

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


def _next(unit: str, name: str) -> str:
    """Return the name of the day, week or month after *name*."""
    if unit == "month":
        year, month = divmod(int(name[:4]) * 12 + int(name[5:]), 12)
        return f"{year:04}-{month + 1:02}"
    day = date.fromisoformat(name) + timedelta(days=7 if unit == "week" else 1)
    return day.isoformat()


EXAMPLES: Final = (
    "2026-11-01, 2026-11-01T18:00, 2026-11, today, yesterday, monday, last week, this month, "
    "7d, 12h, 90min, 3mo, 1y or 5 minutes ago"
)
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_SECONDS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _MINUTE),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), _HOUR),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 7 * _DAY),
}
# Months have no fixed length: they are counted on the calendar.
_MONTHS: Final = {
    **dict.fromkeys(("mo", "mos", "month", "months"), 1),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 12),
}
_MOST_DIGITS: Final = 9
_SHOWN: Final = 60


def moment(text: str, *, now: datetime, zone: tzinfo) -> datetime:
    """Parse *text* as an aware datetime in UTC; without a zone of its own it is in *zone*.

    Raises UsageError for an invalid expression or a date out of range.
    """
    typed = " ".join(text.lower().split())
    try:
        at = _iso(text.strip(), typed, zone) or _named(typed, now, zone) or _ago(typed, now, zone)
        if at is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):  # No such day, or a year out of range.
        pass
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise UsageError(f"invalid date or duration: {shown!r}", hint=f"use {EXAMPLES}")


def calendar_period(
    text: str, *, now: datetime, zone: tzinfo
) -> tuple[str, datetime, datetime] | None:
    """Return the name, the start and the end of a day, week, month or year; None if *text* is none.

    It is ``2026``, ``2026-07``, ``2026-07-22``, ``last month``, ``yesterday`` and so on. A week is
    named by its first day, the others as they are written: ``2026-07``.
    """
    typed = " ".join(text.lower().split())
    unit = typed.rpartition(" ")[2]
    if typed[:4].isdecimal():
        unit = {4: "year", 7: "month", 10: "day"}.get(len(typed), "")
    elif typed in ("today", "yesterday", *WEEKDAYS):
        unit = "day"
    elif typed.split(" ")[0] not in ("this", "last"):
        unit = ""
    if unit not in ("day", "week", "month", "year"):
        return None
    first = moment(typed, now=now, zone=zone)
    name = first.astimezone(zone).date().isoformat()
    local = LocalTimes(zone)
    if unit == "year":
        name = name[:4]
        return name, first, moment(str(int(name) + 1).zfill(4), now=now, zone=zone)
    name = name[: _LENGTHS[unit]]
    return name, first, local.midnight(_next(unit, name))


def is_between(at: datetime | None, since: datetime | None, until: datetime | None) -> bool:
    """Return whether *since* <= *at* < *until*; None is in no range."""
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def _iso(typed: str, folded: str, zone: tzinfo) -> datetime | None:
    """Parse a date or a date and time; None if *typed* is neither."""
    if folded.isascii() and folded[:4].isdigit():
        if len(folded) == 4:
            return datetime(int(folded), 1, 1, tzinfo=zone)
        if len(folded) == 7 and folded[4] == "-" and folded[5:].isdigit():
            return datetime(int(folded[:4]), int(folded[5:]), 1, tzinfo=zone)
    for written in (typed, _tidied(folded)):
        try:
            at = datetime.fromisoformat(written)
        except ValueError:
            continue
        return at if at.tzinfo is not None else at.replace(tzinfo=zone)
    return None


def _tidied(typed: str) -> str:
    """Return ``2026-11-01 18:00 z`` in ISO 8601 form."""
    day, *others = typed.upper().split(" ") if typed else ("",)
    between = "" if "T" in day or not others else "T"
    return day + between + "".join(others)


def _named(typed: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Parse a calendar name such as ``yesterday``; None if *typed* is not one."""
    if typed == "now":
        return now
    today = now.astimezone(zone).date()
    day: date | None = None
    if typed == "today":
        day = today
    elif typed == "yesterday":
        day = today - timedelta(days=1)
    elif typed in WEEKDAYS:
        day = today - timedelta(days=(today.weekday() - WEEKDAYS.index(typed)) % 7)
    elif typed == "this week":
        day = today - timedelta(days=today.weekday())
    elif typed == "last week":
        day = today - timedelta(days=today.weekday() + 7)
    elif typed == "this month":
        day = today.replace(day=1)
    elif typed == "last month":
        day = _months_before(today.replace(day=1), 1)
    elif typed == "this year":
        day = today.replace(month=1, day=1)
    elif typed == "last year":
        day = today.replace(year=today.year - 1, month=1, day=1)
    # The earlier of two midnights. A skipped midnight is read with the offset before the change,
    # and so becomes the instant of the change.
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=zone)


def _ago(typed: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Parse a duration such as 7d, 7 days or a week ago; None if *typed* is not one."""
    typed = typed.removesuffix(" ago")
    for article in ("a ", "an "):
        if typed.startswith(article):
            typed = f"1 {typed.removeprefix(article)}"
    digits = 0
    while digits < min(len(typed), _MOST_DIGITS) and typed[digits].isdecimal():
        digits += 1
    unit = typed[digits:].strip()
    if not digits:
        return None
    count = int(typed[:digits])
    if unit in _SECONDS:
        return now.astimezone(UTC) - timedelta(seconds=count * _SECONDS[unit])
    if unit in _MONTHS:
        here = now.astimezone(zone)
        day = _months_before(here.date(), count * _MONTHS[unit])
        return here.replace(year=day.year, month=day.month, day=day.day)
    return None


def _months_before(day: date, count: int) -> date:
    """Go *count* months back; in a shorter month, use its last day."""
    year, month = divmod(day.year * 12 + day.month - 1 - count, 12)
    first = date(year, month + 1, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(day.day, last.day))
