"""The catalog of one home's kept copies: what is kept, with sizes, times and digests.

It is one file that is read at once, so that comparing sizes and times shows what needs keeping. It
is replaced atomically, and names that could leave the home are ignored. If it is lost, or outdated
by a kill between committing a copy and recording it, decompressing the copies rebuilds it; only the
mtimes of the files stay unknown.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from turnlog.errors import LogLocked, TurnlogError
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
from turnlog.formats.walk import DirectoryWalk, is_gone
from turnlog.storage.atomic_files import failure, make_directory, put
from turnlog.storage.compressed import Packed, digest_of, packed_at
from turnlog.storage.locks import lock

CATALOGUE: Final = "catalogue.json"
HOME: Final = "home.json"
LAST_RUN: Final = "last-run.json"
VERSION: Final = 1
LOCK_TIMEOUT: Final = 60.0


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
        numbers = [
            each
            for each in self.roots
            if each >= least and os.path.lexists(kept_copy(copy_root(self.place, each), name))
        ]
        number = next(
            each for each in chain(numbers, count(least)) if not self._is_taken(each, name)
        )
        self.spellings.add(number, name)
        self.claimed[name] = number

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
    """Record which home of which machine is mirrored at *place*, if it is not recorded yet."""
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


@contextmanager
def lock_mirror(place: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock of the mirror at *place*: one process at a time changes it."""
    try:
        make_directory(place)
        path = place / ".lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise failure(error, place) from None
    try:
        if not lock(fd, timeout):
            raise LogLocked(
                f"another process is keeping copies in {place}",
                path=place,
                hint="wait until it is done, or look for another running turnlog",
            )
        yield
    finally:
        os.close(fd)


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
        is_changed |= len(left) < len(older)
    if is_changed:
        catalogue.save()


def remember_kept(place: Path, known: Sequence[KeptFile]) -> None:
    """Add entries of restored copies to the catalog again."""
    if not known or not place.is_dir():
        return
    with lock_mirror(place):
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
                if kept not in older:
                    older.append(kept)
        catalogue.save()


def note_injured(place: Path, whole: Mapping[str, int]) -> None:
    """Note that logs were replaced by these generations: later ones are of injured logs."""

    def marked(kept: KeptFile, generation: int) -> KeptFile:
        return structs.replace(kept, is_injured=kept.is_injured or kept.generation > generation)

    with lock_mirror(place):
        catalogue = Catalogue.load(place)
        for name, generation in whole.items():
            older = catalogue.older.get(name, [])
            older[:] = [marked(kept, generation) for kept in older]
            if name in catalogue.current:
                catalogue.current[name] = marked(catalogue.current[name], generation)
        if catalogue.is_sound:
            catalogue.save()


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
    if newest in paths and _is_one(paths[newest], kept_copy(root, name)):
        return newest  # A kill left it with both its names.
    return max(newest + 1, known.generation if known is not None else 1)


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
