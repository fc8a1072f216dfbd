"""The catalogue can be lost, stale, forged: no copy is, and nothing is written anywhere else."""

from __future__ import annotations

import base64
import json
import os
import shutil
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keep.keeping_world import KEY, LOG, OTHER, SESSIONS, TODOS, new_world, sizes
from storage.packed import frames_of
from turnlog.formats.kept_copies import CopyName, generation_copy
from turnlog.keep.catalog import (
    CATALOGUE,
    HOME,
    LAST_RUN,
    Catalogue,
    KeptFile,
    home_of,
    kept_homes,
    last_run_at,
    note_home,
    note_run,
)
from turnlog.keep.copies.keep import keep
from turnlog.storage.compressed import unpack

FRAME = 512


@pytest.fixture
def world():
    with frames_of(FRAME), new_world() as made:
        made.put(LOG, b"one\n" * 400)
        made.put(OTHER, b"other\n" * 3)
        made.put(TODOS, b"[]")
        made.keep()
        made.put(LOG, b"two\n" * 500)
        made.keep()
        yield made


def stored(world):
    return json.loads((world.place / CATALOGUE).read_bytes())


def store(world, document):
    (world.place / CATALOGUE).write_text(json.dumps(document))


# -- what it says ----------------------------------------------------------------------------


def test_it_says_what_is_kept(world):
    catalogue = world.catalogue
    kept = catalogue.current[LOG]
    assert (kept.name, kept.generation, kept.size_bytes) == (LOG, 2, 2000)
    assert kept.mtime_ns == world.path(LOG).stat().st_mtime_ns
    assert kept.packed_bytes == world.copy(LOG).stat().st_size
    assert kept.kept_at.tzinfo is not None
    assert len(kept.digest) == 64
    assert [each.generation for each in catalogue.older[LOG]] == [1]
    first, second = catalogue.generations(LOG)
    assert catalogue.copy_of(first) == generation_copy(world.place, 1, LOG)
    assert catalogue.copy_of(second) == world.copy(LOG)
    assert catalogue.generations("nothing") == []


def test_what_is_saved_is_what_is_loaded(world):
    before = world.catalogue
    before.save()
    assert Catalogue.load(world.place) == before == Catalogue.of_home(world.home)


def test_copies_are_told_by_what_lies_there(world):
    (world.place / CATALOGUE).unlink()
    catalogue = world.catalogue
    assert not catalogue.is_sound
    newest = {CopyName(0, None, name): world.copy(name) for name in (LOG, OTHER, TODOS)}
    earlier = {CopyName(0, 1, LOG): generation_copy(world.place, 1, LOG)}
    assert dict(catalogue.copies()) == newest | earlier


def test_the_last_run_is_written_down(world):
    assert last_run_at(world.place) is not None
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    note_run(world.place, at)
    assert last_run_at(world.place) == at
    for said in (b"", b"{}", b"[]", b'{"at": 7}', b'{"at": "then"}', b"\xff"):
        (world.place / LAST_RUN).write_bytes(said)
        assert last_run_at(world.place) is None


def test_a_run_for_some_is_no_look_at_everything(world):
    (world.place / LAST_RUN).unlink()
    keep([world.home], sessions=frozenset({SESSIONS[0]}))
    assert last_run_at(world.place) is None
    keep([world.home])
    assert last_run_at(world.place) is not None


def test_which_home_it_is_of_is_written_down(world):
    assert home_of(world.place) == os.path.realpath(world.root)
    assert list(kept_homes()) == [(os.path.realpath(world.root), world.place)]
    said = [b"", b"{}", b"[]", b'"x"', b'{"path": 7}', b'{"path": "relative"}', b'{"path": ""}',
            b'{"path": "/a\\u0000b"}', b'{"path": "/\\ud800"}', b"\xff", b"[" * 9999]  # fmt: skip
    for each in said:
        (world.place / HOME).write_bytes(each)
        assert home_of(world.place) is None
        assert list(kept_homes()) == []
    note_home(world.place, "/srv/näme")
    assert home_of(world.place) == "/srv/näme"
    keep([world.home])
    assert home_of(world.place) == os.path.realpath(world.root)


# -- lost, and found again -------------------------------------------------------------------

RUINS = {
    "gone": None,
    "empty": b"",
    "an empty object": b"{}",
    "garbage": b"\xff\xfe garbage",
    "cut": b'{"version":1,"files":[{"name":"pro',
    "another thing": b"[1, 2]",
    "of a later version": b'{"version":2,"files":[],"older":[],"more":{}}',
    "deeper than deep": b"[" * 100_000,
    "of wrong types": b'{"version":1,"files":[{"name":7}],"older":{}}',
}


def ruin(world, how):
    path = world.place / CATALOGUE
    if RUINS[how] is None:
        path.unlink()
    else:
        path.write_bytes(RUINS[how])


@pytest.mark.parametrize("how", RUINS)
def test_a_lost_catalogue_is_made_again_and_nothing_is_lost(world, how):
    before, said = sizes(world.place), world.catalogue
    world.remove(OTHER)
    ruin(world, how)
    assert not world.catalogue.is_sound
    done = world.keep()
    assert (done.copied, done.read_bytes, done.begun_anew, done.problems) == (0, 0, [], [])
    assert sizes(world.place) == before
    world.check()
    assert_same(world.catalogue, said)


def assert_same(one, other):
    """Two catalogues say the same, but for what a copy cannot tell."""
    assert {name: essence(kept) for name, kept in one.current.items()} == {
        name: essence(kept) for name, kept in other.current.items()
    }
    assert {name: list(map(essence, kept)) for name, kept in one.older.items()} == {
        name: list(map(essence, kept)) for name, kept in other.older.items()
    }


def essence(kept):
    return kept.name, kept.generation, kept.size_bytes, kept.packed_bytes, kept.digests


@pytest.mark.parametrize("how", ["gone", "an empty object", "of a later version"])
def test_who_keeps_one_session_finds_the_rest_again_too(world, how):
    said = world.catalogue
    ruin(world, how)
    keep([world.home], sessions=frozenset({SESSIONS[1]}))
    assert_same(world.catalogue, said)
    done = world.keep()
    assert (done.copied, done.begun_anew) == (0, [])
    world.check()


@pytest.mark.parametrize("change", ["grown", "rewritten", "rewritten to the same size", "gone"])
def test_what_changed_before_the_loss_was_noticed_is_kept_as_ever(world, change):
    world.keep()
    ruin(world, "gone")
    match change:
        case "grown":
            world.add(LOG, b"more\n" * 300)
        case "rewritten":
            world.put(LOG, b"three\n" * 10)
        case "rewritten to the same size":
            world.put(LOG, b"six\n" * 500)
        case "gone":
            world.remove(LOG)
    world.keep()
    world.check()


def test_the_whole_home_gone_and_the_catalogue_too(world):
    said = world.catalogue
    shutil.rmtree(world.root)
    world.root.mkdir()
    ruin(world, "gone")
    keep([world.home])
    assert_same(world.catalogue, said)


def test_damaged_copies_are_not_adopted_and_not_touched(world):
    ruin(world, "gone")
    world.remove(OTHER)
    path = world.copy(OTHER)
    path.write_bytes(path.read_bytes()[:-4])
    spoiled = path.read_bytes()
    earlier = generation_copy(world.place, 1, LOG)
    earlier.write_bytes(b"spoiled")
    world.keep()
    assert set(world.catalogue.current) == {LOG, TODOS}
    assert world.catalogue.older == {}
    assert (path.read_bytes(), earlier.read_bytes()) == (spoiled, b"spoiled")
    world.put(LOG, b"three\n")
    keep([world.home])
    assert earlier.read_bytes() == b"spoiled", "a number that is taken stays so"
    assert b"".join(unpack(generation_copy(world.place, 2, LOG))) == b"two\n" * 500


# -- stale -----------------------------------------------------------------------------------


def test_a_catalogue_behind_its_copies_is_noticed(world):
    """As a kill between renaming and writing down leaves it."""
    old = (world.place / CATALOGUE).read_bytes()
    world.add(LOG, b"more\n" * 300)
    world.keep()
    (world.place / CATALOGUE).write_bytes(old)
    done = world.keep()
    assert (done.copied, done.begun_anew) == (0, [])
    world.check()


def test_a_catalogue_ahead_of_its_copies_is_noticed(world):
    """As from a backup of one without the other."""
    old = world.copy(LOG).read_bytes()
    world.add(LOG, b"more\n" * 300)
    world.keep()
    world.copy(LOG).write_bytes(old)
    done = world.keep()
    assert (done.copied, done.begun_anew) == (1, [])
    world.check()


# -- forged ----------------------------------------------------------------------------------

HOSTILE = ["../escape", "/etc/passwd", "a/../../b", "..", ".", "", "a//b", "a/", "/", "x\0y",
           "a/./b", "projects/../../../../tmp/x"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("which", ["files", "older"])
def test_names_that_leave_the_home_are_not_believed(world, name, which):
    document = stored(world)
    forged = document["files"][0] | {"name": name, "generation": 9}
    document[which].append(forged)
    store(world, document)
    catalogue = world.catalogue
    assert set(catalogue.current) == {LOG, OTHER, TODOS}
    assert set(catalogue.older) == {LOG}
    before = {path for path in world.root.parent.rglob("*") if world.place not in path.parents}
    world.put(LOG, b"three\n")
    world.keep()
    after = {path for path in world.root.parent.rglob("*") if world.place not in path.parents}
    assert after == before, "nothing appeared elsewhere"
    world.check()


@pytest.mark.parametrize(
    "lie",
    [
        {"size_bytes": 10**15},
        {"size_bytes": -1},
        {"packed_bytes": 0},
        {"digests": ""},
        {"digests": base64.b64encode(b"\0" * 32).decode()},
        {"digests": base64.b64encode(b"\0" * 33).decode()},
        {"sums": base64.b64encode(b"\0" * 4).decode()},
        {"generation": -(10**9)},
        {"generation": 10**9},
        {"generation": 1},
        {"mtime_ns": -1},
    ],
    ids=repr,
)
def test_lies_about_a_copy_cost_nobody_a_byte(world, lie):
    document = stored(world)
    for each in document["files"]:
        if each["name"] == LOG:
            each.update(lie)
    store(world, document)
    for change in (world.add, world.put, world.add):
        change(LOG, b"three\n" * 300)
        keep([world.home])
        assert b"".join(unpack(world.copy(LOG))) == world.path(LOG).read_bytes()
    found = [b"".join(unpack(path)) for path in world.place.rglob("*.jsonl.zst")]
    for wanted in (b"one\n" * 400, b"two\n" * 500, b"other\n" * 3):
        assert any(each.startswith(wanted) for each in found), wanted


@given(
    name=st.text(max_size=20) | st.sampled_from(HOSTILE),
    generation=st.integers(),
    size=st.integers(-(2**63), 2**63 - 1),
)
def test_whatever_stands_in_it_is_loaded_or_left_out(tmp_path_factory, name, generation, size):
    place = tmp_path_factory.getbasetemp()
    text = json.dumps({"version": 1, "files": [], "older": []} | {
        "files": [{"name": name, "generation": generation, "size_bytes": size, "mtime_ns": 0,
                   "packed_bytes": 0, "digests": "",
                   "kept_at": "2026-01-01T00:00:00Z"}]})  # fmt: skip
    (place / CATALOGUE).write_text(text)
    catalogue = Catalogue.load(place)
    for kept in catalogue.current.values():
        copy = catalogue.copy_of(kept)
        assert os.path.normpath(copy).startswith(f"{place}/")
        earlier = generation_copy(place, kept.generation, kept.name)
        assert os.path.normpath(earlier).startswith(f"{place}/generations/")


def test_a_kept_file_says_which_session_only_where_its_name_does_not(world):
    name = f"projects/{KEY}/agent-b2.jsonl"
    world.put(name, f'{{"sessionId":"{SESSIONS[2]}","type":"user","uuid":"x"}}\n'.encode())
    world.keep()
    assert world.catalogue.current[name].session == SESSIONS[2]
    assert world.catalogue.current[LOG].session is None


def test_a_kept_file_cannot_be_changed():
    kept = KeptFile(
        name="x", size_bytes=0, mtime_ns=0, packed_bytes=0, digests=b"",
        kept_at=datetime.now(UTC),
    )  # fmt: skip
    with pytest.raises(AttributeError):
        kept.size_bytes = 1
