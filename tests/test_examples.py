"""Every example in the documents and in the help is executed, and does what it is there to show.

Commands run in one world, which has what they name; most end well, and those that are to find
something wrong are listed. So an option that is gone, a name that was changed and an explanation
that slipped into the command are all found. What has a test of its own is listed, too.
"""

import json
import re
import tomllib
from contextlib import redirect_stdout
from io import StringIO

import click
import pytest
import time_machine

from cli.screens import NOW
from examples_found import (
    LANGUAGES,
    PAGES,
    ROOT,
    Example,
    blocks,
    example,
    in_help,
    in_pages,
    of_help,
    of_page,
    spans,
    typed,
)
from examples_run import ANSWERED, BEFORE, FINDS, GONE, TORN, WAYS, WELL, execute
from examples_world import World, given
from turnlog.cli.app import COMMANDS, app
from turnlog.config import load_config
from turnlog.costs.budgets import budgets_from
from turnlog.costs.ledger import week_starts_from
from turnlog.keep.retention.policy import policy_from
from turnlog.mcp.context import settings_from
from turnlog.pricing.overrides import overrides_from
from turnlog.records.codec import decode, encode
from turnlog.records.record import Record, Unknown
from turnlog.redact import rules_from

# Pages that a test of their own follows step by step: what in them, and which test.
OWN = {
    "README.md": ({"console"}, "tests/test_tour.py"),
    "quickstart.md": ({"console"}, "tests/test_tour.py"),
    "provider.md": ({"python", ""}, "tests/integrations/provider/test_page.py"),
    "openai-agents.md": ({"python", "console"}, "tests/integrations/openai_agents/test_runs.py"),
    "claude-agent-sdk.md": (
        {"python", "console", "text"},
        "tests/integrations/claude_agent_sdk/test_page.py",
    ),
    "mcp.md": ({"python"}, "tests/mcp/test_docs.py"),
}
GENERATED = "cli.md"
"""It is made of the help, and tests/test_generated.py says so."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return World(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def world(made):
    made.renew()
    return made


def commands_shown():
    """Give every command line once, wherever it stands first."""
    shown = list(of_help())
    for page in PAGES:
        if page.name != GENERATED:
            shown += of_page(page, without=followed(page.name))
    first = {}
    for each in shown:
        if each.is_ours:
            first.setdefault(each.words, each)
    return list(first.values())


def followed(page):
    """Give the languages of a page that a test of its own follows."""
    return OWN[page][0] if page in OWN else frozenset()


@pytest.mark.parametrize("shown", commands_shown(), ids=lambda each: " ".join(each.words[1:]))
def test_a_command_does_what_the_example_shows(shown, world):
    execute(world, shown)


# -- that nothing is left out ---------------------------------------------------------------


def test_every_command_shows_examples_of_itself():
    shown = list(of_help())
    assert len(shown) > 100
    for name in COMMANDS:
        assert any(each.words[1] == name for each in shown if each.where.split()[1] == name), name


def test_the_reference_shows_the_same_examples():
    page = {each.words for each in of_page(ROOT / "docs" / GENERATED)}
    assert {each.words for each in of_help() if len(each.where.split()) == 3} <= page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_of_a_kind_that_is_executed_or_shown(page):
    assert {each.language for each in blocks(page)} <= LANGUAGES, "say here how it is executed"


@pytest.mark.parametrize("name", OWN)
def test_a_page_with_a_test_of_its_own_has_one(name):
    languages, path = OWN[name]
    page = next(each for each in PAGES if each.name == name)
    source = (ROOT / path).read_text("utf-8")
    assert f'"{name}"' in source
    assert "def test_" in source
    assert {each.language for each in blocks(page)} >= languages
    for language in languages - {"", "text"}:
        assert language in source


def test_what_is_listed_here_is_shown_somewhere():
    shown = commands_shown()
    for words in (*BEFORE, *GONE, *TORN, *ANSWERED, *FINDS, *WELL):
        assert any(each.starts(words) for each in shown), words
    for way in WAYS:
        assert any(way.fits(each) for each in shown), way.words


def test_what_is_installed_and_made_can_be():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    others = [each for page in PAGES for each in of_page(page) if not each.is_ours]
    seen = set()
    for each in others:
        program, *words = each.words
        page = each.where.partition(":")[0]
        if page == "releasing.md":
            continue  # It tags, builds and uploads.
        if program in {"pip", "pipx", "uv"}:
            done = re.fullmatch(
                r"(?:tool )?(?:un)?install (?:\.|turnlog(?:\[(\w+)\])?)", " ".join(words)
            )
            assert done, each
            assert done[1] in {None, *project["optional-dependencies"]}, each
        elif program == "make":
            assert set(words) <= set(targets), each
        else:
            assert program == "rm", each
            assert page in {"quickstart.md", "uninstall.md"}, each
        seen.add(program)
    assert seen == {"pip", "pipx", "uv", "make", "rm"}


# -- what prose quotes ----------------------------------------------------------------------


def check_quoted(words, command=app, parent=None):
    """Fail if a command, an option or a choice that prose names does not exist."""
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        # As in a real call: commands remember the help option that their first context gave them.
        context = click.Context(command, parent=parent, **command.context_settings)
        _, found, rest = command.resolve_command(context, list(words))
        check_quoted(rest, found, context)
        return
    try:
        command.make_context("turnlog", list(words), parent=parent)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError, click.exceptions.Exit):
        return  # Prose may name a command and leave the rest to the reader.
    except click.BadOptionUsage as error:
        if "requires an argument" not in error.message:  # Or an option.
            raise


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_prose_quotes_exists(page):
    for quoted in spans(page):
        if quoted.startswith("turnlog ") and not quoted.startswith("turnlog COMMAND"):
            check_quoted(example(quoted).words[1:])


# -- other languages ------------------------------------------------------------------------


def of_language(language):
    """Give the blocks in a language that no test of their page's own executes."""
    return [each for each in in_pages(language) if language not in followed(each.page)]


def id_of(block):
    return block.where


def programs():
    """Give the blocks of Python of each page, which together are one program."""
    found = {}
    for block in of_language("python"):
        found.setdefault(block.page, []).append(block)
    return found


PRINTED = re.compile(r"print\(.*\)  # → (.+)$", re.MULTILINE)
"""What a line of an example says that it prints."""


@pytest.mark.parametrize("page", programs())
def test_python_runs_and_prints_what_the_page_says(page, world, monkeypatch):
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.orchard)
    names = {"__name__": "__main__"}
    with time_machine.travel(NOW):
        for block in programs()[page]:
            with redirect_stdout(StringIO()) as out:
                exec(compile(block.text, block.where, "exec"), names)
            printed = out.getvalue().splitlines()
            assert bool(printed) == ("print(" in block.text), block.where
            for promised in PRINTED.findall(block.text):
                assert promised in printed, block.where
    assert list((world.path / "agent" / "projects").rglob("*.jsonl"))


def test_the_first_example_prints_what_it_cost_and_what_was_asked(world, monkeypatch):
    (block,) = programs()["README.md"]
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.orchard)
    with redirect_stdout(StringIO()) as out:
        exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})
    printed = out.getvalue().splitlines()
    assert len(printed) == 2
    assert printed[1].endswith("How many apples?")


@pytest.mark.parametrize("block", of_language("sql"), ids=id_of)
def test_sql_is_answered(block, world):
    if "read_parquet" in block.text:  # It is not asked of us.
        duckdb = pytest.importorskip("duckdb")
        execute(world, example("turnlog export --since 30d -o usage.parquet"))
        asked = block.text.replace("usage.parquet", f"{world.orchard}/usage.parquet")
        assert duckdb.connect().sql(asked).fetchall()
        return
    code, out, err = world.run(["sql", "-", "--json"], stdin=given(block.text))
    assert code in (0, 1), err
    rows = json.loads(out)["rows"]
    # Days are counted from SQLite's own clock, which stands still for nobody.
    assert rows or "date('now'" in block.text


READ_BY = {
    "prices": overrides_from,
    "budgets": budgets_from,
    "cost": week_starts_from,
    "retention": policy_from,
    "redact": rules_from,
    "mcp": settings_from,
}
SETTINGS = [
    *((each.where, each.text) for each in in_pages("toml")),
    *in_help("In config.toml"),
]


@pytest.mark.parametrize(("where", "text"), SETTINGS, ids=lambda each: each[:40])
def test_settings_are_read_without_a_problem(where, text, tmp_path):
    (tmp_path / "config.toml").write_text(text)
    config = load_config(tmp_path)
    assert config.problems == ()
    named = tomllib.loads(text)
    assert named
    for table in named:
        assert READ_BY[table](getattr(config, table))[1] == (), where


def test_settings_are_found():
    assert {where.partition(":")[0] for where, _ in SETTINGS} >= {
        "costs.md",
        "mcp.md",
        "secrets.md",
        "turnlog prune --help",
    }


RECORDS = [
    (each.where, line)
    for each in blocks(ROOT / "docs" / "log-format.md")
    for line in each.text.splitlines()
    if line.startswith("{")
]


def test_records_are_found():
    assert len(RECORDS) == 4


@pytest.mark.parametrize(("where", "line"), RECORDS)
def test_a_record_that_is_shown_is_one(where, line):
    record = decode(line.encode())
    assert isinstance(record, Record), where
    assert not isinstance(record, Unknown), where
    assert encode(record) == line.encode()


@pytest.mark.parametrize("block", of_language("json"), ids=id_of)
def test_settings_of_claude_code_are_those_that_are_shown(block, world):
    code, out, _ = world.run(["hooks", "install", "statusline", "--json"])
    assert code == 0
    (step,) = json.loads(out)["hooks"][0]["steps"]
    # This world has a home of its own for turnlog, which the command has to name.
    own = f"TURNLOG_HOME={world.environ()['TURNLOG_HOME']} "
    shown = json.loads(block.text)["statusLine"]["command"]
    assert step["command"].startswith(own)
    assert step["command"].endswith(f"/{shown}")


# -- that all this would find something -----------------------------------------------------

PAGE = """\
Prose says turnlog nothing, `turnlog sessions --quoted` and

    turnlog fine --indented       which is explained
    turnlog 'two  spaces'         are held together by quotes
    turnlog fine                  # a comment

```console
$ turnlog asked --prompt
turnlog answers, and this is no command
$ make run      # all of it
```

```
turnlog one "a | b" < in.sql
turnlog two --json | jq '.x[]'
eval "$(turnlog three latest)"  the same
fish, config.fish:  turnlog four fish | source
claude mcp add turnlog -- turnlog five
Output with turnlog in it
```

```python
turnlog = "turnlog none"
```
"""


def test_command_lines_are_found_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = list(of_page(page))
    assert [each.words for each in found] == [
        ("turnlog", "fine", "--indented"),
        ("turnlog", "two  spaces"),
        ("turnlog", "fine"),
        ("turnlog", "asked", "--prompt"),
        ("make", "run"),
        ("turnlog", "one", "a | b"),
        ("turnlog", "two", "--json"),
        ("turnlog", "three", "latest"),
        ("turnlog", "four", "fish"),
        ("turnlog", "five"),
    ]
    assert [each.stdin for each in found if each.stdin] == ["in.sql"]
    assert [each.pipe for each in found if each.pipe] == [("jq", ".x[]"), ("source",)]
    assert list(spans(page)) == ["turnlog sessions --quoted"]
    assert [each.where for each in found][3] == "page.md:7"


@pytest.mark.parametrize(
    "line",
    [
        "turnlog sessions --no-such-option",
        "turnlog sesions",
        "turnlog sessions --sort loudness",
        "turnlog show",
        "turnlog show dead",
        "turnlog query nothing",
        "turnlog cost --since someday",
        "turnlog watch --no-such-option",
        "turnlog mcp --no-such-option",
        "turnlog top --no-such-option",
        "turnlog search --all-words retry an explanation that slipped in",
        "turnlog sql 'SELECT nothing FROM v_calls'",
    ],
)
def test_an_example_that_is_wrong_fails(line, world):
    (shown,) = typed(line, "here")
    assert isinstance(shown, Example)
    with pytest.raises(AssertionError):
        execute(world, shown)


@pytest.mark.parametrize(
    "line", ["turnlog sessions --quoted", "turnlog quoted", "turnlog cost loudness", "turnlog -x"]
)
def test_prose_that_is_wrong_fails(line):
    with pytest.raises(Exception, match=r"(?i)no|invalid"):
        check_quoted(example(line).words[1:])
