"""Every error turnlog raises, with the way out.

An error is raised for a caller's mistake or a machine's failure. What is merely untidy in the
world (a damaged line, an unknown record type) is a value and never appears here.

    TurnlogError                      .hint says what to do next
    ├── UsageError (ValueError)       the caller's mistake; exit code 2
    │   ├── InvalidId                 a session or agent id that could leave its directory
    │   ├── NotSerialisable           a record that JSON cannot hold; nothing was written
    │   ├── AmbiguousSession          a prefix that several sessions share
    │   ├── UnsafeRecovery            a recovery or its undo would hide records; nothing was written
    │   └── ClosedLog                 an append after close
    ├── NotFound (LookupError)        no such log, session or home; exit code 2
    └── LogError (OSError)            the machine's failure; exit code 3; .path tells where
        ├── NotALog                   a directory, a FIFO, a device, a symbolic link
        ├── LogLocked                 another writer holds the lock past the deadline
        ├── FormatTooNew              written by a later turnlog; reading works, writing does not
        ├── UnsafeFilesystem          locks mean nothing here, so several writers would lose records
        ├── StorageFull               no space, quota or file-size limit; the log stays usable
        ├── WriteFailed               the write failed otherwise; the handle refuses further writes
        ├── SyncFailed                perhaps not durable; the handle refuses further writes
        ├── BrokenCopy                a kept copy or archive that does not read back
        ├── UnreadableHome            part of a home cannot be read, so nothing is removed from it
        └── IndexUnavailable          the index cannot be written or read; everything else works
            ├── IndexTooNew           a later turnlog made it
            └── BrokenIndex           it broke, and making it anew did not help
"""

from __future__ import annotations

import os


class TurnlogError(Exception):
    """The root of the tree. *hint* is one sentence a person can act on.

    *cli_hint* says the same to somebody at the command line, where that takes an option.
    """

    def __init__(self, message: str, *, hint: str = "", cli_hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.cli_hint = cli_hint

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Let it cross to another process as it is: workers raise these, too."""
        return _again, (type(self), self.message, self._told())

    def _told(self) -> dict[str, object]:
        return dict(vars(self))


def _again(kind: type[TurnlogError], message: str, told: dict[str, object]) -> TurnlogError:
    """Make an error that was told elsewhere once more."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    for name, value in told.items():
        setattr(error, name, value)
    return error


class UsageError(TurnlogError, ValueError):
    """The caller's mistake."""


class InvalidId(UsageError):
    """An id outside the grammar; using it as a file name could leave the root."""


class NotSerialisable(UsageError, TypeError):
    """A value that cannot become one line of JSON. Nothing was written.

    A TypeError too, as the json module raises.
    """


class AmbiguousSession(UsageError):
    """A prefix that names several sessions."""


class UnsafeRecovery(UsageError):
    """A recovery, or its undo, would hide or lose records. Nothing was written."""


class ClosedLog(UsageError, RuntimeError):
    """The log or session was closed, or refused further writes after a failure.

    A RuntimeError too, as the sessions of the OpenAI Agents SDK raise.
    """


class NotFound(TurnlogError, LookupError):
    """Nothing stands where the caller pointed."""


class LogError(TurnlogError, OSError):
    """The machine failed. *path* is the log it happened to, *errno* the system's reason if any."""

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str],
        hint: str = "",
        errno: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = os.fspath(path)
        self.errno = errno

    def _told(self) -> dict[str, object]:
        return super()._told() | {"errno": self.errno}


class NotALog(LogError):
    """Something other than a regular file."""


class LogLocked(LogError):
    """Another writer held the lock until the deadline. *holder* is its process id where known."""

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
    """A later turnlog wrote this log; this one may read it but not write it."""


class UnsafeFilesystem(LogError):
    """A file system on which locks do not exclude other machines."""


class StorageFull(LogError):
    """ENOSPC, EDQUOT or EFBIG. The record was not saved; the log stays usable."""


class WriteFailed(LogError):
    """The write failed and the log's state is unknown; reopen it to go on."""


class SyncFailed(LogError):
    """The record was written but may not survive a power cut; reopen the log to go on."""


class BrokenCopy(LogError):
    """A kept copy or archive does not give back what was put into it."""


class UnreadableHome(LogError):
    """Part of a home cannot be read, so what is missing there may not be gone."""


class IndexUnavailable(LogError):
    """The index cannot be used. It is disposable: whatever does not search works without it."""


class IndexTooNew(IndexUnavailable):
    """A later turnlog made the index; this one neither reads nor changes it."""


class BrokenIndex(IndexUnavailable):
    """The index broke again while it was being made anew."""
