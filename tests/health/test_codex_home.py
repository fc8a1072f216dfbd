"""The doctor of a Codex home: sessions that vanished, forks without what they continue."""

import os
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import turnlog
from codex_world import write_world
from turnlog.api.health.doctor import CheckContext, Urgency, check_up
from turnlog.formats import Home
from turnlog.keep.copies.keep import keep


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (tmp_path / "home").mkdir(mode=0o700)
    return write_world(tmp_path / "home")


def findings(world, kind=None):
    context = CheckContext(
        (Home(world.home),),
        own=world.home.with_name("own"),
        now=datetime.now(UTC),
        named=[str(world.home)],
    )
    found = check_up(context)
    assert not [each.problem for each in found.checks if each.problem]
    return [each for each in found.findings if kind in (None, each.kind)]


def run(command):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(command, shell=True, check=True, env=os.environ | {"PATH": path})


def test_a_home_that_is_well(world):
    assert [each.kind for each in findings(world)] == ["index"]  # There is none.


def test_sessions_that_are_not_listed(world):
    with closing(sqlite3.connect(world.home / "state_5.sqlite")) as db, db:
        db.execute("DELETE FROM threads WHERE id = ?", (world.new.id,))
    (found,) = findings(world, "listed")
    (example,) = found.examples
    assert (found.urgency, found.message) == (Urgency.LOOK, "1 session is not found by Codex")
    assert (example.session, example.path) == (world.new.id, str(world.new.path))
    assert example.command == found.command
    assert shlex.split(example.command)[1:] == ["codex", "resume", world.new.id]


def test_listed_sessions_without_a_log_are_restored_if_they_were_kept(world):
    before = world.helper.path.read_bytes()
    keep((Home(world.home),), sessions=frozenset({world.new.id}))  # Its helper too.
    world.helper.path.unlink()
    world.archived.path.unlink()
    (found,) = findings(world, "listed")
    assert found.message == "2 listed sessions have no log in Codex"
    kept, lost = sorted(found.examples, key=lambda each: each.session)
    assert (lost.session, lost.command) == (world.archived.id, None)
    assert lost.detail == "it has no log, and no copy is kept"
    run(kept.command)
    assert world.helper.path.read_bytes() == before
    (found,) = findings(world, "listed")
    assert [each.session for each in found.examples] == [world.archived.id]


def test_a_fork_whose_parent_is_gone(world):
    keep((Home(world.home),))
    before = world.new.path.read_bytes()
    world.new.path.unlink()
    (found,) = findings(world, "forks")
    assert (found.urgency, found.message) == (Urgency.ACT, "1 fork lacks what came before it")
    (example,) = found.examples
    assert example.session == world.new_fork.id
    assert example.detail == f"the log of {world.new.id} is missing"
    run(found.command)
    assert world.new.path.read_bytes() == before
    assert findings(world, "forks") == []


def test_a_listed_session_in_the_trash_is_restored_from_there(world):
    before = world.archived.path.read_bytes()
    turnlog.open(world.home).delete(world.archived.id)
    (found,) = findings(world, "listed")
    run(found.command)
    assert world.archived.path.read_bytes() == before


def test_a_fork_whose_parent_is_gone_for_good(world):
    world.new.path.unlink()
    (found,) = findings(world, "forks")
    assert found.command == ""
    assert found.examples[0].detail.endswith("is missing, and no copy is kept")


@pytest.mark.parametrize("is_shorter", [True, False])
def test_a_fork_whose_parent_was_changed(world, is_shorter):
    keep((Home(world.home),))
    before = world.new.path.read_bytes()
    lines = before.splitlines(keepends=True)
    after = b"".join(lines[:4] if is_shorter else [*lines[:4], *lines[5:]])
    world.new.path.write_bytes(after)
    (found,) = findings(world, "forks")
    (example,) = found.examples
    assert ("ends before byte" if is_shorter else "no record") in example.detail
    run(found.command)
    assert world.new.path.read_bytes() == before
    assert world.new.path.with_name(f"{world.new.path.name}.changed").read_bytes() == after
    assert findings(world, "forks") == []
