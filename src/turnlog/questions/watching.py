"""What happens, as it happens: the index is kept fresh, and tells what was new each time.

The operating system says when something in a home changes (watchfiles), and the index is refreshed
a fifth of a second later, however much changed. Where nobody says so (a network's file system, a
system that has run out of watches) the logs are looked at every few seconds instead.

What is new is what the index has and had not before. So each record is told once, also if its log
is replaced by one that repeats it, and if another process refreshed the index first. A home that
is not there is waited for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from turnlog.errors import UsageError
from turnlog.layout import Home
from turnlog.log.system import filesystem, is_network
from turnlog.questions.news import Change, News

__all__ = ["Change", "watch"]

logger = logging.getLogger("turnlog.questions")

_GROUP_MS: Final = 200
_STEP_MS: Final = 50
# How often, without any change, the homes are looked at: whether they are still the same.
_QUIET_MS: Final = 1_000
_POLL_SECONDS: Final = 2.0
_LEAST_POLL_SECONDS: Final = 0.05

# What a refresh reads. Directories have no such end; a new one may hold logs already.
_ENDINGS: Final = ("", ".jsonl", ".gz", ".zst", ".json", ".md")


def watch(
    homes: Sequence[Home],
    *,
    on_change: Callable[[Change], None],
    poll: float | None = None,
    stop: threading.Event | None = None,
    since: datetime | None = None,
) -> None:
    """Keep the index of *homes* fresh until *stop* is set; tell *on_change* what was new.

    It is called once at the beginning, with what happened *since*, and then for every change. With
    *poll* the logs are looked at every so many seconds, and the system is not asked.
    """
    if poll is not None and not _LEAST_POLL_SECONDS <= poll <= 86_400:
        raise UsageError(
            f"looking every {poll:g} seconds", hint=f"give a time from {_LEAST_POLL_SECONDS}"
        )
    stop = stop or threading.Event()
    with News(homes) as news:
        with news.begin(since) as change:
            on_change(change)
        for _ in _occasions(homes, poll, stop):
            with news.look() as found:
                if found.is_something:
                    on_change(found)


def _occasions(homes: Sequence[Home], poll: float | None, stop: threading.Event) -> Iterator[None]:
    """Give a turn whenever something may have changed."""
    if poll is None and any(map(_is_far_away, homes)):
        logger.info("a home lies on a network's file system: looking every %s s", _POLL_SECONDS)
        poll = _POLL_SECONDS
    if poll is None:
        try:
            yield from _told_by_the_system(homes, stop)
        except (OSError, RuntimeError) as error:
            logger.warning("watching does not work (%s): looking every few seconds", error)
            poll = _POLL_SECONDS
    while poll is not None and not stop.wait(poll):
        yield


def _told_by_the_system(homes: Sequence[Home], stop: threading.Event) -> Iterator[None]:
    import watchfiles  # noqa: PLC0415 - Brings anyio along; nobody else needs it.

    while not stop.is_set():
        there = _there(homes)
        if not there:
            stop.wait(_QUIET_MS / 1000)
            continue
        # Whatever came before the watch began, or into a directory before it was watched too.
        is_unsettled = True
        with suppress(FileNotFoundError):  # It vanished in between.
            for changes in watchfiles.watch(
                *there,
                watch_filter=_matters,
                debounce=_GROUP_MS,
                step=_STEP_MS,
                stop_event=stop,
                rust_timeout=_QUIET_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                if changes or is_unsettled:
                    is_unsettled = bool(changes)
                    yield
                if _there(homes) != there:
                    break
        if not stop.is_set():
            yield


def _matters(_change: object, path: str) -> bool:
    return os.path.splitext(path)[1] in _ENDINGS


def _there(homes: Sequence[Home]) -> dict[Path, tuple[int, int]]:
    """Give the homes that are there, and which directories they are."""
    found = {}
    for home in homes:
        with suppress(OSError):
            status = os.stat(home)
            found[home.path] = (status.st_dev, status.st_ino)
    return found


def _is_far_away(home: Home) -> bool:
    """Tell whether others can change a home without this machine's knowledge."""
    try:
        fd = os.open(home, os.O_RDONLY)
    except OSError:
        return False
    try:
        return is_network(filesystem(fd))
    finally:
        os.close(fd)
