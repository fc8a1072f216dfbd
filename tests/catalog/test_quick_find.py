"""What a palette lists while someone types."""

from datetime import UTC, datetime

import pytest

from mcp_contexts import Log
from turnlog.catalog.names import matching_projects
from turnlog.catalog.quick_find import quick_find
from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh

NAMES = ("/home/ada/entire-graph", "/work/entire-graph", "/work/graph", "C:\\work\\Graph")


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    for number, place in enumerate(NAMES, 1):
        session = f"{number:08x}-bbbb-4bbb-8bbb-{number:012x}"
        Log(tmp_path / "home", session, place, hostile="").prompt(f"Plant plum {number}").save()
    with open_fresh(find_homes((tmp_path / "home",))) as opened:
        yield opened


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("entire-graph", NAMES[:2]),
        ("ENTIRE-graph", NAMES[:2]),
        ("ada/entire-graph", NAMES[:1]),
        ("graph", [NAMES[2]]),
        ("Graph", [NAMES[3]]),
        ("entire", NAMES[:2]),
        ("/work", NAMES[1:3]),
        ("nowhere", []),
        ("/nowhere", []),
    ],
)
def test_a_project_is_known_by_name_and_path(index, typed, expected):
    assert sorted(matching_projects(index.db, typed)) == sorted(expected)


def test_sessions_are_found_by_words_and_by_id(index):
    def found(words):
        return [row.id[:8] for row in quick_find(index, words).sessions]

    assert sorted(found("plant PL")) == ["00000001", "00000002", "00000003", "00000004"]
    assert found("plum 3") == ["00000003"]
    assert found("00000002") == ["00000002"]
    assert found("pear") == []
    both = quick_find(index, "entire")
    assert (both.sessions, both.projects) == ([], sorted(NAMES[:2]))
    assert len(quick_find(index, "plum", limit=2).sessions) == 2
    assert quick_find(index, "").sessions[0].last_active_at < datetime.now(UTC)
