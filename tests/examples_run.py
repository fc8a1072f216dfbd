"""How an example is run: as it stands, in its world, with all that it needs to have an end.

Most commands are run in this process. Those that go on, draw, serve or become another program are
run for real as well, each in its own way, and somebody ends them.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

from cli.screens import NOW
from examples_world import RETRY, given

# What must have happened before an example means anything.
BEFORE = {
    "trash empty": ("delete 01d0 --yes", NOW - timedelta(days=40)),
    "trash": ("delete 5f0c --yes", NOW),
    "unarchive": ("archive 5f0c", NOW),
    "compact 5f0c --undo": ("compact 5f0c --yes", NOW),
    "hooks remove": ("hooks install --yes", NOW),
    "pin 5f0c --off": ("pin 5f0c", NOW),
    "sessions --tag billing": ("tag 5f0c billing", NOW),
    "tag 5f0c urgent --off": ("tag 5f0c urgent", NOW),
}
GONE = ("restore",)
"""Before these the agent's own cleanup came by."""
TORN = ("recover 5f0c", "repair")
"""Before these something crashed."""
# What somebody types who is asked.
ANSWERED = {"resume": "1\n", "hooks install": "y\n", "hooks remove": "y\n"}
# The exit code is 1 if something is wrong; here it is, so that the example has something to show.
FINDS = {
    "check": "one of the samples was torn by a power cut",
    "doctor": "the same",
    "secrets scan": "two keys were pasted",
    "recover": "a session crashed",
    "repair s.jsonl": "it has to be repaired, and is not yet",
    "hooks install": "nothing here does something every hour",
}
WELL = (
    "check latest", "check 5f0c", "check --strict", "doctor --where", "hooks install mcp",
    "hooks install statusline", "recover 5f0c --yes",
)  # fmt: skip
"""They begin as those do, and nothing is wrong, or no longer."""

INTERRUPTED = 130
"""The exit code of a server that Ctrl-C ends."""


def alone(world, words, **more):
    """Start a command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "turnlog.cli", *words],
        env=world.environ() | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        cwd=world.orchard,
        **more,
    )


def in_process(world, shown, words):
    """Run a command here; give its exit code and what it printed."""
    stdin = None
    for words_asked, answer in ANSWERED.items():
        if shown.starts(words_asked):
            stdin = given(answer, is_terminal=True)
    if shown.stdin is not None:
        stdin = given((world.orchard / shown.stdin).read_text())
    return world.run(words, stdin=stdin)


def interrupted(world, shown, words):
    return world.run(words, is_interrupted=True)


def at_a_terminal(world, shown, words):
    """Run a command at a terminal of its own, and type q once it has drawn something."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = alone(
        world, words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    drawn, until = b"", time.monotonic() + 180
    terminal = select.poll()  # Not select: it takes no descriptor above a thousand.
    terminal.register(ours, select.POLLIN)
    try:
        while process.poll() is None:
            assert time.monotonic() < until, drawn
            with suppress(OSError):  # It hung up.
                if terminal.poll(100):
                    drawn += os.read(ours, 65536)
                if b"turnlog" in drawn:
                    os.write(ours, b"q")
        return process.returncode, drawn.decode("utf-8", "replace"), ""
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def served(world, shown, words):
    """Start a server; whoever asks hangs up at once, or presses Ctrl-C after an answer."""
    over_http = "--http" in words or shown.starts("web")
    if over_http:
        words = [*words, "--port", "0"]
    process = alone(
        world, words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        if over_http and (place := re.search(rb"http://\S+", process.stderr.readline())):
            direct = build_opener(ProxyHandler({}))
            address = place[0].decode().partition("?")[0]
            with pytest.raises(HTTPError, match="401") as refused:  # It asks for its token.
                direct.open(address, timeout=60)
            refused.value.close()
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    code = process.returncode
    return 0 if over_http and code == INTERRUPTED else code, out.decode(), err.decode()


def piped(world, shown, words):
    """Run resume in a pipe, where it prints the command, or lists sessions if none is named."""
    done = alone(world, words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = done.communicate(timeout=60)
    commands = (f"claude --resume {RETRY}", f"codex resume {world.codex}")
    assert any(each in out.decode() for each in commands) is (len(shown.words) > 2)
    return done.returncode, out.decode(), err.decode()


@dataclass(frozen=True)
class Way:
    """Commands that cannot simply be run here: how they are run, and why."""

    words: str
    run: Callable[..., tuple[int, str, str]]
    because: str
    unless: str = "--help"

    def fits(self, shown):
        return shown.starts(self.words) and self.unless not in shown.words


WAYS = (
    Way("watch", interrupted, "it goes on until Ctrl-C, which it gets"),
    Way("keep --watch", interrupted, "it goes on until Ctrl-C, which it gets"),
    Way("top", at_a_terminal, "it draws at a terminal, and ends by q", unless="--json"),
    Way("mcp", served, "a server ends when its client is gone"),
    Way("web", served, "it serves until Ctrl-C, which it gets"),
    Way("resume", piped, "at a terminal it becomes claude; in a pipe it prints the command"),
)


def expected(shown):
    """Give the exit code that an example has in this world."""
    finds = any(shown.starts(each) for each in FINDS)
    return 1 if finds and not any(shown.starts(each) for each in WELL) else 0


def execute(world, shown):
    """Run an example as it stands; it does what it is there to show, or this fails."""
    if any(shown.starts(each) for each in GONE):
        world.remove("5f0c")
        world.remove("8e2a")
    if any(shown.starts(each) for each in TORN):
        world.tear(world.log_of(RETRY))
        world.tear(world.orchard / "s.jsonl")
    for words, (before, at) in BEFORE.items():
        if shown.starts(words):
            assert world.run(before.split(), at=at)[0] in (0, 1), before
            break
    way = next((each.run for each in WAYS if each.fits(shown)), in_process)
    code, out, err = way(world, shown, world.words(shown))
    assert (code, err.partition(":")[0]) != (2, "error"), f"{shown.where}: {shown.line}\n{err}"
    assert code == expected(shown), f"{shown.where}: {shown.line}\n{out}{err}"
    if shown.pipe and shutil.which(shown.pipe[0]):
        subprocess.run(shown.pipe, input=out, text=True, check=True, capture_output=True)
    return out
