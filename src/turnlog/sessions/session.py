"""One session, read: its logs, its tree, its threads and turns, its agents.

A session is named by its id; its main log and its agents' logs are found where the layouts put
them. Everything is read when it is asked for, and nothing is ever written here. Nodes of the tree
are turned back into records one by one, by offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from turnlog.errors import NotFound
from turnlog.layout import Home, LogFile, find_logs, find_session
from turnlog.log.reader import Placed, read_log, scan_log
from turnlog.log.sources import PlainSource, open_source
from turnlog.log.system import read_at
from turnlog.records.codec import Envelope, decode
from turnlog.records.record import Record
from turnlog.records.summary import SessionSummary
from turnlog.sessions.agents import Agent, Traces, link_agents
from turnlog.sessions.threads import main_thread, whole_thread
from turnlog.sessions.tree import Node, Tree


class Turn(Struct):
    """A prompt and all that follows until the next. The first may have no prompt."""

    prompt: Node | None
    nodes: list[Node]


class Session:
    """A session that may be read. *logs* are its main log, first, and its agents'."""

    def __init__(self, session_id: str, logs: Sequence[LogFile]) -> None:
        self.id = session_id
        self.logs = tuple(logs)
        self.main = next((log for log in logs if log.kind != "agent"), None)

    @classmethod
    def find(cls, homes: Iterable[Home], text: str) -> Session:
        """Find the session whose id begins with *text*, or the ``latest``."""
        logs = find_session(tuple(homes), text)
        session_id = logs[0].session_id or ""
        return cls(session_id, [*logs, *_agents_beside(logs[0], session_id)])

    @property
    def path(self) -> Path:
        """Where the main log lies."""
        if self.main is None:
            raise NotFound(
                f"session {self.id} has lost its main log; only its agents' are left",
                hint="turnlog check shows which logs there are",
            )
        return self.main.path

    @cached_property
    def summary(self) -> SessionSummary:
        """Title, times and counts, from the whole main log."""
        found = SessionSummary()
        for item in read_log(self.path):
            if isinstance(item, Placed):
                found.take(item.record)
        return found

    @cached_property
    def tree(self) -> Tree:
        return tree_of(self.path)

    @cached_property
    def thread(self) -> list[Node]:
        """The conversation as the agent itself would go on from it."""
        return main_thread(self.tree)

    @cached_property
    def whole_thread(self) -> list[Node]:
        """The conversation from its very first record, over compactions and gaps."""
        return whole_thread(self.tree)

    @property
    def turns(self) -> list[Turn]:
        return turns_of(self.whole_thread)

    @cached_property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, each with the call that asked for it where that is known."""
        main = Traces()
        if self.main is not None:
            _gather(main, self.main.path)
        found: dict[str, tuple[Path, Traces]] = {}
        for log in self.logs:
            if log.kind == "agent" and log.agent_id is not None:
                traces = Traces(caller=log.agent_id)
                _gather(traces, log.path)
                found[log.agent_id] = (log.path, traces)
        return link_agents(main, found)

    def records(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, Record]]:
        """Read the records of *nodes* back, one by one."""
        return records_of(self.path, nodes)


def tree_of(path: str | os.PathLike[str]) -> Tree:
    """Read the log at *path* and link its records."""
    return Tree(item for item in read_log(path) if isinstance(item, Placed))


def turns_of(nodes: Iterable[Node]) -> list[Turn]:
    """Cut a thread into turns."""
    turns: list[Turn] = []
    for node in nodes:
        if node.is_prompt or not turns:
            turns.append(Turn(node if node.is_prompt else None, []))
        turns[-1].nodes.append(node)
    return turns


def records_of(
    path: str | os.PathLike[str], nodes: Iterable[Node]
) -> Iterator[tuple[Node, Record]]:
    """Read the records of *nodes*, which stand in the log at *path*, by their offsets."""
    source = open_source(path)
    try:
        if isinstance(source, PlainSource):
            for node in nodes:
                record = decode(read_at(source.fd, node.length, node.offset))
                if isinstance(record, Record):  # Else the log was rewritten under us.
                    yield node, record
            return
    finally:
        source.close()
    # A compressed log has no way back: one pass collects what is wanted.
    wanted = {node.offset: node for node in nodes}
    found = {
        item.offset: item.record
        for item in read_log(path)
        if isinstance(item, Placed) and item.offset in wanted
    }
    yield from ((node, found[offset]) for offset, node in wanted.items() if offset in found)


def _agents_beside(main: LogFile, session_id: str) -> Iterator[LogFile]:
    """Find agents' logs that lie beside the main one; only their records tell whose they are."""
    for log in find_logs(main.home):
        beside = log.kind == "agent" and log.session_id is None
        if beside and log.project_key == main.project_key and _owner(log.path) == session_id:
            yield log


def _owner(path: Path) -> str | None:
    envelopes = (item for item in scan_log(path) if isinstance(item, Envelope))
    return next((each.session_id for each in envelopes if each.session_id is not None), None)


def _gather(traces: Traces, path: Path) -> None:
    for item in read_log(path):
        if isinstance(item, Placed):
            traces.see(item)
