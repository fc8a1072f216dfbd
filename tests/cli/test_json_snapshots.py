"""What `--json` prints, word for word: a document for every schema in docs/schemas.

The documents are in snapshots-json/, one file for each schema, for people to read. After a change
on purpose: TURNLOG_UPDATE_SNAPSHOTS=1 pytest tests/cli/test_json_snapshots.py, and read the
difference.
"""

import json
import shlex
from pathlib import Path

import jsonschema
import pytest

from cli.screens import HARVEST, Home
from snapshots import check, json_lines, stable

SNAPSHOTS = Path(__file__).parent / "snapshots-json"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
# What is typed, by the schema of what is printed.
TYPED = {
    "archive": ["archive 1235 2d3f --remove --yes"],
    "blocks": ["cost blocks"],
    "budgets": ["cost budgets"],
    "check": ["check", "check f38b"],
    "compact": ["compact f38b"],
    "compact-undo": ["compact f38b --undo"],
    "compare": ["cost --since 2026-10-19 --until 2026-10-25 --compare"],
    "convert": ["convert 1235 --layout flat --to flat"],
    "cost": ["cost", "cost --by project,model --since 30d"],
    "delete": ["delete 1235", "delete 1235 --yes"],
    "doctor": ["doctor --all"],
    "doctor-where": ["doctor --where"],
    "error-context": ["errors 0"],
    "errors": ["errors"],
    "explain": ["cost --explain 2026-10-30"],
    "export": ["export 1235 --format json"],
    "export-index": ["export --project lighthouse --format json -o pages/"],
    "files": ["files f38b --diff"],
    "fork": ["fork 1235 --to ."],
    "hooks": ["hooks", "hooks install"],
    "info": ["info f38b", "info 0b29"],
    "insights": ["insights --since 30d"],
    "insights-explain": ["insights --since 30d --explain tools:Bash"],
    "keep": ["keep"],
    "keep-status": ["keep status"],
    "labels": ["rename f38b 'Dawn, not noon'", "tag f38b urgent later", "pin f38b"],
    "overview": [""],
    "overview-bare": ["--home empty --or-sample .claude"],
    "plans": ["plans"],
    "prices": ["prices claude-sonnet-4-5"],
    "projects": ["projects"],
    "prompts": ["prompts"],
    "query": ["query tools --limit 2", "query tools --by tool_name"],
    "query-files": ["query files"],
    "query-sequences": ["query sequences --min 1 --limit 2"],
    "query-series": ["query series tokens --since 2026-10-28"],
    "recover": ["recover 0b29", "recover 0b29 --yes"],
    "recover-list": ["recover"],
    "recover-undo": ["recover 0b29 --undo"],
    "refresh": ["refresh"],
    "repair": ["repair 0b29", "repair 0b29 --yes"],
    "restore": ["restore 1235", "unarchive 2d3f", "trash restore f38b"],
    "restore-list": ["restore", "restore --session 1235"],
    "resume": ["resume f38b"],
    "prune": ["prune --days 30 --home .claude", "prune --days 30 --home .claude --yes"],
    "search": ["search frost", "search tool:Bash --limit 1"],
    "secrets": ["secrets scan"],
    "sessions": ["sessions", "sessions --sort tokens --limit 1"],
    "show": ["show 0b29", "show f38b --last 3", "show f38b --at 1e47caa6 -C 1"],
    "sql": ["sql 'SELECT tool, count(*) AS calls FROM v_calls GROUP BY 1 ORDER BY 1'"],
    "sql-schema": ["sql --schema v_calls"],
    "todos": ["todos", "todos --all"],
    "top": ["top"],
    "trash": ["trash"],
    "verify": ["verify"],
    "watch": ["watch --since 2026-10-30 --limit 2"],
}
# What must have happened before.
BEFORE = {
    "compact-undo": ["compact f38b --yes"],
    "keep-status": ["keep"],
    "recover-undo": ["recover 0b29 --yes"],
    "restore": ["keep", "rm 1235", "archive 2d3f", "delete f38b --yes"],
    "restore-list": ["keep", "rm 1235"],
    "trash": ["delete 1235 --yes"],
    "verify": ["keep", "archive 2d3f"],
}
CHANGING = {
    *BEFORE, "archive", "compact", "convert", "delete", "doctor-where", "export-index", "fork",
    "keep", "labels", "recover", "refresh", "repair", "prune",
}  # fmt: skip
IN_A_FILE = {"export-index": "pages/index.json"}
PRINTS_JSON = {"export", *IN_A_FILE}
"""What takes no --json."""


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    """A home that nothing changes."""
    return made_home(tmp_path_factory.mktemp("json"))


def made_home(directory):
    """Make a home with budgets, and with a session whose program ended without a word."""
    home = Home(directory / "ada")
    (home.path / "empty" / "projects").mkdir(parents=True)
    (home.path / ".turnlog").mkdir()
    (home.path / ".turnlog" / "config.toml").write_text("[budgets]\ndaily = 5\nmonthly = 0.01\n")
    pid = 2**22 + 1  # No process has it: Linux counts up to 2**22.
    (home.claude / "sessions").mkdir()
    told = {"pid": pid, "sessionId": HARVEST, "cwd": "/home/ada/orchard", "status": "busy"}
    (home.claude / "sessions" / f"{pid}.json").write_text(json.dumps(told))
    return home


@pytest.mark.parametrize("name", TYPED)
def test_a_document_is_what_it_was_and_fits_its_schema(name, reading, tmp_path):
    home = made_home(tmp_path) if name in CHANGING else reading
    for before in BEFORE.get(name, ()):
        home.do(*shlex.split(before))
    fits = jsonschema.Draft202012Validator(
        closed(json.loads((SCHEMAS / f"{name}.json").read_text("utf-8")))
    )
    parts = []
    for words in TYPED[name]:
        typed = words if name in PRINTS_JSON else f"{words} --json".strip()
        code, out, err = home.screen(*shlex.split(typed), columns=None)
        if name in IN_A_FILE:
            out = stable((home.path / IN_A_FILE[name]).read_text("utf-8"), home.path)
        for document in documents(out):
            fits.validate(document)
        told = f"--- on stderr\n{err}" if err else ""
        parts.append(f"=== $ turnlog {typed}\n{json_lines(out)}{told}--- exit code {code}\n")
    check(SNAPSHOTS / f"{name}.txt", "\n".join(parts))


def documents(text):
    """Yield the JSON documents in *text*, of which there is at least one."""
    decoder, rest = json.JSONDecoder(), text.strip()
    assert rest
    while rest:
        document, end = decoder.raw_decode(rest)
        yield document
        rest = rest[end:].strip()


def closed(schema):
    """Return *schema* such that an object has no field beside those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(each) for key, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found.setdefault("additionalProperties", False)
    return found


def test_every_schema_has_its_document():
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(TYPED)
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(TYPED)
