"""What usage costs: the seeds' figures, Anthropic's rules, and every cent explained."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.answers import MODEL, answer, usage
from strategies import json_values, to_line
from turnlog.errors import UsageError
from turnlog.pricing.cost import Bill, cost
from turnlog.pricing.money import Unpriced, attodollars, shown, total_usd
from turnlog.records.codec import decode
from turnlog.records.responses import Responses, RunningTotals
from turnlog.records.usage import CacheWrites, Counters, ServerTools, Usage
from turnlog.records.usage_entries import usage_entries_in

SEED_DAY = datetime(2025, 11, 16, tzinfo=UTC)
SPRING = datetime(2026, 5, 1, tzinfo=UTC)
MILLION = 1_000_000
SEED_USAGE = {
    "input_tokens": 15_000,
    "output_tokens": 2_150,
    "cache_creation_tokens": 8_000,
    "cache_read_tokens": 0,
}


def responses_of(*records):
    folded = Responses()
    for record in records:
        for sighting in usage_entries_in(to_line(record)):
            folded.take(sighting)
    return folded.settle()


# -- the seeds' figures ---------------------------------------------------------------------


def test_the_worked_example_is_exact_and_shows_eleven_cents(prices):
    found = prices.cost(SEED_USAGE, "claude-sonnet-4-5-20250929", at=SEED_DAY)
    assert found == Decimal("0.10725")
    assert str(found) == "0.10725"
    assert shown(found) == "$0.11"


def test_the_example_costs_the_same_by_todays_prices_and_without_loading_any():
    assert cost(SEED_USAGE, "claude-sonnet-4-5-20250929") == Decimal("0.10725")


@pytest.mark.parametrize(
    ("model", "rates"),
    [
        ("claude-sonnet-4-5-20250929", ("3.00", "15.00", "3.75", "0.30")),
        ("claude-opus-4-1-20250805", ("15.00", "75.00", "18.75", "1.50")),
        ("claude-3-5-sonnet-20241022", ("3.00", "15.00", "3.75", "0.30")),
    ],
)
def test_the_three_models_of_the_seed_have_its_rates_on_its_day(prices, model, rates):
    counters = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")
    for name, rate in zip(counters, rates, strict=True):
        # A hundred thousand: a million would be a long context.
        tenth = prices.cost({name: 100_000}, model, at=SEED_DAY)
        assert tenth * 10 == Decimal(rate), name


def test_usage_may_be_said_in_several_ways(prices):
    said = usage(10, server_tool_use={"web_search_requests": 3})
    typed = Usage(
        input=3,
        output=10,
        cache_write=300,
        cache_read=5000,
        cache_writes=CacheWrites(100, 200),
        server_tools=ServerTools(3),
    )
    counted = Counters(3, 10, 100, 200, 5000, 3)
    assert prices.cost(said, MODEL) == prices.cost(typed, MODEL) == prices.cost(counted, MODEL)
    record = decode(to_line(answer(said=said)))
    assert prices.cost(record.usage, record.model) == prices.cost(said, MODEL)


# -- what others leave out ------------------------------------------------------------------


def priced(prices, model="claude-opus-4-6", at=SPRING, **said):
    found = prices.cost(said, model, at=at)
    assert isinstance(found, Decimal), found
    return found


def test_writes_for_an_hour_cost_more_than_those_for_five_minutes(prices):
    five = priced(prices, cache_creation={"ephemeral_5m_input_tokens": MILLION})
    hour = priced(prices, cache_creation={"ephemeral_1h_input_tokens": MILLION})
    assert (five, hour) == (Decimal("6.25"), Decimal(10))


def test_web_searches_cost_ten_dollars_a_thousand(prices):
    searches = {"server_tool_use": {"web_search_requests": 1000}}
    assert priced(prices, **searches) == 10
    assert priced(prices, "claude-3-opus-20240229", **searches) == 10


def test_batches_cost_half_but_their_searches_do_not(prices):
    said = {"input_tokens": MILLION, "server_tool_use": {"web_search_requests": 1000}}
    assert priced(prices, **said) == 15
    assert priced(prices, **said, service_tier="batch") == Decimal("12.5")


def test_inference_kept_in_the_us_costs_a_tenth_more_from_opus_4_6_on(prices):
    said = {"input_tokens": MILLION, "cache_read_input_tokens": MILLION}
    assert priced(prices, **said, inference_geo="us") == Decimal("6.05")
    assert priced(prices, **said, inference_geo="global") == Decimal("5.5")
    assert priced(prices, **said, inference_geo="not_available") == Decimal("5.5")
    old = priced(prices, "claude-opus-4-5-20251101", **said, inference_geo="us")
    assert old == Decimal("5.5")


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-opus-4-6", 30),
        ("claude-opus-4-7", 30),
        ("claude-opus-4-8", 10),
        ("claude-opus-5", 10),
        ("claude-opus-5-5", 8),
    ],
)
def test_fast_mode_has_its_price(prices, model, price):
    assert priced(prices, model, input_tokens=MILLION, speed="fast") == price


def test_fast_mode_in_a_long_context_stacks(prices):
    early = datetime(2026, 2, 10, tzinfo=UTC)
    said = {"input_tokens": MILLION, "output_tokens": MILLION, "speed": "fast"}
    assert priced(prices, at=early, **said) == 60 + 225
    assert priced(prices, **said) == 30 + 150


def test_terms_stack(prices):
    said = {"output_tokens": MILLION, "service_tier": "batch", "inference_geo": "us"}
    assert priced(prices, **said) == Decimal("13.75")


def test_a_fast_mode_without_a_known_price_is_unpriced_not_guessed(prices):
    for model, speed in ((MODEL, "fast"), ("claude-opus-4-6", "ludicrous")):
        found = prices.cost(usage(speed=speed), model)
        assert isinstance(found, Unpriced)
        assert speed in found.reason


def test_a_long_context_is_dearer_for_the_whole_request(prices):
    """Also if no counter alone is above the threshold."""
    halves = {"cache_read_input_tokens": 190_000, "cache_creation_input_tokens": 190_000}
    assert priced(prices, MODEL, SEED_DAY, **halves) == Decimal("0.114") + Decimal("1.425")
    just = {"input_tokens": 200_000, "output_tokens": 1_000}
    assert priced(prices, MODEL, SEED_DAY, **just) == Decimal("0.615")
    more = just | {"input_tokens": 200_001}
    assert priced(prices, MODEL, SEED_DAY, **more) == Decimal("1.200006") + Decimal("0.0225")
    output = {"output_tokens": 300_000}  # What is written is not context.
    assert priced(prices, MODEL, SEED_DAY, **output) == Decimal("4.5")


def test_sonnet_4_had_a_long_context_too(prices):
    said = {"input_tokens": MILLION}
    assert priced(prices, "claude-sonnet-4-20250514", SEED_DAY, **said) == 6


def test_prices_are_those_of_the_day(prices):
    said = {"input_tokens": 300_000}
    before = datetime(2026, 3, 12, 23, 59, 59, tzinfo=UTC)
    after = datetime(2026, 3, 13, tzinfo=UTC)
    assert priced(prices, at=before, **said) == 3
    assert priced(prices, at=after, **said) == Decimal("1.5")
    assert priced(prices, at=before.replace(tzinfo=None), **said) == 3  # Taken for UTC.


def test_prices_that_depend_on_the_hour(prices):
    night = datetime(2025, 6, 1, 20, tzinfo=UTC)
    day = datetime(2025, 6, 1, 10, tzinfo=UTC)
    said = {"input_tokens": MILLION}
    assert priced(prices, "deepseek-chat", night, **said) < priced(
        prices, "deepseek-chat", day, **said
    )
    again = priced(prices, "deepseek-chat", night, **said)
    assert again < priced(prices, "deepseek-chat", day, **said)


def test_terms_without_a_known_price_are_said(prices):
    records = [
        answer("m1", "r1", said=usage(service_tier="flex")),
        answer("m2", "r2", said=usage(inference_geo="mars")),
        answer("m3", "r3", said=usage(service_tier="priority")),
    ]
    bill = prices.bill(responses_of(*records))
    assert bill.assumed == {
        "service tier 'flex' priced as standard": 1,
        "geography 'mars' priced as global": 1,
    }
    assert bill.total_usd == 3 * prices.cost(usage(), MODEL)


# -- what has no price ----------------------------------------------------------------------


def test_an_unknown_model_is_a_value_with_its_tokens(prices):
    found = prices.cost(SEED_USAGE, "opus-of-tomorrow")
    assert isinstance(found, Unpriced)
    assert (found.model, found.counters.total) == ("opus-of-tomorrow", 25_150)


def test_strict_raises_a_value_error_with_a_way_out(prices):
    with pytest.raises(UsageError, match="opus-of-tomorrow") as caught:
        prices.cost(SEED_USAGE, "opus-of-tomorrow", strict=True)
    assert isinstance(caught.value, ValueError)
    assert "config.toml" in caught.value.hint
    assert prices.cost(SEED_USAGE, MODEL, at=SEED_DAY, strict=True) == Decimal("0.10725")


@given(
    st.dictionaries(st.sampled_from([*usage(), "speed", "inference_geo"]), json_values),
    st.text(max_size=40),
)
def test_any_usage_and_any_model_give_a_value(prices, said, model):
    for name in (MODEL, model):
        found = prices.cost(said, name)
        assert isinstance(found, Unpriced) or found >= 0


def test_typed_usage_with_absurd_counts_costs_nothing(prices):
    writes = CacheWrites(-1, 10**40)
    assert prices.cost(Usage(input=-5, output=10**30, cache_writes=writes), MODEL) == 0


# -- bills ----------------------------------------------------------------------------------


def test_a_sessions_totals_can_be_billed(prices):
    totals = RunningTotals()
    for record in (
        answer("m1", "r1", said=usage(2)),
        answer("m1", "r1", said=usage(200)),
        answer("m2", "r2", model="nobody-5"),
        answer("m3", "r3", model="nobody-5"),
        answer("m4", "r4", model=None),
    ):
        totals.take(decode(to_line(record)))
    bill = prices.bill(totals.responses)
    assert bill.total_usd == prices.cost(usage(200), MODEL)
    assert bill.by_model == {MODEL: bill.total_usd}
    assert [(each.model, each.messages, each.counters.output) for each in bill.unpriced] == [
        ("nobody-5", 2, 20),
        ("(unknown)", 1, 10),
    ]


def test_recorded_costs_can_be_compared(prices):
    recorded = answer("m1", "r1", costUSD=0.25)
    records = responses_of(recorded, answer("m2", "r2"))
    each = prices.cost(usage(), MODEL)
    reckoned = prices.bill(records)
    assert (reckoned.total_usd, reckoned.recorded) == (2 * each, 0)
    auto = prices.bill(records, mode="auto")
    assert (auto.total_usd, auto.recorded) == (Decimal("0.25") + each, 1)
    told = prices.bill(records, mode="recorded")
    assert told.total_usd == Decimal("0.25")
    assert [(one.messages, one.reason) for one in told.unpriced] == [(1, "no cost was recorded")]
    with pytest.raises(UsageError, match="display"):
        prices.bill(records, mode="display")


def test_a_long_context_is_told_by_request_not_by_sum(prices):
    said = {"input_tokens": 150_000}
    two = responses_of(answer("m1", "r1", said=said), answer("m2", "r2", said=said))
    assert prices.bill(two).total_usd == Decimal("0.9")


def test_an_undated_response_is_priced_as_of_now(prices):
    (response,) = responses_of(answer(timestamp=None))
    assert prices.bill([response]).total_usd == prices.cost(usage(), MODEL)


responses = st.builds(
    answer,
    st.uuids().map(str),
    st.just("r"),
    said=st.builds(
        usage,
        st.integers(0, 10**12),
        input_tokens=st.integers(0, 10**12),
        cache_read_input_tokens=st.integers(0, 300_000),
        speed=st.sampled_from([None, "fast"]),
        service_tier=st.sampled_from([None, "batch"]),
        inference_geo=st.sampled_from([None, "us"]),
        server_tool_use=st.builds(dict, web_search_requests=st.integers(0, 9)),
    ),
    model=st.sampled_from([MODEL, "claude-opus-4-6", "claude-haiku-4-5", "nobody-5", "glm-4.6"]),
    timestamp=st.sampled_from(
        ["2026-03-12T23:59:59Z", "2026-03-13T00:00:00Z", "2025-11-16T10:00:00Z", None]
    ),
    sessionId=st.sampled_from(["s-1", "s-2", "s-3"]),
)


@given(st.lists(responses, max_size=12), st.randoms(use_true_random=False))
def test_the_sum_over_any_grouping_is_the_total_to_the_last_digit(prices, records, chance):
    found = responses_of(*records)
    whole = prices.bill(found)
    keys = [
        lambda response: response.model_name,
        lambda response: response.session,
        lambda response: response.at and response.at.date(),
        lambda response: (response.session, response.model_name, response.at),
        lambda _response: chance.randint(0, 3),
    ]
    for key in keys:
        groups = defaultdict(list)
        for response in found:
            groups[key(response)].append(response)
        bills = [prices.bill(group) for group in groups.values()]
        assert total_usd(bill.total_usd for bill in bills) == whole.total_usd
        assert sum(each.messages for bill in bills for each in bill.unpriced) == sum(
            each.messages for each in whole.unpriced
        )
    assert total_usd(whole.by_model.values()) == whole.total_usd
    assert attodollars(whole.total_usd) % 1 == 0


def test_a_bill_of_nothing_is_nothing(prices):
    assert prices.bill([]) == Bill()
    assert msgspec.json.encode(prices.bill([]).total_usd) == b'"0"'


# -- the figures behind ours ----------------------------------------------------------------


@pytest.mark.parametrize("day", [date(2025, 11, 16), date(2026, 2, 1), date(2026, 6, 1)])
def test_the_table_says_what_genai_prices_says(prices, day):
    """Standard terms of every model of Anthropic, in short and in long contexts."""
    from genai_prices import Usage as TheirUsage
    from genai_prices import calc_price

    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    anthropic = next(each for each in prices.table.providers if each.id == "anthropic")
    for model in anthropic.models:
        for counters in (Counters(15, 20, 300, 400, 5_000), Counters(9, 7, 150_000, 0, 90_000)):
            if counters.context > 200_000 and model.id == "claude-sonnet-4-0":
                continue  # Ours to add.
            theirs = calc_price(
                TheirUsage(
                    input_tokens=counters.context,
                    output_tokens=counters.output,
                    cache_read_tokens=counters.cache_read,
                    cache_write_tokens=counters.cache_write_5m + counters.cache_write_1h,
                    cache_write_1h_tokens=counters.cache_write_1h,
                ),
                model.id,
                provider_id="anthropic",
                genai_request_timestamp=at,
            )
            assert prices.cost(counters, model.id, at=at) == theirs.total_price, model.id
