"""What was kept comes back as it was, where its agent finds it; nothing else is touched."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keep.orchard_home import (
    ID,
    OTHER,
    PLAN,
    PROJECT,
    SHARED,
    SUBAGENT,
    Orchard,
    conversation,
    files_in,
    line,
    parts_of,
    write_files,
)
from turnlog.cli.hints import hint_of
from turnlog.errors import (
    AmbiguousSession,
    BrokenCopy,
    NotFound,
    StorageFull,
    TurnlogError,
    UsageError,
    WriteFailed,
)
from turnlog.formats import Home, hash_of, key_of
from turnlog.formats.home_files import is_home_file
from turnlog.keep.catalog import CATALOGUE, Catalogue
from turnlog.keep.copies import reader
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore import restore_files
from turnlog.keep.restore.restorable import all_mirrors, find_restorable, generations_of
from turnlog.keep.restore.restore import (
    Refused,
    RestoreOutcome,
    restore,
    restore_each,
    restore_rest,
    select_copies,
)
from turnlog.sessions.session import Session
from turnlog.storage import atomic_files
from turnlog.storage.compressed import FrameTable, pack

MINE = {
    name: data
    for name, data in (parts_of() | SHARED).items()
    if name not in {"plans/another.md", "history.jsonl"}
}


def outcomes(restored):
    return {file.name: file.outcome for file in restored.files}


def only_written(restored):
    return set(outcomes(restored).values()) == {RestoreOutcome.WRITTEN}


# -- all of it, and nothing else ------------------------------------------------------------------


def test_a_session_comes_back_with_all_its_parts_when_the_home_is_gone(orchard):
    orchard.burn()
    done = restore(orchard.session())
    assert files_in(orchard.home) == MINE
    assert only_written(done)
    assert (done.session, done.project) == (ID, PROJECT)
    assert done.path == str(orchard.home / orchard.main)
    assert Session.find([Home(orchard.home)], ID).path == Path(done.path)


def test_files_are_private_and_new(orchard):
    orchard.burn()
    before = time.time() - 1
    old = os.umask(0)
    try:
        restore(orchard.session())
    finally:
        os.umask(old)
    for path in orchard.home.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
        # Claude Code deletes what has not been changed for thirty days.
        assert path.stat().st_mtime >= before


def test_restoring_twice_is_restoring_once(orchard):
    orchard.burn()
    restore(orchard.session())
    times = {path: path.stat().st_mtime_ns for path in orchard.home.rglob("*")}
    again = restore(orchard.session())
    assert set(outcomes(again).values()) == {RestoreOutcome.THERE}
    assert again.written == 0
    assert {path: path.stat().st_mtime_ns for path in orchard.home.rglob("*")} == times


def test_only_what_is_missing_is_written(orchard):
    lost = f"projects/{key_of(PROJECT)}/{ID}/subagents/agent-{SUBAGENT}.jsonl"
    (orchard.home / lost).unlink()
    done = restore(orchard.session())
    assert [
        name for name, outcome in outcomes(done).items() if outcome is RestoreOutcome.WRITTEN
    ] == [lost]
    assert files_in(orchard.home) == orchard.files


def test_a_log_that_has_grown_is_left(orchard):
    log = orchard.home / orchard.main
    more = orchard.files[orchard.main] + conversation(start=9)
    log.write_bytes(more)
    done = restore(orchard.session())
    assert outcomes(done)[orchard.main] is RestoreOutcome.NEWER
    assert log.read_bytes() == more


def test_a_session_goes_to_another_home(orchard, tmp_path):
    done = restore(orchard.session(), to=tmp_path / "elsewhere" / "deep")
    assert files_in(tmp_path / "elsewhere" / "deep") == MINE
    assert only_written(done)
    assert files_in(orchard.home) == orchard.files


def test_everything_else_comes_back_when_asked_for(orchard):
    orchard.burn()
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert all(not isinstance(each, Refused) for each in restore_each(mirror.sessions.values()))
    rest = restore_rest(mirror)
    assert files_in(orchard.home) == orchard.files
    assert {file.name for file in rest if file.outcome is RestoreOutcome.WRITTEN} == {
        "plans/another.md",
        "history.jsonl",
    }


def test_what_is_shared_and_changed_is_left_and_told(orchard):
    plan = f"plans/{PLAN}.md"
    orchard.burn()
    write_files(orchard.home, {plan: b"# Another plan\n", "history.jsonl": b"{}\n"})
    done = restore(orchard.session())
    assert outcomes(done)[plan] is RestoreOutcome.LEFT
    assert [file.detail for file in done.files if file.name == plan] == ["is another file"]
    rest = restore_rest(orchard.session().mirror)
    assert {file.name: file.outcome for file in rest}["history.jsonl"] is RestoreOutcome.LEFT
    assert files_in(orchard.home)[plan] == b"# Another plan\n"
    assert files_in(orchard.home)["history.jsonl"] == b"{}\n"


def test_the_main_log_comes_last(orchard, monkeypatch):
    orchard.burn()
    order = []
    real = restore_files.put

    def noting(root, parts, data, **options):
        order.append("/".join(parts))
        return real(root, parts, data, **options)

    monkeypatch.setattr(restore_files, "put", noting)
    restore(orchard.session())
    assert order[-1] == orchard.main
    assert order[-2].endswith(f"agent-{SUBAGENT}.jsonl")


# -- what stands in the way -----------------------------------------------------------------------


def refused(orchard, **options):
    before = files_in(orchard.home)
    with pytest.raises(UsageError) as caught:
        restore(orchard.session(), **options)
    assert caught.value.hint.startswith("nothing was written")
    assert files_in(orchard.home) == before
    return caught.value.message


@pytest.mark.parametrize("name", [name for name in MINE if not name.startswith("plans/")])
def test_another_file_is_never_overwritten_and_then_nothing_is_written(orchard, name):
    orchard.burn()
    write_files(orchard.home, {name: b"something else"})
    assert f"{name} is another file" in refused(orchard)


def test_a_log_that_lost_its_end_is_not_completed_in_silence(orchard):
    log = orchard.home / orchard.main
    log.write_bytes(log.read_bytes()[:-100])
    assert "holds less than was kept of it" in refused(orchard)


def test_a_file_that_goes_on_and_is_no_log_is_another(orchard):
    name = f"tasks/{ID}/1.json"
    orchard.write(name, orchard.files[name] + b" ")
    assert "begins alike" in refused(orchard)


def test_all_that_is_in_the_way_is_told_at_once(orchard):
    orchard.burn()
    write_files(orchard.home, dict.fromkeys(list(MINE)[:7], b"x"))
    message = refused(orchard)
    assert message.count("is another file") == 5
    assert "and 2 more" in message


@pytest.mark.parametrize("what", ["symlink", "fifo", "directory", "dangling"])
def test_things_that_are_no_files_are_in_the_way(orchard, tmp_path, what):
    orchard.burn()
    path = orchard.home / orchard.main
    path.parent.mkdir(parents=True)
    target = tmp_path / "outside"
    target.write_bytes(orchard.files[orchard.main])
    match what:
        case "symlink":
            path.symlink_to(target)
        case "dangling":
            path.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
    assert "cannot be compared" in refused(orchard)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("where", ["projects", f"projects/{key_of(PROJECT)}", "tasks"])
def test_no_link_leads_out_of_the_home(orchard, tmp_path, where):
    orchard.burn()
    (tmp_path / "outside").mkdir()
    link = orchard.home / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "outside")
    refused(orchard)
    assert not list((tmp_path / "outside").iterdir())


def test_a_file_where_a_directory_should_be_is_in_the_way(orchard):
    orchard.burn()
    orchard.home.mkdir()
    (orchard.home / "projects").write_bytes(b"")
    refused(orchard)


def test_a_home_that_is_a_file_or_a_dangling_link_is_refused(orchard, tmp_path):
    orchard.burn()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nowhere")
    for to in ("file", "dangling"):
        with pytest.raises(UsageError):
            restore(orchard.session(), to=tmp_path / to)


def test_a_home_may_be_a_link(orchard, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    restore(orchard.session(), to=tmp_path / "link")
    assert files_in(tmp_path / "real") == MINE


@pytest.mark.parametrize("theirs", ["same", "other", "shared"])
def test_a_file_that_appears_in_the_middle_is_not_overwritten(orchard, monkeypatch, theirs):
    orchard.burn()
    name = f"plans/{PLAN}.md" if theirs == "shared" else f"tasks/{ID}/1.json"
    data = b"theirs" if theirs != "same" else orchard.files[name]
    real = atomic_files.Folder.move

    def racing(folder, old, new, **options):
        if new == name.rpartition("/")[2]:
            write_files(orchard.home, {name: data})
        return real(folder, old, new, **options)

    monkeypatch.setattr(atomic_files.Folder, "move", racing)
    if theirs == "other":
        with pytest.raises(UsageError, match="not there a moment ago"):
            restore(orchard.session())
        assert not (orchard.home / orchard.main).exists()
    else:
        done = restore(orchard.session())
        expected = RestoreOutcome.THERE if theirs == "same" else RestoreOutcome.LEFT
        assert outcomes(done)[name] is expected
    assert files_in(orchard.home)[name] == data
    assert not list(orchard.home.rglob("*.part"))


# -- copies that are not what they were -----------------------------------------------------------


def spoil(path, how):
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(how(bytearray(data)))


def flipped(at):
    def flip(data):
        data[at % len(data)] ^= 0x10
        return data

    return flip


@pytest.mark.parametrize("at", range(0, 1200, 61))
def test_a_flipped_bit_is_never_restored(orchard, at):
    orchard.burn()
    spoil(orchard.copy(), flipped(at))
    try:
        restore(orchard.session())
    except BrokenCopy:
        assert not orchard.home.exists()
    else:
        assert files_in(orchard.home) == MINE  # A bit of the table's that nobody reads.


@pytest.mark.parametrize("keep_bytes", [0, 1, 4, 9, 50, 200, 400, -1, -9, -17])
def test_a_copy_that_was_cut_short_is_never_restored(orchard, keep_bytes):
    orchard.burn()
    spoil(orchard.copy(), lambda data: data[:keep_bytes])
    with pytest.raises(BrokenCopy):
        restore(orchard.session())
    assert not orchard.home.exists()


def test_a_copy_with_something_behind_it_is_never_restored(orchard):
    orchard.burn()
    spoil(orchard.copy(), lambda data: data + b"more")
    with pytest.raises(BrokenCopy):
        restore(orchard.session())


def test_a_copy_of_something_else_is_never_restored(orchard):
    orchard.burn()
    other = pack(b"x" * len(orchard.files[orchard.main]))
    table = FrameTable([(len(other), len(orchard.files[orchard.main]))]).encode()
    spoil(orchard.copy(), lambda _data: other + table)
    with pytest.raises(BrokenCopy, match="are not those kept"):
        restore(orchard.session())
    assert not orchard.home.exists()


def bomb(frames):
    """Sixteen mebibytes in each frame of half a kilobyte."""
    one = pack(b"\0" * (16 * 1024 * 1024))
    return one * frames + FrameTable([(len(one), 16 * 1024 * 1024)] * frames).encode()


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_bomb_does_not_go_off(orchard, is_listed):
    orchard.burn()
    spoil(orchard.copy(), lambda _data: bomb(4000))
    if not is_listed:
        (orchard.place / CATALOGUE).unlink()
    with pytest.raises(BrokenCopy):
        restore(orchard.session())
    assert not orchard.home.exists()


@pytest.mark.parametrize("damage", ["none", "frame", "table"])
def test_a_copy_that_packs_very_well_is_no_bomb(orchard, monkeypatch, damage):
    """Several hundred times smaller packed, and no catalogue says how large it was."""
    monkeypatch.setattr(reader, "_BOMB_SLACK", 0)  # Else it would take 64 MiB to be suspicious.
    said = line(type="mode", mode="x" * 5000)
    whole = said * (5 * 1024 * 1024 // len(said))
    orchard.write(orchard.main, whole)
    orchard.keep()
    assert len(whole) > 200 * orchard.copy().stat().st_size
    (orchard.place / CATALOGUE).unlink()
    orchard.burn()
    if damage == "frame":
        spoil(orchard.copy(), flipped(60))
    elif damage == "table":
        spoil(orchard.copy(), lambda data: data[:-9])
    restore(orchard.session(), partial=damage != "none")
    back = (orchard.home / orchard.main).read_bytes()
    if damage == "frame":  # The first of them is lost, and its place is NULs.
        assert len(back) == len(whole)
        assert back[1024 * 1024 :] == whole[1024 * 1024 :]
    else:
        assert back == whole


def test_a_broken_part_can_be_left_out(orchard):
    orchard.burn()
    name = f"file-history/{ID}/0a1b2c@v1"
    spoil(orchard.copy(name), flipped(6))
    with pytest.raises(BrokenCopy) as caught:
        restore(orchard.session())
    assert "restores the rest" in hint_of(caught.value)
    done = restore(orchard.session(), partial=True)
    assert outcomes(done)[name] is RestoreOutcome.BROKEN
    assert files_in(orchard.home) == {each: data for each, data in MINE.items() if each != name}


def test_a_broken_plan_stops_nobody(orchard):
    orchard.burn()
    spoil(orchard.copy(f"plans/{PLAN}.md"), flipped(6))
    assert outcomes(restore(orchard.session()))[f"plans/{PLAN}.md"] is RestoreOutcome.BROKEN


def test_what_is_left_of_a_long_log_can_be_had(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    orchard = Orchard(tmp_path)
    long = b"".join(line(type="mode", mode="x" * 5000, n=number) for number in range(600))
    orchard.write(orchard.main, long)
    orchard.keep()
    orchard.burn()
    spoil(orchard.copy(), flipped(200))  # In the first of three frames.
    with pytest.raises(BrokenCopy, match=r"bytes 0 to 1,04\d,\d+"):
        restore(orchard.session())
    done = restore(orchard.session(), partial=True)
    (told,) = [file for file in done.files if file.name == orchard.main]
    assert told.outcome is RestoreOutcome.WRITTEN
    assert "what is left of it" in told.detail
    back = (orchard.home / orchard.main).read_bytes()
    assert len(back) == len(long)
    start = len(back) - len(back.lstrip(b"\0")) + 1
    assert back[start:] == long[start:]
    assert restore(orchard.session(), partial=True).written == 0


# -- catalogues that are not what they were -------------------------------------------------------


def test_a_lost_catalogue_loses_nothing(orchard):
    orchard.write(orchard.main, conversation(turns=1))
    orchard.keep()
    (orchard.place / CATALOGUE).unlink()
    orchard.burn()
    assert [each.generation for each in generations_of(orchard.session())] == [1, 2]
    restore(orchard.session())
    assert files_in(orchard.home)[orchard.main] == conversation(turns=1)
    old = orchard.home.with_name("old")
    restore(orchard.session(), to=old, generation=1)
    assert files_in(old) == MINE


def test_a_catalogue_that_is_behind_by_a_growth_is_no_obstacle(orchard):
    """Killed after the copy was put in place and before it was written down."""
    before = (orchard.place / CATALOGUE).read_bytes()
    grown = orchard.files[orchard.main] + conversation(start=20, turns=900)
    orchard.write(orchard.main, grown)
    orchard.keep()
    (orchard.place / CATALOGUE).write_bytes(before)
    orchard.burn()
    restore(orchard.session())
    assert files_in(orchard.home)[orchard.main] == grown


def test_a_catalogue_that_is_behind_by_a_generation_is_no_obstacle(orchard):
    before = Catalogue.load(orchard.place)
    orchard.write(orchard.main, conversation(turns=1))
    orchard.keep()
    after = Catalogue.load(orchard.place)
    before.older = after.older  # That is written down before the new copy is put in place.
    before.save()
    orchard.burn()
    session = orchard.session()
    assert [each.generation for each in generations_of(session)] == [1, 2]
    restore(session)
    assert files_in(orchard.home)[orchard.main] == conversation(turns=1)


@pytest.mark.parametrize(
    "name",
    [
        f"projects/../../../outside/{ID}.jsonl",
        f"../{ID}.jsonl",
        f"/etc/{ID}.jsonl",
        f"projects//{ID}.jsonl",
        f"projects/\0/{ID}.jsonl",
        f"todos/../../{ID}.json",
        "settings.json",
        ".claude.json",
        "CLAUDE.md",
        "plugins/evil.js",
        "commands/evil.md",
        "agents/evil.md",
        "hooks/evil.sh",
        ".git/config",
    ],
)
def test_a_hostile_catalogue_writes_nothing_where_it_does_not_belong(orchard, tmp_path, name):
    orchard.burn()
    stored = json.loads((orchard.place / CATALOGUE).read_bytes())
    evil = dict(next(each for each in stored["files"] if each["name"] == orchard.main))
    stored["files"] += [evil | {"name": name}, evil | {"name": name, "session": ID}]
    stored["older"] += [evil | {"name": name, "session": ID, "generation": 3}]
    (orchard.place / CATALOGUE).write_text(json.dumps(stored), "utf-8")
    if name[0] != "/" and not any(each in name for each in ("..", "//", "\0")):
        planted = orchard.place / f"{name}.zst"
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_bytes(orchard.copy().read_bytes())
    assert not is_home_file(name, [orchard.main])
    mirror = orchard.session().mirror
    assert name not in mirror.copies
    restore(orchard.session())
    restore_rest(mirror)
    assert files_in(orchard.home) == orchard.files
    assert {path.name for path in tmp_path.iterdir()} == {"home of ann", "turnlog"}


# -- generations ----------------------------------------------------------------------------------


def test_every_generation_can_be_had(orchard, tmp_path):
    texts = [orchard.files[orchard.main]]
    for number in range(2, 5):
        texts.append(conversation(turns=number, start=10 * number))
        orchard.write(orchard.main, texts[-1])
        orchard.keep()
    orchard.burn()
    session = orchard.session()
    assert [each.generation for each in generations_of(session)] == [1, 2, 3, 4]
    assert [each.is_newest for each in generations_of(session)] == [False, False, False, True]
    for number, text in enumerate(texts, 1):
        home = tmp_path / f"home {number}"
        restore(session, to=home, generation=number)
        assert files_in(home) == MINE | {orchard.main: text}
    with pytest.raises(NotFound) as caught:
        restore(session, generation=5)
    assert "1, 2, 3, 4" in caught.value.hint


def test_parts_come_back_as_they_were_with_their_main_log(orchard, tmp_path):
    todos = f"todos/{ID}-agent-{ID}.json"
    orchard.write(todos, b'[{"content":"later"}]')
    orchard.keep()
    orchard.write(orchard.main, conversation(turns=1))
    orchard.write(todos, b'[{"content":"last"}]')
    orchard.keep()
    restore(orchard.session(), to=tmp_path / "first", generation=1)
    assert files_in(tmp_path / "first")[todos] == orchard.files[todos]
    restore(orchard.session(), to=tmp_path / "last")
    assert files_in(tmp_path / "last")[todos] == b'[{"content":"last"}]'
    # And each of its own, whatever its main log was then.
    done = restore(orchard.session(), to=tmp_path / "one", only=todos, generation=2)
    assert files_in(tmp_path / "one") == {todos: b'[{"content":"later"}]'}
    assert done.path is None
    with pytest.raises(NotFound):
        restore(orchard.session(), only="todos/nothing.json")


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["grow", "rewrite", "cut", "delete", "touch"]),
            st.integers(0, 2000),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_everything_ever_kept_can_be_restored(tmp_path_factory, history):
    """Whatever happens to a log, what was there at each keeping is in some generation."""
    place = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNLOG_HOME", str(place / "turnlog"))
        orchard = Orchard(place)
        orchard.keep()
        seen = [orchard.files[orchard.main]]
        path = orchard.home / orchard.main
        for number, (deed, size, is_kept) in enumerate(history):
            data = path.read_bytes() if path.exists() else b""
            match deed:
                case "grow":
                    data += conversation(turns=1 + size // 200, start=1000 * number)
                case "rewrite":
                    data = conversation(turns=1 + size // 400, start=1000 * number + 500)
                case "cut":
                    data = data[: min(size, len(data))]
            if deed == "delete":
                path.unlink(missing_ok=True)
            else:
                orchard.write(orchard.main, data)
            if is_kept:
                orchard.keep()
                if path.exists():
                    seen.append(path.read_bytes())
        session = orchard.session()
        held = []
        for each in generations_of(session):
            home = place / f"generation {each.generation}"
            restore(session, to=home, generation=each.generation)
            held.append(files_in(home)[orchard.main])
        for data in seen:
            assert any(each.startswith(data) for each in held)


# -- moving ---------------------------------------------------------------------------------------


def test_a_moved_session_is_filed_and_says_that_it_works_elsewhere(orchard, tmp_path):
    new = tmp_path / "neuer Öbstgarten"
    new.mkdir()
    done = restore(orchard.session(), to=tmp_path / "moved", project=new)
    key = key_of(os.path.realpath(new))
    found = files_in(tmp_path / "moved")
    old, where = PROJECT.encode(), os.path.realpath(new).encode()
    expected = {}
    for name, data in MINE.items():
        # The only places where the records of this home name their directory.
        moved = data.replace(b'"cwd":"' + old, b'"cwd":"' + where)
        moved = moved.replace(b'"relocatedCwd":"' + old, b'"relocatedCwd":"' + where)
        is_log = name.endswith(".jsonl")
        expected[name.replace(key_of(PROJECT), key)] = moved if is_log else data
    assert found == expected
    assert (done.moved, done.elsewhere) == (13, 0)
    assert done.project == os.path.realpath(new)
    moved = Session.find([Home(tmp_path / "moved")], ID)
    original = Session.find([Home(orchard.home)], ID)
    assert [node.uuid for node in moved.thread] == [node.uuid for node in original.thread]
    assert len(moved.subagents) == 1


def test_moving_twice_is_moving_once(orchard, tmp_path):
    options = {"to": tmp_path / "moved", "project": tmp_path / "new"}
    restore(orchard.session(), **options)
    again = restore(orchard.session(), **options)
    assert again.written == 0
    assert (tmp_path / "moved" / "projects" / key_of(str(tmp_path / "new"))).is_dir()


def test_a_session_moved_in_its_own_home_is_the_one_that_is_found(orchard, tmp_path):
    done = restore(orchard.session(), project=tmp_path / "new")
    log = Path(done.path)
    log.write_bytes(log.read_bytes() + conversation(start=30))
    orchard.keep()
    orchard.burn()
    again = restore(orchard.session())
    assert again.path == done.path
    assert not (orchard.home / orchard.main).exists()


@pytest.mark.parametrize(
    ("cwd", "key"),
    [
        ("C:\\Users\\Ann\\orchard", None),
        ("/" + "/".join(["very-long-directory"] * 14), None),
        ("/home/ann/Obst Garten/äöü \U0001f333", None),
        ("/home/ann/named", "a-name-of-its-own"),
    ],
)
def test_sessions_of_every_kind_of_path_move(tmp_path, monkeypatch, cwd, key):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    orchard = Orchard(tmp_path)
    parts = parts_of(OTHER, cwd=cwd, key=key)
    write_files(orchard.home, parts)
    orchard.keep()
    orchard.burn()
    session = orchard.session(OTHER)
    assert session.project == cwd
    new = tmp_path / ("n" * 100) / ("m" * 120)
    done = restore(session, project=new)
    assert done.elsewhere == 0
    assert len(Path(done.path).parent.name) > 200
    moved = Session.find([Home(orchard.home)], OTHER)
    assert moved.summary.cwd == str(new) + "/trees"  # As its `relocated` record says.
    assert {item.record.cwd for item in moved.items() if item.record.type == "user"} == {str(new)}
    restore(session)
    assert {name: data for name, data in files_in(orchard.home).items() if name in parts} == parts


def test_an_agent_in_a_directory_below_moves_with_its_session(orchard, tmp_path):
    below = PROJECT + "/.claude/worktrees/fix"
    beside = PROJECT + "-other"
    for cwd in (below, beside):
        name = f"projects/{key_of(cwd)}/{ID}/subagents/agent-{len(cwd)}.jsonl"
        write_files(orchard.home, {name: conversation(cwd=cwd, agentId="x")})
    orchard.keep()
    done = restore(orchard.session(), to=tmp_path / "moved", project="/srv/new")
    names = {file.name.split("/")[1] for file in done.files if file.name.startswith("projects/")}
    assert names == {"-srv-new", "-srv-new--claude-worktrees-fix", key_of(beside)}
    assert done.elsewhere == 6


def test_a_move_that_would_change_a_thread_is_refused(orchard, tmp_path, monkeypatch):
    shapes = iter(["a", "b"] * 10)
    monkeypatch.setattr(restore_files, "shape_of", lambda _chunks: next(shapes))
    with pytest.raises(WriteFailed, match="changed its threads"):
        restore(orchard.session(), to=tmp_path / "moved", project="/srv/new")
    assert not (tmp_path / "moved").exists()


# -- other layouts --------------------------------------------------------------------------------


def test_a_session_in_days_logs_comes_back(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    home = tmp_path / "days"
    days = {
        f"projects/{hash_of(PROJECT)}/2026-01-0{day}.jsonl": conversation(start=day)
        for day in (1, 2)
    }
    other = {f"projects/{hash_of('/x')}/2026-01-01.jsonl": conversation(OTHER, cwd="/x")}
    write_files(home, days | other)
    keep([Home(home)])
    for name in days:
        (home / name).unlink()
    session = find_restorable(all_mirrors([Home(home)]), ID)
    assert session.project == PROJECT
    restore(session)
    assert files_in(home) == days | other
    done = restore(session, to=tmp_path / "moved", project="/srv/new")
    assert {file.name.split("/")[1] for file in done.files} == {hash_of("/srv/new")}


@pytest.mark.parametrize("prefix", ["sessions/", ""])
def test_a_flat_session_comes_back_and_is_in_the_index(tmp_path, monkeypatch, prefix):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    home = tmp_path / "flat"
    log = line(type="system_init", timestamp=1_767_323_040_000, cwd=PROJECT, model="m")
    log += line(type="user", uuid="msg-1", content=[{"type": "text", "text": "hi"}])
    files = {f"{prefix}abc123.jsonl": log, f"{prefix}abc123.meta.json": b'{"sessionId":"abc123"}'}
    write_files(home, files | {f"{prefix}index.json": b'{"version":1,"sessions":[]}'})
    keep([Home(home)])
    (home / f"{prefix}abc123.jsonl").unlink()
    session = find_restorable(all_mirrors([Home(home)]), "abc")
    restore(session)
    assert (home / f"{prefix}abc123.jsonl").read_bytes() == log
    assert "abc123" in (home / f"{prefix}index.json").read_text("utf-8")
    assert Session.find([Home(home)], "abc123").summary.cwd == PROJECT


def test_an_early_agents_log_beside_its_session_comes_along(orchard):
    name = f"projects/{key_of(PROJECT)}/agent-beside1.jsonl"
    write_files(orchard.home, {name: conversation(agentId="beside1")})
    orchard.keep()
    orchard.burn()
    restore(orchard.session())
    assert files_in(orchard.home) == MINE | {name: conversation(agentId="beside1")}


# -- finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_kept_again", [True, False])
@pytest.mark.parametrize("name", ["-a-first-name", "-z-last-name"])
def test_a_session_whose_project_was_moved_is_not_put_back_beside_itself(
    orchard, name, is_kept_again
):
    """Its log is as old as it was, and its id is live: nothing of it is gone."""
    old = orchard.home / "projects" / orchard.main.split("/")[1]
    old.rename(old.with_name(name))
    if is_kept_again:
        orchard.keep()
    before = files_in(orchard.home)
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert not any(each.is_gone for each in mirror.sessions.values())
    done = list(restore_each(mirror.sessions.values()))
    restore_rest(mirror)
    assert files_in(orchard.home) == before
    for each in done:
        if is_kept_again:
            assert not each.written
        else:
            assert isinstance(each, Refused)
            assert name in each.reason
    if not is_kept_again:  # Whoever names it means it.
        assert restore(mirror.sessions[ID]).written


def test_a_moved_session_comes_back_once_when_the_home_is_gone(orchard):
    old = orchard.home / "projects" / orchard.main.split("/")[1]
    new = old.rename(old.with_name("-z-last-name"))
    orchard.keep()
    orchard.burn()
    (mirror,) = all_mirrors([Home(orchard.home)])
    assert all(each.is_gone for each in mirror.sessions.values())
    list(restore_each(mirror.sessions.values()))
    restore_rest(mirror)
    assert list(orchard.home.glob("projects/*/*.jsonl")) == [new / f"{ID}.jsonl"]


# -- one id in several places ---------------------------------------------------------------------

WORKTREE = PROJECT + "/.claude/worktrees/fix"


def second_copy(orchard, data, cwd=WORKTREE):
    """Put a log with the session's id into the directory of another project; give its name."""
    name = f"projects/{key_of(cwd)}/{ID}.jsonl"
    write_files(orchard.home, {name: data})
    return name


def restore_all(orchard):
    (mirror,) = all_mirrors([Home(orchard.home)])
    done = list(restore_each(mirror.restorables))
    restore_rest(mirror)
    return done


@pytest.mark.parametrize("is_longer", [True, False])
@pytest.mark.parametrize("is_continued", [True, False])
def test_every_copy_of_an_id_comes_back_to_its_place(orchard, is_longer, is_continued):
    ours = orchard.files[orchard.main]
    theirs = ours if is_continued else conversation(cwd=WORKTREE)
    theirs = theirs + conversation(start=9, cwd=WORKTREE) if is_longer else theirs[:700]
    second_copy(orchard, theirs)
    orchard.keep()
    before = files_in(orchard.home)
    orchard.burn()
    assert len(restore_all(orchard)) == 2
    assert files_in(orchard.home) == before


def test_the_copies_of_an_id_are_told_apart(orchard):
    name = second_copy(orchard, conversation(cwd=WORKTREE, start=9))
    orchard.keep()
    orchard.burn()
    session = orchard.session()
    assert [each.project for each in session.everywhere] == [WORKTREE, PROJECT]
    assert [each.mains for each in session.everywhere] == [[name], [orchard.main]]
    (only,) = select_copies(session.everywhere, only=orchard.main)
    restore(only, only=orchard.main)
    assert files_in(orchard.home) == {orchard.main: orchard.files[orchard.main]}


def test_a_copy_that_cannot_be_restored_keeps_no_other_from_it(orchard):
    name = second_copy(orchard, conversation(cwd=WORKTREE))
    orchard.keep()
    orchard.burn()
    write_files(orchard.home, {name: b"something else"})
    done = restore_all(orchard)
    assert sorted(isinstance(each, Refused) for each in done) == [False, True]
    assert files_in(orchard.home) == orchard.files | {name: b"something else"}


def test_a_copy_that_is_gone_comes_back_beside_one_that_is_there(orchard):
    name = second_copy(orchard, conversation(cwd=WORKTREE))
    orchard.keep()
    before = files_in(orchard.home)
    (orchard.home / name).unlink()
    restore_all(orchard)
    assert files_in(orchard.home) == before


def test_a_copy_left_behind_by_a_move_comes_back_only_if_it_holds_more(orchard):
    """Its project was renamed, and then somebody went on: all it held is at the new place."""
    old = orchard.home / orchard.main
    new = second_copy(orchard, old.read_bytes() + conversation(start=9))
    lost = second_copy(orchard, conversation(start=30), cwd="/srv/elsewhere")
    orchard.keep()
    old.unlink()
    (orchard.home / lost).unlink()
    orchard.keep()
    orchard.burn()
    restore_all(orchard)
    assert {name for name in files_in(orchard.home) if name.endswith(f"/{ID}.jsonl")} == {new, lost}


def test_a_session_of_days_in_two_projects_comes_back_to_both(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    home = tmp_path / "days"
    days = {
        f"projects/{hash_of(cwd)}/2026-01-0{day}.jsonl": conversation(start=day, cwd=cwd)
        for day, cwd in enumerate((PROJECT, WORKTREE, WORKTREE), 1)
    }
    write_files(home, days)
    keep([Home(home)])
    shutil.rmtree(home)
    (mirror,) = all_mirrors([Home(home)])
    list(restore_each(mirror.restorables))
    assert files_in(home) == days


def test_sessions_are_found_as_everywhere(orchard):
    write_files(orchard.home, parts_of(OTHER))
    orchard.keep()
    assert orchard.session("777").id == ID
    assert orchard.session(ID).id == ID
    newest = orchard.home / f"projects/{key_of(PROJECT)}/{OTHER}.jsonl"
    os.utime(newest, ns=(time.time_ns() + 10**10,) * 2)
    orchard.keep()
    assert orchard.session("latest").id == OTHER
    ours = orchard.home / f"projects/{key_of(PROJECT)}/{ID}.jsonl"
    said = ours.read_bytes().splitlines()[0]
    later = re.sub(rb'"timestamp":\s*"[^"]*"', b'"timestamp":"2040-01-01T00:00:00Z"', said)
    ours.write_bytes(ours.read_bytes() + later + b"\n")
    os.utime(ours, ns=(0, 0))
    orchard.keep()
    assert orchard.session("latest").id == ID  # Active last, whatever was touched since.
    for text in ("", "zzz"):
        with pytest.raises(NotFound):
            orchard.session(text)
    write_files(orchard.home, parts_of(ID[:-1] + "8"))
    orchard.keep()
    with pytest.raises(AmbiguousSession):
        orchard.session("7")


def test_what_is_known_of_a_session_needs_no_home(orchard):
    assert not orchard.session().is_gone
    orchard.burn()
    session = orchard.session()
    assert session.is_gone
    assert session.project == PROJECT
    assert session.last_active_at.isoformat() == "2026-01-02T03:06:00+00:00"
    assert session.size_bytes == sum(
        len(data) for name, data in MINE.items() if not name.startswith("plans/")
    )
    assert session.plans == [f"plans/{PLAN}.md"]


def test_one_that_cannot_be_restored_keeps_no_other_from_it(orchard):
    write_files(orchard.home, parts_of(OTHER))
    orchard.keep()
    orchard.burn()
    write_files(orchard.home, {orchard.main: b"something else"})
    mirror = orchard.session().mirror
    first, second = restore_each(mirror.sessions.values())
    assert isinstance(first, Refused)
    assert first.session == ID
    assert second.session == OTHER
    assert only_written(second) or outcomes(second)[f"plans/{PLAN}.md"] is RestoreOutcome.WRITTEN


# -- a machine that fails -------------------------------------------------------------------------


class Failing:
    """Fails the system's *number*-th call of those that writing needs."""

    def __init__(self, patch, number, fail):
        self.left = number
        self._fail = fail
        for owner, name in (
            (os, "link"),
            (os, "mkdir"),
            (os, "fchmod"),
            (atomic_files, "sync"),
            (atomic_files, "sync_directory"),
        ):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))
        real = os.open

        def opening(path, flags, *rest, **more):
            if flags & os.O_CREAT:
                self.count()
            return real(path, flags, *rest, **more)

        patch.setattr(os, "open", opening)

    def _counted(self, real):
        def call(*arguments, **options):
            self.count()
            return real(*arguments, **options)

        return call

    def count(self):
        self.left -= 1
        if self.left == 0:
            self._fail()


def no_space():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def assert_whole_or_not_there(home, main, expected):
    """Every file there is the one it should be, and the session is there only with all of it."""
    found = {name: data for name, data in files_in(home).items() if not name.endswith(".part")}
    assert found.items() <= expected.items()
    if main in found:
        assert found.keys() == expected.keys()


def test_a_full_disk_at_every_step_leaves_whole_files_and_a_rerun_finishes(
    orchard, tmp_path, stride
):
    session = orchard.session()
    for number in range(1, 1000, stride):
        home = tmp_path / f"home {number}"
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, number, no_space)
            with contextlib.suppress(StorageFull):
                restore(session, to=home)
        assert_whole_or_not_there(home, orchard.main, MINE)
        assert not list(home.rglob("*.part"))
        restore(session, to=home)
        assert files_in(home) == MINE
        if failing.left > 0:
            break
    assert number > 40


def test_a_full_disk_says_what_to_do(orchard, tmp_path, monkeypatch):
    Failing(monkeypatch, 7, no_space)
    with pytest.raises(StorageFull) as caught:
        restore(orchard.session(), to=tmp_path / "full")
    assert "run it again" in caught.value.hint


DRIVER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from keep.restore.test_restore import *
with pytest.MonkeyPatch.context() as patch:
    home, place = Path(sys.argv[2]), Path(sys.argv[3])
    session = find_restorable(all_mirrors([Home(home)]), ID)
    session.names, session.plans
    for number in range(1, 1000, int(sys.argv[4])):
        child = os.fork()
        if not child:
            failing = Failing(patch, number, lambda: os._exit(9))
            restore(session, to=place / str(number), project="/srv/new")
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_killed_at_every_step_it_leaves_whole_files_and_a_rerun_finishes(orchard, tmp_path, stride):
    tests = str(Path(__file__).parent.parent.parent)
    place = tmp_path / "killed"
    command = [sys.executable, "-c", DRIVER, tests, orchard.home, place, str(stride)]
    subprocess.run(command, check=True, timeout=300)
    homes = sorted(place.iterdir(), key=lambda path: int(path.name))
    assert int(homes[-1].name) > 40
    expected = files_in(homes[-1])
    main = orchard.main.replace(key_of(PROJECT), "-srv-new")
    assert len(expected) == len(MINE)
    assert main in expected
    for home in homes:
        assert_whole_or_not_there(home, main, expected)
        restore(orchard.session(), to=home, project="/srv/new")
        found = {name: data for name, data in files_in(home).items() if not name.endswith(".part")}
        assert found == expected


def test_a_disk_that_gives_back_something_else_is_found_out(orchard, monkeypatch):
    orchard.burn()
    real = atomic_files.sync

    def lying(fd):
        real(fd)
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_size > 3:
            os.pwrite(fd, b"?", 3)

    monkeypatch.setattr(atomic_files, "sync", lying)
    with pytest.raises(WriteFailed, match="does not read back"):
        restore(orchard.session())
    assert files_in(orchard.home) == {}


def test_a_copy_that_changes_in_the_middle_is_not_restored(orchard, monkeypatch):
    orchard.burn()
    session = orchard.session()
    name = f"tasks/{ID}/1.json"
    real = restore_files.make_directory

    def racing(path):
        spoil(orchard.copy(name), flipped(8))
        real(path)

    monkeypatch.setattr(restore_files, "make_directory", racing)
    with pytest.raises(BrokenCopy):
        restore(session)
    assert not (orchard.home / name).exists()
    assert not (orchard.home / orchard.main).exists()


def test_restoring_beside_a_keeper_gives_what_was_kept_at_some_moment(orchard, tmp_path):
    """While copies grow under it, a restored log is one of those that were there."""
    log = orchard.home / orchard.main
    stop = threading.Event()
    errors = []

    def grow():
        number = 100
        try:
            while not stop.is_set():
                number += 1
                with log.open("ab") as file:
                    file.write(conversation(start=number, turns=200))
                orchard.keep()
        except Exception as error:
            errors.append(error)

    keeper = threading.Thread(target=grow)
    keeper.start()
    try:
        for number in range(12):
            home = tmp_path / f"home {number}"
            restore(orchard.session(), to=home)
            back = (home / orchard.main).read_bytes()
            assert back.endswith(b"\n")
            assert log.read_bytes().startswith(back)
    finally:
        stop.set()
        keeper.join()
    assert not errors


def test_an_unreadable_home_is_a_failure_that_is_told(orchard, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(TurnlogError):
        restore(orchard.session(), to=tmp_path / "closed" / "home")
