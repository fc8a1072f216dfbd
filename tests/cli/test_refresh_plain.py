"""``turnlog refresh``, answered without click and rich, says what the command itself says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from index.homes import SESSIONS, answered, asked, lines, log_path, made_home, made_tree, own_index
from sampling import sampled
from turnlog.formats.home_paths import turnlog_home_path
from turnlog.index.database import LAST_INDEX, index_path
from turnlog.index.refresh.refresh import refresh

PLAIN = "from turnlog.cli import main; main()"
COMMAND = "import sys; from turnlog.cli.app import run; sys.exit(run(sys.argv[1:]))"
# Of ours, what a log that went on as usual does not need.
HEAVY = (
    "click",
    "json",
    "logging",
    "rich",
    "turnlog.index.side_files",
    "turnlog.index.processes",
    "turnlog.formats.kept_copies",
    "turnlog.formats.walk",
    "turnlog.storage.scan",
    "turnlog.storage.tail",
    "turnlog.records.responses",
    "turnlog.sessions.writing.build",
    "turnlog.sessions.owners",
)
IMPORTED = (
    "import os, sys; leave = os._exit\n"
    f"heavy = {HEAVY}\n"
    "def told(code): print([m for m in heavy if m in sys.modules], flush=True); leave(code)\n"
    f"os._exit = told\n{PLAIN}"
)

COUNT = (
    "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], uri=True);"
    "print(*db.execute(sys.argv[2]).fetchone())"
)
OSPREYS = "SELECT count(*) FROM said WHERE said MATCH 'osprey'"


def said(code, home, own):
    done = subprocess.run(
        [sys.executable, "-c", code, "refresh", "--home", home],
        env=os.environ | {"TURNLOG_HOME": str(own), "COLUMNS": "80"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def home(tmp_path):
    homes = made_home(tmp_path / "home")
    for number, session in enumerate(SESSIONS[:3]):
        said = lines(asked(100 * number + 1, session), answered(100 * number + 2, session))
        log_path(homes, session).write_bytes(said)
    return homes


def grow(homes):
    with log_path(homes).open("ab") as log:
        log.write(lines(answered(3)))


def go_on(homes):
    with log_path(homes).open("ab") as log:
        log.write(lines(asked(3), answered(4)))


def replace(homes):
    log_path(homes).write_bytes(lines(asked(7)))


def put_a_directory(homes):
    log_path(homes, "7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4bff").mkdir()


CHANGES = {
    "nothing": lambda _: None,
    "grew": grow,
    "went on": go_on,
    "rewritten": replace,
    "gone": lambda homes: log_path(homes).unlink(),
    "not a log": put_a_directory,
    "no home": lambda homes: shutil.rmtree(homes[0].path),
}


@pytest.mark.parametrize("what", sampled(CHANGES, 3))
def test_both_ways_say_the_same(home, tmp_path, what):
    owns = [tmp_path / "one", tmp_path / "two"]
    first = [
        said(code, home[0].path, own) for code, own in zip((PLAIN, COMMAND), owns, strict=True)
    ]
    assert first[0] == first[1]
    assert first[0][1].startswith("3 logs; read ")
    CHANGES[what](home)
    plain, command = (
        said(code, home[0].path, own) for code, own in zip((PLAIN, COMMAND), owns, strict=True)
    )
    assert plain == command
    if what == "nothing":
        assert plain == (0, "3 logs; nothing new\n", "")


def settled(home, own):
    """Make the index, and let the directories be so old that they are trusted."""
    for directory in (Path(home[0].path), *Path(home[0].path).rglob("*")):
        if directory.is_dir():
            os.utime(directory, (1_700_000_000, 1_700_000_000))
    said(PLAIN, home[0].path, own)


@pytest.mark.parametrize("what", ["nothing", "grew", "went on"])
def test_a_plain_refresh_imports_nothing_that_it_does_not_need(home, tmp_path, what):
    settled(home, tmp_path / "own")
    CHANGES[what](home)
    code, out, _ = said(IMPORTED, home[0].path, tmp_path / "own")
    assert (code, out.splitlines()[-1]) == (0, "[]")


def test_what_waits_goes_on_waiting_when_nothing_is_new(home, tmp_path):
    own = tmp_path / "own"
    made_tree(tmp_path / "home", 5, 3_000_000)
    settled(home, own)
    go_on(home)
    said(PLAIN, home[0].path, own)
    waiting = Path(f"{next((own / 'index').glob('*.sqlite'))}-wal")
    before = waiting.stat().st_size
    assert before
    assert said(PLAIN, home[0].path, own)[1].endswith("; nothing new\n")
    assert waiting.stat().st_size == before


def test_a_reader_that_goes_away_is_no_failure(home, tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, "refresh", "--home", home[0].path],
        env=os.environ | {"TURNLOG_HOME": str(tmp_path / "own")},
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_last_index_is_the_last():
    script = (Path(refresh.__code__.co_filename).parents[1] / "indexes.sql").read_text("utf-8")
    assert script.rstrip().splitlines()[-1].startswith(f"CREATE INDEX IF NOT EXISTS {LAST_INDEX} ")


def test_what_waits_in_the_write_ahead_log_is_seen_by_others_and_stays_little(tmp_path):
    with own_index(tmp_path / "own"):
        homes = made_tree(tmp_path / "home", 5, 3_000_000)
        refresh(homes)
        path = index_path(homes)
        waited = 0
        for number in range(12):
            text = {"role": "user", "content": f"osprey {number}"}
            with log_path(homes).open("ab") as log:
                log.write(lines(asked(90_000 + number, message=text)))
            refresh(homes)
            waiting = Path(f"{path}-wal")
            waited += waiting.exists()
            assert not waiting.exists() or waiting.stat().st_size <= path.stat().st_size // 4
            reader = [sys.executable, "-c", COUNT, f"file:{path}?mode=ro", OSPREYS]
            assert subprocess.check_output(reader).split() == [str(number + 1).encode()]
        assert waited


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs is asked")
@pytest.mark.parametrize("data", [None, "", " ", "/srv/data", "/srv/data/", "/a//b", "here", "~/x"])
@pytest.mark.parametrize("user", [None, "/home/ada", "/home/ada/", "/", "", "ada"])
def test_turnlogs_own_place_is_where_the_platform_says(monkeypatch, data, user):
    for name, value in (("XDG_DATA_HOME", data), ("HOME", user), ("TURNLOG_HOME", None)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    expected = platformdirs.user_data_dir("turnlog", appauthor=False)
    assert turnlog_home_path() == expected
