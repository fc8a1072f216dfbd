"""turnlog errors: which errors come again, and what was around them."""

import json

import pytest

from search.query_trees import built


@pytest.fixture
def errors(tmp_path, turnlog):
    plan = [
        (0, "prompt", 0, "main", "Bash", "open the barn", 0),
        (0, "call", 1, "main", "Bash", "open", 0),
        (0, "error", 1, "main", "Bash", "Exit code 1: no barn\x1b[2J " + "long " * 50, 0),
        (0, "call", 3, "main", "Bash", "open again", 1),
        (0, "error", 3, "main", "Bash", "Exit code 2: no barn\x1b[2J " + "long " * 50, 0),
        (1, "call", 3, "main", "Read", "", 1),
        (1, "error", 4, "main", "Read", "no such file", 0),
        (2, "api_error", 4, "main", "Bash", "API Error: 529 overloaded", 0),
    ]
    _, home = built(tmp_path, plan)

    def run(*arguments):
        return turnlog(
            "errors", *arguments, "--home", home, TURNLOG_HOME=str(tmp_path / "own"), TZ="UTC"
        )

    return run


def test_the_most_frequent_is_first_and_the_table_fits(errors):
    code, out, err = errors()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["2", "Bash"]
    assert {line.split()[1] for line in lines[1:]} == {"Bash", "Read", "API"}
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert "\x1b" not in out


def test_json_has_the_errors_and_where_they_stand(errors):
    found = json.loads(errors("--json")[1])
    assert [each["count"] for each in found["errors"]] == [2, 1, 1]
    assert (found["next"], found["total"]) == (None, 3)
    one = json.loads(errors("--json", "--limit", "1")[1])
    assert (len(one["errors"]), one["next"]) == (1, 1)
    rest = json.loads(errors("--json", "--limit", "1", "--offset", "1")[1])
    assert rest["errors"] == found["errors"][1:2]


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        (("--tool", "Read"), ["Read"]),
        (("--tool", "read"), ["Read"]),
        (("--tool", "Rea"), []),
        (("--tool", "API"), ["API"]),
        (("--tool", "api"), ["API"]),
        (("--since", "2026-11-01T10:04"), ["API", "Read"]),
        (("--until", "2026-11-01T10:04"), ["Bash"]),
        (("--project", "/home/ada/orchard/cellar"), ["Read"]),
        (("--min", "2"), ["Bash"]),
    ],
    ids=str,
)
def test_every_option_leaves_out_the_others(errors, options, tools):
    found = json.loads(errors(*options, "--json")[1])
    assert sorted(each["tool"] for each in found["errors"]) == tools


def test_a_signature_shows_what_was_around(errors):
    bash = json.loads(errors("--tool", "Bash", "--json")[1])["errors"][0]["signature"]
    code, out, _ = errors(bash[:6])
    assert code == 0
    assert out.startswith("2 errors, 1 signature\n")
    assert out.count("✗") == 2
    assert "open the barn" in out
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert "\x1b" not in out
    narrow = errors(bash, "--context", "0", "--limit", "1")
    assert narrow[1].count("✗") == 1
    assert "open the barn" not in narrow[1]
    assert "--offset 1" in narrow[2]
    found = json.loads(errors(bash, "--json")[1])
    assert found["signatures"] == [bash]
    assert len(found["occurrences"]) == found["total"] == 2


def test_nothing_found_and_mistakes(errors):
    assert errors("--until", "2020")[0] == 1
    assert errors("0000000000")[0] == 2
    code, _, err = errors("barn")
    assert code == 2
    assert "turnlog errors lists" in err
    assert errors("--tool", "(")[0] == 1  # A name, not a pattern.
