"""Repair: a dry run unless told otherwise, every record kept, no byte thrown away."""

from __future__ import annotations

import base64
import errno
import json
import logging
import os
import resource
import stat

import pytest
from hypothesis import given

from records.samples import CLAUDE
from storage.logs import add, in_child, lines, numbered, put, read, told
from strategies import to_line, untidy_logs
from turnlog.errors import FormatTooNew, LogError, LogLocked, StorageFull, WriteFailed
from turnlog.records.lenient_json import to_strict
from turnlog.storage import locks, system
from turnlog.storage.reader import Placed
from turnlog.storage.repair import repair, validate
from turnlog.storage.writer import LogWriter

GLUED = lines(1, 2).replace(b"\n", b"") + b"\n"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def beside(log):
    """The names that stand beside the log, times left out."""
    return sorted(
        path.name.partition("-")[0] for path in log.parent.iterdir() if path.name != log.name
    )


def quarantined(report):
    with open(report.quarantine, "rb") as file:
        return [json.loads(line) for line in file]


def test_without_being_told_to_it_only_says_what_it_would_do(log):
    put(log, GLUED, b"junk\n\n", lines(3), b'{"torn')
    before = log.read_bytes(), log.stat().st_mtime_ns
    report = repair(log)
    assert (report.written, report.needed) == (False, True)
    assert (report.records, report.salvaged, report.blank) == (3, 2, 1)
    assert [damage.reason.value for damage in report.quarantined] == ["not-json", "fragment"]
    assert report.quarantined_bytes == 4 + 6
    assert (report.original, report.quarantine) == (None, None)
    assert (log.read_bytes(), log.stat().st_mtime_ns) == before
    assert beside(log) == []


def test_told_to_it_leaves_every_record_on_a_line_of_its_own(log):
    put(log, GLUED, b"junk\n\n", lines(3), b'{"torn')
    report = repair(log, write=True)
    assert report.written
    assert log.read_bytes() == lines(1, 2, 3)
    assert validate(log).is_valid
    assert beside(log) == ["log.jsonl.original", "log.jsonl.quarantine"]


def test_the_log_as_it_was_is_kept_whole(log):
    data = GLUED + b"\0\0\xff junk\n" + lines(3)
    report = repair(put(log, data), write=True)
    with open(report.original, "rb") as file:
        assert file.read() == data


def test_what_is_no_record_is_quarantined_with_its_place_and_bytes(log):
    put(log, lines(1), b"junk \xc3\xa4\n", b"\xff\xfe\n", b"\0" * 9 + b"\n", b'{"torn')
    found = quarantined(repair(log, write=True))
    assert [entry["reason"] for entry in found] == ["not-json", "not-json", "nul-run", "fragment"]
    assert [entry["line"] for entry in found] == [2, 3, 4, 5]
    assert found[0]["text"] == "junk ä"
    assert base64.b64decode(found[1]["base64"]) == b"\xff\xfe"
    assert (found[0]["offset"], found[0]["length"]) == (len(lines(1)), 7)
    assert found[3]["text"] == '{"torn'


def test_a_sound_log_is_left_alone(log):
    inode = put(log, lines(1), b"\n", lines(2)).stat().st_ino
    report = repair(log, write=True)
    assert (report.needed, report.written) == (False, False)
    assert log.stat().st_ino == inode
    assert beside(log) == []


def test_a_whole_last_record_gets_its_newline(log):
    put(log, lines(1, 2)[:-1])
    assert repair(log).adds_newline
    repair(log, write=True)
    assert log.read_bytes() == lines(1, 2)


def test_records_keep_their_bytes_whatever_is_unusual_about_them(log):
    odd = b'{ "type":"mode" , "mode":"\\u0041", "n":1.0 }'
    put(log, b"\xef\xbb\xbf", lines(1), odd, b"\r\n", b"junk\n")
    repair(log, write=True)
    assert [item.record.raw for item in read(log)] == [lines(1)[:-1], odd + b"\r"]


def test_a_byte_order_mark_around_a_record_is_taken_out_and_kept(log):
    data = b"\xef\xbb\xbf".join((b"", lines(1)[:-1], b"\n")) + b" \xef\xbb\xbf" + lines(2)
    assert not validate(put(log, data)).is_valid
    report = repair(log, write=True)
    assert log.read_bytes() == lines(1, 2)
    with open(report.original, "rb") as file:
        assert file.read() == data
    assert validate(log, strict=True).is_valid


def test_records_on_a_last_line_that_was_cut_are_freed_as_on_any_other(log):
    put(log, lines(1), lines(2)[:-1], lines(3)[:-1], b'{"torn')
    report = repair(log, write=True)
    assert (report.records, report.salvaged, report.torn) == (3, 2, True)
    assert log.read_bytes() == lines(1, 2, 3)
    (rest,) = quarantined(report)
    assert (rest["text"], rest["line"]) == ('{"torn', 2)


@pytest.mark.parametrize("rest", [b"  ", b"\0" * 40, b'{"torn'])
def test_a_last_line_without_a_record_is_quarantined(log, rest):
    put(log, lines(1), rest)
    assert validate(log).findings[0].code == "torn-tail"
    report = repair(log, write=True)
    assert (report.torn, report.quarantined_bytes) == (True, len(rest))
    assert log.read_bytes() == lines(1)


@given(data=untidy_logs())
def test_a_repaired_log_has_the_same_records_and_nothing_else(tmp_path_factory, hushed, data):
    path = put(tmp_path_factory.mktemp("repaired") / "log.jsonl", data)
    sealed = put(path.with_name("sealed.jsonl"), data, b"\n")
    before = [to_strict(item.record.raw)[0] for item in read(sealed) if isinstance(item, Placed)]
    planned = repair(path)
    done = repair(path, write=True)
    assert [to_strict(item.record.raw)[0] for item in read(path)] == before
    assert done.quarantined == planned.quarantined
    assert done.records == len(before)
    if planned.needed:
        assert path.read_bytes() == b"".join(raw + b"\n" for raw in before)
        with open(done.original, "rb") as file:
            assert file.read() == data
        assert not repair(path).needed


def test_the_new_log_and_its_companions_are_as_private_as_the_old_log(log):
    put(log, b"junk\n", lines(1))
    log.chmod(0o640)
    report = repair(log, write=True)
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    for companion in (report.original, report.quarantine):
        assert stat.S_IMODE(os.stat(companion).st_mode) == 0o600


def test_two_repairs_keep_two_originals(log):
    put(log, b"junk\n", lines(1))
    repair(log, write=True)
    add(log, b"more junk\n")
    repair(log, write=True)
    assert beside(log) == ["log.jsonl.original"] * 2 + ["log.jsonl.quarantine"] * 2
    assert log.read_bytes() == lines(1)


def test_a_log_that_is_being_written_is_not_repaired(log):
    put(log, b"junk\n", lines(1))
    with LogWriter(log) as writer:

        def decide(news):
            with pytest.raises(LogLocked) as refusal:
                repair(log, write=True, lock_timeout=0)
            assert refusal.value.hint
            return [numbered(2)]

        writer.append_after(decide)
    assert log.read_bytes() == b"junk\n" + lines(1, 2)
    assert beside(log) == []


def test_a_writer_that_had_the_log_open_goes_on_in_the_repaired_one(log):
    put(log, b"junk\n", lines(1))
    with LogWriter(log) as writer:
        writer.append(numbered(2))
        repair(log, write=True)
        news = []
        writer.append_after(
            lambda seen: news.append((seen.restarted, told(seen.items))) or [numbered(3)]
        )
    assert news == [(True, ["u-1", "u-2"])]
    assert log.read_bytes() == lines(1, 2, 3)


def at_sync(monkeypatch, number, step):
    """Take *step* when the repair syncs for the *number*-th time."""
    real, calls = system.sync, []

    def sync(fd):
        calls.append(fd)
        if len(calls) == number:
            step()
        real(fd)

    monkeypatch.setattr(system, "sync", sync)


def before_the_first(monkeypatch, name, step):
    """Take *step* before the first call of that name."""
    real = getattr(os, name)

    def call(*args, **kwargs):
        monkeypatch.setattr(os, name, real)
        step()
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, call)


def without_links(monkeypatch, code=errno.EPERM):
    def link(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("moment", ["fdatasync", "fchmod", "link", "replace"])
def test_what_a_program_without_locks_appends_meanwhile_is_kept_once(log, monkeypatch, moment):
    put(log, b"junk\n", lines(1))
    before_the_first(monkeypatch, moment, lambda: add(log, lines("late")))
    report = repair(log, write=True)
    assert told(read(log)) == ["u-1", "u-late"]
    with open(report.original, "rb") as file:
        assert file.read() == b"junk\n" + lines(1, "late")


def test_what_a_program_goes_on_writing_to_the_old_file_is_found_in_the_original(log):
    put(log, b"junk\n", lines(1))
    with log.open("ab", buffering=0) as theirs:
        report = repair(log, write=True)
        theirs.write(lines("late"))
    assert log.read_bytes() == lines(1)
    with open(report.original, "rb") as file:
        assert file.read() == b"junk\n" + lines(1, "late")


@pytest.mark.parametrize("has_links", [True, False])
def test_nobody_comes_between_the_new_log_and_what_is_carried_over(log, monkeypatch, has_links):
    put(log, b"junk\n", lines(1))
    real, taken = os.replace, []

    def replace(old, new):
        add(log, lines("late"))
        real(old, new)
        taken.append(in_child(lambda: locks.lock(os.open(log, os.O_RDWR), 0)))

    if not has_links:
        without_links(monkeypatch)
    monkeypatch.setattr(os, "replace", replace)
    repair(log, write=True)
    assert taken == [False]
    assert told(read(log)) == ["u-1", "u-late"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV, errno.EACCES])
def test_where_there_are_no_hard_links_the_original_is_a_copy(log, monkeypatch, code):
    put(log, b"junk\n", lines(1))
    without_links(monkeypatch, code)
    before_the_first(monkeypatch, "replace", lambda: add(log, lines("late")))
    report = repair(log, write=True)
    with open(report.original, "rb") as file:
        assert file.read() == b"junk\n" + lines(1)
    assert stat.S_IMODE(os.stat(report.original).st_mode) == 0o600
    assert told(read(log)) == ["u-1", "u-late"]


@pytest.mark.parametrize("has_links", [True, False])
def test_if_something_cannot_be_carried_over_it_is_said_where_it_is(log, monkeypatch, has_links):
    put(log, b"junk\n", lines(1))
    real = os.replace

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def replace(old, new):
        add(log, lines("late"))
        real(old, new)
        monkeypatch.setattr(os, "write", full)

    if not has_links:
        without_links(monkeypatch)
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WriteFailed, match="was rewritten") as failure:
        repair(log, write=True)
    monkeypatch.undo()
    (original,) = log.parent.glob("*.original-*")
    assert (original.name in failure.value.hint) == has_links
    assert original.read_bytes().endswith(lines("late")) == has_links


def test_a_program_that_never_stops_writing_is_told_of(log, monkeypatch, caplog):
    put(log, b"junk\n", lines(1))
    real = system.sync

    def sync(fd):
        real(fd)
        theirs.write(lines("late"))

    monkeypatch.setattr(system, "sync", sync)
    warnings = caplog.at_level(logging.WARNING, logger="turnlog.storage")
    with warnings, log.open("ab", buffering=0) as theirs:
        report = repair(log, write=True)
    assert f"still writes to {report.original}" in caplog.text


def test_all_names_are_on_the_disk_before_the_place_is_taken_and_after(log, monkeypatch):
    put(log, b"junk\n", lines(1))
    real_sync, real_replace, synced, replaced = system.sync_directory_at, os.replace, [], []

    def sync(path):
        real_sync(path)
        synced.append(sorted(os.listdir(path)))

    def replace(old, new):
        assert synced[-1:] == [sorted(os.listdir(log.parent))]
        real_replace(old, new)
        replaced.append(new)

    monkeypatch.setattr(system, "sync_directory_at", sync)
    monkeypatch.setattr(os, "replace", replace)
    repair(log, write=True)
    assert replaced == [log]
    assert len(synced[-2]) == 4  # The log, the new one, the original, what was no record.
    assert synced[-1] == sorted(os.listdir(log.parent))


def test_an_interrupt_just_after_the_rename_leaves_the_original(log, monkeypatch):
    put(log, b"junk\n", lines(1))
    real = os.replace

    def replace(old, new):
        real(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        repair(log, write=True)
    assert log.read_bytes() == lines(1)
    (original,) = log.parent.glob("*.original-*")
    assert original.read_bytes() == b"junk\n" + lines(1)
    assert len(list(log.parent.glob("*.quarantine-*"))) == 1


def test_what_a_killed_repair_left_is_gone_after_the_next(log):
    put(log, b"junk\n", lines(1))
    before = log.read_bytes()
    stamp = "20260101T000000.000000Z"
    os.link(log, log.with_name(f"{log.name}.original-{stamp}"))
    put(log.with_name(f"{log.name}.quarantine-{stamp}"), b"{}\n")
    mine = put(log.with_name(f"{log.name}.quarantine-20250101T000000.000000Z"), b"{}\n")
    report = repair(log, write=True)
    assert sorted(map(str, log.parent.iterdir())) == sorted(
        [str(log), str(mine), report.original, report.quarantine]
    )
    with open(report.original, "rb") as file:
        assert file.read() == before


def test_a_repaired_log_of_the_same_size_has_another_time(log):
    put(log, lines(1, 2, 3).replace(b"\n", b""), b"\n", b"x\n")
    os.utime(log, (1, 1))
    size = log.stat().st_size
    repair(log, write=True)
    assert log.stat().st_size == size
    assert log.stat().st_mtime > 1


def test_a_failed_sync_leaves_the_log_as_it_was(log, monkeypatch):
    put(log, b"junk\n", lines(1))

    def fail():
        raise OSError(errno.EIO, "Input/output error")

    at_sync(monkeypatch, 2, fail)
    with pytest.raises(LogError) as failure:
        repair(log, write=True)
    assert "unchanged" in str(failure.value)
    assert log.read_bytes() == b"junk\n" + lines(1)
    assert not [name for name in os.listdir(log.parent) if ".repair-" in name]


@pytest.mark.parametrize("room", [10, 200])
def test_without_room_the_log_stays_as_it_was(log, room):
    put(log, b"junk\n", lines(1, 2, 3))
    before = log.read_bytes()

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            repair(log, write=True)
        except StorageFull as full:
            return full.errno, full.hint
        return None

    number, hint = in_child(work)
    assert number == errno.EFBIG
    assert "room" in hint
    assert log.read_bytes() == before
    assert not [name for name in os.listdir(log.parent) if ".repair-" in name]


def test_without_room_no_half_copy_stays_behind(log):
    put(log, b"junk\n", lines(1, 2, 3))

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
        try:
            repair(log, write=True)
        except StorageFull:
            return os.listdir(log.parent)
        return None

    assert in_child(work) == ["log.jsonl"]


def test_a_log_of_a_newer_format_is_not_repaired(log):
    put(log, b'{"type":"turnlog","format":99}\n', b"junk\n", lines(1))
    before = log.read_bytes()
    with pytest.raises(FormatTooNew):
        repair(log, write=True)
    assert log.read_bytes() == before


def test_an_over_long_line_is_described_and_kept_in_the_original(log):
    put(log, lines(1), b"x" * 5000, b"\n", lines(2))
    report = repair(log, write=True, cap=1000)
    assert told(read(log)) == ["u-1", "u-2"]
    (entry,) = quarantined(report)
    assert (entry["reason"], entry["length"]) == ("too-long", 5000)
    with open(report.original, "rb") as file:
        assert b"x" * 5000 in file.read()


def test_a_call_without_a_result_is_no_damage(log):
    put(log, to_line(CLAUDE["assistant/call"]), b"\n", lines(1))
    assert not repair(log).needed
    assert validate(log).is_valid


def test_equal_lines_are_no_damage(log):
    put(log, (to_line(CLAUDE["ai-title"]) + b"\n") * 3, lines(1, 1))
    assert not repair(log).needed
    assert validate(log).is_valid
