"""No room: short writes and refusals by file-size limit, full disk, quota and lack of inodes.

Injected by RLIMIT_FSIZE (always), small tmpfs mounts (root) and the preloaded library. Every time:
StorageFull is raised, nothing that stood in the log changes, nothing merges, and the same handle
works as soon as there is room again, also if the fragment could not be taken back.
"""

from __future__ import annotations

import errno
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from turnlog.errors import StorageFull
from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.writer import LogWriter

from . import shim, small_disks
from .arena import Arena, say
from .child import Tell, run_child
from .made import judge, made, made_line, read
from .tally import Tally

_OLD = [made_line("old", number) for number in range(2)]
_NEW = [made_line("new", number, 300) for number in range(4)]
_BEFORE = b"".join(line + b"\n" for line in _OLD)


def run(arena: Arena) -> list[Tally]:
    say("full: limits, small disks, injected errors")
    return [
        _by_limit(arena),
        _buffered(arena),
        *small_disks.run(arena),
        _by_injection(arena),
        _foreign_in_between(arena),
    ]


def _append_full_then_free(log: LogWriter, free: Callable[[], None], tell: Tell) -> None:
    """Append one record into no room, free some, append the same one and another."""
    try:
        log.append(made("new", 0, 300))
        tell("ack", 1)
    except StorageFull as error:
        tell("full", error.errno)
    free()
    log.append(made("new", 1, 300))
    tell("ack", 2)
    log.append_many([made("new", 2, 300), made("new", 3, 300)])
    tell("ack", 4)


def _check(tally: Tally, where: str, path: Path, told: list, status: int | None) -> None:
    tally.runs += 1
    words = [word[0] for word in told]
    if status != 0:
        tally.violate(f"{where}: {told[-1:] if status else 'hung'}")
    count = max((word[1] for word in told if word[0] == "ack"), default=0)
    refused = "full" in words
    must = [*_OLD, *(_NEW[1:count] if refused else _NEW[:count])]
    tally.acknowledged += len(must) - len(_OLD)
    if not path.read_bytes().startswith(_BEFORE):
        tally.violate(f"{where}: what stood in the log before has changed")
    seen = read(path)
    judge(tally, where, seen, must, [*_OLD, *_NEW])
    if len(seen.damage) > 1 or seen.pending:
        tally.violate(f"{where}: more than one fragment")


def _by_limit(arena: Arena) -> Tally:
    tally = Tally("full: RLIMIT_FSIZE")
    with arena.directory("limit", memory=True) as directory:
        path = directory / "log.jsonl"
        for torn in (b"", b'{"torn":'):
            for room in range(0, len(_NEW[0]) + 2, arena.count(1, 10)):
                path.write_bytes(_BEFORE + torn)

                def work(tell: Tell, size: int = len(_BEFORE + torn) + room) -> None:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                    with LogWriter(path) as log:
                        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
                        lift = (resource.RLIMIT_FSIZE, (hard, hard))
                        _append_full_then_free(log, lambda: resource.setrlimit(*lift), tell)

                told, status = run_child(work)
                where = f"room for {room} bytes"
                if ["full", errno.EFBIG] not in told and room <= len(_NEW[0]):
                    tally.violate(f"{where}: StorageFull was not raised: {told[:1]}")
                with tally.guarded(where):
                    _check(tally, where, path, told, status)
    return tally


def _buffered(arena: Arena) -> Tally:
    """What a buffered log could not save keeps waiting, and is there once, when there is room."""
    tally = Tally("full: buffered")
    lines = [made_line("new", number, 300) for number in range(40)]
    with arena.directory("buffered", memory=True) as directory:
        path = directory / "log.jsonl"
        for room in range(0, 40 * len(lines[0]), arena.count(97, 1200)):
            path.write_bytes(_BEFORE)

            def work(tell: Tell, size: int = len(_BEFORE) + room) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                writer = LogWriter(path)
                with BufferedLog(writer, every_seconds=3600, max_records=7) as log:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
                    for number in range(40):
                        try:
                            log.append(made("new", number, 300))
                        except StorageFull:
                            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                            log.append(made("new", number, 300))
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                tell("ack", 40)

            told, status = run_child(work)
            where = f"room for {room} bytes"
            tally.runs += 1
            if status != 0:
                tally.violate(f"{where}: {told}")
            tally.acknowledged += 40 * (["ack", 40] in told)
            must = [*_OLD, *(lines if ["ack", 40] in told else [])]
            with tally.guarded(where):
                judge(tally, where, read(path), must, [*_OLD, *lines])
    return tally


def _by_injection(arena: Arena) -> Tally:
    tally = Tally("full: injected errors")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    with arena.directory("inject", memory=True) as directory:
        path = directory / "log.jsonl"
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            for cut in range(-1, len(_NEW[0]), arena.count(7, 70)):
                for stuck in (False, True):
                    path.write_bytes(_BEFORE)

                    def work(tell: Tell, code: int = code, cut: int = cut, stuck=stuck) -> None:
                        with LogWriter(path) as log:
                            _arm(path.name, code, cut, stuck=stuck)
                            _append_full_then_free(log, shim.disarm, tell)

                    told, status = run_child(work)
                    where = f"{errno.errorcode[code]} after {cut} bytes, stuck {stuck}"
                    if ["full", code] not in told:
                        tally.violate(f"{where}: StorageFull was not raised: {told[:1]}")
                    with tally.guarded(where):
                        _check(tally, where, path, told, status)
    return tally


def _arm(name: str, code: int, cut: int, *, stuck: bool) -> None:
    """Let a write fail with *code*, after *cut* bytes unless negative, and perhaps for good."""
    if cut >= 0:
        shim.arm(name, shim.WRITE, 1, shim.SHORT, cut)
    shim.arm(name, shim.WRITE, 1 + (cut >= 0), shim.FAIL, code)
    if stuck:
        shim.arm(name, shim.TRUNCATE, 1, shim.FAIL, errno.EIO)


def _foreign_in_between(arena: Arena) -> Tally:
    """A write falls short, somebody without a lock appends behind it, then there is room again.

    The rest of the record must not be written behind the foreign one and be acknowledged.
    """
    tally = Tally("full: short, then a foreign append")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    foreign = made_line("foreign", 0)
    with arena.directory("between", memory=True) as directory:
        path = directory / "log.jsonl"
        for cut in range(1, len(_NEW[0]), arena.count(7, 70)):
            for again in (None, errno.ENOSPC):
                path.write_bytes(_BEFORE)

                def work(tell: Tell, cut: int = cut, again: int | None = again) -> None:
                    with LogWriter(path) as log:
                        shim.intruder(foreign + b"\n")
                        shim.arm(path.name, shim.WRITE, 1, shim.INTRUDE, cut)
                        if again:
                            shim.arm(path.name, shim.WRITE, 2, shim.FAIL, again)
                        _append_full_then_free(log, shim.disarm, tell)

                told, status = run_child(work)
                where = f"foreign append after {cut} bytes, then {again or 'room'}"
                tally.runs += 1
                if status != 0:
                    tally.violate(f"{where}: {told[-1:]}")
                must = [*(_NEW[:1] if ["ack", 1] in told else []), *_NEW[1:]]
                tally.acknowledged += len(must)
                with tally.guarded(where):
                    seen = read(path)
                    # The foreign record is glued to our fragment; reading finds it all the same.
                    if foreign not in seen.records:
                        tally.lose(f"{where}: the foreign record")
                    ours = [line for line in seen.records if line != foreign]
                    seen = seen._replace(records=ours)
                    judge(tally, where, seen, [*_OLD, *must], [*_OLD, *_NEW])
    return tally
