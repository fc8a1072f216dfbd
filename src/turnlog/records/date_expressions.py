"""Parse dates and durations: ``7d``, ``yesterday``, ``last week``, ``2026-11``.

Each expression is the first instant it covers: a day its midnight, a week its Monday, a duration
that long before *now*. Days are those of the caller's time zone: midnight is looked up for the day
itself, never computed as hours ago. Where a clock change skips midnight, the day begins at the
change.

Invalid expressions, and dates outside the range of datetime, raise UsageError.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from turnlog.errors import UsageError

EXAMPLES: Final = (
    "2026-11-01, 2026-11-01T18:00, 2026-11, today, yesterday, monday, last week, this month, "
    "7d, 12h, 90min, 3mo, 1y or 5 minutes ago"
)
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
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
    """Parse *text* as an aware datetime in UTC; without a zone of its own it is in *zone*."""
    typed = " ".join(text.lower().split())
    try:
        at = _iso(text.strip(), typed, zone) or _named(typed, now, zone) or _ago(typed, now, zone)
        if at is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):  # No such day, or a year out of range.
        pass
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise UsageError(f"{shown!r} is no date and no span of time", hint=f"say {EXAMPLES}")


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
    elif typed in _DAYS:
        day = today - timedelta(days=(today.weekday() - _DAYS.index(typed)) % 7)
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
