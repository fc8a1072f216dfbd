"""Rebuild equals refresh: whatever the stages of a log's growth at which the index looked at it."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.homes import (
    SESSION,
    answered,
    asked,
    calling,
    cuts_of,
    lines,
    log_path,
    made_home,
    own_index,
    rebuilt,
    told,
)
from index.rows import differences, rows_of
from strategies import untidy_logs
from turnlog.formats import find_homes
from turnlog.index.database import open_for_reading
from turnlog.index.refresh import log_reader, log_state, writer
from turnlog.index.refresh import refresh as refreshing
from turnlog.index.refresh.refresh import refresh

SAMPLES = Path(__file__).parents[3] / "samples" / "claude"


def grow(source: Path, target: Path, seed: int, pauses: int) -> None:
    """Let a copy of the home *source* grow at *target*, refreshing at random; then compare."""
    rng = random.Random(seed)
    whole = {
        path.relative_to(source): path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    pending = {
        name: [*cuts_of(data, rng, pauses), len(data)] if name.suffix == ".jsonl" else [len(data)]
        for name, data in whole.items()
    }
    homes = find_homes((target,))
    while pending:
        for name in rng.sample(sorted(pending), rng.randint(1, len(pending))):
            end = pending[name].pop(0)
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            have = path.stat().st_size if path.exists() else 0
            with path.open("ab") as log:
                log.write(whole[name][have:end])
            if not pending[name]:
                del pending[name]
        if rng.random() < 0.8:
            done = refresh(homes, stage=rng.choice(("usage", "text")))
            assert not done.notices
            assert not done.replaced, "growth was taken for another log"
    refresh(homes)
    assert differences(rows_of(homes), rebuilt(homes)) == ""


@pytest.mark.parametrize("seed", range(6))
def test_samples_that_grow_give_the_rows_of_whole_ones(tmp_path, seed):
    with own_index(tmp_path / "own"):
        (tmp_path / "home" / "projects").mkdir(parents=True)
        grow(SAMPLES, tmp_path / "home", seed, pauses=6)


@pytest.mark.parametrize("seed", range(4))
def test_chunks_of_one_line_each_give_the_same(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(log_reader, "_CHUNK_TEXT_BYTES", 0)
    monkeypatch.setattr(log_reader, "_CHUNK_LINES", 0)
    monkeypatch.setattr(refreshing, "MOST_CHUNKS", 1 + seed)
    monkeypatch.setattr(log_state, "_OPEN_CALLS", 2)
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        records = [calling(0), calling(1), asked(0), told(1), calling(2), calling(3), told(0)]
        records += [told(3, "no such file 12", is_error=True), answered(4), answered(4), told(2)]
        data = lines(*records)
        path = log_path(homes)
        rng = random.Random(seed)
        for end in [*cuts_of(data, rng, 9), len(data)]:
            path.write_bytes(data[:end])
            refresh(homes, stage=rng.choice(("usage", "text")))
        refresh(homes)
        monkeypatch.undo()
        monkeypatch.setattr(log_state, "_OPEN_CALLS", 2)
        with own_index(tmp_path / "other"):
            refresh(homes)
            expected = rows_of(homes)
        with own_index(tmp_path / "own"):
            assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("seed", range(4))
def test_results_may_stand_before_their_calls(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(log_state, "_EARLY_RESULTS", 2)
    records = [told(1, "no such file 12", is_error=True), told(0), told(1, "again"), asked(0)]
    records += [calling(1, file_path="/srv/kites/a.py"), calling(0), told(0, "late"), told(9)]
    records += [told(2), told(3), told(4), calling(2), calling(3), calling(4), calling(1)]
    for record, second in zip(records, (3, 2, 4, 0, 1, 5), strict=False):
        record["timestamp"] = f"2026-03-04T05:06:0{second}.000Z"
    data = lines(*records)
    rng = random.Random(seed)
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        for end in [*cuts_of(data, rng, 9), len(data)]:
            log_path(homes).write_bytes(data[:end])
            refresh(homes, stage=rng.choice(("usage", "text")))
            refresh(homes)
            assert differences(rows_of(homes), rebuilt(homes)) == ""
        query = (
            "SELECT call_id, is_error, duration_us, result & 0xffffffff FROM calls ORDER BY record"
        )
        with closing(open_for_reading(homes)) as db:
            found = db.execute(query).fetchall()
    places = [sum(len(lines(each)) for each in records[:number]) for number in range(len(records))]
    assert found == [
        ("call_1", 1, 2_000_000, places[0]),
        ("call_0", 0, 0, places[1]),
        ("call_2", None, None, None),  # Too many came since.
        ("call_3", 0, 0, places[9]),
        ("call_4", 0, 0, places[10]),
        ("call_1", None, None, None),
    ]


@given(untidy_logs(max_lines=5), st.lists(st.integers(0, 10_000), max_size=4), st.data())
def test_logs_of_any_bytes_that_grow_give_the_rows_of_whole_ones(data, cuts, draw):
    with tempfile.TemporaryDirectory() as directory, own_index():
        homes = made_home(Path(directory) / "home")
        path = log_path(homes)
        for cut in sorted(cut % (len(data) + 1) for cut in cuts):
            have = path.stat().st_size if path.exists() else 0
            with path.open("ab") as log:
                log.write(data[have:cut])
            stage = draw.draw(st.sampled_from(["usage", "text"]))
            assert not refresh(homes, stage=stage).notices
        with path.open("ab") as log:
            log.write(data[path.stat().st_size :])
        assert not refresh(homes).notices
        assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_a_first_line_that_gets_its_newline_later(tmp_path):
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        data = lines(answered(1), answered(1))
        for end in (len(data) // 2 - 1, len(data) // 2, len(data) - 1, len(data)):
            log_path(homes).write_bytes(data[:end])
            refresh(homes)
            assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_a_last_line_without_newline_counts_with_those_before_it(tmp_path):
    first, last = answered(1), answered(1, uuid="later")
    first["message"]["usage"]["output_tokens"] = 900
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        log_path(homes).write_bytes(lines(first, last)[:-1])
        for stage in ("usage", "text"):
            refresh(homes, stage=stage)
            (message,) = rows_of(homes)["messages"]
            assert message[12] == 900


def test_a_last_line_that_was_taken_and_then_rewritten_is_another_log(tmp_path):
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        for stage in ("text", "usage"):
            log_path(homes).write_bytes(lines(asked(0), answered(1))[:-1])
            refresh(homes, stage=stage)
            log_path(homes).write_bytes(lines(asked(0), answered(22, cwd="/srv/other"), asked(3)))
            assert refresh(homes, stage=stage).replaced == [os.fspath(log_path(homes))]
            refresh(homes)
            assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_a_log_of_several_chunks_whose_usage_was_read_before(tmp_path, monkeypatch):
    monkeypatch.setattr(log_reader, "_CHUNK_TEXT_BYTES", 1)
    monkeypatch.setattr(log_reader, "_CHUNK_LINES", 3)
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        long = [answered(n, message={"content": [{"type": "text", "text": "w " * 9_000}]})
                for n in range(12)]  # fmt: skip
        log_path(homes).write_bytes(lines(*long))
        refresh(homes, stage="usage")
        refresh(homes)
        assert differences(rows_of(homes), rebuilt(homes)) == ""
        (log,) = rows_of(homes)["usage of logs"]
        assert log[1] == log_path(homes).stat().st_size


def test_a_crowded_second_runs_over(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_SECONDS_AHEAD", 1)
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        for turn in range(4):
            with log_path(homes).open("ab") as log:
                log.write(lines(*(asked(turn * 1000 + n, uuid=None) for n in range(1000))))
            assert not refresh(homes).notices
        other = log_path(homes, SESSION[:-1] + "9")
        other.write_bytes(lines(*(asked(n, timestamp=None) for n in range(700))))
        refresh(homes)
        assert differences(rows_of(homes), rebuilt(homes)) == ""


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_a_compressed_log_that_changes_is_read_anew(tmp_path, suffix):
    from backports import zstd

    pack = gzip.compress if suffix.endswith("gz") else zstd.compress
    home = tmp_path / "flat"
    (home / "sessions" / "compressed").mkdir(parents=True)
    path = home / "sessions" / "compressed" / f"{SESSION}{suffix}"
    homes = find_homes((home,))
    with own_index(tmp_path / "own"):
        for count in (3, 9, 2, 30):
            path.write_bytes(pack(lines(*(answered(n) for n in range(count)))))
            refresh(homes, stage=("usage", "text")[count % 2])
            refresh(homes)
            assert len(rows_of(homes)["records"]) == count
            assert differences(rows_of(homes), rebuilt(homes)) == ""
        path.write_bytes(path.read_bytes()[:-9])
        refresh(homes, stage="usage")
        refresh(homes)
        rows = rows_of(homes)
        assert [row[2] for row in rows["damages"]] == ["broken-archive"]
        assert differences(rows, rebuilt(homes)) == ""


def test_the_samples_as_they_are(tmp_path):
    shutil.copytree(SAMPLES, tmp_path / "home")
    homes = find_homes((tmp_path / "home",))
    with own_index(tmp_path / "own"):
        refresh(homes, stage="usage")
        refresh(homes)
        rows = rows_of(homes)
        full = ("records", "messages", "sessions", "subagents", "calls", "words said")
        assert all(rows[table] for table in full)
        assert differences(rows, rebuilt(homes)) == ""
