"""What Codex lists is compared with its logs, and no file of its home changes."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from codex_world import Rollout, write_lists, write_world
from turnlog.formats import Home, find_logs
from turnlog.formats.codex.format import FORMAT
from turnlog.formats.codex.state import listed_sessions


@pytest.fixture
def world(tmp_path):
    (tmp_path / "home").mkdir()
    return write_world(tmp_path / "home")


def mismatches(world):
    home = Home(world.home)
    found = FORMAT.list_mismatches(home, list(find_logs(home)))
    return {each.session_id: each for each in found}


def contents(home):
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def unlist(world, *sessions):
    with closing(sqlite3.connect(world.home / "state_5.sqlite")) as db, db:
        for session in sessions:
            db.execute("DELETE FROM threads WHERE id = ?", (session.id,))


def test_a_home_that_is_well_has_no_mismatch(world):
    assert mismatches(world) == {}


def test_without_a_database_everything_will_be_listed(world):
    (world.home / "state_5.sqlite").unlink()
    assert listed_sessions(world.home) is None
    assert mismatches(world) == {}


def test_the_newest_database_counts(world):
    for name in ("state_4.sqlite", "state_5.sqlite.bak"):
        (world.home / name).write_bytes(b"none")
    shutil.copy(world.home / "state_5.sqlite", world.home / "state_10.sqlite")
    (world.home / "state_5.sqlite").write_bytes(b"none")
    assert len(listed_sessions(world.home)) == len(world.rollouts)


def test_a_session_that_is_not_listed_has_the_command_that_lists_it(world):
    unlist(world, world.new_fork, world.archived)
    found = mismatches(world)
    assert found.keys() == {world.new_fork.id, world.archived.id}
    one, other = found[world.new_fork.id], found[world.archived.id]
    assert one.path == world.new_fork.path
    assert one.command == f"CODEX_HOME={world.home} codex resume {world.new_fork.id}"
    assert other.command.endswith(f"codex unarchive {world.archived.id}")


def test_no_variable_is_needed_for_codexs_own_home(world, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(world.home))
    unlist(world, world.new)
    assert mismatches(world)[world.new.id].command == f"codex resume {world.new.id}"


def test_a_session_whose_log_is_gone_is_found_in_either_list(world):
    world.new.path.unlink()
    world.old.path.unlink()
    unlist(world, world.old)  # Its name is left.
    found = mismatches(world)
    assert found.keys() == {world.new.id, world.old.id}
    assert not any(each.has_log or each.command for each in found.values())
    assert found[world.old.id].path.name == "session_index.jsonl"
    assert found[world.new.id].path.name == "state_5.sqlite"


def test_a_log_that_was_moved_is_moved_back(world):
    elsewhere = world.home / "sessions" / "2026" / "01" / "02" / world.new.path.name
    elsewhere.parent.mkdir(parents=True)
    world.new.path.rename(elsewhere)
    (found,) = mismatches(world).values()
    assert found.path == elsewhere
    assert found.command == f"mv {elsewhere} {world.new.path}"


def test_after_a_move_of_the_home_its_list_is_put_aside(world, tmp_path):
    moved = world.home.rename(tmp_path / "moved home")
    found = mismatches(world._replace(home=moved))
    assert found.keys() == {each.id for each in world.rollouts}
    commands = {each.command for each in found.values()}
    aside = moved / "old_state"
    assert commands == {f"mkdir '{aside}' && mv '{moved}/state_5.sqlite' '{aside}'"}


def test_a_log_that_codex_compressed_is_where_it_was(world):
    world.old.path.rename(f"{world.old.path}.zst")
    assert mismatches(world) == {}


WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA journal_mode = wal")
db.execute("PRAGMA wal_autocheckpoint = 0")
with db:
    db.execute("UPDATE threads SET rollout_path = 'elsewhere'")
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("leftover", [("-wal", "-shm"), ("-wal",), ()])
def test_the_list_is_read_whole_and_nothing_changes(world, leftover):
    """While another program has it open, and after that program was killed."""
    path = world.home / "state_5.sqlite"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, path], **pipes) as writer:
        writer.stdout.readline()
        before = contents(world.home)
        assert {each.path for each in listed_sessions(world.home)} == {"elsewhere"}
        assert contents(world.home) == before
        writer.kill()
    for end in {"-wal", "-shm"}.difference(leftover):
        Path(f"{path}{end}").unlink()
    before = contents(world.home)
    paths = {each.path for each in listed_sessions(world.home)}
    assert (paths == {"elsewhere"}) == ("-wal" in leftover)
    assert len(paths) == (1 if "-wal" in leftover else len(world.rollouts))
    assert contents(world.home) == before


def test_a_broken_database_is_reported_as_one(world):
    (world.home / "state_5.sqlite").write_bytes(b"This is no database at all." * 99)
    with pytest.raises(sqlite3.DatabaseError):
        mismatches(world)


# -- forks


def test_a_fork_knows_what_it_continues(world):
    base = FORMAT.base_of(world.new_fork.path)
    parent = world.new.path.read_bytes()
    assert base.session_id == world.new.id
    assert 0 < base.end_offset < len(parent)
    assert parent[: base.end_offset].endswith(b"\n")
    assert parent[: base.end_offset].count(b"\n") == base.end_ordinal
    assert FORMAT.base_problem(base, world.new.path) is None
    base = FORMAT.base_of(world.fork_of_fork.path)
    assert base.session_id == world.new_fork.id
    assert FORMAT.base_problem(base, world.new_fork.path) is None


def test_other_logs_continue_nothing(world):
    whole = (world.old, world.old_fork, world.old_helper, world.new, world.helper, world.archived)
    assert [FORMAT.base_of(each.path) for each in whole] == [None] * len(whole)
    assert FORMAT.base_of(world.home / "gone") is None


def test_a_parent_that_was_shortened_or_shifted_is_noticed(world):
    base = FORMAT.base_of(world.new_fork.path)
    data = world.new.path.read_bytes()
    lines = data.splitlines(keepends=True)
    for changed, why in (
        (data[: base.end_offset - 1], "ends before byte"),
        (data[: base.end_offset], None),
        (data[: base.end_offset] + b"garbage", None),
        (b"".join([*lines[:3], *lines[4:]]), "no record"),
        (lines[0] + data, "no record"),
        (data.replace(b"plums", b"pears"), None),
        (data[: base.end_offset - 1] + b" " + data[base.end_offset :], "no record"),
    ):
        world.new.path.write_bytes(changed)
        problem = FORMAT.base_problem(base, world.new.path)
        assert (why is None) == (problem is None), problem
        assert why is None or why in problem


def test_a_long_record_before_the_end_of_the_base_is_read_whole(tmp_path):
    parent = Rollout(tmp_path, 1)
    parent.prompt("Long?")
    parent.answer("very " * 100_000)
    parent.message("assistant", "and long " * 100_000)
    fork = Rollout(tmp_path, 2, parent=parent)
    fork.prompt("Indeed")
    write_lists(tmp_path, [parent, fork])
    assert FORMAT.base_problem(FORMAT.base_of(fork.path), parent.path) is None
