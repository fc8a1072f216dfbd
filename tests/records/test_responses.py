"""Each API response counts once, whatever was written of it, where, and in which order."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.answers import AT, FORK, MODEL, SESSION, answer, as_set, echo, logs, usage
from strategies import to_line
from turnlog.records.codec import decode
from turnlog.records.dates import instant, iso
from turnlog.records.responses import UNKNOWN, Responses, RunningTotals
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import COPY, usage_entries_in

LATER = "2026-03-04T05:06:09.000Z"
NEXT_DAY = "2026-03-05T05:06:07.000Z"


def settled(*records):
    folded = Responses()
    for record in records:
        for sighting in usage_entries_in(to_line(record)):
            folded.take(sighting)
    return folded.settle()


def one(*records):
    (response,) = settled(*records)
    return response


def tokens(responses):
    total = Counters()
    for response in responses:
        total.add(response.counters)
    return total


# -- which sightings are one response -------------------------------------------------------


def test_records_of_one_response_count_once_and_the_final_count_counts():
    parts = [answer(said=usage(2)), answer(said=usage(2)), answer(said=usage(200), timestamp=LATER)]
    for order in (parts, parts[::-1]):
        response = one(*order)
        assert response.counters.output == 200
        assert response.at == instant(LATER)
        assert response.messages == 1


def test_a_response_is_dated_by_its_last_record_even_if_an_earlier_one_counts():
    response = one(answer(said=usage(9)), answer(said=usage(1), timestamp=NEXT_DAY))
    assert response.counters.output == 9
    assert response.at == instant(NEXT_DAY)


def test_figures_of_two_records_are_never_mixed():
    first = usage(50, input_tokens=900, cache_read_input_tokens=0)
    final = usage(51, input_tokens=3, cache_read_input_tokens=880)
    response = one(answer(said=first, model="claude-opus-4-6"), answer(said=final))
    assert response.model == MODEL
    assert (response.counters.input, response.counters.cache_read) == (3, 880)


def test_two_requests_are_two_responses():
    assert len(settled(answer("msg_1", "req_1"), answer("msg_1", "req_2"))) == 2
    assert len(settled(answer("msg_1", "req_1"), answer("msg_2", "req_1"))) == 2


def test_without_a_request_the_message_is_the_response():
    parts = [
        answer(request_id=None, said=usage(5)),
        answer(request_id=None, said=usage(50), timestamp=LATER),
    ]
    assert one(*parts).counters.output == 50
    assert one(*parts, answer(request_id="", said=usage(7))).counters.output == 50
    assert one(*parts, answer("msg_1", "req_1", said=usage(51))).counters.output == 51


def test_without_a_message_the_request_is_the_response():
    assert len(settled(answer(None, "req_1"), answer(None, "req_1"), answer("", "req_2"))) == 2


def test_without_either_the_record_is_the_response():
    assert len(settled(answer(None, None, uuid="u-1"), answer(None, None, uuid="u-1"))) == 1
    assert len(settled(answer(None, None, uuid="u-1"), answer(None, None, uuid="u-2"))) == 2
    assert len(settled(answer(None, None), answer(None, None))) == 1  # The same bytes.
    undated = answer(None, None)
    del undated["timestamp"]
    assert len(settled(undated, undated)) == 2


def test_a_sidechain_that_replays_a_message_under_another_request_is_not_paid_again():
    paid = answer(said=usage(200))
    replay = answer("msg_1", "req_9", said=usage(200), isSidechain=True, timestamp=NEXT_DAY)
    for order in ([paid, replay], [replay, paid]):
        response = one(*order)
        assert (response.is_sidechain, response.at) == (False, instant(AT))
    assert len(settled(replay, replay | {"requestId": "req_8"})) == 1
    two = settled(paid, paid | {"requestId": "req_2"}, replay)
    assert sorted(response.request_id for response in two) == ["req_1", "req_2"]


def test_a_partial_never_beats_the_final_count_of_a_sidechain():
    partial = answer(said=usage(2))
    final = answer(said=usage(200), isSidechain=True)
    for order in ([partial, final], [final, partial]):
        assert one(*order).counters.output == 200


def test_an_echo_counts_once_with_the_agents_own_record_and_alone_if_that_is_gone():
    own = answer(isSidechain=True, agentId="a1")
    both = one(own, echo(own))
    assert (both.subagent, both.is_sidechain, both.at) == ("a1", True, instant(AT))
    assert one(echo(own)) == both
    assert one(echo(own), own).session == SESSION


def test_messages_that_the_program_made_up_are_no_responses():
    nothing = {"input_tokens": 0, "output_tokens": 0, "speed": None, "iterations": None}
    folded = Responses()
    for sighting in usage_entries_in(
        to_line(answer(said=nothing, model="<synthetic>", request_id=None))
    ):
        folded.take(sighting)
    assert folded.settle() == []
    assert folded.synthetic == 1


def test_tokens_of_a_made_up_message_are_in_a_row_of_their_own():
    (response,) = settled(answer(said=usage(5), model="<synthetic>"))
    assert (response.model_name, response.counters.output) == ("<synthetic>", 5)


def test_passes_that_are_paid_apart_are_no_messages_of_their_own():
    passes = [{"type": "advisor_message", "model": "claude-opus-4-6", "output_tokens": 7}]
    told = answer(said=usage(10, iterations=passes))
    own, advisor = settled(told, told)
    assert (own.messages, advisor.messages) == (1, 0)
    assert (advisor.model_name, advisor.counters.output) == ("claude-opus-4-6", 7)


def test_fast_mode_has_a_name_and_an_unknown_model_one_too():
    assert one(answer(said=usage(speed="fast"))).model_name == f"{MODEL}-fast"
    assert one(answer(said=usage(speed="ludicrous"))).model_name == MODEL
    assert one(answer(model=None)).model_name == UNKNOWN


# -- messages without a request: ids that gateways make up, one for each second ---------------


GATEWAY = "msg_20260215055127"


def via_gateway(session=SESSION, output=10, *, second=7, uuid=None, **more):
    """A record of a response that came through a gateway: it names no request."""
    at = f"2026-02-15T05:51:{second:02}.000Z"
    uuid = uuid or str(uuid5(NAMESPACE_OID, f"{session} {second} {output}"))
    return answer(
        GATEWAY, None, said=usage(output), sessionId=session, timestamp=at, uuid=uuid, **more
    )


def outputs(*records):
    found = settled(*records)
    assert as_set(found) == as_set(settled(*records[::-1]))
    return sorted(response.counters.output for response in found)


def test_parallel_sessions_that_share_an_id_have_responses_of_their_own():
    records = [via_gateway(f"s-{number}") for number in range(56)]
    assert outputs(*records) == [10] * 56
    assert {response.session for response in settled(*records)} == {f"s-{n}" for n in range(56)}


def test_a_stream_without_a_request_is_one_response_and_its_final_count_counts():
    assert outputs(*(via_gateway(output=n, second=n) for n in (0, 4, 4, 9))) == [9]


def test_another_model_is_another_response():
    assert outputs(via_gateway(output=3), via_gateway(output=5, model="glm-4.6")) == [3, 5]


def test_usage_that_shrinks_is_another_response():
    stream = [via_gateway(output=n, second=n) for n in (2, 30)]
    assert outputs(*stream, via_gateway(output=5, second=31)) == [5, 30]


def test_agents_that_work_at_once_have_responses_of_their_own():
    main = via_gateway(output=3)
    subagents = [via_gateway(output=n, isSidechain=True, agentId=f"a{n}") for n in (4, 5)]
    assert outputs(main, *subagents) == [3, 4, 5]
    assert outputs(main, *subagents, echo(subagents[0], "a4"), echo(subagents[1], "a5")) == [
        3,
        4,
        5,
    ]


def test_what_a_fork_copied_is_still_one_response_and_the_first_session_pays():
    stream = [via_gateway(output=n, second=n) for n in (2, 30)]
    alone = via_gateway("s-other", 7)
    for copied in (stream, stream[:1], stream[1:]):
        fork = [record | {"sessionId": FORK} for record in copied]
        fork += [answer("msg_later", None, sessionId=FORK, uuid="u-9", timestamp=NEXT_DAY)]
        assert outputs(*stream, alone, *fork) == [7, 10, 30]
        paid = {each.counters.output: each.session for each in settled(*stream, alone, *fork)}
        assert paid == {7: "s-other", 10: FORK, 30: SESSION}


def test_a_copy_under_a_new_uuid_is_the_record_that_it_names():
    stream = [via_gateway(output=n, second=n) for n in (2, 30)]

    def forked(record, session, origin):
        name = {"sessionId": origin, "messageUuid": record["uuid"]}
        uuid = str(uuid5(NAMESPACE_OID, f"{session} {record['uuid']}"))
        return record | {"sessionId": session, "forkedFrom": name, "uuid": uuid}

    # An SDK that forks stamps the last record that it takes anew.
    fork = forked(stream[0], FORK, SESSION) | {"timestamp": NEXT_DAY}
    assert outputs(*stream, fork) == [30]
    assert outputs(*stream, fork, forked(fork, "s-third", FORK)) == [30]
    nameless = answer(None, None, uuid=str(uuid5(NAMESPACE_OID, "nameless")))
    assert len(settled(nameless, forked(nameless, FORK, SESSION))) == 1


def test_the_same_line_twice_is_one_record():
    line = via_gateway()
    del line["uuid"]
    assert outputs(line, line) == [10]
    # Without an id of its own, what another session says is another record.
    assert outputs(line, line | {"sessionId": FORK}) == [10, 10]


def test_a_program_that_counts_its_records_names_none_of_another_session():
    records = [via_gateway(f"s-{n}", uuid="1", second=n) for n in (1, 2)]
    assert outputs(*records) == [10, 10]
    nameless = [answer(None, None, uuid="1", timestamp=at) for at in (AT, LATER)]
    assert outputs(*nameless) == [10, 10]


def test_a_record_that_names_no_request_belongs_to_its_sessions_request_only():
    asked = answer(GATEWAY, "req_1", said=usage(40))
    assert outputs(asked, via_gateway(SESSION, 5), via_gateway(FORK, 6)) == [6, 40]


def test_ids_that_two_sessions_share_by_chance_do_not_tell_which_is_older():
    """The fork shares an id with its original by chance; it copied one response only."""
    first = [*history(SESSION, 1), via_gateway(SESSION, 3, second=1), *history(SESSION, 5)]
    fork = [*history(FORK, 1), via_gateway(FORK, 4, second=2), *history(FORK, 4)]
    paid = {(each.message_id, each.session) for each in settled(*first, *fork)}
    assert ("msg_1", SESSION) in paid
    assert {(GATEWAY, SESSION), (GATEWAY, FORK)} < paid


# -- who paid -------------------------------------------------------------------------------


def history(session, *numbers, **more):
    """A session's answers, a minute apart."""
    for number in numbers:
        at = datetime(2026, 3, 4, 5, number, tzinfo=UTC)
        ids = (f"msg_{number}", f"req_{number}")
        yield answer(*ids, sessionId=session, timestamp=iso(at), uuid=f"u-{number}", **more)


def payers(*records):
    return {response.message_id: response.session for response in settled(*records)}


@pytest.mark.parametrize(("original", "fork"), [(SESSION, FORK), (FORK, SESSION)])
def test_a_fork_that_rewrote_its_ids_pays_only_for_what_is_its_own(original, fork):
    log = [*history(original, 1, 2, 3, 4)]
    copied = [*history(fork, 1, 2), *history(fork, 8, 9)]
    expected = {f"msg_{n}": original for n in (1, 2, 3, 4)} | {"msg_8": fork, "msg_9": fork}
    assert payers(*log, *copied) == payers(*copied, *log) == expected


@pytest.mark.parametrize(("original", "fork"), [(SESSION, FORK), (FORK, SESSION)])
def test_a_fork_of_a_whole_session_is_told_by_having_more(original, fork):
    log, copied = [*history(original, 1, 2)], [*history(fork, 1, 2, 5)]
    assert payers(*log, *copied) == {"msg_1": original, "msg_2": original, "msg_5": fork}


def test_a_fork_of_a_fork_pays_for_the_last_part_only():
    first, second, third = "c-first", "b-second", "a-third"
    log = [*history(first, 1, 2)]
    log += history(second, 1, 2, 3, 4)
    log += history(third, 1, 2, 3, 4, 5)
    paid = payers(*log)
    assert paid == {
        "msg_1": first,
        "msg_2": first,
        "msg_3": second,
        "msg_4": second,
        "msg_5": third,
    }


def test_a_copy_that_says_whose_it_is_never_pays():
    own = [*history(SESSION, 1, 2)]
    origin = {"sessionId": SESSION, "messageUuid": "u"}
    copied = list(history(FORK, 1, 2, forkedFrom=origin))
    copied[-1]["timestamp"] = NEXT_DAY  # Forks by the SDK stamp their last record anew.
    for response in settled(*copied, *own, *history(FORK, 7)):
        assert response.session == (FORK if response.message_id == "msg_7" else SESSION)
        assert response.at.date().isoformat() == "2026-03-04"
    assert set(payers(*copied).values()) == {SESSION}  # Also when its own log is gone.


def test_a_copy_of_a_copy_does_not_outrank_the_original():
    own = [*history("z-original", 1)]
    copied = history("fork", 1, forkedFrom={"sessionId": "a-fork-between", "messageUuid": "u"})
    assert payers(*own, *copied) == {"msg_1": "z-original"}


def test_a_copy_that_has_the_final_count_counts_but_does_not_pay():
    cut = [*history(SESSION, 1)]
    whole = [record | {"sessionId": FORK} for record in copy.deepcopy(cut)]
    whole[0]["message"]["usage"] = usage(500)
    whole += history(FORK, 5)
    paid = {response.message_id: response for response in settled(*cut, *whole)}
    assert (paid["msg_1"].session, paid["msg_1"].counters.output) == (SESSION, 500)


def test_a_session_that_changes_directories_stays_one_project():
    records = list(history(SESSION, 1, 2, 3))
    records[1]["cwd"] = "/srv/kites/tail"
    subagents = list(history(SESSION, 4, isSidechain=True, agentId="a1", cwd="/tmp/worktree"))
    for order in (records + subagents, subagents + records[::-1]):
        assert {response.project for response in settled(*order)} == {"/srv/kites"}
        assert len({response.cwd for response in settled(*order)}) == 3


# -- totals while a session is written ------------------------------------------------------


def test_totals_are_current_after_each_record():
    totals = RunningTotals()
    seen = []
    for record in (
        {"type": "user", "message": {"role": "user", "content": "Up?"}},
        answer(said=usage(2)),
        answer(said=usage(200)),
        answer("msg_2", "req_2", said=usage(5, speed="fast"), model="claude-opus-4-6"),
    ):
        totals.take(decode(to_line(record)))
        seen.append((totals.messages, totals.counters.output))
    assert seen == [(0, 0), (1, 2), (1, 200), (2, 205)]
    assert set(totals.usage) == {MODEL, "claude-opus-4-6-fast"}
    assert totals.usage[MODEL].cache_write_1h == 200
    assert tokens(totals.responses) == totals.counters


def test_a_response_that_goes_on_with_another_model_leaves_no_trace_of_the_first():
    totals = RunningTotals()
    totals.take(decode(to_line(answer(said=usage(2), model="claude-opus-4-6"))))
    totals.take(decode(to_line(answer(said=usage(20)))))
    assert set(totals.usage) == {MODEL}
    assert totals.messages == 1


def test_a_flat_logs_model_is_named_once_for_all():
    totals = RunningTotals()
    for record in (
        {"type": "system_init", "timestamp": 1772600000000, "cwd": "/", "model": MODEL},
        {
            "type": "assistant",
            "uuid": "f-1",
            "content": [],
            "timestamp": 1772600000001,
            "usage": usage(4),
        },
    ):
        totals.take(decode(to_line(record)))
    assert totals.usage[MODEL].output == 4


def test_odd_usage_is_told():
    totals = RunningTotals()
    totals.take(decode(to_line(answer(said=usage("many")))))
    assert (totals.odd, totals.messages, totals.counters.output) == (1, 1, 0)


# -- nothing depends on chance --------------------------------------------------------------


@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_records_means_nothing(records, chance):
    shuffled = list(records)
    chance.shuffle(shuffled)
    assert as_set(settled(*records)) == as_set(settled(*shuffled))


@given(logs, st.randoms(use_true_random=False))
def test_repeats_mean_nothing(records, chance):
    repeated = records + [chance.choice(records) for _ in records]
    assert as_set(settled(*records)) == as_set(settled(*repeated))


@given(logs)
def test_totals_say_what_the_ledger_says(records):
    totals = RunningTotals()
    for record in records:
        totals.take(decode(to_line(record)))
    responses = settled(*records)
    assert totals.counters == tokens(responses)
    assert totals.messages == sum(response.messages for response in responses)
    names = {response.model_name for response in responses}
    assert set(totals.usage) == names
    for name in names:
        own = [response for response in responses if response.model_name == name]
        assert totals.usage[name] == tokens(own)


@given(logs)
def test_no_response_is_lost_or_invented(records):
    responses = settled(*records)
    told = {
        sighting.message_id
        for record in records
        for sighting in usage_entries_in(to_line(record))
        if sighting.counters.total or sighting.model != "<synthetic>"
    }
    assert {response.message_id for response in responses} == told
    claimed = {record.get("sessionId") for record in records} | {SESSION, None}
    assert {response.session for response in responses} <= claimed


def test_many_copies_of_one_message_are_folded_in_good_time():
    folded = Responses()
    for number in range(20_000):
        for sighting in usage_entries_in(to_line(answer(sessionId=f"s-{number % 500}"))):
            sighting.rank = COPY
            folded.take(sighting)
    assert len(folded.settle()) == 1
    assert len(folded.held()) == 500
