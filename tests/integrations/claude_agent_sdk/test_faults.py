"""The SDK's session store when processes crowd, are killed, or are told to stop in mid-append."""

import asyncio
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import contextmanager
from functools import partial

import anyio
import pytest

from integrations.claude_agent_sdk.claude_entries import AGENT, KEY, PROJECT, log_of, prompt, talk
from sampling import sampled
from turnlog.errors import LogLocked, UnsafeFilesystem
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.storage.writer import LogWriter

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
APPENDERS, BATCHES, EACH = 8, 12, 4

CROWD = """
import sys, anyio
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
root, name, batches, each = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
key = {"project_key": "p", "session_id": "s"}
async def main():
    store = TurnlogSessionStore(root)
    for batch in range(batches):
        own = [{"type": "x", "uuid": f"{name}-{batch}-{n}", "pad": "k" * 300} for n in range(each)]
        shared = {"type": "y", "uuid": f"shared-{batch}"}
        await store.append(key, [*own, shared, {"type": "z", "by": name, "batch": batch}])
anyio.run(main, backend=sys.argv[5])
"""


def test_eight_processes_append_to_one_key(tmp_path):
    command = [sys.executable, "-c", CROWD, str(tmp_path)]
    crowd = [
        subprocess.Popen([*command, str(n), str(BATCHES), str(EACH), ("asyncio", "trio")[n % 2]])
        for n in range(APPENDERS)
    ]
    assert [each.wait(120) for each in crowd] == [0] * APPENDERS
    loaded = anyio.run(TurnlogSessionStore(tmp_path).load, {"project_key": "p", "session_id": "s"})
    by_writer, marks, shared = defaultdict(list), defaultdict(list), []
    for entry in loaded:
        if entry["type"] == "x":
            by_writer[entry["uuid"].partition("-")[0]].append(entry["uuid"])
        elif entry["type"] == "y":
            shared.append(entry["uuid"])
        else:
            marks[entry["by"]].append(entry["batch"])
    assert sorted(shared) == sorted(f"shared-{batch}" for batch in range(BATCHES))
    for n in map(str, range(APPENDERS)):
        whole = [f"{n}-{batch}-{m}" for batch in range(BATCHES) for m in range(EACH)]
        assert by_writer[n] == whole
        assert marks[n] == list(range(BATCHES))
    # A batch is one write: nobody's entries stand between its own.
    runs = [entry["uuid"].rpartition("-")[0] for entry in loaded if entry["type"] == "x"]
    firsts = [run for before, run in zip([None, *runs], runs, strict=False) if run != before]
    assert len(firsts) == APPENDERS * BATCHES


DYING = """
import os, signal, sys, anyio
import claude_agent_sdk
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
sys.path[:0] = [sys.argv[3]]
from integrations.claude_agent_sdk.claude_entries import KEY, talk
step, part = sys.argv[2].split(":")
write, sync = os.write, os.fdatasync
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def dying_write(fd, data):
    if step == "write":
        write(fd, data[: int(len(data) * float(part))])
        die()
    return write(fd, data)
def dying_sync(fd):
    if step == "sync" and os.fstat(fd).st_size:
        die()
    return sync(fd)
async def main():
    store = TurnlogSessionStore(sys.argv[1])
    await store.append(KEY, talk(3))
    os.write, os.fdatasync = dying_write, dying_sync
    await store.append(KEY, talk(9, start=1))
anyio.run(main)
"""


@pytest.mark.parametrize(
    "death", sampled(["write:0.4", "write:0", "write:0.9999", "write:1", "sync:"], 4)
)
def test_killed_in_mid_append_and_tried_again(tmp_path, death):
    done = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), death, TESTS])
    assert done.returncode == -signal.SIGKILL

    async def check():
        store = TurnlogSessionStore(tmp_path)
        standing = await store.load(KEY)
        assert standing == talk(10)[: len(standing)]
        assert len(standing) >= 3
        await store.append(KEY, talk(9, start=1))
        assert await store.load(KEY) == talk(10)
        (listed,) = await store.list_sessions(PROJECT)
        (summary,) = await store.list_session_summaries(PROJECT)
        assert summary["mtime"] == listed["mtime"]
        assert summary["data"]["first_prompt"] == "Prune tree number 0."

    anyio.run(check, backend="trio" if death == "write:1" else "asyncio")


LOOP = """
import os, sys, anyio
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
sys.path[:0] = [sys.argv[2]]
from integrations.claude_agent_sdk.claude_entries import KEY, talk
async def main():
    store = TurnlogSessionStore(sys.argv[1])
    for batch in range(10_000):
        await store.append(KEY, talk(5, start=5 * batch))
        os.write(1, b"%d\\n" % batch)
anyio.run(main)
"""


def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path):
    for seed in range(3):
        root = tmp_path / str(seed)
        child = subprocess.Popen(
            [sys.executable, "-c", LOOP, str(root), TESTS], stdout=subprocess.PIPE
        )
        child.stdout.readline()
        threading.Timer(random.Random(seed).uniform(0, 0.2), child.kill).start()
        acknowledged = int((b"0\n" + child.stdout.read()).splitlines()[-1]) + 1
        child.stdout.close()
        child.wait()

        async def check(root=root, acknowledged=acknowledged):
            store = TurnlogSessionStore(root)
            standing = await store.load(KEY)
            assert standing == talk(len(standing))
            assert 5 * acknowledged <= len(standing) <= 5 * (acknowledged + 1)
            await store.append(KEY, talk(5, start=5 * acknowledged))
            assert await store.load(KEY) == talk(5 * (acknowledged + 1))

        anyio.run(check)


# -- cancellation ---------------------------------------------------------------------------


@contextmanager
def log_held(root, key, seconds):
    """Hold a log's lock, as another writer would, for a while."""
    fd = os.open(log_of(root, key), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    timer = threading.Timer(seconds, os.close, (fd,))
    timer.start()
    try:
        yield
    finally:
        timer.join()


@pytest.mark.anyio
async def test_cancelled_in_mid_append(tmp_path):
    store = TurnlogSessionStore(tmp_path)
    await store.append(KEY, talk(2))
    with log_held(tmp_path, KEY, 0.3), anyio.move_on_after(0.05) as scope:
        await store.append(KEY, talk(4, start=2))
        # Its outcome was waited for: it is done, and nobody is told otherwise.
        assert scope.cancel_called
    assert not scope.cancelled_caught
    assert await store.load(KEY) == talk(6)
    await store.append(KEY, talk(4, start=2))
    await store.append(KEY, talk(1, start=6))
    assert await store.load(KEY) == talk(7)


@pytest.mark.anyio
async def test_cancelled_while_it_waits_for_its_turn(tmp_path):
    store = TurnlogSessionStore(tmp_path)
    await store.append(KEY, talk(2))
    with log_held(tmp_path, KEY, 0.3):
        async with anyio.create_task_group() as group:
            group.start_soon(store.append, KEY, talk(2, start=2))
            await anyio.sleep(0.05)
            with anyio.move_on_after(0.05) as scope:
                await store.append(KEY, [{"type": "never"}])
            assert scope.cancelled_caught
    assert await store.load(KEY) == talk(4)
    await store.append(KEY, talk(2, start=4))
    assert await store.load(KEY) == talk(6)


def test_a_task_that_is_cancelled_and_abandons_its_append(tmp_path):
    """asyncio's own cancellation waits for nobody: the thread goes on, and a retry is harmless."""

    async def main():
        store = TurnlogSessionStore(tmp_path)
        await store.append(KEY, talk(2))
        with log_held(tmp_path, KEY, 0.2):
            task = asyncio.create_task(store.append(KEY, talk(4, start=2)))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await store.append(KEY, talk(4, start=2))
        assert await store.load(KEY) == talk(6)

    asyncio.run(main())


@pytest.mark.anyio
async def test_appends_that_are_cancelled_at_random_and_repeated(tmp_path):
    store, chance = TurnlogSessionStore(tmp_path), random.Random(7)
    for number in range(40):
        is_done = False
        while not is_done:
            with anyio.move_on_after(chance.uniform(0, 0.02)) as scope:
                await store.append(KEY, talk(3, start=3 * number))
            is_done = not scope.cancelled_caught
    assert await store.load(KEY) == talk(120)


# -- and the rest ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_log_that_stays_locked_is_a_typed_error_and_writes_nothing(tmp_path, monkeypatch):
    impatient = partial(LogWriter, lock_timeout=0.05)
    monkeypatch.setattr("turnlog.integrations.claude_agent_sdk.append.LogWriter", impatient)
    store = TurnlogSessionStore(tmp_path)
    await store.append(KEY, talk(1))
    with log_held(tmp_path, KEY, 0.5):
        with pytest.raises(LogLocked):
            await store.append(KEY, talk(2))
        assert await store.load(KEY) == talk(1)
    await store.append(KEY, talk(2))
    assert await store.load(KEY) == talk(2)


@pytest.mark.anyio
async def test_what_stands_already_is_on_the_disk_before_it_counts_as_saved(tmp_path, monkeypatch):
    """Its writer may have died between the write and the sync."""
    await TurnlogSessionStore(tmp_path).append(KEY, talk(3))
    synced, sync = [], os.fdatasync

    def noting(fd):
        synced.append(os.fstat(fd).st_ino)
        sync(fd)

    store = TurnlogSessionStore(tmp_path)
    monkeypatch.setattr(os, "fdatasync", noting)
    await store.append(KEY, talk(3))
    assert synced == [log_of(tmp_path, KEY).stat().st_ino]


@pytest.mark.anyio
async def test_a_log_that_is_replaced_is_read_anew(tmp_path):
    store = TurnlogSessionStore(tmp_path)
    await store.append(KEY, talk(4))
    log = log_of(tmp_path, KEY)
    kept = log.read_bytes().splitlines(keepends=True)[:2]
    log.with_suffix(".new").write_bytes(b"".join(kept))
    log.with_suffix(".new").rename(log)  # As Claude Code rewrites a log.
    await store.append(KEY, talk(4))
    assert await store.load(KEY) == talk(4)
    log.write_bytes(b"".join(kept))  # Or cuts it short where it lies.
    await store.append(KEY, talk(5))
    assert await store.load(KEY) == talk(5)


@pytest.mark.anyio
async def test_a_networks_disk_is_refused_unless_it_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr("turnlog.storage.locks.filesystem", lambda _fd: "nfs4")
    with pytest.raises(UnsafeFilesystem, match="nfs4") as caught:
        await TurnlogSessionStore(tmp_path).append(KEY, talk(1))
    assert "allow_network_filesystem=True" in caught.value.hint
    store = TurnlogSessionStore(tmp_path, allow_network_filesystem=True)
    await store.append(KEY, talk(1))
    assert await store.load(KEY) == talk(1)


@pytest.mark.anyio
async def test_a_full_disk_is_told_and_the_retry_completes(tmp_path):
    script = """
import resource, signal, sys, anyio
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.errors import StorageFull
sys.path[:0] = [sys.argv[2]]
from integrations.claude_agent_sdk.claude_entries import KEY, talk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def main():
    store = TurnlogSessionStore(sys.argv[1])
    await store.append(KEY, talk(2))
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, free[1]))
    try:
        await store.append(KEY, talk(50))
    except StorageFull as error:
        print(bool(error.hint))
    resource.setrlimit(resource.RLIMIT_FSIZE, free)
    assert await store.load(KEY) == talk(2)
    await store.append(KEY, talk(50))
    assert await store.load(KEY) == talk(50)
anyio.run(main)
"""
    command = [sys.executable, "-c", script, str(tmp_path), TESTS]
    done = await anyio.run_process(command, check=False)
    assert (done.returncode, done.stdout) == (0, b"True\n"), done.stderr.decode()


def test_a_forked_child_goes_on_with_its_parents_store(tmp_path):
    store = TurnlogSessionStore(tmp_path)
    anyio.run(store.append, KEY, talk(2))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            anyio.run(store.append, KEY, talk(4))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    anyio.run(store.append, KEY, talk(6))
    assert anyio.run(store.load, KEY) == talk(6)


@pytest.mark.anyio
async def test_reading_while_others_write_gives_whole_entries(tmp_path):
    writer, reader = TurnlogSessionStore(tmp_path), TurnlogSessionStore(tmp_path)

    async def write():
        for n in range(60):
            await writer.append(AGENT, [prompt(n, "k" * 3000)])

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        for _ in range(60):
            seen = await reader.load(AGENT) or []
            assert seen == [prompt(n, "k" * 3000) for n in range(len(seen))]
    assert json.dumps(await reader.load(AGENT)).count("k" * 3000) == 60
