"""Keeping while others write: soon, at a pace, to the end."""

import os
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.homes import log, make_home, prompt, write
from turnlog.errors import LogError, UsageError
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies import watch as watching
from turnlog.keep.copies.watch import (
    FAILED_REST_SECONDS,
    LONGEST_SECONDS,
    QUIET_SECONDS,
    REST,
    Pace,
    stale,
    watch,
)
from turnlog.storage.compressed import unpack

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return make_home(tmp_path)


class Watcher:
    """Watches in a thread of its own until told to stop."""

    def __init__(self, home, **options):
        self.homes = (home,)
        self.runs, self.failures, self.failure = [], [], None
        self.stop, self.ready = threading.Event(), threading.Event()
        self.options = options
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            watch(
                self.homes,
                on_run=self._take,
                on_failure=self.failures.append,
                stop=self.stop,
                **self.options,
            )
        except BaseException as error:
            self.failure = error
        self.ready.set()

    def _take(self, run):
        self.runs.append(run)
        self.ready.set()

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()
        assert self.failure is None, self.failure


def copy_of(home, path):
    name = path.relative_to(home.path).as_posix()
    copy = kept_copy(kept_place(home), name)
    return b"".join(unpack(copy)) if copy.exists() else None


def until(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.fixture(params=[None, 0.1], ids=["told", "polling"])
def poll(request):
    return request.param


def test_what_is_written_is_kept_soon(home, poll):
    first = log(home, ONE, prompt("a"))
    with Watcher(home, poll=poll):
        assert copy_of(home, first) == first.read_bytes()
        with first.open("ab") as file:
            file.write(b'{"type":"user"}\n')
        second = log(home, TWO, prompt("b"))
        subagent = log(home, TWO, prompt("c"), subagent="a1")
        result = write(home, f"projects/-home-ada-orchard/{TWO}/tool-results/x.txt", b"long")
        history = write(home, "history.jsonl", b"{}\n")
        for path in (first, second, subagent, result, history):
            until(lambda path=path: copy_of(home, path) == path.read_bytes())


def test_at_the_end_everything_is_kept_once_more(home, monkeypatch):
    monkeypatch.setattr(watching, "QUIET_SECONDS", 1000.0)  # As if nothing ever were quiet,
    monkeypatch.setattr(watching, "LONGEST_SECONDS", 1000.0)
    first = log(home, ONE, prompt("a"))
    with Watcher(home) as watcher:
        first.write_bytes(first.read_bytes() * 3)
        time.sleep(1.5)
        assert copy_of(home, first) != first.read_bytes()
    assert copy_of(home, first) == first.read_bytes()
    assert len(watcher.runs) == 2


def test_a_home_that_comes_later_is_waited_for(home):
    for each in sorted(home.path.rglob("*"), reverse=True):
        each.rmdir()
    home.path.rmdir()
    with Watcher(home):
        path = log(home, ONE, prompt("a"))
        until(lambda: copy_of(home, path) == path.read_bytes())


def test_a_failure_is_told_and_tried_again(home, monkeypatch):
    monkeypatch.setattr(watching, "FAILED_REST_SECONDS", 0.5)
    real, failing = watching.keep, threading.Event()

    def keep(*arguments, **options):
        if failing.is_set():
            raise LogError("no room", path="x", hint="make room")
        return real(*arguments, **options)

    monkeypatch.setattr(watching, "keep", keep)  # A full disk, not to be had for the asking.
    with Watcher(home) as watcher:
        failing.set()
        path = log(home, ONE, prompt("a"))
        until(lambda: watcher.failures)
        assert copy_of(home, path) is None
        failing.clear()  # Nothing changes any more, and yet:
        until(lambda: copy_of(home, path) == path.read_bytes())


def test_what_cannot_be_kept_is_not_tried_over_and_over(home, monkeypatch):
    asked = []
    real = watching.keep

    def keep(*arguments, **options):
        asked.append(options.get("sessions"))
        return real(*arguments, **options)

    monkeypatch.setattr(watching, "keep", keep)
    path = log(home, ONE, prompt("a"))
    with Watcher(home, poll=0.05):
        path.unlink()
        os.mkfifo(path)
        write(home, "projects/-home-ada-orchard/x.txt", b"")
        time.sleep(2.5)
    assert len(asked) <= 4


def test_a_time_that_is_none_is_refused(home):
    with pytest.raises(UsageError):
        watch((home,), on_run=print, on_failure=print, stop=threading.Event(), poll=-1)


def test_nothing_to_do_is_no_run(home):
    log(home, ONE, prompt("a"))
    with Watcher(home) as watcher:
        time.sleep(2)
    assert len(watcher.runs) == 1


def test_what_is_behind_is_told_by_owner(home):
    assert stale((home,)) == {}
    log(home, ONE, prompt("a"))
    write(home, "plans/p.md", b"plan")
    beside = write(home, "projects/-home-ada-orchard/agent-a7.jsonl")
    beside.write_text('{"sessionId":"' + TWO + '","type":"user"}\n')
    first = stale((home,))
    assert set(first) == {ONE, TWO, None}
    write(home, "plans/p.md", b"another plan")
    second = stale((home,))
    assert {owner for owner in first if first[owner] != second[owner]} == {None}
    watching.keep((home,), sessions=frozenset({None, TWO}))
    assert set(stale((home,))) == {ONE}
    assert set(Catalogue.of_home(home).current) == {
        "plans/p.md",
        "projects/-home-ada-orchard/agent-a7.jsonl",
    }


# -- the pace, by a clock of its own --------------------------------------------------------


@st.composite
def days_of_work(draw):
    """What happens when: at each step some time passes and some of three logs change."""
    cost = {owner: draw(st.floats(0.01, 30)) for owner in ("a", "b", None)}
    steps = draw(
        st.lists(
            st.tuples(st.floats(0.05, 5), st.sets(st.sampled_from(["a", "b", None]))),
            min_size=1,
            max_size=60,
        )
    )
    return cost, steps


@given(days_of_work())
def test_keeping_takes_a_twentieth_of_the_time_at_most_and_nothing_waits_for_ever(work):
    cost, steps = work
    pace, now, version, kept = Pace(), 100.0, dict.fromkeys(cost, 0), dict.fromkeys(cost, 0)
    began, spent, last = now, dict.fromkeys(cost, 0.0), {}

    def turn():
        nonlocal now
        behind = {owner: version[owner] for owner in cost if version[owner] != kept[owner]}
        pace.note(behind, now)
        for owners in pace.due(now):
            took = sum(cost[owner] for owner in owners)
            for owner in owners:
                assert owner in behind
                spent[owner] += cost[owner]
                kept[owner] = version[owner]
                last[owner] = took
            now += took
            pace.kept(owners, now, took)

    for passes, changed in steps:
        now += passes
        for owner in changed:
            version[owner] += 1
        turn()
    for owner in cost:
        most = max([cost[owner], *([last[owner]] if owner in last else [])])
        assert spent[owner] <= (now - began) / REST + most + 1e-6
    # Then all is quiet, and what is behind is kept as soon as it has rested.
    for _ in range(3):
        now += QUIET_SECONDS + REST * sum(cost.values())
        turn()
    assert kept == version


def test_a_log_that_never_rests_is_kept_nevertheless():
    pace, kept_at = Pace(), []
    for step in range(400):
        now = step * 0.1
        pace.note({"a": step}, now)
        for owners in pace.due(now):
            pace.kept(owners, now, 0.001)
            kept_at.append(now)
    gaps = [later - earlier for earlier, later in pairwise(kept_at)]
    assert kept_at[0] == pytest.approx(LONGEST_SECONDS)
    assert all(gap <= LONGEST_SECONDS + 0.2 for gap in gaps)
    assert len(kept_at) == 3


def test_a_quiet_log_does_not_wait_for_a_busy_one():
    pace = Pace()
    pace.note({"busy": 1, "small": 1}, 0)
    assert list(pace.due(QUIET_SECONDS)) == [{"busy", "small"}]
    pace.kept(frozenset({"busy"}), 10, 5.0)
    pace.kept(frozenset({"small"}), 10, 0.01)
    pace.note({"busy": 2, "small": 2}, 11)
    assert list(pace.due(12.5)) == [{"small"}]
    pace.kept(frozenset({"small"}), 12.5, 0.01)
    assert list(pace.due(109)) == []
    assert list(pace.due(110)) == [{"busy"}]


def test_what_failed_rests_a_while():
    pace = Pace()
    pace.note({"a": 1}, 0)
    pace.failed(frozenset({"a"}), 2, 0.1)
    pace.note({"a": 1}, 3)
    assert list(pace.due(FAILED_REST_SECONDS)) == []
    assert list(pace.due(FAILED_REST_SECONDS + 2)) == [{"a"}]
