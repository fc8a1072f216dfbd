"""`turnlog` alone: one screen."""

import json
import os
import shlex
import shutil
import time
from pathlib import Path

import jsonschema
import pytest

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def test_one_screen_tells_what_was_used_and_what_to_type_next(turnlog):
    code, out, err = turnlog("--home", SAMPLES)
    assert (code, err) == (0, "")
    for word in ("today", "7 days", "30 days", "0b29ae83", "turnlog search WORDS", "estimates"):
        assert word in out
    assert len(out.splitlines()) <= 24


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_it_fits(turnlog, columns):
    _, out, _ = turnlog("--home", SAMPLES, COLUMNS=columns)
    assert "today" in out


def test_json_is_one_document_that_fits_its_schema(turnlog):
    code, out, _ = turnlog("--home", SAMPLES, "--json")
    assert code == 0
    schema = json.loads((SCHEMAS / "overview.json").read_text("utf-8"))
    jsonschema.validate(json.loads(out), schema)


def test_what_it_says_to_type_next_asks_the_same_homes(turnlog, tmp_path):
    home = tmp_path / "a home"
    shutil.copytree(SAMPLES, home)
    _, out, _ = turnlog("--home", home, COLUMNS="200")
    typed = [line.split("$ ")[1].split("  ")[0] for line in out.splitlines() if " $ " in line]
    assert len(typed) >= 5
    for command in typed:
        assert f"--home '{home}'" in command or command.endswith("--help")
    commands = [shlex.split(command)[1:] for command in typed if "WORDS" not in command]
    assert {turnlog(*command)[0] for command in commands} <= {0, 1}


def test_without_sessions_it_shows_a_sample_if_told_to(turnlog, tmp_path):
    code, out, err = turnlog("--home", tmp_path, "--or-sample", SAMPLES)
    assert (code, err) == (0, "")
    assert "0b29ae83" in out
    assert f"turnlog show latest --home {SAMPLES}" in out
    assert turnlog("--home", SAMPLES, "--or-sample", tmp_path)[0] == 0


def test_the_first_run_says_what_is_there_what_goes_and_how_to_keep_it(turnlog, home, tmp_path):
    at = time.time() - 25 * 86_400
    (log,) = home.rglob("1111*.jsonl")
    os.utime(log, (at, at))
    size = sum(each.stat().st_size for each in home.rglob("*.jsonl"))
    command = f"turnlog keep --home {home}"
    code, first, _ = turnlog("--home", home)
    assert code == 0
    assert first.splitlines()[:4] == [
        f"Found 2 sessions since 2026-11-01, {size} bytes.",
        "Claude Code deletes sessions 30 days after their last use: 1 within 7 days.",
        f"Keep them for good: {command}",
        "",
    ]
    assert first.count("turnlog keep") == 1
    again = turnlog("--home", home)[1]
    assert "Found" not in again
    assert "1 session will be deleted within 7 days" in again
    assert turnlog(*shlex.split(command)[1:])[0] == 0
    assert "will be deleted" not in turnlog("--home", home)[1]


def test_the_first_run_fits_one_screen(turnlog):
    _, out, _ = turnlog("--home", SAMPLES)
    assert out.startswith("Found 4 sessions in 2 projects since 2025-07-02, ")
    assert len(out.splitlines()) <= 24


def test_every_number_of_sessions_is_the_same(turnlog):
    found = json.loads(turnlog("--home", SAMPLES, "--json")[1])
    listed = json.loads(turnlog("sessions", "--home", SAMPLES, "--limit", "1", "--json")[1])
    projects = json.loads(turnlog("projects", "--home", SAMPLES, "--json")[1])["projects"]
    checked = json.loads(turnlog("check", "--home", SAMPLES, "--json")[1])["totals"]
    numbers = [found["total"], found["totals"]["sessions"], listed["total"], checked["sessions"]]
    assert {*numbers, sum(row["sessions"] for row in projects)} == {4}
    assert found["totals"]["projects"] == len(projects)


def test_without_sessions_it_says_where_it_looked_and_what_to_do(turnlog, tmp_path):
    code, out, _ = turnlog("--home", tmp_path)
    assert code == 1
    assert f"hint: there are no sessions in {tmp_path}" in out
    assert "start one with claude" in out
