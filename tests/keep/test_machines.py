"""Containers that share turnlog's home, each with a home of the same path."""

import os
import shutil

import pytest

from formats.agents import AGENTS
from keep.orchard_home import ID, OTHER, PROJECT, SHARED, conversation, files_in, write_files
from turnlog.formats import Home, find_everywhere, home_paths, key_of
from turnlog.formats.kept_copies import kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import all_mirrors, find_restorable, mirrors
from turnlog.keep.restore.restore import restore_each

THIRD = "99999999-cccc-4ccc-8ccc-999999999999"


def log(session_id):
    return f"projects/{key_of(PROJECT)}/{session_id}.jsonl"


class Machines:
    """Several machines. `on` runs what follows on one of them: its home lies at the shared path."""

    def __init__(self, place, monkeypatch):
        self.home = place / "root" / ".claude"
        self.away = place / "away"
        self._patch = monkeypatch
        self._now = None
        self.away.mkdir()

    def on(self, machine):
        if self._now is not None and self.home.exists():
            self.home.rename(self.away / self._now)
        self.home.parent.mkdir(exist_ok=True)
        if (self.away / machine).exists():
            (self.away / machine).rename(self.home)
        else:
            self.home.mkdir()
        self._now = machine
        self._patch.setattr(home_paths, "machine_id", lambda: machine)
        return self

    def write(self, session_id, **how):
        write_files(self.home, {log(session_id): conversation(session_id, **how)})

    def keep(self):
        run = keep([Home(self.home)])
        assert not run.problems
        return run

    def sessions(self):
        """The sessions that lists show here."""
        return {each.session_id for each in find_everywhere([Home(self.home)])}

    def restorable(self):
        return {each for mirror in mirrors([Home(self.home)]) for each in mirror.sessions}


@pytest.fixture
def machines(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    return Machines(tmp_path, monkeypatch)


def test_two_containers_do_not_share_a_mirror(machines):
    for machine, session_id in (("aaaaaaaa", ID), ("bbbbbbbb", OTHER)):
        machines.on(machine).write(session_id)
        machines.keep()
    for machine, session_id in (("aaaaaaaa", ID), ("bbbbbbbb", OTHER)):
        assert machines.on(machine).sessions() == {session_id}
        assert machines.restorable() == {session_id}
        machines.keep()
        shutil.rmtree(machines.home)
        list(restore_each(each for m in mirrors([Home(machines.home)]) for each in m.restorables))
        assert set(files_in(machines.home)) == {log(session_id)}


def test_what_both_have_under_one_name_does_not_grow_without_end(machines):
    for turn in range(6):
        for machine, session_id in (("aaaaaaaa", ID), ("bbbbbbbb", OTHER)):
            machines.on(machine).write(session_id)
            history = SHARED["history.jsonl"] * (turn + 1) + machine.encode()
            write_files(machines.home, {"history.jsonl": history})
            machines.keep()
            assert len(Catalogue.of_home(machines.home).generations("history.jsonl")) <= turn + 1


def test_a_clone_shares_the_mirror_and_generations_stay_few(machines):
    """Both have the log that the image came with, so they cannot be told apart."""
    states = {}
    for turn in range(6):
        for machine in ("aaaaaaaa", "bbbbbbbb"):
            more = conversation(ID, start=1, turns=turn + 1, cwd=f"/{machine}")
            states[machine] = conversation(ID, turns=1) + more
            write_files(machines.on(machine).home, {log(ID): states[machine]})
            machines.keep()
    catalogue = Catalogue.of_home(machines.home)
    assert len(catalogue.generations(log(ID))) == 2
    assert len(list(catalogue.place.rglob(f"{ID}.jsonl.zst"))) == 2
    assert {each.size_bytes for each in catalogue.generations(log(ID))} == {
        len(data) for data in states.values()
    }


def test_a_container_that_is_made_anew_finds_what_was_kept(machines):
    machines.on("aaaaaaaa").write(ID)
    machines.keep()
    shutil.rmtree(machines.home)
    machines.on("cccccccc")
    assert machines.restorable() == {ID}  # Its home is empty: it is nobody else's.
    machines.keep()
    list(restore_each(each for m in mirrors([Home(machines.home)]) for each in m.restorables))
    machines.write(THIRD)
    machines.keep()
    assert machines.sessions() == {ID, THIRD}
    assert len(list(kept_place(machines.home).parent.iterdir())) == 1


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.format.name for agent in AGENTS])
def test_homes_of_every_agent_are_told_apart_by_their_logs(machines, agent):
    agent.write(machines.on("aaaaaaaa").home)
    machines.keep()
    place = kept_place(machines.home)
    machines.home.rename(machines.away / "bbbbbbbb")
    machines.on("bbbbbbbb").keep()
    assert kept_place(machines.home) == place  # The same logs, on a machine whose id has changed.
    agent.write(machines.on("cccccccc").home)
    for path in sorted(machines.home.rglob("*.jsonl")):
        path.rename(path.with_name(path.name.replace("-0", "-1").replace("events", "events-1")))
    machines.keep()
    assert kept_place(machines.home) != place


def test_a_home_that_another_container_is_given_keeps_its_mirror(machines):
    machines.on("aaaaaaaa").write(ID)
    machines.keep()
    machines.home.rename(machines.away / "bbbbbbbb")
    place = kept_place(machines.on("bbbbbbbb").home)
    machines.write(OTHER)
    machines.keep()
    assert kept_place(machines.home) == place
    assert machines.restorable() == {ID, OTHER}


def test_a_mirror_of_an_earlier_version_is_taken_over(machines):
    machines.on("aaaaaaaa").write(ID)
    machines.keep()
    (kept_place(machines.home) / home_paths.MACHINE).unlink()
    (machines.home / log(ID)).unlink()
    machines.write(OTHER)
    machines.on("aaaaaaaa").keep()
    assert machines.restorable() == {ID, OTHER}


def test_another_machines_sessions_can_be_had_by_name(machines):
    for machine, session_id in (("aaaaaaaa", ID), ("bbbbbbbb", OTHER)):
        machines.on(machine).write(session_id)
        machines.keep()
    found = find_restorable(all_mirrors([Home(machines.home)]), ID)
    assert found.id == ID
    (mirror,) = mirrors([Home(found.mirror.place)])
    assert (set(mirror.sessions), mirror.home) == ({ID}, str(machines.home))


def test_the_machine_is_known_by_its_name(monkeypatch):
    home_paths.machine_id.cache_clear()
    first = home_paths.machine_id()
    assert len(first) == 8
    other = os.uname_result(("Linux", "another-host", "", "", ""))
    home_paths.machine_id.cache_clear()
    monkeypatch.setattr(os, "uname", lambda: other)
    assert home_paths.machine_id() != first
    monkeypatch.undo()
    home_paths.machine_id.cache_clear()
    assert home_paths.machine_id() == first
