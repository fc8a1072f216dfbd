"""What a line tells of responses: fast or slow, the same."""

from __future__ import annotations

import copy
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.answers import AT, FORK, MODEL, SESSION, UUID, answer, echo, usage
from records.samples import CLAUDE, FLAT, ORCHESTRATOR
from strategies import good_lines, json_values, spoiled, spoiled_lines, to_line
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.dates import instant
from turnlog.records.usage_entries import (
    ASIDE,
    COPY,
    ECHO,
    OWN,
    _slowly,
    usage_entries_in,
    usage_entries_of,
    usual_response,
    usual_usage_entry,
)


def one(record):
    (sighting,) = usage_entries_in(to_line(record))
    return sighting


# -- who tells ------------------------------------------------------------------------------


def test_a_record_of_an_assistant_tells():
    seen = one(answer(costUSD=0.5))
    assert (seen.message_id, seen.request_id, seen.session) == ("msg_1", "req_1", SESSION)
    assert (seen.model, seen.cwd, seen.at) == (MODEL, "/srv/kites", instant(AT))
    assert (seen.rank, seen.is_sidechain, seen.odd) == (OWN, False, ())
    assert seen.recorded_usd == Decimal("0.5")
    counters = seen.counters
    assert (counters.input, counters.output, counters.cache_read) == (3, 10, 5000)
    assert (counters.cache_write_5m, counters.cache_write_1h) == (100, 200)


def test_an_echo_of_an_agents_message_tells_of_the_agent_at_its_own_time():
    seen = one(echo(answer(isSidechain=True), subagent="a7"))
    assert (seen.subagent, seen.rank, seen.is_sidechain) == ("a7", ECHO, True)
    assert seen.at == instant(AT)
    assert seen.session == SESSION


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "toolUseResult": {"usage": usage()}, "message": {"content": []}},
        {"type": "result", "usage": usage(), "total_cost_usd": 3},
        {"type": "system", "message": {"usage": usage()}, "usage": usage()},
        answer() | {"message": {"role": "assistant", "content": []}},
        answer(said=0) | {"message": {"id": "msg_1", "usage": None}},
        echo(answer()) | {"data": {"type": "bash_progress", "message": answer()}},
        echo(answer() | {"type": "user"}),
        echo(answer()) | {"data": None},
    ],
)
def test_what_repeats_in_sum_or_says_nothing_does_not_tell(record):
    assert usage_entries_in(to_line(record)) == ()


def test_other_dialects_tell_too():
    spoken = {
        "type": "assistant",
        "content": "Aye.",
        "timestamp": AT,
        "model": MODEL,
        "usage": {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_creation_tokens": 3,
            "cache_read_tokens": 4,
        },
        "metadata": {"sessionId": "kites"},
    }
    seen = one(spoken)
    assert (seen.session, seen.model) == ("kites", MODEL)
    assert (seen.counters.cache_write_5m, seen.counters.cache_read) == (3, 4)
    camel = {
        "role": "assistant",
        "content": "Aye.",
        "timestamp": AT,
        "inputTokens": 5,
        "outputTokens": 6,
    }
    assert (one(camel).counters.input, one(camel).counters.output) == (5, 6)
    flat = {
        "type": "assistant",
        "uuid": "f-1",
        "content": [],
        "timestamp": 1772600000000,
        "usage": usage(8),
    }
    assert (one(flat).counters.output, one(flat).record_id) == (8, "f-1 1772600000000")


def test_a_copy_tells_whose_it_is():
    seen = one(answer(sessionId=FORK, forkedFrom={"sessionId": SESSION, "messageUuid": "u"}))
    assert (seen.session, seen.rank) == (SESSION, COPY)
    assert one(answer(sessionId=FORK, forkedFrom={})).session == FORK
    assert one(answer(sessionId=FORK, forkedFrom="there")).session == FORK


# -- passes that are paid apart -------------------------------------------------------------


def test_advisors_and_compactions_are_sightings_of_their_own():
    passes = [
        {"type": "message", "input_tokens": 3, "output_tokens": 10},
        {
            "type": "advisor_message",
            "model": "claude-opus-4-6",
            "input_tokens": 40,
            "output_tokens": 5,
        },
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    ]
    own, advisor, compaction = usage_entries_in(to_line(answer(said=usage(iterations=passes))))
    assert own.counters.output == 10
    assert (advisor.model, advisor.counters.input, advisor.part) == (
        "claude-opus-4-6",
        40,
        "advisor_message 1",
    )
    assert (compaction.model, compaction.counters.input) == (MODEL, 180_000)
    assert usual_response(to_line(answer(said=usage(iterations=passes)))) is None
    assert len(usage_entries_in(to_line(echo(answer(said=usage(iterations=passes)))))) == 3


@pytest.mark.parametrize("passes", [None, [], "three", [None], [{"type": 4}], [[1]]])
def test_odd_passes_cost_nothing(passes):
    (seen,) = usage_entries_in(to_line(answer(said=usage(iterations=passes))))
    assert seen.counters.output == 10


# -- untidiness -----------------------------------------------------------------------------


def test_a_usage_that_is_no_object_is_a_response_with_an_odd_usage():
    for said in ([1, 2], "much", 7, True):
        seen = one(answer(said=said))
        assert (seen.odd, seen.counters.total) == (("usage",), 0)


def test_empty_ids_are_no_ids():
    seen = one(answer("", "", uuid=UUID))
    assert (seen.message_id, seen.request_id, seen.record_id) == (None, None, UUID)


def test_only_a_uuid_names_a_record_wherever_it_is_copied():
    assert one(answer(request_id=None, uuid=UUID)).record_id == UUID
    assert one(answer(request_id=None, uuid="7")).record_id == f"7 {AT}"
    assert one(answer(request_id="req_1", uuid=UUID)).record_id is None
    copied = answer(request_id=None, forkedFrom={"sessionId": SESSION, "messageUuid": UUID})
    assert one(copied).copy_of == UUID


def test_a_record_without_any_id_is_known_by_its_bytes_if_it_has_a_time():
    bare = answer(None, None)
    assert one(bare).record_id == one(copy.deepcopy(bare)).record_id is not None
    assert one(bare).record_id != one(answer(None, None, said=usage(11))).record_id
    del bare["timestamp"]
    assert one(bare).record_id is None


@pytest.mark.parametrize(
    ("spelt", "tells"),
    [
        ("2026-03-04T05:06:07.089123Z", "2026-03-04T05:06:07.089123+00:00"),
        ("2026-03-04T05:06:07+02:00", "2026-03-04T03:06:07+00:00"),
        ("2026-03-04T05:06:07", "2026-03-04T05:06:07+00:00"),
        (1772600767089, "2026-03-04T05:06:07.089000+00:00"),
        ("9999-99-99T99:99:99Z", None),
        (None, None),
        (True, None),
        ({"at": 1}, None),
    ],
)
def test_every_notation_of_an_instant(spelt, tells):
    at = one(answer(timestamp=spelt)).at
    assert (at and at.isoformat()) == tells


@pytest.mark.parametrize("cost", [-1, float("1e300"), "1", None, True])
def test_a_recorded_cost_that_cannot_be_one_is_none(cost):
    assert one(answer(costUSD=cost)).recorded_usd is None


def test_lines_that_others_drop_are_read():
    told = usage(10)
    tool_input = {
        "type": "tool_use",
        "id": "t",
        "name": "Put",
        "input": {"model": None, "id": None, "cwd": None},
    }
    null_inside = answer()
    null_inside["message"]["content"] = [tool_input]
    for line in (
        to_line(null_inside),
        to_line(answer(), spaced=True),
        to_line(answer(said=usage(10.0))),
        to_line(answer(said=usage(10, speed="ludicrous"))),
        to_line(answer(version="dev-build")),
        to_line(answer(requestId="")),
        to_line(answer(costUSD=None, version=None, agentId=None)),
        to_line(answer()).replace(b"kites", b"\\ud83d", 1),
        to_line(answer()).replace(b'"text":"kites"', b'"text":"\xff\xfe"', 1),
        to_line(answer())[:-1] + b',"sessionId":"twice"}',
    ):
        (seen,) = usage_entries_in(line)
        assert seen.counters.output == told["output_tokens"], line


# -- one answer, whichever way it is read ---------------------------------------------------

usages = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": st.integers(0, 9) | json_values,
        "output_tokens": st.integers(0, 9) | json_values,
        "cache_creation_input_tokens": st.integers(0, 9) | st.none(),
        "cache_read_input_tokens": st.integers(0, 9) | json_values,
        "cache_creation": st.none()
        | st.fixed_dictionaries(
            {}, optional={"ephemeral_1h_input_tokens": st.integers(0, 9), "x": json_values}
        ),
        "server_tool_use": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "web_search_requests": st.integers(0, 3),
                "web_fetch_requests": st.integers(0, 3),
                "y": st.integers(0, 3),
            },
        ),
        "speed": st.sampled_from([None, "fast", "standard"]) | json_values,
        "service_tier": st.none() | json_values,
        "iterations": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["message", "compaction"]),
                    "output_tokens": st.integers(0, 5),
                }
            ),
            max_size=2,
        ),
        "output_tokens_details": st.none()
        | st.dictionaries(st.sampled_from("ab"), st.integers(-1, 5)),
        "newer": json_values,
    },
)
answers = st.builds(
    answer,
    st.none() | st.sampled_from(["", "msg_1", "msg_2"]),
    st.none() | st.sampled_from(["", "req_1"]),
    said=usages | json_values.filter(lambda value: value is not None),
    isSidechain=st.booleans() | st.none(),
    agentId=st.none() | st.sampled_from(["", "a1"]),
    timestamp=st.sampled_from([AT, "2026-03-04T05:06:07+02:00", "never", None, 1772600767089]),
    uuid=st.none() | st.just("u-1"),
    forkedFrom=st.none() | st.just({"sessionId": FORK}),
)


@given(answers | answers.map(echo))
def test_the_fast_ways_tell_what_the_slow_one_does(record):
    line = to_line(record)
    assert usage_entries_in(line) == _slowly(line)
    told = usual_response(line)
    if told is not None:
        assert (usual_usage_entry(told, instant(told.timestamp)),) == _slowly(line)


@given(answers | answers.map(echo))
def test_a_record_tells_what_its_line_does(record):
    line = to_line(record)
    assert usage_entries_of(decode(line)) == usage_entries_in(line)


@given(good_lines() | spoiled().map(to_line) | spoiled_lines() | st.binary(max_size=60))
def test_any_bytes_are_read(line):
    found = usage_entries_in(line)
    if isinstance(found, Damage):
        assert isinstance(decode(line), Damage)
    else:
        record = decode(line)
        assert isinstance(record, Damage) or usage_entries_of(record) == found


def test_records_that_never_were_lines_tell_too():
    record = decode(to_line(answer()))
    made = msgspec.structs.replace(record, raw=b"")
    assert [each.counters for each in usage_entries_of(made)] == [
        each.counters for each in usage_entries_of(record)
    ]


def test_every_kind_of_record_is_read():
    tell = {
        name
        for name, record in {**CLAUDE, **FLAT, **ORCHESTRATOR}.items()
        if usage_entries_in(to_line(record))
    }
    assert tell
    assert all(name.startswith(("assistant", "progress")) for name in tell), tell


def test_ranks_are_ordered_by_nearness():
    assert OWN < ASIDE < ECHO < COPY
    assert one(answer(isSidechain=True)).rank == ASIDE
