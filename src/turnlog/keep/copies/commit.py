"""Commit new copies, so that a kill at any moment loses none.

    sync every copy ─► link earlier generations ─► save the catalog ─► rename ─► sync directories

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
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import structs

from turnlog.formats.kept_copies import generation_copy, kept_copy
from turnlog.formats.walk import DirectoryWalk
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.copy_file import NewCopy, discard
from turnlog.storage.atomic_files import (
    NEEDS_COPY,
    Folder,
    is_temporary,
    make_directory,
    rename_new,
)
from turnlog.storage.system import sync, sync_directory_at

HOUR: Final = 3600.0
"""Nobody takes so long to make a file."""


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
            rename_new(temporary, made.target)
            return
        except FileExistsError:
            if made.target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a directory", made.target) from None
        catalogue.claim(name, least=made.kept.conflict + 1)
        made.kept = structs.replace(made.kept, conflict=catalogue.conflict_of(name))
        made.target = kept_copy(catalogue.root_of(name), name)
        make_directory(made.target.parent)


def _set_aside(made: NewCopy, catalogue: Catalogue) -> None:
    """Give the current copy a name of its own, as an earlier generation."""
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
    make_directory(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        # An interrupted run may have got this far.
        return os.path.samefile(source, target) or filecmp.cmp(source, target, shallow=False)
    except OSError as error:
        if error.errno not in NEEDS_COPY:
            raise
        if os.path.lexists(target):
            return filecmp.cmp(source, target, shallow=False)
        _copy_next_to(source, target)  # No hard links here.
    sync_directories([target.parent])
    return True


def _copy_next_to(source: Path, target: Path) -> None:
    with (
        Folder.beneath(target.parent, ()) as folder,
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
                if is_temporary(item.name):
                    with contextlib.suppress(FileNotFoundError):
                        if not unused_for or _used_at(item) < before:
                            os.unlink(item.path)


def sweep_beneath(top: Path) -> None:
    """Sweep a locked directory and everything below it."""
    for item in DirectoryWalk().files_beneath(os.fspath(top)):  # However deep they are.
        if is_temporary(item.name):
            with contextlib.suppress(OSError):
                os.unlink(item.path)


def _used_at(item: os.DirEntry[str]) -> float:
    """Return when something was touched last; other times may be those of its contents."""
    return item.stat(follow_symlinks=False).st_ctime


def sync_directories(paths: Iterable[Path]) -> None:
    """Return when the entries of all these directories are on disk."""
    for path in sorted(set(paths)):
        sync_directory_at(path)
