"""Make copies of files, and commit them so that a kill at any moment loses none.

    compress what is new ─► read it back ─► sync every copy ─► link earlier generations
    ─► save the catalog ─► rename ─► sync directories

What happens to the source meanwhile (it vanishes, shrinks or is replaced) is returned as NotKept; a
failure of our own disk raises. A file that grew is compared with its whole copy, byte for byte,
before the copy is extended; and again if it was written to meanwhile. So no copy mixes two states
of a file.

A damaged copy is never extended: a new one is made of the whole file. It replaces the damaged one
if it verifiably holds everything that was kept; otherwise the damaged one stays as an earlier
generation, for what can still be read of it.

The copy of an earlier generation gets its second name before its first one is replaced. Until the
new copy is recorded as well, the catalog has no entry for that place: two copies may have the same
size and be mistaken for each other.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from turnlog.errors import BrokenCopy, LogError, NotFound, TurnlogError
from turnlog.formats.home_files import HomeFile
from turnlog.formats.kept_copies import CONFLICTS, GENERATIONS, generation_copy, kept_copy
from turnlog.formats.walk import DirectoryWalk
from turnlog.keep.catalog import Catalogue, KeptFile, adopted, generation_in_place
from turnlog.storage import atomic_files
from turnlog.storage.compressed import (
    DIGEST_BYTES,
    BrokenFrame,
    Packed,
    Packer,
    check_packed,
    read_table,
)
from turnlog.storage.sources import FramedSource, open_regular
from turnlog.storage.system import read_at, sync, sync_directory_at

_PIECE_BYTES: Final = 1024 * 1024
_LARGE_NUMBER: Final = 1_000_000


class NotKept(Struct, frozen=True):
    """Why a file could not be kept this time."""

    why: str


class NewCopy(Struct):
    """A copy to be committed, in the file *temporary*.

    Without one, the existing copy needs no change, only the catalog does.
    """

    kept: KeptFile
    target: Path
    temporary: Path | None = None
    aside: int | None = None
    """The generation number under which the existing copy must stay."""
    replaces: KeptFile | None = None
    """The entry of that one."""
    damage: str = ""
    """What is wrong with it."""
    is_first: bool = False
    """Whether there is no copy in place: a file found there is another's."""
    read_bytes: int = 0
    written_bytes: int = 0
    is_placed: bool = False
    """Whether it replaced the copy before it."""
    is_blocked: bool = False
    """Whether a directory has its name."""


def discard(copies: Iterable[NewCopy]) -> None:
    """Delete copies that will not be committed."""
    for made in copies:
        if made.temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(made.temporary)


def make_copy(file: HomeFile, catalogue: Catalogue) -> NewCopy | NotKept:
    """Copy what is new in *file* since it was kept, or all of it if it was rewritten."""
    refusal = _refusal(file.name, catalogue.root_of(file.name))
    if refusal is not None:
        return refusal
    try:
        fd = open_regular(file.path)
    except (TurnlogError, OSError) as error:
        return NotKept(str(error))
    try:
        now = os.fstat(fd)
        with _earlier(catalogue, file.name) as earlier:
            if isinstance(earlier, _Earlier):
                try:
                    return _copied(fd, now, file, catalogue, earlier)
                except BrokenFrame as error:
                    damage = str(error)
            else:
                damage = earlier
        return _packed(fd, now, file, catalogue, damage=damage)
    except _Unsteady as error:
        return NotKept(str(error))
    finally:
        os.close(fd)


def refused_name(error: OSError) -> NotKept | None:
    """Return the reason if *error* means that a copy cannot have this name."""
    if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR):
        return NotKept(f"no copy can have its name: {(error.strerror or '').lower()}")
    return None


def _refusal(name: str, root: Path) -> NotKept | None:
    """Return why a file cannot be kept under its name, if so."""
    if name.startswith((GENERATIONS + "/", CONFLICTS + "/")):
        return NotKept("no copy can have its name: other copies are kept there")
    for path in (generation_copy(root, _LARGE_NUMBER, name), kept_copy(root, name)):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            refusal = refused_name(error)
            if refusal is None:
                raise
            return refusal
        if stat.S_ISDIR(status.st_mode):
            return NotKept("no copy can have its name: a directory of copies has it")
    return None


class _Unsteady(Exception):
    """The file changed while it was read, or cannot be read."""


class _Earlier(Struct):
    """The existing copy, opened: its contents and its entry in the catalog."""

    fd: int
    packed: Packed
    kept: KeptFile


@contextlib.contextmanager
def _earlier(catalogue: Catalogue, name: str) -> Iterator[_Earlier | str]:
    """Open the existing copy; or return what is wrong with it, "" if there is none."""
    path = kept_copy(catalogue.root_of(name), name)
    try:
        fd = open_regular(path)
    except (TurnlogError, OSError) as error:
        yield "" if isinstance(error, NotFound) else str(error)
        return
    try:
        try:
            found: _Earlier | str = _opened(fd, path, name, catalogue)
        except BrokenCopy as error:
            found = str(error)
        yield found
    finally:
        os.close(fd)


def _opened(fd: int, path: Path, name: str, catalogue: Catalogue) -> _Earlier:
    known, table = catalogue.current.get(name), read_table(fd)
    if known is not None and table is not None:
        sizes = known.size_bytes, known.packed_bytes, len(known.digests)
        frames_bytes = len(table.frames) * DIGEST_BYTES
        if sizes == (table.size_bytes, os.fstat(fd).st_size, frames_bytes):
            return _Earlier(fd, Packed(table, known.digests, known.sums), known)
    # The catalog is outdated or lost: only the copy itself shows what it holds.
    number = generation_in_place(catalogue, name)
    kept, packed = adopted(path, name, number, catalogue.conflict_of(name))
    return _Earlier(fd, packed, kept)


def _copied(
    fd: int, now: os.stat_result, file: HomeFile, catalogue: Catalogue, earlier: _Earlier
) -> NewCopy:
    kept = earlier.kept
    # Samples would suffice only for a log that is never rewritten.
    if now.st_size < kept.size_bytes or not _begins_with(fd, earlier.packed):
        return _packed(fd, now, file, catalogue, replaces=kept)
    if now.st_size == kept.size_bytes:
        same = structs.replace(kept, mtime_ns=now.st_mtime_ns)
        return NewCopy(same, kept_copy(catalogue.root_of(file.name), file.name))
    return _packed(fd, now, file, catalogue, earlier=earlier)


def _begins_with(fd: int, packed: Packed) -> bool:
    """Return whether a file begins with everything in *packed*; every byte is compared."""
    return all(
        sha256(_read(fd, frame.size_bytes, frame.start)).digest()
        == packed.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        for number, frame in enumerate(packed.table.frames)
    )


def _packed(
    fd: int,
    now: os.stat_result,
    file: HomeFile,
    catalogue: Catalogue,
    *,
    earlier: _Earlier | None = None,
    replaces: KeptFile | None = None,
    damage: str = "",
) -> NewCopy:
    """Compress what is new after an *earlier* copy; or the whole file."""
    target = kept_copy(catalogue.root_of(file.name), file.name)
    temporary = target.with_name(atomic_files.temporary_name())
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    made_fd = os.open(temporary, flags, 0o600)
    try:
        packed = _filled(made_fd, fd, now, file, earlier)
        copy = FramedSource(made_fd, packed.table)
        kept = KeptFile(
            name=file.name,
            generation=earlier.kept.generation if earlier else 1,
            size_bytes=packed.size_bytes,
            mtime_ns=now.st_mtime_ns,
            packed_bytes=os.fstat(made_fd).st_size,
            digests=packed.digests,
            sums=packed.sums,
            kept_at=datetime.now(UTC),
            is_whole=earlier.kept.is_whole if earlier else None,
            conflict=catalogue.conflict_of(file.name),
        )
        made = NewCopy(kept, target, temporary, replaces=replaces, damage=damage)
        made.is_first = earlier is None and replaces is None and not damage
        made.read_bytes = now.st_size - (earlier.packed.size_bytes if earlier else 0)
        made.written_bytes = kept.packed_bytes
        if earlier is None:
            _number(made, catalogue, packed, copy)
        # The copy gets the mtime of its contents.
        os.utime(temporary, ns=(now.st_mtime_ns, now.st_mtime_ns))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(made_fd)
    return made


def _filled(
    made_fd: int, fd: int, now: os.stat_result, file: HomeFile, earlier: _Earlier | None
) -> Packed:
    """Compress a file, or its new part, and read that back."""
    if hasattr(os, "fchmod"):
        os.fchmod(made_fd, 0o600)
    packer = Packer(made_fd, (earlier.fd, earlier.packed) if earlier else None)
    start = earlier.packed.size_bytes if earlier else 0
    for offset in range(start, now.st_size, _PIECE_BYTES):
        packer.feed(_read(fd, min(_PIECE_BYTES, now.st_size - offset), offset))
    packed = packer.finish()
    if check_packed(made_fd, packed, first=packer.copied):
        raise LogError(
            f"the copy of {file.path} does not read back as written",
            path=file.path,
            hint="the disk may be failing; the file itself was not touched",
        )
    after = os.fstat(fd)
    if after.st_size < now.st_size:
        raise _Unsteady("it shrank while it was read")
    if after.st_mtime_ns != now.st_mtime_ns and not _begins_with(fd, packed):
        raise _Unsteady("it was rewritten while it was read")
    return packed


def _number(made: NewCopy, catalogue: Catalogue, packed: Packed, copy: FramedSource) -> None:
    """Number a new whole copy, and the existing one if that must stay."""
    name = made.kept.name
    known = catalogue.current.get(name)
    if made.damage and known is not None and _holds_all(packed, copy, known):
        generation = known.generation
    else:
        generation = generation_in_place(catalogue, name)
        if made.replaces is not None or made.damage:
            made.replaces = made.replaces or known
            made.aside = generation
            generation += 1
    made.kept = structs.replace(made.kept, generation=generation)


def _holds_all(packed: Packed, copy: FramedSource, known: KeptFile) -> bool:
    """Return whether a new copy begins with everything *known* of a damaged one."""
    last = len(known.digests) // DIGEST_BYTES - 1
    if packed.size_bytes < known.size_bytes or len(packed.table.frames) <= last:
        return False
    if last < 0:
        return known.size_bytes == 0
    if packed.digests[: last * DIGEST_BYTES] != known.digests[: last * DIGEST_BYTES]:
        return False
    start = packed.table.frames[last].start
    # The last frame may be longer by now: compare only its beginning.
    data = copy.read_at(max(0, known.size_bytes - start), start)
    return sha256(data).digest() == known.digests[last * DIGEST_BYTES :]


def _read(fd: int, size: int, offset: int) -> bytes:
    """Read a source file: errors there are not failures of our own disk."""
    data = b""
    while len(data) < size:
        try:
            more = read_at(fd, size - len(data), offset + len(data))
        except OSError as error:
            raise _Unsteady((error.strerror or str(error)).lower()) from None
        if not more:
            raise _Unsteady("it shrank while it was read")
        data += more
    return data


HOUR: Final = 3600.0
"""No process takes so long to make a file."""


def place_all(copies: list[NewCopy], catalogue: Catalogue, unsynced: Iterable[Path] = ()) -> None:
    """Commit *copies*; durable on return. Where one fails, the old copy stays.

    *unsynced* are directories above them that have new entries.
    """
    new = [made for made in copies if made.temporary is not None]
    try:
        for made in new:
            _sync_file(made.temporary or made.target)
        replacing = [made for made in new if made.aside is not None]
        for made in replacing:
            _set_aside(made, catalogue)
            catalogue.current.pop(made.kept.name, None)
        if replacing:
            catalogue.save()
        for made in new:
            try:
                _put_in_place(made, catalogue)
            except IsADirectoryError:  # Created meanwhile as a directory for other files.
                discard([made])
                made.is_blocked = True
                continue
            made.temporary = None
            made.is_placed = True
    except BaseException:
        discard(new)
        raise
    for made in copies:
        if not (
            made.is_placed or made.is_blocked
        ):  # It holds all of its file, which has a newer mtime.
            with contextlib.suppress(OSError):
                os.utime(made.target, ns=(made.kept.mtime_ns, made.kept.mtime_ns))
    sync_directories((*unsynced, *(made.target.parent for made in new)))


def _put_in_place(made: NewCopy, catalogue: Catalogue) -> None:
    """Rename a copy into place; the first copy of a file never replaces another file's.

    Two names may collide on the file system. Then the second copy goes elsewhere.
    """
    temporary, name = made.temporary or Path(), made.kept.name
    if not made.is_first:
        os.replace(temporary, made.target)
        return
    while True:
        try:
            atomic_files.rename_new(temporary, made.target)
            return
        except FileExistsError:
            if made.target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a directory", made.target) from None
        catalogue.claim(name, least=made.kept.conflict + 1)
        made.kept = structs.replace(made.kept, conflict=catalogue.conflict_of(name))
        made.target = kept_copy(catalogue.root_of(name), name)
        atomic_files.make_directory(made.target.parent)


def _set_aside(made: NewCopy, catalogue: Catalogue) -> None:
    """Keep the current copy as an earlier generation, under its own name."""
    name, number = made.kept.name, made.aside or 1
    root = catalogue.root_of(name)
    source = kept_copy(root, name)
    while not _is_linked(source, generation_copy(root, number, name)):
        number += 1  # Something unlisted has that name.
    made.aside = number
    made.kept = structs.replace(made.kept, generation=max(number + 1, made.kept.generation))
    older = catalogue.older.setdefault(name, [])
    if made.replaces is not None and number not in {each.generation for each in older}:
        older.append(structs.replace(made.replaces, generation=number))


def _is_linked(source: Path, target: Path) -> bool:
    """Link a copy to *target* too; return False if that is another's place."""
    atomic_files.make_directory(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        # An interrupted run may have got this far.
        return os.path.samefile(source, target) or filecmp.cmp(source, target, shallow=False)
    except OSError as error:
        if error.errno not in atomic_files.NEEDS_COPY:
            raise
        if os.path.lexists(target):
            return filecmp.cmp(source, target, shallow=False)
        _copy_next_to(source, target)  # No hard links here.
    sync_directories([target.parent])
    return True


def _copy_next_to(source: Path, target: Path) -> None:
    with (
        atomic_files.Folder.beneath(target.parent, ()) as folder,
        folder.replacing(target.name, overwrite=True) as (fd, _),
        open(source, "rb") as old,
        os.fdopen(fd, "wb") as new,
    ):
        shutil.copyfileobj(old, new)
        new.flush()
        as_old = os.fstat(old.fileno()).st_mtime_ns
        os.utime(fd, ns=(as_old, as_old))
        sync(fd)


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        sync(fd)
    finally:
        os.close(fd)


def sweep(directories: Iterable[Path], *, unused_for: float = 0) -> None:
    """Remove unfinished files of a killed run.

    The caller either holds the lock of the place, or passes the number of seconds for which the
    files must not have been touched.
    """
    before = time.time() - unused_for
    for directory in set(directories):
        with contextlib.suppress(OSError), os.scandir(directory) as items:
            for item in items:
                if atomic_files.is_temporary(item.name):
                    with contextlib.suppress(FileNotFoundError):
                        # Not the mtime, which may be that of its contents.
                        used_at = item.stat(follow_symlinks=False).st_ctime
                        if not unused_for or used_at < before:
                            os.unlink(item.path)


def sweep_beneath(top: Path) -> None:
    """Sweep a locked directory and everything below it."""
    for item in DirectoryWalk().files_beneath(os.fspath(top)):  # However deep they are.
        if atomic_files.is_temporary(item.name):
            with contextlib.suppress(OSError):
                os.unlink(item.path)


def sync_directories(paths: Iterable[Path]) -> None:
    """Return when the entries of all these directories are on disk."""
    for path in sorted(set(paths)):
        sync_directory_at(path)
