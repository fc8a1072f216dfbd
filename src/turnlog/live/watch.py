"""Keep the live view up to date in the background, and report changes.

Two threads: one looks as soon as a file in the homes changes, and checks every second whether the
programs still run, which no file shows. The other refreshes the index after a change, using at most
a tenth of the time. A failure is reported like news, and retried at the next change.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from turnlog.errors import TurnlogError
from turnlog.live.sessions import Live, LiveDocument
from turnlog.sessions.watcher import changes, check_poll
from turnlog.storage import Closing

_REST: Final = 9
"""The pause after a refresh, as a multiple of its duration."""
_LEAST_REST_SECONDS: Final = 0.5
# Projections and the current day depend only on the time.
_AGAIN_SECONDS: Final = 30.0
_AGAIN_IDLE_SECONDS: Final = 300.0
_QUIET_LOOKS: Final = 10
_PATIENCE_SECONDS: Final = 5.0


class LiveNews(Struct, frozen=True):
    """The current state; *reading* is the bytes read and the total while the index is refreshed."""

    document: LiveDocument
    reading: tuple[int, int] | None = None
    problem: str = ""


class LiveWatch(Closing):
    """Updates *live* in the background, and calls *on_news* from its own threads."""

    def __init__(
        self, live: Live, on_news: Callable[[LiveNews], None], *, poll: float | None = None
    ) -> None:
        check_poll(poll)
        self._live, self._on_news, self._poll = live, on_news, poll
        self._stop, self._stale = threading.Event(), threading.Event()
        self._news: LiveNews | None = None
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=work, name=f"turnlog-live{work.__name__}", daemon=True)
            for work in (self._watch, self._ask)
        ]

    def start(self) -> None:
        """Start the threads; the first news come immediately."""
        self._stale.set()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads; no more news come."""
        self._stop.set()
        self._stale.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(_PATIENCE_SECONDS)

    def _watch(self) -> None:
        self._update()
        homes = self._live.homes
        found = changes(homes, stop=self._stop, poll=self._poll, matters=_matters)
        for number, is_time in enumerate(found):
            if is_time:
                self._stale.set()
            # No file changes when a program dies or stops writing.
            if is_time or self._live.has_moved() or number % _QUIET_LOOKS == 0:
                self._update()

    def _ask(self) -> None:
        while not self._stop.is_set():
            has_block = self._news is not None and self._news.document.block is not None
            self._stale.wait(_AGAIN_SECONDS if has_block else _AGAIN_IDLE_SECONDS)
            if self._stop.is_set():
                return
            self._stale.clear()
            begun = time.monotonic()
            problem = ""
            try:
                self._live.ask(progress=self._progress)
                problem = "; ".join(self._live.notices)
            except _Stopped:
                return
            except (TurnlogError, OSError, sqlite3.Error) as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - Old figures must not look current.
                problem = f"{type(error).__name__}: {error}"
            self._update(problem=problem, is_read=True)
            rest = max(_LEAST_REST_SECONDS, (time.monotonic() - begun) * _REST)
            self._stop.wait(min(rest, _AGAIN_SECONDS))

    def _progress(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        with self._lock:
            if self._news is not None:
                self._news = structs.replace(self._news, reading=(done, total))
                self._on_news(self._news)

    def _update(self, *, problem: str | None = None, is_read: bool = False) -> None:
        """Look, and report it if anything changed."""
        document = self._live.look()
        with self._lock:
            before = self._news
            news = LiveNews(
                document,
                None if before is None or is_read else before.reading,
                before.problem if problem is None and before is not None else problem or "",
            )
            if not self._stop.is_set() and (before is None or not _is_same(before, news)):
                self._on_news(news)
            self._news = news


class _Stopped(Exception):
    """The watch was closed during a refresh."""


def _matters(path: str) -> bool:
    """Return whether a file may belong to an agent; the index has other suffixes."""
    return os.path.splitext(path)[1] in ("", ".jsonl", ".json", ".gz", ".zst", ".md")


def _is_same(before: LiveNews, after: LiveNews) -> bool:
    """Return whether only the time differs."""
    same_time = structs.replace(after.document, at=before.document.at)
    return structs.replace(after, document=same_time) == before
