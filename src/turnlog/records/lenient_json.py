"""Lenient JSON: read what strict decoders reject, without recursion and without losing data.

``walk_object`` finds where an object ends and the spans of its top-level members. It uses an
explicit stack, so depth costs memory only, and a token budget, so hostile input takes bounded time.

``loads`` reads lines that the fast decoder rejects: a lone surrogate, a BOM, an integer of five
thousand digits, ten thousand nested brackets, invalid UTF-8. Each tolerance used is named, so that
it can be reported. UTF-16 and NUL bytes are damage. ``to_strict`` finds and fixes what JSON.parse,
and so Claude Code, rejects: a BOM, raw control characters, NaN and Infinity.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from json import JSONDecoder


# Possessive quantifiers keep the matcher from storing backtracking state per character.
_TOKEN = re.compile(
    rb"[ \t\r\n]*+(?:"
    rb'("[^"\\\x00]*+(?:\\.[^"\\\x00]*+)*+")'  # 1: a string
    rb"|([{}\[\]:,])"  # 2: punctuation
    rb"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?(?![0-9A-Za-z.])"
    rb"|true|false|null|NaN|-?Infinity)"  # 3: a scalar; Python writes the last two
    rb")",
    re.DOTALL,
)
_CUT_NUMBER = re.compile(rb"[ \t\r\n]*+-?[0-9]*+(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]*+)?")
_BUDGET: Final = 2_000_000
_CLOSER: Final = {0x7B: 0x7D, 0x5B: 0x5D}

# What may come next.
_VALUE, _FIRST_KEY, _KEY, _COLON, _AFTER, _FIRST_ITEM = range(6)


class ObjectScan(Struct, frozen=True):
    """The result of a walk.

    *end* is where the object ended if it is *whole*, else where the grammar broke. *members* are
    the spans of its top-level keys and values. *ran_out* means the bytes ended too early, *gave_up*
    that the budget was used up.
    """

    end: int
    whole: bool
    members: tuple[tuple[int, int, int, int], ...]
    ran_out: bool = False
    gave_up: bool = False


def walk_object(data: bytes, start: int = 0) -> ObjectScan:
    """Walk the object whose brace is the first token at or after *start*."""
    members: list[tuple[int, int, int, int]] = []
    stack = bytearray()
    state = _VALUE
    key = (0, 0)
    value_start = 0
    position = start
    match_token = _TOKEN.match
    for _ in range(_BUDGET):
        token = match_token(data, position)
        if token is None:
            return ObjectScan(position, False, tuple(members), ran_out=_ran_out(data, position))
        kind = token.lastindex
        first, last = token.span(kind or 0)
        byte = data[first]
        if not stack and byte != 0x7B:
            return ObjectScan(first, False, ())
        if kind == 2 and byte in b"}]":
            expected = _AFTER if state == _AFTER else (_FIRST_KEY if byte == 0x7D else _FIRST_ITEM)
            if state != expected or stack[-1] != byte:
                return ObjectScan(first, False, tuple(members))
            stack.pop()
            if not stack:
                return ObjectScan(last, True, tuple(members))
            state = _AFTER
        elif kind == 2 and byte in b"{[":
            if state not in (_VALUE, _FIRST_ITEM):
                return ObjectScan(first, False, tuple(members))
            if len(stack) == 1:
                value_start = first
            stack.append(_CLOSER[byte])
            state = _FIRST_KEY if byte == 0x7B else _FIRST_ITEM
        elif kind == 2 and byte == 0x3A:
            if state != _COLON:
                return ObjectScan(first, False, tuple(members))
            state = _VALUE
        elif kind == 2:
            if state != _AFTER:
                return ObjectScan(first, False, tuple(members))
            state = _KEY if stack[-1] == 0x7D else _VALUE
        elif state in (_FIRST_KEY, _KEY):
            if kind != 1:
                return ObjectScan(first, False, tuple(members))
            if len(stack) == 1:
                key = (first, last)
            state = _COLON
        elif state in (_VALUE, _FIRST_ITEM):
            if len(stack) == 1:
                value_start = first
            state = _AFTER
        else:
            return ObjectScan(first, False, tuple(members))
        if state == _AFTER and len(stack) == 1 and stack[0] == 0x7D:
            members.append((*key, value_start, last))
        position = last
    return ObjectScan(position, False, tuple(members), gave_up=True)


def _ran_out(data: bytes, position: int) -> bool:
    """Return whether the bytes merely end early rather than break the grammar."""
    rest = data[position : position + 64].lstrip(b" \t\r\n")
    if not rest:
        return True
    if rest[0] == 0x22:  # An unterminated string.
        return data.find(b"\x00", position) < 0
    if _CUT_NUMBER.fullmatch(data, position):
        return True
    return any(word.startswith(rest) for word in (b"true", b"false", b"null"))


BOM: Final = b"\xef\xbb\xbf"
NOT_UTF8: Final = "(not UTF-8)"
TOO_DEEP: Final = "(nested too deep)"

_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_STRING_OR_NUMBER: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?Infinity|NaN', re.DOTALL)

_decode = msgspec.json.Decoder().decode


class NotJson(ValueError):
    """The bytes are not a JSON value, even leniently."""

    walk: ObjectScan | None = None
    """The result of a walk over the object, if there was one."""


def loads(line: bytes) -> Any:
    """Parse one JSON value from *line*; raise NotJson if there is none."""
    return loads_noting(line)[0]


def loads_noting(line: bytes) -> tuple[Any, tuple[str, ...]]:
    """Parse one JSON value; return it and the tolerances used."""
    try:
        return _decode(line), ()
    except (ValueError, RecursionError):
        pass
    if b"\x00" in line:
        raise NotJson("contains NUL bytes")
    text, noted = _text(line)
    try:
        return _loose_decoder().decode(text.strip(" \t\r\n")), noted
    except RecursionError:
        return _loads_shallow(line), (*noted, TOO_DEEP)
    except ValueError as error:
        raise NotJson(str(error)) from None


def loads_finite(text: str) -> Any:
    """Parse a JSON value; raise ValueError for NaN, Infinity and 1e999.

    Raw control characters inside strings are allowed.
    """
    return _finite_decoder().decode(text)


def to_strict(line: bytes) -> tuple[bytes, list[str]]:
    """Return the record in *line* as strict JSON, and what JSON.parse rejects in *line*.

    Invalid UTF-8 stays: Node decodes each such byte to U+FFFD.
    """
    body = line.removeprefix(BOM)
    refused = ["a byte order mark"] if len(body) < len(line) else []
    if not (_CONTROL.search(body) or b"NaN" in body or b"Infinity" in body):
        return body, refused
    found: set[str] = set()

    def fix(token: re.Match[bytes]) -> bytes:
        if token[0][:1] != b'"':
            found.add("NaN or Infinity")
            return b"null"  # As JSON.stringify writes them.
        if _CONTROL.search(token[0]):
            found.add("a control character in a string")
            return _CONTROL.sub(lambda control: b"\\u%04x" % control[0][0], token[0])
        return token[0]

    body = _STRING_OR_NUMBER.sub(fix, body)
    return body, refused + sorted(found)


def _text(line: bytes) -> tuple[str, tuple[str, ...]]:
    body = line.removeprefix(BOM)
    try:
        return body.decode("utf-8"), ()
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace"), (NOT_UTF8,)


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # Over the interpreter's digit limit; the raw bytes keep it exact.
        return float(digits)


@cache
def _loose_decoder() -> JSONDecoder:
    from json import JSONDecoder  # noqa: PLC0415

    # strict=False: a raw tab or escape character in a string is invalid JSON, but not damage.
    return JSONDecoder(strict=False, parse_int=_integer)


@cache
def _finite_decoder() -> JSONDecoder:
    from json import JSONDecoder  # noqa: PLC0415

    return JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(number)
    return value


def _loads_shallow(line: bytes) -> dict[str, Any]:
    """Return the shallow members of an object that is too deep for any decoder."""
    body = line.removeprefix(BOM)
    walk = walk_object(body)
    if not walk.whole or body[walk.end :].strip():
        error = NotJson("nested too deep, and not a whole object")
        error.walk = walk
        raise error
    found: dict[str, Any] = {}
    decode = _loose_decoder().decode
    for key_start, key_end, value_start, value_end in walk.members:
        try:
            key = decode(_text(body[key_start:key_end])[0])
            found[key] = decode(_text(body[value_start:value_end])[0])
        except (ValueError, RecursionError):
            continue
    return found
