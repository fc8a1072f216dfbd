"""What is no readable regular file is refused with a typed error, at once and with a hint."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from pathlib import Path

import pytest

from storage.logs import in_child, lines, put, read, told
from turnlog.errors import LogError, NotALog, NotFound, TurnlogError
from turnlog.storage.reader import read_log, read_range, scan_log
from turnlog.storage.repair import repair, validate
from turnlog.storage.tail import read_last
from turnlog.storage.writer import LogWriter

WAYS_IN = {
    "read": lambda path: list(read_log(path)),
    "scan": lambda path: list(scan_log(path)),
    "range": lambda path: list(read_range(path, 0, 1)),
    "last": lambda path: read_last(path, 1),
    "validate": validate,
    "repair": repair,
    "write": lambda path: LogWriter(path, create=False),
    "create": LogWriter,
}
every_way = pytest.mark.parametrize("way", WAYS_IN)
NOBODY = 65534


@every_way
def test_a_directory_is_refused(tmp_path, way):
    with pytest.raises(NotALog) as refusal:
        WAYS_IN[way](tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert refusal.value.hint


@every_way
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, way):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotALog):
        WAYS_IN[way](tmp_path / "pipe")


@every_way
def test_a_device_is_refused(way):
    with pytest.raises(NotALog):
        WAYS_IN[way]("/dev/null")


@every_way
def test_a_socket_is_refused(tmp_path, way, monkeypatch):
    monkeypatch.chdir(tmp_path)  # A socket's name must be short.
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(NotALog):
            WAYS_IN[way](tmp_path / "socket")


@pytest.mark.parametrize("way", sorted(WAYS_IN.keys() - {"create"}))
def test_a_missing_log_is_not_found(tmp_path, way):
    for missing in (tmp_path / "none.jsonl", tmp_path / "no" / "such" / "place.jsonl"):
        with pytest.raises(NotFound) as refusal:
            WAYS_IN[way](missing)
        assert isinstance(refusal.value, LookupError)
        assert refusal.value.hint
    assert os.listdir(tmp_path) == []


@every_way
def test_a_path_through_a_file_is_refused(tmp_path, way):
    put(tmp_path / "file", b"")
    with pytest.raises(TurnlogError):
        WAYS_IN[way](tmp_path / "file" / "log.jsonl")


@pytest.mark.parametrize("way", sorted(WAYS_IN.keys() - {"write", "create"}))
def test_an_empty_log_is_fine(tmp_path, way):
    WAYS_IN[way](put(tmp_path / "empty.jsonl"))


@pytest.fixture
def open_folder():
    """A directory that everybody can look into; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def refused_to_nobody(way, path):
    """Try *way* as a user without rights; give the error's name, number and hint."""

    def try_it():
        try:
            WAYS_IN[way](path)
        except LogError as error:
            return type(error).__name__, error.errno, error.hint
        return None

    return in_child(try_it, uid=NOBODY)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@needs_root
@every_way
def test_a_log_that_may_not_be_opened_is_refused(open_folder, way):
    log = put(open_folder / "log.jsonl", lines(1))
    log.chmod(0)
    name, number, hint = refused_to_nobody(way, log)
    assert (name, number) == ("LogError", errno.EACCES)
    assert "chmod" in hint


@needs_root
@every_way
def test_a_log_in_a_closed_directory_is_refused(open_folder, way):
    closed = open_folder / "closed"
    closed.mkdir(0o700)
    log = put(closed / "log.jsonl", lines(1))
    assert refused_to_nobody(way, log)[:2] == ("LogError", errno.EACCES)
    (closed / "deeper").mkdir()
    assert refused_to_nobody(way, closed / "deeper" / "log.jsonl")[:2] == ("LogError", errno.EACCES)


@needs_root
def test_a_directory_that_may_not_be_written_is_refused(open_folder):
    for new in (open_folder / "new.jsonl", open_folder / "a" / "b" / "new.jsonl"):
        assert refused_to_nobody("create", new)[:2] == ("LogError", errno.EACCES)
    assert os.listdir(open_folder) == []


def test_a_symbolic_link_is_followed_when_reading(tmp_path):
    real = put(tmp_path / "real.jsonl", lines(1))
    (tmp_path / "link.jsonl").symlink_to(real)
    assert told(read(tmp_path / "link.jsonl")) == ["u-1"]


@pytest.mark.parametrize("way", ["write", "create"])
def test_a_symbolic_link_is_not_followed_when_writing(tmp_path, way):
    real = put(tmp_path / "real.jsonl", lines(1))
    for name, target in (("link.jsonl", real), ("dangling.jsonl", tmp_path / "elsewhere.jsonl")):
        link = tmp_path / name
        link.symlink_to(target)
        with pytest.raises(NotALog) as refusal:
            WAYS_IN[way](link)
        assert "symbolic link" in str(refusal.value)
    assert real.read_bytes() == lines(1)
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_a_repair_does_not_follow_a_symbolic_link(tmp_path):
    real = put(tmp_path / "real.jsonl", b"junk\n" + lines(1))
    (tmp_path / "link.jsonl").symlink_to(real)
    with pytest.raises(NotALog):
        repair(tmp_path / "link.jsonl", write=True)
    assert sorted(os.listdir(tmp_path)) == ["link.jsonl", "real.jsonl"]


def test_a_name_with_a_nul_is_the_callers_mistake():
    for way in WAYS_IN.values():
        with pytest.raises(ValueError):
            way("log\0.jsonl")
