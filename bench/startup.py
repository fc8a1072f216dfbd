"""Start-up and installed size.

``turnlog --version`` beside a Python that does nothing; the time to the first output of a plain
``turnlog`` on the bundled samples, without an index and with one, beside ccusage's daily report;
and the size of a fresh install, with all dependencies and compiled modules, beside ccusage's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from .ledger import _PEERS, _peer
from .programs import TURNLOG
from .table import Row, ms
from .turns import in_turns

ROUNDS = 20
_ROOT = Path(__file__).parents[1]
_SAMPLES = _ROOT / "samples" / "claude"
_OURS = [sys.executable, "-c", TURNLOG]


def bench() -> list[Row]:
    peer = _peer()
    return [_version(), *_first_outputs(peer), _installed(peer)]


def _version() -> Row:
    ours, bare = [*_OURS, "--version"], [sys.executable, "-c", "pass"]
    mine, other, ratio = in_turns(lambda: _run(ours), lambda: _run(bare), ROUNDS)
    return Row("turnlog --version", ms(mine), ms(other), f"{ratio:.2f}", "<= 2.5", ratio <= 2.5)


def _first_outputs(peer: str | None) -> list[Row]:
    """Measure a plain ``turnlog`` up to its first byte, on the first run and on later ones."""
    rows = []
    with TemporaryDirectory() as place:
        home, own = os.path.join(place, ".claude"), os.path.join(place, "own")
        shutil.copytree(_SAMPLES, home)
        environ = os.environ | {"HOME": place, "CLAUDE_CONFIG_DIR": home, "TURNLOG_HOME": own}
        other = (
            [peer, "claude", "daily", "--offline"] if peer else [sys.executable, "-c", "print()"]
        )
        beside = "ccusage" if peer else "a bare Python"

        def first() -> None:
            shutil.rmtree(own, ignore_errors=True)
            _first_output(_OURS, environ)

        def later() -> None:
            _first_output(_OURS, environ)

        for what, ours in (("first run", first), ("later runs", later)):
            mine, theirs, ratio = in_turns(ours, lambda: _first_output(other, environ), ROUNDS)
            name = f"turnlog on the samples, {what}: first output, beside {beside}"
            rows.append(Row(name, ms(mine), ms(theirs), f"{ratio:.2f}"))
    return rows


def _installed(peer: str | None) -> Row:
    """Measure the directory that pip fills with turnlog and all that it needs."""
    what = "installed size, with dependencies"
    with TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # A copy: building writes the version into the tree.
        tree = os.path.join(place, "turnlog")
        ignored = shutil.ignore_patterns(".venv", ".bench", "__pycache__")
        shutil.copytree(_ROOT, tree, ignore=ignored)
        done = subprocess.run([*pip, "--target", os.path.join(place, "site"), tree], check=False)
        if done.returncode:
            return Row(what, "", "", "skipped: pip could not install it")
        packages = sum(name.endswith(".dist-info") for name in os.listdir(f"{place}/site"))
        mine, alone = _size(f"{place}/site"), _size(f"{place}/site/turnlog")
    theirs = _size(os.path.join(_PEERS, "node_modules")) if peer else 0
    ours = f"{mine / 1e6:.1f} MB ({alone / 1e6:.1f} MB its own, {packages} packages)"
    if not theirs:
        return Row(what, ours, "", "")
    return Row(what, ours, f"{theirs / 1e6:.1f} MB", f"{mine / theirs:.2f}")


def _size(directory: str) -> int:
    return sum(each.stat().st_size for each in Path(directory).rglob("*") if each.is_file())


def _first_output(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run *command* until it has written something."""
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        if not process.stdout.read(1):
            raise RuntimeError(f"{command} printed nothing")
        process.terminate()


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
