"""A prompt is what a person typed: every command counts the same ones."""

import json
from itertools import count

import pytest

from index.homes import own_index
from mcp_contexts import asked, desk_of
from turnlog.formats import find_homes
from turnlog.mcp.tools.turns import TURNS

ONE, TWO = (f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "12")
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
TYPED = {
    "text": "Prune the pear tree",
    "a command": "<command-name>/model</command-name>\n<command-message>model</command-message>",
    "a command with its message first": (
        "<command-message>review is running…</command-message>\n"
        "<command-name>/review</command-name>\n<command-args>src</command-args>"
    ),
    "a line for the shell": "<bash-input>ls</bash-input>",
    "an image": [PIXEL],
    "text beside what an editor has open": [
        {"type": "text", "text": "<ide_opened_file>tree.py</ide_opened_file>"},
        {"type": "text", "text": "Why is it bare?"},
    ],
    "text behind a reminder": "<system-reminder>Be kind.</system-reminder>\nAnd the roots?",
    "somebody's own tag": "<orchard>What is planted here?</orchard>",
}
UNTYPED = {
    "an editor's word": [{"type": "text", "text": "<ide_selection>x</ide_selection>"}],
    "a reminder": "<system-reminder>Be kind.</system-reminder>",
    "output": "<local-command-stdout>Set model to opus</local-command-stdout>",
    "errors": "<local-command-stderr>no such model</local-command-stderr>",
    "a shell's output": "<bash-stdout>pear.py</bash-stdout><bash-stderr></bash-stderr>",
    "a notification": (
        "<task-notification><summary>It ended</summary></task-notification>\n"
        "Read the output file to retrieve the result: /tmp/t1.output"
    ),
    "an interruption": [{"type": "text", "text": "[Request interrupted by user for tool use]"}],
    "a result": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}],
}
MARKED = {
    "notification": {"origin": {"kind": "task-notification"}},
    "system": {"promptSource": "system"},
    "peer": {"origin": {"kind": "peer", "from": "ada"}},
    "meta": {"isMeta": True},
    "summary": {"isCompactSummary": True},
    "side": {"isSidechain": True},
    "subagent": {"isSidechain": True, "agentId": "a1b2c3"},
}


class Log:
    """A session, written record by record, each below the one before."""

    def __init__(self, session):
        self.session, self.lines, self.tip = session, [], None
        self._numbers = count(1)

    def add(self, kind="user", content=None, **more):
        number = next(self._numbers)
        uuid = f"{number:08x}-{self.session[0] * 4}-4000-8000-{number:012x}"
        fields = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": self.tip,
            "sessionId": self.session,
            "timestamp": f"2026-03-04T{10 + number // 60}:{number % 60:02}:00.000Z",
            "cwd": "/home/ada/orchard",
            "isSidechain": False,
        }
        if content is not None:
            fields["message"] = {"role": kind, "content": content}
        self.lines.append(fields | more)
        if not more.get("isSidechain"):
            self.tip = uuid
        return uuid

    def answer(self, text):
        block = {"type": "text", "text": text}
        self.add("assistant", [block])

    def write(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(line) + "\n" for line in self.lines)
        (directory / f"{self.session}.jsonl").write_text(lines)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("prompts") / "home"
    one, two = Log(ONE), Log(TWO)
    one.add("system", subtype="informational", content="The orchard is open.")
    for text in TYPED.values():
        one.add(content=text)
        one.answer("So it is.")
        for other in UNTYPED.values():
            one.add(content=other)
    for marks in MARKED.values():
        one.add(content="Prune the plum tree", **marks)
    branching = one.tip
    one.add(content="A way that was left")
    one.tip = branching
    one.add(content="The way that was taken")
    two.add(content=UNTYPED["a notification"])
    two.add(content=TYPED["a command"])
    two.add(content="Look for pears", isSidechain=True)
    two.answer("There are none.")
    project = home / "projects" / "-home-ada-orchard"
    one.write(project)
    two.write(project)
    return home


@pytest.fixture(scope="module")
def expected():
    return {ONE: len(TYPED) + 2, TWO: 1}


def document(turnlog, home, command, *arguments):
    code, out, err = turnlog(command, *arguments, "--home", home, "--json")
    assert code == 0, err
    return json.loads(out)


def test_every_command_counts_the_same_prompts(turnlog, home, expected):
    total = sum(expected.values())
    listed = document(turnlog, home, "sessions", "--wide")["sessions"]
    assert {row["id"]: row["prompts"] for row in listed} == expected
    assert [row["prompts"] for row in document(turnlog, home, "projects")["projects"]] == [total]
    views = "SELECT (SELECT sum(prompts) FROM v_sessions), (SELECT count(*) FROM v_prompts)"
    assert document(turnlog, home, "sql", views)["rows"] == [[total, total]]
    found = document(turnlog, home, "insights", "--since", "2020-01-01")
    assert found["overview"]["prompts"] == total
    assert found["turns"]["turns"] == total
    assert found["interruptions"]["interruptions"] == len(TYPED)
    said = document(turnlog, home, "query", "messages", "role=user", "--by", "author")
    assert {row["author"]: row["count"] for row in said["rows"]} == {"human": total, "caller": 3}


@pytest.mark.parametrize("session", [ONE, TWO])
def test_one_session_has_as_many_prompts_and_turns(turnlog, home, expected, session):
    about = document(turnlog, home, "info", session)
    assert about["prompts"] == about["turns"] == expected[session]
    shown = document(turnlog, home, "show", session, "--prompts")["records"]
    assert len(shown) == expected[session]
    _, out, _ = turnlog("show", session, "--prompts", "--home", home)
    assert out.count("▌") == expected[session]


def test_what_stands_before_the_first_prompt_is_no_turn(turnlog, home, expected):
    _, out, _ = turnlog("export", ONE, "--format", "json", "--home", home)
    numbers = [turn["number"] for turn in json.loads(out)["turns"]]
    assert numbers == [*range(1, expected[ONE])]  # One stands on another branch.
    _, out, _ = turnlog("export", TWO, "--format", "json", "--home", home)
    before, only = json.loads(out)["turns"]
    assert (before["number"], only["number"]) == (0, 1)
    assert [block["kind"] for block in before["blocks"]] == ["note", "note"]
    code, _, err = turnlog("export", TWO, "--turns", "2", "--home", home)
    assert code == 2
    assert "it has 1" in err


def test_the_server_has_as_many_turns(home, expected, tmp_path):
    with own_index(tmp_path):
        desk = desk_of(find_homes((home,)), scope=None)
        for session, prompts in expected.items():
            assert asked(desk, TURNS, session=session)["turns"] == prompts


def test_what_the_program_wrote_is_still_shown_and_gives_no_title(turnlog, home):
    _, out, _ = turnlog("show", ONE, "--home", home)
    for words in ("Set model to opus", "It ended", "✗ interrupted by the user"):
        assert words in out
    titles = {row["id"]: row["title"] for row in document(turnlog, home, "sessions")["sessions"]}
    assert titles == {ONE: "Prune the pear tree", TWO: "/model"}


def test_each_prompt_behind_a_figure_has_words(turnlog, home, expected):
    found = document(turnlog, home, "insights", "--since", "2020-01-01", "--explain", "prompts")
    words = [row["what"] for row in found["rows"]]
    assert len(words) == sum(expected.values())
    assert "[an image]" in words
    assert all(words)
