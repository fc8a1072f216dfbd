"""Conditions of a search as SQL has them, with the values that are bound to them."""

# ruff: noqa: S608 - Only our own names are written into SQL; what was asked is bound.

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any as Anything
from typing import Final, NamedTuple

_FEW_IDS: Final = 200


class Condition(NamedTuple):
    sql: str
    values: tuple[Anything, ...] = ()


ALWAYS: Final = Condition("1")
NEVER: Final = Condition("0")
IS_GONE: Final = "(l.gone_at IS NOT NULL OR l.packed_bytes IS NOT NULL)"
"""Tells of a log l whether it is gone at its source: a kept copy, which is packed, may be read."""
WAS_TAKEN: Final = (
    "(r.type = (SELECT id FROM names WHERE name = 'queue-operation') AND EXISTS"
    " (SELECT 1 FROM records AS later WHERE later.id > r.id"
    " AND later.id < ((r.id >> 40) + 1) << 40 AND later.session IS r.session"
    " AND later.type = (SELECT id FROM names WHERE name = 'user')"
    " AND later.author IN (SELECT id FROM names WHERE name IN ('human', 'caller'))))"
)
"""Tells of a record r whether it notes a prompt in the queue, and a prompt follows in its session:
that says the same. A prompt that was never taken stands in its note alone."""
OPPOSITES: Final = {ALWAYS: NEVER, NEVER: ALWAYS}


def surely(condition: Condition) -> Condition:
    """Make *condition* true or false: a column without a value makes a comparison neither."""
    if condition in OPPOSITES:
        return condition
    return Condition(f"(({condition.sql}) IS TRUE)", condition.values)


def both(parts: list[Condition]) -> Condition:
    if NEVER in parts:
        return NEVER
    return _linked([each for each in parts if each != ALWAYS], " AND ") or ALWAYS


def either(parts: list[Condition]) -> Condition:
    if ALWAYS in parts:
        return ALWAYS
    return _linked([each for each in parts if each != NEVER], " OR ") or NEVER


def one_of(column: str, ids: Iterable[int]) -> Condition:
    ids = list(ids)
    if len(ids) <= _FEW_IDS:
        return Condition(f"{column} IN ({', '.join(map(str, ids))})")
    return Condition(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(ids),))


def _linked(parts: list[Condition], word: str) -> Condition | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    values = tuple(value for each in parts for value in each.values)
    return Condition(f"({word.join(each.sql for each in parts)})", values)
