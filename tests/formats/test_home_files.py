"""Every file of a home that is worth keeping, once, whatever lies beside it."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import in_child
from turnlog.formats.home_files import home_files, owner_of
from turnlog.formats.walk import Problem

ID = "7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b00"
KEY = "projects/-srv-kites"

WORTH_KEEPING = {
    f"{KEY}/{ID}.jsonl": ID,
    f"{KEY}/{ID}.jsonl.gz": ID,
    f"{KEY}/{ID}/subagents/agent-a1b2c3.jsonl": ID,
    f"{KEY}/{ID}/subagents/agent-a1b2c3.meta.json": ID,
    f"{KEY}/{ID}/subagents/workflows/one/agent-d4.jsonl": ID,
    f"{KEY}/{ID}/tool-results/toolu_1.txt": ID,
    f"{KEY}/{ID}/tool-results/.hidden": ID,
    f"{KEY}/agent-e5f6.jsonl": None,
    f"{KEY}/memory/MEMORY.md": None,
    f"{KEY}/own-id/tool-results/one.txt": "own-id",
    "projects/0123abcd/2026-03-04.jsonl": None,
    f"todos/{ID}-agent-{ID}.json": ID,
    f"tasks/{ID}/1.json": ID,
    f"file-history/{ID}/abc@v1": ID,
    f"session-env/{ID}/hook.sh": ID,
    f"image-cache/{ID}/1.png": ID,
    "plans/tall-kite.md": None,
    "paste-cache/0a1b.txt": None,
    "history.jsonl": None,
    f"sessions/{ID}.jsonl": ID,
    f"sessions/{ID}.meta.json": ID,
    f"sessions/{ID}/subagents/agent-a1.jsonl": ID,
    f"sessions/compressed/{ID}.jsonl.gz": ID,
    f"sessions/compressed/{ID}/subagents/agent-a1.jsonl.gz": ID,
    "sessions/index.json": None,
}

NOT_OURS = (
    "settings.json",
    ".credentials.json",
    "CLAUDE.md",
    "plugins/cache/one.json",
    "statsig/x",
    "shell-snapshots/1.sh",
    "debug/log.txt",
    "ide/1.lock",
    "sessions/12345.json",
    f"{KEY}/.turnlog-0123.part",
    f"{KEY}/.{ID}.jsonl.repair-20260304",
    f"{KEY}/{ID}/.turnlog-tmp/inner",
    "journal.jsonl",
)


def put(home, name, data=b"x"):
    path = home.joinpath(*name.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(home, **how):
    return [file.name for file in home_files(home, **how)]


def test_all_that_agents_did_and_nothing_of_their_program(tmp_path):
    for number, name in enumerate((*WORTH_KEEPING, *NOT_OURS)):
        put(tmp_path, name, b"x" * number)
    problems: list[Problem] = []
    found = {file.name: file for file in home_files(tmp_path, problems=problems)}
    assert set(found) == set(WORTH_KEEPING)
    assert problems == []
    for name, file in found.items():
        status = os.stat(tmp_path / name)
        assert file.path == str(tmp_path / name)
        assert (file.size_bytes, file.mtime_ns) == (status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize("name", WORTH_KEEPING)
def test_whose_a_file_is_its_name_tells(name):
    assert owner_of(name) == WORTH_KEEPING[name]


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        (f"{ID}.jsonl", ID),
        (f"{ID}.meta.json", ID),
        (f"{ID}/subagents/agent-a.jsonl", ID),
        (f"compressed/{ID}.jsonl.gz", ID),
        ("index.json", None),
        ("todos/a-agent-b.json", "a"),
        ("todos/a-agent-b-agent-a-agent-b.json", "a-agent-b"),
        ("todos/a-agent-b-agent-c.json", None),
        ("todos/-agent-.json", None),
        ("todos/stray.json", None),
        (f"todos/{ID}-agent-{ID}.json/inner", None),
        (f"tasks/{ID}", None),
        ("tasks/../x", None),
        ("projects/x", None),
        ("projects", None),
        ("", None),
        ("/", None),
        ("projects/KEY/con.jsonl", None),
        (f"plans/{ID}.jsonl", None),
    ],
)
def test_whose_odd_files_are(name, owner):
    assert owner_of(name) == owner


@given(name=st.text(max_size=60))
def test_any_name_has_an_owner_or_none(name):
    found = owner_of(name)
    assert found is None or found in name


def test_the_order_is_the_same_every_time(tmp_path):
    for name in WORTH_KEEPING:
        put(tmp_path, name)
    assert names(tmp_path) == names(tmp_path)
    assert len(names(tmp_path)) == len(set(names(tmp_path)))


# -- flat stores -----------------------------------------------------------------------------


def test_a_home_that_is_itself_a_flat_store(tmp_path):
    kept = {
        f"{ID}.jsonl",
        f"{ID}.meta.json",
        f"{ID}/subagents/agent-a.jsonl",
        "index.json",
        "other-id.jsonl",
        "compressed/third.jsonl.gz",
    }
    for name in (*kept, "journal.jsonl", "notes.txt", "kept/x.jsonl.zst", "stray/y.jsonl"):
        put(tmp_path, name)
    assert set(names(tmp_path)) == kept


def test_a_home_with_projects_is_no_flat_store_for_a_stray_log(tmp_path):
    put(tmp_path, f"{KEY}/{ID}.jsonl")
    put(tmp_path, "stray.jsonl")
    assert names(tmp_path) == [f"{KEY}/{ID}.jsonl"]
    put(tmp_path, "index.json")
    assert set(names(tmp_path)) == {f"{KEY}/{ID}.jsonl", "stray.jsonl", "index.json"}


# -- what the disk looks like ----------------------------------------------------------------


def test_what_is_neither_file_nor_directory_is_a_problem(tmp_path):
    put(tmp_path, f"{KEY}/{ID}.jsonl")
    folder = tmp_path / KEY
    os.mkfifo(folder / "fifo.jsonl")
    (folder / "dangling.jsonl").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    here = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{here}/socket.jsonl")
    os.close(here)
    problems: list[Problem] = []
    assert names(tmp_path, problems=problems) == [f"{KEY}/{ID}.jsonl"]
    assert {problem.path.name for problem in problems} == {
        "fifo.jsonl", "dangling.jsonl", "circle", "socket.jsonl",
    }  # fmt: skip
    assert names(tmp_path) == [f"{KEY}/{ID}.jsonl"], "nobody need ask for them"


@pytest.mark.parametrize("what", ["file", "fifo", "dangling"])
def test_projects_that_are_no_directory_are_a_problem(tmp_path, what):
    """Nothing would be kept, and nobody would know."""
    path = tmp_path / "projects"
    if what == "file":
        path.write_bytes(b"")
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    problems: list[Problem] = []
    assert names(tmp_path, problems=problems) == []
    assert [problem.path for problem in problems] == [path]


def test_a_home_that_is_gone_is_a_problem(tmp_path):
    problems: list[Problem] = []
    assert names(tmp_path / "gone", problems=problems) == []
    assert len(problems) == 1


def test_links_lead_to_each_directory_once(tmp_path):
    home = tmp_path / "home"
    put(home, f"{KEY}/{ID}.jsonl")
    (home / "projects" / "again").symlink_to(home / KEY, target_is_directory=True)
    (home / KEY / "up").symlink_to(home, target_is_directory=True)
    (home / "todos").symlink_to(home / "projects", target_is_directory=True)
    found = names(home)
    assert len(found) == 1
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere, "one.md")
    (home / "plans").symlink_to(elsewhere, target_is_directory=True)
    assert "plans/one.md" in names(home)


def test_a_file_is_known_by_its_true_place_if_a_link_leads_to_it_as_well(tmp_path):
    home = tmp_path / "home"
    true = put(home, f"{KEY}/{ID}.jsonl")
    (home / "projects" / "-a").mkdir()
    (home / "projects" / "-a" / f"{ID}.jsonl").symlink_to(true)
    assert names(home) == [f"{KEY}/{ID}.jsonl"]
    directory = home / "projects" / "-aa"
    directory.symlink_to(true.parent, target_is_directory=True)
    assert names(home) == [f"{KEY}/{ID}.jsonl"]
    other = put(tmp_path, "elsewhere.jsonl")
    for name in ("b", "a"):
        (home / KEY / f"{name}.jsonl").symlink_to(other)
    # That one has no other name in the home than these two.
    assert names(home) == [f"{KEY}/{ID}.jsonl", f"{KEY}/a.jsonl", f"{KEY}/b.jsonl"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_directories_that_cannot_be_read_are_a_problem(tmp_path_factory):
    home = Path("/tmp") / f"turnlog-home-{os.getpid()}"
    try:
        put(home, f"{KEY}/{ID}.jsonl")
        put(home, "plans/one.md")
        for path in (home, *home.rglob("*")):
            os.chown(path, 12345, 12345)
        os.chmod(home / "plans", 0)

        def look():
            problems: list[Problem] = []
            return names(home, problems=problems), [str(problem.path) for problem in problems]

        assert in_child(look, uid=12345) == ([f"{KEY}/{ID}.jsonl"], [str(home / "plans")])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_names_that_are_no_text_are_a_problem(tmp_path):
    put(tmp_path, f"{KEY}/{ID}.jsonl")
    raw = os.path.join(os.fsencode(tmp_path / KEY), b"\xff.jsonl")
    Path(os.fsdecode(raw)).write_bytes(b"")
    problems: list[Problem] = []
    assert names(tmp_path, problems=problems) == [f"{KEY}/{ID}.jsonl"]
    assert [problem.reason for problem in problems] == ["its name is not valid text"]


def test_directories_whose_names_are_no_text_are_a_problem_once(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path / "projects") + b"/\xff"))
    folder.mkdir(parents=True)
    (folder / f"{ID}.jsonl").write_bytes(b"")
    problems: list[Problem] = []
    assert names(tmp_path, problems=problems) == []
    assert len(problems) == 1
