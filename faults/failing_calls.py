"""Every system call that touches the log's directory fails once, with EIO and with its kin.

Injected by strace into creating, appending, appending to a torn tail, and repair. Always: what was
acknowledged is there; what failed was not acknowledged; the error is one of turnlog's own; after a
failed write or sync the handle answers ClosedLog, after a full disk it works; no lock stays behind,
although the process lives; a fresh handle works. After a failed repair the log is the old one or
the new one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from turnlog.errors import TurnlogError
from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter

from .arena import Arena
from .child import Tell
from .made import judge, made, made_line, read
from .scenes import DAMAGED, DAMAGED_RECORDS, FRAGMENT, OLD, REPAIR
from .tally import Tally
from .tracing import Call, Traced, works

_BEFORE = b"".join(line + b"\n" for line in OLD)
_NEW = [made_line("new", number) for number in range(4)]
_REPAIRED = b"".join(line + b"\n" for line in DAMAGED_RECORDS)
_SWEPT = (
    "openat,mkdir,mkdirat,fchmod,newfstatat,pread64,write,fsync,fdatasync,ftruncate,rename,close"
)
# What a log looks like before: not there, whole, torn.
_STARTS = {"create": None, "append": _BEFORE, "torn tail": _BEFORE + FRAGMENT}


def run(arena: Arena) -> list[Tally]:
    tallies = []
    with arena.directory("eio") as root:
        why = works(root)
        for name, before in _STARTS.items():
            tally = Tally(f"eio: every call, {name}")
            tallies.append(tally)
            if why:
                tally.skip(why)
                continue
            for where, code in _targets(arena, root, before):
                _fail_one(tally, root, before, where, code)
        tally = Tally("eio: every call, repair")
        tallies.append(tally)
        if why:
            tally.skip(why)
        else:
            _fail_repair(arena, tally, root)
    return tallies


def _targets(arena: Arena, root: Path, before: bytes | None) -> list[tuple[str, str]]:
    """Give every call of a clean run that touches the log's directory, as strace counts them."""
    directory = root / "scene"
    path = _prepare(directory, before)
    traced = Traced(lambda tell: _use(path, tell), root / "trace", calls=_SWEPT)
    traced.go()
    traced.child.next_word()
    traced.child.go()
    traced.end()
    calls = _touching(traced, directory)
    shutil.rmtree(directory)
    codes = ("EIO",) if arena.slice else ("EIO", "ENOSPC", "EROFS")
    return [(f"{call.name}:error={code}:when={call.nth}", code) for call in calls for code in codes]


def _touching(traced: Traced, directory: Path) -> list[Call]:
    """The calls on the log's directory, but for fstat, which has nothing to fail with."""
    return [
        call
        for call in traced.calls()
        if str(directory) in call.arguments and "AT_EMPTY_PATH" not in call.arguments
    ]


def _prepare(directory: Path, before: bytes | None) -> Path:
    directory.mkdir()
    if before is None:
        return directory / "project" / "session" / "log.jsonl"
    (directory / "log.jsonl").write_bytes(before)
    return directory / "log.jsonl"


def _use(path: Path, tell: Tell) -> None:
    """Append twice with one handle, pause for the parent, append with a fresh handle, close."""
    log: LogWriter | None = None
    outcomes = []
    for number in range(2):
        try:
            log = log or LogWriter(path)
            log.append(made("new", number))
            outcomes.append("ack")
        except Exception as error:
            outcomes.append(_name(error))
    tell("first", outcomes)
    tell.await_go()
    outcomes = []
    try:
        with LogWriter(path) as fresh:
            fresh.append(made("new", 3))
            outcomes.append("ack")
    except Exception as error:
        outcomes.append(_name(error))
    tell("fresh", outcomes)
    try:
        if log is not None:
            log.close()
    except Exception as error:
        tell("closing", [_name(error)])


def _name(error: Exception) -> str:
    return type(error).__name__ if isinstance(error, TurnlogError) else f"untyped {error!r}"


def _fail_one(tally: Tally, root: Path, before: bytes | None, where: str, code: str) -> None:
    directory = root / "scene"
    path = _prepare(directory, before)
    inject = ("-e", f"inject={where}")
    traced = Traced(lambda tell: _use(path, tell), root / "trace", *inject, calls=_SWEPT)
    traced.go()
    first = traced.child.next_word() or ["ended", []]
    tally.runs += 1
    acknowledged = []
    # The child is alive and idle: nobody may be kept waiting now.
    with tally.guarded(where), LogWriter(path, lock_timeout=0) as log:
        log.append(made("new", 2))
        acknowledged = [_NEW[2]]
    traced.go()
    told = traced.end()
    outcomes = [outcome for word in (first, *told) for outcome in word[1]]
    if traced.child.status != 0:
        tally.violate(f"{where}: the child ended with {traced.child.status}: {told[-1:]}")
    for outcome in outcomes:
        if outcome.startswith("untyped"):
            tally.violate(f"{where}: {outcome}")
    one, two = first[1] if len(first[1]) == 2 else ("", "")
    if one in ("WriteFailed", "SyncFailed") and two != "ClosedLog":
        tally.violate(f"{where}: after {one} the handle gave {two}")
    if one == "StorageFull" and two != "ack":
        tally.violate(f"{where}: after {one} the handle gave {two}")
    fresh = next((word[1][0] for word in told if word[0] == "fresh"), "")
    if "ack" not in (one, fresh):
        tally.violate(f"{where}: one failure spoiled the fresh handle, too: {fresh}")
    acknowledged += [_NEW[n] for n, word in ((0, one), (1, two), (3, fresh)) if word == "ack"]
    tally.acknowledged += len(acknowledged)
    with tally.guarded(where):
        kept = [] if before is None else OLD
        judge(tally, f"{where} ({code})", read(path), [*kept, *acknowledged], [*kept, *_NEW])
    shutil.rmtree(directory)


def _fail_repair(arena: Arena, tally: Tally, root: Path) -> None:
    def work(tell: Tell) -> None:
        try:
            repair(path, write=True)
            tell("repaired")
        except Exception as error:
            tell("refused", _name(error))

    def once(*inject: str) -> tuple[Traced, list]:
        traced = Traced(work, root / "trace", *inject, calls=_SWEPT)
        traced.go()
        return traced, traced.end()

    directory = root / "scene"
    directory.mkdir()
    path = REPAIR.prepare(directory)
    calls = _touching(once()[0], directory)
    for call in calls:
        for code in ("EIO", "ENOSPC")[: arena.count(2, 1)]:
            shutil.rmtree(directory)
            directory.mkdir()
            REPAIR.prepare(directory)
            where = f"{call.name}:error={code}:when={call.nth}"
            _, told = once("-e", f"inject={where}")
            tally.runs += 1
            _check_repair(tally, where, path, told)


def _check_repair(tally: Tally, where: str, path: Path, told: list) -> None:
    now = path.read_bytes()
    if now not in (DAMAGED, _REPAIRED):
        tally.violate(f"{where}: the log is neither the old one nor the new one")
    if now == DAMAGED and ["repaired"] in told:
        tally.violate(f"{where}: the repair was reported but did not happen")
    originals = [other.read_bytes() for other in path.parent.glob("log.jsonl.original-*")]
    if now == _REPAIRED and DAMAGED not in originals:
        tally.violate(f"{where}: repaired, but the original is gone")
    for word in told:
        if word[-1].startswith("untyped"):
            tally.violate(f"{where}: {word[-1]}")
    with tally.guarded(where):
        repair(path, write=True, lock_timeout=0)
        judge(tally, where, read(path), DAMAGED_RECORDS, DAMAGED_RECORDS)
