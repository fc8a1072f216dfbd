"""The flat layout: a log with system_init at its head, and two caches that follow it."""

import json

import pytest

import turnlog
from turnlog import build
from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.records.record_types import Marker
from turnlog.sessions.session import Session

ID = "99999999-cccc-4ccc-8ccc-999999999999"


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "store")


def create(store, tmp_path, **more):
    return store.create(project=tmp_path, layout="flat", session_id=ID, **more)


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def spoken(path):
    return [line for line in lines(path) if line["type"] != "turnlog"]


def meta(store):
    return json.loads((store.root / "sessions" / f"{ID}.meta.json").read_bytes())


def registry(store):
    return json.loads((store.root / "sessions" / "index.json").read_bytes())["sessions"]


def test_a_log_begins_with_system_init_and_then_the_marker(store, tmp_path):
    with create(store, tmp_path, model="claude-sonnet-4-6") as session:
        session.append(build.user("Hello"))
    first, second, *_ = lines(session.path)
    assert session.path == store.root / "sessions" / f"{ID}.jsonl"
    assert (first["type"], first["cwd"], first["model"]) == (
        "system_init",
        str(tmp_path),
        "claude-sonnet-4-6",
    )
    assert isinstance(first["timestamp"], int)
    assert second["type"] == "turnlog"


def test_records_are_in_the_layouts_own_dialect(store, tmp_path):
    with create(store, tmp_path) as session:
        session.append(build.user("Fix the bug"))
        thought = build.thinking("Let me see", "sig")
        call = build.call("Bash", {"command": "ls"}, call_id="t1")
        used = {"input_tokens": 100, "output_tokens": 500}
        session.append(
            build.assistant([thought, build.text("I'll help"), call], model="m", usage=used)
        )
        session.append(build.result("t1", "Found", failed=True))
    _, user, assistant, tool_use, tool_result = spoken(session.path)
    assert user["content"] == [{"type": "text", "text": "Fix the bug"}]
    assert isinstance(user["timestamp"], int)
    assert assistant["thinking"] == {"thinking": "Let me see", "signature": "sig"}
    assert assistant["content"] == [{"type": "text", "text": "I'll help"}]
    assert assistant["usage"] == used
    assert (tool_use["type"], tool_use["id"], tool_use["name"]) == ("tool_use", "t1", "Bash")
    assert (tool_result["tool_use_id"], tool_result["is_error"]) == ("t1", True)
    assert "message" not in str([user, assistant, tool_use, tool_result])


def test_what_the_dialect_cannot_say_is_kept_in_claude_codes(store, tmp_path):
    with create(store, tmp_path) as session:
        first = session.append(build.user("Hello"))
        session.append(build.system("a note"))
    note = spoken(session.path)[-1]
    assert (note["type"], note["content"], note["parentUuid"]) == ("system", "a note", first)
    found = store.session(ID)
    assert not found.tree.gaps
    assert len(found.tree.tips) == 1


def test_a_record_in_the_dialect_itself_is_taken_as_it_is(store, tmp_path):
    fields = {"type": "user", "content": [{"type": "text", "text": "Hi"}], "extra": 1}
    with create(store, tmp_path) as session:
        uuid = session.append(fields)
    line = spoken(session.path)[-1]
    assert line["uuid"] == uuid
    assert {key: line[key] for key in fields} == fields


def test_the_caches_follow_the_log(store, tmp_path):
    session = create(store, tmp_path)
    assert meta(store)["messageCount"] == 0
    assert [row["id"] for row in registry(store)] == [ID]
    session.append(build.user("Hello"))
    used = {"input_tokens": 3, "output_tokens": 4}
    session.append(build.assistant("Hi", model="m", usage=used))
    session.update(title="Greetings")
    found = meta(store)
    assert (found["title"], found["messageCount"]) == ("Greetings", 2)
    assert found["tokenUsage"] == {"input": 3, "output": 4}
    assert found["cwd"] == str(tmp_path)
    session.append(build.user("Bye"))
    session.close()
    assert meta(store)["messageCount"] == 3
    assert "endedAt" in meta(store)
    assert registry(store)[0]["messageCount"] == 3


def test_two_writers_of_one_session_and_its_caches(store, tmp_path):
    one = create(store, tmp_path)
    two = store.resume(ID)
    for number in range(5):
        one.append(build.user(f"one {number}"))
        two.append(build.user(f"two {number}"))
    one.close()
    two.close()
    assert meta(store)["messageCount"] == 10


def test_reindex_gives_what_the_logs_say_and_nothing_else(store, tmp_path):
    with create(store, tmp_path) as session:
        session.append(build.user("Hello"))
        session.update(title="Greetings")
    before = meta(store), registry(store)
    for path in (store.root / "sessions").glob("*.json"):
        path.unlink()
    store.reindex()
    assert (meta(store), registry(store)) == before
    (store.root / "sessions" / "index.json").write_text("{")
    store.reindex()
    assert registry(store) == before[1]


def test_the_registry_is_sorted_newest_first(store, tmp_path):
    for name in ("a1", "b2", "c3"):
        with store.create(project=tmp_path, layout="flat", session_id=name) as session:
            session.append(build.user(name))
    with store.resume("a1") as again:
        again.append(build.user("once more"))
    assert [row["id"] for row in registry(store)] == ["a1", "c3", "b2"]


def test_the_store_lists_and_resumes(store, tmp_path):
    with create(store, tmp_path) as session:
        session.append(build.user("Hello"))
    with store.resume(ID) as again:
        again.append(build.user("Again"))
        with again.subagent("a753668") as subagent:
            subagent.append(build.user("Look"))
    (row,) = store.sessions()
    assert (row.id, row.project, row.title, row.layout) == (ID, str(tmp_path), "Hello", "flat")
    found = store.session(ID)
    texts = [item.record.text for item in found.items() if item.record.type == "user"]
    assert texts == ["Hello", "Again"]
    assert [each.id for each in found.subagents] == ["a753668"]
    assert subagent.path == store.root / "sessions" / ID / "subagents" / "agent-a753668.jsonl"
    heads = [item.record for item in found.items() if isinstance(item.record, Marker)]
    assert heads[0].git_commit is None


def test_a_flat_root_is_used_as_it_is(tmp_path):
    store = turnlog.open(tmp_path / "sessions")
    with create(store, tmp_path) as session:
        session.append(build.user("Hello"))
    assert session.path == tmp_path / "sessions" / f"{ID}.jsonl"
    assert [row.id for row in store.sessions()] == [ID]


def test_one_id_is_one_session_in_all_layouts(store, tmp_path):
    with create(store, tmp_path) as session:
        session.append(build.user("Hello"))
    for layout in ("claude", "dated", "flat"):
        with pytest.raises(UsageError, match="exists"):
            store.create(session_id=ID, layout=layout)


def test_a_new_id_may_begin_the_ids_of_others(store, tmp_path):
    homes = (Home(store.root),)
    for name in ("abc", "abd", "ab"):
        assert Session.find_exactly(homes, name) is None
        with store.create(project=tmp_path, layout="flat", session_id=name) as session:
            session.append(build.user(name))
        assert Session.find_exactly(homes, name).id == name
        with pytest.raises(UsageError, match="exists"):
            store.create(layout="flat", session_id=name)
    assert Session.find_exactly(homes, "a") is None


def test_an_unknown_layout_is_refused(store):
    with pytest.raises(UsageError, match="no layout"):
        store.create(layout="nested")


def test_the_caches_follow_by_themselves_after_a_while(store, tmp_path, monkeypatch):
    session = create(store, tmp_path)
    session.append(build.user("soon"))
    assert meta(store)["messageCount"] == 0
    monkeypatch.setattr("turnlog.sessions.writing.open.AUTOSAVE_S", 0.0)
    session.append(build.user("later"))
    assert meta(store)["messageCount"] == 2


def test_a_recovery_stands_in_the_metadata(store, tmp_path):
    with create(store, tmp_path) as session:
        session.append(build.user("Hello"))
    with session.path.open("ab") as file:
        file.write(b'{"type":"us')
    assert store.recover(ID).written
    assert "repairedAt" in meta(store)
    before = meta(store)
    store.reindex()
    assert meta(store) == before
