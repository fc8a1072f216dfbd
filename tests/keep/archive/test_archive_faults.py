"""Archiving stopped at every call that changes a disk: nothing is lost, and a rerun finishes."""

import contextlib
import errno
from functools import partial

import pytest

from keep.archive.archives import (
    MAIN,
    Stopped,
    copied,
    flat_store,
    is_safe,
    session_in,
    small_home,
    stops_at,
    there,
)
from keep.orchard_store import ID
from turnlog.catalog.sessions import list_sessions
from turnlog.errors import StorageFull, TurnlogError, WriteFailed

WAYS = pytest.mark.parametrize("for_good", [True, False], ids=["killed", "failed once"])


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Make a place of its own for every try."""

    def made(number, kind):
        place = tmp_path / f"{number}"
        monkeypatch.setenv("TURNLOG_HOME", str(place / "own"))
        return (small_home if kind == "claude" else flat_store)(place / "home")

    return made


def attempt(monkeypatch, number, act, *, for_good):
    """Do something, stopped at a call; tell whether it got that far."""
    stopped = stops_at(monkeypatch, number, for_good=for_good)
    with stopped as calls, contextlib.suppress(TurnlogError, Stopped):
        act()
    return len(calls) > number


def sweep(fresh, kind, stride, *, for_good):
    """Yield a fresh home for each call that fails, until none fails any more."""
    number = 0
    while True:
        home, parts = fresh(number, kind)
        go_on = yield number, home, parts
        if not go_on:
            return
        number += stride if for_good else 3 * stride


@WAYS
@pytest.mark.parametrize("kind", ["claude", "flat"])
def test_stopped_anywhere_archiving_loses_nothing_and_a_rerun_finishes(
    fresh, monkeypatch, kind, for_good, stride
):
    tries = sweep(fresh, kind, stride, for_good=for_good)
    number, home, parts = next(tries)
    while True:
        act = partial(session_in(home).archive, remove=True)
        reached = attempt(monkeypatch, number, act, for_good=for_good)
        lost = [name for name, data in parts.items() if not is_safe(home, name, data)]
        assert not lost, f"call {number}"
        seen = list_sessions((home,), archived=None).sessions
        assert [row.id for row in seen] == [ID], f"call {number}"
        if not (home.path / next(iter(parts))).exists():  # The log goes when all is proved.
            assert {name: copied(home, name) for name in parts} == parts, f"call {number}"
        found = session_in(home).archive(remove=True)
        assert found.removed
        assert there(home, parts) == {}, f"call {number}"
        assert {name: copied(home, name) for name in parts} == parts, f"call {number}"
        session_in(home).unarchive()
        assert there(home, parts) == parts, f"call {number}"
        try:
            number, home, parts = tries.send(reached)
        except StopIteration:
            break
    assert number > 40


@WAYS
@pytest.mark.parametrize("kind", ["claude", "flat"])
def test_stopped_anywhere_unarchiving_loses_nothing_and_a_rerun_finishes(
    fresh, monkeypatch, kind, for_good, stride
):
    tries = sweep(fresh, kind, stride, for_good=for_good)
    number, home, parts = next(tries)
    while True:
        session_in(home).archive(remove=True)
        act = session_in(home).unarchive
        reached = attempt(monkeypatch, number, act, for_good=for_good)
        lost = [name for name, data in parts.items() if not is_safe(home, name, data)]
        assert not lost, f"call {number}"
        seen = list_sessions((home,), archived=None).sessions
        assert [row.id for row in seen] == [ID], f"call {number}"
        if (home.path / next(iter(parts))).exists():  # The log comes when all the rest is there.
            assert there(home, parts) == parts, f"call {number}"
        session_in(home).unarchive()
        assert there(home, parts) == parts, f"call {number}"
        assert not session_in(home).is_archived
        try:
            number, home, parts = tries.send(reached)
        except StopIteration:
            break
    assert number > 15


@pytest.mark.parametrize("kind", ["claude", "flat"])
def test_a_full_disk_is_told_and_touches_no_original(fresh, monkeypatch, kind):
    home, parts = fresh("full", kind)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(StorageFull):
            session_in(home).archive(remove=True)
    assert there(home, parts) == parts
    assert session_in(home).archive(remove=True).removed
    assert MAIN not in there(home, parts)


def test_an_original_that_cannot_be_removed_is_named_and_said_to_be_archived(fresh, monkeypatch):
    home, _ = fresh(0, "claude")
    refused = PermissionError(errno.EACCES, "Permission denied")

    def refuse(*_):
        raise refused

    monkeypatch.setattr("turnlog.keep.archive.archive.remove_compared", refuse)
    with pytest.raises(WriteFailed, match="cannot be removed: permission denied") as caught:
        session_in(home).archive(remove=True)
    assert str(caught.value.path).endswith(MAIN)
    assert "is archived" in caught.value.hint
    assert [row.id for row in list_sessions([home], archived=True).sessions] == [ID]
