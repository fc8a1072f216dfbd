"""Printing to the terminal. Rich is imported only when something is drawn with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console


ENDLESS: Final = 10_000_000
"""The width of what has none: a pipe or a file."""


def console() -> Console:
    """Return a console that respects pipes and NO_COLOR and never interprets a log's text.

    It is as wide as the terminal, or as COLUMNS says; a pipe or a file has no width.
    """
    from rich.console import Console

    # Without emoji=False the `:x:` of a line such as root:x:0:0 would be drawn as a cross.
    if _has_width():
        is_terminal = sys.stdout.isatty()
        return Console(highlight=False, markup=True, emoji=False, soft_wrap=not is_terminal)

    from turnlog.cli.terminal.pipe_console import PipeConsole

    return PipeConsole()


def at_most(columns: int, room: int) -> int:
    """Return *columns*, which are enough for a person's eyes; in a pipe all the *room* there is."""
    return room if room > ENDLESS // 2 else columns


def one_line(text: str, columns: int, room: int) -> str:
    """Put *text* on one line and cut it to *columns*; in a pipe to all the *room* there is."""
    line, most = " ".join(text.split()), at_most(columns, room)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def show_value(out: Console, name: str, value: str, columns: int = 10) -> None:
    """Print a *value*, which is markup, behind its *name*; where it is wrapped, below itself."""
    label = f" [bold]{name:<{columns}}[/]"
    if out.width > ENDLESS // 2:
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
    """Make one line of text harmless: to the terminal, and to rich's own markup."""
    from rich.markup import escape

    return escape(inert(text))


_LONGEST_TITLE = 1_000


def titled(title: str | None) -> str:
    """Write a session's or a plan's title on one line, harmless, however many lines it has."""
    words = " ".join((title or "").split()) or "untitled"
    # rich looks for its markup again from each of many backslashes in a row.
    return safe(words if len(words) <= _LONGEST_TITLE else f"{words[:_LONGEST_TITLE]}…")


def safe_text(text: str) -> str:
    """Make prose harmless; its lines stay lines."""
    from rich.markup import escape

    return escape(inert(text, keep="\n\t"))


def short_path(path: str | os.PathLike[str]) -> str:
    """Write *path* the way people say it."""
    return safe(from_user(path))


def from_user(path: str | os.PathLike[str]) -> str:
    """Return *path* with a ~ for the user's own directory; not safe to print as it is."""
    text = os.fspath(path)
    home = str(Path.home())
    return "~" + text[len(home) :] if text.startswith(home + os.sep) else text


def settings_file() -> str:
    """Name the file that holds the settings, which need not be there yet."""
    from turnlog.config import FILE_NAME
    from turnlog.formats import turnlog_home

    return short_path(turnlog_home() / FILE_NAME)


def log_name(path: str | os.PathLike[str], width: int = 72) -> str:
    """Name a log by its project and session, cut on the left, where names are alike."""
    text = os.sep.join(Path(path).parts[-2:])
    is_whole = len(text) <= width or not _has_width()
    return safe(text if is_whole else "…" + text[1 - width :])


def age(now: datetime, then: datetime | None) -> str:
    """Write how long ago *then* was, the way people say it."""
    if then is None:
        return ""
    seconds = (now - then).total_seconds()
    if seconds < -60:
        return day(then)  # A clock was wrong somewhere; say what the record says.
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return day(then) if unit == "d" and count > 30 else f"{count} {unit} ago"
    return "now"


def when(at: datetime | None, *, seconds: bool = False) -> str:
    """Write an instant by this machine's clock, as every command does."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return "" if at is None else _here(at).strftime(form)


def day(at: datetime | None) -> str:
    """Write the day of an instant by this machine's clock."""
    return "" if at is None else f"{_here(at):%Y-%m-%d}"


def _here(at: datetime) -> datetime:
    try:
        return at.astimezone()
    except (OverflowError, OSError):  # At the ends of the calendar, or before a system's clocks.
        return at


def size(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


def short_count(count: int) -> str:
    """Write a count in few characters."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while bytes are worked through; nothing if nobody watches."""
    if not sys.stderr.isatty() or total_bytes < 20_000_000:
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=total_bytes)
        yield lambda done: bar.advance(task, done)
