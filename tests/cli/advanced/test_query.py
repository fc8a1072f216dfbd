"""turnlog query: options mean what the query means, and tables fit."""

import json

import pytest

from query.test_query import PLAN
from search.query_trees import SESSIONS, built
from turnlog.cli.advanced.query import OPTIONS, read_query
from turnlog.cli.terminal.tables import Need, widths_for
from turnlog.errors import UsageError
from turnlog.query.fields import RESOURCES


@pytest.fixture
def ask(tmp_path, turnlog):
    """Ask in a home of its own; options go last, as people type them."""
    _, home = built(tmp_path, PLAN)

    def run(*arguments):
        return turnlog(
            "query", *arguments, "--home", home, TURNLOG_HOME=str(tmp_path / "own"), TZ="UTC"
        )

    return run


WRITTEN = """query({
  resource: "messages",
  filter: {role: "user"}
})"""


@pytest.mark.parametrize(
    "asked", ['{"resource": "messages", "filter": {"role": "user"}}', WRITTEN, WRITTEN + ";"]
)
def test_the_call_of_the_document_works_as_written(ask, asked):
    code, out, err = ask(asked, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["text"] for row in found["rows"]] == ["look into it", "frost again", "frost"]
    assert found["next"] is None
    assert json.loads(ask("messages", "--role", "user", "--json")[1])["rows"] == found["rows"]


def test_bare_names_are_quoted_outside_of_text_only():
    asked = read_query('{resource: "tools", filter: {content_match: "a: b, c : \\"d: e"}}')
    assert asked["filter"]["content_match"] == 'a: b, c : "d: e'


@pytest.mark.parametrize("text", ["{", "{]", "query(", '{"resource"}', "{a: " * 5000])
def test_what_is_no_query_is_a_mistake(text):
    with pytest.raises(UsageError) as error:
        read_query(text)
    assert error.value.hint


def test_every_filter_of_a_resource_is_an_option_of_it(ask):
    for resource in RESOURCES:
        code, out, _ = ask(resource.name, "--help")
        assert code == 0
        for name in resource.filters:
            for option in (
                ["--since", "--until"] if name == "time_range" else OPTIONS[name].split("/")
            ):
                assert option in out, (resource.name, option)
        assert all(name in out for name in resource.fields)
    assert set(OPTIONS) | {"time_range"} == {name for each in RESOURCES for name in each.filters}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("tools", "--status", "error"), {"filter": {"tool_status": "error"}}),
        (("tools", "--tool", "^R"), {"filter": {"tool_name": "^R"}}),
        (("tools", "--no-errors"), {"filter": {"has_error": False}}),
        (("entries", "--type", "user"), {"filter": {"type": "user"}}),
        (("entries", "--content", "thinking"), {"filter": {"content_type": "thinking"}}),
        (("entries", "--match", "fr.st"), {"filter": {"content_match": "fr.st"}}),
        (("entries", "--branch", "frost"), {"filter": {"git_branch": "frost"}}),
        (("entries", "--session", "aabb"), {"filter": {"session_id": "aabb"}}),
        (
            ("entries", "--since", "2026-11-01T10:01", "--until", "2026-11-01T10:02"),
            {"filter": {"time_range": {"start": "2026-11-01T10:01", "end": "2026-11-01T10:02"}}},
        ),
        (
            ("tools", "--group-by", "status", "--avg", "duration_ms"),
            {
                "transform": {"group_by": "status"},
                "aggregate": {"function": "avg", "field": "duration_ms"},
            },
        ),
        (("entries", "--count"), {"aggregate": {"function": "count"}}),
        (
            ("entries", "--sort", "offset", "--desc", "--limit", "3", "--offset", "1"),
            {"output": {"sort_by": "offset", "sort_order": "desc", "limit": 3, "offset": 1}},
        ),
        (("calls", "--extract", "at, input,.version"),
         {"transform": {"extract": ["at", "input", ".version"]}}),
    ],
    ids=str,
)  # fmt: skip
def test_options_are_another_way_to_write_the_query(ask, options, asked):
    one = ask(*options, "--json")
    two = ask(json.dumps({"resource": options[0]} | asked), "--json")
    assert one[0] == two[0] == 0
    assert json.loads(one[1]) == json.loads(two[1])
    assert json.loads(one[1])["rows"]


def test_tables_fit_and_say_what_is_left(ask):
    for asked in (
        ("messages", "--limit", "2"),
        ("entries",),
        ("tools",),
        ("tools", "--extract", "log,file,session_id,uuid,parent_uuid,at,input,result"),
        ("tools", "--group-by", "tool_name"),
        ("entries", "--format", "summary"),
        ("sequences", "--min", "1"),
        ("files",),
        ("series",),
    ):
        code, out, err = ask(*asked)
        assert code == 0, err
        assert out.strip()
        assert all(len(line.rstrip()) <= 80 for line in out.splitlines()), out
    _, out, err = ask("messages", "--limit", "2")
    assert SESSIONS[1][:8] in out
    assert "--offset 2" in err


def test_lines_for_other_programs(ask):
    code, out, _ = ask("tools", "--format", "tsv", "--extract", "tool_name,status")
    assert code == 0
    assert out.splitlines()[0] == "tool_name\tstatus"
    assert "Bash\terror" in out.splitlines()
    code, out, _ = ask("tools", "--format", "jsonl", "--extract", "tool_name,status")
    assert {"tool_name": "Bash", "status": "error"} in map(json.loads, out.splitlines())


def test_nothing_found_is_exit_code_1(ask):
    for arguments in (
        ("messages", "--until", "2020"),
        ("sequences", "--min", "99"),
        ("files", "nowhere.py"),
        ("series", "--until", "2020"),
    ):
        code, out, _ = ask(*arguments)
        assert code == 1
        assert "hint:" in out
    assert ask("messages", "--until", "2020", "--json")[0] == 1
    assert ask("messages", "--session", "nobody", "--json")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("entrys",), "there are entries, records, messages, tools, calls; and sequences"),
        (("tools", "--group-by", "nme"), "tool_name"),
        (("tools", "--role", "user"), "--role"),
        (("tools", "--sum", "at"), "duration_ms"),
        (("tools", "--count", "--sum", "duration_ms"), "one figure"),
        (("entries", "--since", "the frost"), "2026-11-01"),
        (("entries", "--match", "("), "regular expression"),
        (("entries", "--limit", "-1"), "limit"),
        (('{"resource": "messages", "filter": {"rule": "user"}}',), "did you mean 'role'"),
        (('{"resource": messages}',), "invalid JSON query"),
        (("series", "--timezone", "Mars/Olympus"), "Europe/Berlin"),
        (("sequences", "--pattern", "Read"), "Read -> Edit"),
    ],
    ids=str,
)
def test_a_mistake_is_exit_code_2_with_a_hint(ask, arguments, told):
    code, out, err = ask(*arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_what_a_log_says_is_harmless_on_a_terminal(tmp_path, turnlog):
    plan = [(0, "prompt", 0, "main", "Read", "\x1b]0;own\x07[red]x[/red] \u202e", 0)]
    _, home = built(tmp_path, plan)
    code, out, _ = turnlog("query", "messages", "--home", home, TURNLOG_HOME=str(tmp_path / "own"))
    assert code == 0
    assert "[red]x[/red]" in out
    assert not any(each in out for each in "\x1b\x07\u202e")


@pytest.mark.parametrize(
    ("widths", "room"),
    [([16, 8, 300], 76), ([8] * 12, 70), ([100, 100, 3], 60), ([1], 80), ([], 9)],
)
def test_columns_are_cut_only_as_far_as_needed(widths, room):
    needs = [Need(width, 8, rank) for rank, width in enumerate(widths)]
    found = widths_for(needs, room)
    kept = [cut for cut in found if cut]
    assert all(cut <= width for cut, width in zip(found, widths, strict=True))
    used = sum(kept) + 2 * (len(kept) - 1)
    assert used <= room
    if len(kept) == len(widths):
        assert not widths or used == min(sum(widths) + 2 * (len(widths) - 1), room)
    else:  # The last columns are dropped, and no more than needed.
        assert found == [*kept, *([0] * (len(widths) - len(kept)))]
        assert used + 10 > room


def test_no_row_is_empty_where_nothing_was_said(tmp_path, turnlog):
    """Most responses of a subagent only think or call: blanks would tell nobody anything."""
    blocks = {
        "m1": {"type": "thinking", "thinking": "", "signature": "x"},
        "m2": {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make pears"}},
        "m3": {"type": "tool_use", "id": "c2", "name": "ListBarns", "input": {}},
        "m4": {"type": "thinking", "thinking": "Frost, then.", "signature": "x"},
        "m5": {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
    }
    log = tmp_path / "home" / "projects" / "-home-ada-orchard" / f"{SESSIONS[0]}.jsonl"
    log.parent.mkdir(parents=True)
    lines = [
        {
            "type": "assistant",
            "uuid": name,
            "sessionId": SESSIONS[0],
            "timestamp": f"2026-11-01T10:0{number}:00.000Z",
            "message": {"role": "assistant", "id": name, "content": [block]},
        }
        for number, (name, block) in enumerate(blocks.items())
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = ["(thinking)", "Bash: make pears", "ListBarns", "Frost, then.", "(image)"]
    for resource in ("messages", "entries"):
        options = (resource, "--asc", "--sort", "at", "--home", tmp_path / "home")
        code, out, _ = turnlog("query", *options, TURNLOG_HOME=str(tmp_path / "own"))
        assert code == 0
        shown = zip(out.splitlines()[1:], told, strict=True)
        assert [line for line, end in shown if not line.rstrip().endswith(f"  {end}")] == []
        out = turnlog("query", *options, "--json", TURNLOG_HOME=str(tmp_path / "own"))[1]
        assert "gist" not in json.loads(out)["rows"][0]  # It is there for those who ask.
