"""Whole records, typed and checked, beside json.loads alone."""

from __future__ import annotations

import json

from turnlog.records.codec import decode

from .data import log_of, real_logs
from .table import Row, speed
from .turns import in_turns

ROUNDS = 5


def bench() -> list[Row]:
    rows = [_compare("a generated log", [log_of(100_000_000)])]
    real = real_logs()
    if real:
        rows.append(_compare(f"{len(real):,} real logs", real))
    return rows


def _compare(name: str, paths: list[str]) -> Row:
    lines = [line for path in paths for line in _good_lines(path)]
    size = sum(map(len, lines))

    def ours() -> None:
        for line in lines:
            decode(line)

    def peer() -> None:
        loads = json.loads
        for line in lines:
            loads(line)

    mine, other, ratio = in_turns(ours, peer, ROUNDS)
    what = f"full decode of {name} ({size / 1e6:,.0f} MB)"
    return Row(
        what,
        speed(size, mine),
        speed(size, other),
        f"{1 / ratio:.2f} x",
        ">= 1.5 x",
        1 / ratio >= 1.5,
    )


def _good_lines(path: str) -> list[bytes]:
    """List the lines that json.loads takes: it raises at all others."""
    found = []
    with open(path, "rb") as file:
        for line in file.read().split(b"\n"):
            try:
                json.loads(line)
            except ValueError:
                continue
            found.append(line)
    return found
