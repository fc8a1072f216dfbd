"""The catalog of one home's kept copies: what is kept, with sizes, times and digests.

It is one file that is read at once, so that comparing sizes and times shows what needs keeping. It
can be deleted: decompressing the copies rebuilds it. It is replaced atomically, and names that
could leave the home are ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from turnlog.formats import home_paths
from turnlog.formats.home_paths import kept_root
from turnlog.formats.kept_copies import (
    CONFLICTS,
    GENERATIONS,
    KEPT_SUFFIX,
    CopyName,
    Spellings,
    copy_root,
    copy_roots,
    generation_copy,
    is_inner_name,
    is_spelled,
    kept_copy,
    kept_place,
    prefixes,
    read_copy_name,
)
from turnlog.formats.walk import DirectoryWalk
from turnlog.storage.atomic_files import put
from turnlog.storage.compressed import digest_of

CATALOGUE: Final = "catalogue.json"
HOME: Final = "home.json"
LAST_RUN: Final = "last-run.json"
VERSION: Final = 1


class KeptFile(Struct, kw_only=True, frozen=True):
    """A kept copy of a file, or of an earlier generation of it."""

    name: str
    """The file's path in its home, with "/" between the parts."""
    generation: int = 1
    """How often the file was rewritten, plus one."""
    size_bytes: int
    mtime_ns: int
    """The file's mtime when it was kept; 0 if unknown, or if the copy is doubted."""
    packed_bytes: int
    digests: bytes
    """The SHA-256 digests of the copy's frames, concatenated."""
    sums: bytes = b""
    """The checksums of its compressed frames, as far as known."""
    kept_at: datetime
    session: str | None = None
    """The session it belongs to, if its name does not show it."""
    is_whole: bool | None = None
    """For a log: whether it has every record of earlier generations; None if unknown."""
    is_injured: bool = False
    """Whether it is a copy of a log that had lost records, which an earlier generation replaced."""
    gone_at: datetime | None = None
    """When the file was first found missing; None while it exists."""
    conflict: int = 0
    """The directory of ``conflicts`` that the copy is in; 0 if its name is unique."""

    @property
    def is_doubted(self) -> bool:
        """Whether it was found to differ from its file, and was not made again since."""
        return not self.packed_bytes

    @property
    def digest(self) -> str:
        """The digest of the whole copy."""
        return digest_of(self.digests)


class _Stored(Struct, kw_only=True):
    version: int
    files: list[KeptFile] = []
    older: list[KeptFile] = []


class LastRun(Struct, kw_only=True):
    """When everything was checked last."""

    at: datetime


class Catalogue(Struct):
    """What is kept of the home mirrored at *place*."""

    place: Path
    current: dict[str, KeptFile] = field(default_factory=dict)
    """The newest copy of each file, by name."""
    older: dict[str, list[KeptFile]] = field(default_factory=dict)
    """Earlier generations of files that were rewritten, oldest first."""
    is_sound: bool = True
    """False if the file was missing or unreadable: then there may be unlisted copies."""
    claimed: dict[str, int] = field(default_factory=dict)
    """The places of copies that are being made, by name; see *claim*."""
    spellings: Spellings = field(default_factory=Spellings)
    """The spellings of files with copies, in each root."""
    roots: list[int] = field(default_factory=list)
    """The numbers of the roots, once they were searched."""

    @classmethod
    def load(cls, place: Path) -> Catalogue:
        """Read the catalog of the mirror at *place*; an empty one if there is none."""
        try:
            stored = msgspec.json.decode((place / CATALOGUE).read_bytes(), type=_Stored)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return cls(place, is_sound=False)
        if stored.version != VERSION:
            return cls(place, is_sound=False)
        found = cls(place)
        for each in stored.files:
            if is_inner_name(each.name):
                found.current[each.name] = each
        for each in stored.older:
            if is_inner_name(each.name):
                found.older.setdefault(each.name, []).append(each)
        return found

    @classmethod
    def of_home(cls, home: str | os.PathLike[str]) -> Catalogue:
        """Read the catalog of the kept copies of *home*."""
        return cls.load(kept_place(home))

    def save(self) -> None:
        """Replace the file; durable on return."""
        stored = _Stored(
            version=VERSION,
            files=list(self.current.values()),
            older=[each for kept in self.older.values() for each in kept],
        )
        put(self.place, (CATALOGUE,), (msgspec.json.encode(stored),), overwrite=True)

    def has_all_of(self, name: str, size_bytes: int, mtime_ns: int) -> bool:
        """Return whether the copy of a file with this size and mtime is complete.

        The copy's own size is compared too: a catalog outlives its copies.
        """
        kept = self.current.get(name)
        if kept is None or (kept.size_bytes, kept.mtime_ns) != (size_bytes, mtime_ns):
            return False
        try:
            # Strings, not Path: this is called for every file in every run.
            root = f"{self.place}/{CONFLICTS}/{kept.conflict}" if kept.conflict else self.place
            return os.stat(f"{root}/{name}{KEPT_SUFFIX}").st_size == kept.packed_bytes
        except OSError:
            return False

    def note_found(self, names: Container[str], now: datetime) -> bool:
        """Note which files exist in the whole home; return whether that changed anything."""
        is_news = False
        for name, kept in self.current.items():
            if (kept.gone_at is None) != (name in names):
                gone_at = None if name in names else now
                self.current[name] = structs.replace(kept, gone_at=gone_at)
                is_news = True
        return is_news

    def doubt(self, names: Iterable[str]) -> None:
        """Make the next run compare every byte of these files with their copies.

        Without the file's mtime and the copy's size, nothing is taken on trust. Copies that differ
        or are damaged are made again.
        """
        for name in names:
            kept = self.current[name]
            self.current[name] = structs.replace(kept, mtime_ns=0, packed_bytes=0)

    def copy_of(self, kept: KeptFile) -> Path:
        """Return the path of a copy."""
        root = copy_root(self.place, kept.conflict)
        if self.current.get(kept.name) == kept:
            return kept_copy(root, kept.name)
        return generation_copy(root, kept.generation, kept.name)

    def conflict_of(self, name: str) -> int:
        """Return the directory of ``conflicts`` for the copies of the file *name*; mostly 0."""
        known = next(iter(self.generations(name)), None)
        return known.conflict if known is not None else self.claimed.get(name, 0)

    def root_of(self, name: str) -> Path:
        """Return the directory that contains the copies of the file *name*."""
        return copy_root(self.place, self.conflict_of(name))

    def claim(self, name: str, *, least: int = 0) -> None:
        """Choose the place for the copies of a file that has none, where no name collides.

        The file system decides which names collide: it may ignore case, or normalize.
        """
        if any(self.generations(name)) or self.claimed.get(name, -1) >= least:
            return
        self._learn()
        # A file missing in the catalog goes where its copy is.
        numbers = [each for each in self.roots if each >= least and self._has_copy(each, name)]
        number = next(
            each for each in chain(numbers, count(least)) if not self._is_taken(each, name)
        )
        self.spellings.add(number, name)
        self.claimed[name] = number

    def _has_copy(self, conflict: int, name: str) -> bool:
        return os.path.lexists(kept_copy(copy_root(self.place, conflict), name))

    def known_name(self, copy: CopyName, path: Path) -> str:
        """Return the known name of the copy at *path*, called *copy* on disk.

        A file system that normalizes names spells them differently.
        """
        if copy.name in self.current and self.conflict_of(copy.name) == copy.conflict:
            return copy.name
        self._learn()
        name = self.spellings.get(copy.conflict, copy.name) or copy.name
        root = copy_root(self.place, copy.conflict)
        number = copy.generation
        other = kept_copy(root, name) if number is None else generation_copy(root, number, name)
        return name if name != copy.name and _is_one(other, path) else copy.name

    def _is_taken(self, conflict: int, name: str) -> bool:
        """Return whether a name, or a directory in it, collides with another's."""
        root = os.fspath(copy_root(self.place, conflict))
        for part in prefixes(name):
            ending = KEPT_SUFFIX if part == name else ""
            path = f"{root}/{part}{ending}"
            other = self.spellings.get(conflict, part)
            if other == part or not os.path.lexists(path):
                continue
            if other is not None and _is_one(f"{root}/{other}{ending}", path):
                return True
            # File systems have more ways to merge names than we can list.
            if other is None and (not is_spelled(path) or (ending and self._is_known(path))):
                return True
        return False

    def _is_known(self, path: str) -> bool:
        return any(_is_one(self.copy_of(each), path) for each in self.current.values())

    def _learn(self) -> None:
        """Collect the spellings of known names, if not done yet."""
        if not self.roots:
            self.roots = list(copy_roots(self.place))
            for name in {**self.older, **self.current}:
                self.spellings.add(self.conflict_of(name), name)

    def generations(self, name: str) -> list[KeptFile]:
        """Return every copy of the file *name*, oldest first."""
        newest = self.current.get(name)
        return [*self.older.get(name, ()), *([newest] if newest is not None else ())]

    def missing(self) -> list[KeptFile]:
        """Return the entries of copies that are missing."""
        known = [each for name in {**self.older, **self.current} for each in self.generations(name)]
        return [each for each in known if not os.path.isfile(self.copy_of(each))]

    def copies(self) -> Iterator[tuple[CopyName, Path]]:
        """Return the copies on disk, listed or not."""
        top = os.path.join(self.place, "")
        for item in DirectoryWalk().files_beneath(top):
            if item.name.endswith(KEPT_SUFFIX) and not item.name.startswith(".turnlog-"):
                name = item.path.removeprefix(top).replace(os.sep, "/")
                yield read_copy_name(name), Path(item.path)

    def numbers(self, root: Path) -> list[int]:
        """Return the numbers of all generations with copies in *root*."""
        try:
            names = os.listdir(root / GENERATIONS)
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _is_one(one: str | Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def find_copy(place: Path, name: str) -> Path:
    """Return the path of the newest copy of the file *name* in the mirror at *place*, if any.

    The catalog is read only if names collide.
    """
    has_conflicts = os.path.isdir(place / CONFLICTS)
    return kept_copy(Catalogue.load(place).root_of(name) if has_conflicts else place, name)


def note_run(place: Path, at: datetime) -> None:
    """Record that everything was checked."""
    put(place, (LAST_RUN,), (msgspec.json.encode(LastRun(at=at)),), overwrite=True)


def last_run_at(place: Path) -> datetime | None:
    """Return when everything was checked last; None if unknown."""
    try:
        return msgspec.json.decode((place / LAST_RUN).read_bytes(), type=LastRun).at
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def note_home(place: Path, home: str) -> None:
    """Write down which home of which machine is mirrored at *place*, unless it says so already."""
    machine = home_paths.machine_id()
    if home_paths.noted_machine(os.fspath(place)) != machine:
        put(place, (home_paths.MACHINE,), (machine.encode(),), overwrite=True)
    if home_of(place) != home:
        # Not every path is valid text; JSON escapes keep it intact.
        put(place, (HOME,), (json.dumps({"path": home}).encode(),), overwrite=True)


def home_of(place: Path) -> str | None:
    """Return the home that is mirrored at *place*; None if unknown."""
    try:
        found = json.loads((place / HOME).read_bytes())["path"]
        path = os.fsdecode(os.fsencode(found))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if os.path.isabs(path) and "\0" not in path else None


def kept_homes() -> Iterator[tuple[str, Path]]:
    """Return every home with kept copies, and their place; the home may be gone."""
    try:
        names = sorted(os.listdir(kept_root()))
    except OSError:
        return
    for name in names:
        place = Path(kept_root(), name)
        home = home_of(place)
        if home is not None:
            yield home, place
