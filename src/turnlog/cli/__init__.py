"""The command line.

``main`` answers ``--version``, ``statusline`` and a plain ``refresh`` before anything slow is
imported; commands are loaded when they are named.
Exit codes: 0 done, 1 something was found wrong or nothing was found, 2 the caller's mistake, 3 a
failure. What a script wants is on stdout; talk, progress, errors and hints are on stderr.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from turnlog import __version__

        print(f"turnlog {__version__}")  # noqa: T201
        return
    if sys.argv[1:2] == ["statusline"] and _is_status_shown(sys.argv[2:]):
        return
    if sys.argv[1:2] == ["refresh"] and (code := _refresh(sys.argv[2:])) is not None:
        _exit(code)
    from turnlog.cli.starting import start

    start()
    _speak_anyhow()
    from turnlog.cli.app import run

    _exit(run(sys.argv[1:]))


def _speak_anyhow() -> None:
    """Let a terminal or pipe that has no sign for a character show another, and not fail."""
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and out.encoding.lower() not in {"utf-8", "utf8"}:
        out.reconfigure(errors="replace")


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
    if unwritable := sys.modules.get("turnlog.index.unwritable"):
        unwritable.tidy_up()
    os._exit(code)


def _is_status_shown(arguments: list[str]) -> bool:
    from turnlog.cli.statusline_answered import answer

    return answer(arguments)


def _refresh(arguments: list[str]) -> int | None:
    from turnlog.cli.refresh_answered import answer

    return answer(arguments)
