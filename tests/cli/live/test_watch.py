"""``turnlog watch`` in a process of its own, while another writes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import turnlog
from turnlog.sessions.writing import build

START = "from turnlog.cli import main; main()"
SESSION = "5f0c1111-aaaa-4aaa-8aaa-111111111111"


class Watch:
    """The running command, and the lines it has printed so far."""

    def __init__(self, tmp_path, *arguments, stdout=subprocess.PIPE, **environ):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nobody"), "PYTHONUTF8": "1"}
        env |= {"TURNLOG_HOME": str(tmp_path / "own"), "COLUMNS": "80", "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "watch", *map(str, arguments)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=env | environ,
        )
        self.lines = []
        if stdout == subprocess.PIPE:
            self.reader = threading.Thread(target=self._read)
            self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def wait_for(self, text, seconds=180):
        end = time.monotonic() + seconds
        while not any(text in line for line in self.lines):
            assert time.monotonic() < end, f"{text} never came: {self.lines}"
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.02)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        code = self.process.wait(20)
        self.reader.join(5)
        self.process.stdout.close()
        with self.process.stderr as stderr:
            return code, stderr.read().decode()


@pytest.fixture
def watch(tmp_path):
    begun = []

    def start(*arguments, **environ):
        begun.append(Watch(tmp_path, "--home", tmp_path / "home", *arguments, **environ))
        return begun[-1]

    yield start
    for each in begun:
        if each.process.poll() is None:
            each.process.kill()
            each.end()


@pytest.fixture
def writer(tmp_path):
    store = turnlog.open(tmp_path / "home")
    with store.create(project=tmp_path / "orchard", session_id=SESSION) as session:
        session.append(build.user("the beginning"))
        yield session


def call(tool, **given):
    block = {"type": "tool_use", "id": "c1", "name": tool, "input": given}
    message = {"id": "m1", "role": "assistant", "model": "claude-opus-4-5", "content": [block]}
    return {"type": "assistant", "message": message}


def failure(text):
    block = {"type": "tool_result", "tool_use_id": "c1", "content": text, "is_error": True}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def say_until_shown(watch, writer):
    """Wait until the watch is on: what was written before it is not shown."""
    for number in range(100):
        writer.append(build.user(f"ready {number}"))
        time.sleep(0.2)
        if watch.lines:
            return
    raise AssertionError(watch.process.poll())


@pytest.mark.parametrize("poll", [[], ["--poll", "0.1"]], ids=["told", "polling"])
def test_lines_appear_and_ctrl_c_ends_it_well(watch, writer, poll):
    running = watch(*poll)
    say_until_shown(running, writer)
    writer.append(call("Bash", command="make  test\nclean"))
    writer.append(failure("no rule\x1b[31m to make"))
    running.wait_for("no rule")
    assert running.interrupt() == (0, "")
    assert not any("the beginning" in line for line in running.lines)
    asked, failed = running.lines[-2:]
    shape = r"\d\d:\d\d:\d\d orchard +5f0c1111 (\w+) +(.+)"
    assert re.fullmatch(shape, asked).groups() == ("assistant", "Bash make test clean")
    who, what = re.fullmatch(shape, failed).groups()
    assert who == "tool"
    assert what.startswith("✗ no rule")
    assert "\x1b" not in failed


def test_json_is_one_document_a_line_and_a_limit_ends_it(watch, writer):
    writer.append(call("Read", file_path="/x/a.py"))
    running = watch("--json", "--since", "1h", "--limit", "2")
    assert running.end() == (0, "")
    first, second = map(json.loads, running.lines)
    assert (first["text"], first["meaning"], first["author"]) == (
        *("the beginning", "prompt", "human"),
    )
    assert second["calls"] == [{"tool": "Read", "argument": "/x/a.py"}]
    assert (second["session"], second["subagent"]) == (SESSION, None)
    with open(second["log"], "rb") as log:
        log.seek(second["offset"])
        assert json.loads(log.readline())["uuid"] == second["uuid"]


def test_what_programs_note_is_shown_if_asked_for(watch, writer):
    noted = watch("--json", "--since", "1h", "--all", "--limit", "2")
    assert noted.end() == (0, "")
    assert "turnlog" in {json.loads(line)["type"] for line in noted.lines}


def test_filters(watch, writer, tmp_path):
    store = turnlog.open(tmp_path / "home")
    with store.create(project=tmp_path / "orch", session_id="7" * 8) as other:
        other.append(build.user("elsewhere"))
    for expected, *wanted in (
        ("the beginning", "--session", "5f0c"),
        ("elsewhere", "--session", "77"),
        ("the beginning", "--project", tmp_path / "orchard"),
        ("elsewhere", "--project", tmp_path / "orch"),
        ("the beginning", "--project", tmp_path),
    ):
        running = watch("--since", "1h", "--limit", "1", *wanted)
        assert running.end() == (0, "")
        assert [line.endswith(expected) for line in running.lines] == [True]
    quiet = watch("--since", "1h", "--limit", "2", "--quiet")
    assert quiet.end() == (0, "")
    assert quiet.lines == []


def test_a_home_that_is_not_there_yet(watch, tmp_path):
    running = watch("--poll", "0.1")
    time.sleep(0.5)
    with turnlog.open(tmp_path / "home").create(project=tmp_path) as writer:
        say_until_shown(running, writer)
    assert running.interrupt() == (0, "")


@pytest.mark.parametrize("setting", ["", "elsewhere"])
def test_the_usual_home_is_waited_for_too(tmp_path, setting):
    home = tmp_path / (setting or "nobody/.claude")
    environ = {"CLAUDE_CONFIG_DIR": str(home)} if setting else {}
    running = Watch(tmp_path, "--poll", "0.1", **environ)
    try:
        time.sleep(0.6)
        with turnlog.open(home).create(project=tmp_path) as writer:
            say_until_shown(running, writer)
        assert running.interrupt() == (0, "")
    finally:
        running.process.kill()


def test_a_record_of_another_day_tells_the_day(watch, tmp_path):
    log = tmp_path / "home" / "projects" / "-x" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    said = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "long ago"}}
    fields = said | {"sessionId": SESSION, "timestamp": "2026-01-02T12:00:00Z", "cwd": "/x/y"}
    log.write_text(json.dumps(fields) + "\n")
    running = watch("--since", "2026", "--limit", "1", TZ="UTC")
    assert running.end() == (0, "")
    assert running.lines[0].startswith("2026-01-02 12:00:00 y ")


def test_on_a_terminal_a_line_is_a_line(tmp_path, writer):
    writer.append(build.user("word " * 100))
    writer.append(failure("broken"))
    ours, theirs = pty.openpty()
    running = Watch(
        tmp_path, "--home", tmp_path / "home", "--since", "1h", "--limit", "3", stdout=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # The other side is closed: everything was read.
        pass
    assert running.process.wait(20) == 0
    running.process.stderr.close()
    os.close(ours)
    lines = shown.decode().splitlines()
    assert len(lines) == 3
    assert "\x1b[1m" in lines[0]
    assert "\x1b[31m" in lines[2]
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 80
    assert plain[1].endswith("…")


@pytest.mark.parametrize("arguments", [["--poll", "0"], ["--since", "soon"], ["--limit", "-1"]])
def test_mistakes(watch, writer, arguments):
    running = watch(*arguments)
    code, told = running.end()
    assert code == 2
    assert "hint: " in told
