"""A refresh says what the logs say, whatever became of them since the last one."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from index.homes import (
    SESSION,
    SESSIONS,
    answered,
    asked,
    calling,
    lines,
    log_path,
    made_home,
    own_index,
    rebuilt,
    told,
)
from index.rows import differences, rows_of
from turnlog.catalog.sessions import list_sessions
from turnlog.costs.usage import scan_usage
from turnlog.formats import dated_log, find_everywhere, find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path, make_indexes, open_for_reading
from turnlog.index.freshness import Freshness, logs_if_fresh, look_at
from turnlog.index.ids import microseconds
from turnlog.index.refresh import refresh as refreshing
from turnlog.index.refresh.refresh import refresh
from turnlog.index.usage import deduplicate
from turnlog.records.record import Linked
from turnlog.search.sql import has_prefix, make_vocabulary
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed, read_log

REPOSITORY = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("TURNLOG_CORPUS") or REPOSITORY.parent / "shared/corpus/claude")
HOMES = [
    pytest.param(REPOSITORY / "samples" / "claude", id="samples"),
    pytest.param(
        CORPUS,
        id="corpus",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here"),
        ],
    ),
]


@pytest.fixture
def homes(tmp_path):
    with own_index(tmp_path / "own"):
        yield made_home(tmp_path / "home")


def check(homes):
    """Refresh, and compare with an index that is made at once."""
    done = refresh(homes)
    assert not done.notices
    assert differences(rows_of(homes), rebuilt(homes)) == ""
    return done


# -- what other readers say -----------------------------------------------------------------


@pytest.fixture(scope="module", params=HOMES)
def indexed(request, tmp_path_factory):
    with own_index(tmp_path_factory.mktemp("own")):
        found = find_homes((request.param,))
        refresh(found)
        yield found, rows_of(found, words=False)


def test_records_and_damage_are_those_of_the_reader(indexed):
    homes, rows = indexed
    records, damages = [], []
    for log in find_everywhere(homes):
        path = os.fspath(log.path)
        for item in read_log(log.path):
            if isinstance(item, Placed):
                record = item.record
                parent = record.parent_uuid if isinstance(record, Linked) else None
                at = microseconds(record.at)
                place = (path, item.offset)
                records.append((place, item.length, record.type, record.uuid, parent, at))
            else:
                damages.append(((path, item.offset), item.length, item.reason.value))
    ours = [(row[0], row[1], row[2], row[5], row[6], row[7]) for row in rows["records"]]
    assert sorted(map(repr, ours)) == sorted(map(repr, records))
    assert sorted(row[:3] for row in rows["damages"]) == sorted(damages)


def test_sessions_are_those_of_the_catalog_and_of_their_logs(indexed):
    homes, rows = indexed
    columns = ("session", "home", "layout", "path", "size", "project", "title", "tag", "started",
               "active", "records", "prompts", "subagents", "damages", "branch", "version",
               "models", "life", "is_sidechain", "errors", "model_set",
               "branch_set", "tool_set", "is_gone")  # fmt: skip
    ours = {row[3]: dict(zip(columns, row, strict=True)) for row in rows["sessions"]}
    listed = list_sessions(homes).sessions
    shown = {path for path, row in ours.items() if not row["is_sidechain"] and path}
    by_session = {row.id: row for row in listed}
    assert {row["session"] for row in ours.values() if row["path"] in shown} == set(by_session)
    for row in listed:
        if row.path not in ours:
            continue  # A second log of the same session.
        mine = ours[row.path]
        assert (mine["project"], mine["size"]) == (row.project, row.size_bytes)
        assert mine["active"] is None or mine["active"] == microseconds(row.last_active_at)
        found = Session.find(homes, row.id).metadata
        # The list looks at the ends of a log only; a title between them is known to the others.
        assert mine["title"] in (row.title, found.title)
        assert {name: mine[name] for name in ("tag", "records", "prompts", "version")} == {
            "tag": ", ".join(found.tags) or None,
            "records": found.records,
            "prompts": found.prompts,
            "version": found.version,
        }
        assert (mine["branch"], json.loads(mine["models"])) == (found.git_branch, found.models)
        assert mine["started"] == microseconds(found.started_at)
        assert mine["active"] == microseconds(found.last_active_at)


def test_agents_are_those_of_their_sessions(indexed):
    homes, rows = indexed
    ours: dict[str, list] = {}
    for row in rows["subagents"]:
        ours.setdefault(row[1], []).append((row[2], row[3], row[4], row[6], row[8]))
    for row in list_sessions(homes).sessions:
        subagents = Session.find(homes, row.id).subagents
        expected = [
            (
                each.id,
                each.kind,
                each.description,
                each.spawn.call_id if each.spawn else None,
                each.how.value if each.how else None,
            )
            for each in subagents
        ]
        assert sorted(map(repr, ours.get(row.id, []))) == sorted(map(repr, expected))


def test_messages_and_what_was_skipped_are_those_of_a_scan(indexed):
    homes, rows = indexed
    scan = scan_usage(homes)
    expected = [
        (r.message_id, r.request_id, r.part, r.session, r.subagent, int(r.is_sidechain),
         microseconds(r.at), r.model, r.speed, r.service_tier, r.inference_geo, r.counters.input,
         r.counters.output, r.counters.cache_write_5m, r.counters.cache_write_1h,
         r.counters.cache_read, r.counters.web_searches,
         json.dumps(r.counters.others, separators=(",", ":")) if r.counters.others else None,
         None if r.recorded_usd is None else str(r.recorded_usd), r.cwd, r.project, r.log, r.offset)
        for r in scan.responses
    ]  # fmt: skip
    assert sorted(map(repr, rows["messages"])) == sorted(map(repr, expected))
    skipped = [(each.path, each.offset, each.why, each.detail) for each in scan.skipped]
    assert sorted(rows["skipped"]) == sorted(skipped)
    logs = rows["usage of logs"]
    assert sum(row[4] + row[6] for row in logs) == scan.entries + scan.synthetic
    assert sum(row[5] + row[7] for row in logs) == scan.synthetic


# -- nothing new ----------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["usage", "text"])
def test_refreshing_twice_writes_nothing(homes, stage):
    log_path(homes).write_bytes(lines(asked(1), answered(1), answered(2))[:-1])
    log_path(homes, SESSIONS[1]).write_bytes(b"")
    age(homes)
    refresh(homes, stage=stage)
    refresh(homes, stage=stage)
    path = index_path(homes)
    with closing(open_for_reading(homes)) as db:
        before = files_of(path), db.execute("PRAGMA data_version").fetchone()
        for _ in range(3):
            done = refresh(homes, stage=stage)
            assert (done.read, done.read_bytes, done.notices) == (0, 0, [])
        assert (files_of(path), db.execute("PRAGMA data_version").fetchone()) == before


def files_of(path: Path) -> dict[str, bytes]:
    kept = [path, path.with_name(path.name + "-wal")]
    return {each.name: each.read_bytes() for each in kept if each.exists()}


def age(homes, seconds: float = 60) -> None:
    """Let all directories of *homes* be older, so that their times are trusted."""
    then = time.time() - seconds
    for home in homes:
        for path in [Path(home.path), *Path(home.path).rglob("*")]:
            if path.is_dir():
                os.utime(path, (then, then))


# -- logs that change -----------------------------------------------------------------------


def test_a_log_rewritten_at_the_same_size_is_seen_by_its_time(homes):
    path = log_path(homes)
    path.write_bytes(lines(answered(1), answered(2)))
    refresh(homes)
    path.write_bytes(lines(answered(2), answered(3)))
    os.utime(path, ns=(1, 1))
    assert check(homes).replaced == [os.fspath(path)]


def test_a_log_rewritten_at_the_same_size_and_time_is_not_seen(homes):
    """Nothing tells it from the old one without reading it: only a rebuild does."""
    path = log_path(homes)
    path.write_bytes(lines(answered(1)))
    refresh(homes)
    seen = path.stat()
    path.write_bytes(lines(answered(2)))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert refresh(homes).replaced == []
    assert [row[0] for row in rows_of(homes)["messages"]] == ["msg_1"]
    refresh(homes, rebuild=True)
    assert [row[0] for row in rows_of(homes)["messages"]] == ["msg_2"]


@pytest.mark.parametrize("first", ["usage", "text"])
@pytest.mark.parametrize("again", ["usage", "text"])
def test_a_log_that_is_replaced_is_read_from_the_start(homes, first, again):
    path = log_path(homes)
    path.write_bytes(lines(*(answered(n) for n in range(9))))
    for new in (lines(answered(1)), lines(*(answered(n) for n in range(20, 60))), b"", b"\0" * 99):
        refresh(homes, stage=first)
        other = path.with_name("other")
        other.write_bytes(new)
        os.replace(other, path)
        refresh(homes, stage=again)
        check(homes)


def test_a_log_that_moves_keeps_its_rows(homes):
    path = log_path(homes)
    path.write_bytes(lines(asked(1), answered(1), calling(2), told(2)))
    refresh(homes)
    elsewhere = path.parent.parent / "-srv-wind" / path.name
    elsewhere.parent.mkdir()
    path.rename(elsewhere)
    done = check(homes)
    assert (done.read, done.gone, done.replaced) == (0, [], [])
    with elsewhere.open("ab") as log:
        log.write(lines(answered(5)))
    assert check(homes).read_bytes < elsewhere.stat().st_size


def test_which_of_two_copies_is_the_first_follows_one_that_moves(homes):
    path = log_path(homes)
    path.write_bytes(lines(asked(1, uuid=SESSIONS[5]), answered(2, uuid=SESSIONS[6])))
    refresh(homes)
    for project in ("-srv-wind", "-srv-yards"):
        (path.parent.parent / project).mkdir()
    shutil.copy(path, path.parent.parent / "-srv-wind" / path.name)
    check(homes)
    path.rename(path.parent.parent / "-srv-yards" / path.name)
    check(homes)


def test_a_log_that_becomes_another_sessions_is_read_as_that(homes):
    path = log_path(homes)
    path.write_bytes(lines(asked(1), answered(1)))
    refresh(homes)
    path.rename(log_path(homes, SESSIONS[1]))
    check(homes)
    log_path(homes, SESSIONS[1]).rename(log_path(homes, SESSIONS[1], subagent="a1b2c3"))
    check(homes)


def test_a_log_that_moves_to_another_home(tmp_path):
    one, other = made_home(tmp_path / "one"), made_home(tmp_path / "other")
    with own_index(tmp_path / "own"):
        log_path(one).write_bytes(lines(asked(1), answered(1)))
        refresh((*one, *other))
        log_path(one).rename(log_path(other))
        assert not refresh((*one, *other)).gone
        assert differences(rows_of((*one, *other)), rebuilt((*one, *other))) == ""


def test_an_inode_that_is_used_again_is_no_move(homes):
    path = log_path(homes)
    path.write_bytes(lines(answered(1))[:-1])
    refresh(homes)
    inode = path.stat().st_ino
    path.unlink()
    other = log_path(homes, SESSIONS[1])
    other.write_bytes(lines(answered(2, SESSIONS[1]), answered(3, SESSIONS[1])))
    if other.stat().st_ino != inode:
        other.unlink()
        log_path(homes).write_bytes(b"")  # This file system does not; a link in its place does.
        pytest.skip("this file system does not use inodes again at once")
    refresh(homes)
    assert sorted(row[0] for row in rows_of(homes)["messages"]) == ["msg_1", "msg_2", "msg_3"]


def test_a_log_that_vanishes_stays_known_as_gone_and_comes_back(homes):
    path = log_path(homes)
    path.write_bytes(lines(asked(1), answered(1)))
    log_path(homes, SESSIONS[1]).write_bytes(lines(answered(2, SESSIONS[1])))
    refresh(homes)
    before = rows_of(homes)
    path.rename(path.with_suffix(".away"))
    for stage in ("usage", "text"):
        done = refresh(homes, stage=stage)
        assert done.gone == ([os.fspath(path)] if stage == "usage" else [])
        now = rows_of(homes)
        for table in ("records", "messages", "texts", "words said", "usage_entries"):
            assert now[table] == before[table]
        assert [row[-2] for row in now["logs"]] == [1, 0]
        assert [row[-1] for row in now["sessions"]] == [1, 0]
    path.with_suffix(".away").rename(path)
    check(homes)
    assert [row[-1] for row in rows_of(homes)["sessions"]] == [0, 0]
    path.unlink()
    refresh(homes)
    assert refresh(homes, rebuild=True).forgotten == 1
    assert len(rows_of(homes)["sessions"]) == 1


@pytest.mark.parametrize("is_known_before", [True, False])
def test_an_index_that_is_mostly_dead_is_made_anew_unless_it_knows_what_nobody_else_does(
    homes, monkeypatch, is_known_before
):
    monkeypatch.setattr(refreshing, "_DEAD_WORTH", 3)
    path, other = log_path(homes), log_path(homes, SESSIONS[1])
    other.write_bytes(lines(answered(9, SESSIONS[1])))
    path.write_bytes(lines(*map(asked, range(5))))
    refresh(homes)
    away = other.rename(other.with_suffix(".away"))
    if is_known_before:
        refresh(homes)
    for number in (7, 8):
        path.write_bytes(lines(asked(number)))
        assert refresh(homes).notices == []
    assert [row[0] for row in rows_of(homes)["messages"]] == ["msg_9"]
    away.rename(other)
    assert refresh(homes).notices == ["much of the index was stale: it was rebuilt"]
    check(homes)


def test_a_log_that_vanishes_and_lies_elsewhere_is_forgotten(homes):
    path = log_path(homes)
    path.write_bytes(lines(asked(1), answered(1)))
    twin = path.parent.parent / "-srv-wind" / path.name
    twin.parent.mkdir()
    shutil.copy(path, twin)
    refresh(homes)
    path.unlink()
    assert check(homes).gone == []
    assert [row[0] for row in rows_of(homes)["logs"]] == [os.fspath(twin)]


def test_a_session_without_its_main_log_is_what_its_agents_did(homes):
    log_path(homes).write_bytes(lines(asked(1)))
    log_path(homes, subagent="a1b2c3").write_bytes(lines(answered(2, isSidechain=True)))
    refresh(homes)
    assert rows_of(homes)["sessions"][0][12] == 1
    log_path(homes, subagent="a1b2c3").unlink()
    refresh(homes)
    log_path(homes, subagent="a1b2c3").write_bytes(lines(answered(2), answered(3)))
    check(homes)


def test_an_agent_whose_log_lies_in_two_projects_is_one(homes):
    log_path(homes).write_bytes(lines(asked(1)))
    path = log_path(homes, subagent="a1b2c3")
    path.write_bytes(lines(answered(2, isSidechain=True)))
    refresh(homes)
    copy = path.parents[3] / "-srv-wind" / path.relative_to(path.parents[2])
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    check(homes)
    assert len(rows_of(homes)["subagents"]) == 1
    copy.unlink()
    check(homes)
    assert len(rows_of(homes)["subagents"]) == 1


def test_an_agents_log_that_was_emptied_is_no_agents_any_more(homes):
    path = log_path(homes).with_name("agent-a7.jsonl")
    path.write_bytes(lines(asked(0) | {"isSidechain": True, "agentId": "a7"}))
    refresh(homes)
    path.write_bytes(b"")
    check(homes)
    assert rows_of(homes)["subagents"] == []


@pytest.mark.parametrize("thing", ["directory", "fifo", "broken link"])
def test_something_else_in_the_place_of_a_log(homes, thing):
    path = log_path(homes)
    path.write_bytes(lines(answered(1)))
    log_path(homes, SESSIONS[1]).write_bytes(lines(answered(2, SESSIONS[1])))
    refresh(homes)
    path.unlink()
    make = {
        "directory": Path.mkdir,
        "fifo": os.mkfifo,
        "broken link": lambda at: at.symlink_to("no"),
    }
    make[thing](path)
    for stage in ("usage", "text", "text"):
        refresh(homes, stage=stage)
        assert len(rows_of(homes)["messages"]) == 2
    path.rmdir() if thing == "directory" else path.unlink()
    path.write_bytes(lines(answered(1), answered(7)))
    check(homes)


def test_a_new_log_is_seen_though_directories_are_old(homes):
    log_path(homes).write_bytes(lines(answered(1)))
    age(homes)
    for stage in ("usage", "text", "usage", "text"):
        refresh(homes, stage=stage)
    log_path(homes, SESSIONS[1]).write_bytes(lines(answered(2, SESSIONS[1])))
    log_path(homes, SESSIONS[1], subagent="a1b2c3").write_bytes(lines(answered(3, SESSIONS[1])))
    refresh(homes, stage="usage")
    assert len(rows_of(homes)["messages"]) == 3
    check(homes)


def test_a_home_that_gets_its_first_project_later(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "plans").mkdir()
    homes = find_homes((tmp_path / "home",))
    with own_index(tmp_path / "own"):
        age(homes)
        for stage in ("usage", "text", "usage", "text"):
            refresh(homes, stage=stage)
        log_path(homes).write_bytes(lines(answered(1)))
        os.utime(tmp_path / "home", (time.time() - 30, time.time() - 30))
        refresh(homes, stage="usage")
        assert len(rows_of(homes)["messages"]) == 1
        check(homes)


def test_a_name_that_is_no_text_is_a_problem_and_nothing_worse(homes):
    log_path(homes).write_bytes(lines(answered(1)))
    odd = os.fsencode(homes[0].path) + b"/projects/-\xff"
    os.mkdir(odd)
    Path(os.fsdecode(odd + b"/" + SESSIONS[1].encode() + b".jsonl")).write_bytes(lines(answered(2)))
    for _ in range(2):
        (problem,) = refresh(homes).problems
        assert "UTF-8" in problem.reason
    assert len(rows_of(homes)["messages"]) == 1


def test_directories_whose_names_are_no_text(homes):
    log_path(homes).write_bytes(lines(answered(1)))
    for name in (b"/projects/-\xff", b"/tasks", b"/tasks/\xff"):
        os.mkdir(os.fsencode(homes[0].path) + name)
    age(homes)
    check(homes)
    check(homes)


def test_days_with_several_sessions(tmp_path):
    home = tmp_path / "home"
    one, two, three = SESSIONS[:3]

    def said(session, number, day):
        return {"type": "user", "content": f"question {number}", "session_id": session,
                "timestamp": f"{day}T10:00:0{number}.000Z", "uuid": f"{session}-{number}",
                "message": {"role": "user", "content": f"question {number}"},
                "sessionId": session, "cwd": "/srv/kites"}  # fmt: skip

    first = dated_log(home, "/srv/kites", date(2026, 3, 4))
    second = dated_log(home, "/srv/kites", date(2026, 3, 5))
    first.parent.mkdir(parents=True)
    first.write_bytes(lines(said(one, 1, "2026-03-04"), said(two, 2, "2026-03-04")))
    homes = find_homes((home,))
    with own_index(tmp_path / "own"):
        check(homes)
        assert len(rows_of(homes)["sessions"]) == 2
        second.write_bytes(lines(said(two, 3, "2026-03-05"), said(three, 4, "2026-03-05")))
        check(homes)
        assert len(rows_of(homes)["sessions"]) == 3
        # One session is taken out of the first day, the other stays.
        first.write_bytes(lines(said(two, 2, "2026-03-04")))
        check(homes)
        assert [row[0] for row in rows_of(homes)["sessions"]] == [two, three]


# -- hostile logs ---------------------------------------------------------------------------


def hostile() -> list[bytes]:
    """Lines that nobody should write, and somebody has."""
    lone = "\ud800"
    good = json.dumps(answered(1)).encode()
    timed = [
        json.dumps(answered(40 + number, timestamp=at)).encode()
        for number, at in enumerate(
            ["1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", None, -5,
             10**30, "yesterday", "2026-03-04T05:06:07+23:59"]
        )
    ]  # fmt: skip
    return [
        good,
        good,
        good[: len(good) // 2],
        good + good,
        good[:50] + good,
        b"\0" * 500,
        b"\0" * 20 + good,
        b"\xff\xfe\xfd",
        b"[" * 100_000,
        b'{"a":' * 5000,
        b"42",
        b"",
        b"\r",
        json.dumps(answered(2, uuid=lone, sessionId=lone, cwd=lone, gitBranch=lone)).encode(),
        json.dumps(answered(3, message={"id": lone, "model": lone})).encode(),
        json.dumps(calling(4, "Read" + lone, file_path=lone)).encode(),
        json.dumps(told(4, lone, is_error=True)).encode(),
        json.dumps(
            {
                "type": "custom-title",
                "customTitle": "t" * 999_000 + "\0" * 1000,
                "sessionId": SESSION,
            }
        ),
        json.dumps({"type": "summary", "summary": "s" * 1_000_000, "leafUuid": lone}),
        json.dumps({"type": lone, "content": {lone: [lone]}}),
        json.dumps(told(77)).encode(),
        json.dumps(calling(77)).encode(),
        json.dumps(calling(77)).encode(),
        json.dumps(told(77)).encode(),
        json.dumps(told(77)).encode(),
        json.dumps(asked(1, uuid="q" * 100_000, parentUuid="\0")).encode(),
        *timed,
    ]


def test_hostile_logs_are_read_and_read_the_same_again(homes):
    found = [each.encode() if isinstance(each, str) else each for each in hostile()]
    path = log_path(homes)
    written = b""
    for number, line in enumerate(found):
        written += line + b"\n"
        path.write_bytes(written)
        if number % 5 == 0:
            refresh(homes, stage=("usage", "text")[number % 2])
    check(homes)
    rows = rows_of(homes)
    with closing(open_for_reading(homes)) as db:
        low, high = db.execute("SELECT min(id), max(id) FROM texts").fetchone()
    assert 0 <= low < high < 2**62
    read = [item for item in read_log(path) if isinstance(item, Placed)]
    assert len(rows["records"]) == len(read)
    assert rows["damages"]


def test_what_is_found_in_hostile_logs_can_be_read_back(homes):
    found = [each.encode() if isinstance(each, str) else each for each in hostile()]
    log_path(homes).write_bytes(b"\n".join(found))
    with open_fresh(homes) as index:
        for record, part in index.db.execute("SELECT record, part FROM texts").fetchall():
            assert part < len(index.texts(record))


def test_thousands_of_records_in_one_second(homes):
    path = log_path(homes)
    path.write_bytes(lines(*(asked(n) for n in range(3000))))
    refresh(homes)
    with path.open("ab") as log:
        log.write(lines(*(asked(n) for n in range(3000, 3100))))
    check(homes)
    with closing(open_for_reading(homes)) as db:
        order = [
            row[0] & 0xFFFFFFFFFF for row in db.execute("SELECT record FROM texts ORDER BY id")
        ]
    assert order == sorted(order)


# -- what somebody has looked at already ----------------------------------------------------


def write_two(homes):
    for session in SESSIONS[:2]:
        log_path(homes, session).write_bytes(lines(asked(1, session), answered(2, session)))
    age(homes)
    refresh(homes)


def test_only_what_changed_is_looked_at_if_that_is_known(homes):
    write_two(homes)
    one, other = (log_path(homes, session) for session in SESSIONS[:2])
    for log in (one, other):
        with log.open("ab") as file:
            file.write(lines(asked(3)))
    done = refresh(homes, look=Freshness([str(one)]))
    assert done.read == 1
    assert check(homes).read == 1


@pytest.mark.parametrize("what", ["deleted", "older"])
@pytest.mark.parametrize("is_open", [True, False])
def test_an_index_that_is_another_by_now_reads_everything(homes, what, is_open):
    write_two(homes)
    with log_path(homes).open("ab") as file:
        file.write(lines(asked(3)))
    look = look_at([homes[0].path]) if is_open else Freshness([str(log_path(homes))])
    assert look.changed == [str(log_path(homes))]
    if what == "deleted":
        index_path(homes).unlink()
    else:
        with closing(sqlite3.connect(index_path(homes))) as db:
            db.execute("PRAGMA user_version = 1")
    assert refresh(homes, look=look).read == 2
    look.close()
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_an_index_that_is_open_is_used_and_left_open(homes):
    write_two(homes)
    with log_path(homes).open("ab") as file:
        file.write(lines(asked(3)))
    look = look_at([homes[0].path])
    assert (look.logs, look.changed) == (2, [str(log_path(homes))])
    assert refresh(homes, look=look).read == 1
    assert look.db.execute("SELECT count(*) FROM records").fetchone() == (5,)
    look.close()
    assert logs_if_fresh([homes[0].path]) == 2
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_adapters_of_the_process_are_left_alone(homes):
    before = dict(sqlite3.adapters)
    write_two(homes)
    assert sqlite3.adapters == before


@pytest.mark.parametrize("record", [asked(1), answered(1)], ids=["unpaid", "paid"])
def test_the_ways_into_the_tables_come_all_at_once(homes, monkeypatch, record):
    """A reader that connects a full-text table meanwhile takes one change, not several."""
    log_path(homes).write_bytes(lines(record))
    seen = []

    def noted(db, *tables):
        seen.append(db.in_transaction)
        make_indexes(db, *tables)

    for module in (deduplicate, deduplicate):
        monkeypatch.setattr(module, "make_indexes", noted)
    refresh(homes)
    assert set(seen) == {True}


_CALLED = {"ai-title": "aiTitle", "custom-title": "customTitle", "tag": "tag"}


@pytest.mark.parametrize("kind", _CALLED)
@pytest.mark.parametrize("title", ["Mending kites", "kites \ud83e"])
def test_a_title_that_is_written_again_and_again_is_found_once(homes, kind, title):
    path = log_path(homes)
    called = {"type": kind, _CALLED[kind]: title, "sessionId": SESSION}
    path.write_bytes(lines(asked(1), called, called))
    check(homes)
    for further, texts in ((called, 1), (called | {_CALLED[kind]: "Wind"}, 2), (called, 3)):
        with path.open("ab") as log:
            log.write(lines(further))
        check(homes)
        with closing(open_for_reading(homes)) as db:
            found = db.execute(
                "SELECT count(*) FROM texts JOIN kinds ON kinds.id = texts.kind"
                " WHERE kinds.kind = 'title'"
            )
            assert found.fetchone()[0] == texts


def test_an_opened_index_is_one_state_until_it_is_closed(homes):
    """Who asks twice is not told of two states, and holds nobody up afterwards."""
    log_path(homes).write_bytes(lines(asked(1)))
    count = "SELECT count(*) FROM records"
    with open_fresh(homes) as index:
        assert index.db.execute(count).fetchone() == (1,)
        log_path(homes).write_bytes(lines(asked(1), answered(2)))
        refresh(homes)
        assert index.db.execute(count).fetchone() == (1,)
        # Which needs no more than the connection's own room.
        make_vocabulary(index.db)
        assert has_prefix(index.db, "said", "questio")
    with open_fresh(homes) as index:
        assert index.db.execute(count).fetchone() == (2,)
    with closing(sqlite3.connect(index_path(homes))) as db:
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
