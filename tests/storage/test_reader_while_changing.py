"""A log that grows, shrinks or is replaced while it is read ends the read cleanly."""

from __future__ import annotations

import os

import pytest

from storage.logs import add, lines, put, read, told
from turnlog.records.codec import Envelope
from turnlog.storage.reader import read_log, scan_log

MANY = 20_000


@pytest.fixture
def log(tmp_path):
    return put(tmp_path / "log.jsonl", lines(*range(MANY)))


def ids(items):
    return [word for word in told(items) if word.startswith("u-")]


def test_what_is_appended_while_reading_is_read_too(log):
    with read_log(log) as reader:
        first = next(reader)
        add(log, lines("late"))
        assert ids([first, *reader]) == [f"u-{number}" for number in range(MANY)] + ["u-late"]


def test_a_log_that_shrinks_ends_early(log):
    with read_log(log) as reader:
        first = next(reader)
        os.truncate(log, 10)
        found = ids([first, *reader])
    assert found == [f"u-{number}" for number in range(len(found))]
    assert 0 < len(found) < MANY


def test_a_log_that_shrinks_inside_what_is_being_read_gives_no_broken_record(log):
    with read_log(log) as reader:
        first = next(reader)
        os.truncate(log, 700_000)
        found = [first, *reader]
        assert reader.pending is None or reader.pending.record is None
    assert set(told(found)) == set(ids(found))


def test_a_log_that_is_replaced_is_read_to_the_end_of_the_old_one(log):
    with read_log(log) as reader:
        first = next(reader)
        os.replace(put(log.with_name("new"), lines("new")), log)
        assert ids([first, *reader]) == [f"u-{number}" for number in range(MANY)]
    assert told(read(log)) == ["u-new"]


def test_a_log_that_is_removed_is_read_to_its_end(log):
    with read_log(log) as reader:
        first = next(reader)
        log.unlink()
        assert len([first, *reader]) == MANY


def test_a_log_overwritten_in_place_gives_records_and_damage_but_never_an_error(log):
    with read_log(log) as reader:
        first = next(reader)
        with log.open("r+b") as file:
            file.write(b"\0" * 1_500_000)
        found = [first, *reader]
    assert ids(found)[0] == "u-0"
    assert ids(found)[-1] == f"u-{MANY - 1}"
    assert len(ids(found)) < MANY


def test_a_scan_survives_a_log_that_shrinks(log):
    scan = scan_log(log)
    first = next(scan)
    os.truncate(log, 0)
    found = [first, *scan]
    assert all(isinstance(item, Envelope) for item in found)
    assert 0 < len(found) < MANY
