"""Every record has the prompt before it in its own thread, and the files changed until the next."""

import json

import pytest

from index.homes import own_index
from mcp_contexts import ONE, ORCHARD, TWO, Log
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.texts import TextKind
from turnlog.query.turns import record_turns


@pytest.fixture
def home(tmp_path):
    with own_index(tmp_path / "own"):
        yield tmp_path / "home"


def edit(log, name):
    return log.call("Edit", "ok", file_path=f"/{name}", old_string="a", new_string="b")


def turns_in(home, path):
    """The prompt and files of each line of a log, by looking them all up at once."""
    offsets, end = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        offsets.append(end)
        end += len(line)
    with open_fresh(find_homes((home,))) as index:
        turns = record_turns(index, [(str(path), offset) for offset in offsets])
        return [
            (prompt_of(index, turn), [path.removeprefix("/") for path in turn.files])
            for turn in turns
        ]


def prompt_of(index, turn):
    if turn.prompt is None:
        return None
    assert turn.prompt_bytes == index.length(turn.prompt)
    (text,) = (each for each in index.texts(turn.prompt) if each.kind == TextKind.PROMPT)
    return text.text


def test_a_turn_ends_before_the_next_prompt_and_the_nearest_files_come_first(home):
    log = Log(home, ONE, ORCHARD, hostile="")
    edit(log, "before").prompt("one")
    for name in "abcd":
        edit(log, name)
    edit(log.prompt("two"), "e").save()
    found = turns_in(home, log.path)
    assert found[:2] == [(None, ["before"])] * 2
    assert found[2] == ("one", ["a", "b", "c"])
    assert found[9] == ("one", ["d", "c", "b"])
    assert found[10] == ("one", ["d", "c", "b"])
    assert found[11:] == [("two", ["e"])] * 3


def test_failed_calls_and_reads_change_nothing(home):
    log = Log(home, ONE, ORCHARD, hostile="").prompt("one")
    log.call("Write", "no", is_error=True, file_path="/failed", content="x")
    log.call("Read", "x", file_path="/read").save()
    assert turns_in(home, log.path) == [("one", [])] * 5


def test_a_subagent_has_turns_of_its_own(home):
    main = edit(Log(home, ONE, ORCHARD, hostile="").prompt("one"), "a").save()
    own = Log(home, ONE, ORCHARD, hostile="", subagent="a1b2c3")
    edit(own.prompt("count"), "b").save()
    assert turns_in(home, main.path) == [("one", ["a"])] * 3
    assert turns_in(home, own.path) == [("count", ["b"])] * 3


def test_threads_in_one_log_are_kept_apart(home):
    log = edit(Log(home, ONE, ORCHARD, hostile="").prompt("one"), "a")
    inner = Log(home, ONE, ORCHARD, hostile="")
    edit(inner.prompt("count"), "b")
    log.lines += [json.dumps(json.loads(line) | {"isSidechain": True}) for line in inner.lines]
    log.count += 100  # The sidechain has uuids of the same kind.
    log.lines[3:] = [line.replace("-1111-4000-", "-1111-4a00-") for line in log.lines[3:]]
    log.answer({"type": "text", "text": "done"}).save()
    found = turns_in(home, log.path)
    assert found[:3] == [("one", ["a"])] * 3
    assert found[3:6] == [("count", ["b"])] * 3
    assert found[6] == ("one", ["a"])


def test_what_is_not_there_is_none(home):
    log = Log(home, ONE, ORCHARD, hostile="").prompt("one").save()
    (home / "plans").mkdir()
    (home / "plans" / "plan.md").write_text("# Plan")
    with open_fresh(find_homes((home,))) as index:
        places = [(str(log.path), 7), ("/nowhere", 0), (str(home / "plans" / "plan.md"), 0)]
        assert record_turns(index, places) == [None] * 3
        assert record_turns(index, []) == []


def test_a_copied_session_has_its_own(home):
    for session in (ONE, TWO):
        log = edit(Log(home, session, ORCHARD, hostile="").prompt(f"of {session}"), session).save()
        assert turns_in(home, log.path) == [(f"of {session}", [session])] * 3
