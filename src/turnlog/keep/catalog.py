"""The catalogue of one home's kept copies: what is kept, and what it was when it was kept.

One file, read at once, so that whether anything needs keeping is told by comparing sizes and times.
It can be deleted: what it says of a copy is found out again by unpacking it. It is replaced whole,
and names that could leave the home are not believed, whoever wrote them.
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
from turnlog.formats.file_name_case import Spellings, is_spelt, prefixes
from turnlog.formats.home_paths import kept_root
from turnlog.formats.kept_copies import (
    CONFLICTS,
    GENERATIONS,
    KEPT_SUFFIX,
    CopyName,
    copy_root,
    copy_roots,
    generation_copy,
    is_inner_name,
    kept_copy,
    kept_place,
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
    """A kept copy of a file, or of what it held before it was rewritten."""

    name: str
    """Where the file lies in its home, with "/" between the parts."""
    generation: int = 1
    """How often the file began anew."""
    size_bytes: int
    mtime_ns: int
    """Of the file when it was kept; 0 if that is not known, or the copy is doubted."""
    packed_bytes: int
    digests: bytes
    """The SHA-256 digests of the copy's frames, one behind the other."""
    sums: bytes = b""
    """So the sums of its packed frames, as far as they are known."""
    kept_at: datetime
    session: str | None = None
    """The session it belongs to, where more than its name was needed to tell."""
    is_whole: bool | None = None
    """Of a log: it has every record of the generations before it; None if that is not known."""
    is_injured: bool = False
    """It was kept of a log that had lost records, and that an earlier generation replaced."""
    gone_at: datetime | None = None
    """When a look at the whole home first did not find the file; None while it is there."""
    conflict: int = 0
    """The directory of ``conflicts`` that the copy is in; 0 if none else has its name."""

    @property
    def is_doubted(self) -> bool:
        """It was found not to be as its file, and was not made anew since."""
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
    """When everything was looked at last."""

    at: datetime


class Catalogue(Struct):
    """What is kept of the home mirrored at *place*."""

    place: Path
    current: dict[str, KeptFile] = field(default_factory=dict)
    """The newest copy of each file, by name."""
    older: dict[str, list[KeptFile]] = field(default_factory=dict)
    """What files held before they were rewritten, the oldest first."""
    is_sound: bool = True
    """False if the file was not there, or could not be read: then copies may lie unlisted."""
    claimed: dict[str, int] = field(default_factory=dict)
    """The places of copies that are being made, by name; see *claim*."""
    spellings: Spellings = field(default_factory=Spellings)
    """How the names of files that have copies, or get them, are spelt beneath each root."""
    roots: list[int] = field(default_factory=list)
    """The numbers of the roots, once they were looked for."""

    @classmethod
    def load(cls, place: Path) -> Catalogue:
        """Read the catalogue of the mirror at *place*; an empty one if there is none to read."""
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
        """Read the catalogue of what is kept of *home*."""
        return cls.load(kept_place(home))

    def save(self) -> None:
        """Replace the file; durable when this returns."""
        stored = _Stored(
            version=VERSION,
            files=list(self.current.values()),
            older=[each for kept in self.older.values() for each in kept],
        )
        put(self.place, (CATALOGUE,), (msgspec.json.encode(stored),), overwrite=True)

    def has_all_of(self, name: str, size_bytes: int, mtime_ns: int) -> bool:
        """Return whether the copy of a file that is so large and so old holds all of it.

        That is told by sizes and times, the copy's own size too: a catalogue outlives its copies.
        """
        kept = self.current.get(name)
        if kept is None or (kept.size_bytes, kept.mtime_ns) != (size_bytes, mtime_ns):
            return False
        try:
            # No Path: this is asked of every file, at every look.
            root = f"{self.place}/{CONFLICTS}/{kept.conflict}" if kept.conflict else self.place
            return os.stat(f"{root}/{name}{KEPT_SUFFIX}").st_size == kept.packed_bytes
        except OSError:
            return False

    def note_found(self, names: Container[str], now: datetime) -> bool:
        """Note which files a look at the whole home found; tell whether that is news."""
        is_news = False
        for name, kept in self.current.items():
            if (kept.gone_at is None) != (name in names):
                gone_at = None if name in names else now
                self.current[name] = structs.replace(kept, gone_at=gone_at)
                is_news = True
        return is_news

    def doubt(self, names: Iterable[str]) -> None:
        """See to it that the next keeping compares every byte of these files and of their copies.

        With neither a file's time nor its copy's size, nobody takes anything on trust. What differs
        or rotted is made anew.
        """
        for name in names:
            kept = self.current[name]
            self.current[name] = structs.replace(kept, mtime_ns=0, packed_bytes=0)

    def copy_of(self, kept: KeptFile) -> Path:
        """Return where a copy lies."""
        root = copy_root(self.place, kept.conflict)
        if self.current.get(kept.name) == kept:
            return kept_copy(root, kept.name)
        return generation_copy(root, kept.generation, kept.name)

    def conflict_of(self, name: str) -> int:
        """Return the directory of ``conflicts`` for the copies of the file *name*; mostly 0."""
        known = next(iter(self.generations(name)), None)
        return known.conflict if known is not None else self.claimed.get(name, 0)

    def root_of(self, name: str) -> Path:
        """Return the directory beneath which the copies of the file *name* have their names."""
        return copy_root(self.place, self.conflict_of(name))

    def claim(self, name: str, *, least: int = 0) -> None:
        """Choose where the copies of a file go that has none: where no other's name is taken.

        What counts as the same name, the file system says: it may ignore case, or normalise.
        """
        if any(self.generations(name)) or self.claimed.get(name, -1) >= least:
            return
        self._learn()
        # One that the catalogue forgot is where its copy is.
        numbers = [each for each in self.roots if each >= least and self._has_copy(each, name)]
        number = next(
            each for each in chain(numbers, count(least)) if not self._is_taken(each, name)
        )
        self.spellings.add(number, name)
        self.claimed[name] = number

    def _has_copy(self, conflict: int, name: str) -> bool:
        return os.path.lexists(kept_copy(copy_root(self.place, conflict), name))

    def known_name(self, copy: CopyName, path: Path) -> str:
        """Return the name by which the copy at *path*, called *copy* on the disk, is known.

        A file system that normalises names spells them in other ways than they were given.
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
        """Return whether a name, or that of a directory in it, leads to what another one has."""
        root = os.fspath(copy_root(self.place, conflict))
        for part in prefixes(name):
            ending = KEPT_SUFFIX if part == name else ""
            path = f"{root}/{part}{ending}"
            other = self.spellings.get(conflict, part)
            if other == part or not os.path.lexists(path):
                continue
            if other is not None and _is_one(f"{root}/{other}{ending}", path):
                return True
            # File systems have more ways to take names for one than anyone knows.
            if other is None and (not is_spelt(path) or (ending and self._is_known(path))):
                return True
        return False

    def _is_known(self, path: str) -> bool:
        return any(_is_one(self.copy_of(each), path) for each in self.current.values())

    def _learn(self) -> None:
        """Learn how the names that are known are spelt, if that was not done yet."""
        if not self.roots:
            self.roots = list(copy_roots(self.place))
            for name in {**self.older, **self.current}:
                self.spellings.add(self.conflict_of(name), name)

    def generations(self, name: str) -> list[KeptFile]:
        """Return every copy of the file *name*, the oldest first."""
        newest = self.current.get(name)
        return [*self.older.get(name, ()), *([newest] if newest is not None else ())]

    def missing(self) -> list[KeptFile]:
        """Return what is known of copies that are not there."""
        known = [each for name in {**self.older, **self.current} for each in self.generations(name)]
        return [each for each in known if not os.path.isfile(self.copy_of(each))]

    def copies(self) -> Iterator[tuple[CopyName, Path]]:
        """Return the copies that lie there, listed or not."""
        top = os.path.join(self.place, "")
        for item in DirectoryWalk().files_beneath(top):
            if item.name.endswith(KEPT_SUFFIX) and not item.name.startswith(".turnlog-"):
                name = item.path.removeprefix(top).replace(os.sep, "/")
                yield read_copy_name(name), Path(item.path)

    def numbers(self, root: Path) -> list[int]:
        """Return the numbers of all generations of which copies lie beneath *root*."""
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
    """Tell where the newest copy of the file *name* lies in the mirror at *place*, if there is one.

    Only where names are in conflict does that take reading the catalogue.
    """
    has_conflicts = os.path.isdir(place / CONFLICTS)
    return kept_copy(Catalogue.load(place).root_of(name) if has_conflicts else place, name)


def note_run(place: Path, at: datetime) -> None:
    """Write down that everything was looked at."""
    put(place, (LAST_RUN,), (msgspec.json.encode(LastRun(at=at)),), overwrite=True)


def last_run_at(place: Path) -> datetime | None:
    """Return when everything was looked at last; None if that is not known."""
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
        # Not every path is text; this way it is written down, and read, all the same.
        put(place, (HOME,), (json.dumps({"path": home}).encode(),), overwrite=True)


def home_of(place: Path) -> str | None:
    """Return which home is mirrored at *place*; None if nothing says so."""
    try:
        found = json.loads((place / HOME).read_bytes())["path"]
        path = os.fsdecode(os.fsencode(found))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if os.path.isabs(path) and "\0" not in path else None


def kept_homes() -> Iterator[tuple[str, Path]]:
    """Return every home of which copies are kept, and where they lie; the home may be gone."""
    try:
        names = sorted(os.listdir(kept_root()))
    except OSError:
        return
    for name in names:
        place = Path(kept_root(), name)
        home = home_of(place)
        if home is not None:
            yield home, place
