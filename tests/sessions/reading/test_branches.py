"""Branches are where a person went back; parallel calls and notes are not."""

from hypothesis import given

from sessions.shapes import logs
from sessions.trees import answer, call, placed, record, result, tree
from turnlog.sessions.reading.subagents import Traces
from turnlog.sessions.reading.threads import branches_of, main_tip, whole_thread


def test_one_conversation_is_one_branch_whatever_hangs_beside_it():
    found = tree(
        record("q"),
        answer("a1", "q", "m1", call("c1")),
        answer("a2", "a1", "m1", call("c2")),
        record("p", "a1", "progress"),
        result("r1", "a1", "c1"),
        result("r2", "a2", "c2"),
        answer("end", "r1", "m2"),
        record("note", "end", "system"),
    )
    assert len(found.tips) == 3
    (branch,) = branches_of(found)
    assert (branch.tip.uuid, branch.is_main, branch.parting) == ("end", True, None)
    assert branch.steps == branch.own_steps == 5


def test_a_second_try_is_a_branch_that_parts_where_it_went_back():
    found = tree(
        record("q"),
        answer("a", "q", "m1"),
        record("first", "a"),
        answer("x", "first", "m2"),
        record("second", "a"),
        answer("y", "second", "m3"),
    )
    main, other = branches_of(found)
    assert (main.tip.uuid, main.steps, main.own_steps) == ("y", 4, 4)
    assert (other.tip.uuid, other.steps, other.own_steps) == ("x", 4, 2)
    assert other.parting.uuid == "a"
    assert [node.uuid for node in other.own_prompts] == ["first"]
    assert not other.is_main


def test_an_agent_in_the_same_log_is_no_branch():
    found = tree(record("q"), record("task", None, isSidechain=True))
    assert [(branch.tip.uuid, branch.is_subagent) for branch in branches_of(found)] == [
        ("q", False)
    ]


def test_what_only_an_agent_hangs_from_is_in_a_branch():
    found = tree(record("q"), record("x"), record("task", "x", isSidechain=True), record("r", "q"))
    assert [branch.tip.uuid for branch in branches_of(found)] == ["r", "x"]


def test_where_all_is_an_agents_its_threads_are_branches():
    found = tree(record("a", isSidechain=True), record("b", isSidechain=True))
    assert [(branch.tip.uuid, branch.is_subagent) for branch in branches_of(found)] == [
        ("b", True),
        ("a", True),
    ]


def test_where_nothing_was_said_there_is_no_branch():
    assert branches_of(tree()) == []
    assert branches_of(tree(record("s", None, "system"))) == []


@given(logs)
def test_everything_that_was_said_is_in_a_branch_or_an_agent(records):
    found = tree(*records)
    branches = branches_of(found)
    tip = main_tip(found)
    assert [branch.tip for branch in branches if branch.is_main] == ([tip] if tip else [])
    assert len({branch.tip.uuid for branch in branches}) == len(branches)
    traces = Traces()
    for item in placed(*records):
        traces.see(item)
    said = {node.uuid for node in found.nodes if node.is_spoken}
    shown = {node.uuid for branch in branches for node in whole_thread(found, branch.tip)}
    for start in traces.members().values() if traces.has_main else ():
        part = found.sidechain(start)
        shown |= {
            node.uuid for branch in branches_of(part) for node in whole_thread(part, branch.tip)
        }
    assert said <= shown
    assert all(branch.own_steps <= branch.steps for branch in branches)
