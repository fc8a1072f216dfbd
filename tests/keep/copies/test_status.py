"""How safekeeping stands, before and after everything that can happen to a home."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sessions.homes import log, make_home, prompt, write
from turnlog.formats.claude_code import cleanup
from turnlog.keep.copies.keep import keep
from turnlog.keep.copies.status import KeepStatus, keep_status

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"
NOW = datetime.now(UTC)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("PATH", str(tmp_path))  # Whatever runs here is nobody's.
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return make_home(tmp_path)


@pytest.fixture
def status(home, tmp_path, monkeypatch):
    monkeypatch.setattr(cleanup, "managed_settings", lambda: tmp_path / "no administrator")

    def ask(*named, **options):
        return keep_status(named or (home.path,), now=NOW, **options)

    return ask


def test_of_nothing(status):
    (found,) = status().homes
    assert (found.sessions, found.files, found.packed_bytes, found.behind_sessions) == (0, 0, 0, 0)
    assert (found.last_run_at, found.last_kept_at, found.is_there) == (None, None, True)
    assert found.cleanup_days == 30


def test_what_is_kept_and_what_changed_since(home, status):
    first = log(home, ONE, prompt("a"))
    log(home, ONE, prompt("b"), subagent="a1")
    second = log(home, TWO, prompt("c"))
    todo = write(home, f"todos/{ONE}-agent-{ONE}.json", [])
    (found,) = status().homes
    assert (found.sessions, found.behind_sessions) == (0, 2)

    keep((home,))
    (found,) = status().homes
    assert (found.sessions, found.gone, found.files) == (2, 0, 4)
    size = sum(path.stat().st_size for path in home.path.rglob("*") if path.is_file())
    assert found.size_bytes == size
    copies = list((home.path.parent / "own" / "kept").rglob("*.zst"))
    assert found.packed_bytes == sum(path.stat().st_size for path in copies)
    assert (found.behind_sessions, found.behind_bytes) == (0, 0)
    assert abs(found.last_run_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert found.last_kept_at <= found.last_run_at

    second.unlink()
    todo.unlink()
    with first.open("ab") as file:
        file.write(b"{}\n")
    (found,) = status().homes
    assert (found.sessions, found.gone) == (2, 1)
    assert (found.behind_sessions, found.behind_bytes) == (1, first.stat().st_size)

    first.write_bytes(b'{"type":"mode"}\n')
    keep((home,))
    (found,) = status().homes
    assert found.older == 1
    assert found.size_bytes > size


def test_copies_that_are_missing_are_told_and_count_for_nothing(home, status):
    path = log(home, ONE, prompt("a"))
    log(home, TWO, prompt("b"))
    keep((home,))
    path.write_bytes(b'{"type":"mode"}\n')
    old = time.time() - 40 * 86_400
    os.utime(path, (old, old))
    keep((home,))
    (found,) = status().homes
    assert (found.sessions, found.older, found.missing) == (2, 1, 0)
    for copy in (home.path.parent / "own" / "kept").rglob(f"{ONE}.jsonl.zst"):
        copy.unlink()
    (found,) = status().homes
    assert (found.sessions, found.older, found.missing) == (1, 0, 2)
    assert [(loss.id, loss.is_kept) for loss in status().losses] == [(ONE, False)]


def test_a_home_that_is_gone_is_still_told_of(home, status, tmp_path):
    log(home, ONE, prompt("a"))
    keep((home,))
    shutil.rmtree(home.path)
    found = keep_status((), now=NOW)
    (gone,) = [each for each in found.homes if each.home == str(home.path)]
    assert (gone.is_there, gone.sessions, gone.gone) == (False, 1, 1)
    assert gone.cleanup_days is None


def test_what_is_about_to_be_deleted(home, status):
    path = log(home, ONE, prompt("a"))
    log(home, TWO, prompt("b"))
    old = time.time() - 26 * 86_400
    os.utime(path, (old, old))
    (loss,) = status().losses
    assert (loss.id, loss.is_kept) == (ONE, False)
    keep((home,), sessions=frozenset({ONE}))
    (loss,) = status().losses
    assert loss.is_kept
    assert status(within_days=1).losses == []
    write(home, "settings.json", {"cleanupPeriodDays": 6})
    assert status().homes[0].cleanup_days == 6
    assert len(status().losses) == 2


@pytest.mark.parametrize("days", [0, "x", -1])
def test_a_setting_that_cannot_be_read_is_told(home, status, days):
    write(home, "settings.json", {"cleanupPeriodDays": days})
    found = status()
    assert any("cleanupPeriodDays" in problem for problem in found.problems)
    assert found.homes[0].cleanup_days == 30


def test_what_is_in_the_way_is_told(home, status):
    log(home, ONE, prompt("a"))
    os.mkfifo(home.path / "projects" / "-home-ada-orchard" / "pipe.jsonl")
    write(home, "settings.json", b"{ no JSON")
    found = status()
    assert any("pipe.jsonl" in problem for problem in found.problems)
    hook = next(each for each in found.installed if each.kind == "claude")
    assert (hook.state, "not valid JSON" in hook.reason) == ("refused", True)


def test_a_catalogue_that_was_lost_is_no_failure(home, status):
    log(home, ONE, prompt("a"))
    keep((home,))
    (catalogue,) = (home.path.parent / "own" / "kept").rglob("catalogue.json")
    catalogue.write_bytes(b"\xff")
    (found,) = status().homes
    assert (found.sessions, found.behind_sessions) == (0, 1)
    keep((home,))
    (found,) = status().homes
    assert (found.sessions, found.behind_sessions) == (1, 0)


def test_a_name_that_no_settings_can_hold_is_a_problem_here(status, tmp_path, home):
    odd = tmp_path / "a\nb"
    (odd / "projects").mkdir(parents=True)
    found = status(odd)
    assert found.installed == []
    assert any("a command line in settings cannot have" in problem for problem in found.problems)


def test_it_is_a_document(home, status):
    log(home, ONE, prompt("a"))
    keep((home,))
    data = msgspec.json.encode(status())
    assert msgspec.json.decode(data, type=KeepStatus) == status()
