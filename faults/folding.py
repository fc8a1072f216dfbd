"""A file system that takes names for one that differ in case or normalisation, by FUSE.

Run as ``python -m faults.folding BELOW MOUNT KIND``. What is written lies in the directory BELOW.
``case`` keeps names as they are given and ignores case when it looks them up, as NTFS and APFS do.
``normalising`` also stores them decomposed, as HFS+ does, and has no hard links.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata
from typing import Any

import mfusepy as fuse

_STATUS = ["st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino"]
_TIMES = ["st_atime", "st_mtime", "st_ctime"]


def folded(name: str) -> str:
    """Give what two names have in common that are one here."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class Folding(fuse.Operations):
    """All calls of a plain file system; only how names are found is special."""

    use_ns = True

    def __init__(self, below: str, *, is_normalising: bool) -> None:
        self._below = below
        self._is_normalising = is_normalising

    def init_with_config(self, _info: Any, config: Any) -> None:
        if config is not None:
            config.use_ino = 1  # Or each spelling of a name would have a number.

    def _at(self, path: str) -> str:
        found = self._below
        for part in path.split("/"):
            if part:
                found = os.path.join(found, self._name(found, part))
        return found

    def _name(self, directory: str, name: str) -> str:
        """Give the name of the entry that *name* means; of a new one, what it is stored as."""
        try:
            names = os.listdir(directory)
        except OSError:
            names = []
        wanted = folded(name)
        for each in names:
            if folded(each) == wanted:
                return each
        return unicodedata.normalize("NFD", name) if self._is_normalising else name

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        status = os.lstat(self._at(path)) if fh is None else os.fstat(fh)
        times = {each: getattr(status, f"{each}_ns") for each in _TIMES}
        return {each: getattr(status, each) for each in _STATUS} | times

    def readdir(self, path: str, _fh: int) -> list[tuple[str, dict[str, int], int]]:
        with os.scandir(self._at(path)) as items:
            return [(each.name, self._brief(each), 0) for each in items]

    def _brief(self, item: os.DirEntry[str]) -> dict[str, int]:
        status = item.stat(follow_symlinks=False)
        return {"st_ino": status.st_ino, "st_mode": status.st_mode}

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags & ~(os.O_CREAT | os.O_EXCL | os.O_APPEND))

    def create(self, path: str, mode: int, _fi: Any = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def read(self, _path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, _path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._at(path) if fh is None else fh, length)

    def fsync(self, _path: str, _datasync: int, fh: int) -> None:
        os.fsync(fh)

    def release(self, _path: str, fh: int) -> None:
        os.close(fh)

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._at(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self._at(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def link(self, target: str, source: str) -> None:
        if self._is_normalising:
            raise OSError(errno.EPERM, "no hard links here")
        os.link(self._at(source), self._at(target))

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        os.chown(self._at(path), uid, gid)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        os.utime(self._at(path), ns=times)


if __name__ == "__main__":
    below, mount, kind = sys.argv[1:]
    fuse.FUSE(
        Folding(below, is_normalising=kind == "normalising"),
        mount,
        foreground=True,
        nothreads=True,
        entry_timeout=0,
        negative_timeout=0,
        attr_timeout=0,
    )
