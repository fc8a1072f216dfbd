"""A Codex home is kept, archived and restored byte for byte, and never changed by looking at it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from codex_world import write_world
from turnlog.api.keep.restore import find_kept
from turnlog.api.repair import repair_logs
from turnlog.errors import UsageError
from turnlog.formats import Home, find_logs
from turnlog.keep.compaction.compact import compact
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import find_restorable, mirrors
from turnlog.keep.restore.restore import restore
from turnlog.keep.verify import verify
from turnlog.sessions.session import Session
from turnlog.storage.reader import read_log

TURNLOG = Path(sys.executable).with_name("turnlog")
STRACE = shutil.which("strace")
LOOKING = (
    [],
    ["sessions"],
    ["show", "{new}"],
    ["show", "{fork}"],
    ["search", "plums"],
    ["search", "agent:codex geese"],
    ["cost", "--by", "agent", "model"],
    ["insights"],
    ["info", "{new}"],
    ["query", "calls"],
    ["todos"],
    ["prompts"],
    ["check"],
    ["doctor"],
    ["repair", "{new}"],
    ["recover", "{new}"],
    ["export", "{new}"],
    ["resume", "{fork}"],
    ["refresh"],
    ["keep"],
    ["keep", "status"],
    ["verify"],
    ["prune", "--days", "1"],
)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / "home").mkdir(mode=0o700)
    return write_world(tmp_path / "home")


@pytest.fixture
def home(world):
    return Home(world.home)


def contents(home):
    """Give everything in a home, with its bytes and times."""
    return {
        path: (path.is_file() and path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
        for path in [home, *home.rglob("*")]
    }


def logs(world):
    return {each.path: each.path.read_bytes() for each in world.rollouts}


def logs_left(world):
    return {each.path: each.path.read_bytes() for each in world.rollouts if each.path.exists()}


def session_of(home, rollout):
    return Session.find((home,), rollout.id)


# -- reading changes nothing


def turnlog_at(world, words):
    named = {"new": world.new.id, "old": world.old.id, "fork": world.new_fork.id}
    return [TURNLOG, *(word.format(**named) for word in words)]


def test_no_command_that_looks_changes_a_byte(world):
    for directory, inner, _ in os.walk(world.home):
        inner.sort()
        os.utime(directory, (1e9, 1e9))
    before = contents(world.home)
    environ = os.environ | {"CODEX_HOME": str(world.home)}
    for words in LOOKING:
        done = subprocess.run(turnlog_at(world, words), env=environ, capture_output=True, text=True)
        assert done.returncode in (0, 1), (words, done.stderr)
        assert not done.stderr.startswith("error"), (words, done.stderr)
        assert contents(world.home) == before, words


@pytest.mark.slow
@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_the_system_sees_nothing_opened_for_writing(world, tmp_path, words):
    trace = tmp_path / "trace"
    watch = [STRACE or "strace", "-f", "-e", "trace=%file", "-o", str(trace)]
    if STRACE is None or subprocess.run([*watch, "true"], capture_output=True).returncode:
        pytest.skip("strace is not here, or not allowed")
    environ = os.environ | {"CODEX_HOME": str(world.home)}
    subprocess.run([*watch, *turnlog_at(world, words)], env=environ, capture_output=True)
    seen = [row for row in trace.read_text().splitlines() if f'"{world.home}' in row]
    assert seen, "the home was looked at"
    changing = re.compile(
        r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND"
        r"|\b(?:unlink|rename|mkdir|rmdir|link|symlink|truncate|ch[mo][od]|utime|mknod)\w*\("
    )
    assert [row for row in seen if changing.search(row)] == []


# -- kept and restored


def test_a_home_that_was_deleted_is_restored_byte_for_byte(world, home):
    before = logs(world)
    done = keep((home,))
    assert done.problems == []
    assert sorted(done.sessions) == sorted(
        each.id for each in world.rollouts if each.spawned_by is None
    )
    assert verify((home,)).findings == []
    kept = {name for each in mirrors((home,)) for name in each.copies}
    assert not any("sqlite" in name or "config" in name for name in kept)
    shutil.rmtree(world.home)
    with turnlog.open(world.home) as store:
        assert {row.id for row in store.sessions()} == {
            each.id for each in world.rollouts if each.spawned_by is None
        }
    subprocess.run(
        [TURNLOG, "restore", "--all", "--home", world.home], check=True, capture_output=True
    )
    assert logs(world) == before
    assert (world.home / "session_index.jsonl").exists()
    assert not (world.home / "state_5.sqlite").exists()


def test_a_session_is_restored_with_its_subagents(world, home):
    before = logs(world)
    keep((home,))
    for each in (world.new, world.helper, world.old):
        each.path.unlink()
    restore(find_restorable(mirrors((home,)), world.new.id))
    assert world.helper.path.read_bytes() == before[world.helper.path]
    assert world.new.path.read_bytes() == before[world.new.path]
    assert not world.old.path.exists()


def test_a_fork_is_restored_with_all_that_it_continues(world, home):
    before = logs(world)
    keep((home,))
    shutil.rmtree(world.home / "sessions")
    with turnlog.open(world.home) as store:
        restored = store.restore(world.fork_of_fork.id)
    assert restored.session == world.fork_of_fork.id
    there = {each.path for each in world.rollouts if each.path.exists()}
    lineage = (world.fork_of_fork, world.new_fork, world.new, world.helper, world.archived)
    assert there == {each.path for each in lineage}
    assert all(path.read_bytes() == before[path] for path in there)
    selection = find_kept([str(world.home)]).sessions
    (fork,) = (each for each in selection if each.id == world.fork_of_fork.id)
    assert [each.id for each in fork.bases] == [world.new_fork.id, world.new.id]


def test_a_fork_in_another_home_has_its_parents_too(world, home, tmp_path):
    keep((home,))
    with turnlog.open(world.home) as store:
        store.restore(world.new_fork.id, to=tmp_path / "other")
    found = {log.own_id for log in find_logs(Home(tmp_path / "other"))}
    assert found == {world.new_fork.id, world.new.id, world.helper.id}


def test_a_session_that_a_fork_continues_stays(world):
    for each in world.rollouts:
        os.utime(each.path, (1e9, 1e9))
    before = contents(world.home)
    with turnlog.open(world.home) as store:
        for remove in (
            lambda: store.delete(world.new.id),
            lambda: store.session(world.new.id).archive(remove=True),
        ):
            with pytest.raises(UsageError, match=f"is continued by {world.new_fork.id}"):
                remove()
        report = store.prune(days=1, write=True)
    assert {each.id: each.reason for each in report.spared} == {
        world.new.id: "a fork continues it",
        world.new_fork.id: "a fork continues it",
    }
    gone = {each.path for each in world.rollouts if not each.path.exists()}
    assert gone == {each.path for each in world.rollouts} - {
        each.path for each in (world.new, world.helper, world.new_fork)
    }
    after = contents(world.home)
    assert all(after[path][0] == before[path][0] for path in after)


def without_forks(world):
    """Remove what needs the session that is going to be removed."""
    for each in (world.fork_of_fork, world.new_fork):
        turnlog.open(world.home).delete(each.id)


def test_an_archived_session_comes_back_whole(world):
    without_forks(world)
    before = logs_left(world)
    with turnlog.open(world.home) as store:
        done = store.session(world.new.id).archive(remove=True)
        assert (done.files, done.removed) == (2, True)
        assert not world.new.path.exists()
        assert not world.helper.path.exists()
        store.session(world.new.id).unarchive()
    assert logs_left(world) == before


def test_a_deleted_session_comes_back_whole(world):
    without_forks(world)
    before = logs_left(world)
    with turnlog.open(world.home) as store:
        store.delete(world.new.id)
        assert not world.new.path.exists()
        assert not world.helper.path.exists()
        assert world.old.path.exists()
        store.undelete(world.new.id)
    assert logs_left(world) == before


def test_the_copies_of_a_home_with_forks_keep_their_offsets(world, home):
    keep((home,))
    base = world.new_fork.parent
    copy = find_restorable(mirrors((home,)), base.id).mirror
    path = copy.newest(world.new.path.relative_to(world.home).as_posix()).path
    offsets = [item.offset for item in read_log(path)]
    assert offsets == [item.offset for item in read_log(world.new.path)]


# -- nothing moves a byte


def injure(rollout):
    data = rollout.path.read_bytes()
    middle = data.index(b"\n", len(data) // 2) + 20
    rollout.path.write_bytes(data[:middle] + b"\x00" * 30 + data[middle + 30 :])


def test_repairs_compaction_and_moves_are_refused_with_a_reason(world, home, tmp_path):
    keep((home,))
    injure(world.new)
    before = contents(world.home)
    (log,) = (each for each in find_logs(home) if each.own_id == world.new.id)
    session = session_of(home, world.new)
    kept = find_restorable(mirrors((home,)), world.new.id)
    for write in (
        lambda: repair_logs([log], cap=1 << 20, write=True),
        lambda: compact(session, write=True),
        lambda: restore(kept, replace=True),
        lambda: restore(kept, to=tmp_path / "other", project="/srv/other"),
    ):
        with pytest.raises(UsageError, match="must not be rewritten: Codex refers to"):
            write()
    assert contents(world.home) == before
    assert not (tmp_path / "other").exists()


def test_damage_is_read_around(world, home):
    whole = len(list(read_log(world.new.path)))
    injure(world.new)
    items = list(read_log(world.new.path))
    placed = [item for item in items if not isinstance(item, turnlog.Damage)]
    assert len(placed) == whole - 1
    (log,) = (each for each in find_logs(home) if each.own_id == world.new.id)
    (plan,) = repair_logs([log], cap=1 << 20)
    assert plan.repair.needed  # It says so, and writes nothing.


def test_a_log_that_grew_is_kept_again(world, home):
    keep((home,))
    world.new.prompt("And apples?")
    world.new.answer("None.")
    done = keep((home,))
    assert (done.copied, done.begun_anew) == (1, [])
    path = mirrors((home,))[0].newest(world.new.path.relative_to(world.home).as_posix()).path
    assert len(list(read_log(path))) == len(list(read_log(world.new.path)))


def test_codexs_own_archive_moves_the_copy(world, home):
    keep((home,))
    before = world.new.path.read_bytes()
    world.new.archive()
    keep((home,))
    shutil.rmtree(world.home)
    with turnlog.open(world.home) as store:
        store.restore(world.new.id)
    assert world.new.path.read_bytes() == before
    assert [path.name for path in Path(world.home).rglob("*0004.jsonl")] == [world.new.path.name]
