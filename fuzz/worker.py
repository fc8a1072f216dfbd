"""One libFuzzer process for one oracle: ``python -m fuzz.worker TARGET deep|light FINDINGS …``.

An exception does not end it. The input goes to the findings with its traceback, once for each place
it came from, and the fuzzing goes on: a run tells everything that is wrong, not the first thing.
Hangs and memory are libFuzzer's to watch; those do end the process.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
import traceback
from collections.abc import Callable

import atheris
from atheris.import_hook import HookManager

# A light process leaves out the two inner loops and what is compared: two to four times the speed.
_DEEP = sys.argv[2:3] == ["deep"]
_INNER_LOOPS = set() if _DEEP else {"turnlog.records.lenient_json", "turnlog.storage.sources"}

with HookManager({"turnlog"}, _INNER_LOOPS, True, trace_dataflow=_DEEP):
    from .mutate import mutator
    from .oracles import ORACLES


def noting(oracle: Callable[[bytes], None], target: str, directory: str) -> Callable:
    """Wrap *oracle* so that what it raises is written down, once for each place."""
    known: set[tuple] = set()

    def check(data: bytes) -> None:
        try:
            oracle(data)
        except Exception as error:
            place = _place(error)
            if place not in known:
                known.add(place)
                _write_down(directory, target, place, data, error)

    return check


def _place(error: Exception) -> tuple:
    """Name where *error* arose: what broke, and in which function, however deep it recursed."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    broken = str(error) if isinstance(error, AssertionError) else ""
    return type(error).__name__, broken, *(code.co_qualname for code in (*frames[1:3], frames[-1]))


def _write_down(directory: str, target: str, place: tuple, data: bytes, error: Exception) -> None:
    name = hashlib.sha1(repr(place).encode(), usedforsecurity=False).hexdigest()[:12]
    path = os.path.join(directory, f"{target}-{name}")
    try:
        with open(path, "xb") as file:
            file.write(data)
    except FileExistsError:
        return
    with open(f"{path}.txt", "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{data[:2000]!r}\n\n")
        file.writelines(traceback.format_exception(error, limit=-12))


def _mutate(data: bytes, max_size: int) -> bytes:
    return atheris.Mutate(data, max_size)  # Bound anew once Fuzz has begun.


def main() -> None:
    target, _, directory, *arguments = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(50_000)
    check = noting(ORACLES[target], target, directory)
    atheris.Setup([sys.argv[0], *arguments], check, custom_mutator=mutator(_mutate))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
