"""A pager for output that is longer than the screen: less, or $TURNLOG_PAGER, or $PAGER.

Only text on a terminal is paged, not the bytes of ``--json``, ``--csv`` and ``--raw``. The pager
starts when the screen is full and then gets everything as it is written, so the first page of a
long session appears at once. Quitting the pager ends the command with exit code 0.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO, Final, TextIO

import click

OURS: Final = "TURNLOG_PAGER"
"""Overrides PAGER; an empty value disables paging."""
_USUAL: Final = "less"
# As git does: quit if it fits, show colours, do not clear the screen.
_LESS: Final = "FRX"
PAGED: Final = frozenset({
    None,  # The overview.
    "sessions", "projects", "search", "query", "errors", "sql", "show", "info", "files", "todos",
    "plans", "prompts", "cost", "insights", "prices", "secrets", "doctor", "verify", "check",
    "trash", "prune", "restore", "compact",
})  # fmt: skip
"""Commands with output to read; others ask questions, keep running, or print a line."""


@contextmanager
def paged(command: str | None, *, wanted: bool = True) -> Iterator[None]:
    """Page what *command* writes to stdout, if that is a terminal."""
    pager = pager_command() if wanted and command in PAGED and _is_read() else None
    if pager is None:
        yield
        return
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout = page = _Paged(stdout, pager)
    if stderr.isatty():
        sys.stderr = _Aside(stderr, page)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        page.close()


def pager_command() -> list[str] | None:
    """Return the pager's command and arguments, or None."""
    named = next((os.environ[name] for name in (OURS, "PAGER") if name in os.environ), _USUAL)
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    return words if words and words != ["cat"] and shutil.which(words[0]) else None


def _is_read() -> bool:
    try:
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # It was closed.
        return False


class _Terminal(io.TextIOBase, TextIO):
    """A text stream that behaves like *terminal*."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._terminal.errors

    @property
    def buffer(self) -> BinaryIO:
        return self._terminal.buffer

    def fileno(self) -> int:
        return self._terminal.fileno()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._terminal.flush()


class _Paged(_Terminal):
    """A terminal that holds back one screen, and starts a pager for more."""

    def __init__(self, terminal: TextIO, pager: list[str]) -> None:
        super().__init__(terminal)
        self._words = pager
        self._held: list[str] = []
        self._room = shutil.get_terminal_size((80, 24)).lines - 1
        self._pager: subprocess.Popen[bytes] | None = None
        self._is_plain = False

    @property
    def buffer(self) -> BinaryIO:
        """Bytes are for programs: nothing is paged from here on."""
        self._stop_holding()
        return self._terminal.buffer

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("a terminal takes text")
        if self._is_plain:
            return self._terminal.write(text)
        if self._pager is not None:
            self._pass_on(text)
            return len(text)
        self._held.append(text)
        self._room -= text.count("\n")
        if self._room < 0:
            self._start()
        return len(text)

    def flush(self) -> None:
        if self._is_plain:
            self._terminal.flush()

    def close(self) -> None:
        """Print what was held back, or wait for the pager to exit."""
        pager, self._pager = self._pager, None
        if pager is None:
            self._stop_holding()
            return
        with suppress(OSError):
            if pager.stdin is not None:
                pager.stdin.close()
        while True:
            try:
                pager.wait()
                break
            except KeyboardInterrupt:  # The pager handles it.
                continue

    @property
    def is_open(self) -> bool:
        """Whether text is held back or a pager is running."""
        return bool(self._held) or self._pager is not None

    def _stop_holding(self) -> None:
        held, self._held, self._is_plain = self._held, [], True
        for text in held:
            self._terminal.write(text)
        self._terminal.flush()

    def _start(self) -> None:
        self._terminal.flush()
        environ = os.environ | {"LESS": os.environ.get("LESS", _LESS), "LV": "-c"}
        words = self._words
        if words == [_USUAL]:
            words = [_USUAL, f"-{_LESS}"]
        try:
            self._pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=environ)  # noqa: S603
        except OSError:  # It cannot be run.
            self._stop_holding()
            return
        held, self._held = self._held, []
        self._pass_on("".join(held))

    def _pass_on(self, text: str) -> None:
        pipe: IO[Any] | None = self._pager.stdin if self._pager is not None else None
        try:
            if pipe is not None:
                pipe.write(text.encode(self.encoding or "utf-8", "replace"))
                pipe.flush()
        except (BrokenPipeError, ValueError):
            raise click.exceptions.Exit(0) from None  # The pager was quit.


class _Aside(_Terminal):
    """stderr on the same terminal: its text keeps its place in the paged output."""

    def __init__(self, terminal: TextIO, page: _Paged) -> None:
        super().__init__(terminal)
        self._page = page

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("a terminal takes text")
        return (self._page if self._page.is_open else self._terminal).write(text)
