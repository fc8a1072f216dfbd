"""Every error turnlog raises, each with a hint.

An error is a caller's mistake or a failure of the machine. Damaged lines and unknown record types
are reported as values, not raised.

    TurnlogError                      .hint is what to do next
    ├── UsageError (ValueError)       the caller's mistake; exit code 2
    │   ├── InvalidId                 a session or agent id that could leave its directory
    │   ├── NotSerialisable           a record that is not JSON-serializable; nothing was written
    │   ├── AmbiguousSession          a prefix of several sessions
    │   ├── UnsafeRecovery            a recovery or its undo would hide records; nothing was written
    │   └── ClosedLog                 an append after close
    ├── NotFound (LookupError)        no such log, session or home; exit code 2
    └── LogError (OSError)            a failure of the machine; exit code 3; .path is the file
        ├── NotALog                   a directory, a FIFO, a device, a symbolic link
        ├── LogLocked                 another writer held the lock until the timeout
        ├── FormatTooNew              written by a later turnlog; reading works, writing does not
        ├── UnsafeFilesystem          locks do not work here, so several writers would lose records
        ├── StorageFull               no space, quota or file-size limit; the log stays usable
        ├── WriteFailed               the write failed otherwise; the handle refuses further writes
        ├── SyncFailed                perhaps not durable; the handle refuses further writes
        ├── BrokenCopy                a kept copy or archive that cannot be read back
        ├── UnreadableHome            part of a home cannot be read, so nothing is removed from it
        └── IndexUnavailable          the index cannot be written or read; everything else works
            ├── IndexTooNew           created by a later turnlog
            └── BrokenIndex           corrupt, and rebuilding it failed
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # The status line does not wait for these to be imported.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    SessionChoice = tuple[str, datetime | None, str | None, str | None]


class TurnlogError(Exception):
    """The base of all errors. *hint* is one sentence about what to do.

    Where a face can name an option or a command instead, *code* says which hint applies, and
    *about* is the value in it, such as a session's id: see cli/hints.py.
    """

    def __init__(self, message: str, *, hint: str = "", code: str = "", about: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.about = about

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling: worker processes raise these errors, too."""
        return _again, (type(self), self.message, self._attributes())

    def _attributes(self) -> dict[str, object]:
        return dict(vars(self))


def _again(kind: type[TurnlogError], message: str, attributes: dict[str, object]) -> TurnlogError:
    """Rebuild an unpickled error."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class UsageError(TurnlogError, ValueError):
    """The caller's mistake."""


class InvalidId(UsageError):
    """An invalid id; used as a file name it could leave the root."""


class NotSerialisable(UsageError, TypeError):
    """A value that cannot become one line of JSON. Nothing was written.

    Also a TypeError, like those of the json module.
    """


class AmbiguousSession(UsageError):
    """A prefix of several sessions.

    *choices* lists them, newest first, where they are known: id, last activity, project, title.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        about: str = "",
        choices: Sequence[SessionChoice] = (),
    ) -> None:
        super().__init__(message, hint=hint, about=about)
        self.choices = tuple(choices)


class UnsafeRecovery(UsageError):
    """A recovery, or its undo, would hide or lose records. Nothing was written."""


class ClosedLog(UsageError, RuntimeError):
    """The log or session was closed, or refused further writes after a failure.

    Also a RuntimeError, like those of the OpenAI Agents SDK's sessions.
    """


class NotFound(TurnlogError, LookupError):
    """The requested log, session or home does not exist."""


class LogError(TurnlogError, OSError):
    """A failure of the machine. *path* is the file, *errno* the system's error if any."""

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str],
        hint: str = "",
        errno: int | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.path = os.fspath(path)
        self.errno = errno

    def _attributes(self) -> dict[str, object]:
        return super()._attributes() | {"errno": self.errno}


class NotALog(LogError):
    """Not a regular file."""


class LogLocked(LogError):
    """Another writer held the lock until the timeout. *holder* is its process id if known."""

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str],
        hint: str = "",
        holder: int | None = None,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.holder = holder


class FormatTooNew(LogError):
    """A later turnlog wrote this log; this version can read it but not write it."""


class UnsafeFilesystem(LogError):
    """A file system on which locks do not exclude other machines."""


class StorageFull(LogError):
    """ENOSPC, EDQUOT or EFBIG. The record was not saved; the log stays usable."""


class WriteFailed(LogError):
    """The write failed and the log's state is unknown; reopen it to continue."""


class SyncFailed(LogError):
    """The record was written but may not survive a power failure; reopen the log to continue."""


class BrokenCopy(LogError):
    """A kept copy or archive does not contain what was put into it."""


class UnreadableHome(LogError):
    """Part of a home cannot be read, so files missing there may still exist."""


class IndexUnavailable(LogError):
    """The index cannot be used. It is disposable: everything except search works without it."""


class IndexTooNew(IndexUnavailable):
    """A later turnlog created the index; this version neither reads nor changes it."""


class BrokenIndex(IndexUnavailable):
    """The index broke again while it was being rebuilt."""
