"""Everything ever kept can be read back, whatever happened to the files and to the machine."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keep.keeping_world import LOG, OTHER, TODOS, new_world, unfinished
from sampling import sampled
from storage.logs import in_child
from storage.packed import frames_of
from turnlog.formats.kept_copies import generation_copy
from turnlog.keep.catalog import CATALOGUE
from turnlog.keep.copies.keep import keep
from turnlog.storage import compressed

FRAME = 512
NAMES = (LOG, OTHER, TODOS)


@pytest.fixture
def world():
    with frames_of(FRAME), new_world() as made:
        yield made


def line(text, size=40):
    return (text * (size // len(text) + 1))[:size].encode() + b"\n"


# -- any history -----------------------------------------------------------------------------

OPERATIONS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(NAMES), st.binary(min_size=1, max_size=1200)),
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.binary(max_size=1200)),
    st.tuples(st.just("cut"), st.sampled_from(NAMES), st.integers(0, 1500)),
    st.tuples(st.just("swap"), st.sampled_from(NAMES), st.integers(0, 1500)),
    st.tuples(
        st.sampled_from(["touch", "remove", "directory", "fifo", "socket", "link", "dangling"]),
        st.sampled_from(NAMES),
    ),
    st.tuples(st.sampled_from(["keep", "keep", "keep", "lose the catalogue"])),
)


def do(world, operation, name=LOG, value=None):
    path = world.path(name)
    is_file = path.is_file() and not path.is_symlink()
    match operation:
        case "keep":
            world.keep()
            world.check()
        case "lose the catalogue":
            (world.place / CATALOGUE).unlink(missing_ok=True)
        case "remove":
            world.remove(name)
        case "add" | "put":
            if not is_file:
                world.remove(name)
            getattr(world, operation)(name, value)
        case "cut" if is_file:
            world.cut(name, min(value, path.stat().st_size))
        case "swap" if is_file and value < path.stat().st_size:  # One byte; the size stays.
            data = bytearray(path.read_bytes())
            data[value] ^= 1
            world.put(name, bytes(data))
        case "touch" if is_file:
            world.touch(name)
        case "directory":
            world.remove(name)
            world.put(f"{name}/inner", b"a file in its place")
            world.remove(f"{name}/inner")
        case "fifo":
            world.remove(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(path)
        case "socket":
            world.remove(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with socket.socket(socket.AF_UNIX) as made:
                fd = os.open(path.parent, os.O_RDONLY)  # Names of sockets must be short.
                made.bind(f"/proc/self/fd/{fd}/{path.name}")
                os.close(fd)
        case "link" | "dangling":
            world.remove(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            elsewhere = world.root.parent / "elsewhere"
            elsewhere.write_bytes(b"linked\n" * 9)
            path.symlink_to(elsewhere if operation == "link" else world.root / "nowhere")


@given(operations=st.lists(OPERATIONS, max_size=25))
def test_everything_ever_kept_can_be_read_back(operations):
    with frames_of(FRAME), new_world() as world:
        for operation in operations:
            do(world, *operation)
        world.keep()
        world.check()


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_small_keeps_take_the_room_of_one(count):
    steps = [line(f"kite {number} ", 20 + number % 90) for number in range(count)]
    with frames_of(8 * 1024), new_world() as often, new_world() as once:
        once.put(LOG, b"".join(steps))
        once.keep()
        once.check()
        for step in steps:
            often.add(LOG, step)
            done = keep([often.home])
            assert (done.copied, done.read_bytes) == (1, len(step))
        assert often.copy(LOG).read_bytes() == once.copy(LOG).read_bytes()


def test_each_rewriting_begins_a_generation(world):
    for number in range(5):
        world.put(LOG, line(f"life {number} ") * 30)
        done = world.keep()
        assert done.begun_anew == ([os.fspath(world.path(LOG))] if number else [])
        world.add(LOG, line("and on "))
        assert world.keep().begun_anew == []
    world.check()
    assert [kept.generation for kept in world.catalogue.generations(LOG)] == [1, 2, 3, 4, 5]


def test_a_rewriting_of_the_same_size_is_noticed(world):
    world.put(LOG, line("a" * 600, 700) * 3)
    world.keep()
    for at in (0, 700, 1400, 2000):
        data = bytearray(world.path(LOG).read_bytes())
        data[at] = ord("b")
        world.put(LOG, bytes(data))
        assert world.keep().begun_anew
    world.check()


@pytest.mark.parametrize("more", [b"", b"and on\n"], ids=["of the same size", "that grew"])
@pytest.mark.parametrize("at", [0, 5_000, 52_341, 105_149])
def test_a_single_byte_that_was_rewritten_is_noticed(world, at, more):
    """Wherever it stands: what was kept is compared whole, and no copy is half old, half new."""
    data = line("a", 700) * 150
    world.put(LOG, data)
    world.keep()
    world.put(LOG, data[:at] + b"b" + data[at + 1 :] + more)
    assert world.keep().begun_anew
    world.check()
    assert world.generations(LOG)[-1] == world.path(LOG).read_bytes()


def test_a_new_time_alone_begins_nothing(world):
    world.put(LOG, line("a") * 60)
    world.keep()
    world.touch(LOG)
    done = world.keep()
    assert (done.copied, done.read_bytes, done.begun_anew) == (0, 0, [])
    assert world.copy(LOG).stat().st_mtime_ns == world.path(LOG).stat().st_mtime_ns
    assert world.keep().copied == 0
    world.check()


def test_what_comes_back_shorter_or_longer_is_told_from_what_was_kept(world):
    world.put(LOG, line("a") * 9)
    world.keep()
    world.remove(LOG)
    world.keep()
    world.put(LOG, line("a") * 9)
    assert not world.keep().begun_anew, "the same bytes, put back"
    world.remove(LOG)
    world.keep()
    world.put(LOG, line("a") * 12)
    assert not world.keep().begun_anew, "it grew elsewhere"
    world.put(LOG, line("a") * 5)
    assert world.keep().begun_anew
    world.check()


# -- lost catalogues -------------------------------------------------------------------------


def test_generations_outlive_a_lost_catalogue(world):
    for number in range(3):
        world.put(LOG, line(f"life {number} ") * 30)
        world.put(OTHER, line(f"other {number} "))
        world.keep()
        (world.place / CATALOGUE).unlink()
    world.remove(OTHER)
    world.put(LOG, line("the last "))
    world.keep()
    world.check()
    assert world.histories[LOG][:3] == [line(f"life {number} ") * 30 for number in range(3)]


def test_a_number_that_is_taken_is_not_taken_again(world):
    """A catalogue that is older than the copies beside it makes nobody overwrite one."""
    world.put(LOG, line("one ") * 30)
    world.keep()
    old = (world.place / CATALOGUE).read_bytes()
    world.put(LOG, line("two ") * 31)
    world.keep()
    (world.place / CATALOGUE).write_bytes(old)
    world.put(LOG, line("three ") * 32)
    keep([world.home])
    world.put(LOG, line("four ") * 33)
    keep([world.home])
    there = [copy.read_bytes() for copy in world.place.rglob("*.jsonl.zst")]
    assert len(there) == len(set(there))
    kept = {b"".join(compressed.unpack(copy)) for copy in world.place.rglob("*.jsonl.zst")}
    wanted = ((line("one "), 30), (line("two "), 31), (line("three "), 32), (line("four "), 33))
    assert kept >= {each * times for each, times in wanted}


def test_a_copy_is_never_set_aside_over_another(world, monkeypatch):
    """Whatever number was thought to be free."""
    for number in range(3):
        world.put(LOG, line(f"life {number} ") * 30)
        if number == 2:
            monkeypatch.setattr("turnlog.keep.copies.copy_file.generation_in_place", lambda *_: 1)
        world.keep()
    world.check()


def test_generations_are_copied_where_there_are_no_hard_links(world, monkeypatch):
    def refuse(*_paths, **_how):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    for number in range(3):
        world.put(LOG, line(f"life {number} ") * 30)
        os.utime(world.path(LOG), (1_700_000_000 + number,) * 2)
        world.keep()
    world.check()
    older = [world.catalogue.copy_of(kept) for kept in world.catalogue.generations(LOG)][:-1]
    found = [(copy.stat().st_mtime, copy.stat().st_mode & 0o777) for copy in older]
    assert found == [(1_700_000_000, 0o600), (1_700_000_001, 0o600)]


def test_copies_are_on_the_disk_before_they_take_a_place(world, monkeypatch):
    """A power cut must not find a name whose bytes were never written."""
    synced, placed = set(), []
    sync = os.fdatasync

    def watched_sync(fd):
        synced.add(os.fstat(fd).st_ino)
        return sync(fd)

    def watched(real):
        def place(source, target, **how):
            if os.fspath(source).endswith(".part"):
                placed.append((os.fspath(target), os.stat(source).st_ino in synced))
            return real(source, target, **how)

        return place

    monkeypatch.setattr(os, "fdatasync", watched_sync)
    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    for number in range(2):
        for name in NAMES:
            world.put(name, line(f"life {number} ") * 30)
        world.keep()
    copies = [is_synced for target, is_synced in placed if target.endswith(".zst")]
    assert copies == [True] * 6


# -- kills -----------------------------------------------------------------------------------

COUNTED = (
    "open", "write", "replace", "rename", "link", "unlink", "mkdir", "chmod", "utime", "fsync",
    "fdatasync", "copy_file_range",
)  # fmt: skip


def killed_at(step, work):
    """Do *work* in a child that dies before its call number *step*; False if it never came to it.

    As dead as by SIGKILL: nothing is cleaned up.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            calls = 0

            def dying(real):
                def call(*arguments, **how):
                    nonlocal calls
                    calls += 1
                    if calls >= step:
                        os._exit(9)
                    return real(*arguments, **how)

                return call

            for name in COUNTED:
                setattr(os, name, dying(getattr(os, name)))
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, 9}, "the work failed by itself"
    return code == 9


def readable(world):
    """Everything that can be read from the mirror, by the name of its file."""
    found = {}
    for path in world.place.rglob("*.zst"):
        name = path.relative_to(world.place).as_posix().removesuffix(".zst")
        if name.startswith("generations/"):
            name = name.split("/", 2)[2]
        found.setdefault(name, set()).add(b"".join(compressed.unpack(path)))
    return found


def still_holds(found, before):
    """Every content that could be read before can still be: as it was, or as it grew."""
    return all(
        any(now.startswith(data) for now in found.get(name, ()))
        for name, contents in before.items()
        for data in contents
    )


CHANGES = {
    "the first time": lambda world: (world.put(LOG, line("a") * 40), world.put(TODOS, b"[]")),
    "grown": lambda world: (world.add(LOG, line("b") * 20), world.add(OTHER, line("c"))),
    "rewritten": lambda world: world.put(LOG, line("d") * 40),
    "rewritten, the same size": lambda world: (
        world.put(LOG, line("e") * 30),
        world.put(OTHER, line("f")),
    ),
    "cut": lambda world: world.cut(LOG, 100),
}


@pytest.mark.parametrize("change", sampled(CHANGES, 2))
def test_a_kill_at_any_step_loses_nothing(world, change, stride):
    if change != "the first time":
        world.put(LOG, line("0") * 30)
        world.put(OTHER, line("1"))
        world.keep()
        world.put(LOG, line("a") * 30)
        world.keep()
    CHANGES[change](world)
    wanted = {
        name: world.path(name).read_bytes()
        for name in (LOG, OTHER, TODOS)
        if world.path(name).exists()
    }
    steps = 0
    for step in range(1, 200, stride):
        saved = _Saved(world)
        before = readable(world)
        if not killed_at(step, lambda: keep([world.home])):
            break
        steps = step
        between = readable(world)
        assert still_holds(between, before), step
        # It changes again before the next run, so that nothing can be got back from it.
        if step % 2:
            for name in wanted:
                world.put(name, wanted[name][::-1])
        keep([world.home])
        after = readable(world)
        assert still_holds(after, between), step
        for name in wanted:
            assert world.path(name).read_bytes() in after[name], step
            kept = world.generations(name)
            assert kept[-1] == world.path(name).read_bytes()
            assert set(kept) == after[name], "what lies there is listed"
        assert unfinished(world.place) == [], step
        assert keep([world.home]).copied == 0
        saved.restore()
        for name, data in wanted.items():
            world.put(name, data)
    assert 10 < steps < 199


class _Saved:
    """A mirror as it is now."""

    def __init__(self, world):
        self._world = world
        self._aside = Path(tempfile.mkdtemp(dir=world.root.parent))
        if world.place.is_dir():
            shutil.copytree(world.place, self._aside / "place", copy_function=shutil.copy2)

    def restore(self):
        shutil.rmtree(self._world.place, ignore_errors=True)
        if (self._aside / "place").is_dir():
            shutil.copytree(self._aside / "place", self._world.place)
        shutil.rmtree(self._aside)


def test_a_kill_between_the_two_names_of_a_copy_makes_no_second_generation(world, monkeypatch):
    world.put(LOG, line("one ") * 30)
    world.keep()
    world.put(LOG, line("two ") * 30)

    class Killed(BaseException):
        pass

    def replace(source, target):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("turnlog.keep.copies.copy_file.os.replace", replace)
        with pytest.raises(Killed):
            keep([world.home])
    assert generation_copy(world.place, 1, LOG).exists()
    world.keep()
    world.check()
    assert [kept.generation for kept in world.catalogue.generations(LOG)] == [1, 2]


# -- disks without hard links ----------------------------------------------------------------


def test_generations_are_copied_where_there_are_no_links(world, monkeypatch):
    def link(*_arguments, **_how):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("turnlog.keep.copies.copy_file.os.link", link)
    for number in range(4):
        world.put(LOG, line(f"life {number} ") * 30)
        world.keep()
        if number == 2:
            (world.place / CATALOGUE).unlink()
    world.check()
    for path in world.place.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


# -- a fork ----------------------------------------------------------------------------------


def test_who_forks_after_keeping_can_keep(world):
    """Threads do not come along when a process forks; whoever waits for them waits for ever."""
    world.put(LOG, line("a") * 400)
    keep([world.home])
    world.add(LOG, line("b") * 400)
    assert in_child(lambda: keep([world.home]).copied) == 1
