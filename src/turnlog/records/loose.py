"""JSON read with every allowance that loses nothing.

The fast decoder refuses lines that are records all the same: a lone surrogate, a BOM, an integer
of five thousand digits, ten thousand nested brackets, one byte that is not UTF-8. Each allowance
taken is named, so that it can be reported. No UTF-16 guessing, no NUL bytes: those are damage.

Some of these lines Claude Code itself cannot read: JSON.parse refuses a BOM, raw control characters
in strings, NaN and Infinity. ``to_strict`` finds and removes these.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:  # What few lines need is imported for the first of them.
    from json import JSONDecoder

    from turnlog.records.shallow import Walk

BOM: Final = b"\xef\xbb\xbf"
NOT_UTF8: Final = "(not UTF-8)"
TOO_DEEP: Final = "(nested too deep)"

_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_STRING_OR_NUMBER: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?Infinity|NaN', re.DOTALL)

_decode = msgspec.json.Decoder().decode


class NotJson(ValueError):
    """The bytes are no JSON value, with every allowance made."""

    walk: Walk | None = None
    """How far a walk over the object got, if there was one."""


def loads(line: bytes) -> Any:
    """Read one JSON value from *line*; raise NotJson if there is none."""
    return loads_noting(line)[0]


def loads_noting(line: bytes) -> tuple[Any, tuple[str, ...]]:
    """Read one JSON value and the allowances it took."""
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


def to_strict(line: bytes) -> tuple[bytes, list[str]]:
    """Return the record in *line* as JSON.parse reads it, and what JSON.parse refuses in *line*.

    Bytes that are not UTF-8 stay: Node decodes each to U+FFFD and goes on.
    """
    body = line.removeprefix(BOM)
    refused = ["a byte order mark"] if len(body) < len(line) else []
    if not (_CONTROL.search(body) or b"NaN" in body or b"Infinity" in body):
        return body, refused
    found: set[str] = set()

    def mend(token: re.Match[bytes]) -> bytes:
        if token[0][:1] != b'"':
            found.add("NaN or Infinity")
            return b"null"  # As JSON.stringify writes them.
        if _CONTROL.search(token[0]):
            found.add("a control character in a string")
            return _CONTROL.sub(lambda each: b"\\u%04x" % each[0][0], token[0])
        return token[0]

    body = _STRING_OR_NUMBER.sub(mend, body)
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
    except ValueError:  # Beyond the interpreter's digit limit; the raw bytes keep it exact.
        return float(digits)


@cache
def _loose_decoder() -> JSONDecoder:
    from json import JSONDecoder  # noqa: PLC0415

    # strict=False: a raw tab or escape character inside a string is sloppy, not damage.
    return JSONDecoder(strict=False, parse_int=_integer)


def _loads_shallow(line: bytes) -> dict[str, Any]:
    """Read what can be read of an object too deep for any decoder: its shallow members."""
    from turnlog.records.shallow import walk_object  # noqa: PLC0415

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
