"""A bar on stderr while much is read. Rich, which draws it, is imported only if there is one."""

from __future__ import annotations

import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORTH_A_BAR_BYTES = 20_000_000


@contextmanager
def bar(what: str = "reading logs") -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr if much is to be read and somebody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = _Bar(what)
    try:
        yield shown.show
    finally:
        shown.close()


class _Bar:
    """A bar that appears only when there is much to do."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._advance: Callable[[int, int], None] | None = None
        self._close: Callable[[], None] | None = None

    def show(self, done: int, total: int) -> None:
        if total < _WORTH_A_BAR_BYTES:
            return
        if self._advance is None:
            self._open(total)
        if self._advance is not None:
            self._advance(done, total)

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn(self._what), BarColumn(), DownloadColumn())
        bar = Progress(
            *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        task = bar.add_task("", total=total)
        bar.start()
        self._advance = lambda done, total: bar.update(task, completed=done, total=total)
        self._close = bar.stop

    def close(self) -> None:
        if self._close is not None:
            self._close()
