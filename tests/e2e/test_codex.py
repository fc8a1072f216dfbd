"""turnlog reads, prices, keeps and restores what the real `codex` wrote."""

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

import turnlog
from codex_world import Usage
from e2e.codex import arrived
from turnlog.formats import Home, find_logs
from turnlog.keep.copies.keep import keep
from turnlog.storage.reader import Placed, read_log

OLD = "0.133.0"
FIGS = "Count the figs"


class Gardener:
    """Answers as a model would: it runs commands, and asks a subagent."""

    def __call__(self, asked):
        last = asked["input"][-1]
        text = json.dumps(last)
        if last.get("role") == "user":
            if "How many plums" in text:
                return [called("exec_command", "call_plums", cmd="echo forty-two")]
            if FIGS in text:
                return [called("exec_command", "call_figs", cmd="echo nine")]
            if "Ask someone" in text:
                query = {"query": "spawn agent", "limit": 8}
                search = {"type": "tool_search_call", "call_id": "call_search"}
                return [search | {"execution": "client", "status": "completed", "arguments": query}]
        if last["type"] == "tool_search_output":
            told = {"message": FIGS, "agent_type": "default"}
            return [called("spawn_agent", "call_spawn", **told)]
        if last.get("call_id") == "call_spawn":
            helper = json.loads(last["output"])["agent_id"]
            return [called("wait_agent", "call_wait", targets=[helper], timeout_ms=60_000)]
        return None


def called(name, call_id, **arguments):
    space = {} if name == "exec_command" else {"namespace": "multi_agent_v1"}
    call = {"type": "function_call", "call_id": call_id, "name": name, **space}
    return call | {"arguments": json.dumps(arguments)}


class Grown:
    """Sessions of a home: one, its fork, and a fork of that."""

    def __init__(self, codex):
        self.codex = codex
        codex.api.answer = Gardener()
        self.first = codex.ask("How many plums are there?")
        codex.ask("Are they ripe?", resume=self.first)
        self.prompts = {self.first: ["How many plums are there?", "Are they ripe?"]}
        with codex.server() as server:
            self.fork = server.fork(self.first)
            server.ask(self.fork, "And the pears?")
            self.fork_of_fork = server.fork(self.fork)
            server.ask(self.fork_of_fork, "And the quinces?")
        self.prompts[self.fork] = ["And the pears?"]
        self.prompts[self.fork_of_fork] = ["And the quinces?"]

    @property
    def home(self):
        return Home(self.codex.home)

    @property
    def logs(self):
        return {log.own_id: log for log in find_logs(self.home)}

    def compact(self):
        with self.codex.server() as server:
            server.call("thread/resume", threadId=self.fork)
            server.compact(self.fork)
            server.ask(self.fork, "And after that?")
        self.prompts[self.fork].append("And after that?")

    def ask_someone(self):
        self.parent = self.codex.ask("Ask someone about the figs")
        self.prompts[self.parent] = ["Ask someone about the figs"]


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))


@pytest.fixture
def grown(codex):
    return Grown(codex)


def truth(codex):
    """Give the usage that the API told, by session: those of subagents count for the session."""
    has_written = codex.program.parent.name != OLD  # It did not note what was written.
    found = {}
    for asked, usage in codex.api.spent:
        spent = Usage(
            usage["input_tokens"],
            usage["output_tokens"],
            usage["input_tokens_details"]["cached_tokens"],
            usage["input_tokens_details"]["cache_write_tokens"] if has_written else 0,
        )
        found.setdefault(asked["prompt_cache_key"], Counter()).update(spent.counters)
    return found


def counters(row):
    names = ("messages", "input", "output", "cache_read", "cache_write_5m")
    return Counter({name: getattr(row, name) for name in names})


def check_usage(codex):
    expected = truth(codex)
    for no_index in (False, True):
        with turnlog.open(codex.home) as store:
            ledger = store.cost(by="session", no_index=no_index)
            assert {row.session: counters(row) for row in ledger.rows} == expected
            assert counters(ledger.totals) == sum(expected.values(), Counter())


def check_lines(grown):
    for log in grown.logs.values():
        data = log.path.read_bytes()
        items = list(read_log(log.path))
        assert all(isinstance(item, Placed) for item in items)
        assert b"".join(item.record.raw + b"\n" for item in items) == data
        assert all(item.record.type for item in items)


def prompts_of(session):
    nodes = [turn.prompt for turn in session.turns if turn.prompt is not None]
    return [record.text for _, record in session.records(nodes)]


def test_all_that_every_version_writes_is_read(any_codex):
    grown = Grown(any_codex)
    if any_codex.program.parent.name != OLD:
        grown.compact()
        grown.ask_someone()
    check_lines(grown)
    check_usage(any_codex)
    with turnlog.open(any_codex.home) as store:
        assert {row.id for row in store.sessions()} == grown.prompts.keys()
        for session_id, prompts in grown.prompts.items():
            assert prompts_of(store.session(session_id))[-len(prompts) :] == prompts


def test_what_a_fork_continues_is_part_of_it(grown):
    with turnlog.open(grown.codex.home) as store:
        texts = prompts_of(store.session(grown.fork_of_fork))
    assert texts == [
        *grown.prompts[grown.first],
        *grown.prompts[grown.fork],
        *grown.prompts[grown.fork_of_fork],
    ]


def test_a_subagent_is_below_the_session_that_started_it(grown):
    grown.ask_someone()
    with turnlog.open(grown.codex.home) as store:
        (subagent,) = store.session(grown.parent).subagents
        found = {hit.session for hit in store.search("figs").hits}
    assert FIGS in str(subagent)
    assert found == {grown.parent}


# -- restored


def test_codex_goes_on_as_if_its_home_had_never_been_deleted(any_codex):
    grown = Grown(any_codex)
    sent = {asked["prompt_cache_key"]: asked["input"] for asked in any_codex.api.requests}
    before = {log.path: log.path.read_bytes() for log in grown.logs.values()}
    keep((grown.home,))
    shutil.rmtree(any_codex.home)
    with turnlog.open(any_codex.home) as store:
        store.restore(grown.fork_of_fork)  # With all that it continues, in one step.
        store.restore(grown.first)
        store.restore(grown.fork)
    assert {log.path: log.path.read_bytes() for log in grown.logs.values()} == before
    any_codex.configure()
    for session_id in (grown.fork_of_fork, grown.first, grown.fork):
        assert any_codex.ask("Go on", resume=session_id) == session_id
        after = any_codex.api.requests[-1]["input"]
        assert after[: len(sent[session_id])] == sent[session_id]
        assert arrived(any_codex.api.requests[-1])[-1] == "Go on"
    check_usage(any_codex)


def test_a_session_that_codex_archived_is_restored_as_such(grown):
    assert grown.codex("archive", grown.first).returncode == 0
    keep((grown.home,))
    shutil.rmtree(grown.codex.home)
    with turnlog.open(grown.codex.home) as store:
        store.restore(grown.first)
        store.restore(grown.fork)
    grown.codex.configure()
    grown.codex.ask("Go on", resume=grown.fork)
    assert arrived(grown.codex.api.requests[-1])[0] == "How many plums are there?"
    assert grown.codex("unarchive", grown.first).returncode == 0
    grown.codex.ask("Go on", resume=grown.first)


# -- vanished


def findings(codex, kind):
    """Give what the doctor finds, as the program's own doctor is silent or not."""
    done = subprocess.run(
        [Path(sys.executable).with_name("turnlog"), "doctor", "--json", "--home", codex.home],
        capture_output=True,
        text=True,
        env=os.environ | {"CODEX_HOME": str(codex.home)},
    )
    found = json.loads(done.stdout)["findings"]
    return [each for each in found if each["kind"] == kind]


def run(codex, command):
    path = [Path(sys.executable).parent, codex.program.parent, os.environ["PATH"]]
    environ = codex.environ | {"PATH": os.pathsep.join(map(str, path))}
    environ |= {"TURNLOG_HOME": os.environ["TURNLOG_HOME"]}
    subprocess.run(command, shell=True, check=True, env=environ, cwd=codex.project)


def agrees(codex):
    """Return whether the program itself finds its files and its list the same."""
    checks = json.loads(codex("doctor", "--json").stdout)["checks"]
    return checks["state.rollout_db_parity"]["status"] == "ok"


def unlisted(grown):
    with closing(sqlite3.connect(grown.codex.home / "state_5.sqlite")) as db, db:
        db.execute("DELETE FROM threads WHERE id = ?", (grown.first,))


def test_a_healthy_home_has_no_finding(grown):
    grown.ask_someone()
    assert agrees(grown.codex)
    assert findings(grown.codex, "listed") == findings(grown.codex, "forks") == []


def test_a_session_that_is_not_listed_is_found_and_resumed(grown):
    unlisted(grown)
    assert not agrees(grown.codex)
    (finding,) = findings(grown.codex, "listed")
    assert shlex.split(finding["command"]) == ["codex", "resume", grown.first]
    grown.codex.ask("Go on", resume=grown.first)  # As it does, without a terminal.
    assert findings(grown.codex, "listed") == []
    assert agrees(grown.codex)


def test_an_archived_session_that_is_not_listed(grown):
    grown.codex("archive", grown.first)
    unlisted(grown)
    (finding,) = findings(grown.codex, "listed")
    run(grown.codex, finding["command"])
    assert findings(grown.codex, "listed") == []
    grown.codex.ask("Go on", resume=grown.first)


def moved_log(grown):
    path = grown.logs[grown.first].path
    elsewhere = grown.codex.home / "sessions" / "2020" / "02" / "02" / path.name
    elsewhere.parent.mkdir(parents=True)
    path.rename(elsewhere)


def moved_home(grown):
    codex = grown.codex
    codex.home = codex.home.rename(codex.home.with_name("moved"))
    codex.environ["CODEX_HOME"] = str(codex.home)


@pytest.mark.parametrize("move", [moved_log, moved_home])
def test_sessions_that_codex_lists_but_does_not_find(grown, move):
    move(grown)
    cannot = grown.codex("exec", "--skip-git-repo-check", "resume", grown.first, "Go on")
    assert "no rollout found" in cannot.stderr
    (finding,) = findings(grown.codex, "listed")
    run(grown.codex, finding["examples"][0]["command"])
    assert findings(grown.codex, "listed") == []
    for session_id in (grown.first, grown.fork_of_fork):
        grown.codex.ask("Go on", resume=session_id)
    assert agrees(grown.codex)


def test_a_listed_session_without_a_log_is_restored(grown):
    keep((grown.home,))
    grown.logs[grown.fork_of_fork].path.unlink()
    (finding,) = findings(grown.codex, "listed")
    run(grown.codex, finding["command"])
    assert findings(grown.codex, "listed") == []
    grown.codex.ask("Go on", resume=grown.fork_of_fork)


@pytest.mark.parametrize("change", ["gone", "shortened", "shifted"])
def test_a_fork_without_its_beginning_is_mended(grown, change):
    codex, path = grown.codex, grown.logs[grown.first].path
    keep((grown.home,))
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.unlink()
    if change == "shortened":
        path.write_bytes(data[:-100])
    elif change == "shifted":
        del lines[7]
        path.write_bytes(b"".join([*lines, b" " * (len(data) - len(b"".join(lines)))]))
    cannot = codex("exec", "--skip-git-repo-check", "resume", grown.fork, "Go on")
    if change == "shifted":  # The program does not notice that something is lacking.
        assert "How many plums are there?" not in arrived(codex.api.requests[-1])
    else:
        assert "rollout" in cannot.stderr
    (finding,) = findings(codex, "forks")
    assert finding["examples"][0]["session"] == grown.fork
    run(codex, finding["examples"][0]["command"])
    assert path.read_bytes() == data
    assert findings(codex, "forks") == []
    codex.ask("Go on", resume=grown.fork)
    assert "How many plums are there?" in arrived(codex.api.requests[-1])
