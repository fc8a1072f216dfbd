"""How the index writes ids and instants. Ids say something, so that no table must."""

from __future__ import annotations

from binascii import unhexlify
from datetime import UTC, datetime, timedelta
from typing import overload

OFFSET_BITS = 40
"""A record's id is its log's id and its offset: log << 40 | offset."""
SECOND_BITS = 8
"""A text's id is when it was said and a number: second << 8 | number."""
QUARTER_US = 900_000_000
"""A quarter of an hour: what was used is added up by these."""
UNDATED = -(1 << 40)
"""The quarter of what no record dates."""
LONG_CONTEXT = 200_000
"""Beyond so many tokens a request may have another price."""
BESIDE = "beside"
"""The layout of what lies beside the logs and is read like one."""

SUBAGENT = "coalesce((SELECT subagent FROM sidechains WHERE record = r.id), l.subagent)"
"""The subagent that wrote the record r of the log l, as SQL; null for the main one."""
ANSWERED_BY = (
    "coalesce(messages.subagent,"
    " (SELECT s.subagent FROM sidechains AS s WHERE s.record = messages.record))"
)
"""The subagent that a message answered, as SQL; null for the main one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_LENGTH = 36
_UUID_BYTES = 16


@overload
def microseconds(at: datetime) -> int: ...
@overload
def microseconds(at: datetime | None) -> int | None: ...
def microseconds(at: datetime | None) -> int | None:
    """Count the microseconds from 1970 to *at*."""
    if at is None:
        return None
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant_at(us: int | None) -> datetime | None:
    """Return the instant that ``microseconds`` counted."""
    return None if us is None else _EPOCH + timedelta(microseconds=us)


def short_uuid(text: str | None) -> bytes | str | None:
    """Give a UUID as its 16 bytes; whatever is none, or is not written the usual way, as it is."""
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
    """Write a UUID that ``short_uuid`` gave."""
    if not isinstance(value, bytes):
        return value
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
