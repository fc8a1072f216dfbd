"""Detect logs that have lost records: emptied, truncated, or overwritten.

A log only grows, and rewrites (repair, compaction) keep every record. So a record that is in a kept
copy but not in the log is lost. Sizes and mtimes are compared first, then digests; records are read
only if a log does not begin with its copy. Earlier findings about generations are in the catalog
and not computed again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.formats import Home, LogFile
from turnlog.formats.kept_copies import kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.compaction.rules import SAID_BY
from turnlog.keep.copies.reader import Copy, describe_copy, file_begins_with
from turnlog.records.record import Progress, Record
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.sources import opened_regular


class Shortfall(Struct, frozen=True, kw_only=True):
    """A log that lacks records, and the generation of its copy to replace it with."""

    records: int
    generation: int


class Contents(Struct):
    """The contents of a log, as far as needed to compare it with another."""

    records: set[str | bytes]
    """Records that no rewrite removes."""
    states: set[str]
    """Types of records whose last one counts: titles, modes and the like."""
    everything: set[str | bytes]

    @classmethod
    def of(cls, items: Iterable[object]) -> Contents:
        """Return the contents of a log from a Reader's *items*."""
        found = cls(set(), set(), set())
        for item in items:
            if isinstance(item, Placed):
                record, name = item.record, identity(item.record)
                found.everything.add(name)
                if type(record) in SAID_BY:
                    found.states.add(record.type)
                elif not isinstance(record, Progress):  # Compaction drops echoes of subagents.
                    found.records.add(name)
        return found

    def missing_in(self, other: Contents) -> int:
        """Return how many of these records *other* does not have."""
        return len(self.records - other.everything) + len(self.states - other.states)


def identity(record: Record) -> str | bytes:
    """Return the identity of a record: its uuid, or a digest if it has none."""
    return uuid_of(record) or blake2b(record.raw, digest_size=16).digest()


def uuid_of(record: Record) -> str | None:
    """Return a record's uuid, or None."""
    uuid = getattr(record, "uuid", None)
    return uuid if isinstance(uuid, str) and uuid else None


class Shortfalls:
    """Compares logs with their kept copies. Each catalog is read once."""

    def __init__(self) -> None:
        self._catalogues: dict[str, Catalogue] = {}

    def of(self, log: LogFile, *, is_suspect: bool = False) -> Shortfall | None:
        """Return what *log* lacks; None if nothing, or if no copy of it can be read.

        A suspect is read even if its size and mtime are those of its copy.
        """
        if log.is_kept or log.compression is not None:
            return None
        name = Path(os.path.relpath(log.path, log.home)).as_posix()
        return self.in_home(log.home, name, is_suspect=is_suspect)

    def in_home(self, home: Home, name: str, *, is_suspect: bool = False) -> Shortfall | None:
        """Return what the log called *name* in *home* lacks, like `of`."""
        where = os.fspath(home)
        if where not in self._catalogues:
            self._catalogues[where] = Catalogue.load(kept_place(where))
        catalogue, path = self._catalogues[where], Path(where, *name.split("/"))
        try:
            if self._is_whole(path, catalogue, name, is_suspect=is_suspect):
                return None
            return _shortfall(path, catalogue, name)
        except (TurnlogError, OSError):
            return None  # Reported when the log is read or the copy verified.

    @staticmethod
    def _is_whole(path: Path, catalogue: Catalogue, name: str, *, is_suspect: bool) -> bool:
        """Return whether nothing can be missing, without reading records."""
        newest = catalogue.current.get(name)
        if newest is None:
            return name not in catalogue.older
        if newest.is_injured or (name in catalogue.older and not newest.is_whole):
            return False
        status = os.stat(path)
        if status.st_size < newest.size_bytes:
            return False
        stamp = status.st_size, status.st_mtime_ns
        if stamp == (newest.size_bytes, newest.mtime_ns) and not is_suspect:
            return True
        with opened_regular(path) as fd:
            return file_begins_with(fd, newest)


def _shortfall(path: Path, catalogue: Catalogue, name: str) -> Shortfall | None:
    with Reader(path) as reader:
        found = Contents.of(reader)
    copies = copies_of(catalogue, name)
    held = {copy.generation: contents for copy in copies if (contents := _contents(copy))}
    missing: set[str | bytes] = set()
    for contents in held.values():
        missing |= contents.records - found.everything
        missing |= contents.states - found.states
    if not missing:
        return None
    best = fullest(copies, held.get)
    return Shortfall(records=len(missing), generation=best.generation)


def copies_of(catalogue: Catalogue, name: str) -> list[Copy]:
    """Return the undamaged copies of a log in the catalog, oldest first."""
    return [
        Copy(name=name, generation=each.generation, path=catalogue.copy_of(each), known=each)
        for each in catalogue.generations(name)
        if not each.is_injured
    ]


def _contents(copy: Copy) -> Contents | None:
    """Return the contents of a copy of a log; None if it cannot be read."""
    with contextlib.suppress(TurnlogError, OSError):
        describe_copy(copy)  # Raises for a decompression bomb.
        with Reader(copy.path) as reader:
            return Contents.of(reader)
    return None


def fullest(copies: list[Copy], contents: Callable[[int], Contents | None] | None = None) -> Copy:
    """Return the newest of a log's *copies* that lacks no record of an earlier one.

    *contents* returns the contents of a generation's copy, if the caller has read it.
    """
    copies = [each for each in copies if each.known is None or not each.known.is_injured] or copies
    newest = copies[-1]
    if len(copies) == 1 or (newest.known is not None and newest.known.is_whole):
        return newest
    by_number = {copy.generation: copy for copy in copies}
    read = contents or (lambda number: _contents(by_number[number]))
    held = [(copy, found) for copy in copies if (found := read(copy.generation))]
    for place in range(len(held) - 1, 0, -1):
        copy, found = held[place]
        if not any(earlier.missing_in(found) for _, earlier in held[:place]):
            return copy
    return held[0][0] if held else newest


def has_every_record(catalogue: Catalogue, name: str) -> bool | None:
    """Return whether the newest copy of a log has every record of the earlier ones, if known."""
    *earlier, newest = map(_contents, copies_of(catalogue, name))
    if newest is None or None in earlier:
        return None
    return not any(each.missing_in(newest) for each in earlier if each is not None)


def carried_over(items: Iterable[object], copy: Contents) -> list[Record]:
    """Return the records that were appended to an injured log after its injury.

    They follow the last record that is also in the *copy*. *items* are a Reader's, of the injured
    log.
    """
    found: list[Record] = []
    is_new = False
    for item in items:
        if not isinstance(item, Placed):
            continue
        name = identity(item.record)
        is_known = name in copy.everything
        if is_known and isinstance(name, str):
            found, is_new = [], False  # What came before was there when the copy was made.
        elif is_new or not is_known:
            is_new = True
            found.append(item.record)
    return found
