"""Every tool says what the command line says of the same question, however it is paged."""

import json

import pytest

from mcp_world import (
    HAIKU,
    ONE,
    ORCHARD,
    OUT,
    PRESS,
    SUBAGENT,
    TREE,
    TWO,
    ask,
    ask_on,
    cli,
    hits_of,
    opened,
)

WIDE, NARROW = None, ORCHARD


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("agree")) as made:
        yield made


@pytest.fixture(scope="module", params=[WIDE, NARROW], ids=["all", "project"])
def both(request, world):
    """A ctx, the home, and what tells the command line the same scope."""
    home, ctx = world
    return ctx(request.param), home, ["--project", request.param] if request.param else []


def instant(text):
    """An instant as the tools round it."""
    return None if text is None else text[:19] + "Z"


@pytest.mark.parametrize("query", ["apples", "apple*", "pears OR juice", "tool:Bash", "rubies"])
def test_search_finds_what_the_command_finds(both, query):
    ctx, home, within = both
    theirs = cli(home, "search", query, "--limit", "50", *within)["hits"]
    found = ask(ctx, "search_history", query=query, limit=50)
    # Best sessions first; what is found in one is put together, turn by turn.
    sessions = list(dict.fromkeys(hit["session"][:8] for hit in theirs))
    assert [row["session"] for row in found["sessions"]] == sessions
    assert len(hits_of(found)) == len(theirs)
    # Masked words do not count in the rank, so it may show others of the same hits.
    every = cli(home, "search", query, "--limit", "0", "--flat", *within)["hits"]
    named = {
        (hit["session"][:8], (hit["uuid"] or f"@{hit['offset']}")[:8], hit["kind"]): hit
        for hit in every
    }
    titles = {row["session"]: row.get("title") for row in found["sessions"]}
    for hit in hits_of(found):
        other = named[hit["session"], hit["record"], hit["kind"]]
        assert other["snippet"].strip("…")[:60] in hit.get("text", titles[hit["session"]])


def test_search_in_one_session_keeps_to_it_whatever_the_query_says(world):
    _, ctx = world
    for query in ("apples", "apples OR", '"apples', "apples OR juice OR rubies", "-nothing"):
        found = ask(ctx(), "search_history", query=query, session=TWO, newest=True, limit=50)
        assert {row["session"] for row in found["sessions"]} <= {TWO[:8]}, query
        assert found["sessions"] or query == "apples OR"


QUERIES = [
    {"resource": "messages", "filter": {"role": "user"}},
    {"resource": "messages"},
    {"resource": "entries", "filter": {"type": "user"}},
    {"resource": "calls"},
    {"resource": "tools", "filter": {"tool_status": "error"}},
    {"resource": "tools", "filter": {"tool_name": "^mcp__.*dig$"}},
    {"resource": "messages", "filter": {"content_match": "apple|pear"}},
    {"resource": "messages", "filter": {"content_match": "Seven apple"}},
    {"resource": "messages", "filter": {"time_range": {"start": "2026-11-01T10:05"}}},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_query_gives_the_rows_of_the_command(both, query):
    ctx, home, within = both
    filters = dict(query.get("filter", {}))
    theirs = dict(query, filter=filters | ({"project": within[1]} if within else {}))
    look = ask(ctx, "query_history", **query)
    names = {
        "entries": ["uuid", "at", "type", "role"],
        "messages": ["uuid", "at", "text", "role"],
    }.get(query["resource"], ["uuid", "at", "tool_name", "status"])
    full = dict(theirs, transform={"extract": names}, output={"limit": 0})
    rows = cli(home, "query", json.dumps(full))["rows"]
    assert rows
    mine = ask(ctx, "query_history", **query, transform={"extract": names}, output={"limit": 100})[
        "rows"
    ]
    assert mine == [{name: each for name, each in row.items() if each not in (None, "")}
                    for row in rows]  # fmt: skip
    assert [row["uuid"] for row in look["rows"]] == [row["uuid"] for row in rows[:20]]
    if "content_match" not in filters:
        assert look["count"] == len(rows)


def test_the_call_of_the_document_works_as_it_is_written(world):
    _, ctx = world
    found = ask(ctx(), "query_history", resource="messages", filter={"role": "user"})
    assert found["count"] == 5
    texts = [row["text"] for row in found["rows"]]
    assert "Plant seven apple trees, please" in texts
    assert {row["role"] for row in found["rows"]} == {"user"}


@pytest.mark.parametrize(
    "more",
    [
        {"transform": {"group_by": "tool_name"}},
        {"transform": {"group_by": "status"}, "aggregate": {"function": "count"}},
        {"aggregate": {"function": "max", "field": "duration_ms"}},
        {"output": {"format": "summary"}},
    ],
    ids=str,
)
def test_figures_of_a_query_are_the_commands(both, more):
    ctx, home, within = both
    filters = {"project": within[1]} if within else {}
    theirs = cli(home, "query", json.dumps({"resource": "tools", "filter": filters} | more))
    assert ask(ctx, "query_history", resource="tools", **more)["rows"] == theirs["rows"]


def test_calls_are_those_of_the_query(both):
    ctx, home, within = both
    theirs = cli(home, "query", "tools", "--limit", "0", *within)["rows"]
    found = ask(ctx, "past_calls", limit=100)
    assert found["total"] == len(theirs) == len(found["calls"])
    statuses = [row["status"] for row in theirs]
    assert found["failed"] == statuses.count("error")
    assert found["pending"] == statuses.count("pending") == 1
    words = {"success": None, "error": "error", "pending": "pending"}
    assert [(row["tool"], row["at"], row.get("status")) for row in found["calls"]] == [
        (row["tool_name"], instant(row["at"]), words[row["status"]]) for row in theirs
    ]
    assert sum(found["by_tool"].values()) == found["total"]


@pytest.mark.parametrize(
    ("asked", "tools"),
    [
        ({"tool": "edit"}, ["Edit"]),
        ({"tool": "Edit, Read", "session": ONE}, ["Read", "Read", "Edit"]),
        ({"tool": "mcp__*"}, ["mcp__garden__dig"]),
        ({"tool": "Ba.h"}, []),
        ({"status": "pending"}, ["Grep"]),
        ({"file": "tree.py"}, ["Read", "Edit"]),
        ({"file": TREE}, ["Read", "Edit"]),
        ({"file": "*.txt"}, ["Read"]),
        ({"file": "[a-z]*"}, []),
        ({"until": "2026-10-15"}, ["Bash"]),
        ({"since": "2026-10-15", "tool": "Bash"}, ["Bash"] * 3),
        ({"project": "press"}, ["Bash"]),
    ],
    ids=str,
)
def test_calls_can_be_chosen(world, asked, tools):
    _, ctx = world
    found = ask(ctx(ORCHARD), "past_calls", **asked)
    assert [row["tool"] for row in found["calls"]] == tools
    assert found["total"] == len(tools)


def test_what_a_call_asked_and_why_it_failed_stand_in_its_row(world):
    _, ctx = world
    (row, _) = ask(ctx(ORCHARD), "past_calls", status="error")["calls"]
    assert row["asked"] == "plant --most"
    assert row["error"] == "Exit code 1: no spade"
    steps = ask(ctx(ORCHARD), "session_turns", session=ONE, record=row["record"], limit=1)["steps"]
    assert steps[0]["call"] == "Bash"
    assert steps[0]["input"] == {"command": "plant --most"}
    assert steps[0]["result"] == "Exit code 1: no spade"


def test_errors_are_those_of_the_command(both):
    ctx, home, within = both
    theirs = cli(home, "errors", *within)
    found = ask(ctx, "past_errors", limit=50)
    assert found["total"] == theirs["total"]
    names = ("tool", "count", "sessions", "example")
    assert [[row[name] for name in names] for row in found["errors"]] == [
        [row[name] for name in names] for row in theirs["errors"]
    ]
    for mine, other in zip(found["errors"], theirs["errors"], strict=True):
        assert other["signature"].startswith(mine["signature"])
        around = cli(home, "errors", other["signature"], *within)
        shown = ask(ctx, "past_errors", signature=mine["signature"])
        assert shown["total"] == around["total"]
        for here, there in zip(shown["occurrences"], around["occurrences"], strict=True):
            texts = [each["text"] for each in there["records"] if each["text"]]
            assert [each["text"] for each in here["records"]] == texts


def test_an_error_leads_to_its_record(world):
    _, ctx = world
    (row,) = ask(ctx(ORCHARD), "past_errors")["errors"]
    assert row["count"] == 2
    whole = ask(ctx(ORCHARD), "session_overview", session=row["session"], record=row["record"])
    assert whole["pieces"][0]["text"] == "Exit code 1: no spade"


@pytest.mark.parametrize("by", ["day", "model", "session", "project", "subagent", "hour", "week"])
def test_costs_are_those_of_the_ledger(both, by):
    ctx, home, within = both
    theirs = cli(home, "cost", "--by", by, "--since", "2000", *within)
    found = ask(ctx, "past_costs", by=[by], limit=100)
    assert found["rows_in_all"] == len(theirs["rows"])

    def plain(row):
        return {name: each for name, each in row.items() if each or name in ("cost_usd", by)}

    assert found["totals"] == plain(theirs["totals"])
    wanted = [plain(row) for row in theirs["rows"]]
    if by in ("day", "hour", "week"):
        wanted.reverse()
    assert found["rows"] == wanted


def test_costs_of_one_session_or_model(world):
    home, ctx = world
    for options, asked in (
        (["--session", TWO], {"session": TWO[:6]}),
        (["--model", "haiku"], {"model": "haiku"}),
        (["--since", "2026-10-15"], {"since": "2026-10-15"}),
    ):
        totals = cli(home, "cost", "model", "--project", ORCHARD, *options)["totals"]
        assert (
            ask(ctx(ORCHARD), "past_costs", by="model", **asked)["totals"]["cost_usd"]
            == (totals["cost_usd"])
        )


def test_what_is_skipped_is_said_and_a_price_nobody_knows_named(world):
    _, ctx = world
    skipped = ask(ctx(), "past_costs")["skipped"]
    assert [each["model"] for each in skipped["unpriced"]] == ["claude-rubies-1"]
    assert "skipped" in ask(ctx(ORCHARD), "past_costs")
    assert "unpriced" not in ask(ctx(ORCHARD), "past_costs")["skipped"]


def test_files_are_those_of_the_command(both):
    ctx, home, within = both
    theirs = cli(home, "query", "files", "--limit", "0", *within)["files"]
    found = ask(ctx, "past_files", limit=100)["files"]
    names = ("file", "reads", "edits", "writes", "searches", "sessions")
    assert [{name: row.get(name, 0) for name in names} for row in found] == [
        {name: row[name] for name in names} for row in theirs
    ]


def test_the_files_of_a_session_with_their_versions_and_edits(world):
    home, ctx = world
    (theirs,) = cli(home, "files", ONE)["files"]
    listed = ask(ctx(ORCHARD), "past_files", session=ONE)["files"]
    assert [row["file"] for row in listed if row.get("edits")] == [theirs["shown"]]
    assert listed[0]["versions"] == len(theirs["versions"]) == 2
    one = ask(ctx(ORCHARD), "past_files", session=ONE, path="tree.py")
    assert [each["version"] for each in one["versions"]] == [1, 2]
    assert [each["size_bytes"] for each in one["versions"]] == [4, 12]
    (edit,) = theirs["edits"]
    assert one["edits"] == [
        {"record": edit["record"], "at": instant(edit["at"]), "tool": "Edit", "added": 2,
         "removed": 1}
    ]  # fmt: skip
    held = ask(ctx(ORCHARD), "past_files", session=ONE, path=TREE, version=2)
    assert "".join(each["text"] for each in held["pieces"]) == "seven\ntrees\n"
    assert held["version"] == 2


def test_who_touched_a_file(world):
    _, ctx = world
    rows = ask(ctx(ORCHARD), "past_files", path="*.txt")["touched_by"]
    assert [(row["session"], row["subagent"], row["reads"]) for row in rows] == [(ONE, SUBAGENT, 1)]
    rows = ask(ctx(), "past_files", path="*.txt")["touched_by"]
    assert {row["session"] for row in rows} == {ONE, OUT}


def test_insights_are_those_of_the_command(both):
    ctx, home, within = both
    theirs = cli(home, "insights", "--since", "2026-01-01", "--limit", "50", *within)
    sections = ["overview", "models", "tools", "errors", "edits", "turns", "days", "streaks"]
    found = ask(ctx, "past_insights", sections=sections, since="2026-01-01", limit=50)["sections"]
    told = {row.pop("section"): row for row in found}
    assert list(told) == sections

    def plain(row):
        return {name: each for name, each in row.items() if each not in (None, 0, "0", "", [])}

    assert told["overview"] == plain(theirs["overview"])
    for name in ("models", "tools"):
        assert told[name]["rows"] == [plain(row) for row in theirs[name]]
    assert [row["day"] for row in told["days"]["rows"]] == [
        row["day"] for row in reversed(theirs["days"])
    ]
    assert told["edits"]["added"] == theirs["edits"]["added"]
    assert [row["prompt"] for row in told["turns"]["longest"]] == [
        row["prompt"] for row in theirs["turns"]["longest"]
    ]
    assert all(row["session"] and row["record"] for row in told["turns"]["longest"])


def test_turns_tell_the_thread(world):
    home, ctx = world
    theirs = cli(home, "show", ONE)["records"]
    prompts = [row["text"] for row in theirs if row["meaning"] == "prompt"]
    found = ask(ctx(ORCHARD), "session_turns", session=ONE)
    assert found["turns"] == 2
    assert [row["prompt"] for row in found["flow"]] == prompts
    assert [row["turn"] for row in found["flow"]] == [1, 2]
    first, second = found["flow"]
    assert first["calls"] == [
        "Bash: ls orchard", "Edit: src/tree.py", "Bash: plant --all [error]",
        "Bash: plant --most [error]", "mcp__garden__dig: depth=3",
    ]  # fmt: skip
    assert first["answer"] == "Seven apple trees stand. And a bench."
    assert second["calls"][-1] == "Grep: pear [pending]"
    newest = ask(ctx(ORCHARD), "session_turns", session="latest", newest=True)["flow"]
    assert newest == found["flow"][::-1]


def test_a_turn_in_full_says_all_that_the_thread_says(world):
    home, ctx = world
    theirs = cli(home, "show", ONE)["records"]
    steps = [
        each
        for turn in (1, 2)
        for each in ask_on(ctx(ORCHARD), "session_turns", "steps", session=ONE, turn=turn)
    ]
    answers = [row["text"] for row in theirs if row["author"] == "assistant" and row["text"]]
    assert "\n".join(each["answer"] for each in steps if "answer" in each) == "\n".join(answers)
    calls = [(call["name"], call["input"]) for row in theirs for call in row["calls"]]
    assert [(each["call"], each["input"]) for each in steps if "call" in each] == calls
    results = [result["text"] for row in theirs for result in row["results"]]
    assert [each["result"] for each in steps if "result" in each] == results
    assert not any("where is room?" in str(each) for each in steps)
    last = ask(ctx(ORCHARD), "session_turns", session=ONE, turn=-1)
    assert last["turn"] == 2


def test_an_agents_turns_and_any_record_open(world):
    _, ctx = world
    found = ask(ctx(ORCHARD), "session_turns", session=ONE, subagent=SUBAGENT[:3])
    assert found["subagent"] == SUBAGENT
    (turn,) = found["flow"]
    assert turn["prompt"] == "count the pears"
    assert turn["answer"] == "Nine pears."
    (hit,) = hits_of(ask(ctx(ORCHARD), "search_history", query='"Nine pears"'))
    assert hit["subagent"] == SUBAGENT
    assert hit["prompt"] == "count the pears"
    opened_at = ask(ctx(ORCHARD), "session_turns", session=hit["session"], record=hit["record"])
    assert opened_at["subagent"] == SUBAGENT
    assert opened_at["steps"][0]["answer"] == "Nine pears."


@pytest.mark.parametrize(
    ("tool", "noun", "arguments"),
    [
        ("session_turns", "flow", {"session": ONE}),
        ("session_turns", "steps", {"session": ONE, "turn": 1}),
        ("session_turns", "steps", {"session": ONE, "turn": 0}),
        ("past_calls", "calls", {}),
        ("past_errors", "errors", {}),
        ("past_files", "files", {}),
        ("past_files", "files", {"session": ONE}),
        ("past_files", "touched_by", {"path": "*"}),
        ("past_costs", "rows", {"by": ["session", "model"]}),
        ("past_costs", "rows", {"by": ["hour"]}),
    ],
    ids=str,
)
def test_pages_put_together_are_the_whole(world, tool, noun, arguments):
    _, ctx = world
    # What is told with the first row of a session, or page, differs by where a page begins.
    aside = ("title", "project")

    def bare(rows):
        return [{name: each for name, each in row.items() if name not in aside} for row in rows]

    whole = bare(ask_on(ctx(), tool, noun, **arguments, limit=100))
    for limit in (1, 2, 3):
        assert bare(ask_on(ctx(), tool, noun, **arguments, limit=limit)) == whole
    assert bare(ask_on(ctx(answer_bytes=4_000), tool, noun, **arguments, limit=100)) == whole


@pytest.mark.parametrize("more", [{}, {"newest": True}, {"results": True}], ids=str)
def test_pages_of_a_search_put_together_have_every_hit_once(world, more):
    _, ctx = world

    def found(ctx, limit):
        asked = {"query": "apple* OR pear*", "limit": limit} | more
        rows = ask_on(ctx, "search_history", "sessions", **asked)
        return sorted((hit["session"], hit["record"], hit["kind"], hit.get("text", ""))
                      for hit in hits_of({"sessions": rows}))  # fmt: skip

    whole = found(ctx(), 100)
    assert len(whole) > 5
    for limit in (1, 2, 3):
        assert found(ctx(), limit) == whole
    assert [hit[:3] for hit in found(ctx(answer_bytes=4_000), 100)] == [hit[:3] for hit in whole]


def test_sections_and_query_rows_go_on_too(world):
    _, ctx = world
    sections = ["overview", "models", "tools", "errors", "hours", "cache", "commands"]
    asked = {"sections": sections, "since": "2026-01-01"}
    small = ask_on(ctx(answer_bytes=4_000), "past_insights", "sections", **asked)
    assert [row["section"] for row in small] == sections
    rows = ask_on(ctx(), "query_history", "rows", resource="entries", output={"limit": 7})
    assert len(rows) == ask(ctx(), "query_history", resource="entries")["count"]
    uuids = [row["uuid"] for row in rows if row.get("uuid")]
    assert len(set(uuids)) == len(uuids) > 0


def test_what_is_below_the_project_is_of_it(world):
    _, ctx = world
    found = ask(ctx(ORCHARD), "past_costs", by=["project"])
    assert {row["project"] for row in found["rows"]} == {ORCHARD, PRESS}
    only = ask(ctx(ORCHARD), "past_costs", by=["model"], project="press")
    assert {row["model"] for row in only["rows"]} <= {HAIKU, "claude-opus-4-6"}
    assert only["totals"]["messages"] == 2
