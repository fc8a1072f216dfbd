"""Writing a session: records find their place, whoever else writes."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import turnlog
from turnlog import build
from turnlog.errors import InvalidId, LogLocked, UsageError
from turnlog.records.record_types import Marker
from turnlog.sessions.environment import git_branch, git_commit, process
from turnlog.sessions.session import tree_of
from turnlog.sessions.state import (
    IDLE,
    MOVES,
    SessionState,
    State,
    agent_processes,
    check_move,
    recency,
    state_of,
)
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage.reader import Placed, read_log

ID = "44444444-dddd-4ddd-8ddd-444444444444"


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "store")


def records(path):
    return [item.record for item in read_log(path) if isinstance(item, Placed)]


def said(path):
    return [record for record in records(path) if not isinstance(record, Marker)]


def test_each_record_follows_the_one_before(store, tmp_path):
    with store.create(project=tmp_path) as session:
        first = session.append(build.user("Hello"))
        second = session.append(build.assistant("Hi", model="m"))
        third = session.append(build.user("Bye"))
    found = tree_of(session.path)
    assert [node.uuid for node in found.tips[0].ancestry()] == [third, second, first]
    assert not found.gaps


def test_what_is_missing_is_filled_in_and_what_is_given_stays(store, tmp_path):
    with store.create(project=tmp_path) as session:
        session.append(build.user("Hello") | {"gitBranch": "mine", "extra": 1})
    (record,) = said(session.path)
    assert record.session_id == session.session_id
    assert record.cwd == str(tmp_path)
    assert record.at is not None
    assert (record.git_branch, record.fields["extra"]) == ("mine", 1)


def test_a_new_log_is_empty_until_its_first_record_brings_the_marker(store):
    session = store.create()
    assert session.path.read_bytes() == b""
    session.append(build.user("Hello"))
    head = records(session.path)[0]
    assert (head.type, head.format, head.session_id) == ("turnlog", 1, session.session_id)


def test_two_writers_of_one_session_make_one_thread(store):
    one = store.create(session_id=ID)
    one.append(build.user("one"))
    two = store.resume(ID)
    two.append(build.user("two"))
    one.append(build.user("three"))
    two.append(build.user("four"))
    found = tree_of(one.path)
    assert len(found.tips) == 1
    assert [record.text for record in said(one.path)] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("layout", ["claude", "dated", "flat"])
def test_one_goes_on_where_one_was_unless_that_is_long_ago(store, tmp_path, layout, monkeypatch):
    def go_on(project="here", **more):
        with store.go_on(project=tmp_path / project, layout=layout, **more) as session:
            session.append(build.user("Hello"))
        return session.session_id

    first = go_on()
    assert go_on() == first
    assert go_on("elsewhere") != first
    assert go_on("here/below") != first
    assert go_on() == first
    later = go_on(idle=timedelta(0))
    assert later != first
    assert go_on() == later
    assert store.session(later).layout == layout
    monkeypatch.setenv("HOME", str(tmp_path))
    with store.go_on(project="~/here", layout=layout) as session:
        assert session.session_id == later


def test_a_repeated_uuid_is_written_once_also_by_another_process(store):
    fields = build.user("once") | {"uuid": "fixed"}
    with store.create(session_id=ID) as session:
        assert session.append(fields) == session.append(fields) == "fixed"
    with store.resume(ID) as again:
        assert again.append(fields) == "fixed"
        assert again.append(build.user("twice")) != "fixed"
    assert [record.text for record in said(session.path)] == ["once", "twice"]


def test_records_without_a_uuid_are_kept_every_time(store):
    with store.create() as session:
        assert session.append(build.title("A")) is None
        session.append(build.title("A"))
    assert [record.type for record in said(session.path)] == ["custom-title"] * 2


def test_a_batch_hangs_together(store):
    with store.create() as session:
        session.append_many([build.user("a"), build.assistant("b", model="m"), build.user("c")])
    assert len(tree_of(session.path).tips) == 1


def test_an_agent_has_a_log_of_its_own_in_the_same_session(store):
    with store.create(session_id=ID) as session:
        asked = build.call("Task", {"prompt": "Look", "subagent_type": "Explore"})
        session.append(build.user("Go"))
        session.append(build.assistant([asked], model="m"))
        with session.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
        session.append(build.result(asked["id"], "done", detail={"agentId": "a753668"}))
    assert subagent.path.name == "agent-a753668.jsonl"
    (record,) = said(subagent.path)
    assert (record.session_id, record.agent_id, record.is_sidechain) == (ID, "a753668", True)
    (linked,) = store.session(ID).subagents
    assert linked.spawn.call_id == asked["id"]


@pytest.mark.parametrize("session_id", ["../../x", "a/b", "", "x" * 200, "CON"])
def test_an_id_that_could_leave_the_store_is_refused(store, session_id):
    with pytest.raises(InvalidId):
        store.create(session_id=session_id)


def test_an_existing_session_is_not_created_again(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("Hello"))
    with pytest.raises(UsageError, match="exists"):
        store.create(session_id=ID)


def test_a_record_of_another_session_is_refused(store):
    with store.create() as session, pytest.raises(UsageError, match="does not belong"):
        session.append(build.user("Hello") | {"sessionId": "another"})


def test_a_record_without_a_type_is_refused_and_nothing_is_written(store):
    session = store.create()
    with pytest.raises(UsageError, match="needs a type"):
        session.append({"message": "Hello"})
    assert not session.path.read_bytes()
    assert session.tip is None


def test_a_failed_append_does_not_move_the_tip(store):
    with store.create() as session:
        first = session.append(build.user("Hello"))
        with pytest.raises(turnlog.NotSerialisable):
            session.append(build.user("Bad") | {"n": float("nan")})
        assert session.tip == first


def test_the_users_own_home_is_not_written_unless_named(tmp_path, monkeypatch):
    home = tmp_path / ".claude"
    project = home / "projects" / "-p"
    project.mkdir(parents=True)
    (project / f"{ID}.jsonl").write_text(json.dumps(build.user("x") | {"sessionId": ID}) + "\n")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    store = turnlog.open()
    assert [row.id for row in store.sessions()] == [ID]
    with pytest.raises(UsageError, match="not turnlog's to write"):
        store.resume(ID)
    with store.create() as session:
        session.append(build.user("Hello"))
    assert session.path.is_relative_to(tmp_path / "own")
    assert len(turnlog.open().sessions()) == 2


def test_what_others_wrote_counts_once_though_an_append_is_refused(store):
    with store.create(session_id=ID) as session, store.resume(ID) as other:
        session.append(build.user("mine"))
        assert session.metadata.prompts == 1
        theirs = other.append(build.user("theirs"))
        for _ in range(2):
            with pytest.raises(UsageError, match="does not belong"):
                session.append(build.user("x") | {"sessionId": "another"})
        assert session.metadata.prompts == 2
        assert session.tip == theirs


def test_without_room_a_session_still_goes_on_behind_what_others_wrote(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("first"))
    child = (
        "import os, resource, signal, sys, turnlog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = turnlog.open(sys.argv[1])\n"
        "session, other = store.resume(sys.argv[2]), store.resume(sys.argv[2])\n"
        "session.append(turnlog.build.user('mine'))\n"
        "other.append(turnlog.build.user('theirs'))\n"
        "free = resource.RLIM_INFINITY\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(session.path), free))\n"
        "try:\n"
        "    session.append(turnlog.build.user('no room'))\n"
        "except turnlog.StorageFull:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))\n"
        "    session.append(turnlog.build.user('again'))\n"
    )
    subprocess.run([sys.executable, "-c", child, store.root, ID], check=True)
    found = store.session(ID)
    texts = [record.text for _, record in found.records(found.thread)]
    assert texts == ["first", "mine", "theirs", "again"]


def test_an_append_from_inside_an_append_is_refused_and_changes_nothing(store):
    refused = []

    def interrupt(_number, _frame):
        try:
            session.append(build.user("from inside"))
        except LogLocked as error:
            refused.append(error)

    def clock():
        if session is not None:
            signal.raise_signal(signal.SIGUSR1)
        return datetime.now(UTC)

    session = None
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        session = SessionWriter(store.root / "log.jsonl", session_id=ID, cwd=".", clock=clock)
        for _ in range(2):
            words = {"u-1": "known", "u-2": "again"}
            session.append_many(build.user(words[uuid]) | {"uuid": uuid} for uuid in words)
        assert session.tip == "u-2"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert refused
    assert [record.text for record in said(session.path)] == ["known", "again"]


def _append(path_of_store, text, count):
    store = turnlog.open(path_of_store)
    with store.resume(ID) as session:
        for number in range(count):
            session.append(build.user(f"{text}{number}"))


def test_processes_that_share_a_session_make_one_thread(store):
    with store.create(session_id=ID) as session:
        session.append(build.user("start"))
    workers = [
        multiprocessing.Process(target=_append, args=(store.root, name, 15)) for name in "abcd"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = tree_of(session.path)
    assert len(found.nodes) == 61
    assert len(found.tips) == 1
    assert not found.gaps
    texts = [record.text for record in said(session.path)]
    for name in "abcd":
        mine = [text for text in texts if text.startswith(name)]
        assert mine == [f"{name}{number}" for number in range(15)]


@pytest.mark.parametrize("layout", ["claude", "dated", "flat"])
def test_threads_may_share_a_writer(store, layout):
    session = store.create(layout=layout, durability="flush")
    used = {"input_tokens": 3, "output_tokens": 2}
    failed = []

    def write(name):
        try:
            for number in range(25):
                session.append(build.user(f"{name}{number}"))
                # Everybody has this one; who comes first writes it.
                session.append(build.user(f"same{number}") | {"uuid": f"same{number}"})
                said = [{"type": "text", "text": name}]
                session.append(build.assistant(said, model="claude-sonnet-4-5", usage=used))
                assert session.totals.messages >= number
        except Exception as error:
            failed.append(error)

    between = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=write, args=(name,)) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(between)
    assert not failed
    assert session.totals.messages == 6 * 25
    session.close()
    found = store.session(session.session_id)
    assert found.totals.messages == 6 * 25
    texts = Counter(record.text for _, record in found.records())
    assert all(texts[f"{name}{number}"] == 1 for name in "abcdef" for number in range(25))
    assert all(texts[f"same{number}"] == 1 for number in range(25))
    marks = session.path.read_bytes().count(b'"event":"opened"')
    assert marks == 1


def test_a_writer_that_another_thread_uses_can_be_used_by_a_forked_child(store):
    session = store.create(session_id=ID)
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        with session.turn:
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    if not (child := os.fork()):
        try:
            session.append(build.user("from the child"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    thread.join()
    session.append(build.user("from the parent"))
    assert [record.text for record in said(session.path)] == ["from the child", "from the parent"]


# -- life ----------------------------------------------------------------------------------------


def life(path):
    return state_of(records(path))


def test_a_session_lives_from_created_to_expired(store):
    now = datetime.now(UTC)
    assert SessionState().state(now) is State.CREATED
    with store.create(session_id=ID) as session:
        session.append(build.user("Hello"))
        assert life(session.path).state(now) is State.ACTIVE
        assert life(session.path).is_running
    ended = life(session.path)
    assert ended.ended_at is not None
    assert not ended.is_running
    assert not ended.crashed
    again = store.resume(ID)
    again.append_many([])
    assert life(session.path).state(now) is State.RESUMED
    again.append(build.user("More"))
    assert life(session.path).state(now) is State.ACTIVE
    assert life(session.path).state(now + IDLE + timedelta(days=1)) is State.EXPIRED


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-9, "active"), (0, "active"), (299, "active"), (300, "inactive"), (3599, "inactive"),
     (3600, "stale"), (10**8, "stale")],
)  # fmt: skip
def test_how_recent_a_session_is(seconds, told):
    now = datetime(2026, 11, 1, tzinfo=UTC)
    assert recency(now - timedelta(seconds=seconds), now) == told
    assert recency(None, now) is None


def test_illegal_moves_raise_and_say_what_is_legal():
    check_move(State.ACTIVE, State.EXPIRED)
    with pytest.raises(UsageError, match="deleted cannot become active") as caught:
        check_move(State.DELETED, State.ACTIVE)
    assert caught.value.hint == "it can become nothing"
    assert set(MOVES) == set(State)


def test_a_writer_that_was_killed_leaves_a_crashed_session(store):
    code = (
        "import sys, turnlog, os, signal\n"
        f"session = turnlog.open({str(store.root)!r}).create(session_id={ID!r})\n"
        "session.append(turnlog.build.user('Hello'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [row.id for row in store.crashed()] == [ID]
    with store.resume(ID) as session:
        session.append(build.user("Back"))
    assert [record.text for record in said(session.path)] == ["Hello", "Back"]


def test_an_exception_does_not_look_like_a_good_end(store):
    session = store.create()
    session.append(build.user("Hello"))
    session.__exit__(RuntimeError, RuntimeError(), None)
    assert life(session.path).ended_at is None


def test_one_of_two_writers_saying_goodbye_does_not_end_the_session(store):
    one = store.create(session_id=ID)
    one.append(build.user("one"))
    two = store.resume(ID)
    two.append(build.user("two"))
    two.close()
    assert life(one.path).ended_at is None
    assert life(one.path).is_running


def test_a_process_is_not_mistaken_for_a_later_one_with_its_number():
    me = process()
    assert me.is_alive
    assert not type(me)(me.pid, "1", me.boot).is_alive
    assert process(2**22 + 1) is None


def test_claude_codes_pid_files_tell_running_and_crashed(tmp_path):
    (tmp_path / "sessions").mkdir()
    me = process()
    alive = {"pid": me.pid, "sessionId": "a", "procStart": me.started, "status": "waiting"}
    files = {f"{me.pid}.json": alive, "99999999.json": {"pid": 99999999, "sessionId": "b"}}
    for name, fields in files.items():
        (tmp_path / "sessions" / name).write_text(json.dumps(fields))
    (tmp_path / "sessions" / "1.json").write_text("not json")
    found = {each.session_id: each for each in agent_processes(turnlog.open(tmp_path).homes[0])}
    assert (found["a"].is_alive, found["a"].status) == (True, "waiting")
    assert not found["b"].is_alive


# -- surroundings --------------------------------------------------------------------------------


def test_branch_and_commit_are_read_without_git(tmp_path):
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (git / "refs" / "heads" / "feature").mkdir()
    (git / "refs" / "heads" / "feature" / "x").write_text("abc123\n")
    below = tmp_path / "src"
    below.mkdir()
    assert (git_branch(below), git_commit(below)) == ("feature/x", "abc123")
    (git / "refs" / "heads" / "feature" / "x").unlink()
    (git / "packed-refs").write_text("# pack\ndef456 refs/heads/feature/x\n")
    assert git_commit(below) == "def456"
    (git / "HEAD").write_text("0123abcd\n")
    assert (git_branch(below), git_commit(below)) == (None, "0123abcd")


def test_no_repository_is_no_branch(tmp_path):
    if any((parent / ".git").exists() for parent in tmp_path.parents):
        pytest.skip("the temporary directory lies inside a repository")
    assert git_branch(tmp_path) is None
    assert git_commit(tmp_path) is None


def test_a_project_that_no_longer_exists_can_still_be_written_to(store, tmp_path):
    with store.create(project=tmp_path / "gone", session_id=ID) as session:
        session.append(build.user("Hello"))
    assert os.path.basename(store.session(ID).summary.cwd) == "gone"


def test_a_crash_is_over_when_somebody_went_on_and_ended_well(store):
    gone = {"pid": 99999999, "started": "1", "boot": "x"}
    with store.create(session_id=ID) as session:
        session.append(build.user("Hello"))
    mark = {"type": "turnlog", "event": "opened", "sessionId": ID, "process": gone}
    with session.path.open("ab") as log:
        log.write(json.dumps(mark).encode() + b"\n")
    assert life(session.path).crashed
    with store.resume(ID) as again:
        again.append(build.user("Back"))
        assert not life(session.path).crashed
    assert not life(session.path).crashed
    assert life(session.path).ended_at is not None


def test_the_tip_is_found_behind_any_number_of_titles(store):
    with store.create(session_id=ID) as session:
        tip = session.append(build.user("Hello"))
        session.append_many([build.title(f"T{number}") for number in range(300)])
    with store.resume(ID) as again:
        again.append(build.user("Back"))
    assert said(session.path)[-1].parent_uuid == tip


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (build.system("note"), "system"),
        (build.summary("words", leaf_uuid="u"), "summary"),
        (build.queue_operation("enqueue", "later"), "queue-operation"),
        (build.tag("red"), "tag"),
        (build.user([build.text("a")]), "user"),
        (build.assistant([build.thinking("hm", "sig")], model="m"), "assistant"),
    ],
)
def test_what_the_builders_build_is_well_formed(store, fields, kind):
    with store.create() as session:
        session.append(fields)
    checked = turnlog.validate(session.path, strict=True)
    assert checked.is_valid, checked.findings
    assert kind in checked.types


def test_a_response_with_a_call_stops_to_use_it(store, tmp_path, monkeypatch):
    from claude_agent_sdk import get_session_messages

    ls = build.call("Bash", {"command": "ls"})
    made = {
        "tool_use": build.assistant([build.text("I look."), ls], model="m"),
        "end_turn": build.assistant("Two pears.", model="m"),
        "max_tokens": build.assistant([ls], model="m", stop_reason="max_tokens"),
        None: build.assistant([ls], model="m", stop_reason=None),
    }
    for expected, fields in made.items():
        assert fields["message"]["stop_reason"] == expected
    with store.create(project=tmp_path) as session:
        session.append(build.user("Look"))
        session.append_many(made.values())
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(store.root))
    messages = get_session_messages(session.session_id, directory=str(tmp_path))
    assert [each.message.get("stop_reason") for each in messages[1:]] == list(made)
