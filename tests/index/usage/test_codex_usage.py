"""Codex's usage: exact, each response once, however the logs were read."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from codex_world import PROJECT, Rollout, Usage, write_world
from index.homes import rebuilt
from index.rows import differences, rows_of
from turnlog.costs.usage import scan_usage
from turnlog.formats import Home
from turnlog.index.refresh.log_reader import LogReading
from turnlog.index.refresh.refresh import refresh
from turnlog.sessions.session import Session

_CLAUDE = Path(__file__).parents[4] / "shared" / "corpus" / "claude"
CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or _CLAUDE).with_name("codex")
NAMES = ("input", "output", "cache_write_5m", "cache_read")


def counted(responses):
    """Return the counters of *responses*, by the session or subagent that paid."""
    found = {}
    for each in responses:
        counters = found.setdefault(each.subagent or each.session, Counter())
        counters["messages"] += 1
        counters.update({name: getattr(each.counters, name) for name in NAMES})
    return {name: +counters for name, counters in found.items()}


def truth(rollouts):
    return {each.id: +each.counters for each in rollouts}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return write_world(tmp_path / "codex")


def test_every_response_is_counted_once_for_the_session_that_paid(world):
    assert counted(scan_usage([Home(world.home)]).responses) == truth(world.rollouts)


def test_the_totals_of_a_session_include_its_subagents(world):
    for main, helper in ((world.old, world.old_helper), (world.new, world.helper)):
        totals = Session.find([Home(world.home)], main.id).totals
        both = main.counters + helper.counters
        found = Counter()
        for counters in totals.by_model.values():
            found.update({name: getattr(counters, name) for name in NAMES})
        assert +found == Counter({name: both[name] for name in NAMES if both[name]})


def test_model_directory_and_time_are_those_of_the_turn(world):
    for each in scan_usage([Home(world.home)]).responses:
        owner = next(
            rollout for rollout in world.rollouts if rollout.id == (each.subagent or each.session)
        )
        assert (each.model, each.cwd) == (owner.model, PROJECT)
        assert each.at is not None
        assert each.at <= owner.now


def test_a_fork_counts_when_its_parent_is_gone(world):
    for parent in (world.old, world.new):
        parent.path.unlink()
    left = [each for each in world.rollouts if each not in (world.old, world.new)]
    assert counted(scan_usage([Home(world.home)]).responses) == truth(left)


@pytest.mark.parametrize("stage", ["usage", "text"])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 5], ids=["old", "fork", "helper", "new", "fork2"])
def test_an_index_that_grew_line_by_line_equals_one_made_at_once(world, number, stage):
    path = world.rollouts[number].path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"")
    homes = (Home(world.home),)
    for line in lines:
        with path.open("ab") as log:  # Half a line may be seen.
            log.write(line[: len(line) // 2])
        refresh(homes, stage="usage")
        with path.open("ab") as log:
            log.write(line[len(line) // 2 :])
        refresh(homes, stage=stage)
    refresh(homes)
    assert not differences(rows_of(homes), rebuilt(homes))


@pytest.mark.parametrize("is_real", [False, True], ids=["world", "corpus"])
def test_lines_that_are_decoded_fast_give_the_same_rows(world, is_real, monkeypatch):
    if is_real and not CORPUS.is_dir():
        pytest.skip("needs the corpus")
    homes = (Home(CORPUS if is_real else world.home),)
    fast = rebuilt(homes)
    monkeypatch.setattr(LogReading, "_fast_line", lambda *_: None)
    assert not differences(fast, rebuilt(homes))


@pytest.mark.parametrize("is_paginated", [False, True], ids=["old", "paginated"])
def test_a_model_that_changes_counts_from_its_turn_on(tmp_path, is_paginated):
    rollout = Rollout(tmp_path, 1, is_paginated=is_paginated)
    rollout.prompt("One")
    rollout.answer("1", Usage(100, 10))
    rollout.model = "gpt-5-mini"
    rollout.prompt("Two")
    rollout.answer("2", Usage(200, 20, cached=50))
    models = {each.model: each.counters.output for each in scan_usage([Home(tmp_path)]).responses}
    first = "gpt-5" if is_paginated else "gpt-5-codex"
    assert models == {first: 10, "gpt-5-mini": 20}


def plain_totals(path):
    """Return the tokens of a rollout of the old mode, counted as simply as possible."""
    found, before = Counter(), None
    for line in path.read_text().splitlines():
        payload = json.loads(line)["payload"]
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if not info or info["total_token_usage"] == before:
            continue
        before, step = info["total_token_usage"], info["last_token_usage"]
        found["messages"] += 1
        found["input"] += step["input_tokens"] - step["cached_input_tokens"]
        found["cache_read"] += step["cached_input_tokens"]
        found["output"] += step["output_tokens"]
    return +found


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus")
def test_the_totals_of_real_sessions_are_those_of_a_plain_script():
    found = counted(scan_usage([Home(CORPUS)]).responses)
    plain = {path.stem[-36:]: plain_totals(path) for path in CORPUS.rglob("*.jsonl")}
    assert found == {name: counters for name, counters in plain.items() if counters}
    assert len(found) == 20
