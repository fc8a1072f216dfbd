"""Archiving by kept copies: proved, then out of lists, and back with the same bytes."""

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keep.archive.archives import (
    CORPUS,
    HUGE,
    LOGS,
    MAIN,
    copied,
    session_in,
    small_home,
    somewhere,
    there,
)
from keep.orchard_store import ID, KEY, OTHER, files, line, put, said
from turnlog.catalog.sessions import list_sessions
from turnlog.errors import BrokenCopy, LogLocked, NotALog, UsageError
from turnlog.formats import Home, find_everywhere
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.archive.archives import Archives
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies import reader
from turnlog.storage.writer import LogWriter

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def home(tmp_path):
    return small_home(tmp_path / "home")[0]


@pytest.fixture
def parts(home):
    return small_home(home.path)[1]


def facts():
    return Archives.load()._facts


# -- what archiving does --------------------------------------------------------------------


def test_the_originals_stay_and_the_session_leaves_the_plain_list(home, parts):
    found = session_in(home).archive()
    assert there(home, parts) == parts
    assert {name: copied(home, name) for name in parts} == parts
    assert not found.removed
    assert not found.was_archived
    assert found.files == len(parts)
    assert found.size_bytes == sum(map(len, parts.values()))
    assert found.sha256 == sha256(parts[MAIN]).hexdigest()
    assert found.records == 2
    assert list_sessions((home,)).sessions == []
    (row,) = list_sessions((home,), archived=True).sessions
    assert (row.id, row.archived, row.keeping) == (ID, True, "kept")
    assert [row.id for row in list_sessions((home,), archived=None).sessions] == [ID]


def test_the_journal_says_how_well_it_was_compressed_and_what_it_holds(home, own):
    session_in(home).archive()
    told = [json.loads(each) for each in (own / "journal.jsonl").read_bytes().splitlines()]
    (event,) = [each for each in told if each.get("event") == "archived"]
    assert event["sessionId"] == ID
    assert event["sha256"] == sha256((home.path / MAIN).read_bytes()).hexdigest()
    assert event["records"] == 2
    assert event["sizeBytes"] == (home.path / MAIN).stat().st_size
    assert event["compressionRatio"] == round(event["packedBytes"] / event["sizeBytes"], 4)


def test_what_is_removed_is_all_of_it_and_nothing_else(home, parts):
    other, shared = f"{KEY}/{OTHER}.jsonl", "plans/pruning.md"
    put(home, other, said(OTHER))
    put(home, shared, b"# Pruning")
    session = session_in(home)
    found = session.archive(remove=True)
    assert found.removed
    assert there(home, parts) == {}
    assert not (home.path / KEY / ID).exists()
    assert set(there(home, [other, shared])) == {other, shared}
    assert {name: copied(home, name) for name in parts} == parts
    assert [item.record.raw + b"\n" for item in session.items()] == parts[MAIN].splitlines(True)
    assert session.is_archived
    assert not session.is_at_home


def test_unarchiving_gives_every_byte_back(home, parts):
    session = session_in(home)
    session.archive(remove=True)
    found = session.unarchive()
    assert there(home, parts) == parts
    assert (found.files, found.was_archived, found.path) == (4, True, str(home.path / MAIN))
    assert not session.is_archived
    assert session.is_at_home
    assert [row.id for row in list_sessions((home,)).sessions] == [ID]
    assert copied(home, MAIN) == parts[MAIN]


def test_unarchiving_what_was_not_removed_only_takes_the_word_back(home, parts):
    session = session_in(home)
    session.archive()
    before = {name: (home.path / name).stat().st_mtime_ns for name in parts}
    found = session.unarchive()
    assert (found.files, found.was_archived) == (0, True)
    assert {name: (home.path / name).stat().st_mtime_ns for name in parts} == before
    again = session.unarchive()
    assert (again.files, again.was_archived) == (0, False)


def test_archiving_twice_says_so_and_removes_when_asked_then(home, parts):
    assert not session_in(home).archive().was_archived
    again = session_in(home).archive()
    assert again.was_archived
    assert again.files == len(parts)
    removed = session_in(home).archive(remove=True)
    assert (removed.removed, removed.was_archived) == (True, False)
    last = session_in(home).archive(remove=True)
    assert (last.removed, last.was_archived) == (True, True)
    assert last.sha256 == removed.sha256


def test_a_session_that_went_on_is_archived_no_more(home, parts):
    session_in(home).archive()
    with open(home.path / MAIN, "ab") as file:
        file.write(said(ID, "One more thing"))
    (row,) = list_sessions((home,)).sessions
    assert not row.archived
    assert not session_in(home).is_archived
    assert not session_in(home).archive().was_archived
    assert copied(home, MAIN).endswith(said(ID, "One more thing"))


def test_an_agents_log_beside_and_its_metadata_go_along(home, parts):
    beside = {
        f"{KEY}/agent-b2.jsonl": said(ID, "beside", agentId="b2"),
        f"{KEY}/agent-b2.meta.json": b"{}",
    }
    for name, data in beside.items():
        put(home, name, data)
    session_in(home).archive(remove=True)
    assert there(home, beside) == {}
    session_in(home).unarchive()
    assert there(home, beside) == beside


def test_the_plan_is_kept_too_and_stays(home):
    put(home, "plans/pruning.md", b"# Pruning")
    session_in(home).archive(remove=True)
    assert copied(home, "plans/pruning.md") == b"# Pruning"
    assert (home.path / "plans/pruning.md").is_file()


def test_one_of_two_homes(tmp_path, parts):
    one, other = Home(tmp_path / "home"), small_home(tmp_path / "other")[0]
    session_in(one).archive(remove=True)
    assert there(other, parts) == parts
    assert [row.home for row in list_sessions((one, other)).sessions] == [str(other.path)]


def test_a_home_behind_a_link_is_the_same_home(tmp_path, home, parts):
    link = tmp_path / "link"
    link.symlink_to(home.path)
    session_in(Home(link)).archive(remove=True)
    assert list_sessions((home,)).sessions == []
    assert there(home, parts) == {}
    session_in(home).unarchive()
    assert list_sessions((Home(link),)).sessions[0].id == ID


# -- who is refused -------------------------------------------------------------------------


def test_a_session_that_claude_code_runs_is_refused(home, parts):
    put(home, f"sessions/{os.getpid()}.json", json.dumps({"pid": os.getpid(), "sessionId": ID}))
    with pytest.raises(LogLocked, match="running") as caught:
        session_in(home).archive(remove=True)
    assert caught.value.holder == os.getpid()
    assert there(home, parts) == parts
    assert facts() == {}


def test_a_log_that_is_locked_is_refused(home, parts):
    held = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX);"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", held, home.path / MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        holder.stdout.readline()
        with pytest.raises(LogLocked):
            session_in(home).archive(remove=True)
        holder.stdin.close()
    assert there(home, parts) == parts
    assert session_in(home).archive(remove=True).removed


def test_days_that_others_share_are_kept_and_not_removed(tmp_path):
    home = Home(tmp_path / "home")
    day = "projects/0123456789abcdef/2026-01-02.jsonl"
    put(home, day, said("ann") + said("bob") + said("ann", "And the apple tree"))
    with pytest.raises(UsageError, match="shares its logs with bob"):
        session_in(home, "ann").archive(remove=True)
    found = session_in(home, "ann").archive()
    assert (found.layout, found.records, found.removed) == ("dated", 2, False)
    assert [row.id for row in list_sessions((home,)).sessions] == ["bob"]
    assert [row.id for row in list_sessions((home,), archived=True).sessions] == ["ann"]
    with open(home.path / day, "ab") as file:
        file.write(said("bob", "Elsewhere"))
    assert [row.id for row in list_sessions((home,)).sessions] == ["bob"]
    assert session_in(home, "ann").unarchive().was_archived
    assert {row.id for row in list_sessions((home,)).sessions} == {"ann", "bob"}


def test_days_that_are_its_own_can_be_removed(tmp_path):
    home = Home(tmp_path / "home")
    days = [f"projects/0123456789abcdef/2026-01-0{day}.jsonl" for day in (2, 3)]
    parts = {day: said("ann", day) for day in days}
    for name, data in parts.items():
        put(home, name, data)
    found = session_in(home, "ann").archive(remove=True)
    assert found.sha256 == sha256(b"".join(parts.values())).hexdigest()
    assert there(home, parts) == {}
    assert len(list(session_in(home, "ann").items())) == 2
    session_in(home, "ann").unarchive()
    assert there(home, parts) == parts


def test_a_log_behind_a_link_is_not_removed(tmp_path, home, parts):
    elsewhere = tmp_path / "elsewhere.jsonl"
    (home.path / MAIN).rename(elsewhere)
    (home.path / MAIN).symlink_to(elsewhere)
    with pytest.raises(NotALog, match="symbolic link"):
        session_in(home).archive(remove=True)
    assert elsewhere.read_bytes() == parts[MAIN]


def test_a_session_in_two_projects_is_not_removed(home, parts):
    twin = f"projects/-elsewhere/{ID}.jsonl"
    put(home, twin, said(ID, "A copy"))
    with pytest.raises(UsageError, match="several places"):
        session_in(home).archive(remove=True)
    assert there(home, parts) == parts


# -- the proof ------------------------------------------------------------------------------


def test_a_copy_that_rotted_is_made_anew_before_anything_goes(home, parts):
    session_in(home).keep()
    copy = kept_copy(kept_place(home), MAIN)
    data = bytearray(copy.read_bytes())
    data[12] ^= 0xFF
    copy.write_bytes(data)
    session_in(home).archive(remove=True)
    assert copied(home, MAIN) == parts[MAIN]
    assert Catalogue.of_home(home).older == {}


def test_a_log_that_was_rewritten_behind_our_back_begins_anew(home, parts):
    session_in(home).keep()
    path = home.path / MAIN
    before = path.stat()
    path.write_bytes(parts[MAIN].replace(b"pear", b"plum"))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    session_in(home).archive(remove=True)
    assert copied(home, MAIN) == parts[MAIN].replace(b"pear", b"plum")
    (older,) = Catalogue.of_home(home).older[MAIN]
    assert older.generation == 1
    assert Catalogue.of_home(home).current[MAIN].generation == 2


def test_a_copy_that_does_not_read_back_removes_nothing(home, parts, monkeypatch):
    real = reader.open_source

    def other(path, *more):
        if str(path).endswith(f"{ID}.jsonl.zst"):
            path = kept_copy(kept_place(home), f"todos/{ID}-agent-{ID}.json")
        return real(path, *more)

    monkeypatch.setattr(reader, "open_source", other)
    with pytest.raises(BrokenCopy):
        session_in(home).archive(remove=True)
    assert there(home, parts) == parts
    assert facts() == {}


def test_what_is_gone_must_read_back_before_the_rest_goes(home, parts):
    session_in(home).keep()
    (home.path / MAIN).unlink()
    copy = kept_copy(kept_place(home), MAIN)
    copy.write_bytes(copy.read_bytes()[:-20])
    with pytest.raises(BrokenCopy):
        session_in(home).archive(remove=True)
    assert len(there(home, parts)) == 3


def test_without_a_catalogue_the_copies_speak_for_themselves(home, parts):
    session_in(home).archive(remove=True)
    (kept_place(home) / "catalogue.json").unlink()
    found = session_in(home).archive(remove=True)
    assert (found.was_archived, found.files) == (True, len(parts))
    session_in(home).unarchive()
    assert there(home, parts) == parts


def test_what_is_appended_in_the_very_instant_is_given_back(home, parts, monkeypatch):
    late = said(ID, "Too late")
    real = os.unlink

    def unlink(path, **more):
        if os.fspath(path) == f"{ID}.jsonl":
            with open(home.path / MAIN, "ab") as file:
                file.write(late)
        return real(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(LogLocked):
            session_in(home).archive(remove=True)
    assert (home.path / MAIN).read_bytes() == parts[MAIN] + late
    session_in(home).archive(remove=True)
    assert copied(home, MAIN) == parts[MAIN] + late


def test_what_is_appended_while_a_new_log_began_is_not_lost_either(home, parts, monkeypatch):
    late, later = said(ID, "Too late"), said(ID, "Anew")
    real = os.unlink

    def unlink(path, **more):
        is_main = os.fspath(path) == f"{ID}.jsonl"
        if is_main:
            with open(home.path / MAIN, "ab") as file:
                file.write(late)
        real(path, **more)
        if is_main:
            (home.path / MAIN).write_bytes(later)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(LogLocked):
            session_in(home).archive(remove=True)
    assert (home.path / MAIN).read_bytes() == later + late
    assert copied(home, MAIN) == parts[MAIN]


def test_a_writer_of_ours_waits_no_longer_than_it_must(home, parts):
    session_in(home).archive(remove=True)
    session_in(home).unarchive()
    with LogWriter(home.path / MAIN, create=False) as log:
        log.append({"type": "user", "sessionId": ID, "uuid": "later"})
    assert (home.path / MAIN).read_bytes().startswith(parts[MAIN])


# -- whatever the bytes ---------------------------------------------------------------------


@given(main=LOGS, subagent=LOGS, result=st.binary(max_size=300))
@example(main=HUGE, subagent=b"", result=b"")
def test_whatever_is_in_it_comes_back(main, subagent, result):
    more = {
        f"{KEY}/{ID}/subagents/agent-a1.jsonl": subagent,
        f"{KEY}/{ID}/tool-results/b1.txt": result,
        f"file-history/{ID}/é@v1": result,
    }
    with somewhere() as place:
        home, parts = small_home(place / "home", main, **more)
        found = session_in(home).archive(remove=True)
        assert there(home, parts) == {}
        assert found.sha256 == sha256(main).hexdigest()
        assert found.size_bytes == sum(map(len, parts.values()))
        session_in(home).unarchive()
        assert there(home, parts) == parts


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus")
def test_every_real_session_comes_back_and_is_small_meanwhile(tmp_path):
    sessions = sizes = packed = 0
    for number, project in enumerate(sorted((CORPUS / "projects").iterdir())):
        home = Home(tmp_path / f"{number}")  # Walking fifty small homes is faster than a large one.
        shutil.copytree(project, home.path / "projects" / project.name)
        before = files(home.path)
        found = [log for log in find_everywhere((home,)) if log.kind == "session"]
        for each in sorted({log.session_id for log in found}):
            done = session_in(home, each).archive(remove=True)
            sessions, sizes, packed = (
                sessions + 1,
                sizes + done.size_bytes,
                packed + done.packed_bytes,
            )
        left = [log for log in find_everywhere((home,)) if not log.is_kept]
        assert not any(log.kind == "session" for log in left)
        assert list_sessions((home,)).sessions == []
        for each in {log.session_id for log in found}:
            session_in(home, each).unarchive()
        assert files(home.path) == before
    assert sessions > 100
    assert packed <= 0.165 * sizes


def test_the_journal_of_somebody_else_archives_nothing(own, home):
    own.mkdir()
    put(Home(own), "journal.jsonl", line(type="turnlog", event="archived", sessionId=ID, home=1))
    assert [row.id for row in list_sessions((home,)).sessions] == [ID]
