"""What turnlog does for each agent: the same checks for all, and a table of what works."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

import turnlog
from formats.agents import AGENTS
from turnlog.formats import FORMATS, Home, find_logs
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import mirrors
from turnlog.keep.verify import verify
from turnlog.storage.reader import Placed, read_log

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"
NAMES = [each.format.agent for each in AGENTS]


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))


@pytest.fixture(params=AGENTS, ids=NAMES)
def agent(request):
    return request.param


class Written:
    """A home that was written for a test, its truth, and a store that reads it."""

    def __init__(self, agent, path):
        path.mkdir(mode=0o700)
        self.format = agent.format
        self.home = Home(path)
        self.truth = agent.write(path)
        self.logs = list(find_logs(self.home))
        self.bytes = {log.path: log.path.read_bytes() for log in self.logs}
        self.store = turnlog.open(path)


@pytest.fixture
def written(agent, tmp_path):
    with (written := Written(agent, tmp_path / "home")).store:
        yield written


def check_found(written):
    problems = []
    assert {log.format for log in find_logs(written.home, problems=problems)} == {written.format}
    assert problems == []
    rows = list(written.store.sessions())
    assert {row.id for row in rows} == written.truth.prompts.keys()
    assert len(rows) == len(written.truth.prompts)


def check_read(written):
    for path, data in written.bytes.items():
        items = list(read_log(path))
        assert all(isinstance(item, Placed) for item in items)
        assert b"".join(item.record.raw + b"\n" for item in items) == data
    for session_id, prompts in written.truth.prompts.items():
        session = written.store.session(session_id)
        nodes = [turn.prompt for turn in session.turns if turn.prompt is not None]
        texts = [record.text for _, record in session.records(nodes)]
        assert texts[-len(prompts) :] == prompts


def check_searched(written):
    for session_id, prompts in written.truth.prompts.items():
        hits = written.store.search(f'"{prompts[0]}"').hits
        assert {hit.session for hit in hits} == {session_id}


def check_counted(written):
    for no_index in (False, True):
        totals = written.store.cost(by="model", no_index=no_index).totals
        names = ("messages", "input", "output", "cache_read", "cache_write_5m")
        assert Counter({name: getattr(totals, name) for name in names}) == written.truth.counters


def check_kept(written):
    assert keep((written.home,)).problems == []
    kept = mirrors((written.home,))[0].copies
    names = {log.path.relative_to(written.home.path).as_posix() for log in written.logs}
    assert names <= kept.keys()
    assert verify((written.home,)).findings == []


def check_restored(written):
    keep((written.home,))
    shutil.rmtree(written.home.path)
    for session_id in written.truth.prompts:
        written.store.restore(session_id)
    assert {path: path.read_bytes() for path in written.bytes} == written.bytes


def check_resumed(written):
    for session_id in written.truth.prompts:
        assert session_id in (written.format.resume_command(session_id) or ())


def check_repaired(written):
    written.format.refuse_rewriting("log")


CHECKS = {
    "Found": check_found,
    "Read, with every byte": check_read,
    "Searched": check_searched,
    "Priced": check_counted,
    "Kept and verified": check_kept,
    "Restored, with the same bytes": check_restored,
    "Resumed in the agent": check_resumed,
    "Repaired, recovered and compacted": check_repaired,
}
MUST_WORK = [name for name in CHECKS if name not in ("Priced", *list(CHECKS)[-2:])]


def test_every_agent_has_a_sample():
    assert {each.format for each in AGENTS} == {form for form in FORMATS if form.agent}


@pytest.mark.parametrize("name", MUST_WORK)
def test_what_must_work_for_every_agent(written, name):
    CHECKS[name](written)


def test_usage_is_counted_to_the_token(written):
    if written.truth.counters is None:
        pytest.skip("its usage is not counted")
    check_counted(written)


def works(agent, name, path):
    try:
        with (written := Written(agent, path)).store:
            CHECKS[name](written)
    except (AssertionError, turnlog.TurnlogError):
        return False
    return True


def test_the_table_in_the_docs_says_what_works(tmp_path):
    rows = [["", *NAMES], ["---"] * (1 + len(AGENTS)), ["Versions read"]]
    rows[-1] += [each.versions for each in AGENTS]
    for number, name in enumerate(CHECKS):
        rows.append([name])
        for agent in AGENTS:
            place = tmp_path / f"{agent.format.name}{number}"
            rows[-1].append("yes" if works(agent, name, place) else "no")
    table = "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)
    text = DOCS.read_text("utf-8")
    begin, end = text.index("\n| |") + 1, text.rindex("|\n") + 1
    if os.environ.get("TURNLOG_UPDATE_SNAPSHOTS"):
        text = text[:begin] + table + text[end:]
        DOCS.write_text(text, "utf-8")
    assert text[begin : begin + len(table)] == table, "run with TURNLOG_UPDATE_SNAPSHOTS=1"
