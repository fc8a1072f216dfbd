"""turnlog query: options mean what the query means, and tables fit."""

import json
import re
from pathlib import Path

import pytest

from query.test_query import PLAN
from search.query_trees import SESSIONS, built
from turnlog.cli.advanced.query import read_query
from turnlog.cli.terminal.tables import Need, widths_for
from turnlog.errors import UsageError
from turnlog.query.fields import RESOURCES
from turnlog.query.filters import comparable

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"


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
    assert json.loads(ask("messages", "role=user", "--json")[1])["rows"] == found["rows"]


def test_bare_names_are_quoted_outside_of_text_only():
    asked = read_query('{resource: "tools", filter: {content_match: "a: b, c : \\"d: e"}}')
    assert asked["filter"]["content_match"] == 'a: b, c : "d: e'


@pytest.mark.parametrize("text", ["{", "{]", "query(", '{"resource"}', "{a: " * 5000])
def test_what_is_no_query_is_a_mistake(text):
    with pytest.raises(UsageError) as error:
        read_query(text)
    assert error.value.hint


def test_help_lists_every_field(ask):
    for resource in RESOURCES:
        code, out, _ = ask(resource.name, "--help")
        assert code == 0
        named = set(re.findall(r"[\w.]+", out))
        assert named >= set(comparable(resource))
        assert named >= {value for each in resource.fields.values() for value in each.values}
        assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (("tools", "status=error"), {"filter": {"tool_status": "error"}}),
        (("tools", "tool~^R"), {"filter": {"tool_name": "^R"}}),
        (("messages", "tool~^R"), {"filter": {"tool_name": "^R"}}),
        (("tools", "is_error=false"), {"filter": {"has_error": False}}),
        (("entries", "type=user"), {"filter": {"type": "user"}}),
        (("entries", "content_type=thinking"), {"filter": {"content_type": "thinking"}}),
        (("entries", "content~fr.st"), {"filter": {"content_match": "fr.st"}}),
        (("entries", "branch=frost"), {"filter": {"git_branch": "frost"}}),
        (("entries", "session=aabb"), {"filter": {"session_id": "aabb"}}),
        (("entries", "--session", "aabb"), {"filter": {"session_id": "aabb"}}),
        (("tools", "tool!=Bash", "result~."), {"where": ["tool!=Bash", "result~."]}),
        (
            ("entries", "--since", "2026-11-01T10:01", "--until", "2026-11-01T10:02"),
            {"filter": {"time_range": {"start": "2026-11-01T10:01", "end": "2026-11-01T10:02"}}},
        ),
        (
            ("tools", "--by", "status", "--aggregate", "avg:duration_ms"),
            {
                "transform": {"group_by": "status"},
                "aggregate": [
                    {"function": "count"},
                    {"function": "avg", "field": "duration_ms"},
                ],
            },
        ),
        (("tools", "--by", "tool"), {"transform": {"group_by": "tool"}}),
        (("entries", "--aggregate", "count"), {"aggregate": {"function": "count"}}),
        (("entries", "--reverse"), {"output": {"sort_by": "at"}}),
        (
            ("entries", "--sort", "offset", "--reverse", "--limit", "3", "--offset", "1"),
            {"output": {"sort_by": "offset", "sort_order": "desc", "limit": 3, "offset": 1}},
        ),
        (("calls", "--fields", "at, input,.version"),
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
        ("tools", "--fields", "log,file,session_id,uuid,parent_uuid,at,input,result"),
        ("tools", "--by", "tool_name"),
        ('{"resource": "entries", "output": {"format": "summary"}}',),
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
    asked = {"resource": "tools", "transform": {"extract": ["tool_name", "status"]}}
    code, out, _ = ask(json.dumps(asked | {"output": {"format": "tsv"}}))
    assert code == 0
    assert out.splitlines()[0] == "tool_name\tstatus"
    assert "Bash\terror" in out.splitlines()
    code, out, _ = ask(json.dumps(asked | {"output": {"format": "jsonl"}}))
    assert {"tool_name": "Bash", "status": "error"} in map(json.loads, out.splitlines())


def test_filters_compare_every_kind_of_field(ask):
    def rows(*words):
        return json.loads(ask(*words, "--limit", "0", "--json")[1])["rows"]

    every = rows("tools", "--fields", "call_id,tool_name,file,offset,input,.uuid")
    for name in ("tool_name", "file", "offset", "input", ".uuid"):
        shown = [row[name] for row in every]
        value = next(each for each in shown if each is not None)
        text = "\n".join(value.values()) if isinstance(value, dict) else str(value)
        equal = [row["call_id"] for row in every if row[name] == value]
        other = [row["call_id"] for row in every if row[name] != value]
        fields = ("--fields", "call_id")
        assert [r["call_id"] for r in rows("tools", f"{name}={text}", *fields)] == equal, name
        assert [r["call_id"] for r in rows("tools", f"{name}!={text}", *fields)] == other, name
        pattern = f"{name}~^{re.escape(text)}$"
        assert [r["call_id"] for r in rows("tools", pattern, *fields)] == equal, name
        assert equal
        assert other or name == "tool_name"


def test_a_message_is_excluded_by_any_of_its_records(ask):
    def count(*words):
        return json.loads(ask("messages", *words, "--aggregate", "count", "--json")[1])["rows"][0]

    for one in ("tool=Bash", "content_type=tool_use", "branch=frost", "role=user"):
        rest = one.replace("=", "!=")
        assert count(one)["count"] + count(rest)["count"] == count()["count"]
        assert count(one)["count"]


def test_several_figures_agree_with_each_alone(ask):
    def rows(*figures):
        words = [word for each in figures for word in ("--aggregate", each)]
        out = ask("messages", "--by", "model", *words, "--sort", "model", "--json")[1]
        return json.loads(out)["rows"]

    both = rows("sum:output", "avg:output", "max:at")
    for name in ("sum:output", "avg:output", "max:at"):
        column = name.replace(":", "_")
        assert [row[column] for row in rows(name)] == [row[column] for row in both]
    assert list(both[0]) == ["model", "count", "sum_output", "avg_output", "max_at"]
    one = json.loads(ask("messages", "--aggregate", "count", "--json")[1])["rows"]
    assert sum(row["count"] for row in both) == one[0]["count"]


def test_hints_name_the_filters_to_leave_out(ask):
    code, out, err = ask("tools", "model=opus", "tool=Bsh", "--since", "7d")
    assert code == 1
    assert "leave out model=opus or tool=Bsh or --since; model~opus matches a part of it" in out
    assert "did you mean Bash?" in err
    assert "--min" not in ask("files", "nowhere.py")[1]


def test_a_length_is_a_range(turnlog):
    def lengths(text):
        words = ("--min", "1", "--length", text, "--limit", "0", "--json")
        out = turnlog("query", "sequences", *words, "--home", SAMPLES)[1]
        return {len(each["tools"]) for each in json.loads(out)["sequences"]}

    assert lengths("2") == lengths(":2") == {2}
    assert lengths("3:4") == {3, 4}
    assert lengths("3:") == {3, 4, 5}


def test_a_series_by_month_adds_up_its_days(turnlog):
    def points(interval):
        words = ("tokens", "--by", interval, "--home", SAMPLES, "--json")
        return json.loads(turnlog("query", "series", *words, TZ="UTC")[1])["points"]

    days, months = points("day"), points("month")
    assert all(point["at"].endswith("-01T00:00:00Z") for point in months)
    assert months[0]["at"][:7] != months[-1]["at"][:7]
    assert len({point["at"] for point in months}) == len(months)
    for month in months:
        value = sum(day["value"] for day in days if day["at"][:7] == month["at"][:7])
        assert month["value"] == value


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
        (("tools", "--by", "nme"), "tool_name"),
        (("tools", "role=user"), "tools have no field 'role'"),
        (("tools", "stauts=error"), "did you mean 'status'? there are tool_name"),
        (("tools", "status=eror"), "did you mean 'error'? there are success"),
        (("tools", "is_error=maybe"), "true or false"),
        (("tools", "duration_ms=long"), "not a number"),
        (("tools", "frost"), "use FIELD=VALUE"),
        (("tools", "at=2026"), "--since and --until"),
        (("entries", "content_type~t"), "content_type=thinking"),
        (("tools", "--aggregate", "sum:at"), "duration_ms"),
        (("tools", "--aggregate", "sum"), "sum needs a field"),
        (("tools", "--aggregate", "median:duration_ms"), "count, sum, avg, min, max"),
        (("entries", "--since", "the frost"), "2026-11-01"),
        (("entries", "content~("), "regular expression"),
        (("entries", "--limit", "-1"), "limit"),
        (('{"resource": "messages", "filter": {"rule": "user"}}',), "did you mean 'role'"),
        (('{"resource": messages}',), "invalid JSON query"),
        (("series", "--timezone", "Mars/Olympus"), "Europe/Berlin"),
        (("sequences", "--pattern", "Read"), "Read -> Edit"),
        (("sequences", "--length", "3:x"), "'3:x' is not A:B"),
        (("sequences", "--length", "1:9"), "lengths from 2 to 5"),
        (("series", "token"), "did you mean tokens?"),
        (("series", "--by", "year"), "'month'"),
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
        options = (resource, "--sort", "at", "--home", tmp_path / "home")
        code, out, _ = turnlog("query", *options, TURNLOG_HOME=str(tmp_path / "own"))
        assert code == 0
        shown = zip(out.splitlines()[1:], told, strict=True)
        assert [line for line, end in shown if not line.rstrip().endswith(f"  {end}")] == []
        out = turnlog("query", *options, "--json", TURNLOG_HOME=str(tmp_path / "own"))[1]
        assert "gist" not in json.loads(out)["rows"][0]  # It is there for those who ask.
