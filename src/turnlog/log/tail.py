"""The last records of a log, without reading the rest.

A plain log is read backwards in growing blocks until enough lines are in hand, so the cost depends
on the records asked for, not on the log. A compressed log has no way back and is read through.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from turnlog.log.lines import LINE_CAP, too_long
from turnlog.log.reader import Placed, Reader, pieces_of
from turnlog.log.sources import PlainSource, open_source
from turnlog.log.system import read_at
from turnlog.records.codec import decode
from turnlog.records.damage import Damage, Reason
from turnlog.records.record import Record

ENDS_BYTES: Final = 64 * 1024
_FIRST_BLOCK: Final = 64 * 1024
_LARGEST_BLOCK: Final = 4 * 1024 * 1024


def read_last(
    path: str | os.PathLike[str], count: int, *, cap: int = LINE_CAP
) -> list[Placed | Damage]:
    """Give the last *count* records in the log's order, and the damage among them."""
    source = open_source(path)
    count = max(0, count)
    if not isinstance(source, PlainSource):
        with Reader(path, cap=cap, source=source) as reader:
            return _last_of(reader, count)
    found: list[Placed | Damage] = []
    missing = count
    try:
        for number, (offset, line) in enumerate(_lines_backwards(source.fd, cap)):
            if missing <= 0:
                break
            # The first is what follows the last newline: a record, or still being written.
            items = _items(line, offset) if number else _unfinished(line, offset)
            for item in reversed(items):
                if missing > 0:
                    found.append(item)
                    missing -= isinstance(item, Placed)
    finally:
        source.close()
    found.reverse()
    return found


def read_ends(
    path: str | os.PathLike[str], size_bytes: int = ENDS_BYTES, *, cap: int = LINE_CAP
) -> tuple[list[Placed], list[Placed], bool]:
    """Give the records in the first and the last *size_bytes*, and whether that is all.

    A compressed log is read through: its end is nowhere else to be had.
    """
    source = open_source(path)
    try:
        size = os.fstat(source.fd).st_size if isinstance(source, PlainSource) else 0
        whole = not isinstance(source, PlainSource) or size <= 2 * size_bytes
        with Reader(path, cap=cap, source=source) as reader:
            if whole:
                return _records(reader), [], True
            head = _records(item for item in _until(reader, size_bytes))
        return head, _tail_records(path, size - size_bytes, cap), False
    finally:
        source.close()


def _records(items: Iterable[Placed | Damage]) -> list[Placed]:
    return [item for item in items if isinstance(item, Placed)]


def _until(reader: Reader, offset: int) -> Iterator[Placed | Damage]:
    for item in reader:
        yield item
        if item.offset + item.length >= offset:
            return


def _tail_records(path: str | os.PathLike[str], start: int, cap: int) -> list[Placed]:
    """Read from the first line that begins behind *start*."""
    with Reader(path, start=start, cap=cap) as reader:
        items = iter(reader)
        for item in items:  # Most likely we landed inside a line: its rest is no damage.
            if item.offset > start or isinstance(item, Placed):
                return _records([item, *items])
    return []


def _lines_backwards(fd: int, cap: int) -> Iterator[tuple[int, bytes | Damage]]:
    """Give every line from the last to the first, with its offset."""
    position = os.fstat(fd).st_size
    block = _FIRST_BLOCK
    parts: deque[bytes] = deque()  # The pieces of a line whose beginning is not read yet.
    held = 0
    while position > 0:
        size = min(block, position)
        chunk = read_at(fd, size, position - size)
        if len(chunk) < size:  # The log shrank under us: what is left has no known end.
            return
        position -= size
        block = min(block * 2, _LARGEST_BLOCK)
        lines = chunk.split(b"\n")
        end = position + size
        if len(lines) > 1:
            last = lines.pop()
            yield end - len(last), _joined(last, parts, held, cap)
            parts.clear()
            held = 0
            end -= len(last) + 1
            while len(lines) > 1:
                line = lines.pop()
                yield end - len(line), line if len(line) <= cap else too_long(line, len(line))
                end -= len(line) + 1
        held += len(lines[0])
        if held <= cap:
            parts.appendleft(lines[0])
        elif parts:
            parts.clear()
    if held:
        yield 0, _joined(b"", parts, held, cap)


def _joined(head: bytes, parts: deque[bytes], held: int, cap: int) -> bytes | Damage:
    if held + len(head) > cap:
        return too_long(head or b"?", held + len(head))
    return b"".join((head, *parts))


def _items(line: bytes | Damage, offset: int) -> list[Placed | Damage]:
    if isinstance(line, Damage):
        return [line.moved(offset)]
    record = decode(line)
    if isinstance(record, Record):
        return [Placed(record, offset, len(line))]
    return [] if record.reason is Reason.BLANK else list(pieces_of(line, record, offset))


def _unfinished(line: bytes | Damage, offset: int) -> list[Placed | Damage]:
    if isinstance(line, Damage):
        return [line.moved(offset)]
    record = decode(line)
    return [Placed(record, offset, len(line))] if isinstance(record, Record) else []


def _last_of(reader: Reader, count: int) -> list[Placed | Damage]:
    window: deque[Placed | Damage] = deque()
    records = 0
    for item in reader:
        window.append(item)
        records += isinstance(item, Placed)
        while window and (records > count or count == 0):
            records -= isinstance(window.popleft(), Placed)
    return list(window)
