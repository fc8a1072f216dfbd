"""Ctrl-C ends a command quietly, with 130, however early it comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
# Interrupts itself before the import of that number, counted from where our own code begins.
AT_IMPORT = """
import signal, sys
from turnlog.cli import main

left = int(sys.argv.pop(1))

def count(event, _arguments):
    global left
    left -= event == "import"
    if event == "import" and left == 0:
        signal.raise_signal(signal.SIGINT)

sys.addaudithook(count)
main()
"""
# The same when everything is done, and what was said is on its way out.
AT_THE_END = """
import signal, sys
from turnlog.cli import main

class Out(type(sys.stdout)):
    def flush(self):
        frame = sys._getframe(0).f_back
        if frame and frame.f_code.co_name == "_exit":
            signal.raise_signal(signal.SIGINT)
        super().flush()

sys.stdout = Out(sys.stdout.detach())
main()
"""


def interrupted(tmp_path, code, *words):
    environ = os.environ | {"TURNLOG_HOME": str(tmp_path / "own"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, env=environ, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr.decode().strip()


@pytest.mark.parametrize(
    ("command", "imports"),
    [
        ("sessions", (1, 2, 9, 40, 90, 150, 190)),
        ("show latest", (3, 60, 120)),
        ("search frost", (5, 30)),
        ("check", (20, 80)),
        ("statusline", (1, 4)),
        ("refresh", (1, 6, 12)),
        ("refresh --rebuild", (30, 60)),
        ("", (15, 100)),
    ],
)
def test_in_the_first_moments(tmp_path, command, imports):
    words = command.split()
    for number in imports:
        told = interrupted(tmp_path, AT_IMPORT, number, *words, "--home", SAMPLES)
        assert told == (130, ""), number


@pytest.mark.parametrize("command", ["sessions", "refresh", "check"])
def test_in_the_last_moment(tmp_path, command):
    assert interrupted(tmp_path, AT_THE_END, command, "--home", SAMPLES) == (130, "")


def test_who_does_not_want_to_hear_of_it_is_not_ended(tmp_path):
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code, told = interrupted(tmp_path, deaf + AT_IMPORT, 20, "sessions", "--home", SAMPLES)
    assert (code, told) == (0, "")


# Interrupts itself from a thread, once the index is there and the statement runs.
IN_A_STATEMENT = """
import signal, sys, threading, time
from turnlog.cli import main
from turnlog.query import sql

def interrupt():
    time.sleep(0.2)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

def connect(index, connect=sql._connect):
    threading.Thread(target=interrupt, daemon=True).start()
    return connect(index)

sql._connect = connect
main()
"""


@pytest.mark.parametrize("what", ["count(*)", "count(text(a.log, a.offset))"])
def test_in_a_statement(tmp_path, what):
    many = ", ".join(f"v_records {name}" for name in "abcd")
    words = ("sql", f"SELECT {what} FROM {many}", "--home", SAMPLES)
    assert interrupted(tmp_path, IN_A_STATEMENT, *words) == (130, "")
