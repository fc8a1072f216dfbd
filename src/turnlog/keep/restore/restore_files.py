"""Restore files: check all of them first, then write all.

Every copy is compared with its digests, and every target with the existing file, before the first
file is written. Each is written to a temporary file, synced, renamed only if the name is free, and
read back. No symbolic link is followed inside the home.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from turnlog.errors import BrokenCopy, LogError, TurnlogError, UsageError, WriteFailed
from turnlog.formats.home_files import log_in
from turnlog.keep.catalog import KeptFile
from turnlog.keep.copies.copy_file import HOUR, sweep
from turnlog.keep.copies.reader import Copy, content, describe_copy, readable_parts
from turnlog.keep.copies.shortfall import Contents, carried_over
from turnlog.keep.restore.relocate import Move, Relocation, shape_of
from turnlog.storage.atomic_files import Folder, failure, make_directory, pieces, put
from turnlog.storage.reader import Reader
from turnlog.storage.replace import locked
from turnlog.storage.sources import PlainSource
from turnlog.storage.writer import LOCK_TIMEOUT

Advance = Callable[[int], None]
"""Called with the number of bytes processed."""

_SHOWN: Final = 5
_AGAIN: Final = "fix that and run it again: files that exist already stay"


class RestoreOutcome(StrEnum):
    """The outcome for a file."""

    WRITTEN = "written"
    THERE = "there"  # The same file exists.
    NEWER = "newer"  # The log exists and has grown since it was kept.
    LEFT = "left"  # A different file exists that several sessions share.
    REPLACED = "replaced"  # A log that lost records was renamed and replaced by its copy.
    BROKEN = "broken"  # Its copy is damaged; the rest was restored anyway.


class RestoredFile(Struct, kw_only=True):
    """A file of a session. *name* is its path in the home, with "/" between the parts."""

    name: str
    outcome: RestoreOutcome
    size_bytes: int
    generation: int
    detail: str | None = None
    aside: str | None = None
    """The path of the log that was replaced."""
    carried: int = 0
    """Records that were only in that log and were appended to the copy."""


class FileRestore(Struct):
    """A file to restore: from which copy, to which name, and its contents there."""

    copy: Copy
    target: str
    move: Move | None = None
    is_main: bool = False
    is_shared: bool = False
    may_replace: bool = False
    """Whether an existing log that lost records is replaced."""
    kept: KeptFile | None = None
    """The copy's contents; None if only parts of it can be read."""
    size_bytes: int = 0
    digest: bytes = b""
    outcome: RestoreOutcome = RestoreOutcome.WRITTEN
    detail: str | None = None
    moved: int = 0
    elsewhere: int = 0
    aside: str | None = None
    carried: int = 0

    def copied(self) -> Iterator[bytes]:
        """Yield the copy's contents."""
        if self.kept is None:
            return readable_parts(self.copy.path)
        return content(self.copy, self.kept)

    def wanted(self) -> Iterator[bytes]:
        """Yield the contents the file must have."""
        if self.move is None:
            yield from self.copied()
            return
        moving = Relocation(self.move)
        yield from moving.lines(self.copied())
        self.moved, self.elsewhere = moving.changed, moving.elsewhere


class SessionRestore:
    """One restore: everything is checked, then everything is written."""

    def __init__(
        self, home: Path, parts: list[FileRestore], *, partial: bool, advance: Advance | None
    ) -> None:
        self._home = home
        self._partial = partial
        self._advance = advance or (lambda _done: None)
        self.parts = sorted(parts, key=lambda part: (_rank(part), part.target))

    def look(self, what: str) -> None:
        """Compare every copy with its digests, and every target with the existing file."""
        in_the_way: list[str] = []
        for part in self.parts:
            try:
                self._look(part)
            except BrokenCopy as error:
                if not (self._partial or part.is_shared):
                    error.hint = "verify the copies; partial=True restores the rest"
                    error.code = "broken-copy"
                    raise
                part.outcome, part.detail = RestoreOutcome.BROKEN, error.message
            except _InTheWay as error:
                if part.is_shared:
                    part.outcome, part.detail = RestoreOutcome.LEFT, str(error)
                elif part.may_replace and error.is_comparable:
                    with Reader(part.copy.path) as kept, Reader(self._path(part)) as log:
                        is_less = Contents.of(kept).missing_in(Contents.of(log))
                    part.outcome = RestoreOutcome.REPLACED if is_less else RestoreOutcome.NEWER
                    if is_less and (found := log_in(part.target)) is not None:
                        found[0].refuse_rewriting(self._path(part))
                else:
                    in_the_way.append(f"{self._path(part)} {error}")
            self._advance(part.size_bytes)
        taken = Counter(
            part.target for part in self.parts if part.outcome is not RestoreOutcome.BROKEN
        )
        in_the_way += [f"{name} would be written twice" for name in taken if taken[name] > 1]
        if in_the_way:
            more = len(in_the_way) - _SHOWN
            raise UsageError(
                f"{what} was not restored: {'; '.join(in_the_way[:_SHOWN])}"
                + (f"; and {more} more" if more > 0 else ""),
                hint="nothing was written; restore it elsewhere, or replace the logs that hold less"
                " than was kept",
                code="file-differs",
            )

    def write(self) -> None:
        """Write what does not exist, the main logs last."""
        sweep({self._path(part).parent for part in self.parts}, unused_for=HOUR)
        todo = [part for part in self.parts if part.outcome is RestoreOutcome.WRITTEN]
        injured = [part for part in self.parts if part.outcome is RestoreOutcome.REPLACED]
        if not (todo or injured):
            return
        try:
            make_directory(self._home)
        except OSError as error:
            raise _failed(error, self._home) from None
        for part in todo:
            while part.outcome is RestoreOutcome.WRITTEN and not self._put(part):
                self._appeared(part)
        for part in injured:
            self._replace(part)

    @property
    def wrote_main(self) -> bool:
        """Whether a main log was written."""
        done = {RestoreOutcome.WRITTEN, RestoreOutcome.REPLACED}
        return any(part.is_main and part.outcome in done for part in self.parts)

    def _look(self, part: FileRestore) -> None:
        existing = self._existing(part)
        try:
            self._find_out(part)
            if existing is not None and not part.may_replace and _is_unchanged(existing, part):
                part.outcome = RestoreOutcome.THERE
                return
            _compare(part, existing)
        finally:
            if existing is not None:
                existing.close()
        if part.move is not None and shape_of(part.wanted()) != shape_of(part.copied()):
            raise WriteFailed(
                f"moving {part.copy.name} would have changed its threads",
                path=part.copy.path,
                hint="nothing was written; please report this",
            )

    def _replace(self, part: FileRestore) -> None:
        """Rename an injured log, and write its copy with what was appended since."""
        path = self._path(part)
        with Reader(part.copy.path) as kept:
            known = Contents.of(kept)
        try:
            with locked(path, LOCK_TIMEOUT, "replaced") as held:
                end = held.size_bytes
                with Reader(path, source=PlainSource(os.dup(held.fd), 0, end=end)) as injured:
                    more = [record.raw for record in carried_over(injured, known)]
                new = self._with_more(part, more)
                os.close(held.make_fresh(new, "the restored copy of", is_as_old=False))
                held.keep_original()
                held.take_place()
        except OSError as error:
            raise _failed(error, path) from None
        part.aside, part.carried = str(held.original), len(more)

    def _with_more(self, part: FileRestore, more: list[bytes]) -> Iterator[bytes]:
        """Yield the bytes of a file, and the additional lines."""
        last = b"\n"
        for data in self._proven(part):
            yield data
            last = data[-1:] or last
        if more:
            yield b"".join(line + b"\n" for line in (*([] if last == b"\n" else [b""]), *more))

    def _find_out(self, part: FileRestore) -> None:
        """Determine what the copy holds, or what is left of it."""
        try:
            part.kept = describe_copy(part.copy)
            part.size_bytes = part.kept.size_bytes
            if self._partial:
                for _ in content(part.copy, part.kept):
                    pass
        except BrokenCopy as error:
            log = log_in(part.copy.name)
            is_left = log is not None and log[0].may_rewrite and part.copy.path.is_file()
            if not (self._partial and is_left):
                raise
            part.kept, part.detail = None, f"what is left of it: {error.message}"

    def _existing(self, part: FileRestore) -> BinaryIO | None:
        """Open the existing file; None if there is none."""
        *above, name = part.target.split("/")
        try:
            with Folder.beneath(self._home, above, make=False) as folder:
                if folder.status(name) is None:
                    return None
                return os.fdopen(folder.read(name), "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = f"cannot be compared: {error.strerror or error}".lower()
            raise _InTheWay(reason, is_comparable=False) from None

    def _put(self, part: FileRestore) -> bool:
        """Write a file and read it back; return False if its name was taken meanwhile."""
        try:
            put(self._home, part.target.split("/"), self._proven(part), overwrite=False)
        except FileExistsError:
            return False
        except TurnlogError:
            raise
        except OSError as error:
            raise _failed(error, self._path(part)) from None
        self._read_back(part)
        return True

    def _proven(self, part: FileRestore) -> Iterator[bytes]:
        """Yield the bytes of a file; raise if they are not those that were checked."""
        digest = sha256()
        for data in part.wanted():
            digest.update(data)
            yield data
        if digest.digest() != part.digest:
            raise BrokenCopy(
                f"{part.copy.path} changed while it was restored",
                path=part.copy.path,
                hint=_AGAIN,
            )

    def _appeared(self, part: FileRestore) -> None:
        """Another process was faster: check what exists now."""
        try:
            self._look(part)
        except _InTheWay as error:
            if not part.is_shared:
                raise UsageError(
                    f"{self._path(part)} {error}; it was not there a moment ago", hint=_AGAIN
                ) from None
            part.outcome, part.detail = RestoreOutcome.LEFT, str(error)

    def _read_back(self, part: FileRestore) -> None:
        *above, name = part.target.split("/")
        digest = sha256()
        try:
            with (
                Folder.beneath(self._home, above, make=False) as folder,
                os.fdopen(folder.read(name), "rb") as file,
            ):
                for data in pieces(file):
                    digest.update(data)
                    self._advance(len(data))
                is_same = digest.digest() == part.digest
                # It is ours, and has had its name only for a moment.
                if not is_same and os.fstat(file.fileno()).st_size == part.size_bytes:
                    folder.remove(name)
        except OSError as error:
            raise _failed(error, self._path(part)) from None
        if not is_same:
            raise WriteFailed(
                f"{self._path(part)} does not read back as it was written",
                path=self._path(part),
                hint="the disk may be failing; the kept copy is as it was",
            )

    def _path(self, part: FileRestore) -> Path:
        return self._home.joinpath(*part.target.split("/"))


class _InTheWay(Exception):
    """A different file exists at the target."""

    def __init__(self, reason: str, *, is_comparable: bool = True) -> None:
        super().__init__(reason)
        self.is_comparable = is_comparable


def _compare(part: FileRestore, existing: BinaryIO | None) -> None:
    """Compare the wanted contents of a file with the existing ones; note the former."""
    digest = sha256()
    size = 0
    differs = ended = False
    for data in part.wanted():
        digest.update(data)
        size += len(data)
        if existing is not None and not (differs or ended):
            there = existing.read(len(data))
            differs = not data.startswith(there)
            ended = len(there) < len(data)
    part.digest, part.size_bytes = digest.digest(), size
    if existing is None:
        part.outcome = RestoreOutcome.WRITTEN
        return
    more = bool(existing.read(1))
    if differs:
        raise _InTheWay("is another file")
    if ended:
        raise _InTheWay("holds less than was kept of it")
    if more and (log := log_in(part.target)) is not None and log[1].compression is None:
        part.outcome = RestoreOutcome.NEWER
    elif more:
        raise _InTheWay("is another file, which begins alike")
    else:
        part.outcome = RestoreOutcome.THERE


def _is_unchanged(existing: BinaryIO, part: FileRestore) -> bool:
    """Return whether the file is the one that was kept, by size and mtime."""
    if part.kept is None or part.move is not None or not part.kept.mtime_ns:
        return False
    status = os.fstat(existing.fileno())
    return (status.st_size, status.st_mtime_ns) == (part.kept.size_bytes, part.kept.mtime_ns)


def _rank(part: FileRestore) -> int:
    """Sort key: side files, then subagents' logs, then main logs."""
    return 2 if part.is_main else 1 if log_in(part.target) is not None else 0


def restore_message(part: FileRestore) -> RestoredFile:
    return RestoredFile(
        name=part.target,
        outcome=part.outcome,
        size_bytes=part.size_bytes,
        generation=part.copy.generation,
        detail=part.detail,
        aside=part.aside,
        carried=part.carried,
    )


def _failed(error: OSError, path: Path) -> LogError:
    failed = error if isinstance(error, LogError) else failure(error, path)
    failed.hint = _AGAIN
    return failed
