"""Codex's sessions: what was said, in order, with their forks' histories and their subagents."""

from __future__ import annotations

import pytest

import turnlog
from codex_world import Rollout, Usage, write_world
from turnlog.export.session_read import read_session
from turnlog.formats import Home
from turnlog.records.meaning import Author, author_of
from turnlog.records.record import Spoken, Unknown
from turnlog.records.record_types import SessionRecord
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed, read_log


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return write_world(tmp_path / "codex")


def session_of(world, rollout):
    return Session.find([Home(world.home)], rollout.id)


def said(session):
    """Return the prompts and answers of a session's whole thread."""
    records = (record for _, record in session.records())
    authors = (Author.HUMAN, Author.ASSISTANT)
    return [record.text for record in records if author_of(record) in authors and record.text]


def test_prompts_are_what_a_person_typed(world):
    for rollout in (world.old, world.new, world.archived):
        nodes = [node for node in session_of(world, rollout).tree.nodes if node.is_prompt]
        prompts = [record.text for _, record in session_of(world, rollout).records(nodes)]
        assert prompts == rollout.prompts


def test_a_fork_begins_with_its_parents_history(world):
    for fork in (world.old_fork, world.new_fork, world.fork_of_fork):
        assert said(session_of(world, fork)) == fork.said


def test_a_fork_whose_parent_is_gone_has_its_own_records(world):
    world.new.path.unlink()
    assert said(session_of(world, world.new_fork)) == ["And how many fell?", "Seven."]
    assert said(session_of(world, world.fork_of_fork)) == world.fork_of_fork.said[-4:]


def test_a_fork_keeps_its_own_title_and_counts(world):
    summary = session_of(world, world.new_fork).summary
    assert (summary.title, summary.prompts) == ("And how many fell?", 1)


def test_subagents_are_below_the_call_that_started_them(world):
    for main, helper in ((world.old, world.old_helper), (world.new, world.helper)):
        session = session_of(world, main)
        (subagent,) = session.subagents
        assert subagent.id == helper.id
        tree = session.subagent_tree(subagent)
        texts = [record.text for _, record in session.subagent_records(subagent, tree.nodes)]
        assert helper.answers[0] in texts
        assert main.prompts[0] not in texts
    assert subagent.spawn is not None
    assert subagent.spawn.prompt == "Count the figs"
    with turnlog.open(world.home) as store:
        assert not {world.helper.id, world.old_helper.id} & {row.id for row in store.sessions()}


def test_calls_have_their_results(world):
    session = session_of(world, world.old)
    records = [record for _, record in session.records()]
    spoken = [record for record in records if isinstance(record, Spoken)]
    calls = {call.id: call for record in spoken for call in record.calls}
    results = {result.tool_use_id: result for record in spoken for result in record.results}
    assert calls.keys() == results.keys()
    commands = {call.input.get("command"): results[call.id] for call in calls.values()}
    ran = {command: result for command, result in commands.items() if command}
    assert list(ran) == world.old.calls
    assert [each.is_error for each in ran.values()] == [False, True]
    (plan,) = (call for call in calls.values() if call.name == "TodoWrite")
    assert plan.input["todos"][0] == {"content": "Water the field", "status": "in_progress"}


def test_every_line_is_a_record_and_unknown_ones_are_kept(world):
    for rollout in world.rollouts:
        lines = rollout.path.read_bytes().splitlines()
        items = list(read_log(rollout.path))
        assert all(isinstance(item, Placed) for item in items)
        assert [item.record.raw for item in items] == lines
    unknown = [item.record for item in read_log(world.new.path) if isinstance(item.record, Unknown)]
    assert [record.type for record in unknown] == ["weather_report", "leaf_fell", "grafting_call"]
    silent = [item.record for item in read_log(world.new.path)
              if isinstance(item.record, SessionRecord)]  # fmt: skip
    assert silent
    assert not any(record.text for record in silent)


def test_what_codex_writes_twice_is_found_once(world):
    with turnlog.open(world.home) as store:
        for text, kind in (
            ("plums ripe", "prompt"),
            ("forty-two", "response"),
            ("pears", "prompt"),
        ):
            hits = [hit for hit in store.search(f"{text} is:{kind}").hits if hit.kind == kind]
            assert len(hits) == 1, text


@pytest.mark.parametrize("is_paginated", [False, True], ids=["old", "paginated"])
def test_a_patch_is_an_edit_of_each_file(tmp_path, is_paginated):
    rollout = Rollout(tmp_path, 1, is_paginated=is_paginated)
    rollout.prompt("Rename it")
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n@@ def f\n context\n-old\n+new\n"
        "*** Add File: b.py\n+one\n+two\n*** Delete File: c.py\n*** End Patch"
    )
    rollout.item("custom_tool_call", name="apply_patch", input=patch, call_id="call_1")
    rollout.answer("Done.", Usage(10, 2))
    calls = [call for item in read_log(rollout.path) for call in getattr(item.record, "calls", ())]
    assert [(call.id, call.name) for call in calls] == [
        ("call_1", "Edit"), ("call_1#2", "Write"), ("call_1#3", "apply_patch"),
    ]  # fmt: skip
    edit, write, delete = (call.input for call in calls)
    assert edit == {
        "file_path": "src/a.py", "old_string": "context\nold", "new_string": "context\nnew",
    }  # fmt: skip
    assert write == {"file_path": "b.py", "content": "one\ntwo\n"}
    assert delete == {"path": "c.py", "operation": "delete"}


def test_an_outline_of_a_fork_has_its_parents_prompts(world):
    read = read_session(session_of(world, world.new_fork))
    prompts = [node for node in read.tree.nodes if node.is_prompt]
    assert [read.notes[node.uuid].label for node in prompts] == [
        "How many plums are ripe?", "And how many fell?",
    ]  # fmt: skip
