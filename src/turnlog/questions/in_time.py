"""Matches that are ended when their time is up.

Some regular expressions take years, and within a process only a signal reaches into one. So a match
runs under an alarm, where there is one to be had: on the main thread of a system with signals, and
if the program around does not use it. Elsewhere it runs for as long as it takes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, Self, TypeVar

T = TypeVar("T")


class TookTooLong(Exception):  # It never leaves a question, whose answer has a note.
    """The time was up before the match was done."""


class Alarm:
    """The alarm of the process, borrowed for a block, since borrowing takes longer than a match."""

    def __init__(self) -> None:
        self._is_set = False
        self._is_borrowed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if _is_free():
            self._before = signal.signal(signal.SIGALRM, self._ring)
            self._is_borrowed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_borrowed:
            self._is_borrowed = False
            signal.signal(signal.SIGALRM, self._before)

    def in_time(self, match: Callable[[], T], seconds: float) -> T:
        """Give what *match* gives; raise TookTooLong if it is not done in time."""
        if not self._is_borrowed:
            return match()
        try:
            self._is_set = True
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return match()
        finally:
            self._is_set = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if self._is_set:
            self._is_set = False
            raise TookTooLong


def _is_free() -> bool:
    return (
        hasattr(signal, "SIGALRM")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
