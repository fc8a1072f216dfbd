"""``turnlog prices`` as people and programs see it."""

from __future__ import annotations

import json
import tomllib

import pytest
from click.testing import CliRunner

from turnlog.cli.costs.prices import PriceDocument, command, describe
from turnlog.errors import UsageError
from turnlog.pricing.cost import Prices
from turnlog.pricing.overrides import overrides_from


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("turnlog")


@pytest.fixture
def run(home):
    def run(*arguments):
        env = {"TURNLOG_HOME": str(home), "COLUMNS": "80"}
        return CliRunner().invoke(command, arguments, env=env, standalone_mode=False)

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("claude-sonnet-4-6",),
        ("claude-opus-4-6", "--at", "2026-02-10"),
        ("nobody-5",),
        ("us.anthropic.claude-opus-4-6-v1:0",),
    ],
)
def test_it_fits_eighty_columns(run, home, arguments):
    shown = run(*arguments).output.replace(str(home), "~/.turnlog")
    assert shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_models_prices_are_shown_with_their_days_and_terms(run):
    result = run("claude-opus-4-6")
    assert result.return_value == 0
    for words in (
        "until 2026-03-13",
        "since 2026-03-13",
        "above 200,000 tokens",
        "fast mode x 6",
        "estimate",
    ):
        assert words in result.output


def test_the_price_of_a_day(run):
    assert "above 200,000" in run("claude-opus-4-6", "--at", "2026-02-10").output
    assert "above 200,000" not in run("claude-opus-4-6", "--at", "2026-06-01").output
    bad = run("claude-opus-4-6", "--at", "June")
    assert isinstance(bad.exception, UsageError)


def test_first_prices_are_not_said_to_be_of_that_time(run):
    words = "A model's first known price applies to all earlier dates."
    assert words in run("--at", "2024-01-01").output
    assert words in run("claude-opus-5", "--at", "2024-01-01").output
    assert words not in run("claude-opus-4-6", "--at", "2026-06-01").output
    assert words not in run().output


def test_json_is_one_document_with_money_as_text(run):
    result = run("claude-opus-4-6", "--json")
    document = json.loads(result.output)
    first, second = document["prices"]
    assert first["cache_write_1h"] == "10"
    assert first["long_context"][0] | {} == {
        "above": 200_000,
        "input": "10",
        "output": "37.5",
        "cache_write_5m": "12.5",
        "cache_write_1h": "20",
        "cache_read": "1",
        "web_search": "10",
    }
    assert (first["until"], second["since"]) == ("2026-03-13", "2026-03-13")
    assert second["factors"] == {"fast": "6", "batch": "0.5", "us_only": "1.1"}
    assert document["next"] is None
    assert document["genai_prices"]


def test_an_unknown_model_is_told_with_a_way_out(run):
    result = run("nobody-5")
    assert result.return_value == 1
    assert "No price known for nobody-5" in result.output
    assert "config.toml" in result.output
    assert json.loads(run("nobody-5", "--json").output)["prices"] == []


@pytest.mark.parametrize("model", ["nobody-5", 'my "own" model', "llama3.1:8b"])
def test_the_way_out_can_be_pasted_into_the_settings(run, model):
    lines = run(model).output.splitlines()
    settings = tomllib.loads("\n".join(line for line in lines if line.startswith("  ")))
    (override,), problems = overrides_from(settings["prices"])
    assert (override.model, override.like, problems) == (model, "claude-sonnet-4-5", ())


def test_hostile_names_are_shown_inert(run):
    assert "\x1b" not in run("evil\x1b[31m[bold]").output


def test_overrides_are_listed_first(prices):
    found, _ = overrides_from({"kite-1": {"input": 1, "output": 2}})
    document = describe(Prices(prices.table, found), None, None)
    assert isinstance(document, PriceDocument)
    assert (document.prices[0].model, document.prices[0].source) == ("kite-1", "override")
    names = [row.model for row in document.prices]
    assert {"claude-opus-4-6", "claude-mythos-5"} <= set(names)
