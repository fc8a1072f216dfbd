"""``turnlog sessions``, ``show`` and ``info``, run as a person runs them."""

import json
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest
from rich.cells import cell_len

import turnlog as turnlog_library
from turnlog.catalog.indexed_sessions import SESSION_SORTS, SessionCatalog
from turnlog.cli.browse.sessions import LIFE, SORTS
from turnlog.sessions.state import State

WHOLE = "11111111-aaaa-4aaa-8aaa-111111111111"
DAMAGED = "22222222-bbbb-4bbb-8bbb-222222222222"
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
SAMPLES = Path(__file__).parents[3] / "samples" / "claude"


def test_sessions_are_listed_newest_first(turnlog):
    code, out, _ = turnlog("sessions", "--home", SAMPLES)
    assert code == 0
    rows = out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["0b29ae83", "2d3f0bf3", "f38b2ffc", "123544bf"]
    assert "Frost alert sent at noon +1 subagent" in rows[2]


def test_the_list_is_cut_and_says_how_to_go_on(turnlog):
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--limit", "3")
    assert "1 more; use --offset 3" in out
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--limit", "3", "--offset", "3")
    assert "123544bf" in out
    assert "0b29ae83" not in out


@pytest.mark.parametrize("changed_last", ["1", "2", "3"])
def test_latest_is_the_first_row_also_of_a_session_and_its_forks(turnlog, tmp_path, changed_last):
    """A fork ends with the same record, so that both were active at the same instant."""
    said = {
        "type": "user",
        "uuid": "a" * 8,
        "timestamp": "2026-11-01T10:00:00.000Z",
        "cwd": "/srv",
        "message": {"role": "user", "content": "Water the pears"},
    }
    for digit, project in (("1", "-b"), ("3", "-a"), ("2", "-c")):
        session = f"{digit * 8}-aaaa-4aaa-8aaa-{digit * 12}"
        log = tmp_path / "projects" / project / f"{session}.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text(json.dumps(said | {"sessionId": session}) + "\n")
        at = 1_794_000_000 + (5 if digit == changed_last else 0)
        os.utime(log, (at, at))
    asked = ("--home", tmp_path)
    for words in (("sessions",), ("sessions", "--wide")):
        rows = rows_of(turnlog(*words, *asked)[1])
        assert rows == ["11111111", "22222222", "33333333"]
    assert json.loads(turnlog("info", "latest", "--json", *asked)[1])["id"].startswith("1111")


def test_a_project_keeps_its_own_sessions(turnlog):
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--project", "/home/ada/orchard")
    assert "2d3f0bf3" in out
    assert "0b29ae83" not in out
    _, below, _ = turnlog("sessions", "--home", SAMPLES, "--project", "/home/ada")
    assert "0b29ae83" in below


def test_no_sessions_is_an_answer_with_a_hint(turnlog):
    code, out, _ = turnlog("sessions")
    assert code == 1
    assert "hint: " in out


@pytest.mark.parametrize(
    ("command", "schema"), [(("sessions",), "sessions"), (("info", "2222"), "info")]
)
def test_json_is_one_document_that_fits_its_schema(turnlog, home, command, schema):
    code, out, err = turnlog(*command, "--home", home, "--json")
    assert code == 0
    assert not err
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8")))


def test_a_session_in_json_has_what_the_house_promises(turnlog, home):
    _, out, _ = turnlog("sessions", "--home", home, "--json")
    document = json.loads(out)
    assert document["next"] is None
    for row in document["sessions"]:
        assert {
            "id",
            "project",
            "title",
            "started_at",
            "last_active_at",
            "records",
            "state",
            "keeping",
            "home",
        } <= set(row)
    assert {row["id"] for row in document["sessions"]} == {WHOLE, DAMAGED}


def test_show_reads_like_a_conversation(turnlog):
    code, out, _ = turnlog("show", "2d3f", "--home", SAMPLES)
    assert code == 0
    assert out.index("Let us design") < out.index("was summarised") < out.index("Go on, write it")
    assert "Bash head -3 data/yields.csv →" in out
    assert "✗ ModuleNotFoundError" in out


def test_the_current_thread_begins_at_the_last_compaction(turnlog):
    _, out, _ = turnlog("show", "2d3f", "--home", SAMPLES, "--thread", "current")
    assert "Let us design" not in out
    assert "Go on, write it" in out


def test_thinking_is_shown_when_asked_for(turnlog):
    assert "degree days, last three years" not in turnlog("show", "2d3f", "--home", SAMPLES)[1]
    _, out, _ = turnlog("show", "2d3f", "--home", SAMPLES, "--thinking")
    assert "degree days, last three years" in out


def test_agents_are_shown_when_asked_for(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--subagents")
    assert "subagent a3f09c1 Find callers of sunrise" in out
    assert "Reykjavík" in out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("show", "f38b", "--agents"), ("show", "f38b", "--subagents")),
        (("sessions", "--is", "agents"), ("sessions", "--is", "subagents")),
        (("sessions", "--sort", "agents"), ("sessions", "--sort", "subagents")),
        (("search", "role:agent"), ("search", "role:subagent")),
    ],
)
def test_old_names_of_subagents_are_accepted(turnlog, old, new):
    assert turnlog(*old, "--home", SAMPLES)[1] == turnlog(*new, "--home", SAMPLES)[1] != ""


def test_the_old_name_of_a_filter_is_accepted_with_a_note(turnlog):
    _, out, err = turnlog("search", "is:agent", "--home", SAMPLES)
    assert out == turnlog("search", "is:subagent", "--home", SAMPLES)[1]
    assert "use is:subagent" in err


def test_raw_gives_the_logs_own_lines(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    assert turnlog("show", "1111", "--home", home, "--raw")[1].encode() == log.read_bytes()


def test_the_last_records_come_without_the_rest(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--last", "4")
    assert "It has the same fault" in out
    assert "frost alert goes out" not in out


def test_a_call_that_nobody_answered_was_interrupted(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}
    message = {"role": "assistant", "content": [block]}
    asked = {"type": "assistant", "uuid": "a", "parentUuid": "u-one", "message": message}
    log.write_bytes(log.read_bytes() + json.dumps(asked | {"sessionId": WHOLE}).encode() + b"\n")
    assert "Bash make → no result: interrupted" in turnlog("show", "1111", "--home", home)[1]
    said = {"sessionId": WHOLE, "pid": os.getpid(), "status": "busy"}
    (home / "sessions").mkdir()
    (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(said))
    assert "Bash make → no result yet" in turnlog("show", "1111", "--home", home)[1]


def test_a_call_of_a_session_that_is_written_still_has_no_result_yet(turnlog, tmp_path):
    block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}
    with turnlog_library.open(tmp_path) as store, store.create(project="/p") as session:
        session.append({"type": "assistant", "message": {"role": "assistant", "content": [block]}})
        shown = turnlog("show", session.session_id, "--home", tmp_path)[1]
        assert "Bash make → no result yet" in shown
    shown = turnlog("show", session.session_id, "--home", tmp_path)[1]
    assert "Bash make → no result: interrupted" in shown


def test_what_a_log_says_cannot_steer_the_terminal(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    message = {"role": "user", "content": "a\x1b[2Jb \u202e[red]c[/red]"}
    evil = {"type": "user", "uuid": "e", "parentUuid": None, "message": message}
    log.write_bytes(json.dumps(evil | {"sessionId": WHOLE}).encode() + b"\n")
    for command in ("show", "info"):
        _, out, _ = turnlog(command, "1111", "--home", home)
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "[red]c[/red]" in turnlog("show", "1111", "--home", home)[1]


def test_info_tells_what_is_known(turnlog):
    _, out, _ = turnlog("info", "f38b", "--home", SAMPLES)
    assert "Frost alert sent at noon" in out
    assert "turns     2" in out
    assert "a3f09c1  Find callers of sunrise (matched by result)" in out


def test_an_unknown_session_is_the_callers_mistake(turnlog, home):
    for command in ("show", "info"):
        code, out, err = turnlog(command, "ffff", "--home", home)
        assert code == 2
        assert not out
        assert "hint: " in err


def test_fork_makes_a_new_session_and_leaves_the_old_one(turnlog, home, tmp_path):
    (old,) = home.rglob("1111*.jsonl")
    before = old.read_bytes()
    code, out, _ = turnlog("fork", "1111", "--home", home, "--to", tmp_path / "own", "--json")
    assert code == 0
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / "fork.json").read_text("utf-8")))
    assert (document["forked_from"], document["records"]) == (WHOLE, 1)
    assert old.read_bytes() == before
    _, shown, _ = turnlog("show", document["id"][:8], "--home", tmp_path / "own")
    assert "one" in shown


def test_a_fork_goes_to_turnlogs_own_home_unless_told(turnlog, home, tmp_path):
    code, out, _ = turnlog("fork", "1111", "--home", home, TURNLOG_HOME=str(tmp_path / "kept"))
    assert code == 0
    assert "with 1 record" in out
    assert len(list((tmp_path / "kept").rglob("*.jsonl"))) == 1


def test_a_fork_at_a_record_that_is_not_there_writes_nothing(turnlog, home, tmp_path):
    code, _, err = turnlog("fork", "1111", "--home", home, "--at", "zzz", "--to", tmp_path / "own")
    assert code == 2
    assert "hint: " in err
    assert not list(tmp_path.glob("own/**/*"))


def test_a_session_that_runs_says_so(turnlog, home):
    pids = home / "sessions"
    pids.mkdir()
    said = {"pid": os.getpid(), "sessionId": WHOLE, "status": "busy\x1b[2J"}
    (pids / f"{os.getpid()}.json").write_text(json.dumps(said))
    _, out, _ = turnlog("sessions", "--home", home)
    assert "● busy" in out
    assert "\x1b[2J" not in out
    rows = json.loads(turnlog("sessions", "--json", "--home", home)[1])["sessions"]
    assert {row["id"]: row["running"] for row in rows}[WHOLE] == "busy\x1b[2J"
    _, out, _ = turnlog("info", WHOLE, "--home", home)
    assert "busy" in out


def rows_of(out):
    return [row.split()[0] for row in out.splitlines()[1:]]


def test_a_filter_or_an_order_asks_the_index(turnlog):
    code, out, err = turnlog("sessions", "--home", SAMPLES, "--sort", "tokens")
    assert (code, err) == (0, "")
    assert "tokens" in out.splitlines()[0]
    assert sorted(rows_of(out)) == sorted(rows_of(turnlog("sessions", "--home", SAMPLES)[1]))
    _, backwards, _ = turnlog("sessions", "--home", SAMPLES, "--sort", "tokens", "--reverse")
    assert rows_of(backwards) == rows_of(out)[::-1]
    _, some, _ = turnlog("sessions", "--home", SAMPLES, "--is", "subagents")
    assert rows_of(some) == ["f38b2ffc"]
    _, titled, _ = turnlog("sessions", "--home", SAMPLES, "FROST", "--no-refresh")
    assert rows_of(titled) == ["f38b2ffc"]


def test_both_lists_tell_the_same_of_the_samples(turnlog):
    bare = json.loads(turnlog("sessions", "--home", SAMPLES, "--json")[1])
    code, out, err = turnlog("sessions", "--home", SAMPLES, "--json", "--wide")
    assert (code, err) == (0, "")
    indexed = json.loads(out)
    jsonschema.validate(indexed, json.loads((SCHEMAS / "sessions.json").read_text("utf-8")))
    jsonschema.validate(indexed, msgspec.json.schema(SessionCatalog))
    assert (indexed["next"], indexed["total"]) == (bare["next"], bare["total"])
    for one, other in zip(bare["sessions"], indexed["sessions"], strict=True):
        assert one.items() <= other.items()
        assert other["messages"] > 0
        assert {"input", "output", "cache_write_5m", "cache_write_1h", "cache_read"} <= set(other)


def test_without_a_usable_index_one_is_made_for_the_list(turnlog, home, tmp_path):
    own = tmp_path / "own"
    own.write_text("in the way")
    code, out, err = turnlog("sessions", "--home", home, TURNLOG_HOME=str(own))
    assert (code, sorted(rows_of(out))) == (0, ["11111111", "22222222"])
    assert err.startswith("notice: the index cannot be written: ")


def test_words_are_parts_of_the_title_or_of_the_first_prompt(turnlog, home):
    turnlog("rename", "1111", "The Orchard", "--home", home)

    def found(*words):
        return rows_of(turnlog("sessions", *words, "--home", home)[1])

    assert found("orch") == found("ONE") == found("one", "orchard") == ["11111111"]
    assert found("two") == ["22222222"]
    assert "leave out words" in turnlog("sessions", "one", "two", "--home", home)[1]


def test_each_state_lists_the_sessions_that_are_in_it(turnlog, home):
    def found(*states):
        words = [word for state in states for word in ("--is", state)]
        code, out, _ = turnlog("sessions", *words, "--home", home, "--json")
        ids = [row["id"][:4] for row in json.loads(out)["sessions"]]
        assert code == (0 if ids else 1)
        return ids

    assert found("pinned") == found("kept") == found("running") == found("archived") == []
    turnlog("pin", "1111", "--home", home)
    turnlog("keep", "--session", "2222", "--home", home)
    (home / "sessions").mkdir()
    running = {"sessionId": WHOLE, "pid": os.getpid(), "status": "busy"}
    (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(running))
    assert found("pinned") == found("running") == found("pinned", "running") == ["1111"]
    assert found("kept") == found("damaged") == found("kept", "damaged") == ["2222"]
    assert found("pinned", "kept") == []
    turnlog("archive", "2222", "--home", home)
    assert found("archived") == ["2222"]
    assert found("damaged") == []  # Archived ones are listed on request.


def test_a_list_shows_pins_tags_and_costs(turnlog):
    shown = turnlog("sessions", "--home", SAMPLES)[1].splitlines()
    assert shown[0].split() == ["session", "active", "project", "cost", "title"]
    assert "$0.10  Harvest forecast #design" in shown[2]


def test_a_pin_has_a_mark(turnlog, home):
    turnlog("pin", "1111", "--home", home)
    turnlog("tag", "1111", "red", "--home", home)
    turnlog("rename", "1111", "word " * 40, "--home", home)
    (row,) = (row for row in turnlog("sessions", "--home", home)[1].splitlines() if "1111" in row)
    assert "★ word word" in row
    assert row.endswith("… #red")  # The title is cut, its tags are not.


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_columns_are_dropped_and_wide_characters_counted(turnlog, home, columns):
    turnlog("rename", "1111", "果樹園の春 " * 20, "--home", home)
    shown = turnlog("sessions", "--home", home, COLUMNS=str(columns))[1].splitlines()
    assert all(cell_len(line) <= columns for line in shown)
    assert {line.split()[0] for line in shown[1:]} == {"11111111", "22222222"}
    assert ("project" in shown[0]) == (columns > 40)


def test_damage_is_told_where_it_is_asked_for(turnlog, home):
    _, out, _ = turnlog("sessions", "--home", home, "--is", "damaged")
    assert rows_of(out) == ["22222222"]
    assert "damage" in out


def test_a_gone_session_is_listed_when_asked_for(turnlog, home):
    assert turnlog("sessions", "--home", home, "--is", "gone")[0] == 1
    (log,) = home.rglob("1111*.jsonl")
    log.unlink()
    assert rows_of(turnlog("sessions", "--home", home, "--wide")[1]) == ["22222222"]
    _, out, _ = turnlog("sessions", "--home", home, "--is", "gone")
    assert rows_of(out) == ["11111111"]
    (row,) = json.loads(turnlog("sessions", "--home", home, "--is", "gone", "--json")[1])[
        "sessions"
    ]
    assert (row["id"], row["keeping"], row["title"]) == (WHOLE, "gone", "one")


def test_since_and_until_are_days_of_this_machines_zone(turnlog, home):
    # The prompts were typed at ten in the morning UTC: at one the next night in Kiribati.
    for zone, since, until in (
        ("UTC", "2026-11-01", "2026-11-02"),
        ("Pacific/Kiritimati", "2026-11-02", "2026-11-03"),
    ):

        def found(*more, zone=zone):
            return turnlog("sessions", "--home", home, *more, TZ=zone)[0] == 0

        assert found("--since", since)
        assert not found("--since", until)
        assert found("--until", until)
        assert not found("--until", since)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--since", "someday"),
        ("--sort", "colour"),
        ("--is", "asleep"),
        ("--is", "active", "--is", "expired"),
        ("--limit", "-1"),
    ],
)
def test_a_mistake_in_an_option_is_told_before_anything_is_read(turnlog, home, tmp_path, wrong):
    own = tmp_path / "own"
    code, out, err = turnlog("sessions", "--home", home, *wrong, TURNLOG_HOME=str(own))
    assert (code, out) == (2, "")
    assert "error: " in err
    assert "hint: " in err
    assert not own.exists()


@pytest.mark.parametrize("text", ["%", "_", "'", '"; --', "[a-z]*", "\\", "\udcff", ""])
def test_odd_text_in_a_filter_means_itself(turnlog, home, text):
    for option in ("--model=", "--branch=", "--tool=", "--tag=", ""):
        code, out, err = turnlog("sessions", f"{option}{text}", "--home", home)
        assert err == ""
        assert code == (0 if not option and not text else 1), out


def test_nothing_found_with_a_filter_says_what_to_do(turnlog, home):
    code, out, _ = turnlog("sessions", "--home", home, "--tool", "Nix")
    assert code == 1
    assert "hint: " in out


@pytest.mark.parametrize("sort", SORTS)
def test_a_table_fits_its_terminal_and_shows_what_it_is_sorted_by(turnlog, sort):
    heads = {"active": "active", "duration": "lasted"}
    for columns in (80, 200):
        _, out, _ = turnlog(
            "sessions", "--home", SAMPLES, "--sort", sort, "--wide", COLUMNS=str(columns)
        )
        assert max(map(len, out.splitlines())) <= columns
        assert heads.get(sort, sort) in out.splitlines()[0]
    assert all(head in out.splitlines()[0] for head in ("prompts", "tokens", "model", "branch"))


def test_what_a_log_says_cannot_steer_a_wide_table(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    evil = "[red]c[/red]\x1b[2J\u202e"
    message = {"role": "assistant", "id": "m", "model": evil, "content": []}
    record = {"type": "assistant", "uuid": "e", "gitBranch": evil, "cwd": f"/x/{evil}"}
    line = json.dumps(record | {"message": message, "sessionId": WHOLE})
    log.write_text(f"{line}\n")
    for command in ("sessions", "projects"):
        wide = ("--wide",) if command == "sessions" else ()
        code, out, _ = turnlog(command, "--home", home, *wide, COLUMNS="200")
        assert code == 0
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "[red]" in out


def test_the_names_of_sorts_and_states_are_those_that_are_understood():
    assert tuple(SESSION_SORTS) == SORTS
    assert tuple(State) == LIFE


def test_what_cannot_be_read_is_told_beside_the_list(turnlog, home):
    bad = home / "projects" / "-home-ada-orchard" / "33333333-cccc-4ccc-8ccc-333333333333.jsonl"
    bad.symlink_to(bad)
    for shape in ((), ("--json",), ("--csv",)):
        code, out, err = turnlog("sessions", "--home", home, *shape)
        assert code == 0
        assert "11111111" in out
        assert err.startswith(f"warning: not listed: {bad}: ")
        assert "hint: turnlog doctor" in err


def test_a_prompt_that_nobody_took_is_told_whole(turnlog, home):
    (log,) = home.glob(f"projects/*/{WHOLE}.jsonl")
    words = "and then " + "paint it blue " * 20
    said = {"type": "queue-operation", "operation": "enqueue", "content": words}
    at = {"timestamp": "2026-11-01T10:00:00.000Z", "sessionId": WHOLE}
    with log.open("a") as file:
        file.write(json.dumps(said | at) + "\n")
    _, out, _ = turnlog("info", WHOLE, "--home", home)
    assert f"{words.strip()} (typed 2026-11-01 " in " ".join(out.split())
    assert "never sent)" in out
    told = json.loads(turnlog("info", WHOLE, "--home", home, "--json")[1])["queued"]
    assert told == [{"text": words, "at": "2026-11-01T10:00:00Z"}]


def test_latest_is_the_one_with_the_later_record_though_the_files_have_one_time(turnlog, tmp_path):
    """The file system's clock ticks every few milliseconds, and is behind that of the records."""
    for digit, at in (("1", "10:00:00.007"), ("2", "10:00:00.009"), ("3", "10:00:00.008")):
        session = f"{digit * 8}-aaaa-4aaa-8aaa-{digit * 12}"
        log = tmp_path / "projects" / "-srv" / f"{session}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        said = {"type": "user", "uuid": digit, "timestamp": f"2026-11-01T{at}Z", "cwd": "/srv"}
        log.write_text(json.dumps(said | {"sessionId": session}) + "\n")
        os.utime(log, ns=(0, 1_793_527_200_004_000_000))
    for words in (("sessions",), ("sessions", "--wide")):
        assert rows_of(turnlog(*words, "--home", tmp_path)[1]) == ["2" * 8, "3" * 8, "1" * 8]
    found = json.loads(turnlog("info", "latest", "--json", "--home", tmp_path)[1])
    assert found["id"].startswith("2222")
