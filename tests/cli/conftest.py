"""A home with a whole session and a damaged one, and the command line in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

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

    def run(*arguments, **environ):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "nobody"),
            "COLUMNS": "80",
            "PYTHONUTF8": "1",
            "TZ": "UTC",
        }
        done = subprocess.run(
            [sys.executable, "-c", "from turnlog.cli import main; main()", *map(str, arguments)],
            capture_output=True,
            env=env | environ,
            cwd=tmp_path,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run
