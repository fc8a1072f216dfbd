"""What a session cost is one number, whoever is asked: commands, the library, the web and MCP."""

import json
import re
import shutil
from decimal import Decimal
from html import unescape
from pathlib import Path

import pytest

import turnlog
from mcp_world import ask, opened
from turnlog.cli.app import run
from turnlog.pricing.money import shown
from web.served import served

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"


def copy_samples(directory):
    return shutil.copytree(SAMPLES, directory / "home")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    directory = tmp_path_factory.mktemp("numbers")
    with opened(directory, copy_samples) as (home, ctx):
        yield directory, home, ctx()


@pytest.fixture
def document(world, capsys):
    def of(*words):
        assert run([*words, "--json", "--home", str(world[1])]) == 0
        return json.loads(capsys.readouterr().out)

    return of


@pytest.fixture
def costs(document):
    """The cost of each session, as `turnlog cost session` prints it."""
    found = {row["session"]: row["cost_usd"] for row in document("cost", "session")["rows"]}
    assert len(found) == 4
    return found


def test_commands_and_the_library_agree_on_every_session(world, document, costs):
    with turnlog.open(world[1]) as store:
        for session, cost in costs.items():
            explained = document("cost", "session", "--explain", session)
            assert {
                "info": document("info", session)["cost_usd"],
                "cost": document("cost", "--session", session)["totals"]["cost_usd"],
                "explain": explained["totals"]["cost_usd"],
                "library": str(store.session(session).totals.cost_usd),
                "store": store.cost(by="session", session=session).totals.cost_usd,
            } == dict.fromkeys(("info", "cost", "explain", "library", "store"), cost)
            charged = sum(Decimal(price["cost_usd"]) for price in explained["prices"])
            assert charged == Decimal(cost)
    for row in document("sessions", "--limit", "0")["sessions"]:
        assert row.get("cost_usd", costs[row["id"]]) == costs[row["id"]]


def test_all_totals_agree(document, costs):
    total = sum(map(Decimal, costs.values()))
    assert Decimal(document("insights", "--since", "2000")["totals"]["cost_usd"]) == total
    for unit in ("day", "week", "month", "project", "model", "subagent", "branch", "tool", "tag"):
        found = document("cost", unit, "--since", "2000")
        assert Decimal(found["totals"]["cost_usd"]) == total
        assert sum(Decimal(row["cost_usd"]) for row in found["rows"]) == total


def test_the_mcp_server_agrees(world, costs):
    found = ask(world[2], "past_costs", by=["session"], limit=100)
    assert {row["session"]: row["cost_usd"] for row in found["rows"]} == costs


def test_the_web_agrees(world, costs):
    with served(world[0]) as server:
        for path in ("/", "/costs?by=session&since=all"):
            rows = re.findall(r"<tr[ >].*?</tr>", server.ask(path).text, re.DOTALL)
            told = {
                session[1]: re.findall(r"\$[\d.,]+", unescape(re.sub("<[^>]*>", " ", row)))[-1]
                for row in rows
                if (session := re.search(r'href="/session/([^"?]+)"', row))
            }
            assert told == {session: shown(Decimal(cost)) for session, cost in costs.items()}, path
