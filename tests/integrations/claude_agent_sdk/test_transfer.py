"""Moving sessions between homes and stores: nothing twice, nothing lost, nothing overwritten."""

import functools
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import anyio
import claude_agent_sdk as sdk
import pytest
from claude_agent_sdk import InMemorySessionStore, import_session_to_store
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values, to_line
from turnlog.errors import InvalidId, NotFound, UsageError
from turnlog.formats import Home, project_key
from turnlog.integrations.claude_agent_sdk import (
    ExportOutcome,
    TurnlogSessionStore,
    export_sessions,
    import_sessions,
)
from turnlog.keep.copies.keep import keep
from turnlog.records.damage import Reason

ID = "12121212-aaaa-4aaa-8aaa-121212121212"
OTHER = "34343434-bbbb-4bbb-8bbb-343434343434"
PROJECT = "-home-someone-orchard"
MAIN = {"project_key": PROJECT, "session_id": ID}
AGENT = MAIN | {"subpath": "subagents/agent-a1b2c3d"}
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # Syncing is tested elsewhere.
META = {"agentType": "general-purpose", "toolUseId": "toolu_apples"}


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    """Run a coroutine function on one of the two event loops."""

    def running(function, *arguments, **options):
        return anyio.run(functools.partial(function, *arguments, **options), backend=request.param)

    return running


@pytest.fixture(params=["turnlog", "memory"])
def store(request, tmp_path):
    return (
        TurnlogSessionStore(tmp_path / "root")
        if request.param == "turnlog"
        else InMemorySessionStore()
    )


def said(number, **more):
    text = {"role": "user", "content": f"apple {number}"}
    known = {"type": "user", "uuid": f"u-{number}", "sessionId": ID, "message": text}
    parent = {"parentUuid": f"u-{number - 1}" if number else None}
    return known | parent | {"timestamp": "2026-03-04T05:06:07.089Z", "cwd": "/o"} | more


LATCH = {"type": "atis-latch", "sessionId": ID, "value": True}


@pytest.fixture
def home(tmp_path):
    """A session with an agent, and another session."""
    place = tmp_path / "home"
    write(place, MAIN, [said(0), LATCH, said(1), LATCH, said(2)])
    write(place, AGENT, [said(10, agentId="a1b2c3d", isSidechain=True)])
    beside(place, AGENT).write_text(json.dumps(META))
    write(place, MAIN | {"session_id": OTHER}, [said(20)])
    return place


def path_of(home, key):
    project = home / "projects" / key["project_key"]
    if "subpath" in key:
        return project / key["session_id"] / f"{key['subpath']}.jsonl"
    return project / f"{key['session_id']}.jsonl"


def beside(home, key):
    return path_of(home, key).with_suffix(".meta.json")


def write(home, key, entries):
    path = path_of(home, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(to_line(entry) + b"\n" for entry in entries))
    return path


def append(path, *parts):
    with path.open("ab") as log:
        for part in parts:
            log.write(part if isinstance(part, bytes) else to_line(part) + b"\n")


def held(run, store, key=MAIN):
    return run(store.load, key)


def everything(home):
    return {path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()}


# -- importing ------------------------------------------------------------------------------


def test_sessions_arrive_whole_and_in_order(run, store, home):
    before = everything(home)
    done = run(import_sessions, home, store)
    assert held(run, store) == [said(0), LATCH, said(1), LATCH, said(2)]
    assert held(run, store, MAIN | {"session_id": OTHER}) == [said(20)]
    told, line = held(run, store, AGENT)
    assert told == META | {"type": "agent_metadata"}
    assert line == said(10, agentId="a1b2c3d", isSidechain=True)
    assert done.sessions == [ID, OTHER]
    assert (done.added, done.problems) == (8, [])
    assert everything(home) == before


def test_a_second_import_changes_nothing(run, store, home):
    run(import_sessions, home, store)
    before = [held(run, store, key) for key in (MAIN, AGENT)]
    done = run(import_sessions, home, store)
    assert done.added == 0
    assert [log.records for log in done.logs] == [5, 1, 1]
    assert [held(run, store, key) for key in (MAIN, AGENT)] == before


def test_what_grew_in_between_is_sent_also_where_it_says_the_same_again(run, store, home):
    run(import_sessions, home, store)
    append(path_of(home, MAIN), LATCH, said(3), LATCH)
    beside(home, AGENT).write_text(json.dumps(META | {"worktreePath": "/tree"}))
    assert run(import_sessions, home, store).added == 4
    latches = [entry for entry in held(run, store) if entry == LATCH]
    assert len(latches) == 4
    assert held(run, store, AGENT)[-1]["worktreePath"] == "/tree"
    assert run(import_sessions, home, store).added == 0


def test_a_store_that_forgot_everything_gets_everything_again(run, store, home):
    """A bookmark of ours would say that all was sent."""
    run(import_sessions, home, store)
    run(store.delete, MAIN)
    assert held(run, store) is None
    assert run(import_sessions, home, store, sessions=[ID]).added == 7
    assert len(held(run, store)) == 5


def test_a_log_that_was_rewritten_takes_nothing_from_the_store(run, store, home):
    run(import_sessions, home, store)
    write(home, MAIN, [said(2), LATCH, said(4)])
    assert run(import_sessions, home, store).added == 1
    assert held(run, store) == [said(0), LATCH, said(1), LATCH, said(2), said(4)]


def test_what_a_mirror_already_brought_is_not_sent_again(run, store, home):
    run(store.append, AGENT, [META | {"type": "agent_metadata"}] * 2)
    run(store.append, MAIN, [said(0), LATCH, said(1)])
    assert run(import_sessions, home, store, sessions=ID).added == 3
    assert held(run, store) == [said(0), LATCH, said(1), LATCH, said(2)]
    assert [entry["type"] for entry in held(run, store, AGENT)] == ["agent_metadata"] * 2 + ["user"]


def test_it_sends_what_the_sdk_sends(run, home, monkeypatch):
    """Over whole logs; the order of what tells about an agent is a mirror's."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    theirs, ours = InMemorySessionStore(), InMemorySessionStore()
    run(import_session_to_store, ID, theirs)
    run(import_sessions, home, ours, sessions=[ID])
    assert run(ours.list_subkeys, MAIN) == run(theirs.list_subkeys, MAIN)
    for key in (MAIN, AGENT):
        expected = sorted(map(to_line, held(run, theirs, key)))
        assert sorted(map(to_line, held(run, ours, key))) == expected


@pytest.mark.parametrize("tail", [b'{"type":"user","uu', b'{"type":"user","uuid":"u-9"}'])
def test_a_torn_tail_waits_and_a_whole_one_comes_along(run, store, home, tail):
    log = path_of(home, MAIN)
    append(log, tail)
    done = run(import_sessions, home, store, sessions=[ID])
    is_whole = tail.endswith(b"}")
    assert done.logs[0].pending_bytes == (0 if is_whole else len(tail))
    assert len(held(run, store)) == 5 + is_whole
    if not is_whole:
        append(log, b'id":"u-9"}\n')
        assert run(import_sessions, home, store, sessions=[ID]).added == 1
    assert held(run, store)[-1] == {"type": "user", "uuid": "u-9"}
    append(log, b"\n", said(30))
    assert run(import_sessions, home, store, sessions=[ID]).added == 1


def test_damage_costs_no_whole_record_and_is_reported(run, store, home):
    log = path_of(home, MAIN)
    append(
        log,
        b'{"type":"user","mess\n',
        to_line(said(3)) + to_line(said(4)) + b"\n",
        b"\0" * 300 + to_line(said(5)) + b"\n",
        b"[1, 2]\n\n",
        said(6),
    )
    done = run(import_sessions, home, store, sessions=[ID])
    assert [entry for entry in held(run, store) if "uuid" in entry] == [*map(said, range(7))]
    main = done.logs[0]
    reasons = {Reason.FRAGMENT, Reason.NUL_RUN, Reason.NOT_AN_OBJECT}
    assert {damage.reason for damage in main.damage} == reasons
    assert main.damaged == len(main.damage) == 3
    assert run(import_sessions, home, store, sessions=[ID]).added == 0


def test_text_that_breaks_others_arrives(run, store, home):
    words = "a\u2028b\x85c \ud83d d\0e"
    line = json.dumps(said(3, note=words, big=10**30)).encode() + b"\n"
    append(path_of(home, MAIN), line)
    run(import_sessions, home, store)
    assert held(run, store)[-1] == said(3, note=words, big=10**30)
    assert run(import_sessions, home, store).added == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","uuid":"u-3","value":NaN}\n',
        b'{"type":"mode","value":1e999}\n',
        b'{"type":"user","uuid":"u-3","value":' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
    ],
    ids=["NaN", "infinity", "too deep"],
)
def test_what_no_store_can_hold_is_reported_and_the_rest_goes_on(run, store, home, line):
    append(path_of(home, MAIN), line, said(4))
    for added in (8, 0):
        done = run(import_sessions, home, store, sessions=[ID])
        assert done.added == added
        assert done.logs[0].damaged == 1
    assert held(run, store)[-1] == said(4)


def test_other_words_under_a_known_uuid_are_told_and_not_sent(run, store, home):
    append(path_of(home, MAIN), said(1), said(1, note="changed"), said(3))
    for _ in range(2):
        done = run(import_sessions, home, store, sessions=[ID])
        assert done.logs[0].conflicts == ["u-1"]
        assert [entry["uuid"] for entry in held(run, store) if "uuid" in entry] == [
            "u-0", "u-1", "u-2", "u-3",
        ]  # fmt: skip
    assert said(1) in held(run, store)


def test_batches_are_bounded_in_number_and_in_bytes(run, home):
    entries = [said(number, note="x" * 40_000) for number in range(100, 160)]
    write(home, MAIN, entries)

    class Counting(InMemorySessionStore):
        def __init__(self):
            super().__init__()
            self.batches = []

        async def append(self, key, entries):
            self.batches.append(entries)
            await super().append(key, entries)

    store = Counting()
    run(import_sessions, home, store, sessions=[ID])
    assert len(store.batches) > 3
    for batch in store.batches:
        assert sum(len(to_line(entry)) for entry in batch[:-1]) < 1024 * 1024
    store = Counting()
    run(import_sessions, home, store, sessions=[ID], batch_entries=7)
    assert max(map(len, store.batches)) == 7
    assert sum(map(len, store.batches)) == 62


def test_an_import_that_a_failing_store_ended_goes_on_where_it_was(run, home):
    class Failing(InMemorySessionStore):
        allowed = 2

        async def append(self, key, entries):
            if self.allowed == 0:
                raise ConnectionError("the store is away")
            self.allowed -= 1
            await super().append(key, entries)

    store = Failing()
    with pytest.raises(ConnectionError):
        run(import_sessions, home, store, sessions=[ID], batch_entries=1)
    assert len(held(run, store)) == 2
    store.allowed = 100
    run(import_sessions, home, store, sessions=[ID], batch_entries=1)
    assert held(run, store) == [said(0), LATCH, said(1), LATCH, said(2)]


def test_archives_and_logs_beside_the_sessions_and_of_workflows_come_along(run, store, home):
    workflow = MAIN | {"subpath": "subagents/workflows/run-1/agent-b2"}
    write(home, workflow, [said(40)])
    write(home, MAIN | {"subpath": "subagents/workflows/run-1/journal"}, [{"type": "started"}])
    early = home / "projects" / PROJECT / "agent-c3.jsonl"
    append(early, said(50, agentId="c3"))
    given = home / "projects" / PROJECT / ID / "tool-results" / "huge.jsonl"
    given.parent.mkdir()
    given.write_text('{"rows": 3}\n')
    import gzip

    log = path_of(home, MAIN)
    log.with_name(log.name + ".gz").write_bytes(gzip.compress(log.read_bytes()))
    done = run(import_sessions, home, store, sessions=[ID])
    assert set(run(store.list_subkeys, MAIN)) == {
        AGENT["subpath"],
        "subagents/agent-c3",
        "subagents/workflows/run-1/agent-b2",
        "subagents/workflows/run-1/journal",
    }
    assert len(held(run, store)) == 5
    assert not done.problems
    log.unlink()
    assert run(import_sessions, home, store, sessions=[ID]).added == 0


def test_a_session_that_is_gone_and_kept_is_imported(run, store, home, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    keep([Home(home)])
    shutil.rmtree(home)
    run(import_sessions, home, store)
    assert held(run, store) == [said(0), LATCH, said(1), LATCH, said(2)]
    assert held(run, store, AGENT)[0] == META | {"type": "agent_metadata"}


def test_what_is_there_counts_more_than_its_kept_copy(run, store, home, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    gone = MAIN | {"subpath": "subagents/agent-gone"}
    write(home, gone, [said(70)])
    keep([Home(home)])
    path_of(home, gone).unlink()
    write(home, AGENT, [said(11)])
    beside(home, AGENT).write_text('{"agentType":"Explore"}')
    run(import_sessions, home, store, sessions=[ID])
    assert held(run, store, gone) == [said(70)]
    assert held(run, store, AGENT) == [{"agentType": "Explore", "type": "agent_metadata"}, said(11)]


def test_a_store_of_our_own_is_a_home_like_any_other(run, store, tmp_path):
    """Whatever its logs are called there; what tells about an agent is in its log and beside it."""
    own = TurnlogSessionStore(tmp_path / "own")
    keys = [
        MAIN,
        AGENT,
        *(MAIN | {"subpath": name} for name in ("../x", "a.b", "C:\\\0", "opaque")),
    ]
    for key in keys:
        run(own.append, key, [{"type": "agent_metadata"} | META, said(0), LATCH])
    assert not run(import_sessions, tmp_path / "own", store).problems
    assert set(run(store.list_subkeys, MAIN)) == {key["subpath"] for key in keys[1:]}
    for key in keys:
        assert held(run, store, key) == held(run, own, key)
    assert run(import_sessions, tmp_path / "own", store).added == 0


def test_a_directory_whose_name_a_store_refuses_is_a_problem(run, home, tmp_path):
    odd = write(home, MAIN | {"project_key": "dots..", "session_id": OTHER}, [said(0)])
    done = run(import_sessions, home, TurnlogSessionStore(tmp_path / "root"))
    assert [problem.path for problem in done.problems] == [odd]
    assert len(done.logs) == 3


def test_only_the_sessions_and_the_project_that_were_asked_for(run, store, home, tmp_path):
    elsewhere = {"project_key": project_key(tmp_path), "session_id": ID}
    write(home, elsewhere, [said(60)])
    done = run(import_sessions, home, store, project=tmp_path)
    assert [(log.project_key, log.session) for log in done.logs] == [(project_key(tmp_path), ID)]
    assert held(run, store) is None
    run(import_sessions, home, store, sessions=(each for each in [OTHER]))
    assert held(run, store) is None


def test_what_cannot_be_read_is_a_problem_and_not_the_end(run, store, home):
    beside(home, AGENT).write_bytes(b'{"agentType":')
    gone = home / "projects" / PROJECT / "56565656-cccc-4ccc-8ccc-565656565656.jsonl"
    os.mkfifo(gone)
    day = home / "projects" / "v_FXjHoCS5zUJmfyn-5v" / "2026-01-02.jsonl"
    day.parent.mkdir()
    append(day, said(0))
    done = run(import_sessions, home, store)
    assert {problem.path for problem in done.problems} == {gone, day, beside(home, AGENT)}
    assert len(held(run, store)) == 5
    assert held(run, store, AGENT) == [said(10, agentId="a1b2c3d", isSidechain=True)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"sessions": ["nobody"]}, NotFound),
        ({"sessions": [3]}, UsageError),
        ({"sessions": 3}, UsageError),
        ({"sessions": [[]]}, UsageError),
        ({"batch_entries": 0}, UsageError),
        ({"batch_entries": -1}, UsageError),
        ({"batch_entries": "many"}, UsageError),
        ({"project": "a\0b"}, UsageError),
    ],
)
def test_a_callers_mistake_is_told_before_anything_is_sent(run, store, home, options, error):
    with pytest.raises(error) as caught:
        run(import_sessions, home, store, **options)
    assert caught.value.hint
    assert held(run, store) is None


def test_a_home_that_is_none_and_a_store_that_is_none(run, store, home, tmp_path):
    with pytest.raises(NotFound):
        run(import_sessions, tmp_path / "nowhere", store)
    for nothing in (None, 3, b"home", "a\0b"):
        with pytest.raises(UsageError, match="home"):
            run(import_sessions, nothing, store)
        with pytest.raises(UsageError, match="home"):
            run(export_sessions, store, nothing, project_key=PROJECT)
    with pytest.raises(UsageError, match="no method append"):
        run(import_sessions, home, object())
    with pytest.raises(UsageError, match="no method load"):
        run(export_sessions, object(), home, project_key=PROJECT)


# -- exporting ------------------------------------------------------------------------------


@pytest.fixture
def full(run, store, home):
    """A store with the sessions of the home."""
    run(import_sessions, home, store)
    return store


def test_sessions_are_written_where_claude_looks(run, full, home, tmp_path):
    new = tmp_path / "new"
    done = run(export_sessions, full, new, project_key=PROJECT)
    assert {file.outcome for file in done.files} == {ExportOutcome.WRITTEN}
    assert done.files[-1].name == f"projects/{PROJECT}/{OTHER}.jsonl"
    assert not done.skipped
    for key in (MAIN, AGENT):
        lines = path_of(new, key).read_bytes().splitlines()
        assert [*map(json.loads, lines)] == [
            json.loads(line) for line in path_of(home, key).read_bytes().splitlines()
        ]
    assert json.loads(beside(new, AGENT).read_bytes()) == META
    for path in new.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_a_second_export_changes_nothing(run, full, tmp_path):
    new = tmp_path / "new"
    run(export_sessions, full, new, project_key=PROJECT)
    before = everything(new)
    done = run(export_sessions, full, new, project_key=PROJECT)
    assert {file.outcome for file in done.files} == {ExportOutcome.THERE}
    assert done.added == 0
    assert everything(new) == before


def test_a_log_that_lags_behind_the_store_gets_the_rest(run, full, home):
    """As after a resume from the store; the disk has records that are never mirrored."""
    log = path_of(home, MAIN)
    unmirrored = {"type": "api-request", "sessionId": ID}
    append(log, unmirrored)
    before = log.read_bytes()
    run(full.append, MAIN, [said(3), LATCH])
    done = run(export_sessions, full, home, project_key=PROJECT, sessions=[ID])
    assert [file.outcome for file in done.files] == [ExportOutcome.THERE] * 2 + [
        ExportOutcome.EXTENDED
    ]
    assert done.added == 2
    assert log.read_bytes() == before + to_line(said(3)) + b"\n" + to_line(LATCH) + b"\n"


def test_a_torn_tail_does_not_swallow_what_is_appended(run, full, home):
    log = path_of(home, MAIN)
    append(log, b'{"type":"user","uu')
    run(full.append, MAIN, [said(3)])
    run(export_sessions, full, home, project_key=PROJECT, sessions=[ID])
    assert log.read_bytes().endswith(b'"uu\n' + to_line(said(3)) + b"\n")


def test_a_log_that_went_further_than_the_store_is_left(run, full, home):
    append(path_of(home, MAIN), said(3), said(4))
    before = everything(home)
    done = run(export_sessions, full, home, project_key=PROJECT)
    assert {file.outcome for file in done.files} == {ExportOutcome.THERE}
    assert everything(home) == before


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([said(0), said(1, note="edited"), said(2)], "different content"),
        ([LATCH, said(1), LATCH, said(2)], "middle"),
        ([said(0), LATCH, said(1), said(99)], "that the store lacks"),
        ([said(77)], "that the store lacks"),
    ],
)
def test_a_log_that_differs_is_not_overwritten_unless_told(run, full, home, entries, why):
    log = write(home, MAIN, entries)
    shutil.rmtree(home / "projects" / PROJECT / ID)
    before = everything(home)
    with pytest.raises(UsageError, match=why) as caught:
        run(export_sessions, full, home, project_key=PROJECT, sessions=[ID])
    assert "overwrite=True" in caught.value.hint
    assert everything(home) == before  # Not even its agent's log.
    done = run(export_sessions, full, home, project_key=PROJECT, sessions=[ID], overwrite=True)
    assert done.files[-1].outcome is ExportOutcome.REPLACED
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert lines == [said(0), LATCH, said(1), LATCH, said(2)]
    (original,) = log.parent.glob(f"{log.name}.original-*")
    assert original.read_bytes() == before[log.relative_to(home)]
    done = run(export_sessions, full, home, project_key=PROJECT, sessions=[ID], overwrite=True)
    assert {file.outcome for file in done.files} == {ExportOutcome.THERE}


def test_what_tells_something_else_about_an_agent_is_not_overwritten_either(run, full, home):
    meta = beside(home, AGENT)
    for text in ('{"agentType":"Explore"}', '{"agentType":'):
        meta.write_text(text)
        with pytest.raises(UsageError, match=r"agent-a1b2c3d\.meta\.json"):
            run(export_sessions, full, home, project_key=PROJECT, sessions=[ID])
        assert meta.read_text() == text
    done = run(export_sessions, full, home, project_key=PROJECT, sessions=[ID], overwrite=True)
    assert [file.outcome for file in done.files].count(ExportOutcome.REPLACED) == 1
    assert json.loads(meta.read_bytes()) == META


UNSAFE = [
    "../../../escaped",
    "subagents/../../escaped",
    "/escaped",
    "subagents//x",
    "subagents/",
    ".",
    "..",
    "a/./b",
    "a\\..\\b",
    "C:x",
    "C:/x",
    "\\\\host\\share",
    "a\0b",
    "n" * 300,
    "\ud800",
    "a.jsonl/b",
    "tool-results/x",
]


@pytest.mark.parametrize("subpath", UNSAFE)
def test_unsafe_subpaths_are_skipped_and_reported(run, store, tmp_path, subpath):
    new = tmp_path / "deep" / "down" / "new"
    run(store.append, MAIN, [said(0)])
    run(store.append, MAIN | {"subpath": subpath}, [said(1)])
    run(store.append, AGENT, [said(2)])
    done = run(export_sessions, store, new, project_key=PROJECT)
    assert [(each.session, each.subpath) for each in done.skipped] == [(ID, subpath)]
    assert done.skipped[0].reason
    written = {path for path in tmp_path.rglob("*") if path.is_file() and "root" not in path.parts}
    assert written == {path_of(new, MAIN), path_of(new, AGENT)}


def test_links_in_the_home_lead_nowhere(run, full, tmp_path):
    new, outside = tmp_path / "new", tmp_path / "outside"
    outside.mkdir()
    (new / "projects").mkdir(parents=True)
    (new / "projects" / PROJECT).symlink_to(outside)
    with pytest.raises(OSError, match=r"symbolic link|not a directory"):
        run(export_sessions, full, new, project_key=PROJECT)
    assert not list(outside.iterdir())


@pytest.mark.parametrize("key", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "C:x", "k" * 300])
def test_a_project_key_stays_beneath_projects(run, full, tmp_path, key):
    with pytest.raises(InvalidId) as caught:
        run(export_sessions, full, tmp_path / "new", project_key=key)
    assert caught.value.hint
    assert not (tmp_path / "new").exists()


def test_sessions_that_are_not_there_and_ids_that_are_none(run, full, tmp_path):
    export = functools.partial(run, export_sessions, full, tmp_path / "new")
    with pytest.raises(NotFound, match="nobody"):
        export(project_key=PROJECT, sessions="nobody")
    with pytest.raises(InvalidId):
        export(project_key=PROJECT, sessions=["../nobody"])
    assert export(project_key="-elsewhere").files == []


@pytest.mark.parametrize("base", [object, sdk.SessionStore])
def test_a_foreign_store_with_the_least_that_is_demanded(run, tmp_path, base):
    class Least(base):
        async def load(self, key):
            return [said(0)] if "subpath" not in key else None

    export = functools.partial(run, export_sessions, Least(), tmp_path / "new")
    with pytest.raises(UsageError, match="list its sessions"):
        export(project_key=PROJECT)
    done = export(project_key=PROJECT, sessions=[ID])
    assert [file.records for file in done.files] == [1]
    assert "subagent logs" in done.skipped[0].reason


def test_ids_of_a_foreign_store_that_no_file_can_have_are_skipped(run, tmp_path):
    store = InMemorySessionStore()
    for session_id in ("..", "con", "a b"):
        run(store.append, {"project_key": PROJECT, "session_id": session_id}, [said(0)])
    done = run(export_sessions, store, tmp_path / "new", project_key=PROJECT)
    assert {each.session for each in done.skipped} == {"..", "con", "a b"}
    assert not (tmp_path / "new").exists()


# -- there and back -------------------------------------------------------------------------

keys = st.text(max_size=6).filter(lambda key: key != "uuid")  # Those are given on purpose.
fields = st.dictionaries(keys, json_values, max_size=4)
entries = st.lists(
    st.builds(
        lambda more, uuid, kind: more | {"type": kind} | ({"uuid": str(uuid)} if uuid else {}),
        fields,
        st.uuids() | st.none(),
        st.sampled_from(["user", "assistant", "mode", "last-prompt", "never-heard-of"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda entry: entry.get("uuid") or id(entry),
)
repeating = entries.flatmap(
    lambda some: st.lists(st.sampled_from(some), max_size=4).map(
        lambda again: some + [entry for entry in again if "uuid" not in entry]
    )
)
names = st.text("abcXYZ019-_ é.", min_size=1, max_size=12).filter(lambda name: name.strip("."))
subpaths = st.lists(names, min_size=1, max_size=3).map("/".join)
metadata = st.none() | fields.map(lambda more: more | {"type": "agent_metadata"})
sessions_held = st.dictionaries(subpaths, st.tuples(metadata, repeating), max_size=3)


@given(main=repeating, beneath=sessions_held, backend=st.sampled_from(["asyncio", "trio"]))
def test_what_is_exported_and_imported_is_what_it_was(main, beneath, backend):
    async def there_and_back(place):
        one, two = InMemorySessionStore(), InMemorySessionStore()
        await one.append(MAIN, main)
        for subpath, (told, lines) in beneath.items():
            await one.append(MAIN | {"subpath": subpath}, [told] if told else [])
            await one.append(MAIN | {"subpath": subpath}, lines)
        done = await export_sessions(one, place, project_key=PROJECT)
        lost = {each.subpath for each in done.skipped}
        assert all(".jsonl/" in each or ".meta.json/" in each for each in lost)
        imported = await import_sessions(place, two)
        assert not imported.problems
        assert sorted(await two.list_subkeys(MAIN)) == sorted(set(beneath) - lost)
        for subpath in (None, *(set(beneath) - lost)):
            key = MAIN if subpath is None else MAIN | {"subpath": subpath}
            assert await two.load(key) == await one.load(key)
        assert (await import_sessions(place, two)).added == 0
        assert (await export_sessions(two, place, project_key=PROJECT)).added == 0

    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        anyio.run(there_and_back, Path(place), backend=backend)


@given(logs=st.lists(repeating, min_size=2, max_size=4), data=st.data())
def test_however_a_log_grows_and_is_imported_the_store_has_it_once(logs, data):
    seen = set()
    lines = []
    for entry in (entry for log in logs for entry in log):
        if entry.get("uuid") not in seen or "uuid" not in entry:
            lines.append(json.dumps(entry).encode() + b"\n")
            seen.add(entry.get("uuid"))
    whole = b"".join(lines)

    async def grow(place):
        store = InMemorySessionStore()
        log = path_of(place, MAIN)
        log.parent.mkdir(parents=True)
        for cut in sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4))):
            log.write_bytes(whole[:cut])
            await import_sessions(place, store)
        log.write_bytes(whole)
        await import_sessions(place, store)
        assert await store.load(MAIN) == [json.loads(line) for line in lines]

    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        anyio.run(grow, Path(place))
