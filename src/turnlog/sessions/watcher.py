"""When something in a home changes, as the operating system tells it.

Whoever keeps something up to date with the homes asks here when to look again. Changes are told a
fifth of a second after the first, however many there were. Where nobody tells (a network's file
system, a system that has run out of watches) it is time to look every few seconds instead. A home
that is not there is waited for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.storage.system import filesystem, is_network

logger = logging.getLogger("turnlog.sessions")

_GROUP_MS: Final = 200
_STEP_MS: Final = 50
# How often, without any change, the homes are looked at: whether they are still the same.
_QUIET_MS: Final = 1_000
_POLL_SECONDS: Final = 2.0
_LEAST_POLL_SECONDS: Final = 0.05

Matters = Callable[[str], bool]
"""Tells whether a change of that path is one."""


def check_poll(poll: float | None) -> None:
    """Refuse a time to look every so often that is none."""
    if poll is not None and not _LEAST_POLL_SECONDS <= poll <= 86_400:
        raise UsageError(
            f"looking every {poll:g} seconds", hint=f"give a time from {_LEAST_POLL_SECONDS}"
        )


def changes(
    homes: Sequence[Home],
    *,
    stop: threading.Event,
    poll: float | None = None,
    matters: Matters | None = None,
) -> Iterator[bool]:
    """Tell until *stop* is set, every second at least, whether *homes* may have changed.

    With *poll* it is time to look every so many seconds, and the system is not asked.
    """
    check_poll(poll)
    if poll is None and any(map(_is_far_away, homes)):
        logger.info("a home lies on a network's file system: looking every %s s", _POLL_SECONDS)
        poll = _POLL_SECONDS
    if poll is None:
        try:
            yield from _told_by_the_system(homes, stop, matters)
        except (OSError, RuntimeError) as error:
            logger.warning("watching does not work (%s): looking every few seconds", error)
            poll = _POLL_SECONDS
    while poll is not None and not stop.wait(poll):
        yield True


def _told_by_the_system(
    homes: Sequence[Home], stop: threading.Event, matters: Matters | None
) -> Iterator[bool]:
    import watchfiles  # noqa: PLC0415 - Brings anyio along; nobody else needs it.

    while not stop.is_set():
        there = _there(homes)
        if not there:
            stop.wait(_QUIET_MS / 1000)
            yield False
            continue
        # Whatever came before the watch began, or into a directory before it was watched too.
        is_unsettled = True
        with suppress(FileNotFoundError):  # It vanished in between.
            for told in watchfiles.watch(
                *there,
                watch_filter=(lambda _, path: matters(path)) if matters else None,
                debounce=_GROUP_MS,
                step=_STEP_MS,
                stop_event=stop,
                rust_timeout=_QUIET_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield bool(told) or is_unsettled
                is_unsettled = bool(told)
                if _there(homes) != there:
                    break
        if not stop.is_set():
            yield True


def _there(homes: Sequence[Home]) -> dict[Path, tuple[int, int]]:
    """Return the homes that are there, and which directories they are."""
    found = {}
    for home in homes:
        with suppress(OSError):
            status = os.stat(home)
            found[home.path] = (status.st_dev, status.st_ino)
    return found


def _is_far_away(home: Home) -> bool:
    """Return whether others can change a home without this machine's knowledge."""
    try:
        fd = os.open(home, os.O_RDONLY)
    except OSError:
        return False
    try:
        return is_network(filesystem(fd))
    finally:
        os.close(fd)
