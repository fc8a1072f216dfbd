"""The command line as a whole."""

import ast
import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from unittest.mock import Mock

import pytest

import turnlog as package
from turnlog.cli import app
from turnlog.cli.app import COMMANDS, OTHER_NAMES
from turnlog.storage.sources import open_error

SAMPLES = Path(__file__).parents[2] / "samples" / "claude"


def test_version_is_answered_before_anything_is_imported():
    code = (
        "import sys; sys.argv = ['turnlog', '--version']\n"
        "from turnlog.cli import main; main()\n"
        "heavy = ('click', 'rich', 'msgspec', 'logging', 'anyio', 'mcp', 'textual', 'asyncio')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"turnlog {package.__version__}", "[]"]


HEAVY = (
    "anyio", "asyncio", "genai_prices", "markdown_it", "mcp", "pyarrow", "pygments", "rich",
    "starlette", "textual", "watchfiles",
)  # fmt: skip


@pytest.fixture(scope="module")
def prices_compiled(tmp_path_factory):
    """An environment in which the command has compiled the prices once."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path_factory.mktemp("compiled")),
        "CLAUDE_CONFIG_DIR": str(SAMPLES),
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-c", "from turnlog.cli import main; main()", "cost"]
    subprocess.run(command, check=True, env=environ, capture_output=True)
    return environ


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("--help", set()),
        ("completion bash", set()),
        ("sessions --help", set()),
        ("top --help", set()),
        ("mcp --help", set()),
        ("sessions --json", set()),
        ("sessions --csv", set()),
        ("sessions", {"rich"}),
        ("search frost", set()),
        ("search frost --json", set()),
        ("query entries --json", set()),
        ("errors --csv", set()),
        ("show latest --raw", set()),
        ("show latest", {"rich"}),
        ("prompts", {"rich"}),
        ("check", {"rich"}),
        ("export latest --format jsonl", set()),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(words, needed, prices_compiled):
    code = (
        f"import os, sys; sys.argv = ['turnlog', *{words.split()!r}]\n"
        "leave, os._exit = os._exit, sys.exit\n"
        "from turnlog.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=prices_compiled,
    )
    assert set(ast.literal_eval(done.stderr.splitlines()[-1])) <= needed


def test_help_names_every_command(turnlog):
    code, out, _ = turnlog("--help")
    assert code == 0
    assert "check" in out
    assert "repair" in out
    assert out.startswith("Usage: turnlog")


def test_an_unknown_command_is_the_callers_mistake(turnlog):
    code, out, err = turnlog("chek")
    assert code == 2
    assert not out
    assert err.startswith("error: ")
    assert "hint: did you mean check? see turnlog --help" in err


def test_an_unknown_option_points_to_the_commands_help(turnlog):
    code, _, err = turnlog("check", "--frobnicate")
    assert code == 2
    assert "hint: see turnlog check --help" in err


def test_an_option_without_its_argument_points_to_the_commands_help(turnlog):
    code, _, err = turnlog("show", "--at")
    assert code == 2
    assert "hint: see turnlog show --help" in err


def test_a_broken_pipe_is_quiet(home):
    command = "from turnlog.cli import main; main()"
    done = subprocess.run(
        f'{sys.executable} -c "{command}" check --all --home {home} | head -c 1',
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert not done.stderr


def test_a_log_without_permission_is_a_failure_with_a_hint(turnlog, tmp_path):
    log = tmp_path / "s.jsonl"
    log.write_bytes(b'{"type":"mode"}\n')
    log.chmod(0)
    if os.geteuid() == 0:
        # Root may read everything: become nobody for this one.
        code = (
            "import os, sys; os.setgid(65534); os.setuid(65534)\n"
            f"sys.argv = ['turnlog', 'check', {str(log)!r}]\n"
            "from turnlog.cli import main; main()"
        )
        open_way(tmp_path)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if "ModuleNotFoundError" in done.stderr or "can't open" in done.stderr:
            return  # Nobody may not read this interpreter's packages either.
        exit_code, err = done.returncode, done.stderr
    else:
        exit_code, _, err = turnlog("check", log)
    assert exit_code == 3
    assert "no permission" in err
    assert "hint: " in err


def _is_temporary(directory):
    within = directory != Path(gettempdir()) and directory.is_relative_to(gettempdir())
    return within and directory.stat().st_uid == os.geteuid()


def open_way(path):
    """Let others pass through the temporary directories that pytest made private."""
    for directory in (path, *path.parents):
        if _is_temporary(directory):
            directory.chmod(0o755)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("ls",), "did you mean sessions?"),
        (("usage",), "did you mean cost?"),
        (("daily",), "did you mean cost daily?"),
        (("weekly", "--json"), "did you mean cost weekly?"),
        (("monthly",), "did you mean cost monthly?"),
        (("blocks",), "did you mean cost blocks?"),
        (("undo",), "did you mean restore?"),
        (("cost", "sessions"), "did you mean session?"),
        (("cost", "weeks"), "did you mean week or weekly?"),
        (("trash", "resore"), "did you mean restore?"),
        (("sessions", "--sort", "actve"), "did you mean active?"),
        (("show",), "the start of a session id, or latest"),
        (("delete",), "the start of a session id, or latest"),
    ],
    ids=" ".join,
)
def test_what_was_meant_is_guessed(turnlog, typed, hint):
    code, out, err = turnlog(*typed)
    assert (code, out) == (2, "")
    assert f"hint: {hint}" in err or f"hint: give {hint}" in err


def test_no_name_of_another_program_is_a_command_of_ours():
    for ours, others in OTHER_NAMES.items():
        assert ours.split()[0] in COMMANDS
        assert not set(others) & set(COMMANDS)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EACCES, "error: /srv/own/x: permission denied\nhint: ask its owner for access"),
        (errno.ENOSPC, "error: /srv/own/x: no space left on device\nhint: free some space"),
        (errno.EIO, "error: /srv/own/x: input/output error\n"),
    ],
)
def test_a_failure_of_the_system_is_told_in_words(monkeypatch, capsys, number, told):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number), "/srv/own/x")

    monkeypatch.setattr(app.app, "main", fail)
    assert app.run(["sessions"]) == 3
    assert capsys.readouterr().err.startswith(told)


@pytest.mark.parametrize(
    "spoken",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "POSIX"],
)
def test_an_encoding_without_our_signs_shows_others(turnlog_started, spoken):
    for arguments in (
        ("sessions",),
        ("check",),
        ("show", "f38b"),
        ("cost",),
        ("sessions", "--csv"),
    ):
        code, out, err = turnlog_started(*arguments, "--home", SAMPLES, **spoken, PYTHONUTF8="0")
        assert (code in {0, 1}, err) == (True, ""), arguments
        assert out.isascii()
        assert "x 1 log with" in out or arguments[0] != "check"


@pytest.mark.parametrize("command", ["sessions", "cost model", "projects", "query messages"])
def test_home_and_json_may_stand_before_the_command(turnlog, home, command):
    name, *words = command.split()
    behind = turnlog(name, *words, "--home", home, "--json")
    assert behind[0] in {0, 1}
    assert turnlog("--home", home, "--json", name, *words) == behind
    assert turnlog("--json", name, *words, "--home", home) == behind
    assert turnlog(name, *words, "--no-pager", "--home", home, "--json") == behind


def test_homes_before_and_behind_the_command_are_asked_together(turnlog, home, tmp_path):
    other = tmp_path / "other"
    (other / "projects").mkdir(parents=True)
    assert turnlog("--home", other, "sessions", "--home", home)[0] == 0
    code, _, err = turnlog("--home", tmp_path / "nowhere", "sessions", "--home", home)
    assert (code, "nowhere" in err) == (2, True)


def test_an_option_that_the_command_lacks_is_told(turnlog):
    code, out, err = turnlog("--json", "completion", "bash")
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "error: completion has no option --json"


def test_what_stands_behind_two_dashes_is_no_option(turnlog, home):
    code, _, err = turnlog("search", "--home", home, "--", "--no-pager")
    assert (code, err) == (1, "")


@pytest.mark.parametrize("kind", ["LogError", "OSError"])
def test_who_cannot_write_is_told_what_helps_for_that_file(monkeypatch, capsys, tmp_path, kind):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    told = {"own": "set TURNLOG_HOME to another directory", "subagent": "change a copy of its home"}
    for place, hint in told.items():
        path = str(tmp_path / place / "journal.jsonl")
        refused = OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        error = refused if kind == "OSError" else open_error(refused, path)
        monkeypatch.setattr(app.app, "main", Mock(side_effect=error))
        assert app.run(["sessions"]) == 3
        assert hint in capsys.readouterr().err


NOWHERE = [
    *[(), ("sessions",), ("cost",), ("search", "x"), ("doctor",), ("keep",), ("keep", "status")],
    *[("resume",), ("insights",), ("show", "latest"), ("export", "--since", "7d")],
]


@pytest.mark.parametrize("words", NOWHERE, ids=" ".join)
def test_who_has_no_sessions_is_told_where_they_were_looked_for(turnlog, tmp_path, words):
    setting = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "COLUMNS": "300"}
    _, out, err = turnlog(*words, **setting, CLAUDE_CONFIG_DIR="", TURNLOG_HOME=str(tmp_path / "t"))
    told = (out + err).replace(str(tmp_path), "~")
    places = "~/.claude (or|and no) ~/.config/claude (or|and no) ~/.codex (or|and no) ~/.copilot"
    assert re.search(f"{places}; name the directory that", told)


@pytest.mark.parametrize("words", [(), ("sessions",), ("cost",), ("search", "x")], ids=" ".join)
def test_a_configured_home_that_is_not_there_is_told(turnlog, tmp_path, words):
    setting = {"CLAUDE_CONFIG_DIR": "/nowhere/at-all", "COLUMNS": "300"}
    code, out, err = turnlog(*words, **setting)
    assert code == 1
    assert "CLAUDE_CONFIG_DIR names /nowhere/at-all, which does not exist" in out + err
    code, out, err = turnlog(*words, **setting | {"CLAUDE_CONFIG_DIR": str(tmp_path)})
    assert f"there are no sessions in {tmp_path} (from CLAUDE_CONFIG_DIR)" in out + err
