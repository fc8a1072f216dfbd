"""``turnlog projects``, run as a person runs it."""

import json
from decimal import Decimal
from pathlib import Path

import jsonschema
import msgspec
import pytest

from turnlog.catalog.indexed_sessions import PROJECT_SORTS, ProjectCatalog
from turnlog.cli.browse.projects import SORTS

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"


def test_projects_are_listed_with_what_was_done_there(turnlog):
    code, out, err = turnlog("projects", "--home", SAMPLES, "--sort", "sessions")
    assert (code, err) == (0, "")
    head, *rows = out.splitlines()
    assert head.split()[:5] == ["project", "sessions", "prompts", "tokens", "cost"]
    assert [row.split()[:2] for row in rows] == [
        ["/home/ada/lighthouse", "2"],
        ["/home/ada/orchard", "2"],
    ]


def test_json_is_one_document_that_agrees_with_the_ledger_and_the_list(turnlog):
    code, out, err = turnlog("projects", "--home", SAMPLES, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    jsonschema.validate(document, msgspec.json.schema(ProjectCatalog))
    assert (document["next"], document["total"]) == (None, 2)
    cost = json.loads(turnlog("cost", "project", "--home", SAMPLES, "--json")[1])
    spent = {row["project"]: row for row in cost["rows"]}
    listed = json.loads(turnlog("sessions", "--home", SAMPLES, "--wide", "--json")[1])["sessions"]
    assert len(document["projects"]) == len(spent)
    for row in document["projects"]:
        mine = [each for each in listed if each["project"] == row["path"]]
        assert row["sessions"] == len(mine)
        assert row["prompts"] == sum(each["prompts"] for each in mine)
        for name in (
            "messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read",
        ):  # fmt: skip
            assert row[name] == spent[row["path"]][name] == sum(each[name] for each in mine)
        costs = sum(Decimal(each["cost_usd"]) for each in mine)
        assert Decimal(row["cost_usd"]) == Decimal(spent[row["path"]]["cost_usd"]) == costs > 0


def test_the_list_is_cut_and_says_how_to_go_on(turnlog):
    _, first, _ = turnlog("projects", "--home", SAMPLES, "--sort", "path", "--limit", "1")
    assert "1 more; use --offset 1" in first
    _, second, _ = turnlog(
        "projects", "--home", SAMPLES, "--sort", "path", "--limit", "1", "--offset", "1"
    )
    assert ("lighthouse" in first, "orchard" in first) == (True, False)
    assert ("lighthouse" in second, "orchard" in second) == (False, True)


def test_a_time_counts_its_own_sessions(turnlog, home):
    whole = ("projects", "--home", home)
    assert turnlog(*whole, "--since", "2026-11-01")[0] == 0
    code, out, _ = turnlog(*whole, "--until", "2026-10-01", "--no-refresh")
    assert code == 1
    assert "No projects found." in out
    assert "hint: " in out


def test_sessions_that_say_nowhere_are_no_lost_ones(turnlog, home):
    code, out, _ = turnlog("projects", "--home", home)
    assert code == 0
    assert "unknown" in out
    (row,) = json.loads(turnlog("projects", "--home", home, "--json")[1])["projects"]
    assert (row["path"], row["sessions"]) == (None, 2)
    assert row["damages"] > 0


@pytest.mark.parametrize("sort", SORTS)
def test_a_table_fits_its_terminal_and_shows_what_it_is_sorted_by(turnlog, sort):
    for columns in (80, 200):
        _, out, _ = turnlog("projects", "--home", SAMPLES, "--sort", sort, COLUMNS=str(columns))
        assert max(map(len, out.splitlines())) <= columns
        assert {"path": "project"}.get(sort, sort) in out.splitlines()[0]
    assert "models" in out.splitlines()[0]


def test_a_path_is_cut_before_its_brackets_are_made_harmless(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    for length in range(20, 40):
        cwd = f"/{'x' * 30}[red]{'y' * length}"
        record = {"type": "user", "cwd": cwd, "message": {"role": "user", "content": "a"}}
        log.with_name(f"{length:08}-aaaa-4aaa-8aaa-111111111111.jsonl").write_text(
            json.dumps(record) + "\n"
        )
    code, out, _ = turnlog("projects", "--home", home, "--limit", "0", "--sort", "path")
    assert code == 0
    rows = [row.split()[0] for row in out.splitlines()[1:] if "yyy" in row]
    assert len(rows) == 20
    width = max(map(len, rows))
    for row, length in zip(rows, range(20, 40), strict=True):
        assert row == "…" + f"/{'x' * 30}[red]{'y' * length}"[1 - width :]


def test_mistakes_are_the_callers(turnlog, home):
    for wrong in (("--since", "someday"), ("--sort", "colour"), ("--limit", "-1")):
        code, out, err = turnlog("projects", "--home", home, *wrong)
        assert (code, out) == (2, "")
        assert "hint: " in err


def test_an_index_that_cannot_be_made_in_its_place_is_made_elsewhere(turnlog, home, tmp_path):
    (tmp_path / "own").write_text("in the way")
    code, out, err = turnlog("projects", "--home", home, TURNLOG_HOME=str(tmp_path / "own"))
    assert (code, len(out.splitlines())) == (0, 2)
    assert "one was made for this run alone" in err


def test_the_names_of_sorts_are_those_that_are_understood():
    assert tuple(PROJECT_SORTS) == SORTS
