"""The environment of a session: its directory's git state, and its process.

All of it is read from files, never by running a program: creating a session takes microseconds, and
git may not be installed. What cannot be read is None.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from msgspec import Struct

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def git_directory(cwd: Path) -> Path | None:
    """Return the git directory of *cwd*; a worktree's is named by a file."""
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
    """Return the branch checked out in *cwd*."""
    head = _head(cwd)
    return head[1].removeprefix("refs/heads/") if head and head[1].startswith("refs/") else None


def git_commit(cwd: Path) -> str | None:
    """Return the commit checked out in *cwd*."""
    head = _head(cwd)
    if head is None:
        return None
    directory, target = head
    if not target.startswith("refs/"):
        return target or None
    named = _read(directory / "commondir")
    common = (directory / named).resolve() if named else directory
    for place in (directory, common):
        found = _read(place / target)
        if found:
            return found
    for row in _read(common / "packed-refs").splitlines():
        commit, _, name = row.partition(" ")
        if name == target:
            return commit
    return None


class Process(Struct, frozen=True, omit_defaults=True):
    """A process, distinguishable from a later one with the same pid."""

    pid: int
    started: str
    boot: str
    namespace: str = ""
    """The PID namespace of the pid; empty if unknown."""
    host: str = ""

    @property
    def is_alive(self) -> bool | None:
        """Whether it is running; None if that cannot be seen from here.

        That is the case for another machine, or another container.
        """
        here = _this_place()
        if self.boot != here.boot or (not self.boot and self.host != here.host):
            return None if self.host not in ("", here.host) else False
        if self.namespace in ("", here.namespace):
            found = process(self.pid)
            return found is not None and found.started in ("", self.started)
        if any(_processes_below(self.pid, self.started)):
            return True
        return False if here.sees_all else None


def process(pid: int | None = None) -> Process | None:
    """Return a running process, by default this one; None if it does not exist.

    Pids are reused: the start time and the boot id identify a process, and each container has its
    own pids. Without /proc, only the pid and the host are known.
    """
    number = os.getpid() if pid is None else pid
    here = _this_place()
    if number == os.getpid():
        entry = "self"
    elif here.has_own_proc:
        entry = str(number)
    else:  # /proc is that of an outer namespace, with other pids.
        entry = next(_processes_below(number), "")
    stat = _stat(entry)
    if stat:
        state, *rest = stat
        if state in "ZX":  # Dead, but not yet reaped.
            return None
        return Process(number, rest[18], here.boot, here.namespace, here.host)
    try:
        os.kill(number, 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return None
    except PermissionError:
        pass
    return Process(number, "", here.boot, here.namespace, here.host)


class _Machine(Struct, frozen=True):
    """What distinguishes this machine or container from others."""

    boot: str
    namespace: str
    host: str
    has_own_proc: bool
    sees_all: bool


@cache
def _this_place() -> _Machine:
    namespace = _link("/proc/self/ns/pid")
    return _Machine(
        boot=_read(Path("/proc/sys/kernel/random/boot_id")),
        namespace=namespace,
        host=os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", ""),
        has_own_proc=_link("/proc/self") == str(os.getpid()),
        # The first namespace sees all processes, unless /proc hides those of other users.
        sees_all=namespace == "pid:[4026531836]" and bool(_stat("1")),
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_this_place.cache_clear)


def _processes_below(pid: int, started: str | None = None) -> Iterator[str]:
    """Return the /proc entries of processes with *pid* in a namespace of their own."""
    try:
        entries = [each for each in os.listdir("/proc") if each.isdecimal()]
    except OSError:
        return
    for entry in entries:
        stat = _stat(entry)
        if not stat or stat[0] in "ZX" or started not in (None, stat[19]):
            continue
        numbers = re.search(r"^NSpid:(.*)$", _read(Path(f"/proc/{entry}/status")), re.MULTILINE)
        if numbers and numbers[1].split()[-1:] == [str(pid)]:
            yield entry


def _stat(entry: str) -> list[str]:
    """Return the fields of /proc/ENTRY/stat from the state on; the start time is field 22 overall.

    The name before them, in brackets, may contain anything.
    """
    return _read(Path(f"/proc/{entry}/stat")).rpartition(")")[2].split() if entry else []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _head(cwd: Path) -> tuple[Path, str] | None:
    # A Windows path is not absolute here: its parents would be those of the current directory.
    directory = git_directory(cwd) if cwd.is_absolute() else None
    if directory is None:
        return None
    head = _read(directory / "HEAD")
    return (directory, head.removeprefix("ref:").strip()) if head else None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
