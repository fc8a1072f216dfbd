"""``turnlog top`` in a real terminal, and where there is none."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from index.homes import own_index
from live.live_world import World, call, prompt, said

START = "from turnlog.cli import main; main()"
ONE = "11111111-aaaa-4aaa-8aaa-111111111111"


@pytest.fixture
def world(tmp_path):
    with own_index(tmp_path / "own") as place:
        place.mkdir()
        made = World(tmp_path)
        yield made
        made.close()


class Terminal:
    """The command in a terminal of its own, and all that it has written there."""

    def __init__(self, world, *arguments, columns=80, lines=24, **environ):
        env = {"PATH": os.environ["PATH"], "HOME": str(world.path), "PYTHONUTF8": "1"}
        env |= {"TURNLOG_HOME": os.environ["TURNLOG_HOME"], "TERM": "xterm-256color"}
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        command = [sys.executable, "-c", START, "top", "--home", str(world.path), *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env | environ,
            start_new_session=True,
        )
        os.close(theirs)
        self.fd, self.written = ours, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)

    def read(self):
        if select.select([self.fd], [], [], 0.05)[0]:
            try:
                self.written += os.read(self.fd, 65536)
            except OSError:  # It hung up.
                return False
        return True

    def wait_for(self, words, seconds=180):
        end = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < end, self.text[-3000:]
            assert self.read(), self.text[-3000:]

    @property
    def text(self):
        """What was written, without what only moves and colours."""
        return re.sub(rb"\x1b\[[0-9;?<>=]*[A-Za-z]", b"", self.written).decode("utf-8", "replace")

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self, seconds=180):
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self.text[-3000:]
            self.read()
        while self.read() and select.select([self.fd], [], [], 0)[0]:
            pass
        return self.process.returncode


def test_it_starts_shows_what_runs_and_leaves_with_q(world):
    world.write(ONE, prompt("Fly the kite"), call(1, "Bash", command="run against the wind"))
    world.run(ONE, "waiting", waitingFor="permission prompt")
    with Terminal(world) as terminal:
        terminal.wait_for("waiting for you: permission")
        terminal.type(b"\r")
        terminal.wait_for("no result yet")
        terminal.type(b"q")
        assert terminal.end() == 0
        assert b"\x1b[?1049l" in terminal.written  # The screen is as it was.
        assert "Traceback" not in terminal.text


def test_control_c_leaves_too(world):
    with Terminal(world) as terminal:
        terminal.wait_for("No running or recently")
        terminal.type(b"\x03")
        assert terminal.end() == 0


def test_without_colours_there_are_none_and_twenty_columns_are_enough(world):
    world.write(ONE, prompt("Fly the kite"), call(1, "Bash", command="run"))
    world.run(ONE, "waiting", waitingFor="permission prompt")
    with Terminal(world, columns=20, lines=8, NO_COLOR="1") as terminal:
        terminal.wait_for("◆")
        terminal.type(b"q")
        assert terminal.end() == 0
        for code in re.findall(rb"\x1b\[([0-9;]*)m", terminal.written):
            for red, green, blue in re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", code):
                assert red == green == blue


def test_hostile_text_moves_nothing(world):
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31mred\u202e"
    world.write(ONE, prompt(evil), said(evil), call(1, evil, command=evil))
    world.run(ONE, "waiting", waitingFor=evil)
    with Terminal(world) as terminal:
        terminal.wait_for("owned")
        terminal.type(b"\r")
        terminal.wait_for("no result yet")
        terminal.type(b"q")
        assert terminal.end() == 0
        # The mouse pointer's shape is textual's own word.
        written = re.sub(rb"\x1b]22;[a-z]*\x07", b"", terminal.written)
        for attack in (b"\x1b]0;owned", b"\x07", "\x9b".encode(), "\u202e".encode()):
            assert attack not in written


def test_where_there_is_no_terminal_it_says_what_to_use(turnlog, world):
    code, out, err = turnlog("top", "--home", world.path)
    assert (code, out) == (2, "")
    assert err.startswith("error: top needs a terminal")
    assert "turnlog watch" in err


def test_json_is_the_same_facts_once(turnlog, world):
    own = os.environ["TURNLOG_HOME"]
    code, out, _ = turnlog("top", "--home", world.path, "--json", TURNLOG_HOME=own)
    assert code == 1
    assert json.loads(out)["sessions"] == []
    world.write(ONE, prompt("Fly"), call(1, "Bash", command="run against the wind"))
    world.run(ONE, "waiting", waitingFor="permission prompt")
    code, out, err = turnlog("top", "--home", world.path, "--json", TURNLOG_HOME=own)
    assert (code, err) == (0, "")
    document = json.loads(out)
    (session,) = document["sessions"]
    assert session["doing"] == "waiting"
    assert session["waiting_for"] == "permission prompt"
    assert session["calls"][0]["asked"] == "run against the wind"
    assert document["block"]["is_active"]
    assert document["next"] is None
    code, out, _ = turnlog(
        "top", "--home", world.path, "--json", "--project", "/nowhere", TURNLOG_HOME=own
    )
    assert code == 1


def test_nothing_heavy_is_imported_until_it_is_drawn():
    code = (
        "import sys; import turnlog.cli.live.top; "
        "print([m for m in ('textual', 'rich', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_it_ends_with_its_terminal(world):
    with Terminal(world) as terminal:
        terminal.wait_for("No running or recently")
        os.close(terminal.fd)
        terminal.fd = os.open(os.devnull, os.O_RDONLY)
        assert terminal.process.wait(180) == 0
