"""A disk that may forget everything it was not told to sync: all it can look like after a cut.

Pessimistic, as POSIX allows: unsynced bytes may be missing, be zero, be old or be new, sector by
sector; a file may have grown before its data came; a name lives in its directory and is there for
certain only after that directory was synced.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from .events import Event

SECTOR = 512
_ALL_SUBSETS = 4


class File:
    """The bytes of one file: what is on disk for certain, and every version since."""

    def __init__(self, content: bytes = b"") -> None:
        self.versions = [content]

    @property
    def now(self) -> bytes:
        return self.versions[-1]

    def cuts(self) -> Iterator[bytes]:
        """All that an append can leave: cut anywhere, zeros for its end, zeros for its start."""
        yield from self.versions
        durable, now = self.versions[0], self.now
        for other in self.versions[1:]:
            if not other.startswith(durable):
                continue
            for cut in range(len(durable), len(other)):
                yield other[:cut]
                yield other[:cut] + bytes(len(other) - cut)
                yield durable + bytes(cut - len(durable)) + other[cut:]
            yield from self._dropped(durable, now)

    def _dropped(self, durable: bytes, now: bytes) -> Iterator[bytes]:
        """Whole writes missing from the middle."""
        ends = sorted({len(version) for version in self.versions if len(version) > len(durable)})
        for begin, end in combinations([len(durable), *ends], 2):
            yield now[:begin] + bytes(max(0, min(end, len(now)) - begin)) + now[end:]

    def mixed(self, rng: random.Random) -> bytes:
        """One of the many: every sector of any version, any size the file had or grew through."""
        durable = self.versions[0]
        sizes = sorted({len(version) for version in self.versions})
        size = rng.choice(sizes) if rng.random() < 0.6 else rng.randint(sizes[0], sizes[-1])
        image = bytearray()
        kind = rng.random()
        for start in range(0, size, SECTOR):
            end = min(start + SECTOR, size)
            version = rng.choice(self.versions)
            sector = version[start:end]
            if kind < 0.2 and end > len(durable) and rng.random() < 0.3:
                # A sector that was never written may hold anything.
                kept = durable[start:end]
                sector = kept + rng.randbytes(end - start - len(kept))
            image += sector + bytes(end - start - len(sector))
        return bytes(image)


class Disk:
    """Files and names below one directory, driven by recorded events."""

    def __init__(self, files: dict[str, bytes], directories: list[str]) -> None:
        self._names: dict[str, File | None] = {path: File(data) for path, data in files.items()}
        self._names |= dict.fromkeys(directories)
        self._now = dict(self._names)
        self._pending: list[Event] = []
        self._made: dict[str, File] = {}

    @classmethod
    def of(cls, root: Path) -> Disk:
        """A disk on which everything below *root* is safe."""
        root = root.resolve()
        files = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        directories = [str(path) for path in (root, *root.rglob("*")) if path.is_dir()]
        return cls(files, directories)

    def apply(self, event: Event) -> None:
        if event.kind == "write":
            file = self._file(event.path)
            file.versions.append(file.now + event.data)
        elif event.kind == "truncate":
            file = self._file(event.path)
            file.versions.append(file.now[: event.data].ljust(event.data, b"\0"))
        elif event.kind == "sync" and self._now.get(event.path) is not None:
            file = self._file(event.path)
            file.versions = [file.now]
        elif event.kind == "sync":
            self._sync_directory(event.path)
        elif event.kind in ("make", "mkdir", "rename", "unlink"):
            if event.kind == "make" and event.path in self._now:
                return
            event = Event(event.kind, event.path, event.data or File())
            self._pending.append(event)
            _rename(self._now, event)

    def views(self, log: str) -> Iterator[File | None]:
        """Every file that *log* may name after a cut; None where it may not be there."""
        seen: list[File | None] = []
        for names in self._possible_names():
            parents = Path(log).parents
            reachable = all(str(parent) in names for parent in parents if self._knows(parent))
            file = names.get(log) if reachable else None
            if not any(file is other for other in seen):
                seen.append(file)
                yield file

    def _knows(self, parent: Path) -> bool:
        return str(parent) in self._now

    def _possible_names(self) -> Iterator[dict[str, File | None]]:
        count = len(self._pending)
        for kept in range(count, -1, -1):
            subsets = combinations(range(count), kept) if count <= _ALL_SUBSETS else [range(kept)]
            for subset in subsets:
                names = dict(self._names)
                for number in subset:
                    _rename(names, self._pending[number])
                yield names

    def _sync_directory(self, directory: str) -> None:
        rest = []
        for event in self._pending:
            if os.path.dirname(event.path) == directory:
                _rename(self._names, event)
            else:
                rest.append(event)
        self._pending = rest

    def _file(self, path: str) -> File:
        file = self._now[path]
        assert file is not None
        return file


def _rename(names: dict[str, File | None], event: Event) -> None:
    if event.kind == "mkdir":
        names[event.path] = None
    elif event.kind == "make":
        names[event.path] = event.data
    elif event.kind == "unlink":
        names.pop(event.path, None)
    elif event.path in names:
        names[event.data] = names.pop(event.path)
