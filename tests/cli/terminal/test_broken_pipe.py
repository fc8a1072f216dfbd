"""Whoever stops reading, as head does, changes no exit code and hears no complaint."""

import json
import os
import subprocess
import sys

import pytest

from cli.conftest import DAMAGED, WHOLE
from sampling import sampled

COMMAND = [sys.executable, "-c", "from turnlog.cli import main; main()"]


@pytest.fixture
def run(home, tmp_path):
    log = home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    with log.open("a") as file:  # More than a pipe holds.
        for number in range(2000):
            message = {"role": "user", "content": f"prompt {number} {'word ' * 20}"}
            at = f"2026-11-01T10:{number // 60:02}:{number % 60:02}.000Z"
            more = {"uuid": f"n{number}", "sessionId": WHOLE, "timestamp": at}
            file.write(json.dumps({"type": "user", "message": message, **more}) + "\n")
    environ = os.environ | {"TURNLOG_HOME": str(tmp_path / "own"), "PYTHONUTF8": "1"}

    def run(words, **pipes):
        homes = [] if words.startswith(("-", "prices", "nosuch")) else ["--home", str(home)]
        return subprocess.Popen([*COMMAND, *words.split(), *homes], env=environ, **pipes)

    return run


@pytest.mark.parametrize(
    ("words", "code"),
    sampled(
        [
            ("sessions", 0),
            ("sessions --json", 0),
            ("sessions --project /nowhere", 1),
            ("projects", 0),
            ("cost", 1),
            ("prices", 0),
            ("plans", 1),
            ("prompts", 1),
            ("search prompt", 0),
            ("search nobodysaidthis", 1),
            ("query messages", 0),
            (f"show {WHOLE[:8]}", 0),
            (f"export {WHOLE[:8]} --format jsonl", 0),
            ("watch --since 2026-11-01", 0),
            ("check", 1),
            (f"check {WHOLE[:8]}", 0),
            (f"repair {DAMAGED[:8]}", 1),
            ("refresh", 0),
            ("", 0),
            ("--help", 0),
            ("--version", 0),
            ("nosuchcommand", 2),
            ("show nosuchsession", 2),
        ],
        3,
    ),
)
def test_a_reader_that_was_never_there(run, words, code):
    for stderr_too in (False, True):
        reader, writer = os.pipe()
        os.close(reader)
        process = run(words, stdout=writer, stderr=writer if stderr_too else subprocess.PIPE)
        os.close(writer)
        _, told = process.communicate(timeout=60)
        assert process.returncode == code
        assert b"Traceback" not in (told or b"")
        assert b"Broken" not in (told or b"")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"show {WHOLE[:8]}", 0),
        (f"export {WHOLE[:8]} --format jsonl", 0),
        ("check --all", 1),
        ("query messages --limit 2000 --csv", 0),
        ("search prompt --flat --limit 0", 0),
    ],
)
def test_a_reader_that_takes_a_line(run, words, code):
    for _ in range(3):
        process = run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), b"Broken" in told) == (code, False)
