"""Taking a compaction back: the bytes as they were, and whatever came since."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keep.compaction.compacting import (
    ID,
    LARGE,
    found,
    lines_of,
    result,
    seen,
    title,
    told,
    u,
    written,
)
from sessions.trees import answer, call, line
from storage.logs import add
from turnlog.errors import LogError, LogLocked
from turnlog.keep.compaction.compact import compact
from turnlog.keep.compaction.undo import undo
from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def log(home):
    said = answer("a", u(1), "m", call("c1"))
    long = result("r", "a", "c1", "kite " * 4000)
    return written(home, told(1), said, said, title("one"), long, title("two"), told(2, "r"))


def shrink(home):
    done = compact(found(home), write=True, blobs=True, blob_bytes=LARGE)
    assert done.written
    return done


def originals(log):
    return sorted(log.parent.glob("*.original-*"))


def test_the_log_is_what_it_was_byte_for_byte(home, log):
    before, views, changed = log.read_bytes(), seen(found(home)), log.stat().st_mtime_ns
    shrink(home)
    done = undo(found(home), write=True)
    assert (done.written, done.lost) == (True, 0)
    assert (done.logs[0].lines, done.logs[0].blobs) == (3, 0)
    assert log.read_bytes() == before
    assert log.stat().st_mtime_ns == changed
    assert seen(found(home)) == views


def test_without_being_told_to_it_only_says_what_it_would_do(home, log):
    before = log.read_bytes()
    shrink(home)
    small = log.read_bytes()
    done = undo(found(home))
    assert (done.needed, done.written) == (True, False)
    assert done.logs[0].new_size_bytes == len(before)
    assert log.read_bytes() == small


def test_what_was_appended_since_stays_at_the_end(home, log):
    before = log.read_bytes()
    shrink(home)
    with LogWriter(log) as writer:
        writer.append(told(5, u(2)))
        writer.append(title("three"))
    undo(found(home), write=True)
    assert log.read_bytes() == before + line(told(5, u(2))) + b"\n" + line(title("three")) + b"\n"


def test_several_compactions_are_taken_back_at_once(home, log):
    before = log.read_bytes()
    shrink(home)
    more = [told(5, u(2)), title("three"), title("four"), title("two"), told(6, u(5))]
    later = b"".join(line(each) + b"\n" for each in more)
    add(log, later)
    shrink(home)
    add(log, line(told(7, u(6))) + b"\n")
    undo(found(home), write=True)
    assert log.read_bytes() == before + later + line(told(7, u(6))) + b"\n"
    assert not undo(found(home)).needed


def test_taking_back_twice_changes_nothing_however_lines_are_spelled(home):
    """Originals stay where they are: one of a compacted log is no original of a whole one."""
    long = result("r", "a", "c1", "kite " * 4000)
    begun = (told(1), title("one"), answer("a", u(1), "m", call("c1")), long, title("two"))
    spelled = [json.dumps(each).encode() + b"\n" for each in (*begun, told(2, "r"))]
    log = written(home, *spelled)
    shrink(home)
    more = (title("three"), told(3, u(2)), title("four"), told(4, u(3)))
    for each in more:
        spelled.append(json.dumps(each).encode() + b"\n")
        add(log, spelled[-1])
    shrink(home)
    assert len(originals(log)) == 2
    for _ in range(2):
        undo(found(home), write=True)
        assert log.read_bytes() == b"".join(spelled)


def test_what_somebody_still_wrote_to_an_original_comes_back_with_it(home, log):
    before = log.read_bytes()
    shrink(home)
    (original,) = originals(log)
    late, since = line(told(5, u(2))) + b"\n", line(told(6, u(2))) + b"\n"
    add(original, late)
    add(log, since)
    undo(found(home), write=True)
    assert log.read_bytes() == before + late + since


def test_without_the_original_blobs_alone_are_put_back(home, log):
    lines = lines_of(log)
    shrink(home)
    for path in originals(log):
        path.unlink()
    done = undo(found(home), write=True)
    assert (done.logs[0].lines, done.logs[0].blobs) == (0, 1)
    assert lines_of(log) == [lines[0], *lines[2:3], *lines[4:]]


def test_a_lost_blob_is_named_and_its_stub_stays(home, log):
    shrink(home)
    small = log.read_bytes()
    for path in (*originals(log), *(log.parent / ID / "blobs").iterdir()):
        path.unlink()
    done = undo(found(home), write=True)
    assert (done.needed, done.lost) == (False, 1)
    assert "is missing" in done.logs[0].lost[0]
    assert log.read_bytes() == small


def test_with_the_original_no_blob_is_needed(home, log):
    before = log.read_bytes()
    shrink(home)
    for path in (log.parent / ID / "blobs").iterdir():
        path.unlink()
    done = undo(found(home), write=True)
    assert done.lost == 0
    assert log.read_bytes() == before


def test_what_a_repair_put_aside_stays_aside(home, log):
    add(log, b"junk\n")
    repair(log, write=True)
    mended = log.read_bytes()
    assert not undo(found(home), write=True).needed
    shrink(home)
    undo(found(home), write=True)
    assert log.read_bytes() == mended


@pytest.mark.parametrize(
    "other",
    [
        b"",
        line(told(8)) + b"\n",
        line(told(1)) + b"\n" + line(told(2, "r")) + b"\n" + line(told(8)) + b"\n" + b"junk\n" * 99,
        b"\0" * 5000,
    ],
)
def test_an_original_of_another_log_is_left_alone(home, log, other):
    log.with_name(f"{log.name}.original-20260101T000000.000000Z").write_bytes(other)
    before = log.read_bytes()
    assert not undo(found(home), write=True).written
    assert log.read_bytes() == before
    shrink(home)
    undo(found(home), write=True)
    assert log.read_bytes() == before


def test_links_and_directories_are_no_originals(home, log, tmp_path):
    shrink(home)
    (original,) = originals(log)
    elsewhere = tmp_path / "elsewhere"
    original.rename(elsewhere)
    original.symlink_to(elsewhere)
    log.with_name(f"{log.name}.original-x").mkdir()
    assert undo(found(home)).logs[0].originals == []


def test_a_last_line_without_its_newline_and_one_sealed_since(home):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"})) + b"\n"
    log = written(home, told(1), said, said, told(2, "a"), b'{"torn')
    before = log.read_bytes()
    compact(found(home), write=True)
    with LogWriter(log) as writer:
        writer.append(told(5, u(2)))
    undo(found(home), write=True)
    assert log.read_bytes() == before + b"\n" + line(told(5, u(2))) + b"\n"


def test_blank_lines_and_carriage_returns_come_back(home):
    said = line(answer("a", u(1), "m", {"type": "text", "text": "yes"}))
    log = written(home, told(1), b"\n\n", said + b"\r\n", b" \n", said + b"\r\n", told(2, "a"))
    before = log.read_bytes()
    assert compact(found(home), write=True).written
    undo(found(home), write=True)
    assert log.read_bytes() == before


def test_a_running_session_is_left_alone(home, log):
    shrink(home)
    (home / "sessions").mkdir()
    (home / "sessions" / f"{os.getpid()}.json").write_text(f'{{"sessionId":"{ID}"}}')
    with pytest.raises(LogLocked):
        undo(found(home), write=True)


def test_a_failure_leaves_the_log_as_it_was(home, log, monkeypatch):
    before = log.read_bytes()
    shrink(home)
    small = log.read_bytes()
    for name in ("replace", "utime", "fdatasync"):

        def fail(*_, **__):
            raise OSError(5, "Input/output error")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(LogError, match="unchanged"):
                undo(found(home), write=True)
        assert log.read_bytes() == small
        assert not [path for path in log.parent.iterdir() if path.name.startswith(".")]
    undo(found(home), write=True)
    assert log.read_bytes() == before


def test_nothing_is_removed(home, log):
    done = shrink(home)
    undo(found(home), write=True)
    assert Path(done.logs[0].original).exists()
    assert len(list((log.parent / ID / "blobs").iterdir())) == 1
