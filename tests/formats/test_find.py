"""Finding: mixed layouts, untidy disks, each log once."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from turnlog.formats import Home, find_everywhere, find_logs

SID = "0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
OTHER = "1ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
HASH = "v_FXjHoCS5zUJmfyn-5v"


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def touch(home, *names):
    for name in names:
        path = home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def told(home, problems=None):
    """What was found, as one line a log: path, layout, kind, session, subagent, project, ending."""
    return [
        (
            str(log.path.relative_to(home.path)),
            log.layout,
            log.kind,
            log.session_id,
            log.agent_id,
            log.project_key,
            log.compression,
        )
        for log in find_logs(home, problems=problems)
    ]


def names(home, problems=None):
    return [line[0] for line in told(home, problems)]


def noted(home):
    problems = []
    list(find_logs(home, problems=problems))
    return {str(each.path.relative_to(home.path)): each.reason for each in problems}


def test_claude_and_dated_logs_live_side_by_side_in_one_home(home):
    touch(
        home,
        f"projects/-p/{SID}.jsonl",
        f"projects/-p/{OTHER}.jsonl.zst",
        "projects/-p/agent-a1.jsonl",
        f"projects/-p/{SID}/subagents/agent-a2.jsonl",
        f"projects/-p/{SID}/subagents/agent-a2.meta.json",
        f"projects/-p/{SID}/subagents/workflows/w1/agent-a3.jsonl.gz",
        f"projects/-p/{SID}/subagents/workflows/w1/journal.jsonl",
        f"projects/-p/{SID}/tool-results/out.jsonl",
        "projects/-p/2025-11-15.jsonl",
        f"projects/{HASH}/2025-11-16.jsonl",
        f"projects/{HASH}/2025-11-17.jsonl.gz",
        "history.jsonl",
    )
    problems = []
    assert told(home, problems) == [
        (f"projects/-p/{SID}.jsonl", "claude", "session", SID, None, "-p", None),
        (f"projects/-p/{OTHER}.jsonl.zst", "claude", "session", OTHER, None, "-p", "zst"),
        ("projects/-p/2025-11-15.jsonl", "dated", "day", None, None, "-p", None),
        ("projects/-p/agent-a1.jsonl", "claude", "subagent", None, "a1", "-p", None),
        (
            f"projects/-p/{SID}/subagents/agent-a2.jsonl",
            "claude",
            "subagent",
            SID,
            "a2",
            "-p",
            None,
        ),
        (
            f"projects/-p/{SID}/subagents/workflows/w1/agent-a3.jsonl.gz",
            *("claude", "subagent", SID, "a3", "-p", "gz"),
        ),
        (f"projects/{HASH}/2025-11-16.jsonl", "dated", "day", None, None, HASH, None),
        (f"projects/{HASH}/2025-11-17.jsonl.gz", "dated", "day", None, None, HASH, "gz"),
    ]
    assert problems == []


def test_a_flat_store_shares_its_directory_with_claude_codes_pid_files(home):
    touch(
        home,
        "projects/-p/x.jsonl",
        "sessions/one.jsonl",
        "sessions/one.meta.json",
        "sessions/index.json",
        "sessions/4711.json",
        "sessions/4711.key",
        "sessions/compressed/two.jsonl.gz",
    )
    problems = []
    assert told(home, problems) == [
        ("projects/-p/x.jsonl", "claude", "session", "x", None, "-p", None),
        ("sessions/one.jsonl", "flat", "session", "one", None, None, None),
        ("sessions/compressed/two.jsonl.gz", "flat", "session", "two", None, None, "gz"),
    ]
    assert problems == []


@pytest.mark.parametrize("sign", ["index.json", "one.meta.json"])
def test_a_home_may_itself_be_a_flat_store(home, sign):
    touch(home, "one.jsonl", "compressed/two.jsonl.gz", sign)
    assert names(home) == ["one.jsonl", "compressed/two.jsonl.gz"]
    touch(home, "projects/-p/x.jsonl")
    assert names(home) == ["one.jsonl", "compressed/two.jsonl.gz", "projects/-p/x.jsonl"]


def test_a_bare_directory_of_logs_is_a_home_too(home):
    touch(
        home,
        "one.jsonl",
        "agent-a1.jsonl",
        "2025-11-16.jsonl",
        f"{SID}/subagents/agent-a2.jsonl",
        "one/subagents/agent-a3.jsonl",
        "unrelated/subagents/agent-a4.jsonl",
    )
    assert told(home) == [
        ("2025-11-16.jsonl", "dated", "day", None, None, None, None),
        ("agent-a1.jsonl", "flat", "subagent", None, "a1", None, None),
        ("one.jsonl", "flat", "session", "one", None, None, None),
        (f"{SID}/subagents/agent-a2.jsonl", "flat", "subagent", SID, "a2", None, None),
        ("one/subagents/agent-a3.jsonl", "flat", "subagent", "one", "a3", None, None),
    ]


def test_logs_at_the_top_of_a_claude_home_are_not_sessions(home):
    touch(home, "projects/-p/x.jsonl", "stray.jsonl", "history.jsonl")
    assert names(home) == ["projects/-p/x.jsonl"]


def test_copies_put_aside_and_unfinished_files_are_not_logs(home):
    touch(
        home,
        "projects/-p/x.jsonl",
        "projects/-p/x.jsonl.original-20251116T000000Z",
        "projects/-p/x.jsonl.quarantine-20251116T000000Z",
        "projects/-p/.tmp-x.jsonl",
        "projects/-p/x.jsonl.tmp",
        "projects/-p/sessions-index.json",
        "projects/.hidden/y.jsonl",
    )
    assert names(home) == ["projects/-p/x.jsonl"]
    assert noted(home) == {}


def test_names_that_no_log_bears_are_reported(home):
    touch(home, "projects/-p/my notes.jsonl", f"projects/-p/{SID}/subagents/{OTHER}.jsonl")
    assert names(home) == []
    assert set(noted(home)) == {
        "projects/-p/my notes.jsonl",
        f"projects/-p/{SID}/subagents/{OTHER}.jsonl",
    }


def test_the_order_does_not_depend_on_the_disk(home):
    for number in (5, 3, 9, 1):
        touch(home, f"projects/-{number}/{number}.jsonl", f"projects/-{number}/a.jsonl")
    found = names(home)
    assert found == sorted(found)
    assert len(found) == 8


def test_an_empty_or_absent_home_holds_nothing(home):
    assert names(home) == []
    assert noted(home) == {}
    problems = []
    assert list(find_logs(Home(home.path / "absent"), problems=problems)) == []
    assert [problem.path.name for problem in problems] == ["absent"]


def test_searching_without_a_list_of_problems_is_fine(home):
    (home.path / "projects").touch()
    assert list(find_logs(home)) == []


def test_things_that_are_not_regular_files_are_skipped_and_reported(home):
    touch(home, "projects/-p/x.jsonl", "projects/-p/dir.jsonl/inner.jsonl")
    project = home.path / "projects" / "-p"
    os.mkfifo(project / "fifo.jsonl")
    (project / "gone.jsonl").symlink_to("nowhere")
    (project / "null.jsonl").symlink_to("/dev/null")
    (project / "round.jsonl").symlink_to("round.jsonl")
    assert names(home) == ["projects/-p/x.jsonl"]
    reasons = noted(home)
    assert set(reasons) == {
        f"projects/-p/{name}.jsonl" for name in ("dir", "fifo", "gone", "null", "round")
    }
    assert reasons["projects/-p/fifo.jsonl"] == "a FIFO, not a log"
    assert reasons["projects/-p/dir.jsonl"] == "a directory, not a log"
    assert "gone" in reasons["projects/-p/gone.jsonl"]
    assert "device" in reasons["projects/-p/null.jsonl"]


def test_a_socket_is_not_a_log(home, monkeypatch):
    touch(home, "projects/-p/x.jsonl")
    monkeypatch.chdir(home.path / "projects" / "-p")  # A socket's path must be short.
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s.jsonl")
        assert noted(home) == {"projects/-p/s.jsonl": "a socket, not a log"}


def test_a_file_or_a_broken_link_in_place_of_a_directory_is_reported(home):
    (home.path / "projects").touch()
    (home.path / "sessions").symlink_to("nowhere")
    assert set(noted(home)) == {"projects", "sessions"}
    assert names(home) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_without_permission_is_reported_and_the_search_goes_on(home):
    touch(home, "projects/-a/x.jsonl", "projects/-b/y.jsonl")
    closed = home.path / "projects" / "-a"
    closed.chmod(0)
    try:
        assert names(home) == ["projects/-b/y.jsonl"]
        assert set(noted(home)) == {"projects/-a"}
    finally:
        closed.chmod(0o700)


def test_a_directory_that_cannot_be_listed_is_reported_and_the_search_goes_on(home, monkeypatch):
    touch(home, "projects/-a/x.jsonl", "projects/-b/y.jsonl")
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "-a":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(home) == ["projects/-b/y.jsonl"]
    assert noted(home) == {"projects/-a": "permission denied"}


def test_a_listing_that_fails_halfway_keeps_what_it_gave(home, monkeypatch):
    touch(home, "projects/-a/x.jsonl", "projects/-a/y.jsonl")
    scandir = os.scandir

    class Failing:
        def __init__(self, path):
            self.inner = scandir(path)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            self.inner.close()

        def __iter__(self):
            yield next(self.inner)
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(
        os, "scandir", lambda path: (Failing if Path(path).name == "-a" else scandir)(path)
    )
    assert len(names(home)) == 1
    assert noted(home) == {"projects/-a": "input/output error"}


def test_a_directory_that_vanishes_meanwhile_is_no_problem(home):
    touch(home, "projects/-a/x.jsonl", "projects/-b/y.jsonl")
    problems = []
    search = find_logs(home, problems=problems)
    assert next(search).path.name == "x.jsonl"
    (home.path / "projects/-b/y.jsonl").unlink()
    (home.path / "projects/-b").rmdir()
    assert list(search) == []
    assert problems == []


def test_links_in_a_circle_end(home):
    touch(home, f"projects/-p/{SID}.jsonl", f"projects/-p/{SID}/subagents/agent-a1.jsonl")
    subagents = home.path / "projects/-p" / SID / "subagents"
    (subagents / "self").symlink_to(subagents)
    (subagents / "up").symlink_to(home.path)
    (home.path / "projects" / "-again").symlink_to(home.path / "projects")
    assert names(home) == [
        f"projects/-p/{SID}.jsonl",
        f"projects/-p/{SID}/subagents/agent-a1.jsonl",
    ]
    assert noted(home) == {}


def test_a_log_is_known_by_its_true_place_and_not_by_links_to_it(home):
    touch(home, "projects/-true/x.jsonl")
    (home.path / "projects" / "-alias").symlink_to("-true")
    (home.path / "projects" / "-other").mkdir()
    (home.path / "projects" / "-other" / "x.jsonl").symlink_to("../-true/x.jsonl")
    assert names(home) == ["projects/-true/x.jsonl"]


def test_linked_directories_and_files_from_elsewhere_are_read(home, tmp_path):
    away = Home(tmp_path / "away")
    touch(away, "-p/x.jsonl", "loose.jsonl")
    (home.path / "projects").symlink_to(away.path)
    assert names(home) == ["projects/-p/x.jsonl"]
    (home.path / "sessions").mkdir()
    (home.path / "sessions" / "y.jsonl").symlink_to(away.path / "loose.jsonl")
    assert names(home) == ["projects/-p/x.jsonl", "sessions/y.jsonl"]


def test_homes_that_share_a_directory_by_links_give_each_log_once(home, tmp_path):
    touch(home, "projects/-p/x.jsonl")
    second = Home(tmp_path / "second")
    second.path.mkdir()
    (second.path / "projects").symlink_to(home.path / "projects")
    assert [log.home for log in find_everywhere([home, second])] == [home]
    assert [log.home for log in find_everywhere([second, home])] == [second]


def test_a_very_deep_tree_of_agents_does_not_exhaust_the_stack(home):
    deep = f"{home.path}/projects/-p/{SID}/subagents"
    os.makedirs(deep)
    made = [deep := deep + "/d" for _ in range(1200)]
    for path in made:
        os.mkdir(path)
    touch(home, os.path.relpath(deep, home.path) + "/agent-a1.jsonl")
    try:
        assert len(names(home)) == 1
    finally:  # What tidies up after tests is recursive itself.
        os.unlink(deep + "/agent-a1.jsonl")
        for path in reversed(made):
            os.rmdir(path)


def test_undecodable_names_do_no_harm(home):
    touch(home, "projects/-p/x.jsonl")
    odd = os.fsencode(home.path / "projects" / "-p") + b"/\xff.jsonl"
    try:
        os.close(os.open(odd, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system takes only valid names")
    assert names(home) == ["projects/-p/x.jsonl"]
    assert len(noted(home)) == 1


def test_finding_changes_nothing(home):
    touch(home, "projects/-p/x.jsonl", "sessions/y.jsonl")
    before = sorted((str(path), path.stat().st_mtime_ns) for path in home.path.rglob("*"))
    names(home)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in home.path.rglob("*")) == before
