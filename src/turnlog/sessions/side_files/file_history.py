"""File history: the files a session touched, and their versions at each of its messages.

A home keeps versions of edited files as ``file-history/SESSION/HASH@vN`` (a flat store: in
``snapshots/``); the records say which version was current when a message was sent. A session's
files come from both, and from its edits where no version was kept. A kept version that is missing,
is a link or has an unsafe name is listed with its *problem*.

"At a message" means when its prompt was sent, before anything was done about it. For a record in
the middle of a turn that is the turn's own prompt, found through its parents.

Restoring writes private files under a directory given by the caller: no file is overwritten unless
*overwrite* is true, nothing is written outside whatever a log calls its files, and each file is
written atomically. What cannot be restored is reported among the results; only a full disk raises.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import NotFound, UsageError
from turnlog.formats import Problem
from turnlog.formats.home_files import file_history
from turnlog.formats.walk import DirectoryWalk, Item
from turnlog.records.dates import instant
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.file_changes import (
    Edit,
    FileTraces,
    Kept,
    Snapshot,
    number_of,
    safe_parts,
    shown_path,
    whole_path,
)
from turnlog.storage import atomic_files

_SHOWN: Final = 5
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Version(Struct, frozen=True, kw_only=True):
    """One kept version of a file, as it was when *messages* were sent.

    *name* is None if the file did not exist, *path* if there is nothing to read.
    """

    number: int | None
    name: str | None
    is_absent: bool = False
    kept_at: datetime | None = None
    messages: tuple[str, ...] = ()
    path: str | None = None
    size_bytes: int | None = None
    problem: str | None = None


class TouchedFile(Struct, frozen=True, kw_only=True):
    """A file that a session touched: its kept versions, oldest first, and its edits."""

    path: str
    shown: str
    """The path for display: relative to the project, if it is inside."""
    versions: tuple[Version, ...]
    edits: tuple[Edit, ...]


class FileAt(Struct, frozen=True, kw_only=True):
    """The version of a file at a message.

    *is_inferred*: it was not tracked yet; its first tracked version is assumed.
    """

    file: TouchedFile
    version: Version
    is_inferred: bool = False


class SessionFiles:
    """The files of one session. *strays* are kept versions that no record mentions."""

    def __init__(
        self, traces: FileTraces, items: Iterable[Item] = (), problems: Iterable[Problem] = ()
    ) -> None:
        self.project = traces.project
        self.problems = tuple(problems)
        self._traces = traces
        self._snapshots = {
            message: {whole_path(path, self.project): kept for path, kept in found.files.items()}
            for message, found in traces.snapshots.items()
        }
        self._items = {item.name: item for item in reversed(list(items))}
        self._names: dict[str, list[str]] = {}
        for name in self._items:
            if (pair := number_of(name)) is not None:
                self._names.setdefault(pair[0], []).append(name)
        self.files = {file.path: file for file in self._files()}
        named = {version.name for file in self.files.values() for version in file.versions}
        self.strays = tuple(
            self._version(Kept(name=name, number=(number_of(name) or ("", None))[1]), ())
            for name in sorted(self._items)
            if name not in named
        )

    @classmethod
    def of(cls, session: Session) -> SessionFiles:
        """Read the session's logs and the versions that its homes keep."""
        traces = FileTraces()
        problems: list[Problem] = []
        walk = DirectoryWalk(problems)
        for log in session.read_logs:
            for item in session.read(log):
                traces.see(item.record, log.agent_id)
        homes = dict.fromkeys(log.home for log in session.logs)
        items = [item for home in homes for item in file_history(home, session.id, walk)]
        return cls(traces, items, problems)

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages at which versions were kept, in log order."""
        return tuple(self._snapshots)

    @property
    def odd(self) -> int:
        """The number of snapshot records of an unexpected shape."""
        return self._traces.odd

    def taken_at(self, message: str) -> datetime | None:
        """Return when the snapshot of *message* was taken."""
        found = self._traces.snapshots.get(message)
        return found.taken_at if found else None

    def find(self, text: str) -> TouchedFile:
        """Return a file by its path, absolute or relative to the project, or by the end of it."""
        wanted = whole_path(text, self.project)
        if wanted in self.files:
            return self.files[wanted]
        ends = ("/" + text, "\\" + text)
        found = [file for file in self.files.values() if file.path.endswith(ends)]
        if len(found) == 1:
            return found[0]
        if not found:
            hint = "turnlog files SESSION lists the files"
            raise NotFound(f"the session touched no file called {text[:200]!r}", hint=hint)
        names = ", ".join(file.shown for file in found[:_SHOWN])
        raise UsageError(
            f"{text[:200]!r} names {len(found)} files: {names}", hint="give more of it"
        )

    def at(self, message: str) -> tuple[FileAt, ...]:
        """Return every file that has kept versions as it was when *message* was sent.

        *message* is a prefix of a record's uuid or of a message with kept versions.
        """
        wanted = self._snapshot_of(self._resolve(message))
        found = (self._file_at(file, wanted) for file in self.files.values() if file.versions)
        return tuple(each for each in found if each is not None)

    def version_at(self, file: TouchedFile, at: str | None) -> FileAt | None:
        """Return one file as it was *at* a message, or its version ``vN``, or its newest one."""
        if not file.versions:
            return None
        if at is None:
            return FileAt(file=file, version=file.versions[-1])
        if re.fullmatch(r"v[0-9]{1,9}", at):
            found = [each for each in file.versions if each.number == int(at[1:])]
            if not found:
                hint = f"turnlog files SESSION {file.shown} lists them"
                raise NotFound(f"no version {at[1:]} of {file.shown!r} was kept", hint=hint)
            return FileAt(file=file, version=found[-1])
        return self._file_at(file, self._snapshot_of(self._resolve(at)))

    def newest(self) -> tuple[FileAt, ...]:
        """Return the newest kept version of every file."""
        return tuple(
            FileAt(file=file, version=file.versions[-1])
            for file in self.files.values()
            if file.versions
        )

    def _resolve(self, text: str) -> str:
        known = self._snapshots.keys() | self._traces.parents.keys()
        if text in known:
            return text
        found = sorted(each for each in known if text and each.startswith(text))
        if len(found) == 1:
            return found[0]
        if not found:
            hint = "give the beginning of a record's uuid; turnlog files SESSION --json lists some"
            raise NotFound(f"no message of the session begins with {text[:80]!r}", hint=hint)
        names = ", ".join(found[:_SHOWN])
        raise UsageError(f"{text!r} begins {len(found)} messages: {names}", hint="give more of it")

    def _snapshot_of(self, message: str) -> str | None:
        """Return the nearest ancestor of *message* with kept versions, else the last in time."""
        seen: set[str] = set()
        here: str | None = message
        while here is not None and here not in seen:
            if here in self._snapshots:
                return here
            seen.add(here)
            here = self._traces.parents.get(here)
        at = instant(self._traces.times.get(message))
        snapshots: Iterable[Snapshot] = self._traces.snapshots.values()
        before = [each for each in snapshots if each.taken_at and at and each.taken_at <= at]
        last = max(before, key=lambda each: each.taken_at or _LONG_AGO, default=None)
        return last.message_id if last else None

    def _file_at(self, file: TouchedFile, message: str | None) -> FileAt | None:
        order = list(self._snapshots)
        here = order.index(message) if message is not None else 0
        # Later snapshots first: a file that is tracked later was unchanged until then.
        for index in (*range(here, len(order)), *range(here - 1, -1, -1)):
            kept = self._snapshots[order[index]].get(file.path)
            if kept is not None:
                version = next(each for each in file.versions if _key(each) == _key(kept))
                inferred = message is None or index != here
                return FileAt(file=file, version=version, is_inferred=inferred)
        return None

    def _files(self) -> Iterator[TouchedFile]:
        edits: dict[str, list[Edit]] = {}
        for path, edit in self._traces.edits:
            edits.setdefault(whole_path(path, self.project), []).append(edit)
        kept: dict[str, dict[object, tuple[Kept, list[str]]]] = {path: {} for path in edits}
        for message, files in self._snapshots.items():
            for path, each in files.items():
                found = kept.setdefault(path, {}).setdefault(_key(each), (each, []))
                found[1].append(message)
        for path in sorted(kept):
            versions = [self._version(each, messages) for each, messages in kept[path].values()]
            versions += self._unspoken(versions)
            versions.sort(key=lambda each: (each.number or 0, each.kept_at or _LONG_AGO))
            yield TouchedFile(
                path=path,
                shown=shown_path(path, self.project),
                versions=tuple(versions),
                edits=tuple(edits.get(path, ())),
            )

    def _unspoken(self, versions: list[Version]) -> Iterator[Version]:
        """Return the kept versions of the same file that no record mentions, by name."""
        hashes = {pair[0] for each in versions if each.name and (pair := number_of(each.name))}
        known = {each.name for each in versions}
        for name in (name for each in sorted(hashes) for name in self._names.get(each, ())):
            if name not in known:
                yield self._version(Kept(name=name, number=(number_of(name) or ("", 0))[1]), ())

    def _version(self, kept: Kept, messages: Iterable[str]) -> Version:
        found = Version(
            number=kept.number,
            name=kept.name,
            is_absent=kept.is_absent,
            kept_at=kept.kept_at,
            messages=tuple(messages),
            problem=kept.problem,
        )
        if kept.name is None:
            return found
        item = self._items.get(kept.name)
        if item is None:
            return replace(found, problem="missing")
        if item.linked or item.kind != "file":
            why = item.why or "not a regular file"
            return replace(found, problem="a symbolic link" if item.linked else why)
        try:
            return replace(found, path=item.path, size_bytes=os.stat(item.path).st_size)
        except OSError:
            return replace(found, problem="missing")


def _key(version: Version | Kept) -> object:
    """Return what identifies a version: its name, or else the other fields."""
    if version.name is not None:
        return version.name
    number = version.number
    return (version.kept_at if number is None else number, version.problem)


CONTENT_LIMIT: Final = 64 * 1024 * 1024
# The time for a diff grows faster than the files.
DIFF_LIMIT: Final = 2 * 1024 * 1024

_BLOCKED: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY)
_NO_NAME: Final = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)
_NO_NEWLINE: Final = "\\ No newline at end of file\n"


class VersionOutcome(StrEnum):
    """The outcome of restoring a file."""

    WRITTEN = "written"
    EXISTS = "exists"  # A file exists there, and overwriting was not requested.
    ABSENT = "absent"  # The file did not exist at that message.
    MISSING = "missing"  # The kept version cannot be read.
    UNSAFE = "unsafe"  # No file can have this name here.
    BLOCKED = "blocked"  # A link or a file is in the way.


class RestoredVersion(Struct, frozen=True, kw_only=True):
    """One file that was, or was not, restored."""

    path: str
    outcome: VersionOutcome
    target: str | None = None
    size_bytes: int | None = None
    is_inferred: bool = False
    detail: str | None = None


class Diff(Struct, frozen=True, kw_only=True):
    """The difference of two versions; *text* is empty if there is none, or a *problem*."""

    text: str = ""
    added: int = 0
    removed: int = 0
    problem: str | None = None


def content_of(version: Version, *, limit: int = CONTENT_LIMIT) -> bytes | atomic_files.Unreadable:
    """Return the contents of a kept version; empty if the file did not exist then."""
    if version.is_absent:
        return b""
    if version.path is None:
        return atomic_files.Unreadable(version.problem or "missing")
    return atomic_files.read_file(version.path, limit=limit, follow=False)


def diff_of(old: Version | None, new: Version | None, label: str = "") -> Diff:
    """Compare two kept versions of a file; None means the file did not exist."""
    texts: list[list[str]] = []
    heads: list[str] = []
    for version in (old, new):
        data = b"" if version is None else content_of(version, limit=DIFF_LIMIT)
        if isinstance(data, atomic_files.Unreadable):
            number = f" {version.number}" if version and version.number else ""
            return Diff(problem=f"version{number} cannot be read: {data.reason}")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return Diff(problem="not text")
        if "\0" in text:
            return Diff(problem="not text")
        texts.append(_lines(text))
        absent = version is None or version.is_absent
        heads.append(os.devnull if absent else f"{label}@v{version.number}" if version else "")
    lines = list(difflib.unified_diff(texts[0], texts[1], heads[0], heads[1]))
    body = lines[2:]
    return Diff(
        text="".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
    )


def restore(
    files: SessionFiles,
    path: str,
    at: str | None,
    into: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> RestoredVersion:
    """Restore the file *path* as it was *at* a message, or its version ``vN``, or its newest one.

    *into* is the file to write; if it is a directory, the file keeps its own name in it.
    """
    file = files.find(path)
    found = files.version_at(file, at)
    if found is None:
        hint = "only files with kept versions can be restored; turnlog files SESSION shows which"
        raise NotFound(f"no version of {file.shown!r} was kept", hint=hint)
    target = Path(into)
    if not target.is_dir():
        return _restore(found, target.parent, (target.name,), overwrite=overwrite)
    parts = safe_parts(file.path, files.project)
    return _restore(found, target, parts[-1:] if parts else None, overwrite=overwrite)


def restore_all(
    files: SessionFiles,
    at: str | None,
    into: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> tuple[RestoredVersion, ...]:
    """Restore every file as it was *at* a message, under the directory *into*.

    Files of the project keep their relative paths; others go to a separate subdirectory.
    """
    return tuple(
        _restore(each, Path(into), safe_parts(each.file.path, files.project), overwrite=overwrite)
        for each in (files.newest() if at is None else files.at(at))
    )


def _lines(text: str) -> list[str]:
    """Split *text* at newlines only: a form feed does not end a line of a diff."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _restore(
    found: FileAt, root: Path, parts: tuple[str, ...] | None, *, overwrite: bool
) -> RestoredVersion:
    def became(
        outcome: VersionOutcome, detail: str | None = None, size: int | None = None
    ) -> RestoredVersion:
        return RestoredVersion(
            path=found.file.path,
            outcome=outcome,
            target=None if parts is None else atomic_files.text_of(str(root.joinpath(*parts))),
            size_bytes=size,
            is_inferred=found.is_inferred,
            detail=detail,
        )

    version = found.version
    if version.is_absent:
        return became(VersionOutcome.ABSENT)
    if parts is None or not parts[-1]:
        return became(VersionOutcome.UNSAFE, "no file can have this name here")
    if version.path is None:
        return became(VersionOutcome.MISSING, version.problem)
    file = atomic_files.open_file(version.path)
    if isinstance(file, atomic_files.Unreadable):
        return became(VersionOutcome.MISSING, file.reason)
    with file:
        try:
            size = atomic_files.put(root, parts, atomic_files.pieces(file), overwrite=overwrite)
        except FileExistsError:
            return became(VersionOutcome.EXISTS)
        except ValueError:  # A name that the file system's encoding cannot represent.
            return became(VersionOutcome.UNSAFE, "no file can have this name here")
        except OSError as error:
            if error.errno in _BLOCKED:
                return became(VersionOutcome.BLOCKED, (error.strerror or "").lower())
            if error.errno in _NO_NAME:
                return became(VersionOutcome.UNSAFE, (error.strerror or "").lower())
            raise atomic_files.failure(error, root.joinpath(*parts)) from None
    return became(VersionOutcome.WRITTEN, size=size)
