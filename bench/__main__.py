"""The benchmark run: ``python -m bench [NAME…] [--markdown]``."""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import sys

import turnlog

from . import (
    adapters,
    append,
    decode,
    exporting,
    index,
    insights,
    keeping,
    last,
    ledger,
    listing,
    mcp_server,
    memory,
    mixed_agents,
    overview,
    paths,
    real_text,
    redaction,
    retrieval,
    scan,
    secrets,
    show_last,
    startup,
    statusline,
    web,
    writers,
)
from .data import real_logs
from .table import as_markdown, as_text

BENCHMARKS = {
    module.__name__.rpartition(".")[2]: module.bench
    for module in (
        append,
        writers,
        scan,
        decode,
        last,
        memory,
        startup,
        listing,
        show_last,
        ledger,
        statusline,
        index,
        real_text,
        retrieval,
        insights,
        keeping,
        exporting,
        redaction,
        secrets,
        overview,
        adapters,
        mcp_server,
        mixed_agents,
        paths,
        web,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args()
    strangers = set(options.names) - set(BENCHMARKS)
    if strangers:
        parser.error(f"no benchmark called {', '.join(sorted(strangers))}")
    _compile()
    print(_machine(), flush=True)
    rows = []
    for name in options.names or BENCHMARKS:
        print(f"{name} …", flush=True)
        rows += BENCHMARKS[name]()
    print(f"\n{as_markdown(rows) if options.markdown else as_text(rows)}")
    return 0


def _compile() -> None:
    """Compile the package, as an installation does; some environments forbid it at run time."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(os.path.dirname(turnlog.__file__), quiet=2)


def _machine() -> str:
    """Say what is measured on, and whether somebody else was busy there."""
    busy = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    told = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    told += f", {cores} cores, load {busy:.1f}"
    if busy > cores / 2:
        told += " (busy: tails will be long)"
    logs = real_logs()
    return told + (f", {len(logs):,} real logs found" if logs else ", no real logs found")


if __name__ == "__main__":
    sys.exit(main())
