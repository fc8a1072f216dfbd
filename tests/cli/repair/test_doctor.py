"""`turnlog doctor`: one page, and commands on it that do what they promise."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import time

import pytest

from cli.conftest import DAMAGED, WHOLE, line, prompt

THIRD = "33333333-cccc-4ccc-8ccc-333333333333"
HOSTILE = "\x1b[2J\x1b[31mred[bold]x[/] \u202eevil\x07\ud800 end"


@pytest.fixture
def log_at(home):
    """Write a log into the home, as it was some days ago."""

    def write(session, data, days=2.0, place=None):
        path = home / (place or f"projects/-home-ada-orchard/{session}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        then = time.time() - days * 86_400
        os.utime(path, (then, then))
        return path

    return write


@pytest.fixture
def well(home, log_at):
    """Make the home one that nothing is wrong with."""
    (home / "projects" / "-home-ada-orchard" / f"{DAMAGED}.jsonl").unlink()
    log_at(WHOLE, prompt(WHOLE, "one") + b"\n")
    return home


@pytest.fixture
def findings(turnlog, home):
    """Give what the doctor finds, by kind."""

    def look(*arguments, **environ):
        code, out, _ = turnlog("doctor", "--home", home, "--json", *arguments, **environ)
        document = json.loads(out)
        assert code == (0 if document["healthy"] else 1)
        return {each["kind"]: each for each in document["findings"]}

    return look


@pytest.fixture
def mend(turnlog, tmp_path):
    """Do what a finding says mends it."""

    def run(finding):
        program, *words = shlex.split(finding["command"])
        if program == "turnlog":
            code, _, err = turnlog(*words)
            assert code == 0, err
        else:
            subprocess.run([program, *words], check=True, cwd=tmp_path)

    return run


def linked(session, names, parent=None):
    lines = []
    for name in names:
        message = {"role": "user", "content": name}
        fields = {"uuid": name, "parentUuid": parent, "sessionId": session, "message": message}
        lines.append(line(type="user", **fields) + b"\n")
        parent = name
    return b"".join(lines)


def aged(*paths, days=2.0):
    then = time.time() - days * 86_400
    for path in paths:
        os.utime(path, (then, then))


def test_all_is_well_is_said_in_a_few_calm_lines(turnlog, well):
    code, out, err = turnlog("doctor", "--home", well)
    assert (code, err) == (0, "")
    assert "No problems found" in out
    assert "1 session, 1 log" in out
    assert "disk space" in " ".join(out.split())
    assert len(out.splitlines()) < 14


def test_the_json_document_says_the_same(turnlog, well):
    code, out, _ = turnlog("doctor", "--home", well, "--json")
    document = json.loads(out)
    assert (code, document["healthy"], document["findings"]) == (0, True, [])
    assert document["homes"] == [str(well)]
    assert all(check["problem"] is None for check in document["checks"])


def test_no_home_at_all_is_said_and_is_no_success(turnlog):
    code, out, _ = turnlog("doctor")
    assert (code, "No sessions found" in out) == (1, True)
    code, out, _ = turnlog("doctor", "--json")
    assert (code, json.loads(out)["homes"]) == (1, [])


def test_a_home_that_does_not_exist_is_the_callers_mistake(turnlog, tmp_path):
    code, _, err = turnlog("doctor", "--home", tmp_path / "nowhere")
    assert (code, err.startswith("error:")) == (2, True)


def test_a_home_without_sessions_is_well(turnlog, tmp_path):
    (tmp_path / "empty" / "projects").mkdir(parents=True)
    code, out, _ = turnlog("doctor", "--home", tmp_path / "empty")
    assert (code, "no sessions yet" in out) == (0, True)


def test_damage_is_mended_by_its_command(findings, mend, damaged_log):
    aged(damaged_log)
    found = findings()["damage"]
    assert found["urgency"] == "act"
    mend(found)
    aged(damaged_log)
    assert "damage" not in findings()


def test_what_seems_damaged_and_is_being_written_is_not_called_well(turnlog, home, damaged_log):
    os.utime(damaged_log)
    _, out, _ = turnlog("doctor", "--home", home)
    assert "1 log looks damaged but was just written to: check again in a minute" in out
    os.utime(damaged_log, (1_790_000_000, 1_790_000_000))
    _, out, _ = turnlog("doctor", "--home", home)
    assert "just now" not in out
    assert "1 log is damaged" in out


def test_missing_parents_are_mended_by_their_command(well, findings, mend, log_at):
    names = [f"r{number}" for number in range(20)]
    data = linked(THIRD, names) + linked(THIRD, ["x", "y"], parent="gone")
    path = log_at(THIRD, data)
    found = findings()["parents"]
    assert found["examples"][0]["detail"] == "reaches 2 of 22 records"
    mend(found)
    aged(path)
    assert findings() == {}


def test_a_crash_is_mended_by_its_command(well, findings, mend, log_at):
    log_at("", line(pid=999999999, sessionId=WHOLE), place="sessions/999999999.json")
    mend(findings()["crashed"])
    assert findings() == {}


def test_sessions_about_to_be_deleted_are_kept_by_the_command(well, findings, mend, log_at):
    log_at(THIRD, linked(THIRD, ["a"]), days=29.5)
    found = findings()["losses"]
    assert (found["urgency"], found["examples"][0]["detail"]) == ("act", "within a day")
    mend(found)
    assert findings()["losses"]["urgency"] == "note"


def test_an_empty_file_is_mended_by_its_command(well, findings, mend, log_at):
    path = log_at(THIRD, b"")
    found = findings()["empty"]
    mend(found)  # A dry run, as of everything that deletes.
    assert path.exists()
    mend(found | {"command": found["command"] + " --yes"})
    assert (findings(), path.exists()) == ({}, False)


def test_orphans_are_mended_by_their_command(well, findings, mend, log_at):
    path = log_at("", b"[]", days=9, place=f"todos/{THIRD}-agent-{THIRD}.json")
    found = findings()["orphans"]
    assert found["examples"][0]["session"] == THIRD
    mend(found)  # A dry run, as everything is that lets something go.
    assert path.exists()
    mend(found | {"command": found["command"] + " --yes"})
    assert (findings(), path.exists()) == ({}, False)


def test_an_index_out_of_step_is_mended_by_its_command(well, findings, mend, log_at):
    assert findings() == {}
    log_at(THIRD, linked(THIRD, ["a"]))
    mend(findings("--no-refresh")["index"])
    assert findings("--no-refresh") == {}


def test_an_index_that_cannot_be_had_keeps_nobody_from_looking(findings, tmp_path, damaged_log):
    aged(damaged_log)
    (tmp_path / "own").write_text("no directory")
    found = findings(TURNLOG_HOME=str(tmp_path / "own"))
    assert {"index", "damage"} <= found.keys()


def test_a_setting_that_cannot_be_read_is_told(well, findings):
    (well / "settings.json").write_text('{"cleanupPeriodDays": "x"}')
    found = findings()["cleanup"]
    assert (found["urgency"], "keep" in found["command"]) == ("act", True)
    os.remove(well / "settings.json")
    os.mkfifo(well / "settings.json")
    assert "cleanup" in findings()


def test_every_case_is_listed_if_asked_for_and_only_the_worst_if_not(turnlog, well, log_at):
    for number in range(9):
        log_at("", b"", place=f"projects/-home-ada-orchard/{number}0000000-x.jsonl")
    _, out, _ = turnlog("doctor", "--home", well)
    assert "… and 5 more" in out
    assert out.count("$ turnlog delete") == 1
    _, out, _ = turnlog("doctor", "--home", well, "--all")
    assert out.count("$ turnlog delete") == 9


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_hostile_titles_cannot_leave_their_line(turnlog, home, log_at, damaged_log, columns):
    title = {"type": "custom-title", "customTitle": HOSTILE, "sessionId": DAMAGED}
    aged(damaged_log)
    log_at(DAMAGED, damaged_log.read_bytes() + b"\n" + json.dumps(title).encode() + b"\n")
    log_at("", json.dumps({"cleanupPeriodDays": HOSTILE}).encode(), place="settings.json")
    code, out, _ = turnlog("doctor", "--home", home, COLUMNS=columns)
    assert code == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", out)
    assert "[bold]" in out or columns == "20"
    code, out, _ = turnlog("doctor", "--home", home, "--json")
    assert json.loads(out)["findings"]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_on_a_terminal_no_line_but_a_command_is_wider_than_it(home, damaged_log, tmp_path, columns):
    aged(damaged_log)
    main, side = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nobody"), "PYTHONUTF8": "1"}
    env |= {"COLUMNS": str(columns), "TERM": "xterm-256color", "PAGER": "cat"}
    code = "from turnlog.cli import main; main()"
    done = subprocess.Popen(
        [sys.executable, "-c", code, "doctor", "--home", str(home)],
        stdout=side, stderr=side, env=env, cwd=tmp_path,
    )  # fmt: skip
    os.close(side)
    shown = b""
    try:
        while piece := os.read(main, 65536):
            shown += piece
    except OSError:  # Linux says so when the other side is closed.
        pass
    os.close(main)
    assert done.wait(30) == 1
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "Act now" in text
    wide = [each for each in text.splitlines() if len(each) > columns]
    assert all("$ " in each or str(home) in each for each in wide)


def test_it_is_in_the_list_of_commands_and_explains_itself(turnlog):
    assert "doctor" in turnlog("--help")[1]
    code, out, _ = turnlog("doctor", "--help")
    assert (code, "--no-refresh" in out) == (0, True)


def test_where_lists_what_turnlog_made_and_how_to_remove_it(turnlog, home, tmp_path):
    own = tmp_path / "my data"
    words = ("doctor", "--where", "--home", home)
    code, out, _ = turnlog(*words, TURNLOG_HOME=str(own))
    assert (code, out) == (1, "turnlog has made no files and changed no settings.\n")
    turnlog("keep", "--home", home, TURNLOG_HOME=str(own))
    settings = home / "settings.json"
    settings.write_text('{"statusLine": {"type": "command", "command": "turnlog statusline"}}')
    code, out, _ = turnlog(*words, TURNLOG_HOME=str(own), COLUMNS="80")
    assert code == 0
    assert re.search(r"^   kept +[\d.]+ (KB|bytes)  copies of sessions", out, re.MULTILINE)
    assert f"$ rm -r {shlex.quote(str(own))}\n" in out
    assert "$ turnlog hooks remove statusline --yes\n" in out
    _, document, _ = turnlog(*words, "--json", TURNLOG_HOME=str(own))
    files = json.loads(document)["files"]
    assert {each["path"] for each in files} == {*map(str, own.iterdir()), str(settings)}
    _, table, _ = turnlog(*words, "--csv", TURNLOG_HOME=str(own))
    assert table.splitlines()[0] == "kind,path,what,size_bytes,remove"
    assert len(table.splitlines()) == 1 + len(files)
