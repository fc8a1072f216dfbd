"""Watching while others write: the index is fresh, and every record is told once."""

import json
import shutil
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import turnlog
from sessions.homes import prompt
from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.index.connection import open_fresh
from turnlog.index.refresh.refresh import refresh
from turnlog.live.feed import watch
from turnlog.sessions.writing import build

SESSION = "5f0c1111-aaaa-4aaa-8aaa-111111111111"
WRITER = """
import sys, time, turnlog
from turnlog.sessions import build
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with turnlog.open(root).create(project=root) as writer:
    for number in range(count):
        writer.append(build.user(f"{name} {number}"))
        time.sleep(0.003)
    with writer.subagent() as subagent:
        subagent.append(build.user(f"{name} subagent"))
"""


class Watcher:
    """Watches in a thread of its own until told to stop."""

    def __init__(self, home, **options):
        self.homes = (Home(home),)
        self.told, self.batches, self.failure = [], [], None
        self.stop, self.ready = threading.Event(), threading.Event()
        self.options = options
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            watch(self.homes, on_change=self._take, stop=self.stop, **self.options)
        except BaseException as error:
            self.failure = error
        self.ready.set()

    def _take(self, change):
        batch = [each for each in change.happened if each.record and each.record.text]
        self.batches.append(batch)
        self.told += batch
        self.ready.set()

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(10)
        assert not self.thread.is_alive()
        assert self.failure is None

    @property
    def texts(self):
        return [each.record.text for each in list(self.told)]

    def wait_for(self, *texts, seconds=180):
        end = time.monotonic() + seconds
        while not set(texts) <= set(self.texts):
            assert time.monotonic() < end, f"{texts} never came: {self.texts[-3:]}"
            assert self.failure is None, self.failure
            time.sleep(0.02)


@pytest.fixture(params=[None, 0.1], ids=["told", "polling"])
def poll(request):
    return request.param


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def said(text, at=None, session=SESSION):
    fields = prompt(text, timestamp=(at or datetime.now(UTC)).isoformat(), sessionId=session)
    fields["message"]["content"] = text
    return json.dumps(fields).encode() + b"\n"


def log_of(home, name=SESSION):
    path = home / "projects" / "-home-ada-orchard" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def append(path, *lines):
    with path.open("ab") as file:
        file.write(b"".join(lines))


def test_two_processes_write_and_nothing_is_lost_or_repeated(home, poll):
    with Watcher(home, poll=poll) as watcher:
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(home), name, "150"])
            for name in ("one", "two")
        ]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        watcher.wait_for("one 149", "two 149", "one subagent", "two subagent")
        time.sleep(0.3)
    for name in ("one", "two"):
        own = [text for text in watcher.texts if text.startswith(name)]
        assert own == [*(f"{name} {number}" for number in range(150)), f"{name} subagent"]
    for batch in watcher.batches:
        times = [each.at for each in batch]
        assert times == sorted(times)
    first = watcher.told[0]
    assert (first.project, first.author, first.subagent) == (str(home), "human", None)
    with open_fresh(watcher.homes, is_stale_allowed=True) as index:
        assert index.db.execute("SELECT sum(prompts) FROM sessions").fetchone() == (300,)


def test_a_log_is_replaced_another_deleted_meanwhile(home, poll):
    path, other = log_of(home), log_of(home, "6a0c2222-bbbb-4bbb-8bbb-222222222222")
    append(path, said("before"))
    append(other, said("other", session=other.stem))
    with Watcher(home, poll=poll) as watcher:
        append(path, said("one"))
        watcher.wait_for("one")
        beside = path.with_name("new.tmp")
        beside.write_bytes(said("mended") + path.read_bytes() + said("two"))
        beside.replace(path)
        other.unlink()
        watcher.wait_for("two")
        append(path, said("three"))
        watcher.wait_for("three")
        append(other, said("back", session=other.stem))
        watcher.wait_for("back")
        time.sleep(0.3)
    # What stood there before the watch began, or was told, is not told again.
    assert sorted(watcher.texts) == ["back", "mended", "one", "three", "two"]


def test_a_home_that_is_not_there_yet_is_waited_for(home, poll):
    home.rmdir()
    with Watcher(home, poll=poll) as watcher:
        time.sleep(0.3)
        append(log_of(home), said("born"))
        watcher.wait_for("born")
        append(log_of(home), said("grown"))
        watcher.wait_for("grown")
    assert watcher.texts == ["born", "grown"]


def test_a_home_that_vanishes_is_survived(home, poll, tmp_path):
    append(log_of(home), said("before"))
    with Watcher(home, poll=poll) as watcher:
        append(log_of(home), said("one"))
        watcher.wait_for("one")
        home.rename(tmp_path / "away")
        time.sleep(0.5)
        (tmp_path / "away").rename(home)
        append(log_of(home), said("two"))
        watcher.wait_for("two")
        shutil.rmtree(home)
        time.sleep(0.3)
        append(log_of(home), said("three"))
        watcher.wait_for("three")
    assert watcher.texts == ["one", "two", "three"]


def test_a_last_line_without_newline_is_told_once(home, poll):
    three = said("three")
    with Watcher(home, poll=poll) as watcher:
        append(log_of(home), said("one"), said("two")[:-1])
        watcher.wait_for("one", "two")
        append(log_of(home), b"\n", three[:-30])
        time.sleep(0.5)
        assert watcher.texts == ["one", "two"]
        append(log_of(home), three[-30:])
        watcher.wait_for("three")
        append(log_of(home), said("four"))
        watcher.wait_for("four")
    assert watcher.texts == ["one", "two", "three", "four"]


def test_others_may_refresh_the_index_first(home):
    path = log_of(home)
    append(path, said("before"))
    with Watcher(home, poll=0.3) as watcher:
        for number in range(20):
            append(path, said(f"r{number}"))
            refresh(watcher.homes)
        watcher.wait_for("r19")
        refresh(watcher.homes, rebuild=True)
        append(path, said("after"))
        watcher.wait_for("after")
        path.write_bytes(said("new") + path.read_bytes())
        refresh(watcher.homes)
        append(path, said("last"))
        watcher.wait_for("last")
    assert watcher.texts.count("before") == 0
    assert [text for text in watcher.texts if text != "new"] == [
        *(f"r{number}" for number in range(20)), "after", "last",
    ]  # fmt: skip


def test_what_happened_since_comes_first(home):
    now = datetime.now(UTC)
    append(log_of(home), said("old", now - timedelta(days=2)), said("young", now))
    with Watcher(home, since=now - timedelta(hours=1)) as watcher:
        assert watcher.texts == ["young"]
        append(log_of(home), said("new"))
        watcher.wait_for("new")
    assert watcher.texts == ["young", "new"]


@pytest.mark.parametrize("error", [RuntimeError("no watches left"), OSError(28, "no space")])
def test_where_the_system_cannot_tell_the_logs_are_looked_at(home, monkeypatch, error):
    import watchfiles

    from turnlog.sessions import watcher as changes

    def fail(*_paths, **_options):
        raise error

    monkeypatch.setattr(watchfiles, "watch", fail)  # A limit of the machine, not to be used up.
    monkeypatch.setattr(changes, "_POLL_SECONDS", 0.1)
    with Watcher(home) as watcher:
        append(log_of(home), said("one"))
        watcher.wait_for("one")
    assert watcher.texts == ["one"]


def test_a_watch_that_has_nothing_to_do_does_nothing(home):
    append(log_of(home), said("one"))
    with Watcher(home) as watcher:
        time.sleep(2.5)
    assert len(watcher.batches) == 1


def test_a_store_that_is_written_by_this_process(home):
    store = turnlog.open(home)
    with Watcher(home) as watcher, store.create(project=home, session_id=SESSION) as writer:
        uuids = writer.append_many(build.user(f"r{number}") for number in range(500))
        watcher.wait_for("r499")
    assert [each.record.uuid for each in watcher.told] == uuids


def test_an_absurd_pause_is_a_mistake(home):
    for poll in (0, -1, float("nan"), 1e9):
        with pytest.raises(UsageError):
            watch((Home(home),), on_change=print, poll=poll)
