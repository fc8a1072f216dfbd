"""The SDK's session store and safekeeping: archived, gone, deleted, brought back."""

import os
import subprocess
import sys

import anyio
import claude_agent_sdk as sdk
import pytest

import turnlog
from integrations.claude_agent_sdk.claude_entries import (
    AGENT,
    KEY,
    PROJECT,
    SESSION,
    log_of,
    prompt,
    talk,
)
from turnlog.errors import LogLocked
from turnlog.formats import Home
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.keep.copies.keep import keep
from turnlog.keep.trash.delete import restore_from_trash
from turnlog.keep.trash.trash import Trash

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def store(tmp_path):
    return TurnlogSessionStore(tmp_path / "home")


def files_in(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# -- deleting -------------------------------------------------------------------------------


async def test_a_session_goes_to_the_trash_with_its_agents(store, own):
    odd = {**KEY, "subpath": "../odd"}
    meta = {"type": "agent_metadata", "agentType": "gardener"}
    await store.append(KEY, talk(3))
    await store.append(AGENT, [meta, *talk(2)])
    await store.append(odd, talk(1))
    await store.list_session_summaries(PROJECT)
    await store.delete(KEY)
    assert files_in(store.root) == []
    for key in (KEY, AGENT, odd):
        assert await store.load(key) is None
    assert await store.list_sessions(PROJECT) == await store.list_session_summaries(PROJECT) == []
    assert await store.list_subkeys(KEY) == []
    trash = Trash(own)
    (trashed,) = trash.entries()
    assert (trashed.entry.session, len(trashed.entry.files)) == (SESSION, 4)
    assert trashed.entry.title == "Prune tree number 0."
    await store.delete(KEY)
    assert len(trash.entries()) == 1
    restore_from_trash(trash, trashed)
    assert await store.load(KEY) == talk(3)
    assert await store.load(AGENT) == [meta, *talk(2)]
    assert await store.load(odd) == talk(1)


async def test_what_is_appended_after_a_deletion_starts_anew(store, own):
    await store.append(KEY, talk(3))
    await store.append(AGENT, talk(3))
    await store.delete(KEY)
    await store.append(KEY, talk(2, start=1))
    await store.append(AGENT, talk(1))
    assert await store.load(KEY) == talk(2, start=1)
    assert await store.load(AGENT) == talk(1)
    (summary,) = await store.list_session_summaries(PROJECT)
    assert summary["data"] == sdk.fold_session_summary(None, KEY, talk(2, start=1))["data"]
    await store.delete(KEY)
    assert await store.load(KEY) is None
    assert len(Trash(own).entries()) == 2


async def test_another_store_sees_a_deletion(store):
    other = TurnlogSessionStore(store.root)
    await other.append(KEY, talk(3))
    await store.append(KEY, talk(4))
    await store.delete(KEY)
    await other.append(KEY, talk(2))
    assert await store.load(KEY) == talk(2)


async def test_one_subpath_goes_and_no_other(store, own):
    some = ["a", "a/b", "subagents/agent-a1", "subagents/agent-a1/agent-b", "..", "../.."]
    await store.append(KEY, talk(1))
    for subpath in some:
        await store.append({**KEY, "subpath": subpath}, talk(2))
    for number, subpath in enumerate(some, 1):
        await store.delete({**KEY, "subpath": subpath})
        assert sorted(await store.list_subkeys(KEY)) == sorted(some[number:])
    assert await store.load(KEY) == talk(1)
    assert len(Trash(own).entries()) == len(some)


async def test_a_session_of_the_same_id_in_another_project_stays(store, own):
    other = {**KEY, "project_key": "-home-ada-garden"}
    for key in (KEY, other):
        await store.append(key, talk(2))
        await store.append({**key, "subpath": AGENT["subpath"]}, talk(1))
    todos = store.root / "todos" / f"{SESSION}-agent-{SESSION}.json"
    todos.parent.mkdir()
    todos.write_text("[]")
    await store.delete(KEY)
    assert await store.load(other) == talk(2)
    assert await store.list_subkeys(other) == [AGENT["subpath"]]
    assert todos.exists()
    # The same again, as a new import would write it: what was deleted once is not deleted anew.
    await store.append(KEY, talk(2))
    await store.delete(other)
    assert await store.load(KEY) == talk(2)
    await store.delete(KEY)
    assert not todos.exists()


async def test_what_a_project_remembers_is_not_a_sessions(store):
    memory = store.root / "projects" / PROJECT / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("Frost comes early.")
    key = {**KEY, "session_id": "memory"}
    await store.append(key, talk(1))
    await store.delete(key)
    assert await store.load(key) is None
    assert (memory / "MEMORY.md").read_text() == "Frost comes early."


async def test_kept_copies_go_with_their_session(store, own):
    await store.append(KEY, talk(3))
    await store.append(AGENT, talk(1))
    keep((Home(store.root),))
    await store.delete(AGENT)
    assert await store.load(AGENT) is None
    await store.delete(KEY)
    assert await store.load(KEY) is None
    assert await store.list_sessions(PROJECT) == []
    assert [row.id for row in turnlog.open(store.root).sessions(archived=None)] == []
    for trashed in Trash(own).entries():
        restore_from_trash(Trash(own), trashed)
    os.unlink(log_of(store.root, KEY))
    assert await store.load(KEY) == talk(3)


async def test_a_running_session_is_not_deleted(store):
    await store.append(KEY, talk(2))
    with turnlog.open(store.root).resume(SESSION, project=store.root) as writer:
        writer.append(turnlog.build.user("Still here."))
        with pytest.raises(LogLocked, match="running"):
            await store.delete(KEY)
    assert len(await store.load(KEY)) > 2
    await store.delete(KEY)
    assert await store.load(KEY) is None


async def test_a_deletion_waits_for_a_writer(store):
    await store.append(KEY, talk(2))
    script = (
        "import fcntl, sys, time\nlog = open(sys.argv[1], 'rb+')\nfcntl.flock(log, fcntl.LOCK_EX)\n"
        "print(flush=True)\ntime.sleep(0.3)"
    )
    command = [sys.executable, "-c", script, str(log_of(store.root, KEY))]
    holder = await anyio.to_thread.run_sync(lambda: subprocess.Popen(command, stdout=-1))
    await anyio.to_thread.run_sync(holder.stdout.readline)
    await store.delete(KEY)
    holder.stdout.close()
    await anyio.to_thread.run_sync(holder.wait)
    assert await store.load(KEY) is None


# -- archived, or gone ----------------------------------------------------------------------


async def test_an_archived_session_is_read_and_listed_and_gone_on_with(store):
    await store.append(KEY, talk(4))
    await store.append(AGENT, [{"type": "agent_metadata", "agentType": "x"}, *talk(2)])
    before = await store.list_sessions(PROJECT)
    summaries = await store.list_session_summaries(PROJECT)
    turnlog.open(store.root).archive(SESSION, remove=True)
    assert not log_of(store.root, KEY).exists()
    for each in (store, TurnlogSessionStore(store.root)):
        assert await each.load(KEY) == talk(4)
        assert len(await each.load(AGENT)) == 3
        assert await each.list_subkeys(KEY) == [AGENT["subpath"]]
        assert await each.list_sessions(PROJECT) == before
        assert await each.list_session_summaries(PROJECT) == summaries
    await store.append(KEY, talk(3, start=3))
    assert log_of(store.root, KEY).exists()
    assert await store.load(KEY) == talk(6)
    assert len(await store.load(AGENT)) == 3
    (row,) = turnlog.open(store.root).sessions()
    assert row.id == SESSION


async def test_a_log_that_somebody_packed_is_read_and_gone_on_with(store):
    for key in (KEY, AGENT):
        await store.append(key, talk(3))
        log = log_of(store.root, key)
        await anyio.run_process(["gzip", str(log)])
        assert await store.load(key) == talk(3)
    assert [each["session_id"] for each in await store.list_sessions(PROJECT)] == [SESSION]
    assert await store.list_subkeys(KEY) == [AGENT["subpath"]]
    (summary,) = await store.list_session_summaries(PROJECT)
    assert summary["data"]["first_prompt"] == "Prune tree number 0."
    for key in (KEY, AGENT):
        await store.append(key, talk(4))
        assert await store.load(key) == talk(4)


@pytest.mark.parametrize("session", [SESSION, "s"])
@pytest.mark.parametrize("subpath", [None, "subagents/agent-a1", "notes", "../x"])
async def test_a_log_that_is_gone_but_kept_is_gone_on_with(store, session, subpath):
    key = {"project_key": PROJECT, "session_id": session, "subpath": subpath}
    other = {**key, "project_key": "-home-ada-garden"}
    for each in (key, other):
        await store.append(each, talk(3))
    keep((Home(store.root),))
    for log in store.root.rglob("*.jsonl"):
        if PROJECT in str(log):
            log.unlink()
    assert await store.load(key) == talk(3)
    await store.append(key, [prompt(2), prompt(3)])
    assert await store.load(key) == [*talk(3), prompt(3)]
    assert await store.load(other) == talk(3)


async def test_blobs_are_followed(store):
    long = prompt(1, "Prune. " * 40_000)
    await store.append(KEY, [prompt(0), long, prompt(2)])
    from turnlog.storage.blobs import blob_of, blob_place

    log = log_of(store.root, KEY)
    lines = log.read_bytes().splitlines()
    blob = blob_of(lines[1])
    place = blob_place(log, blob.sha256)
    place.parent.mkdir(parents=True)
    place.write_bytes(blob.packed)
    log.write_bytes(b"\n".join((lines[0], blob.stub, lines[2], b"")))
    assert await store.load(KEY) == [prompt(0), long, prompt(2)]
    await store.append(KEY, [long, prompt(3)])
    assert await store.load(KEY) == [prompt(0), long, prompt(2), prompt(3)]
    assert await store.list_subkeys(KEY) == []
