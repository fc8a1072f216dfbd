"""What must hold for every log: no byte without an account, however it is cut, capped or read.

The log is in memory; only reading backwards and scanning need a file, which lives in memory too.
"""

from __future__ import annotations

import os
from typing import Any
from zlib import crc32

from turnlog.records.codec import Envelope, decode_envelope
from turnlog.records.damage import Damage, Reason
from turnlog.storage import tail
from turnlog.storage.reader import Placed, Reader, scan_log

_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # How compressed logs begin: not for memory.
_ALL = 64 << 20
# Caps and chunk sizes to read with; the tiny ones only where they do not cost thousands of reads.
_CAPS = (_ALL, _ALL, _ALL, 400, 100)
_TINY_CAPS = (_ALL, 100, 33, 5, 1)
_STEPS = (_ALL, _ALL, _ALL, 200, 61)
_TINY_STEPS = (_ALL, 61, 7, 2, 1)
# Blocks so small that a short log has many: that is where reading backwards can go wrong.
tail._FIRST_BLOCK, tail._LARGEST_BLOCK = 64, 256  # noqa: SLF001


def is_nothing(data: bytes) -> bool:
    """Tell whether bytes need no account: blanks, and the mark that editors prepend."""
    return not data.replace(b"\xef\xbb\xbf", b"").strip(b" \t\r\n")


class MemorySource:
    """A log in memory that hands out at most *step* bytes a time."""

    plain = True

    def __init__(self, data: bytes, step: int, start: int = 0) -> None:
        self._data = data
        self._step = step
        self._position = start

    def read(self, size: int, /) -> bytes:
        begin = self._position
        self._position = begin + min(size, self._step)
        return self._data[begin : self._position]

    def close(self) -> None:
        """Nothing is held."""


def check_reader(data: bytes) -> None:
    """Every byte is a record's, a damage's, pending or blank; parts add up to the whole."""
    mark = crc32(data)
    caps, steps = (_CAPS, _STEPS) if len(data) > 80 else (_TINY_CAPS, _TINY_STEPS)
    cap = caps[mark % 5]
    step = steps[(mark >> 4) % 5]
    items, reader = _read(data, cap, step, "wait")
    _check_account(data, items, reader)
    packed = data.startswith(_PACKED) or data[1:4] == b"\x2a\x4d\x18"
    choice = 7 if packed else (mark >> 8) & 7
    if choice < 3:
        _check_two_parts(data, items, cap, step, (mark >> 12) % (len(data) + 1))
    elif choice < 5:
        other, _ = _read(data, cap, steps[(mark >> 12) % 5], "wait")
        assert _keys(other) == _keys(items), "another chunk size gives other items"
    elif choice == 5:
        _check_last(data, cap, 1 + (mark >> 12) % 5)
    elif choice == 6:
        _check_scan(data)
    else:
        _check_take(data, items, reader, cap, step)


def _read(
    data: bytes, cap: int, step: int, wanted: Any, *, start: int = 0, line: int = 0
) -> tuple[list[Placed | Damage], Reader]:
    source = MemorySource(data, step, start)
    reader = Reader("memory", cap=cap, tail=wanted, source=source, start=start, line=line)
    return list(reader), reader


def _key(item: Placed | Damage) -> tuple[Any, ...]:
    if isinstance(item, Placed):
        return item.offset, item.length, item.line, item.record.raw
    # How much of an over-long line was seen when it was given up depends on the chunks.
    reason = Reason.TOO_LONG if item.reason is Reason.NUL_RUN else item.reason
    return item.offset, item.length, item.line, reason


def _keys(items: list[Placed | Damage]) -> list[tuple[Any, ...]]:
    return [_key(item) for item in items]


def _check_account(data: bytes, items: list[Placed | Damage], reader: Reader) -> None:
    done = 0
    for item in items:
        offset, end = item.offset, item.offset + item.length
        assert offset >= done, "items overlap"
        assert is_nothing(data[done:offset]), "bytes between items without an account"
        if isinstance(item, Placed):
            assert item.record.raw == data[offset:end], "a record of other bytes"
        else:
            assert data.startswith(item.excerpt, offset), "an excerpt of other bytes"
        assert item.line == data.count(b"\n", 0, offset) + 1, "a wrong line number"
        done = end
    rest = data[done:]
    if reader.pending is not None:
        pending = reader.pending
        assert pending.offset + pending.length == len(data), "pending ends elsewhere"
        assert b"\n" not in data[pending.offset :], "pending holds a newline"
        rest = data[done : pending.offset]
    assert is_nothing(rest), "bytes at the end without an account"
    assert reader.offset == data.rfind(b"\n") + 1, "the bookmark is not behind the last newline"
    assert reader.lines == data.count(b"\n"), "lines miscounted"


def _check_two_parts(
    data: bytes, items: list[Placed | Damage], cap: int, step: int, cut: int
) -> None:
    first, reader = _read(data[:cut], cap, step, "wait")
    second, _ = _read(data, cap, step, "wait", start=reader.offset, line=reader.line)
    assert _keys(first + second) == _keys(items), "two reads differ from one"


def _check_take(
    data: bytes, items: list[Placed | Damage], waited: Reader, cap: int, step: int
) -> None:
    taken, _ = _read(data, cap, step, "take")
    pending = waited.pending
    # A pending line past the cap will never be a record: whoever takes the tail is told so.
    given = pending is not None and (pending.record is not None or pending.length > cap)
    extra = 1 if given else 0
    assert len(taken) == len(items) + extra, "a pending record is not taken, or too much is"


_memory_fd = -1


def _as_file(data: bytes) -> str:
    """Put *data* into a file that lives in memory; give a path to it."""
    global _memory_fd  # noqa: PLW0603 - one file for the whole run is the point.
    if _memory_fd < 0:
        _memory_fd = os.memfd_create("log")
    os.ftruncate(_memory_fd, len(data))
    os.pwrite(_memory_fd, data, 0)
    return f"/proc/self/fd/{_memory_fd}"


def _check_last(data: bytes, cap: int, count: int) -> None:
    """Reading backwards gives what reading forwards gives at its end."""
    ahead, _ = _read(data, cap, _ALL, "take")
    back = tail.read_last(_as_file(data), count, cap=cap)
    assert sum(isinstance(item, Placed) for item in back) == min(
        count, sum(isinstance(item, Placed) for item in ahead)
    ), "reading backwards finds more or fewer records"
    expected = ahead[len(ahead) - len(back) :]
    for found, wanted in zip(back, expected, strict=True):
        assert (found.offset, found.length) == (wanted.offset, wanted.length), "backwards differs"
        assert type(found) is type(wanted), "backwards differs in kind"


def _check_scan(data: bytes) -> None:
    """The batched scan gives what decoding line by line gives."""
    wanted: list[Any] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        thin = decode_envelope(line)
        if isinstance(thin, Envelope):
            wanted.append(thin.uuid)
        elif thin.reason is not Reason.BLANK and number < len(lines) - 1:
            wanted.append(thin.reason)
    found = [
        item.uuid if isinstance(item, Envelope) else item.reason
        for item in scan_log(_as_file(data))
    ]
    assert found == wanted, "the scan differs from decoding line by line"
