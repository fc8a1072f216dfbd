"""Sessions whose records wait in memory: no orderly end loses any, none is written twice."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import turnlog
from turnlog.errors import ClosedLog, NotSerialisable, StorageFull, UsageError

pytestmark = pytest.mark.usefixtures("own_signals")

NEVER = 3600.0
LAYOUTS = ["claude", "dated", "flat"]


@pytest.fixture
def store(tmp_path):
    with turnlog.open(tmp_path / "root") as store:
        yield store


def buffered(store, layout="claude", **more):
    writer = store.create(project=store.root.parent, layout=layout)
    return turnlog.BufferedSession(writer, **({"every_seconds": NEVER} | more))


def texts(store, session):
    found = store.session(session.session_id)
    return [item.record.text for item in found.items() if item.record.text]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_wait_until_they_are_flushed(store, layout):
    with buffered(store, layout) as session:
        session.append(turnlog.build.user("one"))
        session.append_many([turnlog.build.user("two"), turnlog.build.user("three")])
        assert session.waiting == 3
        assert b"three" not in (session.path.read_bytes() if session.path.exists() else b"")
        session.flush()
        assert session.waiting == 0
        assert texts(store, session) == ["one", "two", "three"]
        session.append(turnlog.build.user("four"))
    assert texts(store, session) == ["one", "two", "three", "four"]
    assert store.session(session.session_id).metadata.ended_at is not None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_told_when_a_record_was_taken_holds(store, layout):
    with buffered(store, layout) as session:
        began = time.time()
        uuids = [session.append(turnlog.build.user(text)) for text in ("one", "two")]
        taken = time.time()
        time.sleep(0.05)
    records = [item.record for item in store.session(session.session_id).items()]
    said = [record for record in records if record.text]
    assert [record.uuid for record in said] == uuids
    assert all(began - 0.01 <= record.at.timestamp() <= taken + 0.01 for record in said)


def test_each_follows_the_one_before_also_if_another_wrote_it(store):
    with buffered(store) as session:
        first = session.append(turnlog.build.user("one"))
        session.flush()
        second = session.append(turnlog.build.user("two"))
        third = session.append(turnlog.build.user("three"))
        with store.resume(session.session_id) as other:
            between = other.append(turnlog.build.user("between"))
    nodes = store.session(session.session_id).tree.by_uuid
    assert [nodes[uuid].parent_uuid for uuid in (between, second, third)] == [
        first,
        between,
        second,
    ]


def test_a_parent_that_is_given_stays(store):
    with buffered(store) as session:
        first = session.append(turnlog.build.user("one"))
        session.append(turnlog.build.user("two"))
        branch = session.append(turnlog.build.user("not two") | {"parentUuid": first})
    assert store.session(session.session_id).tree.by_uuid[branch].parent_uuid == first


def test_a_uuid_is_written_once(store):
    named = turnlog.build.user("one") | {"uuid": "0b29ae83-1111-4111-8111-111111111111"}
    with buffered(store) as session:
        session.append(named)
        session.append(named)
        session.flush()
        session.append(named)
    assert texts(store, session) == ["one"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"type": "user", "message": object()}, NotSerialisable),
        ("Hello", NotSerialisable),
        ({"message": {}}, UsageError),
        ({"type": "user", "sessionId": "another"}, UsageError),
    ],
)
def test_what_cannot_be_written_is_refused_at_once_and_all_with_it(store, bad, error):
    with buffered(store) as session:
        with pytest.raises(error):
            session.append_many([turnlog.build.user("one"), bad])
        assert session.waiting == 0
        session.append(turnlog.build.user("two"))
    assert texts(store, session) == ["two"]


def test_totals_metadata_title_and_marks_come_behind_what_waits(store):
    with buffered(store) as session:
        usage = {"input_tokens": 5, "output_tokens": 7}
        session.append(turnlog.build.assistant("one", model="claude-sonnet-4-5", usage=usage))
        assert session.totals.tokens.output == 7
        session.append(turnlog.build.user("two"))
        assert session.metadata.records == 2
        session.append(turnlog.build.user("three"))
        session.update(title="Apples")
        session.append(turnlog.build.user("four"))
        session.mark("counted")
        assert session.waiting == 0
    assert store.session(session.session_id).summary.title == "Apples"
    assert [text for text in texts(store, session) if text != "Apples"][-1] == "four"


def test_agents_wait_as_well(store):
    with buffered(store) as session, session.subagent("a1") as subagent:
        subagent.append(turnlog.build.user("look"))
        assert (subagent.agent_id, subagent.waiting, session.waiting) == ("a1", 1, 0)
        assert subagent.path != session.path
    (found,) = store.session(session.session_id).subagents
    assert found.id == "a1"
    assert b"look" in found.path.read_bytes()


@pytest.mark.parametrize("limit", [{"max_records": 10}, {"max_bytes": 1500}])
def test_many_are_saved_before_their_time(store, limit):
    with buffered(store, **limit) as session:
        for number in range(100):
            session.append(turnlog.build.user(f"n{number}"))
            assert session.waiting <= 11
    assert texts(store, session) == [f"n{number}" for number in range(100)]


def test_they_are_saved_every_so_often(store):
    with buffered(store, every_seconds=0.02) as session:
        session.append(turnlog.build.user("one"))
        until = time.monotonic() + 180
        while session.waiting and time.monotonic() < until:
            time.sleep(0.005)
        assert texts(store, session) == ["one"]


def test_threads_may_share_one(store):
    with buffered(store, every_seconds=0.001, max_records=7) as session:

        def write(name):
            for number in range(50):
                session.append(turnlog.build.user(f"{name}{number}"))
                if number % 10 == 0:
                    assert session.totals.messages == 0

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    said = texts(store, session)
    assert len(said) == 200
    for name in "abcd":
        assert [each for each in said if each[0] == name] == [f"{name}{n}" for n in range(50)]


def test_a_full_disk_loses_nothing(store, monkeypatch):
    with buffered(store) as session:
        session.append(turnlog.build.user("one"))
        with monkeypatch.context() as full:

            def refuse(*_args):
                raise OSError(28, "No space left on device")

            full.setattr(os, "write", refuse)
            with pytest.raises(StorageFull):
                session.flush()
            with pytest.raises(StorageFull):
                session.close()
        assert session.waiting == 1
        session.append(turnlog.build.user("two"))
    assert texts(store, session) == ["one", "two"]


def test_an_exception_leaves_a_crashed_session_with_all_it_said(store):
    session = buffered(store)

    def fail():
        with session:
            session.append(turnlog.build.user("one"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert texts(store, session) == ["one"]
    assert store.session(session.session_id).metadata.ended_at is None


def test_a_closed_one_takes_nothing(store):
    session = buffered(store)
    session.append(turnlog.build.user("one"))
    session.close()
    session.close()
    with pytest.raises(ClosedLog):
        session.append(turnlog.build.user("two"))
    assert texts(store, session) == ["one"]


@pytest.mark.parametrize("end", ["exit", "SIGTERM", "SIGHUP", "unclosed"])
def test_an_orderly_end_of_the_program_saves_what_waits(store, end):
    program = """
        import os, signal, sys, time
        import turnlog
        store = turnlog.open(sys.argv[1])
        session = turnlog.BufferedSession(store.create(project="."), every_seconds=3600)
        session.append(turnlog.build.user("one"))
        print(session.session_id, flush=True)
        if sys.argv[2].startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
            time.sleep(60)
        if sys.argv[2] == "exit":
            sys.exit(3)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(store.root), end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = store.session(done.stdout.strip())
    assert [item.record.text for item in found.items() if item.record.text] == ["one"]


ENDS = {
    "child": """
        child = multiprocessing.get_context("fork").Process(target=say, args=("one",))
        child.start()
        child.join()
    """,
    "off the main thread": """
        thread = threading.Thread(target=say, args=("one",))
        thread.start()
        thread.join()
        os.kill(os.getpid(), 15)
        time.sleep(60)
    """,
    "exit handler": "",
    "destructor": "last = Last()",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_calls_no_exit_handler_saves_what_waits(store, end, layout):
    program = """
        import atexit, multiprocessing, os, signal, sys, threading, time
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if sys.argv[3] == "exit handler":
            atexit.register(lambda: say("one"))
        import turnlog
        store = turnlog.open(sys.argv[1])
        made = []
        def opened():
            writer = store.create(project=".", layout=sys.argv[2], session_id="s-1")
            return turnlog.BufferedSession(writer, every_seconds=3600)
        def say(word):
            made or made.append(opened())
            made[0].append(turnlog.build.user(word))
        class Last:
            def __init__(self):
                self.session, self.build, self.myself = opened(), turnlog.build, self
            def __del__(self):
                self.session.append(self.build.user("one"))
    """
    code = textwrap.dedent(program) + textwrap.dedent(ENDS[end])
    command = [sys.executable, "-c", code, str(store.root), layout, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    found = store.session("s-1")
    assert [item.record.text for item in found.items() if item.record.text] == ["one"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_waits_is_saved_once_after_a_fork(store):
    with buffered(store) as session:
        session.append(turnlog.build.user("one"))
        child = os.fork()
        if child == 0:
            session.flush()
            os._exit(0)
        os.waitpid(child, 0)
    assert texts(store, session) == ["one"]
