"""Claude Code's and Codex's sessions together, beside as many bytes of Claude Code's alone.

The home of Codex has its real sessions again and again, under other ids, next to a generated tree
of Claude Code's. Every command is a program started anew: an index is built, then a search and a
report of costs use it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from .data import BASE, real_home
from .programs import TURNLOG, run
from .table import Row, ms
from .trees import logs_of, size_of, tree
from .turns import best_in_turns

_CLAUDE, _ALONE, _CODEX_BYTES = "1G", "1200M", 200_000_000
_ROUNDS, _BUILDS = 10, 2
_UUID = re.compile(rb"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{10})([0-9a-f]{2})\b")
_RUN = os.path.join(BASE, "mixed_agents")


def bench() -> list[Row]:
    claude, alone, codex = tree(_CLAUDE), tree(_ALONE), _codex_home()
    if claude is None or alone is None or codex is None:
        return [Row("Codex beside Claude Code", "", "", "skipped: needs the kit and the corpus")]
    ours, peer = _Side("mixed", [claude, codex]), _Side("alone", [alone])
    rows = [_row("index built", ours, peer, _BUILDS, ["refresh"], anew=True)]
    for what, words in (
        ("search", ["search", "retry backoff"]),
        ("cost by model", ["cost", "model"]),
    ):
        rows.append(_row(what, ours, peer, _ROUNDS, words))
    shutil.rmtree(_RUN, ignore_errors=True)
    return rows


class _Side:
    """Homes, and the index of their sessions."""

    def __init__(self, name: str, homes: Sequence[str]) -> None:
        self._own = os.path.abspath(os.path.join(_RUN, name))
        self._homes = [word for home in homes for word in ("--home", os.path.abspath(home))]
        self.size_bytes = sum(size_of(logs_of(home)) for home in homes)

    def run(self, words: Sequence[str], *, anew: bool) -> None:
        if anew:
            shutil.rmtree(self._own, ignore_errors=True)
        environ = os.environ | {"TURNLOG_HOME": self._own}
        run([sys.executable, "-c", TURNLOG, *words, *self._homes], environ)


def _row(
    what: str, ours: _Side, peer: _Side, rounds: int, words: Sequence[str], *, anew: bool = False
) -> Row:
    mine, other = best_in_turns(
        lambda: ours.run(words, anew=anew), lambda: peer.run(words, anew=anew), rounds
    )
    ratio = (mine.wall / ours.size_bytes) / (other.wall / peer.size_bytes)
    sizes = f"{ours.size_bytes / 1e6:,.0f} MB of both agents"
    return Row(f"{what}, {sizes}", ms(mine.wall), ms(other.wall), f"{ratio:.2f}", "<= 1.2",
               ratio <= 1.2)  # fmt: skip


def _codex_home() -> str | None:
    """Return a home of Codex with enough bytes; None without real sessions."""
    source = Path(real_home() or "").parent / "codex"
    logs = logs_of(os.fspath(source))
    if not logs:
        return None
    place = Path(BASE) / f"codex-{_CODEX_BYTES}"
    if not place.is_dir():
        made = Path(f"{place}.part")
        shutil.rmtree(made, ignore_errors=True)
        written = 0
        for number in count():
            if written >= _CODEX_BYTES:
                break
            for log in logs:
                path = made / _other_ids(os.path.relpath(log, source).encode(), number).decode()
                path.parent.mkdir(parents=True, exist_ok=True)
                written += path.write_bytes(_other_ids(Path(log).read_bytes(), number))
        made.rename(place)
    return os.fspath(place)


def _other_ids(data: bytes, number: int) -> bytes:
    """Give every uuid another last byte; the time that it begins with stays."""
    return _UUID.sub(lambda found: found[1] + b"%02x" % ((int(found[2], 16) + number) % 256), data)
