"""What exports write, word for word: every format of `turnlog export`, and the pages of insights.

The files are in snapshots/, one for each export, for people to read. After a change on purpose:
TURNLOG_UPDATE_SNAPSHOTS=1 pytest tests/export/test_snapshots.py, and read the difference.
"""

import json
import re
import shlex
from pathlib import Path

import pyarrow.parquet
import pytest

import turnlog
from cli.screens import FROST, HARVEST, Home
from snapshots import check, html_lines, stable

SNAPSHOTS = Path(__file__).parent / "snapshots"
# What is typed, by the name of the file that it is compared with; it writes OUT, a file or a
# directory.
TYPED = {
    "session-html": ["export f38b -o OUT.html", "export 2d3f --thread all -o OUT.html"],
    "session-md": [
        "export f38b -o OUT.md",
        "export 2d3f --thread all -o OUT.md",
        "export 2d3f --thread current -o OUT.md",
        "export 0b29 -o OUT.md",
        "export f38b --turns 2 --tools none --no-thinking -o OUT.md",
        "export 77aa -o OUT.md",
        "export 77aa --no-redact -o OUT.md",
        "export f38b --anonymize --tools line -o OUT.md",
    ],
    "session-json": ["export f38b -o OUT.json", "export 2d3f --turns 2: --no-images -o OUT.json"],
    "session-jsonl": ["export 77aa -o OUT.jsonl", "export 1235 --no-redact -o OUT.jsonl"],
    "session-csv": ["export f38b --table calls -o OUT.csv"],
    "sessions-html": ["export --project lighthouse -o OUT/"],
    "sessions-md": ["export --project lighthouse --format md -o OUT/"],
    "sessions-json": ["export --project lighthouse --format json -o OUT/"],
    "sessions-jsonl": ["export f38b 77aa --format jsonl -o OUT/"],
    "sessions-csv": ["export --since 30d --format csv -o OUT/"],
    "sessions-parquet": ["export 77aa 0b29 -o OUT.parquet"],
    "insights-html": ["insights --since 2026-10-19 --until 2026-10-22 --output OUT.html"],
    "summary-html": [
        "insights 2026-10 --output OUT.html",
        "insights 2026-10 --with-names --output OUT.html",
    ],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("exports") / "ada")


def exported(home, name, number, words):
    """Type *words*; return what was said and every file that was written."""
    code, out, err = home.screen(*shlex.split(words.replace("OUT", f"{name}-{number}")))
    assert out == ""
    parts = [f"=== $ turnlog {words}\n{err}--- exit code {code}\n"]
    (target,) = home.path.glob(f"{name}-{number}*")
    paths = sorted(target.rglob("*")) if target.is_dir() else [target]
    for path in paths:
        if path.is_file():
            place = f" {path.relative_to(target)}" if target.is_dir() else ""
            parts.append(f"---{place}\n{readable(path)}\n")
    return stable("\n".join(parts).replace(f"{name}-{number}", "OUT"), home.path)


def readable(path):
    if path.suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(path).read()
        schema = table.schema.remove_metadata().to_string()
        return schema + "\n" + "\n".join(json.dumps(row, default=str) for row in table.to_pylist())
    text = path.read_bytes().decode()
    return html_lines(text) if path.suffix == ".html" else text


@pytest.mark.parametrize("name", TYPED)
def test_an_export_is_what_it_was(name, home):
    parts = [exported(home, name, number, words) for number, words in enumerate(TYPED[name])]
    check(SNAPSHOTS / f"{name}.txt", "\n".join(parts))


@pytest.mark.parametrize("shape", ["md", "html", "json"])
def test_the_library_exports_what_the_command_exports(shape, home):
    asked = [
        (FROST, [], {}),
        (HARVEST, ["--thread", "all", "--no-thinking"], {"thread": "all", "thinking": False}),
        (HARVEST, ["--turns", "2:", "--tools", "none"], {"turns": (2, None), "tools": "none"}),
    ]
    for number, (session, options, arguments) in enumerate(asked):
        target = home.path / f"library-{number}.{shape}"
        home.screen("export", session, *options, "-o", target)
        with home.inside(), turnlog.open(home.claude) as store:
            assert store.export(session, format=shape, **arguments) == target.read_bytes().decode()


def test_every_format_has_its_exports(home):
    _, _, err = home.screen("export", "f38b", "--format", "none")
    formats = re.findall(r"'(\w+)'", err.partition("is not one of")[2])
    assert {f"sessions-{shape}" for shape in formats} <= set(TYPED)
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(TYPED)
