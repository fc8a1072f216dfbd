"""Which lines and branches of our own modules the corpus reaches.

A branch is one of the two ways out of a conditional jump. Both are counted from the bytecode with
the interpreter's own tracing, so nothing needs to be installed. Slow, and done once at the end.
``python -m fuzz.covered CORPUS`` prints one JSON object:
module to [lines reached, lines, branches reached, branches].
"""

from __future__ import annotations

import dis
import json
import logging
import os
import sys
from collections import defaultdict
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

WATCHED = ("records/", "log/reader.py", "log/salvage.py", "log/lines.py", "log/tail.py")
_HOME = f"{os.sep}turnlog{os.sep}"

_lines: dict[CodeType, set[int]] = defaultdict(set)
_ways: dict[CodeType, set[tuple[int, int]]] = defaultdict(set)
_forks: dict[CodeType, dict[int, tuple[int, int]]] = {}
_modules: dict[str, set[CodeType]] = defaultdict(set)


def _module(code: CodeType) -> str:
    """Name the watched module that *code* belongs to; empty if none."""
    _, home, name = code.co_filename.rpartition(_HOME)
    return name if home and name.startswith(WATCHED) else ""


def _forks_of(code: CodeType) -> dict[int, tuple[int, int]]:
    """Map each conditional jump to its two ways: the next instruction and the jump's target."""
    steps = list(dis.get_instructions(code))
    return {
        step.offset: (after.offset, step.argval)
        for step, after in pairwise(steps)
        if ("JUMP_" in step.opname and "_IF_" in step.opname) or step.opname == "FOR_ITER"
    }


def _know(code: CodeType, module: str) -> None:
    """Take note of *code* and everything defined inside it."""
    _modules[module].add(code)
    _forks[code] = _forks_of(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            _know(inner, module)


def _trace(frame: FrameType, _event: str, _argument: Any) -> Any:
    code = frame.f_code
    module = _module(code)
    if not module:
        return None
    if code not in _forks:
        _know(code, module)
    forks, ways, lines = _forks[code], _ways[code], _lines[code]
    frame.f_trace_opcodes = True
    came_from = -1

    def step(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal came_from
        if event == "opcode":
            here = frame.f_lasti
            if came_from in forks:
                ways.add((came_from, here))
            came_from = here
        elif event == "line":
            lines.add(frame.f_lineno)
        return step

    return step


def _lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}


def _report() -> dict[str, list[int]]:
    report = {}
    for module, codes in sorted(_modules.items()):
        lines = set().union(*(_lines_of(code) for code in codes))
        reached = set().union(*(_lines[code] for code in codes)) & lines
        branches = {
            (code, fork, way)
            for code in codes
            for fork, ways in _forks[code].items()
            for way in ways
        }
        taken = {(code, *way) for code in codes for way in _ways[code]} & branches
        report[module] = [len(reached), len(lines), len(taken), len(branches)]
    return report


def main() -> None:
    logging.disable(logging.CRITICAL)
    sys.settrace(_trace)  # Before our modules are imported: their own lines count too.
    from .oracles import ORACLES

    for target, oracle in ORACLES.items():
        directory = os.path.join(sys.argv[1], target)
        if not os.path.isdir(directory):
            continue
        for name in sorted(os.listdir(directory)):
            with open(os.path.join(directory, name), "rb") as file:
                data = file.read()
            try:
                oracle(data)
            except Exception as error:
                print(f"{target}/{name}: {error!r}", file=sys.stderr)  # The run itself counts it.
    sys.settrace(None)
    print(json.dumps(_report()))


if __name__ == "__main__":
    main()
