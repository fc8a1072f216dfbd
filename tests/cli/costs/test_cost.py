"""``turnlog cost``, run as a person runs it."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import jsonschema
import msgspec
import pytest

import forked
import turnlog as library
from cli.conftest import _run
from records.answers import MODEL, SESSION, answer, log_of
from sampling import sampled
from turnlog.catalog.names import shown_name
from turnlog.cli.costs.cost import REPORTS, WITH
from turnlog.costs.budgets import BudgetReport
from turnlog.costs.comparison import CostComparison

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "cost.json"
USED = {"input_tokens": 15_000, "output_tokens": 2_150, "cache_creation_input_tokens": 8_000}


@pytest.fixture
def turnlog_now(tmp_path):
    """Run the command as it is."""
    return partial(_run, forked.run, tmp_path)


@pytest.fixture
def turnlog(turnlog):
    """Run the command over all years, unless a period is named: these responses are old."""

    def run(command, *arguments, **environ):
        named = {"--since", "--until", "--session"} & set(arguments)
        period = () if named or command != "cost" else ("--since", "2025")
        return turnlog(command, *arguments, *period, **environ)

    return run


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
    assert "Estimate at API prices. In all logs: 1 duplicate ignored." in out


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
        ("--compare", "--until", "2026"),
        ("--compare", "--since", "7d", "--by", "week,day"),
        ("--compare", "--explain", "total"),
        ("model", "--json", "--csv"),
        ("blocks", "model"),
        ("--explain", "2025-11-16", "--markdown"),
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
    ("method", "asked"),
    [
        ("cost", {"by": "day"}),
        ("cost", {"by": "hour", "since": "2025-11-16T23:07"}),
        ("cost", {"by": "session", "trend": True}),
        ("cost", {"by": "project", "trend": True, "until": "2025-11-17T10:00:00"}),
        ("cost", {"by": ["session", "subagent"], "mode": "auto"}),
        ("cost", {"by": "week,model,project"}),
        ("blocks", {}),
        ("explain_cost", {"row": "total", "by": "model"}),
        ("compare_costs", {"by": "project", "since": "2025-11-17", "until": "2025-11-18"}),
        ("compare_costs", {"by": "day", "since": "2025-11-16T23:31", "until": "2025-11-21"}),
    ],
)
def test_the_logs_say_what_the_index_says(worked, method, asked, monkeypatch, tmp_path):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    asked = asked | {"timezone": "America/St_Johns"}
    with library.open(worked) as store:
        found = [getattr(store, method)(**asked, no_index=no_index) for no_index in (False, True)]
    assert found[0].rows
    assert found[0] == found[1]


def test_times_are_read_as_people_say_them(turnlog, spent):
    def days(*arguments, **environ):
        out = turnlog("cost", "--home", spent, "--json", *arguments, **environ)[1]
        return [row["day"] for row in json.loads(out)["rows"]]

    both = ["2025-11-16", "2025-11-17"]
    assert days("--timezone", "UTC", "--since", "2025-11") == both
    assert days("--timezone", "UTC", "--until", "2025-12", "--since", "300mo") == both
    assert days("--timezone", "UTC", "--since", "2025-11-17") == both[1:]
    assert days("--timezone", "UTC", "--until", "2025-11-17") == both[:1]
    # In Berlin it was half past midnight already.
    assert days("--timezone", "Europe/Berlin", "--since", "2025-11-17") == both[1:]
    assert days("--since", "2025-11-17", TZ="Europe/Berlin") == both[1:]
    assert days("--timezone", "Europe/Berlin", "--until", "2025-11-17") == []
    assert days("--since", "1h") == []


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


def test_a_wide_terminal_shows_trends(turnlog, spent):
    period = ("--since", "2025-11-14", "--until", "2025-11-19")
    with library.open(spent) as store:
        found = store.cost(by="model", trend=True, since="2025-11-14", until="2025-11-19")
    assert found.steps == [f"2025-11-{day}" for day in range(14, 19)]
    told = {row.model: row.trend for row in found.rows}
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
    assert "\n] " in out  # The last part of its path.


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
    code, out, _ = today(turnlog, "[budgets]\nblock = 0.12\n", "budgets")
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
    assert out.splitlines()[0] == "2025-11-17: $0.11 for 2 responses"
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


@pytest.mark.parametrize("report", sampled(["", *REPORTS], 2))
@pytest.mark.parametrize("fixture", ["spent", "worked"])
def test_every_name_that_is_printed_opens_its_row(turnlog, request, report, fixture):
    home = ("--home", request.getfixturevalue(fixture), "--timezone", "UTC", "--json")
    found = json.loads(turnlog("cost", *filter(None, [report]), *home)[1])
    units = WITH.get(report, (report or "day",))
    for row in found["rows"]:
        name = ",".join(shown_name(unit, row[unit]) for unit in units)
        code, out, err = turnlog("cost", *filter(None, [report]), *home, "--explain", name)
        assert (code, err) == (0, ""), name
        assert json.loads(out)["totals"]["messages"] == row["messages"]


def test_a_row_is_named_as_people_name_it(turnlog, worked):
    def explained(*words):
        code, out, err = turnlog("cost", *words, "--home", worked)
        return code, (out or err).splitlines()[0]

    assert explained("tool", "--explain", "none") == (
        0,
        "none since 2025-01-01: $0.11 for 1 response",
    )
    assert explained("tool", "--explain", "bash")[1].startswith("Bash since 2025-01-01: $")
    assert explained("branch", "--explain", "tail")[1].startswith("/srv/kites, tail since ")
    assert explained("branch", "--explain", "main") == (2, "error: 'main' matches 2 rows")
    assert explained("project", "--explain", "kites")[1].startswith("/srv/kites since ")
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


def test_a_session_has_an_agent_also_if_only_a_subagent_is_left(turnlog, spent):
    log = next(spent.rglob("*.jsonl"))
    log.rename(log.with_name("agent-a1b2c3.jsonl"))
    arguments = ("cost", "agent", "--home", spent, "--json")
    rows = json.loads(turnlog(*arguments)[1])["rows"]
    assert [row["agent"] for row in rows] == ["Claude Code"]


def test_where_nothing_is_found_nothing_is_said_of_figures(turnlog, spent):
    code, out, _ = turnlog("cost", "--since", "1d", "--model", "opus", "--home", spent)
    assert code == 1
    assert out.splitlines()[-1] == "hint: no model is called 'opus'"
    assert "estimate" not in out
    _, out, _ = turnlog("cost", "--since", "1d", "--home", spent)
    assert out.splitlines()[-1] == "hint: leave out --since"


def test_what_is_skipped_is_listed_in_one_order_with_an_index_and_without(tmp_path, monkeypatch):
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
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    with library.open(home) as store:
        found = [store.cost(no_index=no_index) for no_index in (True, False)]
    assert found[0] == found[1]
    places = [(each.path, each.offset) for each in found[0].skipped.places]
    assert places == sorted(places)
    assert len(places) == 15


# -- the last 30 days -----------------------------------------------------------------------


def responses_on(home, *days_ago, **more):
    """Write a session with a response at noon on each day, counted back from today."""
    noon = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    records = [
        answer(
            f"msg_{number}",
            f"req_{number}",
            said=USED,
            timestamp=(noon - timedelta(days=days)).isoformat().replace("+00:00", "Z"),
            **more,
        )
        for number, days in enumerate(days_ago)
    ]
    project = home / "projects" / "-srv-kites"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_bytes(log_of(*records))
    return [f"{noon - timedelta(days=days):%Y-%m-%d}" for days in days_ago]


@pytest.fixture
def recent(turnlog_now, tmp_path):
    """Run `turnlog cost` without a period, in a home with responses of some days ago."""
    days = responses_on(tmp_path / "recent", 100, 40, 30, 29, 5, 0)

    def run(*arguments, **environ):
        return turnlog_now("cost", *arguments, "--home", tmp_path / "recent", **environ)

    run.days = days
    return run


def test_the_last_30_days_are_shown_with_the_newest_above_the_total(recent):
    code, out, err = recent()
    assert (code, err) == (0, "")
    first = [line.split(" ")[0] for line in out.splitlines()]
    assert first[:5] == ["day", *recent.days[3:], "total"]
    assert f"The last 30 days. For older usage, add --since {recent.days[0]}." in out
    found = json.loads(recent("--json")[1])
    assert [row["day"] for row in found["rows"]] == recent.days[3:]
    assert found["since_at"] == f"{recent.days[3]}T00:00:00Z"


def test_30_full_days_end_with_the_total_on_the_screen(turnlog_now, tmp_path):
    days = responses_on(tmp_path / "busy", *range(60, -1, -1))
    code, out, _ = turnlog_now("cost", "--home", tmp_path / "busy")
    assert code == 0
    screen = out.splitlines()[-23:]
    assert any(line.startswith("total") for line in screen)
    assert any(line.startswith(days[-1]) for line in screen)
    assert any("add --since" in line for line in screen)


def test_whatever_says_which_responses_are_meant_shows_all_of_them(recent):
    for words in (("month",), ("weekly",), ("model",), ("session",), ("--session", SESSION[:4])):
        assert json.loads(recent(*words, "--json")[1])["totals"]["messages"] == 6, words
    assert json.loads(recent("--until", recent.days[2], "--json")[1])["totals"]["messages"] == 2
    assert json.loads(recent("day", "model", "--json")[1])["totals"]["messages"] == 3
    assert "older usage" not in recent("month")[1]
    code, out, _ = recent("--compare", "--json")
    assert (code, json.loads(out)["totals"]["before_messages"]) == (0, 2)


def test_a_row_that_is_older_can_be_explained(recent):
    code, out, _ = recent("--explain", recent.days[0])
    assert (code, out.splitlines()[0]) == (0, f"{recent.days[0]}: $0.11 for 1 response")
    code, out, _ = recent("--explain", "total")
    assert out.splitlines()[0] == f"total since {recent.days[3]}: $0.32 for 3 responses"


def test_where_all_usage_is_older_the_last_day_is_named(turnlog_now, tmp_path):
    (day,) = responses_on(tmp_path / "old", 90)
    code, out, _ = turnlog_now("cost", "--home", tmp_path / "old")
    assert code == 1
    assert out.splitlines()[:2] == [
        "No responses found in the last 30 days.",
        f"hint: the last one is from {day}; add --since {day[:7]}",
    ]
    code, out, _ = turnlog_now("cost", "--since", day[:7], "--home", tmp_path / "old")
    assert (code, day in out) == (0, True)


# -- words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "by"),
    [
        (("--by", "project", "model"), "project,model"),
        (("--by", "project", "--by", "model"), "model"),
        (("--by=project", "model"), "project,model"),
        (("project", "model"), "project,model"),
        (("month", "--by", "project", "model"), "month,project,model"),
        (("--by", "monthly", "project"), "month,project"),
        (("monthly",), "month"),
        (("daily",), "day"),
        (("weekly",), "week"),
        (("hourly",), "hour"),
    ],
)
def test_units_are_words_or_joined_by_commas(turnlog, spent, words, by):
    asked = ("--home", spent, "--json")
    assert turnlog("cost", *words, *asked) == turnlog("cost", "--by", by, *asked)


def test_weeks_begin_as_the_settings_say(turnlog, spent, tmp_path):
    own = tmp_path / "own"
    own.mkdir()

    def weeks(settings):
        (own / "config.toml").write_text(settings)
        _, out, err = turnlog("cost", "week", "--home", spent, "--json", TURNLOG_HOME=str(own))
        return [row["week"] for row in json.loads(out)["rows"]], err

    assert weeks("") == (["2025-11-10", "2025-11-17"], "")
    assert weeks('[cost]\nweek_starts = "sunday"\n') == (["2025-11-16"], "")
    found, err = weeks('[cost]\nweek_starts = "someday"\nstarts = 1\n')
    assert found == ["2025-11-10", "2025-11-17"]
    assert "cost.week_starts: 'someday' is not a day of the week" in err
    assert "cost.starts: no such setting" in err


# -- why this number ------------------------------------------------------------------------

MIXED = {
    "input_tokens": 1_001,
    "output_tokens": 2_002,
    "cache_creation": {"ephemeral_5m_input_tokens": 3_003, "ephemeral_1h_input_tokens": 4_004},
    "cache_creation_input_tokens": 7_007,
    "cache_read_input_tokens": 5_005,
    "server_tool_use": {"web_search_requests": 6},
}


@pytest.fixture
def mixed(tmp_path):
    """A home with all kinds of usage, by two models in two projects, at several prices."""
    at = {"timestamp": "2025-11-16T12:00:00.000Z"}
    logs = {
        SESSION: [
            answer("msg_1", "req_1", said=MIXED, cwd="/srv/kites", **at),
            answer("msg_2", "req_2", said=MIXED, cwd="/srv/kites", model="claude-opus-4-1", **at),
            answer("msg_3", "req_3", said=MIXED | {"service_tier": "batch"}, **at),
            answer("msg_4", "req_4", said=MIXED | {"input_tokens": 300_000}, **at),
        ],
        SESSION.replace("1", "3"): [
            answer("msg_5", "req_5", said=MIXED, cwd="/srv/boats", **at),
            answer("msg_6", "req_6", said=MIXED, cwd="/srv/boats", model="nobody-1", **at),
        ],
    }
    for session, records in logs.items():
        project = tmp_path / "mixed" / "projects" / f"-{session[:4]}"
        project.mkdir(parents=True)
        theirs = [record | {"sessionId": session} for record in records]
        (project / f"{session}.jsonl").write_bytes(log_of(*theirs))
    return tmp_path / "mixed"


@pytest.mark.parametrize("mode", ["calculate", "recorded", "auto"])
def test_charges_add_up_to_every_row_and_to_the_total(turnlog, mixed, mode):
    asked = ("--by", "project", "model", "--mode", mode, "--home", mixed, "--json")
    found = json.loads(turnlog("cost", *asked)[1])
    named = [(f"{row['project']},{row['model']}", row) for row in found["rows"]]
    for name, row in [*named, ("total", found["totals"])]:
        code, out, err = turnlog("cost", *asked, "--explain", name)
        assert (code, err) == (0, "")
        prices = msgspec.json.decode(out, type=library.Explanation).prices
        for price in prices:
            for charge in price.charges:
                product = charge.count * Decimal(charge.rate_usd) / charge.per
                assert product == Decimal(charge.cost_usd)
            if price.charges:
                assert sum(Decimal(each.cost_usd) for each in price.charges) == Decimal(
                    price.cost_usd
                )
        assert sum(Decimal(price.cost_usd) for price in prices) == Decimal(row["cost_usd"])
        assert sum(price.messages for price in prices) == row["messages"]
        for kind in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read"):
            counts = [c.count for price in prices for c in price.charges if c.kind == kind]
            assert mode != "calculate" or name == "total" or not counts or sum(counts) == row[kind]


def test_each_price_is_shown_with_both_cache_writes_and_its_source(turnlog, mixed):
    code, out, _ = turnlog(
        "cost", "--by", "project", "model", "--explain", "boats", MODEL, "--home", mixed
    )
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    table = [" ".join(line.split()) for line in out.splitlines()[2:12]]
    assert table[2:9] == [
        "input 1,001 x $3.00/M = $0.00300300",
        "output 2,002 x $15.00/M = $0.03003000",
        "cache write, 5 min 3,003 x $3.75/M = $0.01126125",
        "cache write, 1 h 4,004 x $6.00/M = $0.02402400",
        "cache read 5,005 x $0.30/M = $0.00150150",
        "web searches 6 x $10.00/k = $0.06000000",
        "total $0.12981975",
    ]
    assert table[9].startswith(f"Price of {shown_name('model', MODEL)}: genai-prices ")
    assert ", valid " in table[9]
    _, out, _ = turnlog("cost", "model", "--explain", "total", "--home", mixed)
    assert "nobody-1: no price is known" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    model = shown_name("model", MODEL)
    assert f"{model}, above 200,000 tokens $1.978618500" in lines
    assert f"{model}, batch $0.094909875" in lines
    assert "total $2.742266625" in lines
    assert max(map(len, out.splitlines())) <= 80


def test_this_month_by_project_and_model_and_why_this_number(turnlog_now, tmp_path):
    """Two commands, each of which fits the screen."""
    responses_on(tmp_path / "month", 0, 0, 0, 0, 0, 0, 0, 0)
    asked = ("cost", "--by", "project", "model", "--since", "this month")
    home = ("--home", tmp_path / "month")
    screens = [
        turnlog_now(*asked, *home),
        turnlog_now(*asked, "--explain", "kites", shown_name("model", MODEL), *home),
    ]
    for code, out, err in screens:
        assert (code, err) == (0, "")
        assert len(out.splitlines()) < 24
        assert max(map(len, out.splitlines())) <= 80
        assert "$0.86" in out
    assert "/srv/kites" in screens[0][1]
    assert "input               120,000   x $3.00/M  = $0.360" in screens[1][1]


# -- tags -----------------------------------------------------------------------------------


def test_a_session_counts_for_each_of_its_tags_and_once_in_the_total(turnlog, worked):
    tag = {"type": "tag", "tag": "garden, urgent", "sessionId": SESSION}
    log = worked / "projects" / f"-{SESSION[:4]}" / f"{SESSION}.jsonl"
    log.write_bytes(log.read_bytes() + json.dumps(tag).encode() + b"\n")
    home = ("--home", worked)
    found = json.loads(turnlog("cost", "--by", "tag", *home, "--json")[1])
    assert {row["tag"]: row["messages"] for row in found["rows"]} == {
        "garden": 2,
        "urgent": 2,
        None: 2,
    }
    whole = json.loads(turnlog("cost", "model", *home, "--json")[1])
    assert found["totals"] == whole["totals"]
    code, out, _ = turnlog("cost", "tag", *home)
    assert (code, "the total counts them once." in out) == (0, True)
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = turnlog("cost", "--by", "tag", "project", "--explain", "urgent", "kites", *home)
    assert out.startswith("urgent, /srv/kites since 2025-01-01: $0.21 for 2 responses")
    _, out, _ = turnlog("cost", "--by", "tag", "--explain", "total", *home, "--json")
    assert json.loads(out)["totals"] == whole["totals"]
    with library.open(worked) as store:
        assert store.cost(by="tag").totals.cost_usd == whole["totals"]["cost_usd"]
        with pytest.raises(library.UsageError, match="only to the index"):
            store.cost(by="tag", no_index=True)
