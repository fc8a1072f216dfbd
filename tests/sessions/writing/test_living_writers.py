"""A program that still writes a session is seen, wherever it runs, and hides none of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import turnlog
from storage.logs import SOURCE, in_child
from turnlog.errors import LogLocked, NotFound
from turnlog.keep.compaction.compact import compact
from turnlog.sessions.environment import Process, process
from turnlog.sessions.state import marks_of
from turnlog.sessions.writing import build

LAYOUTS = ["claude", "dated", "flat"]
REMOVALS = {
    "archive": lambda store: store.session("s-1").archive(remove=True),
    "delete": lambda store: store.delete("s-1"),
    "reset": lambda store: store.reset("/srv/mill"),
    "compact": lambda store: compact(store.session("s-1"), write=True),
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return turnlog.open(tmp_path / "root")


def texts(store):
    return [item.record.text for item in store.session("s-1").items() if item.record.text]


# -- forks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_forked_child_marks_the_session_as_its_own(store, layout):
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    session.append(build.user("one"))

    def work():
        session.append(build.user("two"))
        return process().pid

    child = in_child(work)
    marks = marks_of(session.path)
    assert [each.pid for each in marks.writers] == [os.getpid(), child]
    session.close()
    assert store.session("s-1").metadata.crashed is False
    assert [each.pid for each in marks_of(session.path).writers] == [child]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_child_that_goes_on_alone_is_seen(store, layout):
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    session.append(build.user("one"))
    here, there = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.append(build.user("two"))
            os.write(tell, b"x")
            os.read(here, 1)
            session.append(build.user("three"))
        finally:
            os._exit(0)
    try:
        os.read(told, 1)
        session.close()
        for name in REMOVALS.keys() - ({"compact"} if layout == "dated" else set()):
            with pytest.raises(LogLocked):
                REMOVALS[name](store)
    finally:
        os.write(there, b"x")
        os.waitpid(child, 0)
        for end in (here, there, told, tell):
            os.close(end)
    assert texts(store) == ["one", "two", "three"]


def test_a_child_that_appends_nothing_says_no_goodbye(store):
    session = store.create(project="/srv/mill", session_id="s-1")
    session.append(build.user("one"))
    in_child(session.close)
    assert marks_of(session.path).is_running
    session.append(build.user("two"))
    assert texts(store) == ["one", "two"]


# -- a log that is gone ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_writer_never_begins_its_log_anew(store, layout):
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    session.append(build.user("one"))
    away = session.path.rename(session.path.with_name("away"))
    with pytest.raises(NotFound, match="is gone"):
        session.append(build.user("two"))
    assert not session.path.exists()
    away.rename(session.path)
    session.append(build.user("three"))
    session.close()
    assert texts(store) == ["one", "three"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_waits_when_the_log_is_gone_waits_on(store, layout):
    writer = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    session = turnlog.BufferedSession(writer)
    session.append(build.user("one"))
    session.flush()
    away = session.path.rename(session.path.with_name("away"))
    session.append(build.user("two"))
    with pytest.raises(NotFound, match="is gone"):
        session.flush()
    away.rename(session.path)
    session.close()
    assert texts(store) == ["one", "two"]


def test_closing_a_writer_whose_log_is_gone_makes_none(store):
    session = store.create(project="/srv/mill", session_id="s-1")
    session.append(build.user("one"))
    session.path.unlink()
    with pytest.raises(NotFound):
        session.close()
    session.close()
    assert not session.path.exists()


@pytest.mark.parametrize("layout", ["claude", "flat"])
def test_a_log_rolled_back_in_place_is_read_anew(store, layout):
    """It grows again before its writer looks: by size and inode it is the same log."""
    session = store.create(project="/srv/mill", layout=layout, session_id="s-1")
    session.append(build.user("one"))
    earlier = session.path.stat().st_size
    lost = session.append(build.user("two"))
    with session.path.open("r+b") as file:
        file.truncate(earlier)
    with store.resume("s-1") as other:
        between = other.append(build.user("between" * 100))
    assert session.append(build.user("two") | {"uuid": lost}) == lost
    last = session.append(build.user("three"))
    session.close()
    found = [record.uuid for _, record in store.session("s-1").records()]
    assert found[-3:] == [between, lost, last]


# -- other places ---------------------------------------------------------------------------------


def test_a_process_elsewhere_may_be_alive():
    me = process()
    assert me.is_alive is True
    other = Process(me.pid, me.started, "another boot", me.namespace, "elsewhere")
    assert other.is_alive is None
    assert Process(me.pid, me.started, "another boot", me.namespace, me.host).is_alive is False
    assert Process(me.pid, me.started, "another boot").is_alive is False  # An early mark.
    assert Process(me.pid, me.started, me.boot).is_alive is True


def test_a_writer_on_another_machine_counts_as_alive_for_a_day(store):
    with store.create(project="/srv/mill", session_id="s-1") as session:
        session.append(build.user("one"))
    me = process()
    there = {"pid": me.pid, "started": "1", "boot": "another", "namespace": "n", "host": "there"}
    mark = {"type": "turnlog", "event": "opened", "sessionId": "s-1", "process": there}
    with turnlog.open_log(session.path) as log:
        log.append(mark | {"timestamp": "2026-01-01T00:00:00Z"})
    for remove in REMOVALS.values():
        with pytest.raises(LogLocked, match=f"may be running in process {me.pid} on there"):
            remove(store)
    day_old = session.path.stat().st_mtime - 86_401
    os.utime(session.path, (day_old, day_old))
    assert store.session("s-1").archive(remove=True).removed


WRITER = """
    import os, sys
    import turnlog
    session = turnlog.open(sys.argv[1]).create(project="/srv/mill", session_id="s-1")
    session.append(turnlog.build.user("one"))
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            session.append(turnlog.build.user(line.strip()))
            print("saved", flush=True)
        except turnlog.NotFound:
            print("gone", flush=True)
"""
REMOVER = """
    import sys
    import turnlog
    store = turnlog.open(sys.argv[1])
    try:
        store.session("s-1").archive(remove=True)
    except turnlog.LogLocked as error:
        print(error)
"""
APART = ["unshare", "--pid", "--fork", "--kill-child"]


def can_unshare():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*APART, "--mount-proc", "true"], capture_output=True).returncode == 0


def program(code, store, *, apart=()):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    command = [*apart, sys.executable, "-c", textwrap.dedent(code), str(store.root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def said_by(code, store, *, apart=()):
    with program(code, store, apart=apart) as child:
        return child.communicate(timeout=60)[0]


@pytest.mark.skipif(not can_unshare(), reason="PID namespaces cannot be made here")
@pytest.mark.parametrize("proc", [["--mount-proc"], []])
def test_a_writer_in_another_container_is_not_taken_for_gone(store, proc):
    with program(WRITER, store, apart=[*APART, *proc]) as writer:
        assert writer.stdout.readline() == "ready\n"
        assert "is running" in said_by(REMOVER, store)  # The host sees what its containers run.
        apart = said_by(REMOVER, store, apart=[*APART, "--mount-proc"])
        assert "may be running" in apart
        writer.stdin.write("two\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "saved\n"
        assert texts(store) == ["one", "two"]
        writer.kill()
    assert "may be running" in said_by(REMOVER, store, apart=[*APART, "--mount-proc"])
    assert said_by(REMOVER, store) == ""
    assert texts(store) == ["one", "two"]
