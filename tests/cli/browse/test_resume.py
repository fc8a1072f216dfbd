"""``turnlog resume``: the chooser, the command line it prints, and what stands in the way."""

import fcntl
import json
import os
import pty
import select
import shlex
import subprocess
import sys
import termios
from copy import copy
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
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
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


def test_on_a_terminal_it_becomes_the_program_in_the_sessions_directory(session, environ, place):
    session(directory=place / "two words")
    code, shown, _ = typed(["8888"], [], environ, place)
    assert (code, shown) == (0, f"ran in {place / 'two words'} with --resume {ID}")


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


def test_a_directory_that_is_gone(resume, session, place, environ):
    session(directory=place / "gone", made=False)
    out, err = resume("8888", code=1)
    assert out.startswith(f"cd {place / 'gone'} && ")
    assert "warning: the directory it worked in is gone" in err
    assert "hint: " in err
    assert obstacles(resume("8888", "--json", code=1)[0]) == ["directory_gone"]
    code, shown, _ = typed(["8888"], [], environ, place)
    assert code == 1
    assert "warning: the directory it worked in is gone" in shown
    assert shown.endswith(f"claude --resume {ID}\r\n")


def test_a_session_that_says_no_directory(resume, session):
    session(cwd=None)
    out, err = resume("8888", code=1)
    assert out == f"claude --resume {ID}\n"
    assert "says in which directory" in err
    assert "no_directory" in obstacles(resume("8888", "--json", code=1)[0])


def test_no_program_on_the_path(resume, session, place, environ):
    session()
    assert obstacles(resume("8888", "--json", code=1, PATH="/nowhere")[0]) == ["no_program"]
    code, shown, _ = typed(["8888"], [], environ | {"PATH": "/nowhere"}, place)
    assert code == 1
    assert "warning: claude is not on the PATH\r\nhint: install Claude Code" in shown
    assert shown.endswith(f"cd {place / 'kite'} && claude --resume {ID}\r\n")


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
    _, err = resume("8888", "--home", place / "other home", code=1)
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
    _, err = resume("8888", "--home", place / "store", code=1)
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
    _, err = resume("8888", code=1)
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


# -- words -------------------------------------------------------------------------------


@pytest.fixture
def three(session):
    """Three sessions; one has a title that is none of its prompts."""

    def said(text):
        return {"message": {"role": "user", "content": text}}

    session(**said("Sew a kite"))
    log = session(OTHER, **said("Sew a bag"))
    later = record("r", "q", sessionId=OTHER, timestamp="2026-03-04T12:00:00Z")
    titled = {"type": "custom-title", "customTitle": "Autumn", "sessionId": OTHER}
    log.write_bytes(log.read_bytes() + log_of(later | said("Paint the tail blue"), titled))
    session("77777777-cccc-4ccc-8ccc-777777777777", **said("Fold a boat"))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["9999"], OTHER),
        (["autumn"], OTHER),
        (["a", "bag"], OTHER),
        (["KITE"], ID),
        (["painted", "tail"], OTHER),  # A later prompt, by its words.
    ],
)
def test_words_find_a_session_by_id_title_or_prompt(resume, three, place, words, found):
    out, err = resume(*words)
    assert (out, err) == (f"cd {place / 'kite'} && claude --resume {found}\n", "")


def test_several_that_match_are_listed_where_a_shell_does_not_run_them(resume, three):
    out, err = resume("sew", code=2)
    assert out == ""
    first, *rows, hint = err.splitlines()
    assert first == "error: 2 sessions match 'sew'"
    assert [row.split()[0] for row in rows] == ["88888888", "99999999"]
    assert hint.startswith("hint: ")
    document = json.loads(resume("sew", "--json", code=2)[0])
    jsonschema.validate(document, SCHEMA)
    assert [row["id"] for row in document["sessions"]] == [ID, OTHER]
    assert document["resumption"] is None


def test_words_that_no_session_has(resume, three):
    for words in (["zeppelin"], ["kite", "bag"], ["no such:thing ("]):
        out, err = resume(*words, code=2)
        assert out == ""
        assert err.startswith("error: no session has ")
        assert "hint: " in err


def test_a_project_narrows_the_choice(resume, session, place):
    session(message={"role": "user", "content": "Sew a kite"})
    other = {"role": "user", "content": "Sew a bag"}
    session(OTHER, directory=place / "bags", message=other)
    assert OTHER in resume("sew", "--project", place / "bags")[0]


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
    # A copy: click remembers the options of the first context, in which -h is not help.
    done = CliRunner(env=environ).invoke(copy(command), ["8888"])
    assert f"claude --resume {ID}" in done.output


def typed(arguments, answers, environ, cwd, *, stdout_too=True, term="xterm"):
    """Run the command at a real terminal; give what it showed.

    *answers* are pairs: what to wait for on the screen, and the keys to press then.
    """
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    before = termios.tcgetattr(follower)
    process = subprocess.Popen(
        [*RUN, *arguments],
        stdin=follower,
        stdout=follower if stdout_too else subprocess.PIPE,
        stderr=follower,
        env={name: value for name, value in environ.items() if name != "COLUMNS"} | {"TERM": term},
        cwd=cwd,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    shown, seen = b"", 0
    for awaited, keys in answers:
        while awaited.encode() not in shown[seen:]:
            ready, _, _ = select.select([leader], [], [], 30)
            assert ready, shown
            shown += os.read(leader, 4096)
        seen = len(shown)
        os.write(leader, keys)
    printed = b""
    if process.stdout:
        with process.stdout:
            printed = process.stdout.read()
    code = process.wait(60)
    after = termios.tcgetattr(follower)
    os.close(follower)
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:  # The other end of a terminal that is closed.
        pass
    os.close(leader)
    assert after == before  # The terminal is as it was.
    return code, shown.decode(), printed.decode()


END = "Esc to cancel"


def test_a_list_is_filtered_while_one_types(three, environ, place):
    answers = [
        ("3 of 3; ", b"boa"),
        ("1 of 3; ", b"\x7f\x7f\x7f"),
        ("3 of 3; ", b"aut"),
        ("1 of 3; ", b"\r"),
    ]
    code, shown, _ = typed([], answers, environ, place)
    assert code == 0
    assert "  kite  Autumn" in shown
    assert shown.endswith(f"\r\x1b[Jran in {place / 'kite'} with --resume {OTHER}")


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (b"\r", ID),
        (b"\x1b[B\r", OTHER),
        (b"\x1bOB\x1bOA\x1bOB\r", OTHER),
        (b"\x0e\x0e\x0e\x10\r", ID),  # Not beyond the last.
        (b"zzz\r\x15autumn\r", OTHER),  # Enter without a match chooses nothing.
    ],
)
def test_keys_move_the_choice_among_those_that_match(three, environ, place, keys, chosen):
    _, shown, _ = typed(["sew"], [("2 of 2; ", keys)], environ, place)
    assert f"with --resume {chosen}" in shown


@pytest.mark.parametrize(("keys", "code"), [(b"\x1b", 0), (b"\x04", 0), (b"\x03", 130)])
def test_a_choice_can_be_cancelled(three, environ, place, keys, code):
    done, shown, _ = typed([], [(END, keys)], environ, place)
    assert done == code
    assert "--resume" not in shown
    assert code or shown.endswith("\r\x1b[J")  # Ctrl-C discards what waits to be shown.


def test_a_shell_gets_only_the_line(three, environ, place):
    code, shown, printed = typed([], [(END, b"kite sew\r")], environ, place, stdout_too=False)
    assert code == 0
    assert "77777777" in shown
    assert printed == f"cd {place / 'kite'} && claude --resume {ID}\n"


def test_a_title_cannot_steer_the_terminal(session, environ, place):
    session(message={"role": "user", "content": "\x1b[2Jgone\u202e"})
    _, shown, _ = typed([], [(END, b"\x1b")], environ, place)
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown


def test_a_terminal_without_a_cursor_gets_numbers(three, environ, place):
    ask = "Resume [1-3, Enter to cancel]: "
    _, shown, _ = typed(
        [], [(ask, b"7\n"), (ask, b"x\n"), (ask, b"2\n")], environ, place, term="dumb"
    )
    assert f"with --resume {ID}" in shown
    assert "\x1b" not in shown
    code, shown, _ = typed([], [(ask, b"\n")], environ, place, term="dumb")
    assert (code, "with --resume" in shown) == (0, False)
