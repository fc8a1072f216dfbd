"""After a crash: what is wrong is found, and mended by appending wherever that is enough."""

import json
import os
import signal
import subprocess
import sys

import pytest

import turnlog
from turnlog import build
from turnlog.errors import UsageError
from turnlog.log.reader import Placed, read_log
from turnlog.records.damage import Damage
from turnlog.sessions.threads import visible

ID = "88888888-bbbb-4bbb-8bbb-888888888888"


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "store")


@pytest.fixture
def log(store):
    """Six messages, ended well."""
    with store.create(session_id=ID) as session:
        for number in range(3):
            session.append(build.user(f"prompt {number}"))
            session.append(build.assistant(f"answer {number}", model="m"))
    return session.path


def texts(store):
    session = store.session(ID)
    nodes = visible(session.thread)
    return [record.text for _, record in session.records(nodes)]


ALL = [f"{who} {number}" for number in range(3) for who in ("prompt", "answer")]


def drop(log, words):
    """Take the line that says *words* out of the log."""
    kept = [line for line in log.read_bytes().splitlines(True) if words not in line]
    log.write_bytes(b"".join(kept))


def test_a_session_that_ended_well_needs_nothing(store, log):
    before = log.read_bytes()
    found = store.recover(ID)
    assert not found.needed
    assert not found.written
    assert log.read_bytes() == before


def test_a_missing_parent_is_bridged_by_appending(store, log):
    drop(log, b"answer 1")
    before = log.read_bytes()
    found = store.recover(ID)
    assert found.written
    assert len(found.bridges) == 1
    assert log.read_bytes().startswith(before)
    assert texts(store) == [each for each in ALL if each != "answer 1"]
    assert not store.session(ID).tree.gaps
    assert not store.recover(ID).needed


def test_two_gaps_and_two_children_of_one_missing_parent(store, log):
    with store.resume(ID) as session:
        tip = session.tip
        session.append(build.user("branch a"))
        session.append(build.user("branch b") | {"parentUuid": tip})
    drop(log, b"answer 0")
    drop(log, b"answer 2")
    found = store.recover(ID)
    assert len(found.bridges) == 2
    assert not store.session(ID).tree.gaps
    assert texts(store) == ["prompt 0", "prompt 1", "answer 1", "prompt 2", "branch b"]


def test_a_torn_tail_is_sealed_and_kept(store, log):
    fragment = b'{"type":"user","uuid":"x","mess'
    with log.open("ab") as file:
        file.write(fragment)
    before = log.read_bytes()
    found = store.recover(ID)
    assert found.torn
    assert found.written
    assert log.read_bytes().startswith(before + b"\n")
    assert texts(store) == ALL
    assert not store.recover(ID).needed


def test_glued_records_are_freed_and_the_log_is_kept_as_it_was(store, log):
    spoiled = log.read_bytes().replace(b"}\n{", b"}{", 4)
    log.write_bytes(spoiled)
    found = store.recover(ID)
    assert found.salvaged >= 2
    (original,) = found.originals
    with open(original, "rb") as file:
        assert file.read() == spoiled
    assert not [item for item in read_log(log) if isinstance(item, Damage)]
    assert texts(store) == ALL


def test_a_run_of_nuls_before_a_record(store, log):
    log.write_bytes(
        log.read_bytes().replace(b'\n{"parentUuid"', b"\n" + b"\0" * 99 + b'{"parentUuid"')
    )
    assert store.recover(ID).written
    assert texts(store) == ALL


def test_a_lost_result_is_an_interruption_not_damage(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Count"))
        session.append(build.assistant([build.call("Bash", {}, call_id="c1")], model="m"))
        session.append(build.user("Never mind"))
    found = store.recover(ID)
    assert found.interrupted == ["c1"]
    assert not found.needed


def test_a_ring_of_parents_is_reported_and_left(store, log):
    first, second = (
        str(item.record.uuid)
        for item in read_log(log)
        if isinstance(item, Placed) and item.record.type == "user" and "2" not in item.record.text
    )
    text = log.read_text().replace('"parentUuid":null', f'"parentUuid":"{second}"', 1)
    log.write_text(text)
    found = store.recover(ID)
    assert found.cycles == [first]
    assert not found.needed


def test_what_was_done_stands_in_the_log(store, log):
    drop(log, b"answer 1")
    store.recover(ID)
    marks = [json.loads(line) for line in log.read_bytes().splitlines() if b'"recovered"' in line]
    (mark,) = marks
    assert mark["type"] == "turnlog"
    assert len(mark["bridges"]) == 1


def test_a_writer_that_was_killed_is_found_and_recovered(store, tmp_path):
    script = (
        "import os, signal, turnlog\n"
        f"session = turnlog.open({str(tmp_path / 'store')!r}).create(session_id={ID!r})\n"
        "session.append(turnlog.build.user('Hello'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [row.id for row in store.crashed()] == [ID]
    assert store.examine(ID).crashed
    assert store.recover(ID).written
    assert store.crashed() == []
    assert store.session(ID).metadata.ended_at is not None


def test_a_session_that_runs_is_not_recovered(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Hello"))
        with pytest.raises(UsageError, match="being written"):
            store.recover(ID)


def test_a_log_that_disappears_meanwhile_keeps_no_other_from_being_listed(store, log, monkeypatch):
    """Claude Code deletes old sessions whenever it likes."""
    other = ID.replace("8", "9")
    with store.create(session_id=other) as gone:
        gone.append(build.user("Hello"))
    pids = store.root / "sessions"
    pids.mkdir()
    for number, each in enumerate((ID, other)):
        said = {"pid": 999_999_990 + number, "sessionId": each}
        (pids / f"{said['pid']}.json").write_text(json.dumps(said))
    late = log.stat().st_mtime + 60
    for each in pids.iterdir():
        os.utime(each, (late, late))
    assert {row.id for row in store.crashed()} == {ID, other}
    rows = store.sessions()
    gone.path.unlink()
    monkeypatch.setattr(turnlog.Store, "sessions", lambda _store: rows)
    assert [row.id for row in store.crashed()] == [ID]


def test_what_claude_code_left_behind_tells_a_crash(store, log):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    pids = store.root / "sessions"
    pids.mkdir()
    pid_file = pids / f"{gone.pid}.json"
    pid_file.write_text(json.dumps({"pid": gone.pid, "sessionId": ID, "procStart": "1"}))
    assert [row.id for row in store.crashed()] == [ID]
    assert store.examine(ID).crashed
    alive = pids / f"{os.getpid()}.json"
    alive.write_text(json.dumps({"pid": os.getpid(), "sessionId": ID}))
    assert store.crashed() == []
    with pytest.raises(UsageError, match="being written"):
        store.recover(ID)


def test_agents_logs_are_mended_too(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Go"))
        with session.agent("a753668") as agent:
            agent.append(build.user("Look"))
            agent.append(build.assistant("Seen", model="m"))
    agent.path.write_bytes(agent.path.read_bytes().replace(b"}\n{", b"}{", 3))
    assert store.recover(ID).salvaged
    assert not [item for item in read_log(agent.path) if isinstance(item, Damage)]


@pytest.mark.parametrize("layout", ["flat", "dated"])
def test_the_other_layouts_are_recovered_as_well(store, layout):
    with store.create(session_id=ID, layout=layout) as session:
        session.append(build.user("one"))
        session.append(build.user("two"))
    with session.path.open("ab") as file:
        file.write(b'{"type":"user","con')
    assert store.recover(ID).torn
    found = store.session(ID)
    spoken = [item.record.text for item in found.items() if item.record.type == "user"]
    assert spoken == ["one", "two"]
    assert not store.recover(ID).needed
