"""Filters leave out what is not wanted, in any order, and never touch the log."""

import json
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import FLAT, ORCHESTRATOR
from sessions.trees import answer, call, placed, record, result
from strategies import good_lines, spoiled, to_line
from turnlog.errors import UsageError
from turnlog.records.codec import decode, encode
from turnlog.records.meaning import Author
from turnlog.records.record import Assistant, Record, User
from turnlog.sessions.reading.filters import (
    EVERYTHING,
    between,
    by_author,
    of_type,
    only_prompts,
    without_system,
    without_tools,
)
from turnlog.sessions.reading.ranges import replay

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
TEXT = {"type": "text", "text": "Here it is"}


def records(*fields):
    return [item.record for item in placed(*fields)]


def uuids(found):
    return [each.uuid for each in found]


def test_by_type_as_the_log_spells_it():
    log = records(record("q"), answer("a", "q", "m"), record("s", "a", "system"))
    assert uuids(of_type("user", "system").records(log)) == ["q", "s"]


def test_by_author():
    log = records(
        record("q"),
        answer("a", "q", "m", call("c")),
        result("r", "a", "c"),
        record("i", "r", isMeta=True),
        answer("x", None, "m2", isSidechain=True, agentId="a1"),
    )
    assert uuids(by_author(Author.HUMAN, Author.TOOL).records(log)) == ["q", "r"]
    assert uuids(by_author(Author.SUBAGENT).records(log)) == ["x"]


def test_a_range_of_time_includes_its_beginning_and_not_its_end():
    log = records(
        record("early", timestamp="2026-03-04T11:59:59.999Z"),
        record("noon", timestamp="2026-03-04T12:00:00.000Z"),
        record("late", timestamp="2026-03-04T13:00:00.000Z"),
        record("never", timestamp="9999-99-99T99:99:99Z"),
    )
    hour = timedelta(hours=1)
    assert uuids(between(NOON, NOON + hour).records(log)) == ["noon"]
    assert uuids(between(since=NOON).records(log)) == ["noon", "late"]
    assert uuids(between(until=NOON).records(log)) == ["early"]
    assert uuids(between(NOON + hour, NOON).records(log)) == []
    east = timezone(timedelta(hours=2))
    assert uuids(between(datetime(2026, 3, 4, 15, tzinfo=east)).records(log)) == ["late"]
    assert len(list(between().records(log))) == 4


def test_a_time_without_a_zone_is_a_mistake():
    with pytest.raises(UsageError) as caught:
        between(since=NOON.replace(tzinfo=None))
    assert "aware" in caught.value.hint


def test_without_tools_messages_that_become_empty_go():
    log = records(
        record("q"),
        answer("a1", "q", "m", call("c1")),
        answer("a2", "a1", "m", {"type": "text", "text": " \n"}, call("c2")),
        answer("a3", "a2", "m", {"type": "thinking", "thinking": ""}, call("c3")),
        answer("a4", "a3", "m", TEXT, call("c4")),
        result("r", "a4", "c4"),
        record("empty", "r", message={"role": "user", "content": ""}),
    )
    kept = list(without_tools().records(log))
    assert uuids(kept) == ["q", "a4", "empty"]  # What was empty before is not ours to judge.
    assert kept[1].text == "Here it is"
    assert not kept[1].calls


def test_a_trimmed_record_is_a_whole_record_of_its_own():
    (logged,) = records(answer("a", "q", "m", TEXT, call("c"), odd={"kept": [1]}))
    before = logged.raw
    (kept,) = without_tools().records([logged])
    assert logged.raw == before
    assert decode(encode(kept)) == kept
    assert kept.fields["odd"] == {"kept": [1]}
    assert b"tool_use" not in kept.raw
    assert replay([kept]) == [{"role": "assistant", "content": [TEXT]}]


def test_tools_that_the_api_answers_itself_are_tools():
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    log = records(answer("a", None, "m", search), answer("b", "a", "m", found, TEXT))
    (kept,) = without_tools().records(log)
    assert [type(block).__name__ for block in kept.blocks] == ["TextBlock"]


def test_a_record_that_json_cannot_hold_is_trimmed_all_the_same():
    line = json.dumps(answer("a", "q", "m", TEXT, call("c", ratio=float("nan")), odd=float("nan")))
    logged = decode(line.encode())
    assert isinstance(logged, Record)
    kept = without_tools()(logged)
    assert (kept.uuid, kept.text, kept.calls) == ("a", "Here it is", ())


@pytest.mark.parametrize("dialect", [FLAT, ORCHESTRATOR], ids=["flat", "orchestrator"])
def test_calls_and_results_of_other_dialects_are_records_and_go_whole(dialect):
    log = [decode(to_line(fields)) for fields in dialect.values()]
    kept = list(without_tools().records(log))
    assert {"tool_use", "tool_call", "tool_result"}.isdisjoint(each.type for each in kept)
    assert {"user", "assistant"} <= {each.type for each in kept}


def test_without_system_summaries_stay():
    log = records(
        record("q"),
        record("cut", None, "system", subtype="compact_boundary"),
        record("sum", "cut", isCompactSummary=True),
        record("i", "sum", isMeta=True),
        record("at", "i", "attachment", attachment={"type": "file"}),
        record("p", "at", "progress", data={}),
        {"type": "mode", "mode": "plan"},
        {"type": "summary", "summary": "All of it", "leafUuid": "q"},
    )
    kept = list(without_system().records(log))
    assert [each.uuid or each.type for each in kept] == ["q", "sum", "summary"]


def test_only_prompts_are_what_opens_a_turn():
    log = records(
        record("q"),
        answer("a", "q", "m", call("c")),
        result("r", "a", "c"),
        record("i", isMeta=True),
    )
    assert uuids(only_prompts().records(log)) == ["q"]


def test_pairs_keep_what_they_came_with():
    log = records(record("q"), answer("a", "q", "m", call("c")))
    assert [key for key, _ in without_tools().pairs(enumerate(log))] == [0]


def test_filters_stream():
    def endless():
        while True:
            yield from records(record("q"), answer("a", "q", "m"))

    only = of_type("assistant") & without_system()
    stream = only.records(endless())
    assert [next(stream).uuid for _ in range(3)] == ["a", "a", "a"]


FILTERS = st.sampled_from(
    [
        EVERYTHING,
        of_type("user", "assistant", "tool_result"),
        of_type("assistant", "system"),
        by_author(Author.HUMAN, Author.ASSISTANT, Author.TOOL),
        by_author(Author.TOOL),
        between(since=datetime(2026, 1, 1, tzinfo=UTC)),
        between(until=datetime(2026, 3, 4, 5, 6, 8, tzinfo=UTC)),
        without_tools(),
        without_system(),
        only_prompts(),
    ]
)
mixed = st.lists(
    st.sampled_from([TEXT, call("c"), {"type": "tool_result", "tool_use_id": "c", "content": "x"}]),
    max_size=4,
).flatmap(
    lambda blocks: st.sampled_from(["user", "assistant"]).map(
        lambda role: to_line(record("u", None, role, message={"role": role, "content": blocks}))
    )
)
decoded = (
    st.lists(good_lines() | spoiled().map(to_line) | mixed, max_size=6)
    .map(lambda lines: [decode(line) for line in lines])
    .map(lambda found: [each for each in found if isinstance(each, Record)])
)


@given(decoded, st.lists(FILTERS, min_size=2, max_size=3))
def test_the_order_of_filters_does_not_matter(log, filters):
    outcomes = []
    for order in permutations(filters):
        combined = EVERYTHING
        for each in order:
            combined &= each
        outcomes.append(list(combined.records(log)))
    assert all(outcome == outcomes[0] for outcome in outcomes)


@given(decoded, FILTERS)
def test_to_filter_twice_is_to_filter_once(log, chosen):
    once = list(chosen.records(log))
    assert list((chosen & chosen).records(log)) == once
    assert len(once) <= len(log)
    # Nothing is made up: what is kept was there, whole or trimmed.
    whole = {each.raw for each in log}
    for each in once:
        assert each.raw in whole or chosen.drops_tools


@given(decoded)
def test_nothing_of_a_tool_is_left_without_tools_and_nothing_else_is_lost(log):
    kept = list(without_tools().records(log))
    for each in kept:
        assert each.type not in ("tool_use", "tool_call", "tool_result")
        assert not getattr(each, "calls", ())
        assert not getattr(each, "results", ())
    assert words(kept) == words(log)


def words(log):
    return [each.text for each in log if isinstance(each, User | Assistant) and each.text.strip()]
