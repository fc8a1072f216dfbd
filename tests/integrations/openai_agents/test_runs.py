"""The real Runner of the OpenAI Agents SDK over our sessions, and what turnlog sees of them."""

import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import anyio
import pytest
from agents import Agent, ModelBehaviorError, RunConfig, Runner, SQLiteSession, function_tool

import turnlog
from integrations.openai_agents.openai_fakes import FakeModel, call, message, provider, thought
from turnlog.errors import UsageError
from turnlog.integrations.openai_agents import TurnlogSession

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides" / "openai-agents.md").read_text("utf-8")
QUIET = RunConfig(tracing_disabled=True)

OUTPUTS = (
    [thought("Ask the station."), call("forecast", "c1", city="Oslo")],
    [call("forecast", "c2", city="Bergen"), call("forecast", "c3", city="Tromso")],
    [message("Cover the beans.")],
    [message("Oslo, Bergen and Tromso.")],
)


@function_tool
def forecast(city: str) -> str:
    """Tell the weather of the coming night."""
    return f"frost in {city}"


@pytest.fixture
def session(tmp_path):
    return TurnlogSession("user_1", tmp_path / "root", project=tmp_path / "orchard")


async def two_turns(session):
    """Let an agent answer twice; give the model, with what it was asked, and the results."""
    model = FakeModel(*OUTPUTS)
    agent = Agent(name="Gardener", model=model, tools=[forecast])
    results = [
        await Runner.run(agent, question, session=session, run_config=QUIET)
        for question in ("Will it freeze?", "Where?")
    ]
    return model, results


async def with_usage(session):
    _, results = await two_turns(session)
    for result in results:
        await session.store_run_usage(result)
    return results


# -- the runner -----------------------------------------------------------------------------


def test_an_agent_with_tools_goes_on_from_what_was_said(session, tmp_path):
    async def both():
        theirs = SQLiteSession("user_1", tmp_path / "theirs.db")
        try:
            their_model, _ = await two_turns(theirs)
            model, results = await two_turns(session)
            return model.asked, their_model.asked, results, await theirs.get_items()
        finally:
            theirs.close()

    asked, asked_of_theirs, results, items_of_theirs = anyio.run(both)
    assert [result.final_output for result in results] == [
        "Cover the beans.",
        "Oslo, Bergen and Tromso.",
    ]
    assert asked == asked_of_theirs
    assert len(asked[-1]) == len(items_of_theirs) - 1
    again = TurnlogSession("user_1", tmp_path / "root", project=tmp_path / "orchard")
    assert anyio.run(again.get_items) == items_of_theirs


def test_the_settings_of_a_run_limit_what_the_model_is_given(session):
    async def work():
        await two_turns(session)
        model = FakeModel([message("Yes.")])
        limited = RunConfig(tracing_disabled=True, session_settings={"limit": 2})
        agent = Agent(name="Gardener", model=model)
        await Runner.run(agent, "Sure?", session=session, run_config=limited)
        return model.asked[0]

    given = anyio.run(work)
    assert given[0]["content"] == "Where?"
    assert len(given) == 3


def test_a_run_that_fails_leaves_what_it_had_added(session):
    async def work():
        agent = Agent(name="Gardener", model=FakeModel([call("no_such_tool", "c1")]))
        with pytest.raises(ModelBehaviorError):
            await Runner.run(agent, "Will it freeze?", session=session, run_config=QUIET)
        return await session.get_items()

    assert anyio.run(work)[0] == {"role": "user", "content": "Will it freeze?"}


# -- what turnlog sees ----------------------------------------------------------------------


def found(store, session_id="user_1"):
    return store.session(session_id)


def shown(session, nodes=None):
    """What the whole thread says, a word for each record that says something."""
    told = []
    for _, record in session.records(session.whole_thread if nodes is None else nodes):
        for block in record.blocks if hasattr(record, "blocks") else ():
            kind = type(block).__name__
            told.append(getattr(block, "text", None) or getattr(block, "name", None) or kind)
    return told


def test_it_is_listed_shown_and_searched_as_any_session_is(session, tmp_path):
    anyio.run(two_turns, session)
    store = turnlog.open(tmp_path / "root")
    (row,) = store.sessions()
    assert (row.id, row.title) == ("user_1", "Will it freeze?")
    assert row.project == str(tmp_path / "orchard")
    assert row.records == 11
    seen = found(store)
    assert not seen.tree.gaps
    assert len(seen.turns) == 2
    assert shown(seen) == [
        "Will it freeze?",
        "ThinkingBlock",
        "forecast",
        "frost in Oslo",
        "forecast",
        "forecast",
        "frost in Bergen",
        "frost in Tromso",
        "Cover the beans.",
        "Where?",
        "Oslo, Bergen and Tromso.",
    ]
    calls = [call for _, record in seen.records(seen.thread) for call in record.calls]
    assert [call.input for call in calls] == [{"city": c} for c in ("Oslo", "Bergen", "Tromso")]
    assert [hit.session for hit in store.search("beans").hits] == ["user_1"]
    assert [hit.session for hit in store.search("station").hits] == ["user_1"]
    assert turnlog.validate(seen.path).findings == []


def test_another_name_is_the_title(tmp_path):
    session = TurnlogSession("ada@example.com", tmp_path, project=tmp_path)
    anyio.run(two_turns, session)
    (row,) = turnlog.open(tmp_path).sessions()
    assert (row.id, row.title) == (session.log_id, "ada@example.com")


def test_what_was_popped_is_a_branch_and_what_was_cleared_a_thread_of_its_own(session, tmp_path):
    async def work():
        for words in ("first", "second", "third"):
            await session.add_items([{"role": "user", "content": words}])
        await session.pop_item()
        await session.pop_item()
        await session.add_items([{"role": "user", "content": "instead"}])

    anyio.run(work)
    store = turnlog.open(tmp_path / "root")
    assert shown(found(store)) == ["first", "instead"]
    anyio.run(session.clear_session)
    anyio.run(session.add_items, [{"role": "user", "content": "anew"}])
    seen = found(store)
    assert shown(seen) == ["anew"]
    assert len(seen.tree.roots) == 2
    everything = {word for node in seen.tree.nodes for word in shown(seen, [node])}
    assert everything == {"first", "second", "third", "instead", "anew"}
    assert [hit.session for hit in store.search("third").hits] == ["user_1"]


def test_an_archived_session_is_read_and_goes_on(session, tmp_path):
    anyio.run(two_turns, session)
    before = anyio.run(session.get_items)
    store = turnlog.open(tmp_path / "root")
    store.archive("user_1", remove=True)
    assert not list((tmp_path / "root").glob("projects/*/*.jsonl"))
    again = TurnlogSession("user_1", store, project=tmp_path / "elsewhere")
    assert anyio.run(again.get_items) == before
    assert anyio.run(again.get_items, 2) == before[-2:]
    assert anyio.run(again.pop_item) == before[-1]
    assert anyio.run(session.get_items) == before[:-1]
    assert [row.id for row in store.sessions()] == ["user_1"]


def test_a_deleted_session_begins_anew(session, tmp_path):
    anyio.run(two_turns, session)
    turnlog.open(tmp_path / "root").delete("user_1")
    assert anyio.run(session.get_items) == []
    assert anyio.run(session.pop_item) is None
    anyio.run(session.add_items, [{"role": "user", "content": "anew"}])
    assert len(anyio.run(session.get_items)) == 1


def test_a_fork_goes_on_from_what_counts(session, tmp_path):
    anyio.run(two_turns, session)
    anyio.run(session.pop_item)
    anyio.run(session.add_items, [{"type": "compaction", "encrypted_content": "gA"}])
    anyio.run(session.add_items, [{"role": "user", "content": "And then?"}])
    store = turnlog.open(tmp_path / "root")
    with store.create(project=tmp_path / "orchard", session_id="user_1-b") as fork:
        turnlog.fork(found(store), fork)
    forked = TurnlogSession("user_1-b", store, project=tmp_path / "orchard")
    assert anyio.run(forked.get_items) == anyio.run(session.get_items)


# -- what it costs --------------------------------------------------------------------------


def test_usage_is_counted_once_and_priced(session, tmp_path):
    async def work():
        for result in await with_usage(session):
            await session.store_run_usage(result)  # Told again, it counts no more.
        return await session.get_items()

    items = anyio.run(work)
    assert len(items) == 11
    totals = found(turnlog.open(tmp_path / "root")).totals
    assert totals.messages == 4
    assert set(totals.by_model) == {"gpt-5"}
    used = totals.tokens
    assert (used.input, used.cache_read, used.output) == (4 * 600, 4 * 400, 4 * 100)
    assert totals.unpriced == []
    assert totals.cost_usd > Decimal(0)
    assert shown(found(turnlog.open(tmp_path / "root")))[-1] == "Oslo, Bergen and Tromso."


def test_after_a_handoff_each_response_is_under_its_own_agents_model(session, tmp_path):
    async def work():
        answers = FakeModel([message("Frost.")], model="gpt-5-mini", first=2)
        expert = Agent(name="Expert", model=answers)
        asks = FakeModel([call("transfer_to_expert", "c1")])
        agent = Agent(name="Gardener", model=asks, handoffs=[expert])
        result = await Runner.run(agent, "Will it freeze?", session=session, run_config=QUIET)
        await session.store_run_usage(result)

    anyio.run(work)
    by_model = found(turnlog.open(tmp_path / "root")).totals.by_model
    assert {model: used.output for model, used in by_model.items()} == {
        "gpt-5": 100,
        "gpt-5-mini": 100,
    }


def test_a_model_without_a_name_must_be_named(session):
    async def work():
        agent = Agent(name="Gardener", model=FakeModel([message("Yes.")], model=None))
        result = await Runner.run(agent, "Will it freeze?", session=session, run_config=QUIET)
        with pytest.raises(UsageError) as refusal:
            await session.store_run_usage(result)
        assert "model=" in refusal.value.hint
        await session.store_run_usage(result, model="gpt-5-nano")
        agent.model = None
        await session.store_run_usage(result)  # The SDK's own default, whatever it is.

    anyio.run(work)


@pytest.mark.parametrize("odd", [None, "a result", {"raw_responses": []}, object()])
def test_what_is_no_result_is_refused(session, odd):
    with pytest.raises(UsageError) as refusal:
        anyio.run(session.store_run_usage, odd)
    assert refusal.value.hint


# -- the page -------------------------------------------------------------------------------


def test_the_page_is_as_it_says(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "turnlog"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m turnlog.cli "$@"\n')
    program.chmod(0o755)
    answers = (
        [call("forecast", "c1", city="Oslo")],
        [message("Cover them: there is frost before dawn.")],
        [message("About Oslo.")],
    )
    with provider(*answers) as address:
        environ = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TURNLOG_HOME": str(tmp_path / "own"),
            "COLUMNS": "80",
            "PYTHONUTF8": "1",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": address,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", example],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
        )
    assert done.stdout.splitlines() == ["Cover them: there is frost before dawn.", "About Oslo."]
    steps = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    assert len(steps) == 4
    for step in steps:
        command, *said = step.splitlines()
        done = subprocess.run(
            command, shell=True, env=environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr)
        for line in said:
            pattern = ".*".join(re.escape(part) for part in line.rstrip().split("…"))
            assert re.search(f"^{pattern}", done.stdout, re.MULTILINE), (command, line, done.stdout)
    assert os.listdir(tmp_path / "garden") == ["projects"]
