"""`turnlog refresh` without options, run before click is imported: hooks and timers call it often.

Errors are left to the command, which meets them again and prints a hint.
"""

from __future__ import annotations

import sys

from turnlog.cli import discard_output
from turnlog.errors import TurnlogError
from turnlog.formats.home_paths import all_home_paths
from turnlog.index.freshness import look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.index.freshness import Freshness
    from turnlog.index.refresh.refresh import RefreshResult

# Open until the process ends: closing the index would flush it and wait for the disk.
_open: list[Freshness] = []


def answer(arguments: list[str]) -> int | None:
    """Refresh, print a summary and return the exit code; return None to leave it to the command."""
    homes = arguments[1::2]
    if any(word != "--home" for word in arguments[::2]) or len(homes) * 2 != len(arguments):
        return None
    try:
        _refresh(all_home_paths(homes))
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout.fileno())
    except Exception as error:
        is_sqlite = type(error).__module__ == "sqlite3"
        if not is_sqlite and not isinstance(error, TurnlogError | OSError):
            raise
        while _open:
            _open.pop().close()
        return None
    return 0


def _refresh(homes: list[str]) -> None:
    look = look_at(homes)
    _open.append(look)
    counts = look.logs, 0, 0
    if look.changed != []:
        result = _read_changes(homes, look)
        if not result.is_plain:
            from turnlog.cli.advanced.refresh import show

            show(result)
            return
        counts = result.logs, result.read, result.read_bytes
    print(summary(*counts))  # noqa: T201


def _read_changes(homes: list[str], look: Freshness) -> RefreshResult:
    from pathlib import Path

    from turnlog.cli.terminal.console import bar
    from turnlog.formats.homes import Home
    from turnlog.index.refresh.refresh import refresh

    with bar() as progress:
        return refresh([Home(Path(home)) for home in homes], progress=progress, look=look)


def summary(logs: int, read: int, read_bytes: int) -> str:
    """Return how much was read, as one line."""
    total = f"{logs:,} log{'' if logs == 1 else 's'}"
    return (
        f"{total}; read {_size(read_bytes)} from {read:,} of them"
        if read
        else f"{total}; nothing new"
    )


def _size(count: float) -> str:
    """Format a number of bytes as `terminal.console.size` does, without importing it."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
