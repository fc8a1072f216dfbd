"""``turnlog keep`` in a process of its own: run, watched, called by a hook, set up."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from cli.conftest import DAMAGED, WHOLE, prompt
from turnlog.formats.claude_code.hooks import hooks_in
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.storage.compressed import unpack

START = [sys.executable, "-c", "from turnlog.cli import main; main()", "keep"]
# It notes how it was called, and answers as a systemd that knows nothing yet.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$NOTES/calls"
case "$2" in
  is-enabled) test -e "$NOTES/enabled" ;;
  enable) touch "$NOTES/enabled" ;;
  disable) rm -f "$NOTES/enabled" ;;
esac
"""
NONE = "#!/bin/sh\necho no crontab for ada >&2; exit 1\n"


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "tools").mkdir()
    # None of the real ones is reached: no test sets anything up for whoever runs it.
    for name, script in (("systemctl", SYSTEMCTL), ("crontab", NONE), ("launchctl", NONE)):
        program = tmp_path / "tools" / name
        program.write_text(script)
        program.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'tools'}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "nobody"),
        "TURNLOG_HOME": str(tmp_path / "own"),
        "NOTES": str(tmp_path / "tools"),
        "COLUMNS": "80",
        "PYTHONUTF8": "1",
    }


@pytest.fixture
def run(turnlog, environ, home):
    def keep(*arguments, **more):
        return turnlog("keep", *arguments, "--home", home, **environ | more)

    return keep


@pytest.fixture
def kept(home, environ, monkeypatch):
    """Give what is kept of a session's log; None if nothing is."""
    monkeypatch.setenv("TURNLOG_HOME", environ["TURNLOG_HOME"])

    def content(session):
        name = f"projects/-home-ada-orchard/{session}.jsonl"
        copy = kept_copy(kept_place(home), name)
        return b"".join(unpack(copy)) if copy.exists() else None

    return content


def log_of(home, session):
    return home / "projects" / "-home-ada-orchard" / f"{session}.jsonl"


def test_it_keeps_and_says_so_and_then_there_is_nothing_new(run, kept, home):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.startswith("Kept 2 files of 2 sessions: ")
    assert kept(WHOLE) == log_of(home, WHOLE).read_bytes()
    assert kept(DAMAGED) == log_of(home, DAMAGED).read_bytes()
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.startswith("Nothing new in 2 files")


def test_sessions_that_lost_their_main_log_are_told_apart(run, home):
    lost = "33333333-cccc-4ccc-8ccc-333333333333"
    subagent = home / "projects" / "-home-ada-orchard" / "agent-a1.jsonl"
    subagent.write_text(json.dumps({"type": "user", "sessionId": lost, "isSidechain": True}) + "\n")
    code, out, _ = run("--json")
    found = json.loads(out)
    assert (code, len(found["sessions"]), found["without_log"]) == (0, 3, [lost])
    log_of(home, WHOLE).write_bytes(log_of(home, WHOLE).read_bytes() * 2)
    subagent.write_bytes(subagent.read_bytes() * 2)
    _, out, _ = run()
    assert out.startswith("Kept 2 files of 1 session: ")
    assert out.endswith("\nincluding subagent logs of 1 session without a main log\n")


def test_one_session_by_the_beginning_of_its_id(run, kept, home):
    code, out, _ = run("--session", WHOLE[:6])
    assert code == 0
    assert out.startswith("Kept 1 file of 1 session:")
    assert kept(WHOLE)
    assert kept(DAMAGED) is None
    code, _, err = run("--session", "99999999")
    assert code == 2
    assert err.startswith("error:")


def test_json(run, home):
    code, out, _ = run("--json")
    found = json.loads(out)
    assert code == 0
    assert found["sessions"] == sorted([WHOLE, DAMAGED])
    assert found["read_bytes"] == sum(
        log_of(home, each).stat().st_size for each in (WHOLE, DAMAGED)
    )
    assert found["problems"] == []


def test_a_rewritten_log_is_told(run, home):
    run()
    log_of(home, WHOLE).write_bytes(prompt(WHOLE, "another") + b"\n")
    code, out, _ = run()
    assert code == 0
    assert "rewritten:" in out


def test_what_could_not_be_kept_is_told_and_is_exit_code_1(run, home):
    os.mkfifo(home / "projects" / "-home-ada-orchard" / "pipe\x1b[31m.jsonl")
    code, out, err = run()
    assert code == 1
    assert "Kept 2 files of 2 sessions" in out
    assert err.startswith("not kept: ")
    assert "\x1b" not in err
    code, out, err = run("--quiet")
    assert (code, out) == (1, "")
    assert "not kept" in err
    assert json.loads(run("--json")[1])["problems"][0]["reason"]


def test_quiet_is_quiet(run):
    assert run("--quiet") == (0, "", "")


def test_nowhere_to_look(turnlog, environ):
    code, out, err = turnlog("keep", **environ)
    assert (code, err) == (0, "")
    assert out.startswith("Nothing to keep yet.")
    assert "Nothing to keep" in turnlog("keep", "status", **environ)[1]


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--watch"),
        ("--watch", "--session", "5"),
        ("--poll", "3"),
        ("--install",),
        ("stats",),
        ("--watch", "--poll", "0"),
    ],
)
def test_mistakes(run, words):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err


# -- status ---------------------------------------------------------------------------------


def test_status_says_what_would_be_lost_until_it_is_kept(run, home):
    old = time.time() - 26 * 86_400
    os.utime(log_of(home, WHOLE), (old, old))
    code, out, err = run("status")
    assert (code, err) == (1, "")
    assert "nothing yet" in out
    assert "1 session will be deleted within 7 days, not kept" in out
    run()
    code, out, _ = run("status")
    assert code == 0
    assert " kept        2 files of 2 sessions, " in out
    assert "just now; up to date" in out
    assert "1 session will be deleted within 7 days, all kept" in out
    log_of(home, WHOLE).unlink()
    assert "1 session deleted at the source" in run("status")[1]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_status_fits(run, columns):
    run()
    _, out, _ = run("status", COLUMNS=columns)
    texts = [line for line in out.splitlines() if "/" not in line]  # Paths are as long as they are.
    assert len(texts) >= 4
    assert max(map(len, texts)) <= 80


def test_status_as_json(run, home):
    run()
    found = json.loads(run("status", "--json")[1])
    assert found["homes"][0]["sessions"] == 2
    assert found["homes"][0]["home"] == str(home)
    assert {each["kind"]: each["state"] for each in found["installed"]} == {
        "claude": "missing",
        "systemd": "missing",
    }


def test_check_offers_it_while_something_is_about_to_be_lost(run, turnlog, home, environ):
    def check(*words):
        return turnlog("check", *words, "--home", home, **environ)[1]

    assert "Claude Code deletes sessions after 30 days" in check()
    (home / "statsig").rmdir()  # Without a file of Claude Code's it may be anybody's.
    assert "Claude Code deletes" not in check()
    (home / "statsig").mkdir()
    old = time.time() - 26 * 86_400
    os.utime(log_of(home, WHOLE), (old, old))
    assert "Claude Code will delete 1 log within 7 days" in check()
    assert f"turnlog keep --home {home}" in check()
    assert "will be deleted" not in check(WHOLE[:6])  # Whoever asks about one log asks about it.
    json.loads(check("--json"))
    run()
    assert "turnlog keep" not in check()


# -- the hook -------------------------------------------------------------------------------


def ended(home, session=WHOLE, **more):
    told = {
        "session_id": session,
        "transcript_path": str(log_of(home, session)),
        "cwd": "/home/ada/orchard",
        "hook_event_name": "SessionEnd",
        "reason": "prompt_input_exit",
    }
    return json.dumps(told | more).encode()


def hook(environ, told, command=None):
    command = command or [*START, "--hook"]
    return subprocess.run(command, input=told, capture_output=True, env=environ, timeout=60)


def test_the_hook_keeps_the_session_that_ended_and_no_other(home, environ, kept):
    done = hook(environ, ended(home))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert kept(WHOLE) == log_of(home, WHOLE).read_bytes()
    assert kept(DAMAGED) is None


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"null",
        b'{"session_id": 7}',
        b'{"session_id": "../../etc/passwd", "transcript_path": "/etc/passwd"}',
        b'{"session_id": "5f0c", "transcript_path": "projects/x/5f0c.jsonl"}',
        b'{"session_id": "5f0c", "transcript_path": "/nowhere/projects/x/5f0c.jsonl"}',
        b'{"session_id": "5f0c", "transcript_path": "a\\u0000b"}',
        b"[" * 100_000,
        b'{"session_id": "' + b"x" * 2_000_000 + b'"}',
    ],
)
def test_whatever_the_hook_is_told_it_bothers_nobody(environ, told, tmp_path):
    done = hook(environ, told)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not list(tmp_path.rglob("*.zst"))


def test_the_hook_is_silent_when_it_fails(home, environ, tmp_path):
    (tmp_path / "own").write_text("no directory")
    done = hook(environ, ended(home))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_the_hook_began_goes_on_when_it_is_killed(home, environ, kept):
    log_of(home, WHOLE).write_bytes((prompt(WHOLE, "x" * 2000) + b"\n") * 20_000)
    process = subprocess.Popen([*START, "--hook"], stdin=subprocess.PIPE, env=environ)
    process.stdin.write(ended(home))
    process.stdin.close()
    mirror = kept_place(home)
    end = time.monotonic() + 180
    while not mirror.exists():  # It has begun.
        assert time.monotonic() < end
        time.sleep(0.002)
    process.kill()
    process.wait()
    while kept(WHOLE) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert kept(WHOLE) == log_of(home, WHOLE).read_bytes()


def test_the_hook_is_not_for_people(environ):
    outer, inner = pty.openpty()
    done = subprocess.run([*START, "--hook"], stdin=inner, capture_output=True, env=environ)
    os.close(outer)
    os.close(inner)
    assert done.returncode == 2
    assert b"stdin" in done.stderr


def test_the_command_in_the_settings_keeps_the_session(turnlog, home, environ, kept):
    (home / "settings.json").write_text('{"model": "opus"}\n')
    assert turnlog("hooks", "install", "keep", "--yes", "--home", home, **environ)[0] == 0
    (command,) = hooks_in((home / "settings.json").read_text())
    assert f"TURNLOG_HOME={environ['TURNLOG_HOME']}" in command
    bare = {"PATH": "/usr/bin:/bin", "HOME": environ["HOME"]}
    done = hook(bare, ended(home), ["/bin/sh", "-c", command])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert kept(WHOLE) == log_of(home, WHOLE).read_bytes()


# -- watching -------------------------------------------------------------------------------


@pytest.fixture
def watched(environ, home):
    begun = []

    def start(*arguments):
        process = subprocess.Popen(
            [*START, "--watch", "--home", str(home), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
        )
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout))
        reader.start()
        begun.append((process, reader))
        return process, lines

    yield start
    for process, reader in begun:
        process.kill()
        process.wait()
        reader.join(5)
        process.stdout.close()
        process.stderr.close()


def until(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_watches_and_ends_with_a_last_keeping(watched, home, kept, end):
    process, lines = watched()
    until(lambda: kept(WHOLE))
    log = log_of(home, WHOLE)
    with log.open("ab") as file:
        file.write(prompt(WHOLE, "two") + b"\n")
    until(lambda: kept(WHOLE) == log.read_bytes())
    with log.open("ab") as file:
        file.write(prompt(WHOLE, "three") + b"\n")
    process.send_signal(end)
    assert process.wait(20) == 0
    assert kept(WHOLE) == log.read_bytes()
    until(lambda: len(lines) >= 2)
    assert b"Kept 2 files of 2 sessions" in lines[0]
    assert b"Kept 1 file of 1 session:" in lines[1]
    assert process.stderr.read() == b""


def test_watched_as_json(watched, kept):
    process, lines = watched("--json")
    until(lambda: lines)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert json.loads(lines[0])["copied"] == 2
