"""A home that cannot be written: on a read-only file system, or behind a file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from sampling import sampled
from turnlog.insights.overview import BareOverview

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"
LATEST = "-home-ada-lighthouse/0b29ae83-a577-4f95-9e24-aa6a497254cb.jsonl"

# Each asks the index, and cannot do without one.
ASKING = {
    "sessions": ("sessions", "--wide", "--json"),
    "projects": ("projects", "--json"),
    "search": ("search", "lamp", "--json"),
    "query": ("query", "messages", "--json"),
    "sequences": ("query", "sequences", "--json"),
    "errors": ("errors", "--json"),
    "sql": ("sql", "SELECT count(*) FROM v_records", "--json"),
    "tools": ("cost", "--by", "tool", "--json"),
    "insights": ("insights", "--since", "2025-01-01", "--until", "2026-11-01", "--json"),
    "top": ("top", "--since", "1000d", "--json"),
}
_READ_ONLY = 'mount --bind -o ro "$0" "$0" && exec "$@"'


def can_mount_read_only():
    """Tell whether a directory can be made read only for one process, whoever runs it."""
    try:
        done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture
def home(tmp_path):
    """A home whose directories are as old as most are."""
    shutil.copytree(SAMPLES, tmp_path / "home")
    for each in [tmp_path / "home", *(tmp_path / "home").rglob("*")]:
        os.utime(each, (1_790_000_000, 1_790_000_000))
    return tmp_path / "home"


@pytest.fixture
def run(tmp_path, home):
    """Run the command; *sealed* lets it write nothing in turnlog's own home."""
    (tmp_path / "own").mkdir()
    (tmp_path / "temporary").mkdir()

    def run(*arguments, sealed=True, own=tmp_path / "own"):
        command = [sys.executable, "-c", "from turnlog.cli import main; main()", *arguments]
        if sealed:
            command = ["unshare", "--mount", "sh", "-c", _READ_ONLY, own, *command]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path / "nobody"),
            "TMPDIR": str(tmp_path / "temporary"),
            "CLAUDE_CONFIG_DIR": str(home),
            "TURNLOG_HOME": str(own),
            "PYTHONUTF8": "1",
            "TZ": "UTC",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False
        )
        assert not list((tmp_path / "temporary").iterdir()), "something was left behind"
        return done.returncode, done.stdout, done.stderr

    return run


read_only = pytest.mark.skipif(not can_mount_read_only(), reason="nothing can be made read only")


def told(out):
    """Give a document without what depends on when it was asked for."""
    found = json.loads(out)
    for each in (found, *found.get("hits", ())):
        for name in ("at", "elapsed_ms", "score"):
            each.pop(name, None)
    return found


@pytest.mark.parametrize("name", sampled(ASKING, 3))
def test_who_needs_an_index_gets_one_for_this_run(run, tmp_path, name):
    (tmp_path / "file").write_text("")
    wanted = run(*ASKING[name], sealed=False)
    code, out, err = run(*ASKING[name], sealed=False, own=tmp_path / "file" / "own")
    assert (code, told(out)) == (wanted[0], told(wanted[1]))
    assert err.startswith("notice: the index cannot be written: not a directory; one was made")
    assert len(err.splitlines()) == 1


@read_only
@pytest.mark.parametrize("name", sampled(ASKING, 3))
def test_an_index_that_is_there_is_read_without_a_word_if_it_is_fresh(run, name):
    assert run("refresh", sealed=False)[0] == 0
    wanted = run(*ASKING[name], sealed=False)
    code, out, err = run(*ASKING[name])
    assert (code, told(out), err) == (wanted[0], told(wanted[1]), wanted[2])


@read_only
@pytest.mark.parametrize("name", sampled(ASKING, 3))
def test_an_index_that_is_behind_is_read_as_it_is_with_a_notice(run, home, name):
    assert run("refresh", sealed=False)[0] == 0
    wanted = run(*ASKING[name], sealed=False)
    log = home / "projects" / LATEST
    log.write_bytes(log.read_bytes() + log.read_bytes().splitlines(keepends=True)[0])
    code, out, err = run(*ASKING[name])
    assert (code, told(out)) == (wanted[0], told(wanted[1]))
    assert err == (
        "notice: the index cannot be written: its directory is read only;"
        " it is read as it is, without what is new in 1 of 5 logs\n"
    )


@read_only
def test_costs_are_read_from_the_logs_rather_than_from_an_index_that_is_behind(run, home):
    assert run("refresh", sealed=False)[0] == 0
    (home / "projects" / LATEST).unlink()
    wanted = run("cost", "monthly", "--json", own=home.parent / "new", sealed=False)
    code, out, err = run("cost", "monthly", "--json")
    assert (code, told(out)) == (0, told(wanted[1]))
    assert "reading the logs instead" in err


def test_the_overview_needs_no_index(run, tmp_path):
    (tmp_path / "file").write_text("")
    _, wanted, _ = run("--json", sealed=False)
    code, out, err = run("--json", sealed=False, own=tmp_path / "file" / "own")
    assert code == 0
    assert err.endswith("not a directory; reading the logs instead\n")
    jsonschema.validate(json.loads(out), msgspec.json.schema(BareOverview))
    bare, indexed = json.loads(out), json.loads(wanted)
    assert (bare["periods"], bare["days"]) == (indexed["periods"], indexed["days"])
    assert bare["total"] == indexed["total"]
    for one, other in zip(bare["sessions"], indexed["sessions"], strict=True):
        assert one.items() <= other.items()
    unknown = {"damaged": None, "crashed": None}
    assert bare["attention"] == indexed["attention"] | unknown
    code, out, _ = run(sealed=False, own=tmp_path / "file" / "own")
    assert code == 0
    assert "0b29ae83" in out


@read_only
def test_the_overview_reads_an_index_that_is_there(run, home):
    assert run("refresh", sealed=False)[0] == 0
    log = home / "projects" / LATEST
    log.write_bytes(log.read_bytes() + log.read_bytes().splitlines(keepends=True)[0])
    code, out, err = run("--json")
    assert (code, json.loads(out)["attention"]["damaged"]) == (0, 1)
    assert "read as it is" in err


@read_only
def test_watch_shows_what_happens_also_where_an_index_stays_as_it_is(run, home):
    assert run("refresh", sealed=False)[0] == 0
    code, out, err = run("watch", "--since", "2000d", "--limit", "1")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "one was made for this run alone" in err


@read_only
def test_refresh_says_that_it_cannot(run):
    for words in ((), ("--rebuild",)):
        code, out, err = run("refresh", *words)
        assert (code, out) == (3, "")
        assert "error: the index cannot be written: " in err
        assert "hint: set TURNLOG_HOME to a directory that can be written" in err


@read_only
def test_refresh_need_not_write_what_has_not_changed(run, home):
    (told,) = run("refresh", sealed=False)[1].splitlines()
    logs = told.partition(";")[0].partition(" logs")[0]
    assert run("refresh") == (0, f"{logs} logs; nothing new\n", "")
    code, out, err = run("refresh", "--json")
    assert (code, json.loads(out)["logs"], err) == (0, int(logs), "")
    assert run("refresh", "--rebuild")[0] == 3
    with (home / "projects" / LATEST).open("ab") as log:
        log.write(b"{}\n")
    code, out, err = run("refresh")
    assert (code, out) == (3, "")
    assert "error: the index cannot be written: " in err


@read_only
def test_doctor_does_not_name_a_command_that_cannot_help(run, tmp_path):
    (found,) = [
        each for each in json.loads(run("doctor", "--json")[1])["findings"]
        if each["kind"] == "index"
    ]  # fmt: skip
    assert found["command"] == f"ls -ld {tmp_path / 'own'}"
