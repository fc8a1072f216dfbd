"""Output into a pipe whose reader has exited, as in ``turnlog … | head -1``.

Most commands have their result before they print it: the rest of the output is discarded and the
exit code stays the same. Commands that print while they read exit at once with code 0.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from turnlog.cli import discard_output

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STREAMING: Final = {"show": "", "export": "", "watch": "", "keep": "--watch"}
"""Commands that print while they read, and the option that makes one do so."""


@contextmanager
def discard_unread(arguments: Sequence[str]) -> Iterator[None]:
    """Discard what the command of *arguments* writes into pipes without a reader."""
    command = arguments[0] if arguments else ""
    if command == "mcp":  # It notices a closed connection itself.
        yield
        return
    option = _STREAMING.get(command)
    is_streaming = option is not None and (not option or option in arguments)
    before = sys.stdout, sys.stderr
    pipes = [_Pipe(stream) for stream in before if _is_pipe(stream)]
    for pipe in pipes:
        if pipe.stream is before[0]:
            sys.stdout, pipe.exits = pipe.text, is_streaming
        else:
            sys.stderr = pipe.text
    try:
        yield
    finally:
        for pipe in pipes:
            pipe.exits = False
            pipe.text.flush()
        sys.stdout, sys.stderr = before


def _is_pipe(stream: Any) -> TypeGuard[TextIOWrapper]:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # None, or closed.
        return False
    return isinstance(stream, TextIOWrapper) and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class _Pipe(FileIO):
    """A pipe that discards what is written once its reader is gone."""

    exits = False
    """Exit the command then."""

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
            discard_output(self.fileno())
        if self.exits:
            from click.exceptions import Exit

            raise Exit(0)
        return super().write(data)
