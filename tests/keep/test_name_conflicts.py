"""Names that the file system of the mirror takes for one: each file has its own copy all the same.

A link to another directory of the mirror plays a file system that ignores case: there, too, two
names lead to one directory. `python -m faults --only foreign_filesystems` has a real one.
"""

import json
import shutil

import pytest

from keep.keeping_world import new_world
from turnlog.formats import find_logs, turnlog_home
from turnlog.keep.catalog import CATALOGUE, Catalogue, adopt_all
from turnlog.keep.restore.restorable import mirrors
from turnlog.keep.trash.delete import delete_session, restore_from_trash
from turnlog.keep.trash.trash import Trash
from turnlog.storage.compressed import unpack

ID = "7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b00"
UPPER, LOWER = f"projects/-srv-Kites/{ID}.jsonl", f"projects/-srv-kites/{ID}.jsonl"
ODD = f"projects/-srv-drachen/{ID}.jsonl"
COMPOSED = f"projects/-srv-caf\u00e9/{ID}.jsonl"
DECOMPOSED = f"projects/-srv-cafe\u0301/{ID}.jsonl"


def said(text):
    fields = {"type": "user", "sessionId": ID, "uuid": text, "message": {"content": text}}
    return json.dumps(fields).encode() + b"\n"


@pytest.fixture
def world():
    with new_world() as world:
        world.remove("projects/-srv-kites")
        yield world


def fold(world, *names):
    """Let the directories of all these copies be the first one's."""
    first, *others = (world.place.joinpath(*name.split("/")[:2]) for name in names)
    first.mkdir(parents=True)
    for each in others:
        each.symlink_to(first.name)


def contents(world):
    """What is kept of each file."""
    return {name: world.generations(name)[-1] for name in world.catalogue.current}


PAIRS = pytest.mark.parametrize(
    "names",
    [(UPPER, LOWER), (UPPER, ODD), (DECOMPOSED, COMPOSED)],
    ids=["case", "odd", "normalised"],
)


@PAIRS
@pytest.mark.parametrize("is_later", [False, True])
def test_two_names_in_one_place_have_a_copy_each(world, names, is_later):
    fold(world, *names)
    one, other = names
    world.put(one, said("one"))
    if is_later:
        world.keep()
    world.put(other, said("other"))
    world.keep()
    assert contents(world) == {one: said("one"), other: said("other")}
    assert {each.conflict for each in world.catalogue.current.values()} == {0, 1}
    world.check()
    world.add(one, said("more of one"))
    world.put(other, said("anew"))
    world.keep()
    world.check()
    assert world.keep().copied == 0


@PAIRS
def test_a_lost_catalogue_is_made_anew_with_both(world, names):
    fold(world, *names)
    for name in names:
        world.put(name, said(name))
        world.put(f"{name}.original-1", said("before"))
    world.keep()
    before = contents(world)
    (world.place / CATALOGUE).unlink()
    catalogue = Catalogue.load(world.place)
    assert adopt_all(catalogue)
    catalogue.save()
    assert contents(world) == before


@PAIRS
def test_each_session_gets_its_own_bytes_back(world, names):
    fold(world, *names)
    for name in names:
        world.put(name, said(name))
    world.keep()
    shutil.rmtree(world.root / "projects")
    (mirror,) = mirrors([world.home])
    kept = {name: b"".join(unpack(copies[-1].path)) for name, copies in mirror.copies.items()}
    assert kept == {name: said(name) for name in names}
    logs = [log for log in find_logs(world.home) if log.is_kept]
    assert {log.project_key for log in logs} == {name.split("/")[1] for name in names}


@PAIRS
def test_deleting_takes_both_along_and_brings_them_back(world, names):
    fold(world, *names)
    for name in names:
        world.put(name, said(name))
    world.keep()
    before = contents(world)
    delete_session([world.home], ID)
    assert world.catalogue.current == {}
    trash = Trash(turnlog_home())
    (trashed,) = trash.entries()
    restore_from_trash(trash, trashed)
    assert contents(world) == before
    world.check()
