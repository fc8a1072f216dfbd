"""The store on an event loop, asyncio's and trio's: nothing acknowledged is lost by cancelling."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

import turnlog
from turnlog.errors import LogLocked, NotFound, NotSerialisable
from turnlog.sessions.writing import build
from turnlog.storage.writer import LogWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path):
    return turnlog.aopen(tmp_path / "root")


def texts(store, session_id="s-1"):
    found = store.sync.session(session_id).items()
    return [item.record.text for item in found if item.record.text]


async def test_a_session_is_written_and_read(store, tmp_path):
    async with store, store.create(project=tmp_path, session_id="s-1") as session:
        assert session.session_id == "s-1"
        first = await session.append(build.user("How many apples?"))
        (second,) = await session.append_many([build.assistant("Two.", model="m")])
        await session.update(title="Apples")
        async with await session.subagent("a1") as helper:
            await helper.append(build.user("Count"))
    records = [record async for record in store.read("s-1")]
    assert [record.uuid for record in records] == [first, second]
    assert [row.id for row in await store.sessions()] == ["s-1"]
    assert (await store.session("s-1")).metadata.ended_at is not None
    assert (await store.search("apples")).hits[0].session == "s-1"


async def test_a_session_can_be_awaited_and_resumed(store, tmp_path):
    session = await store.create(project=tmp_path, session_id="s-1")
    await session.append(build.user("one"))
    await session.close()
    async with store.resume("s-1") as again:
        await again.append(build.user("two"))
    assert texts(store) == ["one", "two"]


async def test_errors_are_the_same(store, tmp_path):
    with pytest.raises(NotFound):
        await store.session("nothing")
    with pytest.raises(NotFound):
        [record async for record in store.read("nothing")]
    async with store.create(project=tmp_path) as session:
        with pytest.raises(NotSerialisable):
            await session.append(build.user("one") | {"more": {1}})


async def test_many_tasks_write_one_session(store, tmp_path):
    async with store.create(project=tmp_path, session_id="s-1") as session:

        async def write(name):
            for number in range(5):
                await session.append(build.user(f"{name}{number}"))

        async with anyio.create_task_group() as group:
            for name in "abcdefgh":
                group.start_soon(write, name)
    records = [record async for record in store.read("s-1")]
    assert len(records) == 40  # One thread: nobody forked it.
    for name in "abcdefgh":
        mine = [record.text for record in records if record.text[0] == name]
        assert mine == [f"{name}{number}" for number in range(5)]


async def test_a_cancelled_append_has_an_outcome(store, tmp_path):
    """The log is locked while its writer is cancelled; when the scope ends, the record is there."""
    session = await store.create(project=tmp_path, session_id="s-1")
    await session.append(build.user("one"))
    held, release = threading.Event(), threading.Event()

    def hold():
        with LogWriter(session.sync.path) as log:
            log.append_after(lambda _news: (held.set(), release.wait(30), [])[-1])

    holder = threading.Thread(target=hold)
    holder.start()
    await anyio.to_thread.run_sync(held.wait)

    async def append(*, task_status):
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            await session.append(build.user("two"))

    async with anyio.create_task_group() as group:
        scope = await group.start(append)
        await anyio.sleep(0.02)
        scope.cancel()
        release.set()
    assert texts(store) == ["one", "two"]
    await session.append(build.user("three"))
    await session.close()
    await anyio.to_thread.run_sync(holder.join)
    assert [record.text async for record in store.read("s-1")] == ["one", "two", "three"]


async def test_a_cancelled_session_is_closed_and_counts_as_crashed(store, tmp_path):
    with anyio.CancelScope() as scope:
        async with store.create(project=tmp_path, session_id="s-1") as session:
            await session.append(build.user("one"))
            scope.cancel()
            await anyio.sleep(1)
    with pytest.raises(turnlog.ClosedLog):
        await session.append(build.user("two"))
    assert (await store.session("s-1")).metadata.ended_at is None
    assert texts(store) == ["one"]


async def test_a_session_is_followed_until_that_is_cancelled(store, tmp_path):
    before = threading.active_count()
    seen = []
    async with store.create(project=tmp_path, session_id="s-1") as session:
        await session.append(build.user("zero"))

        async def watch(*, task_status):
            task_status.started()
            async for each in store.follow("s-1", from_start=True):
                if each.record is not None and each.record.text:
                    seen.append(each.record.text)
                    if len(seen) == 3:
                        return

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                await group.start(watch)
                for word in ("one", "two"):
                    await session.append(build.user(word))
        assert seen == ["zero", "one", "two"]

        with anyio.move_on_after(0.05) as scope:
            async for _ in store.follow("s-1"):
                pass
        assert scope.cancelled_caught
    assert threading.active_count() <= before + 8


async def test_followers_do_not_keep_others_from_writing(store, tmp_path):
    """There are more of them than threads that an event loop gives out by itself."""
    async with store.create(project=tmp_path, session_id="s-1") as session:
        await session.append(build.user("zero"))

        async def watch(*, task_status):
            async for each in store.follow("s-1", from_start=True):
                if each.record.text == "zero":
                    task_status.started()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(45):
                    await group.start(watch)
                await session.append(build.user("one"))
                group.cancel_scope.cancel()
    assert texts(store) == ["zero", "one"]


async def test_what_runs_is_not_deleted(store, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    async with store.create(project=tmp_path, session_id="s-1") as session:
        await session.append(build.user("one"))
        with pytest.raises(LogLocked):
            await store.delete("s-1")
    await store.delete("s-1")
    assert await store.sessions() == []
