"""Find all logs, or the logs of one session by a prefix of its id.

Searches one home or several, in any mixture of formats, in one walk. The order is fixed, each log
is returned once, and nothing on disk raises: unreadable directories and files that only look like
logs become Problems. Names are read, and contents only where a format needs them. Links are
followed last, so a log is known by its real path rather than by a link. Any log may end in .gz or
.zst.

A prefix gives exactly one session or an error with the candidates; it never guesses.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import structs

from turnlog.errors import AmbiguousSession, InvalidId, NotFound
from turnlog.formats.format import HOME, Place
from turnlog.formats.home_paths import configured_homes, kept_path, usual_homes
from turnlog.formats.homes import Home
from turnlog.formats.ids import check_session_id
from turnlog.formats.kept_copies import copy_roots
from turnlog.formats.log_file import LogFile, looks_like_log, read_name
from turnlog.formats.supported import FORMATS, top_places
from turnlog.formats.walk import DirectoryWalk, Item, Problem

LATEST = "latest"
_SHOWN = 5
_CLOCK_TICK = timedelta(seconds=2)
"""How far a file's mtime may be behind its last record: FAT has a resolution of two seconds, and
other file systems update the clock every few milliseconds.
"""
_KINDS = ("session", "day", "subagent")

ShareOut = Callable[[list[LogFile], list[Problem] | None], dict[str, list[LogFile]]]
"""Returns which sessions have records in some days' logs: for each id its share of each log, the
most recently active session last.
"""


ActiveAt = Callable[[LogFile], datetime | None]
"""Returns when the session of a main log was last active; None if it does not count."""


def find_logs(home: Home, *, problems: list[Problem] | None = None) -> Iterator[LogFile]:
    """Return every log of *home*; what cannot be read is added to *problems*."""
    return find_everywhere((home,), problems=problems)


def find_everywhere(
    homes: Iterable[Home],
    *,
    problems: list[Problem] | None = None,
    times: dict[str, int] | None = None,
) -> Iterator[LogFile]:
    """Return every log of several homes, each once even where homes share directories by links.

    A log that is gone from its home, but has a kept copy, is returned as that copy. The directories
    listed and their mtimes are added to *times*.
    """
    walk = DirectoryWalk(problems, times)
    found: set[str] = set()
    for home in homes:
        place = kept_path(os.fspath(home))
        is_kept = os.path.isdir(place)
        there = set()
        for log in _Search(home, walk, found, expected=not is_kept).logs():
            if is_kept:
                there.add(_identity(log))
            yield log
        for root in copy_roots(Path(place)).values() if is_kept else ():
            for log in _Search(Home(root), walk, found).logs():
                if _identity(log) not in there:
                    yield structs.replace(log, home=home, is_kept=True)


def find_session(
    homes: Iterable[Home],
    text: str,
    *,
    problems: list[Problem] | None = None,
    share_out: ShareOut | None = None,
    active_at: ActiveAt | None = None,
    unnamed: list[LogFile] | None = None,
) -> tuple[LogFile, ...]:
    """Return the logs of the session whose id begins with *text*: main logs first, then subagents'.

    An exact id wins over longer ids that begin with it; "latest" is the most recently active
    session by *active_at*, or else the one with the newest main log. Several main logs are
    returned if a session has copies (two homes, or a log and its archive) or logs of several days.
    Names do not show which sessions have records in a day's log; *share_out* does, and without it
    they are not searched. Logs that do not name their session are added to *unnamed*.
    """
    if not text:
        raise InvalidId("an empty id names no session", hint="give the first characters of an id")
    homes = tuple(homes)
    sessions: dict[str, list[LogFile]] = {}
    days: list[LogFile] = []
    for log in find_everywhere(homes, problems=problems):
        if log.kind == "day":
            days.append(log)
        elif log.session_id is not None:
            sessions.setdefault(log.session_id, []).append(log)
        elif unnamed is not None:
            unnamed.append(log)
    for session_id, logs in share_out(days, problems).items() if share_out and days else ():
        sessions.setdefault(session_id, []).extend(logs)
    if text == LATEST:
        chosen = _latest(sessions, active_at)
    elif text in sessions:
        chosen = text
    else:
        chosen = only_one([each for each in sessions if each.startswith(text)], text)
    if chosen is None:
        raise _nothing(homes, text)
    return in_reading_order(sessions[chosen], active_at)


def in_reading_order(
    logs: Iterable[LogFile], active_at: ActiveAt | None = None
) -> tuple[LogFile, ...]:
    """Return the logs of one session: main logs first, then subagents'.

    Among copies of its main log, the first is the one to read: plain logs come before archives,
    then the one in which the session was last active according to *active_at*.
    """
    logs = tuple(logs)
    mains = [log for log in logs if log.kind == "session"]
    last: dict[Path, float] = {}
    if active_at is not None and len(mains) > 1:
        times = ((log.path, active_at(log)) for log in mains)
        last = {path: at.timestamp() for path, at in times if at is not None}

    def order(log: LogFile) -> tuple[int, bool, float, str]:
        is_archive = log.compression is not None
        return _KINDS.index(log.kind), is_archive, -last.get(log.path, 0), str(log.path)

    return tuple(sorted(logs, key=order))


def only_one(ids: list[str], text: str) -> str | None:
    """Return the only one of *ids*, which all begin with *text*; None if there is none."""
    if len(ids) <= 1:
        return ids[0] if ids else None
    ids.sort()
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    raise AmbiguousSession(
        f"{text!r} begins the ids of {len(ids)} sessions: {', '.join(ids[:_SHOWN])}{more}",
        hint="give more characters of the id",
        about=text,
    )


def _latest(sessions: dict[str, list[LogFile]], active_at: ActiveAt | None) -> str | None:
    mains = [log for logs in sessions.values() for log in logs if log.kind != "subagent"]
    times = {log.path: _changed_ns(log) for log in mains}
    # The id breaks ties, so that the result does not depend on the order on disk.
    mains.sort(key=lambda log: (times[log.path], log.kind, log.session_id), reverse=True)
    newest = _active_last(mains, times, active_at) if active_at else None
    newest = newest or next(iter(mains), None)
    if newest is None or newest.kind != "day":
        return newest.session_id if newest else None
    # Sessions that share a log are ordered by their last activity.
    return [
        each
        for each, logs in sessions.items()
        if any(log.kind == "day" and log.path == newest.path for log in logs)
    ][-1]


def _active_last(
    mains: list[LogFile], times: dict[Path, int], active_at: ActiveAt
) -> LogFile | None:
    """Return the log of the most recently active session; *mains* are sorted by mtime.

    A log that was restored, copied or renamed has changed since its session was active. But no
    session was active after its log changed, so the first few suffice. Ties, such as a session and
    its fork, are broken by id, as in lists.
    """
    found: LogFile | None = None
    found_at = datetime.min.replace(tzinfo=UTC)
    for log in mains:
        changed_at = datetime.fromtimestamp(times[log.path] / 1e9, UTC)
        if found is not None and changed_at + _CLOCK_TICK < found_at:
            break
        at = changed_at if log.kind == "day" else active_at(log)
        if at is None or at < found_at:
            continue
        if found is None or at > found_at or (log.session_id or "") < (found.session_id or ""):
            found, found_at = log, at
    return found


def _changed_ns(log: LogFile) -> int:
    try:
        return os.stat(log.path).st_mtime_ns
    except OSError:
        return -1  # Gone since it was listed.


def _nothing(homes: tuple[Home, ...], text: str) -> NotFound:
    if not homes:
        missing = " and no ".join(configured_homes() or usual_homes())
        return NotFound(
            "there is no home to look in",
            hint=f"there is no {missing}; name the directory that holds sessions",
            code="no-home",
            about=missing,
        )
    places = ", ".join(str(home.path) for home in homes[:_SHOWN])
    if text == LATEST:
        return NotFound(
            f"there are no sessions in {places}",
            hint="name another home",
            code="no-sessions",
        )
    return NotFound(
        f"no session's id begins with {text[:80]!r}",
        hint=f"list the sessions, or name another home than {places}",
        code="no-such-session",
        about=places,
    )


# -- the search of one home ------------------------------------------------------------------

_Who: TypeAlias = tuple[str, ...]


def _identity(log: LogFile) -> _Who:
    """Return a log's identity, independent of its directory in the home and its compression."""
    if log.session_id is not None:
        return log.kind, log.session_id, log.agent_id or ""
    return log.kind, log.project_key or "", log.path.name.removesuffix(".zst")


class _Directory(NamedTuple):
    """A directory to search, and its role in each format that has logs there."""

    path: str
    real: str
    places: tuple[Place, ...]


class _Search:
    """The search of one home. *found* holds the real paths of the logs returned so far."""

    def __init__(
        self, home: Home, walk: DirectoryWalk, found: set[str], *, expected: bool = True
    ) -> None:
        self.home = home
        self.expected = expected
        self.walk = walk
        self.found = found
        self.waiting: list[_Directory] = []  # A stack, not recursion: trees may be very deep.
        self.linked_directories: deque[_Directory] = deque()
        self.linked_files: list[tuple[tuple[Place, ...], Item]] = []

    def logs(self) -> Iterator[LogFile]:
        yield from self._home()
        while self.waiting or self.linked_directories:
            next_one = self.waiting.pop() if self.waiting else self.linked_directories.popleft()
            items = self.walk.enter(next_one.path, next_one.real)
            yield from self._look(next_one.places, items)
        for places, item in self.linked_files:
            if (log := self._log(places, item)) is not None:
                yield log

    def _home(self) -> Iterator[LogFile]:
        path = os.fspath(self.home)
        items = self.walk.enter(path, os.path.realpath(path), expected=self.expected)
        inner = _inner_places([Place(each, HOME) for each in FORMATS], items)
        directories = []
        for item in items:
            if item.name in inner and item.kind == "broken":
                self.walk.note_unreadable(item.path, item.why)
            elif item.name in inner:
                # A file of that name is queued too: entering it reports the problem.
                directories.append((item, inner[item.name]))
        self._queue(directories)
        if top := top_places(items):
            yield from self._look(top, items)

    def _look(self, places: tuple[Place, ...], items: list[Item]) -> Iterator[LogFile]:
        """Yield the logs of one directory, and queue subdirectories that may hold more."""
        inner = _inner_places(places, items)
        has_logs = any(place.has_logs for place in places)
        directories = []
        for item in items:
            if item.kind == "file":
                if not has_logs:
                    continue
                if item.linked:
                    self.linked_files.append((places, item))
                elif (log := self._log(places, item)) is not None:
                    yield log
            elif looks_like_log(item.name):
                note = self.walk.note_unreadable if item.kind == "broken" else self.walk.note
                note(item.path, item.why or "a directory, not a log")
            elif item.name in inner and not item.name.startswith("."):
                if item.kind == "directory":
                    directories.append((item, inner[item.name]))
                elif item.kind == "broken":
                    self.walk.note_unreadable(item.path, item.why)
        self._queue(directories)

    def _queue(self, directories: list[tuple[Item, list[Place]]]) -> None:
        for item, places in directories:
            if item.linked:
                self.linked_directories.append(_Directory(item.path, item.real, tuple(places)))
        for item, places in reversed(directories):
            if not item.linked:
                self.waiting.append(_Directory(item.path, item.real, tuple(places)))

    def _log(self, places: tuple[Place, ...], item: Item) -> LogFile | None:
        """Return the log that *item* is; None if it is not one, or was returned before."""
        for place in places:
            name = place.format.log_at(place, item)
            if name is not None:
                break
        else:
            if looks_like_log(item.name):
                self.walk.note(item.path, "no log is called that here")
            return None
        if item.real in self.found:
            return None
        self.found.add(item.real)
        return LogFile(
            path=Path(item.path),
            home=self.home,
            layout=place.format.name,
            kind=name.kind,
            session_id=name.id if name.kind == "session" else name.session_id or place.session_id,
            agent_id=name.id if name.kind == "subagent" else None,
            project_key=place.project_key,
            compression=name.compression,
        )


def _inner_places(places: Iterable[Place], items: list[Item]) -> dict[str, list[Place]]:
    inner: dict[str, list[Place]] = {}
    for place in places:
        for name, below in place.format.places(place, items).items():
            inner.setdefault(name, []).append(below)
    return inner


def subagent_logs_near(main: str | os.PathLike[str], session_id: str) -> Iterator[Path]:
    """Return the plain logs of a session's subagents in the directory next to its main log."""
    directory = Path(main).parent / check_session_id(session_id) / "subagents"
    for item in DirectoryWalk().files_beneath(str(directory)):
        name = read_name(item.name)
        if name is not None and name.kind == "subagent" and name.compression is None:
            yield Path(item.path)
