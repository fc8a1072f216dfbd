"""Following a log as it grows; each look at it happens between two steps of a script."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given

from storage.logs import Script, add, lines, put, read, told
from strategies import cut_logs
from turnlog.errors import NotALog
from turnlog.storage import sources, system, tail
from turnlog.storage.reader import Placed
from turnlog.storage.tail import LogFollower, Restart, follow_log
from turnlog.storage.writer import LogWriter


def nothing():
    pass


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def follow(path, *steps, **how):
    return list(follow_log(path, stop=Script(*steps), poll_seconds=0, **how))


def test_what_stands_and_what_comes_is_given_once(log):
    put(log, lines(1, 2))
    found = follow(log, nothing, lambda: add(log, lines(3)), nothing, lambda: add(log, lines(4, 5)))
    assert told(found) == ["u-1", "u-2", "u-3", "u-4", "u-5"]
    assert [item.line for item in found] == [1, 2, 3, 4, 5]
    assert found[-1].offset == len(lines(1, 2, 3, 4))


def test_a_partial_line_waits_for_its_newline(log):
    put(log, lines(1))
    whole = lines(2)
    found = follow(
        log,
        lambda: add(log, whole[:40]),
        nothing,
        lambda: add(log, whole[40:-1]),
        nothing,
        lambda: add(log, whole[-1:]),
        nothing,
    )
    assert told(found) == ["u-1", "u-2"]
    assert found[1].record.raw == whole[:-1]


def test_a_long_line_that_is_still_being_written_is_not_read_at_every_look(log, monkeypatch):
    whole = lines("x" * 3_000_000)
    put(log, lines(1), whole[:-10])
    follower = LogFollower(log)
    assert told(follower.look()) == ["u-1"]
    assert follower.look() == []
    real, sizes = system.read_at, []

    def read_at(fd, size, offset):
        sizes.append(len(real(fd, size, offset)))
        return real(fd, size, offset)

    monkeypatch.setattr(tail, "read_at", read_at)
    monkeypatch.setattr(sources, "read_at", read_at)
    assert follower.look() == []
    add(log, whole[-10:-1])
    assert follower.look() == []
    assert sum(sizes) < 5_000
    add(log, whole[-1:], lines(3))
    (item, *_) = follower.look()
    assert item.record.raw == whole[:-1]
    assert told(follower.look()) in (["u-3"], [])


def test_an_unfinished_line_that_is_taken_back_is_searched_anew(log):
    put(log, lines(1), b"x" * 1000)
    found = follow(log, nothing, lambda: put(log, lines(1), lines(2), b"y" * 3000), nothing)
    assert told(found) == ["u-1", "u-2"]
    put(log, lines(1), b"x" * 1000)
    found = follow(log, nothing, lambda: put(log, lines(1), lines(2)), nothing)
    assert told(found) == ["u-1", "u-2"]


def test_a_log_rewritten_before_an_unfinished_line_is_read_anew(log):
    rest = b"x" * 1000
    put(log, lines(1), rest)
    found = follow(log, nothing, lambda: put(log, lines(2), rest), nothing)
    assert told(found) == ["u-1", "restart", "u-2"]


def test_a_partial_line_that_is_never_finished_is_never_given(log):
    put(log, lines(1), lines(2)[:40])
    assert told(follow(log, nothing, nothing)) == ["u-1"]


def test_a_writer_that_seals_a_torn_line_makes_it_damage(log):
    put(log, lines(1), b'{"torn')
    with LogWriter(log) as writer:
        found = follow(log, lambda: writer.append({"type": "mode", "mode": "x"}), nothing)
    assert told(found) == ["u-1", "fragment", "mode"]


def test_damage_is_given_once(log):
    put(log, b"junk\n")
    assert told(follow(log, nothing, lambda: add(log, lines(1)), nothing)) == ["not-json", "u-1"]


def test_a_log_that_shrank_is_read_anew(log):
    put(log, lines(1, 2, 3))
    found = follow(log, lambda: put(log, lines(4)), lambda: add(log, lines(5)))
    assert told(found) == ["u-1", "u-2", "u-3", "restart", "u-4", "u-5"]
    assert found[4].offset == 0
    assert found[4].line == 1


def test_a_restart_says_why(log):
    put(log, lines(1, 2))
    shrank = follow(log, lambda: put(log, lines(3)))
    rewritten = follow(log, lambda: put(log, lines(4, 5, 6)))
    assert [item.reason for item in shrank if isinstance(item, Restart)] == ["the log shrank"]
    assert [item.reason for item in rewritten if isinstance(item, Restart)] == [
        "the log was rewritten"
    ]


def test_a_log_emptied_in_place_is_read_anew(log):
    put(log, lines(1, 2))
    found = follow(log, lambda: os.truncate(log, 0), nothing, lambda: add(log, lines(3)))
    assert told(found) == ["u-1", "u-2", "restart", "u-3"]


def test_a_log_replaced_by_another_of_the_same_size_is_read_anew(log):
    put(log, lines(1, 2))
    found = follow(log, lambda: os.replace(put(log.with_name("new"), lines(3, 4)), log), nothing)
    assert told(found) == ["u-1", "u-2", "restart", "u-3", "u-4"]


def test_a_log_replaced_by_its_own_continuation_goes_on(log):
    put(log, lines(1, 2))
    copy = put(log.with_name("new"), lines(1, 2, 3))
    assert told(follow(log, lambda: os.replace(copy, log), nothing)) == ["u-1", "u-2", "u-3"]


def test_a_tail_rewritten_in_place_is_noticed(log):
    put(log, lines(1, 2, 3))
    found = follow(log, lambda: put(log, lines(1, 2), lines(7, 8)), nothing)
    assert told(found) == ["u-1", "u-2", "u-3", "restart", "u-1", "u-2", "u-7", "u-8"]


def test_a_log_rewritten_while_an_item_is_in_hand_is_noticed(log):
    put(log, lines(1))
    items = follow_log(log, stop=Script(nothing, nothing), poll_seconds=0)
    first = next(items)
    put(log, lines(9))
    assert told([first, *items]) == ["u-1", "restart", "u-9"]


def test_a_log_that_is_not_there_yet_is_waited_for(log):
    found = follow(log, nothing, lambda: put(log, lines(1)), nothing)
    assert told(found) == ["u-1"]


def test_a_log_that_is_removed_and_comes_back_is_read_anew(log):
    put(log, lines(1))
    found = follow(log, log.unlink, nothing, lambda: put(log, lines(2)), nothing)
    assert told(found) == ["u-1", "restart", "u-2"]


def test_following_begins_at_a_bookmark(log):
    put(log, lines(1, 2))
    found = follow(log, lambda: add(log, lines(3)), start=len(lines(1)))
    assert told(found) == ["u-2", "u-3"]


def test_a_bookmark_past_the_end_means_that_the_log_shrank(log):
    put(log, lines(1))
    assert told(follow(log, nothing, start=10_000)) == ["restart", "u-1"]


def test_an_over_long_line_is_damage_once_it_ends_and_not_before(log):
    put(log, lines(1), b"x" * 500)
    waiting = follow(log, nothing, nothing, nothing, cap=200)
    assert told(waiting) == ["u-1"]
    ended = follow(log, nothing, lambda: add(log, b"\n", lines(2)), nothing, cap=200)
    assert told(ended) == ["u-1", "too-long", "u-2"]


def test_a_directory_cannot_be_followed(tmp_path):
    with pytest.raises(NotALog):
        next(follow_log(tmp_path))


@given(log_and_cut=cut_logs())
def test_following_a_log_in_two_steps_equals_reading_it(hushed, tmp_path_factory, log_and_cut):
    data, cut = log_and_cut
    path = put(tmp_path_factory.getbasetemp() / "followed", data[:cut])
    found = follow(path, lambda: add(path, data[cut:]), nothing)
    assert found == read(path, tail="wait")


def test_a_follower_beside_a_writing_thread_sees_everything_and_stops_when_told(log):
    stop = threading.Event()

    def write():
        with LogWriter(log, durability="flush") as writer:
            for number in range(200):
                writer.append({"type": "mode", "mode": str(number)})

    put(log)
    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    deadline = time.monotonic() + 180
    for item in follow_log(log, stop=stop, poll_seconds=0.001):
        assert isinstance(item, Placed)
        seen.append(item.record.mode)
        if len(seen) == 200 or time.monotonic() > deadline:
            stop.set()
    thread.join()
    assert seen == [str(number) for number in range(200)]


def test_following_keeps_no_file_open_between_looks(log):
    put(log, lines(1))
    open_now = []
    count = lambda: open_now.append(len(os.listdir("/proc/self/fd")))  # noqa: E731
    before = len(os.listdir("/proc/self/fd"))
    follow(log, count, count, count)
    assert open_now == [before] * 3
