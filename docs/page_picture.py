"""Photograph what `turnlog insights --output` writes and `turnlog web` serves, for the documents.

    python docs/page_picture.py

The report is of made-up sessions, two months of them, always the same. The pages of the browser are
those of samples/claude, two days after the last of them; a process stands for a running agent.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from playwright.sync_api import Browser, sync_playwright

import turnlog
from turnlog.formats import claude_log
from turnlog.sessions.environment import process
from turnlog.storage.writer import LogWriter

SAMPLES: Final = Path(__file__).parent.parent / "samples" / "claude"
STORM: Final = "0b29ae83-a577-4f95-9e24-aa6a497254cb"
FROST: Final = "f38b2ffc-80a4-4f5a-91c9-bc701e7ea419"
HARVEST: Final = "2d3f0bf3-504d-4d95-a72f-8dab7e41fade"
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_CLOCK: Final = f"import time_machine; time_machine.travel({_NOW.isoformat()!r}).start()"
_PAGES: Final = {
    "sessions": "/",
    "session": f"/session/{FROST}",
    "now": "/now",
    "search": "/search?q=frost",
    "files": "/files",
    "costs": "/costs?since=2026-10-01",
    "insights": "/insights?since=2026-10-01",
    "health": "/health",
    "compare": f"/compare?a={FROST}&b={HARVEST}",
}
IMAGES: Final = Path(__file__).parent / "images"
_SIZE: Final = {"width": 1180, "height": 900}
_LAST_DAY: Final = datetime(2026, 10, 31, tzinfo=UTC)
_DAYS: Final = 60
_PROJECTS: Final = ("orchard", "lighthouse", "payments-api", "site")
_MODELS: Final = ("claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101")
_TOOLS: Final = {
    "Bash": {"command": "make test"},
    "Read": {"file_path": "src/trees.py"},
    "Edit": {"file_path": "src/trees.py", "old_string": "red", "new_string": "green"},
    "Grep": {"pattern": "TODO", "path": "src"},
    "Write": {"file_path": "notes.md", "content": "# Notes"},
}
_PROMPTS: Final = (
    "Fix the flaky retry in the import",
    "Why is the list of orders slow?",
    "Add a page for pears",
    "Review the migration before we run it",
    "Rename Basket to Cart everywhere",
    "The build fails on main, find out why",
    "Write the release notes",
)


def _records(chance: random.Random, session: str, cwd: str, at: datetime) -> Iterator[Any]:
    """Tell one session, turn by turn."""
    parent = None
    model = chance.choices(_MODELS, (4, 1))[0]

    def placed(said: dict[str, Any], seconds: float) -> dict[str, Any]:
        nonlocal parent, at
        at += timedelta(seconds=seconds)
        uuid = str(UUID(int=chance.getrandbits(128), version=4))
        where = {"sessionId": session, "cwd": cwd, "gitBranch": "main", "version": "2.1.0"}
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = said | where | {"uuid": uuid, "parentUuid": parent, "timestamp": stamp}
        parent = uuid
        return told

    for _ in range(chance.randint(1, 4)):
        yield placed(turnlog.build.user(chance.choice(_PROMPTS)), chance.expovariate(1 / 90))
        for number in range(chance.randint(2, 14)):
            tool = chance.choices(list(_TOOLS), (5, 6, 4, 3, 1))[0]
            call = turnlog.build.call(tool, _TOOLS[tool], call_id=f"toolu_{chance.getrandbits(60)}")
            usage = {
                "input_tokens": chance.randint(3, 900),
                "output_tokens": chance.randint(80, 1_800),
                "cache_creation_input_tokens": chance.randint(400, 6_000),
                "cache_read_input_tokens": 9_000 + 4_000 * number,
            }
            ids = {"message_id": f"msg_{chance.getrandbits(60)}"}
            yield placed(turnlog.build.assistant([call], model=model, usage=usage, **ids), 6)
            failed = chance.random() < (0.16 if tool == "Bash" else 0.04)
            said = "Exit code 2: 1 failed" if failed else "done"
            waited = chance.expovariate(1 / 4)
            yield placed(turnlog.build.result(call["id"], said, failed=failed), waited)
        yield placed(turnlog.build.assistant("Done.", model=model), 5)


def write_home(home: Path) -> None:
    """Write the sessions of two months."""
    chance = random.Random(11)  # noqa: S311 - The same picture every time.
    for back in range(_DAYS):
        day = _LAST_DAY - timedelta(days=back)
        busy = 1 if day.weekday() > 4 else 5
        for _ in range(chance.randint(0, busy)):
            session = str(UUID(int=chance.getrandbits(128), version=4))
            cwd = f"/home/ada/{chance.choices(_PROJECTS, (5, 2, 4, 1))[0]}"
            at = day + timedelta(hours=min(23, max(7, chance.gauss(14, 3.5))))
            with LogWriter(claude_log(home, cwd, session), durability="flush") as log:
                log.append_many(_records(chance, session, cwd, at))


def _photograph_report(browser: Browser, place: Path) -> None:
    """Photograph a report that a command wrote."""
    write_home(place / "made-up")
    page = place / "insights.html"
    period = ["--since", "2026-09-02", "--until", "2026-11-01"]
    subprocess.run(  # noqa: S603 - Our own command.
        [sys.executable, "-m", "turnlog.cli", "insights", "--output", page, "--home",
         place / "made-up", *period],
        env=_environ(place), check=True,
    )  # fmt: skip
    view = browser.new_page(viewport=_SIZE, color_scheme="light")
    view.goto(page.as_uri())
    view.screenshot(path=IMAGES / "insights.png")


def _photograph_pages(browser: Browser, place: Path) -> None:
    """Photograph every page of a server, and one on a phone."""
    home = place / "home"
    shutil.copytree(SAMPLES, home)
    (home / "sessions").mkdir()
    program = [sys.executable, "-c", f"{_CLOCK}\nfrom turnlog.cli import main; main()"]
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as agent,
        subprocess.Popen(  # noqa: S603 - Our own command.
            [*program, "web", "--port", "0", "--home", home],
            env=_environ(place), stderr=subprocess.PIPE,
        ) as server,
    ):  # fmt: skip
        me = process(agent.pid)
        assert me is not None
        assert server.stderr is not None
        says = {
            "pid": agent.pid, "sessionId": STORM, "procStart": me.started, "status": "waiting",
            "cwd": "/home/ada/lighthouse", "waitingFor": "permission prompt",
            "statusUpdatedAt": int((_NOW - timedelta(minutes=4)).timestamp() * 1000),
        }  # fmt: skip
        (home / "sessions" / f"{agent.pid}.json").write_text(json.dumps(says))
        address = server.stderr.readline().decode().split()[-1]
        root = address.partition("/?")[0]
        for width, names in ((1366, _PAGES), (390, {"phone": _PAGES["session"]})):
            view = browser.new_page(viewport={"width": width, "height": 620}, color_scheme="light")
            view.goto(address)
            view.wait_for_url(f"{root}/")
            for name, path in names.items():
                view.goto(root + path)
                view.wait_for_timeout(1500)  # What is loaded later is there.
                view.screenshot(path=IMAGES / f"web-{name}.png")
        server.terminate()
        agent.terminate()


def _environ(place: Path) -> dict[str, str]:
    return {"TURNLOG_HOME": str(place / "own"), "TZ": "UTC"}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        _photograph_report(browser, Path(directory))
        _photograph_pages(browser, Path(directory))
        browser.close()


if __name__ == "__main__":
    main()
