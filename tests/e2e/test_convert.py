"""The real `claude` goes on with a session that another program wrote, in another layout.

Whatever was said arrives at the API, all of it, in order and once; and what `claude` adds comes
home with the session, behind the lines that it had there, byte for byte.
"""

import json
from datetime import UTC, datetime

import pytest

import turnlog
from e2e.orchard import ID, LONG, MODEL, arrived, write_long_session
from sampling import sampled
from turnlog import build
from turnlog.formats import Home, hash_of
from turnlog.sessions.convert.convert import convert
from turnlog.sessions.session import Session

ASKED = {"apples": "forty-two", "plums": "seven", "figs": "nine"}
AT_MS = 1_767_323_040_000


def flat_lines(project):
    """What is said in LONG, as the flat store's own program says it."""
    yield {"type": "system_init", "timestamp": AT_MS, "cwd": str(project), "model": MODEL}
    for number, (role, kind, words) in enumerate(LONG):
        at = {"timestamp": AT_MS + 1000 * number}
        match kind:
            case "text":
                block = {"type": "text", "text": words}
                yield {"type": role, "uuid": f"msg-{number}", "content": [block]} | at
            case "tool_use":
                asked = {"command": f"cat {words}", "description": "Count"}
                yield {"type": kind, "uuid": words, "name": "Bash", "input": asked} | at
            case _:
                call = next(name for name, answer in ASKED.items() if answer == words)
                yield {"type": kind, "tool_use_id": call, "content": words, "is_error": False} | at


def orchestrated_lines():
    """The same as the orchestrator says it: without ids, also those of calls."""
    for number, (role, kind, words) in enumerate(LONG):
        at = {"timestamp": datetime.fromtimestamp(AT_MS / 1000 + number, UTC).isoformat()}
        match kind:
            case "text":
                usage = {"usage": {"input_tokens": 7, "output_tokens": 3}, "model": MODEL}
                yield {"type": role, "content": words} | at | (usage if role != "user" else {})
            case "tool_use":
                asked = {"command": f"cat {words}", "description": "Count"}
                yield {"type": "tool_call", "tool": "Bash", "arguments": asked} | at
            case _:
                yield {"type": "tool_result", "tool": "Bash", "result": words} | at


def write(path, lines):
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    return path


@pytest.fixture
def flat(claude, tmp_path):
    root = tmp_path / "agent"
    write(root / "sessions" / "abc123.jsonl", flat_lines(claude.project))
    return Session.find((Home(root),), "abc123")


@pytest.fixture
def dated(claude, tmp_path):
    root = tmp_path / "days"
    write(
        root / "projects" / hash_of(str(claude.project)) / "2026-01-02.jsonl", orchestrated_lines()
    )
    return Session.find((Home(root),), "latest")


def said(messages):
    """Give what arrived; the ids of calls are made anew where they were none."""
    return [
        (role, kind, "" if kind == "tool_use" else words) for role, kind, words in arrived(messages)
    ]


EXPECTED = [(role, kind, "" if kind == "tool_use" else words) for role, kind, words in LONG]


@pytest.fixture(params=["flat", "dated"])
def source(request):
    return request.getfixturevalue(request.param)


def test_claude_goes_on_with_a_session_of_another_program(claude, api, read_by_sdk, source):
    done = convert(source, claude.home, "claude", project=claude.project)
    assert len(read_by_sdk(done.id)) == len(LONG)
    ran = claude("--resume", done.id, "-p", "And pears?")
    assert ran.returncode == 0, ran.stderr
    assert said(api.requests[-1]) == [*EXPECTED, ("user", "text", "And pears?")]
    calls, results = pairs(api.requests[-1])
    assert calls == results
    assert len(set(calls)) == len(ASKED)


@pytest.mark.slow
def test_what_claude_added_comes_home_behind_the_old_lines(claude, source, tmp_path):
    lines = [item.record.raw for item in source.items()]
    done = convert(source, claude.home, "claude", project=claude.project)
    claude("--resume", done.id, "-p", "And pears?")
    back = convert(claude.store.session(done.id), tmp_path / "back", source.layout)
    home = Session.find((Home(tmp_path / "back"),), back.id)
    assert home.id == source.id
    found = [item.record.raw for item in home.items()]
    start = found.index(lines[0])
    assert start <= 1  # Before it, at most the head that tells of notes on what is new.
    assert found[start : start + len(lines)] == lines
    assert any(b"And pears?" in line for line in found[start + len(lines) :])


def pairs(messages):
    """Give the ids of calls and of results, in order."""
    blocks = [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return (
        [block["id"] for block in blocks if block["type"] == "tool_use"],
        [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"],
    )


@pytest.mark.parametrize("dialect", sampled(["keep", "native"], 2))
@pytest.mark.parametrize("layout", ["flat", "dated"])
def test_claude_goes_on_with_its_own_session_that_was_away(claude, api, tmp_path, layout, dialect):
    write_long_session(claude)
    own = claude.store.session(ID)
    before = own.path.read_bytes()
    convert(own, tmp_path / "away", layout, dialect=dialect)
    own.path.unlink()
    convert(Session.find((Home(tmp_path / "away"),), ID), claude.home, "claude")
    assert own.path.read_bytes() == before
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    assert arrived(api.requests[-1]) == [*LONG, ("user", "text", "And pears?")]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["flat", "dated"])
def test_claude_goes_on_with_what_turnlog_added_elsewhere(claude, api, tmp_path, layout):
    write_long_session(claude)
    own = claude.store.session(ID)
    convert(own, tmp_path / "away", layout)
    with turnlog.open(tmp_path / "away").resume(ID) as session:
        session.append(build.user("And quinces?"))
        call = build.call("Bash", {"command": "cat quinces", "description": "Count"})
        session.append(build.assistant([build.text("I look."), call], model=MODEL))
        session.append(build.result(call["id"], "three"))
        session.append(build.assistant("Three quinces.", model=MODEL))
    own.path.unlink()
    convert(Session.find((Home(tmp_path / "away"),), ID), claude.home, "claude")
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    sent = arrived(api.requests[-1])
    assert sent[: len(LONG)] == LONG
    assert [(kind, words) for _, kind, words in sent[len(LONG) :] if kind != "tool_use"] == [
        ("text", "And quinces?"),
        ("text", "I look."),
        ("tool_result", "three"),
        ("text", "Three quinces."),
        ("text", "And pears?"),
    ]
