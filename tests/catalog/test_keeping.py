"""Live, kept, restorable, gone: every list says the same, and says it truly."""

from __future__ import annotations

import gzip
import os
import shutil
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from index.homes import (
    SESSION,
    SESSIONS,
    answered,
    asked,
    lines,
    log_path,
    made_home,
    made_tree,
)
from keep.keeping_world import quick_directory
from turnlog.catalog.indexed_sessions import list_indexed
from turnlog.catalog.sessions import Keepings, SessionRow, list_sessions
from turnlog.formats import Home, dated_log
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.index.connection import open_fresh
from turnlog.keep.copies.keep import keep
from turnlog.storage.compressed import unpack

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
SHARED = [field.name for field in structs.fields(SessionRow)]


@pytest.fixture
def homes():
    with quick_directory() as directory:
        yield made_home(directory / "home")


def data_of(number, session=SESSION):
    return lines(asked(number, session), answered(number, session))


def bare(homes):
    return {row.id: row for row in list_sessions(homes, now=NOON).sessions}


def indexed(homes):
    with open_fresh(homes) as index:
        return {row.id: row for row in list_indexed(index, now=NOON).sessions}


def keeping(homes):
    """How safe each session is, as all lists say; they must agree on all else too."""
    ours, theirs = bare(homes), indexed(homes)
    assert set(ours) <= set(theirs)
    for session, row in ours.items():
        for name in SHARED:
            told, other = getattr(row, name), getattr(theirs[session], name)
            # The bare list looks at the ends of a long log only.
            assert told == other or (name == "records" and told is None), (session, name)
    for session in theirs.keys() - ours.keys():
        assert theirs[session].keeping == "gone"
    return {session: row.keeping for session, row in theirs.items()}


# -- one session's life ----------------------------------------------------------------------


def test_from_live_to_gone_and_back(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    assert keeping(homes) == {SESSION: "live"}
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}
    with path.open("ab") as log:
        log.write(data_of(2))
    assert keeping(homes) == {SESSION: "live"}, "not all of it is kept"
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}
    path.unlink()
    assert keeping(homes) == {SESSION: "restorable"}
    copy = kept_copy(kept_place(homes[0]), path.relative_to(homes[0].path).as_posix())
    path.write_bytes(b"".join(unpack(copy)))
    os.utime(path, ns=(0, copy.stat().st_mtime_ns))
    assert keeping(homes) == {SESSION: "kept"}
    path.unlink()
    shutil.rmtree(kept_place(homes[0]))
    assert keeping(homes) == {SESSION: "gone"}
    path.write_bytes(data_of(1) + data_of(2))
    assert keeping(homes) == {SESSION: "live"}


def test_what_was_rewritten_is_not_kept(homes):
    """Shorter, or as long as before: the copy holds something else."""
    path = log_path(homes)
    path.write_bytes(data_of(1) + data_of(2))
    keep(homes)
    path.write_bytes(data_of(1))
    assert keeping(homes) == {SESSION: "live"}
    keep(homes)
    path.write_bytes(data_of(9))
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert keeping(homes) == {SESSION: "live"}
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}


def test_a_copy_behind_its_log_is_what_is_left(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    keep(homes)
    with path.open("ab") as log:
        log.write(data_of(2))
    assert keeping(homes) == {SESSION: "live"}
    path.unlink()
    assert keeping(homes) == {SESSION: "restorable"}
    assert bare(homes)[SESSION].records == 2


def test_sizes_titles_and_times_are_those_of_the_log(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1) * 300)
    os.utime(path, (1_772_000_000, 1_772_000_000))
    keep(homes)
    before = bare(homes)[SESSION]
    path.unlink()
    keeping(homes)
    after = bare(homes)[SESSION]
    assert structs.replace(after, path=before.path, keeping="kept") == before
    assert after.size_bytes == 300 * len(data_of(1))


def test_a_log_without_instants_has_its_file_s_time_also_from_its_copy(homes):
    path = log_path(homes)
    path.write_bytes(b'{"type":"summary","summary":"a kite","leafUuid":"x"}\n')
    os.utime(path, (1_772_000_000, 1_772_000_000))
    keep(homes)
    before = bare(homes)[SESSION]
    path.unlink()
    keeping(homes)
    assert bare(homes)[SESSION].last_active_at == before.last_active_at


# -- many ------------------------------------------------------------------------------------


def test_a_home_of_all_kinds(homes):
    paths = {session: log_path(homes, session) for session in SESSIONS[:4]}
    for number, (session, path) in enumerate(paths.items()):
        path.write_bytes(data_of(number, session))
    keep(homes, sessions=frozenset(SESSIONS[:2]))
    keeping(homes)
    paths[SESSIONS[1]].unlink()
    paths[SESSIONS[3]].unlink()
    assert keeping(homes) == {
        SESSIONS[0]: "kept",
        SESSIONS[1]: "restorable",
        SESSIONS[2]: "live",
        SESSIONS[3]: "gone",
    }


def test_a_large_home_that_is_gone_lists_as_before(homes):
    made_tree(homes[0].path, seed=8, size_bytes=150_000)
    keep(homes)
    before = bare(homes)
    assert len(before) > 1
    # The index also tells of sessions of which only subagents' logs are left.
    assert {keeping(homes)[session] for session in before} == {"kept"}
    shutil.rmtree(homes[0].path)
    assert {keeping(homes)[session] for session in before} == {"restorable"}
    after = bare(homes)
    assert set(after) == set(before)
    for session, row in after.items():
        assert structs.replace(row, path=before[session].path, keeping="kept") == before[session]


def test_days_logs_that_sessions_share(homes):
    for day in (4, 5):
        path = dated_log(homes[0], "/srv/kites", date(2026, 3, day))
        path.parent.mkdir(parents=True, exist_ok=True)
        shared = data_of(day, SESSIONS[0]) + (data_of(9, SESSIONS[1]) if day == 4 else b"")
        path.write_bytes(shared)
    keep(homes)
    assert keeping(homes) == dict.fromkeys(SESSIONS[:2], "kept")
    shutil.rmtree(homes[0].path)
    assert keeping(homes) == dict.fromkeys(SESSIONS[:2], "restorable")


def test_a_flat_store_and_its_archives(homes):
    folder = homes[0].path / "sessions"
    (folder / "compressed").mkdir(parents=True)
    (folder / f"{SESSIONS[0]}.jsonl").write_bytes(data_of(1, SESSIONS[0]))
    keep(homes)
    assert keeping(homes) == {SESSIONS[0]: "kept"}
    packed = gzip.compress(data_of(2, SESSIONS[1]))
    (folder / "compressed" / f"{SESSIONS[1]}.jsonl.gz").write_bytes(packed)
    listed = {row.id: row.keeping for row in list_sessions(homes, archived=None).sessions}
    assert listed == {SESSIONS[0]: "kept", SESSIONS[1]: "live"}
    keep(homes)
    listed = {row.id: row.keeping for row in list_sessions(homes, archived=None).sessions}
    assert listed == dict.fromkeys(SESSIONS[:2], "kept")


def test_a_link_to_a_home(homes, tmp_path):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    keep(homes)
    link = (Home(tmp_path / "link"),)
    link[0].path.symlink_to(homes[0].path, target_is_directory=True)
    assert keeping(link) == {SESSION: "kept"}
    path.unlink()
    assert keeping(link) == {SESSION: "restorable"}


def test_a_link_beside_the_true_directory(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    path.parent.with_name("-a-link").symlink_to(path.parent, target_is_directory=True)
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}
    path.unlink()
    assert keeping(homes) == {SESSION: "restorable"}


def test_who_keeps_nothing_has_everything_live(homes):
    log_path(homes).write_bytes(data_of(1))
    assert keeping(homes) == {SESSION: "live"}
    assert not kept_place(homes[0]).parent.exists(), "looking makes nothing"


def test_a_lost_catalogue_makes_nothing_safe(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    keep(homes)
    (kept_place(homes[0]) / "catalogue.json").write_bytes(b"{")
    assert keeping(homes) == {SESSION: "live"}, "nobody can tell without reading it"
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}


def test_a_copy_that_is_missing_makes_nothing_safe(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    keep(homes)
    (copy,) = kept_place(homes[0]).rglob(f"{path.name}.zst")
    copy.unlink()
    assert keeping(homes) == {SESSION: "live"}
    keep(homes)
    assert keeping(homes) == {SESSION: "kept"}


def test_a_log_that_goes_while_it_is_listed(homes):
    path = log_path(homes)
    path.write_bytes(data_of(1))
    keep(homes)
    path.unlink()
    assert Keepings().of(str(homes[0].path), str(path)) == "restorable"


@settings(max_examples=20)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["grow", "keep", "go", "rewrite", "list"]), st.integers(0, 2)),
        max_size=14,
    )
)
def test_lists_agree_whatever_happens(steps):
    with quick_directory() as top:
        homes = made_home(top / "home")
        for number, (step, which) in enumerate(steps):
            session = SESSIONS[which]
            path = log_path(homes, session)
            if step == "grow":
                with path.open("ab") as log:
                    log.write(data_of(number, session))
            elif step == "rewrite":
                path.write_bytes(data_of(number, session))
            elif step == "go":
                path.unlink(missing_ok=True)
            elif step == "keep":
                keep(homes)
            else:
                keeping(homes)
            if step in {"grow", "rewrite"}:
                os.utime(path, (1_800_000_000 + number, 1_800_000_000 + number))
        for session, how in keeping(homes).items():
            is_there = log_path(homes, session).exists()
            assert is_there == (how in {"live", "kept"})


def test_what_can_be_restored_is_listed_with_the_readable_and_with_the_gone(homes):
    for number, session in enumerate(SESSIONS[:3]):
        log_path(homes, session).write_bytes(data_of(number, session))
    live, kept, lost = SESSIONS[:3]
    keep(homes, sessions=frozenset({kept}))
    indexed(homes)
    log_path(homes, kept).unlink()
    log_path(homes, lost).unlink()
    with open_fresh(homes) as index:
        found = {
            gone: {row.id for row in list_indexed(index, gone=gone, now=NOON).sessions}
            for gone in (None, False, True)
        }
    assert found == {None: {live, kept, lost}, False: {live, kept}, True: {kept, lost}}
