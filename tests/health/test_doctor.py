"""The doctor finds what is planted, is silent about what is well, and needs no index."""

import json
import os
import random
import shlex
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.trees import answer, call, line, log_of, record, result
from turnlog.api.health.doctor import CHECKS, CheckContext, Checkup, Urgency, check_up
from turnlog.api.store import Store
from turnlog.cli.app import COMMANDS
from turnlog.errors import IndexUnavailable
from turnlog.formats import Home, find_homes
from turnlog.formats.claude_code.cleanup import SETTING
from turnlog.health.findings import EXAMPLES
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.keep.copies.keep import keep
from turnlog.sessions.recover import recover
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.todos import replace_todos
from turnlog.sessions.state import running_sessions
from turnlog.storage.repair import repair

CORPUS = Path(
    os.environ.get(
        "TURNLOG_CORPUS", Path(__file__).parents[2].parent / "shared" / "corpus" / "claude"
    )
)
IDS = [f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for number in range(300)]
ONE, TWO = IDS[1], IDS[2]
DEAD = {"pid": 2**22 + 1, "started": "1", "boot": "long ago"}
HOSTILE = "\x1b[31m[bold]\u202egnirts\x00 a'; DROP TABLE sessions; -- \ud800"


class World:
    """A home and turnlog's own, both private, and the doctor who looks at them."""

    def __init__(self, directory):
        self.path = directory / "home"
        self.own = directory / "own"
        self.project = self.path / "projects" / "-home-ada-orchard"
        self.project.mkdir(parents=True)
        (self.path / "statsig").mkdir()  # The home is Claude Code's own.
        self.now = datetime.now(UTC)

    @property
    def homes(self):
        return find_homes((self.path,))

    def log(self, session_id, data, *, days=2.0, subagent=None):
        """Write a log as it was *days* ago: *data* are records or bytes."""
        name = f"{session_id}/subagents/agent-{subagent}" if subagent else session_id
        return self.file(self.project / f"{name}.jsonl", data, days=days)

    def file(self, path, data, *, days=2.0):
        path = self.path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else log_of(*data))
        return self.age(path, days)

    def age(self, path, days):
        at = (self.now - timedelta(days=days)).timestamp()
        os.utime(path, (at, at))
        return path

    def check_up(self, *, is_indexed=True, homes=None, **more):
        homes = self.homes if homes is None else homes
        index = open_fresh(homes) if is_indexed else None
        try:
            found = check_up(CheckContext(homes, own=self.own, now=self.now, index=index, **more))
        finally:
            if index is not None:
                index.close()
        assert not [each.problem for each in found.checks if each.problem]
        assert msgspec.json.decode(encoded(found), type=Checkup).homes == found.homes
        return found

    def find(self, kind, **more):
        return [each for each in self.check_up(**more).findings if each.kind == kind]

    def store(self):
        return Store(self.homes, self.path)


def encoded(found):
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:  # The command replaces what has no UTF-8 form.
        text = json.dumps(msgspec.to_builtins(found), ensure_ascii=False)
        return text.encode("utf-8", "replace")


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    return World(tmp_path)


def talk(count, prefix="r", start=None):
    """A thread of *count* records that alternate."""
    above, records = start, []
    for number in range(count):
        kind = "user" if number % 2 == 0 else "assistant"
        records.append(record(f"{prefix}{number}", above, kind))
        above = f"{prefix}{number}"
    return records


# -- well -----------------------------------------------------------------------------------


def test_a_home_that_is_well_has_no_findings_and_says_what_was_checked(world):
    world.log(ONE, talk(6))
    found = world.check_up()
    assert (found.healthy, found.findings) == (True, [])
    assert (found.sessions, found.logs, found.homes) == (1, 1, [str(world.path)])
    assert [each.kind for each in found.checks] == [check.kind for check in CHECKS]


def test_a_home_without_sessions_is_well(world):
    found = world.check_up()
    assert (found.healthy, found.findings, found.sessions) == (True, [], 0)


def test_without_any_home_there_is_nothing_to_find(world):
    found = world.check_up(homes=(), is_indexed=False)
    assert (found.findings, found.homes) == ([], [])


def test_a_home_that_is_gone_is_told(world, tmp_path):
    found = world.check_up(homes=(Home(tmp_path / "nowhere"),), is_indexed=False)
    assert [each.kind for each in found.findings if each.kind == "unreadable"] == ["unreadable"]


def test_every_check_has_a_kind_of_its_own_and_every_command_exists(world):
    assert len({check.kind for check in CHECKS}) == len(CHECKS)
    plant_everything(world)
    found = world.check_up()
    kinds = {each.kind for each in found.findings}
    assert kinds >= {
        "damage", "unreadable", "empty", "crashed", "parents", "reach", "calls", "orphans", "todos",
        "cleanup", "losses",
    }  # fmt: skip
    assert not found.healthy
    commands = [each.command for each in found.findings]
    commands += [each.command for one in found.findings for each in one.examples if each.command]
    for command in commands:
        program, name, *_ = shlex.split(command)
        assert program in {"turnlog", "chmod", "ls"}
        assert program != "turnlog" or name in COMMANDS


def plant_everything(world):
    world.log(IDS[10], log_of(*talk(2)) + b"rubbish\n")
    (world.project / "broken.jsonl").symlink_to("nowhere")
    world.log(IDS[11], b"")
    world.log(IDS[12], [*talk(2), *talk(2, "x", start="gone")])
    world.log(IDS[13], [*talk(40), *talk(2, "y", start="r1")])
    world.log(IDS[14], [record("a"), answer("b", "a", "m", call("c1")), record("c", "b")])
    plant_crash(world, IDS[15])
    world.file(f"file-history/{IDS[16]}/x@v1", b"old", days=9)
    plant_todos(world, IDS[17])
    world.log(IDS[18], talk(2), days=50)
    world.file("settings.json", b'{"cleanupPeriodDays": 0}')


def test_looking_changes_nothing_in_the_home(world):
    plant_everything(world)

    def seen():
        paths = [path for path in sorted(world.path.rglob("*")) if path.is_file()]
        return [(str(path), path.read_bytes(), path.stat().st_mtime_ns) for path in paths]

    before = seen()
    world.check_up()
    world.check_up(is_indexed=False)
    assert seen() == before


# -- logs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [True, False])
def test_damage_is_found_and_gone_after_the_repair(world, is_indexed):
    two = line(record("b", "a")) + line(record("c", "b"))
    path = world.log(ONE, line(record("a")) + b"\n" + two + b"\n" + b"\0" * 9 + b'\n{"type":"us')
    (found,) = world.find("damage", is_indexed=is_indexed)
    assert (found.urgency, found.count) == (Urgency.ACT, 1)
    assert found.examples[0].detail == "2 records to recover, 1 bad range, last line incomplete"
    assert found.command == "turnlog repair 00000001 --yes"
    repair(path, write=True)
    world.age(path, 1)
    assert world.find("damage", is_indexed=is_indexed) == []


def test_records_glued_together_are_damage_though_all_can_be_read(world):
    world.log(ONE, line(record("a")) + line(record("b", "a")) + b"\n")
    (found,) = world.find("damage")
    assert found.examples[0].detail == "2 records to recover"


@pytest.mark.parametrize(
    "data", [line(record("a")), line(record("a")) + b"\n\n\n", b"\n" + line(record("a")) + b"\r\n"]
)
def test_what_is_merely_untidy_is_no_damage(world, data):
    world.log(ONE, data)
    assert world.check_up().healthy


def test_damage_in_an_agents_log_is_mended_by_its_session(world):
    world.log(ONE, talk(2))
    world.log(ONE, b"rubbish\n", subagent="abc")
    (found,) = world.find("damage")
    assert (found.command, found.urgency) == ("turnlog repair 00000001 --yes", Urgency.LOOK)
    assert "subagent abc" in found.examples[0].detail


def test_a_log_that_is_being_written_is_not_damaged(world):
    path = world.log(ONE, line(record("a")) + b'\n{"type":')
    os.utime(path)
    assert world.check_up().healthy
    world.age(path, 1)
    assert [each.kind for each in world.check_up().findings] == ["damage"]
    (world.path / "sessions").mkdir()
    alive = {"pid": os.getpid(), "sessionId": ONE}
    (world.path / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(alive))
    assert world.check_up().healthy


def test_what_cannot_be_read_is_told_with_its_reason(world):
    (world.project / f"{ONE}.jsonl").symlink_to("nowhere")
    os.mkfifo(world.project / f"{TWO}.jsonl")
    (world.project / "x.jsonl").mkdir()
    (world.project / "n\udcffame.jsonl").write_bytes(b"{}\n")
    (found,) = world.find("unreadable")
    assert found.count == 4
    assert "a FIFO" in " ".join(each.detail for each in found.examples)


def test_a_directory_that_nobody_lets_us_into_is_told(world, monkeypatch):
    world.log(ONE, talk(2))
    real = os.scandir

    def refuse(path):
        if os.fspath(path) == str(world.project):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (found,) = world.find("unreadable", is_indexed=False)
    assert (found.examples[0].detail, found.examples[0].path) == (
        "permission denied",
        str(world.project),
    )


def test_empty_files_are_told_and_may_be_deleted(world):
    world.log(ONE, b"")
    world.log(TWO, b"\n\n")
    world.log(IDS[3], talk(2))
    (found,) = world.find("empty")
    assert {each.session for each in found.examples} == {ONE, TWO}
    assert found.command == "turnlog delete 00000001 00000002"
    assert [each.count for each in world.find("empty", is_indexed=False)] == [2]


def test_very_large_logs_are_noted_and_all_is_well(world):
    path = world.log(ONE, talk(2))
    with path.open("ab") as file:
        file.write(b" " * 1000 + b"\n")
        file.truncate(100_000_001)
    world.age(path, 1)
    (found,) = world.find("large", is_indexed=False)
    assert (found.urgency, found.examples[0].detail) == (Urgency.NOTE, "100 MB")


# -- threads --------------------------------------------------------------------------------


def plant_crash(world, session_id):
    mark = {"type": "turnlog", "event": "opened", "process": DEAD}
    head = [line({"type": "turnlog", "format": 1}), line(mark | {"sessionId": session_id})]
    return world.log(session_id, b"\n".join(head) + b"\n" + log_of(*talk(2)))


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_session_whose_writer_died_is_found_until_it_is_recovered(world, is_indexed):
    with world.store().create(project="/kites", session_id=ONE) as writer:
        writer.append({"type": "user", "message": {"role": "user", "content": "hello"}})
        path = writer.path
    ended = path.read_bytes()
    path.write_bytes(ended[: ended.index(b'"ended"')].rpartition(b"\n")[0] + b"\n")
    dead = path.read_bytes().replace(f'"pid":{os.getpid()}'.encode(), b'"pid":4194305')
    path.write_bytes(dead)
    world.age(path, 1)
    (found,) = world.find("crashed", is_indexed=is_indexed)
    assert found.command == "turnlog recover 00000001 --yes"
    world.store().recover(ONE)
    assert world.find("crashed", is_indexed=is_indexed) == []


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_note_that_a_dead_process_left_counts_until_somebody_went_on(world, is_indexed):
    world.log(ONE, talk(2))
    note = world.file("sessions/999999999.json", b"{}", days=1)
    note.write_text(json.dumps({"pid": 999999999, "sessionId": ONE}))
    world.age(note, 1)
    (found,) = world.find("crashed", is_indexed=is_indexed)
    assert found.examples[0].session == ONE
    session = world.store().session(ONE)
    recover(session, lambda: world.store().resume(ONE), running_sessions(world.homes)[ONE])
    assert note.exists()
    assert world.find("crashed", is_indexed=is_indexed) == []


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_missing_parent_names_the_versions_that_stop_there(world, is_indexed):
    path = world.log(ONE, [*talk(20), *talk(4, "x", start="gone")])
    (found,) = world.find("parents", is_indexed=is_indexed)
    assert (found.urgency, found.command) == (Urgency.LOOK, "turnlog recover 00000001 --yes")
    assert "Claude Code before 2.1.91" in found.message
    assert found.examples[0].detail == "reaches 4 of 24 records"
    world.store().recover(ONE)
    world.age(path, 1)
    assert world.find("parents", is_indexed=is_indexed) == []
    assert world.find("reach", is_indexed=is_indexed) == []


def test_a_log_that_begins_in_the_middle_is_not_broken(world):
    world.log(ONE, talk(4, start="in-another-log"))
    assert world.check_up().healthy


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_ring_of_parents_is_found_and_repaired(world, is_indexed):
    path = world.log(ONE, [record("a", "c"), record("b", "a"), record("c", "b"), record("d", "c")])
    (found,) = world.find("parents", is_indexed=is_indexed)
    assert (found.urgency, found.examples[0].detail) == (Urgency.LOOK, "1 cycle")
    assert found.command == "turnlog recover 00000001 --yes"
    world.store().recover(ONE)
    world.age(path, 1)
    assert world.find("parents", is_indexed=is_indexed) == []


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_null_parent_in_mid_log_is_found_and_repaired(world, is_indexed):
    path = world.log(ONE, [*talk(12), record("x", None, "assistant"), *talk(7, "y", start="x")])
    (found,) = world.find("parents", is_indexed=is_indexed)
    assert (found.urgency, found.examples[0].detail) == (Urgency.ACT, "reaches 8 of 20 records")
    assert found.command == "turnlog recover 00000001 --yes"
    world.store().recover(ONE)
    world.age(path, 1)
    assert world.find("parents", is_indexed=is_indexed) == []
    assert world.find("reach", is_indexed=is_indexed) == []


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_prompt_without_a_parent_may_be_meant(world, is_indexed):
    world.log(ONE, [*talk(4), record("x"), *talk(3, "y", start="x")])
    (found,) = world.find("parents", is_indexed=is_indexed)
    assert (found.urgency, found.command) == (Urgency.NOTE, "turnlog recover 00000001")


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_session_that_ended_with_a_local_command_is_well(world, is_indexed, is_named):
    """A resume reaches all of it, though the last prompt that is not meta is on an old branch."""
    meta = record("m", "y39", isMeta=True)
    leaf = {"type": "last-prompt", "lastPrompt": "x", "leafUuid": "m", "sessionId": ONE}
    named = [leaf] if is_named else []
    world.log(ONE, [*talk(2), record("old", "r1"), *talk(40, "y", start="r1"), meta, *named])
    assert world.find("reach", is_indexed=is_indexed) == []
    assert world.find("parents", is_indexed=is_indexed) == []


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_resume_that_reaches_little_is_noted_but_not_after_a_compaction(world, is_indexed):
    world.log(ONE, [*talk(40), *talk(2, "y", start="r1")])
    boundary = record("k", None, "system", subtype="compact_boundary", logicalParentUuid="r39")
    world.log(TWO, [*talk(40), boundary, *talk(2, "z", start="k")])
    (found,) = world.find("reach", is_indexed=is_indexed)
    assert [each.session for each in found.examples] == [ONE]
    assert found.examples[0].detail == "reaches 4 of 42 records"
    assert found.urgency is Urgency.NOTE


def test_lost_results_are_found_and_mended_and_interrupted_calls_are_noted(world):
    path = world.log(
        ONE,
        [
            record("a"),
            answer("b", "a", "m", call("c1")),
            answer("c", "b", "m", call("c2")),
            result("d", "b", "c1"),
            record("e", "d"),
        ],
    )
    world.log(TWO, [record("a"), answer("b", "a", "m", call("c3")), record("c", "b")])
    lost, interrupted = world.find("calls")
    assert (lost.urgency, lost.examples[0].detail) == (Urgency.LOOK, "1 result lost")
    assert (interrupted.urgency, interrupted.examples[0].session) == (Urgency.NOTE, TWO)
    world.store().recover(ONE)
    world.age(path, 1)
    (left,) = world.find("calls")
    assert left.examples[0].session == TWO
    assert world.check_up().healthy


# -- beside ---------------------------------------------------------------------------------


def test_what_sessions_left_behind_that_are_gone_is_found(world):
    world.log(ONE, talk(2))
    for place in (
        f"todos/{TWO}-agent-{TWO}.json",
        f"tasks/{TWO}/1.json",
        f"file-history/{TWO}/x@v1",
        f"projects/-home-ada-orchard/{TWO}/subagents/agent-abc.jsonl",
        f"file-history/{ONE}/y@v1",
    ):
        world.file(place, b"[]\n" if "todos" in place else b"{}\n", days=9)
    (found,) = world.find("orphans")
    assert [each.session for each in found.examples] == [TWO]
    assert found.examples[0].detail == "file-history, subagents, tasks, todos: 4 files"
    home = shlex.quote(os.path.realpath(world.path))
    assert found.command == f"turnlog prune --orphans --home {home}"


def test_what_belongs_to_a_session_elsewhere_is_no_orphan(world, tmp_path):
    other = World(tmp_path / "other")
    other.log(TWO, talk(2))
    world.file(f"tasks/{TWO}/1.json", b"{}", days=9)
    assert len(world.find("orphans")) == 1
    assert world.find("orphans", elsewhere=other.homes) == []


def test_what_is_kept_is_no_orphan_and_no_finding(world):
    path = world.log(ONE, talk(2))
    world.file(f"file-history/{ONE}/y@v1", b"{}", days=9)
    keep(world.homes)
    path.unlink()
    assert world.check_up().findings == []


def todo(content, status):
    return {"content": content, "status": status, "activeForm": content}


def plant_todos(world, session_id):
    asked = call("c1", "TodoWrite", todos=[todo("plant", "pending"), todo("water", "completed")])
    world.log(session_id, [record("a"), answer("b", "a", "m", asked), result("c", "b", "c1")])
    there = json.dumps([todo("plant", "pending"), todo("water", "pending")]).encode()
    return world.file(f"todos/{session_id}-agent-{session_id}.json", there)


def test_todos_out_of_step_with_the_last_call_are_found(world):
    plant_todos(world, ONE)
    (found,) = world.find("todos")
    assert found.examples[0].detail == "2 of 2 open, in the log 1 of 2 open"
    right = [todo("plant", "pending"), todo("water", "completed")]
    replace_todos(world.homes[0], ONE, ONE, right)
    assert world.find("todos") == []


def test_a_list_that_was_cleared_when_all_was_done_is_in_step(world):
    asked = call("c1", "TodoWrite", todos=[todo("plant", "completed")])
    world.log(ONE, [record("a"), answer("b", "a", "m", asked), result("c", "b", "c1")])
    path = world.file(f"todos/{ONE}-agent-{ONE}.json", b"[]")
    assert world.find("todos") == []
    path.write_bytes(json.dumps([todo("plant", "pending")]).encode())
    assert len(world.find("todos")) == 1


@pytest.mark.parametrize("asked", [{"todos": "x"}, {"todos": [1, 2]}, {}, {"todos": None}])
def test_calls_that_say_nothing_of_todos_are_passed_over(world, asked):
    block = call("c1", "TodoWrite") | {"input": asked}
    world.log(ONE, [record("a"), answer("b", "a", "m", block), result("c", "b", "c1")])
    world.file(f"todos/{ONE}-agent-{ONE}.json", json.dumps([todo("x", "pending")]).encode())
    assert world.find("todos") == []


def test_an_agents_list_is_held_against_its_own_log(world):
    plant_todos(world, ONE)
    replace_todos(world.homes[0], ONE, ONE, [todo("plant", "pending"), todo("water", "completed")])
    asked = call("c2", "TodoWrite", todos=[todo("dig", "pending")])
    records = [record("a"), answer("b", "a", "m", asked), result("c", "b", "c2")]
    world.log(ONE, records, subagent="abc")
    replace_todos(world.homes[0], ONE, "abc", [])
    (found,) = world.find("todos")
    assert found.examples[0].detail == "0 of 0 open, in the log 1 of 1 open (subagent abc)"


# -- places ---------------------------------------------------------------------------------


@pytest.fixture
def open_world(monkeypatch):
    """A home in a directory that everybody may enter, as a user's own often is."""
    with tempfile.TemporaryDirectory(prefix="turnlog-doctor-") as directory:
        if any(not os.stat(above).st_mode & stat.S_IXOTH for above in Path(directory).parents):
            pytest.skip("the temporary directory is closed to others")
        os.chmod(directory, 0o755)
        monkeypatch.setenv("TURNLOG_HOME", str(Path(directory, "own")))
        world = World(Path(directory))
        for path in (world.path, *world.path.rglob("*")):
            os.chmod(path, 0o755)
        yield world


def test_what_others_can_read_is_found_and_the_command_closes_it(open_world):
    path = open_world.log(ONE, talk(2))
    os.chmod(path, 0o644)
    (found,) = open_world.find("permissions")
    assert found.urgency is Urgency.ACT
    assert f"{ONE}.jsonl" in found.examples[0].detail
    assert found.command == f"chmod -R go-rwx {shlex.quote(os.path.realpath(open_world.path))}"
    os.system(found.command)
    assert open_world.find("permissions") == []
    assert (path.stat().st_mode & 0o777, open_world.path.stat().st_mode & 0o777) == (0o600, 0o700)


def test_behind_a_closed_door_all_is_well(open_world):
    os.chmod(open_world.log(ONE, talk(2)), 0o644)
    os.chmod(open_world.path, 0o700)
    assert open_world.find("permissions") == []
    os.chmod(open_world.path, 0o711)  # They may pass, but not look around.
    assert len(open_world.find("permissions")) == 1


def test_what_the_agent_program_owns_is_not_looked_at_but_its_settings_are(open_world):
    for path in (open_world.path, *open_world.path.rglob("*")):
        os.chmod(path, 0o711)
    plugin = open_world.path / "plugins" / "x.js"
    plugin.parent.mkdir(mode=0o755)
    plugin.write_text("x")
    assert open_world.find("permissions") == []
    secret = open_world.path / ".credentials.json"
    secret.write_text("{}")
    os.chmod(secret, 0o644)
    (found,) = open_world.find("permissions")
    assert ".credentials.json" in found.examples[0].detail


def test_turnlogs_own_home_is_looked_at_as_well(open_world):
    os.chmod(open_world.path, 0o700)
    open_world.own.mkdir(mode=0o755)
    os.chmod(open_world.own, 0o755)
    (open_world.own / "journal.jsonl").write_text("{}\n")
    os.chmod(open_world.own / "journal.jsonl", 0o644)
    (found,) = open_world.find("permissions")
    assert [each.path for each in found.examples] == [os.path.realpath(open_world.own)]


def test_a_link_leads_nowhere_and_a_home_that_is_one_is_its_target(open_world):
    inside = open_world.path / "projects" / "loop"
    inside.symlink_to(open_world.path)
    link = open_world.path.parent / "link"
    link.symlink_to(open_world.path)
    homes = find_homes((link, open_world.path))
    (found,) = open_world.find("permissions", homes=homes)
    assert found.command.endswith(os.path.realpath(open_world.path))


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("free", "urgency"), [(999_999_999, Urgency.ACT), (10**9, None), (10**12, None)]
)
def test_little_room_is_told(world, monkeypatch, free, urgency):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    world.log(ONE, talk(2))
    found = world.find("space")
    assert [each.urgency for each in found] == ([urgency] if urgency else [])
    assert all(each.command.startswith("turnlog prune --days 90") for each in found)
    world.store().delete(ONE)
    world.now += timedelta(days=40)
    found = world.find("space")
    assert all(each.command == "turnlog trash empty --yes" for each in found)


def test_less_room_than_the_homes_take_is_worth_a_look(world, monkeypatch):
    with (world.path / "history.jsonl").open("wb") as file:
        file.truncate(3 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, 2 * 10**9))
    (found,) = world.find("space", is_indexed=False)
    assert found.urgency is Urgency.LOOK
    assert "3,000 MB" in found.message


# -- keeping and the index ------------------------------------------------------------------


def test_agents_logs_and_copies_are_not_counted_as_sessions_that_go(world):
    world.log(ONE, talk(2), days=40)
    world.file(f"projects/-a-copy/{ONE}.jsonl", talk(2), days=40)
    aside = [record | {"isSidechain": True} for record in talk(2)]
    for name in ("agent-a1", "agent-a2", IDS[4]):
        world.file(world.project / f"{name}.jsonl", aside, days=40)
    for is_indexed in (True, False):
        (found,) = world.find("losses", is_indexed=is_indexed)
        assert "deletes 1 session and 3 subagent logs within 7 days, and no copy" in found.message
        assert world.check_up(is_indexed=is_indexed).sessions == 1


def test_sessions_about_to_be_deleted_are_found_until_they_are_kept(world):
    world.log(ONE, talk(2), days=25.5)
    world.log(TWO, talk(2), days=40)
    world.log(IDS[3], talk(2), days=5)
    (found,) = world.find("losses")
    assert (found.urgency, found.command) == (Urgency.ACT, "turnlog keep")
    assert [(each.session, each.detail) for each in found.examples] == [
        (TWO, "at the next start"),
        (ONE, "in 4 days"),
    ]
    keep(world.homes)
    (found,) = world.find("losses")
    assert (found.urgency, found.count) == (Urgency.NOTE, 2)
    assert world.check_up().healthy


@pytest.mark.parametrize("content", [b"{", b'{"cleanupPeriodDays": "x"}', b"[]", b"\0"])
def test_a_setting_that_cannot_be_trusted_is_urgent(world, content):
    world.log(ONE, talk(2), days=40)
    path = world.file("settings.json", content)
    (found,) = world.find("cleanup")
    assert (found.urgency, found.examples[0].path) == (Urgency.ACT, str(path))
    assert "30 days" in found.message
    path.write_text(json.dumps({SETTING: 99999}))
    assert world.check_up().healthy


def test_where_no_agent_cleans_up_no_setting_matters(world, monkeypatch):
    world.file("settings.json", b"{")
    world.log(ONE, talk(2), days=90)
    monkeypatch.setenv("TURNLOG_HOME", str(world.path))
    assert world.find("cleanup", is_indexed=False) == []
    monkeypatch.setenv("TURNLOG_HOME", str(world.own))
    assert len(world.find("cleanup")) == 1
    shutil.rmtree(world.path / "projects")
    assert world.find("cleanup") == []


def test_a_settings_file_that_hangs_hangs_nobody(world):
    os.mkfifo(world.path / "settings.json")
    assert world.find("cleanup")[0].examples[0].detail == "not a regular file"


def test_an_index_out_of_step_is_told_and_gone_after_a_refresh(world):
    path = world.log(ONE, talk(2))
    open_fresh(world.homes).close()
    with path.open("ab") as file:
        file.write(line(record("z", "r1")) + b"\n")
    world.age(path, 1)
    world.log(TWO, talk(2))
    with open_fresh(world.homes, is_stale_allowed=True) as index:
        patient = CheckContext(world.homes, own=world.own, now=world.now, index=index)
        (found,) = [each for each in check_up(patient).findings if each.kind == "index"]
    assert (found.examples[0].detail, found.command) == ("2 logs changed since", "turnlog refresh")
    assert world.find("index") == []


def test_an_index_that_is_broken_inside_is_told(world):
    for number in range(60):
        world.log(IDS[number], talk(40))
    open_fresh(world.homes).close()
    path = index_path(world.homes)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[-page:] = b"\xaa" * page
    path.write_bytes(data)
    with open_fresh(world.homes, is_stale_allowed=True) as index:
        patient = CheckContext(world.homes, own=world.own, now=world.now, index=index)
        found = check_up(patient)
    (told,) = [each for each in found.findings if each.kind == "index"]
    assert told.command == "turnlog refresh --rebuild"


def test_without_an_index_everything_is_still_looked_at(world):
    world.own.write_text("a file where a directory should be")
    with pytest.raises((IndexUnavailable, OSError)):
        open_fresh(world.homes, fallback="none")
    world.log(ONE, [*talk(20), *talk(4, "x", start="gone")])
    found = world.check_up(is_indexed=False, no_index="not a directory")
    assert {each.kind for each in found.findings} == {"parents", "index"}


# -- names and numbers ----------------------------------------------------------------------


def test_many_cases_are_counted_and_the_worst_are_given(world):
    for session_id in IDS[:150]:
        world.log(session_id, b"")
    (found,) = world.find("empty")
    assert (found.count, len(found.examples), found.unlisted) == (150, EXAMPLES, 50)
    assert not found.mends_all


def test_commands_name_homes_that_were_named_and_ids_long_enough(world):
    ids = ["aaaaaaaa-1", "aaaaaaaa-2", "aaaaaaaa", "b", "cccccccccc"]
    for session_id in ids:
        world.log(session_id, b"")
    (found,) = world.find("empty", named=("/a b/home",))
    commands = {each.session: shlex.split(each.command) for each in found.examples}
    for session_id, words in commands.items():
        assert words[:2] + words[3:] == ["turnlog", "delete", "--home", "/a b/home"]
        assert world.store().session(words[2]).id == session_id


def test_hostile_titles_and_settings_are_only_text(world):
    title = {"type": "custom-title", "customTitle": HOSTILE, "sessionId": ONE}
    data = log_of(*talk(2)) + json.dumps(title).encode() + b"\nrubbish\x1b[2J\n"
    world.log(ONE, data)
    world.file("settings.json", json.dumps({SETTING: HOSTILE}).encode())
    found = world.check_up()
    (damage,) = [each for each in found.findings if each.kind == "damage"]
    assert "DROP TABLE" in damage.examples[0].title


def test_a_check_that_fails_stops_no_other(world, monkeypatch):
    def fail(_):
        raise OSError(5, "the disk is dying")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    world.log(ONE, b"rubbish\n")
    patient = CheckContext(world.homes, own=world.own, now=world.now)
    found = check_up(patient)
    assert "damage" in {each.kind for each in found.findings}
    assert [each.kind for each in found.checks if each.problem] == ["space"]
    assert not found.healthy


# -- the index makes it faster, not different ------------------------------------------------


SAME = ("damage", "parents", "reach", "empty", "crashed", "unreadable", "losses")


def told(checkup):
    """What does not depend on where it was learnt."""
    return {
        (each.kind, each.urgency, example.session, example.path, example.detail)
        for each in checkup.findings
        if each.kind in SAME or (each.kind == "calls" and each.urgency is Urgency.LOOK)
        for example in each.examples
    }


def random_log(seed):
    """A log in which anything may be missing, glued, repeated, on a branch or damaged."""
    chance = random.Random(seed)
    names, lines = [], []
    for number in range(chance.randrange(2, 60)):
        name = chance.choice(names) if names and chance.random() < 0.02 else f"n{number}"
        above = names[-1] if names else None
        if names and chance.random() < 0.15:
            above = chance.choice([*names, None, "missing", f"n{number + 3}"])
        more = {}
        if chance.random() < 0.1:
            more = {"isSidechain": True} | chance.choice([{}, {"agentId": "x"}])
        kind = chance.random()
        if kind < 0.1:
            fields = record(name, above, "system", subtype="compact_boundary", **more)
            fields["parentUuid"] = None
        elif kind < 0.4:
            calls = [call(f"t{number}-{each}") for each in range(chance.randrange(3))]
            fields = answer(name, above, f"m{number // 3}", *calls, **more)
        elif kind < 0.7:
            wanted = f"t{number - 1}-{chance.randrange(2)}"
            fields = result(name, above, wanted, **more)
        else:
            fields = record(name, above, chance.choice(["user", "assistant"]), **more)
            if fields["type"] == "user" and chance.random() < 0.2:
                fields["isMeta"] = True
        names.append(name)
        end = b"" if chance.random() < 0.03 else b"\n"
        lines.append(line(fields) + end)
        if chance.random() < 0.03:
            lines.append(chance.choice([b"rubbish\n", b"\0" * 5 + b"\n", b"\n", b'{"type":']))
    return b"".join(lines)


@given(seeds=st.lists(st.integers(0, 2**32), min_size=1, max_size=4))
def test_with_and_without_an_index_the_same_is_found(seeds):
    before = os.environ["TURNLOG_HOME"]
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TURNLOG_HOME"] = str(Path(directory, "own"))
        try:
            world = World(Path(directory))
            for session_id, seed in zip(IDS, seeds, strict=False):
                world.log(session_id, random_log(seed))
            assert told(world.check_up()) == told(world.check_up(is_indexed=False))
        finally:
            os.environ["TURNLOG_HOME"] = before


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_on_real_sessions_the_index_misses_nothing(world):
    homes = find_homes((CORPUS,))
    with_index = world.check_up(homes=homes)
    assert told(with_index) == told(world.check_up(homes=homes, is_indexed=False))
    assert with_index.sessions > 100


def test_a_session_is_read_as_its_own_class_reads_it(world):
    """Reach is counted on the thread that `Session` gives as the one to go on from."""
    path = world.log(ONE, [*talk(40), *talk(2, "y", start="r1")])
    session = Session.find(world.homes, ONE)
    assert session.path == path
    assert len(session.thread) == 4
