"""After a crash: what is wrong is found, and mended by appending wherever that is enough."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from turnlog import build
from turnlog.errors import UnsafeRecovery, UsageError
from turnlog.keep.compaction.undo import undo as compaction_undo
from turnlog.records.damage import Damage
from turnlog.sessions.reading.threads import main_tip, visible
from turnlog.storage.reader import Placed, read_log

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
    resumed = ["prompt 0", "prompt 1", "answer 1", "prompt 2", "branch a", "branch b"]
    assert texts(store) == resumed  # As Claude Code bridges it.
    found = store.recover(ID)
    assert len(found.bridges) == 2
    assert [link.reason for link in found.relinked] == ["missing"]
    assert not store.session(ID).tree.gaps
    assert texts(store) == resumed


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


def uuids_of(log):
    return [str(item.record.uuid) for item in items_of(log)]


def items_of(log):
    return [item for item in read_log(log) if isinstance(item, Placed) and item.record.uuid]


def set_parent(log, number, parent):
    """Give the record *number* another parent."""
    lines = log.read_bytes().splitlines(True)
    uuid = uuids_of(log)[number]
    for index, line in enumerate(lines):
        fields = json.loads(line)
        if fields.get("uuid") == uuid:
            lines[index] = json.dumps(fields | {"parentUuid": parent}).encode() + b"\n"
    log.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("number", "parent"),
    [(2, 4), (2, 2), (3, 5), (0, 2), (4, None), (3, None), (5, None), (1, None)],
)
def test_rings_and_lost_parents_in_mid_log_are_linked_to_the_record_before(
    store, log, number, parent
):
    uuids = uuids_of(log)
    set_parent(log, number, None if parent is None else uuids[parent])
    before = log.read_bytes()
    found = store.recover(ID)
    assert found.written
    (link,) = found.relinked
    assert (link.record, link.reason) == (uuids[number], "null" if parent is None else "ring")
    assert link.to == (uuids[number - 1] if number else None)
    assert link.is_prompt == (parent is None and number == 4)
    (original,) = found.originals
    assert Path(original).read_bytes() == before
    parents = {item.record.uuid: item.record.parent_uuid for item in items_of(log)}
    assert [parents[uuid] for uuid in uuids] == [None, *uuids[:-1]]
    assert texts(store) == ALL
    assert not store.recover(ID).needed


def test_several_lost_parents_in_mid_log(store, log):
    for number in (1, 2, 4, 5):
        set_parent(log, number, None)
    assert len(store.recover(ID).relinked) == 4
    assert texts(store) == ALL


def test_a_thread_that_starts_rightly_in_mid_log_is_left_alone(store, log):
    """A compaction has no parent, and a note without one is not on the main thread."""
    last = uuids_of(log)[-1]
    boundary = build.system("Compacted", subtype="compact_boundary")
    with store.resume(ID) as session:
        session.append(boundary | {"parentUuid": None, "logicalParentUuid": last})
        session.append(build.user("prompt 3"))
        session.append(build.system("Connected") | {"parentUuid": None})
    assert not store.examine(ID).needed


def test_a_parent_that_comes_after_its_child_does_not_become_a_ring(store):
    """What stands before a gap may descend from it: linking the two would make a ring."""
    with store.create(session_id=ID) as session:
        session.append(build.user("second") | {"uuid": "b", "parentUuid": "a"})
        session.append(build.user("first") | {"uuid": "a", "parentUuid": "gone"})
    found = store.examine(ID)
    assert (found.bridges, found.relinked) == ([], [])
    assert texts(store) == ["first", "second"]


# -- the tip never becomes older ------------------------------------------------------------


def write_half_answered(store):
    """A response with two calls, of which one lost its result, and much that follows."""
    with store.create(session_id=ID) as session:
        session.append(build.user("Count"))
        call = [build.call("Bash", {}, call_id=f"c{number}") for number in (1, 2)]
        first = session.append(build.assistant([call[0]], model="m", message_id="m1"))
        session.append(build.assistant([call[1]], model="m", message_id="m1"))
        session.append(build.result("c1", "one") | {"parentUuid": first})
        for number in range(3):
            session.append(build.user(f"prompt {number}"))
            session.append(build.assistant(f"answer {number}", model="m"))
    return session.path


def newest_by_time(log):
    """Return what Claude Code before 2.1.121 resumes: the leaf with the newest timestamp."""
    records = [item.record for item in items_of(log)]
    parents = {record.parent_uuid for record in records}
    leaves = [record for record in records if record.uuid not in parents]
    return max(leaves, key=lambda record: record.timestamp)


def test_a_replaced_result_is_the_newest_leaf_for_no_version(store):
    log = write_half_answered(store)
    end = items_of(log)[-1].record
    assert store.recover(ID).lost == ["c2"]
    assert main_tip(store.session(ID).tree).uuid == end.uuid
    newest = newest_by_time(log)
    assert end.uuid in (newest.uuid, newest.parent_uuid)
    assert items_of(log)[-1].record.parent_uuid == end.uuid


@pytest.mark.parametrize("is_named", [False, True])
def test_a_recovery_keeps_the_thread_after_a_compaction_that_ended_with_meta(store, is_named):
    """Records that are missing before a compaction do not bring back what it summarised."""
    log = write_half_answered(store)
    drop(log, b"prompt 1")
    with store.resume(ID) as session:
        last = session.tip
        boundary = build.system("Compacted", subtype="compact_boundary")
        session.append(boundary | {"parentUuid": None, "logicalParentUuid": last})
        session.append(build.user("The summary") | {"isCompactSummary": True})
        tip = session.append(build.user("<command-name>/context</command-name>") | {"isMeta": True})
        if is_named:
            session.append({"type": "last-prompt", "lastPrompt": "x", "leafUuid": tip})
    before = [node.uuid for node in store.session(ID).thread]
    assert before[-1] == tip
    assert store.recover(ID).written
    assert [node.uuid for node in store.session(ID).thread] == before
    assert items_of(log)[-1].record.parent_uuid == tip


def test_a_recovery_that_would_move_the_tip_back_is_refused(store, monkeypatch):
    log = write_half_answered(store)
    before = log.read_bytes()
    monkeypatch.setattr("turnlog.sessions.recover.main_end", lambda tree: tree.nodes[0])
    with pytest.raises(UnsafeRecovery, match="older end"):
        store.recover(ID)
    assert log.read_bytes() == before


def test_a_torn_agents_log_is_recovered_once(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Go"))
        with session.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
    with subagent.path.open("ab") as file:
        file.write(b'{"type":"user","mess')
    assert store.recover(ID).torn
    assert not store.recover(ID).needed


# -- undo -----------------------------------------------------------------------------------


def torn(log):
    with log.open("ab") as file:
        file.write(b'{"type":"user","uuid":"x","mess')


def without_a_newline(log):
    log.write_bytes(log.read_bytes().rstrip(b"\n"))


def glued(log):
    log.write_bytes(log.read_bytes().replace(b"}\n{", b"}{", 4))


def cut(log):
    drop(log, b"answer 1")


def severed(log):
    set_parent(log, 3, None)


def ringed(log):
    set_parent(log, 2, uuids_of(log)[4])


def everything(log):
    for injury in (severed, cut, glued, torn):
        injury(log)


INJURIES = [torn, without_a_newline, glued, cut, severed, ringed, everything]


@pytest.mark.parametrize("injury", INJURIES)
def test_an_undo_gives_the_bytes_back(store, log, injury):
    injury(log)
    before = log.read_bytes()
    assert store.recover(ID).written
    recovered = log.read_bytes()
    planned = store.undo_recovery(ID, write=False)
    assert (planned.needed, planned.written, log.read_bytes()) == (True, False, recovered)
    undone = store.undo_recovery(ID)
    assert undone.written
    assert undone.removed >= 3
    assert log.read_bytes() == before
    (kept,) = undone.originals
    assert Path(kept).read_bytes() == recovered
    assert not store.undo_recovery(ID).needed
    assert store.recover(ID).written  # And again.


@pytest.mark.parametrize("injury", INJURIES)
def test_an_undo_keeps_what_was_appended_since_and_does_not_depend_on_it(store, log, injury):
    injury(log)
    before = log.read_bytes()
    store.recover(ID)
    title = b'{"type":"custom-title","customTitle":"A title","sessionId":"' + ID.encode() + b'"}\n'
    with log.open("ab") as file:
        file.write(title)
    store.undo_recovery(ID)
    sealed = b"" if before.endswith(b"\n") else b"\n"
    assert log.read_bytes() == before + sealed + title


def test_an_undo_that_others_depend_on_is_refused(store, log):
    cut(log)
    store.recover(ID)
    with store.resume(ID) as session:
        session.append(build.user("prompt 3") | {"parentUuid": uuids_of(log)[-1]})
    before = log.read_bytes()
    with pytest.raises(UnsafeRecovery, match="depend on it"):
        store.undo_recovery(ID)
    assert log.read_bytes() == before


def test_an_undo_of_a_log_that_was_rewritten_since_is_refused(store, log):
    cut(log)
    store.recover(ID)
    log.write_bytes(log.read_bytes().replace(b"prompt 0", b"PROMPT 0"))
    before = log.read_bytes()
    with pytest.raises(UnsafeRecovery, match="was rewritten since"):
        store.undo_recovery(ID)
    assert log.read_bytes() == before


def test_an_undo_without_the_original_is_refused(store, log):
    severed(log)
    (original,) = store.recover(ID).originals
    Path(original).unlink()
    before = log.read_bytes()
    with pytest.raises(UnsafeRecovery, match="is gone"):
        store.undo_recovery(ID)
    assert log.read_bytes() == before


@pytest.mark.parametrize("name", ["../other.jsonl", "/etc/passwd"])
def test_a_mark_cannot_name_other_files(store, log, tmp_path, name):
    severed(log)
    store.recover(ID)
    log.write_bytes(log.read_bytes().replace(b'"log":"', b'"log":"' + name.encode() + b"x", 1))
    before = log.read_bytes()
    with pytest.raises(UnsafeRecovery, match="another session"):
        store.undo_recovery(ID)
    assert log.read_bytes() == before


def test_an_undo_restores_agents_logs(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Go"))
        with session.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
            subagent.append(build.assistant("Seen", model="m"))
    subagent.path.write_bytes(subagent.path.read_bytes().replace(b"}\n{", b"}{", 3))
    before = (session.path.read_bytes(), subagent.path.read_bytes())
    store.recover(ID)
    assert subagent.path.read_bytes() != before[1]
    store.undo_recovery(ID)
    assert (session.path.read_bytes(), subagent.path.read_bytes()) == before


def test_what_an_undo_leaves_is_no_original_of_a_compaction(store, log):
    cut(log)
    store.recover(ID)
    store.undo_recovery(ID)
    assert not compaction_undo(store.session(ID)).written
    assert all(not each.needed for each in compaction_undo(store.session(ID)).logs)


@pytest.mark.parametrize("layout", ["flat", "dated"])
def test_an_undo_in_the_other_layouts(store, layout):
    with store.create(session_id=ID, layout=layout) as session:
        session.append(build.user("one"))
        session.append(build.user("two"))
    torn(session.path)
    before = session.path.read_bytes()
    assert store.recover(ID).written
    store.undo_recovery(ID)
    assert session.path.read_bytes() == before


# -- what is recorded -----------------------------------------------------------------------


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
        with session.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
            subagent.append(build.assistant("Seen", model="m"))
    subagent.path.write_bytes(subagent.path.read_bytes().replace(b"}\n{", b"}{", 3))
    assert store.recover(ID).salvaged
    assert not [item for item in read_log(subagent.path) if isinstance(item, Damage)]


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
