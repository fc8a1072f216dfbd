"""Long output is paged where a person reads it, and nowhere else."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from turnlog.cli.terminal.pager import pager_command

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"
LONG = ("sql", "--schema")
"""A command whose output is long and needs no home."""


class Terminal:
    """A command at a terminal of its own; what it shows is read as it comes."""

    def __init__(self, words, *, rows=24, columns=80, shell="", **environ):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        program = [sys.executable, "-c", "from turnlog.cli import main; main()", *map(str, words)]
        if shell:
            program = ["/bin/sh", "-c", shell.replace("TURNLOG", subprocess.list2cmdline(program))]
        self.process = subprocess.Popen(
            program,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            env={
                "PATH": os.environ["PATH"],
                "TERM": "xterm",
                "PYTHONUTF8": "1",
                "LC_ALL": "C.UTF-8",
                "TURNLOG_HOME": os.environ["TURNLOG_HOME"],
            }
            | environ,
        )
        os.close(follower)
        self.leader, self.shown = leader, b""

    def until(self, words):
        deadline = time.monotonic() + 180
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            with suppress(OSError):
                self.shown += os.read(self.leader, 4096)
        return self

    def type(self, keys):
        os.write(self.leader, keys)
        return self

    def end(self):
        with suppress(OSError):  # The other end of a terminal that is closed.
            while chunk := os.read(self.leader, 4096):
                self.shown += chunk
        code = self.process.wait(30)
        os.close(self.leader)
        return code, self.shown.decode().replace("\r\n", "\n")


@pytest.fixture
def pager(tmp_path):
    """A pager that writes down what it was given, and what of the environment."""
    program = tmp_path / "pager"
    program.write_text(
        f'#!/bin/sh\necho "$LESS" "$@" > {tmp_path}/asked\ncat > {tmp_path}/read\n'
        f"cat {tmp_path}/read\n"
    )
    program.chmod(0o755)
    return program


def read(pager):
    found = pager.with_name("read")
    return found.read_text("utf-8") if found.exists() else None


def test_what_is_longer_than_the_screen_is_paged_in_colour(pager):
    code, shown = Terminal(LONG, TURNLOG_PAGER=str(pager)).end()
    assert code == 0
    assert "\x1b[1mv_sessions" in read(pager)
    assert shown == read(pager)
    assert pager.with_name("asked").read_text().split() == ["FRX"]


def test_what_fits_is_not(pager):
    code, shown = Terminal(LONG, rows=500, TURNLOG_PAGER=str(pager)).end()
    assert (code, read(pager)) == (0, None)
    assert "v_sessions" in shown


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("--no-pager", *LONG), {}),
        (LONG, {"TURNLOG_PAGER": ""}),
        (LONG, {"TURNLOG_PAGER": "cat"}),
        (LONG, {"TURNLOG_PAGER": "'"}),
        (LONG, {"TURNLOG_PAGER": "there-is-no-such-pager -x"}),
        (LONG, {"TERM": "dumb"}),
        ((*LONG, "--json"), {}),
        (("show", "0b29", "--raw", "--home", SAMPLES), {}),
        (("sessions", "--csv", "--home", SAMPLES), {}),
        (("completion", "bash"), {}),
    ],
)
def test_nobody_is_paged_who_does_not_want_it(pager, words, environ):
    code, shown = Terminal(words, rows=4, **{"TURNLOG_PAGER": str(pager)} | environ).end()
    assert code == 0
    assert read(pager) is None
    assert shown.count("\n") > 4


def test_pipes_are_not_paged(pager):
    out = pager.with_name("out")
    Terminal(LONG, shell=f"TURNLOG > {out}", TURNLOG_PAGER=str(pager)).end()
    assert read(pager) is None
    assert "\x1b" not in out.read_text("utf-8")


def test_the_users_own_pager_and_its_options(pager):
    Terminal(LONG, PAGER=f"{pager} -S '-P a b'", LESS="-M").end()
    assert pager.with_name("asked").read_text() == "-M -S -P a b\n"
    Terminal(LONG, PAGER="there-is-none", TURNLOG_PAGER=str(pager)).end()
    assert pager.with_name("asked").read_text() == "FRX\n"


def test_a_pager_that_cannot_run_costs_nothing(tmp_path):
    program = tmp_path / "pager"
    program.write_text("this is no program")
    program.chmod(0o755)
    code, shown = Terminal(LONG, TURNLOG_PAGER=str(program)).end()
    assert code == 0
    assert "v_sessions" in shown


def test_who_leaves_early_ends_it_quietly(tmp_path):
    log = tmp_path / "home" / "projects" / "-x" / "11111111-aaaa-4aaa-8aaa-111111111111.jsonl"
    log.parent.mkdir(parents=True)
    said = {"type": "user", "timestamp": "2026-11-01T10:00:00Z"}
    with log.open("w") as lines:
        for number in range(20_000):
            message = {"role": "user", "content": f"say {number}"}
            lines.write(json.dumps(said | {"uuid": f"u{number}", "message": message}) + "\n")
    words = ("show", "latest", "--home", tmp_path / "home")
    for pager in ("true", "head -n 1"):
        code, shown = Terminal(words, TURNLOG_PAGER=pager).end()
        assert code == 0
        assert "Traceback" not in shown
        assert "rror" not in shown


def test_what_stderr_says_keeps_its_place(pager):
    words = ("query", "entries", "--limit", "9", "--home", SAMPLES)
    _, shown = Terminal(words, rows=5, TURNLOG_PAGER=str(pager)).end()
    assert read(pager).splitlines()[-1].startswith("… more")
    assert shown == read(pager)
    _, shown = Terminal(words, TURNLOG_PAGER=str(pager)).end()
    assert shown.splitlines()[-1].startswith("… more")


def test_an_error_is_told_after_what_was_shown():
    code, shown = Terminal(("show", "no-such-session", "--home", SAMPLES)).end()
    assert code == 2
    assert shown.startswith("error: ")


@pytest.mark.skipif(shutil.which("less") is None, reason="no less here")
def test_less_shows_colours_and_survives_an_interrupt():
    here = Terminal(LONG, rows=10).until(b"v_")
    assert b"ESC[" not in here.shown
    time.sleep(2)  # By then all is written, and only less is waited for.
    os.killpg(here.process.pid, signal.SIGINT)
    time.sleep(0.3)
    assert here.process.poll() is None
    code, shown = here.type(b"q").end()
    assert code == 0
    assert "Traceback" not in shown
    assert re.search(r"\x1b\[1m(\x1b\[\d+m)?v_", shown)


def test_which_pager(monkeypatch):
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.delenv("TURNLOG_PAGER", raising=False)
    assert pager_command() == (["less"] if shutil.which("less") else None)
    monkeypatch.setenv("PAGER", "sh -c 'more'")
    assert pager_command() == ["sh", "-c", "more"]
    monkeypatch.setenv("TURNLOG_PAGER", "  ")
    assert pager_command() is None
