"""Answering those who want the index fresh, while it is watched; ``asking`` is their side.

A thread waits for questions, and one more for each that came in time answers it. They share
refreshes: each gets the outcome of the first that began after its question. Where there is no
listening (no Unix sockets, a path too long for one, a directory that cannot be written) nothing is
said, and those who would have asked do the work themselves. Of two who watch the same index the
first listens; the other takes over when it has gone.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from turnlog.errors import TurnlogError
from turnlog.index.asking import HEARD, MOST_ASKED_BYTES, question, socket_of
from turnlog.index.database import index_path
from turnlog.index.refresh import refresh
from turnlog.index.refreshed import Stage, answer_of
from turnlog.layout import Home
from turnlog.log.closing import Closing

logger = logging.getLogger("turnlog.index")

_STAGES: Final[tuple[Stage, ...]] = ("text", "usage")
# How often it is looked whether this one still listens, or may.
_LOOK_SECONDS: Final = 5.0
# A question comes at once, or it is none.
_QUESTION_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
_AT_ONCE: Final = 32
_WAITING: Final = 128


class Answering(Closing):
    """Answers for the index of *homes* from the first ``listen`` until it is closed."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = tuple(homes)
        self._shared = _Shared(self._homes)
        self._listening: _Listening | None = None
        self._looked_at = -_LOOK_SECONDS

    @property
    def is_listening(self) -> bool:
        """Tell whether questions come here."""
        return self._listening is not None and self._listening.is_reached()

    def listen(self) -> None:
        """Listen if nobody does; every few seconds it is looked whether that is still so."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS or not hasattr(socket, "AF_UNIX"):
            return
        self._looked_at = now
        if self.is_listening:
            return
        self._stop()
        place = socket_of(str(index_path(self._homes)))
        if not _is_answered(place):
            try:
                self._listening = _Listening(place, self._shared)
            except OSError as error:
                logger.info("nobody can ask this watcher: %s", error)

    def close(self) -> None:
        self._stop()
        self._shared.close()

    def _stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None


class _Listening(Closing):
    """The socket, and the thread that waits at it."""

    def __init__(self, place: str, shared: _Shared) -> None:
        self._place = place
        self._shared = shared
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._socket = _bound(place)
        status = os.stat(place)
        self._which = (status.st_dev, status.st_ino)
        self._wake, self._awake = socket.socketpair()
        self._thread = threading.Thread(target=self._wait, name="answering", daemon=True)
        self._thread.start()

    def is_reached(self) -> bool:
        """Tell whether its place is still its own: directories are deleted, files replaced."""
        try:
            status = os.stat(self._place)
        except OSError:
            return False
        return self._which == (status.st_dev, status.st_ino) and self._thread.is_alive()

    def close(self) -> None:
        if self.is_reached():
            with suppress(OSError):
                os.remove(self._place)
        self._wake.close()
        self._thread.join()
        self._awake.close()
        self._socket.close()

    def _wait(self) -> None:
        with selectors.DefaultSelector() as either:
            either.register(self._socket, selectors.EVENT_READ)
            either.register(self._awake, selectors.EVENT_READ)
            while all(key.fileobj is self._socket for key, _ in either.select()):
                try:
                    self._let_in(self._socket.accept()[0])
                except OSError:  # Whoever it was has gone again, or there is no room for more.
                    time.sleep(_PAUSE_SECONDS)

    def _let_in(self, asker: socket.socket) -> None:
        if not self._room.acquire(blocking=False):
            asker.close()  # It does the work itself.
            return
        try:
            threading.Thread(target=self._answer, args=(asker,), daemon=True).start()
        except RuntimeError:  # No more threads.
            asker.close()
            self._room.release()

    def _answer(self, asker: socket.socket) -> None:
        try:
            asker.settimeout(_QUESTION_SECONDS)
            self._shared.answer(asker)
        except (TurnlogError, OSError, sqlite3.Error) as error:  # The asker meets it as well.
            logger.info("a question was not answered: %s", error)
        finally:
            asker.close()
            self._room.release()


class _Shared(Closing):
    """Refreshes that several share."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = homes
        self._names = [os.fspath(home) for home in homes]
        self._one_at_a_time = threading.Lock()
        self._is_closed = False
        self._begun = 0
        self._last: dict[Stage, tuple[int, bytes]] = {}
        """By stage, the number of the last refresh that is done, and its answer."""

    def answer(self, asker: socket.socket) -> None:
        """Answer one question; hang up if it is none, or meant for another."""
        asked = _line_of(asker)
        before = self._begun
        for stage in _STAGES:
            if asked == question(self._names, stage):
                asker.sendall(HEARD)
                asker.sendall(self._refreshed(stage, before))

    def close(self) -> None:
        """Begin no more refreshes; let one end that has begun."""
        self._is_closed = True
        with self._one_at_a_time:
            pass

    def _refreshed(self, stage: Stage, before: int) -> bytes:
        """Give the answer of a refresh that began after *before* others had."""
        with self._one_at_a_time:
            number, answer = self._last.get(stage, (0, b""))
            if number <= before and not self._is_closed:
                self._begun = number = self._begun + 1
                answer = answer_of(refresh(self._homes, stage=stage)).encode() + b"\n"
                self._last[stage] = (number, answer)
            return answer if number > before else b""


def _line_of(asker: socket.socket) -> bytes:
    """Read a line; no more of anything else than a line may be long."""
    line = b""
    while not line.endswith(b"\n") and len(line) <= MOST_ASKED_BYTES:
        more = asker.recv(MOST_ASKED_BYTES)
        if not more:
            break
        line += more
    return line


def _is_answered(place: str) -> bool:
    """Tell whether somebody listens at *place*; a socket that was left behind refuses."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(_QUESTION_SECONDS)
        try:
            one.connect(place)
        except BlockingIOError:
            return True  # So many wait there already.
        except OSError:
            return False
    return True


def _bound(place: str) -> socket.socket:
    """Listen at *place*. A socket that was left there is replaced, so that nobody finds none."""
    aside = f"{os.path.splitext(place)[0]}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            os.remove(aside)
        listener.bind(aside)
        os.chmod(aside, 0o600)
        listener.listen(_WAITING)
        listener.setblocking(False)
        os.replace(aside, place)
    except OSError:
        listener.close()
        with suppress(OSError):
            os.remove(aside)
        raise
    return listener
