"""Copies of files that are rewritten: every generation stays, whatever becomes of the catalogue."""

import os

import pytest

from keep.archive.archives import MAIN, small_home
from keep.orchard_store import ID, said
from turnlog.formats.kept_copies import generation_copy, kept_copy, kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies import keep as copying
from turnlog.keep.copies.keep import keep
from turnlog.storage.compressed import unpack

pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def home(tmp_path):
    return small_home(tmp_path / "home")[0]


def rewrite(home, text):
    path = home.path / MAIN
    before = path.stat().st_mtime_ns
    path.write_bytes(said(ID, text))
    os.utime(path, ns=(before + 10**9, before + 10**9))
    return path.read_bytes()


def kept_contents(home):
    """Give what every copy of the log holds, listed or not."""
    place = kept_place(home)
    copies = [kept_copy(place, MAIN), *(generation_copy(place, n, MAIN) for n in range(1, 9))]
    return {b"".join(unpack(path)) for path in copies if path.is_file()}


def test_a_lost_catalogue_costs_no_generation(home):
    contents = {(home.path / MAIN).read_bytes()}
    for number in range(4):
        keep((home,))
        contents.add(rewrite(home, f"Rewritten {number}"))
        keep((home,))
        (kept_place(home) / "catalogue.json").unlink()
    assert kept_contents(home) == contents


def test_a_catalogue_that_is_behind_costs_no_generation(home, monkeypatch):
    contents = {(home.path / MAIN).read_bytes()}
    keep((home,))
    contents.add(rewrite(home, "Rewritten once"))
    saves = []
    real = Catalogue.save

    def dies(catalogue):
        saves.append(catalogue)
        if len(saves) > 1:  # What was replaced is written down; the new copy is in place.
            raise KeyboardInterrupt
        real(catalogue)

    with monkeypatch.context() as patch:
        patch.setattr(copying.Catalogue, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            keep((home,))
    contents.add(rewrite(home, "Rewritten twice"))
    keep((home,))
    assert kept_contents(home) == contents
    catalogue = Catalogue.of_home(home)
    numbers = [each.generation for each in catalogue.generations(MAIN)]
    assert numbers == sorted(set(numbers))
    for each in catalogue.generations(MAIN):
        assert sum(map(len, unpack(catalogue.copy_of(each)))) == each.size_bytes
