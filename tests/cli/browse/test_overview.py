"""`turnlog` alone: one screen."""

import json
import shlex
import shutil
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


def test_without_sessions_it_says_so(turnlog, tmp_path):
    code, out, _ = turnlog("--home", tmp_path)
    assert code == 1
    assert "hint: " in out
