"""The command line.

``main`` answers ``--version`` before anything is imported; commands are loaded when they are named.
Exit codes: 0 done, 1 something was found wrong or nothing was found, 2 the caller's mistake, 3 a
failure. What a script wants is on stdout; talk, progress, errors and hints are on stderr.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from turnlog import __version__

        print(f"turnlog {__version__}")  # noqa: T201
        return
    from turnlog.cli.app import run

    sys.exit(run(sys.argv[1:]))
