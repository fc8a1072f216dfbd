"""turnlog reads a session while the real `claude` writes it, its agents and parallel calls too.

Every look is a whole picture: no damage, nothing that is not there in the end, and at every moment
the conversation that the official SDK would show of the same bytes.
"""

import threading
import time

import pytest

import turnlog
from e2e.fake_api import said_since
from e2e.orchard import ID
from e2e.program import PATIENCE_SECONDS
from turnlog import build
from turnlog.formats import Home, claude_log
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS, How
from turnlog.sessions.reading.threads import visible
from turnlog.sessions.state import agent_processes

PARALLEL = {"toolu_one", "toolu_two", "toolu_three", "toolu_agent"}


class Walk:
    """Answers as a model would that has four things looked at at once, one of them by an agent.

    The agent has two looked at, one of them by an agent of its own.
    """

    def __init__(self, project, *, background):
        self.apples = project / "apples"
        self.apples.write_text("forty-two\n")
        self.background = background

    def __call__(self, asked):
        said = said_since(asked)
        names = {tool["name"] for tool in asked.get("tools", ())}
        words = " ".join(block["text"] for block in said if block["type"] == "text")
        if any(block["type"] == "tool_result" for block in said):
            return None
        if "Walk the orchard" in words:
            return [
                build.text("I walk."),
                bash("toolu_one", "sleep 0.7; echo pears"),
                bash("toolu_two", "echo plums; sleep 0.3"),
                build.call("Read", {"file_path": str(self.apples)}, call_id="toolu_three"),
                self.agent("toolu_agent", "Count the figs", names),
            ]
        if "Count the figs" in words:
            return [
                bash("toolu_figs", "sleep 0.2; echo nine"),
                self.agent("toolu_nested", "Count the leaves", names),
            ]
        return None

    def agent(self, call_id, prompt, names):
        asked = {
            "description": "Count",
            "prompt": prompt,
            "subagent_type": "general-purpose",
            "run_in_background": self.background,
        }
        # Its name has changed before.
        (name,) = SUBAGENT_TOOLS & names
        return build.call(name, asked, call_id=call_id)


def bash(call_id, command):
    return build.call("Bash", {"command": command, "description": "Look"}, call_id=call_id)


class Follower(threading.Thread):
    """Follows one log, from before it is there."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.items = []
        self.stop = threading.Event()
        self.start()

    def run(self):
        for item in turnlog.follow_log(self.path, stop=self.stop, poll_seconds=0.01):
            self.items.append(item)

    def end(self):
        """Wait until it has seen the whole log, and give what it saw."""
        records = len(raws(self.path))
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while len(self.items) < records and self.is_alive() and time.monotonic() < give_up_at:
            time.sleep(0.01)
        self.stop.set()
        self.join(PATIENCE_SECONDS)
        return self.items


class Watcher:
    """Reads the session over and over; what one look saw must be there at the next."""

    def __init__(self, claude):
        self.claude = claude
        self.main = claude_log(claude.home, claude.project, ID)
        self.followers = {self.main: Follower(self.main)}
        self.seen = {}
        self.threads = {}
        self.links = []
        self.followed = {}
        self.was_running = False

    def look(self):
        try:
            session = self.claude.store.session(ID)
        except turnlog.NotFound:
            assert not self.seen, "a session that was there is gone"
            return
        for log in session.logs:
            if log.path not in self.followers:
                self.followers[log.path] = Follower(log.path)
            before, now = self.seen.get(log.path, []), raws(log.path)
            assert now[: len(before)] == before
            self.seen[log.path] = now
        self.threads[end_of(session.tree)] = uuids(visible(session.thread))
        self.links += [(each.id, each.spawn.call_id) for each in session.subagents if each.spawn]
        assert [row.id for row in self.claude.store.sessions()] == [ID]
        running = agent_processes(Home(self.claude.home))
        self.was_running |= any(each.session_id == ID and each.is_alive for each in running)

    def end(self):
        self.followed = {path: follower.end() for path, follower in self.followers.items()}


def raws(path):
    """Give the bytes of every record, and fail if there is anything else."""
    items = list(turnlog.read_log(path))
    assert all(isinstance(item, turnlog.Placed) for item in items), items
    return [item.record.raw for item in items]


def end_of(tree):
    """Tell how much of the log a tree was made from."""
    places = [*tree.nodes, *tree.loose]
    return max((place.offset + place.length for place in places), default=0)


def uuids(nodes):
    return [node.uuid for node in nodes]


@pytest.fixture(
    params=[
        pytest.param(True, id="agents in the background"),
        pytest.param(False, id="agents awaited", marks=pytest.mark.slow),
    ]
)
def watched(request, claude, api):
    """A session that was watched while it was written, and its watcher."""
    api.answer = Walk(claude.project, background=request.param)
    api.pause_seconds = 0.02
    watcher = Watcher(claude)
    order = ("-p", "Walk the orchard", "--session-id", ID, "--dangerously-skip-permissions")
    with claude.started(*order) as process:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < give_up_at:
            watcher.look()
            time.sleep(0.01)
        assert process.returncode == 0
    watcher.look()
    watcher.end()
    return watcher


def test_a_session_is_read_while_claude_writes_it(watched, claude, read_by_sdk, caplog):
    session = claude.store.session(ID)
    assert session.path == watched.main
    assert len(session.logs) == 3
    assert not caplog.get_records("setup")  # Damage and restarts are warned of.

    assert set(watched.followed) == {log.path for log in session.logs}
    for path, items in watched.followed.items():
        assert [item.record.raw for item in items] == raws(path)
        assert turnlog.validate(path).is_valid
    assert len(watched.threads) > 1  # It was seen as it grew.
    assert watched.was_running

    assert not session.tree.gaps
    thread = session.thread
    assert {call for node in thread for call in node.results} == PARALLEL
    assert {call for node in thread for call in node.calls} == PARALLEL
    assert uuids(visible(thread)) == read_by_sdk(ID)

    # At each moment it was the conversation that the SDK shows of as many bytes.
    data = watched.main.read_bytes()
    for end, seen in sorted(watched.threads.items()):
        watched.main.write_bytes(data[:end])
        assert seen == read_by_sdk(ID)


def test_agents_are_linked_while_claude_writes_them(watched, claude):
    session = claude.store.session(ID)
    agents = {agent.spawn.call_id: agent for agent in session.subagents if agent.spawn}
    assert set(agents) == {"toolu_agent", "toolu_nested"}
    assert len(session.subagents) == 2
    outer, inner = agents["toolu_agent"], agents["toolu_nested"]
    assert {outer.how, inner.how} <= {How.RESULT, How.META}  # Not by guessing.
    assert outer.spawn.caller is None
    assert inner.spawn.caller == outer.id
    (caller,) = [node for node in session.thread if node.uuid == outer.spawn.uuid]
    assert "toolu_agent" in caller.calls
    # A link that was seen early was the right one already.
    assert set(watched.links) == {(outer.id, "toolu_agent"), (inner.id, "toolu_nested")}
