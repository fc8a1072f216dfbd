"""What sessions were named, as the index remembers it: for lists that read only the ends of logs.

The index is read as it is, whatever its age, and never made for this: where there is none, nothing
is remembered.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from turnlog.index.freshness import path_of_index
from turnlog.sessions.metadata import NamedTitle
from turnlog.storage.sources import ENDS_BYTES

if TYPE_CHECKING:
    import sqlite3

    from turnlog.formats import Home


class StoredTitles:
    """The names of sessions in *homes*; to be asked for, to be closed then."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = homes
        self._db: sqlite3.Connection | None = None
        self._is_there = os.path.isfile(path_of_index([os.fspath(home) for home in homes]))

    def named(self, path: str | os.PathLike[str]) -> NamedTitle | None:
        """Return the names in the log at *path*; None if no more of it was read than its beginning.

        The list reads that itself.
        """
        if not self._is_there:
            return None
        import sqlite3  # noqa: PLC0415 - Most logs are short, and nothing is asked of them.

        try:
            row = self._asked(os.fspath(path))
        except sqlite3.Error:
            self._is_there = False  # The next refresh will see to it.
            return None
        if row is None or row[1] is None:
            return None
        try:
            known = _unpack(row[1]).sessions.get(row[0])
        except msgspec.DecodeError:
            return None
        return known.summary if known is not None else None

    def _asked(self, path: str) -> tuple[str, bytes | None] | None:
        if self._db is None:
            from turnlog.index.database import open_for_reading  # noqa: PLC0415

            self._db = open_for_reading(self._homes)
            if self._db is None:
                self._is_there = False
                return None
        found: tuple[str, bytes | None] | None = self._db.execute(_ASKED, (path,)).fetchone()
        return found

    def close(self) -> None:
        """Let go of the index."""
        if self._db is not None:
            self._db.close()


_ASKED = (
    "SELECT session, coalesce(tail_folded, folded) FROM logs"  # noqa: S608 - Ours.
    f" WHERE path = ? AND kind = 'session' AND text_offset >= {ENDS_BYTES}"
)


# Of all that is folded of a log, only this is unpacked.
class _StoredSummary(Struct):
    summary: NamedTitle = field(default_factory=NamedTitle)


class _Folded(Struct, array_like=True):
    sessions: dict[str, _StoredSummary] = field(default_factory=dict)


_unpack = msgspec.msgpack.Decoder(_Folded).decode
