"""What every format promises, whichever agent it belongs to. A new one only has to be listed."""

from __future__ import annotations

import json
import typing
from hashlib import sha256
from pathlib import Path

import pytest

import turnlog
from turnlog.api.repair import repair_logs
from turnlog.errors import UsageError
from turnlog.formats import FOLDERS, FORMATS, Home, LayoutName, find_logs, format_named
from turnlog.formats.format import HOME, Format, Place
from turnlog.formats.home_files import home_files, owner_of
from turnlog.formats.log_file import LogName, read_name
from turnlog.keep.compaction.compact import compact
from turnlog.keep.compaction.undo import undo
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import mirrors
from turnlog.keep.restore.restore import RestoreOutcome, restore
from turnlog.records.dialects import BY_NAME
from turnlog.sessions.recover_undo import undo_recovery
from turnlog.sessions.session import Session

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"
CAP = 1 << 20

every_format = pytest.mark.parametrize("form", FORMATS, ids=[form.name for form in FORMATS])
WRITTEN = [form for form in FORMATS if form.shares_logs or type(form).new_log != Format.new_log]
every_written_format = pytest.mark.parametrize("form", WRITTEN, ids=[form.name for form in WRITTEN])


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def begin(home, form, session_id):
    """Write a session of two records, and one subagent with a record."""
    with (
        turnlog.open(home.path) as store,
        store.create(session_id=session_id, project="/srv/kites", layout=form.name) as session,
    ):
        session.append(turnlog.build.user("Hello"))
        session.append(turnlog.build.user("again"))
        with session.subagent("a1b2c3") as subagent:
            subagent.append(turnlog.build.user("Look"))


def test_names_and_dialects_are_known():
    names = [form.name for form in FORMATS]
    assert names == list(FOLDERS) == list(typing.get_args(LayoutName))
    assert all(format_named(form.name) is form for form in FORMATS)
    assert {form.dialect for form in FORMATS} <= BY_NAME.keys()
    with pytest.raises(UsageError):
        format_named("scroll")


@every_written_format
def test_a_new_session_is_found_again_by_the_walk(home, form):
    begin(home, form, ONE)
    problems = []
    main, subagent = sorted(find_logs(home, problems=problems), key=lambda log: log.kind)
    assert problems == []
    assert main.format is form
    if form.shares_logs:
        assert (main.kind, main.session_id) == ("day", None)
    else:
        assert (main.kind, main.session_id) == ("session", ONE)
        assert main.path == form.new_log(home, "/srv/kites", ONE)
    assert (subagent.kind, subagent.session_id, subagent.agent_id) == ("subagent", ONE, "a1b2c3")
    session = Session.find((home,), ONE[:6])
    assert (session.id, session.layout, len(session.subagent_logs)) == (ONE, form.name, 1)


@every_written_format
def test_every_file_belongs_to_its_own_session(home, form):
    begin(home, form, ONE)
    before = {file.name for file in home_files(home)}
    begin(home, form, TWO)
    for directory in form.session_directories:
        for session_id in (ONE, TWO):
            path = home.path / directory / session_id / "x.json"
            path.parent.mkdir(parents=True)
            path.write_text("{}")
    shared = {log.path.name for log in find_logs(home) if log.kind == "day"}
    for file in home_files(home):
        owner = owner_of(file.name)
        if ONE in file.name or TWO in file.name:
            assert owner == (ONE if ONE in file.name else TWO)
        else:
            assert owner is None
            assert file.name in before
            assert Path(file.name).name in {*shared, "index.json"}


@every_written_format
def test_what_belongs_to_the_program_is_not_kept(home, form):
    begin(home, form, ONE)
    for name in form.program_files:
        (home.path / name).write_text("{}")
    kept = {file.name.partition("/")[0] for file in home_files(home)}
    assert kept
    assert kept.isdisjoint(form.program_files)
    assert form.kept_directories.isdisjoint(form.program_files)


@every_format
def test_an_agent_has_a_command_to_resume_a_session(form):
    command = form.resume_command(ONE)
    assert (command is None) == (form.agent is None)
    if command is not None:
        assert command[0] == form.program
        assert ONE in command


@every_format
def test_a_home_that_is_gone_has_nothing(tmp_path, form):
    gone = Home(tmp_path / "gone")
    assert list(form.processes(gone, None)) == []
    assert form.cleanup_period(gone) is None
    assert form.hook_step(gone, ["turnlog"], {}) is None
    assert form.unhook_step(gone) is None
    assert form.ended_session(b"no JSON") is None


# -- a format whose logs are others' to refer to ---------------------------------------------


class Rollouts(Format):
    """Logs in directories by date, at offsets that other files refer to."""

    name = "rollouts"
    dialect = "claude"
    agent = "Rover"
    may_rewrite = False
    kept_directories = frozenset({"rollouts"})

    def is_home(self, items):
        return any(item.name == "rollouts" for item in items)

    def places(self, place, items):
        if place.role == HOME:
            return {"rollouts": Place(self, "date")}
        return {item.name: place for item in items if item.kind != "file"}

    def log_name(self, place, name):  # noqa: ARG002
        parsed = read_name(name.removeprefix("rollout-"))
        is_one = name.startswith("rollout-") and parsed is not None and parsed.kind == "session"
        return LogName("session", parsed.id, parsed.compression) if is_one else None

    def owner_of(self, name):
        parsed = self.log_name(None, name.rpartition("/")[2])
        return parsed.id if parsed else None


@pytest.fixture
def rollout(home):
    """Return a log of a format that was added to the others, with a torn line in it."""
    form = Rollouts()
    FORMATS.append(form)
    path = home.path / "rollouts" / "2026" / "11" / f"rollout-{ONE}.jsonl"
    path.parent.mkdir(parents=True)
    (home.path / "state.jsonl").write_text("{}\n")
    message = {"role": "user", "content": "Hello"}
    line = json.dumps({"type": "user", "uuid": "u1", "sessionId": ONE, "message": message})
    path.write_text(f'{{"type":"user","uu{line}\n{line.replace("u1", "u2")}\n')
    yield path
    FORMATS.remove(form)


def test_a_format_is_added_by_listing_it(home, rollout):
    begin(home, format_named("claude"), TWO)
    found = {log.session_id: log for log in find_logs(home) if log.kind == "session"}
    assert found.keys() == {ONE, TWO}
    assert (found[ONE].path, found[ONE].layout) == (rollout, "rollouts")
    assert found[TWO].format is FORMATS[0]
    assert owner_of(f"rollouts/2026/11/{rollout.name}") == ONE
    with turnlog.open(home.path) as store:
        assert {row.id for row in store.sessions()} == {ONE, TWO}
        with pytest.raises(UsageError, match="creates no rollouts sessions"):
            store.create(project="/srv/kites", layout="rollouts")


def test_logs_that_are_referred_to_by_offset_are_never_rewritten(home, rollout):
    before = rollout.read_bytes()
    (log,) = find_logs(home)
    (plan,) = repair_logs([log], cap=CAP)
    assert plan.repair.needed
    for write in (
        lambda: repair_logs([log], cap=CAP, write=True),
        lambda: compact(Session.find((home,), ONE), write=True),
        lambda: compact(Session.find((home,), ONE)),
        lambda: undo(Session.find((home,), ONE)),
        lambda: turnlog.open(home.path).recover(ONE),
    ):
        with pytest.raises(UsageError, match="must not be rewritten: Rover refers to"):
            write()
    assert rollout.read_bytes() == before
    assert [path for path in rollout.parent.iterdir() if path != rollout] == []


def test_a_recovery_of_such_a_log_is_not_undone(home, rollout):
    process = {"pid": 1}
    mark = {"type": "turnlog", "event": "recovered", "sessionId": ONE, "process": process}
    touched = {"log": rollout.name, "sizeBytes": 0, "sha256": sha256(b"").hexdigest()}
    with rollout.open("a") as log:
        log.write(json.dumps(mark | {"appended": [], "logs": [touched]}) + "\n")
    before = rollout.read_bytes()
    for write in (False, True):
        with pytest.raises(UsageError, match="must not be rewritten"):
            undo_recovery(Session.find((home,), ONE), write=write)
    assert rollout.read_bytes() == before


def test_such_a_log_is_restored_only_as_it_was(home, rollout):
    kept = rollout.read_bytes()
    keep((home,))
    (session,) = mirrors((home,))[0].restorables
    assert (session.id, session.mains) == (ONE, [f"rollouts/2026/11/{rollout.name}"])
    with pytest.raises(UsageError, match="must not be rewritten"):
        restore(session, to=home.path.with_name("other"), project="/srv/other")
    shorter = kept.splitlines(keepends=True)[0]
    rollout.write_bytes(shorter)
    with pytest.raises(UsageError, match="must not be rewritten: Rover refers to") as refused:
        restore(session, replace=True)
    assert refused.value.hint.startswith("nothing was changed")
    assert rollout.read_bytes() == shorter
    assert list(rollout.parent.iterdir()) == [rollout]
    rollout.unlink()
    restore(session, replace=True)
    assert rollout.read_bytes() == kept


def test_what_is_left_of_a_broken_copy_of_such_a_log_is_not_restored(home, rollout):
    keep((home,))
    (session,) = mirrors((home,))[0].restorables
    copy = session.mirror.newest(session.mains[0]).path
    copy.chmod(0o600)
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 0xFF
    copy.write_bytes(data)
    rollout.unlink()
    (file,) = restore(session, partial=True).files
    assert file.outcome is RestoreOutcome.BROKEN
    assert not rollout.exists()
