"""Side files: what lies beside a session, and nothing of another's."""

from __future__ import annotations

import pytest

from turnlog.errors import InvalidId
from turnlog.formats import Home, history_log, plans
from turnlog.formats.claude_code.format import process_files
from turnlog.formats.home_files import file_history, owner_of, text_files, todo_owners
from turnlog.formats.walk import DirectoryWalk
from turnlog.sessions.side_files.todos import tasks_of, todos_of

SID = "0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
OTHER = "1ccf1a04-1b4c-43b6-8aa5-79e41db43a68"


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def touch(home, *names):
    for name in names:
        path = home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def relative(home, paths):
    return [str(path.relative_to(home.path)) for path in paths]


def test_files_with_text_are_listed_by_kind(home):
    touch(
        home,
        f"todos/{SID}-agent-{SID}.json",
        f"todos/{SID}-agent-a1.json",
        f"todos/{SID}.txt",
        f"tasks/{SID}/1.json",
        f"tasks/{OTHER}/1.json",
        f"tasks/{SID}/.lock",
        "tasks/1.json",
    )
    assert [name for name, _ in text_files(home, "todos")] == [
        f"todos/{SID}-agent-{SID}.json",
        f"todos/{SID}-agent-a1.json",
    ]
    assert [name for name, _ in text_files(home, "task")] == [
        f"tasks/{SID}/1.json",
        f"tasks/{OTHER}/1.json",
    ]


def test_versions_of_files_are_found_in_both_layouts(home):
    touch(home, f"file-history/{SID}/abc@v1", f"file-history/{OTHER}/x@v1")
    touch(home, f"snapshots/{SID}/def@v1", "sessions/index.json")
    found = file_history(home, SID, DirectoryWalk())
    assert [item.name for item in found] == ["abc@v1", "def@v1"]
    found = file_history(Home(home.path / "sessions"), SID, DirectoryWalk())
    assert [item.name for item in found] == ["def@v1"]


def test_todos_that_may_be_another_sessions_are_not_claimed():
    assert todo_owners("todos/a-agent-x.json") == [("a", "x")]
    assert todo_owners("todos/a-agent-b-agent-c.json") == [("a-agent-b", "c")]
    assert owner_of("todos/a-agent-b-agent-c.json") is None
    assert owner_of("todos/a-agent-b-agent-a-agent-b.json") == "a-agent-b"
    assert todo_owners("todos/a-agent-.json") == todo_owners("todos/a-agent-x") == []


def test_an_id_that_could_leave_the_home_is_refused(home):
    for read in (todos_of, tasks_of, lambda *named: list(file_history(*named, DirectoryWalk()))):
        with pytest.raises(InvalidId):
            read(home, "../x")


def test_side_stores_that_are_no_directories_are_problems_and_no_exceptions(home):
    touch(home, "todos", "plans", "sessions")
    problems = []
    assert todos_of(home, SID, problems=problems) == ()
    assert plans(home, problems=problems) == ()
    assert process_files(home, DirectoryWalk(problems)) == []
    assert [problem.path.name for problem in problems] == ["todos", "plans", "sessions"]


def test_history_plans_and_running_processes_are_listed(home):
    assert history_log(home) is None
    assert plans(home) == ()
    assert process_files(home, DirectoryWalk()) == []
    touch(
        home,
        "history.jsonl",
        "plans/b.md",
        "plans/a.md",
        "plans/a.txt",
        "sessions/4711.json",
        "sessions/99.json",
        "sessions/4711.key",
        "sessions/index.json",
        "sessions/٣.json",  # A digit, but not one a pid is written with.
        f"sessions/{SID}.jsonl",
    )
    assert history_log(home) == home.path / "history.jsonl"
    assert relative(home, plans(home)) == ["plans/a.md", "plans/b.md"]
    assert relative(home, process_files(home, DirectoryWalk())) == [
        "sessions/99.json",
        "sessions/4711.json",
    ]
