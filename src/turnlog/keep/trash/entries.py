"""The records of the trash: what was deleted, where it was, and its properties."""

from __future__ import annotations

import stat
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from turnlog.errors import NotALog
from turnlog.formats.kept_copies import kept_place
from turnlog.keep.catalog import KeptFile
from turnlog.keep.file_moves import Spot
from turnlog.storage.atomic_files import failure

Tree = Literal["home", "kept"]


class TrashedFile(Struct, frozen=True, kw_only=True):
    """A deleted file: its tree, its name there, and its properties."""

    tree: Tree
    name: str
    size_bytes: int
    mode: int
    mtime_ns: int
    conflict: int = 0
    """The directory of ``conflicts`` in the entry that it is in; 0 if its name is unique."""


class TrashEntry(Struct, frozen=True, kw_only=True):
    """Files deleted together: usually a session of one home."""

    session: str
    others: list[str] = []
    """More sessions that have records in the logs among its files."""
    home: str
    title: str | None = None
    why: str
    deleted_at: datetime
    purge_after_at: datetime
    files: list[TrashedFile]
    catalogue: list[KeptFile] = []
    """The catalog's entries of the kept copies among them."""

    @property
    def sessions(self) -> list[str]:
        """The sessions deleted with it."""
        return [self.session, *self.others]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class TrashedSession(NamedTuple):
    """An entry of the trash and its name there."""

    name: str
    entry: TrashEntry

    def is_due(self, now: datetime) -> bool:
        """Whether its grace period is over; one that ends before it begins is invalid."""
        return self.entry.deleted_at <= self.entry.purge_after_at <= now


class FileToTrash(NamedTuple):
    """A file to delete."""

    tree: Tree
    name: str


def place_of(entry: TrashEntry, file: TrashedFile) -> Spot:
    """Return the original path of a file of an entry."""
    root = Path(entry.home) if file.tree == "home" else kept_place(entry.home)
    return Spot(root, file.name)


def described(home: str, doomed: FileToTrash) -> TrashedFile | None:
    """Return the properties of a file to delete; None if it does not exist."""
    root = Path(home) if doomed.tree == "home" else kept_place(home)
    spot = Spot(root, doomed.name)
    try:
        status = spot.status()
    except OSError as error:
        raise failure(error, spot.path) from None
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise NotALog(
            f"{spot.path} is not a regular file",
            path=spot.path,
            hint="symbolic links and devices are not deleted with a session; remove it yourself",
        )
    return TrashedFile(
        tree=doomed.tree,
        name=doomed.name,
        size_bytes=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
    )
