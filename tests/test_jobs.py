"""Jobs that people come with: at most two commands each, and what they need is on the screen.

A job is typed in a shell in a home with the bundled samples, at a terminal of 80x24. The screen is
the last 24 lines that a command prints, or the first 23 if it uses a pager. To add a job:

    def test_a_job(person):
        screen = person.types("turnlog search frost")
        screen.shows("orchard", "Frost alert")
        person.types(screen.command("show")).shows("sunrise")
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from datetime import datetime

import pytest

from cli.screens import NOW, Home

COLUMNS, LINES = 80, 24
MOST_COMMANDS = 2
PROGRAM = """#!{python}
import datetime, sys, time_machine
time_machine.travel(datetime.datetime.fromisoformat("{now}"), tick=False).start()
sys.argv[0] = "turnlog"
from turnlog.cli import main
main()
"""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\")


class Screen:
    """What is on the screen after a command."""

    def __init__(self, command, text):
        self.command_line, self.text = command, text

    def shows(self, *texts):
        """Check that all *texts* are on the screen; line breaks count as spaces."""
        words = " ".join(self.text.split())
        missing = [each for each in texts if " ".join(each.split()) not in words]
        assert not missing, f"{missing} not on the screen of {self.command_line}:\n{self.text}"

    def command(self, name):
        """Return the first command on the screen with this name, to be typed next."""
        found = re.search(rf"turnlog {name}\b[^\n]*", self.text)
        assert found, f"no turnlog {name} on the screen of {self.command_line}:\n{self.text}"
        return found[0].strip()


class Person:
    """Someone at a terminal, at *now*."""

    def __init__(self, directory):
        self.home = Home(directory / "home")
        self.now = NOW
        self.typed = []
        self._programs = directory / "bin"
        self._programs.mkdir()

    def types(self, command, *, code=0):
        """Run *command*; return the screen, without colours. It must not print an error."""
        self.typed.append(command)
        assert len(self.typed) <= MOST_COMMANDS, f"too many commands: {self.typed}"
        program = self._programs / "turnlog"
        program.write_text(PROGRAM.format(python=sys.executable, now=self.now))
        program.chmod(0o755)
        environ = self.home.environ() | {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TURNLOG_PAGER": shlex.join(["head", "-n", str(LINES - 1)]),
            "PYTHONUTF8": "1",
        }
        del environ["LINES"]  # The terminal has a size.
        text, exit_code = _at_terminal(command, environ, self.home.path)
        screen = Screen(command, "\n".join(text.splitlines()[-LINES:]))
        assert exit_code == code, f"exit code {exit_code} of {command}:\n{text}"
        assert "error:" not in text, f"{command}:\n{text}"
        long = [line for line in screen.text.splitlines() if len(line) > COLUMNS]
        assert not long, f"{command} prints lines that are too long:\n{long}"
        return screen


def _at_terminal(command, environ, directory):
    """Run a shell command at a terminal; return what it printed, without colours, and its code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command,
        shell=True,
        env=environ,
        cwd=directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    data = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # The terminal was closed at the other end.
            break
        if not more:
            break
        data += more
    os.close(ours)
    lines = _ESCAPES.sub("", data.decode()).replace("\r\n", "\n").split("\n")
    # A progress bar overwrites its line.
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return text, process.wait(timeout=60)


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path)


def test_where_we_fixed_something_and_read_it(person):
    screen = person.types("turnlog search how did we fix the frost alert at noon")
    screen.shows("f38b2ffc", "orchard", "Frost alert sent at noon", "2026-10-19", "Find out why")
    read = person.types(screen.command("show"))
    read.shows("It has the same fault. Both now use one helper, local_sunrise(station)")


def test_yesterdays_work(person):
    person.now = datetime.fromisoformat("2026-10-31T09:00:00+00:00")
    screen = person.types("turnlog sessions --since yesterday")
    screen.shows("0b29ae83", "lighthouse", "The storm took the power")
    read = person.types("turnlog show 0b29ae83")
    read.shows("Log every lamp failure", "Bash make flash", "The lamp writes to its journal")
