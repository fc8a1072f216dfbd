"""Many at one flat store, and some of them killed: nothing lost, nothing half, nobody stuck."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from strategies import to_line
from turnlog.errors import LogLocked
from turnlog.formats import flat_index, flat_log, flat_meta
from turnlog.formats.flat import files
from turnlog.formats.flat.files import LOCK_FILE, hold
from turnlog.formats.flat.meta import Meta, read_meta
from turnlog.formats.flat.registry import (
    RegistryEntry,
    read_index,
    reindex,
    update_registry,
    write_meta,
)
from turnlog.storage.atomic_files import Unreadable

AT = datetime(2026, 3, 4, tzinfo=UTC)
PROCESSES, EACH = 8, 20

# Each child updates entries of its own and one that all share, and says what it did.
UPDATES = """
import sys
from datetime import UTC, datetime, timedelta
from turnlog.formats.flat.meta import Meta
from turnlog.formats.flat.registry import update_registry, write_meta
directory, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
start = datetime(2026, 3, 4, tzinfo=UTC)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    at = start + timedelta(seconds=number * 7919 % 1000)
    for id in (f"{name}-{number % 5}", "shared"):
        meta = Meta(session_id=id, created_at=start, last_active_at=at, message_count=number)
        if number % 4 == 0:
            write_meta(directory, meta, lock_timeout=60)
        print("before", id, number, flush=True)
        update_registry(directory, meta, lock_timeout=60)
        print("after", id, number, flush=True)
"""

# A writer that appends a record, in one write, and then follows it with the caches.
APPENDS = """
import json, os, sys
from turnlog.formats.flat.meta import MetaFold
from turnlog.formats.flat.registry import update_registry, write_meta
from turnlog.records.codec import decode
directory, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
fold = MetaFold()
fd = os.open(f"{directory}/{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for number in range(count):
    at = 1772600000000 + number
    line = json.dumps({"type": "user", "uuid": f"{name}-{number}", "content": [], "timestamp": at})
    os.write(fd, line.encode() + b"\\n")
    fold.take(decode(line.encode()))
    write_meta(directory, fold.meta(name), lock_timeout=60)
    update_registry(directory, fold.meta(name), lock_timeout=60)
"""


@pytest.fixture
def start(tmp_path):
    """Start children that work on the store when told to; none outlives its test."""
    children = []

    def start_one(code, name="", count=0, *, directory=tmp_path):
        arguments = [sys.executable, "-c", code, str(directory), name, str(count)]
        child = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        children.append(child)
        assert child.stdout.readline() == "ready\n"
        return child

    yield start_one
    for child in children:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def go(*children):
    for child in children:
        child.stdin.write("go\n")


def finish(child):
    told = child.stdout.read()
    assert child.wait() == 0
    return told


def look(directory, times):
    """Read the registry as it is at this moment: whole, and newest first."""
    try:
        data = flat_index(directory).read_bytes()
    except FileNotFoundError:
        assert not times  # Once it is there, it is never not there.
        return
    active = [each["lastActiveAt"] for each in json.loads(data)["sessions"]]
    assert active == sorted(active, reverse=True)
    assert len(active) == len({each["id"] for each in json.loads(data)["sessions"]})
    times.append(len(active))


def record(uuid, at):
    return to_line({"type": "user", "uuid": uuid, "content": [], "timestamp": at}) + b"\n"


# -- together -------------------------------------------------------------------------------


def test_eight_processes_lose_nothing_and_no_moment_is_half(start, tmp_path):
    children = [start(UPDATES, f"p{number}", EACH) for number in range(PROCESSES)]
    go(*children)
    seen = []
    while any(child.poll() is None for child in children):
        look(tmp_path, seen)
        time.sleep(0.002)
    for child in children:
        assert finish(child).count("after") == 2 * EACH
    assert seen == sorted(seen)  # No entry that was there was ever gone again.
    entries = {each.id: each for each in read_index(tmp_path).entries}
    wanted = {f"p{number}-{part}" for number in range(PROCESSES) for part in range(5)}
    assert entries.keys() == wanted | {"shared"}
    for number in range(PROCESSES):
        counts = [entries[f"p{number}-{part}"].message_count for part in range(5)]
        assert counts == [EACH - 5 + part for part in range(5)]
    assert entries["shared"].message_count == EACH - 1
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_threads_lose_nothing(tmp_path):
    def work(name):
        for number in range(EACH):
            update_registry(tmp_path, RegistryEntry(id=f"{name}-{number}", last_active_at=AT))

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_index(tmp_path).entries) == 6 * EACH


def test_reindex_beside_writers_ends_with_the_truth(start, tmp_path):
    children = [start(APPENDS, f"w{number}", 30) for number in range(4)]
    go(*children)
    seen, runs = [], 0
    while any(child.poll() is None for child in children):
        report = reindex(tmp_path, lock_timeout=60)
        assert (report.dropped, report.problems) == (0, ())
        runs += 1
        look(tmp_path, seen)
    for child in children:
        finish(child)
    assert runs
    # The writers' own last words, or those of a reindex that came later: both say what is so.
    for number in range(4):
        assert read_meta(flat_meta(tmp_path, f"w{number}")).message_count == 30
    assert [each.message_count for each in read_index(tmp_path).entries] == [30] * 4
    before = flat_index(tmp_path).read_bytes()
    assert reindex(tmp_path).rewritten == 0
    assert flat_index(tmp_path).read_bytes() == before


def test_a_session_made_while_reindex_reads_is_not_dropped(tmp_path, monkeypatch):
    from turnlog.formats.flat import registry

    for name in ("one", "two"):
        flat_log(tmp_path, name).write_bytes(record(name, 1772600000000))
    listed = registry.sessions_in
    made = iter(("three", "four", "five"))

    def list_and_then_make(directory, problems=None):
        found = listed(directory, problems)
        name = next(made, None)
        if name:  # It comes right after we looked, log first, then both caches.
            flat_log(tmp_path, name).write_bytes(record(name, 1772600001000))
        if name == "three":
            with flat_log(tmp_path, "one").open("ab") as log:
                log.write(record("more", 1772600009000))
            flat_log(tmp_path, "two").unlink()
        return found

    monkeypatch.setattr(registry, "sessions_in", list_and_then_make)
    reindex(tmp_path)
    entries = {each.id: each.message_count for each in read_index(tmp_path).entries}
    assert entries == {"one": 2, "three": 1, "four": 1, "five": 1}


def test_sessions_that_keep_coming_do_not_keep_reindex_from_ending(tmp_path, monkeypatch):
    from turnlog.formats.flat import registry

    listed = registry.sessions_in
    count = 0

    def make_and_list(directory, problems=None):
        nonlocal count
        count += 1
        flat_log(tmp_path, f"s{count}").write_bytes(record(f"r{count}", 1772600000000 + count))
        return listed(directory, problems)

    monkeypatch.setattr(registry, "sessions_in", make_and_list)
    report = reindex(tmp_path)
    assert report.sessions == count == len(read_index(tmp_path).entries)


# -- the lock -------------------------------------------------------------------------------

HOLDER = """
import sys, time
from pathlib import Path
from turnlog.formats.flat.files import hold
with hold(Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("fallback", [False, True], ids=["directory", "lock file"])
def test_a_store_that_is_held_is_waited_for(start, tmp_path, monkeypatch, fallback):
    code = HOLDER
    if fallback:
        monkeypatch.setattr(files, "_LOCKS_DIRECTORIES", False)
        code = "import turnlog.formats.flat.files as f; f._LOCKS_DIRECTORIES = False" + HOLDER
    child = start(code)
    for timeout in (0, 0.05):
        begun = time.monotonic()
        with pytest.raises(LogLocked) as locked:
            update_registry(tmp_path, RegistryEntry(id="a"), lock_timeout=timeout)
        assert time.monotonic() - begun >= timeout
    assert locked.value.holder == child.pid
    assert locked.value.hint
    with pytest.raises(LogLocked):
        write_meta(tmp_path, Meta(session_id="a"), lock_timeout=0)
    with pytest.raises(LogLocked):
        reindex(tmp_path, lock_timeout=0)
    child.kill()  # The kernel gives the lock back; there is nothing to clear away.
    child.wait()
    update_registry(tmp_path, RegistryEntry(id="a", last_active_at=AT), lock_timeout=0)
    assert [each.id for each in read_index(tmp_path).entries] == ["a"]
    assert (tmp_path / LOCK_FILE).exists() is fallback


def test_the_lock_file_serves_where_directories_cannot_be_locked(start, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LOCKS_DIRECTORIES", False)
    code = "import turnlog.formats.flat.files as f; f._LOCKS_DIRECTORIES = False" + UPDATES
    children = [start(code, f"p{number}", 8) for number in range(3)]
    go(*children)
    for child in children:
        finish(child)
    assert len(read_index(tmp_path).entries) == 3 * 5 + 1
    assert reindex(tmp_path).dropped == 16


def test_a_thread_that_holds_the_store_is_told_so_at_once(tmp_path):
    with hold(tmp_path), pytest.raises(LogLocked) as locked:
        update_registry(tmp_path, RegistryEntry(id="a"), lock_timeout=None)
    assert locked.value.holder == os.getpid()
    update_registry(tmp_path, RegistryEntry(id="a"), lock_timeout=0)


def test_another_thread_waits_its_turn(tmp_path):
    done = []
    with hold(tmp_path):
        with_deadline = threading.Thread(target=lambda: done.append(_try(tmp_path, 0.05)))
        with_deadline.start()
        with_deadline.join()
        patient = threading.Thread(target=lambda: done.append(_try(tmp_path, None)))
        patient.start()
    patient.join()
    assert done == ["locked", "done"]


def _try(directory, timeout):
    try:
        update_registry(directory, RegistryEntry(id="a"), lock_timeout=timeout)
    except LogLocked:
        return "locked"
    return "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_child_holds_nothing_and_frees_nothing(tmp_path):
    with hold(tmp_path):
        child = os.fork()
        if child == 0:
            told = 1
            try:
                told = 0 if _try(tmp_path, 0.05) == "locked" else 2
            finally:
                os._exit(told)
        assert os.waitpid(child, 0)[1] == 0
        # The child closed its copy of the descriptor; the lock is still ours.
        other = [
            sys.executable,
            "-c",
            HOLDER.replace("hold(Path(sys.argv[1]))", "hold(Path(sys.argv[1]), 0)"),
        ]
        tried = subprocess.run([*other, str(tmp_path)], capture_output=True, text=True, input="")
        assert "LogLocked" in tried.stderr
    assert _try(tmp_path, 0) == "done"


def test_a_directory_that_was_replaced_while_we_waited_is_not_the_one_we_write(start, tmp_path):
    store = tmp_path / "store"
    child = start(HOLDER, directory=store)
    waiting = threading.Thread(
        target=lambda: update_registry(
            store, RegistryEntry(id="a", last_active_at=AT), lock_timeout=30
        )
    )
    waiting.start()
    time.sleep(0.1)
    store.rename(tmp_path / "moved")
    store.mkdir()
    go(child)
    finish(child)
    waiting.join()
    assert [each.id for each in read_index(store).entries] == ["a"]
    assert os.listdir(tmp_path / "moved") == []


# -- killed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_a_kill_leaves_the_old_registry_or_the_new_one(start, tmp_path, times):
    for number in range(PROCESSES):
        flat_log(tmp_path, f"s{number}").write_bytes(record(f"r{number}", 1772600000000 + number))
    reindex(tmp_path)
    generator = random.Random(11)
    told: dict[str, int] = {}
    kills = 0
    while kills < times:
        child = start(UPDATES, "k", 1000)
        go(child)
        first = child.stdout.readline()
        time.sleep(generator.random() * 0.012)
        os.kill(child.pid, signal.SIGKILL)
        kills += 1
        said = first + child.stdout.read()
        lines = said[: said.rfind("\n") + 1].splitlines()  # The kill may cut what it says, too.
        child.wait()
        index = read_index(tmp_path)
        assert index.problem is None
        entries = {each.id: each for each in index.entries}
        assert {f"s{number}" for number in range(PROCESSES)} <= entries.keys()
        for line in lines:
            word, _, rest = line.partition(" ")
            name, _, count = rest.partition(" ")
            if word == "after":
                told[name] = int(count)
        last = lines[-1].split()
        for name, count in told.items():
            # Acknowledged, unless a later update of the same was under way or done.
            pending = last[:2] == ["before", name]
            found = entries[name].message_count
            assert found == count or (pending and found == int(last[2]))
            told[name] = found
        meta = read_meta(flat_meta(tmp_path, "k-0"))
        assert not isinstance(meta, Unreadable) or meta.reason == "missing"
    report = reindex(tmp_path)
    assert report.sessions == PROCESSES
    assert {each.id for each in read_index(tmp_path).entries} == {
        f"s{number}" for number in range(PROCESSES)
    }
    newest = read_index(tmp_path).entries[0].last_active_at
    assert newest == datetime.fromtimestamp(1772600000, UTC) + timedelta(milliseconds=7)
