"""Archives of a flat store, as its seed has them: gzip under compressed/, metadata, registry."""

import gzip
import json
import os
import shutil
import threading
import zlib
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keep.archive.archives import HUGE, LOGS, copied, flat_store, session_in, somewhere, there
from keep.orchard_store import ID, said
from turnlog.api.store import open_store
from turnlog.catalog.sessions import list_sessions
from turnlog.errors import BrokenCopy, LogLocked, NotALog, UsageError
from turnlog.formats import Home, find_everywhere
from turnlog.formats.flat.registry import read_index, reindex
from turnlog.keep.archive import flat
from turnlog.keep.archive.flat import archive_flat
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import find_restorable, mirrors
from turnlog.keep.restore.restore import restore, restore_each
from turnlog.storage.blobs import blob_of

MAIN = f"sessions/{ID}.jsonl"
ARCHIVE = f"sessions/compressed/{ID}.jsonl.gz"


pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def home(tmp_path):
    return flat_store(tmp_path / "home")[0]


@pytest.fixture
def parts(home):
    return flat_store(home.path)[1]


def meta(home):
    return json.loads((home.path / f"sessions/{ID}.meta.json").read_bytes())


def test_the_log_becomes_a_gzip_file_with_all_that_is_known_of_it(home, parts):
    found = session_in(home).archive()
    assert there(home, parts) == {}
    packed = (home.path / ARCHIVE).read_bytes()
    assert gzip.decompress(packed) == parts[MAIN]
    told = meta(home)
    assert told["isArchived"] is True
    assert told["compressionRatio"] == round(len(packed) / len(parts[MAIN]), 4)
    assert told["originalSha256"] == sha256(parts[MAIN]).hexdigest() == found.sha256
    assert told["originalRecords"] == 2 == found.records
    (entry,) = read_index(home.path / "sessions").entries
    assert entry.is_archived
    assert read_index(home.path / "sessions").listed == ()
    assert (found.removed, found.files) == (True, len(parts))
    assert found.size_bytes == sum(map(len, parts.values()))
    assert not (home.path / "sessions" / ID).exists()


def test_an_archive_is_the_same_bytes_whenever_it_is_made(home, parts):
    session_in(home).archive()
    before = (home.path / ARCHIVE).read_bytes()
    assert before[4:8] == b"\0\0\0\0"  # No time.
    assert not before[3] & 8  # No name.
    session_in(home).unarchive()
    os.utime(home.path / MAIN, (1, 1))
    session_in(home).archive()
    assert (home.path / ARCHIVE).read_bytes() == before


def test_everything_comes_back_as_old_as_it_was(home, parts):
    before = {name: (home.path / name).stat().st_mtime_ns for name in parts}
    session = session_in(home)
    session.archive()
    assert (home.path / ARCHIVE).stat().st_mtime_ns == before[MAIN]
    found = session.unarchive()
    assert there(home, parts) == parts
    assert {name: (home.path / name).stat().st_mtime_ns for name in parts} == before
    assert (found.files, found.path) == (len(parts), str(home.path / MAIN))
    assert not (home.path / ARCHIVE).exists()
    assert not (home.path / "sessions/compressed" / ID).exists()
    told = meta(home)
    assert (told["isArchived"], told["compressionRatio"]) == (False, 1.0)
    assert "originalSha256" not in told
    assert not read_index(home.path / "sessions").entries[0].is_archived


def test_archived_sessions_are_left_out_of_plain_lists(home):
    session_in(home).archive()
    assert list_sessions((home,)).sessions == []
    (row,) = list_sessions((home,), archived=True).sessions
    assert (row.id, row.archived, row.subagents) == (ID, True, 1)


def test_its_agents_are_found_in_the_archive(home):
    session = session_in(home)
    session.archive()
    subagents = [log for log in find_everywhere((home,)) if log.kind == "subagent"]
    assert [(log.session_id, log.agent_id, log.compression) for log in subagents] == [
        (ID, "a1", "gz")
    ]
    assert [log.agent_id for log in session.logs if log.kind == "subagent"] == ["a1"]


def test_lines_that_were_moved_to_blobs_are_read_from_the_archive(home):
    record = said(ID, "a very long answer")[:-1]
    blob = blob_of(record)
    path = home.path / f"sessions/{ID}/blobs/{blob.sha256}.zst"
    path.write_bytes(blob.packed)
    with open(home.path / MAIN, "ab") as log:
        log.write(blob.stub + b"\n")
    session = session_in(home)
    before = [item.record.raw for item in session.items()]
    assert record in before
    session.archive()
    assert [item.record.raw for item in session.items()] == before
    session.unarchive()
    assert path.read_bytes() == blob.packed


def test_archiving_twice_says_so(home, parts):
    first = session_in(home).archive()
    stamp = (home.path / ARCHIVE).stat().st_ino
    again = session_in(home).archive()
    assert again.was_archived
    assert (again.sha256, again.files, again.size_bytes) == (
        first.sha256,
        first.files,
        first.size_bytes,
    )
    assert (home.path / ARCHIVE).stat().st_ino == stamp
    assert session_in(home).unarchive().was_archived
    assert not session_in(home).unarchive().was_archived


def test_what_other_programs_put_into_the_metadata_stays(home):
    path = home.path / f"sessions/{ID}.meta.json"
    path.write_text(json.dumps({"colour": "green", "endedAt": "2026-01-02T11:00:00.000Z"}))
    session_in(home).archive()
    assert meta(home)["colour"] == "green"
    assert meta(home)["endedAt"] == "2026-01-02T11:00:00.000Z"
    session_in(home).unarchive()
    assert meta(home)["colour"] == "green"
    assert meta(home)["endedAt"] == "2026-01-02T11:00:00.000Z"


def test_rebuilding_the_registry_keeps_what_only_the_metadata_know(home):
    session_in(home).archive()
    before = meta(home)
    (home.path / "sessions/index.json").unlink()
    reindex(home.path / "sessions")
    assert meta(home) == before
    assert read_index(home.path / "sessions").entries[0].is_archived


def test_keeping_the_original_is_no_archive_here(home, parts):
    with pytest.raises(UsageError, match="the archive replaces the log"):
        session_in(home).archive(remove=False)
    assert there(home, parts) == parts


def test_a_session_that_is_written_is_refused(tmp_path):
    store = open_store(tmp_path / "store")
    with store.create(layout="flat", project=tmp_path) as writer:
        writer.append({"type": "user", "message": {"role": "user", "content": "Hello"}})
        with pytest.raises(LogLocked, match="running"):
            store.archive(writer.session_id)
    assert store.archive(writer.session_id).removed


# -- the proof ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "flipped", "another", "nothing"])
def test_an_archive_that_is_not_what_it_was_is_not_unpacked(home, parts, damage):
    session_in(home).archive()
    path = home.path / ARCHIVE
    data = path.read_bytes()
    broken = {
        "cut": data[:-9],
        "flipped": data[:30] + bytes([data[30] ^ 1]) + data[31:],
        "another": gzip.compress(parts[MAIN] + b"\n"),
        "nothing": b"",
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(BrokenCopy):
        session_in(home).unarchive()
    assert path.read_bytes() == broken
    assert not (home.path / MAIN).exists()
    assert list((home.path / "sessions").glob(".turnlog-*")) == []


def test_without_a_digest_the_archive_itself_must_do(home, parts):
    session_in(home).archive()
    (home.path / f"sessions/{ID}.meta.json").unlink()
    session_in(home).unarchive()
    assert there(home, parts) == parts


def test_nothing_is_overwritten(home, parts):
    session_in(home).archive()
    (home.path / MAIN).write_bytes(said(ID, "Another log"))
    with pytest.raises(UsageError, match="a different file exists"):
        session_in(home).unarchive()
    with pytest.raises(UsageError, match="a different file exists"):
        session_in(home).archive()
    assert (home.path / MAIN).read_bytes() == said(ID, "Another log")
    assert gzip.decompress((home.path / ARCHIVE).read_bytes()) == parts[MAIN]


def test_a_session_that_went_on_beside_its_archive_is_archived_anew(home, parts):
    session_in(home).archive()
    more = parts[MAIN] + said(ID, "And on")
    (home.path / MAIN).write_bytes(more)
    assert len(list_sessions((home,), archived=None).sessions) == 1
    session_in(home).archive()
    assert copied(home, MAIN) == more


def test_a_broken_archive_beside_the_log_is_put_aside(home, parts):
    (home.path / ARCHIVE).parent.mkdir()
    (home.path / ARCHIVE).write_bytes(b"no archive")
    session_in(home).archive()
    assert copied(home, MAIN) == parts[MAIN]
    aside = home.path / f"{ARCHIVE}.damaged-1"
    assert aside.read_bytes() == b"no archive"


def test_an_archive_as_the_seed_writes_it_beside_the_log_is_taken_over(home, parts):
    (home.path / f"{MAIN}.gz").write_bytes(gzip.compress(parts[MAIN]))
    (home.path / MAIN).unlink()
    session_in(home).archive()
    assert copied(home, MAIN) == parts[MAIN]
    assert not (home.path / f"{MAIN}.gz").exists()


def test_nothing_is_written_through_a_link(tmp_path, home, parts):
    (tmp_path / "elsewhere").mkdir()
    (home.path / "sessions/compressed").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotALog):
        session_in(home).archive()
    assert there(home, parts) == parts
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_compressor_that_lies_removes_nothing(home, parts, monkeypatch):
    class Lying:
        def __init__(self, *how):
            self._real = zlib.compressobj(*how)

        def compress(self, data):
            return self._real.compress(data.replace(b"pear", b"plum"))

        def flush(self):
            return self._real.flush()

    class Module:
        DEFLATED = zlib.DEFLATED
        compressobj = Lying

    monkeypatch.setattr("turnlog.keep.archive.flat.zlib", Module)
    with pytest.raises(BrokenCopy):
        session_in(home).archive()
    assert there(home, parts) == parts
    assert not (home.path / f"sessions/{ID}.meta.json").exists()


# -- whatever the bytes ---------------------------------------------------------------------


@given(main=LOGS, subagent=LOGS, result=st.binary(max_size=300))
@example(main=HUGE, subagent=b"", result=b"")
def test_whatever_is_in_it_comes_back(main, subagent, result):
    with somewhere() as place:
        home = Home(place / "store")
        files = {
            MAIN: main,
            f"sessions/{ID}/subagents/deep/er/agent-a1.jsonl": subagent,
            f"sessions/{ID}/tool-results/x.gz": result,
            f"sessions/{ID}/notes": result,
        }
        for name, data in files.items():
            path = home.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        found = session_in(home).archive()
        assert there(home, files) == {}
        assert found.sha256 == sha256(main).hexdigest()
        session_in(home).unarchive()
        assert there(home, files) == files


@pytest.mark.parametrize("session_id", ["abc123def", "a_b-c"])
def test_ids_that_are_no_uuids(tmp_path, session_id):
    home, parts = flat_store(tmp_path / "other", session=session_id)
    session = session_in(home, session_id)
    session.archive()
    assert there(home, parts) == {}
    assert len(session.logs) == 2
    session.unarchive()
    assert there(home, parts) == parts


def test_who_archives_what_is_just_unpacked_waits(home, parts, monkeypatch):
    """Each would remove what the other made of it."""
    session_in(home).archive()
    archiving = threading.Thread(target=lambda: session_in(home).archive())
    real = flat._write_down

    def meanwhile(*arguments):
        monkeypatch.setattr(flat, "_write_down", real)
        archiving.start()
        archiving.join(1)
        real(*arguments)

    monkeypatch.setattr(flat, "_write_down", meanwhile)
    session_in(home).unarchive()
    archiving.join()
    assert there(home, parts) == {}
    assert {name: copied(home, name) for name in parts} == parts


# -- with kept copies beside ------------------------------------------------------------------


def grown(home, parts):
    """Let every log of a session grow, once it was kept; give its parts then."""
    keep((home,))
    logs = {name: data + said(ID, "C") for name, data in parts.items() if name.endswith(".jsonl")}
    for name, data in logs.items():
        (home.path / name).write_bytes(data)
    return parts | logs


def test_what_is_kept_of_a_log_is_up_to_date_when_it_is_archived(home, parts):
    now = grown(home, parts)
    session_in(home).archive()
    shutil.rmtree(home.path)
    assert len(list(session_in(home).items())) == 3
    restore(find_restorable(mirrors((home,)), ID))
    assert there(home, now) == now


def test_an_archive_that_holds_more_than_was_kept_of_its_log_is_what_is_restored(home, parts):
    """Somebody else may have archived it."""
    now = grown(home, parts)
    archive_flat(home.path / "sessions", ID, lambda: None)
    keep((home,))
    session = find_restorable(mirrors((home,)), ID)
    assert restore(session).written == 0
    shutil.rmtree(home.path)
    restore(session)
    assert there(home, now) == {}
    assert len(list(session_in(home).items())) == 3
    session_in(home).unarchive()
    assert there(home, now) == now


def test_a_log_that_went_on_after_its_archive_was_kept_is_what_is_restored(home, parts):
    session_in(home).archive()
    keep((home,))
    session_in(home).unarchive()
    now = grown(home, parts)
    keep((home,))
    shutil.rmtree(home.path)
    restore(find_restorable(mirrors((home,)), ID))
    assert there(home, now) == now
    assert not (home.path / "sessions/compressed").exists()


def test_what_was_kept_is_not_restored_beside_an_archive(home, parts, tmp_path):
    grown(home, parts)
    archive_flat(home.path / "sessions", ID, lambda: None)
    session = find_restorable(mirrors((home,)), ID)
    with pytest.raises(UsageError, match="is not gone, but archived") as caught:
        restore(session)
    assert "unarchive it" in caught.value.hint
    (refused,) = restore_each([session])
    assert "archived" in refused.reason
    assert there(home, parts) == {}
    restore(session, to=tmp_path / "then")
    assert there(Home(tmp_path / "then"), parts) == parts
