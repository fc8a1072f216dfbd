"""``turnlog show``, run as a person runs it: views, filters, ranges, subagents, how it looks."""

import json
import os
import pty
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from unittest import mock

import jsonschema
import msgspec
import pytest

from cli.screens import Terminal
from sessions.trees import answer, call, line, log_of, record
from turnlog.api.sessions.reading import ShowDocument
from turnlog.cli.app import run
from turnlog.export.conversation import PromptPiece, PromptPieceKind
from turnlog.export.record_blocks import unwrap

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"
ID = "77777777-cccc-4ccc-8ccc-777777777777"
SCHEMA = msgspec.json.schema(ShowDocument)


def said(uuid, parent, text, **fields):
    return record(uuid, parent, message={"role": "user", "content": text}, **fields)


def told(uuid, parent, message_id, text):
    return answer(uuid, parent, message_id, {"type": "text", "text": text})


def replied(uuid, parent, call_id, content, **fields):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content} | fields
    return record(uuid, parent, message={"role": "user", "content": [block]})


@pytest.fixture
def show(turnlog, tmp_path):
    """Write *records* as a session, show it, and give what was printed."""

    def run(*arguments, records=(), subagents=(), code=0, **environ):
        project = tmp_path / "home" / "projects" / "-home-ada-kite"
        project.mkdir(parents=True, exist_ok=True)
        if records:
            (project / f"{ID}.jsonl").write_bytes(log_of(*records))
        for subagent, lines in subagents:
            path = project / ID / "subagents" / f"agent-{subagent}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(log_of(*lines))
        found, out, err = turnlog(
            "show", "7777", "--home", tmp_path / "home", *arguments, **environ
        )
        assert found == code, err
        is_text = not {"--json", "--raw"} & set(arguments)
        return err if code else out.split("\n\n", 1)[1] if is_text else out  # Below its header.

    return run


CONVERSATION = (
    said("q1", None, "First question", timestamp="2026-03-04T10:00:00Z"),
    told("a1", "q1", "m1", "First answer"),
    said("q2", "a1", "Second question", timestamp="2026-03-05T10:00:00Z"),
    answer("a2", "q2", "m2", call("c1", command="make kite"), timestamp="2026-03-05T10:00:01Z"),
    replied("r2", "a2", "c1", "sewn\nflown"),
    told("a3", "r2", "m3", "Second answer"),
)
BRANCHED = (
    *CONVERSATION,
    said("q9", "a1", "Another try"),
    told("a9", "q9", "m9", "Another answer"),
)
COMPACTED = (
    *CONVERSATION,
    record("cut", None, "system", subtype="compact_boundary", logicalParentUuid="a3"),
    said("sum", "cut", "All about kites", isCompactSummary=True),
    said("q4", "sum", "Third question"),
)


# -- which part -----------------------------------------------------------------------------


def test_a_thread_may_be_named_by_any_record_of_it(show):
    out = show("--thread", "a3", records=BRANCHED)
    assert "Second answer" in out
    assert "Another try" not in out
    assert "Another answer" in show()  # The newest tip is the main thread's.
    assert "Second answer" not in show("--thread", "q2")


def test_a_record_that_is_not_there_is_a_mistake(show):
    assert "hint: " in show("--thread", "zz", records=CONVERSATION, code=2)
    for option in ("--at", "--thread"):
        err = show(option, "a", code=2)
        assert "begins the uuids of 3 records" in err
        assert "a1 (assistant)" in err


def test_the_current_thread_is_the_newest_summary_and_what_follows(show):
    out = show("--thread", "current", records=COMPACTED)
    assert out.index("All about kites") < out.index("Third question")
    assert "First question" not in out
    assert "First question" in show("--thread", "whole")


def test_a_current_thread_without_a_summary_is_everything(show):
    assert "First question" in show("--thread", "current", records=CONVERSATION)


def test_all_branches_are_shown_with_where_they_part(show):
    out = show("--thread", "all", records=BRANCHED)
    order = ["First answer", "Another answer", "branch at a1", "Second question", "make kite"]
    places = [out.index(words) for words in order]
    assert places == sorted(places)
    assert out.count("First question") == 1
    assert json.loads(show("--thread", "all", "--json"))["view"] == "all"


def test_info_lists_the_branches_with_where_they_part(show, turnlog, tmp_path):
    show(records=BRANCHED)
    _, out, _ = turnlog("info", "7777", "--home", tmp_path / "home", COLUMNS="120")
    rows = out.splitlines()
    (at,) = (at for at, row in enumerate(rows) if row.startswith(" branches"))
    main, other = rows[at : at + 2]
    assert main.startswith(" branches  a9")
    assert "Second question" in other
    assert "main" in main
    assert "parts at a1, 4 of its own" in other
    assert "hint: read a branch with turnlog show 77777777 --thread RECORD" in out
    rows = json.loads(turnlog("info", "7777", "--home", tmp_path / "home", "--json")[1])
    assert [(row["tip"], row["parting"]) for row in rows["branches"]] == [
        ("a9", None),
        ("a3", "a1"),
    ]


def test_the_thread_up_to_a_record_is_what_led_to_it(show):
    out = show("--thread", "r2", records=BRANCHED)
    assert "First question" in out
    assert "Bash make kite → sewn" in out
    assert "Another try" not in out
    assert "Second answer" not in out


def test_turns_are_counted_from_one_as_in_an_export(show, turnlog, tmp_path):
    out = show("--turns", "2", records=CONVERSATION)
    assert "2 earlier steps omitted" in out
    assert "Second question" in out
    assert "First" not in out
    out = show("--turns", ":1")
    assert "4 later steps omitted" in out
    assert "First answer" in out
    assert "Second" not in out
    assert "First answer" in show("--turns", "1:2")
    err = show("--turns", "3:", code=2)
    assert f"session {ID} has no turns 3:" in err
    assert "hint: it has 2, counted from 1" in err
    for asked in ("1", "2", "1:2", ":1", "2:"):
        words = ("7777", "--turns", asked, "--home", tmp_path / "home")
        exported = turnlog("export", *words)[1]
        for text in ("First answer", "Second answer"):
            assert (text in exported) == (text in show("--turns", asked)), asked


def test_the_last_of_a_thread_are_counted_exactly(show):
    out = show("--last", "1", "--thread", "a3", records=BRANCHED)
    assert "5 earlier steps omitted" in out
    assert "Second answer" in out


def test_the_last_records_of_the_log_say_that_there_are_more(show):
    out = show("--last", "2", records=CONVERSATION)
    assert "earlier steps omitted" in out
    assert "omitted" not in show("--last", "6")
    assert show("--last", "0").strip().startswith("──── earlier")


def test_info_counts_branches_and_no_parallel_calls(show, turnlog, tmp_path):
    parallel = (
        said("p", None, "Look twice"),
        answer("c1", "p", "m", call("x", command="ls")),
        answer("c2", "c1", "m", call("y", command="pwd")),
        replied("r1", "c1", "x", "kites"),
        replied("r2", "c2", "y", "/srv"),
        told("z", "r2", "n", "Two kites"),
    )
    for records in (parallel, BRANCHED):
        show(records=records)
        _, out, _ = turnlog("info", "7777", "--home", tmp_path / "home")
        assert ("on 2 branches" in out) is (records is BRANCHED)


def test_notes_at_the_end_of_a_log_are_not_counted_among_the_last(show):
    notes = [{"type": "mode", "mode": "normal", "sessionId": ID}] * 200
    out = show("--last", "1", records=(*CONVERSATION, *notes))
    assert "Second answer" in out
    assert "earlier steps omitted" in out
    assert "First question" not in out


def test_the_last_that_pass_a_filter_are_the_last_of_those(show):
    out = show("--last", "1", "--prompts", records=CONVERSATION)
    assert "Second question" in out
    assert "1 earlier step omitted" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--last", "2", "--turns", "1:2"),
        ("--at", "a1", "--thread", "current"),
        ("--at", "a1", "--thread", "whole"),
        ("--at", "a1", "--turns", "1"),
        ("--at", "a1", "--last", "2"),
        ("--at", "a1", "--context", "-1"),
        ("--at", "@99999999"),
        ("--at", "nobody@0"),
        ("--context", "2"),
        ("--mark", "kite", "--json"),
        ("--raw", "--json"),
        ("--raw", "--tools", "full"),
        ("--tools", "some"),
        ("--turns", "4:1"),
        ("--turns", "a:b"),
        ("--turns", "-1:"),
        ("--turns", ":"),
        ("--since", "soon"),
        ("--last", "-3"),
        *(
            (f"--{gone}",)
            for gone in (
                "ancestors",
                "depth",
                "around",
                "author",
                "no-system",
                "no-tools",
                "branches",
                "range",
                "full",
            )
        ),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_mistake(show, arguments):
    err = show(*arguments, records=CONVERSATION, code=2)
    assert err.startswith("error: ")
    assert "hint: " in err


def test_a_session_in_logs_that_days_share_is_shown_over_all_of_them(turnlog, tmp_path):
    days = tmp_path / "home" / "projects" / "v_FXjHoCS5zUJmfyn-5v"
    days.mkdir(parents=True)
    other = said("x", None, "Somebody else's", sessionId="99999999-eeee-4eee-8eee-999999999999")
    for day, part in (("2026-03-04", CONVERSATION[:2]), ("2026-03-05", CONVERSATION[2:])):
        own = [each | {"sessionId": ID} for each in part]
        (days / f"{day}.jsonl").write_bytes(log_of(*own, other))
    for arguments in ((), ("--last", "6"), ("--thread", "current"), ("--thread", "a3")):
        _, out, _ = turnlog("show", "7777", "--home", tmp_path / "home", *arguments)
        assert "First question" in out, arguments
        assert "Second answer" in out
        assert "Somebody else" not in out
    _, out, _ = turnlog("show", "7777", "--home", tmp_path / "home", "--last", "1")
    assert "earlier steps omitted" in out
    assert "Second answer" in out


# -- filters --------------------------------------------------------------------------------


def test_without_tools_only_what_was_said_is_left(show):
    out = show("--tools", "none", records=CONVERSATION)
    assert "make kite" not in out
    assert "Second answer" in out
    assert not any(row["calls"] for row in json.loads(show("--tools", "none", "--json"))["records"])


def test_by_time(show, turnlog, tmp_path):
    out = show("--since", "2026-03-05", records=CONVERSATION)
    assert "First question" not in out
    assert "Second question" in out
    out = show("--until", "2026-03-05T10:00:00Z")
    assert "First question" in out
    assert "Second question" not in out
    code, out, _ = turnlog("show", "7777", "--home", tmp_path / "home", "--since", "1h")
    assert code == 1
    assert out.splitlines()[-2:] == ["Nothing to show.", "hint: leave out --since"]


# -- how it looks ---------------------------------------------------------------------------


def test_no_line_is_wider_than_the_terminal_and_none_ends_in_blanks(show):
    words = "kites " * 60
    records = (
        said("q", None, words),
        told("a", "q", "m1", f"- {words}\n    indented {words}\n\n字字字 {'字' * 90}"),
        answer("b", "a", "m2", call("c1", command=words), call("c2", file_path="/p/" + "d/" * 90)),
        replied("r1", "b", "c1", words),
        replied("r2", "b", "c2", f"{words}\n{words}"),
    )
    from rich.cells import cell_len

    places = [("--at", uuid, "--mark", "kites") for uuid in ("q", "a", "b", "r1", "r2")]
    for width in (40, 80, 200):
        for arguments in ((), *places):
            for row in show(*arguments, records=records, COLUMNS=str(width)).splitlines():
                assert cell_len(row) <= width
                assert row == row.rstrip()


def test_at_a_terminal_it_is_paged_in_colour(show, tmp_path):
    show(records=CONVERSATION)
    leader, follower = pty.openpty()
    program = "from turnlog.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "show", "7777", "--home", str(tmp_path / "home")],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={"PATH": os.environ["PATH"], "TERM": "xterm", "PAGER": "cat", "HOME": str(tmp_path)},
    )
    os.close(follower)
    shown = b""
    with suppress(OSError):  # The other end of a terminal that is closed.
        while chunk := os.read(leader, 4096):
            shown += chunk
    os.close(leader)
    assert process.wait(60) == 0
    assert b"\x1b[1mFirst question" in shown
    assert b"Second answer" in shown


def test_a_list_hangs_below_its_own_words(show):
    records = (told("a", None, "m", "- " + "kite " * 30),)
    first, second, *_ = show(records=records).splitlines()
    assert first.startswith("  - kite")
    assert second.startswith("    kite")


def test_a_call_takes_one_line_with_what_it_asked_and_what_came_of_it(show):
    patch = [{"lines": [" same", "-old", "+new", "+newer"]}]
    edited = replied("r", "a", "c", "The file was updated") | {
        "toolUseResult": {"structuredPatch": patch}
    }
    records = (
        answer("a", None, "m", call("c", "Edit", file_path="/home/ada/kite/src/tail.py")),
        edited,
        answer("b", "r", "m2", call("d", "Odd", number=3, many=[1, 2], deep={"a": {"b": 1}})),
        replied("s", "b", "d", "  1\tfirst\n  2\tsecond\n"),
        answer("e", "s", "m3", call("x", "Bash", command="false")),
        replied("t", "e", "x", "it broke", is_error=True),
    )
    out = show(records=[each | {"cwd": "/home/ada/kite"} for each in records])
    assert "  Edit src/tail.py → +2 -1 lines" in out.splitlines()
    assert "  Odd number=3 many=2 items deep=1 field → first +1 line" in out.splitlines()
    assert "  Bash false → ✗ it broke" in out.splitlines()


def test_an_unanswered_call_is_told_where_it_was_made(show):
    records = (
        answer("a", None, "m", call("c", command="sleep 9")),
        said("q", "a", "Never mind"),
        replied("r", "q", "c", "awake after all"),
    )
    out = show(records=records)
    assert out.index("Bash sleep 9 → no result: interrupted") < out.index("Never mind")
    assert "Bash sleep 9 → awake after all" in out


def test_a_long_paste_is_cut_with_a_way_to_see_all_of_it(show):
    paste = "\n".join(f"line {number}" for number in range(500))
    out = show(records=(said("q", None, paste),))
    assert "line 3" in out
    assert "line 499" not in out
    assert "… 476 more lines; use --at q\n" in out
    assert "line 499" in show("--at", "q")
    assert "line 499" in show("--tools", "full")
    one_line = show(records=(said("q", None, "x" * 50_000),))
    assert "more characters; use --at q\n" in one_line
    assert len(one_line) < 5_000


def test_what_the_program_wrapped_is_unwrapped(show):
    command = (
        "<command-message>review is running…</command-message>\n"
        "<command-name>/review</command-name>\n<command-args>src</command-args>"
    )
    records = (
        said("q1", None, command),
        said("q2", "q1", "<local-command-stdout>Done \x1b[1mwell\x1b[22m</local-command-stdout>"),
        said("q3", "q2", "[Request interrupted by user for tool use]"),
        said("q4", "q3", "<ide_opened_file>opened a.py</ide_opened_file>\nGo on"),
        said("q5", "q4", "<b>bold</b> stays"),
        said("q6", "q5", "<bash-input>make</bash-input>"),
    )
    out = show(records=records)
    assert "  /review src" in out.splitlines()
    assert "is running" not in out
    assert "  Done well" in out.splitlines()
    assert "✗ interrupted by the user" in out
    assert "opened a.py" in out
    assert "<b>bold</b> stays" in out
    assert "  ! make" in out.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<command-args></command-args>",
        "<command-name>/x</command-name>",
        "<bash-input>",
    ],
)
def test_unwrapping_never_loses_what_was_typed(text):
    pieces = unwrap(text)
    assert all(piece.text for piece in pieces)
    if "<" not in text and text:
        assert pieces == [PromptPiece(kind=PromptPieceKind.PROMPT, text=text)]


def test_a_gap_in_the_log_is_said_where_it_is(show):
    records = (said("q", None, "Before"), said("x", "lost-record", "After"))
    out = show(records=records)
    assert (
        out.index("Before") < out.index("the record lost-rec before this one") < out.index("After")
    )


def test_nothing_in_a_log_steers_the_terminal_or_the_markup(show):
    evil = "a\x1b[2J\x07 \u202e[red]c[/red] [/] \u2028"
    records = (
        said("q", None, evil),
        answer("a", "q", "m", call("c", evil, command=evil), {"type": "text", "text": evil}),
        replied("r", "a", "c", evil),
        said("s", "lost" + evil, f"<local-command-stdout>{evil}</local-command-stdout>"),
    )
    places = (("--at", uuid, "--mark", "red") for uuid in ("q", "a", "r", "s"))
    for arguments in ((), ("--tools", "full"), ("--thread", "all"), ("--prompts",), *places):
        out = show(*arguments, records=records)
        assert not {"\x1b", "\x07", "\u202e", "\u2028"} & set(out)
        assert "[red]c[/red]" in out


@pytest.mark.parametrize("tag", ["local-command-stdout", "bash-stdout", "bash-stderr"])
def test_what_a_command_printed_keeps_its_lines(show, tag):
    def of_notes(*arguments, **how):
        lines = show(*arguments, **how).splitlines()
        return [line.removeprefix("  ") for line in lines if "of the notes" in line]

    printed = [f"{'  ' * (number % 3)}line {number} of the notes" for number in range(40)]
    records = (
        said("q", None, "<command-name>/release-notes</command-name>"),
        said("o", "q", f"<{tag}>x\n{chr(10).join(printed)}</{tag}>"),
    )
    assert of_notes("--tools", "full", records=records) == printed
    assert of_notes() == printed[:23]
    assert "… 17 more lines; use --at o" in show()
    records = (said("q", None, f"<{tag}>x\n{chr(10).join(printed[:9])}</{tag}>"),)
    assert of_notes(records=records) == printed[:9]


# -- subagents ---------------------------------------------------------------------------------


def subagent_log(name, then=()):
    fields = {"isSidechain": True, "agentId": name}
    first = said(f"{name}-q", None, f"Task of {name}")
    last = told(f"{name}-a", (then or [first])[-1]["uuid"], None, f"Done by {name}")
    return name, [each | fields for each in (first, *then, last)]


WITH_SUBAGENTS = (
    said("q", None, "Ask two"),
    answer("a", "q", "m1", call("c1", "Task", description="One", prompt="Task of a1")),
    answer("b", "a", "m1", call("c2", "Task", description="Two", prompt="Task of a2")),
    replied("r1", "a", "c1", "one is done") | {"toolUseResult": {"agentId": "a1"}},
    replied("r2", "b", "c2", "two is done") | {"toolUseResult": {"agentId": "a2"}},
    told("end", "r2", "m2", "Both are done"),
)


def test_what_leads_to_a_record_of_an_agent_is_found_in_its_log(show):
    subagents = [subagent_log("a1"), subagent_log("a2")]
    out = show("--thread", "a2-q", records=WITH_SUBAGENTS, subagents=subagents)
    assert "in the log of subagent a2 Two" in out
    assert "Task of a2" in out
    assert "of a1" not in out
    found = json.loads(show("--thread", "a2-q", "--json"))
    assert (found["subagent"], [row["uuid"] for row in found["records"]]) == ("a2", ["a2-q"])
    assert "no record's uuid begins with 'nope'" in show("--thread", "nope", code=2)


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_session_without_its_main_log_is_shown_by_its_agents(show, turnlog, tmp_path, is_beside):
    show(records=WITH_SUBAGENTS, subagents=[subagent_log("a1")])
    project = tmp_path / "home" / "projects" / "-home-ada-kite"
    (project / f"{ID}.jsonl").unlink()
    log = project / ID / "subagents" / "agent-a1.jsonl"
    if is_beside:  # As early versions put it: only its records tell whose it is.
        lines = [
            json.dumps(json.loads(each) | {"sessionId": ID})
            for each in log.read_text().splitlines()
        ]
        log.unlink()
        (project / "agent-a1.jsonl").write_text("\n".join(lines) + "\n")
    out = show()
    assert "main log is gone" in out
    assert "subagent a1" in out
    assert "Task of a1" in out
    assert [each["id"] for each in json.loads(show("--json"))["subagents"]] == ["a1"]
    assert "Task of a1" in show("--thread", "a1-q")
    assert "Done by a1" in show("--at", "a1-a")
    assert "Task of a1" in show("--at", "@0", "-C", "0")
    for option in ("--raw", "--last=1"):
        assert f"hint: turnlog show {ID} shows what they did" in show(option, code=2)
    code, out, _ = turnlog("info", ID[:8], "--home", tmp_path / "home")
    assert (code, "main log is gone; only subagent logs are left" in out) == (0, True)
    found = json.loads(turnlog("info", ID[:8], "--json", "--home", tmp_path / "home")[1])
    assert (found["records"], [each["id"] for each in found["subagents"]]) == (0, ["a1"])


def test_an_agent_stands_below_the_call_that_made_it(show):
    nested = [
        answer("a1-c", "a1-q", "n1", call("c3", "Task", description="Deep", prompt="Task of a3")),
        replied("a1-r", "a1-c", "c3", "deep is done") | {"toolUseResult": {"agentId": "a3"}},
    ]
    subagents = [
        subagent_log("a1", then=nested),
        subagent_log("a2"),
        subagent_log("a3"),
        subagent_log("a4"),
    ]
    out = show("--subagents", records=WITH_SUBAGENTS, subagents=subagents)
    order = [
        "Task One",
        "subagent a1 One",
        "  │▌",
        "subagent a3 Deep",
        "  │  │▌",
        "Done by a3",
        "Done by a1",
        "Task Two",
        "Done by a2",
        "Both are done",
        "subagent a4",
        "(its call is not in the logs)",
        "Done by a4",
    ]
    places = [out.index(words) for words in order]
    assert places == sorted(places)
    assert all(out.count(f"Done by a{number}") == 1 for number in range(1, 5))


def test_agents_of_calls_that_are_not_in_this_part_are_counted(show):
    out = show(
        "--subagents",
        "--last",
        "1",
        records=WITH_SUBAGENTS,
        subagents=[subagent_log("a1"), subagent_log("a2")],
    )
    assert "2 subagents of calls not shown here" in out
    assert "Done by" not in out


def test_agents_that_made_each_other_end_all_the_same(show):
    def made(name, other, call_id):
        then = [
            answer(f"{name}-c", f"{name}-q", None, call(call_id, "Task", prompt="x")),
            replied(f"{name}-r", f"{name}-c", call_id, "done")
            | {"toolUseResult": {"agentId": other}},
        ]
        return subagent_log(name, then=then)

    out = show(
        "--subagents",
        records=CONVERSATION,
        subagents=[made("a1", "a2", "x1"), made("a2", "a1", "x2")],
    )
    assert out.count("Done by a1") == out.count("Done by a2") == 1


# -- one record -----------------------------------------------------------------------------


LINES = "\n".join(f"line {number} of it" for number in range(500))
WHOLE = (
    said("q1", None, f"Look:\n{LINES}"),
    answer("t1", "q1", "m1", {"type": "thinking", "thinking": f"Hmm\n{LINES}", "signature": ""}),
    told("a1", "t1", "m1", f"Answer\n{LINES}"),
    answer("c1", "a1", "m1", call("x", "Write", file_path="/tmp/a", content=LINES, mode=[1])),
    replied("r1", "c1", "x", f"Result\n{LINES}"),
    told("a2", "r1", "m2", "The end"),
)


def place_of(out):
    """Give the lines of the record that was asked for, without its bar, below its head."""
    rows = out.splitlines()
    (head,) = (at for at, row in enumerate(rows) if row.startswith("▶"))
    inside = [row for row in rows if row.startswith("┃")]
    assert rows[head + 1 : head + 1 + len(inside)] == inside
    return rows[head], [row[1:].removeprefix(" ") for row in inside]


@pytest.mark.parametrize(
    ("uuid", "head", "first"),
    [
        ("q1", "▶ prompt  q1", "Look:"),
        ("t1", "▶ thinking  t1", "Hmm"),
        ("a1", "▶ response  a1", "Answer"),
        ("c1", "▶ call Write  c1", "file_path: /tmp/a"),
        ("r1", "▶ result Write  r1", "Write /tmp/a"),
    ],
)
def test_a_record_is_shown_whole_whatever_it_is(show, uuid, head, first):
    found, rows = place_of(show("--at", uuid, records=WHOLE))
    assert (found, rows[0]) == (head, first)
    shown = [row.strip() for row in rows]
    start = shown.index("line 0 of it")
    assert shown[start : start + 500] == LINES.splitlines()
    if uuid == "c1":
        assert shown[-1] == "mode: [1]"


def test_around_a_record_are_its_neighbours_cut_short(show):
    out = show("--at", "a2", records=WHOLE)
    before, after = out.split("▶")
    assert (
        before.index("Look") < before.index("Answer") < before.index("Write /tmp/a → Result +500")
    )
    assert before.count("… 493 more lines; use --at ") == 2
    assert before.count("line 3 of it") == 2  # Of the prompt and of the answer.
    assert "line 9 of it" not in before
    assert "Hmm" not in before
    assert "┃ The end\n" in after
    assert "line 499 of it" in show("--at", "a2", "--tools", "full")
    assert "Hmm" in show("--at", "a2", "--thinking", "-C9")


def test_the_number_of_neighbours_is_chosen(show):
    records = CONVERSATION
    out = show("--at", "q2", records=records)
    assert "omitted" not in out
    assert "Second answer" in out
    out = show("--at", "q2", "--context", "1")
    assert "1 earlier step omitted" in out
    assert "First question" not in out
    assert "First answer" in out
    assert "  Bash make kite → sewn +1 line" in out.splitlines()
    assert "Second answer" not in out
    assert "1 later step omitted; -C 10 shows more" in out
    assert show("--at", "q2", "-C", "0").splitlines()[1:] == ["┃ Second question"]


def test_a_call_and_its_result_are_shown_together(show):
    parallel = (
        said("p", None, "Look twice"),
        answer("c1", "p", "m", call("x", command="ls")),
        answer("c2", "c1", "m", call("y", command="pwd")),
        replied("r1", "c1", "x", "kites"),
        replied("r2", "c2", "y", "/srv"),
        told("z", "r2", "n", "Two kites"),
    )
    out = show("--at", "c1", records=parallel)
    assert place_of(out)[1] == ["command: ls"]
    after = out.split("┃")[-1]
    assert after.index("Bash ls → kites") < after.index("Bash pwd → /srv")
    assert after.index("Bash pwd → /srv") < after.index("Two kites")
    out = show("--at", "r2")
    assert place_of(out)[1] == ["Bash pwd", "/srv"]
    assert out.count("pwd") == 1
    assert "Bash ls → kites" in out.split("▶")[0]
    assert place_of(show("--at", "r2", "-C0"))[1] == ["Bash pwd", "/srv"]
    assert "not shown here" not in show("--at", "r1", "-C1")


def test_the_neighbours_are_those_of_the_records_own_branch(show):
    out = show("--at", "q9", records=BRANCHED)
    assert out.index("First answer") < out.index("▶") < out.index("Another answer")
    assert "Second" not in out
    out = show("--at", "q2")
    assert out.index("First answer") < out.index("▶") < out.index("Second answer")
    assert "Another" not in out


def test_filters_choose_the_neighbours_and_not_the_record(show):
    out = show("--at", "r2", "--tools", "none", records=CONVERSATION)
    assert "make kite" not in out
    assert place_of(out)[1] == ["sewn", "flown"]
    out = show("--at", "r2", "--prompts")
    assert "First question" in out
    assert "answer" not in out


def test_a_record_without_a_uuid_is_named_by_its_offset(show):
    title = {"type": "custom-title", "customTitle": "Kites, of all things", "sessionId": ID}
    mode = {"type": "mode", "mode": "normal", "sessionId": ID}
    records = (*CONVERSATION[:2], title, mode, *CONVERSATION[2:])
    start = len(log_of(*CONVERSATION[:2]))
    for offset in (start, start + 5):
        out = show("--at", f"@{offset}", "-C1", records=records)
        assert place_of(out) == (f"▶ title  @{start}", ["Kites, of all things"])
        assert out.index("First answer") < out.index("▶") < out.index("Second question")
    found = json.loads(show("--at", f"@{start}", "--json"))
    assert found["records"][found["place"]]["text"] == "Kites, of all things"
    place = start + len(log_of(title))
    assert json.loads(" ".join(place_of(show("--at", f"@{place}"))[1])) == mode
    assert "no record at byte" in show("--at", f"@{start - 1}", code=2)  # A newline.


def test_a_record_outside_of_the_tree_is_found_by_its_uuid(show):
    odd = {"type": "brand-new", "uuid": "odd-one", "content": "Something else", "sessionId": ID}
    out = show("--at", "odd", records=(*CONVERSATION[:3], odd, *CONVERSATION[3:]))
    assert place_of(out) == ("▶ note  odd-one", ["Something else"])
    assert out.index("Second question") < out.index("▶") < out.index("make kite")


def test_a_record_of_a_subagent_is_shown_in_its_log(show):
    subagents = [subagent_log("a1"), subagent_log("a2")]
    offset = len(log_of(subagents[1][1][0]))
    show(records=WITH_SUBAGENTS, subagents=subagents)
    for name in ("a2-a", f"a2@{offset}", f"agent-a2@{offset}"):
        out = show("--at", name)
        assert out.startswith("──── in the log of subagent a2 Two ────\n")
        assert place_of(out) == ("▶ response  a2-a", ["Done by a2"])
        assert "Task of a2" in out
    assert json.loads(show("--at", "a2-a", "--json"))["subagent"] == "a2"
    assert "2 logs have a record at byte 0" in show("--at", "a@0", code=2)


def test_an_offset_in_several_days_needs_the_day(turnlog, tmp_path):
    days = tmp_path / "home" / "projects" / "v_FXjHoCS5zUJmfyn-5v"
    days.mkdir(parents=True)
    for day, part in (("2026-03-04", CONVERSATION[:2]), ("2026-03-05", CONVERSATION[2:])):
        own = [each | {"sessionId": ID} for each in part]
        (days / f"{day}.jsonl").write_bytes(log_of(*own))
    code, _, err = turnlog("show", "7777", "--home", tmp_path / "home", "--at", "@0")
    assert (code, "name one: 2026-03-04.jsonl@0, 2026-03-05.jsonl@0" in err) == (2, True)
    _, out, _ = turnlog("show", "7777", "--home", tmp_path / "home", "--at", "2026-03-05@0")
    assert place_of(out)[1] == ["Second question"]
    assert "First answer" in out


def test_a_document_has_the_record_between_its_neighbours(show):
    found = json.loads(show("--at", "t1", "-C1", "--json", records=WHOLE))
    assert (found["view"], found["place"]) == ("place", 1)
    assert [row["uuid"] for row in found["records"]] == ["q1", "t1", "a1"]
    assert found["records"][1]["thinking"].startswith("Hmm\nline 0")
    assert (found["earlier"], found["next"], found["total"]) == (0, 2, 4)
    assert json.loads(show("--json"))["place"] is None


def at_terminal(tmp_path, *arguments):
    """Give what a terminal receives."""
    out = Terminal()
    environ = {"PATH": "", "TERM": "xterm", "PAGER": "cat", "HOME": str(tmp_path), "COLUMNS": "80"}
    with mock.patch.dict(os.environ, environ, clear=True), redirect_stdout(out):
        assert run(["show", "7777", "--home", str(tmp_path / "home"), *arguments]) == 0
    return out.text()


def test_words_are_marked_at_a_terminal_only(show, tmp_path):
    records = (
        said("q", None, "Which kites\nare red? Kite, kites."),
        answer("a", "q", "m", call("c", command="fly kites")),
        replied("r", "a", "c", "kites are up"),
    )
    words = ("--mark", 'tool:Bash kites "are red" -up')
    assert "\x1b" not in show("--at", "q", *words, records=records)
    marked = "\x1b[1;33m{}\x1b[0m"
    shown = at_terminal(tmp_path, "--at", "q", *words)
    assert "Which \x1b[0m" + marked.format("kites") in shown
    assert marked.format("are red") in shown
    assert marked.format("Kite") in shown
    assert "Bash\x1b[0m fly " + marked.format("kites") in shown
    assert "are up" in shown
    assert marked.format("kites") in at_terminal(tmp_path, *words)


def test_every_word_is_marked_however_many_there_are(show, tmp_path):
    show(records=(said("q", None, "kite and " * 1000),))
    assert at_terminal(tmp_path, "--at", "q", "--mark", "kite").count("\x1b[1;33mkite") == 1000


# -- documents ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--thread", "current"),
        ("--thread", "all"),
        ("--last", "3"),
        ("--turns", "1:2"),
        ("--thread", "a3"),
        ("--at", "a3"),
        ("--at", "a1-q", "--context", "0"),
        ("--at", "@0"),
        ("--subagents", "--thinking", "--tools", "none"),
    ],
    ids=" ".join,
)
def test_every_view_is_one_document_that_fits_its_schema(show, arguments):
    out = show(*arguments, "--json", records=COMPACTED, subagents=[subagent_log("a1")])
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert document["session"] == ID


def test_a_document_says_what_the_screen_says(show):
    document = json.loads(show("--turns", "2", "--json", records=CONVERSATION))
    _, asked, answered, _ = document["records"]
    assert (asked["number"], asked["author"], asked["meaning"]) == (3, "assistant", "call")
    assert asked["calls"] == [{"id": "c1", "name": "Bash", "input": {"command": "make kite"}}]
    assert answered["results"] == [{"call": "c1", "text": "sewn\nflown", "is_error": False}]
    assert (document["earlier"], document["next"], document["total"]) == (2, None, 6)
    document = json.loads(show("--turns", "1", "--json"))
    assert (document["earlier"], document["next"], document["total"]) == (0, 2, 6)
    gaps = json.loads(show("--json", records=(said("q", None, "A"), said("x", "lost", "B"))))[
        "gaps"
    ]
    assert gaps == [{"record": "x", "named": "lost", "reason": "missing", "bridged_to": "q"}]


def test_what_utf8_cannot_hold_does_not_stop_a_document(show, tmp_path):
    show(records=CONVERSATION)
    (log,) = (tmp_path / "home").rglob(f"{ID}.jsonl")
    odd = call("c", command="\ud88d", **{"\ud88d": [float("nan"), 10**30]})
    log.write_bytes(line(answer("a", None, "m", odd, {"type": "text", "text": "\ud88d"})))
    (row,) = json.loads(show("--json"))["records"]
    assert (row["text"], row["calls"][0]["input"]["command"]) == ("?", "?")


def test_raw_prints_the_lines_of_the_view(show):
    out = show("--raw", "--thread", "q2", records=BRANCHED)
    assert out.encode() == log_of(*CONVERSATION[:3])
    assert show("--raw", "--at", "q2", "-C0").encode() == log_of(CONVERSATION[2])
    assert show("--raw", "--at", "q2", "-C1").encode() == log_of(*CONVERSATION[1:5])


def test_the_samples_look_the_same_as_ever(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--subagents")
    assert out.index("Task Find callers of sunrise") < out.index("subagent a3f09c1")
    assert out.index("subagent a3f09c1") < out.index("It has the same fault")


# -- the header, Markdown and whole calls --------------------------------------------------------


def test_a_header_says_what_it_is(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--last", "1")
    assert out.splitlines()[:4] == [
        "Frost alert sent at noon",
        "f38b2ffc-80a4-4f5a-91c9-bc701e7ea419 · /home/ada/orchard · fix/frost-alert",
        "2026-10-19 08:14 to 08:19 · sonnet-4-5 · $0.08",
        "",
    ]
    _, place, _ = turnlog("show", "f38b", "--home", SAMPLES, "--at", "320be3f8")
    assert place.splitlines()[:4] == out.splitlines()[:4]


def test_a_long_log_is_not_read_for_the_header_of_its_end(show, monkeypatch):
    from turnlog.api.sessions import reading

    monkeypatch.setattr(reading, "_QUICK", 10)
    monkeypatch.setattr(
        "turnlog.sessions.session.Session.tree",
        property(lambda _: pytest.fail("all of it was read")),
    )
    assert "Second answer" in show("--last", "1", records=CONVERSATION)


def test_the_last_steps_begin_with_whole_calls(show):
    out = show("--last", "2", records=CONVERSATION)
    assert "  Bash make kite → sewn +1 line" in out.splitlines()
    assert "Second question" not in out
    rows = json.loads(show("--last", "2", "--json"))["records"]
    assert [row["uuid"] for row in rows] == ["r2", "a3"]
    assert "  Bash make kite → sewn" in show("--last", "2", "--thread", "a3")
    lost = (replied("r", None, "gone", "flown"), told("a", "r", "m", "Done"))
    assert "  result of an earlier call → flown" in show(records=lost).splitlines()


MARKDOWN = """# Plan

Use **bold**, `code` and [a link](https://kites.net/x).
The second line.

- one
- two 字字

| kite | tail |
|---|---|
| red | 字 |

```python
def fly(): return "up"
```

<b>html</b> &#x202e;evil &amp;
![pic](http://x.net/p.png)"""


def plain(shown):
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n")


def test_markdown_is_rendered_at_a_terminal(show, tmp_path):
    show(records=(said("q", None, "**typed** as it is"), told("a", "q", "m", MARKDOWN)))
    for arguments in ((), ("--at", "a")):
        shown = at_terminal(tmp_path, *arguments)
        text = plain(shown).replace("┃", " ")
        assert "**typed** as it is" in text
        assert "**bold**" not in text
        assert "\x1b[1mbold\x1b[0m" in shown
        assert "\x1b[36mcode\x1b[0m" in shown
        assert "\n  Plan\n" in text
        assert "a link (https://kites.net/x).\n  The second line." in text
        assert " • two 字字" in text
        assert " kite  tail\n" in text
        assert " red   字\n" in text
        assert "\x1b]8" not in shown  # No hyperlinks: the address is shown.
        assert 'def fly(): return "up"' in text
        assert "\x1b[94;49mdef" in shown
        assert (
            "<b>html</b> <right-to-left override>evil &\n  [image: pic (http://x.net/p.png)]"
            in text
        )
        assert "\u202e" not in shown
    assert MARKDOWN.splitlines()[2] in show()  # A pipe gets the text itself.


def test_rendered_markdown_fits_the_terminal(show, tmp_path):
    from rich.cells import cell_len

    wide = f"# {'字' * 60}\n\n- {'kites ' * 40}\n\n| a | b |\n|-|-|\n| {'字' * 90} | {'x' * 90} |\n"
    records = (told("a", None, "m", f"{wide}\n```\n{'code ' * 50}\n```\n> {'quote ' * 30}"),)
    show(records=records)
    for arguments in ((), ("--at", "a"), ("--tools", "full")):
        for row in plain(at_terminal(tmp_path, *arguments)).splitlines():
            assert cell_len(row) <= 80
            assert row == row.rstrip()


def test_words_are_marked_in_rendered_markdown(show, tmp_path):
    show(records=(told("a", None, "m", "A **red kite** and `kite`\n\n```\nkite = 1\n```"),))
    shown = at_terminal(tmp_path, "--mark", "kite")
    assert len([part for part in shown.split("\x1b[") if part.endswith("mkite")]) == 3
    assert shown.count("33") >= 3


def test_calls_in_full_have_inputs_outputs_and_diffs(show, tmp_path):
    patch = [{"oldStart": 3, "newStart": 3, "lines": [" same", "-old", "+new"]}]
    edited = replied("r", "a", "c", "The file was updated") | {
        "toolUseResult": {"structuredPatch": patch}
    }
    records = (
        answer("a", None, "m", call("c", "Edit", file_path="/k/tail.py", old_string="old")),
        edited,
        answer("b", "r", "m2", call("d", command="make kite\nmake tail")),
        replied("s", "b", "d", "sewn\n  flown 字"),
        answer("e", "s", "m3", call("x", command="false")),
        replied("t", "e", "x", "it\nbroke", is_error=True),
        answer("f", "t", "m4", call("y", command="sleep")),
    )
    rows = show("--tools", "full", records=records).splitlines()
    at = rows.index("  Edit /k/tail.py → +1 -1 lines")
    assert rows[at + 1 : at + 6] == ["    @@ -3 +3 @@", "     same", "    -old", "    +new", ""]
    at = next(at for at, row in enumerate(rows) if row.startswith("  Bash make kite"))
    assert rows[at + 1 : at + 8] == [
        "    command:",
        "      make kite",
        "      make tail",
        "    output:",
        "      sewn",
        "        flown 字",
        "",
    ]
    assert rows[-2:] == ["  Bash sleep → no result: interrupted", "    command: sleep"]
    shown = at_terminal(tmp_path, "--tools", "full")
    assert "\x1b[32m+new" in shown
    assert "\x1b[31m-old" in shown
    assert "\x1b[31mit" in shown
    assert "+new" not in show()


def test_an_edit_is_shown_whole_as_a_diff(show, tmp_path):
    fields = {"file_path": "/k/tail.py", "old_string": "red\nkite", "new_string": "blue\nkite"}
    show(records=(answer("a", None, "m", call("c", "Edit", **fields)),))
    rows = place_of(show("--at", "a"))[1]
    assert rows == ["file_path: /k/tail.py", "-red", "+blue", " kite"]
    assert "\x1b[32m+blue" in at_terminal(tmp_path, "--at", "a")
