"""The Session protocol of the OpenAI Agents SDK: what goes in comes out, whatever happened."""

import json
import os
import subprocess
import sys
from collections import OrderedDict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from sampling import examples
from strategies import json_values, words
from turnlog.errors import NotSerialisable, UsageError
from turnlog.integrations.openai_agents import TurnlogSession, history
from turnlog.integrations.openai_agents.items import record_of
from turnlog.integrations.openai_agents.session import id_of
from turnlog.records.codec import decode, encode
from turnlog.records.damage import Damage
from turnlog.records.record import Record
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import read_last
from turnlog.storage.writer import LogWriter

PROMPT = {"role": "user", "content": "Will it freeze?"}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Ask the station."}],
    "encrypted_content": "gAAAAAB",
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "forecast",
    "arguments": '{"city":"Oslo"}',
    "status": "completed",
}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "frost before dawn"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Cover the beans.", "annotations": []}],
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
STRANGE = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAAC"}
TURN = [PROMPT, THOUGHT, CALL, RESULT, ANSWER]


def prompt(number):
    return {"role": "user", "content": f"prompt {number}"}


def prompts(count, start=0):
    return [prompt(number) for number in range(start, start + count)]


def run(function, *args, backend="asyncio", **named):
    return anyio.run(partial(function, *args, **named), backend=backend)


def add(session, items):
    return run(session.add_items, items)


def items_of(session, limit=None):
    return run(session.get_items, limit)


def log_of(root):
    (path,) = Path(root).glob("projects/*/*.jsonl")
    return path


def records_of(root):
    return [item.record for item in read_log(log_of(root)) if isinstance(item, Placed)]


@pytest.fixture
def session(tmp_path):
    return TurnlogSession("user_1", tmp_path, project=tmp_path)


@pytest.fixture(params=["asyncio", "trio"])
def backend(request):
    return request.param


# -- the protocol ---------------------------------------------------------------------------


def test_it_is_the_sdks_session(session):
    from agents.memory import Session as Protocol
    from agents.memory import SessionSettings

    assert isinstance(session, Protocol)
    assert session.session_id == "user_1"
    assert session.session_settings == SessionSettings()


def test_a_closed_session_refuses_as_the_sdks_own_do(session, tmp_path):
    from agents import SQLiteSession

    run(partial(session.add_items, TURN))
    theirs = SQLiteSession("user_1", tmp_path / "theirs.db")
    for each in (session, theirs):
        each.close()
        each.close()
        for call in (
            each.get_items,
            partial(each.get_items, 0),
            partial(each.add_items, TURN),
            each.pop_item,
            each.clear_session,
        ):
            with pytest.raises(RuntimeError, match="closed"):
                run(call)
    with pytest.raises(turnlog.ClosedLog):
        run(session.get_items)
    assert items_of(TurnlogSession("user_1", tmp_path, project=tmp_path)) == TURN


def test_what_is_not_json_is_a_type_error(session):
    with pytest.raises(TypeError) as raised:
        run(partial(session.add_items, [{"role": "user", "content": {1, 2}}]))
    assert isinstance(raised.value, turnlog.NotSerialisable)


def test_the_sdk_is_not_imported():
    code = (
        "import sys, turnlog.integrations.openai_agents as face;"
        "face.TurnlogSession('x', '/nowhere');"
        "print([name for name in sys.modules if name.partition('.')[0] in ('agents', 'openai')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_method_on_both_event_loops(session, backend):
    async def live():
        assert await session.get_items() == []
        await session.add_items(TURN)
        await session.add_items([STRANGE])
        assert await session.get_items() == [*TURN, STRANGE]
        assert await session.get_items(limit=2) == [ANSWER, STRANGE]
        assert await session.pop_item() == STRANGE
        assert await session.get_items() == TURN
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([PROMPT])
        assert await session.get_items() == [PROMPT]
        session.close()

    run(live, backend=backend)


def test_another_object_reads_the_same(session, tmp_path):
    add(session, TURN)
    assert items_of(TurnlogSession("user_1", tmp_path, project=tmp_path)) == TURN
    store = turnlog.open(tmp_path)
    assert items_of(TurnlogSession("user_1", store, project=tmp_path)) == TURN
    assert items_of(TurnlogSession("user_2", tmp_path, project=tmp_path)) == []


def test_items_come_back_as_values_of_their_own(session):
    given_item = {"role": "user", "content": [{"type": "input_text", "text": "a"}]}
    add(session, [given_item])
    given_item["content"][0]["text"] = "b"
    items_of(session)[0]["content"][0]["text"] = "c"
    run(session.pop_item)["content"].clear()
    add(session, [given_item])
    assert items_of(session)[0]["content"][0]["text"] == "b"


def test_nothing_is_begun_before_there_is_something(session, tmp_path):
    assert items_of(session) == []
    assert run(session.pop_item) is None
    run(session.clear_session)
    add(session, [])
    assert list(tmp_path.iterdir()) == []


def test_limits(session):
    add(session, prompts(5))
    assert items_of(session, 0) == []
    assert items_of(session, 1) == [prompt(4)]
    assert items_of(session, 10**9) == prompts(5)
    for odd in (-1, -(10**9), 2.0, "2", True):
        with pytest.raises(UsageError) as refusal:
            items_of(session, odd)
        assert refusal.value.hint


def test_settings_limit_unless_told_otherwise(tmp_path):
    from agents.memory import SessionSettings

    for given_settings in (SessionSettings(limit=2), {"limit": 2}):
        session = TurnlogSession("s", tmp_path, project=tmp_path, session_settings=given_settings)
        assert session.session_settings == SessionSettings(limit=2)
        run(session.clear_session)
        add(session, prompts(4))
        assert items_of(session) == prompts(2, 2)
        assert items_of(session, 3) == prompts(3, 1)
    for odd in ({"limits": 2}, {"limit": "many"}):
        with pytest.raises(UsageError):
            TurnlogSession("s", tmp_path, session_settings=odd)


def test_pops_and_clears_only_append(session, tmp_path):
    add(session, TURN)
    before = log_of(tmp_path).read_bytes()
    run(session.pop_item)
    run(session.clear_session)
    after = log_of(tmp_path).read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    run(session.clear_session)  # There is nothing left to clear.
    assert log_of(tmp_path).read_bytes() == after


# -- what cannot be stored ------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        "Hello",
        {"role": "user", "content": "one, not a list of it"},
        None,
        7,
        ["Hello"],
        [None],
        [["role", "user"]],
        [{"content": float("nan")}],
        [{"content": float("inf")}],
        [{"content": b"bytes"}],
        [{"content": datetime(2026, 11, 1, tzinfo=UTC)}],
        [{"content": {1, 2}}],
        [{(1, 2): "a key"}],
        [{"content": object()}],
    ],
    ids=lambda items: repr(items).partition(" at 0x")[0],
)
def test_what_is_no_item_is_refused_before_anything_is_written(session, tmp_path, odd):
    with pytest.raises(UsageError) as refusal:
        add(session, [PROMPT, *odd] if isinstance(odd, list) else odd)
    assert refusal.value.hint
    assert list(tmp_path.iterdir()) == []


def test_cycles_and_depths_are_refused(session, tmp_path):
    ring = {"role": "user"}
    ring["content"] = ring
    deep = []
    for _ in range(300):
        deep = [deep]
    abyss = []
    for _ in range(100_000):
        abyss = [abyss]
    for odd in (ring, {"content": deep}, {"content": abyss}):
        with pytest.raises(NotSerialisable):
            add(session, [odd])
    assert list(tmp_path.iterdir()) == []
    while abyss:  # Taken apart by hand: the interpreter's own way is a deep one.
        abyss = abyss[0]


def test_an_item_longer_than_a_line_may_be_is_refused(session):
    with pytest.raises(NotSerialisable):
        add(session, [{"role": "user", "content": "x" * (40 * 1024 * 1024)}])
    assert items_of(session) == []


def test_what_json_knows_in_another_guise_is_taken_as_json_has_it(session):
    add(session, [OrderedDict(role="user", content=("a", "b"))])
    assert items_of(session) == [{"role": "user", "content": ["a", "b"]}]


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\x00", "\u2028\x85\r\n", "\ufeff", "\U0010ffff", '"}\n{"', ""]
)
def test_any_text_survives(session, text):
    item = {"role": "user", "content": text, text: [text], "type": "message"}
    call = CALL | {"arguments": text, "call_id": text, "name": text}
    given_items = [item, call, RESULT | {"output": text}, {"type": text}]
    add(session, given_items)
    assert items_of(session) == given_items
    assert run(session.pop_item) == {"type": text}


# -- against a plain list -------------------------------------------------------------------

texts = words | st.text(st.characters(categories=["Cs"]), max_size=2)
kinds = st.sampled_from(
    ["message", "reasoning", "function_call", "function_call_output", "shell_call", "mcp_call"]
)
# Keys with a meaning come often, with and without the value they should have.
keys = st.sampled_from(
    ["type", "role", "content", "call_id", "id", "name", "arguments", "output", "summary", "text"]
)
roles = st.sampled_from(["user", "assistant", "system", "developer", "tool"])
parts = st.lists(
    st.fixed_dictionaries({"type": texts}, optional={"text": texts, "image_url": texts})
    | json_values,
    max_size=3,
)
any_items = st.one_of(
    st.sampled_from([*TURN, SEARCH, STRANGE]),
    st.builds(lambda role, content: {"role": role, "content": content}, roles, texts | parts),
    st.dictionaries(keys, kinds | roles | parts | json_values | texts, max_size=5),
    st.dictionaries(texts, json_values, max_size=3),
)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(any_items, max_size=5)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("get"), st.none() | st.integers(0, 12)),
    st.tuples(st.just("reopen"), st.none()),
)


async def live_as_a_list(root, done):
    session, model = TurnlogSession("s", root, project=root), []
    for step, what in done:
        if step == "add":
            await session.add_items(what)
            model += json.loads(json.dumps(what))  # Two lone surrogates may become one character.
        elif step == "pop":
            assert await session.pop_item() == (model.pop() if model else None)
        elif step == "clear":
            await session.clear_session()
            model.clear()
        elif step == "get":
            expected = model if what is None else model[len(model) - min(what, len(model)) :]
            assert await session.get_items(what) == expected
        else:
            session = TurnlogSession("s", root, project=root)
    assert await session.get_items() == model


@given(done=st.lists(steps, max_size=20))
def test_it_behaves_as_a_list_does(tmp_path_factory, done):
    run(live_as_a_list, tmp_path_factory.mktemp("root"), done)


@given(done=st.lists(steps, max_size=30), looks=st.integers(1, 3), furthest=st.integers(2, 20))
def test_it_does_however_far_is_looked_at_once(tmp_path_factory, done, looks, furthest):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(history, "_FURTHEST", furthest)
        patched.setattr(history, "_REMEMBERED", looks)
        patched.setattr(history.look_back, "__defaults__", (None, looks))
        run(live_as_a_list, tmp_path_factory.mktemp("root"), done)


@given(any_items)
def test_every_item_becomes_a_record_of_claude_codes(item):
    record = decode(encode(record_of(item)))
    assert isinstance(record, Record)
    assert record.type in {"user", "assistant", "system", "attachment"}
    assert record.fields["openaiItem"] == json.loads(json.dumps(item))
    assert record.dialect == "claude"


def test_many_pops_in_a_row_find_their_way_back(session, tmp_path, monkeypatch):
    monkeypatch.setattr(history, "_REMEMBERED", 50)
    add(session, prompts(300))

    async def pop_all(count):
        return [await session.pop_item() for _ in range(count)]

    assert run(pop_all, 200) == prompts(300)[:99:-1]
    assert items_of(session, 3) == prompts(3, 97)
    assert items_of(TurnlogSession("user_1", tmp_path, project=tmp_path)) == prompts(100)
    assert run(pop_all, 101) == [*prompts(100)[::-1], None]


def test_the_newest_are_found_without_reading_the_rest(session, tmp_path, monkeypatch):
    add(session, prompts(3000))
    looked = []

    def counted(path, count):
        looked.append(count)
        return read_last(path, count)

    with monkeypatch.context() as patched:
        patched.setattr(history, "read_last", counted)
        patched.setattr(history, "read_log", None)
        other = TurnlogSession("user_1", tmp_path, project=tmp_path)
        assert items_of(other, 20) == prompts(20, 2980)
        assert run(other.pop_item) == prompt(2999)
        assert items_of(other, 1) == [prompt(2998)]
        assert max(looked) < 100
        run(TurnlogSession("user_1", tmp_path, project=tmp_path).clear_session)
        looked.clear()
        assert items_of(other) == []  # Nobody reads what was cleared.
        assert max(looked) < 100
    assert items_of(session) == []


# -- damage ---------------------------------------------------------------------------------


def test_damaged_lines_are_passed_over_and_the_limit_counts_what_is_left(session, tmp_path):
    for item in prompts(6):
        add(session, [item])
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for number, spoiled in (
        (-1, b"\x00" * 80 + b"\n"),
        (-2, b'{"type":"user","openaiItem":{"role"\n'),
        (-4, b'{"type":"user","openaiItem":"no object","uuid":"u"}\n'),
    ):
        lines[number] = spoiled
    lines.insert(-3, b"[]\n\n42\n\xff\xfe\n")
    path.write_bytes(b"".join(lines))
    left = [prompt(0), prompt(1), prompt(3)]
    assert items_of(session) == left
    assert items_of(session, 2) == left[1:]
    assert run(session.pop_item) == prompt(3)
    assert items_of(session, 2) == left[:2]


def test_a_damaged_item_that_was_popped_takes_no_other_with_it(session, tmp_path):
    add(session, prompts(1))
    add(session, prompts(1, 1))
    run(session.pop_item)
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = b"#\n"
    path.write_bytes(b"".join(lines))
    assert items_of(session) == prompts(1)


def test_a_log_of_nothing_but_rubble_is_an_empty_session(session, tmp_path):
    add(session, TURN)
    log_of(tmp_path).write_bytes(b"\x00" * 5000 + b"\n{{{{\n")
    assert items_of(session) == []
    assert items_of(session, 3) == []
    assert run(session.pop_item) is None
    add(session, [PROMPT])
    assert items_of(session) == [PROMPT]


@given(cut=st.floats(0, 1, exclude_max=True), then=st.sampled_from(["add", "pop", "clear"]))
def test_an_addition_that_was_cut_short_is_none(tmp_path_factory, cut, then):
    root = tmp_path_factory.mktemp("root")
    session = TurnlogSession("user_1", root, project=root)
    add(session, prompts(2))
    path = log_of(root)
    before = path.stat().st_size
    add(session, TURN)
    # Without its newline the last record is whole all the same.
    whole = path.stat().st_size - 1
    os.truncate(path, before + int(cut * (whole - before)))
    assert items_of(session) == prompts(2)
    assert items_of(session, 1) == [prompt(1)]
    if then == "add":
        add(session, [ANSWER, PROMPT])
        expected = [*prompts(2), ANSWER, PROMPT]
    elif then == "pop":
        assert run(session.pop_item) == prompt(1)
        expected = prompts(1)
    else:
        run(session.clear_session)
        expected = []
    assert items_of(session) == expected
    assert items_of(TurnlogSession("user_1", root, project=root)) == expected


def test_rot_within_an_addition_costs_only_what_it_hit(session, tmp_path):
    add(session, TURN)
    add(session, prompts(3))
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[5] = b"rotten\n"  # Of the first addition the second and the last.
    lines[-1] = b"rotten\n"
    path.write_bytes(b"".join(lines))
    left = [PROMPT, CALL, RESULT, *prompts(2)]
    assert items_of(session) == left
    assert items_of(session, 1) == left[-1:]
    add(session, [ANSWER])
    assert items_of(session) == [*left, ANSWER]


def test_a_log_rewritten_under_an_object_is_read_anew(session, tmp_path):
    add(session, prompts(3))
    path = log_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(b"".join(lines[:-1]))  # As a repair replaces a log.
    beside.replace(path)
    run(session.pop_item)
    add(session, prompts(1, 7))
    assert [item["content"] for item in items_of(session)][-1] == "prompt 7"
    path.unlink()
    assert items_of(session) == []
    assert run(session.pop_item) is None
    add(session, [PROMPT])
    assert items_of(session) == [PROMPT]


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["user_123", "a", "5f0cbb52-2f4e-4d8c-9f26-1f0f6d2a3c11", "thread-7", "x" * 128]
)
def test_a_name_that_can_be_an_id_is_one(name):
    assert id_of(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "ada@example.com",
        "../../etc/passwd",
        "/absolute",
        "a/b",
        "a\\b",
        "C:evil",
        ".",
        "..",
        " ",
        "a\x00b",
        "nul",
        "history",
        "journal",
        "agent-1",
        "latest",
        "2026-11-01",
        "User_1",
        "x" * 129,
        "x" * 512,
        "naïve",
        "\ud800",
        "a\n",
        "1ede58ac-84ac-53cd-ba41-ba22ca2e93bd",
    ],
    ids=ascii,
)
def test_every_other_name_has_an_id_of_its_own_and_keeps_its_name(tmp_path, name):
    session = TurnlogSession(name, tmp_path, project=tmp_path)
    assert session.log_id != name
    assert turnlog.formats.is_uuid(session.log_id)
    add(session, [PROMPT])
    assert log_of(tmp_path).stem == session.log_id
    assert items_of(TurnlogSession(name, tmp_path, project=tmp_path)) == [PROMPT]
    head = json.loads(log_of(tmp_path).read_bytes().splitlines()[0])
    assert head["openaiSession"] == name
    # Who gives the id of another's session gets one of their own.
    assert items_of(TurnlogSession(session.log_id, tmp_path, project=tmp_path)) == []


def test_a_name_is_a_text_and_not_empty(tmp_path):
    for odd in ("", None, 7, b"bytes", "x" * 513):
        with pytest.raises(UsageError) as refusal:
            TurnlogSession(odd, tmp_path)
        assert refusal.value.hint


@settings(max_examples=examples(200))
@given(texts.filter(bool), texts.filter(bool))
def test_no_two_names_share_a_log_on_any_file_system(one, other):
    if one != other:
        assert id_of(one).lower() != id_of(other).lower()


def test_a_session_goes_on_where_it_lies_whatever_the_project(tmp_path):
    add(TurnlogSession("s", tmp_path, project=tmp_path / "one"), prompts(1))
    add(TurnlogSession("s", tmp_path, project=tmp_path / "two"), prompts(1, 1))
    assert items_of(TurnlogSession("s", tmp_path, project=tmp_path / "three")) == prompts(2)
    log_of(tmp_path)  # There is one log.


def test_records_of_others_in_the_log_are_no_items(session, tmp_path):
    add(session, prompts(2))
    with LogWriter(log_of(tmp_path)) as log:
        log.append({"type": "user", "message": {"role": "user", "content": '"openaiItem"'}})
        log.append({"type": "openai-pop", "popped": ["no", "uuid"]})
        log.append({"type": "openai-strange"})
    add(session, prompts(1, 2))
    assert items_of(session) == prompts(3)
    assert not any(isinstance(item, Damage) for item in read_log(log_of(tmp_path)))
