"""The two caches of a flat store: read whatever stands there, say what the logs say."""

import gzip
import json
import os
import stat
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from strategies import json_values, to_line, words
from turnlog.errors import InvalidId, LogError, NotALog, NotFound
from turnlog.formats import flat_archive, flat_index, flat_log, flat_meta
from turnlog.formats.flat.meta import Meta, MetaFold, TokenUsage, meta_of, read_meta
from turnlog.formats.flat.registry import (
    RegistryEntry,
    entry_of,
    read_index,
    reindex,
    update_registry,
    write_meta,
)
from turnlog.records.codec import decode
from turnlog.storage import atomic_files
from turnlog.storage.atomic_files import Unreadable

ID = "abc123def"
AT = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
MS = 1772600767089


def said(**fields):
    return decode(to_line(fields))


def init(at=MS, **more):
    return {"type": "system_init", "timestamp": at, "cwd": "/srv/kites", "model": "m"} | more


def prompt(words="Sew the tail", at=MS + 1000, uuid="u-1"):
    content = [{"type": "text", "text": words}]
    return {"type": "user", "uuid": uuid, "content": content, "timestamp": at}


def answer(uuid="a-1", at=MS + 2000, used=(10, 20), **more):
    usage = {"input_tokens": used[0], "output_tokens": used[1]}
    content = [{"type": "text", "text": "Sewn."}]
    fields = {"type": "assistant", "uuid": uuid, "content": content, "timestamp": at}
    return fields | {"usage": usage} | more


def mark(event, at="2026-03-04T05:07:00.000Z"):
    return {"type": "turnlog", "event": event, "timestamp": at, "sessionId": ID}


HEAD = {"type": "turnlog", "format": 1, "cwd": "/srv", "gitCommit": "a1b2c3d", "sessionId": ID}
CALL = {"type": "tool_use", "uuid": "c-1", "name": "Bash", "input": {}, "timestamp": MS + 3000}
RESULT = {"type": "tool_result", "tool_use_id": "c-1", "content": "ok", "timestamp": MS + 4000}
WHOLE = [init(), HEAD, mark("opened"), prompt(), answer(), CALL, RESULT, mark("ended")]


def log(directory, *records, session_id=ID):
    path = flat_log(directory, session_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(to_line(each) + b"\n" for each in records))
    return path


def archive(directory, *records, session_id=ID):
    path = flat_archive(directory, session_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(to_line(each) + b"\n" for each in records)
    path.write_bytes(gzip.compress(data))
    return path, len(path.read_bytes()) / len(data)


def meta_json(directory, session_id=ID):
    return json.loads(flat_meta(directory, session_id).read_bytes())


def index_json(directory):
    return json.loads(flat_index(directory).read_bytes())


def ids(directory):
    return [each["id"] for each in index_json(directory)["sessions"]]


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def files(directory):
    return {path.name for path in directory.iterdir()}


# -- shapes ---------------------------------------------------------------------------------


def test_the_metadata_file_has_the_seeds_keys_in_the_seeds_order(tmp_path):
    write_meta(tmp_path, meta_of([said(**each) for each in WHOLE[:-1]], ID))
    assert flat_meta(tmp_path, ID).read_text("utf-8") == (
        "{\n"
        '  "sessionId": "abc123def",\n'
        '  "createdAt": "2026-03-04T05:06:07.089Z",\n'
        '  "lastActiveAt": "2026-03-04T05:06:11.089Z",\n'
        '  "messageCount": 4,\n'
        '  "tokenUsage": {\n'
        '    "input": 10,\n'
        '    "output": 20\n'
        "  },\n"
        '  "cwd": "/srv/kites",\n'
        '  "gitCommit": "a1b2c3d",\n'
        '  "title": "Sew the tail",\n'
        '  "isArchived": false,\n'
        '  "compressionRatio": 1.0\n'
        "}\n"
    )


def test_what_only_some_sessions_have_comes_last(tmp_path):
    meta = Meta(session_id=ID, ended_at=AT, repaired_at=AT, removed_messages=2)
    write_meta(tmp_path, meta)
    keys = list(meta_json(tmp_path))
    assert keys[-3:] == ["endedAt", "repairedAt", "removedMessages"]
    assert meta_json(tmp_path)["title"] is None
    assert read_meta(flat_meta(tmp_path, ID)) == replace(meta, compression_ratio=1.0)


def test_the_registry_has_the_seeds_keys_in_the_seeds_order(tmp_path):
    older = RegistryEntry(
        id="older", created_at=AT, last_active_at=AT, message_count=3, is_archived=True
    )
    newer = replace(older, id="newer", last_active_at=AT + timedelta(hours=1), title="Tails")
    for entry in (newer, older):
        update_registry(tmp_path, entry)
    first, second = index_json(tmp_path)["sessions"]
    at, later = "2026-03-04T05:06:07.089Z", "2026-03-04T06:06:07.089Z"
    assert list(first.items()) == [
        ("id", "newer"),
        ("createdAt", at),
        ("lastActiveAt", later),
        ("title", "Tails"),
        ("messageCount", 3),
        ("isArchived", True),
    ]
    assert list(second) == ["id", "createdAt", "lastActiveAt", "messageCount", "isArchived"]
    assert flat_index(tmp_path).read_text("utf-8").startswith('{\n  "sessions": [\n    {\n')
    assert read_index(tmp_path).entries == (newer, older)
    assert read_index(tmp_path).listed == ()


def test_both_files_are_private_whatever_the_umask(tmp_path):
    previous = os.umask(0)
    try:
        write_meta(tmp_path / "store", Meta(session_id=ID))
        update_registry(tmp_path / "store", RegistryEntry(id=ID))
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    for path in (tmp_path / "store").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files(tmp_path / "store") == {f"{ID}.meta.json", "index.json"}


# -- the fold -------------------------------------------------------------------------------


def test_messages_are_what_the_seed_appends_as_messages():
    others = [said(type="summary", summary="x"), said(type="custom-title", customTitle="T")]
    meta = meta_of([*(said(**each) for each in WHOLE), *others], ID)
    assert meta.message_count == 4
    assert meta.title == "T"
    orchestrated = [
        said(type="tool_call", tool="Read", arguments={}),
        said(type="tool_result", tool="Read", result=1),
        said(type="user", message={"role": "user", "content": "hi"}),
        said(type="system", content="a note"),
    ]
    assert meta_of(orchestrated, ID).message_count == 3


def test_a_response_counts_once_however_many_records_carry_it():
    parts = [answer(uuid=f"a-{n}", id="msg_1", used=(10, n)) for n in (1, 7, 20)]
    alone = [answer(uuid="b", used=(1, 2)), answer(uuid="b", used=(1, 2)), answer(uuid="c")]
    meta = meta_of([said(**each) for each in (*parts, *alone)], ID)
    assert meta.token_usage == TokenUsage(input=10 + 1 + 10, output=20 + 2 + 20)
    assert meta.message_count == 6


def test_the_head_tells_the_commit_and_for_want_of_others_the_directory():
    other = HEAD | {"gitCommit": "fffffff"}
    assert meta_of([said(**HEAD), said(**other)], ID).git_commit == "a1b2c3d"
    assert meta_of([said(**HEAD)], ID).cwd == "/srv"
    assert meta_of([said(**HEAD), said(**init())], ID).cwd == "/srv/kites"


def test_an_end_holds_until_something_follows():
    fold = MetaFold()
    ends = []
    for each in (*WHOLE, mark("opened"), prompt(uuid="u-2"), mark("ended", "2026-03-05T00:00Z")):
        fold.take(said(**each))
        ends.append(fold.meta(ID).ended_at)
    assert ends[:7] == [None] * 7
    assert ends[7] == datetime(2026, 3, 4, 5, 7, tzinfo=UTC)
    assert ends[8:] == [None, None, datetime(2026, 3, 5, tzinfo=UTC)]
    # Saying goodbye is no activity.
    assert fold.meta(ID).last_active_at == AT + timedelta(seconds=4)


def test_a_log_without_a_word_tells_nothing():
    assert meta_of([], ID) == Meta(session_id=ID)


# -- reading whatever stands there ----------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "missing"),
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"sessionId": "x"', "not JSON"),
        (b"\0" * 64, "not JSON"),
        (b'{"n": NaN}', "not JSON"),
        (b'{"n": 1e999}', "not JSON"),
        (b'{"t": "\xff"}', "not JSON"),
        (b"[" * 200_000 + b"]" * 200_000, "not JSON"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested too deep"),
        (b"[1]", "not an object"),
        (b"7", "not an object"),
        (b"null", "not an object"),
    ],
)
def test_a_file_that_is_no_object_says_so(tmp_path, content, reason):
    for path in (flat_meta(tmp_path, ID), flat_index(tmp_path)):
        if content is not None:
            path.write_bytes(content)
    meta = read_meta(flat_meta(tmp_path, ID))
    assert isinstance(meta, Unreadable)
    assert meta.reason == reason
    assert (read_index(tmp_path).problem, read_index(tmp_path).entries) == (reason, ())


def test_numbers_are_instants_too(tmp_path):
    put(flat_meta(tmp_path, ID), {"sessionId": ID, "createdAt": MS, "endedAt": float(MS)})
    meta = read_meta(flat_meta(tmp_path, ID))
    assert (meta.created_at, meta.ended_at) == (AT, AT)
    put(flat_index(tmp_path), {"sessions": [{"id": ID, "lastActiveAt": MS}, {"id": "b"}]})
    assert [each.last_active_at for each in read_index(tmp_path).entries] == [AT, None]
    update_registry(tmp_path, RegistryEntry(id="c", created_at=AT, last_active_at=AT))
    assert [each["lastActiveAt"] for each in index_json(tmp_path)["sessions"]] == [
        "2026-03-04T05:06:07.089Z",
        "2026-03-04T05:06:07.089Z",
        None,
    ]


def test_a_value_of_another_kind_is_named_and_costs_no_other(tmp_path):
    odd = {
        "sessionId": 7,
        "createdAt": "yesterday",
        "messageCount": "many",
        "tokenUsage": [1],
        "isArchived": "no",
        "compressionRatio": True,
        "removedMessages": -1,
        "title": "Tails",
        "cwd": None,
    }
    put(flat_meta(tmp_path, ID), odd)
    meta = read_meta(flat_meta(tmp_path, ID))
    assert (meta.session_id, meta.title, meta.message_count) == (ID, "Tails", 0)
    assert set(meta.odd) == odd.keys() - {"title", "cwd"}
    write_meta(tmp_path, Meta(session_id=ID, message_count=3))
    found = meta_json(tmp_path)
    assert (found["messageCount"], found["title"]) == (3, "Tails")
    assert (found["createdAt"], found["removedMessages"]) == ("yesterday", -1)


def test_what_other_programs_put_in_is_kept(tmp_path):
    stranger = {"colour": "red", "deep": {"a": [1, None, 2**70]}, "lone": "\ud800"}
    put(flat_meta(tmp_path, ID), stranger | {"tokenUsage": {"input": 1, "cacheRead": 5}})
    write_meta(tmp_path, Meta(session_id=ID, token_usage=TokenUsage(input=2, output=3)))
    found = meta_json(tmp_path)
    assert {key: found[key] for key in stranger} == stranger
    assert found["tokenUsage"] == {"input": 2, "output": 3, "cacheRead": 5}
    entry = {"id": ID, "createdAt": MS, "lastActiveAt": MS, "title": "T", "messageCount": 1}
    put(flat_index(tmp_path), {"version": 1, "sessions": [entry | stranger], "by": stranger})
    update_registry(tmp_path, RegistryEntry(id=ID, last_active_at=AT, message_count=2))
    update_registry(tmp_path, RegistryEntry(id="other", last_active_at=AT))
    found = index_json(tmp_path)
    assert list(found) == ["version", "sessions", "by"]
    assert found["by"] == stranger
    mine = next(each for each in found["sessions"] if each["id"] == ID)
    assert {key: mine[key] for key in stranger} == stranger
    assert (mine["title"], mine["messageCount"]) == ("T", 2)
    assert mine["createdAt"] == "2026-03-04T05:06:07.089Z"


META_KEYS = [*Meta.__struct_fields__, "sessionId", "createdAt", "tokenUsage", "messageCount"]
objects = st.dictionaries(
    st.sampled_from([*META_KEYS, "id", "isArchived", "title", "lastActiveAt", "sessions"]) | words,
    json_values | st.integers(0, 2 * MS) | st.just("2026-03-04T05:06:07Z"),
    max_size=6,
)
entries = st.lists(objects | st.fixed_dictionaries({"id": words | st.just(ID)}) | json_values)
anything = (
    json_values.map(lambda value: json.dumps(value).encode())
    | objects.map(lambda value: json.dumps(value).encode())
    | st.builds(lambda root, value: json.dumps(root | {"sessions": value}), objects, entries).map(
        str.encode
    )
    | st.binary(max_size=20)
)


def is_newest_first(sessions):
    times = [each["lastActiveAt"] for each in sessions]
    known = [at for at in times if isinstance(at, str) and at.endswith("Z") and len(at) == 24]
    return known == sorted(known, reverse=True)


@given(anything)
@example(b'{"sessions": [{"id": "other", "messageCount": [], "isArchived": 0, "title": 7}]}')
def test_whatever_a_registry_holds_an_entry_finds_its_way_in(data):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        put(flat_index(directory), data)
        before = read_index(directory)
        entry = RegistryEntry(id=ID, created_at=AT, last_active_at=AT, message_count=1)
        update_registry(directory, entry)
        after = read_index(directory)
        assert after.problem is None
        assert is_newest_first(index_json(directory)["sessions"])
        found = next(each for each in after.entries if each.id == ID)
        assert (found.last_active_at, found.message_count) == (AT, 1)
        if before.problem:
            assert (directory / "index.json.damaged-1").read_bytes() == data
        else:
            kept = {each.id: each for each in after.entries}
            for each in before.entries:
                assert kept[each.id] == each or each.id == ID
        again = flat_index(directory).read_bytes()
        update_registry(directory, entry)
        assert flat_index(directory).read_bytes() == again


@given(anything, anything)
def test_whatever_the_caches_hold_reindex_makes_them_say_what_the_log_says(meta, index):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        log(directory, *WHOLE)
        put(flat_meta(directory, ID), meta)
        put(flat_index(directory), index)
        old = read_meta(flat_meta(directory, ID))
        reindex(directory)
        found, wanted = read_meta(flat_meta(directory, ID)), meta_of(map(decode_all, WHOLE), ID)
        for key in Meta.__struct_fields__:
            if key not in ("more", "token_usage") and getattr(wanted, key) is not None:
                assert getattr(found, key) == getattr(wanted, key)
        assert (found.token_usage.input, found.token_usage.output) == (10, 20)
        assert [replace(each, more={}) for each in read_index(directory).entries] == [
            entry_of(wanted)
        ]
        if isinstance(old, Meta):
            unknown = {key: old.more[key] for key in old.more if key not in old.odd}
            assert unknown.items() <= found.more.items() if unknown else True
            assert found.repaired_at == old.repaired_at
        before = snapshot(directory)
        assert reindex(directory).rewritten == 0
        assert snapshot(directory) == before


def decode_all(fields):
    return said(**fields)


def snapshot(directory):
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in directory.iterdir()
    }


# -- places where no file can be ------------------------------------------------------------


def test_nothing_is_written_through_a_link(tmp_path):
    outside = put(tmp_path / "mine.json", {"sessions": []})
    store = tmp_path / "store"
    store.mkdir()
    for path in (flat_meta(store, ID), flat_index(store)):
        os.symlink(outside, path)
    with pytest.raises(NotALog, match="symbolic link") as refusal:
        update_registry(store, RegistryEntry(id=ID))
    assert refusal.value.hint
    with pytest.raises(NotALog, match="symbolic link"):
        write_meta(store, Meta(session_id=ID))
    assert outside.read_bytes() == b'{"sessions": []}'
    assert read_index(store).problem == "a symbolic link"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_or_a_directory_is_refused(tmp_path):
    os.mkfifo(flat_index(tmp_path))
    flat_meta(tmp_path, ID).mkdir()
    with pytest.raises(NotALog, match="not a regular file"):
        update_registry(tmp_path, RegistryEntry(id=ID))
    with pytest.raises(LogError):
        write_meta(tmp_path, Meta(session_id=ID))


@pytest.mark.parametrize("bad", ["../x", "a/b", "", "agent-1", "2026-03-04", "history"])
def test_no_id_leads_anywhere_else(tmp_path, bad):
    with pytest.raises(InvalidId):
        update_registry(tmp_path, RegistryEntry(id=bad))
    with pytest.raises(InvalidId):
        write_meta(tmp_path, Meta(session_id=bad))
    assert files(tmp_path) == set()


def test_a_store_in_a_place_where_none_can_be(tmp_path):
    put(tmp_path / "file", b"")
    for place in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(LogError):
            update_registry(place, RegistryEntry(id=ID))
    with pytest.raises(NotFound):
        reindex(tmp_path / "nowhere")


@pytest.mark.parametrize("step", ["sync", "sync_directory"])
def test_a_full_disk_is_loud_and_leaves_the_old_file_or_the_new(tmp_path, monkeypatch, step):
    update_registry(tmp_path, RegistryEntry(id="first", last_active_at=AT))
    before = flat_index(tmp_path).read_bytes()

    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, step, fail)
    with pytest.raises(LogError, match="no room"):
        update_registry(tmp_path, RegistryEntry(id=ID, last_active_at=AT))
    monkeypatch.undo()
    assert files(tmp_path) == {"index.json"}
    if step == "sync":
        assert flat_index(tmp_path).read_bytes() == before
    update_registry(tmp_path, RegistryEntry(id=ID, last_active_at=AT))
    assert set(ids(tmp_path)) == {"first", ID}


# -- the registry ---------------------------------------------------------------------------


def test_an_update_replaces_the_entry_of_its_session_and_no_other(tmp_path):
    for number in range(5):
        at = AT + timedelta(minutes=number)
        update_registry(tmp_path, RegistryEntry(id=f"s{number}", created_at=at, last_active_at=at))
    assert ids(tmp_path) == ["s4", "s3", "s2", "s1", "s0"]
    late = AT + timedelta(days=1)
    update_registry(tmp_path, RegistryEntry(id="s1", last_active_at=late, message_count=7))
    assert ids(tmp_path) == ["s1", "s4", "s3", "s2", "s0"]
    first = read_index(tmp_path).entries[0]
    assert (first.created_at, first.message_count) == (AT + timedelta(minutes=1), 7)


def test_equal_and_unknown_times_have_an_order_too(tmp_path):
    log(tmp_path, session_id="unsaid")
    for name in ("b", "c", "a"):
        update_registry(
            tmp_path, RegistryEntry(id=name, last_active_at=AT + timedelta(microseconds=3))
        )
    put(flat_index(tmp_path), index_json(tmp_path) | {"by": "hand"})
    entries = index_json(tmp_path)["sessions"]
    entries.append({"id": "0", "lastActiveAt": "long ago"})
    put(flat_index(tmp_path), {"sessions": entries[::-1]})
    update_registry(tmp_path, RegistryEntry(id="d", last_active_at=AT))
    # The log in which nothing was said is as new as its file, which is of today.
    assert ids(tmp_path) == ["unsaid", "a", "b", "c", "d", "0"]


def test_a_damaged_registry_is_kept_aside_and_made_anew(tmp_path):
    log(tmp_path, init(), prompt(), session_id="with-meta")
    log(tmp_path, init(), prompt("No file beside me"), session_id="without")
    write_meta(tmp_path, Meta(session_id="with-meta", last_active_at=AT, title="From the file"))
    for number in (1, 2, 3):
        damage = b'{"sessions": [' + b"x" * number
        put(flat_index(tmp_path), damage)
        update_registry(tmp_path, RegistryEntry(id=ID, created_at=AT, last_active_at=AT))
        assert (tmp_path / f"index.json.damaged-{number}").read_bytes() == damage
        titles = {each.id: each.title for each in read_index(tmp_path).entries}
        assert titles == {"with-meta": "From the file", "without": "No file beside me", ID: None}


def test_entries_among_rubble_keep_what_they_carry(tmp_path):
    log(tmp_path, init(), prompt())
    odd = [{"id": ID, "colour": "red"}, 7, {"title": "whose?"}, {"id": "gone"}]
    put(flat_index(tmp_path), {"sessions": odd, "version": 1})
    assert read_index(tmp_path).problem == "2 of 4 are not sessions"
    assert [each.id for each in read_index(tmp_path).entries] == [ID, "gone"]
    update_registry(tmp_path, RegistryEntry(id="new", last_active_at=AT))
    assert index_json(tmp_path)["version"] == 1
    kept = {each["id"]: each for each in index_json(tmp_path)["sessions"]}
    assert kept[ID]["colour"] == "red"
    assert json.loads((tmp_path / "index.json.damaged-1").read_bytes())["sessions"] == odd


def test_metadata_that_is_damaged_is_kept_aside(tmp_path):
    put(flat_meta(tmp_path, ID), b"{not json")
    write_meta(tmp_path, Meta(session_id=ID, title="T"))
    assert meta_json(tmp_path)["title"] == "T"
    assert (tmp_path / f"{ID}.meta.json.damaged-1").read_bytes() == b"{not json"


def test_nothing_is_written_that_stands_there_already(tmp_path):
    entry = RegistryEntry(id=ID, created_at=AT, last_active_at=AT)
    for _ in range(2):
        write_meta(tmp_path, Meta(session_id=ID, created_at=AT, last_active_at=AT))
        update_registry(tmp_path, entry)
        before = snapshot(tmp_path)
    assert snapshot(tmp_path) == before


def test_a_session_in_which_nothing_was_said_is_as_old_as_its_log(tmp_path):
    path = log(tmp_path)
    os.utime(path, ns=(MS * 1_000_000, MS * 1_000_000))
    write_meta(tmp_path, MetaFold().meta(ID))
    update_registry(tmp_path, MetaFold().meta(ID))
    assert read_index(tmp_path).entries[0].last_active_at == AT
    assert read_meta(flat_meta(tmp_path, ID)).created_at == AT


# -- reindex --------------------------------------------------------------------------------


def test_reindex_gives_what_the_logs_say(tmp_path):
    log(tmp_path, *WHOLE)
    log(tmp_path, init(MS + 60_000), prompt("Later", MS + 61_000), session_id="later")
    put(flat_meta(tmp_path, ID), {"messageCount": 99, "title": "Wrong", "isArchived": True})
    gone = {"id": "gone", "lastActiveAt": MS, "messageCount": 5}
    put(flat_index(tmp_path), {"sessions": [gone, {"id": ID, "colour": "red"}]})
    report = reindex(tmp_path)
    assert (report.sessions, report.rewritten, report.dropped) == (2, 2, 1)
    assert report.problems == ()
    assert ids(tmp_path) == ["later", ID]
    assert index_json(tmp_path)["sessions"][1]["colour"] == "red"
    found = meta_json(tmp_path)
    assert (found["messageCount"], found["title"], found["isArchived"]) == (
        4,
        "Sew the tail",
        False,
    )
    assert found["endedAt"] == "2026-03-04T05:07:00.000Z"
    before = snapshot(tmp_path)
    again = reindex(tmp_path)
    assert (again.sessions, again.rewritten, again.dropped) == (2, 0, 0)
    assert snapshot(tmp_path) == before


def test_reindex_changes_no_log(tmp_path):
    path = log(tmp_path, *WHOLE)
    torn = path.read_bytes() + b'{"type":"user","uu'
    path.write_bytes(torn)
    reindex(tmp_path)
    assert path.read_bytes() == torn
    assert meta_json(tmp_path)["messageCount"] == 4


def test_a_record_that_lacks_only_its_newline_counts(tmp_path):
    path = log(tmp_path, init(), prompt())
    path.write_bytes(path.read_bytes() + to_line(answer()))
    reindex(tmp_path)
    assert meta_json(tmp_path)["messageCount"] == 2


def test_an_archive_is_a_session_that_lists_do_not_show(tmp_path):
    _, ratio = archive(tmp_path, *WHOLE)
    report = reindex(tmp_path)
    assert (report.sessions, report.problems) == (1, ())
    found = meta_json(tmp_path)
    assert found["isArchived"] is True
    assert found["compressionRatio"] == pytest.approx(ratio, abs=1e-4)
    assert found["messageCount"] == 4
    assert read_index(tmp_path).listed == ()
    assert reindex(tmp_path).rewritten == 0


def test_a_log_beside_its_archive_is_the_session_and_unpacked_it_weighs_what_it_weighs(tmp_path):
    archive(tmp_path, *WHOLE)
    reindex(tmp_path)
    log(tmp_path, *WHOLE, prompt("One more", MS + 9000, "u-9"))
    assert reindex(tmp_path).sessions == 1
    found = meta_json(tmp_path)
    assert (found["isArchived"], found["compressionRatio"]) == (False, 1.0)
    assert found["messageCount"] == 5
    assert "endedAt" not in found


def test_a_broken_archive_is_reported_and_its_ratio_is_not_guessed(tmp_path):
    path, _ = archive(tmp_path, *WHOLE * 50)
    put(flat_meta(tmp_path, ID), {"compressionRatio": 0.25, "isArchived": True})
    path.write_bytes(path.read_bytes()[:-20])
    (problem,) = reindex(tmp_path).problems
    assert problem.path == path
    assert "damaged archive" in problem.reason
    assert (meta_json(tmp_path)["isArchived"], meta_json(tmp_path)["compressionRatio"]) == (
        True,
        0.25,
    )


def test_what_no_log_can_tell_is_kept(tmp_path):
    log(tmp_path, init(), prompt(), answer())
    facts = {"repairedAt": MS, "removedMessages": 3, "compressionRatio": 0.5, "gitCommit": "abc"}
    end = {"endedAt": "2026-03-04T06:00:00Z"}
    put(flat_meta(tmp_path, ID), facts | end | {"title": "Wrong"})
    reindex(tmp_path)
    found = meta_json(tmp_path)
    assert found["repairedAt"] == "2026-03-04T05:06:07.089Z"
    assert (found["removedMessages"], found["compressionRatio"]) == (3, 0.5)
    assert (found["gitCommit"], found["title"]) == ("abc", "Sew the tail")
    # Nobody marks ends in this log, and nothing was said since.
    assert found["endedAt"] == "2026-03-04T06:00:00.000Z"
    log(tmp_path, init(), prompt(), answer(), prompt("Still here", MS + 86_400_000, "u-2"))
    reindex(tmp_path)
    assert "endedAt" not in meta_json(tmp_path)


def test_a_running_session_has_no_end_whatever_its_file_says(tmp_path):
    log(tmp_path, *WHOLE[:-1])
    put(flat_meta(tmp_path, ID), {"endedAt": "2030-01-01T00:00:00Z"})
    reindex(tmp_path)
    assert "endedAt" not in meta_json(tmp_path)


def test_what_stands_in_the_way_is_reported_and_the_rest_is_done(tmp_path):
    log(tmp_path, *WHOLE)
    log(tmp_path, init(), session_id="linked")
    outside = put(tmp_path / "outside.json", {})
    os.symlink(outside, flat_meta(tmp_path, "linked"))
    os.symlink("nowhere", flat_log(tmp_path, "dangling"))
    flat_log(tmp_path, "folder").mkdir()
    put(flat_meta(tmp_path, "lost"), {"title": "Whose log is gone"})
    put(flat_meta(tmp_path, ID), b"\0\0\0")
    put(flat_index(tmp_path), b"[]")
    report = reindex(tmp_path)
    assert report.sessions == 2
    reasons = {problem.path.name: problem.reason for problem in report.problems}
    assert "symbolic link" in reasons["linked.meta.json"]
    assert "gone" in reasons["dangling.jsonl"]
    assert "directory" in reasons["folder.jsonl"]
    assert reasons["lost.meta.json"] == "metadata of a session that has no log"
    assert reasons[f"{ID}.meta.json"] == f"not JSON; kept as {ID}.meta.json.damaged-1"
    assert reasons["index.json"] == "not an object; kept as index.json.damaged-1"
    assert set(ids(tmp_path)) == {ID, "linked"}
    assert outside.read_bytes() == b"{}"
    assert flat_meta(tmp_path, "lost").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads it all")
def test_a_log_that_nobody_may_read_stays_in_the_registry(tmp_path):
    path = log(tmp_path, *WHOLE)
    reindex(tmp_path)
    before = index_json(tmp_path)
    path.chmod(0)
    report = reindex(tmp_path)
    assert [problem.path for problem in report.problems] == [path]
    assert index_json(tmp_path) == before


def test_a_log_that_fails_to_be_read_stays_in_the_registry(tmp_path, monkeypatch):
    path = log(tmp_path, *WHOLE)
    log(tmp_path, init(), session_id="good")
    reindex(tmp_path)
    before = index_json(tmp_path)
    from turnlog.formats.flat import meta

    whole = meta.read_log

    def fail(wanted, **how):
        if wanted == path:
            raise LogError("reading failed at byte 0", path=wanted)
        return whole(wanted, **how)

    monkeypatch.setattr(meta, "read_log", fail)
    report = reindex(tmp_path)
    assert [problem.path for problem in report.problems] == [path]
    assert (report.sessions, report.dropped) == (1, 0)
    assert index_json(tmp_path) == before


def test_agents_and_days_are_no_sessions(tmp_path):
    log(tmp_path, *WHOLE)
    for name in ("agent-a1.jsonl", "2026-03-04.jsonl", "history.jsonl", f"{ID}.jsonl.bak"):
        put(tmp_path / name, to_line(prompt()) + b"\n")
    put(tmp_path / "agent-a1.meta.json", {"agentType": "Explore"})
    assert reindex(tmp_path).sessions == 1
    assert ids(tmp_path) == [ID]
    assert json.loads((tmp_path / "agent-a1.meta.json").read_bytes()) == {"agentType": "Explore"}
