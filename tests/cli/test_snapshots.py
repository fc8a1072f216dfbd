"""What every command shows, word for word: at 80 and 200 columns, in a pipe, without sessions, by
mistake.

The screens are in snapshots/, one file a command, for people to read. After a change on purpose:
TURNLOG_UPDATE_SNAPSHOTS=1 pytest tests/cli/test_snapshots.py, and read the difference.
"""

import shlex
from pathlib import Path

import click
import pytest

from cli.screens import FROST, Home
from snapshots import check
from turnlog.cli.app import COMMANDS, app

SNAPSHOTS = Path(__file__).parent / "snapshots"
EXEMPT = {
    "mcp": "a server, whose answers have tests of their own",
    "top": "a screen that lives, which is driven by its own tests",
    "web": "a server of pages, which are looked at by tests of their own",
}
ALONE = "turnlog"
"""The command line without a command."""

COLUMNS = (
    "session, project, title, started_at, last_active_at, records, prompts, subagents, tokens_in,"
    " tokens_out, cwd, git_branch, version, layout"
)
# What is shown of each command. Those that change something begin with a home of their own.
SHOWN = {
    ALONE: ["", "--version"],
    "sessions": ["", "--wide", "--since 30d --sort tokens", "--limit 2", "--is archived"],
    "projects": ["", "--since 30d"],
    "search": ["frost", "--exact 'sunrise('", "--results ENOSPC", "tool:Bash --limit 1"],
    "query": [
        "entries --limit 4", "messages role=user", "tools", "tools --by tool_name",
        "sequences --min 1 --limit 3", "files", "series tokens", "messages --session dead",
        "--help",
    ],
    "errors": ["", "0", "--tool WebSearch"],
    "sql": [
        "--schema v_calls",
        "'SELECT tool, count(*) AS calls FROM v_calls GROUP BY 1 ORDER BY 1'",
        f"'SELECT {COLUMNS} FROM v_sessions' --limit 2",
        "'SELECT 1 WHERE 0'",
        "'DELETE FROM v_calls'",
    ],
    "show": [
        "f38b", "f38b --subagents --thinking", "2d3f --thread all", "0b29",
        "2d3f --thread current", "f38b --last 8", "f38b --turns 2 --tools full",
        "f38b --at 1e47caa6", "f38b --at ddd284e8 -C 1", "--help",
    ],
    "info": ["f38b", "0b29"],
    "export": ["1235", "f38b -o frost.html", "--since 30d -o pages", "1235 --format csv"],
    "resume": ["f38b", "frost alert", "the", "no-such-session", ""],
    "rename": ["f38b 'Dawn, not noon'"],
    "tag": ["f38b urgent", "2d3f urgent", "2d3f --off"],
    "pin": ["f38b", "f38b --off"],
    "delete": ["1235", "1235 f38b --yes"],
    "fork": ["1235 --to ."],
    "convert": ["1235 --layout flat --to flat"],
    "files": ["f38b", "f38b schedule.py", "f38b --diff", "1235"],
    "todos": ["", "2d3f", "--all"],
    "plans": ["", "calm", "calm --at v1"],
    "prompts": ["", "--full", "nobody-said-this"],
    "cost": [
        "", "model", "session", "project", "blocks", "budgets", "--explain 2026-10-19",
        "--since 2026-10-19 --until 2026-10-25 --compare", "--by day,model --markdown",
        "--limit 2", "session --limit 1",
    ],
    "insights": ["--since 30d", "--since 30d --explain tools:Bash", "--since 1d"],
    "statusline": ["--help"],
    "hooks": ["", "install", "remove"],
    "prices": ["claude-sonnet-4-5", "no-such-model"],
    "secrets": ["scan"],
    "refresh": ["", "--rebuild"],
    "watch": ["--since 2026-10-30 --limit 3"],
    "doctor": ["", "--all"],
    "keep": ["", "status"],
    "archive": ["1235", "1235 --remove", "1235 --remove --yes"],
    "unarchive": ["1235"],
    "restore": ["", "1235", "--session 1235"],
    "verify": [""],
    "prune": ["", "--days 30 --home .claude", "--days 30 --home .claude --yes"],
    "trash": ["", "empty", "restore 1235"],
    "recover": ["0b29", "0b29 --yes", "0b29 --undo"],
    "check": ["", "f38b", "--all"],
    "repair": ["0b29", "0b29 --yes", "f38b"],
    "compact": ["f38b", "f38b --yes"],
    "completion": [],
}  # fmt: skip
# Of these it is shown as well what a pipe gets of the first of them.
PIPED = {
    ALONE, "sessions", "projects", "search", "query", "errors", "show", "files", "todos", "plans",
    "prompts", "cost", "insights", "secrets", "watch", "doctor", "restore", "trash", "check",
}  # fmt: skip
# What must have happened before it can be shown.
BEFORE = {
    ALONE: ["refresh"],  # The first run says more.
    "unarchive": ["archive 1235"],
    "restore": [
        "keep",
        "rm 1235",
        "archive 2d3f",
        "delete f38b --yes",
    ],  # As an agent's own cleanup does.
    "verify": ["keep", "archive 2d3f"],
    "trash": ["delete 1235 --yes"],
}
CHANGING = {
    ALONE, "rename", "tag", "pin", "delete", "fork", "convert", "export", "refresh", "keep",
    "archive", "unarchive", "restore", "verify", "prune", "trash", "recover", "repair", "compact",
}  # fmt: skip
# Without a session there is nothing to name: what is asked of an empty home instead.
NAMED = {
    "search": "frost",
    "rename": "latest title",
    "tag": "latest tag",
    "sql": "'SELECT 1'",
    "convert": "latest --layout flat --to flat",
    "query": "messages",
    "prices": "claude-opus-4-5",
    "completion": "tcsh",
    "export": "--since 7d",
    "watch": "--since soon",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home that nothing changes, read by many."""
    return Home(tmp_path_factory.mktemp("read") / "ada")


def screens(name, home, tmp_path):
    """Give every screen of a command, as one text."""
    parts = []
    for number, words in enumerate(SHOWN[name]):
        for columns in (80, 200, None) if name in PIPED and not number else (80, 200):
            here = home
            if name in CHANGING:
                here = Home(tmp_path / f"{number}-{columns}" / "ada")
                for before in BEFORE.get(name, ()):
                    here.do(*shlex.split(before))
            parts.append(screen(here, name, words, columns))
    empty = Home(tmp_path / "nobody", is_empty=True)
    parts.append(screen(empty, name, named(name), 80, "without a session"))
    parts += [screen(home, name, words, 80, "a mistake") for words in mistakes(name)]
    return "\n".join(parts)


def named(name):
    """Give the words with which a command is asked where there is nothing."""
    if name in NAMED:
        return NAMED[name]
    command = app.get_command(click.Context(app), name) if name != ALONE else app
    takes = any(isinstance(each, click.Argument) and each.required for each in command.params)
    return "latest" if takes else ""


def mistakes(name):
    """Give words that are wrong in every way that a command can be told something wrong."""
    if name == ALONE:
        yield from ("--xyzzy", "sesions")
        return
    command = app.get_command(click.Context(app), name)
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    given = {long for option in command.params for long in option.opts}
    rest = named(name).replace("latest", "").strip()
    if any("SESSION" in (each.metavar or "") for each in arguments):
        more = rest if name in {"rename", "tag", "convert"} else ""
        first = "restore " if name == "trash" else ""
        yield f"{first}no-such-session {more}".strip()
    if "--since" in given:
        yield f"{rest} --since someday".strip() if name != "watch" else "--since someday"
    if "--limit" in given:
        yield "--limit few"
    if arguments and arguments[0].required:
        yield ""
    yield "--xyzzy"


def screen(home, name, words, columns, remark=""):
    """Give what is typed and what is then to be seen."""
    typed = " ".join(filter(None, ("turnlog", "" if name == ALONE else name, words)))
    code, out, err = home.screen(*shlex.split(typed)[1:], columns=columns)
    where = "a pipe" if columns is None else f"{columns} columns"
    about = ", ".join(filter(None, (where, remark)))
    told = f"--- on stderr\n{err}" if err else ""
    return f"=== $ {typed}   [{about}]\n{out}{told}--- exit code {code}\n"


@pytest.mark.parametrize("name", SHOWN)
def test_a_command_shows_what_it_showed(name, home, tmp_path):
    found = screens(name, home, tmp_path)
    check(SNAPSHOTS / f"{name}.txt", found)


def test_every_command_has_its_screens():
    assert set(COMMANDS) == set(SHOWN) - {ALONE} | set(EXEMPT)
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(SHOWN)


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in CHANGING])
def test_reading_changes_nothing_of_the_agents(name, home):
    before = {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in home.claude.rglob("*")
        if path.is_file()
    }
    for words in SHOWN[name]:
        home.screen(*shlex.split(f"{'' if name == ALONE else name} {words}"))
    assert before == {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in home.claude.rglob("*")
        if path.is_file()
    }
    assert FROST in {path.stem for path in home.claude.rglob("*.jsonl")}
