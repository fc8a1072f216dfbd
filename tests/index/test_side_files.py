"""What lies beside the logs: prompts, plans, todos and tasks, changed, removed, and hostile."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from index.homes import SESSION, SESSIONS, answered, lines, log_path, made_home, own_index, rebuilt
from index.rows import differences, rows_of
from turnlog.index.connection import open_fresh
from turnlog.index.refresh.refresh import refresh


@pytest.fixture
def homes(tmp_path):
    with own_index(tmp_path / "own"):
        yield made_home(tmp_path / "home")


def put(homes, name: str, content: bytes | str) -> Path:
    path = Path(homes[0].path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def check(homes) -> None:
    done = refresh(homes)
    assert not done.notices
    assert not done.gone
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def words_of(homes) -> set[str]:
    return {row[1] for row in rows_of(homes)["words said"]}


TODOS = f"todos/{SESSION}-agent-{SESSION}.json"
TASK = f"tasks/{SESSION}/1.json"
HISTORY = "history.jsonl"


def prompt(text: str, session: str = SESSION, **more) -> dict:
    return {"display": text, "timestamp": 1772600767089, "sessionId": session} | more


def everything(homes) -> None:
    log_path(homes).write_bytes(lines(answered(1)))
    put(homes, "plans/tall-kite.md", "# Build a heron")
    put(homes, TODOS, json.dumps([{"content": "sand the spar", "status": "pending"}]))
    put(homes, TASK, json.dumps({"subject": "tie the bridle", "description": "twice"}))
    pasted = {"1": {"type": "text", "content": "pastedword"}}
    put(homes, HISTORY, lines(prompt("typedword", pastedContents=pasted)))


def test_all_of_it_is_found_by_its_words(homes):
    everything(homes)
    check(homes)
    expected = {"heron", "spar", "bridle", "twice", "typedword", "pastedword", "kites"}
    assert expected <= words_of(homes)
    assert "pending" not in words_of(homes)


def test_what_changed_is_found_by_its_new_words_only(homes):
    everything(homes)
    refresh(homes)
    put(homes, "plans/tall-kite.md", "# Build a stork")
    put(homes, TODOS, json.dumps([{"content": "sand the keel", "status": "pending"}]))
    put(homes, TASK, "{")
    check(homes)
    assert {"stork", "keel"} <= words_of(homes)
    assert not {"heron", "spar", "bridle"} & words_of(homes)


def test_what_is_removed_is_forgotten(homes):
    everything(homes)
    refresh(homes)
    for name in ("plans/tall-kite.md", TODOS, TASK, HISTORY):
        (Path(homes[0].path) / name).unlink()
        refresh(homes, stage="usage")
        check(homes)
    assert not {"heron", "spar", "bridle", "typedword"} & words_of(homes)
    assert [row[3] for row in rows_of(homes)["logs"]] == ["session"]


def test_the_list_of_prompts_grows_and_is_rewritten(homes):
    data = lines(*(prompt(f"word{n} été 日本", SESSIONS[n % 3]) for n in range(12)))
    rng = random.Random(3)
    for end in sorted(rng.randrange(len(data)) for _ in range(8)):
        put(homes, HISTORY, data[:end])
        check(homes)
    put(homes, HISTORY, data)
    check(homes)
    assert {f"word{n}" for n in range(12)} | {"日", "本", "ete"} <= words_of(homes)
    put(homes, HISTORY, lines(prompt("anew")))
    check(homes)
    assert words_of(homes) == {"anew"}


def test_a_plan_that_only_gets_longer_is_one_record_still(homes):
    for count in (1, 2, 900, 5000):
        put(homes, "plans/tall-kite.md", "heron " * count)
        check(homes)
        assert len(rows_of(homes)["records"]) == 1


def test_side_files_of_sessions_that_have_no_log(homes):
    put(homes, TODOS, json.dumps([{"content": "sand the spar"}]))
    check(homes)
    assert [row[:4] for row in rows_of(homes)["sessions"]] == [
        (SESSION, os.fspath(homes[0].path), "", "")
    ]
    (Path(homes[0].path) / TODOS).unlink()
    check(homes)
    assert rows_of(homes)["sessions"] == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\0\0",
        b"[" * 100_000,
        b'[{"content": "a\\ud800b"}]',
        b'{"todos": {"content": {"content": ["deep"]}}}',
        b"null",
        b'"alone"',
        "été".encode("utf-16"),
    ],
)
def test_hostile_side_files_hurt_nobody(homes, content):
    for name in (TODOS, TASK, HISTORY, "plans/tall-kite.md"):
        put(homes, name, content)
    log_path(homes).write_bytes(lines(answered(1)))
    check(homes)
    check(homes)
    with open_fresh(homes) as index:
        for record, part in index.db.execute("SELECT record, part FROM texts").fetchall():
            assert part < len(index.texts(record))


@pytest.mark.parametrize("at", [-5, 0, 2**31, 2**33, 2**40, 2**55])
def test_side_files_from_any_time(homes, at):
    everything(homes)
    for name in ("plans/tall-kite.md", TODOS, TASK, HISTORY):
        try:
            os.utime(Path(homes[0].path) / name, (at, at))
        except (OSError, OverflowError):
            pytest.skip("this file system knows no such time")
    check(homes)


def test_things_that_are_no_files(homes):
    everything(homes)
    refresh(homes)
    for name in ("plans/tall-kite.md", TODOS, TASK):
        path = Path(homes[0].path) / name
        path.unlink()
        path.mkdir()
    os.mkfifo(Path(homes[0].path) / "plans" / "pipe.md")
    refresh(homes)
    refresh(homes)
    for name in ("plans/tall-kite.md", TODOS, TASK):
        (Path(homes[0].path) / name).rmdir()
    (Path(homes[0].path) / "plans" / "pipe.md").unlink()
    everything(homes)
    check(homes)
