"""Deleting a session: all of it goes, nothing else does, and nothing is lost on the way."""

import contextlib
import gzip
import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from keep.orchard_store import (
    ID,
    KEY,
    OTHER,
    SHARED,
    belongings,
    fails_at,
    files,
    in_trash,
    line,
    make,
    put,
    said,
)
from turnlog import build
from turnlog.errors import (
    AmbiguousSession,
    LogLocked,
    NotALog,
    NotFound,
    TurnlogError,
    UsageError,
)
from turnlog.formats import Home
from turnlog.formats.flat.registry import read_index
from turnlog.formats.kept_copies import kept_place
from turnlog.keep.catalog import Catalogue, remember_kept
from turnlog.keep.copies.keep import keep
from turnlog.keep.retention.retention import reset_project
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.delete import DeletionTerms, delete_session, restore_from_trash
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.environment import process
from turnlog.sessions.state import State
from turnlog.storage.locks import lock

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path, own):
    return make(tmp_path / "home")


def events(own):
    return [json.loads(row) for row in (own / "journal.jsonl").read_bytes().splitlines()][1:]


def test_everything_of_the_session_goes_and_nothing_of_anybody_else(home, own):
    before = files(home.path)
    deletion = delete_session([home], ID[:6])
    assert (deletion.id, deletion.state, deletion.was_deleted) == (ID, State.DELETED, False)
    assert deletion.title == "Prune the pear tree"
    assert deletion.files == len(belongings()) == len(in_trash(own))
    assert in_trash(own) == {f"home/{name}": [data] for name, data in belongings().items()}
    left = files(home.path)
    assert left == {name: before[name] for name in (*belongings(OTHER), *SHARED)}
    for place in ("tasks", "file-history", "session-env", KEY):
        assert not (home.path / place / ID).exists()
    with pytest.raises(NotFound):
        turnlog.open(home.path).session(ID)


def test_deleting_twice_says_so_and_a_session_that_never_was_is_not_found(home, own):
    first = delete_session([home], ID)
    again = delete_session([home], ID)
    assert (again.was_deleted, again.entries, again.id) == (True, first.entries, ID)
    assert again.state is State.DELETED
    assert len(events(own)) == 1
    trash = Trash(own)
    trash.purge(trash.entries()[0])
    third = delete_session([home], ID[:8])
    assert (third.id, third.was_deleted, third.entries) == (ID, True, [])
    assert third.purge_after_at is None
    for never in ("0000", "", "../..", "\0", "x" * 5000):
        with pytest.raises((NotFound, UsageError)):
            delete_session([home], never)


def test_a_prefix_of_several_deleted_sessions_is_ambiguous(home, own):
    similar = "5f0c9999-aaaa-4aaa-8aaa-000000000009"
    put(home, f"{KEY}/{similar}.jsonl", said(similar))
    delete_session([home], ID)
    delete_session([home], similar)
    with pytest.raises(AmbiguousSession):
        delete_session([home], "5f0c")


def test_a_deleted_session_can_be_put_back(home, own):
    before = files(home.path)
    delete_session([home], ID)
    trash = Trash(own)
    assert restore_from_trash(trash, trash.entries()[0]) == len(belongings())
    assert files(home.path) == before
    assert turnlog.open(home.path).session(ID).summary.title
    assert delete_session([home], ID).was_deleted is False


def test_kept_copies_of_every_generation_go_and_come_back_with_the_session(home, own):
    keep([home])
    log = home.path / KEY / f"{ID}.jsonl"
    log.write_bytes(said(ID, "All over again"))
    keep([home])
    place = SessionFileIndex(home).place
    catalogue = Catalogue.load(place)
    kept = files(place)
    assert catalogue.older
    delete_session([home], ID)
    gone = [name for name in in_trash(own) if name.startswith("kept/")]
    assert f"kept/generations/1/{KEY}/{ID}.jsonl.zst" in gone
    assert len(gone) == len(belongings()) + 1
    left = Catalogue.load(place)
    assert left.is_sound
    names = [*left.current, *left.older]
    assert names
    assert not [name for name in names if ID in name or ID[:4] in name]
    # Keeping again neither finds nor misses anything.
    assert keep([home]).copied == 0
    trash = Trash(own)
    restore_from_trash(trash, trash.entries()[0])
    again = Catalogue.load(place)
    assert (again.current, again.older) == (catalogue.current, catalogue.older)
    assert {n: d for n, d in files(place).items() if n.endswith(".zst")} == {
        n: d for n, d in kept.items() if n.endswith(".zst")
    }
    assert keep([home]).copied == 0


def test_a_session_of_which_only_copies_are_left_is_deleted(home, own):
    keep([home])
    for name in belongings():
        (home.path / name).unlink()
    deletion = delete_session([home], ID)
    assert deletion.files == len(belongings())
    assert all(name.startswith("kept/") for name in in_trash(own))
    with pytest.raises(NotFound):
        turnlog.open(home.path).session(ID)


def test_copies_may_stay(home, own):
    keep([home])
    delete_session([home], ID, terms=DeletionTerms("a test", NOW, with_kept=False))
    assert all(name.startswith("home/") for name in in_trash(own))
    assert turnlog.open(home.path).session(ID).logs[0].is_kept


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_deletion_that_fails_anywhere_is_finished_by_deleting_again(
    tmp_path, monkeypatch, is_kept, stride
):
    """Each of many system calls is in turn the last that works; the store is whole each time."""
    number = 1
    while True:
        number += 3 * stride
        own, home = tmp_path / f"own-{number}", make(tmp_path / f"home-{number}", ID)
        monkeypatch.setenv("TURNLOG_HOME", str(own))
        if is_kept:
            keep([home])
        before = files(home.path)
        kept = {n: d for n, d in files(own).items() if n.endswith(".zst")}
        with fails_at(monkeypatch, number) as calls, contextlib.suppress(TurnlogError):
            delete_session([home], ID)
        gone, there = in_trash(own), files(home.path)
        for name, data in before.items():
            assert data in (there.get(name), *gone.get(f"home/{name}", ())), name
        for name, data in kept.items():
            inside = name.split("/", 2)[2]
            copies = (files(own).get(name), *gone.get(f"kept/{inside}", ()))
            assert data in copies, name
        done = delete_session([home], ID)
        assert done.state is State.DELETED
        assert set(files(home.path)) == set(SHARED)
        assert len(in_trash(own)) == len(belongings()) + len(kept) - bool(kept) * len(SHARED)
        assert delete_session([home], ID).was_deleted
        trash = Trash(own)
        for each in trash.entries():
            restore_from_trash(trash, each)
        assert files(home.path) == before
        if len(calls) < number:
            break
    assert number > 40


# -- who may not go -------------------------------------------------------------------------


def refused(home, error, match):
    before = files(home.path)
    with pytest.raises(error, match=match) as told:
        delete_session([home], ID)
    assert files(home.path) == before
    assert told.value.hint
    return told.value


def test_a_session_that_claude_runs_is_refused(home, own):
    me = process()
    said_of_it = {"pid": me.pid, "sessionId": ID, "procStart": me.started, "status": "busy"}
    put(home, f"sessions/{me.pid}.json", json.dumps(said_of_it))
    assert refused(home, LogLocked, "is running").holder == me.pid
    put(home, f"sessions/{me.pid}.json", json.dumps(said_of_it | {"procStart": "1"}))
    assert delete_session([home], ID).files  # That one is dead; its number is used again.


def test_a_session_whose_log_or_agents_log_is_locked_is_refused(home, own):
    for name in (f"{KEY}/{ID}.jsonl", f"{KEY}/{ID}/subagents/agent-a1.jsonl"):
        with open(home.path / name, "ab") as file:
            assert lock(file.fileno(), 0)
            refused(home, LogLocked, "is running")
    assert not in_trash(own)


def test_a_session_that_turnlog_writes_is_refused_until_it_is_closed(tmp_path, own):
    store = turnlog.open(tmp_path / "store")
    with store.create(project=tmp_path) as session:
        session.append(build.user("Hello"))
        with pytest.raises(LogLocked, match="is running") as told:
            store.delete(session.session_id)
        assert told.value.holder == os.getpid()
    assert store.delete(session.session_id).files == 1
    assert not list((tmp_path / "store" / "projects").iterdir())


def test_a_log_that_is_a_link_is_refused(home, own, tmp_path):
    elsewhere = tmp_path / "elsewhere.jsonl"
    log = home.path / KEY / f"{ID}.jsonl"
    log.rename(elsewhere)
    log.symlink_to(elsewhere)
    refused(home, NotALog, "symbolic link")
    assert elsewhere.read_bytes()


def test_a_project_that_is_a_link_is_refused(home, own, tmp_path):
    (home.path / KEY).rename(tmp_path / "moved")
    (home.path / KEY).symlink_to(tmp_path / "moved")
    refused(home, NotALog, "symbolic link")


def test_a_home_that_is_a_link_is_that_home(home, own, tmp_path):
    (tmp_path / "link").symlink_to(home.path)
    assert delete_session([Home(tmp_path / "link")], ID).files == len(belongings())
    assert delete_session([home], ID).was_deleted
    assert set(files(home.path)) == {*belongings(OTHER), *SHARED}


def test_what_is_deleted_while_it_is_put_back_stays_in_the_trash(home, own):
    """Another process deletes it when its files are back and its entry is not gone yet."""
    keep((home,))
    before = files(home.path)
    delete_session([home], ID)
    trash = Trash(own)
    (trashed,) = trash.of_session(ID)
    trash.restore(trashed, settle=lambda: delete_session([home], ID))
    assert trash.of_session(ID) == [trashed]
    assert not Catalogue.of_home(home).missing()
    restore_from_trash(trash, trashed)
    assert files(home.path) == before
    assert trash.entries() == []


def test_an_entry_that_was_put_back_is_not_filled_again(home, own):
    before = files(home.path)
    delete_session([home], ID)
    trash = Trash(own)
    (trashed,) = trash.of_session(ID)
    restore_from_trash(trash, trashed)
    assert trash.finish(trashed) == 0
    assert files(home.path) == before
    with pytest.raises(NotFound, match="not in the trash any more"):
        restore_from_trash(trash, trashed)


def test_copies_that_went_once_more_are_not_remembered(home, own):
    keep((home,))
    delete_session([home], ID)
    (trashed,) = Trash(own).of_session(ID)
    remember_kept(kept_place(home), trashed.entry.catalogue)
    assert not Catalogue.of_home(home).missing()


def test_a_log_that_cannot_be_moved_keeps_its_session_where_it_is(home, own):
    odd = os.fsencode(home.path / "projects") + b"/-\xff"
    os.rename(home.path / KEY, odd)
    before = files(home.path)
    with pytest.raises(NotALog, match="its name is not valid text"):
        delete_session([home], ID)
    assert files(home.path) == before
    assert Trash(own).entries() == []


def test_links_and_fifos_beside_the_log_stay_and_are_told(home, own, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"not yours")
    (home.path / "todos" / f"{ID}-agent-link.json").symlink_to(outside / "secret")
    os.mkfifo(home.path / "tasks" / ID / "fifo")
    (home.path / KEY / ID / "subagents" / "linked").symlink_to(outside)
    deletion = delete_session([home], ID)
    assert deletion.files == len(belongings())
    assert {os.path.basename(each.path) for each in deletion.left} == {
        f"{ID}-agent-link.json",
        "fifo",
        "secret",
    }
    assert (outside / "secret").read_bytes() == b"not yours"
    assert (home.path / "tasks" / ID / "fifo").exists()


@pytest.mark.parametrize(
    "name",
    [
        f"{KEY}/{ID}.jsonl.original-20260101T000000.000000Z",
        f"{KEY}/{ID}.jsonl.quarantine-20260101T000000.000000Z",
        f"{KEY}/{ID}/deep/er/still\n.txt",
        f"image-cache/{ID}/1.png",
        f"file-history/{ID}/[red]@v2",
    ],
)
def test_what_else_bears_its_name_goes_too(home, own, name):
    put(home, name, b"also")
    delete_session([home], ID)
    assert in_trash(own)[f"home/{name}"] == [b"also"]


@pytest.mark.parametrize(
    "name",
    [
        f"todos/{ID}x-agent-a1.json",
        f"todos/x{ID}-agent-a1.json",
        f"{KEY}/{ID}x.jsonl",
        f"{KEY}/agent-a2.jsonl",
        f"tasks/{ID}x/1.json",
        f"plans/{ID}.md",
    ],
)
def test_what_only_looks_like_its_own_stays(home, own, name):
    put(home, name, said(OTHER))
    delete_session([home], ID)
    assert (home.path / name).exists()


# -- other layouts --------------------------------------------------------------------------


def test_a_flat_session_goes_with_its_metadata_and_out_of_the_registry(tmp_path, own):
    store = turnlog.open(tmp_path / "store")
    ids = []
    for text in ("One", "Two"):
        with store.create(project=tmp_path, layout="flat") as session:
            session.append(build.user(text))
        ids.append(session.session_id)
    directory = tmp_path / "store" / "sessions"
    assert {entry.id for entry in read_index(directory).entries} == set(ids)
    store.delete(ids[0])
    assert {entry.id for entry in read_index(directory).entries} == {ids[1]}
    assert set(os.listdir(directory)) == {f"{ids[1]}.jsonl", f"{ids[1]}.meta.json", "index.json"}
    trash = Trash(own)
    restore_from_trash(trash, trash.entries()[0])
    assert {entry.id for entry in read_index(directory).entries} == set(ids)
    assert store.session(ids[0]).summary.title == "One"


def test_an_archive_of_a_flat_store_goes_too(tmp_path, own):
    home = Home(tmp_path / "flat")
    put(home, "compressed/abc.jsonl.gz", gzip.compress(said("abc")))
    put(home, "abc.meta.json", b'{"sessionId":"abc"}')
    put(home, "index.json", b'{"sessions":[{"id":"abc","extra":1},{"id":"def"}]}')
    put(home, "def.jsonl", said("def"))
    delete_session([home], "abc")
    assert set(files(home.path)) == {"index.json", "def.jsonl"}
    assert [entry.id for entry in read_index(home.path).entries] == ["def"]


def test_a_damaged_registry_is_left_as_it_is(tmp_path, own):
    home = Home(tmp_path / "flat")
    put(home, "abc.jsonl", said("abc"))
    put(home, "index.json", b"{ not json")
    delete_session([home], "abc")
    assert files(home.path) == {"index.json": b"{ not json"}


HASH = "projects/0123456789abcdef"


def test_one_of_several_sessions_in_a_days_log_is_refused_but_the_only_one_is_not(tmp_path, own):
    home = Home(tmp_path / "dated")
    put(home, f"{HASH}/2026-01-02.jsonl", said(ID) + said(OTHER))
    put(home, f"{HASH}/2026-01-03.jsonl", said(ID))
    refused(home, UsageError, f"shares its logs with {OTHER}")
    put(home, f"{HASH}/2026-01-02.jsonl", said(ID))
    put(home, f"{HASH}/2026-01-04.jsonl", said(OTHER))
    keep([home])
    assert delete_session([home], ID).files == 4
    assert list(files(home.path)) == [f"{HASH}/2026-01-04.jsonl"]


def test_the_nameless_session_of_a_day(tmp_path, own):
    home = Home(tmp_path / "dated")
    put(home, f"{HASH}/2026-01-02.jsonl", line(type="user", timestamp="2026-01-02T10:00:00Z"))
    session_id = f"{HASH.partition('/')[2]}/2026-01-02"
    assert delete_session([home], session_id).files == 1
    assert delete_session([home], session_id).was_deleted
    assert not files(home.path)
    trash = Trash(own)
    restore_from_trash(trash, trash.entries()[0])
    assert f"{HASH}/2026-01-02.jsonl" in files(home.path)


# -- a whole project ------------------------------------------------------------------------


def test_reset_deletes_what_was_done_in_one_project(tmp_path, own):
    store = turnlog.open(tmp_path / "store")
    ids = {}
    for layout in ("claude", "flat", "dated"):
        for place in ("one", "one/below", "two"):
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            with store.create(project=tmp_path / place, layout=layout) as session:
                session.append(build.user("Hello"))
            ids[layout, place] = session.session_id
    with store.create(project=tmp_path / "one", layout="dated") as session:
        session.append(build.user("Again"))
    done = store.reset(tmp_path / "one")
    gone = {ids[each] for each in ids if each[1] == "one"} | {session.session_id}
    assert {each.id for each in done} == gone
    assert {row.id for row in store.sessions()} == set(ids.values()) - gone
    assert store.reset(tmp_path / "one") == []
    assert {each.id for each in store.reset("two")} == {
        ids[each] for each in ids if each[1] == "two"
    }
    assert all(store.delete(each).was_deleted for each in gone)
    trash = Trash(own)
    for each in trash.entries():
        restore_from_trash(trash, each)
    assert {row.id for row in store.sessions()} == set(ids.values()) | gone


def test_reset_deletes_nothing_while_one_of_them_runs(tmp_path, own):
    store = turnlog.open(tmp_path / "store")
    with store.create(project=tmp_path) as first:
        first.append(build.user("Hello"))
    with store.create(project=tmp_path) as second:
        second.append(build.user("Hello"))
        with pytest.raises(LogLocked):
            store.reset(tmp_path)
        assert len(store.sessions()) == 2
    assert len(store.reset(tmp_path)) == 2


def test_reset_keeps_to_the_stores_root(home, own, tmp_path):
    store = turnlog.api.store.Store((home, Home(tmp_path / "root")), tmp_path / "root")
    assert store.reset("/home/ada/orchard") == []
    assert (home.path / KEY / f"{ID}.jsonl").exists()
    assert reset_project([home], "/home/ada/orchard", own=own, terms=DeletionTerms("x", NOW))
    assert not (home.path / KEY).exists()


def test_how_long_it_stays_is_set(home, own, monkeypatch):
    store = turnlog.open(home.path)
    own.mkdir()
    (own / "config.toml").write_text("[retention]\ngrace_days = 3\n")
    entry = Trash(own).of_session(store.delete(ID).id)[0].entry
    assert entry.purge_after_at - entry.deleted_at == timedelta(days=3)
    (own / "config.toml").write_text("[retention]\ngrace_days = 0\n")
    entry = Trash(own).of_session(store.delete(OTHER).id)[0].entry
    assert entry.purge_after_at - entry.deleted_at == timedelta(days=30)


STEPS = st.tuples(
    st.sampled_from(["write", "delete", "restore", "keep"]), st.integers(1, 120) | st.none()
)


@given(st.lists(STEPS, max_size=9))
def test_whatever_is_done_and_wherever_it_stops_nothing_is_lost(tmp_path_factory, steps):
    """Sessions come, go, come back and begin anew; any step may be cut short at any call."""
    place = tmp_path_factory.mktemp("steps")
    home, own = make(place / "home", ID), place / "own"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(own))
        written = {data for data in belongings().values() if len(data) > 2}
        for number, (step, limit) in enumerate(steps):
            if step == "write":
                path = home.path / KEY / f"{ID}.jsonl"
                if not path.exists():
                    written.add(data := said(ID, f"version {number}"))
                    put(home, f"{KEY}/{ID}.jsonl", data)
            else:
                cut = fails_at(patch, limit) if limit else contextlib.nullcontext()
                with cut, contextlib.suppress(TurnlogError):
                    if step == "delete":
                        delete_session([home], ID)
                    elif step == "keep":
                        keep([home])
                    else:
                        trash = Trash(own)
                        for each in trash.entries():
                            restore_from_trash(trash, each)
            there = {*files(home.path).values(), *(d for ds in in_trash(own).values() for d in ds)}
            assert written <= there, (number, step)
