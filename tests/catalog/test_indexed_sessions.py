"""The catalog on the index agrees with the bare list, the ledger and a plain reading of itself."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog import build
from turnlog.catalog.indexed_sessions import (
    PROJECT_SORTS,
    RISING,
    SESSION_SORTS,
    TOP_TOOLS,
    list_indexed,
    list_projects,
)
from turnlog.catalog.sessions import SessionRow, list_sessions
from turnlog.catalog.tags import tags_by_session
from turnlog.costs.lists import SessionCosts, costs_by
from turnlog.costs.usage import scan_usage
from turnlog.errors import UsageError
from turnlog.formats import dated_log, find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.pricing.cost import Prices, load_prices
from turnlog.pricing.overrides import overrides_from
from turnlog.sessions.session import Session
from turnlog.sessions.state import State
from turnlog.sessions.writing.open import DatedWriter
from turnlog.storage.reader import Placed, read_log

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
CORPUS = Path(
    os.environ.get(
        "TURNLOG_CORPUS", Path(__file__).parents[2].parent / "shared" / "corpus" / "claude"
    )
)
PRICES = load_prices()
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOSTILE = ("%", "_", "'", '"', "a'; DROP TABLE sessions; --", "[a-z]*", ".*", "\\", "x\0y", "ÜBER")
COUNTERS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
DEAD = {"pid": 2**22 + 1, "started": "1", "boot": "long ago"}


def session_id(number):
    return f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def at(minute, day=4):
    return f"2026-03-{day:02}T{minute // 60:02}:{minute % 60:02}:00.000Z"


def user(content, minute=0, day=4, **more):
    fields = {"type": "user", "message": {"role": "user", "content": content}, "cwd": "/kites"}
    return fields | {"timestamp": at(minute, day), "uuid": f"u{minute}"} | more


def answer(name, minute=1, day=4, *, model="claude-opus-4-5", tools=(), **more):
    blocks = [{"type": "text", "text": "so"}]
    blocks += [
        {"type": "tool_use", "id": f"{name}-{n}", "name": tool, "input": {}}
        for n, tool in enumerate(tools)
    ]
    usage = {"input_tokens": 10 + minute, "output_tokens": 5, "cache_read_input_tokens": 100}
    message = {"id": name, "role": "assistant", "model": model, "content": blocks, "usage": usage}
    fields = {"type": "assistant", "message": message, "requestId": f"r-{name}", "cwd": "/kites"}
    return fields | {"timestamp": at(minute, day), "uuid": f"a-{name}"} | more


def mark(number, event, **more):
    return {"type": "turnlog", "event": event, "sessionId": session_id(number)} | more


def write(home, number, *records, project="-kites", name=None, tail=b""):
    path = home / "projects" / project / (name or f"{session_id(number)}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"sessionId": session_id(number)} | each) + "\n" for each in records)
    path.write_bytes(text.encode() + tail)
    return path


def make_home(home):
    """A home with one of everything that a list should tell."""
    write(home, 1, user("Why does it spin?"), answer("m1", 5, tools=("Bash", "Bash", "Read")))
    write(
        home,
        2,
        user("ÜBER kites", 3, day=3, gitBranch="main"),
        answer("m2", 600, day=3, model="claude-haiku-4-5-20251001", gitBranch="feature/x"),
    )
    subagent = write(
        home,
        2,
        user("look", isSidechain=True, agentId="b1", gitBranch="agents/own"),
        answer("m3", 700, day=3, tools=["Grep"] * 3, isSidechain=True, agentId="b1"),
        name=f"{session_id(2)}/subagents/agent-b1.jsonl",
    )
    assert subagent.exists()
    for number, text in enumerate(HOSTILE, 10):
        write(
            home,
            number,
            user(f"about {text} here", number, cwd=f"/odd/{number}", gitBranch=f"b{text}"),
            answer(f"h{number}", number, model=f"model-{text}", tools=[f"tool{text}"]),
            {"type": "tag", "tag": f"t{text}"},
        )
    write(home, 30, user("Torn", 30), tail=b'\0\0\0\n{"type":"user","mess\n')
    os.utime(write(home, 31, {"type": "tag", "tag": "timeless"}), ns=(0, 1_772_000_000_123_456_000))
    os.utime(write(home, 32), (1_772_000_100, 1_772_000_100))
    packed = write(home, 33, user("Packed", 33), answer("m33", 34))
    packed.with_suffix(".jsonl.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    write(home, 34, user("A subagent's", 34, isSidechain=True), answer("m34", 35, isSidechain=True))
    opened = mark(35, "opened", process=DEAD)
    write(home, 35, opened, user("Crashed", 40))
    write(home, 36, user("Resumed", 41), mark(36, "opened"), mark(36, "ended"), mark(36, "opened"))
    write(home, 37, mark(37, "opened"))
    write(home, 38, user("Long past", 0, day=1, timestamp="2025-01-01T00:00:00Z"))
    write(home, 39, user("Elsewhere", 42, cwd="/kites/tail"), answer("m39", 43), project="-k-t")
    write(home, 40, user("Beside", 44, cwd="/kites2"), project="-kites2")
    write(home, 41, user("No place", 45, cwd=None))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("catalog") / "home"
    make_home(home)
    return home


@pytest.fixture(scope="module")
def homes(home):
    return find_homes((home,))


@pytest.fixture(scope="module")
def index(homes):
    with open_fresh(homes) as index:
        yield index


@pytest.fixture(scope="module")
def rows(index):
    return list_indexed(index, now=NOON).sessions


@pytest.fixture(scope="module")
def corpus():
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real sessions is not here")
    homes = find_homes((CORPUS,))
    with open_fresh(homes) as index:
        yield homes, index


def shared(row):
    """What both lists tell of a session, but for what needs the whole log."""
    left_out = {"records", "title", "models", "subagents", "last_active_at"}
    return {
        each: getattr(row, each) for each in SessionRow.__struct_fields__ if each not in left_out
    }


def assert_same(bare, indexed):
    assert {row.id for row in bare} == {row.id for row in indexed}
    assert len(bare) == len(indexed)
    known = {row.id: row for row in indexed}
    for row in bare:
        found = known[row.id]
        assert shared(row) == shared(found)
        # Without an instant in the log it is the file's time, of which a float knows no better.
        assert abs(row.last_active_at - found.last_active_at) <= timedelta(microseconds=1)
        assert row.records in {None, found.records}
        assert set(row.models) <= set(found.models)


def test_the_list_is_the_bare_one(homes, index):
    bare = list_sessions(homes, now=NOON)
    indexed = list_indexed(index, gone=False, now=NOON)
    assert_same(bare.sessions, indexed.sessions)
    assert indexed.total == bare.total
    known = {row.id: row for row in indexed.sessions}
    for row in bare.sessions:
        assert (row.title, row.subagents) == (known[row.id].title, known[row.id].subagents)
        assert row.records == known[row.id].records
    times = [row.last_active_at for row in indexed.sessions]
    assert times == sorted(times, reverse=True)


def test_the_samples_are_listed_alike():
    homes = find_homes((SAMPLES,))
    bare = list_sessions(homes, now=NOON).sessions
    with open_fresh(homes) as index:
        indexed = list_indexed(index, now=NOON).sessions
    assert_same(bare, indexed)
    assert [(row.id, row.title, row.subagents) for row in bare] == [
        (row.id, row.title, row.subagents) for row in indexed
    ]


def test_the_corpus_is_listed_alike(corpus):
    homes, index = corpus
    bare = {row.id: row for row in list_sessions(homes, now=NOON).sessions}
    indexed = {row.id: row for row in list_indexed(index, gone=False, now=NOON).sessions}
    assert_same(list(bare.values()), list(indexed.values()))
    for each, row in bare.items():
        assert (row.title, row.subagents) == (indexed[each].title, indexed[each].subagents)


def test_titles_and_counts_of_the_corpus_are_those_of_the_whole_logs(corpus):
    homes, index = corpus
    indexed = list_indexed(index, gone=False, now=NOON, sort="size", limit=60, reverse=True)
    for row in indexed.sessions:
        found = Session.find(homes, row.id).summary
        assert (row.title, row.records, row.prompts) == (found.title, found.records, found.prompts)


def by_session(responses):
    found = {}
    for response in responses:
        counted = found.setdefault(response.session, Counter())
        counted["messages"] += 1
        for name in COUNTERS:
            counted[name] += getattr(response.counters, name)
    return found


@pytest.mark.parametrize("place", ["home", "samples", "corpus"])
def test_tokens_are_the_ledgers(place, request, homes):
    if place == "home":
        index = request.getfixturevalue("index")
    elif place == "corpus":
        homes, index = request.getfixturevalue("corpus")
    else:
        homes = find_homes((SAMPLES,))
        index = open_fresh(homes)
        request.addfinalizer(index.close)
    responses = scan_usage(homes).responses
    expected = by_session(responses)
    rows = list_indexed(index, now=NOON).sessions
    for row in rows:
        for name in ("messages", *COUNTERS):
            assert getattr(row, name) == expected.get(row.id, Counter())[name]
    totals = sum(expected.values(), Counter())
    assert totals["messages"] == len(responses) > 0
    # Nothing is lost: what the subagents among the sessions used is in the projects.
    projects = list_projects(index).projects
    for name in ("messages", *COUNTERS):
        assert sum(getattr(row, name) for row in projects) == totals[name]


def test_tokens_are_those_that_the_session_itself_tells(homes, rows):
    for row in rows:
        totals = Session.find(homes, row.id).totals
        assert row.messages == totals.messages
        assert row.tokens == sum(getattr(totals.tokens, name) for name in COUNTERS)


def test_tools_and_branches_are_what_the_logs_say(homes, rows):
    for row in rows:
        tools, branches = Counter(), set()
        for log in Session.find(homes, row.id).logs:
            for item in read_log(log.path):
                if isinstance(item, Placed):
                    branches.add(getattr(item.record, "git_branch", None))
                    tools.update(
                        b.name for b in getattr(item.record, "blocks", ()) if hasattr(b, "input")
                    )
        assert row.branches == sorted(branches - {None})
        assert row.tools == dict(
            sorted(tools.items(), key=lambda each: (-each[1], each[0]))[:TOP_TOOLS]
        )
    assert sum(bool(row.tools) for row in rows) > 5


def test_what_is_amiss_is_told(rows):
    known = {row.id: row for row in rows}
    assert known[session_id(30)].damages == 2
    assert known[session_id(35)].crashed
    assert not known[session_id(36)].crashed
    states = {n: known[session_id(n)].state for n in (1, 36, 37, 38)}
    assert states == {1: State.ACTIVE, 36: State.RESUMED, 37: State.CREATED, 38: State.EXPIRED}


def is_in(path, directory):
    return path is not None and (path == directory or path.startswith(f"{directory}/"))


def began(row):
    return row.started_at or row.last_active_at


MARCH_4 = datetime(2026, 3, 4, tzinfo=UTC)
FILTERS = [
    ({"project": "/kites"}, lambda row: is_in(row.project, "/kites")),
    ({"project": "/kites/"}, lambda row: is_in(row.project, "/kites")),
    ({"project": "/"}, lambda row: row.project is not None),
    ({"model": "opus"}, lambda row: any("opus" in model for model in row.models)),
    ({"model": "HAIKU"}, lambda row: any("haiku" in model for model in row.models)),
    ({"branch": "feature/x"}, lambda row: "feature/x" in row.branches),
    ({"branch": "main"}, lambda row: "main" in row.branches),
    ({"branch": "agents/own"}, lambda row: "agents/own" in row.branches),
    ({"tool": "Bash"}, lambda row: "Bash" in row.tools),
    ({"tool": "Grep"}, lambda row: "Grep" in row.tools),
    ({"tag": "timeless"}, lambda row: row.tags == ["timeless"]),
    ({"text_in_title": "über"}, lambda row: "über" in (row.title or "").casefold()),
    ({"text_in_title": "HERE"}, lambda row: "here" in (row.title or "")),
    ({"since": MARCH_4}, lambda row: row.last_active_at >= MARCH_4),
    ({"until": MARCH_4}, lambda row: began(row) < MARCH_4),
    ({"since": MARCH_4 - timedelta(days=1), "until": MARCH_4},
     lambda row: began(row) < MARCH_4 <= row.last_active_at + timedelta(days=1)),
    ({"has_damage": True}, lambda row: row.damages > 0),
    ({"has_damage": False}, lambda row: row.damages == 0),
    ({"has_subagents": True}, lambda row: row.subagents > 0),
    ({"has_subagents": False}, lambda row: row.subagents == 0),
    ({"has_errors": False}, lambda row: row.errors == 0),
    ({"project": ["/kites/tail", "/other"]},
     lambda row: is_in(row.project, "/kites/tail") or is_in(row.project, "/other")),
    ({"agent": "claude code"}, lambda row: row.agent == "Claude Code"),
    ({"words": ["E", "he"]}, lambda row: "he" in (row.title or "").casefold()),
    ({"gone": False}, lambda row: row.keeping == "live"),
    ({"state": "active"}, lambda row: row.state == "active"),
    ({"state": "resumed"}, lambda row: row.state == "resumed"),
    ({"state": State.EXPIRED}, lambda row: row.state == "expired"),
    ({"state": "created"}, lambda row: row.state == "created"),
    ({"model": "opus", "has_subagents": False, "since": MARCH_4, "project": "/kites"},
     lambda row: "claude-opus-4-5" in row.models and not row.subagents
     and row.last_active_at >= MARCH_4 and is_in(row.project, "/kites")),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "is_kept"), FILTERS)
def test_a_filter_keeps_what_it_says(index, rows, asked, is_kept):
    found = list_indexed(index, now=NOON, **asked)
    expected = [row for row in rows if is_kept(row)]
    assert found.sessions == expected
    assert found.total == len(expected) > 0


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_filter_asks_for_is_taken_literally(index, rows, text):
    folded = text.casefold()
    (mine,) = (row for row in rows if row.id == session_id(10 + HOSTILE.index(text)))
    for asked, is_kept in (
        ({"text_in_title": text}, lambda row: folded in (row.title or "").casefold()),
        ({"model": text}, lambda row: any(folded in model.casefold() for model in row.models)),
        ({"branch": f"b{text}"}, lambda row: f"b{text}" in row.branches),
        ({"tool": f"tool{text}"}, lambda row: f"tool{text}" in row.tools),
        ({"tag": f"t{text}"}, lambda row: {f"t{text}"} <= {*row.tags}),
    ):
        found = list_indexed(index, now=NOON, **asked).sessions
        assert found == [row for row in rows if is_kept(row)]
        assert mine in found
    for name in ("branch", "tool", "tag", "project"):
        assert list_indexed(index, now=NOON, **{name: text}).sessions == []


@given(text=st.text(st.characters(codec=None), max_size=5))
def test_no_filter_text_breaks_anything(index, rows, text):
    sound = text.encode(errors="replace").decode().casefold()
    found = list_indexed(index, now=NOON, text_in_title=text).sessions
    assert found == [row for row in rows if row.title and sound in row.title.casefold()]
    for name in ("branch", "tool", "tag", "model"):
        list_indexed(index, now=NOON, limit=1, **{name: text})


def counted(rows, values):
    """Count by hand how many rows have each value, the most frequent first."""
    counts = Counter(value for row in rows for value in values(row))
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


@pytest.mark.parametrize("asked", [{}, {"project": "/kites"}, {"model": "opus"}, {"tag": "none"}])
def test_facets_count_the_values_of_the_whole_list(index, asked):
    whole = list_indexed(index, now=NOON, **asked).sessions
    found = list_indexed(index, now=NOON, limit=1, facets=100, **asked)
    facets = found.facets
    assert found.total == facets.total == len(whole)
    for name, values in (
        ("agents", lambda row: [row.agent]),
        ("models", lambda row: row.models),
        ("branches", lambda row: row.branches),
        ("tools", lambda row: row.tools),
        ("tags", lambda row: row.tags),
    ):
        told = [(each.value, each.count) for each in getattr(facets, name)]
        assert told == counted(whole, values), name
    for each in facets.projects:
        assert each.count == sum(is_in(row.project, each.value) for row in whole)
    assert {each.value for each in facets.projects} == {row.project for row in whole} - {None}
    for name in ("errors", "subagents", "damages"):
        told = getattr(facets, name.replace("damages", "damaged"))
        assert told == sum(getattr(row, name) > 0 for row in whole)
    assert (facets.running, facets.pinned, facets.kept) == (0, 0, 0)
    two = list_indexed(index, now=NOON, limit=1, facets=2, **asked).facets
    assert two.tools == facets.tools[:2]


def test_calls_that_failed_are_counted_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    asking = answer("m1", 5, tools=("Bash", "Read"))
    failed = {"type": "tool_result", "tool_use_id": "m1-0", "content": "no", "is_error": True}
    fine = failed | {"tool_use_id": "m1-1", "is_error": False}
    path = write(tmp_path / "a", 1, user("Try"), asking, user([failed, fine], 6))
    with open_fresh(find_homes((tmp_path / "a",))) as opened:
        (row,) = list_indexed(opened, has_errors=True).sessions
        assert (row.errors, list(row.tools)) == (1, ["Bash", "Read"])
    with path.open("a") as log:  # The same call, written again, and another one.
        for record in (asking, user([failed], 7, uuid="u9"), answer("m2", 8, tools=["Edit"])):
            log.write(json.dumps(record) + "\n")
        log.write(json.dumps(user([failed | {"tool_use_id": "m2-0"}], 9)) + "\n")
    with open_fresh(find_homes((tmp_path / "a",))) as opened:
        found = list_indexed(opened, tool="edit", facets=9)
        assert [row.errors for row in found.sessions] == [2]
        assert [each.value for each in found.facets.tools] == ["Bash", "Edit", "Read"]


def test_costs_in_sql_are_those_of_the_ledger(index, rows):
    own, _ = overrides_from(
        {
            "claude-opus-4-5": {"input": 1, "output": 2, "since": "2026-03-04"},
            "model-%": {"like": "claude-haiku-4-5"},
        }
    )
    for prices in (PRICES, Prices(PRICES.table, own)):
        costs = SessionCosts(index, prices)
        ledger = costs_by("session", index, prices)
        assert costs.of(row.id for row in rows) == {
            row.id: ledger[row.id] for row in rows if row.id in ledger
        }
        assert costs.picodollars() == {
            each: Decimal(cost) * 10**12 for each, cost in ledger.items() if Decimal(cost)
        }
    least = sorted(Decimal(cost) for cost in ledger.values())[-3]
    found = list_indexed(index, now=NOON, cost_at_least=least, costs=costs, sidechains=True)
    assert {row.id for row in found.sessions} == {
        each for each, cost in ledger.items() if Decimal(cost) >= least
    }


def test_copied_responses_are_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    said = [user("Begin", 0), answer("m1", 1), answer("m2", 2)]
    own = {"sessionId": session_id(1)}
    write(tmp_path / "a", 1, *(each | own for each in said))
    fork = {"sessionId": session_id(2)}
    write(tmp_path / "a", 2, *(each | fork for each in said), answer("m3", 3, **fork))
    write(tmp_path / "b", 1, *(each | own for each in said))
    with open_fresh(find_homes((tmp_path / "a", tmp_path / "b"))) as opened:
        rows = list_indexed(opened).sessions
    found = {(row.id, Path(row.home).name): (row.messages, row.copied) for row in rows}
    assert found == {
        (session_id(1), "a"): (2, 0),
        (session_id(1), "b"): (0, 2),
        (session_id(2), "a"): (1, 2),
    }
    assert all(row.copied_from == [session_id(1)] for row in rows if row.copied)


def test_the_tags_of_a_session_are_those_of_its_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    for name, tag in (("a", "red, green"), ("b", "green,,blue ")):
        write(tmp_path / name, 1, user("Tagged"), {"type": "tag", "tag": tag})
        write(tmp_path / name, 2, user("Not tagged"), {"type": "tag", "tag": ","})
    with open_fresh(find_homes((tmp_path / "a", tmp_path / "b"))) as opened:
        assert tags_by_session(opened) == {session_id(1): ["red", "green", "blue"]}


KEYS = {
    "active": lambda row: row.last_active_at,
    "started": lambda row: row.started_at,
    "title": lambda row: None if row.title is None else row.title.casefold(),
    "project": lambda row: (
        None if row.project is None else (row.project.rpartition("/")[2].casefold(), row.project)
    ),
    "records": lambda row: row.records,
    "errors": lambda row: row.errors,
    "prompts": lambda row: row.prompts,
    "tokens": lambda row: row.tokens,
    "cost": lambda row: Decimal(row.cost_usd or 0),
    "subagents": lambda row: row.subagents,
    "duration": lambda row: None if row.started_at is None else row.last_active_at - row.started_at,
    "size": lambda row: row.size_bytes,
}


def sorted_by(rows, key, *, is_rising):
    """Sort as a list does: what is not known last, equals as they stood."""
    known = [row for row in rows if key(row) is not None]
    unknown = [row for row in rows if key(row) is None]
    return sorted(known, key=key, reverse=not is_rising) + unknown


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", SESSION_SORTS)
def test_a_sort_sorts(index, sort, reverse):
    costs = SessionCosts(index, PRICES)
    found = list_indexed(index, now=NOON, sort=sort, reverse=reverse, costs=costs).sessions
    rows = list_indexed(index, now=NOON, costs=costs).sessions
    is_rising = reverse != (sort in RISING)
    assert [KEYS[sort](row) for row in found] == [
        KEYS[sort](row) for row in sorted_by(rows, KEYS[sort], is_rising=is_rising)
    ]
    assert sorted(row.id for row in found) == sorted(row.id for row in rows)


@given(
    sort=st.sampled_from(list(SESSION_SORTS)),
    reverse=st.booleans(),
    limit=st.integers(1, 40),
    gone=st.sampled_from([None, False]),
)
def test_pages_give_every_row_once(index, rows, *, sort, reverse, limit, gone):
    offset, found = 0, []
    while offset is not None:
        page = list_indexed(
            index, sort=sort, reverse=reverse, limit=limit, offset=offset, gone=gone, now=NOON
        )
        assert page.total == len(rows)
        found += page.sessions
        offset = page.next
    whole = list_indexed(index, sort=sort, reverse=reverse, gone=gone, now=NOON).sessions
    assert found == whole


def test_a_page_beyond_the_end_still_knows_the_total(index, rows):
    for limit, offset in ((5, len(rows)), (None, 10**30), (0, 0), (10**30, len(rows))):
        page = list_indexed(index, limit=limit, offset=offset, now=NOON)
        assert (page.sessions, page.total) == ([], len(rows))
    assert list_indexed(index, limit=0, now=NOON).next == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"sort": "colour"},
        {"sort": "title; DROP TABLE sessions"},
        {"state": "asleep"},
        {"limit": -1},
        {"offset": -1},
        {"since": datetime(2026, 3, 4)},  # noqa: DTZ001 - That is the mistake.
    ],
)
def test_a_callers_mistake_is_told_with_a_hint(index, asked):
    with pytest.raises(UsageError) as caught:
        list_indexed(index, **asked)
    assert caught.value.hint


def test_a_session_that_is_gone_is_remembered(tmp_path):
    homes = find_homes((make_small(tmp_path),))
    with open_fresh(homes) as index:
        before = list_indexed(index, now=NOON).sessions
    Path(before[0].path).unlink()
    with open_fresh(homes) as index:
        (gone,) = list_indexed(index, gone=True, now=NOON).sessions
        (live,) = list_indexed(index, gone=False, now=NOON).sessions
        assert list_indexed(index, now=NOON).total == 2
        (project,) = list_projects(index).projects
    assert (gone.id, gone.title, gone.keeping) == (before[0].id, before[0].title, "gone")
    assert gone.tokens == before[0].tokens > 0
    assert (live.id, live.keeping) == (before[1].id, "live")
    assert (project.sessions, project.gone, project.prompts) == (1, 1, 2)


def test_agents_whose_session_is_lost_are_a_session_that_is_gone(tmp_path):
    home = make_small(tmp_path)
    write(home, 9, user("look", isSidechain=True, agentId="b1"), answer("lost", 2, agentId="b1"),
          name=f"{session_id(9)}/subagents/agent-b1.jsonl")  # fmt: skip
    with open_fresh(find_homes((home,))) as index:
        (row,) = list_indexed(index, gone=True, now=NOON).sessions
    assert (row.id, row.subagents, row.messages, row.title) == (session_id(9), 1, 1, None)


def make_small(tmp_path):
    home = tmp_path / "home"
    write(home, 1, user("One", 1), answer("one", 2))
    write(home, 2, user("Two", 0), answer("two", 1))
    return home


def test_a_copy_in_another_home_is_another_row_and_counts_nothing_twice(tmp_path):
    one, two = make_small(tmp_path / "a"), make_small(tmp_path / "b")
    homes = find_homes((one, two))
    with open_fresh(homes) as index:
        rows = list_indexed(index, now=NOON).sessions
        tokens = sum(row.tokens for row in list_indexed(index, sort="tokens", now=NOON).sessions)
    assert Counter(row.id for row in rows) == {session_id(1): 2, session_id(2): 2}
    assert len({(row.id, row.home) for row in rows}) == 4
    responses = scan_usage(homes).responses
    assert sum(row.messages for row in rows) == len(responses) == 2
    assert tokens == sum(row.tokens for row in rows) == (10 + 2) + (10 + 1) + 2 * 105


def test_sessions_that_share_their_logs_are_told_apart(tmp_path):
    root = tmp_path / "home"
    day = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
    for number, now in ((1, day), (2, day), (2, day + timedelta(days=1))):
        with DatedWriter(lambda day: dated_log(root, tmp_path, day), session_id=session_id(number),
                         cwd=tmp_path, root=root, clock=lambda now=now: now) as writer:  # fmt: skip
            writer.append(build.user(f"prompt {number}"))
            call = build.call("Read", {"file_path": "a"}, call_id=f"c{now.day}")
            writer.append(build.assistant([call], model="m"))
    homes = find_homes((root,))
    bare = list_sessions(homes, now=NOON).sessions
    with open_fresh(homes) as index:
        rows = list_indexed(index, sort="title", now=NOON).sessions
        (project,) = list_projects(index).projects
    assert_same(bare, rows)
    assert [(row.title, row.tools) for row in rows] == [
        ("prompt 1", {"Read": 1}),
        ("prompt 2", {"Read": 2}),
    ]
    assert rows[0].layout == "dated"
    assert project.size_bytes == sum(row.size_bytes for row in rows)


@pytest.mark.parametrize("ask", [list_indexed, list_projects])
def test_a_list_is_of_one_moment_whoever_writes_meanwhile(tmp_path, ask):
    homes = find_homes((make_small(tmp_path),))
    with open_fresh(homes) as index:
        expected = ask(index)
        asked = []

        def interfere(statement):
            asked.append(statement)
            if len(asked) == 2:  # After the first question.
                with sqlite3.connect(index_path(homes)) as writer:
                    writer.execute("DELETE FROM sessions")
                    writer.execute("DELETE FROM messages")
                writer.close()

        index.db.set_trace_callback(interfere)
        assert ask(index) == expected
        assert len(asked) > 1
    with open_fresh(homes, is_stale_allowed=True) as index:
        assert ask(index).total == 0


def test_a_running_program_is_told(tmp_path):
    home = make_small(tmp_path)
    (home / "sessions").mkdir()
    said = {"pid": os.getpid(), "sessionId": session_id(1), "status": "busy"}
    (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(said))
    (home / "sessions" / "1.json").write_text(
        json.dumps({"pid": 2**22 + 1, "sessionId": session_id(2)})
    )
    with open_fresh(find_homes((home,))) as index:
        rows = {row.id: row for row in list_indexed(index, now=NOON).sessions}
    assert (rows[session_id(1)].running, rows[session_id(1)].crashed) == ("busy", False)
    assert (rows[session_id(2)].running, rows[session_id(2)].crashed) == (None, True)


def test_projects_are_the_sums_of_their_sessions(index, rows):
    projects = {row.path: row for row in list_projects(index).projects}
    assert set(projects) == {row.project for row in rows}
    for path, project in projects.items():
        mine = [row for row in rows if row.project == path]
        assert (project.sessions, project.gone) == (len(mine), 0)
        for name in ("prompts", "subagents", "damages"):
            assert getattr(project, name) == sum(getattr(row, name) for row in mine)
        is_whole = path != "/kites"  # There a subagent's log lies among the sessions.
        for name in ("messages", "size_bytes", *COUNTERS):
            total = sum(getattr(row, name) for row in mine)
            assert getattr(project, name) == total or not is_whole
        assert (
            set(project.models) == {model for row in mine for model in row.models} or not is_whole
        )
        assert project.last_at == max(row.last_active_at for row in mine)
        assert project.first_at == min(
            (row.started_at for row in mine if row.started_at), default=None
        )


PROJECT_KEYS = {
    "active": lambda row: row.last_at,
    "path": lambda row: row.path,
    "sessions": lambda row: row.sessions,
    "prompts": lambda row: row.prompts,
    "messages": lambda row: row.messages,
    "tokens": lambda row: row.tokens,
    "cost": lambda row: Decimal(row.cost_usd or 0),
    "subagents": lambda row: row.subagents,
    "size": lambda row: row.size_bytes,
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", PROJECT_SORTS)
def test_projects_are_sorted_and_cut_into_pages(index, sort, reverse):
    costs = {"/kites": "7.50", "/odd/12": "10.25", "/odd/13": "9"}
    whole = list_projects(index, costs=costs)
    offset, found = 0, []
    while offset is not None:
        page = list_projects(index, sort=sort, reverse=reverse, limit=4, offset=offset, costs=costs)
        assert page.total == whole.total == len(whole.projects)
        found += page.projects
        offset = page.next
    key, is_rising = PROJECT_KEYS[sort], reverse != (sort == "path")
    assert [key(row) for row in found] == [
        key(row) for row in sorted_by(whole.projects, key, is_rising=is_rising)
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, whole.projects))


def test_projects_of_a_time_count_the_sessions_of_that_time(index):
    since, until = MARCH_4 - timedelta(days=1), MARCH_4
    expected = Counter(
        row.project for row in list_indexed(index, since=since, until=until, now=NOON).sessions
    )
    found = list_projects(index, since=since, until=until).projects
    assert {row.path: row.sessions for row in found} == expected
    with pytest.raises(UsageError):
        list_projects(index, sort="colour")
