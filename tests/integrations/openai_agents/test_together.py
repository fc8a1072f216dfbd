"""Several at one session of the OpenAI Agents SDK: processes, tasks, the killed, the cancelled."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from turnlog.errors import StorageFull
from turnlog.integrations.openai_agents import TurnlogSession
from turnlog.storage.writer import Handle, LogWriter

PROCESSES = 8
ROUNDS = 12
BATCH = 40

WORKER = """
import json, sys, anyio
from turnlog.integrations.openai_agents import TurnlogSession

root, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def work():
    session = TurnlogSession("shared", root, project=root)
    for number in range(rounds):
        await session.add_items(
            [{"role": "user", "content": f"{name}/{number}/{part}"} for part in range(3)]
        )
        if number % 2:
            print(json.dumps((await session.pop_item())["content"]))

anyio.run(work)
"""

ADDER = """
import sys, anyio
from turnlog.integrations.openai_agents import TurnlogSession

root, batch = sys.argv[1], int(sys.argv[2])

async def work():
    session = TurnlogSession("shared", root, project=root)
    for number in range(100_000):
        await session.add_items(
            [
                {"role": "user", "content": f"{number}/{part} " + "x" * 20_000}
                for part in range(batch)
            ]
        )
        print(number, flush=True)

anyio.run(work)
"""


def prompt(words):
    return {"role": "user", "content": words}


def items_of(root):
    return anyio.run(TurnlogSession("shared", root, project=root).get_items)


def log_of(root):
    (path,) = Path(root).glob("projects/*/*.jsonl")
    return path


@pytest.mark.slow
def test_eight_processes_add_and_pop_and_no_item_is_lost_or_popped_twice(tmp_path):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path), str(name), str(ROUNDS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in range(PROCESSES)
    ]
    popped = []
    for worker in workers:
        said, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        popped += [json.loads(line) for line in said.splitlines()]
    left = [item["content"] for item in items_of(tmp_path)]
    added = {
        f"{name}/{number}/{part}"
        for name in range(PROCESSES)
        for number in range(ROUNDS)
        for part in range(3)
    }
    assert len(popped) == PROCESSES * ROUNDS // 2
    assert len(set(popped)) == len(popped)
    assert set(popped).isdisjoint(left)
    assert sorted([*popped, *left]) == sorted(added)
    for name in range(PROCESSES):  # What one process added stands in its order.
        own = [tuple(map(int, each.split("/"))) for each in left if each.startswith(f"{name}/")]
        assert own == sorted(own)


def test_tasks_of_one_object_do_not_pop_the_same(tmp_path):
    session = TurnlogSession("shared", tmp_path, project=tmp_path)
    popped = []

    async def pop():
        popped.append(await session.pop_item())

    async def work():
        await session.add_items([prompt(str(number)) for number in range(20)])
        async with anyio.create_task_group() as tasks:
            for _ in range(25):
                tasks.start_soon(pop)
        return await session.get_items()

    assert anyio.run(work) == []
    assert popped.count(None) == 5
    assert len({item["content"] for item in popped if item}) == 20


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_program_leaves_whole_additions_and_loses_none_it_was_told_of(tmp_path, seed):
    worker = subprocess.Popen(
        [sys.executable, "-c", ADDER, str(tmp_path), str(BATCH)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout.readline() == "0\n"
    time.sleep(random.Random(seed).uniform(0.01, 0.2))
    worker.send_signal(signal.SIGKILL)
    told = worker.stdout.read().split()
    worker.wait()
    worker.stdout.close()
    acknowledged = int(told[-1]) + 1 if told else 1
    found = [item["content"].split()[0] for item in items_of(tmp_path)]
    additions, rest = divmod(len(found), BATCH)
    assert rest == 0
    assert acknowledged <= additions <= acknowledged + 1
    assert found == [f"{number}/{part}" for number in range(additions) for part in range(BATCH)]
    session = TurnlogSession("shared", tmp_path, project=tmp_path)
    anyio.run(session.add_items, [prompt("after")])
    assert anyio.run(session.get_items, 2)[-1] == prompt("after")
    assert len(items_of(tmp_path)) == len(found) + 1


def test_a_full_disk_leaves_the_session_as_it_was(tmp_path, monkeypatch):
    session = TurnlogSession("shared", tmp_path, project=tmp_path)
    anyio.run(session.add_items, [prompt("before")])

    def full(self, data, size):
        raise self._write_error(OSError(28, "No space left on device"))

    with monkeypatch.context() as patched:
        patched.setattr(Handle, "write", full)
        with pytest.raises(StorageFull):
            anyio.run(session.add_items, [prompt("lost")])
        with pytest.raises(StorageFull):
            anyio.run(session.pop_item)
    assert items_of(tmp_path) == [prompt("before")]
    assert anyio.run(session.pop_item) == prompt("before")


# -- cancelled ------------------------------------------------------------------------------


class Held:
    """The log's lock, held by somebody else until it is let go."""

    def __init__(self, path):
        self._path = path
        self._free, self._held = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self):
        def decide(_news):
            self._held.set()
            self._free.wait(20)
            return ()

        with LogWriter(self._path) as log:
            log.append_after(decide)

    def __enter__(self):
        self._thread.start()
        assert self._held.wait(20)
        return self

    def let_go(self):
        self._free.set()

    def __exit__(self, *_error):
        self.let_go()
        self._thread.join()


CHANGES = {
    "add": (lambda session: session.add_items([prompt("b"), prompt("c")]), ["a", "b", "c"]),
    "pop": (lambda session: session.pop_item(), []),
    "clear": (lambda session: session.clear_session(), []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_cancelled_task_learns_of_it_when_the_change_is_made(tmp_path, change):
    session = TurnlogSession("shared", tmp_path, project=tmp_path)
    begin, expected = CHANGES[change]

    async def work():
        await session.add_items([prompt("a")])
        with Held(log_of(tmp_path)) as held:
            task = asyncio.ensure_future(begin(session))
            for _ in range(5):
                await asyncio.sleep(0.05)
                task.cancel()
            await asyncio.sleep(0.05)
            assert not task.done()
            held.let_go()
            with pytest.raises(asyncio.CancelledError):
                await task
        return await session.get_items()

    assert [item["content"] for item in asyncio.run(work())] == expected


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("change", CHANGES)
def test_so_does_a_cancelled_scope(tmp_path, change, backend):
    session = TurnlogSession("shared", tmp_path, project=tmp_path)
    begin, expected = CHANGES[change]

    async def work():
        await session.add_items([prompt("a")])
        with Held(log_of(tmp_path)) as held:
            threading.Timer(0.3, held.let_go).start()
            began = time.monotonic()
            with anyio.move_on_after(0.05) as scope:
                await begin(session)
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            assert time.monotonic() - began >= 0.25
        return await session.get_items()

    assert [item["content"] for item in anyio.run(work, backend=backend)] == expected


def test_a_cancelled_change_that_fails_is_still_cancelled(tmp_path, monkeypatch):
    session = TurnlogSession("shared", tmp_path, project=tmp_path)

    async def work():
        await session.add_items([prompt("a")])
        with Held(log_of(tmp_path)) as held:
            task = asyncio.ensure_future(session.add_items([prompt("b")]))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.sleep(0.1)
            monkeypatch.setattr(Handle, "write", lambda *_: 1 / 0)
            held.let_go()
            with pytest.raises(asyncio.CancelledError):
                await task
        monkeypatch.undo()
        return await session.get_items()

    assert asyncio.run(work()) == [prompt("a")]
