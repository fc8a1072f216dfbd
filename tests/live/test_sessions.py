"""What is running now: the program's word, the end of the log, and the ledger's figures."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from index.homes import own_index
from live.live_world import World, call, prompt, result, said, thought, until
from turnlog.catalog.period import Period
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.statusline_figures import window_of
from turnlog.costs.usage import every_response
from turnlog.index.connection import open_fresh
from turnlog.live.activity import Activity, Doing, LogEnd
from turnlog.live.sessions import LiveDocument
from turnlog.live.watch import LiveWatch
from turnlog.records.codec import decode
from turnlog.sessions.writing import build

ONE, TWO, THREE = (f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "123")


@pytest.fixture
def world(tmp_path):
    with own_index(tmp_path / "own") as place:
        place.mkdir()
        made = World(tmp_path)
        yield made
        made.close()


def only(live):
    (found,) = live.look().sessions
    return found


def asked(world, **more):
    live = world.live(**more)
    live.ask()
    return live


# -- what the program says -------------------------------------------------------------------


def test_who_waits_for_a_permission_is_told_with_the_call_that_needs_it(world):
    world.write(ONE, prompt("tidy up"), call(1, "Bash", command="rm -rf build"))
    world.run(ONE, "waiting", waitingFor="permission prompt", statusUpdatedAt=1_700_000_000_000)
    found = only(asked(world))
    assert (found.doing, found.waiting_for) == (Doing.WAITING, "permission prompt")
    assert found.since_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert [(each.tool, each.asked) for each in found.calls] == [("Bash", "rm -rf build")]
    assert found.is_running
    assert found.pid == world.processes[0].pid


def test_who_is_busy_does_what_the_log_says(world):
    pid = world.run(ONE, "busy")
    live = asked(world)
    steps = [
        (prompt("mend the gate"), Doing.THINKING, []),
        (thought("which gate?"), Doing.THINKING, []),
        (said("I look.", stop_reason=None), Doing.ANSWERING, []),
        (call(1, "Read", file_path="/srv/kites/gate.py"), Doing.CALLING, ["gate.py"]),
        (result(1, "wood"), Doing.THINKING, []),
        (call(2, "Task", description="paint"), Doing.CALLING, ["paint"]),
    ]
    for record, doing, calls in steps:
        world.write(ONE, record)
        found = only(live)
        assert (found.doing, [each.asked for each in found.calls]) == (doing, calls)
        assert found.prompt == "mend the gate"
    world.write(ONE, result(2, "painted"), said("The gate is mended."))
    assert only(live).doing is Doing.THINKING  # The log is behind: it is busy still.
    world.say(pid, ONE, "idle")
    assert only(live).doing is Doing.IDLE


def test_a_prompt_ends_what_was_interrupted(world):
    world.run(ONE, "busy")
    world.write(ONE, prompt("one"), call(1, "Bash", command="sleep 9"), prompt("two"))
    found = only(asked(world))
    assert (found.doing, found.calls, found.prompt) == (Doing.THINKING, [], "two")


def test_an_old_version_that_says_nothing_waits_if_its_question_is_open(world):
    world.run(ONE, None)
    question = {"questions": [{"question": "Which colour?"}]}
    world.write(ONE, prompt("paint it"), call(1, "AskUserQuestion", **question))
    found = only(asked(world))
    assert (found.doing, found.waiting_for) == (Doing.WAITING, "an answer")
    assert found.calls[0].asked == "Which colour?"


def test_killed_is_crashed_and_left_is_quiet(world):
    world.write(ONE, prompt("one"), call(1, "Bash", command="make"), ago=600)
    world.write(TWO, prompt("two"), said("done"), ago=500)
    os.utime(world.log(ONE), (1, 1))
    os.utime(world.log(TWO), (1, 1))
    first, second = world.run(ONE), world.run(TWO, "idle")
    live = asked(world)
    assert {each.id: each.doing for each in live.look().sessions} == {
        ONE: Doing.CALLING,
        TWO: Doing.IDLE,
    }
    world.kill(first)
    world.leave(second)
    found = {each.id: each for each in live.look().sessions}
    assert (found[ONE].doing, found[ONE].is_running, found[ONE].pid) == (Doing.CRASHED, False, None)
    assert (found[TWO].doing, found[TWO].is_running) == (Doing.QUIET, False)
    assert found[ONE].calls == []


def test_without_a_pid_file_a_log_that_grows_runs(world):
    """Programs that keep no PID file, and other subagents."""
    path = world.write(ONE, prompt("one"), call(1, "Bash", command="make"))
    live = asked(world)
    assert (only(live).doing, only(live).is_running) == (Doing.CALLING, True)
    os.utime(path, (1, 1))
    assert (only(live).doing, only(live).is_running) == (Doing.QUIET, False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"7",
        b'{"sessionId": 7}',
        b"\xff\xfe",
        b"[" * 5000,
        json.dumps({"sessionId": ONE, "pid": 10**30, "status": ["busy"]}).encode(),
        json.dumps({"sessionId": ONE, "pid": "x"}).encode(),
    ],
)
def test_a_pid_file_may_say_anything(world, content):
    world.write(ONE, prompt("one"), said("two"))
    (world.path / "sessions" / "7.json").write_bytes(content)
    assert [each.id for each in asked(world).look().sessions] == [ONE]


@pytest.mark.parametrize(
    "more",
    [
        {"waitingFor": 7, "statusUpdatedAt": "now"},
        {"statusUpdatedAt": 1e300, "cwd": None},
        {"statusUpdatedAt": -(10**18), "cwd": ["x"]},
        {"waitingFor": "x" * 10_000, "statusUpdatedAt": True},
    ],
)
def test_a_living_program_may_say_anything(world, more):
    world.write(ONE, prompt("one"), call(1, "Bash", command="make"))
    world.run(ONE, "waiting", **more)
    found = only(asked(world))
    assert found.doing is Doing.WAITING
    assert len(found.waiting_for or "") <= 500


# -- turnlog's own writers --------------------------------------------------------------------


def test_a_writer_of_our_own_is_running_ended_or_crashed(world):
    with turnlog.open(world.path) as store, store.create(project=".", session_id=ONE) as session:
        session.append(build.user("write it down"))
        live = asked(world)
        found = only(live)
        assert (found.is_running, found.doing, found.pid) == (True, Doing.THINKING, None)
    live.ask()
    assert only(live).doing is Doing.ENDED

    code = (
        "import os, sys, turnlog\n"
        "store = turnlog.open(sys.argv[1])\n"
        "session = store.create(project='.', session_id=sys.argv[2])\n"
        "session.append(turnlog.build.user('one'))\n"
        "print('there', flush=True)\n"
        "sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", code, str(world.path), TWO]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"there\n"
        live.ask()
        states = {each.id: each.doing for each in live.look().sessions}
        assert states == {ONE: Doing.ENDED, TWO: Doing.THINKING}
        child.send_signal(signal.SIGKILL)
        child.wait()
        found = {each.id: each.doing for each in live.look().sessions}  # Without asking again.
        assert found == {ONE: Doing.ENDED, TWO: Doing.CRASHED}


# -- subagents -----------------------------------------------------------------------------------


def test_what_agents_do_is_told_with_whose_it_is(world):
    world.run(ONE, "busy")
    world.write(ONE, prompt("go"), call(1, "Task", description="look around"))
    world.write(ONE, prompt("look"), call(2, "Grep", pattern="kite"), subagent="a1b2")
    world.write(ONE, prompt("rest"), said("done"), subagent="c3d4")
    live = asked(world)
    found = only(live)
    assert found.subagents == 1
    assert [(each.tool, each.subagent) for each in found.calls] == [
        ("Task", None),
        ("Grep", "a1b2"),
    ]
    world.write(ONE, result(2, "three"), said("All found."), subagent="a1b2")
    assert [each.tool for each in only(live).calls] == ["Task"]


# -- the index and the ledger -----------------------------------------------------------------


def test_before_the_index_is_asked_running_sessions_are_there(world):
    world.write(ONE, {"type": "ai-title", "aiTitle": "Kites"}, prompt("fly"), said("up"))
    world.run(ONE, "busy")
    live = world.live()
    found = only(live)
    assert (found.title, found.project, found.cost_usd) == ("Kites", "/srv/kites", "0")
    assert live.look().today is None
    live.ask()
    assert only(live).records == 3
    assert only(live).cost_usd != "0"


def test_a_session_that_has_written_nothing_yet_is_there(world):
    world.run(ONE, "idle")
    found = only(asked(world))
    assert (found.title, found.doing, found.last_active_at) == (None, Doing.IDLE, None)
    assert (found.context_tokens, found.context_window) == (None, None)


def test_every_figure_is_the_ledgers(world):
    for number, session in enumerate((ONE, TWO)):
        more = {"cache_read_input_tokens": 1000 * (number + 1)}
        world.write(session, prompt("p"), said("a"), said("b", **more), project=f"/srv/{number}")
    world.write(ONE, prompt("x"), said("y"), subagent="a1", project="/srv/0")
    live = asked(world)
    document = live.look()
    with open_fresh(world.homes) as index:
        question = Question(by=("session",), zone=UTC)
        rows = ledger(every_response(index, Period()), live._prices, question).rows
    wanted = {row.session: (row.cost_usd, row.messages, row.cache_read) for row in rows}
    found = {each.id: (each.cost_usd, each.messages, each.cache_read) for each in document.sessions}
    assert found == wanted
    by_id = {each.id: each for each in document.sessions}
    assert by_id[TWO].context_tokens == 12 + 2_400 + 2000
    assert by_id[TWO].tokens == sum(
        getattr(by_id[TWO], name)
        for name in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    )
    assert document.block is not None
    assert document.block.is_active
    assert document.block.messages == sum(row.messages for row in rows)
    assert float(document.today.cost_usd) <= sum(float(row.cost_usd) for row in rows)


def test_the_window_is_the_large_one_where_that_is_said_or_seen():
    assert window_of("claude-opus-4-6", 10) == 200_000
    assert window_of("claude-opus-4-6[1m]", 10) == 1_000_000
    assert window_of(None, 200_001) == 1_000_000


def test_only_what_was_active_lately_or_runs_and_only_the_project(world):
    world.write(ONE, prompt("old"), said("yes"), ago=7200)
    world.write(TWO, prompt("new"), said("yes"), ago=60, project="/srv/other")
    world.write(THREE, prompt("old but running"), said("yes"), ago=7200)
    world.run(THREE, "idle")

    def found(**more):
        return {each.id for each in asked(world, **more).look().sessions}

    assert found() == {ONE, TWO, THREE}
    assert found(recent=timedelta(hours=1)) == {TWO, THREE}
    assert found(project="/srv/other") == {TWO}
    assert found(project="/srv/oth") == set()


def test_who_waits_comes_first_then_who_is_at_work(world):
    ids = [f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "abcd"]
    for number, session in enumerate(ids):
        world.write(session, prompt("p"), call(number, "Bash", command="make"), ago=number * 200)
        os.utime(world.log(session), (1, 1))
    world.run(ids[3], "waiting")
    world.run(ids[2], "busy")
    world.run(ids[1], "idle")
    order = [each.id for each in asked(world).look().sessions]
    assert order == [ids[3], ids[2], ids[1], ids[0]]


def test_the_document_is_json_and_comes_back(world):
    world.write(ONE, prompt("one \ud800 two".encode("utf-8", "replace").decode()), said("x"))
    world.run(ONE, "waiting", waitingFor="permission prompt")
    document = asked(world).look()
    data = msgspec.json.encode(document)
    assert msgspec.json.decode(data, type=LiveDocument) == document
    (told,) = json.loads(data)["sessions"]
    grammar = {"id", "project", "title", "started_at", "last_active_at", "records", "home"}
    assert grammar | {"state", "keeping"} <= set(told)
    assert told["doing"] == "waiting"


# -- the end of a log -------------------------------------------------------------------------

_EVENTS = st.lists(
    st.one_of(
        st.builds(lambda: ("prompt", 0)),
        st.tuples(st.just("call"), st.integers(0, 4)),
        st.tuples(st.just("result"), st.integers(0, 4)),
        st.builds(lambda: ("say", 0)),
        st.builds(lambda: ("think", 0)),
    ),
    max_size=30,
)
_MADE = {
    "prompt": lambda _: prompt("p"),
    "call": lambda number: call(number, "Bash", command=f"echo {number}"),
    "result": lambda number: result(number, "r"),
    "say": lambda _: said("s"),
    "think": lambda _: thought("t"),
}


@given(events=_EVENTS)
def test_open_calls_are_those_asked_and_not_answered_since_the_last_prompt_or_answer(events):
    activity, wanted = Activity(), set()
    for kind, number in events:
        activity.take(decode(json.dumps(_MADE[kind](number)).encode()))
        if kind in ("prompt", "say"):
            wanted.clear()
        elif kind == "call":
            wanted.add(f"toolu_{number}")
        elif kind == "result":
            wanted.discard(f"toolu_{number}")
        assert set(activity.calls) == wanted
        assert (activity.doing is Doing.CALLING) == bool(wanted)
        if kind == "say":
            assert activity.doing is Doing.IDLE


def test_of_a_long_log_only_the_end_is_read(world):
    if not os.path.exists("/proc/self/io"):
        pytest.skip("nobody counts what is read here")
    path = world.write(ONE, prompt("the beginning"), said("x" * 1000))
    line = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as log:
        for _ in range(30):
            log.write(line * 1000)
    world.write(ONE, prompt("the end"), call(1, "Bash", command="make"))
    assert path.stat().st_size > 30_000_000

    def read_bytes():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    end = LogEnd(path)
    before = read_bytes()
    activity = end.look()
    assert (activity.prompt, activity.doing) == ("the end", Doing.CALLING)
    assert read_bytes() - before < 3_000_000
    before = read_bytes()
    world.write(ONE, result(1, "made"))
    assert end.look().doing is Doing.THINKING
    assert read_bytes() - before < 100_000


def test_a_log_that_is_replaced_is_read_anew_and_one_that_is_gone_says_nothing(world):
    path = world.write(ONE, prompt("one"), call(1, "Bash", command="make"))
    end = LogEnd(path)
    assert end.look().doing is Doing.CALLING
    other = world.write(TWO, prompt("two"), said("done"))
    path.write_bytes(other.read_bytes()[: path.stat().st_size - 1].rpartition(b"\n")[0] + b"\n")
    assert (end.look().prompt, end.look().calls) == ("two", {})
    path.unlink()
    assert end.look().prompt == "two"
    assert LogEnd(path).look().doing is Doing.IDLE


# -- kept up to date --------------------------------------------------------------------------


def test_sessions_appear_grow_end_and_crash_by_themselves(world):
    heard = []
    with LiveWatch(world.live(), heard.append) as watch:
        watch.start()
        until(lambda: heard and heard[-1].document.today is not None)

        def doing(session):
            found = heard[-1].document.sessions
            return next((each.doing for each in found if each.id == session), None)

        world.write(ONE, prompt("one"))
        pid = world.run(ONE, "busy")
        until(lambda: doing(ONE) is Doing.THINKING)
        world.write(ONE, call(1, "Bash", command="make"))
        until(lambda: doing(ONE) is Doing.CALLING)
        until(lambda: heard[-1].document.sessions[0].cost_usd != "0")
        world.say(pid, ONE, "waiting", waitingFor="permission prompt")
        until(lambda: doing(ONE) is Doing.WAITING)
        world.kill(pid)  # No file tells of it.
        until(lambda: doing(ONE) is Doing.CRASHED)
    count = len(heard)
    world.write(ONE, prompt("nobody listens"))
    assert len(heard) == count


def test_while_nothing_happens_nothing_is_told(world):
    world.write(ONE, prompt("one"), said("two"), ago=900)
    os.utime(world.log(ONE), (1, 1))
    heard = []
    live = world.live()
    with LiveWatch(live, heard.append, poll=0.05) as watch:
        watch.start()
        until(lambda: heard and heard[-1].document.today is not None)
        looks = [0]
        look = live.look

        def counted():
            looks[0] += 1
            return look()

        live.look = counted
        count = len(heard)
        until(lambda: looks[0] >= 5)
        assert len(heard) == count


def test_a_failure_is_told_and_the_view_goes_on(world, monkeypatch):
    world.write(ONE, prompt("one"))
    world.run(ONE, "busy")
    monkeypatch.setenv("TURNLOG_HOME", str(world.path / "file"))
    (world.path / "file").write_text("no directory")
    heard = []
    with LiveWatch(world.live(), heard.append) as watch:
        watch.start()
        until(lambda: heard and heard[-1].problem)
        assert [each.id for each in heard[-1].document.sessions] == [ONE]
