"""Keeping reads what is new, touches nothing of the subagent's, and survives what the disk does."""

from __future__ import annotations

import errno
import inspect
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from keep.keeping_world import KEY, LOG, OTHER, SESSIONS, TODOS, new_world, sizes, unfinished
from storage.logs import SOURCE, in_child
from storage.packed import frames_of
from turnlog.errors import LogError, LogLocked, StorageFull, TurnlogError, WriteFailed
from turnlog.formats import Home
from turnlog.formats.home_files import home_files
from turnlog.formats.kept_copies import generation_copy, kept_copy, kept_place
from turnlog.keep.catalog import CATALOGUE, Catalogue, last_run_at, lock_mirror
from turnlog.keep.copies.keep import keep
from turnlog.storage.compressed import unpack

FRAME = 1024
MB = 1024 * 1024


@pytest.fixture
def world():
    with frames_of(FRAME), new_world() as made:
        yield made


def line(number, size=60):
    return f"{number} ".encode().ljust(size, b"k") + b"\n"


def fill(world, count=60):
    """A home with a log of several frames, a small one, and things beside them."""
    world.put(LOG, b"".join(map(line, range(count))))
    world.put(OTHER, line(1) * 3)
    world.put(f"projects/{KEY}/{SESSIONS[0]}/subagents/agent-a1b2c3.jsonl", line(2) * 40)
    world.put(f"projects/{KEY}/{SESSIONS[0]}/tool-results/one.txt", b"no newline at its end")
    world.put(TODOS, b"[]")
    world.put("history.jsonl", line(3))
    world.put("plans/tall-kite.md", b"")


# -- what is read ----------------------------------------------------------------------------


def test_only_what_was_appended_is_read(world):
    fill(world)
    first = world.keep()
    assert first.copied == first.files == len(world.histories) == 7
    assert first.read_bytes == sum(len(each[-1]) for each in world.histories.values())
    assert first.sessions == sorted(SESSIONS[:2])
    world.add(LOG, line(60) * 2)
    second = world.keep()
    assert (second.copied, second.read_bytes) == (1, len(line(60)) * 2)
    assert second.sessions == [SESSIONS[0]]
    world.check()


def test_what_is_unchanged_is_not_even_opened(world, monkeypatch):
    fill(world)
    world.keep()
    opened = []
    real = os.open

    def watched(path, flags, *more, **how):
        opened.append(os.fspath(path))
        return real(path, flags, *more, **how)

    monkeypatch.setattr(os, "open", watched)
    done = keep([world.home])
    assert (done.copied, done.files) == (0, 7)
    assert [path for path in opened if path.startswith(str(world.root))] == []
    assert [path for path in opened if path.endswith(".zst")] == [], "nor are the copies"


STRACE = shutil.which("strace")


def test_the_system_sees_no_unchanged_file_opened(world, tmp_path):
    fill(world)
    world.keep()
    code = (
        "import sys; from pathlib import Path; from turnlog.keep.copies.keep import keep;"
        "from turnlog.formats import Home; print(keep([Home(Path(sys.argv[1]))]).copied)"
    )
    trace = tmp_path / "trace"
    run = [sys.executable, "-c", code, str(world.root)]
    watch = [STRACE or "strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(trace)]
    environ = os.environ | {"PYTHONPATH": str(SOURCE)}
    if (
        STRACE is None
        or subprocess.run([*watch, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("strace is not here, or not allowed")
    done = subprocess.run([*watch, *run], check=True, capture_output=True, text=True, env=environ)
    assert done.stdout.strip() == "0"
    seen = [row for row in trace.read_text().splitlines() if f'"{world.root}' in row]
    assert seen, "the directories were listed"
    assert [row for row in seen if "O_DIRECTORY" not in row] == []


def test_of_some_sessions_only_what_is_theirs_is_kept(world):
    fill(world)
    done = keep([world.home], sessions=frozenset({SESSIONS[1]}))
    assert (done.copied, done.sessions) == (1, [SESSIONS[1]])
    assert set(world.catalogue.current) == {OTHER}
    done = keep([world.home], sessions=frozenset({SESSIONS[0]}))
    assert done.copied == 4
    assert keep([world.home], sessions=frozenset({None})).copied == 2
    world.keep()
    world.check()


def test_an_agent_s_log_beside_the_sessions_belongs_to_the_one_it_names(world):
    record = f'{{"type":"user","sessionId":"{SESSIONS[3]}","uuid":"u"}}\n'.encode()
    name = f"projects/{KEY}/agent-a1.jsonl"
    world.put(name, record)
    assert keep([world.home], sessions=frozenset({SESSIONS[3]})).copied == 1
    assert world.catalogue.current[name].session == SESSIONS[3]


def test_progress_comes_to_its_end(world):
    fill(world)
    told = []
    keep([world.home], progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert told == sorted(told)


# -- whose they are, and who may read them ---------------------------------------------------


def test_everything_is_private_whatever_the_umask(world):
    before = os.umask(0)
    try:
        fill(world)
        world.keep()
        world.put(LOG, b"rewritten\n")
        world.keep()
    finally:
        os.umask(before)
    top = world.place.parent
    found = [top, *top.rglob("*")]
    assert len(found) > 15
    for path in found:
        wanted = 0o700 if path.is_dir() else 0o600
        assert path.stat().st_mode & 0o777 == wanted, path


def test_a_umask_that_forbids_everything_forbids_us_nothing(world):
    fill(world)
    before = os.umask(0o777)
    try:
        world.keep()
    finally:
        os.umask(before)
    for path in world.place.rglob("*.zst"):
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_that_cannot_be_read_is_a_problem_and_no_obstacle(world):
    fill(world)
    for path in [world.root.parent, *world.root.parent.rglob("*")]:
        os.chown(path, 12345, 12345)
    os.chmod(world.path(OTHER), 0)
    os.chmod(world.path(TODOS).parent, 0)

    def work():
        done = keep([world.home])
        return done.copied, [(str(each.path), each.reason) for each in done.problems]

    copied, problems = in_child(work, uid=12345)
    assert copied == 5
    assert {path for path, _ in problems} == {
        str(world.path(OTHER)),
        str(world.path(TODOS).parent),
    }
    os.chmod(world.path(OTHER), 0o600)
    os.chmod(world.path(TODOS).parent, 0o700)
    assert in_child(work, uid=12345)[0] == 2


# -- what lies there -------------------------------------------------------------------------


def test_what_is_no_file_is_told_and_nothing_hangs(world):
    fill(world)
    fifo = world.path(f"projects/{KEY}/{SESSIONS[4]}.jsonl")
    os.mkfifo(fifo)
    server = socket.socket(socket.AF_UNIX)
    here = os.open(fifo.parent, os.O_RDONLY)
    server.bind(f"/proc/self/fd/{here}/{SESSIONS[5]}.jsonl")
    os.close(here)
    world.path(f"projects/{KEY}/{SESSIONS[6]}.jsonl").symlink_to("/nowhere/at/all")
    loop = world.path(f"projects/{KEY}/loop")
    loop.symlink_to(loop)
    done = world.keep()
    server.close()
    assert done.copied == 7
    reasons = {each.path.name: each.reason for each in done.problems}
    assert "FIFO" in reasons[fifo.name]
    assert "socket" in reasons[f"{SESSIONS[5]}.jsonl"]
    assert "gone" in reasons[f"{SESSIONS[6]}.jsonl"]
    assert "loop" in reasons
    world.check()


def test_a_file_that_becomes_a_fifo_before_it_is_opened_does_not_hang(world, monkeypatch):
    fill(world)
    from turnlog.keep.copies import keep as copying

    real = copying.changed_files

    def swapped(*arguments):
        found = list(real(*arguments))
        os.unlink(world.path(LOG))
        os.mkfifo(world.path(LOG))
        os.unlink(world.path(OTHER))
        return found

    monkeypatch.setattr(copying, "changed_files", swapped)
    done = keep([world.home])
    assert done.copied == 5
    assert {str(each.path) for each in done.problems} == {
        str(world.path(LOG)),
        str(world.path(OTHER)),
    }
    assert unfinished(world.place) == []


def test_a_file_that_shrinks_while_it_is_read_is_kept_the_next_time(world, monkeypatch):
    from turnlog.keep.copies import copy_file

    fill(world)
    real = copy_file._read

    def shrinking(fd, size, offset):
        if os.fstat(fd).st_ino == world.path(LOG).stat().st_ino:
            os.truncate(world.path(LOG), 7)
        return real(fd, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(copy_file, "_read", shrinking)
        done = keep([world.home])
    assert [str(each.path) for each in done.problems] == [str(world.path(LOG))]
    assert unfinished(world.place) == []
    world.keep()
    world.check()


def test_a_file_rewritten_while_it_is_copied_is_not_taken_for_its_copy(world, monkeypatch):
    """What is known of it is what was copied, not what stands there a moment later."""
    from turnlog.keep.copies import copy_file

    world.put(LOG, line(1) * 9)
    real = copy_file._filled

    def rewriting(*arguments):
        packed = real(*arguments)
        world.put(LOG, line(2) * 9)
        return packed

    with monkeypatch.context() as patch:
        patch.setattr(copy_file, "_filled", rewriting)
        keep([world.home])
    world.remember(LOG, line(1) * 9)
    world.add(LOG, line(3))
    assert world.keep().begun_anew
    world.check()


@pytest.mark.parametrize("is_known", [False, True])
def test_a_file_rewritten_while_it_is_read_is_kept_the_next_time(world, monkeypatch, is_known):
    """No copy is half of what a file held before, and half of what it held after."""
    from turnlog.keep.copies import copy_file

    if is_known:
        world.put(LOG, line(1) * 30)
        world.keep()
    world.put(LOG, line(1) * 90)
    real = copy_file._read

    def rewriting(fd, size, offset):
        data = real(fd, size, offset)
        if offset + size >= world.path(LOG).stat().st_size:
            world.put(LOG, line(2) * 90)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(copy_file, "_read", rewriting)
        done = keep([world.home])
    assert [each.reason for each in done.problems] == ["it was rewritten while it was read"]
    assert unfinished(world.place) == []
    world.keep()
    world.check()


def test_a_file_that_grows_while_it_is_read_is_kept_as_far_as_it_was(world, monkeypatch):
    from turnlog.keep.copies import copy_file

    world.put(LOG, line(1) * 90)
    real = copy_file._read

    def growing(fd, size, offset):
        world.add(LOG, line(2))
        return real(fd, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(copy_file, "_read", growing)
        assert not keep([world.home]).problems
    assert world.generations(LOG) == [line(1) * 90]
    assert not world.keep().begun_anew
    world.check()


def test_a_disk_of_others_that_fails_is_a_problem_of_that_file(world, monkeypatch):
    from turnlog.keep.copies import copy_file

    fill(world)
    real = copy_file.read_at

    def failing(fd, size, offset):
        if os.fstat(fd).st_ino == world.path(LOG).stat().st_ino:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(copy_file, "read_at", failing)
        done = world.keep()
    assert done.copied == 6
    assert [(str(each.path), each.reason) for each in done.problems] == [
        (str(world.path(LOG)), "input/output error")
    ]
    world.keep()
    world.check()


def test_names_that_no_copy_can_have_stop_nobody_else(world):
    fill(world)
    folder = f"projects/{KEY}/{SESSIONS[0]}/tool-results"
    too_long = world.put(f"{folder}/{'n' * 253}", b"x")
    fits = f"{folder}/{'n' * 251}"
    world.put(fits, b"y")
    world.put(f"{folder}/both", b"a file")
    inner = world.put(f"{folder}/both.zst/inner", b"in a directory called like its copy")
    done = world.keep()
    problems = {os.fspath(each.path) for each in done.problems}
    assert os.fspath(too_long) in problems
    assert problems <= {os.fspath(too_long), os.fspath(inner), f"{world.path(folder)}/both"}
    assert len(problems) == 2
    assert fits in world.catalogue.current
    assert keep([world.home]).copied == 0
    assert unfinished(world.place) == []


def test_very_deep_directories_are_kept(world):
    """However deep, and not only as deep as Python goes."""
    name = f"projects/{KEY}/{SESSIONS[0]}/" + "d/" * 400 + "deep.txt"
    world.put(name, b"down here")
    before = sys.getrecursionlimit()
    for is_lost in (False, True):
        sys.setrecursionlimit(len(inspect.stack()) + 150)
        try:
            done = keep([world.home])
        finally:
            sys.setrecursionlimit(before)
        assert done.problems == []
        assert world.generations(name) == [b"down here"]
        if not is_lost:
            (world.place / CATALOGUE).unlink()
            world.remove(name)


def test_paths_longer_than_the_system_takes_are_a_problem(world):
    """The mirror's path is longer than the home's: what fits there may not fit here."""
    name = f"projects/{KEY}/{SESSIONS[0]}/"
    room = 4090 - len(str(world.path(name))) - len("/f.txt")
    name += "/".join("d" * 99 for _ in range(room // 100 - 1))
    name += "/" + "e" * (4090 - len("/f.txt") - len(f"{world.root}/{name}/"))
    fill(world)
    os.makedirs(world.path(name))
    world.put(f"{name}/f.txt", b"down here")
    done = keep([world.home])
    assert done.copied == 7
    assert [each.path.name for each in done.problems] == ["f.txt"]


def test_names_in_every_script_are_kept(world):
    for name in ("naïve.txt", "凧.txt", "a b\tc\nd", "-rf", "...", ".hidden", "x.zst", "q\\r"):
        world.put(f"projects/{KEY}/{SESSIONS[0]}/tool-results/{name}", name.encode())
    world.keep()
    world.check()


def test_a_name_that_is_no_text_is_a_problem(world):
    fill(world)
    raw = os.path.join(os.fsencode(world.path(LOG).parent), b"\xff\xfe.jsonl")
    Path(os.fsdecode(raw)).write_bytes(b"x")
    done = keep([world.home])
    assert done.copied == 7
    assert [each.reason for each in done.problems] == ["its name is not valid text"]


def test_a_home_whose_path_is_no_text_is_kept(world):
    from turnlog.keep.catalog import home_of, kept_homes

    place = Path(os.fsdecode(os.fsencode(world.root.parent) + b"/h\xffme"))
    shutil.copytree(world.root, place)
    (place / "history.jsonl").write_bytes(line(1))
    home = Home(place)
    assert keep([home]).copied == 1
    assert keep([home]).copied == 0
    assert home_of(kept_place(home)) == str(place)
    assert (str(place), kept_place(home)) in list(kept_homes())


# -- links -----------------------------------------------------------------------------------


def test_a_link_to_a_home_shares_its_mirror(world):
    fill(world)
    world.keep()
    link = world.root.parent / "link"
    link.symlink_to(world.root, target_is_directory=True)
    assert kept_place(Home(link)) == world.place
    assert keep([Home(link)]).copied == 0
    assert keep([Home(link), world.home]).copied == 0
    assert [path.name for path in world.place.parent.iterdir()] == [world.place.name]


def test_projects_that_lie_elsewhere_are_kept_under_their_names(world):
    fill(world)
    elsewhere = world.root.parent / "elsewhere"
    (world.root / "projects").rename(elsewhere)
    (world.root / "projects").symlink_to(elsewhere, target_is_directory=True)
    world.keep()
    assert set(world.catalogue.current) >= {LOG, OTHER}
    world.check()


def test_a_linked_log_is_kept_under_its_own_name(world):
    fill(world)
    elsewhere = world.root.parent / "elsewhere.jsonl"
    elsewhere.write_bytes(line(9) * 5)
    name = f"projects/{KEY}/{SESSIONS[5]}.jsonl"
    world.path(name).symlink_to(elsewhere)
    world.keep()
    assert world.generations(name) == [line(9) * 5]
    world.check()


# -- broken copies ---------------------------------------------------------------------------


def spoil(world, name, number):
    """Flip a bit of a frame of a copy; its size and time stay."""
    from turnlog.storage.compressed import read_table

    path = world.copy(name)
    data, status = bytearray(path.read_bytes()), path.stat()
    with path.open("rb") as file:
        frame = read_table(file.fileno()).frames[number]
    data[frame.packed_at + frame.packed_bytes // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("number", [0, 1, -2, -1], ids=["first", "second", "last but one", "last"])
def test_no_growth_is_built_on_a_damaged_copy(world, number):
    fill(world)
    world.keep()
    spoil(world, LOG, number)
    world.add(LOG, line("new"))
    done = world.keep()
    assert [(str(each.path), bool(each.reason)) for each in done.problems] == [
        (str(world.copy(LOG)), True)
    ]
    assert done.begun_anew == []
    world.check()
    assert [kept.generation for kept in world.catalogue.generations(LOG)] == [1]
    assert world.keep().problems == []


@pytest.mark.parametrize("number", [0, -1])
def test_a_damaged_copy_of_what_was_rewritten_stays(world, number):
    """It is all there is of that: most of it can still be read."""
    fill(world)
    world.keep()
    spoil(world, LOG, number)
    spoiled = world.copy(LOG).read_bytes()
    world.put(LOG, line("another") * 4)
    keep([world.home])
    assert generation_copy(world.place, 1, LOG).read_bytes() == spoiled
    assert [kept.generation for kept in world.catalogue.generations(LOG)] == [1, 2]
    assert b"".join(unpack(world.copy(LOG))) == line("another") * 4


@pytest.mark.parametrize("catalogue", ["known", "lost"])
@pytest.mark.parametrize("how", ["cut", "emptied", "garbage"])
def test_a_ruined_copy_is_made_anew(world, how, catalogue):
    fill(world)
    world.keep()
    path = world.copy(LOG)
    whole = path.read_bytes()
    ruined = {"cut": whole[:-20], "emptied": b"", "garbage": b"garbage" * 9}[how]
    path.write_bytes(ruined)
    if catalogue == "lost":
        (world.place / CATALOGUE).unlink()
    done = keep([world.home])
    assert [str(each.path) for each in done.problems] == [str(path)]
    assert path.read_bytes() == whole
    if catalogue == "lost":  # Nothing tells what it held: what is left of it stays.
        assert generation_copy(world.place, 1, LOG).read_bytes() == ruined
    else:
        world.check()
    assert keep([world.home]).problems == []


def test_a_ruined_copy_of_what_has_changed_since_stays(world):
    fill(world)
    world.keep()
    ruined = world.copy(LOG).read_bytes()[:-20]
    world.copy(LOG).write_bytes(ruined)
    world.put(LOG, line("another") * 99)
    keep([world.home])
    assert generation_copy(world.place, 1, LOG).read_bytes() == ruined
    world.put(LOG, line("a third"))
    keep([world.home])
    assert generation_copy(world.place, 1, LOG).read_bytes() == ruined
    assert b"".join(unpack(generation_copy(world.place, 2, LOG))) == line("another") * 99


def test_a_copy_deleted_by_hand_is_made_again(world):
    fill(world)
    world.keep()
    before = sizes(world.place)
    world.copy(LOG).unlink()
    shutil.rmtree(world.copy(TODOS).parent)
    done = world.keep()
    assert (done.copied, done.problems) == (2, [])
    assert sizes(world.place) == before
    world.check()


def test_a_copy_that_is_something_else_is_made_again(world):
    fill(world)
    world.keep()
    world.copy(OTHER).unlink()
    os.mkfifo(world.copy(OTHER))
    done = keep([world.home])
    assert [str(each.path) for each in done.problems] == [str(world.copy(OTHER))]
    assert b"".join(unpack(world.copy(OTHER))) == line(1) * 3


def test_a_copy_that_is_a_link_is_replaced_and_not_written_through(world):
    fill(world)
    world.keep()
    secret = world.root.parent / "secret"
    secret.write_bytes(b"secret")
    world.copy(OTHER).unlink()
    world.copy(OTHER).symlink_to(secret)
    world.add(OTHER, line(7))
    keep([world.home])
    assert secret.read_bytes() == b"secret"
    assert not world.copy(OTHER).is_symlink()
    assert b"".join(unpack(world.copy(OTHER))) == line(1) * 3 + line(7)


# -- full disks, and others that fail --------------------------------------------------------


def test_a_full_disk_is_told_and_costs_nothing(world):
    fill(world)
    world.keep()
    world.put(LOG, random.Random(1).randbytes(300_000))
    world.add(OTHER, line(8))
    before = sizes(world.place)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            keep([world.home])
        except StorageFull as error:
            return bool(error.hint), str(error)
        return None

    told = in_child(work)
    assert told is not None
    assert told[0]
    assert unfinished(world.place) == []
    after = sizes(world.place)
    assert {name: size for name, size in after.items() if name in before} == before | {
        name: after[name] for name in after if OTHER in name
    }
    world.keep()
    world.check()


def test_what_does_not_fit_keeps_nothing_smaller_from_being_kept(world):
    fill(world)
    large = [f"projects/{KEY}/{SESSIONS[0]}/tool-results/{name}" for name in ("a", "b")]
    for name in large:
        world.put(name, random.Random(name).randbytes(300_000))

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            keep([world.home])
        except StorageFull as error:
            return str(error), error.hint, error.errno
        return None

    message, hint, number = in_child(work)
    assert message == f"no room for copies of 2 files, such as {world.root / large[0]}"
    assert ("all the rest is kept" in hint, number) == (True, errno.EFBIG)
    assert last_run_at(world.place) is None
    assert unfinished(world.place) == []
    kept = set(Catalogue.load(world.place).current)
    assert kept == {file.name for file in home_files(world.home)} - set(large)
    assert world.keep().copied == 2
    world.check()


FAILING = ("write", "open", "replace", "rename", "link", "mkdir", "fsync", "fdatasync", "utime")


@pytest.mark.parametrize("code", [28, 5], ids=["full", "failing"])
def test_whatever_fails_is_typed_and_leaves_no_rubbish(world, code, stride):
    """Each call that can fail fails once; and the next run finishes."""
    fill(world, count=20)
    world.keep()
    number = 0
    for number in range(1, 400, stride):
        world.put(LOG, line(f"anew {number}") * 30)
        world.add(OTHER, line(number))
        before = {name: world.generations(name) for name in (LOG, OTHER)}
        with pytest.MonkeyPatch.context() as patch:
            state = _failing(patch, code, number, world)
            error = None
            try:
                keep([world.home])
            except TurnlogError as raised:
                error = raised
            if not state["failed"]:
                break
        expected = StorageFull if code == 28 else WriteFailed
        assert error is None or isinstance(error, expected | LogError), number
        assert error is None or error.hint, number
        assert unfinished(world.place) == [], (number, state)
        for contents in before.values():
            now = [b"".join(unpack(path)) for path in world.place.rglob("*.zst")]
            assert all(any(one.startswith(data) for one in now) for data in contents), number
        world.keep()
        world.check()
    assert 10 < number < 399


def _failing(patch, code, number, world):
    """Let the call of that number fail that would change something below the mirror."""
    state = {"calls": 0, "failed": None}
    mine = str(world.place)

    def wrapped(name, real):
        def call(*arguments, **how):
            first = arguments[0]
            if isinstance(first, int):
                try:
                    where = os.readlink(f"/proc/self/fd/{first}")
                except OSError:
                    where = ""
            else:
                where = os.fspath(first)
            reading = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
            relative = not os.path.isabs(where)
            if (where.startswith(mine) or relative) and not reading:
                state["calls"] += 1
                if state["calls"] == number:
                    state["failed"] = (name, where)
                    raise OSError(code, os.strerror(code))
            return real(*arguments, **how)

        return call

    for name in FAILING:
        patch.setattr(os, name, wrapped(name, getattr(os, name)))
    return state


def test_errors_hold_no_temporary_files_until_somebody_forgets_them(world, monkeypatch):
    """What was made ahead is taken away at once, not when the last traceback goes."""
    for number in range(40):
        world.put(f"projects/{KEY}/{SESSIONS[0]}/tool-results/{number}", line(number))
    from turnlog.keep.copies import keep as copying

    def failing(*_arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(copying, "place_all", failing)
        with pytest.raises(StorageFull) as held:
            keep([world.home])
        left = list(world.place.rglob("*.part"))
    assert held.value is not None
    # The batch that was being placed is its placer's to take away; nothing else may be left.
    assert len(left) <= copying._BATCH_FILES
    world.keep()
    world.check()


def test_what_a_killed_run_left_is_put_in_order_though_the_files_are_gone(world):
    """It had put copies in place and was making others; then their files were deleted."""
    for data in (line(1), line(2)):
        world.put(LOG, data)
        world.put(OTHER, data)
        if data == line(1):
            world.put(TODOS, b"[]")
        world.keep()
    catalogue = world.catalogue
    for name in (LOG, TODOS):
        del catalogue.current[name]
    del catalogue.older[OTHER]
    catalogue.save()
    part = world.copy(TODOS).with_name(".turnlog-0123456789abcdef.part")
    part.write_bytes(b"half of it")
    for name in (LOG, TODOS):
        world.remove(name)
    world.keep(sessions=frozenset({SESSIONS[1]}))
    assert part.exists()  # Whoever keeps one session looks at that one.
    world.keep()
    assert not part.exists()
    world.check()
    before = world.catalogue
    world.keep()
    assert world.catalogue == before


def test_few_open_files_are_enough(world):
    """Systems allow as few as 256."""
    for number in range(300):
        world.put(f"projects/{KEY}/{SESSIONS[0]}/tool-results/{number}", line(number))

    def work():
        few = max(map(int, os.listdir("/proc/self/fd"))) + 40
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
        return keep([world.home]).copied

    assert in_child(work) == 300


def test_a_mirror_that_cannot_be_made_is_a_typed_failure(world, monkeypatch):
    fill(world)
    blocked = world.root.parent / "file"
    blocked.write_bytes(b"")
    monkeypatch.setenv("TURNLOG_HOME", str(blocked))
    with pytest.raises(LogError) as raised:
        keep([world.home])
    assert raised.value.hint


# -- several at once -------------------------------------------------------------------------


def test_whoever_waits_too_long_is_told(world):
    fill(world)
    with lock_mirror(world.place, 1), pytest.raises(LogLocked) as raised:
        keep([world.home], lock_timeout=0.05)
    assert raised.value.hint
    world.keep()


@pytest.mark.slow
def test_keeps_at_once_and_a_writer(world):
    fill(world)
    code = (
        "import sys; from pathlib import Path; from turnlog.keep.copies.keep import keep;"
        "from turnlog.formats import Home\n"
        "for _ in range(3): keep([Home(Path(sys.argv[1]))])"
    )
    environ = os.environ | {"PYTHONPATH": str(SOURCE)}
    run = [sys.executable, "-W", "error", "-c", code, str(world.root)]
    keepers = [subprocess.Popen(run, env=environ, stderr=subprocess.PIPE) for _ in range(3)]
    number = 0
    while any(keeper.poll() is None for keeper in keepers):
        with world.path(LOG).open("ab") as log:
            log.write(line(f"live {number}"))
        number += 1
    for keeper in keepers:
        _, said = keeper.communicate()
        assert keeper.returncode == 0, said.decode()
    world.keep()
    world.check()
    assert [kept.generation for kept in world.catalogue.generations(LOG)] == [1]


# -- homes -----------------------------------------------------------------------------------


def test_a_home_that_is_gone_or_empty_makes_nothing(world):
    shutil.rmtree(world.root)
    done = keep([world.home])
    assert (done.files, done.copied, done.problems) == (0, 0, [])
    assert not world.place.exists()
    world.root.mkdir()
    keep([world.home])
    assert not world.place.exists()


def test_a_home_that_goes_leaves_what_was_kept(world):
    fill(world)
    world.keep()
    shutil.rmtree(world.root)
    keep([world.home])
    world.check()
    world.root.mkdir()
    keep([world.home])
    world.check()


def test_a_file_of_many_zeros_is_kept_and_read_back(world):
    """It packs ten thousand times; a bomb would look like that."""
    with frames_of(MB):
        name = f"projects/{KEY}/{SESSIONS[0]}/tool-results/zeros"
        path = world.put(name, b"")
        os.truncate(path, 70 * MB)
        keep([world.home])
        assert kept_copy(world.place, name).stat().st_size < MB
        assert sum(map(len, unpack(kept_copy(world.place, name)))) == 70 * MB
        with path.open("ab") as file:
            file.write(b"and more")
        done = keep([world.home])
        assert (done.read_bytes, done.problems) == (8, [])


def test_the_mirror_bears_the_home_s_name(world):
    fill(world)
    world.keep()
    assert re.fullmatch(r"[A-Za-z0-9-]+-home-[0-9a-f]{8}", world.place.name)
    assert len(os.fsencode(kept_place("/x" * 2000).name)) < 100
    assert kept_place("/a/b") != kept_place("/a-b")


def test_a_directory_that_takes_the_name_of_a_copy_at_the_last_moment(world, monkeypatch):
    name = f"projects/{KEY}/{SESSIONS[0]}/tool-results/both"
    world.put(name, b"a file")
    world.put(f"projects/{KEY}/{SESSIONS[0]}/tool-results/other", b"another")
    taken = kept_copy(world.place, name)
    real = os.link

    def link(source, target, **how):
        if os.fspath(target) == os.fspath(taken):
            taken.mkdir(exist_ok=True)
        real(source, target, **how)

    monkeypatch.setattr(os, "link", link)
    done = keep([world.home])
    assert [os.fspath(each.path) for each in done.problems] == [os.fspath(world.path(name))]
    assert name not in world.catalogue.current
    assert done.copied >= 1
    assert unfinished(world.place) == []
