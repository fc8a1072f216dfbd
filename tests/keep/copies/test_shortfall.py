"""A log that lost content while a copy is kept: it is found out, and made whole from the copy."""

import os

import pytest

from keep.orchard_home import ID, OTHER, PROJECT, conversation, files_in, line, parts_of
from turnlog.cli.hints import hint_of
from turnlog.errors import LogLocked, UsageError
from turnlog.formats import Home, find_logs, key_of
from turnlog.keep.catalog import CATALOGUE, Catalogue
from turnlog.keep.compaction.compact import compact
from turnlog.keep.copies import shortfall
from turnlog.keep.copies.shortfall import Shortfalls
from turnlog.keep.restore.restore import RestoreOutcome, restore
from turnlog.sessions.session import Session
from turnlog.storage.repair import repair

SUBAGENT_LOG = f"projects/{key_of(PROJECT)}/{ID}/subagents/agent-a1b2c3d.jsonl"
NEW = conversation(start=50, turns=1)


def lines(data, start=0, stop=None):
    return b"".join(data.splitlines(keepends=True)[start:stop])


INJURIES = {
    "emptied": lambda _data: b"",
    "a newline left": lambda _data: b"\n",
    "all zeros": lambda data: b"\0" * len(data),
    "head cut at a line": lambda data: lines(data, 2),
    "head cut in a line": lambda data: data[len(lines(data, 0, 1)) + 40 :],
    "first line lost": lambda data: lines(data, 1),
    "middle cut at lines": lambda data: lines(data, 0, 2) + lines(data, 4),
    "middle cut in lines": lambda data: data[:900] + data[1500:],
    "middle zeros": lambda data: data[:900] + b"\0" * 600 + data[1500:],
    "tail cut at a line": lambda data: lines(data, 0, 3),
    "tail cut in a line": lambda data: data[:1000],
    "a line is another": lambda data: lines(data, 0, 1) + b"{}\n" + lines(data, 2),
    "other bytes": lambda _data: b"nothing of this is a log\n",
}


def lacking(orchard, name=None, **how):
    name = name or orchard.main
    logs = {str(log.path): log for log in find_logs(Home(orchard.home))}
    return Shortfalls().of(logs[str(orchard.home / name)], **how)


def injure(orchard, how, name=None):
    name = name or orchard.main
    orchard.write(name, INJURIES[how](orchard.files[name]))


def aside(orchard, name=None):
    """The logs that were set aside, as the home has them."""
    prefix = (name or orchard.main) + ".replaced-"
    return [data for each, data in files_in(orchard.home).items() if each.startswith(prefix)]


@pytest.mark.parametrize("is_kept_again", [False, True])
@pytest.mark.parametrize("how", INJURIES)
@pytest.mark.parametrize("name", [None, SUBAGENT_LOG])
def test_a_log_that_lost_records_is_made_whole(orchard, how, name, is_kept_again):
    injure(orchard, how, name)
    injured = files_in(orchard.home)[name or orchard.main]
    if is_kept_again:
        orchard.keep()
    found = lacking(orchard, name)
    assert found.records > 0
    assert found.generation == 1
    done = restore(orchard.session(), replace=True)
    (replaced,) = [file for file in done.files if file.outcome is RestoreOutcome.REPLACED]
    assert (replaced.name, replaced.carried) == (name or orchard.main, 0)
    assert files_in(orchard.home)[replaced.name] == orchard.files[replaced.name]
    assert aside(orchard, name) == [injured]
    assert lacking(orchard, name) is None
    orchard.keep()
    assert lacking(orchard, name) is None
    assert restore(orchard.session(), replace=True).written == 0


@pytest.mark.parametrize("is_kept_again", [False, True])
@pytest.mark.parametrize("how", ["emptied", "head cut in a line", "tail cut at a line"])
def test_what_was_appended_after_the_injury_is_carried_over(orchard, how, is_kept_again):
    injure(orchard, how)
    log = orchard.home / orchard.main
    state = lines(orchard.files[orchard.main], 6, 7)
    with log.open("ab") as file:  # A record, a state that is in the copy too, a record.
        file.write(NEW + state + conversation(start=60, turns=1))
    more = NEW + state + conversation(start=60, turns=1)
    if is_kept_again:
        orchard.keep()
    done = restore(orchard.session(), replace=True)
    (replaced,) = [file for file in done.files if file.outcome is RestoreOutcome.REPLACED]
    assert replaced.carried == 5
    assert log.read_bytes() == orchard.files[orchard.main] + more
    orchard.keep()
    assert lacking(orchard) is None


def test_a_copy_without_a_last_newline_gets_one_before_what_follows(orchard):
    whole = orchard.files[orchard.main] + conversation(start=20).rstrip(b"\n")
    orchard.write(orchard.main, whole)
    orchard.keep()
    orchard.write(orchard.main, NEW)
    restore(orchard.session(), replace=True)
    assert (orchard.home / orchard.main).read_bytes() == whole + b"\n" + NEW


def test_a_changed_record_is_not_carried_over(orchard):
    """It has a uuid that the copy has; only the set aside log keeps what it says."""
    data = orchard.files[orchard.main]
    changed = lines(data, 5, 6).replace(b"apple", b"pear!")
    orchard.write(orchard.main, lines(data, 1, 5) + changed)
    restore(orchard.session(), replace=True)
    assert (orchard.home / orchard.main).read_bytes() == orchard.files[orchard.main]
    assert changed in aside(orchard)[0]


# -- logs that lack nothing -----------------------------------------------------------------------


def grown(orchard):
    orchard.write(orchard.main, orchard.files[orchard.main] + NEW)


def repaired(orchard):
    assert repair(orchard.home / orchard.main, write=True).written


def compacted(orchard):
    titles = b"".join(line(type="ai-title", aiTitle=f"{n}", sessionId=ID) for n in range(9))
    orchard.write(orchard.main, titles + orchard.files[orchard.main] + NEW)
    orchard.keep()
    assert compact(Session.find([Home(orchard.home)], ID), write=True).written


def untouched(_orchard):
    pass


@pytest.mark.parametrize("is_kept_again", [False, True])
@pytest.mark.parametrize("change", [grown, repaired, compacted, untouched])
def test_a_log_that_lacks_nothing_is_left(orchard, change, is_kept_again):
    change(orchard)
    if is_kept_again:
        orchard.keep()
    assert lacking(orchard, is_suspect=True) is None
    before = files_in(orchard.home)
    assert restore(orchard.session(), replace=True).written == 0
    assert files_in(orchard.home) == before


def test_where_nothing_is_wrong_no_record_is_read(orchard, monkeypatch):
    repaired(orchard)
    orchard.keep()
    grown_log = orchard.home / f"projects/{key_of(PROJECT)}/{OTHER}.jsonl"
    grown_log.write_bytes(parts_of(OTHER)[f"projects/{key_of(PROJECT)}/{OTHER}.jsonl"])
    orchard.keep()
    with grown_log.open("ab") as file:
        file.write(NEW)

    def read(*_arguments, **_more):
        raise AssertionError("a log was read")

    monkeypatch.setattr(shortfall, "Reader", read)
    logs = list(find_logs(Home(orchard.home)))
    assert len(logs) == 3
    found = Shortfalls()
    assert [found.of(log) for log in logs] == [None] * 3


def test_rot_behind_an_unchanged_size_and_time_is_found_in_a_suspect(orchard):
    log = orchard.home / orchard.main
    status = log.stat()
    data = bytearray(log.read_bytes())
    data[5:9] = b"\0\0\0\0"
    log.write_bytes(data)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert lacking(orchard) is None
    assert lacking(orchard, is_suspect=True).records == 1
    restore(orchard.session(), replace=True)
    assert log.read_bytes() == orchard.files[orchard.main]


def test_a_lost_catalogue_or_copy_says_nothing(orchard):
    injure(orchard, "emptied")
    orchard.copy().unlink()
    assert lacking(orchard) is None
    (orchard.place / CATALOGUE).unlink()
    assert lacking(orchard) is None


def test_a_catalogue_of_an_earlier_version_is_read(orchard):
    """It does not say whether a generation is whole, so the copies are compared."""
    injure(orchard, "tail cut at a line")
    orchard.keep()
    catalogue = Catalogue.load(orchard.place)
    assert catalogue.current[orchard.main].is_whole is False
    text = (orchard.place / CATALOGUE).read_text()
    (orchard.place / CATALOGUE).write_text(text.replace('"is_whole":false', '"is_whole":null'))
    assert lacking(orchard).generation == 1


# -- what is in the way ---------------------------------------------------------------------------


def test_without_replace_nothing_is_touched(orchard):
    injure(orchard, "tail cut in a line")
    before = files_in(orchard.home)
    with pytest.raises(UsageError, match="holds less than was kept") as caught:
        restore(orchard.session())
    assert "--force" in hint_of(caught.value)
    assert files_in(orchard.home) == before


def test_another_part_that_changed_stays_and_is_reported(orchard):
    injure(orchard, "emptied")
    name = f"tasks/{ID}/1.json"
    orchard.write(name, b'{"id":"1","subject":"newer"}')
    done = restore(orchard.session(), replace=True)
    assert {file.name: file.outcome for file in done.files}[name] is RestoreOutcome.LEFT
    assert files_in(orchard.home)[name] == b'{"id":"1","subject":"newer"}'
    assert files_in(orchard.home)[orchard.main] == orchard.files[orchard.main]


def test_a_generation_can_be_chosen(orchard):
    injure(orchard, "tail cut at a line")
    orchard.keep()
    shorter = (orchard.home / orchard.main).read_bytes()
    orchard.write(orchard.main, b"")
    restore(orchard.session(), replace=True, generation=2)
    assert (orchard.home / orchard.main).read_bytes() == shorter


def test_a_session_that_runs_is_not_replaced(orchard):
    injure(orchard, "emptied")
    mark = {"pid": os.getpid(), "sessionId": ID, "cwd": PROJECT, "startedAt": 0}
    (orchard.home / "sessions").mkdir()
    (orchard.home / "sessions" / f"{os.getpid()}.json").write_bytes(line(**mark))
    with pytest.raises(LogLocked, match="is running"):
        restore(orchard.session(), replace=True)
    assert (orchard.home / orchard.main).read_bytes() == b""


def test_a_link_in_the_logs_place_is_not_replaced(orchard, tmp_path):
    log = orchard.home / orchard.main
    (tmp_path / "outside").write_bytes(b"")
    log.unlink()
    log.symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="cannot be compared"):
        restore(orchard.session(), replace=True)
    assert log.is_symlink()
    assert (tmp_path / "outside").read_bytes() == b""
