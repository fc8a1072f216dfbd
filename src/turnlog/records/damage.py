"""Bytes in a log that are not a record, described.

Damage is a value, never an exception: a bad line is reported and the reading goes on.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class Reason(StrEnum):
    """Why the bytes are not a record."""

    BLANK = "blank"
    FRAGMENT = "fragment"  # Part of a record: cut short, or what a splice left over.
    NUL_RUN = "nul-run"  # A power cut: the file grew before its data arrived.
    NOT_AN_OBJECT = "not-an-object"  # Valid JSON, but not a record.
    NOT_JSON = "not-json"
    TOO_LONG = "too-long"  # Longer than the line cap; never held in memory.
    BROKEN_ARCHIVE = "broken-archive"  # The compressed log ends early or does not unpack.
    BROKEN_BLOB = "broken-blob"  # The line was moved to a blob, and that is missing or altered.


EXCERPT_BYTES = 100


class Damage(Struct, frozen=True, kw_only=True):
    """A range of bytes that holds no record.

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
        """The offset behind it."""
        return self.offset + self.length

    def moved(self, offset: int, line: int = 0) -> Damage:
        """Return the same damage as it stands in a log, *offset* bytes further on."""
        return replace(self, offset=self.offset + offset, line=line)


def damage_at(
    data: bytes, reason: Reason, *, offset: int = 0, line: int = 0, detail: str = ""
) -> Damage:
    """Describe *data*, which stands at *offset*, as damage."""
    return Damage(
        reason=reason,
        offset=offset,
        length=len(data),
        line=line,
        detail=detail,
        excerpt=data[:EXCERPT_BYTES],
    )
