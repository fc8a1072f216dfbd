"""List directories without exceptions or endless loops.

A listing is sorted. Nothing on disk raises: what cannot be read becomes a Problem. A real directory
is entered once per walk however many links lead to it, so links cannot make a walk endless or count
a log twice.

A place that cannot be read becomes an UnreadablePlace: its contents are unknown, not gone. Code
that deletes files calls `refuse_unreadable` with the problems of its scan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from turnlog.errors import UnreadableHome

ItemKind: TypeAlias = Literal["file", "directory", "other", "broken"]


class Problem(Struct, frozen=True):
    """Something on disk that could not be read, and why."""

    path: Path
    reason: str


class UnreadablePlace(Problem, frozen=True):
    """A place whose contents are unknown because it could not be read."""


def refuse_unreadable(problems: Iterable[Problem]) -> None:
    """Raise UnreadableHome if one of *problems* is a place that could not be read."""
    unseen = [each for each in problems if isinstance(each, UnreadablePlace)]
    if unseen:
        first, more = unseen[0], len(unseen) - 1
        raise UnreadableHome(
            f"cannot read {first.path}: {first.reason}" + (f" (and {more:,} more)" if more else ""),
            path=first.path,
            hint="nothing was removed: what cannot be read may not be gone;"
            " grant access to it, or mount its volume, and try again",
        )


def is_gone(path: str | os.PathLike[str]) -> bool:
    """Return whether nothing exists at *path*; what cannot be accessed may exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


class Item(NamedTuple):
    """One name in a directory. *kind* is that of the target, if it is a link.

    *real* is its real path; *why* is the reason if it is "other" or "broken".
    """

    path: str
    name: str
    kind: ItemKind
    linked: bool
    real: str
    why: str = ""


class DirectoryWalk:
    """A walk over one or more trees, which remembers visited directories and problems."""

    __slots__ = ("_entered", "problems", "times")

    def __init__(
        self, problems: list[Problem] | None = None, times: dict[str, int] | None = None
    ) -> None:
        self.problems: list[Problem] = [] if problems is None else problems
        self.times = times
        """If given, collects each directory's mtime in ns, from before it was listed."""
        self._entered: set[str] = set()

    def note(self, path: str, reason: str) -> None:
        self.problems.append(Problem(Path(path), reason))

    def note_unreadable(self, path: str, reason: str) -> None:
        """Add a place that could not be read."""
        self.problems.append(UnreadablePlace(Path(path), reason))

    def enter(self, path: str, real: str = "", *, expected: bool = False) -> list[Item]:
        """Return the entries of a directory; none if it was entered before or is gone.

        A directory that vanishes during a walk is not a problem, unless it was *expected*. *real*
        is its real path if known: resolving it takes a call for every level.
        """
        real = real or os.path.realpath(path)
        if real in self._entered:
            return []
        self._entered.add(real)
        items: list[Item] = []
        try:
            if self.times is not None:
                self.times[path] = os.stat(path).st_mtime_ns
            with os.scandir(path) as listing:
                within = os.path.join(real, "")
                # One by one, so that a failure halfway keeps what was already listed.
                items.extend(_item(found, within) for found in listing)
        except FileNotFoundError as error:
            if expected:
                self.note(path, reason_of(error))
        except NotADirectoryError as error:
            self.note(path, reason_of(error))
        except OSError as error:
            self.note_unreadable(path, reason_of(error))
        items.sort(key=attrgetter("name"))
        return items

    def files_beneath(self, path: str) -> Iterator[Item]:
        """Return the regular files of a tree, each directory's before those of its children.

        Links to directories are not followed.
        """
        waiting = [(path, "")]
        while waiting:
            items = self.enter(*waiting.pop())
            yield from (item for item in items if item.kind == "file")
            inner = (each for each in reversed(items) if each.kind == "directory")
            waiting.extend((each.path, each.real) for each in inner if not each.linked)

    def matching(self, top: str, pattern: str, suffix: str = "") -> Iterator[tuple[str, Item]]:
        """Return the name and entry of each file below *top* that matches *pattern*.

        A "*" is a whole directory's name, or the beginning of a file's. The names of kept copies
        also end in a *suffix*.
        """
        *parts, last = pattern.split("/")
        found = [("", top)]
        for part in parts:
            if part != "*":
                found = [(f"{name}{part}/", os.path.join(path, part)) for name, path in found]
                continue
            entered = [(name, self.enter(path)) for name, path in found]
            found = [
                (f"{name}{item.name}/", item.path)
                for name, items in entered
                for item in items
                if item.kind == "directory"
            ]
        ending = last.removeprefix("*") + suffix
        for name, path in found:
            file = os.path.join(path, ending)
            if last.startswith("*"):
                items = [item for item in self.enter(path) if item.name.endswith(ending)]
            else:
                items = [Item(file, ending, "file", linked=False, real=file)]
                items = items if os.path.isfile(file) else []
            yield from ((name + item.name.removesuffix(suffix), item) for item in items)


def _item(found: os.DirEntry[str], within: str) -> Item:
    """Return one entry; *within* is the real path of its directory, with a separator."""
    path, name = found.path, found.name
    real = within + name
    linked = False
    try:
        linked = found.is_symlink()
        if linked:
            real = os.path.realpath(path)
        if found.is_dir():
            return Item(path, name, "directory", linked, real)
        if found.is_file():
            return Item(path, name, "file", linked, real)
        mode = found.stat().st_mode
    except FileNotFoundError:
        why = "a link to something that is gone" if linked else "gone"
        return Item(path, name, "broken", linked, real, why)
    except OSError as error:
        return Item(path, name, "broken", linked, real, reason_of(error))
    return Item(path, name, "other", linked, real, f"{_what(mode)}, not a log")


def _what(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        return "a device"
    return "something other than a regular file"


def reason_of(error: OSError) -> str:
    """Return the system's message for an error."""
    # Without the path, which the caller prints as well.
    return (error.strerror or type(error).__name__).lower()
