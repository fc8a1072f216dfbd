"""Subagents and the calls that made them."""

import json
from pathlib import Path

import pytest

from sessions.trees import answer, call, line, log_of, placed, record, result
from turnlog.errors import NotFound
from turnlog.formats import find_homes
from turnlog.sessions.reading.subagents import How, Traces, link_subagents
from turnlog.sessions.session import Session

ID = "33333333-cccc-4ccc-8ccc-333333333333"


def traces(*records, caller=None):
    found = Traces(caller=caller)
    for item in placed(*records):
        found.see(item)
    return found


def task(call_id, prompt="Look around", **more):
    return call(call_id, "Task", prompt=prompt, subagent_type="Explore", **more)


def log_at(tmp_path, subagent):
    return tmp_path / f"agent-{subagent}.jsonl"


def test_a_result_tells_surest(tmp_path):
    main = traces(
        answer("a", None, "m", task("c1", description="Look")),
        result("r", "a", "c1", toolUseResult={"status": "completed", "agentId": "a1"}),
    )
    (subagent,) = link_subagents(main, {"a1": (log_at(tmp_path, "a1"), traces())})
    assert (subagent.how, subagent.spawn.call_id, subagent.spawn.uuid) == (How.RESULT, "c1", "a")
    assert (subagent.kind, subagent.description) == ("Explore", "Look")


def test_any_tool_whose_result_names_an_agent_started_it(tmp_path):
    told = {"agentId": "a1", "description": "Look"}
    main = traces(
        answer("a", None, "m", call("c1", "mcp__crew__delegate", goal="Look around")),
        result("r", "a", "c1", toolUseResult=told),
        answer("b", "r", "m", call("c2", "mcp__crew__fetch", subagent="a1")),
        result("s", "b", "c2", toolUseResult={"agentId": "a1", "output": "a tree"}),
    )
    (subagent,) = link_subagents(main, {"a1": (log_at(tmp_path, "a1"), traces())})
    assert (subagent.how, subagent.spawn.call_id, subagent.spawn.uuid) == (How.RESULT, "c1", "a")
    assert subagent.description == "Look"


def test_of_an_agent_that_went_on_the_last_call_of_a_known_tool_counts(tmp_path):
    main = traces(
        answer("a", None, "m", task("c1")),
        result("r", "a", "c1", toolUseResult={"agentId": "a1"}),
        answer("b", "r", "m", task("c2")),
        result("s", "b", "c2", toolUseResult={"agentId": "a1"}),
    )
    (subagent,) = link_subagents(main, {"a1": (log_at(tmp_path, "a1"), traces())})
    assert (subagent.spawn.call_id, subagent.kind) == ("c2", "Explore")


def test_what_a_call_says_itself_counts_before_what_its_result_tells(tmp_path):
    told = traces(result("r", "a", "c1", toolUseResult={"agentId": "a1"}), caller="a2")
    main = traces(answer("a", None, "m", task("c1", description="Look")))
    subagents = {"a1": (log_at(tmp_path, "a1"), traces()), "a2": (log_at(tmp_path, "a2"), told)}
    found = {subagent.id: subagent for subagent in link_subagents(main, subagents)}
    assert (found["a1"].spawn.caller, found["a1"].description) == (None, "Look")


def test_the_meta_file_tells_where_no_result_does(tmp_path):
    path = log_at(tmp_path, "a1")
    path.with_name("agent-a1.meta.json").write_text(
        json.dumps({"agentType": "Plan", "toolUseId": "c1"})
    )
    (subagent,) = link_subagents(
        traces(answer("a", None, "m", task("c1"))), {"a1": (path, traces())}
    )
    assert (subagent.how, subagent.kind) == (How.META, "Plan")


def test_a_meta_file_that_is_not_json_is_passed_over(tmp_path):
    path = log_at(tmp_path, "a1")
    path.with_name("agent-a1.meta.json").write_bytes(b"\xff{")
    (subagent,) = link_subagents(Traces(), {"a1": (path, traces())})
    assert subagent.is_orphan


def test_progress_tells_of_an_agent_that_never_finished(tmp_path):
    progress = record("p", "a", "progress", parentToolUseID="c1", toolUseID="agent_1")
    progress["data"] = {"type": "agent_progress", "agentId": "a1", "prompt": "Look around"}
    main = traces(answer("a", None, "m", task("c1")), progress)
    (subagent,) = link_subagents(main, {"a1": (log_at(tmp_path, "a1"), traces())})
    assert subagent.how is How.PROGRESS


def test_an_equal_prompt_is_a_guess_and_says_so(tmp_path):
    first = record("q", message={"role": "user", "content": "Look around"}, isSidechain=True)
    subagents = {"a1": (log_at(tmp_path, "a1"), traces(first, caller="a1"))}
    (subagent,) = link_subagents(traces(answer("a", None, "m", task("c1"))), subagents)
    assert subagent.how is How.PROMPT


def test_one_call_is_not_guessed_for_two_agents(tmp_path):
    first = record("q", message={"role": "user", "content": "Look around"}, isSidechain=True)
    subagents = {name: (log_at(tmp_path, name), traces(first)) for name in ("a1", "a2")}
    found = link_subagents(traces(answer("a", None, "m", task("c1"))), subagents)
    assert [subagent.how for subagent in found] == [How.PROMPT, None]


def test_agents_call_agents(tmp_path):
    main = traces(
        answer("a", None, "m", task("c1")), result("r", "a", "c1", toolUseResult={"agentId": "a1"})
    )
    inner = traces(
        answer("x", None, "n", task("c2")),
        result("y", "x", "c2", toolUseResult={"agentId": "a2"}),
        caller="a1",
    )
    subagents = {
        "a1": (log_at(tmp_path, "a1"), inner),
        "a2": (log_at(tmp_path, "a2"), traces(caller="a2")),
    }
    found = {subagent.id: subagent for subagent in link_subagents(main, subagents)}
    assert found["a1"].spawn.caller is None
    assert found["a2"].spawn.caller == "a1"


def side(uuid, parent=None, **fields):
    return record(uuid, parent, isSidechain=True, **fields)


def asks(uuid, prompt, **fields):
    return side(uuid, message={"role": "user", "content": prompt}, **fields)


def linked(main, subagents=()):
    found = link_subagents(main, dict(subagents), Path("main.jsonl"))
    return {
        subagent.id: (subagent.spawn.call_id if subagent.spawn else None, subagent.how)
        for subagent in found
    }


def test_of_equal_prompts_a_sidechain_has_the_call_that_waits():
    main = traces(
        answer("a", None, "m", task("c1"), task("c2", "Other")),
        result("r", "a", "c1"),  # It failed before a subagent began.
        answer("b", "r", "n", task("c3")),
        asks("s", "Look around"),
        asks("t", "Look around"),
    )
    assert linked(main) == {"s": ("c3", How.PROMPT), "t": ("c1", How.PROMPT)}


def test_a_call_of_the_turn_before_waits_no_longer():
    main = traces(answer("a", None, "m", task("c1")), record("q", "a"), asks("s", "Something else"))
    assert linked(main) == {"s": (None, None)}


def test_a_sidechain_with_a_lost_record_is_one_and_an_agents_own_log_keeps_its_id(tmp_path):
    main = traces(
        record("q"),
        asks("s", "Look", agentId="a1"),
        side("t", "lost", kind="assistant", agentId="a1"),
        asks("u", "Look again"),
        side("v", "t", kind="assistant", agentId="a1"),
    )
    assert main.members() == {"s": ["s", "t", "v"], "u": ["u"]}
    assert set(linked(main)) == {"a1", "u"}
    own = {"a1": (log_at(tmp_path, "a1"), traces(caller="a1"))}
    assert set(linked(main, own)) == {"a1", "s", "u"}


def test_sidechains_call_agents():
    main = traces(
        record("q"),
        asks("s", "Look", agentId="a1"),
        answer("x", "s", "m", task("c1", "Look closer"), isSidechain=True, agentId="a1"),
        asks("t", "Look closer"),
    )
    found = {subagent.id: subagent for subagent in link_subagents(main, {}, Path("main.jsonl"))}
    assert (found["t"].spawn.call_id, found["t"].spawn.caller) == ("c1", "a1")


@pytest.fixture
def home(tmp_path):
    project = tmp_path / "home" / "projects" / "-home-ada-orchard"
    (project / ID / "subagents").mkdir(parents=True)
    main = [
        record("q", sessionId=ID),
        answer("a", "q", "m", task("c1"), sessionId=ID),
        result("r", "a", "c1", sessionId=ID, toolUseResult={"agentId": "a1"}),
    ]
    (project / f"{ID}.jsonl").write_bytes(log_of(*main))
    inner = record("x", sessionId=ID, isSidechain=True, agentId="a1")
    (project / ID / "subagents" / "agent-a1.jsonl").write_bytes(log_of(inner))
    beside = record("y", sessionId=ID, isSidechain=True, agentId="old")
    (project / "agent-old.jsonl").write_bytes(log_of(beside))
    other = record("z", sessionId="another", isSidechain=True, agentId="far")
    (project / "agent-far.jsonl").write_bytes(line({"type": "mode"}) + b"\n" + log_of(other))
    return find_homes((tmp_path / "home",))


def test_a_session_finds_its_agents_in_its_directory_and_beside_it(home):
    session = Session.find(home, "3333")
    assert {subagent.id: subagent.how for subagent in session.subagents} == {
        "a1": How.RESULT,
        "old": None,
    }


def test_records_are_read_back_by_their_place(home):
    session = Session.find(home, ID)
    texts = [record.uuid for _, record in session.records(session.whole_thread)]
    assert texts == ["q", "a", "r"]


def test_a_session_that_lost_its_main_log_says_so(home):
    session = Session.find(home, ID)
    session.path.unlink()
    orphaned = Session.find(home, ID)
    with pytest.raises(NotFound, match="lost its main log"):
        _ = orphaned.path
    assert {subagent.id for subagent in orphaned.subagents} == {"a1", "old"}


def test_a_compressed_session_reads_like_a_plain_one(home):
    import gzip

    session = Session.find(home, ID)
    plain = session.path
    plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    packed = Session.find(home, ID)
    assert [record.uuid for _, record in packed.records(packed.whole_thread)] == ["q", "a", "r"]
