"""A response with a further pass, which another model made, is one message, whoever is asked."""

import json
from datetime import UTC, datetime

import pytest

from turnlog.catalog.indexed_sessions import list_projects
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.insights.explanation import explain
from turnlog.insights.report import insights
from turnlog.insights.scope import Scope
from turnlog.pricing.cost import load_prices
from turnlog.query.fields import Aggregate, QueryFilter, Transform
from turnlog.query.patterns import time_series
from turnlog.query.query import query
from turnlog.query.sql import run_sql

SESSION = "11111111-dddd-4ddd-8ddd-111111111111"
NOW = datetime(2026, 3, 9, tzinfo=UTC)
PRICES = load_prices()
ASKING, ADVISING = "claude-sonnet-4-5", "claude-opus-4-6"


def answer(number, model, **usage):
    message = {"id": f"msg_{number}", "role": "assistant", "model": model}
    message |= {"content": [{"type": "text", "text": "hi"}]}
    return {
        "type": "assistant", "uuid": f"a{number}", "sessionId": SESSION, "cwd": "/srv/kites",
        "timestamp": f"2026-03-02T10:00:0{number}.000Z", "requestId": f"req_{number}",
        "message": message | {"usage": {"input_tokens": 1} | usage},
    }  # fmt: skip


@pytest.fixture(params=["the advisor's name first", "the advisor's name last"])
def index(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    log = tmp_path / "home" / "projects" / "-srv-kites" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    passes = [{"type": "message", "input_tokens": 1, "output_tokens": 10}]
    passes += [{"type": "advisor_message", "model": ADVISING, "output_tokens": 100}]
    plain = answer(1, ADVISING if request.param.endswith("first") else ASKING, output_tokens=1)
    advised = answer(2, ASKING, output_tokens=10, iterations=passes)
    log.write_text("".join(json.dumps(each) + "\n" for each in (plain, advised)))
    with open_fresh(find_homes((tmp_path / "home",))) as opened:
        opened.plain = plain["message"]["model"]
        yield opened


def test_it_is_one_message_of_two_models_everywhere(index):
    used = {ASKING: 10, ADVISING: 100}
    used[index.plain] += 1
    counted = {ASKING: 1, ADVISING: 0}
    counted[index.plain] += 1
    days = run_sql(index, "SELECT model, messages, tokens_out FROM v_days").rows
    assert {row[0]: row[1] for row in days} == counted
    assert {row[0]: row[2] for row in days} == used
    own = run_sql(index, "SELECT count(*), count(part), sum(tokens_out) FROM v_messages").rows
    assert own == [[3, 1, 111]]
    (project,) = list_projects(index).projects
    assert (project.messages, project.output) == (2, 111)
    (point,) = time_series(index, "day", "messages").points
    assert point.value == 2
    asked = Scope(now=NOW)
    assert explain(index, PRICES, asked, "messages").total == 2
    assert insights(index, PRICES, asked).overview.messages == 2
    assert {row.what for row in explain(index, PRICES, asked, "days").rows} == {
        ASKING, f"{ADVISING}, a further pass", index.plain,
    }  # fmt: skip


def test_a_query_gives_it_one_row_and_adds_up_by_the_model_that_was_paid(index):
    used = {ASKING: 10, ADVISING: 100}
    used[index.plain] += 1

    def asked(group_by=None, **aggregate):
        return query(
            index,
            "messages",
            QueryFilter(role="assistant"),
            Transform(group_by=group_by),
            Aggregate(**aggregate),
            now=NOW,
            zone=UTC,
        ).rows

    rows = query(index, "messages", now=NOW, zone=UTC).rows
    assert [(row["model"], row["output"]) for row in rows] == [(ASKING, 110), (index.plain, 1)]
    sums = asked("model", function="sum", field="output")
    assert {row["model"]: row["sum_output"] for row in sums} == used
    assert asked(function="sum", field="output") == [{"sum_output": 111}]
    assert asked(function="sum", field="records") == [{"sum_records": 2}]
    assert asked() == [{"count": 2}]
