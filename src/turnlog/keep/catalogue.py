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
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from turnlog.layout import home_paths
from turnlog.layout.home_paths import kept_root
from turnlog.layout.kept import (
    KEPT_SUFFIX,
    generation_copy,
    is_inner_name,
    kept_copy,
    kept_place,
)
from turnlog.layout.walk import Walk
from turnlog.log.packing import digest_of
from turnlog.sessions.beside import put

CATALOGUE: Final = "catalogue.json"
HOME: Final = "home.json"
LAST_RUN: Final = "last-run.json"
GENERATIONS: Final = "generations"
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
        """Tell whether the copy of a file that is so large and so old holds all of it.

        That is told by sizes and times, the copy's own size too: a catalogue outlives its copies.
        """
        kept = self.current.get(name)
        if kept is None or (kept.size_bytes, kept.mtime_ns) != (size_bytes, mtime_ns):
            return False
        try:
            # No Path: this is asked of every file, at every look.
            return os.stat(f"{self.place}/{name}{KEPT_SUFFIX}").st_size == kept.packed_bytes
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
        """Tell where a copy lies."""
        if self.current.get(kept.name) == kept:
            return kept_copy(self.place, kept.name)
        return generation_copy(self.place, kept.generation, kept.name)

    def generations(self, name: str) -> list[KeptFile]:
        """Give every copy of the file *name*, the oldest first."""
        newest = self.current.get(name)
        return [*self.older.get(name, ()), *([newest] if newest is not None else ())]

    def missing(self) -> list[KeptFile]:
        """Give what is known of copies that are not there."""
        known = [each for name in {**self.older, **self.current} for each in self.generations(name)]
        return [each for each in known if not os.path.isfile(self.copy_of(each))]

    def copies(self) -> Iterator[tuple[str, Path]]:
        """Give the copies that lie there, listed or not: the file's name, and the copy's path."""
        return _copies_beneath(self.place)

    def earlier_copies(self) -> Iterator[tuple[str, Path, int]]:
        """Give those of earlier generations, with their numbers."""
        top = self.place / GENERATIONS
        for number in self.numbers():
            for name, path in _copies_beneath(top / str(number)):
                yield name, path, number

    def numbers(self) -> list[int]:
        """Give the numbers of all generations of which copies lie there."""
        try:
            names = os.listdir(self.place / GENERATIONS)
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _copies_beneath(top: Path) -> Iterator[tuple[str, Path]]:
    for item in Walk().files_beneath(os.fspath(top)):
        if item.name.endswith(KEPT_SUFFIX) and not item.name.startswith(".turnlog-"):
            path = Path(item.path)
            name = path.relative_to(top).as_posix().removesuffix(KEPT_SUFFIX)
            if not name.startswith(GENERATIONS + "/"):
                yield name, path


def note_run(place: Path, at: datetime) -> None:
    """Write down that everything was looked at."""
    put(place, (LAST_RUN,), (msgspec.json.encode(LastRun(at=at)),), overwrite=True)


def last_run_at(place: Path) -> datetime | None:
    """Tell when everything was looked at last; None if that is not known."""
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
    """Tell which home is mirrored at *place*; None if nothing says so."""
    try:
        found = json.loads((place / HOME).read_bytes())["path"]
        path = os.fsdecode(os.fsencode(found))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if os.path.isabs(path) and "\0" not in path else None


def kept_homes() -> Iterator[tuple[str, Path]]:
    """Give every home of which copies are kept, and where they lie; the home may be gone."""
    try:
        names = sorted(os.listdir(kept_root()))
    except OSError:
        return
    for name in names:
        place = Path(kept_root(), name)
        home = home_of(place)
        if home is not None:
            yield home, place
