"""Run the faults and print the one table."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import shim
from .arena import Arena, say
from .tally import Tally, table

KINDS = (
    "sweep",
    "kills",
    "crashes",
    "full",
    "eio",
    "crowd",
    "locks",
    "network",
    "sessions",
    "recovery",
    "index",
    "safekeeping",
    "injured_logs",
    "adapters",
    "complexity",
    "host_lifecycle",
    "namespaces",
    "partial_visibility",
    "foreign_filesystems",
)
_HOME = "TURNLOG_FAULTS_DIRECTORY"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description="Break the log.")
    parser.add_argument("--slice", action="store_true", help="a smaller run, for every change")
    parser.add_argument("--seed", type=int, default=1, help="what is random follows from this")
    parser.add_argument("--only", action="append", choices=KINDS, help="one kind of fault")
    parser.add_argument("--seconds", type=float, help="how long the crowd writes")
    return parser.parse_args()


def _start_anew_with_shim(root: Path) -> None:
    """Become the same program with the fault library preloaded, if it can be built."""
    library = shim.build(root)
    if library is not None:
        environment = shim.environment(library) | {_HOME: str(root)}
        os.execve(sys.executable, [sys.executable, "-m", "faults", *sys.argv[1:]], environment)


def _run(kind: str, arena: Arena) -> list[Tally]:
    began = time.monotonic()
    try:
        tallies: list[Tally] = importlib.import_module(f"faults.{kind}").run(arena)
    except Exception as error:
        say(f"{kind}: the harness itself failed")
        traceback.print_exc()
        broken = Tally(kind)
        broken.violate(f"the harness failed: {type(error).__name__}: {error}")
        tallies = [broken]
    say(f"{kind}: done in {time.monotonic() - began:.0f} s")
    return tallies


def main() -> int:
    options = _options()
    root = Path(os.environ.get(_HOME) or tempfile.mkdtemp(prefix="turnlog-faults-"))
    try:
        if not shim.is_here():
            _start_anew_with_shim(root)
        # What the log has to say about its damage is expected here, and there is much of it.
        logging.getLogger("turnlog").setLevel(logging.CRITICAL + 1)
        arena = Arena(root=root, seed=options.seed, slice=options.slice, seconds=options.seconds)
        tallies = [tally for kind in options.only or KINDS for tally in _run(kind, arena)]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(tallies))
    return 1 if any(tally.violations for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
