"""What cannot be read is not gone: nothing is removed from a home that was not read whole."""

import asyncio
import errno
import os
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from keep.orchard_store import ID, KEY, OTHER, belongings, files, in_trash, make, put, said
from keep.permissions import permissions_count
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.errors import AmbiguousSession, TurnlogError, UnreadableHome
from turnlog.formats import Home
from turnlog.formats.flat.registry import reindex
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.integrations.provider import ClaudeStorageProvider
from turnlog.keep.compaction.compact import compact
from turnlog.keep.copies.keep import keep
from turnlog.keep.retention.policy import Policy
from turnlog.keep.retention.retention import prune, reset_project
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.delete import ASKED, DeletionTerms, delete_session, finish_deletions
from turnlog.keep.trash.trash import Trash

LATER = datetime(2026, 8, 1, tzinfo=UTC)
BARN = "projects/-home-ada-barn"
HIDDEN = "5f0d0000-cccc-4ccc-8ccc-000000000003"


@pytest.fixture
def home(tmp_path, own):
    """Two sessions in one project, and a third that lives in another."""
    home = make(tmp_path / "home")
    for name, data in belongings(HIDDEN).items():
        put(home, name.replace(KEY, BARN), data, at=1_767_400_000)
    return home


# -- ways in which a part of a home is out of sight ------------------------------------------


@contextmanager
def without_rights(home, monkeypatch):
    os.chmod(home.path / BARN, 0)
    try:
        with permissions_count():
            yield
    finally:
        os.chmod(home.path / BARN, 0o700)


@contextmanager
def with_names_only(home, monkeypatch):
    """Names can be listed, and that is all."""
    os.chmod(home.path / BARN, 0o400)
    try:
        with permissions_count():
            yield
    finally:
        os.chmod(home.path / BARN, 0o700)


@contextmanager
def on_a_failing_disk(home, monkeypatch):
    real = os.scandir

    def scandir(path="."):
        if os.fspath(path).endswith("-home-ada-barn"):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        yield


@contextmanager
def moved_away(home, name, *, link):
    """A directory of the home is elsewhere, as on a volume that is not mounted."""
    path, away = home.path / name, home.path.with_name("volume")
    path.rename(away)
    if link:
        path.symlink_to("/nonexistent/volume")
    try:
        yield
    finally:
        if link:
            path.unlink()
        elif path.exists():
            path.rmdir()
        away.rename(path)


@contextmanager
def behind_a_dangling_link(home, monkeypatch):
    with moved_away(home, BARN, link=True):
        yield


@contextmanager
def all_behind_a_dangling_link(home, monkeypatch):
    with moved_away(home, "projects", link=True):
        yield


HIDINGS = [
    without_rights,
    with_names_only,
    on_a_failing_disk,
    behind_a_dangling_link,
    all_behind_a_dangling_link,
]


@contextmanager
def not_mounted(home, monkeypatch):
    """The mount point is there, and empty."""
    with moved_away(home, "projects", link=False):
        (home.path / "projects").mkdir()
        yield


@contextmanager
def without_mount_point(home, monkeypatch):
    with moved_away(home, "projects", link=False):
        yield


UNMOUNTED = [not_mounted, without_mount_point]


# -- what removes something -------------------------------------------------------------------


def prune_orphans(home):
    return prune([home], None, now=LATER, write=True, with_orphans=True).problems


def prune_expired(home):
    return prune([home], Policy(enabled=True), now=LATER, write=True).problems


def prune_kept(home):
    policy = Policy(enabled=True, with_kept=True)
    report = prune([home], policy, now=LATER, write=True)
    return report.problems or report.spared


def prune_archived(home):
    policy = Policy(enabled=True, archive_first=True)
    return prune([home], policy, now=LATER, write=True, with_orphans=True).problems


def delete_whole_id(home):
    delete_session([home], ID)


def delete_by_prefix(home):
    delete_session([home], "5f0")  # Two sessions begin with it.


def delete_latest(home):
    delete_session([home], "latest")


def delete_hidden(home):
    delete_session([home], HIDDEN)


def archive_and_remove(home):
    KeptSession.find((home,), ID).archive(remove=True)


def compact_session(home):
    compact(KeptSession.find((home,), ID), write=True)


def reset(home):
    reset_project(
        [home], "/home/ada/orchard", own=home.path / "own", terms=DeletionTerms(ASKED, LATER)
    )


def delete_by_the_sdk(home):
    key = {"project_key": "-home-ada-orchard", "session_id": ID}
    asyncio.run(TurnlogSessionStore(home.path).delete(key))


def reset_by_the_provider(home):
    asyncio.run(ClaudeStorageProvider(home.path).reset("/home/ada/orchard"))


REMOVERS = [
    prune_orphans,
    prune_expired,
    prune_kept,
    prune_archived,
    delete_whole_id,
    delete_by_prefix,
    delete_latest,
    delete_hidden,
    archive_and_remove,
    compact_session,
    reset,
    delete_by_the_sdk,
    reset_by_the_provider,
]

ON_SESSIONS = [archive_and_remove, compact_session]


@pytest.mark.parametrize("remove", REMOVERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("hide", HIDINGS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("is_kept", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_is_removed_from_a_home_that_cannot_be_read_whole(
    home, own, monkeypatch, *, hide, remove, is_kept
):
    if is_kept:
        keep([home])
    before, kept = files(home.path), kept_files(own)
    with hide(home, monkeypatch):
        try:
            told = remove(home)
        except (UnreadableHome, AmbiguousSession) as error:
            told = error.hint
        except TurnlogError:  # Even the session that is meant is out of sight.
            told = hide is all_behind_a_dangling_link and remove in ON_SESSIONS
    assert told
    assert files(home.path) == before
    assert in_trash(own) == {}
    assert kept_files(own).items() >= kept.items()


@pytest.mark.parametrize("hide", UNMOUNTED, ids=lambda each: each.__name__)
def test_nothing_is_an_orphan_where_no_session_is_in_sight(home, own, monkeypatch, hide):
    before = files(home.path)
    with hide(home, monkeypatch):
        report = prune([home], None, now=LATER, write=True, with_orphans=True)
    (problem,) = report.problems
    assert problem.path == home.path / "projects"
    assert "not mounted" in problem.reason
    assert (files(home.path), in_trash(own)) == (before, {})


@pytest.mark.parametrize("hide", UNMOUNTED, ids=lambda each: each.__name__)
def test_kept_copies_do_not_expire_where_no_session_is_in_sight(home, own, monkeypatch, hide):
    keep([home])
    with hide(home, monkeypatch):
        policy = Policy(enabled=True, with_kept=True)
        report = prune([home], policy, now=LATER, write=True)
    assert {each.id for each in report.spared} == {ID, OTHER, HIDDEN}
    assert all("not mounted" in each.reason for each in report.spared)
    assert in_trash(own) == {}


def test_a_home_elsewhere_that_cannot_be_read_makes_no_orphans(home, own, tmp_path):
    away = make(tmp_path / "away", ID)
    (home.path / KEY / f"{ID}.jsonl").unlink()
    os.chmod(away.path / KEY, 0)
    try:
        with permissions_count():
            report = prune([home], None, now=LATER, write=True, with_orphans=True, elsewhere=[away])
    finally:
        os.chmod(away.path / KEY, 0o700)
    assert [each.path for each in report.problems] == [away.path / KEY]
    assert (report.orphans, in_trash(own)) == ([], {})


def test_a_days_log_that_cannot_be_read_makes_no_orphans(home, own):
    day = put(home, "projects/0123456789abcdef/2026-01-02.jsonl", said("d-1", "Mow"))
    put(home, "todos/d-1-agent-d-1.json", b"[]", at=1_767_400_000)
    os.chmod(day, 0)
    with permissions_count():
        report = prune([home], None, now=LATER, write=True, with_orphans=True)
    assert [each.path for each in report.problems] == [day]
    assert (report.orphans, in_trash(own)) == ([], {})


@pytest.mark.parametrize("name", ["sessions", "sessions/4242.json"])
def test_a_session_that_may_be_running_stays(home, own, name):
    said_by_the_program = f'{{"sessionId":"{ID}","pid":{os.getpid()}}}'.encode()
    put(home, "sessions/4242.json", said_by_the_program)
    os.chmod(home.path / name, 0)
    try:
        with permissions_count():
            for remove in (delete_whole_id, archive_and_remove, compact_session, delete_by_the_sdk):
                with pytest.raises(UnreadableHome):
                    remove(home)
            assert prune([home], Policy(enabled=True), now=LATER, write=True).spared
            assert prune_orphans(home)
    finally:
        os.chmod(home.path / name, 0o700)
    assert in_trash(own) == {}


def test_the_error_names_the_place_and_what_to_do(home, own, monkeypatch):
    with without_rights(home, monkeypatch), pytest.raises(UnreadableHome) as caught:
        delete_whole_id(home)
    assert str(caught.value) == f"cannot read {home.path / BARN}: permission denied"
    assert caught.value.path == str(home.path / BARN)
    assert "grant access" in caught.value.hint


def test_an_agents_directory_that_cannot_be_read_keeps_a_flat_session_from_being_packed(
    tmp_path, own
):
    home = Home(tmp_path / "flat")
    put(home, f"{ID}.jsonl", said(ID))
    put(home, f"{ID}/subagents/agent-a1.jsonl", said(ID, "look", agentId="a1"))
    os.chmod(home.path / ID / "subagents", 0)
    try:
        with permissions_count(), pytest.raises(UnreadableHome):
            KeptSession.find((home,), ID).archive()
    finally:
        os.chmod(home.path / ID / "subagents", 0o700)
    assert (home.path / f"{ID}.jsonl").is_file()
    KeptSession.find((home,), ID).archive()
    packed = home.path / "compressed" / ID / "subagents"
    before = files(home.path)
    os.chmod(packed, 0)
    try:
        with permissions_count(), pytest.raises(UnreadableHome):
            KeptSession.find((home,), ID).unarchive()
    finally:
        os.chmod(packed, 0o700)
    assert files(home.path) == before


def test_a_registry_keeps_what_a_directory_that_cannot_be_read_may_hold(tmp_path):
    home = Home(tmp_path)
    put(home, f"{OTHER}.jsonl", said(OTHER))
    put(home, f"compressed/{ID}.jsonl.gz", b"")
    put(home, "index.json", f'{{"sessions":[{{"id":"{ID}","mine":7}}]}}')
    os.chmod(tmp_path / "compressed", 0)
    try:
        with permissions_count():
            report = reindex(tmp_path)
    finally:
        os.chmod(tmp_path / "compressed", 0o700)
    assert report.dropped == 0
    assert [each.path for each in report.problems] == [tmp_path / "compressed"]
    assert f'"{ID}"' in (tmp_path / "index.json").read_text()


@pytest.fixture
def half(home, own):
    """A session of which a part is in the trash, and its log is still in its home."""
    entry = delete_session([home], ID, terms=DeletionTerms(ASKED, LATER, timedelta(0))).entries[0]
    trash = Trash(own)
    (trashed,) = trash.entries()
    log = f"{KEY}/{ID}.jsonl"
    (home.path / log).parent.mkdir(exist_ok=True)
    (trash.path / entry / "home" / log).rename(home.path / log)
    return trash, trashed


@pytest.mark.parametrize("hide", [*HIDINGS[-1:], *UNMOUNTED], ids=lambda each: each.__name__)
def test_half_of_a_session_is_not_purged_while_the_rest_may_be_elsewhere(
    home, half, monkeypatch, hide
):
    trash, trashed = half
    assert "still where it was" in trash.why_unfinished(trashed)
    with hide(home, monkeypatch):
        assert str(home.path / KEY) in trash.why_unfinished(trashed)


def test_half_of_a_session_is_not_purged_while_the_rest_cannot_be_read(home, half):
    trash, trashed = half
    os.chmod(home.path / KEY, 0)
    try:
        with permissions_count():
            assert "permission denied" in trash.why_unfinished(trashed)
            finish_deletions(trash, SessionFileIndex(home))
    finally:
        os.chmod(home.path / KEY, 0o700)
    assert "still where it was" in trash.why_unfinished(trashed)


def test_an_entry_of_the_trash_that_cannot_be_listed_is_not_tidied_away(own):
    place = own / "trash" / "20260101T000000Z-x"
    put(Home(place), "home/projects/-a/x.jsonl", b"{}")
    os.chmod(place / "home", 0)
    try:
        with permissions_count():
            problems = []
            Trash(own).tidy()
            assert Trash(own).entries(problems) == []
            assert [each.reason for each in problems] == ["permission denied"]
    finally:
        os.chmod(place / "home", 0o700)
    assert (place / "home/projects/-a/x.jsonl").is_file()


def kept_files(own):
    kept = files(own / "kept") if (own / "kept").is_dir() else {}
    return {name: data for name, data in kept.items() if name.endswith(".zst")}
