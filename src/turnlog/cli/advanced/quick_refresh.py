"""`turnlog refresh`, answered before click is imported, because hooks and timers run it often.

Logs are read only if something changed, with as few imports as possible. Mistakes and failures
are left to the command, which meets them again and prints a hint.
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

# Held to the end: closing the index would write back what waits, and wait for the disk.
_HELD: list[Freshness] = []


def answer(arguments: list[str]) -> int | None:
    """Refresh and say so; give the exit code, None if that is left to the command."""
    named = arguments[1::2]
    if any(each != "--home" for each in arguments[::2]) or len(named) * 2 != len(arguments):
        return None
    try:
        homes = all_home_paths(named)
        _say(homes)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout.fileno())
    except (TurnlogError, OSError):
        _let_go()
        return None
    except Exception as error:
        if type(error).__module__ != "sqlite3":
            raise
        _let_go()
        return None
    return 0


def _let_go() -> None:
    """Leave the index to the command."""
    while _HELD:
        _HELD.pop().close()


def _say(homes: list[str]) -> None:
    look = look_at(homes)
    _HELD.append(look)
    counts = look.logs, 0, 0
    if look.changed != []:
        done = _refreshed(homes, look)
        if not done.is_plain:
            from turnlog.cli.advanced.refresh import show

            show(done)
            return
        counts = done.logs, done.read, done.read_bytes
    print(line_of(*counts))  # noqa: T201


def _refreshed(homes: list[str], look: Freshness) -> RefreshResult:
    from pathlib import Path

    from turnlog.cli.terminal.progress import bar
    from turnlog.formats.homes import Home
    from turnlog.index.refresh.refresh import refresh

    with bar() as progress:
        return refresh([Home(Path(home)) for home in homes], progress=progress, look=look)


def line_of(logs: int, read: int, read_bytes: int) -> str:
    """Say in a line what was read."""
    there = f"{logs:,} log{'' if logs == 1 else 's'}"
    return (
        f"{there}; read {_size(read_bytes)} in {read:,} of them."
        if read
        else f"{there}; nothing new."
    )


def _size(count: float) -> str:
    """Write a number of bytes for people, as ``terminal`` does."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
