"""``turnlog resume``: the chooser, the command line it prints, and what stands in the way."""

import json
import os
import pty
import select
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

import forked
from sessions.trees import log_of, record
from turnlog.api.sessions.resume import ResumeDocument
from turnlog.cli.browse.resume import command
from turnlog.formats import project_key

ID = "88888888-dddd-4ddd-8ddd-888888888888"
OTHER = "99999999-eeee-4eee-8eee-999999999999"
SCHEMA = msgspec.json.schema(ResumeDocument)
RUN = [sys.executable, "-c", "from turnlog.cli import main; main()", "resume"]


@pytest.fixture
def place(tmp_path):
    """A user's directory with Claude Code's home in it, and a stand-in for the program."""
    (tmp_path / "user" / ".claude" / "projects").mkdir(parents=True)
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "ran in %s with %s" "$(pwd)" "$*"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def session(place):
    """Write a session that worked in *directory*, where Claude Code would have."""

    def make(session_id=ID, directory=None, home=None, key=None, *more, **fields):
        directory = str(directory or place / "kite")
        home = Path(home or place / "user" / ".claude")
        if fields.pop("made", True) and "\0" not in directory:
            os.makedirs(directory, exist_ok=True)
        path = home / "projects" / (key or project_key(directory)) / f"{session_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        common = {"cwd": directory, "timestamp": "2026-03-04T12:00:00Z", "sessionId": session_id}
        path.write_bytes(log_of(*(each | common | fields for each in (record("q"), *more))))
        return path

    return make


@pytest.fixture
def environ(place):
    return {
        "PATH": f"{place / 'bin'}:/usr/bin:/bin",
        "HOME": str(place / "user"),
        "TURNLOG_HOME": str(place / "own"),
        "COLUMNS": "80",
        "PYTHONUTF8": "1",
    }


@pytest.fixture
def resume(place, environ):
    """Run the command in a process of its own, with nobody at the terminal."""

    def run(*arguments, code=0, **more):
        done = forked.run(["resume", *map(str, arguments)], env=environ | more, cwd=place)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode(), done.stderr.decode()

    return run


def test_the_line_goes_on_where_the_session_was(resume, session, place):
    session()
    out, err = resume("8888")
    assert out == f"cd {place / 'kite'} && claude --resume {ID}\n"
    assert not err


def test_an_agents_log_is_no_session_to_go_on_with(resume, session):
    session(isSidechain=True)
    _, err = resume("8888", code=1)
    assert "88888888 is a subagent's log" in err
    out, _ = resume("8888", "--json", code=1)
    assert [each["kind"] for each in json.loads(out)["resumption"]["obstacles"]] == ["subagents"]
    assert "is a subagent's log" in resume("8888", "--run", code=2)[1]


@pytest.mark.parametrize(
    "name",
    ["two words", "quote'd", "$(touch evil)", "a;b", "-dash", 'say "hi"', "back\\slash", "字"],
)
def test_a_shell_that_obeys_the_line_comes_to_the_right_place(
    resume, session, place, environ, name
):
    session(directory=place / name)
    out, _ = resume("8888")
    done = subprocess.run(["sh", "-c", out], capture_output=True, env=environ, cwd=place)
    assert done.stdout.decode() == f"ran in {place / name} with --resume {ID}"
    assert not list(place.rglob("evil"))


@pytest.mark.parametrize("name", ["new\nline", "\x1b[2J", "\u202e", "it's\ta \\ tab"])
def test_a_directory_cannot_steer_the_terminal_that_the_line_is_shown_on(
    resume, session, place, environ, name
):
    session(directory=place / name)
    out, err = resume("8888")
    assert out.removesuffix("\n").isprintable()
    assert not err
    done = subprocess.run(["bash", "-c", out], capture_output=True, env=environ, cwd=place)
    assert done.stdout.decode() == f"ran in {place / name} with --resume {ID}"


def test_run_becomes_the_program_in_the_sessions_directory(resume, session, place):
    session(directory=place / "two words")
    out, _ = resume("8888", "--run")
    assert out == f"ran in {place / 'two words'} with --resume {ID}"


def test_a_session_that_began_elsewhere_goes_on_where_it_is_filed(resume, session, place):
    (place / "began").mkdir()
    # Its first record says another directory than the one that Claude Code filed it under.
    path = session(directory=place / "went", key=project_key(place / "began"))
    path.write_bytes(
        path.read_bytes()
        + log_of(record("b", "q", cwd=str(place / "began"), sessionId=ID, timestamp="2026-03-04"))
    )
    out, err = resume("8888")
    assert out.startswith(f"cd {place / 'began'} ")
    assert not err


# -- what stands in the way -----------------------------------------------------------------


def obstacles(out):
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    return [obstacle["kind"] for obstacle in document["resumption"]["obstacles"]]


def test_nothing_in_the_way_is_said_as_well(resume, session):
    session()
    out, _ = resume("8888", "--json")
    assert obstacles(out) == []


def test_a_directory_that_is_gone(resume, session, place):
    session(directory=place / "gone", made=False)
    out, err = resume("8888", code=1)
    assert out.startswith(f"cd {place / 'gone'} && ")
    assert "warning: the directory it worked in is gone" in err
    assert "hint: " in err
    assert obstacles(resume("8888", "--json", code=1)[0]) == ["directory_gone"]
    out, err = resume("8888", "--run", code=2)
    assert not out
    assert err.startswith("error: the directory it worked in is gone")


def test_a_session_that_says_no_directory(resume, session):
    session(cwd=None)
    out, err = resume("8888", code=1)
    assert out == f"claude --resume {ID}\n"
    assert "says in which directory" in err
    assert "no_directory" in obstacles(resume("8888", "--json", code=1)[0])
    resume("8888", "--run", code=2)


def test_no_program_on_the_path(resume, session):
    session()
    assert obstacles(resume("8888", "--json", code=1, PATH="/nowhere")[0]) == ["no_program"]
    _, err = resume("8888", "--run", code=2, PATH="/nowhere")
    assert "claude is not on the PATH" in err


def obey(err, environ, place):
    """Do what a hint says; give the document that it prints."""
    said = err.partition("hint: a copy that it finds: turnlog ")[2].partition("\n")[0]
    program = [sys.executable, "-c", "from turnlog.cli import main; main()"]
    done = subprocess.run(
        [*program, *shlex.split(said), "--json"], capture_output=True, env=environ, cwd=place
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_log_in_another_home_comes_with_the_way_to_copy_it(resume, session, place, environ):
    session(home=place / "other home")
    out, _ = resume("8888", "--home", place / "other home", "--json", code=1)
    assert obstacles(out) == ["elsewhere"]
    _, err = resume("8888", "--home", place / "other home", "--run", code=2)
    copy = obey(err, environ, place)
    out, err = resume(copy["id"])  # Nothing is in the way of the copy.
    assert out == f"cd {place / 'kite'} && claude --resume {copy['id']}\n"


def test_a_log_in_another_layout_comes_with_the_way_to_convert_it(resume, place, environ):
    (place / "kite").mkdir()
    (place / "store").mkdir()
    flat = [
        {"type": "system_init", "timestamp": 1703001600000, "cwd": str(place / "kite")},
        {"type": "user", "uuid": "u1", "content": [{"type": "text", "text": "Fly"}]},
    ]
    (place / "store" / f"{ID}.jsonl").write_bytes(log_of(*flat))
    _, err = resume("8888", "--home", place / "store", "--run", code=2)
    copy = obey(err, environ, place)
    out, err = resume(copy["id"])
    assert out == f"cd {place / 'kite'} && claude --resume {copy['id']}\n"
    assert not err


def test_the_home_is_claude_codes_own(resume, session, place):
    session(home=place / "configured")
    out, err = resume("8888", CLAUDE_CONFIG_DIR=str(place / "configured"))
    assert "claude --resume" in out
    assert not err


def test_a_home_behind_a_link_is_the_same_home(resume, session, place):
    session()
    (place / "link").symlink_to(place / "user" / ".claude")
    resume("8888", "--home", place / "link")


def test_a_log_that_is_filed_under_another_directory(resume, session):
    session(key="-somewhere-else")
    assert obstacles(resume("8888", "--json", code=1)[0]) == ["elsewhere"]


def test_an_archive_is_not_what_claude_code_reads_so_it_is_unpacked(resume, session):
    import gzip

    path = session()
    before = path.read_bytes()
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(before))
    path.unlink()
    out, err = resume("8888", "--json")
    assert obstacles(out) == []
    assert f"restored {path}" in err
    assert path.read_bytes() == before
    assert resume("8888")[1] == ""


def test_a_session_that_runs_is_not_run_twice(resume, session, place):
    session()
    running = place / "user" / ".claude" / "sessions" / f"{os.getpid()}.json"
    running.parent.mkdir()
    running.write_text(json.dumps({"pid": os.getpid(), "sessionId": ID, "status": "busy"}))
    assert obstacles(resume("8888", "--json", code=1)[0]) == ["running"]
    _, err = resume("8888", "--run", code=2)
    assert f"process {os.getpid()} has it open" in err


@pytest.mark.parametrize("directory", ["/a\0b", "/lone \ud88d", "C:\\Users\\ada", "relative"])
def test_a_directory_that_cannot_be_is_only_in_the_way(resume, session, directory):
    session(directory=directory, key="-odd", made=False)
    assert "directory_gone" in obstacles(resume("8888", "--json", code=1)[0])
    out, _ = resume("8888", code=1)
    assert out.removesuffix("\n").isprintable()


def test_an_unknown_session_is_a_mistake(resume, session):
    session()
    _, err = resume("ffff", code=2)
    assert "hint: " in err


def test_run_and_json_are_not_meant_together(resume, session):
    session()
    resume("8888", "--run", "--json", code=2)


# -- the chooser ----------------------------------------------------------------------------


def test_without_a_session_the_most_recent_are_listed(resume, session):
    session(gitBranch="main")
    session(OTHER, message={"role": "user", "content": "Sew a kite"})
    out, _ = resume()
    assert "Sew a kite" in out
    assert "88888888 · " in out
    assert "1 step · kite · main" in out
    assert "claude --resume" not in out
    document = json.loads(resume("--json")[0])
    jsonschema.validate(document, SCHEMA)
    assert {row["id"] for row in document["sessions"]} == {ID, OTHER}


def test_nothing_to_choose_from_is_an_answer_with_a_hint(resume):
    out, _ = resume(code=1)
    assert "hint: " in out


def test_the_command_runs_under_clicks_own_runner(session, environ):
    session()
    done = CliRunner(env=environ).invoke(command, ["8888"])
    assert f"claude --resume {ID}" in done.output


def typed(arguments, answers, environ, cwd, *, stdout_too=True):
    """Run the command at a real terminal, type *answers*, give what it showed."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*RUN, *arguments],
        stdin=follower,
        stdout=follower if stdout_too else subprocess.PIPE,
        stderr=follower,
        env=environ | {"TERM": "dumb"},
        cwd=cwd,
    )
    os.close(follower)
    shown = b""
    for answer in answers:
        while b"Enter to cancel]" not in shown.rpartition(b"\n")[2]:
            ready, _, _ = select.select([leader], [], [], 30)
            assert ready, shown
            shown += os.read(leader, 4096)
        os.write(leader, answer + b"\n")
        shown += b"\n"
    printed = b""
    if process.stdout:
        with process.stdout:
            printed = process.stdout.read()
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # The other end of a terminal that is closed.
        pass
    os.close(leader)
    return process.wait(60), shown.decode(), printed.decode()


def test_at_a_terminal_a_number_chooses(session, environ, place):
    session()
    code, shown, _ = typed([], [b"7", b"x", b"1"], environ, place)
    assert code == 0
    assert shown.count("Session [1-1, Enter to cancel]:") == 3
    assert f"claude --resume {ID}" in shown


def test_at_a_terminal_no_answer_chooses_none(session, environ, place):
    session()
    code, shown, _ = typed([], [b""], environ, place)
    assert code == 0
    assert "claude --resume" not in shown


def test_a_shell_gets_only_the_line(session, environ, place):
    session()
    code, shown, printed = typed([], [b"1"], environ, place, stdout_too=False)
    assert code == 0
    assert "88888888" in shown
    assert printed == f"cd {place / 'kite'} && claude --resume {ID}\n"


def test_a_number_and_run_become_the_program(session, environ, place):
    session()
    _, shown, _ = typed(["--run"], [b"1"], environ, place)
    assert f"ran in {place / 'kite'} with --resume {ID}" in shown
