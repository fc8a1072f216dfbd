"""Whoever watches is asked, and whatever becomes of it, nobody fails and nothing is missed."""

from __future__ import annotations

import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.homes import answered, lines, log_path
from index.watchers import PATIENCE_SECONDS, made_world, wait_until
from turnlog.errors import IndexTooNew
from turnlog.index import asking
from turnlog.index.answering import Answering
from turnlog.index.asking import HEARD, MOST_ASKED_BYTES, ask, counts_of, question
from turnlog.index.database import index_path, open_for_reading
from turnlog.index.freshness import VERSION
from turnlog.index.opening import open_fresh
from turnlog.index.refresh import refresh
from turnlog.index.refreshed import Refreshed, answer_of, refreshed_of
from turnlog.layout import Problem


@pytest.fixture
def world():
    with made_world() as made:
        made.say()
        refresh(made.homes)
        yield made


# -- the promise ----------------------------------------------------------------------------


def test_what_was_written_before_the_question_is_in_the_index_after_the_answer(world):
    world.watch()
    world.wait_for_answer()
    answers = 0
    for _ in range(200):
        word = world.say()
        if ask(world.names) is None:
            continue  # Busy: whoever asks does the work itself.
        answers += 1
        assert world.holds(word)
    assert answers


def test_whoever_opens_the_index_finds_it_fresh(world):
    world.watch()
    for _ in range(50):
        word = world.say()
        with open_fresh(world.homes) as index:
            query = "SELECT count(*) FROM said WHERE said MATCH ?"
            assert index.db.execute(query, (word,)).fetchone() == (1,)


def test_whoever_needs_only_the_ledger_asks_for_that(world):
    with Answering(world.homes) as answering:
        answering.listen()
        for number in range(20):
            with log_path(world.homes).open("ab") as log:
                log.write(lines(answered(number)))
            world.wait_for_answer("usage")
            with closing(open_for_reading(world.homes)) as db:
                counts = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM records)"
                assert db.execute(counts).fetchone() == (number + 1, 1)


def test_a_refresh_that_fails_is_not_answered_and_the_next_one_is(world):
    path = index_path(world.homes)
    before = threading.active_count()
    with Answering(world.homes) as answering:
        answering.listen()
        version(path, VERSION + 1)
        assert ask(world.names) is None
        with pytest.raises(IndexTooNew):
            open_fresh(world.homes)
        version(path, VERSION)
        assert counts_of(world.wait_for_answer()) == (1, 0, 0)
    assert not world.socket.exists()
    wait_until(lambda: threading.active_count() <= before)


def version(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")


def test_many_ask_at_once(world):
    world.watch()
    world.wait_for_answer()
    outcomes = []

    def one(word):
        answer = ask(world.names)
        outcomes.append(answer is None or (counts_of(answer) is not None and world.holds(word)))

    for _ in range(5):
        askers = [threading.Thread(target=one, args=(world.say(),)) for _ in range(20)]
        for each in askers:
            each.start()
        for each in askers:
            each.join(PATIENCE_SECONDS)
    assert outcomes == [True] * 100
    world.wait_for_answer()


def test_commands_at_once(world):
    world.watch()
    words = [world.say() for _ in range(6)]
    running = [subprocess.Popen(world.command("refresh"), stdout=subprocess.PIPE) for _ in range(6)]
    for each in running:
        out, _ = each.communicate(timeout=PATIENCE_SECONDS)
        assert (each.returncode, out.startswith(b"1 log; ")) == (0, True)
    assert all(map(world.holds, words))


def test_the_watcher_tells_each_record_once_whoever_asked(world):
    watcher = world.watch("--json", stdout=subprocess.PIPE)
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(watcher.stdout))
    reader.start()
    words = []
    for _ in range(30):
        words.append(world.say())
        ask(world.names)
    last = world.say()
    wait_until(lambda: any(last.encode() in line for line in seen) or watcher.poll() is not None)
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(PATIENCE_SECONDS) == 0
    reader.join(PATIENCE_SECONDS)
    told = b"".join(seen)
    assert [told.count(f"the {word} ".encode()) for word in (*words, last)] == [1] * 31


# -- a watcher that is not there for us -----------------------------------------------------


def test_a_killed_watcher_leaves_a_socket_that_harms_nobody(world):
    watcher = world.watch()
    world.wait_for_answer()
    watcher.kill()
    watcher.wait(PATIENCE_SECONDS)
    assert world.socket.exists()
    assert ask(world.names) is None
    word = world.say()
    done = world.run("refresh")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" in 1 of them.\n")
    assert world.holds(word)
    left = world.socket.stat().st_ino
    world.watch()
    wait_until(lambda: world.socket.stat().st_ino != left)
    world.wait_for_answer()


def test_a_stopped_watcher_is_not_waited_for(world):
    watcher = world.watch()
    world.wait_for_answer()
    watcher.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, watcher.pid, os.WSTOPPED | os.WNOWAIT)
    assert ask(world.names) is None
    word = world.say()
    done = world.run("refresh")
    assert (done.returncode, done.stderr) == (0, "")
    assert world.holds(word)
    watcher.send_signal(signal.SIGCONT)
    world.wait_for_answer()


def test_another_version_is_not_answered(world, monkeypatch):
    world.watch()
    world.wait_for_answer()
    monkeypatch.setattr(asking, "__version__", "0.0.9")
    assert ask(world.names) is None
    monkeypatch.undo()
    monkeypatch.setattr(asking, "PROTOCOL", 2)
    assert ask(world.names) is None
    monkeypatch.undo()
    assert hung_up(world, question(world.names, "everything"))
    world.wait_for_answer()


def test_a_watcher_of_other_homes_is_not_taken_for_ours(world):
    world.watch()
    world.wait_for_answer()
    with made_world() as other:
        word = other.say()
        refresh(other.homes)
        # As if one directory of indexes were seen from two trees of files.
        inside = world.socket.parent / other.socket.name
        inside.symlink_to(world.socket)
        os.environ["TURNLOG_HOME"] = str(world.socket.parents[1])
        refresh(other.homes)
        assert ask(other.names) is None
        assert other.holds(word)


def test_rebuilding_asks_nobody(world):
    with listening(world.socket, HEARD + b"done 7 0 0\n") as heard:
        done = world.run("refresh", "--rebuild")
        assert (done.returncode, len(heard)) == (0, 0)
        assert done.stdout.startswith("1 log; read ")
        assert world.run("refresh").stdout == "7 logs; nothing new.\n"
        assert heard == [question(world.names, "text")]


# -- what is said over the wire -------------------------------------------------------------


@contextmanager
def listening(place: Path, answer: bytes):
    """Somebody at the socket who gives the same answer to everybody."""
    heard = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()

    def serve():
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            with one:
                if (line := one.recv(MOST_ASKED_BYTES)) == b"":
                    return
                heard.append(line)
                try:
                    one.sendall(answer)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(place))
        thread.join(PATIENCE_SECONDS)
        listener.close()
        place.unlink()


def hung_up(world, data: bytes) -> bool:
    """Send *data*; tell whether nothing came back."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(PATIENCE_SECONDS)
        one.connect(str(world.socket))
        try:
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            return one.recv(100) == b""
        except (BrokenPipeError, ConnectionResetError):
            return True


def test_garbage_gets_nothing_and_stops_nobody(world):
    world.watch()
    world.wait_for_answer()
    rng = random.Random(5)
    asked = question(world.names, "text")
    for data in (
        b"",
        b"\n",
        asked[:-1],
        asked + asked,
        asked.replace(b"text", b"text\0"),
        b"GET / HTTP/1.1\r\n\r\n",
        rng.randbytes(1_000_000),
        b"turnlog " * 500_000,
    ):
        assert hung_up(world, data), data[:40]
    silent = [socket.socket(socket.AF_UNIX) for _ in range(10)]
    for each in silent:
        each.connect(str(world.socket))
    world.wait_for_answer()
    for each in silent:
        each.close()
    assert counts_of(world.wait_for_answer()) == (1, 0, 0)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"done 9 9 9\n",
        HEARD,
        HEARD + b"done 9 9 9",
        HEARD + b"done 9 9\n",
        HEARD + b"done 9 -9 9\n",
        HEARD + "done 9 \N{SUPERSCRIPT TWO} 9\n".encode(),
        HEARD + b"done 9 9 " + b"9" * 5000 + b"\n",
        HEARD + b"told " + b"[" * 100_000 + b"\n",
        HEARD + b"told {}\n",
        HEARD + b"told [1]\n",
        HEARD + b'told {"logs": 1, "problems": [1]}\n',
        HEARD + b"\xff\xfe\n",
        HEARD + b"\n",
        b"x" * 100_000,
    ],
)
def test_an_answer_that_is_none_leaves_the_work_to_the_asker(world, answer):
    word = world.say()
    with listening(world.socket, answer):
        done = world.run("refresh")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(" in 1 of them.\n")
        assert world.holds(word)
        word = world.say()
        with open_fresh(world.homes) as index:
            assert index.db.execute("SELECT 1 FROM said(?)", (word,)).fetchone()


def test_what_a_person_should_know_comes_through(world):
    told = Refreshed(
        logs=3,
        read=1,
        read_bytes=2_500_000,
        replaced=["/h/projects/-a/one.jsonl"],
        gone=["/h/projects/-a/two.jsonl"],
        problems=[Problem(Path("/h/projects/-a/three.jsonl"), "is a directory")],
        notices=["the index was broken: moved aside and made anew"],
    )
    with listening(world.socket, HEARD + answer_of(told).encode() + b"\n"):
        done = world.run("refresh")
    assert done.stderr == "notice: the index was broken: moved aside and made anew\n"
    assert done.stdout.splitlines() == [
        "3 logs; read 2.5 MB in 1 of them.",
        "rewritten since: -a/one.jsonl",
        "gone at its source: -a/two.jsonl",
        "not read: -a/three.jsonl: is a directory",
    ]


PATHS = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20)
COUNTS = st.integers(0, 2**62)


@given(
    st.fixed_dictionaries(
        {
            "logs": COUNTS,
            "read": COUNTS,
            "read_bytes": COUNTS,
            "replaced": st.lists(PATHS, max_size=3),
            "gone": st.lists(PATHS, max_size=3),
            "forgotten": COUNTS,
            "problems": st.lists(st.builds(Problem, PATHS.map(Path), PATHS), max_size=3),
            "notices": st.lists(PATHS, max_size=3),
        }
    ).map(lambda fields: Refreshed(**fields))
)
@settings(max_examples=50)
def test_an_answer_says_what_was_done(done):
    answer = answer_of(done)
    assert "\n" not in answer
    assert refreshed_of(answer.encode().decode()) == done


@given(st.text(max_size=60) | st.text('don told{}[]:"0123456789, ', max_size=60))
@settings(max_examples=50)
def test_no_answer_at_all_raises(answer):
    assert counts_of(answer) is None or refreshed_of(answer) is not None
    refreshed_of(answer)


# -- the socket -----------------------------------------------------------------------------


def test_only_its_owner_can_reach_it_and_it_goes_with_the_watcher(world):
    before = os.umask(0)
    try:
        watcher = world.watch()
    finally:
        os.umask(before)
    status = world.socket.stat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_IMODE(world.socket.parent.stat().st_mode) == 0o700
    world.wait_for_answer()
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(PATIENCE_SECONDS) == 0
    assert sorted(each.suffix for each in world.socket.parent.iterdir() if each.is_socket()) == []


def test_of_two_watchers_the_second_waits_and_takes_over(world):
    first = world.watch()
    world.wait_for_answer()
    which = world.socket.stat().st_ino
    second = world.watch("--json", "--since", "2026-01-01", stdout=subprocess.PIPE)
    assert b"kestrel" in second.stdout.readline()  # It watches.
    assert world.socket.stat().st_ino == which
    first.kill()
    first.wait(PATIENCE_SECONDS)
    world.wait_for_answer()
    assert world.socket.stat().st_ino != which
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE_SECONDS) == 0
    assert not world.socket.exists()


def test_a_watcher_whose_directory_is_gone_listens_again(world):
    world.watch()
    world.wait_for_answer()
    world.socket.unlink()
    assert ask(world.names) is None
    world.wait_for_answer()


def test_where_no_socket_can_be_nobody_listens_and_all_else_works(world, monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.setenv("TURNLOG_HOME", str(deep))
    watcher = subprocess.Popen(world.command("watch", "--quiet"))
    try:
        word = world.say()
        wait_until(lambda: world.socket.with_suffix(".sqlite").exists())
        wait_until(lambda: world.holds(word))
        assert not world.socket.exists()
        word = world.say()
        assert world.run("refresh").returncode == 0
        assert world.holds(word)
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(PATIENCE_SECONDS) == 0
    finally:
        watcher.kill()
        watcher.wait(PATIENCE_SECONDS)
