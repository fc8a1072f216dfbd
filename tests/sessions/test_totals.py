"""A session's totals: current after every append, after resume, and whoever wrote."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from records import answers
from strategies import to_line
from turnlog import build
from turnlog.records.codec import decode
from turnlog.sessions.totals import Account, usual_prices

MODEL = "claude-sonnet-4-5-20250929"
USED = {"input_tokens": 15_000, "output_tokens": 2_150, "cache_creation_input_tokens": 8_000}
ID = "66666666-eeee-4eee-8eee-666666666666"


@pytest.fixture
def store(tmp_path):
    return turnlog.open(tmp_path / "store")


def answer(words="Yes", usage=USED, **more):
    return build.assistant(words, model=MODEL, usage=usage, **more)


@pytest.mark.parametrize("layout", ["claude", "dated", "flat"])
def test_totals_are_current_after_every_append_and_after_resume(store, layout):
    with store.create(session_id=ID, layout=layout) as session:
        assert session.totals.messages == 0
        for number in range(1, 4):
            session.append(build.user("Well?"))
            session.append(answer())
            assert session.totals.messages == number
            assert session.totals.tokens.input == number * 15_000
            assert session.totals.cost_usd == number * Decimal("0.10725")
    assert session.totals.messages == 3
    with store.resume(ID) as again:
        assert again.totals == session.totals
        again.append(answer())
        assert again.totals.cost_usd == 4 * Decimal("0.10725")
    assert store.session(ID).totals == again.totals


def test_parts_of_one_response_count_once(store):
    with store.create() as session:
        session.append(answer("a", message_id="msg_1", request_id="req_1"))
        session.append(answer("b", message_id="msg_1", request_id="req_1"))
        assert session.totals.messages == 1


def test_what_others_append_is_counted(store):
    one = store.create(session_id=ID)
    two = store.resume(ID)
    one.append(answer())
    assert two.totals.messages == 1
    two.append(answer())
    assert one.totals.messages == 2


def test_agents_belong_to_their_session(store):
    with store.create(session_id=ID) as session:
        session.append(answer())
        with session.subagent() as subagent:
            subagent.append(answer())
            assert session.totals.messages == 2
            subagent.append(answer())
            assert subagent.totals.messages == 2
        assert session.totals.messages == 3
        assert session.totals.messages == 3
    assert store.session(ID).totals.messages == 3


def test_a_model_without_a_price_is_named_not_guessed(store):
    with store.create() as session:
        session.append(build.assistant("Hm", model="nobody-7", usage=USED))
        session.append(answer())
        assert session.totals.cost_usd == Decimal("0.10725")
        assert session.totals.unpriced == ["nobody-7"]
        assert session.totals.by_model["nobody-7"].output == 2_150


def test_a_replaced_log_is_counted_anew(store):
    with store.create() as session:
        session.append(answer())
        assert session.totals.messages == 1
        beside = session.path.with_suffix(".new")
        beside.write_bytes(b"".join(session.path.read_bytes().splitlines(True)[:2]))
        beside.rename(session.path)
        assert session.totals.messages == 0


# -- a running bill ---------------------------------------------------------------------------

RECORDS = st.lists(
    st.builds(
        answers.answer,
        st.sampled_from(["m-1", "m-2", "m-3", None]),
        st.sampled_from(["r-1", "r-2", None]),
        said=st.builds(
            answers.usage,
            st.integers(0, 1_000),
            input_tokens=st.sampled_from([3, 150_000, 250_000]),
            speed=st.sampled_from([None, "fast"]),
            service_tier=st.sampled_from([None, "batch"]),
        ),
        model=st.sampled_from([MODEL, "claude-opus-4-6", "nobody-5", "deepseek-chat", None]),
        timestamp=st.sampled_from(
            ["2025-02-12T18:00:00Z", "2025-02-12T12:00:00Z", "2026-03-13T00:00:00Z", None]
        ),
        isSidechain=st.booleans(),
        sessionId=st.sampled_from(["s-1", "s-1", "s-1", "s-2", None]),
    ),
    max_size=12,
)


@given(RECORDS, st.integers(0, 12))
def test_a_running_bill_is_at_each_moment_what_the_whole_sum_is(records, first):
    account = Account()
    for number, record in enumerate(records):
        account.take(decode(to_line(record)))
        if number >= first:
            found, whole = account.priced(), usual_prices().bill(account.responses)
            assert found.cost_usd == whole.total_usd
            assert found.unpriced == sorted({each.model for each in whole.unpriced})
            assert (found.messages, found.tokens) == (whole.messages, whole.used)


def test_asking_after_every_record_settles_the_session_once(monkeypatch):
    settled = []
    real = Account.responses

    def responses(self):
        settled.append(1)
        return real.fget(self)

    monkeypatch.setattr(Account, "responses", property(responses))
    account = Account()
    for number in range(50):
        account.take(
            decode(to_line(answers.answer(f"m-{number // 2}", said=answers.usage(number))))
        )
        assert account.priced().messages == number // 2 + 1
    assert len(settled) == 1


def test_who_paid_for_a_contested_response_is_told_by_all_the_others():
    said = [("m-1", "s-1", "12:00"), ("m-1", "s-2", "18:00"), ("m-2", "s-1", "12:00")]
    account = Account()
    for message, session, time in said:
        moment = {"sessionId": session, "timestamp": f"2025-02-12T{time}:00Z"}
        record = answers.answer(message, model="deepseek-chat", **moment)
        account.take(decode(to_line(record)))
        account.priced()
    paid = {each.session: each.at.hour for each in account.responses}
    assert paid == {"s-1": 12, "s-2": 18}  # The second session has nothing of its own.
    assert account.priced().cost_usd == usual_prices().bill(account.responses).total_usd
