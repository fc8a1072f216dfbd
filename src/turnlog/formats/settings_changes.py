"""Changes to a user's settings, which can be shown before they are made.

A step lists the files to write or remove and the commands to run for one place. It is carried out
exactly as shown: a file that changed in between is left alone.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from turnlog.errors import LogError, WriteFailed
from turnlog.storage.atomic_files import Unreadable, failure, put, read_file

State = Literal["installed", "outdated", "missing", "refused"]
Kind = Literal["claude", "statusline", "mcp", "systemd", "launchd", "cron", "none"]

_PATIENCE_SECONDS: Final = 30


class Write(Struct, frozen=True, kw_only=True):
    """Write a file atomically; if it is a symbolic link, the link stays and its target changes."""

    path: Path
    before: bytes | None
    """The current content; None if the file does not exist."""
    data: bytes
    shown: str
    """The new part of it, for display."""
    copy_to: Path | None = None
    """Where to back up the old content first."""


class Remove(Struct, frozen=True, kw_only=True):
    """Delete a file."""

    path: Path
    before: bytes


class Run(Struct, frozen=True, kw_only=True):
    """Run a command."""

    words: tuple[str, ...]
    given: bytes = b""
    """Its stdin."""
    may_fail: bool = False
    shown: str = ""
    """The new part of its stdin, for display."""

    @property
    def line(self) -> str:
        return shlex.join(self.words)


Deed = Write | Remove | Run


class Step(Struct, frozen=True, kw_only=True):
    """The changes for one place. Without deeds there is nothing to do, or nothing possible."""

    kind: Kind
    place: str
    """The file or command it is about."""
    state: State
    """The current state; "refused" means that it cannot be read or changed, for *reason*."""
    command: str = ""
    """The command that runs, or would run, from there."""
    deeds: tuple[Deed, ...] = ()
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    """Additional notes for the user."""


def carry_out(step: Step) -> None:
    """Carry out *step* in order; raise LogError for what fails."""
    for deed in step.deeds:
        if isinstance(deed, Run):
            _run(deed)
        elif isinstance(deed, Write):
            _write(deed)
        else:
            _remove(deed)


def ran(words: tuple[str, ...], given: bytes = b"") -> subprocess.CompletedProcess[bytes] | None:
    """Run a short command in the C locale; return None if it cannot be run."""
    try:
        return subprocess.run(  # noqa: S603 - The words are ours, and no shell reads them.
            words,
            input=given,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def content(path: Path) -> bytes | Unreadable | None:
    """Return a file's content; None if it does not exist."""
    found = read_file(path)
    if isinstance(found, Unreadable) and not os.path.lexists(path):
        return None
    return found


def _run(deed: Run) -> None:
    done = ran(deed.words, deed.given)
    if deed.may_fail or (done is not None and done.returncode == 0):
        return
    output = done.stderr.decode("utf-8", "replace").strip() if done else "it could not be run"
    raise WriteFailed(
        f"{deed.line}: {output or f'exit code {done.returncode if done else None}'}",
        path=deed.words[0],
        hint="turnlog hooks remove removes what was installed so far",
    )


def _write(deed: Write) -> None:
    _check_unchanged(deed.path, deed.before)
    real = Path(os.path.realpath(deed.path))
    try:
        if deed.copy_to is not None and deed.before is not None:
            put(deed.copy_to.parent, [deed.copy_to.name], [deed.before], overwrite=True)
        mode = stat.S_IMODE(os.stat(real).st_mode) if deed.before is not None else None
        put(real.parent, [real.name], [deed.data], overwrite=deed.before is not None)
        if mode is not None:
            os.chmod(real, mode)
    except FileExistsError:
        raise _changed(deed.path) from None
    except OSError as error:
        raise error if isinstance(error, LogError) else failure(error, real) from None


def _remove(deed: Remove) -> None:
    _check_unchanged(deed.path, deed.before)
    try:
        os.unlink(os.path.realpath(deed.path))
    except OSError as error:
        raise failure(error, deed.path) from None


def _check_unchanged(path: Path, before: bytes | None) -> None:
    if content(path) != before:
        raise _changed(path)


def _changed(path: Path) -> Any:
    return WriteFailed(
        f"{path} changed in the meantime", path=path, hint="run the same command again"
    )
