"""Subpaths are any text: none leaves its session's directory, no two share a log, all come back."""

import os
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.claude_agent_sdk.claude_entries import KEY, PROJECT, SESSION, prompt
from turnlog.errors import UsageError
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore
from turnlog.integrations.claude_agent_sdk.keys import Key, read_key, subpath_of

HOSTILE = [
    "..", ".", "../..", "../../../../etc/passwd", "/etc/passwd", "//x", "a//b", "a/", "/", "a/../b",
    "subagents/../../x", "subagents/.", "subagents/agent-a1/", "subagents/agent-a1\0", "\0", "a\0b",
    "C:", "C:\\x", "a\\b", "\\\\server\\share", "con", "NUL", "subagents/aux", "a:b", "a b", " ",
    ".hidden", "a.jsonl", "a.jsonl/b", "a.meta.json", "a.jsonl.zst", "a.meta.json/x", "*", "?", "|",
    "opaque", "opaque/+a", "Opaque/x", "blobs/x", "tool-results/x", "é", "e\u0301", "日本", "🚀",
    "\u2028", "\ud800", "\udfff/x", "\n", "\r\n", "%2E%2E", "+a", "x" * 201, "x" * 255, "é" * 300,
    "a/" * 100 + "b", "A", "subagents/agent-A", "-", "--", "subagents", "subagents/x.y", "..%2f",
    "%", "\x7f", "\u202e", "~",
]  # fmt: skip
PLAIN = ["subagents/agent-a1", "subagents/workflows/run_1/agent-b2", "notes", "a/b/c"]

subpaths = st.one_of(
    st.text(min_size=1, max_size=40),
    st.text(st.sampled_from("./\\\0:%+aA-é\ud800"), min_size=1, max_size=12),
    st.lists(st.sampled_from(["..", ".", "", "subagents", "agent-a", "opaque", "x"]), min_size=1)
    .map("/".join)
    .filter(bool),
    st.sampled_from(HOSTILE + PLAIN),
)


@given(subpaths)
def test_a_subpaths_log_stays_in_its_sessions_directory(subpath):
    key = read_key({**KEY, "subpath": subpath})
    inside = f"projects/{PROJECT}/{SESSION}/"
    assert key.name.startswith(inside)
    parts = key.name.split("/")
    assert all(part not in {"", ".", ".."} and len(part.encode()) <= 255 for part in parts)
    assert "\0" not in key.name
    assert os.path.normpath("/root/" + key.name) == "/root/" + key.name
    assert subpath_of(key.name.removeprefix(inside)) == subpath


@given(st.lists(subpaths, min_size=2, max_size=8, unique=True))
def test_no_two_subpaths_share_a_log_or_stand_in_each_others_way(some):
    names = {read_key({**KEY, "subpath": each}).name for each in some}
    assert len(names) == len(some)
    for name in names:
        assert not any(other.startswith(name + "/") for other in names)


@given(st.text(max_size=30))
def test_a_file_that_no_subpath_has_is_none(name):
    subpath = subpath_of(name + ".jsonl")
    if subpath is not None:
        assert read_key({**KEY, "subpath": subpath}).name.endswith(f"/{name}.jsonl")


@pytest.mark.parametrize("subpath", PLAIN)
def test_plain_subpaths_are_the_paths_they_look_like(subpath):
    name = Key(PROJECT, SESSION, subpath).name
    assert name == f"projects/{PROJECT}/{SESSION}/{subpath}.jsonl"


@settings(max_examples=15)
@given(st.lists(subpaths, min_size=1, max_size=6, unique=True), st.sampled_from([SESSION, "s"]))
def test_whatever_the_subpath_it_is_stored_listed_and_deleted(some, session):
    key = {"project_key": PROJECT, "session_id": session}

    async def main(root):
        store = TurnlogSessionStore(root)
        await store.append(key, [prompt(999)])
        for number, subpath in enumerate(some):
            await store.append({**key, "subpath": subpath}, [prompt(number)])
        again = TurnlogSessionStore(root)
        assert sorted(await again.list_subkeys(key)) == sorted(some)
        for number, subpath in enumerate(some):
            assert await again.load({**key, "subpath": subpath}) == [prompt(number)]
        await again.delete({**key, "subpath": some[0]})
        assert sorted(await store.list_subkeys(key)) == sorted(some[1:])
        assert await store.load({**key, "subpath": some[0]}) is None
        for number, subpath in enumerate(some[1:], 1):
            assert await store.load({**key, "subpath": subpath}) == [prompt(number)]
        assert await store.load(key) == [prompt(999)]
        await again.delete(key)
        assert await store.list_subkeys(key) == []
        assert not [path for path in root.rglob("*") if path.is_file()]

    with tempfile.TemporaryDirectory() as outer:
        root = Path(outer) / "root"
        root.mkdir()
        anyio.run(main, root)
        assert os.listdir(outer) == ["root"]


@pytest.mark.anyio
async def test_all_hostile_subpaths_together(tmp_path):
    store = TurnlogSessionStore(tmp_path / "root")
    for number, subpath in enumerate(HOSTILE):
        await store.append({**KEY, "subpath": subpath}, [prompt(number)])
    assert sorted(await store.list_subkeys(KEY)) == sorted(HOSTILE)
    for number, subpath in enumerate(HOSTILE):
        assert await store.load({**KEY, "subpath": subpath}) == [prompt(number)]
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    assert [path.name for path in (tmp_path / "root" / "projects" / PROJECT).iterdir()] == [SESSION]


@pytest.mark.anyio
async def test_what_is_no_subpaths_log_is_not_listed(tmp_path):
    store = TurnlogSessionStore(tmp_path)
    await store.append({**KEY, "subpath": "subagents/agent-a1"}, [prompt(0)])
    session = tmp_path / "projects" / PROJECT / SESSION
    for name in (
        "tool-results/x.jsonl",
        "blobs/x.jsonl",
        "opaque/x.jsonl",
        "opaque/+%2e.jsonl",
        "opaque/+%ZZ.jsonl",
        "opaque/+plain.jsonl",
        "subagents/agent-a1.jsonl.original-20260101T000000Z",
        "subagents/.agent-a1.jsonl.repair-1",
        "subagents/agent-a1.meta.json",
        "subagents/a.b.jsonl",
        "x.txt",
    ):
        (session / name).parent.mkdir(exist_ok=True)
        (session / name).write_text('{"type":"x"}\n')
    assert await store.list_subkeys(KEY) == ["subagents/agent-a1"]


@pytest.mark.parametrize("key", [{**KEY, "subpath": None}, dict(KEY)])
def test_no_subpath_is_the_main_log(key):
    assert read_key(key) == Key(PROJECT, SESSION)


def test_an_empty_subpath_is_refused():
    with pytest.raises(UsageError, match="subpath is empty") as caught:
        read_key({**KEY, "subpath": ""})
    assert "subagents/agent-" in caught.value.hint
