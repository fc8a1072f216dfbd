"""Where a session works, when, and who writes it: the directory, its git state, this process.

Read from files, never by running a program: a session is created in microseconds, and git may not
be there. What cannot be read is None.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def git_directory(cwd: Path) -> Path | None:
    """Find the git directory that *cwd* belongs to; a worktree's is named by a file."""
    for directory in (cwd, *cwd.parents):
        dot_git = directory / ".git"
        try:
            if dot_git.is_dir():
                return dot_git
            if dot_git.is_file():
                named = dot_git.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
                return (directory / named).resolve()
        except OSError:
            return None
    return None


def git_branch(cwd: Path) -> str | None:
    """Name the branch that *cwd* has checked out."""
    head = _head(cwd)
    return head[1].removeprefix("refs/heads/") if head and head[1].startswith("refs/") else None


def git_commit(cwd: Path) -> str | None:
    """Name the commit that *cwd* has checked out."""
    head = _head(cwd)
    if head is None:
        return None
    directory, target = head
    if not target.startswith("refs/"):
        return target or None
    common = _common(directory)
    for place in (directory, common):
        found = _read(place / target)
        if found:
            return found
    for row in _read(common / "packed-refs").splitlines():
        commit, _, name = row.partition(" ")
        if name == target:
            return commit
    return None


class Process(Struct, frozen=True):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str
    boot: str

    @property
    def is_alive(self) -> bool:
        return self == process(self.pid)


def process(pid: int | None = None) -> Process | None:
    """Describe a running process, by default this one; None if there is no such process.

    Process numbers are used again: the moment it started and the boot it started in tell two apart.
    Where the system does not say (no /proc), only the number is known.
    """
    number = os.getpid() if pid is None else pid
    boot = _read(Path("/proc/sys/kernel/random/boot_id"))
    stat = _read(Path(f"/proc/{number}/stat"))
    if stat:
        # The name, in brackets, may hold anything; the start time is field 22 of the whole.
        state, *rest = stat.rpartition(")")[2].split()
        if state in "ZX":  # Dead; only nobody has waited for it yet.
            return None
        return Process(number, rest[18], boot)
    if boot:
        return None
    try:
        os.kill(number, 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return None
    except PermissionError:
        pass
    return Process(number, "", "")


def _head(cwd: Path) -> tuple[Path, str] | None:
    directory = git_directory(cwd)
    if directory is None:
        return None
    head = _read(directory / "HEAD")
    return (directory, head.removeprefix("ref:").strip()) if head else None


def _common(directory: Path) -> Path:
    named = _read(directory / "commondir")
    return (directory / named).resolve() if named else directory


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
