"""Keep continuously: copy changes in the homes soon, large logs less often.

A copy is replaced as a whole, so keeping a large log at every line would be too expensive. After
each copy a session rests for twenty times as long as the copy took, and so does the search for
changes. So keeping takes at most a twentieth of the time. A session is due if it has rested and was
quiet for a second, or changing for ten. At the end everything is kept once more.

Failures (a full disk, a lock held by another process) are reported and retried later.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from turnlog.errors import LogError
from turnlog.formats import Home
from turnlog.formats.home_files import home_files
from turnlog.formats.home_paths import kept_root
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import KeepRun, Progress, Sessions, changed_files, keep, owner_of_file
from turnlog.sessions.watcher import changes, check_poll

REST: Final = 20
QUIET_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 10.0
FAILED_REST_SECONDS: Final = 60.0
# Faster ones are kept together; slower ones separately, so that they rest alone.
_LIGHT_SECONDS: Final = 0.25

Stamp = int
"""A different value means that something changed since."""


def watch(
    homes: Sequence[Home],
    *,
    on_run: Callable[[KeepRun], None],
    on_failure: Callable[[LogError], None],
    stop: threading.Event,
    poll: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Keep *homes* until *stop* is set; report the first run and every run that copied files."""
    check_poll(poll)
    on_run(keep(homes, progress=progress))
    pace = Pace()
    is_time, look_at = False, 0.0
    copies = os.path.join(kept_root(), "")

    def is_not_our_own(path: str) -> bool:
        return not path.startswith(copies)

    for is_changed in changes(homes, stop=stop, poll=poll, matters=is_not_our_own):
        is_time |= is_changed
        began = time.monotonic()
        if is_time and began >= look_at:
            pace.note(stale(homes), time.monotonic())
            is_time = False
            look_at = time.monotonic() + REST * (time.monotonic() - began)
        for sessions in pace.due(time.monotonic()):
            _keep_some(homes, sessions, pace, on_run, on_failure)
    # Everything once more, including what was still resting.
    last = keep(homes)
    if last.copied or last.problems:
        on_run(last)


def stale(homes: Sequence[Home]) -> dict[str | None, Stamp]:
    """Return the sessions whose copies are outdated; None is for files of no session."""
    found: dict[str | None, Stamp] = {}
    for home in homes:
        if os.path.isdir(home):
            for file in changed_files(home_files(home), Catalogue.of_home(home)):
                owner = owner_of_file(file)
                found[owner] = hash((found.get(owner), file))
    return found


class _Waiting(NamedTuple):
    """Something that changed and is not kept yet."""

    stamp: Stamp
    since: float
    last: float


class _Kept(NamedTuple):
    """The result of the last copy of something; by default, it was never copied."""

    stamp: Stamp | None = None
    """Its state then. What could not be kept is not tried again until it changes."""
    took: float = 0.0
    rested: float = 0.0


class Pace:
    """Decides when changes are kept. Times come from any monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str | None, _Waiting] = {}
        self._kept: dict[str | None, _Kept] = {}

    def note(self, changed: Mapping[str | None, Stamp], now: float) -> None:
        """Set what is not kept now; everything else needs no keeping."""
        waiting = {}
        for owner, stamp in changed.items():
            known = self._waiting.get(owner)
            if known is None:
                if self._last(owner).stamp == stamp:
                    continue
                known = _Waiting(stamp, now, now)
            elif known.stamp != stamp:
                known = _Waiting(stamp, known.since, now)
            waiting[owner] = known
        self._waiting = waiting

    def due(self, now: float) -> Iterator[Sessions]:
        """Return what to keep now: quick ones together, slow ones one by one."""
        ready = [owner for owner in self._waiting if self._due_at(owner) <= now]
        light = frozenset(owner for owner in ready if self._last(owner).took < _LIGHT_SECONDS)
        if light:
            yield light
        yield from (frozenset({owner}) for owner in ready if owner not in light)

    def kept(self, owners: Sessions, now: float, took: float) -> None:
        """Record that *owners* were kept, and how long that took."""
        for owner in owners:
            waited = self._waiting.pop(owner, None)
            stamp = waited.stamp if waited is not None else 0
            self._kept[owner] = _Kept(stamp, took, now + REST * took)

    def failed(self, owners: Sessions, now: float, took: float) -> None:
        """Record that *owners* could not be kept; they are due again later."""
        for owner in owners:
            self._kept[owner] = _Kept(0, took, now + max(REST * took, FAILED_REST_SECONDS))

    def _due_at(self, owner: str | None) -> float:
        waiting = self._waiting[owner]
        calm = min(waiting.last + QUIET_SECONDS, waiting.since + LONGEST_SECONDS)
        return max(calm, self._last(owner).rested)

    def _last(self, owner: str | None) -> _Kept:
        return self._kept.get(owner, _Kept())


def _keep_some(
    homes: Sequence[Home],
    sessions: Sessions,
    pace: Pace,
    on_run: Callable[[KeepRun], None],
    on_failure: Callable[[LogError], None],
) -> None:
    began = time.monotonic()
    try:
        run = keep(homes, sessions=sessions)
    except LogError as error:
        now = time.monotonic()
        pace.failed(sessions, now, now - began)
        on_failure(error)
        return
    now = time.monotonic()
    pace.kept(sessions, now, now - began)
    if run.copied or run.problems:
        on_run(run)
