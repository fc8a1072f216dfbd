"""`turnlog` alone: one screen."""

import json
from pathlib import Path

import jsonschema
import pytest

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


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


def test_without_sessions_it_says_so(turnlog, tmp_path):
    code, out, _ = turnlog("--home", tmp_path)
    assert code == 1
    assert "hint: " in out


def test_options_of_a_command_go_behind_it(turnlog):
    code, _, err = turnlog("--json", "sessions")
    assert code == 2
    assert "behind sessions" in err
