"""What happens, as it happens: the index is kept fresh, and tells what was new each time.

Whenever something in a home changes (``sessions.changes`` tells), the index is refreshed. What is
new is what the index has and had not before. So each record is told once, also if its log is
replaced by one that repeats it, and if another process refreshed the index first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from turnlog.formats import Home
from turnlog.questions.news import Change, News
from turnlog.sessions.watcher import changes, check_poll

__all__ = ["Change", "watch"]

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
    check_poll(poll)
    stop = stop or threading.Event()
    with News(homes) as news:
        with news.begin(since) as change:
            on_change(change)
        for is_time in changes(homes, stop=stop, poll=poll, matters=_matters):
            if not is_time:
                continue
            with news.look() as found:
                if found.is_something:
                    on_change(found)


def _matters(path: str) -> bool:
    return os.path.splitext(path)[1] in _ENDINGS
