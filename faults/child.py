"""A forked child that does something to a log and tells about it through a pipe.

It is forked from the warmed parent, without exec: hundreds a second are possible. What it tells
survives its death, so a word sent after an append returned is an acknowledgement.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

Tell = Callable[..., None]
Work = Callable[[Tell], None]

# Not a deadline for the code under test, only the end of our patience with a hang.
PATIENCE = 120.0
_F_SETPIPE_SZ = 1031
_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(2**64 - 1)


class Child:
    """A process that runs *work*; with *held* it waits for ``go`` first."""

    def __init__(self, work: Work, *, held: bool = False) -> None:
        self._pipe, their_end = os.pipe()
        their_gate, self._gate = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(their_end, _F_SETPIPE_SZ, 1024 * 1024)
        self._heard = b""
        self._ended = False
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            os.close(self._gate)
            _live(work, their_end, their_gate if held else None)
        os.close(their_end)
        os.close(their_gate)

    def go(self) -> None:
        """Let a held child run, or go on where it called ``await_go``."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"g")

    def next_word(self, patience: float = PATIENCE) -> Any:
        """Wait for the next thing the child tells; None if it ended without one."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._heard:
            if not self._listen(deadline):
                return None
        word, _, self._heard = self._heard.partition(b"\n")
        return json.loads(word)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def is_alive(self) -> bool:
        looked = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return looked is None

    def end(self, patience: float = PATIENCE) -> list[Any]:
        """Wait until the child ended; give what it told and was not heard yet.

        A child that does not end is killed, and its status stays None.
        """
        deadline = time.monotonic() + patience
        while self._listen(deadline):
            pass
        hung = not self._ended
        if hung:
            self.kill()
        _, status = os.waitpid(self.pid, 0)
        self.status = None if hung else os.waitstatus_to_exitcode(status)
        os.close(self._pipe)
        os.close(self._gate)
        whole = self._heard[: self._heard.rfind(b"\n") + 1]
        return [json.loads(word) for word in whole.splitlines()]

    def _listen(self, deadline: float) -> bool:
        if self._ended:
            return False
        ready, _, _ = select.select([self._pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        data = os.read(self._pipe, 1024 * 1024)
        self._heard += data
        self._ended = not data
        return not self._ended


def _live(work: Work, pipe: int, gate: int | None) -> None:
    def tell(*words: object) -> None:
        os.write(pipe, json.dumps(words).encode() + b"\n")

    tell.await_go = lambda: os.read(gate, 1)  # type: ignore[attr-defined]
    code = 0
    try:
        if gate is not None:
            # Where only ancestors may trace, a tracer is a sibling of ours: allow it.
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
            os.read(gate, 1)
        work(tell)
    except BaseException as error:
        code = 1
        tell("failed", type(error).__name__, str(error))
    finally:
        os._exit(code)


def run_child(work: Work) -> tuple[list[Any], int | None]:
    """Run *work* in a child to its end; give what it told and its exit status (None: it hung)."""
    child = Child(work)
    told = child.end()
    return told, child.status
