"""What somebody deleted with turnlog is not remembered; what only vanished is."""

import pytest

from index.homes import SESSIONS, asked, lines, log_path, made_home, own_index
from keep.permissions import permissions_count
from turnlog.index.connection import open_fresh
from turnlog.index.refresh.refresh import refresh
from turnlog.keep.trash.delete import delete_session, restore_from_trash
from turnlog.keep.trash.trash import Trash

KITE, HERON = SESSIONS[:2]


@pytest.fixture
def homes(tmp_path):
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        for session in (KITE, HERON):
            log_path(homes, session).write_bytes(lines(asked(1, session)))
        refresh(homes)
        yield homes


def known(homes):
    with open_fresh(homes) as index:
        return {row[0] for row in index.db.execute("SELECT session FROM sessions")}


def test_a_deleted_session_is_forgotten_and_one_that_vanished_is_not(homes, tmp_path):
    delete_session(homes, KITE, own=tmp_path / "own")
    log_path(homes, HERON).unlink()
    assert known(homes) == {HERON}


def test_a_session_that_comes_back_from_the_trash_is_read_again(homes, tmp_path):
    delete_session(homes, KITE, own=tmp_path / "own")
    assert known(homes) == {HERON}
    trash = Trash(tmp_path / "own")
    (entry,) = trash.entries()
    restore_from_trash(trash, entry)
    assert known(homes) == {KITE, HERON}


def test_a_session_that_cannot_be_read_is_not_gone(homes, tmp_path):
    directory = log_path(homes, HERON).parent
    delete_session(homes, KITE, own=tmp_path / "own")
    refresh(homes)
    directory.chmod(0)
    try:
        with permissions_count(), open_fresh(homes) as index:
            rows = index.db.execute("SELECT session, gone_at FROM logs").fetchall()
    finally:
        directory.chmod(0o700)
    assert rows == [(HERON, None)]
