"""Summaries are those of a fold from scratch, whatever becomes of the file that keeps them."""

import json
import os
import random
import shutil

import claude_agent_sdk as sdk
import pytest

from integrations.claude_agent_sdk.claude_entries import (
    AGENT,
    KEY,
    PROJECT,
    SESSION,
    log_of,
    prompt,
    talk,
)
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore, summaries

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path):
    return TurnlogSessionStore(tmp_path)


@pytest.fixture
def at_once(monkeypatch):
    """Keep the summary at every append, not only now and then."""
    monkeypatch.setattr(summaries, "_OFTEN", 0)


def sidecar(root):
    return root / "summaries" / PROJECT / f"{SESSION}.summary"


def folded(entries):
    return sdk.fold_session_summary(None, KEY, entries)["data"]


async def check(store, entries):
    (summary,) = await store.list_session_summaries(PROJECT)
    (listed,) = await store.list_sessions(PROJECT)
    assert summary == {"session_id": SESSION, "mtime": listed["mtime"], "data": folded(entries)}


STORY = [
    *talk(3),
    {"type": "custom-title", "customTitle": "The orchard"},
    {"type": "tag", "tag": "winter"},
    *talk(3, start=3),
    {"type": "tag", "tag": ""},
    {"type": "summary", "summary": "Pruned \ud800", "gitBranch": "main"},
]


async def test_they_follow_every_append(store, at_once):
    for count in range(1, len(STORY) + 1):
        await store.append(KEY, STORY[count - 1 : count])
        if count % 3:
            await check(store, STORY[:count])
    await check(TurnlogSessionStore(store.root), STORY)


async def test_a_summary_is_kept_when_enough_was_written(tmp_path, store):
    await store.append(KEY, talk(2))
    assert not sidecar(tmp_path).exists()
    await store.append(KEY, [prompt(2, "k" * 70_000)])
    assert sidecar(tmp_path).exists()
    assert sidecar(tmp_path).stat().st_mode & 0o777 == 0o600
    await check(store, [*talk(2), prompt(2, "k" * 70_000)])


async def test_a_listing_reads_no_log_that_did_not_change(tmp_path, store, monkeypatch):
    await store.append(KEY, STORY)
    await check(store, STORY)

    def refuse(*_args, **_more):
        raise AssertionError("it was read")

    monkeypatch.setattr(summaries, "Entries", refuse)
    monkeypatch.setattr(summaries, "_fingerprint", refuse)
    await check(store, STORY)


@pytest.mark.parametrize(
    "harm", ["lost", "empty", "cut", "noise", "flipped", "stale", "of another log", "a directory"]
)
async def test_whatever_a_crash_leaves_of_it(tmp_path, store, at_once, harm):
    await store.append(KEY, STORY[:3])
    path = sidecar(tmp_path)
    stale = path.read_bytes()
    await store.append(KEY, STORY[3:])
    kept = path.read_bytes()
    if harm == "lost":
        shutil.rmtree(tmp_path / "summaries")
    elif harm == "a directory":
        path.unlink()
        path.mkdir()
    elif harm == "of another log":
        await store.append({**KEY, "session_id": "other"}, [prompt(9, "Another."), *STORY])
        shutil.copyfile(path.with_name("other.summary"), path)
        await store.delete({**KEY, "session_id": "other"})
    else:
        spoiled = {
            "empty": b"",
            "cut": kept[: len(kept) // 2],
            "noise": random.Random(3).randbytes(len(kept)),
            "flipped": kept.replace(b"The orchard", b"The 0rchard"),
            "stale": stale,
        }[harm]
        path.write_bytes(spoiled)
    await check(TurnlogSessionStore(tmp_path), STORY)
    await TurnlogSessionStore(tmp_path).append(KEY, [{"type": "tag", "tag": "spring"}])
    await check(store, [*STORY, {"type": "tag", "tag": "spring"}])


async def test_one_of_another_sdk_is_folded_anew(tmp_path, store, at_once, monkeypatch):
    await store.append(KEY, STORY[:3])
    monkeypatch.setattr(sdk, "__version__", "99.0")
    await store.append(KEY, STORY[3:])
    await check(store, STORY)


async def test_what_claude_code_wrote_itself_is_summarised(tmp_path, store):
    log = log_of(tmp_path, KEY)
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(each) + "\n" for each in STORY[:4]))
    await check(store, STORY[:4])
    with log.open("a") as file:  # It goes on, and then we do.
        file.write("".join(json.dumps(each) + "\n" for each in STORY[4:7]))
    await store.append(KEY, STORY[7:])
    await check(store, STORY)


async def test_a_log_that_was_rewritten_is_folded_anew(tmp_path, store):
    await store.append(KEY, STORY)
    await check(store, STORY)
    log = log_of(tmp_path, KEY)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] + lines[4:]))
    await check(store, STORY[:2] + STORY[4:])
    await store.append(KEY, [{"type": "tag", "tag": "x"}])
    await check(store, [*STORY[:2], *STORY[4:], {"type": "tag", "tag": "x"}])


async def test_a_log_rewritten_to_the_same_size_is_noticed(tmp_path, store):
    await store.append(KEY, STORY)
    await check(store, STORY)
    log = log_of(tmp_path, KEY)
    log.write_bytes(log.read_bytes().replace(b"The orchard", b"The 0rchard"))
    changed = [
        {**each, "customTitle": "The 0rchard"} if "customTitle" in each else each for each in STORY
    ]
    await check(store, changed)


async def test_a_torn_tail_is_not_folded_twice(tmp_path, store):
    last = {"type": "tag", "tag": "spring"}
    await store.append(KEY, STORY[:4])
    log = log_of(tmp_path, KEY)
    for torn in (json.dumps(last).encode(), b"\n", b'{"type":"tag","tag":"cut sh'):
        with log.open("ab") as file:
            file.write(torn)
        for each in (store, TurnlogSessionStore(tmp_path)):
            await check(each, [*STORY[:4], last])
    await store.append(KEY, STORY[4:])
    await check(store, [*STORY[:4], last, *STORY[4:]])


async def test_two_stores_take_turns(tmp_path, at_once):
    stores = [TurnlogSessionStore(tmp_path), TurnlogSessionStore(tmp_path)]
    for number, entry in enumerate(STORY):
        await stores[number % 2].append(KEY, [entry])
        if number % 4 == 3:
            await check(stores[number // 4 % 2], STORY[: number + 1])
    await check(stores[0], STORY)


async def test_an_entry_that_the_sdk_cannot_fold_is_passed_over(store, at_once, monkeypatch):
    real = sdk.fold_session_summary

    def picky(before, key, entries):
        if any(each.get("type") == "poison" for each in entries):
            raise RuntimeError("poison")
        return real(before, key, entries)

    monkeypatch.setattr(sdk, "fold_session_summary", picky)
    await store.append(KEY, [*STORY[:2], {"type": "poison"}, *STORY[2:5]])
    await store.append(KEY, [{"type": "poison"}])
    (summary,) = await store.list_session_summaries(PROJECT)
    assert summary["data"] == folded(STORY[:5])


async def test_an_agents_entries_are_in_no_summary(store, at_once):
    await store.append(KEY, STORY[:2])
    await store.append(AGENT, [{"type": "custom-title", "customTitle": "An agent's"}])
    await check(store, STORY[:2])


async def test_a_home_that_cannot_be_written_is_listed_all_the_same(tmp_path, store):
    await store.append(KEY, STORY)
    (tmp_path / "summaries").write_text("in the way")
    await check(store, STORY)
    await store.append(KEY, [{"type": "tag", "tag": "x"}])
    await check(store, [*STORY, {"type": "tag", "tag": "x"}])


async def test_they_are_not_taken_for_sessions_or_kept(tmp_path, store, at_once):
    import turnlog
    from turnlog.formats.home_files import home_files

    await store.append(KEY, STORY)
    assert sidecar(tmp_path).exists()
    assert [row.id for row in turnlog.open(tmp_path).sessions()] == [SESSION]
    assert [os.path.basename(file.name) for file in home_files(tmp_path)] == [f"{SESSION}.jsonl"]
