"""What a dialect is, and fields that it has no place for, kept in its lines under one key.

    "turnlog": {"message": {"stop_sequence": null}, "record": {"content": "…"}}

``message`` holds fields of the message and ``record`` those of the record that the rest of the line
would lose: the dialect has no name for them, or the name has another meaning there. Other programs
ignore the key. It is written only where something would be lost without it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple, Protocol

KEY: Final = "turnlog"
_PARTS: Final = frozenset({"message", "record"})

Fields = dict[str, Any]


class UsageConverter(Protocol):
    """Reads the usage of a log in which a line does not say everything about a response."""

    def take(self, fields: Fields, /) -> Fields | None:
        """Return the response whose usage is in the next line, in Claude Code's shape, or None."""


class Dialect(NamedTuple):
    """How a program writes records, and how its lines convert to Claude Code's shape and back."""

    name: str
    recognises: Callable[[Fields], bool]
    to_house: Callable[[Fields], Fields]
    from_house: Callable[[Fields], Fields]
    usage_marks: tuple[bytes, ...] = (b'"usage"', b'"inputTokens"', b'"outputTokens"')
    """Bytes of which every line that its usage is read from has at least one."""
    usage: Callable[[], UsageConverter] | None = None
    """If the usage of a response is in several lines: returns the converter of one log."""


def join(
    line: Fields, others: Fields, house: Fields, taken: Container[str], dialect: Dialect
) -> Fields:
    """Add *others* to *line*, so that reading it returns all of *house*.

    *taken* names have a meaning in this dialect. A field with such a name that would be misread is
    stored under the leftovers key.
    """
    whole = line | {key: value for key, value in others.items() if key not in line}
    if dialect.recognises(whole) and not _lost(house, dialect.to_house(whole)):
        return whole
    free = {key: value for key, value in others.items() if key not in taken and key != KEY}
    bare = line | {key: value for key, value in free.items() if key not in line}
    lost = _lost(house, dialect.to_house(bare))
    return bare | {KEY: lost} if lost else bare


def split_leftovers(fields: Fields) -> tuple[Fields, Fields]:
    """Split a line into its own fields and the leftovers."""
    aside = fields.get(KEY)
    if not isinstance(aside, dict) or not aside or not aside.keys() <= _PARTS:
        return fields, {}
    if not all(isinstance(part, dict) for part in aside.values()):
        return fields, {}
    if "type" in aside.get("record", ()):  # Not ours: a record's type is never a leftover.
        return fields, {}
    return {key: value for key, value in fields.items() if key != KEY}, aside


def add_leftovers(house: Fields, aside: Fields) -> Fields:
    """Add the leftovers to *house*."""
    if not aside:
        return house
    whole: Fields = house | aside.get("record", {})
    if "message" in aside:
        message = whole.get("message")
        whole["message"] = (message if isinstance(message, dict) else {}) | aside["message"]
    return whole


def _lost(house: Fields, back: Fields) -> Fields:
    """Return what is in *house* and not in *back*. A call's type may differ by dialect."""
    record = _missing(house, back)
    record.pop("type", None)
    message: Fields = {}
    if isinstance(record.get("message"), dict) and isinstance(back.get("message"), dict):
        message = _missing(record.pop("message"), back["message"])
    parts = {"message": message, "record": record}
    return {name: part for name, part in parts.items() if part}


def _missing(wanted: Fields, there: Fields) -> Fields:
    return {
        key: value
        for key, value in wanted.items()
        if key not in there or not same(value, there[key])
    }


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON; in Python, 1 equals True."""
    return one is other or (type(one) is type(other) and bool(one == other))
