"""Which secrets are in the logs: one row each, everywhere it got to, never the secret itself."""

from __future__ import annotations

import gzip
import json
import os
import random
import tracemalloc
from datetime import UTC, datetime

import msgspec
import pytest

from redact.planted import KINDS, SHAPES, plant
from turnlog.formats import find_homes, turnlog_home
from turnlog.health import secrets
from turnlog.health.secrets import EXPORTED, export_fact, scan_secrets
from turnlog.redact import find_secrets, rules_from
from turnlog.sessions.journal import Journal

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"


def said(session, text, day=1, cwd="/home/ada/orchard", **more):
    record = {
        "type": "user",
        "uuid": f"u-{random.getrandbits(60)}",
        "sessionId": session,
        "timestamp": f"2026-11-{day:02}T10:00:00.000Z",
        "cwd": cwd,
        "version": "2.1.200",
        "message": {"role": "user", "content": text},
    }
    return json.dumps(record | more).encode() + b"\n"


def result(session, text, day=1):
    block = {"type": "tool_result", "tool_use_id": "toolu_01abc", "content": text}
    return said(session, [block], day, toolUseResult={"stdout": text, "stderr": ""})


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    project = tmp_path / "home" / "projects" / "-home-ada-orchard"
    project.mkdir(parents=True)

    def write(name, *lines):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
        return path

    write.path = tmp_path / "home"
    return write


def scan(home, **options):
    return scan_secrets(find_homes((home.path,)), **options)


def test_one_row_for_a_secret_however_often_and_wherever_it_stands(home):
    key = SHAPES["anthropic"](random.Random(1))
    home(
        f"{ONE}.jsonl",
        said(ONE, f"use {key}", 3),
        *(result(ONE, f"KEY={key}\n{key}", 4) for _ in range(50)),
    )
    home(f"{TWO}.jsonl", said(TWO, "hello", 2), said(TWO, json.dumps({"k": key}), 9))
    home(
        f"{TWO}/subagents/agent-a1b2c3d.jsonl",
        said(TWO, key.replace("-", "\\u002d"), 7, isSidechain=True),
    )
    found = scan(home)
    assert len(found.secrets) == 1
    row = found.secrets[0]
    assert row.kind == "anthropic key"
    assert row.sessions == [ONE, TWO]
    assert row.projects == ["/home/ada/orchard"]
    assert (row.first_at, row.last_at) == (instant(3), instant(9))
    assert row.times >= 202
    assert (found.logs, found.next, found.problems) == (3, None, [])


def instant(day):
    return datetime(2026, 11, day, 10, tzinfo=UTC)


def test_no_secret_is_in_what_is_told(home):
    planted = [plant(random.Random(number), kind) for number, kind in enumerate(KINDS)]
    home(f"{ONE}.jsonl", *(said(ONE, each.text) for each in planted))
    found = scan(home)
    assert len(found.secrets) >= len(KINDS)
    told = msgspec.json.encode(found).decode() + repr(found)
    for each in planted:
        for line in each.secret.split("\n"):
            assert line not in told
    # A password that could be guessed is not given away by its digest either.
    guessable = [row for row in found.secrets if row.kind in ("password", "url password")]
    assert guessable
    assert all(row.id is None for row in guessable if row.masked in ("***", "[redacted password]"))


def test_different_secrets_of_one_kind_are_different_rows(home):
    keys = [SHAPES["github"](random.Random(number)) for number in range(5)]
    home(f"{ONE}.jsonl", *(said(ONE, key, day) for day, key in enumerate(keys, 1)))
    rows = scan(home).secrets
    assert [row.last_at.day for row in rows] == [5, 4, 3, 2, 1]
    assert len({row.id for row in rows}) == 5


def test_the_id_of_a_row_is_what_allow_takes(home):
    home(f"{ONE}.jsonl", said(ONE, SHAPES["github"](random.Random(1))))
    row = scan(home).secrets[0]
    rules, problems = rules_from({"allow": [f"sha256:{row.id}"]})
    assert not problems
    assert scan(home, rules=rules).secrets == []


def test_since_and_project_leave_out_the_others(home):
    first, second, third = (SHAPES["github"](random.Random(n)) for n in range(3))
    home(f"{ONE}.jsonl", said(ONE, first, 2), said(ONE, second, 8))
    home(f"{TWO}.jsonl", said(TWO, third, 8, cwd="/home/ada/cellar"))
    ids = {each: next(find_secrets(each)).digest[:16] for each in (first, second, third)}
    assert {row.id for row in scan(home, since=instant(5)).secrets} == {ids[second], ids[third]}
    assert {row.id for row in scan(home, project="/home/ada/orchard").secrets} == {
        ids[first],
        ids[second],
    }
    assert {row.id for row in scan(home, project="/home/ada").secrets} == set(ids.values())
    assert scan(home, since=datetime(2100, 1, 1, tzinfo=UTC)).secrets == []


def test_typed_prompts_archives_torn_tails_and_damage_are_read(home):
    keys = [SHAPES["npm"](random.Random(number)) for number in range(4)]
    typed = {"display": keys[0], "timestamp": 1_793_527_200_000, "project": "/x", "sessionId": ONE}
    (home.path / "history.jsonl").write_text(json.dumps(typed) + "\n")
    packed = gzip.compress(said(TWO, keys[1]))
    home(f"{TWO}.jsonl.gz", packed)
    home(
        f"{ONE}.jsonl",
        b"not JSON at all: " + keys[2].encode() + b"\n",
        said(ONE, keys[3]).rstrip(b"\n"),
    )
    found = scan(home)
    assert len(found.secrets) == 4
    assert {tuple(row.sessions) for row in found.secrets} == {(ONE,), (TWO,)}


def test_a_broken_archive_is_told_and_the_rest_is_read(home):
    key = SHAPES["npm"](random.Random(1))
    home(f"{TWO}.jsonl.gz", gzip.compress(said(TWO, "x" * 5000))[:40])
    home(f"{ONE}.jsonl", said(ONE, key))
    found = scan(home)
    assert len(found.secrets) == 1
    assert any(TWO in problem for problem in found.problems)


def test_exports_that_were_not_masked_are_places_it_reached(home, tmp_path):
    key, other = (SHAPES["github"](random.Random(n)) for n in range(2))
    home(f"{ONE}.jsonl", said(ONE, f"{key} {other}"))
    journal = Journal.in_root(turnlog_home())
    fact = export_fact(tmp_path / "out.html", find_secrets(f"what was exported: {key} {key}"))
    assert key not in json.dumps(fact)
    journal.note(EXPORTED, ONE, **fact)
    journal.note("pinned", ONE)
    reached = {row.id: [each.path for each in row.exports] for row in scan(home).secrets}
    mine = next(find_secrets(key)).digest[:16]
    assert reached.pop(mine) == [str(tmp_path / "out.html")]
    assert list(reached.values()) == [[]]


def test_memory_is_bounded_whatever_the_logs_hold(home, monkeypatch):
    monkeypatch.setattr(secrets, "MOST_SECRETS", 50)
    rng = random.Random(1)
    filler = "all work and no play " * 500
    home(f"{ONE}.jsonl", *(said(ONE, filler + SHAPES["github"](rng)) for _ in range(1000)))
    scan(home)
    tracemalloc.start()
    found = scan(home)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.secrets) == 50
    assert found.uncounted == 950
    assert found.size_bytes > 10_000_000
    assert peak < 6_000_000


def test_progress_ends_at_the_whole(home):
    home(f"{ONE}.jsonl", said(ONE, "hello"))
    home(f"{TWO}.jsonl", said(TWO, "hello"))
    told = []
    scan(home, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == sum(os.stat(p).st_size for p in home.path.rglob("*.jsonl"))


def test_scanning_changes_nothing(home):
    home(f"{ONE}.jsonl", said(ONE, SHAPES["github"](random.Random(1))))
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    scan(home)
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before
