"""An index that cannot be written: read as it is, or made for this run; never in the way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from index.homes import SESSIONS, answered, lines, log_path, made_home, own_index
from turnlog.errors import IndexTooNew, IndexUnavailable
from turnlog.index import fallback as unwritable
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path, open_for_reading, unavailable
from turnlog.index.refresh.refresh import refresh


@pytest.fixture
def homes(tmp_path):
    homes = made_home(tmp_path / "home")
    for number, session in enumerate(SESSIONS[:3]):
        log_path(homes, session).write_bytes(lines(answered(number, session)))
    return homes


@pytest.fixture
def nowhere(tmp_path):
    """A home that nobody can make: a file is in the way."""
    (tmp_path / "file").write_text("")
    with own_index(tmp_path / "file" / "own") as path:
        yield path


@pytest.fixture
def written(tmp_path):
    with own_index(tmp_path / "own") as path:
        yield path


@pytest.fixture
def refused(monkeypatch):
    """No refresh can write from now on."""

    def refuse(homes, **_more):
        raise unavailable(index_path(homes), PermissionError(13, "Permission denied"))

    def begin():
        monkeypatch.setattr("turnlog.index.refresh.refresh.refresh", refuse)

    return begin


def records_in(index) -> int:
    return index.db.execute("SELECT count(*) FROM records").fetchone()[0]


def notices_of(index) -> list[str]:
    return index.refreshed.notices if index.refreshed else []


# -- where there is none --------------------------------------------------------------------


def test_one_is_made_for_this_run_and_kept_fresh(homes, nowhere):
    with open_fresh(homes) as index:
        assert records_in(index) == 3
        (notice,) = notices_of(index)
    assert notice.startswith("the index cannot be written: not a directory; one was made for")
    assert "TURNLOG_HOME" in notice
    with log_path(homes, SESSIONS[0]).open("ab") as log:
        log.write(lines(answered(9)))
    place = Path(index_path(homes))
    with open_fresh(homes) as index:
        assert (records_in(index), notices_of(index)) == (4, [])
    assert index_path(homes) == place
    assert nowhere not in place.parents
    assert os.stat(place.parent).st_mode & 0o777 == 0o700
    unwritable.delete_temporary_indexes()
    assert not place.parent.exists()


def test_it_goes_with_its_process(homes, nowhere, tmp_path):
    code = (
        "import sys; from turnlog.formats import find_homes; from turnlog.index.connection import"
        " open_fresh; from turnlog.index.database import index_path\n"
        "homes = find_homes((sys.argv[1],)); open_fresh(homes).close(); print(index_path(homes))"
    )
    run = [sys.executable, "-c", code, os.fspath(homes[0])]
    place = Path(subprocess.check_output(run, text=True).strip())
    assert place.suffix == ".sqlite"
    assert not place.parent.exists()


@pytest.mark.parametrize("fallback", ["read", "none"])
def test_who_can_do_without_is_told_so(homes, nowhere, fallback):
    with pytest.raises(IndexUnavailable, match="cannot be written: not a directory") as caught:
        open_fresh(homes, fallback=fallback)
    assert "TURNLOG_HOME" in caught.value.hint
    assert not unwritable.is_temporary(homes)


def test_large_logs_are_not_read_for_one_run(homes, nowhere, monkeypatch):
    monkeypatch.setattr(unwritable, "MOST_BYTES", 100)
    with pytest.raises(IndexUnavailable, match=r"read for one run alone") as caught:
        open_fresh(homes)
    assert "TURNLOG_HOME" in caught.value.hint


def test_where_nothing_can_be_written_at_all_the_first_reason_counts(homes, nowhere, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", os.fspath(nowhere))
    with pytest.raises(IndexUnavailable, match="not a directory"):
        open_fresh(homes)
    assert not unwritable.is_temporary(homes)


# -- where there is one ---------------------------------------------------------------------


def test_one_that_is_behind_is_read_as_it_is(homes, written, refused):
    refresh(homes)
    log_path(homes, SESSIONS[0]).write_bytes(lines(answered(0), answered(9)))
    log_path(homes, SESSIONS[5]).write_bytes(lines(answered(5, SESSIONS[5])))
    refused()
    for fallback in ("made", "read"):
        with open_fresh(homes, fallback=fallback) as index:
            assert records_in(index) == 3
            (notice,) = notices_of(index)
        assert notice == (
            "the index cannot be written: permission denied;"
            " it is read as it is, without what is new in 2 of 4 logs"
        )
    with pytest.raises(IndexUnavailable):
        open_fresh(homes, fallback="none")
    assert not unwritable.is_temporary(homes)


def test_nothing_is_said_of_one_that_lacks_nothing(homes, written, refused):
    refresh(homes)  # The directories are too young to be trusted, so a refresh is tried again.
    refused()
    with open_fresh(homes) as index:
        assert (records_in(index), notices_of(index)) == (3, [])


def test_one_that_has_only_figures_is_none_for_who_asks_for_texts(homes, written, refused):
    refresh(homes, stage="usage")
    refused()
    with open_fresh(homes) as index:
        assert records_in(index) == 3
    assert unwritable.is_temporary(homes)


def test_one_of_a_later_turnlog_is_refused_as_ever(homes, written):
    refresh(homes)
    with closing(sqlite3.connect(index_path(homes))) as db:
        db.execute("PRAGMA user_version = 9999")
    with pytest.raises(IndexTooNew):
        open_fresh(homes)


def test_what_waits_in_a_write_ahead_log_is_not_passed_over(homes, written, monkeypatch):
    """A file may be read as one that nobody changes only if nothing waits beside it."""
    refresh(homes)
    really = sqlite3.connect

    def refused_beside(name, **more):  # As SQLite does where it cannot write beside the file.
        if "immutable" not in name:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = code
            raise error
        return really(name, **more)

    code = sqlite3.SQLITE_BUSY
    monkeypatch.setattr(sqlite3, "connect", refused_beside)
    assert open_for_reading(homes) is None  # Somebody is at it: it may change.
    code = sqlite3.SQLITE_CANTOPEN
    with closing(open_for_reading(homes)) as db:
        assert db.execute("SELECT count(*) FROM logs").fetchone() == (3,)
    Path(f"{index_path(homes)}-wal").write_bytes(b"something")
    assert open_for_reading(homes) is None
