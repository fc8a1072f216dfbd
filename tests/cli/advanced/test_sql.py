"""``turnlog sql``: its forms, its hints, and that it changes nothing."""

import csv
import io
import json
import subprocess
import sys

import pytest

COUNT = "SELECT session, prompts FROM v_sessions ORDER BY session"


@pytest.fixture
def sql(turnlog, home, tmp_path):
    def run(*arguments):
        return turnlog("sql", *arguments, "--home", home, TURNLOG_HOME=str(tmp_path / "own"))

    return run


def test_rows_for_people_and_for_programs(sql):
    code, out, err = sql(COUNT)
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()] == ["prompts", "1", "2"]
    document = json.loads(sql(COUNT, "--json")[1])
    assert document["columns"] == ["session", "prompts"]
    assert [row[1] for row in document["rows"]] == [1, 2]
    assert (document["truncated"], document["notes"]) == (False, [])
    found = list(csv.reader(io.StringIO(sql(COUNT, "--csv")[1])))
    assert found[0] == ["session", "prompts"]
    assert [row[1] for row in found[1:]] == ["1", "2"]
    lines = sql(COUNT, "--markdown")[1].splitlines()
    assert lines[:2] == ["| session | prompts |", "| --- | --- |"]
    assert len(lines) == 4


def test_the_schema_is_shown_without_an_index(sql, tmp_path):
    code, out, _ = sql("--schema")
    assert code == 0
    assert "v_damages" in out
    code, out, _ = sql("--schema", "calls")
    assert "duration_ms" in out
    assert "v_damages" not in out
    document = json.loads(sql("--schema", "v_days", "--json")[1])
    assert [view["name"] for view in document["views"]] == ["v_days"]
    assert sql("--schema", "v_none")[0] == 2
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["DELETE FROM logs"], "only SELECT"),
        (["SELECT * FROM logs"], "v_sessions"),
        (["SELECT nothing FROM v_logs"], "--schema"),
        (["SELECT 1", "--json", "--csv"], "mutually exclusive"),
        (["SELECT 1", "--since", "some day"], "invalid date"),
        (["SELECT 1", "--limit", "-1"], "--limit"),
        ([], "no statement"),
    ],
)
def test_mistakes_are_told_with_a_hint(sql, arguments, told):
    code, out, err = sql(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "\nhint: " in err
    assert told in err


def test_what_is_left_out_is_said(sql):
    code, out, err = sql(COUNT, "--limit", "1")
    assert code == 0
    assert len(out.splitlines()) == 2
    assert err.startswith("notice: ")
    assert sql("SELECT 1 WHERE 0")[0] == 1


def test_text_from_logs_is_inert(sql):
    for form in ([], ["--csv"], ["--markdown"]):
        _, out, _ = sql("SELECT char(27) || '[31m|' || char(8238) AS x", *form)
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_since_and_project(sql):
    assert sql(COUNT, "--since", "2026-11-02")[0] == 1
    assert sql(COUNT, "--since", "2026-11-01T00:00Z")[0] == 0
    assert sql(COUNT, "--project", "/nowhere")[0] == 1


@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [(b"SELECT 1 AS one -- a comment\n", 0, b"one\n1\n"), (b"x" * 5_000_000, 2, b"")],
)
def test_the_statement_may_come_from_stdin(home, tmp_path, typed, code, told):
    start = "from turnlog.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "sql", "-", "--csv", "--home", str(home)],
        input=typed,
        capture_output=True,
        timeout=60,
        env={"HOME": str(tmp_path), "TURNLOG_HOME": str(tmp_path / "own")},
    )
    assert (done.returncode, done.stdout) == (code, told)


def test_a_pipe_has_no_width_so_nothing_is_broken(sql):
    code, out, _ = sql("SELECT * FROM v_sessions")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split()[:3] == ["session", "project", "title"]
    assert len(rows) == int(sql("SELECT count(*) FROM v_sessions", "--csv")[1].split()[1])
