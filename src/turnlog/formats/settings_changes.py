"""What is to be done to somebody's settings, said before it is done.

A step is what one place needs: which files are written or removed, which commands are run. It can
be shown, and then carried out as it was shown: a file that changed in between is left alone.
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
Kind = Literal["claude", "systemd", "launchd", "cron", "none"]

_PATIENCE_SECONDS: Final = 30


class Write(Struct, frozen=True, kw_only=True):
    """A file gets a new content, in one move; a symbolic link stays one, and its target changes."""

    path: Path
    before: bytes | None
    """What stands there now; None: nothing."""
    data: bytes
    shown: str
    """The part of it that is new, for people."""
    copy_to: Path | None = None
    """Where the old content is put first."""


class Remove(Struct, frozen=True, kw_only=True):
    """A file goes away."""

    path: Path
    before: bytes


class Run(Struct, frozen=True, kw_only=True):
    """A command is run."""

    words: tuple[str, ...]
    given: bytes = b""
    """What it reads."""
    may_fail: bool = False
    shown: str = ""
    """The part of what it reads that is new, for people."""

    @property
    def line(self) -> str:
        return shlex.join(self.words)


Deed = Write | Remove | Run


class Step(Struct, frozen=True, kw_only=True):
    """What one place needs. Without deeds there is nothing to do, or nothing that can be done."""

    kind: Kind
    place: str
    """The file, or the command, that it is about."""
    state: State
    """How it is now; "refused" means that it cannot be told or changed, and *reason* why."""
    command: str = ""
    """What is run from there, or would be."""
    deeds: tuple[Deed, ...] = ()
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    """What a person should know beside."""


def carry_out(step: Step) -> None:
    """Do what *step* says, in its order; a LogError tells what could not be done."""
    for deed in step.deeds:
        if isinstance(deed, Run):
            _run(deed)
        elif isinstance(deed, Write):
            _write(deed)
        else:
            _remove(deed)


def ran(words: tuple[str, ...], given: bytes = b"") -> subprocess.CompletedProcess[bytes] | None:
    """Run a command that answers soon, in the language of scripts; None if it cannot be run."""
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
    """Return what a file holds; None if there is none."""
    found = read_file(path)
    if isinstance(found, Unreadable) and not os.path.lexists(path):
        return None
    return found


def _run(deed: Run) -> None:
    done = ran(deed.words, deed.given)
    if deed.may_fail or (done is not None and done.returncode == 0):
        return
    said = done.stderr.decode("utf-8", "replace").strip() if done else "it could not be run"
    raise WriteFailed(
        f"{deed.line}: {said or f'exit code {done.returncode if done else None}'}",
        path=deed.words[0],
        hint="turnlog keep --uninstall takes away what was set up so far",
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
