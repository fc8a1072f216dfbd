"""Update the catalog of kept copies and a flat store's registry after deletions and restores.

Both could be rebuilt from disk, but that means reading everything. All of these functions may be
called twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from turnlog.formats import flat_index
from turnlog.formats.flat.registry import forget, known_meta, update_registry
from turnlog.formats.kept_copies import copy_root, generation_copy, kept_copy
from turnlog.formats.walk import is_gone
from turnlog.keep.catalog import Catalogue, KeptFile
from turnlog.keep.copies.keep import LOCK_TIMEOUT, turn


def catalogued(place: Path, names: Iterable[str]) -> list[KeptFile]:
    """Return the entries of these files in the catalog of the mirror at *place*."""
    catalogue = Catalogue.load(place)
    return [kept for name in sorted(names) for kept in catalogue.generations(name)]


def forget_kept(place: Path, names: Iterable[str]) -> None:
    """Remove entries of deleted copies from the catalog, while the mirror is locked."""
    catalogue = Catalogue.load(place)
    if not catalogue.is_sound:
        return
    is_changed = False
    for name in names:
        if name in catalogue.current and is_gone(catalogue.copy_of(catalogue.current[name])):
            del catalogue.current[name]
            is_changed = True
        older = catalogue.older.pop(name, [])
        left = [each for each in older if not is_gone(catalogue.copy_of(each))]
        if left:
            catalogue.older[name] = left
        is_changed = is_changed or len(left) < len(older)
    if is_changed:
        catalogue.save()


def remember_kept(place: Path, known: Sequence[KeptFile]) -> None:
    """Add entries of restored copies to the catalog again."""
    if not known or not place.is_dir():
        return
    with turn(place, LOCK_TIMEOUT):
        catalogue = Catalogue.load(place)
        if not catalogue.is_sound:
            return
        for kept in known:
            newest = max(each.generation for each in known if each.name == kept.name)
            root = copy_root(place, kept.conflict)
            if kept.generation == newest:
                if kept_copy(root, kept.name).exists():  # Otherwise it was deleted again.
                    catalogue.current.setdefault(kept.name, kept)
            elif generation_copy(root, kept.generation, kept.name).exists():
                older = catalogue.older.setdefault(kept.name, [])
                older += [kept] if kept not in older else []
        catalogue.save()


def note_injured(place: Path, whole: Mapping[str, int]) -> None:
    """Note that logs were replaced by these generations: later ones are of injured logs."""
    with turn(place, LOCK_TIMEOUT):
        catalogue = Catalogue.load(place)
        for name, generation in whole.items():
            older = catalogue.older.get(name, [])
            older[:] = [_marked(each, generation) for each in older]
            if name in catalogue.current:
                catalogue.current[name] = _marked(catalogue.current[name], generation)
        if catalogue.is_sound:
            catalogue.save()


def _marked(kept: KeptFile, whole: int) -> KeptFile:
    return structs.replace(kept, is_injured=kept.is_injured or kept.generation > whole)


def forget_flat(home: Path, names: Iterable[str], session_id: str) -> None:
    """Remove a session whose files of these names are gone from its store's registry."""
    for directory in _flat_stores(home, names):
        forget(directory, session_id)


def remember_flat(home: Path, names: Iterable[str], session_id: str) -> None:
    """Add a session whose files of these names are back to its store's registry."""
    for directory in _flat_stores(home, names):
        meta = known_meta(directory, session_id)
        if meta is not None:
            update_registry(directory, meta)


def _flat_stores(home: Path, names: Iterable[str]) -> list[Path]:
    """Return the flat stores of a home, with a registry, that contain files of these names."""
    found = set()
    for name in names:
        rest = name.removeprefix("sessions/")
        if "/" not in rest.removeprefix("compressed/"):
            found.add(home if rest == name else home / "sessions")
    return sorted(each for each in found if flat_index(each).is_file())
