"""An index that is killed, crowded, flipped, cut, locked, full, too new: never in the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from index.homes import SESSIONS, answered, flipped, lines, log_path, made_tree, own_index, rebuilt
from index.rows import differences, rows_of
from sampling import sampled
from turnlog.cli.hints import hint_of
from turnlog.errors import BrokenIndex, IndexTooNew, IndexUnavailable
from turnlog.index import database, freshness, processes
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path, is_broken, open_for_reading
from turnlog.index.refresh import log_reader
from turnlog.index.refresh.refresh import refresh


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    homes = made_tree(tmp_path_factory.mktemp("tree") / "home", 1, 300_000)
    return homes, rebuilt(homes)


@pytest.fixture
def own(tmp_path):
    with own_index(tmp_path / "own") as path:
        yield path


def forked(work: Callable[[], None]) -> int:
    """Let a child do *work*; it never returns here."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refresh_in_two(homes, stage="text") -> None:
    """Refresh with a child that reads, however little there is to read. To be called in a fork."""
    log_reader._WORTH_A_CHILD_BYTES = 0
    processes.processors = lambda: 2
    sys.modules["turnlog.index.refresh.refresh"]._LITTLE_BYTES = 0
    refresh(homes, stage=stage)


# -- killed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", sampled(range(10), 4))
def test_a_kill_at_any_moment_changes_nothing(tree, own, seed):
    homes, expected = tree
    rng = random.Random(seed)
    for _ in range(3):
        child = forked(lambda: refresh_in_two(homes, rng.choice(("usage", "text"))))
        time.sleep(rng.random() * 0.25)
        with suppress(ProcessLookupError):
            os.kill(child, rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
        ended(child)
    assert refresh(homes).notices == []
    assert differences(rows_of(homes), expected) == ""


def test_a_kill_before_new_logs_are_noted_does_not_hide_them(tree, own, tmp_path, monkeypatch):
    home = tmp_path / "home"
    shutil.copytree(tree[0][0].path, home)
    homes = tree[0][0].__class__(home)
    then = time.time() - 60
    for path in [home, *home.rglob("*")]:
        if path.is_dir():
            os.utime(path, (then, then))

    def die(*_args, **_more):
        os.kill(os.getpid(), signal.SIGKILL)

    def work():
        monkeypatch.setattr("turnlog.index.refresh.refresh.make_plan", die)
        refresh((homes,))

    assert ended(forked(work)) == -signal.SIGKILL
    refresh((homes,))
    assert differences(rows_of((homes,)), rebuilt((homes,))) == ""


# -- crowded --------------------------------------------------------------------------------


@pytest.mark.slow
def test_refreshers_readers_and_a_writer_at_once(own, tmp_path):
    homes = made_tree(tmp_path / "home", 2, 100_000)
    refresh(homes)
    until = time.monotonic() + 3

    def refreshing():
        rng = random.Random(os.getpid())
        while time.monotonic() < until:
            refresh(homes, stage=rng.choice(("usage", "text")))

    def reading():
        least = 0
        while time.monotonic() < until:
            with open_fresh(homes, is_stale_allowed=True) as index:
                count = index.db.execute("SELECT count(*) FROM records").fetchone()[0]
                index.db.execute("SELECT count(*) FROM said('kite')").fetchone()
                assert count >= least - 20, "records were lost"  # Provisional ones come and go.
                least = count

    children = [forked(work) for work in [refreshing] * 2 + [reading] * 4]
    number = 1000
    while time.monotonic() < until:
        number += 1
        data = lines(answered(number, session := random.choice(SESSIONS)))
        with log_path(homes, session).open("ab", buffering=0) as log:
            log.write(data[:50])
            time.sleep(0.002)
            log.write(data[50:])
    assert [ended(child) for child in children] == [0] * 6
    assert refresh(homes).notices == []
    assert differences(rows_of(homes), rebuilt(homes)) == ""


# -- broken ---------------------------------------------------------------------------------


def break_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not an index at all")


def break_pages(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        for at in range(4096, size, 4096):
            file.seek(at)
            file.write(b"\xa5" * 64)


def break_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE records")


def break_folds(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE logs SET folded = x'c1c1', text_size_bytes = text_size_bytes - 1")


def rename_in_schema(table, before, after):
    """One letter of the schema is another: what a flipped bit makes of it."""

    def do(path):
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA writable_schema = ON")
            changed = db.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?",
                (before, after, table),
            )
            assert changed.rowcount == 1
            db.commit()

    return do


BREAKAGES = {
    "header": break_header,
    "pages": break_pages,
    "schema": break_schema,
    "folds": break_folds,
    "a column's name": rename_in_schema("sessions", "version", "versioo"),
    "a column of another table": rename_in_schema("calls", "signature", "signaturf"),
    "a column too many": rename_in_schema("texts", "part INTEGER", "p, rt INTEGER"),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut to a page": lambda path: os.truncate(path, 4096),
}


@pytest.mark.parametrize("how", BREAKAGES)
def test_a_broken_index_is_moved_aside_and_made_anew(own, tmp_path, how):
    homes = made_tree(tmp_path / "home", 3, 60_000)
    refresh(homes)
    path = index_path(homes)
    BREAKAGES[how](path)
    with log_path(homes).open("ab") as log:
        log.write(lines(answered(9999)))
    (notice,) = refresh(homes).notices
    assert "broken" in notice
    assert path.with_name(f"{path.stem}.broken").exists()
    assert differences(rows_of(homes), rebuilt(homes)) == ""
    assert refresh(homes).notices == []


@pytest.mark.parametrize("how", ["emptied", "deleted"])
def test_an_index_that_is_not_there_is_made(tree, own, how):
    homes, expected = tree
    refresh(homes)
    path = index_path(homes)
    path.write_bytes(b"") if how == "emptied" else path.unlink()
    assert refresh(homes).notices == []
    assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("table", ["said", "answered"])
def test_a_corrupt_full_text_table(own, tmp_path, table):
    homes = made_tree(tmp_path / "home", 4, 60_000)
    refresh(homes)
    with closing(sqlite3.connect(index_path(homes))) as db, db:
        db.execute(f"UPDATE {table}_data SET block = x'ffffffffffffffffff' WHERE id > 1")
    with pytest.raises(sqlite3.DatabaseError) as caught, closing(open_for_reading(homes)) as db:
        db.execute(f"SELECT count(*) FROM {table}('kite')").fetchone()
    assert is_broken(caught.value)
    with pytest.raises(BrokenIndex, match="broken") as told, open_fresh(homes) as index:
        index.db.execute(f"SELECT count(*) FROM {table}('kite')").fetchone()
    assert "--rebuild" in hint_of(told.value)
    refresh(homes, rebuild=True)
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_a_place_that_cannot_even_be_looked_at(tree, monkeypatch, tmp_path):
    homes, _ = tree
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / ("x" * 300)))
    assert open_for_reading(homes) is None
    for work in (refresh, partial(open_fresh, fallback="read")):
        with pytest.raises(IndexUnavailable) as caught:
            work(homes)
        assert "TURNLOG_HOME" in caught.value.hint
    with open_fresh(homes) as index:
        assert "one was made for this run alone" in index.refreshed.notices[0]


def test_tables_that_change_just_then_are_not_broken():
    error = sqlite3.OperationalError("vtable constructor failed: said")
    error.sqlite_errorcode = sqlite3.SQLITE_SCHEMA
    assert not is_broken(error)


def test_an_index_of_a_later_version_is_refused_and_kept(tree, own):
    homes, expected = tree
    refresh(homes)
    path = index_path(homes)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {database.VERSION + 1}")
    before = path.read_bytes()
    for work in (lambda: refresh(homes), lambda: open_fresh(homes)):
        with pytest.raises(IndexTooNew) as caught:
            work()
        assert "--rebuild" in hint_of(caught.value)
    assert path.read_bytes() == before
    refresh(homes, rebuild=True)
    assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("mark", ["older", "another program's"])
def test_an_index_of_another_kind_is_moved_aside(tree, own, monkeypatch, mark):
    homes, expected = tree
    path = index_path(homes)
    path.parent.mkdir(parents=True)
    if mark == "older":
        refresh(homes)
        for module in (database, freshness):
            monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    else:
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE recipes (name)")
    (notice,) = refresh(homes).notices
    assert "moved aside" in notice
    assert len(list(path.parent.glob("*.older"))) == 1
    assert differences(rows_of(homes), expected) == ""


# -- in the way -----------------------------------------------------------------------------


def test_a_directory_in_its_place(tree, own):
    homes, expected = tree
    index_path(homes).mkdir(parents=True)
    with pytest.raises(IndexUnavailable) as caught:
        refresh(homes)
    assert "TURNLOG_HOME" in caught.value.hint
    index_path(homes).rmdir()
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""


def test_a_place_that_cannot_be_written(tree, tmp_path):
    (tmp_path / "file").write_text("no directory")
    with own_index(tmp_path / "file" / "own"), pytest.raises(IndexUnavailable):
        refresh(tree[0])
    with own_index("/proc/turnlog"), pytest.raises(IndexUnavailable):
        refresh(tree[0])


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_an_index_that_may_only_be_read(tree, own):
    homes, expected = tree
    refresh(homes)
    index_path(homes).chmod(0o400)
    index_path(homes).parent.chmod(0o500)
    try:
        with pytest.raises(IndexUnavailable):
            refresh(homes, rebuild=False)
        assert differences(rows_of(homes), expected) == ""
    finally:
        index_path(homes).parent.chmod(0o700)


def test_an_index_that_is_locked_for_a_while_is_waited_for(own, tmp_path):
    homes = made_tree(tmp_path / "home", 5, 30_000)
    refresh(homes)
    with log_path(homes).open("ab") as log:
        log.write(lines(answered(9999)))
    db = sqlite3.connect(index_path(homes), isolation_level=None, check_same_thread=False)
    db.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(1, lambda: db.execute("ROLLBACK"))
    timer.start()
    assert refresh(homes).notices == []
    timer.join()
    db.close()
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_an_index_that_stays_locked_is_unavailable(tree, own, monkeypatch):
    homes = tree[0]
    refresh(homes, stage="usage")
    monkeypatch.setattr(database, "_BUSY_MS", 50)
    with closing(sqlite3.connect(index_path(homes), isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(IndexUnavailable, match="locked"):
            refresh(homes)
    refresh(homes)


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs a small disk")
def test_a_full_disk(tree, tmp_path):
    homes, expected = tree
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=0700", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount")
    try:
        with own_index(disk / "own"):
            for _ in range(2):
                with pytest.raises(IndexUnavailable, match=r"full|space|I/O"):
                    refresh(homes)
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            assert refresh(homes).notices == []
            assert differences(rows_of(homes), expected) == ""
    finally:
        subprocess.run(["umount", disk], check=True)


# -- flipped --------------------------------------------------------------------------------


def test_a_flipped_bit_never_stops_the_work(own, tmp_path):
    """SQLite has no checksums: a flip inside a value may stay unnoticed, but not one in a page."""
    homes = made_tree(tmp_path / "home", 6, 40_000)
    expected = rebuilt(homes)
    refresh(homes)
    whole = index_path(homes).read_bytes()
    rng = random.Random(7)
    outcomes = [flipped(homes, expected, whole, rng) for _ in range(20)]
    assert "rebuilt, and wrong" not in outcomes
    assert not [each for each in outcomes if each.startswith("refused")]
    assert outcomes.count("right") + outcomes.count("rebuilt") >= 10
