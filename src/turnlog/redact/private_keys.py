"""PEM private keys: everything between BEGIN and END except line numbers and quotes.

A key may be truncated, numbered line by line, printed with a prefix before each line, or written as
string literals, so its lines are masked one by one and the text between them stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from turnlog.redact.false_positives import is_example
from turnlog.redact.spans import SecretSpan

_RANK: Final = 0
_MASK: Final = b"[redacted private key]"
_BEGIN: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_ARMOUR: Final = b"-----BEGIN "
_END: Final = b"-----END"
_LONGEST: Final = 32_768
_SHORTEST: Final = 48
# Escapes first, so that the n of \\n does not begin a line of the key.
_ESCAPE: Final = rb"\\{1,15}(?:u[0-9A-Fa-f]{4}|[nrtbf\"'])"
_PIECE: Final = re.compile(
    rb"(" + _ESCAPE + rb")|([A-Za-z0-9+/=_-]{12,}(?:\\{1,7}/[A-Za-z0-9+/=]*)*)"
)
# What may be between two lines of one key: newlines, numbers, arrows, the ends of concatenated
# strings. A bare quote in a line of JSON ends everything.
_BETWEEN: Final = re.compile(
    rb"(?:" + _ESCAPE + rb"|[\s'+|:,;>#*.]|\xe2\x86\x92|\xe2\x94\x82|\d{1,5}"
    rb"|\"[\s,.&]*[+\n][\s,.&+]*\""
    rb"|(?:Proc-Type|DEK-Info|Comment|Version|Hash)[: ][^\n\\\"]{0,80})*"
)
_FULL_LINE: Final = 40
_NEAR: Final = 200
_MIXED: Final = tuple(re.compile(kind) for kind in (rb"[a-z]", rb"[A-Z]", rb"[0-9]"))
_LAST: Final = re.compile(rb"(?:\s|\\{1,15}[nr])*(?!\d+\b)([A-Za-z0-9+/=]{1,11})(?=\s|\\|-|\Z)")
_LINE_ENDS: Final = re.compile(rb"(?:\s|\\{1,15}[nr])*")


def find_blocks(data: bytes) -> Iterator[SecretSpan]:
    """Yield private keys between their BEGIN and END, or as far as they go."""
    at = -1
    while (at := data.find(_ARMOUR, at + 1)) >= 0:
        begin = _BEGIN.match(data, at)
        if begin is None:
            continue
        start = begin.end()
        stop = min(len(data), start + _LONGEST)
        another = data.find(_ARMOUR, start, stop)
        stop = stop if another < 0 else another
        end = data.find(_END, start, stop)
        pieces = _between_both(data, start, end) if end >= 0 else _in_a_row(data, start, stop)
        value = b"".join(data[first:last] for first, last in pieces)
        if len(value) < _SHORTEST or is_example(value[:200]) or len(set(value)) < 12:
            continue
        first, last = pieces[0][0], pieces[-1][1]
        yield SecretSpan(first, last, "private key", _masked(data, pieces), value, _RANK)


def _between_both(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the lines of a key with both BEGIN and END, whatever is between them.

    After consecutive lines, anything that looks like a line counts: a tool may have put a prefix
    before each line (a file name, a time, a colour), or each may be a string of its own.
    """
    pieces = _in_a_row(data, start, stop)
    further = [
        piece.span()
        for piece in _PIECE.finditer(data, pieces[-1][1] if pieces else start, stop)
        if piece[2] is not None and all(kind.search(piece[2]) for kind in _MIXED)
    ]
    pieces += [(first, last) for first, last in further if last - first >= _FULL_LINE]
    if pieces:  # The last line is rarely a full one.
        at = pieces[-1][1]
        pieces += [span for span in further if at <= span[0] <= at + _NEAR][:1]
    return pieces


def _in_a_row(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the lines of a key: as many as follow each other with nothing foreign between."""
    pieces: list[tuple[int, int]] = []
    at = start
    for piece in _PIECE.finditer(data, start, stop):
        if piece[2] is None:
            continue
        between = _BETWEEN.match(data, at, piece.start())
        if between is None or between.end() < piece.start():
            break
        pieces.append(piece.span())
        at = piece.end()
    if pieces:
        short = _LAST.match(data, at, stop)
        if short:
            pieces.append(short.span(1))
    return pieces


def _masked(data: bytes, pieces: list[tuple[int, int]]) -> bytes:
    """Return the mask for the whole key; the text between its lines stays, except newlines."""
    between = [data[a[1] : b[0]] for a, b in pairwise(pieces)]
    return _MASK if all(map(_LINE_ENDS.fullmatch, between)) else _MASK + b"".join(between)
