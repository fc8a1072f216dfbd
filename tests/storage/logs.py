"""Small builders for logs on disk, and a child process to be rough with."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from records.samples import SESSION
from strategies import to_line
from turnlog.records.damage import Damage
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.tail import Restart

SOURCE = Path(__file__).resolve().parents[2] / "src"


def numbered(number: Any, **more: Any) -> dict[str, Any]:
    """A small good record that says which one it is."""
    message = {"role": "user", "content": f"kite {number}"}
    named = {"uuid": f"u-{number}", "sessionId": SESSION, "timestamp": 1772600000000}
    return {"type": "user", **named, "message": message, **more}


def lines(*numbers: Any) -> bytes:
    """The numbered records as lines of a log."""
    return b"".join(to_line(numbered(number)) + b"\n" for number in numbers)


def put(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


def add(path: Path, *parts: bytes) -> None:
    """Append like a program that knows nothing of locks."""
    with path.open("ab") as file:
        file.write(b"".join(parts))


def read(path: Path, **how: Any) -> list[Placed | Damage]:
    with Reader(path, **how) as reader:
        return list(reader)


def told(items: Iterable[Placed | Damage | Restart]) -> list[str]:
    """What was read, one word each: the record's uuid or type, the damage's reason."""
    return [
        (item.record.uuid or item.record.type)
        if isinstance(item, Placed)
        else (item.reason.value if isinstance(item, Damage) else "restart")
        for item in items
    ]


def spans(items: Iterable[Placed | Damage]) -> list[tuple[str, int, int]]:
    """What was read and where, without what depends on the direction of reading."""
    return [
        ("record" if isinstance(item, Placed) else item.reason.value, item.offset, item.length)
        for item in items
    ]


def unaccounted(data: bytes, reader: Reader, items: Iterable[Placed | Damage]) -> bytes:
    """The bytes of *data* that no item covers; an overlap is a failure."""
    pieces = [(item.offset, item.offset + item.length) for item in items]
    if reader.pending is not None and reader.pending.record is None:
        pieces.append((reader.pending.offset, reader.pending.offset + reader.pending.length))
    rest, done = b"", 0
    for start, end in pieces:
        assert done <= start <= end <= len(data)
        rest += data[done:start]
        done = end
    return rest + data[done:]


class Script(threading.Event):
    """A stop that, each time follow would wait, takes one step instead, and then says stop."""

    def __init__(self, *steps):
        super().__init__()
        self.steps = list(steps)

    def wait(self, timeout=None):  # noqa: ARG002 - a script does not wait.
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False


def in_child(work: Callable[[], Any], *, uid: int | None = None) -> Any:
    """Run *work* in a forked child, as another user if asked, and give what it returns."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons frown on forking beside threads.
        child = os.fork()
    if child == 0:
        try:
            if uid is not None:
                os.setuid(uid)
            answer = (True, work())
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(there, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        told_by_child = pipe.read()
    os.waitpid(child, 0)
    done, answer = pickle.loads(told_by_child)
    assert done, answer
    return answer


def run_fresh(code: str, *arguments: Any) -> str:
    """Run *code* in a new interpreter and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
