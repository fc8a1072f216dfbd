"""``turnlog export``, run as a person runs it: formats, places, refusals, full disks."""

import csv
import errno
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from decimal import Decimal

import duckdb
import jsonschema
import msgspec
import pytest

from export import hostile
from export.pages import ID, assert_inert, home_of
from sessions.trees import answer, call, record
from turnlog.cli.app import run
from turnlog.export.conversation import ConversationDocument
from turnlog.export.html.session_page import SCRIPT

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
OTHER = "88888888-eeee-4eee-8eee-888888888888"


def said(uuid, parent, text, **fields):
    return record(uuid, parent, message={"role": "user", "content": text}, **fields)


def paid(uuid, parent, number, *blocks, **fields):
    made = answer(uuid, parent, f"m{number}", *blocks, **fields)
    usage = {"input_tokens": 100, "output_tokens": 50 + number}
    made["message"] |= {"usage": usage, "model": "claude-sonnet-4-5-20250929"}
    return made | {"requestId": f"r{number}"}


RECORDS = (
    said("q", None, "Fix the kite", timestamp="2026-03-04T10:00:00Z", cwd="/srv/orchard"),
    paid(
        "a",
        "q",
        1,
        call("c", command=f"export GITHUB_TOKEN={SECRET}"),
        timestamp="2026-03-04T10:00:30Z",
    ),
    record(
        "r",
        "a",
        message={
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": f"{SECRET} ok"}],
        },
    ),
    paid("b", "r", 2, {"type": "text", "text": "It flies."}, timestamp="2026-03-04T10:01:00Z"),
)


@pytest.fixture
def home(tmp_path):
    made = home_of(
        tmp_path,
        *(each | {"sessionId": ID} for each in RECORDS),
        subagents=[("a7", [said("x", None, "Look", isSidechain=True, agentId="a7", sessionId=ID)])],
    )
    other = made / "projects" / "-srv-orchard" / f"{OTHER}.jsonl"
    second = said("z", None, "Another", timestamp="2026-03-05T10:00:00Z", cwd="/srv/orchard")
    other.write_text(json.dumps(second | {"sessionId": OTHER}) + "\n")
    return made


@pytest.fixture
def export(turnlog, home, tmp_path):
    """Export from the home; give stdout, or stderr where it fails."""

    def run(*arguments, code=0, **environ):
        own = {"TURNLOG_HOME": str(tmp_path / "own")}
        found, out, err = turnlog("export", "--home", home, *arguments, **own, **environ)
        assert found == code, err
        return err if code else out

    return run


@pytest.mark.parametrize("ending", ["md", "html", "json", "jsonl", "csv"])
def test_every_format_is_told_by_its_ending_and_masks_secrets(export, tmp_path, ending):
    table = ("--table", "calls") if ending == "csv" else ()
    path = tmp_path / f"out.{ending}"
    export("7777", "-o", path, *table)
    text = path.read_text("utf-8")
    assert SECRET not in text
    assert path.stat().st_mode & 0o777 == 0o600
    export("7777", "-o", path, "--force", "--no-redact", *table)
    assert SECRET in path.read_text("utf-8")


def test_markdown_goes_to_the_screen(export):
    assert "> Fix the kite" in export("7777")
    assert "It flies." in export("7777", "--turns", "1")
    assert "It flies." in export("7777", "--turns", ":2")


@pytest.mark.parametrize("shape", ["md", "json", "jsonl", "csv"])
def test_a_dash_is_the_screen(export, shape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export("7777", "--format", shape, "-o", "-") == export("7777", "--format", shape)
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("asked", "words"),
    [("99:100", "has no turns 99:100"), ("2:", "has no turns 2:"), ("2", "has no turn 2")],
)
def test_turns_that_are_not_there_are_missed(export, tmp_path, asked, words):
    path = tmp_path / "talk.md"
    said = export("7777", "--turns", asked, "-o", path, code=2)
    assert f"error: session {ID} {words}" in said
    assert "hint: it has 1, counted from 1" in said
    assert not path.exists()
    assert words in export("7777", "8888", "--turns", asked, "-o", f"{tmp_path / 'both'}/", code=2)


def test_sessions_without_the_turns_get_no_page_and_the_others_do(turnlog, home, tmp_path):
    with (home / "projects" / "-srv-orchard" / f"{OTHER}.jsonl").open("a") as log:
        more = said("y", "z", "And another", timestamp="2026-03-05T10:01:00Z")
        log.write(json.dumps(more | {"sessionId": OTHER}) + "\n")
    both = ("7777", "8888", "--home", home, "-o", f"{tmp_path / 'both'}/")
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    code, _, err = turnlog("export", *both, "--turns", "2", "--format", "md", **own)
    assert code == 0
    assert "notice: skipped 1 session with no turns in this range" in err
    assert sorted(os.listdir(tmp_path / "both")) == [f"{OTHER}.md", "index.md"]


def test_lines_without_masking_are_the_logs_own_bytes(export, home, tmp_path):
    log = home / "projects" / "-srv-orchard" / f"{ID}.jsonl"
    log.write_bytes(log.read_bytes() + b'\0\0\0\n{"torn": "tail')
    export("7777", "-o", tmp_path / "copy.jsonl", "--no-redact")
    assert (tmp_path / "copy.jsonl").read_bytes() == log.read_bytes()
    export("7777", "-o", tmp_path / "masked.jsonl")
    ours = (tmp_path / "masked.jsonl").read_bytes().split(b"\n")
    theirs = log.read_bytes().split(b"\n")
    assert len(ours) == len(theirs)
    assert [a == b for a, b in zip(ours, theirs, strict=True)].count(False) == 2
    assert all(json.loads(each) for each in ours[:4])


def test_lines_into_a_directory_take_the_agents_along(export, home, tmp_path):
    export("7777", "--format", "jsonl", "-o", tmp_path / "logs/", "--no-redact")
    project = home / "projects" / "-srv-orchard"
    for name in (f"{ID}.jsonl", f"{ID}/subagents/agent-a7.jsonl"):
        assert (tmp_path / "logs" / name).read_bytes() == (project / name).read_bytes()


def test_several_sessions_get_a_directory_and_a_list(export, tmp_path):
    for ending in ("html", "md", "json"):
        folder = tmp_path / f"all-{ending}"
        export("--project", "/srv/orchard", "-o", f"{folder}/", "--format", ending)
        names = sorted(path.name for path in folder.iterdir())
        assert names == sorted([f"{ID}.{ending}", f"{OTHER}.{ending}", f"index.{ending}"])
        index = (folder / f"index.{ending}").read_text("utf-8")
        assert f"{ID}.{ending}" in index
        assert f"{OTHER}.{ending}" in index
    again = export("--project", "/srv/orchard", "-o", f"{tmp_path}/all-md/", code=2)
    assert "--force" in again


def test_since_chooses_sessions(export, tmp_path):
    export("--since", "2026-03-05", "-o", tmp_path / "new/")
    assert (tmp_path / "new" / f"{OTHER}.html").exists()
    assert not (tmp_path / "new" / f"{ID}.html").exists()
    assert "No sessions" in export("--since", "2030-01-01", "-o", tmp_path / "none/", code=1)
    assert not (tmp_path / "none").exists()


def test_json_is_one_document(export):
    found = json.loads(export("7777", "--format", "json"))
    jsonschema.validate(found, msgspec.json.schema(ConversationDocument))
    assert found["session"]["id"] == ID
    assert found["session"]["figures"]["messages"] == 2
    blocks = found["turns"][0]["blocks"]
    assert [block["type"] for block in blocks] == ["said", "call", "answer"]
    assert blocks[1]["result"]["text"].endswith(" ok")
    assert [subagent["id"] for subagent in found["subagents"]] == ["a7"]


def test_tables_add_up_to_the_ledger(export, turnlog, home, tmp_path):
    rows = list(csv.DictReader(io.StringIO(export("--since", "2000-01-01", "--format", "csv"))))
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    code, out, _ = turnlog("cost", "month", "--json", "--home", home, **own)
    assert code == 0
    totals = json.loads(out)["totals"]
    assert sum(int(row["output"]) for row in rows) == totals["output"] == 103
    assert sum(Decimal(row["cost_usd"]) for row in rows) == Decimal(totals["cost_usd"]) > 0
    target = tmp_path / "usage.parquet"
    export("--since", "2000-01-01", "-o", target)
    files = f"{target}/messages/**/*.parquet"
    assert duckdb.sql(f"SELECT sum(cost_usd) FROM read_parquet('{files}')").fetchall() == [
        (Decimal(totals["cost_usd"]),)
    ]
    export("7777", "-o", tmp_path / "tables/", "--format", "csv")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "calls.csv",
        "messages.csv",
        "records.csv",
    ]


def test_a_hostile_session_is_inert_however_it_leaves(turnlog, tmp_path):
    home = home_of(tmp_path, raw=hostile.log())
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    page = tmp_path / "page.html"
    code, _, err = turnlog("export", "7777", "--home", home, "-o", page, **own)
    assert code == 0, err
    assert_inert(page.read_text("utf-8"), SCRIPT)
    code, out, err = turnlog("export", "7777", "--home", home, "--thread", "all", **own)
    assert code == 0
    assert all(character not in out + err for character in "\x1b\u202e\x00")
    code, _, err = turnlog("export", "7777", "--home", home, "-o", tmp_path / "all/", **own)
    index = (tmp_path / "all" / "index.html").read_text("utf-8")
    assert "<script" not in index
    assert "<img" not in index


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a session"),
        (("9999",), "no session's id begins with"),
        (("7777", "--since", "7d"), "cannot combine SESSION"),
        (("7777", "-o", "missing/deep/out.html"), "no such directory"),
        (("7777", "--turns", "seven"), "invalid range"),
        (("7777", "--turns", "7:3"), "ends before it starts"),
        (("7777", "--turns", "3-7"), "use 3, 3:7, 3: or :7"),
        (("7777", "--turns", ":"), "invalid range"),
        (("7777", "--thread", "nobody"), "no record's uuid begins with 'nobody'"),
        (("7777", "--tools", "some"), "is not one of"),
        (("7777", "--no-tools"), "unknown option"),
        (("7777", "--redact"), "unknown option"),
        (("7777", "--thinking"), "unknown option"),
        (("7777", "--format", "parquet"), "directory"),
        (("7777", "8888"), "need a directory"),
        (("7777", "8888", "-o", "both.md"), "need a directory"),
        (("--since", "whenever"), "whenever"),
    ],
)
def test_mistakes_are_told(export, arguments, words):
    assert words in export(*arguments, code=2)


def test_what_exists_stays(export, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    assert "--force" in export("7777", "-o", path, code=2)
    assert path.read_text() == "mine"
    export("7777", "-o", path, "--force")
    assert path.read_text().startswith("<!doctype html>")
    assert not list(tmp_path.glob(".turnlog-*"))


@pytest.mark.parametrize("raw", [b"", b"{damaged", b"\0\0\0\n", b'{"type":"user"'])
def test_a_session_without_a_whole_record_is_exported(turnlog, tmp_path, raw):
    home = home_of(tmp_path, raw=raw)
    for ending in ("html", "md", "json", "jsonl", "csv"):
        own = {"TURNLOG_HOME": str(tmp_path / "own"), "COLUMNS": "20"}
        path = tmp_path / f"out.{ending}"
        code, _, err = turnlog("export", "7777", "--home", home, "-o", path, **own)
        assert code == 0, err
        assert path.exists()


@pytest.mark.parametrize("ending", ["html", "md", "jsonl", "csv", "parquet"])
def test_a_full_disk_leaves_no_half_file(home, tmp_path, ending):
    own = tmp_path / "own"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "nobody"),
        "TURNLOG_HOME": str(own),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # Else Python leaves half of a module for everybody.
    }
    command = [sys.executable, "-c", "from turnlog.cli import main; main()"]
    # The index is made before there is no room left.
    subprocess.run([*command, "refresh", "--home", home], env=env, check=True, capture_output=True)
    folder = tmp_path / "full"
    folder.mkdir()
    target = folder / f"out.{ending}"
    done = subprocess.run(
        [*command, "export", "7777", "--home", home, "-o", target],
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert done.returncode == 3, done.stderr
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []


def test_help_has_examples(turnlog):
    code, out, _ = turnlog("export", "--help", COLUMNS="80")
    assert code == 0
    assert "turnlog export latest -o session.html" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("target", ["out.md", "out.jsonl", "calls.csv", "pages/"])
def test_a_scan_tells_where_secrets_went_that_were_not_masked(
    export, turnlog, home, tmp_path, target
):
    more = ("--format", "html") if target == "pages/" else ()
    table = ("--table", "calls") if target == "calls.csv" else ()
    export("7777", "-o", tmp_path / target, *more, *table)
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    scan = ("secrets", "scan", "--home", home, "--json")
    (row,) = json.loads(turnlog(*scan, **own)[1])["secrets"]
    assert row["exports"] == []
    export("7777", "-o", tmp_path / target, "--force", "--no-redact", *more, *table)
    (row,) = json.loads(turnlog(*scan, **own)[1])["secrets"]
    assert len(row["exports"]) == 1
    assert str(tmp_path / target).rstrip("/") in json.dumps(row["exports"])
    assert SECRET not in (tmp_path / "own" / "journal.jsonl").read_text("utf-8")


def test_an_ending_of_no_format_is_a_mistake_unless_the_format_is_said(export, tmp_path):
    path = tmp_path / "talk.txt"
    err = export("7777", "-o", path, code=2)
    assert "'.txt'" in err
    assert "--format" in err
    assert not path.exists()
    export("7777", "-o", path, "--format", "md")
    assert "It flies." in path.read_text("utf-8")
    export("7777", "-o", f"{tmp_path / 'week.47'}/")
    assert (tmp_path / "week.47").is_dir()


@pytest.mark.parametrize("ending", ["md", "html", "json", "jsonl", "csv"])
def test_a_password_is_masked_also_where_it_is_only_said_again(export, home, tmp_path, ending):
    word = "vT9-kQ2!mZ4x"
    log = home / "projects" / "-srv-orchard" / f"{ID}.jsonl"
    more = said("again", "b", f"use {word} then", sessionId=ID)
    given = said("given", "again", f"DB_PASSWORD={word}", sessionId=ID)
    run = paid("run", "given", 3, call("d", command=f"login {word}")) | {"sessionId": ID}
    added = "".join(json.dumps(each) + "\n" for each in (more, given, run))
    log.write_text(log.read_text("utf-8") + added)
    table = ("--table", "calls") if ending == "csv" else ()
    export("7777", "-o", tmp_path / f"o.{ending}", *table)
    assert word not in (tmp_path / f"o.{ending}").read_text("utf-8")
    export("7777", "-o", tmp_path / f"plain.{ending}", "--no-redact", *table)
    assert word in (tmp_path / f"plain.{ending}").read_text("utf-8")


def test_a_session_that_cannot_be_read_is_missed(home, tmp_path, monkeypatch, capsys):
    """It is told as the list of sessions tells it, and only where it may be meant."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    closed = home / "projects" / "-srv-orchard" / f"{OTHER}.jsonl"
    plainly = os.open

    def guarded(path, *more, **how):  # Root may read everything.
        if path == closed or path == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return plainly(path, *more, **how)

    monkeypatch.setattr(os, "open", guarded)
    for shape in ("html", "jsonl", "csv"):
        words = ["--home", str(home), "--format", shape, "-o", str(tmp_path / shape)]
        assert run(["export", "--project", "/srv/orchard", *words]) == 1
        told = capsys.readouterr().err
        assert f"warning: not exported: no permission to open {closed}" in told
        assert (tmp_path / shape).exists()
        assert run(["export", "--project", "/srv/kites", *words, "--force"]) == 1
        assert "not exported" not in capsys.readouterr().err
    assert run(["export", ID, "--home", str(home)]) == 0
    assert "not exported" not in capsys.readouterr().err


def test_a_session_that_lies_in_two_homes_is_exported_once_and_as_it_went_on(
    turnlog, home, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    more = said("n", "b", "And the wind?", timestamp="2026-03-06T10:00:00Z", cwd="/srv/orchard")
    with (copy / "projects" / "-srv-orchard" / f"{ID}.jsonl").open("a") as log:
        log.write(json.dumps(more | {"sessionId": ID}) + "\n")
    homes = ("--home", home, "--home", copy)

    def exported(shape, *asked):
        out = tmp_path / f"{shape}{len(asked)}"
        code, _, err = turnlog("export", *homes, *asked, "-o", out, "--format", shape)
        assert code == 0, err
        return {
            os.fspath(path.relative_to(out)): path.read_text()
            for path in out.rglob("*")
            if path.is_file()
        }

    subagent = f"{ID}/subagents/agent-a7.jsonl"
    for asked in (("--since", "2026-01-01"), (ID, OTHER, ID)):
        logs = exported("jsonl", *asked)
        assert sorted(logs) == sorted([f"{ID}.jsonl", f"{OTHER}.jsonl", subagent])
        assert logs[f"{ID}.jsonl"].count("\n") == len(RECORDS) + 1
        assert "And the wind?" in exported("md", *asked)[f"{ID}.md"]
        rows = {
            name: list(csv.DictReader(io.StringIO(text)))
            for name, text in exported("csv", *asked).items()
        }
        assert len(rows["messages.csv"]) == 2
        assert len(rows["calls.csv"]) == 1
        uuids = [row["uuid"] for row in rows["records.csv"]]
        assert sorted(uuids) == sorted(set(uuids))


def test_two_logs_of_one_agent_are_both_exported(turnlog, home, tmp_path):
    subagents = home / "projects" / "-srv-orchard" / ID / "subagents"
    (subagents / "workflow").mkdir()
    shutil.copy(subagents / "agent-a7.jsonl", subagents / "workflow")
    code, _, err = turnlog(
        "export", "--home", home, ID, "-o", tmp_path / "out/", "--format", "jsonl"
    )
    assert code == 0, err
    found = [
        path.relative_to(tmp_path / "out") for path in (tmp_path / "out" / ID).rglob("*.jsonl")
    ]
    inner = ("agent-a7.jsonl", "workflow/agent-a7.jsonl")
    assert sorted(map(os.fspath, found)) == [f"{ID}/subagents/{each}" for each in inner]


# -- how much of it -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["md", "html", "json"])
def test_calls_are_left_out_or_take_one_line(export, shape):
    full, line, none = (
        export("7777", "--format", shape, "--tools", detail, "--no-redact").replace("\\_", "_")
        for detail in ("full", "line", "none")
    )
    assert [text.count(f"{SECRET} ok") for text in (line, none)] == [1, 0]
    assert full.count(f"{SECRET} ok") > 1
    assert "GITHUB_TOKEN" in line
    assert "GITHUB_TOKEN" not in none
    assert all("It flies." in text for text in (full, line, none))


def test_a_thread_may_be_named_by_a_record(export):
    out = export("7777", "--thread", "a")
    assert "Fix the kite" in out
    assert "It flies." not in out


def test_thinking_is_left_out(export, home):
    log = home / "projects" / "-srv-orchard" / f"{ID}.jsonl"
    thought = {"type": "thinking", "thinking": "Hm, the tail?", "signature": ""}
    more = paid("t", "b", 3, thought) | {"sessionId": ID}
    log.write_text(log.read_text("utf-8") + json.dumps(more) + "\n")
    assert "Hm, the tail?" in export("7777")
    assert "Hm, the tail?" not in export("7777", "--no-thinking")


# -- what was masked and replaced -----------------------------------------------------------


@pytest.mark.parametrize("ending", ["md", "html", "json", "jsonl", "csv", "parquet"])
def test_every_export_says_how_many_secrets_it_masked(turnlog, home, tmp_path, ending):
    own = {"TURNLOG_HOME": str(tmp_path / "own")}
    for session, said in (("7777", "1 secret masked"), ("8888", "0 secrets masked")):
        table = ("--table", "calls") if ending == "csv" else ()
        place = ("-o", tmp_path / f"{session}.{ending}", "--home", home)
        code, _, err = turnlog("export", session, *table, *place, **own)
        assert (code, said in err.splitlines()) == (0, True), err
    _, _, err = turnlog("export", "7777", "--no-redact", "--home", home, **own)
    assert "secrets not masked (--no-redact)" in err.splitlines()


@pytest.mark.parametrize("ending", ["md", "html", "json", "jsonl", "csv", "parquet"])
def test_names_are_replaced_the_same_in_every_format(turnlog, tmp_path, ending):
    kite = {"sessionId": ID, "cwd": "/home/ada/kite", "timestamp": "2026-03-04T10:00:00Z"}
    shown = "C:\\Users\\Grace Hopper\\kite.txt\n-rw-r--r-- 1 ada ada 12 /home/ada/kite/tail"
    result = {"type": "tool_result", "tool_use_id": "c", "content": shown}
    records = (
        said("q", None, "Ada here, Canada is cold.\nada@lamp:~/kite$ ls\nThe lamp, a lamp."),
        paid("a", "q", 1, call("c", command="scp /home/ada/kite/x eve@mast-7.example.net:")),
        record("r", "a", message={"role": "user", "content": [result]}),
        paid("b", "r", 2, {"type": "text", "text": "Copied for ada to mast-7."}),
    )
    home = home_of(tmp_path, *(each | kite for each in records))
    own = {"TURNLOG_HOME": str(tmp_path / "own"), "USER": "ada", "LOGNAME": "ada"}
    path = tmp_path / f"out.{ending}"
    to = tmp_path / "tables/" if ending == "csv" else path
    code, _, err = turnlog(
        "export", "7777", "--home", home, "--format", ending, "-o", to, "--anonymize", **own
    )
    assert code == 0, err
    if ending == "parquet":
        tables = [f"{path}/{name}/**/*.parquet" for name in ("messages", "calls", "records")]
        text = "\n".join(
            str(duckdb.sql(f"SELECT * EXCLUDE (\"at\") FROM '{t}'").fetchall()) for t in tables
        )
    elif ending == "csv":
        text = "\n".join(file.read_text("utf-8") for file in sorted(to.iterdir()))
    else:
        text = path.read_text("utf-8")
    assert not re.search(r"\bada\b|Grace|Hopper|mast-7|eve@|@lamp", text, re.IGNORECASE)
    assert "/home/user1/kite" in text
    assert "Canada is cold" in text
    assert "The lamp, a lamp." in text
    assert "Copied for user1 to host2." in text.replace("\\-", "-")
    assert "0 secrets masked, 5 names replaced" in err
    assert "notice: eve, lamp are also ordinary words: replaced only in paths and addresses" in err
