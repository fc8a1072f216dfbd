"""The documents tell the truth: what they name exists, and no requirement is forgotten."""

import ast
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "turnlog"
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
DOCUMENTS = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
REQUIREMENTS = (ROOT / "docs" / "internals" / "requirements.md").read_text("utf-8")
NOTES = ROOT.parent / "shared" / "notes" / "requirements.md"

# People of examples; any other home directory came from somebody's machine.
INVENTED = {"ada", "u", "user", "user1", "you"}


def cells(section):
    """The rows of every table in a section, each as its cells; heads and rulers are no rows."""
    for line in section.splitlines():
        row = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("|") and re.fullmatch(r"[A-Z]+\d+", row[0]):
            yield row


def section(title):
    return REQUIREMENTS.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def defined_in(path):
    """Every function, class and name that a test module defines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_every_module_named_exists():
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", REQUIREMENTS))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (SOURCE / name).is_file()] == []


def test_the_packages_of_the_architecture_are_those_that_import_linter_checks():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers")
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    tree = page.partition("\n## Packages\n")[2].split("```")[1]
    drawn = [line.partition("   ")[0].split() for line in tree.strip().splitlines()]
    assert drawn == [layer.split(" | ") for layer in contract["layers"]]


def test_every_path_in_contributing_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`((?:src|tests|docs|samples|faults|fuzz|bench)/[\w./-]*)", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name.rstrip(".")).exists()] == []


def test_every_test_named_exists():
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", REQUIREMENTS))
    assert len(named) > 20
    paths = {path for path, _ in named}
    known = {path: set(defined_in(ROOT / path)) for path in paths if (ROOT / path).is_file()}
    assert [each for each in sorted(named) if each[1] not in known.get(each[0], ())] == []


def test_every_name_of_ours_exists():
    named = set(re.findall(r"`(turnlog(?:\.\w+)+)`", REQUIREMENTS))
    assert len(named) > 20
    for name in sorted(named):
        pkgutil.resolve_name(name)  # Raises and names it otherwise.


def test_every_requirement_says_where_it_is_met_and_what_proves_it_or_not_yet():
    for number, asked, where, proof in cells(section("Requirements")):
        assert asked, number
        assert "not yet" in where or ".py`" in where, number
        assert (proof == "—") == where.startswith("not yet"), number
        assert proof == "—" or "`tests/" in proof or proof == "no test yet", number


@pytest.mark.skipif(not NOTES.is_file(), reason="the numbered list is not here")
def test_every_requirement_and_every_contradiction_has_one_row():
    notes = NOTES.read_text("utf-8")
    asked, _, conflicts = notes.partition("\n## 2. ")
    listed = re.findall(r"(?:^- |[.;] )([A-Z]\d+) ", asked, re.MULTILINE)
    # Two lists of the notes count C1, C2, …; the requirements among them are CC here.
    listed = [re.sub(r"^C(?=\d)", "CC", number) for number in listed]
    assert [row[0] for row in cells(section("Requirements"))] == listed
    settled = re.findall(r"^\| (C\d+) \|", conflicts, re.MULTILINE)
    assert [row[0] for row in cells(section("Settled contradictions"))] == settled


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text("utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r'(?:\]\(<?|src=")([^)\s>"]+)', prose)]
    local = [link for link in links if link and not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_shows_a_developers_machine(document):
    text = document.read_text("utf-8")
    people = re.findall(r"(?:/home/|/Users/|[A-Z]:\\Users\\)([\w.-]+)", text)
    assert set(people) <= INVENTED
    assert "/root/" not in text
    assert str(ROOT) not in text
