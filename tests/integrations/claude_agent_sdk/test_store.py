"""The SDK's session store: its own suite, the stricter points of the other, what comes back."""

import json
import os
import sys
from functools import partial

import anyio
import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk.testing import run_session_store_conformance

import turnlog
from integrations.claude_agent_sdk.claude_entries import (
    AGENT,
    KEY,
    PROJECT,
    SESSION,
    answer,
    log_of,
    prompt,
    talk,
)
from turnlog.errors import InvalidId, NotSerialisable, UsageError
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path):
    return TurnlogSessionStore(tmp_path)


def everything_in(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# -- the contract ---------------------------------------------------------------------------


async def test_the_sdks_own_suite(tmp_path):
    numbers = iter(range(100))
    await run_session_store_conformance(lambda: TurnlogSessionStore(tmp_path / str(next(numbers))))


async def test_the_sdks_own_suite_on_a_turnlog_store(tmp_path):
    numbers = iter(range(100))

    def make():
        return TurnlogSessionStore(turnlog.open(tmp_path / str(next(numbers))))

    await run_session_store_conformance(make)


async def test_an_empty_append_to_a_new_key_leaves_nothing(tmp_path, store):
    await store.append(KEY, [])
    await store.append(AGENT, [])
    assert await store.load(KEY) is None
    assert await store.load(AGENT) is None
    assert await store.list_sessions(PROJECT) == []
    assert await store.list_subkeys(KEY) == []
    assert everything_in(tmp_path) == []


async def test_a_session_with_only_agents_is_not_listed(store):
    await store.append(AGENT, [prompt(0)])
    assert await store.list_sessions(PROJECT) == []
    assert await store.list_session_summaries(PROJECT) == []
    assert await store.load(KEY) is None
    assert await store.list_subkeys(KEY) == [AGENT["subpath"]]


async def test_an_agents_append_does_not_move_its_sessions_time(store):
    await store.append(KEY, [prompt(0)])
    before = await store.list_sessions(PROJECT)
    await anyio.sleep(0.02)
    await store.append(AGENT, [prompt(1)])
    assert await store.list_sessions(PROJECT) == before


# -- each entry once ------------------------------------------------------------------------


async def test_an_entry_with_a_uuid_is_written_once_in_its_log(store):
    first, second = prompt(0), prompt(1)
    await store.append(KEY, [first, second, first])
    await store.append(KEY, [second, {**first, "message": "another"}])
    assert await store.load(KEY) == [first, second]


async def test_entries_without_a_uuid_are_written_every_time(store):
    latch = {"type": "atis-latch", "value": 1}
    odd = [{"type": "x", "uuid": 7}, {"type": "x", "uuid": None}, {"type": "x", "uuid": ""}]
    await store.append(KEY, [latch, latch, *odd])
    await store.append(KEY, [latch, *odd])
    assert await store.load(KEY) == [latch, latch, *odd, latch, *odd]


async def test_a_uuid_is_known_within_its_own_log_only(store):
    keys = [
        KEY,
        AGENT,
        {**KEY, "subpath": "subagents/agent-a1b2c4"},
        {**KEY, "session_id": "another"},
        {**KEY, "project_key": "-home-ada-garden"},
    ]
    for key in keys:
        await store.append(key, [prompt(0)])
    for key in keys:
        assert await store.load(key) == [prompt(0)]


async def test_what_is_appended_again_changes_neither_bytes_nor_time(tmp_path, store):
    await store.append(KEY, talk(5))
    log = log_of(tmp_path, KEY)
    before = log.read_bytes(), log.stat().st_mtime_ns, log.stat().st_ino
    await anyio.sleep(0.02)
    for each in (store, TurnlogSessionStore(tmp_path)):
        await each.append(KEY, talk(5))
        await each.append(KEY, talk(2, start=2))
    assert (log.read_bytes(), log.stat().st_mtime_ns, log.stat().st_ino) == before


async def test_a_batch_of_which_a_prefix_stands_is_completed(tmp_path):
    batch = talk(6)
    whole = b"".join(json.dumps(each).encode() + b"\n" for each in batch)
    for cut in range(0, len(whole), 97):
        root = tmp_path / str(cut)
        log = log_of(root, KEY)
        log.parent.mkdir(parents=True)
        log.write_bytes(whole[:cut])
        store = TurnlogSessionStore(root)
        await store.append(KEY, batch)
        assert await store.load(KEY) == batch


async def test_what_another_store_wrote_meanwhile_is_known(tmp_path, store):
    other = TurnlogSessionStore(tmp_path)
    for n in range(6):
        await (store, other)[n % 2].append(KEY, [prompt(n)])
        await (other, store)[n % 2].append(KEY, [prompt(n)])
    assert await store.load(KEY) == [prompt(n) for n in range(6)]


async def test_appends_are_written_in_the_order_in_which_they_were_asked_for(store):
    asked = []

    async def append(n):
        asked.append(n)  # trio starts tasks in an order of its own.
        await store.append(KEY, [{"type": "x", "n": n}])

    async with anyio.create_task_group() as group:
        for n in range(30):
            group.start_soon(append, n)
    assert [entry["n"] for entry in await store.load(KEY)] == asked


async def test_a_store_may_be_opened_again(tmp_path, store):
    await store.append(KEY, talk(4))
    store.close()
    await store.append(KEY, talk(2, start=4))
    async with TurnlogSessionStore(tmp_path) as again:
        await again.append(KEY, talk(3, start=3))
        assert await again.load(KEY) == talk(6)


# -- what comes back ------------------------------------------------------------------------

ODD_VALUES = [
    {"type": "user", "text": "\ud800 alone, \udfff too"},
    {"type": "user", "\ud800": "\ud83d"},
    {"type": "user", "text": "a NUL \x00 and more \x01\x1f\x7f"},
    {"type": "user", "text": "lines \u2028 paragraphs \u2029 next \x85 end\r\n\t"},
    {"type": "user", "numbers": [0, -1, 2**53 + 1, 2**64, -(2**70), 10**40]},
    {"type": "user", "floats": [0.1, 1e308, 5e-324, 1.0, -2.5, 1e22]},
    {"type": "user", "deep": json.loads("[" * 100 + "]" * 100)},
    {"type": "user", "": {"": [{}, [], "", None, True, False]}},
    {"type": "turnlog", "format": 1, "writer": "somebody else"},
    {"type": "x", "text": '"}\n{"type":"user"'},
    {"no": "type"},
    {},
]


async def test_odd_values_come_back_as_they_were(tmp_path, store):
    await store.append(KEY, ODD_VALUES)
    for entry in ODD_VALUES:
        await store.append(AGENT, [entry])
    for each in (store, TurnlogSessionStore(tmp_path)):
        assert await each.load(KEY) == ODD_VALUES
        assert await each.load(AGENT) == ODD_VALUES
    assert log_of(tmp_path, KEY).read_bytes().count(b"\n") == len(ODD_VALUES)


async def test_what_is_loaded_is_the_callers_own(store):
    await store.append(KEY, [prompt(0)])
    (await store.load(KEY))[0]["message"]["content"] = "changed"
    assert await store.load(KEY) == [prompt(0)]


async def test_damage_is_left_out_and_the_rest_is_given(tmp_path, store):
    await store.append(KEY, [prompt(0)])
    one, two, three = (json.dumps(prompt(n)).encode() for n in (1, 2, 3))
    nested = json.dumps({"type": "progress", "data": prompt(9), "more": 1}).encode()
    with log_of(tmp_path, KEY).open("ab") as log:
        log.write(b"\xff\xfe not JSON\n\n42\n[]\n" + b"\0" * 600 + b"\n")
        log.write(one + two + b"\n")  # Glued by a writer that knows no newline.
        log.write(nested[:-5] + b"\n")  # Cut: what is in it was never a record of its own.
        log.write(b"\0" * 40 + three + b"\n")
        log.write(b'{"type":"user","uuid":"cut')
    assert await store.load(KEY) == [prompt(n) for n in range(4)]
    await store.append(KEY, [prompt(2), prompt(4)])
    assert await store.load(KEY) == [prompt(n) for n in range(5)]


async def test_a_last_line_without_an_end_counts_once(tmp_path, store):
    log = log_of(tmp_path, KEY)
    log.parent.mkdir(parents=True)
    log.write_bytes(json.dumps(prompt(0)).encode())
    assert await store.load(KEY) == [prompt(0)]
    await store.append(KEY, [prompt(0), prompt(1)])
    assert await store.load(KEY) == [prompt(0), prompt(1)]


async def test_a_log_without_an_entry_was_never_written(tmp_path, store):
    log = log_of(tmp_path, KEY)
    log.parent.mkdir(parents=True)
    log.touch()
    assert await store.load(KEY) is None
    assert await store.list_sessions(PROJECT) == []
    await store.append(KEY, [prompt(0)])
    assert await store.load(KEY) == [prompt(0)]


@pytest.mark.slow
async def test_a_hundred_thousand_entries(tmp_path, store):
    entries = [{"type": "x", "uuid": f"u{n}", "text": f"entry {n} \u2028"} for n in range(100_000)]
    entries[40_000]["text"] = "\ud800"  # One block is read the slow way.
    for start in range(0, len(entries), 20_000):
        await store.append(KEY, entries[start : start + 20_000])
    again = TurnlogSessionStore(tmp_path)
    await again.append(KEY, entries[-5_000:])
    assert await again.load(KEY) == entries


# -- an agent's metadata --------------------------------------------------------------------


async def test_an_agents_metadata_lies_where_claude_code_looks_for_it(tmp_path, store):
    said = [
        {"type": "agent_metadata", "agentType": "gardener", "toolUseId": "toolu_1"},
        {"type": "agent_metadata", "agentType": "forester", "toolUseId": "toolu_1"},
    ]
    await store.append(AGENT, [said[0], prompt(0), said[1]])
    meta = log_of(tmp_path, AGENT).with_suffix(".meta.json")
    assert json.loads(meta.read_bytes()) == {"agentType": "forester", "toolUseId": "toolu_1"}
    assert meta.stat().st_mode & 0o777 == 0o600
    assert await store.load(AGENT) == [said[0], prompt(0), said[1]]
    assert await store.list_subkeys(KEY) == [AGENT["subpath"]]
    meta.unlink()  # As if its writer had been killed before it wrote it.
    await TurnlogSessionStore(tmp_path).append(AGENT, [prompt(1)])
    assert json.loads(meta.read_bytes())["agentType"] == "forester"


async def test_metadata_that_only_claude_code_wrote_is_given(tmp_path, store):
    await store.append(AGENT, [prompt(0)])
    meta = log_of(tmp_path, AGENT).with_suffix(".meta.json")
    meta.write_text('{"agentType": "gardener", "type": "odd"}')
    given = {"type": "agent_metadata", "agentType": "gardener"}
    assert await store.load(AGENT) == [given, prompt(0)]
    for nonsense in ("[1]", "{", "\0"):
        meta.write_text(nonsense)
        assert await store.load(AGENT) == [prompt(0)]


async def test_metadata_elsewhere_is_an_entry_like_any_other(tmp_path, store):
    said = {"type": "agent_metadata", "agentType": "gardener"}
    for key in (KEY, {**KEY, "subpath": "subagents/agent-é"}, {**KEY, "subpath": "agent-a"}):
        await store.append(key, [said])
        assert await store.load(key) == [said]
    assert not list(tmp_path.rglob("*.meta.json"))


# -- bad input ------------------------------------------------------------------------------

BAD_KEYS = [
    None,
    "proj/sess",
    [],
    {},
    {"project_key": PROJECT},
    {"session_id": SESSION},
    {**KEY, "sub_path": "x"},
    {**KEY, 7: "x"},
    *({**KEY, "project_key": each} for each in (None, 7, "", ".", "..", "a/b", "../x", "/etc")),
    *({**KEY, "project_key": each} for each in ("a\\b", "C:x", "a\0b", "a\nb", "x" * 256)),
    *({**KEY, "project_key": each} for each in ("é" * 200, "a\u202eb", "a" * 10**6)),
    *({**KEY, "project_key": each} for each in (".hidden", "x.", "x ", "x.jsonl", "nul", "\ud800")),
    *({**KEY, "session_id": each} for each in (None, 7, "", ".", "..", "a/b", "../x", "a.b")),
    *({**KEY, "session_id": each} for each in ("a\\b", "a\0b", "x" * 129, "-x", "é", "x\n", "con")),
    *({**KEY, "session_id": each} for each in ("history", "journal", "agent-x", "2026-10-05")),
    *({**KEY, "subpath": each} for each in ("", 7, b"x", ["a"], "x" * 1001, "é" * 600)),
]  # fmt: skip


@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key)[:60])
async def test_a_bad_key_is_refused_by_every_method(tmp_path, store, key):
    for ask in (partial(store.append, entries=[prompt(0)]), store.load, store.delete):
        with pytest.raises(UsageError) as caught:
            await ask(key)
        assert caught.value.hint
        assert len(str(caught.value)) < 300
    if not isinstance(key, dict) or "subpath" not in key:
        with pytest.raises(UsageError):
            await store.list_subkeys(key)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("project", [None, 7, "", "..", "a/b", "\0", b"x", "x" * 256])
async def test_a_bad_project_key_is_refused(tmp_path, store, project):
    for ask in (store.list_sessions, store.list_session_summaries):
        with pytest.raises(UsageError) as caught:
            await ask(project)
        assert caught.value.hint
    assert everything_in(tmp_path) == []


class _Odd:
    pass


def _endless():
    entry = {"type": "x"}
    entry["self"] = entry
    return entry


BAD_ENTRIES = [
    None,
    7,
    "text",
    prompt(0),
    iter([prompt(0)]),
    {prompt(0)["uuid"]},
    [None],
    ["text"],
    [[prompt(0)]],
    [prompt(0), 7],
    [{"type": "x", "value": float("nan")}],
    [{"type": "x", "value": [1, {"y": float("inf")}]}],
    [{"type": "x", "value": _Odd()}],
    [{"type": "x", "value": {1: 2}}],
    [{"type": "x", "value": (1, 2)}],
    [{"type": "x", "value": b"bytes"}],
    [{"type": "x", "value": {1, 2}}],
    [{"type": "x", 7: "x"}],
    [_endless()],
    [prompt(0), {"type": "x", "value": 10**5000}],
]


@pytest.mark.parametrize("number", range(len(BAD_ENTRIES)))
async def test_bad_entries_are_refused_before_a_byte_is_written(tmp_path, store, number):
    with pytest.raises(UsageError) as caught:
        await store.append(KEY, BAD_ENTRIES[number])
    assert caught.value.hint
    assert everything_in(tmp_path) == []


async def test_an_entry_over_the_cap_is_refused(tmp_path, store):
    with pytest.raises(NotSerialisable, match="more than the limit"):
        await store.append(KEY, [{"type": "x", "text": "x" * (64 * 1024 * 1024)}])
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("root", [7, b"x", object(), ["x"], "a\0b"])
async def test_a_bad_root_is_refused(root):
    with pytest.raises(UsageError):
        TurnlogSessionStore(root)


async def test_a_file_is_no_root(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        TurnlogSessionStore(tmp_path / "file")


async def test_what_was_never_written_is_nothing(tmp_path, store):
    assert await store.load(KEY) is None
    assert await store.load(AGENT) is None
    assert await store.list_subkeys(KEY) == []
    assert await store.list_sessions(PROJECT) == []
    assert await store.list_session_summaries(PROJECT) == []
    await store.delete(KEY)
    await store.delete(AGENT)
    assert everything_in(tmp_path) == []


async def test_a_link_is_not_written_through(tmp_path, store):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / PROJECT).symlink_to(outside)
    with pytest.raises(turnlog.NotALog):
        await store.append(KEY, [prompt(0)])
    assert list(outside.iterdir()) == []


# -- bounds ---------------------------------------------------------------------------------


async def test_few_logs_are_held_open(tmp_path, store, monkeypatch):
    monkeypatch.setattr("turnlog.integrations.claude_agent_sdk.append._MAX_LINES", 8)
    before = len(os.listdir("/proc/self/fd"))
    for round_number in range(2):
        for n in range(30):
            await store.append({**KEY, "session_id": f"s{n}"}, [prompt(round_number)])
    assert len(os.listdir("/proc/self/fd")) - before < 12
    store.close()
    assert len(os.listdir("/proc/self/fd")) - before < 4
    for n in range(30):
        assert await store.load({**KEY, "session_id": f"s{n}"}) == [prompt(0), prompt(1)]


async def test_few_uuids_are_remembered(tmp_path, store, monkeypatch):
    monkeypatch.setattr("turnlog.integrations.claude_agent_sdk.append._MAX_UUIDS", 50)
    for round_number in range(3):
        for n in range(4):
            await store.append({**KEY, "session_id": f"s{n}"}, talk(20 + 10 * round_number))
    assert sum(len(line.uuids) for line in store._lines._logs.values()) <= 50
    for n in range(4):
        assert await store.load({**KEY, "session_id": f"s{n}"}) == talk(40)


async def test_files_are_private(tmp_path):
    root = tmp_path / "root"
    await TurnlogSessionStore(root).append(AGENT, [prompt(0)])
    modes = {path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")] if path.is_dir()}
    assert modes == {0o700}
    assert log_of(root, AGENT).stat().st_mode & 0o777 == 0o600


# -- a session like any other ---------------------------------------------------------------


async def test_what_is_stored_is_an_ordinary_session(tmp_path, store):
    talked = [prompt(0, "Where does the frost alert come from?"), answer(1, "From the barn.")]
    await store.append(KEY, talked)
    of_agent = {"isSidechain": True, "agentId": "a1b2c3"}
    await store.append(AGENT, [each | of_agent for each in talk(2, start=10)])
    with turnlog.open(tmp_path) as home:
        (row,) = home.sessions()
        assert row.id == SESSION
        assert row.title == "Where does the frost alert come from?"
        session = home.session(SESSION[:6])
        assert [record.text for _, record in session.records(session.thread)] == [
            "Where does the frost alert come from?",
            "From the barn.",
        ]
        assert len(session.subagents) == 1
        assert session.totals.tokens.output == 40
        assert home.search("frost alert").hits[0].session == SESSION
        with home.resume(SESSION) as writer:
            writer.append(turnlog.build.user("Thank you."))
    texts = [each["message"]["content"] for each in await store.load(KEY) if each["type"] == "user"]
    assert texts == ["Where does the frost alert come from?", "Thank you."]


async def test_ids_that_are_no_uuids_are_ordinary_too(tmp_path, store):
    key = {"project_key": "proj", "session_id": "sess"}
    await store.append(key, talk(2))
    assert [row.id for row in turnlog.open(tmp_path).sessions()] == ["sess"]


async def test_without_a_root_it_is_turnlogs_own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    await TurnlogSessionStore().append(KEY, talk(2))
    assert log_of(tmp_path / "own", KEY).is_file()
    assert SESSION in {row.id for row in turnlog.open().sessions()}


# -- the SDK's helpers ----------------------------------------------------------------------


async def test_the_sdks_helpers(tmp_path, store):
    directory = tmp_path / "orchard"
    directory.mkdir()
    project = sdk.project_key_for_directory(str(directory))
    key = {"project_key": project, "session_id": SESSION}
    where = {"directory": str(directory)}
    await store.append(key, talk(4))
    await store.append({**key, "subpath": "subagents/agent-a1"}, talk(2))
    (info,) = await sdk.list_sessions_from_store(store, **where)
    assert (info.session_id, info.first_prompt) == (SESSION, "Prune tree number 0.")
    messages = await sdk.get_session_messages_from_store(store, SESSION, **where)
    assert [each.uuid for each in messages] == [each["uuid"] for each in talk(4)]
    assert await sdk.list_subagents_from_store(store, SESSION, **where) == ["a1"]
    of_agent = await sdk.get_subagent_messages_from_store(store, SESSION, "a1", **where)
    assert len(of_agent) == 2
    await sdk.rename_session_via_store(store, SESSION, "The orchard", **where)
    await sdk.tag_session_via_store(store, SESSION, "winter", **where)
    (info,) = await sdk.list_sessions_from_store(store, **where)
    assert (info.custom_title, info.tag) == ("The orchard", "winter")
    assert turnlog.open(store.root).session(SESSION).summary.title == "The orchard"
    forked = await sdk.fork_session_via_store(store, SESSION, **where)
    messages = await sdk.get_session_messages_from_store(store, forked.session_id, **where)
    assert [each.message["role"] for each in messages] == ["user", "assistant"] * 2
    await sdk.delete_session_via_store(store, SESSION, **where)
    (info,) = await sdk.list_sessions_from_store(store, **where)
    assert info.session_id == forked.session_id


async def test_of_logs_written_in_one_tick_the_one_with_the_last_record_goes_on(store):
    """What the SDK continues is the first of those with the latest time."""
    tick = 1_793_527_200_004_000_000
    for digit, at in (("1", "007"), ("2", "009"), ("3", "008")):
        key = {"project_key": PROJECT, "session_id": f"{digit * 8}-aaaa-4aaa-8aaa-{digit * 12}"}
        entry = prompt(0) | {"timestamp": f"2026-11-01T10:00:00.{at}Z"}
        await store.append(key, [entry])
        os.utime(log_of(store.root, key), ns=(tick, tick))
    listed = [each["session_id"][0] for each in await store.list_sessions(PROJECT)]
    summaries = [each["session_id"][0] for each in await store.list_session_summaries(PROJECT)]
    assert listed == summaries == ["2", "3", "1"]


async def test_importing_it_imports_no_sdk(tmp_path):
    code = """
import sys, anyio
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
async def main():
    store = TurnlogSessionStore(sys.argv[1])
    key = {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "x"}])
    assert await store.load(key) == [{"type": "x"}]
    assert [each["session_id"] for each in await store.list_sessions("p")] == ["s"]
    await store.delete(key)
anyio.run(main)
print([name for name in sys.modules if name.startswith(("claude_agent_sdk", "mcp"))])
"""
    done = await anyio.run_process([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert (done.returncode, done.stdout.strip()) == (0, b"[]"), done.stderr.decode()


async def test_without_the_sdk_summaries_say_what_to_install(tmp_path):
    code = """
import sys, anyio
sys.modules["claude_agent_sdk"] = None
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.errors import UsageError
async def main():
    store = TurnlogSessionStore(sys.argv[1])
    await store.append({"project_key": "p", "session_id": "s"}, [{"type": "x"}])
    try:
        await store.list_session_summaries("p")
    except UsageError as error:
        print(error.hint)
anyio.run(main)
"""
    done = await anyio.run_process([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.stdout.strip() == b"pip install claude-agent-sdk", done.stderr.decode()


async def test_an_invalid_id_is_one_of_turnlogs_own(store):
    with pytest.raises(InvalidId):
        await store.load({**KEY, "session_id": "../x"})
