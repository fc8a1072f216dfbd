"""Watch homes for changes with the operating system's file notifications.

Changes are reported a fifth of a second after the first, however many there were. Where there are
no notifications (network file systems, or no more watches), the watcher polls every few seconds
instead. A missing home is waited for.
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
from turnlog.storage.locks import filesystem, is_network

logger = logging.getLogger("turnlog.sessions")

_GROUP_MS: Final = 200
_STEP_MS: Final = 50
# How often the homes are checked for replacement when nothing changes.
_QUIET_MS: Final = 1_000
_POLL_SECONDS: Final = 2.0
_LEAST_POLL_SECONDS: Final = 0.05

Matters = Callable[[str], bool]
"""Returns whether a change of that path is relevant."""


def check_poll(poll: float | None) -> None:
    """Raise UsageError for an invalid poll interval."""
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
    """Yield at least every second, until *stop* is set, whether *homes* may have changed.

    With *poll*, yield True every so many seconds without notifications.
    """
    check_poll(poll)
    if poll is None and any(map(_is_far_away, homes)):
        logger.info("a home is on a network file system: polling every %s s", _POLL_SECONDS)
        poll = _POLL_SECONDS
    if poll is None:
        try:
            yield from _notified(homes, stop, matters)
        except (OSError, RuntimeError) as error:
            logger.warning("watching does not work (%s): looking every few seconds", error)
            poll = _POLL_SECONDS
    while poll is not None and not stop.wait(poll):
        yield True


def _notified(
    homes: Sequence[Home], stop: threading.Event, matters: Matters | None
) -> Iterator[bool]:
    import watchfiles  # noqa: PLC0415 - It imports anyio, which is slow.

    while not stop.is_set():
        existing = _existing(homes)
        if not existing:
            stop.wait(_QUIET_MS / 1000)
            yield False
            continue
        # Changes before the watch began, or in a directory before it was watched too.
        is_unsettled = True
        with suppress(FileNotFoundError):  # It vanished in between.
            for changed in watchfiles.watch(
                *existing,
                watch_filter=(lambda _, path: matters(path)) if matters else None,
                debounce=_GROUP_MS,
                step=_STEP_MS,
                stop_event=stop,
                rust_timeout=_QUIET_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield bool(changed) or is_unsettled
                is_unsettled = bool(changed)
                if _existing(homes) != existing:
                    break
        if not stop.is_set():
            yield True


def _existing(homes: Sequence[Home]) -> dict[Path, tuple[int, int]]:
    """Return the existing homes, and their identities."""
    found = {}
    for home in homes:
        with suppress(OSError):
            status = os.stat(home)
            found[home.path] = (status.st_dev, status.st_ino)
    return found


def _is_far_away(home: Home) -> bool:
    """Return whether other machines can change a home unnoticed."""
    try:
        fd = os.open(home, os.O_RDONLY)
    except OSError:
        return False
    try:
        return is_network(filesystem(fd))
    finally:
        os.close(fd)
