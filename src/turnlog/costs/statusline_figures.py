"""The file from which the status line reads its figures, so that it never waits for the index.

There is one file per set of homes, in turnlog's home, private and replaced atomically. It can be
deleted at any time. A file that is damaged, of another version or of other homes is ignored. The
imports are few because the status line runs at every prompt.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib

from turnlog.formats.home_paths import turnlog_home_path

try:
    import fcntl
except ImportError:  # Windows: without a lock the last writer wins.
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
LARGE_WINDOW = 1_000_000
_WINDOW = 200_000
_MOST_BYTES = 1 << 20
_OPENED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_TRIES = 5
_PAUSE_SECONDS = 0.05


class FiguresFile:
    """The figures of *homes*, and a lock for the process that updates them."""

    def __init__(self, homes: list[str]) -> None:
        self.homes = sorted({os.path.realpath(home) for home in homes})
        name = "\0".join(self.homes).encode(errors="surrogateescape")
        digest = f"{zlib.crc32(name):08x}{zlib.crc32(name[::-1]):08x}"
        self.path = os.path.join(turnlog_home_path(), "statusline", f"{digest}.json")
        self.lock_path = os.path.join(turnlog_home_path(), "statusline", f"{digest}.lock")

    def read(self) -> dict[str, Any]:
        """Return the figures, or an empty dict."""
        try:
            figures = json.loads(end_of_file(self.path, _MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(figures, dict) or figures.get("version") != VERSION:
            return {}
        return figures if figures.get("homes") == self.homes else {}

    def write(self, figures: dict[str, Any]) -> None:
        """Write *figures*; the caller holds the lock."""
        data = json.dumps({"version": VERSION, "homes": self.homes, **figures}).encode()
        part = f"{self.path}.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OPENED, 0o600)
        with open(fd, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(fd, 0o600)
            file.write(data)
        os.replace(part, self.path)

    def lock(self, tries: int = _TRIES) -> int | None:
        """Return a descriptor that holds the lock until closed; None if it is taken."""
        os.makedirs(os.path.dirname(self.lock_path), mode=0o700, exist_ok=True)
        fd = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | _OPENED, 0o600)
        for left in range(tries - 1, -1, -1):
            try:
                if fcntl is not None:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if left:
                    time.sleep(_PAUSE_SECONDS)
            else:
                return fd
        os.close(fd)
        return None


def end_of_file(path: str, most_bytes: int) -> bytes:
    """Return the last bytes of a regular file; other files raise OSError without blocking."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(f"{path} is not a regular file")
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(fd, "rb") as file:
        file.seek(max(0, os.fstat(fd).st_size - most_bytes))
        return file.read(most_bytes)


def window_of(model: str | None, used_tokens: float) -> int:
    """Return the size of the context window; usage above 200k tokens implies 1M."""
    return LARGE_WINDOW if used_tokens > _WINDOW or "[1m]" in (model or "") else _WINDOW


def within(document: object, *names: str) -> Any:
    """Return the value at a path of *names* in nested objects, or None."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def number_of(value: object) -> float | None:
    """Return *value* if it is a plausible number: not negative, below 10¹²."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def text_of(value: object, most: int = 200) -> str:
    """Return the first *most* characters of *value*, or "" if it is not text."""
    return value[:most].strip() if isinstance(value, str) else ""
