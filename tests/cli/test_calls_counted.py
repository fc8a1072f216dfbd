"""Whoever counts calls counts the same ones, each once."""

import csv
import os
from pathlib import Path

import pytest

from index.homes import SESSIONS, answered, asked, lines, log_path, made_home
from mcp_world import ask, cli, opened
from turnlog.cli.app import run

FIRST, FORK, RESUMED, ASIDE, OTHER = SESSIONS[:5]
CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS", Path(__file__).parents[3] / "shared" / "corpus" / "claude")
)


def uuid(number):
    return f"{number:08x}-0000-4000-8000-000000000000"


def calling(number, session, call=None, tool="Read", **more):
    """A record with a call; the number is its message's, the call's and its uuid's."""
    block = {
        "type": "tool_use",
        "id": call or f"toolu_{number}",
        "name": tool,
        "input": {"n": number},
    }
    return answered(number, session, message={"content": [block]}) | {"uuid": uuid(number)} | more


def make_copies(directory):
    """Ten calls, some of them written several times."""
    homes = made_home(directory / "home")
    own = [asked(1, FIRST), *(calling(number, FIRST) for number in (1, 2, 3))]
    log_path(homes, FIRST).write_bytes(lines(*own, own[-1]))  # One record is there twice.
    kept = [each | {"sessionId": FORK} for each in own]  # As it was, under another session's name.
    log_path(homes, FORK).write_bytes(lines(*kept, calling(4, FORK)))
    # With new uuids: one says of which record it is a copy, the others are parts of one response.
    origin = {"forkedFrom": {"sessionId": FIRST, "messageUuid": uuid(1)}}
    anew = [
        calling(1, RESUMED, uuid=uuid(101), message=answered(99)["message"]) | origin,
        calling(2, RESUMED, uuid=uuid(102)),
        calling(5, RESUMED),
    ]
    anew[0]["message"]["content"] = calling(1, FIRST)["message"]["content"]
    log_path(homes, RESUMED).write_bytes(lines(*anew))
    side = {"isSidechain": True}
    log_path(homes, ASIDE).write_bytes(
        lines(asked(6, ASIDE, **side), *(calling(number, ASIDE, **side) for number in (6, 7)))
    )
    log_path(homes, OTHER).write_bytes(  # Some programs count their calls: this is another.
        lines(calling(8, OTHER, call="toolu_1"), calling(9, OTHER, tool="Bash"))
    )
    subagent = {"isSidechain": True, "agentId": "a1"}
    log_path(homes, OTHER, subagent="a1").write_bytes(
        lines(calling(8, OTHER, call="toolu_1", **subagent), calling(10, OTHER, **subagent))
    )
    return homes[0].path


def exported_calls(home, target):
    always = ("--since", "2000-01-01", "--no-redact", "--home", str(home))
    assert run(["export", "--table", "calls", *always, "-o", str(target)]) == 0
    csv.field_size_limit(1 << 30)
    with target.open(newline="") as file:
        return list(csv.DictReader(file))


def counts(home, desk, directory):
    """Count all calls in every way there is."""
    groups = cli(home, "query", "tools", "--by", "tool_name", "--limit", "0")["rows"]
    insights = cli(home, "insights", "--since", "2000-01-01")
    rows = exported_calls(home, directory / "calls.csv")
    return {
        "query": sum(row["count"] for row in groups),
        "insights": insights["overview"]["calls"],
        "export": len(rows),
        "ids": len({(row["call_id"], row["tool"], row["input"]) for row in rows}),
        "mcp": ask(desk, "past_calls", limit=1)["total"],
    }


def test_every_way_counts_each_call_once(tmp_path):
    with opened(tmp_path, make_copies) as (home, desk):
        found = counts(home, desk(), tmp_path)
    assert found == dict.fromkeys(found, 10)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="no real sessions here")
def test_every_way_counts_the_same_calls_of_real_sessions(tmp_path):
    with opened(tmp_path, lambda _: CORPUS) as (home, desk):
        found = counts(home, desk(), tmp_path)
    assert len(set(found.values())) == 1, found
