"""Which model a name means: rules, no resemblance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5"),
        ("Claude-Sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("claude-opus-4-6[1m]", "anthropic", "claude-opus-4-6"),
        ("claude-opus-5[1m]", "anthropic", "claude-opus-5"),
        ("claude-sonnet-4@20250514", "anthropic", "claude-sonnet-4-0"),
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "openrouter", "anthropic/claude-sonnet-4.5"),
        ("openrouter/anthropic/claude-sonnet-4", "openrouter", "anthropic/claude-sonnet-4"),
        ("us.anthropic.claude-opus-4-6-v1:0", "aws", "regional.anthropic.claude-opus-4-6-v1:0"),
        (
            "bedrock/us.anthropic.claude-opus-4-6-v1:0",
            "aws",
            "regional.anthropic.claude-opus-4-6-v1:0",
        ),
        ("claude-mythos-5", "anthropic", "claude-mythos-5"),
        ("glm-4.6", "zai", "GLM-4.6"),
        ("MiniMax-M2", "minimax", "MiniMax-M2"),
        ("gpt-5.2-20251211", "openai", "gpt-5.2"),
    ],
)
def test_names_as_logs_have_them(prices, name, provider, model):
    found = prices.find(name)
    assert (found.provider, found.model) == (provider, model)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "opus",
        "sonnet",
        "<synthetic>",
        "claude",
        "claude-mythos",
        "claude-opus-9-9",
        "a/b/c",
        "/" * 9_000,
        "(unknown)",
    ],
)
def test_what_no_rule_explains_has_no_price(prices, name):
    assert prices.find(name) is None


@given(st.text(max_size=60))
def test_any_name_is_looked_up(prices, name):
    prices.find(name)


def test_a_regions_price_is_its_own(prices):
    assert (
        prices.find("us.anthropic.claude-opus-4-6-v1:0").rates.input
        > prices.find("claude-opus-4-6").rates.input
    )


def test_a_models_prices_follow_one_another(prices):
    first, second = prices.history("claude-sonnet-4-6")
    assert first.since is None
    assert first.until == second.since
    assert second.until is None
    assert (len(first.tiers), len(second.tiers)) == (1, 0)
    assert first.source == "genai-prices"
    assert prices.find("claude-mythos-5").source == "turnlog"
    assert prices.history("nobody-5") == []
