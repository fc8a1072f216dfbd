"""One grammar: an option of one name means one thing, whichever command it stands behind."""

import csv
import io
import json
from datetime import UTC, datetime

import click
import pytest

from turnlog.cli.app import COMMANDS, app, run
from turnlog.export.csv_cells import cell

# Names that every command may need for something of its own, and that mean nothing by themselves.
OWN = {
    "--all", "--at", "--by", "--context", "--last", "--explain", "--orphans", "--quiet", "--raw",
    "--sort",
}  # fmt: skip
# A shared option that must say something else in one place, and why.
ELSE = {
    ("prune", "--home"): "the agents' homes only if they are named: it deletes",
    ("trash", "--home"): "narrows the one trash, instead of choosing homes",
    ("prices", "--home"): "no home has prices; it is taken so that scripts may give it everywhere",
    ("watch", "--json"): "a document for each record",
    ("top", "--since"): "shows more, not less: what was active and is no longer",
    ("insights", "--output"): "a page; export writes directories too",
    ("mcp", "--project"): "a scope for subagents",
}
WITHOUT_HOME = {"completion", "query"}  # A script for a shell; a group whose commands have it.
WITHOUT_JSON = {
    "completion": "prints a script",
    "mcp": "a server, whose protocol is JSON",
    "export": "writes sessions; --format json is one of its formats",
    "query": "its commands have it",
    "statusline": "prints a line for a program",
    "web": "serves pages",
}
LIVE = {"watch", "top"}  # They end when somebody ends them.
LISTS = {
    "sessions", "projects", "search", "query entries", "query messages", "query tools",
    "query sequences", "query files", "query series", "errors", "sql", "todos", "plans", "prompts",
    "files", "cost", "insights", "secrets", "trash", "verify", "check", "doctor", "prices",
    "prune", "restore",
}  # fmt: skip


def commands():
    """Give every command by its name, those of groups too."""

    def walk(name, command):
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                yield from walk(f"{name} {each}", command.get_command(context, each))

    context = click.Context(app)
    for name in COMMANDS:
        yield from walk(name, app.get_command(context, name))


ALL = dict(commands())


def options(command):
    return [each for each in command.params if isinstance(each, click.Option)]


def meaning(option):
    """Give what a person is told of an option, but for what it is unless it is given."""
    about = (option.help or "").partition("  [default")[0]
    kind = option.type.to_info_dict()
    return (tuple(option.opts), option.metavar, str(kind), option.is_flag, option.multiple, about)


def test_an_option_of_one_name_means_one_thing():
    seen = {}
    for name, command in ALL.items():
        for option in options(command):
            long = max(option.opts, key=len)
            if long in OWN or (name.split()[0], long) in ELSE:
                continue
            first, expected = seen.setdefault(long, (name, meaning(option)))
            assert meaning(option) == expected, f"{long} of {name} and of {first}"
    assert {"--home", "--json", "--csv", "--project", "--since", "--until", "--limit"} <= set(seen)


def test_no_exception_outlives_its_reason():
    for name, long in ELSE:
        if name in ALL:
            found = [o for n, c in ALL.items() if n.split()[0] == name for o in options(c)]
            assert any(long in option.opts for option in found), (name, long)
    names = {long for command in ALL.values() for o in options(command) for long in o.opts}
    assert names >= OWN


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_what_all_have(name):
    command = ALL[name]
    given = {long for option in options(command) for long in option.opts}
    assert name in WITHOUT_HOME or "--home" in given
    assert name in WITHOUT_JSON or "--json" in given
    assert ("--since" in given) <= ("--until" in given) or name in LIVE, "from when, to when?"
    assert ("--offset" in given) <= ("--limit" in given)
    assert "Examples" in (command.epilog or ""), "help without an example"
    assert all(o.help for o in options(command) if not o.hidden), "an option that nobody explains"
    assert name not in LISTS or "--csv" in given
    assert name in LISTS or "--csv" not in given


@pytest.mark.parametrize("name", [n for n, c in ALL.items() if not isinstance(c, click.Group)])
def test_a_time_is_read_as_people_say_it_and_a_directory_too(name):
    command = ALL[name]
    named = {long: option for option in options(command) for long in option.opts}
    context = click.Context(command)
    if "--since" in named:
        for words in ("7d", "yesterday", "monday", "2026-11-01", "last week", "2026-11-01T18:00"):
            read = named["--since"].process_value(context, words)
            assert isinstance(read, datetime)
            assert read.tzinfo is not None
    if "--project" in named and (name, "--project") not in ELSE:
        import os

        assert named["--project"].process_value(context, ".") == os.getcwd()
        assert named["--project"].process_value(context, "~") == os.path.expanduser("~")


@pytest.mark.parametrize("name", ALL)
def test_dash_h_is_help(name, capsys):
    assert run([*name.split(), "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: turnlog {name} ")


def test_help_is_a_word_too(capsys):
    for words in ([], ["search"], ["query", "tools"]):
        assert run(["help", *words]) == 0
        told = capsys.readouterr().out
        assert run([*words, "--help"]) == 0
        assert capsys.readouterr().out == told
    assert run(["help", "no-such-command"]) == 2


@pytest.mark.parametrize("name", ALL)
def test_help_stands_alone(name, capsys):
    """An installed program has no docs/ beside it."""
    assert run([*name.split(), "--help"]) == 0
    assert "docs/" not in capsys.readouterr().out


# -- comma-separated values -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        (("sessions",), "sessions"),
        (("sessions", "--wide"), "sessions"),
        (("projects",), "projects"),
        (("search", "one", "OR", "two"), "hits"),
        (("query", "entries"), "rows"),
        (("query", "series"), "points"),
        (("errors",), "errors"),
        (("prompts",), "prompts"),
        (("plans",), "plans"),
        (("check",), "findings"),
        (("doctor",), "findings"),
        (("verify",), "findings"),
        (("secrets",), "secrets"),
        (("trash",), "entries"),
        (("restore",), "sessions"),
        (("cost", "blocks"), "rows"),
        (("files", "1111"), "files"),
    ],
)
def test_csv_has_the_rows_and_the_keys_of_json(turnlog, home, words, noun):
    code, out, _ = turnlog(*words, "--home", home, "--csv")
    as_json = turnlog(*words, "--home", home, "--json")
    assert code == as_json[0]
    head, *rows = csv.reader(io.StringIO(out))
    document = json.loads(as_json[1])
    assert len(rows) == len(document[noun])
    assert head
    assert not document[noun] or set(head) >= set(document[noun][0])


def test_an_answer_has_one_shape(turnlog, home):
    code, out, err = turnlog("sessions", "--home", home, "--json", "--csv")
    assert (code, out) == (2, "")
    assert "mutually exclusive" in err


def test_a_cut_list_is_told_of_beside_the_values(turnlog, home):
    _, out, err = turnlog("sessions", "--home", home, "--csv", "--limit", 1)
    assert len(out.splitlines()) == 2
    assert "--limit 0" in err


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "true"),
        (0, "0"),
        (-3, "-3"),
        ("-3.50", "-3.50"),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("  @SUM(A1)", "'  @SUM(A1)"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("+1 555", "'+1 555"),
        ("a\x1b[31mb", "a␛[31mb"),
        (datetime(2026, 11, 1, 10, tzinfo=UTC), "2026-11-01T10:00:00Z"),
        ([], ""),
        (["=1"], '["=1"]'),
        (["\ud800"], '["\\ud800"]'),
    ],
)
def test_a_cell_is_harmless(value, shown):
    assert cell(value) == shown


# -- sessions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("show",), ("info",), ("export",), ("files",), ("todos",), ("check",), ("repair",),
        ("recover",), ("compact",), ("archive",), ("fork", "--to", "elsewhere"),
        ("rename",), ("tag",), ("pin",), ("resume",), ("delete",),
        ("plans", "--session"), ("prompts", "--session"), ("cost", "--session"),
        ("query", "entries", "--session"), ("search", "--session"), ("keep", "--session"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("name", ["latest", "1111"])
def test_a_session_is_named_by_its_beginning_or_latest(turnlog, home, words, name):
    more = {"rename": ["A title"], "tag": ["a-tag"]}.get(words[0], [])
    _, _, err = turnlog(*words, name, *more, "--home", home)
    assert "error:" not in err
