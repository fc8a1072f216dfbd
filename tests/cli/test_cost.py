"""``turnlog cost``, run as a person runs it."""

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest

from records.answers import MODEL, SESSION, answer, log_of

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "cost.json"
USED = {"input_tokens": 15_000, "output_tokens": 2_150, "cache_creation_input_tokens": 8_000}


@pytest.fixture
def spent(tmp_path):
    """A home with two responses; one is told twice."""
    project = tmp_path / "spent" / "projects" / "-srv-kites"
    project.mkdir(parents=True)
    records = [
        answer("msg_1", "req_1", said=USED, timestamp="2025-11-16T23:30:00.000Z"),
        answer("msg_1", "req_1", said=USED, timestamp="2025-11-16T23:30:01.000Z"),
        answer("msg_2", "req_2", said=USED, timestamp="2025-11-17T10:00:00.000Z"),
        answer("msg_3", "req_3", said=USED, model="nobody-1", timestamp="2025-11-17T11:00:00.000Z"),
    ]
    (project / f"{SESSION}.jsonl").write_bytes(log_of(*records))
    return tmp_path / "spent"


def rows(turnlog, *arguments):
    code, out, err = turnlog("cost", *arguments, "--json", "--timezone", "UTC")
    assert (code, err) == (0, "")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text("utf-8")))
    return document


def test_each_response_once_day_by_day(turnlog, spent):
    document = rows(turnlog, "--home", spent)
    assert [(row["day"], row["messages"], row["cost_usd"]) for row in document["rows"]] == [
        ("2025-11-16", 1, "0.10725"),
        ("2025-11-17", 2, "0.10725"),
    ]
    assert document["totals"]["cost_usd"] == "0.2145"
    assert document["skipped"]["repeats"] == 1
    assert [row["model"] for row in document["skipped"]["unpriced"]] == ["nobody-1"]


def test_the_table_fits_and_says_what_is_left_out(turnlog, spent):
    code, out, _ = turnlog("cost", "model", "--home", spent)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "$0.21" in out
    assert "no price nobody-1: 25,150 tokens in no cost" in out
    assert "An estimate at the API's prices. 1 repeat folded." in out


def test_any_combination_as_csv_and_markdown(turnlog, spent):
    arguments = ("cost", "--by", "day,model", "--home", spent, "--timezone", "UTC")
    code, out, _ = turnlog(*arguments, "--csv")
    table = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert table[0][:3] == ["day", "model", "messages"]
    assert table[1] == ["2025-11-16", MODEL, "1", "15000", "2150", "8000", "0", "0", "0.10725"]
    assert table[-1][-1] == "0.2145"
    _, out, _ = turnlog(*arguments, "--markdown")
    assert out.splitlines()[1].startswith("| --- | --- | ---: |")


def test_the_users_own_price_holds(turnlog, spent, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "config.toml").write_text('[prices."nobody-1"]\ninput = 1\noutput = 1\n')
    code, out, err = turnlog("cost", "model", "--home", spent, "--json", TURNLOG_HOME=str(own))
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert not document["skipped"]["unpriced"]
    (own / "config.toml").write_text('[prices."nobody-1"]\ninput = "dear"\n')
    code, _, err = turnlog("cost", "model", "--home", spent, TURNLOG_HOME=str(own))
    assert code == 0
    assert err.startswith("warning: config.toml: prices.nobody-1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--by", "colour"),
        ("--by", ","),
        ("--since", "yesterday"),
        ("--last", "long"),
        ("--timezone", "Mars/Olympus"),
        ("--timezone", "../../etc/passwd"),
        ("yearly",),
    ],
)
def test_a_mistake_is_told_with_what_is_taken(turnlog, spent, arguments):
    code, out, err = turnlog("cost", *arguments, "--home", spent)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err


def test_nothing_found_is_told(turnlog, spent):
    code, out, _ = turnlog("cost", "--since", "2099-01-01", "--home", spent)
    assert (code, "No responses found" in out) == (1, True)


def test_blocks_of_five_hours(turnlog, spent):
    code, out, _ = turnlog("cost", "blocks", "--home", spent, "--timezone", "UTC")
    assert code == 0
    assert "2025-11-16 23:00 to 04:00" in out
    document = json.loads(turnlog("cost", "blocks", "--home", spent, "--json")[1])
    schema = json.loads((SCHEMA.parent / "blocks.json").read_text("utf-8"))
    jsonschema.validate(document, schema)
    assert [row["messages"] for row in document["rows"]] == [1, 2]
    assert turnlog("cost", "blocks", "--by", "day", "--home", spent)[0] == 2


def test_a_row_is_explained(turnlog, spent):
    arguments = ("cost", "--explain", "2025-11-17", "--home", spent, "--timezone", "UTC")
    code, out, _ = turnlog(*arguments)
    assert code == 0
    assert "2025-11-17 $0.11 for 2 responses" in out
    assert "$0.10725" in out
    assert "no price is known" in out
    document = json.loads(turnlog(*arguments, "--json")[1])
    jsonschema.validate(document, json.loads((SCHEMA.parent / "explain.json").read_text("utf-8")))
    log = next((spent / "projects").rglob("*.jsonl"))
    for row in document["rows"]:
        assert row["log"] == str(log)
        assert row["message_id"].encode() in log.read_bytes()[row["offset"] :].split(b"\n")[0]
    code, _, err = turnlog("cost", "--explain", "1999", "--home", spent)
    assert (code, "hint: name one, such as" in err) == (2, True)
