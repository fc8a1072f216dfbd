"""What a person sees: the command line at a terminal of some width, over a home that never changes.

The home is the bundled samples and what lies beside sessions: prompts, todos, plans, kept versions
of files. The clock stands at NOW, and days are UTC's. Commands run in this process, with a
terminal's stdout; colours and links are taken off, so that what is left can be read and compared.
"""

import io
import json
import os
import re
import shutil
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import time_machine

from snapshots import stable
from turnlog.cli.app import run
from turnlog.cli.live import watch

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
FROST = "f38b2ffc-80a4-4f5a-91c9-bc701e7ea419"
HARVEST = "2d3f0bf3-504d-4d95-a72f-8dab7e41fade"
STORM = "0b29ae83-a577-4f95-9e24-aa6a497254cb"
GONE = "6a5e0d11-0000-4000-8000-00000000dead"
KEY = "sk-ant-api03-" + "Zq8vT1xWb4nLs7Rk2YdHm5Gc9PjE3oAu" * 2 + "-Zq8vT1xWb4nLs7RkAA"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")
FIXED_CLOCK = (
    "import datetime, time_machine\n"
    f"time_machine.travel(datetime.datetime.fromisoformat('{NOW}'), tick=False).start()\n"
)
"""What a process of its own runs first, so that its clock stands at NOW."""


class Home:
    """A person's home directory, with a home of Claude Code in it or without."""

    def __init__(self, directory, *, is_empty=False, has_side_files=True):
        self.path = directory
        self.claude = directory / ".claude"
        directory.mkdir(parents=True)
        if is_empty:
            return
        shutil.copytree(SAMPLES, self.claude)
        if has_side_files:
            beside(self.claude)
        for path in sorted(self.claude.rglob("*")):
            at = _written_at(path)
            os.utime(path, (at, at))

    def environ(self, columns=None):
        """Return the environment of a process in this home; without *columns*, of no width."""
        return {
            "PATH": "",  # No claude, no systemd, no cron, wherever this runs.
            "HOME": str(self.path),
            "TURNLOG_HOME": str(self.path / ".turnlog"),
            "TURNLOG_PAGER": "",
            "LINES": "50",
            "TERM": "xterm",
            "TZ": "UTC",
            **({} if columns is None else {"COLUMNS": str(columns)}),
        }

    @contextmanager
    def inside(self, columns=None):
        """Let this process work in this home, at NOW, with its environment."""
        before = os.getcwd()
        with ExitStack() as stack:
            stack.callback(time.tzset)
            stack.enter_context(mock.patch.dict(os.environ, self.environ(columns), clear=True))
            stack.enter_context(mock.patch.object(uuid, "uuid4", _Uuids()))
            stack.callback(os.chdir, before)
            time.tzset()
            os.chdir(self.path)
            stack.enter_context(time_machine.travel(NOW, tick=False))
            yield

    def screen(self, *words, columns=80, typed="", stdout=None):
        """Run a command; give its exit code and what was on the screen.

        Without *columns* its output goes into a pipe, which has no width.
        """
        watch._console.cache_clear()  # It lives as long as a process.
        out, err = Terminal() if columns is not None else Pipe(), Terminal()
        typing = mock.patch.object(sys, "stdin", io.StringIO(typed))
        with typing, redirect_stdout(stdout or out), redirect_stderr(err), self.inside(columns):
            code = run([str(word) for word in words])
        return code, self._plain(out.text()), self._plain(err.text())

    def do(self, *words):
        """Run a command of which nothing is to be seen; ``rm`` removes a session's log."""
        if words[0] != "rm":
            self.screen(*words)
            return
        for log in self.claude.glob(f"projects/*/{words[1]}*.jsonl"):
            log.unlink()

    def _plain(self, text):
        text = stable(_COLOUR.sub("", text), self.path)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no descriptor")

    def text(self):
        self.flush()
        return self.buffer.getvalue().decode()


class Pipe(Terminal):
    """A stream that says it is none."""

    def isatty(self):
        return False


class _Uuids:
    """Ids one after another, for what a command makes."""

    def __init__(self):
        self._made = 0

    def __call__(self):
        self._made += 1
        return uuid.UUID(f"c0ffee00-0000-4000-8000-{self._made:012}")


def beside(claude):
    """Write what Claude Code keeps beside its logs."""

    def write(name, content):
        path = claude / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def typed(text, at, project, session, **more):
        fields = {"display": text, "timestamp": int(at.timestamp() * 1000), "project": project}
        return json.dumps(fields | {"pastedContents": {}, "sessionId": session} | more) + "\n"

    pasted = {"1": {"id": 1, "type": "text", "content": "A1 2023-04-18\nA1 2024-04-09"}}
    write(
        "history.jsonl",
        typed("Explain what lamp.c does.", _at("2025-07-02T19:30"), "/home/ada/lighthouse", None)
        + typed("Frost at noon?", _at("2026-10-19T08:14"), "/home/ada/orchard", FROST)
        + typed(
            "Let us design the harvest forecast. What do we need to know? [Pasted text #1]",
            _at("2026-10-21T16:02"), "/home/ada/orchard", HARVEST, pastedContents=pasted,
        ),
    )  # fmt: skip
    write(
        f"todos/{HARVEST}-agent-{HARVEST}.json",
        [
            {"content": "Read data/yields.csv", "status": "completed"},
            {"content": "Fit degree days to bloom dates", "status": "in_progress"},
            {"content": "Hold back 2024 as a test", "status": "pending"},
        ],
    )
    write(f"todos/{GONE}-agent-{GONE}.json", [{"content": "Oil the lamp", "status": "pending"}])
    write("plans/calm-river.md", "# Harvest forecast\n\n1. Bloom dates\n2. Degree days\n")
    write("settings.json", {"cleanupPeriodDays": 30})
    log = claude / "projects" / "-home-ada-orchard" / "77aa3d20-5c1e-4b7e-9d5a-2f6b1c0e8f44.jsonl"
    record = {
        "type": "user", "uuid": "0f0e0d0c-1111-4222-8333-444455556666", "parentUuid": None,
        "sessionId": log.stem, "cwd": "/home/ada/orchard", "version": "2.1.207",
        "gitBranch": "main",
        "timestamp": "2026-11-02T08:30:00.000Z",
        "message": {"role": "user", "content": f"Call the weather service; its key is {KEY}"},
    }  # fmt: skip
    log.write_text(json.dumps(record) + "\n")


def _at(text):
    return datetime.fromisoformat(f"{text}:00+00:00")


def _written_at(path):
    """Give the instant of the last record of a log; of anything else, a day before NOW."""
    if path.suffix == ".jsonl":
        found = re.findall(rb'"timestamp":\s*"([^"]+)"', path.read_bytes())
        if found:
            return datetime.fromisoformat(max(found).decode()).timestamp()
    return NOW.timestamp() - 86400
