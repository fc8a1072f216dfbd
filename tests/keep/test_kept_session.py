"""A session that a store gives out: kept, archived, brought back, deleted; and still readable."""

import json
import os

import pytest

from keep.archive.archives import MAIN, copied, flat_store, small_home, there
from keep.orchard_store import ID, put, said
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.api.store import Store, open_store
from turnlog.catalog.indexed_sessions import list_indexed
from turnlog.catalog.sessions import list_sessions
from turnlog.cli.hints import hint_of
from turnlog.errors import LogLocked, NotFound, UsageError
from turnlog.formats.flat.meta import read_meta
from turnlog.formats.flat.registry import read_index
from turnlog.index.connection import open_fresh
from turnlog.sessions.writing.fork import fork
from turnlog.sessions.writing.writer import SessionWriter

HELLO = {"type": "user", "message": {"role": "user", "content": "Hello, orchard"}}
ANSWER = {
    "type": "assistant",
    "message": {
        "id": "m1",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Pears"}],
        "usage": {"input_tokens": 1000, "output_tokens": 10},
    },
    "requestId": "r1",
}
RESOURCES = ("records", "messages")
LAYOUTS = pytest.mark.parametrize("layout", ["claude", "dated", "flat"])


pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / "store")


def written(store, tmp_path, layout="claude"):
    with store.create(layout=layout, project=tmp_path) as writer:
        writer.append(HELLO)
        writer.append(ANSWER)
    return writer


def texts(session):
    return [item.record.raw for item in session.items()]


# -- through the store ----------------------------------------------------------------------


@LAYOUTS
@pytest.mark.parametrize("remove", [None, True])
def test_an_archived_session_reads_counts_and_forks_like_any_other(store, tmp_path, layout, remove):
    writer = written(store, tmp_path, layout)
    session = store.session(writer.session_id)
    assert isinstance(session, KeptSession)
    before = texts(session), session.totals, len(session.turns)
    found = session.archive(remove=remove)
    assert found.layout == layout
    for each in (session, store.session(writer.session_id)):
        assert (texts(each), each.totals, len(each.turns)) == before
        assert each.is_archived
    with store.create(project=tmp_path, layout="claude") as other:
        assert fork(store.session(writer.session_id), other) == 2


@LAYOUTS
def test_lists_leave_it_out_and_search_and_cost_do_not(store, tmp_path, layout):
    writer = written(store, tmp_path, layout)
    other = written(store, tmp_path, layout)
    counted = [store.query(each, aggregate={"function": "count"}).rows for each in RESOURCES]
    if layout == "dated":
        store.archive(writer.session_id)
    else:
        store.archive(writer.session_id, remove=True)
    assert [row.id for row in store.sessions()] == [other.session_id]
    assert [row.id for row in store.sessions(archived=True)] == [writer.session_id]
    assert len(store.sessions(archived=None)) == 2
    with open_fresh(store.homes) as index:
        assert [row.id for row in list_indexed(index).sessions] == [other.session_id]
        (row,) = list_indexed(index, archived=True).sessions
        assert (row.id, row.archived) == (writer.session_id, True)
        assert list_indexed(index, archived=None).total == 2
        assert list_indexed(index, archived=True, sort="tokens").total == 1
    hits = {hit.session for hit in store.search("orchard").hits}
    assert hits == {writer.session_id, other.session_id}
    assert counted == [
        store.query(each, aggregate={"function": "count"}).rows for each in RESOURCES
    ]


@LAYOUTS
@pytest.mark.parametrize("remove", [None, True])
def test_resuming_brings_it_back_first(store, tmp_path, layout, remove):
    writer = written(store, tmp_path, layout)
    before = writer.path.read_bytes()
    store.archive(writer.session_id, remove=remove)
    with store.resume(writer.session_id) as more:
        assert more.path == writer.path
        more.append(HELLO)
    assert writer.path.read_bytes().startswith(before)
    assert [row.id for row in store.sessions()] == [writer.session_id]
    assert not store.session(writer.session_id).is_archived


def test_what_is_gone_and_kept_is_brought_back_too(store, tmp_path):
    writer = written(store, tmp_path)
    store.session(writer.session_id).keep()
    before = writer.path.read_bytes()
    writer.path.unlink()
    with store.resume(writer.session_id) as more:
        more.append(HELLO)
    assert writer.path.read_bytes().startswith(before)


@pytest.mark.parametrize("layout", ["claude", "flat"])
@pytest.mark.parametrize("remove", [None, True])
def test_labels_need_it_back_and_pins_do_not(store, tmp_path, layout, remove):
    writer = written(store, tmp_path, layout)
    store.archive(writer.session_id, remove=remove)
    with pytest.raises(UsageError, match="archived") as caught:
        store.update(writer.session_id, title="Pears")
    assert f"turnlog restore {writer.session_id}" in hint_of(caught.value)
    store.update(writer.session_id, pinned=True)
    assert store.pins() == {writer.session_id}
    store.unarchive(writer.session_id)
    assert store.update(writer.session_id, title="Pears").summary.title == "Pears"


@LAYOUTS
@pytest.mark.parametrize("how", ["archived", "deleted"])
def test_who_opened_a_session_does_not_begin_it_anew_when_it_is_gone(store, tmp_path, layout, how):
    """Nobody knows of a writer before it has written something."""
    first = written(store, tmp_path, layout)
    before = texts(store.session(first.session_id))
    late = store.resume(first.session_id)
    if how == "archived":
        store.archive(first.session_id, remove=True)
    else:
        store.session(first.session_id).delete()
    with pytest.raises(NotFound, match="is gone"):
        late.append(HELLO)
    assert not late.path.exists()
    if how == "archived":
        with store.resume(first.session_id) as again:
            again.append(HELLO)
        after = texts(store.session(first.session_id))
        assert after[: len(before)] == before
        assert len(after) > len(before)


def test_labels_of_a_session_that_is_gone_lead_to_its_copy(store, tmp_path):
    writer = written(store, tmp_path, "claude")
    store.keep()
    writer.path.unlink()
    with pytest.raises(UsageError, match="is gone from its home") as caught:
        store.update(writer.session_id, title="Pears")
    assert f"turnlog restore {writer.session_id}" in hint_of(caught.value)


def test_a_log_that_somebody_compressed_is_unpacked_to_be_written(store, tmp_path):
    import gzip

    writer = written(store, tmp_path)
    before = writer.path.read_bytes()
    packed = writer.path.with_name(writer.path.name + ".gz")
    packed.write_bytes(gzip.compress(before))
    writer.path.unlink()
    assert [row.id for row in store.sessions()] == [writer.session_id]  # Nobody archived it.
    store.resume(writer.session_id).close()
    assert writer.path.read_bytes() == before
    assert not packed.exists()


# -- closing --------------------------------------------------------------------------------


@LAYOUTS
def test_closing_can_archive_at_once(store, tmp_path, layout):
    with store.create(layout=layout, project=tmp_path) as writer:
        writer.append(HELLO)
        writer.close(archive=True)
    session = store.session(writer.session_id)
    assert session.is_archived
    assert session.metadata.ended_at is not None
    assert store.sessions() == []
    if layout == "flat":
        directory = writer.path.parent
        told = read_meta(directory / f"{writer.session_id}.meta.json")
        assert (told.is_archived, told.ended_at is not None) == (True, True)
        assert told.digest is not None
        assert read_index(directory).entries[0].is_archived
        assert not writer.path.exists()
    else:
        assert writer.path.exists()


def test_closing_twice_archives_once_and_raises_nothing(store, tmp_path):
    writer = store.create(layout="flat", project=tmp_path)
    writer.append(HELLO)
    writer.close()
    writer.close()
    writer.close(archive=True)
    writer.close(archive=True)
    assert store.session(writer.session_id).is_archived


def test_a_session_with_an_agent_that_is_open_is_closed_and_not_archived(store, tmp_path):
    writer = store.create(project=tmp_path)
    writer.append(HELLO)
    other = store.resume(writer.session_id)
    other.append(HELLO)
    with pytest.raises(LogLocked, match="running"):
        writer.close(archive=True)
    other.close(archive=True)
    assert store.session(writer.session_id).is_archived


def test_a_writer_without_a_store_says_so_before_it_closes(tmp_path):
    writer = SessionWriter(tmp_path / "a.jsonl", session_id="a", cwd=tmp_path)
    writer.append(HELLO)
    with pytest.raises(UsageError, match="cannot archive it"):
        writer.close(archive=True)
    writer.append(HELLO)
    writer.close()


def test_an_agents_writer_archives_nothing(store, tmp_path):
    with store.create(project=tmp_path) as writer, writer.subagent() as subagent:
        subagent.append(HELLO)
        with pytest.raises(UsageError):
            subagent.close(archive=True)


# -- the rest -------------------------------------------------------------------------------


def test_keeping_copies_and_changes_nothing(tmp_path):
    home, parts = small_home(tmp_path / "home")
    session = KeptSession.find((home,), ID)
    run = session.keep()
    assert run.copied == len(parts)
    assert session.keep().copied == 0
    assert there(home, parts) == parts
    assert {name: copied(home, name) for name in parts} == parts
    assert not session.is_archived


@pytest.mark.parametrize("is_archived", [True, False])
@pytest.mark.parametrize("make", [small_home, flat_store])
def test_deleting_takes_the_archive_along(tmp_path, own, make, is_archived):
    home, parts = make(tmp_path / "home")
    session = KeptSession.find((home,), ID)
    if is_archived:
        session.archive()
    session.delete()
    assert there(home, parts) == {}
    assert list_sessions((home,), archived=None).sessions == []
    with pytest.raises(NotFound):
        KeptSession.find((home,), ID)
    session.delete()
    (entry,) = (own / "trash").glob("*/entry.json")
    names = {each["name"] for each in json.loads(entry.read_bytes())["files"]}
    assert any(ID in name for name in names)


def test_one_object_goes_on_through_all_of_it(tmp_path):
    home, parts = small_home(tmp_path / "home")
    session = Store((home,), home.path).session(ID)
    tree = session.tree
    session.archive(remove=True)
    assert session.path != home.path / MAIN
    assert session.tree is not tree
    assert texts(session) == [each.rstrip(b"\n") for each in parts[MAIN].splitlines(True)]
    session.unarchive()
    assert session.path == home.path / MAIN


def test_a_session_without_a_main_log_says_so(tmp_path):
    home, _ = small_home(tmp_path / "home")
    os.unlink(home.path / MAIN)
    session = KeptSession.find((home,), ID)
    assert not session.is_archived
    for act in (session.archive, session.unarchive):
        with pytest.raises(NotFound, match="lost its main log"):
            act()


def test_pins_hold_for_what_is_archived(tmp_path):
    home, _ = small_home(tmp_path / "home")
    put(home, f"projects/-home-ada-orchard/{ID}.jsonl", said(ID))
    store = Store((home,), home.path)
    store.update(ID, pinned=True)
    store.archive(ID, remove=True)
    assert ID in store.pins()
