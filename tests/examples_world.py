"""The home in which every example is run: what the examples name is there, written by turnlog.

Ada works in ``~/orchard``. Her session 5f0c says and does what the examples search for; beside it
are the bundled samples, a session that a crash cut short, one in an old place, one of a flat store.
The clock stands at NOW. Each example that changes something finds the home as it was made: the
same bytes, times and places, so that the index is fresh already.
"""

import io
import json
import os
import re
import shutil
import signal
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from unittest import mock

import time_machine

import turnlog
from cli.screens import NOW, Home, Terminal
from codex_world import Rollout, Usage
from examples_found import at_home
from turnlog.cli.app import run
from turnlog.cli.live import watch
from turnlog.sessions.writing import build

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
        return self.add(build.user(words) | {"gitBranch": "retry", "slug": "calm-river"} | more)

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
        with mock.patch.dict(os.environ, self.environ()):
            self._write()
        self.run(["keep"])
        self._rewrite(RETRY, lambda lines: [each.replace(b'"The retry"', b'""') for each in lines])
        for words in (["keep"], ["archive", "1235"], ["refresh"], ["cost"]):  # Prices are compiled.
            self.run(words)
        # What the examples call by a name that only this world can give.
        self.meant = {
            "SESSION": "5f0c",
            "019d78fc": self.codex,
            "/tmp/then": f"{self.path}/then",
            "3f2a": self.asked("errors", "--tool", "Bash")["errors"][0]["signature"],
            "3fa9": self.asked("plans", "calm-river")["plans"][0]["versions"][0]["sha256"],
        }
        shutil.copytree(self.path, self._made, symlinks=True)
        self._entries = entries(self.path)

    def renew(self):
        """Make the home what it was: what was touched since is copied, what is new goes."""
        found = entries(self.path)
        for name in sorted(found.keys() - self._entries.keys(), reverse=True):
            path = self.path / name
            path.rmdir() if path.is_dir() else path.unlink()
        for name in sorted(self._entries):  # Directories come before what is in them.
            path, made = self.path / name, self._made / name
            if made.is_dir():
                path.mkdir(exist_ok=True)
            elif found.get(name) != self._entries[name]:
                shutil.copy2(made, path)
        self._entries = entries(self.path)

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

    def run(self, words, *, stdin=None, at=NOW, is_interrupted=False):
        """Run a command in ``~/orchard``; give its exit code, and what it printed."""
        watch._console.cache_clear()  # It lives as long as a process.
        out, err, before = Terminal(), Terminal(), os.getcwd()
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, self.environ(), clear=True))
            stack.enter_context(mock.patch.object(sys, "stdin", stdin or given("")))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            stack.callback(time.tzset)
            stack.callback(os.chdir, before)
            time.tzset()
            os.chdir(self.orchard)
            stack.enter_context(time_machine.travel(at, tick=False))
            if is_interrupted:
                stack.enter_context(interrupted())
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

    def tear(self, log):
        """Let a log end in half a record, as a crash leaves it."""
        with open(log, "ab") as file:
            file.write(b'{"type":"user","message":{"role":"us')

    def log_of(self, session):
        (found,) = self.claude.glob(f"projects/*/{session}.jsonl")
        return found

    def _programs(self):
        programs = {
            "claude": 'echo "claude $*"',
            "codex": 'echo "codex $*"',
            "turnlog": f'exec "{sys.executable}" -m turnlog.cli "$@"',
        }
        (self.path / "bin").mkdir()
        for name, does in programs.items():
            program = self.path / "bin" / name
            program.write_text(f"#!/bin/sh\n{does}\n")
            program.chmod(0o755)

    def _write(self):
        for place in ("orchard", "old/app", "new/app"):
            (self.path / place).mkdir(parents=True)
        self.own.mkdir()
        (self.own / "config.toml").write_text(SETTINGS)
        (self.orchard / "query.sql").write_text("SELECT count(*) AS sessions FROM v_sessions")
        with turnlog.open(self.claude) as store:
            self._write_retry(store)
            with writing(store, MOVED, self.path / "old/app", NOW - timedelta(days=3)) as log:
                log.prompt("Read the migration draft before the release")
                log.answer("It is a draft.", model=SONNET)
            with writing(store, TORN, self.orchard, NOW - timedelta(days=1)) as log:
                log.prompt("Shut the door before the storm comes")
                log.answer(build.call("Bash", {"command": "shut door"}))
        self._rewrite(TORN, killed)
        with turnlog.open(self.own) as store:
            with writing(store, FLAT, self.orchard, NOW - timedelta(days=2), layout="flat") as log:
                log.prompt("Which flat stores are there?")
            with writing(store, OLD, self.orchard, datetime(2026, 7, 22, tzinfo=UTC)) as log:
                log.prompt("Count the apples of July")
                log.call("Bash", "seven", command="count apples")
                log.answer("Seven.")
        self._write_codex()
        with (self.claude / "history.jsonl").open("a") as history:
            at = int((NOW - timedelta(minutes=50)).timestamp() * 1000)
            fields = {"display": "Why is the retry flaky?", "timestamp": at, "pastedContents": {}}
            history.write(json.dumps(fields | {"project": str(self.orchard)}) + "\n")
        shutil.copy(self.log_of(RETRY), self.orchard / "s.jsonl")
        todos = [{"content": "Back off", "status": "pending"}]
        (self.claude / "todos" / f"{RETRY}-agent-{RETRY}.json").write_text(json.dumps(todos))
        for name in ("history.jsonl", f"todos/{RETRY}-agent-{RETRY}.json"):
            os.utime(self.claude / name, (at / 1000, at / 1000))

    def _write_codex(self):
        """Write a session of Codex."""
        log = Rollout(self.path / ".codex", 1)
        log.prompt("Does the retry work?")
        log.answer("It does.", Usage(1000, 20))
        os.utime(log.path, (log.now.timestamp(), log.now.timestamp()))
        self.codex = log.id

    def _write_retry(self, store):
        """Write the session that says and does what the examples ask for."""
        app = str(self.orchard / "src" / "app.py")
        with writing(store, RETRY, self.orchard, NOW - timedelta(minutes=50)) as log:
            first = log.prompt("Why is the retry flaky? There is no backoff: connection refused.")
            log.add(snapshot(first, {}))
            for version, what in enumerate(("loop", "backoff", "jitter"), 1):
                log.call("Read", "pass", file_path=app)
                log.call("Edit", "done", file_path=app, old_string="pass", new_string=what)
                asked = log.prompt(f"Now the {what}", **({"uuid": MESSAGE} if version == 2 else {}))
                kept = {"backupFileName": f"a99@v{version}", "version": version}
                log.add(snapshot(asked, {"src/app.py": kept}))
                self._keep_version(version, what)
            log.call("Bash", "Error: docker: no space", failed=True, command="docker compose up")
            log.call("Bash", "write failed: ENOSPC", command="make release")
            log.call("Bash", "[main 1a2b3c4] Back off", command="git commit -m 'Back off'")
            log.call("Read", "pass", file_path=app)
            log.add({"type": "mode", "mode": "plan"})
            log.add({"type": "mode", "mode": "normal"})
            log.call("WebSearch", "Jitter spreads retries.", query="retry jitter")
            log.call("Write", "done", file_path=f"{self.orchard}/up.sql", content="def tried_at():")
            log.prompt(f"The deploy key is {TOKEN}. Call foo(bar, 1) and migrate the table.")
            log.answer(build.thinking("A migration."), "The release is migrated.", model=SONNET)
            for number in range(25):
                log.prompt(f"And step {number}?", **({"uuid": RECORD} if number == 20 else {}))
                log.answer(f"Step {number} is done.")
            log.add(build.title("The retry"))

    def _keep_version(self, version, what):
        kept = self.claude / "file-history" / RETRY / f"a99@v{version}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(f"def {what}():\n    return {version}\n")

    def _rewrite(self, session, change):
        """Write a log anew with other lines, as old as it was."""
        log = self.log_of(session)
        at = log.stat().st_mtime
        log.write_bytes(b"".join(change(log.read_bytes().splitlines(keepends=True))))
        os.utime(log, (at, at))


def entries(directory):
    """Give everything below a directory, and of files what changes whenever they do."""
    return {
        os.fspath(path.relative_to(directory)): (
            None if path.is_dir() else (path.stat().st_ino, path.stat().st_ctime_ns)
        )
        for path in directory.rglob("*")
    }


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
def writing(store, session, project, at, *, layout="claude"):
    """Write a session; its log is as old as its last record."""
    with (
        time_machine.travel(at, tick=False) as clock,
        store.create(
            project=project, session_id=session, layout=layout, durability="flush"
        ) as writer,
    ):
        log = Writing(writer, at)
        yield log
        clock.move_to(log.at, tick=False)
    os.utime(writer.path, (log.at.timestamp(), log.at.timestamp()))


def killed(lines):
    """Give the lines of a log whose writer was killed: it said no goodbye, and runs no more."""
    return [re.sub(rb'"pid":\d+', b'"pid":999999999', each) for each in lines[:-1]]


def given(text, *, is_terminal=False):
    """Give a stdin that holds *text*, typed or from a file."""
    if not is_terminal:
        return io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    keyboard = Terminal()
    keyboard.write(text)
    keyboard.seek(0)
    return keyboard


@contextmanager
def interrupted():
    """Press Ctrl-C as soon as somebody waits for it."""
    at_first = signal.getsignal(signal.SIGINT)

    def press(*_):
        if signal.getsignal(signal.SIGINT) is not at_first:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, 0.4, 0.4)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
