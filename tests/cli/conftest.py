"""A home with a whole session and a damaged one, and the command line in a process of its own."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest

import forked

WHOLE = "11111111-aaaa-4aaa-8aaa-111111111111"
DAMAGED = "22222222-bbbb-4bbb-8bbb-222222222222"


def line(**fields):
    return json.dumps(fields, separators=(",", ":")).encode()


def prompt(session, text, **more):
    message = {"role": "user", "content": text}
    fields = {"uuid": f"u-{text}", "timestamp": "2026-11-01T10:00:00.000Z", "version": "2.1.200"}
    return line(type="user", sessionId=session, message=message, **fields, **more)


@pytest.fixture
def home(tmp_path):
    project = tmp_path / "home" / "projects" / "-home-ada-orchard"
    project.mkdir(parents=True)
    (tmp_path / "home" / "statsig").mkdir()  # The home is Claude Code's own.
    (project / f"{WHOLE}.jsonl").write_bytes(prompt(WHOLE, "one") + b"\n")
    glued = prompt(DAMAGED, "two") + prompt(DAMAGED, "three")
    torn = b'{"type":"user","message":{"role":"us'
    (project / f"{DAMAGED}.jsonl").write_bytes(glued + b"\n" + b"\0" * 9 + b"\n" + torn)
    return tmp_path / "home"


@pytest.fixture
def damaged_log(home):
    return home / "projects" / "-home-ada-orchard" / f"{DAMAGED}.jsonl"


@pytest.fixture
def turnlog(tmp_path):
    """Run the real command; give its exit code, stdout and stderr."""
    return command_in(tmp_path)


def command_in(place):
    """Return a way to run the real command in a directory."""
    return partial(_run, forked.run, place)


@pytest.fixture
def turnlog_started(tmp_path):
    """Do the same with a Python of its own, where start-up matters."""
    program = [sys.executable, "-c", "from turnlog.cli import main; main()"]

    def start(arguments, **how):
        return subprocess.run([*program, *arguments], capture_output=True, timeout=60, **how)

    return partial(_run, start, tmp_path)


def _run(start, place, *arguments, **environ):
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "nobody"),
        "COLUMNS": "80",
        "PYTHONUTF8": "1",
        "TZ": "UTC",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    done = start([str(each) for each in arguments], env=env | environ, cwd=place)
    return done.returncode, done.stdout.decode(), done.stderr.decode()
