"""The pages in a real browser, beside agentsview and claude-code-log.

All servers read the same home: a generated tree of 300 MB, then the real corpus if there is one,
with one session of 5,000 messages added. Times are counted by the browser from the start of the
navigation until the content is in the page: fresh with an empty cache, warm with a used one. A
search is typed into the loaded home page. The peer has no address for the end of a session, so it
starts from the loaded session. claude-code-log writes files, so only its session's page is opened.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import Any

from . import agentsview, trees
from .data import BASE, line_of, real_home
from .programs import TURNLOG, family
from .table import Row, ms, percentile

ROUNDS, APPENDS, LOADS, READERS, CROWD_SECONDS = 5, 50, 1_000, 50, 60
SESSION = "5e55104e-0000-4000-8000-000000005000"
_MESSAGES = 5_000
_FIRST, _LAST = "plant the first seedling", "harvest the last pumpkin"
_WAIT_MS = 60_000
_WANTED = "claude-code-log==1.7.0"
_CONTEXT = {"viewport": {"width": 1440, "height": 900}}


@dataclass(frozen=True)
class Side:
    """A server, and how its pages are asked and recognised. Conditions are JavaScript."""

    address: str
    pid: int
    entry: str
    paths: dict[str, str]
    shown: dict[str, str]
    search: list[str]
    """The keys that search for a word."""
    requests: list[str]
    headers: dict[str, str] = field(default_factory=dict)


def bench() -> list[Row]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    peer = agentsview.fetch()
    if program is None or peer is None:
        return [Row("pages", "", "", "needs chromium and agentsview")]
    rows = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for what, home in (("300 MB tree", trees.tree("300M")), ("real corpus", real_home())):
            if home is not None:
                rows += _measured(browser, what, home, peer)
        browser.close()
    return rows


def _measured(browser: Any, what: str, original: str, program: str) -> list[Row]:
    home = os.path.abspath(os.path.join(BASE, "web", "home"))
    growing = trees.main_logs_by_size(original)[-6:]
    trees.copy_of(original, home, growing)
    logs = [os.path.join(home, os.path.relpath(each, original)) for each in growing]
    log = _long_session(home)
    with _turnlog(home) as ours, _agentsview(program, home) as theirs:
        rows = [*_first_contents(browser, ours, theirs), *_size(browser, ours, theirs)]
        rows += _by_claude_code_log(browser, log)
        rows += _appended(browser, ours, theirs, log)
        rows += [*_memory(ours, theirs), *_crowd(ours, theirs, logs)]
    return [
        Row(f"{what}: {row.what}", row.ours, row.peer, row.ratio, row.bar, row.met) for row in rows
    ]


# -- the sides ------------------------------------------------------------------------------------


def _holds(words: str, where: str = "main") -> str:
    return f"document.querySelector('{where}')?.textContent.includes('{words}')"


@contextmanager
def _turnlog(home: str) -> Iterator[Side]:
    own = os.path.join(os.path.dirname(home), "own")
    shutil.rmtree(own, ignore_errors=True)
    environ = os.environ | {"TURNLOG_HOME": own, "TZ": "UTC"}
    begin = [sys.executable, "-c", TURNLOG]
    subprocess.run(
        [*begin, "refresh", "--home", home], env=environ, check=True, stdout=subprocess.DEVNULL
    )
    command = [*begin, "web", "--port", "0", "--home", home]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/\?token=([\w-]+)", line)
        assert found, line
        address, port, token = found.groups()
        Thread(target=process.stderr.read, daemon=True).start()
        session = f"/session/{SESSION}"
        paths = {
            "home": "/",
            "list": "/?since=2020-01-01",
            "session": session,
            "end": f"{session}?end=1#end",
            "costs": "/costs?since=all",
        }
        row = "document.querySelector('main a[href*=\"/session/\"]')"
        shown = {
            "home": row,
            "list": row,
            "session": _holds(_FIRST),
            "end": _holds(_LAST),
            "search": f"location.pathname === '/search' && {row}",
            "costs": "document.querySelector('main td, main svg')",
        }
        cookie = {"Cookie": f"turnlog-{port}={token}"}
        try:
            keys = ["/", *"pumpkin", "Enter"]
            requests = [each.partition("#")[0] for each in paths.values()]
            requests.append("/search?q=pumpkin")
            yield Side(
                address, process.pid, f"/?token={token}", paths, shown, keys, requests, cookie
            )
        finally:
            process.terminate()


@contextmanager
def _agentsview(program: str, home: str) -> Iterator[Side]:
    place = os.path.join(os.path.dirname(home), "agentsview")
    made = agentsview.Agentsview(program, home, place)
    made.sync_alone()
    command = [program, "serve", "--port", "0", "--no-browser", "--no-update-check"]
    with subprocess.Popen(
        command, env=made.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:  # It ends with the process.
            if found := re.search(rb"listening at (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            raise RuntimeError("agentsview did not start")
        Thread(target=process.stdout.read, daemon=True).start()
        usage = "from=2020-01-01&to=2030-01-01"
        paths = {
            "home": "/",
            "list": "/sessions",
            "session": f"/sessions/{SESSION}",
            "costs": f"/usage?{usage}",
        }
        row = "document.querySelector('a[href^=\"/sessions/\"]')"
        shown = {
            "home": row,
            "list": row,
            "session": _holds(_FIRST, ".message"),
            "search": _holds("harvest the last", ".palette"),
            "costs": "/\\$[0-9]/.test(document.querySelector('.card-value')?.textContent)",
        }
        api = "/api/v1"
        requests = [
            f"{api}/sessions/sidebar-index?timezone=UTC&include_one_shot=true&limit=500",
            f"{api}/stats?include_one_shot=true",
            f"{api}/sessions/{SESSION}/messages?from=0&limit=1000&direction=asc",
            f"{api}/search?q=pumpkin&limit=30&sort=relevance",
            f"{api}/usage/summary?{usage}&timezone=UTC&include_one_shot=true&group_models=true",
        ]
        try:
            keys = ["Control+k", *"pumpkin"]
            yield Side(found[1].decode(), process.pid, "/", paths, shown, keys, requests)
        finally:
            process.terminate()


# -- first content --------------------------------------------------------------------------------


def _first_contents(browser: Any, ours: Side, theirs: Side) -> list[Row]:
    what = {
        **{name: name for name in ("home", "list", "session", "costs")},
        "end": "the end of the session",
        "search": "a search",
    }
    taken: dict[tuple[str, bool, bool], list[float]] = {}
    for number in range(ROUNDS):
        for side in (ours, theirs) if number % 2 else (theirs, ours):
            for name in what:
                context = _entered(browser, side)
                for is_warm in (False, True):
                    page = context.new_page()
                    seconds = _opened(page, side, name)
                    taken.setdefault((name, is_warm, side is ours), []).append(seconds)
                    page.close()
                context.close()
    return [
        _faster(f"{what[name]}, {'warm' if is_warm else 'fresh'} cache",
                median(taken[name, is_warm, True]), median(taken[name, is_warm, False]))
        for name in what for is_warm in (False, True)
    ]  # fmt: skip


def _entered(browser: Any, side: Side) -> Any:
    """Return a context with an empty cache, and the cookie if one is needed."""
    context = browser.new_context(**_CONTEXT)
    for cookie in side.headers.values():
        name, _, value = cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": side.address}])
    return context


def _opened(page: Any, side: Side, name: str) -> float:
    """Open what is called *name*; return the seconds until it is there."""
    if name in side.paths:
        page.goto(side.address + side.paths[name], wait_until="commit")
        return _shown_after(page, side.shown[name])
    if name == "end":
        page.goto(side.address + side.paths["session"], wait_until="commit")
        _shown_after(page, side.shown["session"])
        page.keyboard.press("o")  # The newest first: its way to the end.
        return _shown_after(page, _holds(_LAST, ".messages, main, body"))
    page.goto(side.address + side.paths["home"])
    _shown_after(page, side.shown["home"])
    began = page.evaluate("Date.now()")
    for key in side.search:
        page.keyboard.press(key)
    found = page.wait_for_function(f"() => ({side.shown['search']}) && Date.now()", polling="raf")
    return float(found.json_value() - began) / 1e3


def _shown_after(page: Any, condition: str, wait_ms: int = _WAIT_MS) -> float:
    """Wait for a condition; return the page's age in seconds."""
    found = page.wait_for_function(
        f"() => ({condition}) && performance.now()", polling="raf", timeout=wait_ms
    )
    return float(found.json_value()) / 1e3


def _faster(what: str, ours: float, theirs: float) -> Row:
    ratio = theirs / ours
    return Row(
        f"first content of {what}", ms(ours), ms(theirs), f"{ratio:.1f}x", ">= 3x", ratio >= 3
    )


# -- the long session -----------------------------------------------------------------------------


def _long_session(home: str) -> str:
    """Write a session of 5,000 messages into *home*; return its log."""
    log = os.path.join(home, "projects", "-home-ada-garden", f"{SESSION}.jsonl")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    rng = random.Random(5)
    words = ["hedge", "spade", "border", "mulch", "trellis", "cloche", "furrow", "orchard"]
    parent = None
    with open(log, "wb") as file:
        for number in range(_MESSAGES):
            text = " ".join(rng.choices(words, k=rng.randint(5, 60)))
            text = _FIRST if not number else _LAST if number == _MESSAGES - 1 else text
            step = number % 10
            if step == 0:
                said: dict[str, Any] = {"role": "user", "content": text}
            elif step % 2 == 0:
                result = {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}"}
                said = {"role": "user", "content": [result | {"content": text}]}
            else:
                block: dict[str, Any] = {"type": "text", "text": text}
                if step != 9:
                    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash"}
                    block = call | {"input": {"command": text[:60]}}
                usage = {"input_tokens": 9, "output_tokens": 90, "cache_read_input_tokens": 9_000}
                said = {"role": "assistant", "id": f"msg_{number}", "type": "message"}
                said |= {"model": "claude-opus-4-6", "content": [block], "usage": usage}
            record = _record(parent, number, said)
            parent = record["uuid"]
            file.write(line_of(record))
    return log


def _record(parent: str | None, number: int, said: dict[str, Any]) -> dict[str, Any]:
    at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=7 * number)
    return {
        "parentUuid": parent,
        "type": said["role"],
        "message": said,
        "uuid": f"{number:08x}-0000-4000-8000-{number:012x}",
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
        "cwd": "/home/ada/garden",
        "sessionId": SESSION,
        "version": "2.1.200",
        "gitBranch": "main",
        "isSidechain": False,
        "userType": "external",
    }


_COUNTED = """() => [document.querySelectorAll('*').length,
  [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .reduce((sum, each) => sum + each.transferSize, 0)]"""


def _size(browser: Any, ours: Side, theirs: Side) -> list[Row]:
    counts = []
    for side in (ours, theirs):
        context = _entered(browser, side)
        page = context.new_page()
        _opened(page, side, "session")
        page.wait_for_timeout(2_000)
        counts.append(page.evaluate(_COUNTED))
        context.close()
    (nodes, size), (other_nodes, other_size) = counts
    what = "session of 5,000 messages before scrolling"
    return [
        Row(f"{what}: nodes", f"{nodes:,}", f"{other_nodes:,}", f"{nodes / other_nodes:.2f}",
            "< 3,000", nodes < 3_000),
        Row(f"{what}: KB transferred", f"{size / 1e3:,.0f}", f"{other_size / 1e3:,.0f}",
            f"{size / other_size:.2f}", "< 300", size < 300_000),
    ]  # fmt: skip


def _by_claude_code_log(browser: Any, log: str) -> list[Row]:
    """Let claude-code-log write the page of the long session, and open it."""
    place = os.path.abspath(os.path.join(BASE, "peers", "claude-code-log"))
    program = os.path.join(place, "bin", "claude-code-log")
    if not os.path.exists(program):
        python = os.path.join(place, "bin", "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", place],
            [*install, "claude-code-log==1.7.0"],
        ):
            if subprocess.run(command, check=False).returncode:
                return []
    page_path = os.path.join(os.path.dirname(place), "garden.html")
    began = perf_counter()
    subprocess.run(
        [program, log, "-o", page_path], check=True, stdout=subprocess.DEVNULL, timeout=600,
        env={"PATH": os.environ["PATH"], "HOME": os.path.dirname(place)},
    )  # fmt: skip
    written = perf_counter() - began
    page = browser.new_context(**_CONTEXT).new_page()
    page.goto(f"file://{page_path}", wait_until="commit")
    shown = _shown_after(page, _holds(_FIRST, "body"))
    page.wait_for_load_state()
    nodes, _ = page.evaluate(_COUNTED)
    page.context.close()
    size = os.path.getsize(page_path)
    told = f"{ms(shown)}, {nodes:,} nodes, {size / 1e3:,.0f} KB, written in {written:.1f} s"
    return [Row("session, claude-code-log's file", "", told, "")]


# -- growth ---------------------------------------------------------------------------------------


def _appended(browser: Any, ours: Side, theirs: Side, log: str) -> list[Row]:
    """Measure the time from a record's append until it is in the open page."""
    from playwright.sync_api import TimeoutError as NotShown

    taken: list[str] = []
    middle: list[float | None] = []
    for side in (ours, theirs):
        context = _entered(browser, side)
        page = context.new_page()
        times: list[float] = []
        with suppress(NotShown):  # A page that does not grow is not tried again.
            _opened(page, side, "end")
            page.wait_for_timeout(1_000)
            page.evaluate("document.getElementById('follow')?.click()")  # Ours is asked to.
            for number in range(APPENDS):
                word = f"sprout-{side.pid}-{number}"
                began = perf_counter()
                trees.grow(log, word)
                _shown_after(page, _holds(word, "body"), 10_000)
                times.append(perf_counter() - began)
                page.wait_for_timeout(200)
        context.close()
        middle.append(median(times) if times else None)
        taken.append(
            f"{ms(median(times))} ({len(times)} of {APPENDS})" if times else "not measured"
        )
    mine, other = middle
    ratio = f"{other / mine:.1f}x" if mine and other else "-"
    met = mine is not None and mine <= 0.5
    return [Row("an appended record is on screen, median", *taken, ratio, "<= 500 ms", met)]


# -- many loads, many readers ---------------------------------------------------------------------


def _ask(side: Side, path: str) -> int:
    connection = http.client.HTTPConnection(side.address.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", path, headers=side.headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _resident_mb(pid: int) -> float:
    total = 0
    for each in family(pid):
        try:
            with open(f"/proc/{each}/status", encoding="ascii") as file:
                found = re.search(r"VmRSS:\s+(\d+) kB", file.read())
        except OSError:
            continue
        total += int(found[1]) if found else 0
    return total * 1024 / 1e6


def _memory(ours: Side, theirs: Side) -> list[Row]:
    sizes = []
    for side in (ours, theirs):
        for number in range(LOADS):
            _ask(side, side.requests[number % len(side.requests)])
        sizes.append(_resident_mb(side.pid))
    mine, other = sizes
    return [
        Row(f"server's memory after {LOADS:,} loads", f"{mine:.0f} MB", f"{other:.0f} MB",
            f"{mine / other:.2f}", "< 200 MB", mine < 200)
    ]  # fmt: skip


def _crowd(ours: Side, theirs: Side, logs: list[str]) -> list[Row]:
    """Let many readers click while logs grow."""
    told, high, wrong = [], [], []
    for side in (ours, theirs):
        over = Event()
        writer = Thread(target=_grow_until, args=(over, logs, str(side.pid)))
        writer.start()
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(lambda seed, side=side: _read(side, seed), range(READERS)))
        over.set()
        writer.join()
        times = [seconds for each, _ in found for seconds in each]
        errors = sum(each for _, each in found)
        high.append(percentile(times, 95))
        wrong.append(errors)
        told.append(f"{ms(high[-1])}, {errors} errors of {len(times) + errors:,}")
    met = not wrong[0] and high[0] <= 0.25
    what = f"{READERS} readers for {CROWD_SECONDS} s, logs growing: 95th percentile"
    return [
        Row(what, *told, f"{high[1] / high[0]:.1f}x", "no error, <= 250 ms", met),
    ]


def _grow_until(over: Event, logs: list[str], word: str) -> None:
    for number in range(CROWD_SECONDS * 4):
        if over.wait(0.5):
            return
        trees.grow(logs[number % len(logs)], f"{word}-{number}")


def _read(side: Side, seed: int) -> tuple[list[float], int]:
    rng = random.Random(seed)
    until = perf_counter() + CROWD_SECONDS
    time.sleep(rng.random() * 2)
    times: list[float] = []
    errors = 0
    while perf_counter() < until:
        began = perf_counter()
        try:
            status = _ask(side, rng.choice(side.requests))
        except (OSError, http.client.HTTPException):
            status = 0
        if status == 200:
            times.append(perf_counter() - began)
        else:
            errors += 1
        time.sleep(2)
    return times, errors
