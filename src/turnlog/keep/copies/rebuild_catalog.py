"""Copies that no catalogue knows: what they hold is found out by unpacking them.

A catalogue is lost, or behind: whoever was killed between putting a copy in its place and writing
that down leaves it so. What a copy cannot show, when its file was changed last, stays unknown.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path

from turnlog.errors import TurnlogError
from turnlog.formats.kept_copies import generation_copy, is_inner_name, kept_copy
from turnlog.keep.catalog import Catalogue, KeptFile
from turnlog.storage.compressed import Packed, packed_at


def adopted(path: Path, name: str, generation: int, conflict: int = 0) -> tuple[KeptFile, Packed]:
    """Find out what the copy at *path* of the file *name* holds; a BrokenCopy if it is damaged."""
    packed = packed_at(path)
    status = os.stat(path)
    kept = KeptFile(
        name=name,
        generation=generation,
        size_bytes=packed.size_bytes,
        mtime_ns=0,
        packed_bytes=status.st_size,
        digests=packed.digests,
        kept_at=datetime.fromtimestamp(status.st_mtime, UTC),
        conflict=conflict,
    )
    return kept, packed


def generation_in_place(catalogue: Catalogue, name: str) -> int:
    """Give the number of the copy that is in place, or comes there: the one after all earlier ones.

    Told by those that lie there too, since the catalogue may not know them.
    """
    known = catalogue.current.get(name)
    found = {each.generation for each in catalogue.older.get(name, ())}
    root = catalogue.root_of(name)
    paths = {number: generation_copy(root, number, name) for number in catalogue.numbers(root)}
    found |= {number for number, path in paths.items() if os.path.lexists(path)}
    newest = max(found, default=0)
    if newest in paths and _is_one_file(paths[newest], kept_copy(root, name)):
        return newest  # Somebody was killed when it had both its names.
    return max(newest + 1, known.generation if known is not None else 1)


def _is_one_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def adopt_all(catalogue: Catalogue, but: Container[str] = ()) -> bool:
    """List the copies that a catalogue does not know, *but* those of some files.

    Damaged ones stay where they are, unlisted: verifying tells of them. Tells whether there were
    any others.
    """
    has_adopted = False
    copies = [
        (copy, path)
        for copy, path in catalogue.copies()
        if is_inner_name(copy.name) and catalogue.known_name(copy, path) == copy.name
    ]
    for (conflict, number, name), path in copies:
        known = {each.generation for each in catalogue.generations(name)}
        if number is not None and number not in known:
            with contextlib.suppress(TurnlogError, OSError):
                kept, _ = adopted(path, name, number, conflict)
                older = catalogue.older.setdefault(name, [])
                older.append(kept)
                older.sort(key=lambda each: each.generation)
                has_adopted = True
    for (conflict, number, name), path in copies:
        if number is None and name not in catalogue.current and name not in but:
            with contextlib.suppress(TurnlogError, OSError):
                catalogue.claimed.setdefault(name, conflict)
                kept, _ = adopted(path, name, generation_in_place(catalogue, name), conflict)
                catalogue.current[name] = kept
                catalogue.spellings.add(conflict, name)
                older = catalogue.older.get(name, [])
                older[:] = [each for each in older if each.generation != kept.generation]
                has_adopted = True
    return has_adopted
