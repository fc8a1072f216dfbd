"""Writers that cannot easily be seen, and homes that share turnlog's own place.

Prefork servers: a parent opens a session, forks workers that write with what they inherited, and
leaves. PID namespaces: a writer in one container, a remover in another. Meanwhile somebody tries
to archive, delete and compact the session. Either that is refused, or the writer is told that its
log is gone; nothing acknowledged is lost or hidden.

One TURNLOG_HOME for two homes that have the same projects and session ids: each gets its own bytes
back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import turnlog
from turnlog.errors import LogLocked, NotFound, TurnlogError
from turnlog.keep.compaction.compact import compact
from turnlog.sessions.writing import build

from .arena import Arena, command, say
from .child import Child, Tell
from .host_lifecycle import LAYOUTS, check_in_sight
from .tally import Tally

_APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_REMOVALS: dict[str, Callable[[turnlog.Store], object]] = {
    "archive": lambda store: store.session("s-1").archive(remove=True),
    "delete": lambda store: store.delete("s-1"),
    "reset": lambda store: store.reset("/srv/mill"),
    "compact": lambda store: compact(store.session("s-1"), write=True),
}


def run(arena: Arena) -> list[Tally]:
    return [_prefork(arena), _containers(arena), _two_homes(arena)]


@contextmanager
def _place(arena: Arena, tally: Tally, where: str) -> Iterator[Path]:
    """Give a round a directory, and turnlog a place of its own in it."""
    before = os.environ.get("TURNLOG_HOME")
    with arena.directory("apart", memory=True) as directory, tally.guarded(where):
        os.environ["TURNLOG_HOME"] = str(directory / "own")
        try:
            yield directory
        finally:
            del os.environ["TURNLOG_HOME"]
            if before is not None:
                os.environ["TURNLOG_HOME"] = before


# -- forks ----------------------------------------------------------------------------------------


def _prefork(arena: Arena) -> Tally:
    tally = Tally("namespaces: prefork")
    rng = arena.rng("prefork")
    for number in range(arena.count(400, 24)):
        layout = LAYOUTS[number % 3]
        removal = rng.choice(sorted(_REMOVALS))
        where = f"round {number}, {layout}, {removal}"
        with _place(arena, tally, where) as directory:
            _serve(tally, where, directory, layout, removal, count=rng.randint(1, 4))
    return tally


def _serve(
    tally: Tally, where: str, directory: Path, layout: str, removal: str, *, count: int
) -> None:
    store = turnlog.open(directory / "root")
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    acknowledged = [session.append(build.user("parent")) or ""]

    def work(tell: Tell) -> None:
        for turn in range(6):
            if turn == 2:
                tell("ready")
                tell.await_go()  # type: ignore[attr-defined]
            tell("saved", session.append(build.user(f"{os.getpid()} {turn}")))
        session.close()

    workers = [Child(work, held=True) for _ in range(count)]
    for worker in workers:
        worker.go()
    told = [_until(worker, "ready") for worker in workers]
    session.close()
    try:
        _REMOVALS[removal](store)
    except LogLocked:
        pass
    except TurnlogError as error:
        if layout != "dated":  # Which shares its logs, and says so first.
            tally.violate(f"{where}: {type(error).__name__}: {error}")
    else:
        tally.violate(f"{where}: a session that {count} workers write was taken away")
    for worker, words in zip(workers, told, strict=True):
        worker.go()
        for word in (*words, *worker.end()):
            if word[0] == "saved":
                acknowledged.append(word[1])
            elif word[0] == "failed":
                tally.violate(f"{where}: {word}")
    tally.runs += 1
    check_in_sight(tally, where, directory / "root", {"s-1": acknowledged})
    if store.session("s-1").metadata.crashed:
        tally.violate(f"{where}: counts as crashed though all closed it")


def _until(worker: Child, last: str) -> list[list[str]]:
    words: list[list[str]] = []
    while not words or words[-1][0] != last:
        word = worker.next_word()
        if word is None:
            break
        words.append(word)
    return words


# -- containers -----------------------------------------------------------------------------------

_WRITER = """
    import sys
    import turnlog
    store = turnlog.open(sys.argv[1])
    session = store.create(project="/srv/mill", layout=sys.argv[2], session_id="s-1")
    for line in sys.stdin:
        try:
            print(session.append(turnlog.build.user("x")), flush=True)
        except turnlog.NotFound:
            print("gone", flush=True)
"""
_REMOVER = """
    import sys
    import turnlog
    from faults.namespaces import _REMOVALS
    try:
        _REMOVALS[sys.argv[2]](turnlog.open(sys.argv[1]))
        print("removed")
    except turnlog.TurnlogError as error:
        print(type(error).__name__)
"""


def _containers(arena: Arena) -> Tally:
    tally = Tally("namespaces: containers")
    if shutil.which("unshare") is None or command(*_APART, "true").returncode:
        return tally.skip("PID namespaces cannot be made here")
    rng = arena.rng("containers")
    rounds = arena.count(60, 4)
    for number in range(rounds):
        layout = LAYOUTS[number % 3]
        removal = sorted(_REMOVALS)[number % 4]
        where = f"round {number}, {layout}, {removal}"
        with _place(arena, tally, where) as directory:
            _apart(tally, where, directory, layout, removal, moved=rng.random() < 0.5)
        if number % 20 == 19:
            say(f"containers: {number + 1} of {rounds}")
    return tally


def _apart(
    tally: Tally, where: str, directory: Path, layout: str, removal: str, *, moved: bool
) -> None:
    root = directory / "root"
    acknowledged: list[str] = []
    with _program(_WRITER, root, layout) as writer:

        def append() -> str:
            writer.stdin.write("\n")  # type: ignore[union-attr]
            writer.stdin.flush()  # type: ignore[union-attr]
            return writer.stdout.readline().strip()  # type: ignore[union-attr, no-any-return]

        acknowledged += [append() for _ in range(3)]
        with _program(_REMOVER, root, removal) as remover:
            said = remover.communicate(timeout=120)[0].strip()
        if said == "removed":
            tally.violate(f"{where}: taken away from a writer in another container")
        if moved:  # By hand, as by a program that asks nobody.
            log = turnlog.open(root).session("s-1").path
            away = log.rename(directory / "away")
            if append() != "gone" or log.exists():
                tally.violate(f"{where}: a writer began its log anew")
            away.rename(log)
        acknowledged += [append() for _ in range(3)]
        writer.stdin.close()  # type: ignore[union-attr]
        writer.wait(60)
    tally.runs += 1
    check_in_sight(tally, where, root, {"s-1": acknowledged})


@contextmanager
def _program(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    words = [*_APART, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as made:  # type: ignore[call-overload]
        try:
            yield made
        finally:
            made.kill()


# -- homes ----------------------------------------------------------------------------------------


def _two_homes(arena: Arena) -> Tally:
    tally = Tally("namespaces: two homes")
    rng = arena.rng("homes")
    for number in range(arena.count(200, 12)):
        where = f"round {number}"
        with _place(arena, tally, where) as directory:
            _share(tally, where, [directory / name / ".claude" for name in "ab"], rng.random())
    return tally


def _share(tally: Tally, where: str, roots: list[Path], luck: float) -> None:
    """Keep two homes with the same names at the same time, lose both, and restore both."""
    logs: dict[Path, bytes] = {}
    said: dict[Path, list[str]] = {}
    for root in roots:
        store = turnlog.open(root)
        for name in ("s-1", "s-2"):
            with store.create(project="/srv/mill", session_id=name) as session:
                uuids = [session.append(build.user(f"{root} {n}")) for n in range(4)]
            said[session.path] = [each for each in uuids if each]

    def keep(root: Path) -> Callable[[Tell], None]:
        return lambda tell: tell("kept", len(turnlog.open(root).keep().problems))

    keepers = [Child(keep(root)) for root in roots for _ in range(2)]
    for keeper in keepers:
        if keeper.end() != [["kept", 0]]:
            tally.violate(f"{where}: keeping failed")
    if luck < 0.5:  # One goes on, the other does not; what is kept of them stays apart.
        with turnlog.open(roots[0]).resume("s-1") as session:
            said[session.path] += [session.append(build.user("more")) or ""]
        turnlog.open(roots[0]).keep()
    for path in said:
        logs[path] = path.read_bytes()
        path.unlink()
    for root in roots:
        store = turnlog.open(root)
        for name in ("s-1", "s-2"):
            with suppress(NotFound):
                store.restore(name)
    tally.runs += 1
    for path, data in logs.items():
        if not path.exists() or path.read_bytes() != data:
            tally.lose(f"{where}: {path.parts[-5:]}", len(said[path]))
    for root in roots:
        here = {path.stem: uuids for path, uuids in said.items() if root in path.parents}
        check_in_sight(tally, where, root, here)
