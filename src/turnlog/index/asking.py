"""Asking whoever watches: a process that keeps the index fresh does so at once, warm as it is.

`turnlog watch` listens on a Unix socket beside the index (``answering`` is its side). One line is
asked, two are answered:

    turnlog 1 0.1.0 text 2049:131,2049:77    protocol, version, stage, and which files are meant
    heard                                    at once: whoever does not say so is not waited for
    done 1456 3 3121                         logs, those that were read, and bytes of them; or
    told {"logs": 1456, …}                   the same, and what a person should know

An answer comes only after a refresh that began after the question. Nobody fails for want of one,
and nobody waits long: a watcher that is dead, stopped, busy, of another version or of other homes
gives None, and whoever asked does the work itself. Small on purpose, as ``freshness`` is.
"""

from __future__ import annotations

import os
import time

from turnlog import __version__
from turnlog.index.freshness import path_of_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL = 1
HEARD = b"heard\n"
MOST_ASKED_BYTES = 4096
_MOST_TOLD_BYTES = 16_000_000
_LONGEST_COUNTS = 80
# A process that is stopped, or a machine that is very busy, says nothing for so long.
_HEARD_SECONDS = 0.3
_DONE_SECONDS = 2.0


def socket_of(index: str) -> str:
    """Tell where the watcher of an index listens, if there is one."""
    return f"{index.removesuffix('.sqlite')}.sock"


def question(homes: list[str], stage: str) -> bytes:
    """Write the question for an index as fresh as *stage* needs it.

    It names files by what they are and not by their paths: two who share a directory may still
    live in different trees.
    """
    true = sorted({os.path.realpath(home) for home in homes})
    meant = ",".join(map(_which, (path_of_index(homes), *true)))
    return f"turnlog {PROTOCOL} {__version__} {stage} {meant}\n".encode()


def _which(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_dev}:{status.st_ino}"


def ask(homes: list[str], stage: str = "text") -> str | None:
    """Have the index of *homes* refreshed; give the answer, None if nobody gives one in time."""
    place = socket_of(path_of_index(homes))
    if not os.path.exists(place):
        return None
    asked = question(homes, stage)
    if len(asked) > MOST_ASKED_BYTES:
        return None
    try:
        # The rest of socket takes a while to import.
        from _socket import AF_UNIX, SOCK_STREAM, socket  # noqa: PLC0415
    except ImportError:
        return None
    watcher = socket(AF_UNIX, SOCK_STREAM)
    try:
        watcher.settimeout(_HEARD_SECONDS)
        watcher.connect(place)
        watcher.sendall(asked)
        return _answer_of(watcher.recv, watcher.settimeout)
    except (OSError, ValueError):  # Gone, stopped, busy; or nothing that we understand.
        return None
    finally:
        watcher.close()


def _answer_of(
    receive: Callable[[int], bytes], wait_at_most: Callable[[float], None]
) -> str | None:
    """Read on until the answer is there; None if there will be none."""
    until = time.monotonic() + _DONE_SECONDS
    told = b""
    while not (told.startswith(HEARD) and told.endswith(b"\n") and told != HEARD):
        more = receive(65_536)
        left = until - time.monotonic()
        if not more or left <= 0 or len(told) > _MOST_TOLD_BYTES:
            return None
        told += more
        if told.startswith(HEARD):
            wait_at_most(left)
        elif not HEARD.startswith(told):
            return None
    return told[len(HEARD) : -1].decode()


def counts_of(answer: str) -> tuple[int, int, int] | None:
    """Give the logs, those that were read and the bytes of them; None if there is more to tell."""
    kind, *words = answer.split(" ")
    is_sound = answer.isascii() and len(answer) <= _LONGEST_COUNTS and all(map(str.isdigit, words))
    if kind != "done" or len(words) != 3 or not is_sound:
        return None
    logs, read, read_bytes = map(int, words)
    return logs, read, read_bytes
