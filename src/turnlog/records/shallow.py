"""A JSON walker that never recurses and never raises.

Decoders give up on deep nesting and on broken lines. This one needs two things only: where does
the object that begins here end, and which members has it at its top. It walks tokens with an
explicit stack, so depth costs memory, not the interpreter's stack, and it stops after a budget of
tokens so that hostile bytes cost bounded time.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

# Possessive quantifiers keep the matcher from storing a way back for every character.
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


class Walk(Struct, frozen=True):
    """How far the walk got.

    *end* is where the object ended if it is *whole*, else where the grammar broke. *members* are
    the spans of its top-level keys and values; *ran_out* tells that the bytes ended too early,
    *gave_up* that the budget did.
    """

    end: int
    whole: bool
    members: tuple[tuple[int, int, int, int], ...]
    ran_out: bool = False
    gave_up: bool = False


def walk_object(data: bytes, start: int = 0) -> Walk:
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
            rest = data[position : position + 64].lstrip(b" \t\r\n")
            return Walk(position, False, tuple(members), ran_out=_ran_out(data, position, rest))
        kind = token.lastindex
        first, last = token.span(kind or 0)
        byte = data[first]
        if not stack and byte != 0x7B:
            return Walk(first, False, ())
        if kind == 2 and byte in b"}]":
            expected = _AFTER if state == _AFTER else (_FIRST_KEY if byte == 0x7D else _FIRST_ITEM)
            if state != expected or stack[-1] != byte:
                return Walk(first, False, tuple(members))
            stack.pop()
            if not stack:
                return Walk(last, True, tuple(members))
            state = _AFTER
        elif kind == 2 and byte in b"{[":
            if state not in (_VALUE, _FIRST_ITEM):
                return Walk(first, False, tuple(members))
            if len(stack) == 1:
                value_start = first
            stack.append(_CLOSER[byte])
            state = _FIRST_KEY if byte == 0x7B else _FIRST_ITEM
        elif kind == 2 and byte == 0x3A:
            if state != _COLON:
                return Walk(first, False, tuple(members))
            state = _VALUE
        elif kind == 2:
            if state != _AFTER:
                return Walk(first, False, tuple(members))
            state = _KEY if stack[-1] == 0x7D else _VALUE
        elif state in (_FIRST_KEY, _KEY):
            if kind != 1:
                return Walk(first, False, tuple(members))
            if len(stack) == 1:
                key = (first, last)
            state = _COLON
        elif state in (_VALUE, _FIRST_ITEM):
            if len(stack) == 1:
                value_start = first
            state = _AFTER
        else:
            return Walk(first, False, tuple(members))
        if state == _AFTER and len(stack) == 1 and stack[0] == 0x7D:
            members.append((*key, value_start, last))
        position = last
    return Walk(position, False, tuple(members), gave_up=True)


def _ran_out(data: bytes, position: int, rest: bytes) -> bool:
    """Tell bytes that merely end early from bytes that break the grammar."""
    if not rest:
        return True
    if rest[0] == 0x22:  # A string that no quote closes.
        return data.find(b"\x00", position) < 0
    if _CUT_NUMBER.fullmatch(data, position):
        return True
    return any(word.startswith(rest) for word in (b"true", b"false", b"null"))
