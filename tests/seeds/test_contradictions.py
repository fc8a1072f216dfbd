"""Where the seeds contradict each other or themselves: the settlement, one test each.

The names C1 to C50 are those of the requirements' table. What is settled by a seed's own test
stands with that seed; what needs prices, sessions or the index comes with those.
"""

from __future__ import annotations

import gzip
import json
import os
from datetime import date

import pytest

from storage.logs import Script
from turnlog.errors import LogLocked
from turnlog.formats import (
    Home,
    claude_log,
    dated_log,
    find_logs,
    flat_log,
    is_subagent_id,
    key_of,
    project_hash,
    project_key,
)
from turnlog.records.codec import decode, encode
from turnlog.records.record import FileHistorySnapshot, Unknown
from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.reader import Placed, read_log, read_range
from turnlog.storage.repair import repair, validate
from turnlog.storage.tail import Restart, follow_log
from turnlog.storage.writer import LogWriter

SESSION = "3b1f0c5e-1111-4222-8333-94c5d6e7f809"


def said(text, **more):
    return {
        "type": "user",
        "sessionId": SESSION,
        "message": {"role": "user", "content": text},
    } | more


def line(value):
    return json.dumps(value, separators=(",", ":")).encode()


def put(path, *values):
    path.write_bytes(b"".join(line(value) + b"\n" for value in values))
    return path


def texts(path):
    with read_log(path) as reader:
        return [item.record.text for item in reader if isinstance(item, Placed)]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_c1_three_layouts_live_in_one_home_and_are_told_apart(tmp_path):
    places = {
        "claude": claude_log(tmp_path, "/srv/boat", SESSION, environ={}),
        "dated": dated_log(tmp_path, "/srv/boat", date(2026, 1, 2)),
        "flat": flat_log(tmp_path / "sessions", "abc123def"),
    }
    for place in places.values():
        with LogWriter(place, root=tmp_path) as writer:
            writer.append(said("hello"))
    found = {log.layout: log.path for log in find_logs(Home(tmp_path))}
    assert found == places
    assert [texts(path) for path in found.values()] == [["hello"]] * 3


def test_c2_a_day_file_holds_several_sessions_and_each_record_says_whose_it_is(log):
    put(log, said("one"), said("two", sessionId="another"))
    assert [item.record.session_id for item in read_log(log)] == [SESSION, "another"]


def test_c3_keys_are_never_decoded_because_paths_share_them():
    assert key_of("/srv/my-app") == key_of("/srv/my/app") == key_of("/srv/my.app") == "-srv-my-app"
    assert project_key("/home/user/myproject", environ={}).startswith("-")


def test_c7_cache_counters_of_either_name_are_counted():
    ours = decode(b'{"type":"assistant","content":"x","usage":{"cache_creation_tokens":5}}')
    theirs = decode(
        b'{"type":"assistant","message":{"content":"x","usage":{"cache_creation_input_tokens":5}}}'
    )
    assert ours.usage.cache_write == theirs.usage.cache_write == 5


def test_c12_opening_a_log_never_empties_it(log):
    put(log, said("kept"))
    LogWriter(log).close()
    assert texts(log) == ["kept"]


def test_c13_there_is_no_lock_file_that_could_be_removed(log):
    with LogWriter(log) as writer:
        writer.append(said("x"))
        assert os.listdir(log.parent) == ["log.jsonl"]


def test_c14_a_writer_chooses_between_failing_and_waiting(log):
    with LogWriter(log) as holder, LogWriter(log, lock_timeout=0) as hasty:

        def decide(news):
            with pytest.raises(LogLocked):
                hasty.append(said("hasty"))
            return [said("holder")]

        holder.append_after(decide)
        hasty.append(said("in time"))
    assert texts(log) == ["holder", "in time"]


def test_c15_an_append_keeps_the_file_and_heals_a_torn_tail(log):
    put(log, said("one"))
    with log.open("ab") as file:
        file.write(b'{"torn')
    inode, before = log.stat().st_ino, log.read_bytes()
    with LogWriter(log) as writer:
        writer.append(said("two"))
    assert log.stat().st_ino == inode
    assert log.read_bytes() == before + b"\n" + line(said("two")) + b"\n"


def test_c16_a_partial_last_line_is_pending_and_a_whole_one_is_read(log):
    log.write_bytes(line(said("one")) + b'\n{"type":"us')
    with read_log(log) as reader:
        assert len(list(reader)) == 1
        assert reader.pending.record is None
    log.write_bytes(line(said("one")))
    assert texts(log) == ["one"]


def test_c17_offsets_count_bytes_whatever_the_line_ends(log):
    log.write_bytes(line(said("ä")) + b"\r\n" + line(said("two")))
    first, second = list(read_log(log))
    assert second.offset == first.length + 1 == len(line(said("ä"))) + 2


def test_c18_a_rewritten_log_of_the_same_size_is_noticed(log):
    put(log, said("one"))
    stop = Script(lambda: put(log, said("two")))
    found = list(follow_log(log, stop=stop, poll_seconds=0))
    assert [type(item) for item in found] == [Placed, Restart, Placed]


def test_c19_a_snapshot_is_a_record_of_its_own_and_not_skipped(log):
    put(log, {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}, said("x"))
    found = [item.record for item in read_log(log)]
    assert isinstance(found[0], FileHistorySnapshot)
    assert len(found) == 2


def test_c20_no_field_is_required_to_be_read_and_strict_names_what_is_missing(log):
    put(log, said("x"))
    assert validate(log).is_valid
    assert not validate(log, strict=True).is_valid


def test_c21_both_shapes_of_summary_and_system_are_read():
    for sample in (
        {"type": "summary", "summary": "S", "leafUuid": "m"},
        {"type": "summary", "content": {"summary": "S"}},
        {"type": "system", "content": "S"},
        {"type": "system", "message": {"role": "system", "content": "S"}},
    ):
        assert decode(line(sample)).text == "S"


def test_c23_unknown_types_pass_through_and_are_counted(log):
    put(log, {"type": "tomorrow", "x": [1]}, said("x"))
    assert isinstance(next(iter(read_log(log))).record, Unknown)
    assert validate(log).types == {"tomorrow": 1, "user": 1}
    assert not repair(log).needed


def test_c26_bytes_are_read_as_utf8_whatever_the_locale(log):
    log.write_bytes(line(said("plain")).replace(b"plain", b"pl\xe4in") + b"\n")
    assert texts(log) == ["pl\ufffdin"]
    assert b"pl\xe4in" in encode(next(iter(read_log(log))).record)


def test_c27_new_fields_survive(log):
    record = decode(line(said("x", brandNew={"deep": [1]})))
    assert record.fields["brandNew"] == {"deep": [1]}
    assert b'"brandNew":{"deep":[1]}' in encode(record)


def test_c28_and_c30_open_calls_and_equal_ids_are_not_corruption(log):
    call = {"type": "tool_use", "uuid": "t-1", "name": "Read", "input": {}, "timestamp": 1}
    put(log, call, call, {"type": "system_init", "timestamp": 1}, said("x"), said("x"))
    assert validate(log).is_valid
    assert not repair(log).needed


def test_c33_instants_of_both_notations_are_one_type():
    both = [
        decode(line(said("x", timestamp="2023-12-19T16:00:00Z"))),
        decode(line({"type": "system_init", "timestamp": 1703001600000})),
    ]
    assert both[0].at == both[1].at


def test_c36_a_range_counts_records_not_physical_lines(log):
    log.write_bytes(b"\n// note\n" + line(said("zero")) + b"\n\n" + line(said("one")) + b"\n")
    assert [item.record.text for item in read_range(log, 1, 2)] == ["one"]


def test_c37_an_archived_log_is_still_a_log(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line(said("kept")) + b"\n"))
    assert texts(tmp_path / "a.jsonl.gz") == ["kept"]


def test_c39_durability_has_three_names_and_all_end_on_disk(tmp_path):
    for durability in ("fsync", "flush"):
        with LogWriter(tmp_path / durability, durability=durability) as writer:
            writer.append(said("x"))
        assert texts(tmp_path / durability) == ["x"]
    with BufferedLog(LogWriter(tmp_path / "buffered"), every_seconds=3600) as buffered:
        buffered.append(said("x"))
        assert texts(tmp_path / "buffered") == []
    assert texts(tmp_path / "buffered") == ["x"]


def test_c40_what_was_written_is_never_rewritten_by_writing(log):
    put(log, said("one"))
    before = log.read_bytes()
    with LogWriter(log) as writer:
        writer.append({"type": "custom-title", "customTitle": "T", "sessionId": SESSION})
    assert log.read_bytes().startswith(before)


def test_c41_one_model_for_all_dialects():
    for sample in (
        {"type": "user", "content": "x"},
        {"type": "user", "content": [{"type": "text", "text": "x"}]},
        said("x"),
    ):
        record = decode(line(sample))
        assert (type(record).__name__, record.text) == ("User", "x")


def test_c42_agent_ids_have_no_fixed_length():
    assert all(map(is_subagent_id, ("a753668", "a1a93487", "0123456789abcdef0", "acompact-1f2e")))


def test_c49_the_project_hash_is_the_true_one():
    assert project_hash("/Users/nick/projects/my-app") == "v_FXjHoCS5zUJmfyn-5v"


def test_c50_comments_are_reported_as_what_they_are(log):
    log.write_bytes(b"// Line 1: a note\n" + line(said("x")) + b"\n")
    assert validate(log).corrupt == [1]
    assert texts(log) == ["x"]
