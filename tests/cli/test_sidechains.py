"""Subagents of Claude Code 1.x, whose records are in the main log, are subagents everywhere."""

import csv
import json
from html import unescape

import pytest

from mcp_world import ask, cli, hits_of, opened
from turnlog.cli.app import run
from turnlog.export.conversation import ConversationOptions
from turnlog.export.exporter import exported
from turnlog.formats import find_homes
from turnlog.sessions.session import Session

ID = "51dec4a1-1111-4111-8111-111111111111"
ONLY = "51dec4a1-2222-4222-8222-222222222222"
WARM, PEARS, PLUMS, QUINCES = (f"{letter * 8}-0000-4000-8000-000000000001" for letter in "abcd")


class Log:
    """Writes records a second apart; each sidechain and the session go on where they were."""

    def __init__(self, session):
        self.session, self.lines, self.tips = session, [], {}

    def add(self, kind, content, side=None, uuid=None, **message):
        number = len(self.lines)
        uuid = uuid or f"{number:08x}-1111-4111-8111-111111111111"
        record = {
            "parentUuid": self.tips.get(side),
            "isSidechain": side is not None,
            "userType": "external",
            "cwd": "/srv/orchard",
            "sessionId": self.session,
            "version": "1.0.98",
            "type": kind,
            "message": {"role": kind, "content": content} | message,
            "uuid": uuid,
            "timestamp": f"2025-09-03T10:{number // 60:02}:{number % 60:02}.000Z",
        }
        self.tips[side] = uuid
        self.lines.append(json.dumps(record))

    def say(self, side, *blocks):
        number = len(self.lines)
        usage = {"input_tokens": 10, "output_tokens": 100}
        told = {"id": f"msg_{number}", "model": "claude-sonnet-4-20250514", "usage": usage}
        self.add("assistant", list(blocks), side, **told)

    def ask_tool(self, side, call_id, name="Bash", **given):
        self.say(side, {"type": "tool_use", "id": call_id, "name": name, "input": given})

    def answer(self, side, call_id, text):
        self.add("user", [{"type": "tool_result", "tool_use_id": call_id, "content": text}], side)

    def subagent(self, start, prompt, fruit):
        self.add("user", prompt, start, uuid=start)
        self.ask_tool(start, f"bash-{fruit}", command=f"count {fruit}")
        self.answer(start, f"bash-{fruit}", f"nine {fruit}")
        self.say(start, {"type": "text", "text": f"There are nine {fruit}."})


def task(log, call_id, fruit, prompt):
    log.ask_tool(
        None,
        call_id,
        "Task",
        description=f"Look at {fruit}",
        prompt=prompt,
        subagent_type="gardener",
    )


def make_home(directory):
    """A session with four subagents in its log, and a log that is nothing but a subagent's."""
    project = directory / "home" / "projects" / "-srv-orchard"
    project.mkdir(parents=True)
    log = Log(ID)
    log.add("user", "Count the fruit")
    log.subagent(WARM, "Warmup", "leaves")
    task(log, "c-pears", "pears", "Count the pears")
    task(log, "c-plums", "plums", "Count the plums")
    task(log, "c-quinces", "quinces", "Count the quinces")
    log.subagent(PLUMS, "Count the plums", "plums")
    log.answer(None, "c-plums", "plums: nine")
    log.subagent(PEARS, "Count the pears", "pears")
    log.answer(None, "c-pears", "pears: nine")
    log.subagent(QUINCES, "Count the quinces, and quickly", "quinces")
    log.answer(None, "c-quinces", "quinces: nine")
    log.say(None, {"type": "text", "text": "All is counted."})
    (project / f"{ID}.jsonl").write_text("\n".join(log.lines) + "\n")
    only = Log(ONLY)
    only.subagent("side", "Count the nuts", "nuts")
    (project / f"{ONLY}.jsonl").write_text("\n".join(only.lines) + "\n")
    return directory / "home"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("sidechains"), make_home) as (home, desk):
        yield home, desk()


CALLS = {
    WARM: (None, None),
    PLUMS: ("c-plums", "prompt"),
    PEARS: ("c-pears", "prompt"),
    QUINCES: ("c-quinces", "position"),
}


def test_each_belongs_to_the_call_with_its_prompt_or_to_the_one_that_waits(world):
    home, _ = world
    info = cli(home, "info", ID)
    found = {row["id"]: (row["call"], row["found_by"]) for row in info["subagents"]}
    assert found == CALLS
    assert (len(info["branches"]), info["records"]) == (1, 24)
    rows = cli(home, "sql", "SELECT subagent, call_id, found_by, records FROM v_subagents")["rows"]
    assert {subagent: (call, how) for subagent, call, how, _ in rows} == CALLS
    assert [count for *_, count in rows] == [4] * 4
    for wide in ((), ("--wide",)):
        (listed,) = cli(home, "sessions", *wide)["sessions"]
        assert listed["subagents"] == 4


def test_every_record_is_shown_once_and_no_branch_is_hidden(world):
    home, _ = world
    shown = cli(home, "show", ID, "--subagents")
    main = [row["uuid"] for row in shown["records"]]
    inner = {row["id"]: [each["uuid"] for each in row["records"]] for row in shown["subagents"]}
    assert len(main) == 8
    assert [len(uuids) for uuids in inner.values()] == [4] * 4
    assert len({*main, *(uuid for uuids in inner.values() for uuid in uuids)}) == 24
    assert [row["is_main"] for row in cli(home, "info", ID)["branches"]] == [True]
    last = cli(home, "show", ID, "--last", "3")
    assert [row["uuid"] for row in last["records"]] == main[-3:]
    document = json.loads(exported(the_session(home), "json", ConversationOptions()))
    assert document["session"]["other_branches"] == 0


def the_session(home):
    return Session.find(find_homes((home,)), ID)


def test_an_export_has_each_below_its_call(world):
    home, _ = world
    document = json.loads(exported(the_session(home), "json", ConversationOptions()))
    calls = [
        each for turn in document["turns"] for each in turn["blocks"] if each["type"] == "call"
    ]
    assert {call["id"]: [run["id"] for run in call["subagents"]] for call in calls} == {
        call: [subagent] for subagent, (call, _) in CALLS.items() if call
    }
    assert [(run["id"], run["is_orphan"]) for run in document["subagents"]] == [(WARM, True)]
    inner = calls[0]["subagents"][0]["turns"][0]["blocks"]
    assert [each["type"] for each in inner] == ["said", "call", "answer"]
    page = unescape(exported(the_session(home), "html", ConversationOptions()))
    assert page.count("There are nine pears.") == page.count("There are nine quinces.") == 1


def test_a_hit_leads_to_the_agent(world):
    home, desk = world
    (hit,) = cli(home, "search", '"nine pears."')["hits"]
    assert hit["subagent"] == PEARS
    for name in (hit["uuid"], f"@{hit['offset']}"):
        for option in ("--thread", "--at") if name == hit["uuid"] else ("--at",):
            found = cli(home, "show", ID, option, name)
            assert found["subagent"] == PEARS
            types = [row["type"] for row in found["records"]]
            assert types == ["user", "assistant", "user", "assistant"]
    (told,) = hits_of(ask(desk, "search_history", query='"nine pears."'))
    assert told["subagent"] == PEARS
    assert told["prompt"] == "Count the pears"
    steps = ask(desk, "session_turns", session=ID, record=told["record"])
    assert (steps["subagent"], steps["turns"]) == (PEARS, 1)


def test_turns_of_the_session_and_of_an_agent_have_their_own_records(world):
    _, desk = world
    (turn,) = ask(desk, "session_turns", session=ID)["flow"]
    assert [call.split(":")[0] for call in turn["calls"]] == ["Task"] * 3
    assert turn["answer"] == "All is counted."
    (inner,) = ask(desk, "session_turns", session=ID, subagent=PLUMS[:8])["flow"]
    assert (inner["prompt"], inner["answer"]) == ("Count the plums", "There are nine plums.")
    assert len(inner["calls"]) == 1
    assert {row["id"] for row in ask(desk, "session_overview", session=ID)["subagents"]} == {*CALLS}


def test_calls_and_costs_know_the_agent(world):
    home, _ = world
    rows = cli(home, "query", "tools", "--session", ID, "--fields", "tool_name,subagent")["rows"]
    assert sorted((row["tool_name"], row["subagent"] or "") for row in rows) == sorted(
        [("Bash", subagent) for subagent in CALLS] + [("Task", "")] * 3
    )
    insights = cli(home, "insights", "--since", "2025-01-01")
    kinds = {row["kind"]: (row["subagents"], row["messages"]) for row in insights["subagents"]}
    assert kinds["gardener"] == (3, 6)
    assert kinds[None] == (1, 2)
    assert sum(messages for _, messages in kinds.values()) == 14  # ONLY has two.
    assert cli(home, "info", ID)["messages"] == 12
    assert cli(home, "cost", "month")["totals"]["messages"] == 14
    used = cli(home, "sql", "SELECT subagent, sum(tokens_out) FROM v_messages GROUP BY subagent")[
        "rows"
    ]
    assert dict(used) == dict.fromkeys(CALLS, 200) | {None: 600}


def test_tables_name_the_agent(world, tmp_path):
    home, _ = world
    target = tmp_path / "calls.csv"
    assert run(["export", ID, "--table", "calls", "--home", str(home), "-o", str(target)]) == 0
    with target.open(newline="") as file:
        rows = [(row["tool"], row["subagent"]) for row in csv.DictReader(file)]
    assert sorted(rows) == sorted([("Bash", subagent) for subagent in CALLS] + [("Task", "")] * 3)


def test_a_log_that_is_all_sidechain_is_what_its_session_says(world):
    home, _ = world
    session = Session.find(find_homes((home,)), ONLY)
    assert session.subagents == ()
    assert len(session.whole_thread) == 4
