"""Rebuild catalog entries of unlisted copies by decompressing them.

A catalog may be lost, or outdated by a kill between committing a copy and recording it. The mtime
of the source stays unknown.
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
    """Return the entry for the copy at *path* of the file *name*; raise BrokenCopy if damaged."""
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
    """Return the generation number of the current or next copy: one after all earlier ones.

    Copies on disk count too, since the catalog may not list them.
    """
    known = catalogue.current.get(name)
    found = {each.generation for each in catalogue.older.get(name, ())}
    root = catalogue.root_of(name)
    paths = {number: generation_copy(root, number, name) for number in catalogue.numbers(root)}
    found |= {number for number, path in paths.items() if os.path.lexists(path)}
    newest = max(found, default=0)
    if newest in paths and _is_one_file(paths[newest], kept_copy(root, name)):
        return newest  # A kill left it with both its names.
    return max(newest + 1, known.generation if known is not None else 1)


def _is_one_file(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def adopt_all(catalogue: Catalogue, but: Container[str] = ()) -> bool:
    """Add entries for unlisted copies, *but* not those of some files.

    Damaged ones stay unlisted, and ``verify`` reports them. Returns whether any were added.
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
