"""Refresh the index in the background of a server.

A small refresh runs in a thread, a large one in a child process, whose memory the server does not
keep. Callers wait up to their time limit; the refresh continues after that.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec

from turnlog.errors import IndexUnavailable, TurnlogError, UsageError
from turnlog.formats import Home, find_everywhere
from turnlog.index.database import index_path, open_for_reading
from turnlog.index.fallback import fall_back, is_temporary
from turnlog.index.freshness import changed_logs, logs_if_fresh
from turnlog.index.refresh.refresh import refresh

logger = logging.getLogger(__name__)

LITTLE_BYTES: Final = 2_000_000
"""Up to this much is read in this process."""


class RefreshMessage(msgspec.Struct, kw_only=True):
    """A line that the child process prints."""

    read_bytes: int = 0
    total_bytes: int = 0
    error: str = ""
    hint: str = ""
    is_unwritable: bool = False
    """The index cannot be written; a fallback may be possible."""
    is_done: bool = False


class _RunningRefresh:
    """One refresh, in its own thread."""

    def __init__(self, homes: tuple[Home, ...]) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None
        self.message = RefreshMessage()
        self._homes = homes
        # A daemon: it can be interrupted anywhere, so the server need not wait for it to end.
        threading.Thread(target=self._run, name="turnlog-refresh", daemon=True).start()

    def _run(self) -> None:
        try:
            # A child process would not find the temporary index of this one.
            if is_temporary(self._homes) or new_bytes(self._homes) <= LITTLE_BYTES:
                refresh(self._homes)
            else:
                self._run_child()
        except IndexUnavailable as error:
            self._fall_back(error)
        except Exception as error:  # noqa: BLE001 - `wait` raises it.
            self.error = error
        finally:
            self.done.set()

    def _fall_back(self, error: IndexUnavailable) -> None:
        """Use a fallback for an index that cannot be written."""
        try:
            done = fall_back(self._homes, error, stage="text", fallback="made")
        except Exception as failed:  # noqa: BLE001
            self.error = failed
            return
        for notice in done.notices:
            logger.warning("%s", notice)

    def _run_child(self) -> None:
        command = [
            sys.executable,
            "-m",
            "turnlog.api.background_refresh",
            *map(os.fspath, self._homes),
        ]
        with subprocess.Popen(  # noqa: S603 - Ourselves.
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as child:
            for line in child.stdout or ():
                self.message = msgspec.json.decode(line, type=RefreshMessage)
        if self.message.is_unwritable:
            place = index_path(self._homes)
            raise IndexUnavailable(self.message.error, path=place, hint=self.message.hint)
        if self.message.error:
            raise UsageError(self.message.error, hint=self.message.hint)
        if not self.message.is_done:
            raise UsageError("reading the logs was interrupted", hint="try again")


class BackgroundRefresh:
    """Refreshes the index of some homes, at most one refresh at a time."""

    def __init__(self, homes: tuple[Home, ...]) -> None:
        self._homes = homes
        self._lock = threading.Lock()
        self._running: _RunningRefresh | None = None

    def wait(self, seconds: float) -> None:
        """Return when the index is fresh; raise UsageError after *seconds*."""
        with self._lock:
            running = self._running
            if running is None or running.done.is_set():
                if logs_if_fresh([os.fspath(home) for home in self._homes]) is not None:
                    return
                running = self._running = _RunningRefresh(self._homes)
        if not running.done.wait(seconds):
            read, total = running.message.read_bytes, running.message.total_bytes
            part = f": {read:,} of {total:,} bytes" if read else ""
            raise UsageError(
                f"still reading the logs{part}",
                hint="try again in a moment; reading continues in the background",
            )
        if running.error is not None:
            raise running.error


def new_bytes(homes: tuple[Home, ...]) -> int:
    """Estimate how many bytes of the logs the index has not read yet."""
    db = open_for_reading(homes)
    if db is None:
        return sys.maxsize
    with closing(db):
        read = dict(db.execute("SELECT path, text_offset FROM logs"))
        changed = changed_logs(db)
    if changed is None:
        changed = [os.fspath(log.path) for log in find_everywhere(homes)]
    total = 0
    for path in changed:
        with suppress(OSError):
            size_bytes, had_bytes = os.stat(path).st_size, read.get(path, 0)
            # A log that shrank is read from its beginning.
            total += size_bytes - had_bytes if size_bytes >= had_bytes else size_bytes
    return total


def _refresh_and_report(homes: tuple[Home, ...]) -> None:
    """Refresh in the child process, and print the progress on stdout."""

    def report(message: RefreshMessage) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.flush()

    def progress(read_bytes: int, total_bytes: int) -> None:
        report(RefreshMessage(read_bytes=read_bytes, total_bytes=total_bytes))

    try:
        refresh(homes, progress=progress)
        report(RefreshMessage(is_done=True))
    except TurnlogError as error:
        is_unwritable = type(error) is IndexUnavailable
        report(RefreshMessage(error=error.message, hint=error.hint, is_unwritable=is_unwritable))
    except BrokenPipeError:  # The server is gone.
        os._exit(0)


if __name__ == "__main__":
    _refresh_and_report(tuple(Home(Path(path)) for path in sys.argv[1:]))
