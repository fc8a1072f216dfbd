"""`turnlog export` to a page beside claude-code-log, on the same sessions, one after the other.

claude-code-log is fetched with pip into an environment of its own in `.bench/peers`. Both are whole
programs, started anew for each session, agents' logs beside the main one, and both write one page
a session; neither has a cache to start from. Ours masks secrets, as it does unless told otherwise;
the peer has nothing like it. The largest session's page is opened in a browser as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from time import perf_counter

from .data import BASE
from .programs import TURNLOG, run
from .table import Row, ms
from .trees import main_logs_by_size, tree

ROUNDS = 3
_WANTED = "claude-code-log==1.7.0"
_PLACE = os.path.join(BASE, "peers", "claude-code-log")
_PROGRAM = os.path.join(_PLACE, "bin", "claude-code-log")
_WHAT = "pages of sessions"
_USABLE_SECONDS = 2.0


def bench() -> list[Row]:
    source = tree()
    if source is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    place = os.path.abspath(os.path.join(BASE, "exporting"))
    shutil.rmtree(place, ignore_errors=True)
    try:
        logs = _sessions(source, place)
        ours = [os.path.join(place, f"ours-{number}.html") for number in range(len(logs))]
        peer = _fetch()
        if peer is None:
            skipped = Row(_WHAT, "", "", "skipped: claude-code-log could not be fetched with pip")
            _export(logs, ours, place)
            return [skipped, _usable(ours[-1])]
        theirs = [os.path.join(place, f"theirs-{number}.html") for number in range(len(logs))]
        mine, other = [], []
        for _ in range(ROUNDS):  # In turn, so that a busy machine is as busy for both.
            mine.append(_export(logs, ours, place))
            other.append(_convert(peer, logs, theirs, place))
        return [*_rows(logs, mine, other), *_sizes(ours, theirs), _usable(ours[-1])]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _rows(logs: list[str], mine: list[list[float]], other: list[list[float]]) -> list[Row]:
    """Compare the best of each session, and all of them together."""
    best = [min(times) for times in zip(*mine, strict=True)]
    peers = [min(times) for times in zip(*other, strict=True)]
    ratio = sum(peers) / sum(best)
    rows = [
        Row(
            f"{_WHAT}: all {len(logs)}, time",
            ms(sum(best)),
            ms(sum(peers)),
            f"{ratio:.1f} x",
            ">= 5 x",
            ratio >= 5,
        )
    ]
    for log, one, two in zip(logs, best, peers, strict=True):
        size = f"{os.path.getsize(log) / 1e6:.1f} MB"
        rows.append(Row(f"{_WHAT}: one of {size}", ms(one), ms(two), f"{two / one:.1f} x"))
    return rows


def _sizes(ours: list[str], theirs: list[str]) -> list[Row]:
    one, two = (sum(map(os.path.getsize, paths)) for paths in (ours, theirs))
    part = one / two
    sizes = f"{one / 1e6:.1f} MB", f"{two / 1e6:.1f} MB"
    return [Row(f"{_WHAT}: size", *sizes, f"{part:.2f}", "<= 0.5", part <= 0.5)]


def _usable(page: str) -> Row:
    """Tell how long a browser takes until the largest page can be read and clicked."""
    what = f"{_WHAT}: the largest usable in a browser"
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return Row(what, "", "", "skipped: no browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        taken = []
        for _ in range(ROUNDS):
            tab = browser.new_page()
            began = perf_counter()
            tab.goto(f"file://{page}")
            tab.click("summary >> nth=0")
            taken.append(perf_counter() - began)
            tab.close()
        browser.close()
    met = min(taken) <= _USABLE_SECONDS
    return Row(what, ms(min(taken)), "", "", f"<= {_USABLE_SECONDS:.0f} s", met)


def _sessions(source: str, place: str) -> list[str]:
    """Copy a small, a middling, a large and the largest session into a home of their own."""
    logs = main_logs_by_size(source)
    chosen = [logs[len(logs) * part // 100] for part in (50, 80, 95)] + logs[-1:]
    made = []
    for log in chosen:
        project = os.path.basename(os.path.dirname(log))
        folder = os.path.join(place, "home", "projects", project)
        os.makedirs(folder, exist_ok=True)
        made.append(shutil.copy(log, folder))
        beside = log.removesuffix(".jsonl")
        if os.path.isdir(beside):
            shutil.copytree(beside, os.path.join(folder, os.path.basename(beside)))
    return made


def _export(logs: list[str], pages: list[str], place: str) -> list[float]:
    home = os.path.join(place, "home")
    environ = os.environ | {"TURNLOG_HOME": os.path.join(place, "turnlog")}
    taken = []
    for log, page in zip(logs, pages, strict=True):
        name = os.path.basename(log).removesuffix(".jsonl")
        command = [sys.executable, "-c", TURNLOG, "export", name, "--home", home, "-o", page]
        taken.append(run([*command, "--force"], environ))
    return taken


def _convert(peer: str, logs: list[str], pages: list[str], place: str) -> list[float]:
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.path.join(place, "nobody")}
    os.makedirs(environ["HOME"], exist_ok=True)
    taken = []
    for log, page in zip(logs, pages, strict=True):
        taken.append(run([peer, log, "-o", page, "--no-cache"], environ))
        if not os.path.exists(page):
            raise RuntimeError(f"claude-code-log wrote no page of {log}")
        if os.path.getsize(page) < os.path.getsize(log) // 20:
            raise RuntimeError(f"claude-code-log wrote hardly anything of {log}")
    return taken


def _fetch() -> str | None:
    """Give its program; fetch it if need be."""
    if not os.path.exists(_PROGRAM):
        shutil.rmtree(_PLACE, ignore_errors=True)
        python = os.path.join(_PLACE, "bin", "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([sys.executable, "-m", "venv", _PLACE], [*install, _WANTED]):
            if subprocess.run(command, check=False).returncode:
                return None
    return os.path.abspath(_PROGRAM) if os.path.exists(_PROGRAM) else None
