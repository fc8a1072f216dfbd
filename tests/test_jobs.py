"""Jobs that people come with: at most two commands each, and what they need is on the screen.

A job is typed in a shell in a home with the bundled samples, at a terminal of 80x24. The screen is
the last 24 lines that a command prints, or the first 23 if it uses a pager. Each command must be in
the README or in --help, and each command that a screen suggests must exist. To add a job:

    def test_a_job(person):
        screen = person.types("turnlog search frost")
        screen.shows("orchard", "Frost alert")
        person.types(screen.command("show")).shows("sunrise")
"""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
from datetime import datetime
from pathlib import Path

import anyio
import click
import pytest
from mcp.client.stdio import stdio_client

from cli.screens import FIXED_CLOCK, FROST, NOW, Home
from live.live_world import World
from mcp import Client, StdioServerParameters
from turnlog.cli.app import app
from turnlog.formats import project_key

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SNAPSHOTS = Path(__file__).parent / "cli" / "snapshots"
COLUMNS, LINES = 80, 24
MOST_COMMANDS = 2
BIN = str(Path(sys.executable).parent)
PATIENCE = 120  # Seconds without output.
PROGRAM = """#!{python}
import datetime, sys, time_machine
time_machine.travel(datetime.datetime.fromisoformat("{now}"), tick={ticks}).start()
sys.argv[0] = {path!r}
from turnlog.cli import main
main()
"""
ALL_HELP = """#!{python}
import sys
from turnlog.cli.app import run
for line in open(sys.argv[1]):
    run([*line.split(), "--help"])
    print("\\f", end="", flush=True)
"""
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\")
_SUGGESTED = re.compile(r"(?<![\w./-])turnlog(?: -{0,2}[\w@./~][\w@./~:=-]*)+")


class Screen:
    """What is on the screen after a command."""

    def __init__(self, command, text):
        self.command_line, self.text = command, text

    def shows(self, *texts):
        """Check that all *texts* are on the screen; line breaks count as spaces."""
        words = " ".join(self.text.split())
        missing = [each for each in texts if " ".join(each.split()) not in words]
        assert not missing, f"{missing} not on the screen of {self.command_line}:\n{self.text}"

    def command(self, name):
        """Return the first command on the screen with this name, to be typed next."""
        found = next((each for each in self.commands() if each.split()[1] == name), None)
        assert found, f"no turnlog {name} on the screen of {self.command_line}:\n{self.text}"
        return found

    def commands(self):
        """Return what could be a command on the screen; words of a sentence may follow it."""
        return _SUGGESTED.findall(self.text)


class Person:
    """Someone at a terminal, at *now*."""

    def __init__(self, directory):
        self.directory = directory
        self.home = Home(directory / "home")
        self.now = NOW
        self.typed = []
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.has("python", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')

    def has(self, name, script):
        """Install a program."""
        program = self.programs / name
        program.write_text(script)
        program.chmod(0o755)

    def environ(self):
        """Return the environment of what is typed."""
        environ = self.home.environ() | {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TURNLOG_PAGER": shlex.join(["head", "-n", str(LINES - 1)]),
            "PYTHONUTF8": "1",
        }
        del environ["LINES"]  # The terminal has a size.
        del environ["TURNLOG_HOME"]
        return environ

    def types(self, command, *, until=None, keys=""):
        """Run *command*; return the screen, without colours. It must not print an error.

        *keys* are pressed when *until* is on the screen.
        """
        self.typed.append(command)
        assert len(self.typed) <= MOST_COMMANDS, f"too many commands: {self.typed}"
        check_is_documented(command)
        text = self.did(command, until=until, keys=keys)
        screen = Screen(command, text if keys else "\n".join(text.splitlines()[-LINES:]))
        if not keys:
            # These directories are longer than those of people.
            usual = screen.text.replace(str(self.directory), "").replace(BIN, "/usr/bin")
            long = [line for line in usual.splitlines() if len(line) > COLUMNS]
            assert not long, f"{command} prints lines that are too long:\n{long}"
        for each in screen.commands():
            check_exists(each)
        return screen

    def did(self, command, *, until=None, keys=""):
        """Run *command*, which may be before the job; return what it printed."""
        path = str(self.programs / "turnlog")
        self.has(
            "turnlog",
            PROGRAM.format(python=sys.executable, now=self.now, ticks=bool(keys), path=path),
        )
        text, exit_code = _at_terminal(command, self.environ(), self.home.path, until, keys)
        assert exit_code == 0, f"exit code {exit_code} of {command}:\n{text}"
        assert "error:" not in text, f"{command}:\n{text}"
        return text


def parsed(command):
    """Return the command that a command line runs, its path, and the words after it."""
    found, path, words = app, ["turnlog"], shlex.split(command)[1:]
    while words and isinstance(found, click.Group) and not words[0].startswith("-"):
        known = found.get_command(click.Context(found), words[0])
        assert known, f"unknown command: {command}"
        found, path, words = known, [*path, words[0]], words[1:]
    return found, path, words


def check_exists(command):
    """Check that a command on a screen exists, with its options."""
    found, _, words = parsed(command)
    options = {name for each in found.params for name in each.opts} | {"-h", "--help"}
    for word in words:
        name = word.partition("=")[0]
        assert not name.startswith("-") or name in options, f"unknown option: {command}"


def check_is_documented(command):
    """Check that the README or --help has a command: its name, its fixed words, its options."""
    if not command.startswith("turnlog"):
        return
    found, path, words = parsed(command)
    texts = help_of([], width=1000), help_of(path[1:], width=1000), README
    helps = " ".join(" ".join(texts).split())
    fixed = {
        choice
        for each in found.params
        if isinstance(each, click.Argument) and isinstance(each.type, click.Choice)
        for choice in each.type.choices
    }
    for word in words:
        if word not in fixed:
            break
        path = [*path, word]
    typed = " ".join(path)
    assert typed in helps, f"{typed} is neither in the README nor in its help"
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in helps, f"{word} of {typed} is not in its help"


def help_of(words, *, width):
    """Return the help of a command for a terminal of *width* columns."""
    settings = app.context_settings | {"max_content_width": width, "terminal_width": width}
    context = click.Context(app, info_name="turnlog", **settings)
    for word in words:
        command = context.command.get_command(context, word)
        context = click.Context(command, context, info_name=word)
    return context.get_help()


def _at_terminal(command, environ, directory, until=None, keys=""):
    """Run a shell command at a terminal; return what it printed, without colours, and its code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command,
        shell=True,
        env=environ,
        cwd=directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    data = b""
    while True:
        if not select.select([ours], [], [], PATIENCE)[0]:
            process.kill()
            raise AssertionError(f"{command} waits for something:\n{_plain(data)}")
        try:
            more = os.read(ours, 65536)
        except OSError:  # The terminal was closed at the other end.
            break
        if not more:
            break
        data += more
        if keys and until in _plain(data):
            os.write(ours, keys.encode())
            keys = ""
    os.close(ours)
    return _plain(data), process.wait(timeout=60)


def _plain(data):
    lines = _ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n").split("\n")
    # A progress bar overwrites its line.
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path)


def test_where_we_fixed_something_and_read_it(person):
    screen = person.types("turnlog search how did we fix the frost alert at noon")
    screen.shows("f38b2ffc", "orchard", "Frost alert sent at noon", "2026-10-19", "Find out why")
    read = person.types(screen.command("show"))
    read.shows("It has the same fault. Both now use one helper, local_sunrise(station)")


def test_yesterdays_work(person):
    person.now = datetime.fromisoformat("2026-10-31T09:00:00+00:00")
    screen = person.types("turnlog sessions --since yesterday")
    screen.shows("0b29ae83", "lighthouse", "The storm took the power")
    read = person.types("turnlog show 0b29ae83")
    read.shows("Log every lamp failure", "Bash make flash", "The lamp writes to its journal")


def test_resume_a_half_remembered_session(person):
    projects = person.home.claude / "projects"
    orchard = person.home.path / "orchard"
    orchard.mkdir()
    for log in projects.glob("-home-ada-orchard/**/*.jsonl"):
        log.write_text(log.read_text().replace("/home/ada/orchard", str(orchard)))
    (projects / "-home-ada-orchard").rename(projects / project_key(str(orchard)))
    person.has("claude", '#!/bin/sh\necho "$(basename "$PWD"): claude $*"\n')
    screen = person.types("turnlog resume frost")
    screen.shows(f"orchard: claude --resume {FROST}")


def test_this_month_by_project_and_model_and_why(person):
    person.now = datetime.fromisoformat("2026-10-31T09:00:00+00:00")
    screen = person.types("turnlog cost --by project model --since 'this month'")
    screen.shows("project model", "orchard opus-4-5 6", "lighthouse opus-4-5 4", "total", "$0.25")
    why = person.types(
        "turnlog cost --by project model --since 'this month' --explain orchard opus-4-5"
    )
    why.shows(
        "orchard, claude-opus-4-5", "tokens rate cost", "cache write, 1 h", "x $10.00/M", "$0.10"
    )


def test_who_waits_for_me(person):
    world = World(person.directory / "live")
    world.path = person.home.claude
    (world.path / "sessions").mkdir(exist_ok=True)
    try:
        world.run(FROST, "waiting", waitingFor="permission prompt", cwd="/home/ada/orchard")
        screen = person.types("turnlog top", until="waiting for you: permission", keys="q")
        screen.shows("1 waiting for you", "Frost alert sent at noon", "orchard")
    finally:
        world.close()


def test_keep_everything_and_prove_it(person):
    person.types("turnlog keep").shows("Kept", "of 5 sessions")
    person.types("turnlog verify").shows("all copies are intact")


def test_restore_after_rm(person):
    person.did("turnlog keep")
    (log,) = person.home.claude.glob(f"projects/*/{FROST}.jsonl")
    content = log.read_bytes()
    log.unlink()
    person.types("turnlog restore").shows("f38b2ffc", "Frost alert sent at noon")
    person.types("turnlog restore f38b2ffc").shows("restored")
    assert log.read_bytes() == content


def test_restore_after_delete(person):
    (log,) = person.home.claude.glob(f"projects/*/{FROST}.jsonl")
    content = log.read_bytes()
    screen = person.types("turnlog delete f38b2ffc --yes")
    screen.shows("moved to the trash", "Frost alert sent at noon")
    assert not log.exists()
    person.types(screen.command("restore")).shows("restored from the trash")
    assert log.read_bytes() == content


def test_share_with_a_colleague(person):
    screen = person.types("turnlog export f38b2ffc --anonymize --no-thinking -o share.html")
    screen.shows("wrote share.html", "0 secrets masked")
    page = (person.home.path / "share.html").read_text("utf-8")
    assert "Frost alert sent at noon" in page
    assert "/home/ada" not in page


def test_tidy_up(person):
    screen = person.types("turnlog prune --home ~/.claude --days 90")
    screen.shows("123544bf", "What lamp.c does", "Nothing was changed", "--yes")
    done = person.types("turnlog prune --home ~/.claude --days 90 --yes")
    done.shows("123544bf", "turnlog trash")
    left = {path.stem[:8] for path in person.home.claude.glob("projects/*/*.jsonl")}
    assert left.isdisjoint({"123544bf"})
    assert left >= {"0b29ae83", "2d3f0bf3", "f38b2ffc"}


def test_status_line(person):
    person.types("turnlog hooks install statusline --yes").shows("statusline", "settings.json")
    settings = json.loads((person.home.claude / "settings.json").read_text())
    (log,) = person.home.claude.glob(f"projects/*/{FROST}.jsonl")
    request = {
        "session_id": FROST,
        "transcript_path": str(log),
        "cwd": "/home/ada/orchard",
        "model": {"id": "claude-sonnet-4-5", "display_name": "Sonnet 4.5"},
    }
    (person.home.path / "request.json").write_text(json.dumps(request))
    update = (  # As in the background, after the first line.
        f"{FIXED_CLOCK}from turnlog.api.statusline import update_statusline\n"
        f"update_statusline([], '{FROST}')"
    )
    person.did(f"python -c {shlex.quote(update)}")
    line = person.types(f"{settings['statusLine']['command']} < request.json")
    line.shows("Sonnet 4.5", "$0.08", "today")


def test_mcp_server(person):
    notes = person.home.path / "claude.notes"
    person.has("claude", f'#!/bin/sh\nfor each; do echo "$each"; done >> {notes}\n')
    person.types("turnlog hooks install mcp --yes").shows("mcp")
    words = notes.read_text().splitlines()
    command, *arguments = words[words.index("--") + 1 :]

    async def ask():
        server = StdioServerParameters(
            command=command, args=[*arguments, "--project", "all"], env=person.environ()
        )
        async with Client(stdio_client(server)) as client:
            found = await client.call_tool("search_history", {"query": "frost alert"})
            return found.content[0].text

    assert "Frost alert sent at noon" in anyio.run(ask)


def test_write_and_read_a_log_from_python(person):
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (person.home.path / "apples.py").write_text(block)
    person.types("python apples.py").shows("How many apples?")
    person.types("turnlog sessions --home ~/agent").shows("How many apples?")


def commands(command=app, path=()):
    """Yield the words of every command."""
    yield " ".join(path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


@pytest.fixture(scope="module")
def helps(tmp_path_factory):
    """What every --help leaves on the screen, all printed by one process."""
    person = Person(tmp_path_factory.mktemp("helps"))
    names = list(commands())
    (person.home.path / "names").write_text("\n".join(names))
    person.has("helps", ALL_HELP.format(python=sys.executable))
    text, code = _at_terminal("helps names", person.environ(), person.home.path)
    assert code == 0, text
    return dict(zip(names, text.split("\f"), strict=False))


@pytest.mark.parametrize("name", list(commands()))
def test_help_keeps_its_beginning_on_the_screen(helps, name):
    lines = helps[name].splitlines()
    assert lines[0].startswith(f"Usage: turnlog {name}".rstrip())
    assert len(lines) < LINES


@pytest.mark.parametrize("name", list(commands()))
def test_help_is_as_wide_as_the_screen(name):
    text = help_of(name.split(), width=COLUMNS)
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []


def test_the_help_needs_no_pager(helps):
    assert helps[""].splitlines()[-1].strip().startswith("turnlog help all")


@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_hint_is_a_command_that_exists(path):
    for line in path.read_text("utf-8").splitlines():
        if line.lstrip(" ✓✗•!·").startswith(("hint:", "$ turnlog")):
            for each in _SUGGESTED.findall(line):
                check_exists(each)
