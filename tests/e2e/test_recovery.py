"""The real `claude` goes on with a session that was injured and recovered.

What survived the injury arrives at the API, all of it, in order and once.
"""

import shutil
import time

import pytest

import turnlog
from e2e.fake_api import said_since
from e2e.orchard import ID, LONG, PARENTS, arrived, write_long_session
from e2e.program import PATIENCE_SECONDS
from sampling import sampled
from turnlog import build
from turnlog.sessions.reading.threads import visible

pytestmark = pytest.mark.skipif(
    not hasattr(turnlog.Store, "recover"), reason="this store cannot recover sessions"
)


def recover(store, session_id):
    return store.recover(session_id)


# An injury is given the lines of the long session's records and gives the bytes that are left.


def torn_tail(lines):
    return b"".join(lines) + b'{"parentUuid":"x","type":"user","mess'


def glued(lines):
    return b"".join(lines).replace(b"}\n{", b"}{", 7)


def nul_runs(lines):
    return b"".join(
        b"\0" * 300 + line if number % 3 == 1 else line for number, line in enumerate(lines)
    )


def all_at_once(lines):
    return torn_tail([nul_runs(lines[:5]), glued(lines[5:])])


INJURIES = [
    pytest.param(torn_tail, (), id="a torn tail"),
    pytest.param(glued, (), id="glued lines"),
    pytest.param(nul_runs, (), id="runs of NULs before records"),
    pytest.param(b"".join, (3,), id="a missing parent"),
    pytest.param(b"".join, (4,), id="a missing prompt"),
    pytest.param(b"".join, (3, 10), id="two missing parents"),
    pytest.param(b"".join, (3, 4, 5, 7), id="a missing stretch"),
    pytest.param(b"".join, (2,), id="a lost tool result"),
    pytest.param(b"".join, (7,), id="a lost result beside the thread"),
    pytest.param(b"".join, (8,), id="a lost result of a parallel call"),
    pytest.param(b"".join, (7, 8), id="all results of a response lost"),
    pytest.param(all_at_once, (2, 9), id="everything at once"),
]


def injure(log, injury, lost, uuids):
    """Take the records numbered *lost* out of the log, then have *injury* at its bytes."""
    gone = [uuids[number].encode() for number in lost]
    lines = [
        line
        for line in log.read_bytes().splitlines(keepends=True)
        if not any(b'"uuid":"' + uuid in line for uuid in gone)
    ]
    log.write_bytes(injury(lines))


@pytest.mark.parametrize(("injury", "lost"), sampled(INJURIES, 3))
def test_claude_goes_on_with_all_that_survived(claude, api, injury, lost):
    log, uuids = write_long_session(claude)
    injure(log, injury, lost, uuids)
    recover(claude.store, ID)
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    sent = arrived(api.requests[-1])
    survived = [said for number, said in enumerate(LONG) if number not in lost]
    assert [said for said in sent if said in LONG] == survived
    # Lost results are stood in for, so that their calls may be sent; nothing else is made up.
    *added, prompt = [said for said in sent if said not in LONG]
    assert prompt == ("user", "text", "And pears?")
    open_calls = [n for n in lost if LONG[n][1] == "tool_result" and PARENTS[n] not in lost]
    assert [kind for _, kind, _ in added] == ["tool_result"] * len(open_calls)


@pytest.mark.parametrize(("injury", "lost"), INJURIES)
def test_a_recovered_session_is_whole_for_every_reader(claude, read_by_sdk, injury, lost):
    log, uuids = write_long_session(claude)
    injure(log, injury, lost, uuids)
    recover(claude.store, ID)
    session = claude.store.session(ID)
    assert not turnlog.repair(log).salvaged  # No record is left on a damaged line.
    assert not session.tree.gaps
    ours = [node.uuid for node in visible(session.thread)]
    assert ours == read_by_sdk(ID)
    survived = [uuid for number, uuid in enumerate(uuids) if number not in lost]
    assert set(survived) <= set(ours)


@pytest.mark.slow
@pytest.mark.parametrize(("injury", "lost"), INJURIES)
def test_recovering_twice_is_recovering_once(claude, injury, lost):
    log, uuids = write_long_session(claude)
    injure(log, injury, lost, uuids)
    recover(claude.store, ID)
    after = log.read_bytes()
    recover(claude.store, ID)
    assert log.read_bytes() == after


def walk_and_wait(asked):
    """Answer the first prompt with a call that ends at once and one that waits for the test."""
    if any(block["type"] == "tool_result" for block in said_since(asked)):
        return None
    waiting = "while [ -e waiting ]; do sleep 0.05; done"
    return [
        build.text("I walk."),
        build.call("Bash", {"command": "echo ripe", "description": "Look"}),
        build.call("Bash", {"command": waiting, "description": "Wait"}),
    ]


def test_claude_goes_on_after_it_was_killed(claude, api):
    waiting = claude.project / "waiting"
    waiting.touch()
    api.answer = walk_and_wait
    order = ("-p", "Walk with me", "--session-id", ID, "--dangerously-skip-permissions")
    try:
        with claude.started(*order) as process:
            wait_for_calls(claude.store, process)
            process.kill()
    finally:
        waiting.unlink()  # The call that nobody waits for any more ends, too.
    api.answer = lambda _asked: None
    assert [row.id for row in claude.store.crashed()] == [ID]
    assert not recover(claude.store, ID).damaged
    done = claude("--resume", ID, "-p", "And pears?")
    assert done.returncode == 0, done.stderr
    sent = arrived(api.requests[-1])
    assert ("user", "text", "Walk with me") in sent
    assert ("assistant", "text", "I walk.") in sent
    kinds = [kind for _, kind, _ in sent]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 2
    assert ("user", "tool_result", "ripe") in sent
    assert sent[-1] == ("user", "text", "And pears?")


def wait_for_calls(store, process):
    """Wait until both calls are in the log, and the result of one."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        assert process.poll() is None
        try:
            nodes = store.session(ID).tree.nodes
        except turnlog.NotFound:
            nodes = []
        if sum(len(node.calls) for node in nodes) == 2 and any(node.results for node in nodes):
            return
        time.sleep(0.02)
    pytest.fail("the program did not get as far as a result")


@pytest.mark.slow
@pytest.mark.parametrize("from_end", [2, 9])
def test_a_session_that_claude_wrote_goes_on_as_if_nothing_was_lost(claude, api, from_end):
    """Records that say nothing by themselves are lost, and with them the way to those above."""
    claude("-p", "How many apples?", "--session-id", ID)
    claude("--resume", ID, "-p", "And plums?")
    session = claude.store.session(ID)
    shutil.copytree(claude.home, untouched := claude.home.with_name("untouched"))
    silent = [node for node in session.thread if not node.is_spoken]
    lost = silent[-from_end]
    data = session.path.read_bytes()
    session.path.write_bytes(data[: lost.offset] + data[lost.offset + lost.length + 1 :])
    assert claude.store.session(ID).tree.gaps
    recover(claude.store, ID)
    claude("--resume", ID, "-p", "And pears?")
    sent = arrived(api.requests[-1])
    # It went on from where it would have: all that survived stands above.
    above = {node.uuid for node in claude.store.session(ID).thread}
    assert {node.uuid for node in session.thread} - {lost.uuid} <= above
    shutil.rmtree(claude.home)
    untouched.rename(claude.home)
    claude("--resume", ID, "-p", "And pears?")
    assert sent == arrived(api.requests[-1])
    assert [words for role, _, words in sent if role == "user"] == [
        "How many apples?",
        "And plums?",
        "And pears?",
    ]
