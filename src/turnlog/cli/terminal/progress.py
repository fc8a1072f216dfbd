"""Progress bars on stderr, drawn only for long work on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORTH_A_BAR_BYTES = 20_000_000


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
