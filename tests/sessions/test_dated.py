"""The dated layout: one log a UTC day, several sessions in it, told apart by id."""

import json
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import turnlog
from turnlog import build
from turnlog.errors import UsageError
from turnlog.formats import Home, dated_log, project_hash
from turnlog.records.record_types import Marker
from turnlog.sessions.session import Session
from turnlog.sessions.writing.open import DatedWriter
from turnlog.storage.reader import Placed, read_log

EVENING = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
ID = "77777777-aaaa-4aaa-8aaa-777777777777"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now=EVENING):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def root(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def writer(root, tmp_path, clock):
    def opened(session_id=ID, **more):
        place = partial(dated_log, root, tmp_path)
        return DatedWriter(
            place, session_id=session_id, cwd=tmp_path, root=root, clock=clock, **more
        )

    return opened


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def find(root, text=ID):
    return Session.find((Home(root),), text)


def said(session):
    return [item.record for item in session.items() if not isinstance(item.record, Marker)]


def test_a_log_is_named_by_its_project_and_day(root, tmp_path, writer):
    with writer() as session:
        session.append(build.user("Good evening"))
    assert session.path == root / "projects" / project_hash(tmp_path) / "2026-03-01.jsonl"


def test_records_are_in_the_layouts_own_dialect_and_each_has_the_sessions_id(writer):
    with writer() as session:
        session.append(build.user("How many?"))
        asked = build.call("Read", {"file_path": "a"}, call_id="c1")
        used = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 2}
        session.append(build.assistant([asked], model="m", usage=used))
        session.append(build.result("c1", "forty-two"))
        session.append(build.title("Counting"))
    head, *rest = lines(session.path)
    assert head["type"] == "turnlog"
    assert "sessionId" not in head
    assert {line["sessionId"] for line in rest} == {ID}
    user, assistant, call, result = [
        line for line in rest if line["type"] not in ("turnlog", "custom-title")
    ]
    assert user["content"] == "How many?"
    assert assistant["usage"]["cache_read_tokens"] == 2
    assert (call["type"], call["tool"], call["toolCallId"]) == ("tool_call", "Read", "c1")
    assert (result["tool"], result["result"]) == ("Read", "forty-two")


def test_a_session_goes_on_in_the_next_days_log(root, writer, clock):
    with writer() as session:
        session.append(build.user("before midnight"))
        clock.now += timedelta(seconds=2)
        session.append(build.user("after midnight"))
    found = find(root)
    assert [path.name for path in found.paths] == ["2026-03-01.jsonl", "2026-03-02.jsonl"]
    assert [record.text for record in said(found)] == ["before midnight", "after midnight"]
    assert [record.text for _, record in found.records(found.thread)] == [
        "before midnight",
        "after midnight",
    ]
    assert len(found.tree.tips) == 1
    assert not found.facts.life.crashed


def test_sessions_of_one_day_stay_apart(root, writer):
    one, two = writer("first"), writer("second")
    for number in range(3):
        one.append(build.user(f"one {number}"))
        two.append(build.user(f"two {number}"))
    one.close()
    two.close()
    assert one.path == two.path
    assert [record.text for record in said(find(root, "first"))] == ["one 0", "one 1", "one 2"]
    assert [record.text for record in said(find(root, "second"))] == ["two 0", "two 1", "two 2"]


def test_the_latest_of_those_who_share_a_log_is_the_one_heard_last(root, writer):
    one, two = writer("first"), writer("second")
    two.append(build.user("two"))
    one.append(build.user("one"))
    assert find(root, "latest").id == "first"


def test_a_resumed_session_goes_on_from_its_own_last_record(root, writer, clock, tmp_path):
    with writer() as session:
        last = session.append(build.system("Claude's shape: the dialect has no such record"))
    clock.now += timedelta(days=3)
    with writer("another") as other:
        for number in range(300):
            other.append(build.user(f"{number}"))
    with writer(earlier=find(root).paths) as again:
        assert again.tip == last
        again.append(build.system("more"))
    found = find(root)
    assert [record.text for record in said(found)][-1] == "more"
    assert not found.tree.gaps


def test_a_uuid_is_written_once_over_all_days(root, writer, clock):
    with writer() as session:
        session.append(build.user("once") | {"uuid": "u1"})
    clock.now += timedelta(days=1)
    with writer(earlier=find(root).paths) as again:
        again.append(build.user("once") | {"uuid": "u1"})
    assert [record.text for record in said(find(root))] == ["once"]


def test_a_cut_batch_is_completed_by_its_uuids(writer):
    """A record that became several: trying again writes those that are missing."""
    asked = [build.text("Let me look"), build.call("Read", {}, call_id="c1")]
    fields = build.assistant(asked, model="m") | {"uuid": "u1"}
    with writer() as session:
        session.append(fields)
        whole = session.path.read_bytes()
        cut = whole[: whole.rindex(b'{"type":"tool_call"')]
        session.path.write_bytes(cut)
    with writer() as again:
        again.append(fields)
    types = [line["type"] for line in lines(again.path) if line["type"] != "turnlog"]
    assert types == ["assistant", "tool_call"]


def test_records_without_an_id_are_a_session_called_after_their_log(root, tmp_path):
    path = dated_log(root, tmp_path, EVENING)
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"type":"user","content":"Hello","timestamp":"2026-03-01T10:00:00Z"}\n'
        '{"type":"user","content":"Not mine","sessionId":"other"}\n'
        '{"type":"assistant","content":"Hi","usage":{"input_tokens":1,"output_tokens":1,'
        '"cache_creation_tokens":0,"cache_read_tokens":0},"model":"m",'
        '"timestamp":"2026-03-01T10:00:02Z"}\n'
    )
    found = find(root, f"{project_hash(tmp_path)}/2026-03-01")
    assert [record.text for record in said(found)] == ["Hello", "Hi"]
    assert [turn.prompt is not None for turn in found.turns] == [True]


def test_an_id_in_the_metadata_counts(root, tmp_path):
    path = dated_log(root, tmp_path, EVENING)
    path.parent.mkdir(parents=True)
    path.write_text('{"type":"user","content":"Hello","metadata":{"sessionId":"meta-1"}}\n')
    assert find(root, "meta").id == "meta-1"


def test_totals_of_a_day_are_the_sessions_own(root, writer, clock):
    with writer("first") as one, writer("second") as two:
        one.append(build.user("one"))
        two.append(build.user("two"))
        clock.now += timedelta(seconds=2)
        one.append(build.user("three"))
        assert one.metadata.prompts == 2
        assert two.metadata.prompts == 1


def test_what_others_still_wrote_to_the_old_day_is_seen(root, writer, clock):
    one = writer()
    two = writer()
    one.append(build.system("one"))
    last = two.append(build.system("two"))
    clock.now += timedelta(seconds=2)
    one.append(build.system("three"))
    record = said(find(root))[-1]
    assert record.parent_uuid == last


def test_many_sessions_of_one_day_written_at_once_lose_nothing(root, writer):
    names = [f"session-{number}" for number in range(6)]

    def work(name):
        with writer(name) as session:
            for number in range(20):
                session.append(build.user(f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        texts = [record.text for record in said(find(root, name))]
        assert texts == [f"{name} {number}" for number in range(20)]
    items = list(read_log(writer().path))
    assert all(isinstance(item, Placed) for item in items)


def test_a_record_of_another_session_is_refused(writer):
    with writer() as session, pytest.raises(UsageError, match="does not belong"):
        session.append({"type": "user", "content": "x", "sessionId": "another"})


def test_the_store_creates_lists_and_resumes(tmp_path):
    store = turnlog.open(tmp_path / "store")
    with store.create(project=tmp_path, layout="dated", session_id=ID) as session:
        session.append(build.user("Hello"))
    with store.resume(ID) as again:
        again.append(build.assistant("Hi", model="m"))
        with again.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
    (row,) = store.sessions()
    assert (row.id, row.project, row.title, row.layout) == (ID, str(tmp_path), "Hello", "dated")
    assert row.subagents == 1
    found = store.session(ID)
    assert [record.text for record in said(found)] == ["Hello", "Hi"]
    assert [subagent.id for subagent in found.subagents] == ["a753668"]
    assert store.crashed() == []
