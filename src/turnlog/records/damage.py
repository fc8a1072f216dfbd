"""Damage: bytes in a log that are not a record.

Damage is reported, not raised: reading continues after a bad line.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class Reason(StrEnum):
    """Why the bytes are not a record."""

    BLANK = "blank"
    FRAGMENT = "fragment"  # Part of a record: truncated, or left over by an overwrite.
    NUL_RUN = "nul-run"  # Power failure: the file grew before its data arrived.
    NOT_AN_OBJECT = "not-an-object"  # Valid JSON, but not a record.
    NOT_JSON = "not-json"
    TOO_LONG = "too-long"  # Longer than the line cap; never held in memory.
    BROKEN_ARCHIVE = "broken-archive"  # The compressed log is truncated or invalid.
    BROKEN_BLOB = "broken-blob"  # The line was moved to a blob that is missing or altered.


EXCERPT_BYTES = 100


class Damage(Struct, frozen=True, kw_only=True):
    """A range of bytes that is not a record.

    *line* counts from 1; 0 means unknown, as when a log is read from its end.
    """

    reason: Reason
    offset: int
    length: int
    line: int = 0
    detail: str = ""
    excerpt: bytes = b""

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.offset + self.length

    def moved(self, offset: int, line: int = 0) -> Damage:
        """Return the same damage with *offset* added to its position."""
        return replace(self, offset=self.offset + offset, line=line)


def damage_at(
    data: bytes, reason: Reason, *, offset: int = 0, line: int = 0, detail: str = ""
) -> Damage:
    """Return *data*, located at *offset*, as damage."""
    return Damage(
        reason=reason,
        offset=offset,
        length=len(data),
        line=line,
        detail=detail,
        excerpt=data[:EXCERPT_BYTES],
    )
