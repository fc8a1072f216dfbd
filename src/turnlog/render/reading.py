"""One pass over each log of a session: all that must be known before it is told.

`Session` answers each question with a pass of its own, which is right for whoever asks one. An
export asks all of them: what the session is about, how its records hang together, which call asked
for which agent, what is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.formats import LogFile
from turnlog.records.session_summary import SessionSummary
from turnlog.render.conversation import Damaged
from turnlog.sessions.metadata import MetadataFold, TitleCandidates
from turnlog.sessions.reading.subagents import Subagent, Traces, link_subagents
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed, Reader


class SessionRead(Struct):
    """What one pass over the logs has told."""

    tree: Tree
    summary: SessionSummary
    damaged: Damaged
    agents: tuple[Subagent, ...]
    agent_trees: dict[str, Tree] = field(default_factory=dict)


def read_session(session: Session) -> SessionRead:
    """Read the logs of *session*, each once."""
    session.path  # noqa: B018 - An error if it has lost its main log.
    main = _Pass(Traces())
    tree = Tree(main.items(session))
    found: dict[str, tuple[Path, Traces]] = {}
    trees: dict[str, Tree] = {}
    for log in session.agent_logs:
        if log.agent_id is not None:
            one = _Pass(Traces(caller=log.agent_id))
            try:
                trees[log.agent_id] = Tree(one.of(session, log))
            except NotFound:  # Gone since it was listed.
                continue
            found[log.agent_id] = (log.path, one.traces)
    agents = link_subagents(main.traces, found, session.path)
    members = main.traces.members()
    for agent in agents:
        if agent.sidechain is not None:
            trees[agent.id] = tree.sidechain(members[agent.sidechain])
    return SessionRead(
        tree=tree,
        summary=session.as_listed(main.facts.summary, main.called),
        damaged=main.damaged,
        agents=agents,
        agent_trees=trees,
    )


class _Pass:
    """Feeds everything that wants to see the records of a log."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.facts, self.called = MetadataFold(), TitleCandidates()
        self.damaged = Damaged(places=0, size_bytes=0)

    def items(self, session: Session) -> Iterator[Placed]:
        """Give the records of the main logs, in order."""
        for number, log in enumerate(session.main_logs):
            for item in self.of(session, log):
                yield item._replace(log=number) if number else item

    def of(self, session: Session, log: LogFile) -> Iterator[Placed]:
        """Give the records of one log."""
        # In the log of a day others' records stand too, and whose damage it is nobody can tell.
        for item in session.read(log) if log.kind == "day" else self._whole(log):
            self.called.take(item.record, item.offset, self.facts)
            self.traces.see(item)
            yield item

    def _whole(self, log: LogFile) -> Iterator[Placed]:
        with Reader(log.path) as reader:
            for item in reader:
                if isinstance(item, Placed):
                    yield item
                else:
                    self._damage(item.length)
            left = reader.pending
            if left is not None and left.record is None:
                self._damage(left.length)

    def _damage(self, length: int) -> None:
        self.damaged.places += 1
        self.damaged.size_bytes += length
