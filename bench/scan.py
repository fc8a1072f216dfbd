"""The envelopes of a log, beside the plainest loop that decodes the same type.

The plain loop checks nothing: it would raise at the first bad line and knows no cap. Surviving any
bytes should not be slower than that.
"""

from __future__ import annotations

import os

from turnlog.records.codec import envelope_decoder
from turnlog.storage.reader import scan_log

from .data import log_of, real_logs
from .table import Row, speed
from .turns import in_turns

ROUNDS = 7


def bench() -> list[Row]:
    rows = [_compare("a generated log", [log_of(100_000_000)])]
    real = [path for path in real_logs() if _is_plain(path)]
    if real:
        rows.append(_compare(f"{len(real):,} real logs", real))
    return rows


def _compare(name: str, paths: list[str]) -> Row:
    size = sum(os.path.getsize(path) for path in paths)

    def ours() -> None:
        for path in paths:
            for _ in scan_log(path):
                pass

    def peer() -> None:
        decode = envelope_decoder.decode
        for path in paths:
            with open(path, "rb") as file:
                for line in file:
                    decode(line)

    mine, other, ratio = in_turns(ours, peer, ROUNDS)
    what = f"envelope scan of {name} ({size / 1e6:,.0f} MB)"
    return Row(
        what, speed(size, mine), speed(size, other), f"{1 / ratio:.2f} x", ">= 1", ratio <= 1
    )


def _is_plain(path: str) -> bool:
    """Tell whether the plain loop gets through *path* at all."""
    try:
        with open(path, "rb") as file:
            for line in file:
                envelope_decoder.decode(line)
    except ValueError:
        return False
    return True
