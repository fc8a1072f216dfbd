"""Threads: what the SDK gives, and what it loses."""

import os
from pathlib import Path

import pytest

from sessions.trees import answer, call, names, record, result, tree
from turnlog.formats import find_homes, find_logs
from turnlog.sessions.reading.threads import main_thread, main_tip, visible, whole_thread
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.sessions.session import opening_of, turns_of
from turnlog.storage.reader import Placed, read_log

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS", Path(__file__).parents[4] / "shared" / "corpus" / "claude")
)


def test_the_newest_leaf_of_the_main_agent_is_resumed():
    found = tree(
        record("a"),
        record("b", "a", "assistant"),
        record("c", "b"),
        record("subagent", "b", isSidechain=True),
    )
    assert main_tip(found).uuid == "c"


# Two branches: "old" was left for "new". Each case was run with the real program, too:
# tests/e2e/test_resumed_threads.py.
BRANCHES = [
    record("a"),
    record("b", "a", "assistant"),
    record("old", "b"),
    record("older", "old", "assistant"),
    record("c", "b"),
    record("new", "c", "assistant"),
]


def last_prompt(leaf):
    return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": leaf, "sessionId": "s"}


@pytest.mark.parametrize(
    ("more", "tip"),
    [
        pytest.param([record("m", "new", isMeta=True)], "m", id="it ends with a meta record"),
        pytest.param(
            [record("m", "new", isMeta=True), record("s", "m", "system")],
            "m",
            id="it ends with the output of a local command",
        ),
        pytest.param([record("m", "older", isMeta=True)], "m", id="meta on the old branch"),
        pytest.param([record("s", "older", "system")], "older", id="a note on the old branch"),
        pytest.param([record("p", "older", "progress")], "new", id="progress is no leaf"),
        pytest.param([record("t", "older", teamName="t")], "t", id="a team member's record"),
        pytest.param([record("x", "new", isSidechain=True)], "new", id="a subagent below the leaf"),
        pytest.param([record("r", None, "system")], "new", id="a note without a parent"),
        pytest.param([record("x", "y"), record("y", "x")], "y", id="a ring at the end"),
        pytest.param([last_prompt("older")], "older", id="a person went back"),
        pytest.param([last_prompt("old")], "old", id="a person went back further"),
        pytest.param([last_prompt("older"), last_prompt(None)], "older", id="null names nothing"),
        pytest.param([last_prompt("older"), last_prompt("new")], "new", id="the last one counts"),
        pytest.param([last_prompt("b")], "new", id="an ancestor of the newest leaf"),
        pytest.param([last_prompt("gone")], "new", id="a leaf that does not exist"),
        pytest.param(
            [last_prompt("new"), record("m", "new", isMeta=True)], "m", id="meta after the prompt"
        ),
    ],
)
def test_the_main_thread_ends_where_claude_resumes(more, tip):
    found = tree(*BRANCHES, *more)
    assert main_tip(found).uuid == tip
    assert names(main_thread(found))[-1] == tip


def test_many_leaves_that_say_nothing_are_each_visited_once(monkeypatch):
    notes = [record(f"n{i}", f"n{i - 1}" if i else None, "system") for i in range(500)]
    leaves = [record(f"leaf{i}", "n499", "attachment") for i in range(500)]
    found = tree(record("a"), *notes, *leaves)
    visits = 0
    ancestry = Node.ancestry

    def counted(node):
        nonlocal visits
        for each in ancestry(node):
            visits += 1
            yield each

    monkeypatch.setattr(Node, "ancestry", counted)
    assert main_tip(found).uuid == "a"
    assert visits < 5 * len(found.nodes)


def test_a_tip_that_nobody_said_leads_to_the_last_thing_said():
    found = tree(record("a"), record("b", "a", "assistant"), record("p", "b", "progress"))
    assert main_tip(found).uuid == "b"


def test_an_empty_log_has_no_thread():
    assert main_thread(tree()) == whole_thread(tree()) == []


def test_parallel_results_are_put_back_behind_their_response():
    found = tree(
        record("q"),
        answer("a1", "q", "m1", call("c1")),
        answer("a2", "a1", "m1", call("c2")),
        result("r1", "a1", "c1", timestamp="2026-01-01T00:00:02Z"),
        result("r2", "a2", "c2", timestamp="2026-01-01T00:00:01Z"),
        answer("end", "r1", "m2"),
    )
    # The path is q, a1, r1, end; behind a1 come the rest of its response and the other result.
    assert names(main_thread(found)) == ["q", "a1", "a2", "r2", "r1", "end"]


def test_a_result_that_hangs_elsewhere_is_taken_if_its_call_is_open():
    found = tree(
        record("q"),
        answer("a1", "q", "m1", call("c1")),
        answer("a2", "a1", "m1", call("c2")),
        result("r2", "a2", "c2"),
        result("stray", "q", "c1"),
        answer("end", "r2", "m2"),
    )
    assert "stray" in names(main_thread(found))


def test_a_compaction_ends_the_main_thread_and_not_the_whole_one():
    found = tree(
        record("a"),
        record("b", "a", "assistant"),
        record("cut", None, "system", subtype="compact_boundary", logicalParentUuid="b"),
        record("sum", "cut", isCompactSummary=True),
        record("c", "sum"),
    )
    assert names(main_thread(found)) == ["cut", "sum", "c"]
    assert names(whole_thread(found)) == ["a", "b", "cut", "sum", "c"]


def test_a_compaction_whose_logical_parent_is_gone_goes_on_at_the_record_before():
    found = tree(
        record("a"),
        record("cut", None, "system", subtype="compact_boundary", logicalParentUuid="gone"),
        record("c", "cut"),
    )
    assert names(whole_thread(found)) == ["a", "cut", "c"]


def test_a_missing_parent_is_bridged():
    found = tree(record("a"), record("b", "a"), record("d", "lost"), record("e", "d"))
    assert names(main_thread(found)) == names(whole_thread(found)) == ["a", "b", "d", "e"]
    assert names(main_thread(found, bridged=False)) == ["d", "e"]


def test_visible_keeps_what_was_said():
    found = tree(record("a"), record("m", "a", isMeta=True), record("s", "m", "system"))
    assert names(visible(found.nodes)) == ["a"]


def test_a_turn_is_a_prompt_and_what_follows():
    found = tree(
        record("q1"),
        answer("a1", "q1", "m1", call("c1")),
        result("r1", "a1", "c1"),
        record("q2", "r1"),
        answer("a2", "q2", "m2"),
    )
    turns = turns_of(whole_thread(found))
    assert [turn.prompt.uuid for turn in turns] == ["q1", "q2"]
    assert [names(turn.nodes) for turn in turns] == [["q1", "a1", "r1"], ["q2", "a2"]]
    assert opening_of(whole_thread(found)) == []


def test_what_stands_before_the_first_prompt_is_no_turn():
    found = tree(
        record("m", isMeta=True),
        answer("a0", "m", "m0"),
        record("q1", "a0"),
        answer("a1", "q1", "m1"),
    )
    nodes = whole_thread(found)
    assert [names(turn.nodes) for turn in turns_of(nodes)] == [["q1", "a1"]]
    assert names(opening_of(nodes)) == ["m", "a0"]


def sessions_of_the_corpus():
    if not CORPUS.is_dir():
        return []
    (home,) = find_homes((CORPUS,))
    return [log.path for log in find_logs(home) if log.kind == "session"]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_the_main_thread_of_every_real_session_is_the_sdks():
    """Up to a missing parent: the program bridges it since 2.1.91, the SDK does not."""
    from claude_agent_sdk import get_session_messages

    os.environ["CLAUDE_CONFIG_DIR"] = str(CORPUS)
    try:
        compared = longer = 0
        for path in sessions_of_the_corpus():
            found = Tree(item for item in read_log(path) if isinstance(item, Placed))
            ours = names(visible(main_thread(found, bridged=False)))
            theirs = [message.uuid for message in get_session_messages(path.stem)]
            assert ours == theirs, path.name
            whole = names(visible(whole_thread(found)))
            assert set(ours) <= set(whole)
            longer += len(whole) > len(ours)
            compared += 1
            reached = {node.uuid for tip in found.tips for node in tip.ancestry()}
            assert reached == set(found.by_uuid), path.name
    finally:
        del os.environ["CLAUDE_CONFIG_DIR"]
    assert compared > 100
    # Compactions and missing parents: what the SDK does not give and the whole thread does.
    assert longer == 7


def test_dialects_without_parents_are_one_thread_in_the_logs_order():
    flat = [
        {"type": "system_init", "timestamp": 1703001600000, "cwd": "/p", "model": "m"},
        {"type": "user", "uuid": "u1", "content": [{"type": "text", "text": "Fix it"}]},
        {"type": "tool_use", "uuid": "t1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "a b", "is_error": False},
        {"type": "assistant", "uuid": "u2", "content": [{"type": "text", "text": "Done"}]},
    ]
    found = tree(*flat)
    assert len(whole_thread(found)) == 5
    assert [node.type for node in main_thread(found)] == [fields["type"] for fields in flat]
    assert not found.gaps
