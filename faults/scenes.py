"""The operations that faults are injected into, each small enough to be swept call by call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter

from .child import Tell
from .made import made, made_line

OLD = [made_line("old", number) for number in range(3)]
NEW = [made_line("new", number) for number in range(8)]
FRAGMENT = made_line("torn", 0)[:77]

# What happens to logs in the wild: a cut line, two glued records, NULs, no newline at the end.
DAMAGED = b"".join(
    (
        OLD[0] + b"\n",
        FRAGMENT + b"\n",
        OLD[1] + OLD[2] + b"\n",
        b"\0" * 600 + NEW[0] + b"\n",
        b"\n",
        NEW[1] + b"\n",
        FRAGMENT,
    )
)
DAMAGED_RECORDS = [OLD[0], OLD[1], OLD[2], NEW[0], NEW[1]]


@dataclass(frozen=True)
class Scene:
    """Bytes that stand in the log before (None: no log), and what is done to it then.

    *work* tells ``("ack", n)`` when the first n of *tries* are acknowledged.
    """

    name: str
    before: bytes | None
    kept: list[bytes]
    tries: list[bytes]
    work: Callable[[Path, Tell], None]
    below: str = ""

    def log(self, directory: Path) -> Path:
        return directory / self.below / "log.jsonl"

    def prepare(self, directory: Path) -> Path:
        """Put the scene's log into *directory* and give its path."""
        log = self.log(directory)
        if self.before is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(self.before)
        return log


def _append(count: int) -> Callable[[Path, Tell], None]:
    def work(path: Path, tell: Tell) -> None:
        with LogWriter(path) as log:
            for number in range(count):
                log.append(made("new", number))
                tell("ack", number + 1)

    return work


def _append_many(path: Path, tell: Tell) -> None:
    with LogWriter(path) as log:
        log.append_many([made("new", number) for number in range(6)])
        tell("ack", 6)


def _append_after(path: Path, tell: Tell) -> None:
    with LogWriter(path) as log:
        log.append_after(lambda news: [made("new", 0)] if any(True for _ in news.items) else [])
        tell("ack", 1)


def _buffered(path: Path, tell: Tell) -> None:
    with BufferedLog(LogWriter(path), every_seconds=3600) as log:
        for number in range(4):
            log.append(made("new", number))
        log.flush()
        tell("ack", 4)
        log.append(made("new", 4))
    tell("ack", 5)


def _repair(path: Path, tell: Tell) -> None:
    done = repair(path, write=True)
    tell("repaired", done.records)


_WHOLE = b"".join(line + b"\n" for line in OLD)
SCENES = (
    Scene("create and append", None, [], NEW[:2], _append(2), below="project/session"),
    Scene("append", _WHOLE, OLD, NEW[:2], _append(2)),
    Scene("append to a torn tail", _WHOLE + FRAGMENT, OLD, NEW[:2], _append(2)),
    Scene("append_many", _WHOLE, OLD, NEW[:6], _append_many),
    Scene("append_after", _WHOLE, OLD, NEW[:1], _append_after),
    Scene("buffered", _WHOLE, OLD, NEW[:5], _buffered),
)
REPAIR = Scene("repair", DAMAGED, DAMAGED_RECORDS, [], _repair)
