"""The command line.

``main`` answers ``--version``, ``statusline`` and a ``refresh`` that has nothing to do before
anything slow is imported; commands are loaded when they are named.
Exit codes: 0 done, 1 something was found wrong or nothing was found, 2 the caller's mistake, 3 a
failure. What a script wants is on stdout; talk, progress, errors and hints are on stderr.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from turnlog import __version__

        print(f"turnlog {__version__}")  # noqa: T201
        return
    if sys.argv[1:2] == ["statusline"] and _is_status_shown(sys.argv[2:]):
        return
    if sys.argv[1:2] == ["refresh"] and _has_nothing_to_refresh(sys.argv[2:]):
        return
    import gc

    gc.set_threshold(50_000, 20, 20)  # Imports leave much behind that is no garbage.
    from turnlog.cli.app import run

    _exit(run(sys.argv[1:]))


def _exit(code: int) -> None:
    """Leave at once: taking everything apart first would take as long as many a command."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    os._exit(code)


def _is_status_shown(arguments: list[str]) -> bool:
    from turnlog.cli.statusline_answered import answer

    return answer(arguments)


def _has_nothing_to_refresh(arguments: list[str]) -> bool:
    """Answer ``turnlog refresh`` where there is nothing to do: hooks and timers ask often.

    Everything else, mistakes and failures included, is left to the command itself.
    """
    named = arguments[1::2]
    if any(each != "--home" for each in arguments[::2]) or len(named) * 2 != len(arguments):
        return False
    from turnlog.errors import TurnlogError
    from turnlog.index.freshness import logs_if_fresh
    from turnlog.layout.home_paths import all_home_paths

    try:
        logs = logs_if_fresh(all_home_paths(named))
    except (TurnlogError, OSError):
        return False
    if logs is None:
        return False
    print(f"{logs:,} log{'' if logs == 1 else 's'}; nothing new.")  # noqa: T201
    return True
