"""Keeping the index fresh beside the answers: one reads, and whoever asks waits for it.

What was appended since the last answer is read here and at once. Where there is more, a process of
its own reads: it needs memory that a server should not keep, and a core that the server does not
wait for. The first reading of many logs may take longer than an answer should. Then the one who
asks is told so, and how far it is; the reading goes on, and the next one who asks finds it further.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from turnlog.errors import IndexUnavailable, TurnlogError, UsageError
from turnlog.formats import Home, find_everywhere
from turnlog.index.database import index_path, open_for_reading
from turnlog.index.fallback import fall_back, is_temporary
from turnlog.index.freshness import changed_logs, logs_if_fresh
from turnlog.index.refresh.refresh import refresh

if TYPE_CHECKING:
    from turnlog.mcp.context import Deadline

logger = logging.getLogger(__name__)

LITTLE_BYTES: Final = 2_000_000
"""So much is read here rather than by another process."""


class RefreshMessage(msgspec.Struct, kw_only=True):
    """What a process that reads tells, a line each."""

    read_bytes: int = 0
    total_bytes: int = 0
    error: str = ""
    hint: str = ""
    is_unwritable: bool = False
    """The index cannot be written; something else may serve."""
    is_done: bool = False


class _RunningRefresh:
    """One refresh, in a thread of its own that waits for a process or reads itself."""

    def __init__(self, homes: tuple[Home, ...]) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None
        self.told = RefreshMessage()
        self._homes = homes
        # A daemon: nobody who ends the server waits for it, and it can be cut off anywhere.
        threading.Thread(target=self._run, name="turnlog-refresh", daemon=True).start()

    def _run(self) -> None:
        try:
            # Another process would not find an index that was made for this one alone.
            if is_temporary(self._homes) or new_bytes(self._homes) <= LITTLE_BYTES:
                refresh(self._homes)
            else:
                self._read_elsewhere()
        except IndexUnavailable as error:
            self._read_otherwise(error)
        except Exception as error:  # noqa: BLE001 - Whoever waits raises it.
            self.error = error
        finally:
            self.done.set()

    def _read_otherwise(self, error: IndexUnavailable) -> None:
        """See to what serves instead of an index that cannot be written."""
        try:
            done = fall_back(self._homes, error, stage="text", fallback="made")
        except Exception as failed:  # noqa: BLE001
            self.error = failed
            return
        for notice in done.notices:
            logger.warning("%s", notice)

    def _read_elsewhere(self) -> None:
        command = [
            sys.executable,
            "-m",
            "turnlog.mcp.background_refresh",
            *map(os.fspath, self._homes),
        ]
        with subprocess.Popen(  # noqa: S603 - Ourselves.
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as child:
            for line in child.stdout or ():
                self.told = msgspec.json.decode(line, type=RefreshMessage)
        if self.told.is_unwritable:
            place = index_path(self._homes)
            raise IndexUnavailable(self.told.error, path=place, hint=self.told.hint)
        if self.told.error:
            raise UsageError(self.told.error, hint=self.told.hint)
        if not self.told.is_done:
            raise UsageError("the reading of the logs was cut off", hint="ask again")


class BackgroundRefresh:
    """Keeps the index of some homes fresh."""

    def __init__(self, homes: tuple[Home, ...]) -> None:
        self._homes = homes
        self._lock = threading.Lock()
        self._reading: _RunningRefresh | None = None

    def wait(self, deadline: Deadline) -> None:
        """Return when the index is fresh; raise if it is not in time."""
        with self._lock:
            reading = self._reading
            if reading is None or reading.done.is_set():
                if logs_if_fresh([os.fspath(home) for home in self._homes]) is not None:
                    return
                reading = self._reading = _RunningRefresh(self._homes)
        if not reading.done.wait(deadline.left):
            told = reading.told
            part = f": {told.read_bytes:,} of {told.total_bytes:,} bytes" if told.read_bytes else ""
            raise UsageError(
                f"the logs are still being read{part}",
                hint="ask again in a moment; the reading goes on in the meantime",
            )
        if reading.error is not None:
            raise reading.error


def new_bytes(homes: tuple[Home, ...]) -> int:
    """Tell about how much there is to read that the index does not have."""
    db = open_for_reading(homes)
    if db is None:
        return sys.maxsize  # Whatever there is.
    with closing(db):
        read = dict(db.execute("SELECT path, text_offset FROM logs"))
        changed = changed_logs(db)
    if changed is None:
        changed = [os.fspath(log.path) for log in find_everywhere(homes)]
    total = 0
    for path in changed:
        with suppress(OSError):
            size_bytes, had_bytes = os.stat(path).st_size, read.get(path, 0)
            # One that shrank is another one, and read from its beginning.
            total += size_bytes - had_bytes if size_bytes >= had_bytes else size_bytes
    return total


def _read_here(homes: tuple[Home, ...]) -> None:
    """Be the process that reads, and tell on stdout how far it is."""

    def tell(told: RefreshMessage) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        sys.stdout.flush()

    def note(read_bytes: int, total_bytes: int) -> None:
        tell(RefreshMessage(read_bytes=read_bytes, total_bytes=total_bytes))

    try:
        refresh(homes, progress=note)
        tell(RefreshMessage(is_done=True))
    except TurnlogError as error:
        is_unwritable = type(error) is IndexUnavailable
        tell(RefreshMessage(error=error.message, hint=error.hint, is_unwritable=is_unwritable))
    except BrokenPipeError:  # Nobody waits for it any more.
        os._exit(0)


if __name__ == "__main__":
    _read_here(tuple(Home(Path(path)) for path in sys.argv[1:]))
