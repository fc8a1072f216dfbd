"""Records made up for the faults, and the check that a log holds them as it must.

A record follows from its writer's name, its number and its size, so whoever checks a log knows
every byte that may stand in it. The contents are as unpleasant as real ones: braces, quotes, a
nested message, a line separator that is not a newline.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from turnlog.records.damage import Damage
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.sources import Source

from .tally import Tally

SESSION = "5e55-fa17"


def made(writer: str, number: int, size: int = 100) -> dict[str, Any]:
    """Give the record *number* of *writer*, with a text of *size* characters."""
    name = f"{writer}#{number}"
    pattern = f'{name} }}{{"type":"user","uuid":"no" \\ \u2028 '
    return {
        "type": "user",
        "uuid": name,
        "parentUuid": f"{writer}#{number - 1}" if number else None,
        "sessionId": SESSION,
        "timestamp": "2026-02-03T04:05:06.789Z",
        "message": {
            "role": "user",
            "content": [
                {"type": "text", "text": (pattern * (size // len(pattern) + 1))[:size]},
                {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "ls {}"}},
            ],
        },
    }


def line_of(record: dict[str, Any]) -> bytes:
    """Give the line that *record* must become, without its newline."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def made_line(writer: str, number: int, size: int = 100) -> bytes:
    return line_of(made(writer, number, size))


def size_of(writer: str, number: int, largest: int) -> int:
    """Give the size that record *number* of *writer* has, evenly spread over magnitudes."""
    return int(largest ** random.Random(f"{writer}/{number}").random())


class Seen(NamedTuple):
    """What the reader found: records' bytes, damage, and where the next read should begin.

    *glued* are the records that share their line with anything else. The reader salvages them, so
    that they are found says nothing about whether somebody merged them.
    """

    records: list[bytes]
    damage: list[Damage]
    offset: int
    pending: int
    glued: set[bytes]


def read(path: Path | str, start: int = 0, source: Source | None = None) -> Seen:
    """Read a log with turnlog's own reader."""
    records: list[bytes] = []
    damage: list[Damage] = []
    glued: set[bytes] = set()
    with Reader(path, start=start, line=1, source=source) as reader:
        for _, group in groupby(reader, key=attrgetter("line")):
            items = list(group)
            found = [item.record.raw for item in items if isinstance(item, Placed)]
            records += found
            damage += [item for item in items if not isinstance(item, Placed)]
            if len(items) > 1:
                glued.update(found)
        pending = reader.pending.length if reader.pending else 0
        return Seen(records, damage, reader.offset, pending, glued)


def judge(
    tally: Tally,
    where: str,
    seen: Seen,
    acknowledged: Sequence[bytes],
    written: Sequence[bytes],
    *,
    glued_by_others: Collection[bytes] = (),
) -> bool:
    """Hold what was *seen* against what was acknowledged and what was tried, in its order.

    All acknowledged records are there, each alone on its line unless *glued_by_others*; nothing is
    there that nobody wrote; nothing stands twice; the order is the writer's.
    """
    before = tally.violations
    place = {line: number for number, line in enumerate(written)}
    there: set[bytes] = set()
    last = -1
    for line in seen.records:
        number = place.get(line)
        if number is None:
            tally.merge(f"{where}: a record nobody wrote: {line[:60]!r}")
        elif line in there:
            tally.violate(f"{where}: a record stands twice: {line[:60]!r}")
        elif number < last:
            tally.violate(f"{where}: out of order: {line[:60]!r}")
        else:
            last = number
        there.add(line)
    for line in seen.glued.intersection(acknowledged).difference(glued_by_others):
        tally.merge(f"{where}: shares its line with something else: {line[:60]!r}")
    gone = [line for line in acknowledged if line not in there]
    if gone:
        tally.lose(f"{where}: {len(gone)} records, the first {gone[0][:60]!r}", len(gone))
    return tally.violations == before
