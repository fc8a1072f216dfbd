"""A log that is gone and kept is the same log: nothing is read again, and nothing is forgotten."""

from __future__ import annotations

import os
import shutil
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.homes import (
    SESSION,
    SESSIONS,
    answered,
    asked,
    calling,
    lines,
    log_path,
    made_home,
    made_tree,
    told,
)
from index.rows import differences, rows_of
from keep.keeping_world import quick_directory
from turnlog.formats import dated_log, find_everywhere
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.index.refresh.refresh import refresh
from turnlog.keep.copies.keep import keep
from turnlog.storage.compressed import unpack

DATA = lines(asked(1), answered(1), calling(2), told(2), asked(3), answered(3))
MORE = lines(asked(4), answered(4))


@pytest.fixture
def homes():
    with quick_directory() as directory:
        yield made_home(directory / "home")


def copy_of(homes, path):
    return kept_copy(kept_place(homes[0]), path.relative_to(homes[0].path).as_posix())


def check(homes):
    """Refresh, and compare with an index that is made at once from what is there or kept."""
    done = refresh(homes)
    assert not done.notices
    ours = rows_of(homes)
    path = index_path(homes)
    aside = path.with_name("aside")
    aside.mkdir()
    for each in path.parent.glob(path.name + "*"):
        shutil.copy2(each, aside)
    refresh(homes, rebuild=True)
    assert differences(ours, rows_of(homes)) == ""
    for each in path.parent.glob(path.name + "*"):
        each.unlink()
    for each in aside.iterdir():
        shutil.move(each, path.parent)
    aside.rmdir()
    assert refresh(homes).read == 0, "what was just read is not read again"
    return done


def give_back(homes, path, *, same_time=True):
    """Put a log back from its copy."""
    copy = copy_of(homes, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(unpack(copy)))
    if same_time:
        status = copy.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def nothing_was_read(done):
    return (done.read, done.read_bytes, done.replaced, done.gone) == (0, 0, [], [])


# -- gone, and back --------------------------------------------------------------------------


def test_a_log_that_only_its_copy_is_left_of_is_not_read_again(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    check(homes)
    keep(homes)
    assert nothing_was_read(check(homes))
    path.unlink()
    assert nothing_was_read(check(homes))
    give_back(homes, path)
    assert nothing_was_read(check(homes))
    with path.open("ab") as log:
        log.write(MORE)
    done = check(homes)
    assert (done.read, done.replaced) == (1, [])
    assert done.read_bytes <= 2 * len(MORE)


def test_a_whole_home_that_is_gone(homes):
    made_tree(homes[0].path, seed=5, size_bytes=60_000)
    keep(homes)
    check(homes)
    before = rows_of(homes)
    shutil.rmtree(homes[0].path)
    done = check(homes)
    assert (done.gone, done.replaced) == ([], [])
    after = rows_of(homes)
    assert len(after["sessions"]) == len(before["sessions"])
    is_beside = [row[2] == "beside" for row in before["logs"]]
    assert sorted(row[2] == "beside" for row in after["logs"]) == sorted(is_beside)
    assert done.read <= sum(is_beside), "no log is read again"


def test_a_home_that_was_never_indexed_is_read_from_its_copies(homes):
    made_tree(homes[0].path, seed=6, size_bytes=40_000)
    keep(homes)
    shutil.rmtree(homes[0].path)
    done = check(homes)
    assert done.read >= 5
    with open_fresh(homes) as index:
        hits = index.db.execute("SELECT rowid FROM said('kite')").fetchall()
        assert hits
        for (record,) in index.db.execute("SELECT id FROM records LIMIT 40").fetchall():
            assert index.raw(record)
            assert index.place(record)[0].endswith(".zst")


def test_records_and_texts_are_read_from_the_copy(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    path.unlink()
    refresh(homes)
    with open_fresh(homes) as index:
        raw = [index.raw(row[0]) for row in index.db.execute("SELECT id FROM records ORDER BY id")]
        assert raw == DATA.splitlines()
        (record, part) = index.db.execute(
            "SELECT record, part FROM texts JOIN said ON said.rowid = texts.id"
            " WHERE said MATCH 'question' ORDER BY texts.id LIMIT 1"
        ).fetchone()
        assert "question" in index.texts(record)[part].text


@pytest.mark.parametrize("same_time", [True, False])
def test_a_restored_log_is_the_same_log(homes, same_time):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    path.unlink()
    refresh(homes)
    give_back(homes, path, same_time=same_time)
    done = check(homes)
    assert done.read == (0 if same_time else 1)
    (row,) = rows_of(homes)["sessions"]
    assert row[3] == str(path)


def test_a_restored_log_that_grew_before_anybody_looked(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    path.unlink()
    refresh(homes)
    give_back(homes, path)
    with path.open("ab") as log:
        log.write(MORE)
    done = check(homes)
    assert (done.read, done.replaced) == (1, [])
    assert len(rows_of(homes)["records"]) == 8


# -- copies that are not up to date ----------------------------------------------------------


def test_a_copy_that_is_behind_the_index(homes):
    """What was said after the last keeping is gone for good."""
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    with path.open("ab") as log:
        log.write(MORE)
    assert check(homes).read == 1
    path.unlink()
    check(homes)
    assert len(rows_of(homes)["records"]) == 6


def test_a_copy_that_is_ahead_of_the_index(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    refresh(homes)
    with path.open("ab") as log:
        log.write(MORE)
    keep(homes)
    path.unlink()
    done = check(homes)
    assert (done.read, done.replaced) == (1, [])
    assert len(rows_of(homes)["records"]) == 8


def test_a_last_line_without_its_newline(homes):
    path = log_path(homes)
    path.write_bytes(DATA + MORE[:-1])
    refresh(homes)
    keep(homes)
    path.unlink()
    assert nothing_was_read(check(homes))
    path.write_bytes(DATA + MORE + MORE)
    check(homes)


def test_a_log_that_was_touched_and_kept(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    keep(homes)
    refresh(homes)
    path.unlink()
    assert nothing_was_read(check(homes))


def test_a_log_that_was_rewritten_and_kept(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    refresh(homes)
    path.write_bytes(lines(asked(7), answered(7)))
    keep(homes)
    path.unlink()
    check(homes)
    assert len(rows_of(homes)["records"]) == 2


def test_a_kept_log_whose_copy_is_rewritten(homes):
    """It came back as another, was kept, and went again, before anybody looked."""
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    path.unlink()
    refresh(homes)
    path.write_bytes(lines(asked(8)))
    keep(homes)
    path.unlink()
    done = check(homes)
    assert done.read == 1
    assert len(rows_of(homes)["records"]) == 1
    path.write_bytes(lines(asked(8), asked(9)))
    keep(homes)
    path.unlink()
    check(homes)
    assert len(rows_of(homes)["records"]) == 2


def test_a_copy_that_goes_too_leaves_what_the_index_knows(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    path.unlink()
    refresh(homes)
    shutil.rmtree(kept_place(homes[0]))
    done = refresh(homes)
    assert len(done.gone) == 1
    assert len(rows_of(homes)["records"]) == 6
    path.write_bytes(DATA)
    check(homes)


def test_a_damaged_copy_is_damage_in_the_index(homes):
    path = log_path(homes)
    path.write_bytes(DATA * 1000)
    keep(homes)
    path.unlink()
    copy = copy_of(homes, path)
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    check(homes)
    rows = rows_of(homes)
    assert rows["damages"]
    assert len(rows["records"]) > 2000


def test_a_copy_without_its_table_is_read_from_the_front(homes):
    path = log_path(homes)
    path.write_bytes(DATA * 200)
    refresh(homes)
    keep(homes)
    path.unlink()
    copy = copy_of(homes, path)
    copy.write_bytes(copy.read_bytes()[:-9])
    check(homes)
    assert len(rows_of(homes)["records"]) >= 1000


# -- other layouts ---------------------------------------------------------------------------


def test_agents_logs_move_like_others(homes):
    main, subagent = log_path(homes), log_path(homes, subagent="a1b2c3")
    beside = main.with_name("agent-d4e5f6.jsonl")
    main.write_bytes(DATA)
    subagent.write_bytes(lines(asked(5, isSidechain=True), answered(5, isSidechain=True)))
    beside.write_bytes(lines(asked(6, isSidechain=True), answered(6, isSidechain=True)))
    check(homes)
    keep(homes)
    for path in (subagent, beside, main):
        path.unlink()
        assert nothing_was_read(check(homes))
    for path in (beside, main, subagent):
        give_back(homes, path)
        assert nothing_was_read(check(homes))


def test_days_logs_move_like_others(homes):
    path = dated_log(homes[0], "/srv/kites", date(2026, 3, 4))
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(asked(1, SESSIONS[0]), answered(1, SESSIONS[1])))
    check(homes)
    keep(homes)
    path.unlink()
    assert nothing_was_read(check(homes))
    assert {row[0] for row in rows_of(homes)["sessions"]} == set(SESSIONS[:2])
    give_back(homes, path)
    assert nothing_was_read(check(homes))


def test_a_session_that_moved_to_another_project_hides_its_copy(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    keep(homes)
    check(homes)
    other = path.parent.with_name("-srv-other")
    path.parent.rename(other)
    done = check(homes)
    assert (done.read, done.gone) == (0, [])
    assert rows_of(homes)["sessions"][0][3] == str(other / path.name)


def test_only_usage(homes):
    path = log_path(homes)
    path.write_bytes(DATA)
    refresh(homes, stage="usage")
    keep(homes)
    path.unlink()
    assert refresh(homes, stage="usage").read == 0
    messages = rows_of(homes)["messages"]
    assert len(messages) == 3
    give_back(homes, path)
    assert refresh(homes, stage="usage").read == 0
    check(homes)
    path.unlink()
    check(homes)


def test_many_sessions_that_go_at_once(homes):
    paths = [log_path(homes, session) for session in SESSIONS]
    for number, path in enumerate(paths):
        path.write_bytes(lines(asked(number, SESSIONS[number]), answered(number, SESSIONS[number])))
    keep(homes)
    check(homes)
    for path in paths[::2]:
        path.unlink()
    assert nothing_was_read(check(homes))
    assert len({log.session_id for log in find_everywhere(homes)}) == len(SESSIONS)


# -- any history -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "grow",
                "grow",
                "keep",
                "go",
                "come back",
                "come back anew",
                "rewrite",
                "touch",
                "refresh",
                "lose",
            ]
        ),
        st.integers(0, 2),
    ),
    min_size=3,
    max_size=16,
)


@settings(max_examples=25)
@given(steps=STEPS)
def test_any_history_gives_the_index_of_what_is_there_or_kept(steps):
    with quick_directory() as top:
        homes = made_home(top / "home")
        paths = [log_path(homes), log_path(homes, SESSIONS[1]), log_path(homes, subagent="a1")]
        for number, (step, which) in enumerate(steps):
            path = paths[which]
            _step(homes, path, step, number)
            if path.exists() and step in {"grow", "rewrite", "touch"}:
                os.utime(path, (1_800_000_000 + number, 1_800_000_000 + number))
        keep(homes)
        check(homes)


def _step(homes, path: Path, step: str, number: int) -> None:
    session = SESSIONS[1] if path.stem == SESSIONS[1] else SESSION
    data = lines(asked(number, session), answered(number, session))
    copy = copy_of(homes, path)
    match step:
        case "grow":
            with path.open("ab") as log:
                log.write(data)
        case "rewrite":
            path.write_bytes(data)
        case "touch" | "keep":
            keep(homes)
        case "go" if copy.exists():
            path.unlink(missing_ok=True)
        case "come back" | "come back anew" if copy.exists():
            give_back(homes, path, same_time=step == "come back")
        case "refresh":
            refresh(homes)
        case "lose" if copy.exists():
            (kept_place(homes[0]) / "catalogue.json").unlink(missing_ok=True)
