"""Todos and tasks: read whatever stands there, replaced in one step."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest

from sessions.homes import log, make_home, prompt, write
from turnlog.errors import InvalidId, LogError, NotALog, NotSerialisable, UsageError
from turnlog.sessions.side_files.todos import (
    LIMIT,
    Todo,
    all_todos,
    replace_todos,
    sessions_with_tasks,
    tasks_of,
    todos_of,
)
from turnlog.storage import atomic_files

ID = "44444444-dddd-4ddd-8ddd-444444444444"
OTHER = "55555555-eeee-4eee-8eee-555555555555"


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def todo(content, **more):
    return {"content": content, "status": "pending", "priority": "high"} | more


def main_file(home, content):
    return write(home, f"todos/{ID}-agent-{ID}.json", content)


def test_a_session_has_the_todos_of_all_its_agents_main_first(home):
    write(home, f"todos/{ID}-agent-a753668.json", [todo("Look", activeForm="Looking")])
    main_file(home, [todo("Prune"), todo("Water", status="completed")])
    write(home, f"todos/{OTHER}-agent-{OTHER}.json", [todo("Not ours")])
    main, subagent = todos_of(home, ID)
    assert main.is_main
    assert [(each.content, each.state) for each in main.todos] == [
        ("Prune", "pending"),
        ("Water", "completed"),
    ]
    assert (subagent.agent_id, subagent.todos[0].active_form) == ("a753668", "Looking")
    assert main.problem is None
    assert main.changed_at.tzinfo is not None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{not json", "not JSON"),
        (b"\0" * 40, "not JSON"),
        (b"", "empty"),
        (b'{"content": "x"}', "not an array"),
        (b'[1, null, {}, {"content": 7}]', "4 of 4 are not todos"),
        (b"[" * 5000, "not JSON"),
    ],
)
def test_what_is_no_list_of_todos_is_a_value(home, content, problem):
    main_file(home, content)
    (found,) = todos_of(home, ID)
    assert (found.todos, found.problem) == ((), problem)


def test_the_good_among_the_odd_are_kept(home):
    main_file(home, [todo("Prune", status=3, priority=None), "Water"])
    (found,) = todos_of(home, ID)
    assert found.todos == (Todo(content="Prune"),)
    assert found.problem == "1 of 2 are not todos"


def test_a_huge_file_is_not_read(home):
    with open(main_file(home, b"["), "r+b") as file:
        file.truncate(LIMIT + 1)
    (found,) = todos_of(home, ID)
    assert found.problem.startswith("larger than")


def test_a_state_nobody_knows_and_a_lone_surrogate_survive(home):
    main_file(home, b'[{"content":"a\\ud800b","status":"deferred"}]')
    (found,) = todos_of(home, ID)
    assert (found.todos[0].content, found.todos[0].state) == ("a?b", "deferred")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_or_a_broken_link_is_no_list(home):
    (home.path / "todos").mkdir()
    os.mkfifo(home.path / "todos" / f"{ID}-agent-a1.json")
    os.symlink("nowhere", home.path / "todos" / f"{ID}-agent-a2.json")
    problems = []
    assert todos_of(home, ID) == ()
    assert all_todos(home, problems=problems) == ()
    assert len(problems) == 2


def test_orphans_are_lists_whose_session_or_agent_has_no_log(home):
    log(home, ID, prompt("q"))
    log(home, ID, prompt("x", isSidechain=True), subagent="a1")
    beside_it = prompt("y", sessionId=ID, isSidechain=True)
    write(home, "projects/-home-ada-orchard/agent-old.jsonl", json.dumps(beside_it) + "\n")
    for subagent in (ID, "a1", "old", "gone"):
        write(home, f"todos/{ID}-agent-{subagent}.json", [todo("x")])
    write(home, f"todos/{OTHER}-agent-{OTHER}.json", [todo("x")])
    found = {(each.session_id, each.agent_id): each.lost for each in all_todos(home) if each.lost}
    assert found == {(ID, "gone"): "subagent", (OTHER, OTHER): "session"}
    assert len(all_todos(home)) == 5


def test_names_that_are_no_lists_are_problems(home):
    for name in ("notes.json", "../todos/-agent-.json", f"{ID}-agent-a.b.json"):
        write(home, f"todos/{name}", "[]")
    problems = []
    assert all_todos(home, problems=problems) == ()
    assert len(problems) == 3


def test_an_id_that_holds_the_separator_is_read_by_the_logs(home):
    log(home, "a-agent-b", prompt("q"))
    write(home, "todos/a-agent-b-agent-c.json", [todo("x")])
    (found,) = all_todos(home)
    assert (found.session_id, found.agent_id, found.lost) == ("a-agent-b", "c", "subagent")


def test_tasks_come_in_the_order_of_their_numbers(home):
    for number in (10, 2, 1):
        task = {"id": str(number), "subject": f"Task {number}", "status": "pending"}
        write(home, f"tasks/{ID}/{number}.json", task | {"blocks": ["3", 4], "blockedBy": []})
    write(home, f"tasks/{ID}/3.json", b"[]")
    write(home, f"tasks/{ID}/4.json", b"not")
    write(home, f"tasks/{ID}/.lock", b"")
    write(home, f"tasks/{ID}/.highwatermark", b"10")
    write(home, "tasks/..hidden/1.json", b"{}")
    found = tasks_of(home, ID)
    assert [task.id for task in found] == ["1", "2", "3", "4", "10"]
    assert [task.problem for task in found] == [None, None, "not an object", "not JSON", None]
    assert found[0].blocks == ("3",)
    assert sessions_with_tasks(home) == (ID,)
    assert tasks_of(home, OTHER) == ()


def test_todos_are_replaced_whole_and_privately(home):
    previous = os.umask(0)
    try:
        items = [Todo(content="Prune", state="in_progress"), {"content": "Water", "id": "7"}]
        path = replace_todos(home, ID, ID, items)
    finally:
        os.umask(previous)
    assert json.loads(path.read_bytes()) == [
        {"content": "Prune", "status": "in_progress"},
        {"content": "Water", "id": "7"},
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    replace_todos(home, ID, ID, [])
    assert path.read_bytes() == b"[]"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("items", "error"),
    [
        ([{"status": "pending"}], UsageError),
        ([{"content": "x", "status": "done"}], UsageError),
        ([{"content": "x", "n": float("nan")}], NotSerialisable),
    ],
)
def test_a_callers_mistake_changes_nothing(home, items, error):
    path = main_file(home, [todo("Prune")])
    before = path.read_bytes()
    with pytest.raises(error):
        replace_todos(home, ID, ID, items)
    assert path.read_bytes() == before


@pytest.mark.parametrize("bad", ["../../x", "a/b", "", "a\0b"])
def test_no_id_leads_out_of_the_directory(home, bad):
    with pytest.raises(InvalidId):
        replace_todos(home, ID, bad, [])
    with pytest.raises(InvalidId):
        replace_todos(home, bad, ID, [])


def test_nothing_is_written_through_a_link(home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.json").write_text("mine")
    (home.path / "todos").mkdir()
    os.symlink(outside / "kept.json", home.path / "todos" / f"{ID}-agent-{ID}.json")
    with pytest.raises(NotALog, match="symbolic link"):
        replace_todos(home, ID, ID, [])
    os.unlink(home.path / "todos" / f"{ID}-agent-{ID}.json")
    os.rmdir(home.path / "todos")
    os.symlink(outside, home.path / "todos")
    with pytest.raises(LogError):
        replace_todos(home, ID, ID, [])
    assert os.listdir(outside) == ["kept.json"]
    assert (outside / "kept.json").read_text() == "mine"


@pytest.mark.parametrize("step", ["sync", "sync_directory"])
def test_a_failed_write_is_loud_and_leaves_no_litter(home, monkeypatch, step):
    path = main_file(home, [todo("Prune")])
    before = path.read_bytes()

    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, step, fail)
    with pytest.raises(LogError, match="no room"):
        replace_todos(home, ID, ID, [{"content": "Water"}])
    assert os.listdir(path.parent) == [path.name]
    if step == "sync":
        assert path.read_bytes() == before


def test_a_reader_never_sees_half_a_list(home):
    import threading

    lists = [[todo(f"{n}-{k}") for k in range(200)] for n in range(2)]
    replace_todos(home, ID, ID, lists[0])
    writer = threading.Thread(
        target=lambda: [replace_todos(home, ID, ID, lists[n % 2]) for n in range(30)]
    )
    writer.start()
    while writer.is_alive():
        (found,) = todos_of(home, ID)
        assert found.problem is None
        assert len(found.todos) == 200
    writer.join()


def test_a_kill_leaves_the_old_list_or_the_new_one(home):
    code = (
        "import itertools, sys; from pathlib import Path; from turnlog.formats import Home\n"
        "from turnlog.sessions.side_files.todos import replace_todos\n"
        "for n in itertools.count():\n"
        "    items = [{'content': f'{n}'}] * 3000\n"
        "    replace_todos(Home(Path(sys.argv[1])), sys.argv[2], sys.argv[2], items)\n"
        "    n == 0 and print(flush=True)\n"
    )
    for pause in (0.0, 0.011, 0.023):
        arguments = [sys.executable, "-c", code, str(home.path), ID]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(pause)
            child.kill()
        (found,) = all_todos(home)
        assert found.problem is None
        assert len(found.todos) == 3000
        assert len({todo.content for todo in found.todos}) == 1
