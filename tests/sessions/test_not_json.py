"""What JSON does not have is refused before a byte is written, by every way to append."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from pathlib import Path

import pytest

import turnlog
from turnlog.errors import NotSerialisable, UsageError
from turnlog.sessions.writing import build

NOT_JSON = {
    "a set": {1, 2},
    "bytes": b"x",
    "a number as key": {5: "five"},
    "None as key": {None: 1},
    "a date": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "a uuid": uuid.UUID(int=5),
    "a decimal": decimal.Decimal("1.5"),
    "an object": object(),
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "half a character, and a set": ["\ud800", {1}],
    "half a character, and a number as key": ["\ud800", {5: 1}],
    "a set deep inside": [{"a": [{"b": ({1},)}]}],
}


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
def test_it_is_refused_and_nothing_is_written(tmp_path, value):
    store = turnlog.open(tmp_path / "root")
    bad = build.user("bad") | {"more": value}
    for layout in ("claude", "dated", "flat"):
        with store.create(project=tmp_path, layout=layout) as session:
            with pytest.raises(NotSerialisable) as told:
                session.append_many([build.user("one"), bad])
            assert told.value.hint
            assert b"one" not in session.path.read_bytes()
            with pytest.raises(NotSerialisable):
                turnlog.BufferedSession(session).append(bad)
    with turnlog.open_log(tmp_path / "log.jsonl") as log, pytest.raises(NotSerialisable):
        log.append(bad)


@pytest.mark.parametrize(
    "value", [(1, 2), [], {}, None, True, 2**63, -1.5, "\ud800", "é", {"": [{"a": "b"}]}]
)
def test_what_json_has_is_written(tmp_path, value):
    with turnlog.open_log(tmp_path / "log.jsonl") as log:
        log.append({"type": "user", "more": value})
    (_, item) = turnlog.read_log(tmp_path / "log.jsonl")
    found = item.record.fields["more"]
    assert found == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: build.user(b"x"),
        lambda: build.user(None),
        lambda: build.user(5),
        lambda: build.user(["text"]),
        lambda: build.user([build.text("a"), 5]),
        lambda: build.assistant(b"x", model="m"),
        lambda: build.assistant(None, model="m"),
        lambda: build.text(b"x"),
        lambda: build.thinking(None),
        lambda: build.call("Bash", "ls"),
        lambda: build.call(None, {}),
        lambda: build.system(b"x"),
        lambda: build.title(5),
        lambda: build.tag(None),
        lambda: build.summary(None, leaf_uuid="x"),
        lambda: turnlog.cost(None, "claude-sonnet-4-5"),
        lambda: turnlog.cost(5, "claude-sonnet-4-5"),
        lambda: turnlog.cost({"input_tokens": 5}, None),
    ],
)
def test_a_mistake_is_told_by_an_error_with_a_way_out(mistake):
    with pytest.raises(UsageError) as told:
        mistake()
    assert told.value.hint


def test_blocks_may_come_from_a_generator():
    made = build.user(build.text(word) for word in ("a", "b"))
    assert [block["text"] for block in made["message"]["content"]] == ["a", "b"]


def test_hints_of_the_library_name_no_options():
    """The command line says its own. A whole command, ``turnlog verify --deep``, may."""
    source = Path(turnlog.__file__).parent
    faces = {"cli", "mcp", "web", "loopback.py"}
    hints = [
        hint
        for path in source.rglob("*.py")
        if path.relative_to(source).parts[0] not in faces
        for hint in re.findall(r"\bhint=\(?\s*f?\"([^\"]*)\"", path.read_text())
    ]
    assert len(hints) > 100
    assert [each for each in hints if re.search(r"(^|[;,:]) ?[^;,:]*--[a-z]", _without(each))] == []


def _without(hint):
    """Return *hint* without the commands in it."""
    return re.sub(r"\b(turnlog|claude) [^;,]*", "", hint)
