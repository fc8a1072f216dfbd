"""A list to choose from on the terminal, filtered while one types.

It is drawn on stderr, below the prompt, and erased afterwards. A terminal that cannot move its
cursor gets a numbered list instead.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from turnlog.cli.terminal.tables import cut_right

_MOST: Final = 10
"""The number of lines that are shown."""
_KEYS: Final = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|[\s\S]")
_UP: Final = {"\x1b[A", "\x1bOA", "\x10"}  # The last is Ctrl-P.
_DOWN: Final = {"\x1b[B", "\x1bOB", "\x0e", "\t"}  # Ctrl-N.
_ENTER: Final = {"\r", "\n"}
_CANCEL: Final = {"\x1b", "\x04"}  # Escape, Ctrl-D.
_BACK: Final = {"\x7f", "\b"}
_CLEAR: Final = {"\x15"}  # Ctrl-U.
_REST_SECONDS: Final = 0.05
"""How long the rest of an arrow key may take to arrive after its first byte."""


def can_choose() -> bool:
    """Return whether someone is there to choose: a keyboard, and a screen for the list."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def choose(lines: Sequence[str], question: str) -> int | None:
    """Return the number of the line that was chosen, from 0, or None. Lines are plain text."""
    if os.environ.get("TERM", "dumb") == "dumb" or not _has_termios():
        return _choose_number(lines, question)
    chooser = _Chooser(lines, question)
    with _unbuffered(sys.stdin.fileno()):
        try:
            return chooser.run()
        finally:
            chooser.erase()


class _Chooser:
    def __init__(self, lines: Sequence[str], question: str) -> None:
        self._lines, self._question = lines, question
        self._folded = [line.casefold() for line in lines]
        self._typed = ""
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def run(self) -> int | None:
        """Draw the list and read keys until one is chosen."""
        while True:
            found = self._found()
            self._at = max(0, min(self._at, len(found) - 1))
            self._draw(found)
            for key in self._keys():
                if key in _ENTER and found:
                    return found[self._at]
                if key in _CANCEL or key == "":
                    return None
                self._press(key)
                found = self._found()
                self._at = max(0, min(self._at, len(found) - 1))

    def erase(self) -> None:
        """Clear what was drawn."""
        self._write("\r\x1b[J")

    def _press(self, key: str) -> None:
        if key in _UP:
            self._at -= 1
        elif key in _DOWN:
            self._at += 1
        else:
            self._at = 0
            if key in _BACK:
                self._typed = self._typed[:-1]
            elif key in _CLEAR:
                self._typed = ""
            elif key.isprintable():
                self._typed += key

    def _found(self) -> list[int]:
        words = self._typed.casefold().split()
        return [
            number
            for number, line in enumerate(self._folded)
            if all(word in line for word in words)
        ]

    def _draw(self, found: Sequence[int]) -> None:
        from rich.cells import cell_len

        columns, rows = shutil.get_terminal_size()
        room = max(1, min(_MOST, rows - 2))
        first = max(0, self._at - room + 1)
        head = cut_right(f"{self._question}: {self._typed}", columns - 1)
        drawn = [head]
        for place, number in enumerate(found[first : first + room], first):
            line = cut_right(
                f"{'>' if place == self._at else ' '} {self._lines[number]}", columns - 1
            )
            drawn.append(f"\x1b[7m{line}\x1b[0m" if place == self._at else line)
        keys = "type to filter, Enter to choose, Esc to cancel"
        more = f"{len(found):,} of {len(self._lines):,}; {keys}"
        drawn.append(f"\x1b[2m{cut_right(more, columns - 1)}\x1b[0m")
        up = f"\x1b[{len(drawn) - 1}A\r\x1b[{cell_len(head)}C"
        self._write("\r\x1b[J" + "\n".join(drawn) + up)

    def _keys(self) -> Iterator[str]:
        """Wait for keys; an empty one means that the keyboard is gone."""
        fd = sys.stdin.fileno()
        data = os.read(fd, 1024)
        while data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and _is_ready(fd):
            data += os.read(fd, 1024)
        if not data:
            yield ""
        yield from _KEYS.findall(self._decoder.decode(data))

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_ready(fd: int) -> bool:
    return bool(select.select([fd], [], [], _REST_SECONDS)[0])


def _has_termios() -> bool:
    try:
        import termios  # noqa: F401
    except ImportError:  # Windows.
        return False
    return True


@contextmanager
def _unbuffered(fd: int) -> Iterator[None]:
    """Read keys as they are typed, without an echo; the terminal is restored afterwards."""
    import termios
    import tty

    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _choose_number(lines: Sequence[str], question: str) -> int | None:
    shown = lines[:_MOST]
    for number, line in enumerate(shown, 1):
        click.echo(f"{number:>3}  {line}", err=True)
    if len(lines) > len(shown):
        click.echo(f"     and {len(lines) - len(shown):,} more", err=True)
    while True:
        prompt = f"{question} [1-{len(shown)}, Enter to cancel]"
        answer = click.prompt(prompt, default="", show_default=False, err=True).strip()
        if not answer:
            return None
        if answer.isdecimal() and 0 < int(answer) <= len(shown):
            return int(answer) - 1
