"""Retention: nothing goes that somebody may want, and whatever goes can be put back."""

import contextlib
import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from keep.orchard_store import (
    ID,
    KEY,
    OLD,
    OTHER,
    PROJECT,
    SHARED,
    belongings,
    fails_at,
    files,
    in_trash,
    make,
    put,
    said,
)
from turnlog import build
from turnlog.cli.hints import hint_of
from turnlog.errors import LogError, StorageFull, TurnlogError, UsageError, WriteFailed
from turnlog.formats import Home
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies import reader
from turnlog.keep.copies.keep import keep
from turnlog.keep.retention import retention
from turnlog.keep.retention.policy import Policy, ProjectRule, policy_from
from turnlog.keep.retention.retention import prune, prune_configured
from turnlog.keep.trash.delete import restore_from_trash
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.environment import process
from turnlog.sessions.journal import Journal
from turnlog.storage.compressed import unpack
from turnlog.storage.locks import lock
from turnlog.storage.repair import repair

LAST = datetime(2026, 1, 2, 10, tzinfo=UTC)
DUE = LAST + timedelta(days=30)
ON = Policy(enabled=True)
ARCHIVE_FIRST = Policy(enabled=True, archive_first=True)
MAIN = f"{KEY}/{ID}.jsonl"
LOST = "99999999-9999-4999-8999-999999999999"


@pytest.fixture
def home(tmp_path, own):
    return make(tmp_path / "home")


def ids(rows):
    return [row.id for row in rows]


def reasons(report):
    return {row.id: row.reason for row in report.spared}


def test_a_session_expires_thirty_days_after_its_last_record_and_not_before(home):
    early = prune([home], ON, now=DUE - timedelta(microseconds=1))
    assert (early.sessions, early.young, early.spared) == ([], 2, [])
    report = prune([home], ON, now=DUE)
    assert ids(report.sessions) == [ID, OTHER]
    row = report.sessions[0]
    assert (row.age_days, row.days, row.last_active_at, row.project) == (30, 30, LAST, PROJECT)
    assert (row.files, row.title) == (len(belongings()), "Prune the pear tree")
    assert not row.is_from_files


def test_without_write_nothing_is_changed(home, own):
    before = files(home.path)
    prune([home], ON, now=DUE, with_orphans=True)
    assert files(home.path) == before
    assert not own.exists()


def test_what_expired_goes_to_the_trash_and_comes_back(home, own):
    before = files(home.path)
    report = prune([home], ON, now=DUE, write=True)
    assert files(home.path) == {name: before[name] for name in SHARED}
    assert not (home.path / KEY).exists()
    trash = Trash(own)
    assert {row.trash for row in report.sessions} == {each.name for each in trash.entries()}
    assert {each.entry.why for each in trash.entries()} == {"expired"}
    for each in trash.entries():
        assert each.entry.purge_after_at == DUE + timedelta(days=30)
        restore_from_trash(trash, each)
    assert files(home.path) == before
    again = prune([home], ON, now=DUE, write=True)
    assert ids(again.sessions) == [ID, OTHER]


def test_off_means_off(home, own):
    for policy in (None, Policy(), Policy(enabled=False, days=1)):
        report = prune([home], policy, now=DUE + timedelta(days=9999), write=True)
        assert (report.is_on, report.sessions, report.empty) == (False, [], [])
    assert set(files(home.path)) == {*belongings(), *belongings(OTHER), *SHARED}


# -- age ------------------------------------------------------------------------------------


def test_files_times_make_a_session_neither_younger_nor_older(home):
    log = home.path / KEY / f"{ID}.jsonl"
    for at in (0, 1, 1_000_000_000, 4_000_000_000, DUE.timestamp() - 7200):
        for name in belongings():
            os.utime(home.path / name, (at, at))
        assert ids(prune([home], ON, now=DUE).sessions) == [ID, OTHER]
        assert prune([home], ON, now=DUE - timedelta(seconds=1)).young == 2
    os.utime(log, (0, 0))
    log.write_bytes(log.read_bytes() + said(ID, "late", at="2026-01-31T10:00:00.000Z"))
    os.utime(log, (0, 0))
    assert ids(prune([home], ON, now=DUE).sessions) == [OTHER]


def test_what_was_touched_within_the_hour_stays(home, own):
    at = DUE.timestamp() - 3599
    os.utime(home.path / "todos" / f"{ID}-agent-a1.json", (at, at))
    report = prune([home], ON, now=DUE, write=True)
    assert ids(report.sessions) == [OTHER]
    assert reasons(report) == {ID: "its files were touched within the last hour"}


def test_an_agents_record_and_one_in_the_middle_of_a_long_log_count(home):
    young = said(ID, "late", at="2026-01-31T10:00:00.000Z")
    put(home, f"{KEY}/{ID}/subagents/agent-a1.jsonl", young, at=1)
    filling = [said(OTHER, f"{n} " + "x" * 500) for n in range(600)]
    middle = said(OTHER, "late", at="2026-01-31T10:00:00.000Z")
    put(home, f"{KEY}/{OTHER}.jsonl", b"".join([*filling[:300], middle, *filling[300:]]), at=1)
    report = prune([home], ON, now=DUE)
    assert (report.sessions, report.young) == ([], 2)


def test_only_where_no_record_has_a_time_the_file_has(home):
    old = (DUE - timedelta(days=31)).timestamp()
    put(home, f"{KEY}/{ID}.jsonl", b'{"type":"custom-title","customTitle":"x"}\n', at=old)
    for name in belongings():
        if name.endswith(".jsonl") and name != f"{KEY}/{ID}.jsonl":
            (home.path / name).unlink()
    report = prune([home], ON, now=DUE)
    row = next(row for row in report.sessions if row.id == ID)
    assert row.is_from_files
    young = (DUE - timedelta(days=29)).timestamp()
    os.utime(home.path / KEY / f"{ID}.jsonl", (young, young))
    assert ids(prune([home], ON, now=DUE).sessions) == [OTHER]


@given(
    st.lists(st.integers(0, 4000), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.integers(1, 100),
    st.integers(-3, 3),
)
def test_the_one_rule_of_age(tmp_path_factory, hours, mtime, days, seconds):
    """Expired if and only if now - last >= days, whatever the order of records and files' times."""
    place = tmp_path_factory.mktemp("age")
    first = datetime(2025, 1, 1, tzinfo=UTC)
    times = [first + timedelta(hours=each) for each in hours]
    home = Home(place / "home")
    rows = [said(ID, f"at {n}", at=at.isoformat()) for n, at in enumerate(times)]
    put(home, f"{KEY}/{ID}.jsonl", b"".join(rows), at=mtime)
    now = max(times) + timedelta(days=days, seconds=seconds)
    policy = Policy(enabled=True, days=days)
    report = prune([home], policy, now=now, own=place / "own")
    touched = abs(now.timestamp() - mtime) < 3600
    assert bool(report.sessions) == (seconds >= 0 and not touched)


# -- who is spared --------------------------------------------------------------------------


def spared(home, match, **more):
    before = {n: d for n, d in files(home.path).items() if n in belongings()}
    report = prune([home], more.pop("policy", ON), now=DUE, write=True, **more)
    assert match in reasons(report)[ID], reasons(report)
    assert ids(report.sessions) == [OTHER]
    after = files(home.path)
    assert {n: after.get(n) for n in before} == before


def test_a_pinned_session_stays_wherever_the_pin_stands(home, own):
    Journal.in_root(own).pin(ID)
    spared(home, "pinned")


def test_a_pin_of_the_homes_own_store_counts(home, own):
    turnlog.open(home.path).update(ID, pinned=True)
    spared(home, "pinned")


def lose(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def roll_back(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def roll_back_and_go_on(path):
    roll_back(path)
    journal = Journal(path)
    for _ in range(3):
        journal.note("archived", OTHER)
    journal.pin(OTHER)


@pytest.mark.parametrize("how", [lose, empty, roll_back, roll_back_and_go_on])
@pytest.mark.parametrize("is_in_home", [True, False])
def test_a_journal_that_shrank_may_have_held_a_pin(home, own, how, is_in_home):
    journal = Journal.in_root(home.path if is_in_home else own)
    journal.pin(OTHER, pinned=False)
    journal.pin(ID)
    whole = journal.path.read_bytes()
    how(journal.path)
    before = files(home.path)
    for write in (False, True):
        with pytest.raises(LogError, match="holds less than it did") as caught:
            prune([home], ON, now=DUE, write=write)
        assert str(journal.witness) in caught.value.hint
    assert files(home.path) == before
    journal.path.write_bytes(whole)
    spared(home, "pinned")


def test_a_journal_that_was_repaired_or_grew_has_not_shrunk(home, own):
    journal = Journal.in_root(own)
    journal.pin(ID)
    with journal.path.open("ab") as file:
        file.write(b'{"type":"turnlog","event":"pi\n')
    repair(journal.path, write=True)
    journal.note("archived", OTHER)
    assert not journal.has_shrunk
    spared(home, "pinned")


def test_a_journal_of_an_earlier_version_gets_a_witness(home, own):
    journal = Journal.in_root(own)
    journal.pin(ID)
    journal.witness.unlink()
    prune([home], ON, now=DUE, write=True)
    journal.path.unlink()
    with pytest.raises(LogError, match="holds less than it did"):
        prune([home], ON, now=DUE, write=True)


def test_a_damaged_journal_may_have_held_a_pin(home, own):
    journal = Journal.in_root(own)
    journal.pin(ID)
    with open(journal.path, "ab") as file:
        file.write(b'{"type":"turnlog","event":"pin\xff\xfe\n')
    journal.pin(OTHER, pinned=False)
    before = files(home.path)
    with pytest.raises(LogError, match="damaged") as told:
        prune([home], ON, now=DUE, write=True)
    assert "turnlog repair" in hint_of(told.value)
    assert files(home.path) == before


def test_a_running_session_stays(home, own):
    me = process()
    told = {"pid": me.pid, "sessionId": ID, "procStart": me.started}
    put(home, f"sessions/{me.pid}.json", json.dumps(told))
    spared(home, "running")


def test_a_session_that_runs_in_another_home_stays(home, own, tmp_path):
    me = process()
    told = {"pid": me.pid, "sessionId": ID, "procStart": me.started}
    other = Home(tmp_path / "other")
    put(other, f"sessions/{me.pid}.json", json.dumps(told))
    spared(home, "running", elsewhere=[other])


def test_a_locked_session_stays(home, own):
    with open(home.path / KEY / f"{ID}.jsonl", "ab") as file:
        assert lock(file.fileno(), 0)
        spared(home, "written")


def test_a_session_that_turnlog_has_open_stays(tmp_path, own):
    store = turnlog.open(tmp_path / "store")
    with store.create(project=tmp_path) as session:
        session.append(build.user("Hello"))
        later = datetime.now(UTC) + timedelta(days=40)
        report = prune([Home(store.root)], ON, now=later, write=True)
        assert reasons(report) == {session.session_id: "it is being written"}
    assert ids(prune([Home(store.root)], ON, now=later).sessions) == [session.session_id]


def test_a_log_that_cannot_be_read_stays(home, own, monkeypatch):
    from turnlog.keep.retention import expiry

    real = expiry.activity_of

    def broken(session_id, logs):
        if session_id == ID:
            raise LogError("reading failed at byte 7", path="x")
        return real(session_id, logs)

    monkeypatch.setattr(expiry, "activity_of", broken)
    spared(home, "it cannot be read")


def test_a_session_that_is_written_to_after_it_was_judged_stays(home, own, monkeypatch):
    real = retention.delete_together

    def written_meanwhile(sessions, *rest):
        if ID in sessions:
            with open(home.path / KEY / f"{ID}.jsonl", "ab") as log:
                log.write(said(ID, "I am back"))
        return real(sessions, *rest)

    monkeypatch.setattr(retention, "delete_together", written_meanwhile)
    report = prune([home], ON, now=DUE, write=True)
    assert "written to just now" in reasons(report)[ID]
    assert ids(report.sessions) == [OTHER]
    assert (home.path / KEY / f"{ID}.jsonl").read_bytes().endswith(said(ID, "I am back"))


def test_projects_have_settings_of_their_own(home, own):
    rule = ProjectRule(directory=PROJECT, days=90)
    policy = Policy(enabled=True, projects=(rule,))
    assert prune([home], policy, now=DUE).young == 2
    report = prune([home], policy, now=LAST + timedelta(days=90))
    assert {(row.days, row.rule) for row in report.sessions} == {(90, PROJECT)}
    inner = ProjectRule(directory="/home/ada", days=1)
    policy = Policy(enabled=True, projects=(inner, rule))
    assert prune([home], policy, now=DUE).young == 2  # The innermost one decides.
    outer = ProjectRule(directory="/home/ada/orch", days=1)
    policy = Policy(enabled=True, projects=(outer,))
    assert len(prune([home], policy, now=DUE).sessions) == 2


def test_a_project_may_never_expire(home, own):
    put(home, f"{KEY}/{OTHER}.jsonl", said(OTHER, cwd="/srv/kites"), at=1_767_400_000)
    rule = ProjectRule(directory="/home/ada", days=None)
    spared(home, "never expire", policy=Policy(enabled=True, projects=(rule,)))


def test_a_session_of_an_unknown_project_stays_if_projects_have_settings(home, own):
    put(home, f"{KEY}/{ID}.jsonl", said(ID, cwd=None), at=1_767_400_000)
    rule = ProjectRule(directory="/srv/kites", days=None)
    spared(home, "its project is not known", policy=Policy(enabled=True, projects=(rule,)))


def test_only_one_project(home, own):
    put(home, f"{KEY}/{OTHER}.jsonl", said(OTHER, cwd="/srv/kites"), at=1_767_400_000)
    assert ids(prune([home], ON, now=DUE, project="/srv").sessions) == [OTHER]
    assert ids(prune([home], ON, now=DUE, project=PROJECT).sessions) == [ID]
    assert ids(prune([home], ON, now=DUE, project="/srv/kite").sessions) == []


def test_only_the_homes_that_are_named_are_touched(home, own, tmp_path):
    other = make(tmp_path / "other")
    prune([home], ON, now=DUE, write=True, elsewhere=[other])
    assert set(files(other.path)) == {*belongings(), *belongings(OTHER), *SHARED}


# -- kept copies ----------------------------------------------------------------------------


def test_kept_copies_stay_unless_asked_for(home, own):
    keep([home])
    prune([home], ON, now=DUE, write=True)
    assert all(name.startswith("home/") for name in in_trash(own))
    gone = prune([home], ON, now=DUE)
    assert (gone.sessions, gone.spared) == ([], [])  # What is only kept does not expire.
    with_kept = Policy(enabled=True, with_kept=True)
    report = prune([home], with_kept, now=DUE, write=True)
    assert ids(report.sessions) == [ID, OTHER]
    assert [name for name in in_trash(own) if name.startswith("kept/")]


def test_archiving_first_leaves_a_kept_copy_of_every_file(home, own):
    put(home, f"{KEY}/{ID}.jsonl.original-20260101T000000.000000Z", b"as it was", at=1)
    before = files(home.path)
    assert not (own / "kept").exists()
    report = prune([home], ARCHIVE_FIRST, now=DUE, write=True)
    assert ids(report.sessions) == [ID, OTHER]
    kept = {name.split("/", 2)[2] for name in files(own) if name.startswith("kept/")}
    assert {f"{name}.zst" for name in before} <= kept
    assert turnlog.open(home.path).session(ID).logs[0].is_kept


def test_what_could_not_be_archived_stays(home, own):
    policy = ARCHIVE_FIRST
    before = files(home.path)

    def full(homes):
        raise StorageFull("no room", path="x")

    def failing(homes):
        raise WriteFailed("input/output error", path="x")

    with pytest.raises(StorageFull):
        prune([home], policy, now=DUE, write=True, archive=full)
    report = prune([home], policy, now=DUE, write=True, archive=failing)
    assert not report.sessions
    assert all("could not be archived" in each for each in reasons(report).values())
    assert [each.reason for each in report.problems] == ["input/output error"]
    report = prune([home], policy, now=DUE, write=True, archive=nothing)
    assert all("no kept copy of" in each for each in reasons(report).values())
    keep([home], sessions=frozenset({OTHER}))
    report = prune([home], policy, now=DUE, write=True, archive=nothing)
    assert ids(report.sessions) == [OTHER]
    assert {n: d for n, d in files(home.path).items() if n in belongings()} == {
        n: d for n, d in before.items() if n in belongings()
    }


def unnoticed(home, name):
    """Change a file so that neither its size nor its time tell; give what it holds now."""
    path = home.path / name
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"pear", b"plum"))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    return path.read_bytes()


@pytest.mark.parametrize("at", [0, 1_767_400_000])
def test_a_copy_that_is_not_as_its_file_is_made_anew_before_the_file_goes(home, own, at):
    """Even one whose file has no time to speak of."""
    os.utime(home.path / MAIN, (at, at))
    keep([home])
    old = files(home.path)[MAIN]
    new = unnoticed(home, MAIN)
    rotted = kept_copy(kept_place(home), f"{KEY}/{OTHER}.jsonl")
    data = bytearray(rotted.read_bytes())
    data[12] ^= 0xFF
    rotted.write_bytes(data)
    other = files(home.path)[f"{KEY}/{OTHER}.jsonl"]
    report = prune([home], ARCHIVE_FIRST, now=DUE, write=True)
    assert ids(report.sessions) == [ID, OTHER]
    assert not report.problems
    catalogue = Catalogue.of_home(home)
    kept = [b"".join(unpack(catalogue.copy_of(each))) for each in catalogue.generations(MAIN)]
    assert kept == [old, new]
    assert b"".join(unpack(rotted)) == other


def nothing(_homes):
    """An archive that keeps nothing."""


def stays(home, before):
    return all(files(home.path).get(name) == before[name] for name in belongings())


def test_what_has_no_copy_that_is_as_it_is_stays(home, own):
    keep([home])
    unnoticed(home, MAIN)
    before = files(home.path)
    report = prune([home], ARCHIVE_FIRST, now=DUE, write=True, archive=nothing)
    assert ids(report.sessions) == [OTHER]
    assert reasons(report) == {ID: f"there is no kept copy of {MAIN}"}
    assert stays(home, before)


def test_a_copy_that_never_reads_back_lets_nothing_go_and_is_told(home, own, monkeypatch):
    before = files(home.path)
    real = reader.open_source

    def other(path, *more):
        if str(path).endswith(f"{ID}.jsonl.zst"):
            path = kept_copy(kept_place(home), f"todos/{ID}-agent-{ID}.json")
        return real(path, *more)

    monkeypatch.setattr(reader, "open_source", other)
    report = prune([home], ARCHIVE_FIRST, now=DUE, write=True)
    assert ids(report.sessions) == [OTHER]
    assert "does not read back" in reasons(report)[ID]
    assert [each.path for each in report.problems] == [home.path]
    assert stays(home, before)


def test_a_file_that_changes_after_its_copy_was_proved_stays(home, own, monkeypatch):
    real = retention.compare_kept

    def changing(good, *more):
        proof = real(good, *more)
        if good.name == MAIN:
            (home.path / MAIN).write_bytes(b"{}")
        return proof

    monkeypatch.setattr(retention, "compare_kept", changing)
    report = prune([home], ARCHIVE_FIRST, now=DUE, write=True)
    assert ids(report.sessions) == [OTHER]
    assert "written to just now" in reasons(report)[ID]


def test_orphans_are_archived_first_too(home, own):
    name = f"todos/{LOST}-agent-{LOST}.json"
    put(home, name, b'["pear"]', at=1)
    keep([home])
    new = unnoticed(home, name)
    policy = Policy(archive_first=True)
    report = prune([home], policy, now=DUE, write=True, with_orphans=True, archive=nothing)
    assert [each.trash for each in report.orphans if each.id == LOST] == [None]
    assert [each.reason for each in report.problems if LOST in each.reason]
    assert files(home.path)[name] == new
    report = prune([home], policy, now=DUE, write=True, with_orphans=True)
    assert name not in files(home.path)
    assert b"".join(unpack(kept_copy(kept_place(home), name))) == new


# -- logs of days ---------------------------------------------------------------------------

HASH = "projects/0123456789abcdef"


def test_sessions_that_share_logs_go_together_or_not_at_all(tmp_path, own):
    home = Home(tmp_path / "dated")
    third = "third-session"
    put(home, f"{HASH}/2026-01-01.jsonl", said(ID) + said(OTHER), at=1)
    put(home, f"{HASH}/2026-01-02.jsonl", said(OTHER) + said(third), at=1)
    put(home, f"todos/{OTHER}-agent-x.json", b"[]", at=1)
    Journal.in_root(own).pin(third)
    report = prune([home], ON, now=DUE, write=True)
    assert not report.sessions
    assert reasons(report) == {
        third: "it is pinned",
        ID: f"it shares its logs with {third}, which stays",
        OTHER: f"it shares its logs with {third}, which stays",
    }
    Journal.in_root(own).pin(third, pinned=False)
    before = files(home.path)
    report = prune([home], ON, now=DUE, write=True)
    assert sorted(ids(report.sessions)) == sorted([ID, OTHER, third])
    assert not files(home.path)
    deleted = Journal.in_root(own).deletions()
    assert set(deleted) == {ID, OTHER, third}
    trash = Trash(own)
    for each in trash.entries():
        restore_from_trash(trash, each)
    assert files(home.path) == before
    assert not Journal.in_root(own).deletions()


# -- orphans --------------------------------------------------------------------------------


def test_orphans_are_what_belongs_to_sessions_that_are_not_there(home, own):
    (home.path / KEY / f"{ID}.jsonl").unlink()
    (home.path / "session-env" / "empty-one").mkdir()
    os.utime(home.path / "session-env" / "empty-one", (1, 1))
    (home.path / "projects" / "-empty").mkdir()
    os.utime(home.path / "projects" / "-empty", (1, 1))
    before = files(home.path)
    report = prune([home], None, now=DUE, with_orphans=True)
    (orphan,) = report.orphans
    assert (orphan.id, orphan.files) == (ID, len(belongings()) - 1)
    assert orphan.kinds == [
        "file-history",
        "session-env",
        "subagents",
        "tasks",
        "todos",
        "tool results",
    ]
    assert [os.path.basename(each) for each in report.empty] == ["empty-one", "-empty"]
    assert files(home.path) == before
    report = prune([home], None, now=DUE, with_orphans=True, write=True)
    assert set(files(home.path)) == {*belongings(OTHER), *SHARED}
    assert report.orphans[0].trash
    assert not (home.path / "session-env" / "empty-one").exists()
    assert not (home.path / "projects" / "-empty").exists()
    trash = Trash(own)
    restore_from_trash(trash, trash.entries()[0])
    assert files(home.path) == before


def test_what_is_young_or_runs_or_is_elsewhere_or_is_kept_is_no_orphan(home, own, tmp_path):
    log = home.path / KEY / f"{ID}.jsonl"
    data = log.read_bytes()
    keep([home])
    log.unlink()
    assert not prune([home], None, now=DUE, with_orphans=True).orphans
    for name in files(own / "kept"):
        os.unlink(own / "kept" / name)
    assert prune([home], None, now=DUE, with_orphans=True).orphans
    other = Home(tmp_path / "other")
    put(other, f"{KEY}/{ID}.jsonl", data)
    assert not prune([home], None, now=DUE, with_orphans=True, elsewhere=[other]).orphans
    me = process()
    told = {"pid": me.pid, "sessionId": ID, "procStart": me.started}
    path = put(home, f"sessions/{me.pid}.json", json.dumps(told))
    assert not prune([home], None, now=DUE, with_orphans=True).orphans
    path.unlink()
    os.utime(home.path / "todos" / f"{ID}-agent-a1.json", (DUE.timestamp() - 86_000,) * 2)
    assert not prune([home], None, now=DUE, with_orphans=True).orphans


def test_an_expired_session_is_no_orphan_of_its_own(home, own):
    report = prune([home], ON, now=DUE, with_orphans=True, write=True)
    assert ids(report.sessions) == [ID, OTHER]
    assert report.orphans == []


# -- failures -------------------------------------------------------------------------------


def test_retention_that_fails_anywhere_loses_nothing_and_a_rerun_ends_it(
    tmp_path, monkeypatch, stride
):
    number = 1
    while True:
        number += 5 * stride
        own, home = tmp_path / f"own-{number}", make(tmp_path / f"home-{number}")
        monkeypatch.setenv("TURNLOG_HOME", str(own))
        before = files(home.path)
        with fails_at(monkeypatch, number) as calls, contextlib.suppress(TurnlogError):
            prune([home], ON, now=DUE, write=True)
        gone, there = in_trash(own), files(home.path)
        for name, data in before.items():
            assert data in (there.get(name), *gone.get(f"home/{name}", ())), name
        prune([home], ON, now=DUE, write=True)
        assert set(files(home.path)) == set(SHARED)
        if len(calls) < number:
            break
    assert number > 60


# -- settings -------------------------------------------------------------------------------

BROKEN = [
    "retention = 3",
    "[retention]\ndays = 0",
    "[retention]\ndays = -1",
    '[retention]\ndays = "x"',
    "[retention]\ndays = 1e9",
    "[retention]\ndays = 1000000000",
    "[retention]\ndays = true",
    "[retention]\ndays = 30.0",
    "[retention]\ndays = nan",
    "[retention]\ndays = []",
    "[retention]\nday = 30",
    "[retention]\ngrace_days = 0",
    "[retention]\nenabled = 1",
    '[retention]\nenabled = "true"',
    "[retention]\narchive_first = 0",
    "[retention]\narchive_first = true\nwith_kept = true",
    "[retention]\nprojects = 3",
    '[retention.projects."/home/ada/orchard"]\n',
    '[retention.projects."/home/ada/orchard"]\ndays = 0',
    '[retention.projects."/home/ada/orchard"]\nnever = false',
    '[retention.projects."/home/ada/orchard"]\nnever = 1',
    '[retention.projects."/home/ada/orchard"]\nnever = true\ndays = 3',
    '[retention.projects."/home/ada/orchard"]\ndays = 90\nfoo = 1',
    '[retention.projects."orchard"]\nnever = true',
    '[retention.projects]\n"/home/ada/orchard" = 90',
    '[retention.projects."/a"]\ndays = 1\n[retention.projects."/a/"]\ndays = 90',
    "[retenton]\nenabled = true",
    "[retention]\nenabled = true\n[retention]\nenabled = false",
    "= =",
]


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("days", [None, 1])
def test_a_setting_that_cannot_be_relied_on_deletes_nothing_and_says_so(home, own, text, days):
    own.mkdir()
    before = files(home.path)
    (own / "config.toml").write_text(text)
    later = DUE + timedelta(days=9999)
    with pytest.raises(UsageError, match="nothing is deleted") as told:
        prune_configured([home], days=days, write=True, with_orphans=True, now=later)
    assert "config.toml" in told.value.hint
    assert files(home.path) == before


@pytest.mark.parametrize("days", [0, -1, 10**9, True, 1.5, "30"])
def test_days_that_are_none(home, own, days):
    with pytest.raises(UsageError, match="nothing is deleted"):
        prune_configured([home], days=days, write=True, now=DUE)
    assert (home.path / KEY / f"{ID}.jsonl").exists()


def test_settings_that_hold(home, own):
    own.mkdir()
    config = own / "config.toml"
    assert not prune_configured([home], write=True, now=DUE).is_on
    config.write_text("[retention]\ndays = 1\n")
    assert not prune_configured([home], write=True, now=DUE).is_on  # Not enabled.
    assert len(prune_configured([home], days=30, now=DUE).sessions) == 2
    config.write_text("[retention]\nenabled = true\n")
    assert len(prune_configured([home], now=DUE).sessions) == 2
    assert prune_configured([home], days=31, now=DUE).young == 2
    config.write_text(
        f'[retention]\nenabled = true\n[retention.projects."{PROJECT}/"]\ndays = 31\n'
    )
    assert prune_configured([home], days=1, now=DUE).young == 2
    config.write_text('[retention.projects."/"]\nnever = true\n')
    report = prune_configured([home], days=30, now=DUE, write=True)
    assert len(report.spared) == 2
    config.write_text("[retention]\nenabled = true\ngrace_days = 7\narchive_first = true\n")
    assert len(prune_configured([home], now=DUE, write=True).sessions) == 2
    for each in Trash(own).entries():
        assert each.entry.purge_after_at == DUE + timedelta(days=7)


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    ["enabled", "days", "grace_days", "archive_first", "with_kept", "projects", "never"]
)


@given(st.dictionaries(KNOWN | st.text(max_size=5), JSONISH, max_size=5))
def test_any_settings_give_a_policy_or_a_problem(said_so):
    policy, problems = policy_from(said_so)
    assert 1 <= policy.days <= 100_000
    assert 1 <= policy.grace_days <= 100_000
    for name, value in said_so.items():
        if name in {"days", "grace_days"} and not problems:
            assert type(value) is int
            assert value > 0
    if not policy.enabled and not problems:
        assert said_so.get("enabled", False) is False


def test_the_stores_own_root_is_what_it_works_on(home, own, tmp_path):
    store = turnlog.open(home.path)
    assert store.prune().is_on is False
    assert ids(store.prune(days=1).sessions) == [ID, OTHER]
    assert OLD.startswith("2026-01-02")
    project = store.session(ID).summary.cwd
    for name in (project, os.path.basename(project)):
        assert ids(store.prune(days=1, project=name).sessions) == [ID, OTHER]
    assert store.prune(days=1, project="nowhere").sessions == []
    other = turnlog.api.store.Store((home, Home(tmp_path / "root")), tmp_path / "root")
    assert other.prune(days=1, write=True).sessions == []
    assert (home.path / KEY / f"{ID}.jsonl").exists()
