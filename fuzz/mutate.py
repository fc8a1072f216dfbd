"""How a good record is spoiled.

Flipped bytes seldom get past a JSON parser. These mutations keep most of the structure: a field
becomes something it should not be, a record is glued to another, cut, or written into another's
middle. Whatever they give, libFuzzer's own mutations go over it again in later rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from .seeds import lines

_load = msgspec.json.Decoder().decode
_dump = msgspec.json.Encoder().encode

_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 2**64, 10**30, 1e308, "", "x", "user", "\x00", "9999-99-99T99",
    "2026-03-01T12:34:56Z", 1703001600000, [], {}, [[]], [{}], {"type": "text"}, {"type": 5},
    [{"type": "text", "text": "t"}], [{"type": "text"}], ["s"], {"summary": "s"}, [None],
)  # fmt: skip
_RAW = (
    b"\x00", bytes(9), b"\xff", b"\xef\xbb\xbf", b"\r", b" ", b"\n", b"}{", b"}\n{", b"\\ud800",
    b"1" * 30, b"NaN", b"[" * 20, b'{"a":' * 9, b'"', b"\\", b"\xed\xa0\x80", b",", b"}", b"1e999",
)  # fmt: skip
_GOOD = tuple(lines())


def _spoil_field(data: bytes, rng: Random) -> bytes:
    """Replace, delete, rename or double a field somewhere inside."""
    try:
        root = _load(data)
    except (ValueError, RecursionError):
        return _insert_rubble(data, rng)
    holder: Any = None
    key: Any = None
    value = root
    while isinstance(value, dict | list) and value and (holder is None or rng.random() < 0.6):
        holder = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = holder[key]
    if holder is None:
        return _glue(data, rng)
    choice = rng.randrange(5)
    if choice == 0:
        del holder[key]
    elif choice == 1 and isinstance(holder, dict):
        other = _load(rng.choice(_GOOD))
        holder[rng.choice(list(other))] = holder.pop(key)
    elif choice == 2 and isinstance(holder, dict):
        holder |= _load(rng.choice(_GOOD))
    else:
        holder[key] = rng.choice(_VALUES)
    try:
        return _dump(root)
    except UnicodeEncodeError:
        return data


def _glue(data: bytes, rng: Random) -> bytes:
    other = rng.choice(_GOOD)
    between = rng.choice((b"", b"", b" ", b"\x00\x00", b","))
    return data + between + other if rng.random() < 0.5 else other + between + data


def _splice(data: bytes, rng: Random) -> bytes:
    """Write a record into the middle, sometimes over what stood there."""
    at = rng.randrange(len(data) + 1)
    behind = at if rng.random() < 0.5 else rng.randrange(at, len(data) + 1)
    return data[:at] + rng.choice(_GOOD) + data[behind:]


def _cut(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.7 else data[at:]


def _insert_rubble(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_RAW) + data[at:]


_WAYS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _spoil_field, _spoil_field, _spoil_field, _glue, _splice, _cut, _insert_rubble,
)  # fmt: skip


def spoil(data: bytes, rng: Random) -> bytes:
    """Give *data*, a line or a log, with one line of it spoiled."""
    if b"\n" not in data:
        return rng.choice(_WAYS)(data, rng)
    parts = data.split(b"\n")
    at = rng.randrange(len(parts))
    if rng.random() < 0.1:
        parts.insert(at, rng.choice((b"", b"\r", rng.choice(_GOOD))))
    else:
        parts[at] = rng.choice(_WAYS)(parts[at], rng)
    return b"\n".join(parts)


def mutator(fallback: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Give libFuzzer a mutator that spoils records, and leaves the rest to its own."""

    rng = Random()  # Inputs are what is kept and replayed; how they came about does not matter.

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        if seed % 3:
            return fallback(data, max_size)
        spoiled = spoil(data, rng)
        return spoiled if len(spoiled) <= max_size else spoiled[:max_size]

    return mutate
