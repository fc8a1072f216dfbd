"""Following a session while others write it: nothing is lost, nothing comes twice."""

import gzip
import json
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from sessions.homes import log, make_home, prompt
from turnlog.sessions.reading.follow import _FollowedLog, follow_session
from turnlog.sessions.session import Session
from turnlog.sessions.writing import build
from turnlog.storage.tail import Restart

SESSION = "5f0c1111-aaaa-4aaa-8aaa-111111111111"

WRITER = """
import sys, turnlog
from turnlog.sessions import build
root, session, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with turnlog.open(root).resume(session) as writer:
    for number in range(count):
        writer.append(build.user(f"main {number}"))
        if number == count // 2:
            with writer.subagent("a1b2c3d4") as subagent:
                subagent.append_many(build.user(f"subagent {n}") for n in range(5))
"""


class Follower:
    """Follows in a thread of its own until told to stop."""

    def __init__(self, session, **options):
        self.found = []
        self.stop = threading.Event()
        items = follow_session(session, stop=self.stop, poll_seconds=0.02, **options)
        self.thread = threading.Thread(target=lambda: self.found.extend(iter_into(self, items)))
        self.live = []
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def wait_for(self, text, seconds=180):
        end = time.monotonic() + seconds
        while text not in self.texts():
            assert time.monotonic() < end, f"{text} never came: {self.texts()[-3:]}"
            time.sleep(0.02)

    def texts(self):
        return [each.record.text for each in list(self.live) if each.record and each.record.text]

    @property
    def restarts(self):
        return [each for each in list(self.live) if isinstance(each.item, Restart)]


def iter_into(follower, items):
    for item in items:
        follower.live.append(item)
        yield item


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "root")


@pytest.fixture
def session(store, tmp_path):
    with store.create(project=tmp_path, session_id=SESSION) as writer:
        writer.append(build.user("before"))
    return store.session(SESSION)


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def said(text):
    fields = prompt(text)
    fields["message"]["content"] = text
    return json.dumps(fields | {"sessionId": SESSION}).encode() + b"\n"


def test_another_process_writes_and_an_agent_begins_meanwhile(store, session):
    with Follower(session) as follower:
        arguments = [str(store.root), SESSION, "150"]
        subprocess.run([sys.executable, "-c", WRITER, *arguments], check=True, timeout=60)
        follower.wait_for("main 149")
        follower.wait_for("subagent 4")
    own = [each.record.text for each in follower.live
           if each.agent_id is None and each.record and each.record.text]  # fmt: skip
    subagents = [each.record.text for each in follower.live
              if each.agent_id == "a1b2c3d4" and each.record and each.record.text]  # fmt: skip
    assert own == [f"main {number}" for number in range(150)]
    assert subagents == [f"subagent {number}" for number in range(5)]


def test_from_the_start_and_from_now(store, session):
    with Follower(session, from_start=True) as whole, Follower(session) as later:
        whole.wait_for("before")
        with store.resume(SESSION) as writer:
            writer.append(build.user("after"))
        whole.wait_for("after")
        later.wait_for("after")
    assert whole.texts() == ["before", "after"]
    assert later.texts() == ["after"]


def test_a_log_that_is_replaced_gives_only_what_is_new(session):
    with Follower(session) as follower:
        with session.path.open("ab") as file:
            file.write(said("one"))
        follower.wait_for("one")
        lines = lines_of(session.path)
        beside = session.path.with_name("new.tmp")
        # As a repair does: something of the past is changed, so that everything moves.
        beside.write_bytes(b"".join([said("mended"), *lines, said("two")]))
        beside.replace(session.path)
        follower.wait_for("two")
        with session.path.open("ab") as file:
            file.write(said("one"))  # The same words once more are news.
        time.sleep(0.2)
    assert follower.texts() == ["one", "mended", "two", "one"]
    assert len(follower.restarts) == 1


def test_a_log_that_is_deleted_and_comes_back(session):
    with Follower(session) as follower:
        lines = lines_of(session.path)
        session.path.unlink()
        time.sleep(0.2)
        session.path.write_bytes(b"".join([*lines[:-1], said("again")]))
        follower.wait_for("again")
    assert follower.texts() == ["again"]


def test_a_line_that_was_unfinished_comes_when_it_is_finished(session):
    with session.path.open("ab") as file:
        file.write(said("slow")[:-20])
        file.flush()
        with Follower(session) as follower:
            time.sleep(0.2)
            assert follower.texts() == []
            file.write(said("slow")[-20:])
            file.flush()
            follower.wait_for("slow")
    assert follower.texts() == ["slow"]


def test_days_logs_are_shared_and_a_new_day_begins(tmp_path):
    day = tmp_path / "root" / "projects" / ("0" * 16)
    day.mkdir(parents=True)

    def say(name, session_id, text):
        with (day / f"{name}.jsonl").open("ab") as file:
            file.write(json.dumps(prompt(text) | {"sessionId": session_id}).encode() + b"\n")

    say("2026-11-01", "mine", "a")
    say("2026-11-01", "theirs", "b")
    found = Session.find(turnlog.open(tmp_path / "root").homes, "mine")
    with Follower(found) as follower:
        say("2026-11-01", "theirs", "c")
        say("2026-11-01", "mine", "d")
        say("2026-11-02", "theirs", "e")
        say("2026-11-02", "mine", "f")
        follower.wait_for("this is f")
    assert follower.texts() == ["this is d", "this is f"]


def test_older_agents_lie_beside_the_main_log(tmp_path):
    home = make_home(tmp_path)
    main = log(home, SESSION, prompt("one"))
    with Follower(Session.find((home,), SESSION)) as follower:
        for name, owner in (("agent-11111111", SESSION), ("agent-22222222", "another")):
            fields = prompt(name) | {"sessionId": owner, "isSidechain": True}
            main.with_name(f"{name}.jsonl").write_text(json.dumps(fields) + "\n")
        follower.wait_for("this is agent-11111111")
        time.sleep(0.3)
    assert follower.texts() == ["this is agent-11111111"]
    assert [each.agent_id for each in follower.live] == ["11111111"]


def test_an_archive_is_read_once(tmp_path):
    home = make_home(tmp_path)
    main = log(home, SESSION, prompt("one"), prompt("two"))
    main.with_name(f"{SESSION}.jsonl.gz").write_bytes(gzip.compress(main.read_bytes()))
    main.unlink()
    session = Session.find((home,), SESSION)
    with Follower(session, from_start=True) as whole, Follower(session) as later:
        whole.wait_for("this is two")
        time.sleep(0.1)
    assert whole.texts() == ["this is one", "this is two"]
    assert later.live == []


_steps = st.lists(
    st.tuples(st.sampled_from(["append", "replace", "drop", "delete"]), st.integers(0, 5)),
    max_size=8,
)


@given(steps=_steps, looks=st.lists(st.booleans(), min_size=8, max_size=8))
def test_whatever_happens_to_a_log_no_record_comes_twice(tmp_path_factory, steps, looks):
    path = tmp_path_factory.mktemp("any") / f"{SESSION}.jsonl"
    lines, ever, numbers = [], Counter(), iter(range(1000))
    path.touch()
    session = Session.find((turnlog.open(path.parent).homes), SESSION)
    follower = _FollowedLog(session.main_logs[0], SESSION, past_bytes=0)
    found = Counter()

    def look():
        while items := follower.look():
            texts = [each.record.text for each in items if each.record is not None]
            found.update(texts)

    for (step, number), is_looked_at in zip(steps, looks, strict=False):
        new = [said(f"r{next(numbers)}") for _ in range(number)]
        if step == "append":
            lines += new
            with path.open("ab") as file:
                file.writelines(new)
        elif step == "delete":
            path.unlink()
            lines = []
            path.touch()
        else:
            lines = lines[number:] if step == "drop" else [*new, *lines]
            path.with_name("x").write_bytes(b"".join(lines))
            path.with_name("x").replace(path)
        if is_looked_at:
            look()
            ever.update(line for line in lines if line not in ever)
    look()
    ever.update(line for line in lines if line not in ever)
    assert set(found.values()) <= {1}
    # Whatever stood there when it was looked at was given.
    texts = {json.loads(line)["message"]["content"] for line in ever}
    assert texts == set(found)
