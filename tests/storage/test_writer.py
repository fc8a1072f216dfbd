"""Appending: order, places, one write, one sync, and nothing that is not a whole line."""

from __future__ import annotations

import fcntl
import logging
import os
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.logs import add, lines, numbered, put, read, told
from strategies import good_records, to_line
from turnlog.errors import ClosedLog, FormatTooNew, NotFound, NotSerialisable, UsageError
from turnlog.records.annotations import FORMAT, format_marker
from turnlog.records.codec import decode
from turnlog.records.record import Message, User
from turnlog.storage import system
from turnlog.storage.writer import LogWriter


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


@pytest.fixture
def steps(monkeypatch):
    """What the writer asks of the system, in order."""
    taken = []
    write, sync = os.write, system.sync
    monkeypatch.setattr(os, "write", lambda fd, data: (taken.append("write"), write(fd, data))[1])
    monkeypatch.setattr(system, "sync", lambda fd: (taken.append("sync"), sync(fd))[1])
    return taken


def test_records_stand_in_the_order_in_which_they_were_appended(log):
    with LogWriter(log) as writer:
        for number in range(5):
            writer.append(numbered(number))
    assert log.read_bytes() == lines(0, 1, 2, 3, 4)


@given(records=st.lists(good_records(), min_size=1, max_size=5))
def test_an_append_says_where_the_record_stands(tmp_path_factory, records):
    path = put(tmp_path_factory.getbasetemp() / "placed", b"")
    with LogWriter(path, durability="flush", head=format_marker("test")) as writer:
        placed = [writer.append(records[0]), *writer.append_many(records[1:])]
    data = path.read_bytes()
    for record, (offset, length) in zip(records, placed, strict=True):
        assert data[offset : offset + length] == to_line(record)
        assert data[offset + length : offset + length + 1] == b"\n"


def test_a_typed_record_is_appended_as_its_own_bytes(log):
    strange = b'{ "type" : "mode", "mode":"x" , "new":1.0}'
    with LogWriter(log) as writer:
        writer.append(decode(strange))
        writer.append(User(uuid="u-9", message=Message(role="user", content="hi")))
    assert log.read_bytes().startswith(strange + b"\n")
    assert told(read(log)) == ["mode", "u-9"]


def test_an_append_is_one_write_and_then_one_sync(log, steps):
    with LogWriter(log) as writer:
        steps.clear()
        writer.append(numbered(1))
        assert steps == ["write", "sync"]


def test_many_records_are_one_write_and_one_sync(log, steps):
    with LogWriter(log) as writer:
        steps.clear()
        placed = writer.append_many(numbered(number) for number in range(50))
    assert steps == ["write", "sync"]
    assert len(placed) == 50
    assert log.read_bytes() == lines(*range(50))


def test_no_records_are_no_write(log, steps):
    with LogWriter(log, head=format_marker("test")) as writer:
        steps.clear()
        assert writer.append_many([]) == ()
        assert writer.append_after(lambda _: []) == ()
    assert steps == []
    assert log.read_bytes() == b""


def test_flush_durability_syncs_only_when_asked(log, steps):
    with LogWriter(log, durability="flush") as writer:
        steps.clear()
        writer.append(numbered(1))
        assert steps == ["write"]
        writer.sync()
        assert steps == ["write", "sync"]


def test_other_writers_need_not_wait_for_a_sync(log, monkeypatch):
    free = []

    def sync(fd):
        with open(log, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(True)

    with LogWriter(log) as writer:
        monkeypatch.setattr(system, "sync", sync)
        writer.append(numbered(1))
    assert free == [True]


def test_an_unknown_durability_is_refused(log):
    with pytest.raises(UsageError, match="maybe"):
        LogWriter(log, durability="maybe")
    assert not log.exists()


def test_old_bytes_never_change_and_the_file_stays_the_same(log):
    put(log, b"junk\n", lines(1), b"torn")
    before, inode = log.read_bytes(), log.stat().st_ino
    with LogWriter(log) as writer:
        writer.append(numbered(2))
        writer.append_many([numbered(3), numbered(4)])
    assert log.read_bytes().startswith(before)
    assert log.stat().st_ino == inode
    assert os.listdir(log.parent) == ["log.jsonl"]  # No lock file, no copy.


# -- a torn tail ----------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [b'{"type":"user","mess', b"\0\0\0", b"x", lines(1)[:-1], b"\r"])
def test_a_torn_tail_is_sealed_and_kept(log, tail):
    put(log, lines(0), tail)
    with LogWriter(log) as writer:
        placed = writer.append(numbered(2))
        writer.append(numbered(3))
    assert log.read_bytes() == lines(0) + tail + b"\n" + lines(2, 3)
    assert placed.offset == len(lines(0)) + len(tail) + 1
    assert told(read(log))[-2:] == ["u-2", "u-3"]


def test_a_tail_torn_while_the_log_is_open_is_sealed_too(log):
    with LogWriter(log) as writer:
        writer.append(numbered(1))
        add(log, b'{"torn')
        writer.append(numbered(2))
        add(log, b"torn again")
        writer.append_after(lambda _: [numbered(3)])
    assert told(read(log)) == ["u-1", "fragment", "u-2", "not-json", "u-3"]


# -- the head -------------------------------------------------------------------------------


def test_the_head_stands_once_at_the_beginning_of_an_empty_log(log):
    head = format_marker("test")
    with LogWriter(log, head=head) as writer:
        assert log.read_bytes() == b""
        assert writer.append(numbered(1)).offset == len(head)
        writer.append(numbered(2))
    with LogWriter(log, head=head) as writer:
        writer.append(numbered(3))
    assert log.read_bytes() == head + lines(1, 2, 3)


def test_a_log_that_somebody_else_began_gets_no_head(log):
    put(log, lines(1))
    with LogWriter(log, head=format_marker("test")) as writer:
        writer.append(numbered(2))
    assert log.read_bytes() == lines(1, 2)


def test_a_log_of_a_newer_format_is_read_but_not_written(log):
    newer = to_line({"type": "turnlog", "format": FORMAT + 1}) + b"\n"
    put(log, newer, lines(1))
    with pytest.raises(FormatTooNew) as refusal:
        LogWriter(log)
    assert "upgrade" in refusal.value.hint
    assert told(read(log)) == ["turnlog", "u-1"]
    assert log.read_bytes() == newer + lines(1)


# -- what cannot be a line ------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"type": "x", "n": float("nan")}, {"type": "x", "o": object()}, ["list"], None, "text"]
)
def test_what_cannot_be_a_line_is_refused_before_a_byte_is_written(log, bad, steps):
    with LogWriter(log) as writer:
        steps.clear()
        with pytest.raises(NotSerialisable):
            writer.append(bad)
        with pytest.raises(NotSerialisable):
            writer.append_many([numbered(1), bad, numbered(2)])
        with pytest.raises(NotSerialisable):
            writer.append_after(lambda _: [numbered(1), bad])
        assert steps == []
        assert log.read_bytes() == b""
        writer.append(numbered(3))
    assert told(read(log)) == ["u-3"]


def test_a_record_longer_than_the_cap_is_refused(log):
    with LogWriter(log, line_cap=200) as writer:
        with pytest.raises(NotSerialisable, match="200"):
            writer.append(numbered(1, blob="k" * 200))
        writer.append(numbered(2))
    assert told(read(log, cap=200)) == ["u-2"]


def test_a_record_whose_bytes_hold_a_newline_is_refused(log):
    pretty = decode(b'{"type":"mode",\n"mode":"x"}')
    with LogWriter(log) as writer, pytest.raises(NotSerialisable, match="newline"):
        writer.append(pretty)
    assert log.read_bytes() == b""


# -- the seam -------------------------------------------------------------------------------


def test_deciding_happens_with_everything_in_sight(log):
    put(log, lines(1), b"junk\n")
    with LogWriter(log) as writer:

        def decide(news):
            assert not news.restarted
            assert told(news.items) == ["u-1", "not-json"]
            return [numbered(2, parentUuid="u-1")]

        (placed,) = writer.append_after(decide)
        assert placed.offset == len(lines(1)) + 5
        add(log, lines(3))
        assert writer.append_after(lambda news: [numbered(len(told(news.items)) + 3)])
    assert told(read(log)) == ["u-1", "not-json", "u-2", "u-3", "u-4"]


def test_deciding_begins_where_the_caller_has_read_to(log):
    put(log, lines(1, 2))
    with LogWriter(log, seen=len(lines(1))) as writer:
        writer.append_after(lambda news: [numbered(told(news.items)[0])])
    assert told(read(log))[-1] == "u-u-2"


def test_what_others_appended_is_news_even_after_an_append_of_our_own(log):
    with LogWriter(log) as writer, LogWriter(log) as other:
        writer.append(numbered("mine"))
        other.append(numbered("theirs"))
        writer.append(numbered("mine too"))
        seen = []
        writer.append_after(lambda news: seen.extend(told(news.items)) or [])
        assert "u-theirs" in seen


def test_our_own_appends_are_no_news(log):
    with LogWriter(log) as writer:
        writer.append(numbered(1))
        writer.append_many([numbered(2)])
        writer.append_after(lambda _: [numbered(3)])
        seen = []
        writer.append_after(lambda news: seen.extend(told(news.items)) or [])
    assert seen == []


def test_a_decision_that_fails_writes_nothing_and_frees_the_log(log):
    with LogWriter(log, lock_timeout=0) as writer:
        with pytest.raises(ZeroDivisionError):
            writer.append_after(lambda _: [numbered(1 // 0)])
        add(log, lines(1))
        seen = []
        writer.append_after(lambda news: seen.extend(told(news.items)) or [numbered(2)])
    assert seen == ["u-1"]
    assert told(read(log)) == ["u-1", "u-2"]


def test_what_a_decision_that_failed_was_told_is_no_news(log):
    put(log, lines(1, 2))
    seen = []

    def fail(news):
        seen.extend(told(islice(news.items, 1)))
        raise ZeroDivisionError

    with LogWriter(log) as writer:
        with pytest.raises(ZeroDivisionError):
            writer.append_after(fail)
        writer.append_after(lambda news: seen.extend(told(news.items)) or [])
    assert seen == ["u-1", "u-2"]


def test_a_line_that_somebody_still_writes_is_news_when_it_is_whole(log):
    half, rest = lines(1)[:9], lines(1)[9:]
    put(log, half)
    seen = []
    with LogWriter(log) as writer:
        for more in (b"", rest, b""):
            add(log, more)
            writer.append_after(lambda news: seen.extend(told(news.items)) or [])
    assert seen == ["u-1"]


def test_a_log_that_was_cut_in_place_is_news_from_its_start(log):
    with LogWriter(log) as writer:
        writer.append_many([numbered(1), numbered(2)])
        put(log, lines(7))
        told_news = []
        writer.append_after(lambda news: told_news.append((news.restarted, told(news.items))) or [])
    assert told_news == [(True, ["u-7"])]


# -- another file under the same name -------------------------------------------------------


def test_a_log_that_was_replaced_is_opened_anew(log):
    with LogWriter(log) as writer:
        writer.append(numbered(1))
        os.replace(put(log.with_name("new"), lines(5)), log)
        told_news = []
        writer.append_after(
            lambda news: told_news.append((news.restarted, told(news.items))) or [numbered(6)]
        )
    assert told_news == [(True, ["u-5"])]
    assert log.read_bytes() == lines(5, 6)


@pytest.mark.parametrize("appended", [0, 1])
@pytest.mark.parametrize("create", [True, False])
def test_a_log_that_is_gone_is_not_made_anew(log, create, appended):
    put(log, lines(0))
    with LogWriter(log, create=create) as writer:
        for number in range(appended):
            writer.append(numbered(number + 1))
        moved = log.rename(log.with_name("moved"))
        for _ in range(2):
            with pytest.raises(NotFound, match="is gone") as told_so:
                writer.append(numbered(9))
        assert told_so.value.hint
        assert not log.exists()
        moved.rename(log)
        writer.append(numbered(2))
    assert log.read_bytes() == lines(*range(appended + 1), 2)


def test_a_relative_name_means_the_same_log_wherever_the_program_goes(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with LogWriter("log.jsonl") as writer:
        writer.append(numbered(1))
        monkeypatch.chdir(tmp_path / "there")
        writer.append(numbered(2))
    assert (tmp_path / "here" / "log.jsonl").read_bytes() == lines(1, 2)
    assert os.listdir(tmp_path / "there") == []


# -- the end --------------------------------------------------------------------------------


def test_a_closed_log_takes_nothing_more(log):
    writer = LogWriter(log)
    writer.append(numbered(1))
    writer.close()
    writer.close()
    for attempt in (
        lambda: writer.append(numbered(2)),
        lambda: writer.append_many([numbered(2)]),
        lambda: writer.append_after(lambda _: [numbered(2)]),
        writer.sync,
    ):
        with pytest.raises(ClosedLog) as refusal:
            attempt()
        assert refusal.value.hint
    assert log.read_bytes() == lines(1)


def test_the_life_of_a_log_is_logged(log, caplog):
    put(log, b"torn")
    with caplog.at_level(logging.DEBUG, logger="turnlog.storage"), LogWriter(log) as writer:
        writer.append(numbered(1))
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "WARNING", "DEBUG", "INFO"]
    assert all(str(log) in record.getMessage() for record in caplog.records)
