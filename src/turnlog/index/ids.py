"""How the index stores ids, instants and names, and SQL that several queries share.

The SQL expects the aliases ``r`` for records, ``l`` for logs and ``c`` for calls.
"""

# ruff: noqa: S608 - Only our own names are written into SQL.

from __future__ import annotations

import sqlite3
from binascii import unhexlify
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, overload

import msgspec

OFFSET_BITS = 40
"""A record's id is its log's id and its offset: log << 40 | offset."""
SECOND_BITS = 8
"""A text's id is its time and a number: second << 8 | number."""
QUARTER_US = 900_000_000
"""Usage is summed by quarters of an hour."""
UNDATED = -(1 << 40)
"""The quarter of undated usage."""
LONG_CONTEXT = 200_000
"""A request with more tokens may have another price."""
BESIDE = "beside"
"""The layout of side files, which are indexed like logs."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_LENGTH = 36
_UUID_BYTES = 16


def json_array(values: Iterable[Any]) -> str:
    """Return *values* as SQLite's ``json_each`` takes them."""
    return msgspec.json.encode(list(values)).decode()


@overload
def microseconds(at: datetime) -> int: ...
@overload
def microseconds(at: datetime | None) -> int | None: ...
def microseconds(at: datetime | None) -> int | None:
    """Return the microseconds from 1970 to *at*."""
    if at is None:
        return None
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_at(us: int | None) -> datetime | None:
    """Return the instant of a number of microseconds since 1970."""
    return None if us is None else _EPOCH + timedelta(microseconds=us)


def short_uuid(text: str | None) -> bytes | str | None:
    """Return a UUID in the usual spelling as its 16 bytes, and any other text as it is."""
    if text is None or len(text) != _UUID_LENGTH:
        return text
    if text[8:24:5] != "----" or text != text.lower():
        return text
    try:
        packed = unhexlify(text.replace("-", ""))
    except ValueError:
        return text
    return packed if len(packed) == _UUID_BYTES else text


def long_uuid(value: bytes | str | None) -> str | None:
    """Return the text that ``short_uuid`` shortened."""
    if not isinstance(value, bytes):
        return value
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Names(dict[str | None, int | None]):
    """The ids of the names in one table, by name; a missing name is added to the table.

    None has the id None. Clear it when a transaction is rolled back, since its new names are gone.
    """

    def __init__(
        self, connection: sqlite3.Connection, table: str = "names", column: str = "name"
    ) -> None:
        super().__init__()
        self._db = connection
        self._select = f"SELECT id FROM {table} WHERE {column} = ?"
        self._insert = f"INSERT OR IGNORE INTO {table} ({column}) VALUES (?)"

    def __missing__(self, name: str | None) -> int | None:
        if name is None:
            self[None] = None
            return None
        # Not RETURNING: SQLite would use a savepoint, at which the full-text tables write out all
        # that they hold in memory.
        added = self._db.execute(self._insert, (name,))
        if added.rowcount:
            self[name] = added.lastrowid
        else:
            self[name] = self._db.execute(self._select, (name,)).fetchone()[0]
        return self[name]


def named(name: str) -> str:
    """Return SQL for the id of *name*."""
    return f"(SELECT id FROM names WHERE name = '{name}')"


SUBAGENT: Final = "coalesce((SELECT subagent FROM sidechains WHERE record = r.id), l.subagent)"
"""The subagent that wrote the record; null for the main one."""
ANSWERED_BY: Final = (
    "coalesce(messages.subagent,"
    " (SELECT s.subagent FROM sidechains AS s WHERE s.record = messages.record))"
)
"""The subagent that received a message; null for the main one."""
_BY_PERSON: Final = f"r.author IN ({named('human')}, {named('caller')})"
IS_PROMPT: Final = f"(r.type = {named('user')} AND {_BY_PERSON})"
"""True for records that are prompts."""
IS_BESIDE: Final = "(r.id >> 40) IN (SELECT id FROM logs WHERE layout = 'beside')"
"""True for records that are read from side files instead of logs."""
IS_FIRST: Final = "r.id NOT IN (SELECT record FROM repeats)"
"""True for records that are not copies made by a fork or a resume."""
IS_CALL: Final = f"""(r.type IS NOT {named("file-history")} AND {IS_FIRST} AND NOT EXISTS (
    SELECT 1 FROM calls AS other JOIN records AS its ON its.id = other.record
    WHERE other.call_id = c.call_id AND (other.record, other.block) < (c.record, c.block)
    AND other.record NOT IN (SELECT record FROM repeats)
    AND ((other.record >> 40 = c.record >> 40 AND its.session IS r.session)
         OR (its.message = r.message AND other.digest = c.digest))))"""
"""True for calls that count: each call counts once, however often it is written.

A call is identified by its id within its session and log. Copies made by a fork or a resume are not
counted again, even with new uuids: they belong to the same response and have the same input. A note
that a file changed names a file but is not a call.
"""
