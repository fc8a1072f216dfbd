"""Arguments that functions of the API share: periods, time zones, projects, names, settings.

They are written as on the command line, such as ``7d`` or ``latest``. A path is read as a shell
reads it; a name without a slash, if there is no such directory here, is the name of a project in
which sessions worked. Settings that cannot be read are reported to a callback, by default to the
log of the program.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from datetime import UTC, date, datetime, time, tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from turnlog.catalog.names import no_such_model, projects_named, short_model, shown_name
from turnlog.catalog.period import Period, check_period
from turnlog.errors import AmbiguousSession, NotFound, TurnlogError, UsageError
from turnlog.formats import Home, LogFile, find_everywhere, key_of
from turnlog.formats.find import LATEST
from turnlog.formats.projects import expand_path, last_part
from turnlog.records.dates import MachineZone, moment

if TYPE_CHECKING:
    from turnlog.config import SettingProblem
    from turnlog.pricing.cost import Prices
    from turnlog.redact import Rules

    Report = Callable[[Iterable[SettingProblem]], None]


__all__ = [
    "Period",
    "When",
    "check_count",
    "check_period",
    "check_session",
    "configured_prices",
    "line_cap",
    "no_such_model",
    "projects_named",
    "redaction_rules",
    "resolve_instant",
    "resolve_project",
    "resolve_scope",
    "resolve_session_id",
    "resolve_zone",
    "short_model",
    "shown_name",
]

When: TypeAlias = str | date
"""A time as text (7d, yesterday, 2026-11), a datetime, or a date for its midnight."""
_TRIED: Final = 5
_SHOWN: Final = 5


def resolve_instant(when: When | None, zone: tzinfo) -> datetime | None:
    """Return the first instant that *when* covers; days and times without a zone are of *zone*."""
    if when is None:
        return None
    if isinstance(when, str):
        return moment(when, now=datetime.now(UTC), zone=zone)
    if not isinstance(when, datetime):
        if not isinstance(when, date):
            raise UsageError(
                f"invalid type of a time: {type(when).__name__}", hint='use "7d" or a datetime'
            )
        when = datetime.combine(when, time.min)
    try:
        return (when if when.tzinfo is not None else when.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{when} is out of range", hint="use a date between the years 1 and 9999"
        ) from None


def resolve_zone(name: str | tzinfo | None) -> tzinfo:
    """Return the time zone *name*, or that of this machine."""
    if name is None:
        return MachineZone()
    if isinstance(name, tzinfo):
        return name
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise UsageError(
            f"invalid time zone: {name!r}", hint="use a name such as UTC or Europe/Berlin"
        ) from None


def resolve_session_id(
    text: str | None, homes: Iterable[Home], *, must_exist: bool = True
) -> str | None:
    """Return *text*, which is the beginning of an id, or the id of the latest session.

    If no session begins with it, raise NotFound, unless *must_exist* is false.
    """
    if text is None:
        return None
    if not text.strip():
        raise UsageError("the name of the session is empty", hint="give the beginning of its id")
    homes = tuple(homes)
    if text != LATEST:
        if must_exist:
            check_session(text, homes)
        return text
    from turnlog.sessions.owners import find_any_session

    return find_any_session(homes, text)[0].session_id


def check_session(text: str, homes: Sequence[Home]) -> None:
    """Raise NotFound if no session's id begins with *text*, not even that of a deleted one."""
    from turnlog.index.database import open_for_reading
    from turnlog.sessions.owners import find_any_session

    try:
        find_any_session(homes, text)
    except AmbiguousSession:
        return  # A filter keeps all of them.
    except NotFound:
        db = open_for_reading(homes)
        if db is None:
            raise
        with suppress(sqlite3.Error), closing(db):
            query = "SELECT 1 FROM sessions WHERE substr(session, 1, ?) = ? LIMIT 1"
            if db.execute(query, (len(text), text)).fetchone():
                return
        raise


def resolve_project(project: str | os.PathLike[str], homes: Iterable[Home]) -> str:
    """Return the full path of the directory *project*."""
    text = os.fspath(project)
    path = expand_path(text)
    is_name = os.path.basename(text) == text and text not in {os.curdir, os.pardir, path}
    if not is_name or text.startswith("~") or os.path.isdir(path):
        return path
    found = sorted(_called(text, homes))
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(
            f"{text} matches {len(found)} projects: {', '.join(found[:_SHOWN])}{more}",
            hint="use the full path of one, or of a parent directory",
        )
    return found[0] if found else path


def _called(name: str, homes: Iterable[Home]) -> set[str]:
    """Return the directories with that name in which sessions worked."""
    ending = key_of(f"/{name}")
    logs: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes):
        # The name of the log's directory encodes the path, so few logs have to be read.
        if log.kind == "session" and log.project_key and log.project_key.endswith(ending):
            logs.setdefault(log.project_key, []).append(log)
    found = {_worked_in(log) for each in logs.values() for log in each[:_TRIED]}
    return {path for path in found if path and last_part(path) == name}


def _worked_in(log: LogFile) -> str | None:
    from turnlog.sessions.metadata import read_head_tail

    try:
        return read_head_tail(log.path).summary.cwd
    except (TurnlogError, OSError):
        return None


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
