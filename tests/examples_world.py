"""The home in which every example is run: what the examples name is there, written by turnlog.

Ada works in ``~/orchard``. Her session 5f0c says and does what the examples search for; beside it
are the bundled samples, a session that a crash cut short, one in an old place, one of a flat store.
The clock stands at NOW. Each example that changes something finds the home as it was made: the
same bytes, times and places, so that the index is fresh already.
"""

import io
import json
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from unittest import mock

import time_machine

import turnlog
from cli.screens import NOW, Home, Terminal
from examples_found import at_home
from turnlog.cli import watch_line
from turnlog.cli.app import run
from turnlog.sessions import build

OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-6"
RETRY = "5f0c1d2e-0000-4000-8000-00000000005f"
MOVED = "8e2a7c41-0000-4000-8000-00000000008e"
TORN = "c4a5bed0-0000-4000-8000-0000000000c4"
FLAT = "abc1f1a7-0000-4000-8000-000000000abc"
OLD = "01d0a9e5-0000-4000-8000-000000000001"
RECORD = "9b2e0000-1111-4222-8333-444455556666"
MESSAGE = "8b120000-1111-4222-8333-444455556666"
TOKEN = "ghp_" + "Zq8vT1xWb4nLs7Rk2YdHm5Gc9PjE3oAu1b2c"
SETTINGS = """
[budgets]
daily = 20
monthly = 300

[retention]
enabled = true
days = 30
"""


class Writing:
    """Writes a session record by record, half a minute apart."""

    def __init__(self, writer, at):
        self.writer, self.at = writer, at
        self._calls = 0

    def add(self, fields):
        self.at += timedelta(seconds=30)
        return self.writer.append({"timestamp": f"{self.at:%Y-%m-%dT%H:%M:%S}.000Z"} | fields)

    def prompt(self, words, **more):
        return self.add(build.user(words) | {"gitBranch": "retry"} | more)

    def answer(self, *blocks, model=OPUS):
        usage = {"input_tokens": 12, "output_tokens": 340, "cache_read_input_tokens": 20_000}
        blocks = [build.text(each) if isinstance(each, str) else each for each in blocks]
        return self.add(build.assistant(blocks, model=model, usage=usage))

    def call(self, tool, answer, *, failed=False, detail=None, **given):
        self._calls += 1
        call_id = f"toolu_{self.writer.session_id[:4]}{self._calls:04}"
        self.answer(build.call(tool, given, call_id=call_id))
        self.add(build.result(call_id, answer, failed=failed, detail=detail))


class World(Home):
    """The home as it was made, and again so whenever an example has changed it."""

    def __init__(self, directory):
        super().__init__(directory / "ada")
        self._made = directory / "as made"
        self.orchard = self.path / "orchard"
        self.own = self.path / ".turnlog"
        self._programs()
        self._write()
        self.run(["keep"])
        self._rewrite()
        self.run(["keep"])
        self.run(["archive", "1235"])
        self.run(["refresh"])
        # What the examples call by a name that only this world can give.
        self.meant = {
            "SESSION": "5f0c",
            "/tmp/then": f"{self.path}/then",
            "3f2a": self.asked("errors", "--tool", "Bash")["errors"][0]["signature"],
            "3fa9": self.asked("plans", "calm-river")["plans"][0]["versions"][0]["sha256"],
        }
        shutil.copytree(self.path, self._made, symlinks=True)

    def renew(self):
        """Make the home what it was."""
        shutil.rmtree(self.path)
        shutil.copytree(self._made, self.path, symlinks=True)

    def environ(self):
        return {
            "PATH": str(self.path / "bin"),  # No systemd, no cron; a claude that tells its words.
            "HOME": str(self.path),
            "TURNLOG_HOME": str(self.own),
            "TURNLOG_PAGER": "",
            "COLUMNS": "100",
            "TERM": "xterm",
            "TZ": "UTC",
            "PYTHONUTF8": "1",
        }

    def words(self, example):
        """Give the words of an example behind ``turnlog``, as a shell and this world mean them."""
        words = [self.meant.get(word, word) for word in example.words[1:]]
        return at_home(words, self.path)

    def run(self, words, *, typed="", interrupted_after=None):
        """Run a command in ``~/orchard``; give its exit code, and what it printed."""
        watch_line._console.cache_clear()  # It lives as long as a process.
        out, err, before = Terminal(), Terminal(), os.getcwd()
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, self.environ(), clear=True))
            stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO(typed)))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            stack.callback(time.tzset)
            stack.callback(os.chdir, before)
            time.tzset()
            os.chdir(self.orchard)
            stack.enter_context(time_machine.travel(NOW, tick=False))
            if interrupted_after is not None:
                stack.enter_context(interrupted(interrupted_after))
            code = run([str(word) for word in words])
        return code, out.text(), err.text()

    def asked(self, *words):
        code, out, err = self.run([*words, "--json"])
        assert code == 0, err
        return json.loads(out)

    def remove(self, session):
        """Take a session's logs away, as an agent's own cleanup does."""
        for log in self.claude.glob(f"projects/*/{session}*.jsonl"):
            log.unlink()

    def _programs(self):
        program = self.path / "bin" / "claude"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\necho "claude $*"\n')
        program.chmod(0o755)

    def _write(self):
        for place in ("orchard", "old/app", "new/app"):
            (self.path / place).mkdir(parents=True)
        self.own.mkdir()
        (self.own / "config.toml").write_text(SETTINGS)
        (self.orchard / "question.sql").write_text("SELECT count(*) AS sessions FROM v_sessions")
        with mock.patch.dict(os.environ, self.environ()), turnlog.open(self.claude) as store:
            self._write_retry(store)
            with store.create(project=self.path / "old/app", session_id=MOVED) as writer:
                log = Writing(writer, NOW - timedelta(days=3))
                log.prompt("Read the migration draft before the release")
                log.answer("It is a draft.", model=SONNET)
        with mock.patch.dict(os.environ, self.environ()), turnlog.open(self.own) as store:
            with store.create(project=self.orchard, session_id=FLAT, layout="flat") as writer:
                Writing(writer, NOW - timedelta(days=2)).prompt("Which flat stores are there?")
            with store.create(project=self.orchard, session_id=OLD) as writer:
                log = Writing(writer, datetime.fromisoformat("2026-07-22T10:00:00+00:00"))
                log.prompt("Count the apples of July")
                log.call("Bash", "seven", command="count apples")
                log.answer("Seven.")
        with (self.claude / "history.jsonl").open("a") as history:
            at = int((NOW - timedelta(hours=5)).timestamp() * 1000)
            fields = {"display": "Why is the retry flaky?", "timestamp": at, "pastedContents": {}}
            history.write(json.dumps(fields | {"project": str(self.orchard)}) + "\n")
        log = self._log(RETRY)
        shutil.copy(log, self.orchard / "s.jsonl")
        todos = [{"content": "Back off", "status": "pending"}]
        (self.claude / "todos" / f"{RETRY}-agent-{RETRY}.json").write_text(json.dumps(todos))

    def _write_retry(self, store):
        app = str(self.orchard / "src" / "app.py")
        with store.create(project=self.orchard, session_id=RETRY) as writer:
            log = Writing(writer, NOW - timedelta(hours=5))
            first = log.prompt("Why is the retry flaky? There is no backoff: connection refused.")
            log.add(snapshot(first, {}))
            for version, what in enumerate(("loop", "backoff", "jitter"), 1):
                log.call("Read", "def retried_at(now): …", file_path=app)
                log.call("Edit", "done", file_path=app, old_string=what, new_string=f"{what}s")
                asked = log.prompt(f"Now the {what}", **({"uuid": MESSAGE} if version == 2 else {}))
                kept = {"backupFileName": f"a99@v{version}", "version": version}
                log.add(snapshot(asked, {"src/app.py": kept}))
                self._keep_version(version, what)
            log.call("Bash", "Error: docker: no space", failed=True, command="docker compose up")
            log.call("Bash", "write failed: ENOSPC", command="make release")
            log.call("WebSearch", "Jitter spreads retries.", query="retry jitter")
            log.call("Write", "done", file_path=f"{self.orchard}/up.sql", content="-- migrate")
            log.call("ExitPlanMode", "approved", plan="# Retry\n\n1. Back off\n")
            log.prompt(f"The deploy key is {TOKEN}. Call foo(bar, 1) and migrate the table.")
            log.answer(build.thinking("A migration."), "The release is migrated.", model=SONNET)
            for number in range(30):
                log.prompt(f"And step {number}?", **({"uuid": RECORD} if number == 20 else {}))
                log.answer(f"Step {number} is done.")
            log.add(build.title("The retry"))

    def _keep_version(self, version, what):
        kept = self.claude / "file-history" / RETRY / f"a99@v{version}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(f"def {what}():\n    return {version}\n")

    def _rewrite(self):
        """Write the log anew without its last line: what was kept of it becomes a generation."""
        log = self._log(RETRY)
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    def _log(self, session):
        (found,) = self.claude.glob(f"projects/*/{session}.jsonl")
        return found


def snapshot(message, files):
    at = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
    said = {"messageId": message, "trackedFileBackups": files, "timestamp": at}
    for each in files.values():
        each["backupTime"] = at
    return {
        "type": "file-history-snapshot", "messageId": message, "snapshot": said,
        "isSnapshotUpdate": False,
    }  # fmt: skip


@contextmanager
def interrupted(seconds):
    """Press Ctrl-C after so many seconds, and again until it is over."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
