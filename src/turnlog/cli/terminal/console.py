"""Consoles, progress bars, and how text, paths, times and sizes are written for people.

Rich is imported only when something is drawn with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnlog.text import inert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console


UNLIMITED: Final = 10_000_000
"""The width of a pipe or a file."""
_LONGEST_TITLE: Final = 1_000


def console(*, has_width: bool | None = None) -> Console:
    """Return a console that respects pipes and NO_COLOR and never interprets a log's text.

    It is as wide as the terminal or COLUMNS; a pipe or a file has no width, and nothing in it is
    cut, wrapped or padded.
    """
    from rich.console import Console
    from rich.table import Table

    # Without emoji=False, rich would draw the `:x:` in root:x:0:0 as a cross.
    options: dict[str, Any] = {"highlight": False, "markup": True, "emoji": False}
    if _has_width() if has_width is None else has_width:
        from turnlog.cli.terminal.tables import fit

        class FittingConsole(Console):
            def print(self, *objects: Any, **options: Any) -> None:
                """Print *objects*; tables without the columns for which there is no room."""
                tables = (
                    fit(value, self) if isinstance(value, Table) else value for value in objects
                )
                super().print(*tables, **options)

        return FittingConsole(**options, soft_wrap=not sys.stdout.isatty())

    class PipeConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print *objects*; strip the spaces with which rich fills the rows of tables."""
            if not any(isinstance(value, Table) for value in objects):
                super().print(*objects, **options)
                return
            with self.capture() as captured:
                super().print(*objects, **options)
            self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))
            self.file.flush()

    return PipeConsole(**options, soft_wrap=True, width=UNLIMITED)


def at_most(columns: int, room: int) -> int:
    """Return *columns*, or in a pipe all the *room* there is."""
    return room if room > UNLIMITED // 2 else columns


def one_line(text: str, columns: int, room: int) -> str:
    """Return *text* as one line of at most *columns*; in a pipe, of at most *room*."""
    from turnlog.cli.terminal.tables import cut_right

    return cut_right(" ".join(text.split()), at_most(columns, room))


def show_some(
    out: Console, lines: Sequence[str], most: int, *, indent: str = "", more: str = "more"
) -> None:
    """Print the first *most* of *lines*, which are markup, and the number of the others."""
    for line in lines[:most]:
        out.print(f"{indent}{line}", soft_wrap=True)
    if len(lines) > most:
        out.print(f"{indent}[dim]… and {len(lines) - most:,} {more}[/]")


def show_value(out: Console, name: str, value: str, columns: int = 10) -> None:
    """Print a *name* and its *value*, which is markup and is wrapped in its own column."""
    label = f" [bold]{name:<{columns}}[/]"
    if out.width > UNLIMITED // 2:
        out.print(f"{label}{value}")
        return
    from rich.table import Table

    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(label, value)
    out.print(table)


def _has_width() -> bool:
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def safe(text: str) -> str:
    """Escape one line of text for the terminal and for rich's markup."""
    from rich.markup import escape

    return escape(inert(text))


def safe_text(text: str) -> str:
    """Escape text like `safe`, but keep its lines and tabs."""
    from rich.markup import escape

    return escape(inert(text, keep="\n\t"))


def titled(title: str | None) -> str:
    """Return the title of a session or plan as one escaped line, or "untitled"."""
    return safe(plain_title(title))


def plain_title(title: str | None) -> str:
    """Return the title of a session or plan as one line, not escaped, or "untitled"."""
    words = inert(" ".join((title or "").split())) or "untitled"
    # Rich takes quadratic time for many backslashes in a row.
    return words if len(words) <= _LONGEST_TITLE else f"{words[:_LONGEST_TITLE]}…"


def short_path(path: str | os.PathLike[str]) -> str:
    """Return *path*, escaped, with ~ for the user's home directory."""
    return safe(from_user(path))


def from_user(path: str | os.PathLike[str]) -> str:
    """Return *path* with ~ for the user's home directory, not escaped."""
    text = os.fspath(path)
    home = str(Path.home())
    return "~" + text[len(home) :] if text.startswith(home + os.sep) else text


def settings_file() -> str:
    """Return the path of config.toml, which need not exist."""
    from turnlog.api.homes import turnlog_home
    from turnlog.config import FILE_NAME

    return short_path(turnlog_home() / FILE_NAME)


def log_name(path: str | os.PathLike[str], width: int = 72) -> str:
    """Return the last two parts of a log's path, cut on the left if they are too long."""
    text = os.sep.join(Path(path).parts[-2:])
    is_whole = len(text) <= width or not _has_width()
    return safe(text if is_whole else "…" + text[1 - width :])


def age(now: datetime, then: datetime | None) -> str:
    """Return how long ago *then* was: "5 min ago", or the day if it is over a month."""
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    if seconds < -60:
        return day(then)  # Some clock was wrong.
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return day(then) if unit == "d" and count > 30 else f"{count} {unit} ago"
    return "now"


def when(at: datetime | None, *, seconds: bool = False) -> str:
    """Format an instant in local time."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return "" if at is None else _local(at).strftime(form)


def day(at: datetime | None) -> str:
    """Format the local date of an instant."""
    return "" if at is None else f"{_local(at):%Y-%m-%d}"


def _local(at: datetime) -> datetime:
    try:
        return at.astimezone()
    except (OverflowError, OSError):  # Outside of the range that the system's clock knows.
        return at


def size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


def short_count(count: int) -> str:
    """Format a count in few characters, such as 1.2M."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


# -- progress bars on stderr, drawn only for long work on a terminal -------------------------

_WORTH_A_BAR_BYTES: Final = 20_000_000


@contextmanager
def bar(what: str = "reading logs") -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function to call with the bytes done and the total; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = _Bar(what)
    try:
        yield shown.show
    finally:
        shown.close()


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of bytes just processed."""
    with bar(what) as show:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if show is not None:
                show(done, total_bytes)

        yield advance


class _Bar:
    """A bar that appears only when there is much to do."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._update: Callable[[int, int], None] | None = None
        self._stop: Callable[[], None] | None = None

    def show(self, done: int, total: int) -> None:
        if total < _WORTH_A_BAR_BYTES:
            return
        if self._update is None:
            self._update, self._stop = self._start(total)
        self._update(done, total)

    def _start(self, total: int) -> tuple[Callable[[int, int], None], Callable[[], None]]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn(self._what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        drawn = Progress(*columns, console=Console(stderr=True), transient=True)
        task = drawn.add_task("", total=total)
        drawn.start()
        return lambda done, total: drawn.update(task, completed=done, total=total), drawn.stop

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
