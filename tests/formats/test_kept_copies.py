"""Where kept copies lie, and how logs and homes that are gone are found by them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.packed import quick_folder
from turnlog.errors import InvalidId, NotFound
from turnlog.formats import Home, Problem, all_homes, find_everywhere, find_homes, find_session
from turnlog.formats.kept_copies import (
    generation_copy,
    is_inner_name,
    kept_copy,
    kept_place,
    other_place,
)
from turnlog.keep.copies.keep import keep

IDS = [f"7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b{number:02x}" for number in range(6)]
ID = IDS[0]


@pytest.fixture
def tmp_path():
    with quick_folder() as made:
        yield made


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def put(home, name, data=b'{"type":"user"}\n'):
    path = Path(home.path, *name.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def found(*homes):
    """What is found: the name of each log, and whether it is a kept one."""
    problems: list[Problem] = []
    logs = list(find_everywhere(homes, problems=problems))
    assert problems == []
    told = []
    for log in logs:
        top = kept_place(log.home) if log.is_kept else log.home.path
        told.append((log.path.relative_to(top).as_posix(), log.is_kept))
    assert len(told) == len(set(told))
    return sorted(told)


# -- names -----------------------------------------------------------------------------------


def test_copies_lie_under_the_names_of_their_files(tmp_path):
    assert kept_copy(tmp_path, "projects/K/a.jsonl") == tmp_path / "projects/K/a.jsonl.zst"
    assert generation_copy(tmp_path, 3, "plans/b.md") == tmp_path / "generations/3/plans/b.md.zst"


@pytest.mark.parametrize(
    "name", ["", "/", "..", "../a", "a/..", "a/../b", "/etc/passwd", "a//b", "a/", "a\0b", "a/./b"]
)
def test_names_that_leave_are_refused(tmp_path, name):
    assert not is_inner_name(name)
    for refused in (lambda: kept_copy(tmp_path, name), lambda: generation_copy(tmp_path, 1, name)):
        with pytest.raises(InvalidId) as raised:
            refused()
        assert raised.value.hint


@given(name=st.text(min_size=1, max_size=30))
def test_a_name_stays_inside_or_is_refused(name):
    place = Path("/kept/place")
    if is_inner_name(name):
        copy = os.path.normpath(kept_copy(place, name))
        assert copy.startswith("/kept/place/")
        assert copy == os.fspath(kept_copy(place, name))
    else:
        with pytest.raises(InvalidId):
            kept_copy(place, name)


def test_the_mirror_of_a_home_depends_on_its_true_path_alone(home, tmp_path, monkeypatch):
    place = kept_place(home)
    assert place.parent == tmp_path / "own" / "kept"
    link = tmp_path / "link"
    link.symlink_to(home.path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    assert kept_place(link) == kept_place("home") == kept_place(f"{home.path}/../home/") == place
    shutil.rmtree(home.path)
    assert kept_place(home) == place, "it need not exist"


@given(one=st.text(max_size=30), other=st.text(max_size=30))
def test_two_homes_have_two_mirrors(one, other):
    one, other = (os.path.realpath("/srv/" + each.replace("\0", "")) for each in (one, other))
    if one != other:
        assert kept_place(one) != kept_place(other)
    assert kept_place(one).name.isascii()
    assert len(kept_place(one).name) < 100


# -- logs that are gone ----------------------------------------------------------------------

LAYOUTS = [
    f"projects/-srv/{ID}.jsonl",
    f"projects/-srv/{ID}/subagents/agent-a1.jsonl",
    f"projects/-srv/{ID}/subagents/workflows/w/agent-a2.jsonl",
    "projects/-srv/agent-a3.jsonl",
    "projects/0123/2026-03-04.jsonl",
    f"sessions/{IDS[1]}.jsonl",
    f"sessions/{IDS[1]}/subagents/agent-a4.jsonl",
]


def test_what_is_gone_is_found_by_its_copy(home):
    for name in LAYOUTS:
        put(home, name)
    before = {(log.kind, log.session_id, log.agent_id, log.layout, log.project_key)
              for log in find_everywhere([home])}  # fmt: skip
    keep([home])
    assert found(home) == sorted((name, False) for name in LAYOUTS), "copies are not found twice"
    for name in LAYOUTS:
        Path(home.path, name).unlink()
        assert (f"{name}.zst", True) in found(home)
    shutil.rmtree(home.path)
    assert found(home) == sorted((f"{name}.zst", True) for name in LAYOUTS)
    logs = list(find_everywhere([home]))
    assert before == {
        (log.kind, log.session_id, log.agent_id, log.layout, log.project_key) for log in logs
    }
    assert {log.home for log in logs} == {home}
    assert {log.compression for log in logs} == {"zst"}


def test_a_flat_store_that_is_a_home_is_found_by_its_copies(home):
    names = [f"{ID}.jsonl", f"{ID}/subagents/agent-a1.jsonl"]
    for name in (*names, "index.json", f"{ID}.meta.json"):
        put(home, name)
    keep([home])
    shutil.rmtree(home.path)
    assert found(home) == sorted((f"{name}.zst", True) for name in names)


def test_earlier_generations_are_no_logs_of_their_own(home):
    path = put(home, f"projects/-srv/{ID}.jsonl", b'{"type":"user","n":1}\n')
    keep([home])
    path.write_bytes(b'{"type":"user","n":2, "more": 1}\n')
    keep([home])
    path.unlink()
    assert found(home) == [(f"projects/-srv/{ID}.jsonl.zst", True)]


def test_a_session_that_moved_to_another_project_is_there_and_not_gone(home):
    path = put(home, f"projects/-one/{ID}.jsonl")
    subagent = put(home, f"projects/-one/{ID}/subagents/agent-a1.jsonl")
    keep([home])
    target = Path(home.path, "projects", "-two")
    target.mkdir()
    path.rename(target / path.name)
    subagent.parent.parent.rename(target / ID)
    assert [name for name, is_kept in found(home) if is_kept] == []


def test_a_compressed_log_stands_for_the_plain_one_that_was_kept(home):
    import gzip

    path = put(home, f"sessions/{ID}.jsonl")
    keep([home])
    put(home, f"sessions/compressed/{ID}.jsonl.gz", gzip.compress(path.read_bytes()))
    path.unlink()
    assert found(home) == [(f"sessions/compressed/{ID}.jsonl.gz", False)]


def test_homes_do_not_answer_for_one_another(home, tmp_path):
    other = Home(tmp_path / "other")
    for each in (home, other):
        put(each, f"projects/-srv/{ID}.jsonl")
    keep([home, other])
    Path(home.path, f"projects/-srv/{ID}.jsonl").unlink()
    told = [(log.home, log.is_kept) for log in find_everywhere([home, other])]
    assert sorted(told, key=str) == sorted([(home, True), (other, False)], key=str)


def test_a_link_to_a_home_gives_no_log_twice(home, tmp_path):
    for number in (0, 1):
        put(home, f"projects/-srv/{IDS[number]}.jsonl")
    keep([home])
    Path(home.path, f"projects/-srv/{ID}.jsonl").unlink()
    link = Home(tmp_path / "link")
    link.path.symlink_to(home.path, target_is_directory=True)
    logs = list(find_everywhere([home, link]))
    assert sorted(log.session_id for log in logs) == IDS[:2]


def test_a_session_that_is_gone_can_be_named(home):
    put(home, f"projects/-srv/{ID}.jsonl")
    put(home, f"projects/-srv/{ID}/subagents/agent-a1.jsonl")
    keep([home])
    shutil.rmtree(home.path)
    logs = find_session([home], ID[:8])
    assert [(log.kind, log.is_kept) for log in logs] == [("session", True), ("subagent", True)]
    assert find_session([home], "latest") == logs


def test_the_latest_session_is_told_by_its_own_time_not_by_the_copy_s(home):
    old, new = (put(home, f"projects/-srv/{each}.jsonl") for each in IDS[:2])
    os.utime(old, (1_000_000, 1_000_000))
    os.utime(new, (2_000_000, 2_000_000))
    keep([home])
    old.unlink()
    assert find_session([home], "latest")[0].session_id == IDS[1]


def test_each_place_tells_the_other(home):
    path = put(home, f"projects/-srv/{ID}.jsonl")
    keep([home])
    (log,) = find_everywhere([home])
    copy = kept_copy(kept_place(home), f"projects/-srv/{ID}.jsonl")
    assert other_place(log) == str(copy)
    path.unlink()
    (log,) = find_everywhere([home])
    assert log.path == copy
    assert other_place(log) == str(path)


# -- homes that are gone ---------------------------------------------------------------------


def test_a_home_that_is_gone_and_kept_is_a_home(home, monkeypatch):
    put(home, f"projects/-srv/{ID}.jsonl")
    with pytest.raises(NotFound):
        find_homes([f"{home.path}x"])
    keep([home])
    shutil.rmtree(home.path)
    assert find_homes([home.path]) == (home,)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.path))
    assert find_homes() == (home,)
    assert home in all_homes()
    problems: list[Problem] = []
    assert len(list(find_everywhere([home], problems=problems))) == 1
    assert problems == []


def test_a_home_that_became_a_file_is_a_mistake(home):
    put(home, f"projects/-srv/{ID}.jsonl")
    keep([home])
    shutil.rmtree(home.path)
    home.path.write_bytes(b"")
    with pytest.raises(NotFound):
        find_homes([home.path])


def test_the_usual_homes_are_found_when_they_are_gone_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    usual = Home(tmp_path / ".claude")
    assert find_homes() == ()
    put(usual, f"projects/-srv/{ID}.jsonl")
    keep([usual])
    shutil.rmtree(usual.path)
    assert find_homes() == (usual,)


def test_what_people_point_at_is_understood_when_it_is_gone(home):
    """They name the directory they saw the logs in."""
    put(home, f"projects/-srv/{ID}.jsonl")
    keep([home])
    assert find_homes([home.path / "projects"]) == (home,)
    shutil.rmtree(home.path)
    assert find_homes([home.path / "projects"]) == (home,)
