"""The last records of a log, or those at both its ends, without reading the rest.

A plain log is read backwards in growing blocks until enough lines are in hand, so the cost depends
on the records asked for, not on the log. Its two ends are read for whoever sums logs up by the
hundred. A compressed log has no way back and is read through.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from turnlog.log.lines import LINE_CAP, too_long
from turnlog.log.reader import Placed, Reader, pieces_of
from turnlog.log.sources import PlainSource, open_source
from turnlog.log.system import read_at
from turnlog.records.codec import decode
from turnlog.records.damage import Damage, Reason
from turnlog.records.glance import Glance, glance, stretch
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


class Ends(NamedTuple):
    """The records at both ends of a log, glanced at: good for a fold, and for nothing else."""

    head: list[Record]
    """Those that come before the tail; none if the log is short."""
    tail: Iterable[Record]
    is_whole: bool
    """There is nothing between the two."""
    status: os.stat_result


def read_ends(
    path: str | os.PathLike[str], size_bytes: int = ENDS_BYTES, *, with_cut_lines: bool = False
) -> Ends:
    """Give the records that lie in the first and in the last *size_bytes* of the log.

    *with_cut_lines* adds the line at the inner edge of each, however long it is. A compressed log
    is read through as its tail is iterated: its end is nowhere else to be had.
    """
    source = open_source(path)
    if not isinstance(source, PlainSource):
        return Ends([], _records(Reader(path, source=source)), True, os.stat(path))
    try:
        status = os.fstat(source.fd)
        size, end, start = status.st_size, size_bytes, status.st_size - size_bytes
        if start <= end:
            return _ends_of_short(read_at(source.fd, size, 0), start, status)
        if with_cut_lines:
            end = _end_of_line(source.fd, end)
            start = _start_of_line(source.fd, start, end)
        head = read_at(source.fd, end, 0)
        # The byte before tells whether a line begins right there.
        tail = read_at(source.fd, size - start + 1, start - 1)
    finally:
        source.close()
    end = head.rfind(b"\n") + 1
    cut = tail.find(b"\n") + 1 or len(tail)
    return Ends(_glances(head, end=end), _glances(tail, cut), start - 1 + cut <= end, status)


def _ends_of_short(data: bytes, start: int, status: os.stat_result) -> Ends:
    # Without a newline behind it, the last line begins before the tail and is all of the head.
    cut = (data.find(b"\n", start - 1) + 1 or len(data)) if start > 0 else 0
    return Ends(_glances(data, end=cut), _glances(data, cut), True, status)


def _end_of_line(fd: int, offset: int) -> int:
    """Tell where the line ends that holds the byte before *offset*; *offset* if it is too long."""
    position = offset - 1
    while position - offset < LINE_CAP and (chunk := read_at(fd, _FIRST_BLOCK, position)):
        newline = chunk.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(chunk)
    return offset


def _start_of_line(fd: int, offset: int, after: int) -> int:
    """Tell where the line begins that holds the byte before *offset*, but not before *after*."""
    position = offset - 1
    while position > after and offset - position < LINE_CAP:
        size = min(_FIRST_BLOCK, position - after)
        position -= size
        newline = read_at(fd, size, position).rfind(b"\n")
        if newline >= 0:
            return position + newline + 1
    return after if position <= after else offset


def _records(reader: Reader) -> Iterator[Record]:
    with reader:
        yield from (item.record for item in reader if isinstance(item, Placed))


def _glances(data: bytes, start: int = 0, end: int | None = None) -> list[Record]:
    """Glance at the lines from *start* to *end*; damaged ones are searched for what they hold."""
    view = memoryview(data)
    end = len(data) if end is None else end
    found: list[Record] = []
    run: list[Glance] = []
    while start < end:
        stop = data.find(b"\n", start)
        is_finished = stop >= 0
        line = view[start : stop if is_finished else end]
        seen = glance(line)
        if isinstance(seen, Glance):
            run.append(seen)
        else:
            if run:
                found.append(stretch(run))
                run = []
            if isinstance(seen, Record):
                found.append(seen)
            elif is_finished and seen.reason is not Reason.BLANK:
                items = pieces_of(bytes(line), seen, start)
                found += [item.record for item in items if isinstance(item, Placed)]
        start += len(line) + 1
    return [*found, stretch(run)] if run else found


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
