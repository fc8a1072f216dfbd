"""Output that nobody reads any more, as of ``turnlog … | head -1``.

Most commands have their answer before they write the first line of it. They go on, and end with the
exit code of that answer however soon the reader goes away; what is left to write is dropped. Those
that write as they read would go on for nobody: they end at once, and with success, as by leaving
the pager.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from turnlog.cli import lead_nowhere

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Commands that write as they read, and the option that makes one do so.
_FLOWING: Final = {"show": "", "export": "", "watch": "", "keep": "--watch"}
_UNTOUCHED: Final = "mcp"  # Which speaks a protocol, and knows when its other end is gone.


@contextmanager
def dropped(arguments: Sequence[str]) -> Iterator[None]:
    """Drop what the command of *arguments* writes into pipes whose readers have gone away."""
    command = arguments[0] if arguments else ""
    if command == _UNTOUCHED:
        yield
        return
    option = _FLOWING.get(command)
    is_flowing = option is not None and (not option or option in arguments)
    before = sys.stdout, sys.stderr
    pipes = [_Pipe(stream) for stream in before if _is_pipe(stream)]
    for pipe in pipes:
        if pipe.stream is before[0]:
            sys.stdout, pipe.is_flowing = pipe.text, is_flowing
        else:
            sys.stderr = pipe.text
    try:
        yield
    finally:
        for pipe in pipes:
            pipe.is_flowing = False
            pipe.text.flush()
        sys.stdout, sys.stderr = before


def _is_pipe(stream: Any) -> TypeGuard[TextIOWrapper]:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # There is none, or it was closed.
        return False
    return isinstance(stream, TextIOWrapper) and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class _Pipe(FileIO):
    """A pipe that leads nowhere once its reader has gone away."""

    is_flowing = False
    """Whether the command is to end then."""

    def __init__(self, stream: TextIOWrapper) -> None:
        super().__init__(stream.fileno(), "wb", closefd=False)
        self.stream = stream
        self.text = TextIOWrapper(
            BufferedWriter(self),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            lead_nowhere(self.fileno())
        if self.is_flowing:
            from click.exceptions import Exit

            raise Exit(0)
        return super().write(data)
