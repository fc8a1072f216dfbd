"""Side files: what lies beside a session, and nothing of another's."""

from __future__ import annotations

import pytest

from turnlog.errors import InvalidId
from turnlog.formats import Home, SideFiles, history_log, plans, program_files, side_files
from turnlog.formats.claude_code.format import process_files
from turnlog.formats.walk import DirectoryWalk

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


def test_a_session_without_side_files_has_none(home):
    assert side_files(home, SID) == SideFiles(SID, (), None, None, None, (), (), ())
    assert side_files(home, SID).paths == ()


def test_everything_beside_a_session_is_listed(home):
    touch(
        home,
        f"todos/{SID}-agent-{SID}.json",
        f"todos/{SID}-agent-a1.json",
        f"todos/{OTHER}-agent-a1.json",
        f"todos/{SID}.json",
        f"tasks/{SID}/1.json",
        f"file-history/{SID}/abc@v1",
        f"session-env/{SID}/x",
        f"session-env/{OTHER}/x",
        f"projects/-p/{SID}/tool-results/b.txt",
        f"projects/-p/{SID}/tool-results/a.jsonl",
        f"projects/-q/{SID}/tool-results/deep/c.json",
        f"projects/-p/{SID}/subagents/agent-a1.meta.json",
        f"projects/-p/{SID}/subagents/agent-a1.jsonl",
        f"projects/-p/{SID}/subagents/workflows/w/agent-a2.meta.json",
        f"projects/-p/{OTHER}/tool-results/z.txt",
        f"sessions/{SID}.meta.json",
    )
    side = side_files(home, SID)
    assert relative(home, side.todos) == [
        f"todos/{SID}-agent-{SID}.json",
        f"todos/{SID}-agent-a1.json",
    ]
    assert side.tasks == home.path / "tasks" / SID
    assert side.file_history == home.path / "file-history" / SID
    assert side.session_env == home.path / "session-env" / SID
    assert relative(home, side.tool_results) == [
        f"projects/-p/{SID}/tool-results/a.jsonl",
        f"projects/-p/{SID}/tool-results/b.txt",
        f"projects/-q/{SID}/tool-results/deep/c.json",
    ]
    assert relative(home, side.subagent_metas) == [
        f"projects/-p/{SID}/subagents/agent-a1.meta.json",
        f"projects/-p/{SID}/subagents/workflows/w/agent-a2.meta.json",
    ]
    assert relative(home, side.metas) == [f"sessions/{SID}.meta.json"]
    assert len(side.paths) == 11
    assert OTHER not in str(side)


def test_todos_that_may_be_another_sessions_are_not_claimed(home):
    touch(
        home,
        "todos/a-agent-x.json",
        "todos/a-agent-b-agent-c.json",
        "todos/a-agent-b-agent-a-agent-b.json",
        "todos/a-agent-.json",
    )
    assert relative(home, side_files(home, "a").todos) == ["todos/a-agent-x.json"]
    assert relative(home, side_files(home, "a-agent-b").todos) == [
        "todos/a-agent-b-agent-a-agent-b.json",
        "todos/a-agent-b-agent-c.json",
    ]


def test_links_inside_side_files_do_not_lead_out_of_them(home, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").touch()
    touch(home, f"projects/-p/{SID}/tool-results/a.txt")
    (home.path / "projects/-p" / SID / "tool-results" / "way-out").symlink_to(outside)
    assert [path.name for path in side_files(home, SID).tool_results] == ["a.txt"]


def test_an_id_that_could_leave_the_home_is_refused(home):
    with pytest.raises(InvalidId):
        side_files(home, "../x")


def test_side_stores_that_are_no_directories_are_problems_and_no_exceptions(home):
    touch(home, "projects", "todos", "plans", "sessions", "tasks")
    problems = []
    assert side_files(home, SID, problems=problems).paths == ()
    assert plans(home, problems=problems) == ()
    assert process_files(home, DirectoryWalk(problems)) == []
    assert [problem.path.name for problem in problems] == [
        "projects",
        "todos",
        "plans",
        "sessions",
    ]


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


def test_what_is_the_programs_own_is_recognised_and_nothing_else(home):
    own = ["config.json", "settings.json", "cache/x", "plugins/a/b", "skills/c/SKILL.md"]
    touch(home, *own, "projects/-p/x.jsonl", "todos/x", "history.jsonl")
    assert relative(home, program_files(home)) == sorted(name.split("/")[0] for name in own)
