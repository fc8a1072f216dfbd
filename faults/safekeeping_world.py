"""A small world to keep safe: a home with sessions in two layouts, and turnlog's own home.

Session ONE has a file of every kind that is treated in a way of its own, and lines for every rule
of a compaction. TWO lies beside it and is young; FLAT lies in the flat store of the same home. All
of it is a function of this module, and lies at the same place in every run, since the names of
mirrors are made from paths. Commands are run as a shell would run them, in a forked child that has
imported everything: no system call is made but those of the command.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from turnlog.api.store import open_store
from turnlog.cli.app import run
from turnlog.formats import Home
from turnlog.keep.copies import keep
from turnlog.storage import compressed

from .child import Child, Tell, Work

Act = Callable[[], None]

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
FLAT = "33333333-3333-4333-8333-333333333333"
LOST = "44444444-4444-4444-8444-444444444444"
"""A session of which only todos are left."""

KEY = "projects/-srv-mill"
MAIN = f"{KEY}/{ONE}.jsonl"
AGENT = f"{KEY}/{ONE}/subagents/agent-a1.jsonl"
PROJECT = "/srv/mill"
_OLD = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
_TOUCHED = 1_707_000_000
_LONG = 70_000


@dataclass(frozen=True)
class World:
    """Where everything lies. *own* is turnlog's home; it may be on another file system."""

    root: Path
    own: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def trees(self) -> tuple[tuple[str, Path], ...]:
        return (("home", self.home), ("own", self.own))

    @property
    def homes(self) -> tuple[Home, ...]:
        return (Home(self.home),)

    def path(self, name: str) -> Path:
        return self.home.joinpath(*name.split("/"))

    def put(self, name: str, data: bytes, *, after: int = 0) -> None:
        """Write a file of the home, *after* so many seconds of its time."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (_TOUCHED + after, _TOUCHED + after))

    def clear(self) -> None:
        for path in (self.home, self.own):
            shutil.rmtree(path, ignore_errors=True)

    def save(self, to: Path) -> None:
        """Copy everything to *to*, times included."""
        shutil.rmtree(to, ignore_errors=True)
        for name, path in self.trees:
            if path.exists():
                shutil.copytree(path, to / name, symlinks=True)

    def load(self, saved: Path) -> None:
        """Put everything back as it was saved; hard links are two files then."""
        self.clear()
        for name, path in self.trees:
            if (saved / name).exists():
                shutil.copytree(saved / name, path, symlinks=True)


@contextmanager
def world_at(root: Path, own: Path | None = None) -> Iterator[World]:
    """Give a world in *root*, in which nobody's own homes are found."""
    world = World(root / "world", own or root / "world" / "own")
    world.root.mkdir(parents=True, exist_ok=True)
    settings = {"TURNLOG_HOME": str(world.own), "CLAUDE_CONFIG_DIR": str(world.root / "nowhere")}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield world
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -- what is in it --------------------------------------------------------------------------


def line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def said(session: str, number: int, text: str = "", *, at: datetime = _OLD, **more: Any) -> bytes:
    """Give prompt or answer *number* of a session; they hang from one another."""
    who = str(more.get("agentId", "main"))
    role = "assistant" if number % 2 else "user"
    fields: dict[str, Any] = {
        "parentUuid": f"{session[:4]}-{who}-{number - 1}" if number else None,
        "type": role,
        "message": {"role": role, "content": text or f"{role} on wheel {number} of {who} \u2028"},
        "uuid": f"{session[:4]}-{who}-{number}",
        "timestamp": (at + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
        "cwd": PROJECT,
        "sessionId": session,
        "version": "2.1.200",
    }
    return line(**(fields | more))


def turns(session: str, first: int, last: int, **more: Any) -> bytes:
    return b"".join(said(session, number, **more) for number in range(first, last))


def main_log() -> bytes:
    """Give the log of ONE: titles that others replace, a line that stands twice, a long result."""
    twice = said(ONE, 2)
    titles = [line(type="ai-title", aiTitle=f"Mill {n}", sessionId=ONE) for n in range(3)]
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": _noise(_LONG)}
    return b"".join(
        (
            turns(ONE, 0, 2),
            twice,
            titles[0],
            said(ONE, 3, message={"role": "assistant", "content": [call]}),
            said(ONE, 4, message={"role": "user", "content": [result]}),
            titles[1],
            twice,
            said(ONE, 5),
            titles[2],
            turns(ONE, 6, 8),
        )
    )


def _noise(size: int) -> str:
    """Give text that compresses badly, the same every time."""
    words = [format(number * 2_654_435_761 % 2**32, "08x") for number in range(size // 9 + 1)]
    return " ".join(words)[:size]


def parts() -> dict[str, bytes]:
    """Give every file of the home, by name."""
    now = datetime.now(UTC).replace(microsecond=0)
    return {
        MAIN: main_log(),
        AGENT: turns(ONE, 0, 4, agentId="a1"),
        AGENT.replace(".jsonl", ".meta.json"): b'{"agentType":"miller"}',
        f"{KEY}/{ONE}/tool-results/toolu_2.txt": _noise(5000).encode(),
        f"todos/{ONE}-agent-{ONE}.json": b'[{"content":"grind","status":"pending"}]',
        f"file-history/{ONE}/0a1b@v1": b"\0\xff before",
        f"{KEY}/{TWO}.jsonl": turns(TWO, 0, 4, at=now - timedelta(minutes=30)),
        f"sessions/{FLAT}.jsonl": turns(FLAT, 0, 6),
        f"sessions/{FLAT}/subagents/agent-a1.jsonl": turns(FLAT, 0, 2, agentId="a1"),
        f"todos/{LOST}-agent-{LOST}.json": b'[{"content":"sweep","status":"pending"}]',
        "history.jsonl": line(display="grind", timestamp=1_707_000_000_000, project=PROJECT),
    }


def is_cache(name: str) -> bool:
    """Tell whether a file of the home can be made again from logs."""
    return name.startswith("sessions/") and name.endswith((".meta.json", "/index.json"))


def build(world: World) -> None:
    """Make the world as it is before anything was done to it."""
    world.clear()
    for name, data in parts().items():
        world.put(name, data)
    with own_home(world.home):
        open_store(world.home).reindex()
    for path in world.home.glob("sessions/*.json"):
        os.utime(path, (_TOUCHED, _TOUCHED))


@contextmanager
def own_home(path: Path) -> Iterator[None]:
    before, os.environ["TURNLOG_HOME"] = os.environ["TURNLOG_HOME"], str(path)
    try:
        yield
    finally:
        os.environ["TURNLOG_HOME"] = before


# -- commands -------------------------------------------------------------------------------


class Ran(NamedTuple):
    """How a command ended: its exit code, what it said; *code* is None if it did not end."""

    code: int | None
    out: str
    err: str
    broke: str = ""
    """The exception that came through, which none may."""


def words_of(world: World, words: Sequence[str]) -> list[str]:
    """Give a whole command line: every command is told the home."""
    return [*words, "--home", str(world.home)]


def work(world: World, words: Sequence[str], said_to: Path, first: Act = lambda: None) -> Work:
    """Give the work of a child that runs one command; what it says goes to files in *said_to*."""

    def do(tell: Tell) -> None:
        for number, name in ((1, "out"), (2, "err")):
            fd = os.open(said_to / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(fd, number)
        first()
        tell("exit", run(words_of(world, words)))

    return do


def command(world: World, words: Sequence[str], said_to: Path, first: Act = lambda: None) -> Ran:
    """Run a command in a child to its end, which does something else *first*."""
    child = Child(work(world, words, said_to, first))
    return ran(child.end(), child.status, said_to)


def ran(told: list[Any], status: int | None, said_to: Path) -> Ran:
    """Put together what is known of a command that has ended."""
    codes = [word[1] for word in told if word[0] == "exit"]
    broke = [f"{word[1]}: {word[2]}" for word in told if word[0] == "failed"]
    out, err = (_text(said_to / name) for name in ("out", "err"))
    code = codes[0] if codes and status == 0 else None
    return Ran(code, out, err, broke[0] if broke else "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def must(world: World, *words: str) -> None:
    """Run a command here and now; it must succeed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as e:
        code = run(words_of(world, words))
    if code != 0:
        raise AssertionError(f"turnlog {' '.join(words)}: exit code {code}: {e.getvalue()}")


class _AtOnce:
    """Does what it is given at once, in the thread that asks: strace counts calls by thread."""

    def __init__(self, *_arguments: Any, **_more: Any) -> None:
        pass

    def submit(self, do: Any, *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(do(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Have copies made by the thread that asks for them, so that its calls can be counted."""
    real = keep.ThreadPoolExecutor
    for module in (keep, compressed):
        module.ThreadPoolExecutor = _AtOnce
    compressed._pool.cache_clear()  # noqa: SLF001
    try:
        yield
    finally:
        for module in (keep, compressed):
            module.ThreadPoolExecutor = real
        compressed._pool.cache_clear()  # noqa: SLF001
