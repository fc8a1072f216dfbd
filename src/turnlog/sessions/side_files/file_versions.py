"""Read, compare and restore kept versions of files.

Reading returns the bytes or the reason why not; comparing returns a unified diff or the reason.
Restoring writes private files under a directory given by the caller: no file is overwritten unless
*overwrite* is true, nothing is written outside whatever a log calls its files, and each file is
written atomically. What cannot be restored is reported among the results; only a full disk raises.
"""

from __future__ import annotations

import difflib
import errno
import os
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.errors import NotFound
from turnlog.sessions.side_files.file_changes import safe_parts
from turnlog.sessions.side_files.file_history import FileAt, SessionFiles, Version
from turnlog.storage.atomic_files import (
    Unreadable,
    failure,
    open_file,
    pieces,
    put,
    read_file,
    text_of,
)

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


def content_of(version: Version, *, limit: int = CONTENT_LIMIT) -> bytes | Unreadable:
    """Return the contents of a kept version; empty if the file did not exist then."""
    if version.is_absent:
        return b""
    if version.path is None:
        return Unreadable(version.problem or "missing")
    return read_file(version.path, limit=limit, follow=False)


def diff_of(old: Version | None, new: Version | None, label: str = "") -> Diff:
    """Compare two kept versions of a file; None means the file did not exist."""
    texts: list[list[str]] = []
    heads: list[str] = []
    for version in (old, new):
        data = b"" if version is None else content_of(version, limit=DIFF_LIMIT)
        if isinstance(data, Unreadable):
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
            target=None if parts is None else text_of(str(root.joinpath(*parts))),
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
    file = open_file(version.path)
    if isinstance(file, Unreadable):
        return became(VersionOutcome.MISSING, file.reason)
    with file:
        try:
            size = put(root, parts, pieces(file), overwrite=overwrite)
        except FileExistsError:
            return became(VersionOutcome.EXISTS)
        except ValueError:  # A name that the file system's encoding cannot represent.
            return became(VersionOutcome.UNSAFE, "no file can have this name here")
        except OSError as error:
            if error.errno in _BLOCKED:
                return became(VersionOutcome.BLOCKED, (error.strerror or "").lower())
            if error.errno in _NO_NAME:
                return became(VersionOutcome.UNSAFE, (error.strerror or "").lower())
            raise failure(error, root.joinpath(*parts)) from None
    return became(VersionOutcome.WRITTEN, size=size)
