"""A disk that fails, once, in the middle of keeping something safe: EIO and a full disk, by strace.

Of every command's calls that change something in the world, thirty are chosen, and each fails once.
The command says so, with one of turnlog's own errors and exit code 3, or it found another way and
did all of its work; in no case is anything lost, and a command that is run again does the rest.
"""

from __future__ import annotations

from pathlib import Path

from .arena import Arena, say
from .safekeeping_checks import differences, state_of
from .safekeeping_kills import Stage, changes, staged, swept
from .safekeeping_scenes import Scene
from .safekeeping_world import Ran, World, command, ran, work, world_at
from .tally import Tally
from .tracing import Call, Traced

_SLICE, _FULL = 3, 30
# Whoever fails to remove something that is in nobody's way need not say so; others must.
_QUIET = {"unlink", "unlinkat", "rmdir", "utimensat"}
_LOUD = {"write", "pwrite64", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat"}
_LOUD |= {"ftruncate", "copy_file_range"}
# These are done when they note that what they put back is kept already: if not, the next run that
# keeps notes it.
_NOTING = {"restore", "unarchive"}
_REASONS = ("input/output error", "Input/output error", "No space left on device")


def sweep(arena: Arena, scene: Scene, directory: Path, own: Path | None) -> Tally:
    """Play a scene once for every call that changes something, which fails."""
    tally = Tally(f"safekeeping: failing, {scene.name}")
    say(tally.fault)
    with tally.guarded("the scene"), world_at(directory, own) as world:
        stage = staged(scene, world, directory, tally)
        calls = [call for call in stage.calls if changes(call) and _touches(call, world)]
        chosen = min(len(calls), arena.count(_FULL, _SLICE))
        calls = sorted(arena.rng(tally.fault).sample(calls, chosen))
        for number, call in enumerate(calls):
            _fail(tally, stage, directory, call, ("EIO", "ENOSPC")[number % 4 == 3])
    return tally


def _touches(call: Call, world: World) -> bool:
    is_inside = any(str(path) in call.arguments for _, path in world.trees)
    return is_inside and call.name != "flock" and not call.result.startswith("-1")


def _is_note(command: str, call: Call) -> bool:
    return command in _NOTING and "/own/kept/" in call.arguments


def _fail(tally: Tally, stage: Stage, directory: Path, call: Call, code: str) -> None:
    world, words = stage.world, stage.scene.words
    where = f"{code} from {call.name} number {call.nth} ({call.arguments[:90]})"
    world.load(stage.saved)
    inject = ("-e", f"inject={call.name}:error={code}:when={call.nth}")
    traced = Traced(work(world, words, stage.said_to), directory / "trace", *inject)
    traced.go()
    done = ran(traced.end(), traced.child.status, stage.said_to)
    tally.runs += 1
    with tally.guarded(where):
        stage.check.now(tally, where, world)
        is_done = not differences(state_of(world), stage.check.final)
        if done.code == 0 and not is_done and call.name not in _QUIET:
            tally.violate(f"{where}: said that all was well: {done.out[-200:]!r}")
        elif done.code == 0 and call.name in _LOUD and not _is_note(words[0], call):
            tally.violate(f"{where}: said nothing of it")
        elif done.code != 0:
            judge_failure(tally, where, done)
        again = command(world, words, stage.said_to)
        told = f"{where}, then run again"
        if again.broke or (again.code != 0 and not is_done):
            tally.violate(f"{told}: {again}")
        stage.check.now(tally, told, world)
        stage.check.finished(tally, told, world)
        swept(tally, where, stage)


def judge_failure(tally: Tally, where: str, done: Ran) -> None:
    """Check that a command which failed says so as commands do.

    One that failed to do one thing of several may go on; it tells of that among the rest.
    """
    if done.broke:
        tally.violate(f"{where}: {done.broke}")
    elif done.code == 3 and "error: " in done.err and "Traceback" not in done.err:
        pass
    elif done.code != 1 or not any(word in done.out + done.err for word in _REASONS):
        tally.violate(f"{where}: exit code {done.code}, {done.err[-300:]!r} {done.out[-200:]!r}")
