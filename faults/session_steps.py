"""What is done to sessions while faults are injected: small steps, each told before and after.

A step is a plain tuple, so that whoever checks knows what was tried: ``("append", "one", 3, 4)``.
The child tells ``("try", n)`` before step n and ``("done", n)`` once it returned, which is the
acknowledgement. Records follow from their session and number: a prompt, an answer with two calls,
their results, an answer without any, and so on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from turnlog.api.store import open_store
from turnlog.formats import Home, dated_log
from turnlog.sessions.side_files.todos import replace_todos
from turnlog.sessions.writing import build
from turnlog.sessions.writing.fork import fork
from turnlog.sessions.writing.open import DatedWriter
from turnlog.sessions.writing.writer import SessionWriter

from .child import Tell
from .tracing import Call, Traced

Step = tuple[Any, ...]

LAYOUTS = ("claude", "dated", "flat")
_USAGE = {"input_tokens": 7, "output_tokens": 11}


@cache
def session_id(name: str) -> str:
    """Give the id of the session that steps call *name*."""
    return str(uuid5(NAMESPACE_OID, name))


def project(root: Path) -> Path:
    return root / "project"


def said(name: str, number: int) -> dict[str, Any]:
    """Give record *number* of a session, as a caller would say it, under a uuid of its own."""
    words = text_of(name, number)
    match number % 4:
        case 0:
            record = build.user(words)
        case 1:
            calls = [
                build.call("Bash", {"command": words}, call_id=f"{name}#{number}.{part}")
                for part in range(2)
            ]
            record = build.assistant([build.text(words), *calls], model="m", usage=_USAGE)
        case 2:
            asked = f"{name}#{number - 1}"
            answers = [build.result(f"{asked}.{part}", words) for part in range(2)]
            record = build.user(answer["message"]["content"][0] for answer in answers)
        case _:
            record = build.assistant(words, model="m", usage=_USAGE)
    return record | {"uuid": f"{name}#{number}"}


def text_of(name: str, number: int) -> str:
    """Give what record *number* says: unpleasant text, that differs in length."""
    return f'{name}#{number} }}{{"type":"user" \\ \u2028 ' + "o" * (number * 37 % 300) + "."


def todos_of(number: int) -> list[dict[str, str]]:
    """Give a list of todos; each number's is another, and longer or shorter."""
    return [
        {"content": f"{number}.{item} " + "x" * (number * 991 % 5000), "status": "pending"}
        for item in range(1 + number % 5)
    ]


class Actor:
    """Takes steps in the store at *root*, as one program would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = open_store(root)
        self.late = timedelta(0)
        self._writers: dict[str, SessionWriter] = {}

    def act(self, steps: Sequence[Step], tell: Tell = lambda *_: None) -> None:
        for number, step in enumerate(steps):
            tell("try", number)
            self.take(step)
            tell("done", number)

    def take(self, step: Step) -> None:
        kind, *rest = step
        getattr(self, f"_{kind}")(*rest)

    def _create(self, name: str, layout: str) -> None:
        self._writers[name] = self.store.create(
            project=project(self.root), layout=layout, session_id=session_id(name), model="m"
        )

    def _late(self, name: str) -> None:
        """Begin a session of the dated layout a second before midnight."""
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.late = timedelta(seconds=-1)
        self._writers[name] = DatedWriter(
            partial(dated_log, self.root, project(self.root)),
            session_id=session_id(name),
            cwd=project(self.root),
            root=self.root,
            clock=lambda: midnight + self.late,
        )

    def _midnight(self) -> None:
        self.late = timedelta(seconds=1)

    def _resume(self, name: str) -> None:
        self._writers[name] = self.store.resume(session_id(name))

    def _append(self, name: str, *numbers: int) -> None:
        records = [said(name, number) for number in numbers]
        if len(records) == 1:
            self._writers[name].append(records[0])
        else:
            self._writers[name].append_many(records)

    def _close(self, name: str) -> None:
        self._writers.pop(name).close()

    def _fork(self, name: str, new: str, layout: str) -> None:
        source = self.store.session(session_id(name))
        with self.store.create(
            project=project(self.root), layout=layout, session_id=session_id(new)
        ) as writer:
            fork(source, writer)

    def _todos(self, name: str, number: int) -> None:
        whose = session_id(name)
        replace_todos(Home(self.root), whose, whose, todos_of(number))

    def _update(self, name: str, what: dict[str, Any]) -> None:
        """Set title, tag or pin: through the writer where there is one, else through the store."""
        if name in self._writers:
            self._writers[name].update(**what)
        else:
            self.store.update(session_id(name), **what)

    def _reindex(self) -> None:
        self.store.reindex()

    def _recover(self, name: str) -> None:
        self.store.recover(session_id(name))


def work(root: Path, steps: Iterable[Step]) -> Callable[[Tell], None]:
    """Give the work of a child that takes *steps* in the store at *root*."""
    taken = tuple(steps)
    return lambda tell: Actor(root).act(taken, tell)


class Played(NamedTuple):
    """What a child told, the system calls it made, and whether it lived to the end."""

    told: list[Any]
    calls: list[Call]
    survived: bool


def play(root: Path, steps: Iterable[Step], *inject: str) -> Played:
    """Let a child take *steps* in the store at *root*, under strace with the words *inject*."""
    traced = Traced(work(root, steps), root.with_name("trace"), *inject)
    traced.go()
    told = traced.end()
    return Played(told, traced.calls(), traced.child.status == 0)


@contextmanager
def new_store(directory: Path) -> Iterator[Path]:
    """Make a place for a store in *directory*, with a project to work in, for a while."""
    root = directory / "store"
    project(root).mkdir(parents=True)
    root.chmod(0o700)
    try:
        yield root
    finally:
        shutil.rmtree(root)
