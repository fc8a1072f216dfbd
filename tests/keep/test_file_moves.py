"""A move counts as done when a power cut can no longer undo a part of it."""

import errno
import os

import pytest

from turnlog.keep.file_moves import Moved, Spot, move


@pytest.fixture
def deeds(monkeypatch):
    """What is done to directories, in order: each deed and the directory that it is done to."""
    done = []
    real = {name: getattr(os, name) for name in ("rename", "link", "unlink", "fsync")}

    def place(fd):
        return os.readlink(f"/proc/self/fd/{fd}") if fd is not None else "."

    def two(name):
        def call(old, new, **more):
            real[name](old, new, **more)
            done.append(("enter", place(more.get("dst_dir_fd"))))
            if name == "rename":
                done.append(("leave", place(more.get("src_dir_fd"))))

        return call

    def unlink(path, **more):
        real["unlink"](path, **more)
        done.append(("leave", place(more.get("dir_fd"))))

    def fsync(fd):
        real["fsync"](fd)
        done.append(("sync", place(fd)))

    monkeypatch.setattr(os, "rename", two("rename"))
    monkeypatch.setattr(os, "link", two("link"))
    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.setattr(os, "fsync", fsync)
    return done


@pytest.fixture
def spots(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "log").write_bytes(b"a line\n")
    return Spot(here, "log"), Spot(there, "log")


def unsynced(deeds):
    """Give the directories whose last change was not followed by a sync."""
    last = dict.fromkeys(place for _, place in deeds)
    for deed, place in deeds:
        last[place] = deed
    return [place for place, deed in last.items() if deed != "sync"]


@pytest.mark.parametrize("claim", [False, True])
@pytest.mark.parametrize("how", ["renamed", "copied", "there already"])
def test_both_directories_are_synced_before_a_move_is_done(spots, deeds, monkeypatch, how, claim):
    source, target = spots
    if how == "there already":  # Somebody was killed between the two.
        target.path.write_bytes(b"a line\n")
    elif how == "copied":
        real = {name: getattr(os, name) for name in ("rename", "link")}

        def across(name):
            def call(old, new, **more):
                if more.get("src_dir_fd") != more.get("dst_dir_fd"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                return real[name](old, new, **more)

            return call

        monkeypatch.setattr(os, "rename", across("rename"))
        monkeypatch.setattr(os, "link", across("link"))
    assert move(source, target, claim=claim) is (
        Moved.BEFORE if how == "there already" else Moved.MOVED
    )
    assert target.path.read_bytes() == b"a line\n"
    assert not source.path.exists()
    here, there = str(source.root), str(target.root)
    assert {here, there} <= {place for _, place in deeds}
    assert unsynced(deeds) == []
    if how == "copied" or claim:  # Else one step does both.
        assert ("sync", there) in deeds[: deeds.index(("leave", here))], "first the new name"
