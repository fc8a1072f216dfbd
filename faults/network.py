"""File systems on which a lock stops at this machine: refused, or at least flagged.

The list of mounts is faked, since no network is needed here: every kind of network file system is
refused with UnsafeFilesystem before a byte is written, unless the caller says that only this
machine writes; FUSE and its kin are flagged with a warning; local ones are taken without a word.
Where mfusepy and /dev/fuse are present, a real FUSE mount is appended to as well.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnlog.errors import UnsafeFilesystem
from turnlog.storage import locks
from turnlog.storage.writer import LogWriter

from .arena import Arena, command, is_root, say
from .made import judge, made, made_line, read
from .tally import Tally

_REFUSED = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "fuse.sshfs", "fuse.rclone")
_FLAGGED = ("fuse", "fuse.bindfs", "virtiofs", "vboxsf")
_TAKEN = ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "apfs", "zfs")
_OLD, _NEW = made_line("old", 0), made_line("new", 0)

_LOOPBACK = """
import os, sys
import mfusepy as fuse
class Loopback(fuse.Operations):
    use_ns = True
    def __init__(self, root): self.root = root
    def at(self, path): return self.root + path
    def getattr(self, path, fh=None):
        try: found = os.lstat(self.at(path))
        except OSError as error: raise fuse.FuseOSError(error.errno)
        names = "st_mode st_nlink st_size st_uid st_gid st_ino".split()
        return {name: getattr(found, name) for name in names}
    def readdir(self, path, fh): return [".", "..", *os.listdir(self.at(path))]
    def open(self, path, flags): return os.open(self.at(path), os.O_RDWR)
    def create(self, path, mode, fi=None):
        return os.open(self.at(path), os.O_RDWR | os.O_CREAT, mode)
    def read(self, path, size, offset, fh): return os.pread(fh, size, offset)
    def write(self, path, data, offset, fh): return os.pwrite(fh, data, offset)
    def truncate(self, path, length, fh=None): os.truncate(self.at(path), length)
    def chmod(self, path, mode): os.chmod(self.at(path), mode)
    def fsync(self, path, datasync, fh): os.fsync(fh)
    def release(self, path, fh): os.close(fh)
fuse.FUSE(Loopback(sys.argv[1]), sys.argv[2], foreground=True, nothreads=True)
"""


def run(arena: Arena) -> list[Tally]:
    say("network")
    return [_faked(arena), _real_fuse(arena)]


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.heard += record.levelno >= logging.WARNING


@contextmanager
def _mounts_say(kind: str, path: Path) -> Iterator[_Warnings]:
    """Let the list of mounts name *kind* for the device that *path* is on; listen to warnings."""
    device = path.stat().st_dev
    line = f"36 35 {os.major(device)}:{os.minor(device)} / /mnt rw shared:1 - {kind} srv:/x rw\n"
    logger = logging.getLogger("turnlog.storage")
    warnings = _Warnings()
    logger.addHandler(warnings)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    locks.open = lambda *_args, **_options: io.StringIO(line)  # type: ignore[attr-defined]
    try:
        yield warnings
    finally:
        del locks.open  # type: ignore[attr-defined]
        logger.removeHandler(warnings)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def _faked(arena: Arena) -> Tally:
    tally = Tally("network: mounts faked")
    with arena.directory("network") as directory:
        path = directory / "log.jsonl"
        for kind in (*_REFUSED, *_FLAGGED, *_TAKEN):
            path.write_bytes(_OLD + b"\n")
            tally.runs += 1
            with tally.guarded(kind), _mounts_say(kind, directory) as warnings:
                try:
                    with LogWriter(path) as log:
                        log.append(made("new", 0))
                        tally.acknowledged += 1
                    if kind in _REFUSED:
                        tally.violate(f"{kind} was not refused")
                    judge(tally, kind, read(path), [_OLD, _NEW], [_OLD, _NEW])
                except UnsafeFilesystem:
                    if kind not in _REFUSED:
                        tally.violate(f"{kind} was refused")
                    _insist(tally, kind, path)
                if bool(warnings.heard) == (kind in _TAKEN):
                    tally.violate(f"{kind}: {warnings.heard} warnings")
    return tally


def _insist(tally: Tally, kind: str, path: Path) -> None:
    if path.read_bytes() != _OLD + b"\n":
        tally.violate(f"{kind} was refused after something was written")
    with LogWriter(path, allow_network_filesystem=True) as log:
        log.append(made("new", 0))
        tally.acknowledged += 1
    judge(tally, kind, read(path), [_OLD, _NEW], [_OLD, _NEW])


def _real_fuse(arena: Arena) -> Tally:
    tally = Tally("network: real FUSE")
    if not os.path.exists("/dev/fuse"):
        return tally.skip("no /dev/fuse")
    if importlib.util.find_spec("mfusepy") is None:
        return tally.skip("mfusepy is not installed")
    if not is_root():
        return tally.skip("needs root")
    with arena.directory("fuse") as directory:
        below, mount = directory / "below", directory / "mount"
        below.mkdir()
        mount.mkdir()
        server = subprocess.Popen([sys.executable, "-c", _LOOPBACK, str(below), str(mount)])
        try:
            for _ in range(100):
                if os.path.ismount(mount):
                    break
                time.sleep(0.1)
            else:
                return tally.skip("the FUSE mount did not come up")
            tally.runs += 1
            with tally.guarded("FUSE"), LogWriter(mount / "log.jsonl") as log:
                log.append(made("new", 0))
                tally.acknowledged += 1
                judge(tally, "FUSE", read(mount / "log.jsonl"), [_NEW], [_NEW])
        finally:
            command("umount", str(mount))
            server.terminate()
            server.wait()
    return tally
