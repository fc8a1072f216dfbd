"""``turnlog check``, run as a person runs it."""

import json
from pathlib import Path

import jsonschema
import pytest

from cli.conftest import WHOLE, prompt

DAMAGED = "22222222-bbbb-4bbb-8bbb-222222222222"
SCHEMAS = Path(__file__).parent.parent.parent.parent / "docs" / "schemas"
SAMPLES = Path(__file__).parent.parent.parent.parent / "samples" / "claude"


def test_a_whole_session_is_clean(turnlog, home):
    code, out, err = turnlog("check", "1111", "--home", home)
    assert code == 0
    assert "1 log without damage" in out
    assert not err


def test_damage_is_found_and_shown_with_its_line(turnlog, home):
    code, out, _ = turnlog("check", "--home", home)
    assert code == 1
    assert "sessions  2" in out
    assert "glued" in out
    assert "2 records on one line" in out
    assert "9 NUL bytes" in out
    assert "torn-tail" in out
    assert "turnlog repair 22222222 --home" in out


@pytest.mark.parametrize(("more", "words"), [(1, "1 other type "), (2, "2 other types ")])
def test_one_more_type_is_no_plural(turnlog, tmp_path, more, words):
    project = tmp_path / "home" / "projects" / "-srv"
    project.mkdir(parents=True)
    lines = [f'{{"type":"kind-{number}","sessionId":"s"}}' for number in range(6 + more)]
    (project / "11111111-aaaa-4aaa-8aaa-111111111111.jsonl").write_text("\n".join(lines) + "\n")
    _, out, _ = turnlog("check", "--home", tmp_path / "home")
    assert words in out


def test_checking_changes_nothing(turnlog, home, damaged_log):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.rglob("*.jsonl")}
    turnlog("check", "--strict", "--home", home)
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.rglob("*.jsonl")}
    assert before == after
    assert sorted(damaged_log.parent.iterdir()) == sorted(before)


def test_json_is_one_document_that_fits_its_schema(turnlog, home):
    code, out, err = turnlog("check", "--json", "--home", home)
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / "check.json").read_text("utf-8")))
    assert code == 1
    assert not err
    assert document["totals"]["records"] == 3
    assert {finding["code"] for finding in document["findings"]} == {
        "glued",
        "nul-run",
        "torn-tail",
    }
    damaged = next(log for log in document["logs"] if log["session"] == DAMAGED)
    assert damaged["corrupt"] == [1, 2]
    assert damaged["total"] == damaged["valid"] + len(damaged["corrupt"]) + damaged["blank"]


def test_strict_names_the_rule_that_is_broken(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    log.write_bytes(b'{"type":"queue-operation","operation":"sing","sessionId":"s"}\n')
    assert turnlog("check", log)[0] == 0
    code, out, _ = turnlog("check", "--strict", log)
    assert code == 1
    assert "queue-operation without timestamp" in out
    assert "operation 'sing'" in out


def test_without_any_logs_it_says_so_and_finds_nothing(turnlog):
    code, out, _ = turnlog("check")
    assert code == 1
    assert "No logs found" in out


def test_the_samples_stand_in_for_a_newcomers_sessions(turnlog):
    code, out, _ = turnlog("check", "--or-sample", SAMPLES)
    assert code == 1
    assert "bundled samples" in out
    assert "sessions  4, and 1 subagent" in out


@pytest.mark.parametrize("name", ["../../x", "no-such-session", "missing.jsonl"])
def test_a_name_that_means_nothing_is_the_callers_mistake(turnlog, home, name):
    code, out, err = turnlog("check", name, "--home", home)
    assert code == 2
    assert not out
    assert err.startswith("error: ")
    assert "\nhint: " in err


def test_an_ambiguous_prefix_lists_what_it_could_mean(turnlog, home):
    twin = next(home.rglob("1111*.jsonl"))
    (twin.parent / f"1111{twin.name[4:].replace('a', 'c')}").write_bytes(twin.read_bytes())
    code, _, err = turnlog("check", "1111", "--home", home)
    assert code == 2
    assert "2 sessions" in err


def test_a_directory_of_logs_may_be_named(turnlog, damaged_log):
    code, out, _ = turnlog("check", damaged_log.parent)
    assert code == 1
    assert "1 log with findings" in out


def test_a_home_that_is_not_there_is_the_callers_mistake(turnlog, tmp_path):
    code, _, err = turnlog("check", "--home", tmp_path / "nowhere")
    assert code == 2
    assert "hint: " in err


def test_a_log_cannot_steer_the_terminal(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    log.write_bytes(b"\x1b]0;owned\x07\x1b[31m \xe2\x80\xae [bold]red[/bold] not a record\n")
    _, out, _ = turnlog("check", log, COLUMNS="200")
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\u202e" not in out
    assert "[bold]red[/bold]" in out
    assert "␛" in out


def test_what_only_looks_like_an_emojis_name_is_shown_as_it_stands(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    log.write_bytes(b"root:x:0:0 :bug: fixed\n")
    _, out, _ = turnlog("check", log, COLUMNS="200")
    assert "root:x:0:0 :bug: fixed" in out


def test_colour_stays_away_from_pipes(turnlog, home):
    assert "\x1b[" not in turnlog("check", "--home", home)[1]


def test_the_line_cap_can_be_set_and_a_broken_setting_is_told(turnlog, home, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    long = prompt(WHOLE, "x" * 2_000_000)
    (home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl").write_bytes(long + b"\n")
    (own / "config.toml").write_text("line_cap_mb = 1\n")
    code, out, err = turnlog("check", "1111", "--home", home, "--json", TURNLOG_HOME=str(own))
    assert (code, err) == (1, "")
    assert "too-long" in out
    (own / "config.toml").write_text("line_cap_mb = 'much'\n")
    code, out, err = turnlog("check", "1111", "--home", home, "--json", TURNLOG_HOME=str(own))
    assert code == 0
    assert err.startswith(f"warning: {own / 'config.toml'}: line_cap_mb: ")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (prompt(WHOLE, "one") + b'\n{"type":"us', "torn-tail"),
        (prompt(WHOLE, "one").replace(b"one", b"\xff") + b"\n", "not-utf8"),
        (prompt(WHOLE, "one").replace(b'{"', b'{"\xff":1,"', 1) + b"\n", "not-utf8"),
    ],
)
def test_a_log_with_a_finding_is_not_valid(turnlog, tmp_path, data, code):
    log = tmp_path / "s.jsonl"
    log.write_bytes(data)
    status, out, _ = turnlog("check", "--json", log)
    document = json.loads(out)
    assert status == 1
    assert [each["code"] for each in document["findings"]] == [code]
    assert [each["is_valid"] for each in document["logs"]] == [False]


def test_what_a_repair_leaves_has_a_hint(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    whole = prompt(WHOLE, "one")
    log.write_bytes(whole.replace(b"one", b"\xff") + b"\n" + whole + whole + b'\n{"type":"us')
    assert "turnlog repair" in turnlog("check", log)[1]
    assert turnlog("repair", log, "--yes")[0] == 0
    code, out, _ = turnlog("check", log)
    assert code == 1
    assert "not-utf8" in out
    assert "U+FFFD" in out
    assert "turnlog repair" not in out


def test_a_torn_tail_has_a_hint_and_is_well_after_it(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    log.write_bytes(prompt(WHOLE, "one") + b'\n{"type":"us')
    assert "turnlog repair" in turnlog("check", log)[1]
    assert turnlog("repair", log, "--yes")[0] == 0
    assert turnlog("check", log)[0] == 0


def test_strict_and_repair_agree_on_what_the_agents_program_refuses(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    record = prompt(WHOLE, "one", parentUuid=None, isSidechain=False, cwd="/", userType="external")
    log.write_bytes(b"\xef\xbb\xbf" + record + b"\n" + record.replace(b"one", b"a\tb") + b"\n")
    code, out, _ = turnlog("check", "--strict", log)
    assert code == 1
    assert "a byte order mark" in out
    assert "a control character" in out
    assert "turnlog repair" in out
    code, out, _ = turnlog("repair", log)
    assert code == 1
    assert "2 records would be rewritten" in out
    assert turnlog("repair", log, "--yes")[0] == 0
    assert log.read_bytes() == record + b"\n" + record.replace(b"one", b"a\\u0009b") + b"\n"
    code, out, _ = turnlog("check", "--strict", "--json", log)
    assert "refused" not in {each["code"] for each in json.loads(out)["findings"]}
