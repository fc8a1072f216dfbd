"""The last fifty records of a log of 1 GB, beside those of one of 1 MB.

Reading from the end should cost what the end costs. The small log is the end of the large one, so
that both end alike and line sizes do not decide.
"""

from __future__ import annotations

import os

from turnlog.storage.tail import read_last

from .data import log_of
from .table import Row, ms
from .turns import in_turns

ROUNDS, CALLS = 30, 20
_SMALL_BYTES = 1_000_000


def bench() -> list[Row]:
    large = log_of(1_000_000_000)
    small = end_of(large)
    mine, other, ratio = in_turns(lambda: _read(large), lambda: _read(small), ROUNDS)
    return [
        Row(
            "last 50 records, 1 GB beside 1 MB",
            ms(mine / CALLS),
            ms(other / CALLS),
            f"{ratio:.2f}",
            "<= 3",
            ratio <= 3,
        )
    ]


def _read(path: str) -> None:
    for _ in range(CALLS):
        read_last(path, 50)


def end_of(large: str) -> str:
    """Write the last lines of *large* as a log of their own."""
    path = f"{large.removesuffix('.jsonl')}-end.jsonl"
    if not os.path.exists(path):
        with open(large, "rb") as file:
            file.seek(-_SMALL_BYTES, os.SEEK_END)
            file.readline()  # The rest of a line that began before.
            lines = file.read()
        with open(f"{path}.part", "wb") as file:
            file.write(lines)
        os.replace(f"{path}.part", path)
    return path
