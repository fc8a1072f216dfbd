"""A session's totals: current after every append, after resume, and whoever wrote."""

from decimal import Decimal

import pytest

import turnlog
from turnlog import build

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
        with session.agent() as agent:
            agent.append(answer())
            assert session.totals.messages == 2
            agent.append(answer())
            assert agent.totals.messages == 2
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
