"""What a dialect has no place for, kept in its lines all the same.

A line of another dialect than Claude Code's may carry one key that is turnlog's own:

    "turnlog": {"message": {"stop_sequence": null}, "record": {"content": "…"}}

``message`` holds fields of the message, and ``record`` those beside it, that the rest of the line
would not give back when it is read: the dialect has no name for them, or the name means something
else there. Other programs pass over it. It is written only where something would be lost without.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple

KEY: Final = "turnlog"
_PARTS: Final = frozenset({"message", "record"})

Fields = dict[str, Any]


class Ways(NamedTuple):
    """How a dialect tells its lines, and how it reads them."""

    recognises: Callable[[Fields], bool]
    to_house: Callable[[Fields], Fields]


def join(line: Fields, others: Fields, house: Fields, taken: Container[str], ways: Ways) -> Fields:
    """Put *others* beside what *line* says, so that reading it gives all of *house* back.

    Names that are *taken* mean something in this dialect. If one of the others bears such a name
    and would be misread, it is put aside.
    """
    whole = line | {key: value for key, value in others.items() if key not in line}
    if ways.recognises(whole) and not _lost(house, ways.to_house(whole)):
        return whole
    free = {key: value for key, value in others.items() if key not in taken and key != KEY}
    bare = line | {key: value for key, value in free.items() if key not in line}
    lost = _lost(house, ways.to_house(bare))
    return bare | {KEY: lost} if lost else bare


def exactly(line: Fields, house: Fields, to_house: Callable[[Fields], Fields]) -> Fields:
    """Put aside in *line*, which was made from *house*, whatever reading it still gives otherwise.

    For conversions: ``from_house`` alone lets a text become a block of text.
    """
    bare, aside = split_leftovers(line)
    if not _lost(house, to_house(line)):
        return line
    bare = {key: value for key, value in bare.items() if key != KEY}
    lost = _lost(house, to_house(bare))
    return bare | {KEY: {part: aside.get(part, {}) | lost.get(part, {}) for part in aside | lost}}


def split_leftovers(fields: Fields) -> tuple[Fields, Fields]:
    """Part a line from what was put aside in it."""
    aside = fields.get(KEY)
    if not isinstance(aside, dict) or not aside or not aside.keys() <= _PARTS:
        return fields, {}
    if not all(isinstance(part, dict) for part in aside.values()):
        return fields, {}
    if "type" in aside.get("record", ()):  # Nothing of ours: a record's type is never put aside.
        return fields, {}
    return {key: value for key, value in fields.items() if key != KEY}, aside


def add_leftovers(house: Fields, aside: Fields) -> Fields:
    """Add to *house* what was put aside."""
    if not aside:
        return house
    whole: Fields = house | aside.get("record", {})
    if "message" in aside:
        message = whole.get("message")
        whole["message"] = (message if isinstance(message, dict) else {}) | aside["message"]
    return whole


def _lost(house: Fields, back: Fields) -> Fields:
    """Return what *house* says and *back* does not. A call's type is a matter of dialect."""
    record = _missing(house, back)
    record.pop("type", None)
    said, again = record.get("message"), back.get("message")
    message: Fields = {}
    if isinstance(said, dict) and isinstance(again, dict):
        message = _missing(record.pop("message"), again)
    parts = {"message": message, "record": record}
    return {name: part for name, part in parts.items() if part}


def _missing(wanted: Fields, there: Fields) -> Fields:
    found = {key for key, value in wanted.items() if key in there and same(value, there[key])}
    return {key: value for key, value in wanted.items() if key not in found}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON; to Python, 1 and true are equal."""
    return one is other or (type(one) is type(other) and bool(one == other))
