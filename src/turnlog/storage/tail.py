"""Read the last records of a log, or both its ends, without reading the rest.

A log is read backwards in growing blocks until there are enough lines, so the cost depends on the
records requested, not on the log. Both ends are read to summarize logs by the hundred. A compressed
log without frames has no random access and is read completely.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from turnlog.records.damage import Damage, Reason
from turnlog.records.fast_decode import QuickRecord, quick_decode, quick_run
from turnlog.records.record import Record
from turnlog.storage.blobs import STUB, decode_line, whole_line
from turnlog.storage.lines import ENDS_BYTES, LINE_CAP, too_long
from turnlog.storage.reader import Placed, Reader, pieces_of
from turnlog.storage.sources import Seekable, open_source

_Path: TypeAlias = str | os.PathLike[str]

_FIRST_BLOCK: Final = 64 * 1024
_LARGEST_BLOCK: Final = 4 * 1024 * 1024


def read_last(
    path: str | os.PathLike[str], count: int, *, cap: int = LINE_CAP
) -> list[Placed | Damage]:
    """Return the last *count* records in log order, with the damage among them."""
    source = open_source(path)
    count = max(0, count)
    if not isinstance(source, Seekable):
        with Reader(path, cap=cap, source=source) as reader:
            return _last_of(reader, count)
    found: list[Placed | Damage] = []
    missing = count
    try:
        for number, (offset, line) in enumerate(_lines_backwards(source, cap)):
            if missing <= 0:
                break
            # The first holds what follows the last newline: a record, or one still being written.
            items = _items(path, line, offset) if number else _unfinished(path, line, offset)
            for item in reversed(items):
                if missing > 0:
                    found.append(item)
                    missing -= isinstance(item, Placed)
    finally:
        source.close()
    found.reverse()
    return found


class Ends(NamedTuple):
    """The records at both ends of a log, partially decoded: for folding a summary only."""

    head: list[Record]
    """Records before the tail; empty if the log is short."""
    tail: Iterable[Record]
    is_whole: bool
    """Nothing is missing between head and tail."""
    size_bytes: int
    """The size of the log; for one that is read completely, its size on disk."""
    changed_at: float


def read_ends(
    path: str | os.PathLike[str], size_bytes: int = ENDS_BYTES, *, with_cut_lines: bool = False
) -> Ends:
    """Return the records in the first and in the last *size_bytes* of the log.

    *with_cut_lines* adds the line at the inner edge of each end, however long it is. A log without
    random access is read completely when its tail is iterated.
    """
    source = open_source(path)
    if not isinstance(source, Seekable):
        status = os.stat(path)
        records = _records(Reader(path, source=source))
        return Ends([], records, True, status.st_size, status.st_mtime)
    try:
        changed_at = os.fstat(source.fd).st_mtime
        size = source.size_bytes
        end, start = size_bytes, size - size_bytes
        if start <= end:
            return _ends_of_short(path, source.read_at(size, 0), start, changed_at)
        if with_cut_lines:
            end = _end_of_line(source, end)
            start = _start_of_line(source, start, end)
        head = source.read_at(end, 0)
        # The byte before shows whether a line begins right there.
        tail = source.read_at(size - start + 1, start - 1)
    finally:
        source.close()
    end = head.rfind(b"\n") + 1
    cut = tail.find(b"\n") + 1 or len(tail)
    is_whole = start - 1 + cut <= end
    ends = _quick_records(path, head, end=end), _quick_records(path, tail, cut)
    return Ends(*ends, is_whole, size, changed_at)


def _ends_of_short(path: _Path, data: bytes, start: int, changed_at: float) -> Ends:
    # Without a newline after it, the last line begins before the tail and is all of the head.
    cut = (data.find(b"\n", start - 1) + 1 or len(data)) if start > 0 else 0
    ends = _quick_records(path, data, end=cut), _quick_records(path, data, cut)
    return Ends(*ends, True, len(data), changed_at)


def _end_of_line(source: Seekable, offset: int) -> int:
    """Return the end of the line that holds the byte before *offset*, or *offset* if too long."""
    position = offset - 1
    while position - offset < LINE_CAP and (chunk := source.read_at(_FIRST_BLOCK, position)):
        newline = chunk.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(chunk)
    return offset


def _start_of_line(source: Seekable, offset: int, after: int) -> int:
    """Return the start of the line with the byte before *offset*, but not before *after*."""
    position = offset - 1
    while position > after and offset - position < LINE_CAP:
        size = min(_FIRST_BLOCK, position - after)
        position -= size
        newline = source.read_at(size, position).rfind(b"\n")
        if newline >= 0:
            return position + newline + 1
    return after if position <= after else offset


def _records(reader: Reader) -> Iterator[Record]:
    with reader:
        yield from (item.record for item in reader if isinstance(item, Placed))


def _quick_records(
    path: _Path, data: bytes, start: int = 0, end: int | None = None
) -> list[Record]:
    """Yield the partially decoded lines from *start* to *end*; damaged ones are salvaged."""
    view = memoryview(data)
    end = len(data) if end is None else end
    found: list[Record] = []
    run: list[QuickRecord] = []
    while start < end:
        stop = data.find(b"\n", start)
        is_finished = stop >= 0
        line = view[start : stop if is_finished else end]
        original = whole_line(path, bytes(line)) if data.startswith(STUB, start) else line
        seen = original if isinstance(original, Damage) else quick_decode(original)
        if isinstance(seen, QuickRecord):
            run.append(seen)
        else:
            if run:
                found.append(quick_run(run))
                run = []
            if isinstance(seen, Record):
                found.append(seen)
            elif is_finished and seen.reason is not Reason.BLANK:
                items = pieces_of(bytes(line), seen, start, log=path)
                found += [item.record for item in items if isinstance(item, Placed)]
        start += len(line) + 1
    return [*found, quick_run(run)] if run else found


def _lines_backwards(source: Seekable, cap: int) -> Iterator[tuple[int, bytes | Damage]]:
    """Yield every line and its offset from last to first; blank ones only at the ends."""
    position = source.size_bytes
    block = _FIRST_BLOCK
    parts: deque[bytes] = deque()  # The pieces of a line whose beginning is not read yet.
    held = 0
    while position > 0:
        size = min(block, position)
        chunk = source.read_at(size, position - size)
        if len(chunk) < size:  # The log shrank under us: the rest has no known end.
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
                if len(line) > cap:
                    yield end - len(line), too_long(line, len(line))
                elif line.strip(b"\r\t "):
                    yield end - len(line), line
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


def _items(path: _Path, line: bytes | Damage, offset: int) -> list[Placed | Damage]:
    if isinstance(line, Damage):
        return [line.moved(offset)]
    record = decode_line(path, line)
    if isinstance(record, Record):
        return [Placed(record, offset, len(line))]
    return [] if record.reason is Reason.BLANK else list(pieces_of(line, record, offset, log=path))


def _unfinished(path: _Path, line: bytes | Damage, offset: int) -> list[Placed | Damage]:
    if isinstance(line, Damage):
        return [line.moved(offset)]
    record = decode_line(path, line)
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
