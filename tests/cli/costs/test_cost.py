"""``turnlog cost``, run as a person runs it."""

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import msgspec
import pytest

from records.answers import MODEL, SESSION, answer, log_of
from turnlog.catalog.names import shown_name
from turnlog.cli.costs.cost import REPORTS
from turnlog.costs.budgets import BudgetReport
from turnlog.costs.comparison import CostComparison

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "cost.json"
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
    assert "no price nobody-1: 25,150 tokens not in the cost" in out
    assert "Estimate at API prices. 1 duplicate ignored." in out


def test_what_has_no_price_is_left_out_and_what_was_not_recorded_may_have_one(turnlog, tmp_path):
    log = tmp_path / "projects" / "-srv-kites" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(log_of(answer("msg_1", "req_1"), answer("msg_2", "req_2", model="nobody-1")))
    _, out, _ = turnlog("cost", "model", "--home", tmp_path)
    assert "Estimate at API prices. Nothing else skipped." in out
    assert f"no price {MODEL}" not in out
    _, out, _ = turnlog("cost", "model", "--mode", "recorded", "--home", tmp_path)
    assert f"not recorded {MODEL}" in out
    assert "no price" not in out
    assert "estimate" not in out


@pytest.mark.parametrize(
    "asked",
    [
        ("--since", "2025-11-17"),
        ("--model", "nobody"),
        ("--project", "/srv/kites"),
        ("blocks", "--since", "2025-11-17"),
        ("session", "--explain", SESSION[:8]),
        ("--since", "2025-11-17", "--until", "2025-11-18", "--compare"),
    ],
)
def test_of_a_part_it_is_said_that_repeats_are_those_of_all_logs(turnlog, spent, asked):
    code, out, _ = turnlog("cost", *asked, "--home", spent)
    assert code == 0
    assert "Estimate at API prices. In all logs: 1 duplicate ignored." in out


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
    assert err.startswith(f"warning: {own / 'config.toml'}: prices.nobody-1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--by", "colour"),
        ("--by", ","),
        ("--since", "the day before"),
        ("--until", "2026-13-01"),
        ("--last", "long"),
        ("--compare",),
        ("--compare", "--last", "7d", "--by", "week,day"),
        ("--compare", "--trend", "--last", "7d"),
        ("--trend",),
        ("model", "--trend", "--csv"),
        ("model", "--json", "--csv"),
        ("tool", "--no-index"),
        ("--by", "day,branch", "--no-index"),
        ("budgets", "--by", "day"),
        ("budgets", "--markdown"),
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


def test_a_limit_keeps_the_latest_or_the_dearest_and_the_totals(turnlog, spent):
    _, out, _ = turnlog("cost", "--by", "session", "--home", spent, "--json")
    whole = json.loads(out)
    _, out, _ = turnlog("cost", "--by", "session", "--home", spent, "--json", "--limit", "1")
    part = json.loads(out)
    assert part["rows"] == whole["rows"][:1]
    assert part["totals"] == whole["totals"]
    days = [json.loads(turnlog("cost", "--home", spent, "--json", "--limit", n)[1]) for n in "01"]
    assert days[1]["rows"] == days[0]["rows"][-1:]


def calling(name, number, **more):
    record = answer(f"msg_{number}", f"req_{number}", said=USED, uuid=f"u{number}", **more)
    call = {"type": "tool_use", "id": f"call_{name}_{number}", "name": name, "input": {}}
    record["message"]["content"] = [call] if name else []
    return record


@pytest.fixture
def worked(tmp_path):
    """A home with calls, on two branches, in two projects; one response is written in parts."""
    at = "2025-11-16T23:30:00.000Z"
    logs = {
        SESSION: [
            calling("Read", 1, gitBranch="main", timestamp=at),
            calling("Bash", 1, gitBranch="main", timestamp=at) | {"uuid": "u1b"},
            calling("Read", 1, gitBranch="main", timestamp=at) | {"uuid": "u1c"},
            calling("", 2, gitBranch="tail", timestamp=at),
        ],
        SESSION.replace("1", "3"): [
            calling("Edit", 3, gitBranch="main", cwd="/srv/boats", timestamp=at),
            calling("Bash", 4, cwd="/srv/boats", timestamp="2025-11-20T10:00:00.000Z"),
        ],
    }
    for session, records in logs.items():
        project = tmp_path / "worked" / "projects" / f"-{session[:4]}"
        project.mkdir(parents=True)
        theirs = [record | {"sessionId": session} for record in records]
        (project / f"{session}.jsonl").write_bytes(log_of(*theirs))
    return tmp_path / "worked"


def test_tools_are_those_of_all_records_of_a_message(turnlog, worked):
    document = rows(turnlog, "tool", "--home", worked)
    assert {row["tool"]: row["messages"] for row in document["rows"]} == {
        "Bash+Read": 1,
        None: 1,
        "Edit": 1,
        "Bash": 1,
    }
    assert document["totals"] == rows(turnlog, "--home", worked)["totals"]
    _, out, _ = turnlog("cost", "tool", "--home", worked)
    shown = [line.split()[0] for line in out.splitlines()[1:5]]
    assert shown == ["none", "Bash", "Bash+Read", "Edit"]


def test_a_branch_is_one_of_its_project(turnlog, worked):
    document = rows(turnlog, "branch", "--home", worked)
    assert {(row["project"], row["branch"], row["messages"]) for row in document["rows"]} == {
        ("/srv/kites", "main", 1),
        ("/srv/kites", "tail", 1),
        ("/srv/boats", "main", 1),
        ("/srv/boats", None, 1),
    }
    document = rows(turnlog, "--by", "branch", "--home", worked)
    assert {row["branch"]: row["messages"] for row in document["rows"]} == {
        "main": 2,
        "tail": 1,
        None: 1,
    }
    code, out, _ = turnlog("cost", "tool", "--explain", "Bash+Read", "--home", worked, "--json")
    assert (code, [row["message_id"] for row in json.loads(out)["rows"]]) == (0, ["msg_1"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("daily",),
        ("hourly", "--since", "2025-11-16T23:07"),
        ("session", "--trend"),
        ("project", "--trend", "--until", "2025-11-17T10:00:00"),
        ("subagent", "--mode", "auto"),
        ("blocks",),
        ("project", "--since", "2025-11-17", "--until", "2025-11-18", "--compare"),
        ("daily", "--since", "2025-11-16T23:31", "--until", "2025-11-21", "--compare"),
        ("--by", "week,model,project"),
    ],
)
def test_the_logs_say_what_the_index_says(turnlog, worked, spent, arguments):
    homes = ("--home", worked, "--home", spent, "--timezone", "America/St_Johns")
    told = turnlog("cost", *arguments, *homes, "--json")
    assert told[0] == 0
    assert turnlog("cost", *arguments, *homes, "--json", "--no-index") == told


def test_times_are_read_as_people_say_them(turnlog, spent):
    def days(*arguments, **environ):
        out = turnlog("cost", "--home", spent, "--json", *arguments, **environ)[1]
        return [row["day"] for row in json.loads(out)["rows"]]

    both = ["2025-11-16", "2025-11-17"]
    assert days("--timezone", "UTC", "--since", "2025-11") == both
    assert days("--timezone", "UTC", "--until", "2025-12", "--last", "300mo") == both
    assert days("--timezone", "UTC", "--since", "2025-11-17") == both[1:]
    assert days("--timezone", "UTC", "--until", "2025-11-17") == both[:1]
    # In Berlin it was half past midnight already.
    assert days("--timezone", "Europe/Berlin", "--since", "2025-11-17") == both[1:]
    assert days("--since", "2025-11-17", TZ="Europe/Berlin") == both[1:]
    assert days("--timezone", "Europe/Berlin", "--until", "2025-11-17") == []
    assert days("--last", "1h") == []


def test_two_periods_side_by_side(turnlog, spent):
    period = ("--since", "2025-11-17", "--until", "2025-11-18", "--timezone", "UTC")
    arguments = ("cost", "model", "--home", spent, "--compare", *period)
    code, out, err = turnlog(*arguments, "--json")
    assert (code, err) == (0, "")
    found = msgspec.json.decode(out, type=CostComparison)
    assert found.before.since_at.isoformat() == "2025-11-16T00:00:00+00:00"
    assert [(row.model, row.before_usd, row.cost_usd, row.percent) for row in found.rows] == [
        (MODEL, "0.10725", "0.10725", 0.0),
        ("nobody-1", "0", "0", None),
    ]
    assert found.skipped.unpriced[0].model == "nobody-1"
    _, out, _ = turnlog(*arguments)
    assert "before  2025-11-16 to 2025-11-17" in out
    assert out.splitlines()[-1].startswith("Estimate at API prices.")
    _, out, _ = turnlog(*arguments, "--csv")
    assert list(csv.reader(io.StringIO(out)))[1][:2] == [MODEL, "1"]


def test_a_trend_is_given_when_asked_for(turnlog, spent):
    assert "trend" not in rows(turnlog, "model", "--home", spent)["rows"][0]
    period = ("--since", "2025-11-14", "--until", "2025-11-19")
    document = rows(turnlog, "model", "--home", spent, "--trend", *period)
    assert document["steps"] == [f"2025-11-{day}" for day in range(14, 19)]
    told = {row["model"]: row["trend"] for row in document["rows"]}
    assert told[MODEL] == ["0", "0", "0.10725", "0.10725", "0"]
    _, out, _ = turnlog("cost", "model", "--home", spent, *period, COLUMNS="140")
    assert "  ██ " in out


def test_every_table_fits(turnlog, worked):
    """Also with names that are long, or that would be markup."""
    log = next((worked / "projects" / "-1111").iterdir())
    long = f"/srv/[bold]{'very-' * 30}[/bold]/[/]"
    moved = answer("msg_9", "req_9", said=USED, cwd=long, gitBranch="[red]" * 20, sessionId="x")
    log.with_name(f"{SESSION.replace('1', '4')}.jsonl").write_bytes(
        log_of(moved | {"sessionId": SESSION.replace("1", "4"), "uuid": "u9"})
    )
    for columns in (80, 100, 200):
        for report in ("daily", "project", "branch", "tool", "subagent", "blocks"):
            code, out, err = turnlog("cost", report, "--home", worked, COLUMNS=str(columns))
            assert (code, err) == (0, "")
            assert max(map(len, out.splitlines())) <= columns
    _, out, _ = turnlog("cost", "project", "--home", worked, COLUMNS="80")
    assert "very-[/bold]/[/]" in out


@pytest.fixture
def today(tmp_path):
    """A home with a response of this moment, and budgets."""
    project = tmp_path / "today" / "projects" / "-srv-kites"
    project.mkdir(parents=True)
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    (project / f"{SESSION}.jsonl").write_bytes(log_of(answer(said=USED, timestamp=now)))
    (tmp_path / "own").mkdir()

    def run(turnlog, settings, *arguments):
        (tmp_path / "own" / "config.toml").write_text(settings)
        own = str(tmp_path / "own")
        return turnlog("cost", *arguments, "--home", tmp_path / "today", TURNLOG_HOME=own)

    return run


def test_budgets_fail_a_script_when_one_is_exceeded(turnlog, today):
    settings = '[budgets]\ndaily = 0.1\nmonthly = 300\n[budgets.projects."/srv"]\nweekly = "1"\n'
    code, out, err = today(turnlog, settings, "budgets", "--json")
    assert (code, err) == (1, "")
    found = msgspec.json.decode(out, type=BudgetReport)
    assert [(row.budget, row.project, row.used_usd, row.state) for row in found.budgets] == [
        ("daily", None, "0.10725", "exceeded"),
        ("monthly", None, "0.10725", "ok"),
        ("weekly", "/srv", "0.10725", "ok"),
    ]
    code, out, _ = today(turnlog, settings, "budgets")
    assert (code, "$0.11 of $0.10" in out, "exceeded" in out) == (1, True, True)
    assert out.splitlines()[-1].startswith("Estimate at API prices.")
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = today(turnlog, "[budgets]\nblock = 0.2\n", "budgets")
    assert (code, "54%" in out) == (0, True)
    code, out, _ = today(turnlog, "[budgets]\nblock = 0.12\n", "budgets", "--no-index")
    assert (code, "nearly spent" in out) == (0, True)


def test_budgets_stand_under_a_report_if_there_are_any(turnlog, today):
    code, out, _ = today(turnlog, "[budgets]\ndaily = 0.1\n", "model")
    assert (code, "$0.11 of $0.10" in out) == (0, True)
    code, out, _ = today(turnlog, "", "model")
    assert (code, "budget" in out) == (0, False)
    code, out, _ = today(turnlog, "", "budgets")
    assert (code, "No budget is set." in out) == (0, True)
    assert "monthly = 300 under [budgets] in /" in out  # Where the settings are, too.


def test_a_budget_of_which_something_is_left_is_not_all_spent(turnlog, today):
    (spent,) = json.loads(today(turnlog, "[budgets]\ndaily = 1\n", "budgets", "--json")[1])[
        "budgets"
    ]
    limit = round(float(spent["used_usd"]) * 1.003, 6)
    code, out, _ = today(turnlog, f"[budgets]\ndaily = {limit}\n", "budgets")
    assert (code, "99%" in out, "nearly spent" in out) == (0, True, True)


def test_a_broken_budget_is_told_and_changes_nothing(turnlog, today):
    code, out, err = today(turnlog, '[budgets]\ndaily = "much"\nweekly = 1\n', "budgets", "--json")
    assert code == 0
    assert err.endswith("config.toml: budgets.daily: 'much' is not an amount in dollars\n")
    assert [row["budget"] for row in json.loads(out)["budgets"]] == ["weekly"]


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
    assert out.splitlines()[-1].startswith("Estimate at API prices.")
    document = json.loads(turnlog(*arguments, "--json")[1])
    jsonschema.validate(document, json.loads((SCHEMA.parent / "explain.json").read_text("utf-8")))
    log = next((spent / "projects").rglob("*.jsonl"))
    for row in document["rows"]:
        assert row["log"] == str(log)
        assert row["message_id"].encode() in log.read_bytes()[row["offset"] :].split(b"\n")[0]
    code, _, err = turnlog("cost", "--explain", "1999", "--home", spent)
    assert (code, "hint: there are '2025-" in err) == (2, True)


@pytest.mark.parametrize("report", ["", *REPORTS])
@pytest.mark.parametrize("fixture", ["spent", "worked"])
def test_every_name_that_is_printed_opens_its_row(turnlog, request, report, fixture):
    home = ("--home", request.getfixturevalue(fixture), "--timezone", "UTC", "--json")
    found = json.loads(turnlog("cost", *filter(None, [report]), *home)[1])
    units = REPORTS.get(report, ("day",))
    for row in found["rows"]:
        name = ",".join(shown_name(unit, row[unit]) for unit in units)
        code, out, err = turnlog("cost", *filter(None, [report]), *home, "--explain", name)
        assert (code, err) == (0, ""), name
        assert json.loads(out)["totals"]["messages"] == row["messages"]


def test_a_row_is_named_as_people_name_it(turnlog, worked):
    def explained(*words):
        code, out, err = turnlog("cost", *words, "--home", worked)
        return code, (out or err).splitlines()[0]

    assert explained("tool", "--explain", "none") == (0, "none $0.11 for 1 response")
    assert explained("tool", "--explain", "bash")[1].startswith("Bash $")
    assert explained("branch", "--explain", "tail")[1].startswith("/srv/kites,tail $")
    assert explained("branch", "--explain", "main") == (2, "error: 'main' matches 2 rows")
    assert explained("project", "--explain", "kites")[1].startswith("/srv/kites $")
    assert explained("project", "--explain", "kitse") == (2, "error: no row is called 'kitse'")


def test_prices_are_those_of_the_name_that_tables_print(turnlog):
    code, out, _ = turnlog("prices", "opus-4-5")
    assert (code, "priced as claude-opus-4-5 of anthropic" in out) == (0, True)
    code, out, _ = turnlog("prices", "opsu-4-5")
    assert (code, "hint: did you mean claude-opus-4-5" in out) == (1, True)


def test_sessions_are_named_by_what_they_are_about_where_there_is_room(turnlog, spent):
    log = next(spent.rglob("*.jsonl"))
    title = {"type": "custom-title", "customTitle": "A [red] kite", "sessionId": SESSION}
    log.write_bytes(log.read_bytes() + json.dumps(title).encode() + b"\n")
    for arguments in (("session",), ("subagent",), ("--by", "session,model")):
        for width in (80, 120, 200):
            _, out, _ = turnlog("cost", *arguments, "--home", spent, COLUMNS=str(width))
            assert max(map(len, out.splitlines())) <= width
            assert "A [red] kite" in out or arguments[0] == "--by"
    assert "A [red] kite" not in turnlog("cost", "session", "--home", spent, COLUMNS="60")[1]
    code, out, _ = turnlog("cost", "session", "--home", spent, "--no-index")
    assert (code, "$0.21" in out) == (0, True)


def test_where_nothing_is_found_nothing_is_said_of_figures(turnlog, spent):
    code, out, _ = turnlog("cost", "--last", "1d", "--model", "opus", "--home", spent)
    assert code == 1
    assert out.splitlines()[-1] == "hint: no model is called 'opus'"
    assert "estimate" not in out
    _, out, _ = turnlog("cost", "--last", "1d", "--home", spent)
    assert out.splitlines()[-1] == "hint: leave out --last"


def test_what_is_skipped_is_listed_in_one_order_with_an_index_and_without(turnlog, tmp_path):
    odd = answer("msg_1", "req_1", said={"input_tokens": "many", "output_tokens": -1})
    data = log_of(odd) + b'{"usage": torn\n' + log_of(odd | {"uuid": "u-2"})
    home = tmp_path / "home"
    for place in (
        f"-srv-kites/{SESSION}/subagents/agent-a1.jsonl",
        f"-srv-kites/{SESSION}.jsonl",
        f"-srv/{SESSION[:-1]}2.jsonl",
        "-srv-kites/agent-b2.jsonl",
        f"-srv-kites-été/{SESSION[:-1]}3.jsonl",
    ):
        log = home / "projects" / place
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(data)
    found = [rows(turnlog, "--home", home, *how) for how in (["--no-index"], [])]
    assert found[0] == found[1]
    places = [(each["path"], each["offset"]) for each in found[0]["skipped"]["places"]]
    assert places == sorted(places)
    assert len(places) == 15
