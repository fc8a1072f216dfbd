"""One session, read: its logs, its tree, its threads and turns, its agents.

A session is named by its id; its main log and its agents' logs are found where the layouts put
them. Where sessions share the logs of days, its main logs are several and only its own records in
them count. Everything is read when it is asked for, and nothing is ever written here. Nodes of the
tree are turned back into records one by one, by offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, takewhile
from pathlib import Path
from typing import Self

from msgspec import Struct

from turnlog.errors import AmbiguousSession, NotFound
from turnlog.formats import Home, LayoutName, LogFile, find_logs
from turnlog.records.record import Record
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.dated import find_any_session, read_day
from turnlog.sessions.metadata import Metadata, MetadataFold, TitleCandidates, size_listed
from turnlog.sessions.owners import find_orphaned_subagents, owner_in
from turnlog.sessions.reading.prompt_queue import QueuedPrompt, queued_in
from turnlog.sessions.reading.subagents import Subagent, Traces, link_subagents
from turnlog.sessions.reading.threads import main_thread, whole_thread
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.sessions.totals import Account, SessionTotals
from turnlog.storage.blobs import decode_line
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import Seekable, open_source


class Turn(Struct):
    """A prompt and all that follows until the next."""

    prompt: Node
    nodes: list[Node]


class Session:
    """A session that may be read. *logs* are its main logs, first, and its agents'.

    ``items`` gives its records as they stand in the log, ``records`` those of its whole thread.
    Everything is read when it is asked for; ask the store for the session again to see what was
    appended since.
    """

    def __init__(self, session_id: str, logs: Sequence[LogFile]) -> None:
        self.id = session_id
        self.logs = tuple(logs)
        self.main_logs = _main_logs(self.logs)
        self.agent_logs = _agent_logs(self.logs, self.main_logs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @classmethod
    def find(cls, homes: Iterable[Home], text: str) -> Self:
        """Find the session whose id begins with *text*, or the ``latest``.

        If there is none, it may have lost its main log, and only its agents know of it.
        """
        homes = tuple(homes)
        try:
            return cls._of(find_any_session(homes, text))
        except NotFound:
            left = find_orphaned_subagents(homes, text)
            if not left:
                raise
            return cls(left[0].session_id or "", left)

    @classmethod
    def _of(cls, logs: Sequence[LogFile]) -> Self:
        session_id = logs[0].session_id or ""
        return cls(session_id, [*logs, *_agents_beside(logs[0], session_id)])

    @classmethod
    def find_exactly(cls, homes: Iterable[Home], session_id: str) -> Self | None:
        """Find the session of just this id; None if there is none, whatever others begin with."""
        try:
            found = cls._of(find_any_session(tuple(homes), session_id))
        except (NotFound, AmbiguousSession):
            return None
        return found if found.id == session_id else None

    @property
    def path(self) -> Path:
        """Where the main log lies; of several, the newest."""
        if not self.main_logs:
            raise NotFound(
                f"session {self.id} has lost its main log; only its agents' are left",
                hint=f"turnlog show {self.id} shows what they did",
            )
        return self.main_logs[-1].path

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where all its main logs lie."""
        return tuple(log.path for log in self.main_logs)

    @property
    def read_logs(self) -> tuple[LogFile, ...]:
        """The logs in which all stands that was said in it; of copies of one only the first."""
        return (*self.main_logs, *self.agent_logs)

    def read(self, log: LogFile) -> Iterator[Placed]:
        """Read the session's records in one of its logs."""
        if log.kind == "day":
            return (said.placed for said in read_day(log) if said.session_id == self.id)
        return (item for item in read_log(log.path) if isinstance(item, Placed))

    def items(self) -> Iterator[Placed]:
        """Read the records of the main logs, in order; ``item.record`` is the record.

        Damage is passed over: ``turnlog.read_log(session.path)`` gives it, too.
        """
        self.path  # noqa: B018 - An error if there is none.
        for number, log in enumerate(self.main_logs):
            items = self.read(log)
            yield from (item._replace(log=number) for item in items) if number else items

    @property
    def layout(self) -> LayoutName:
        """The layout in which its main log lies."""
        self.path  # noqa: B018
        return self.main_logs[-1].layout

    @cached_property
    def facts(self) -> MetadataFold:
        """What the main logs say about the session itself."""
        found, called = MetadataFold(), TitleCandidates()
        for item in self.items():
            called.take(item.record, item.offset, found)
        found.summary = self.as_listed(found.summary, called)
        return found

    def as_listed(self, summary: SessionSummary, called: TitleCandidates) -> SessionSummary:
        """Call the session as every list does, given what its main logs say of it, and where.

        Its shares of days' logs are read whole by all.
        """
        if self.main_logs[-1].kind == "day":
            return summary
        return called.as_listed(summary, size_listed(self.path))

    @property
    def summary(self) -> SessionSummary:
        """Title, times and counts."""
        return self.facts.summary

    @property
    def metadata(self) -> Metadata:
        """What is known of the session; a store can tell whether it is pinned as well."""
        found = self.facts.metadata(self.id)
        if found.crashed:
            # Perhaps its writer said goodbye after the log was read, and was gone when we asked.
            del self.facts
            found = self.facts.metadata(self.id)
        return found

    @property
    def totals(self) -> SessionTotals:
        """What the session used and what it cost, its agents included."""
        account = Account()
        for log in self.read_logs:
            for item in self.read(log):
                account.take(item.record)
        return account.priced(session_id=self.id)

    @cached_property
    def tree(self) -> Tree:
        """Its records, each with its parent and its children."""
        return Tree(self.items())

    @cached_property
    def thread(self) -> list[Node]:
        """The conversation as the agent itself would go on from it: since the last compaction."""
        return main_thread(self.tree)

    @cached_property
    def whole_thread(self) -> list[Node]:
        """The conversation from its very first record, over compactions and gaps."""
        return whole_thread(self.tree)

    @property
    def turns(self) -> list[Turn]:
        """The whole thread from its first prompt on, cut at each."""
        return turns_of(self.whole_thread)

    @property
    def opening(self) -> list[Node]:
        """What stands in the whole thread before the first prompt: it is of no turn."""
        return opening_of(self.whole_thread)

    @cached_property
    def agents(self) -> tuple[Subagent, ...]:
        """The agents, each with the call that asked for it where that is known.

        Their records are in logs of their own, or in sidechains of the main log.
        """
        found: dict[str, tuple[Path, Traces]] = {}
        for log in self.agent_logs:
            if log.agent_id is not None:
                traces = Traces(caller=log.agent_id)
                self._gather(traces, log)
                found[log.agent_id] = (log.path, traces)
        return link_subagents(self._main_traces, found, self.path if self.main_logs else None)

    def agent_tree(self, agent: Subagent) -> Tree:
        """Return the records of one of its agents, each with its parent and its children."""
        if agent.sidechain is None:
            return tree_of(agent.path)
        return self.tree.sidechain(self._sidechains.get(agent.sidechain, ()))

    def agent_records(
        self, agent: Subagent, nodes: Iterable[Node]
    ) -> Iterator[tuple[Node, Record]]:
        """Read the records of *nodes* of an agent's tree, one by one."""
        return records_of(agent.path if agent.sidechain is None else self.paths, nodes)

    @cached_property
    def sidechain_agents(self) -> dict[str, Subagent]:
        """The agents of the records in sidechains of the main log, by the records' uuids."""
        of_start = {agent.sidechain: agent for agent in self.agents}
        found = self._main_traces.sidechain_of.items()
        return {uuid: of_start[start] for uuid, start in found if start in of_start}

    @cached_property
    def _main_traces(self) -> Traces:
        found = Traces()
        for log in self.main_logs:
            self._gather(found, log)
        return found

    @cached_property
    def _sidechains(self) -> dict[str, list[str]]:
        return self._main_traces.members()

    def records(self, nodes: Iterable[Node] | None = None) -> Iterator[tuple[Node, Record]]:
        """Read the records of *nodes*, or of the whole thread, one by one.

        Nodes are what ``thread``, ``whole_thread``, ``turns`` and ``tree`` are made of.
        """
        return records_of(self.paths, self.whole_thread if nodes is None else nodes)

    @property
    def conflicts(self) -> list[Node]:
        """The records that a later one with the same uuid replaced, and that said something else.

        One that was written twice as it is, is none.
        """
        replaced = self.tree.replaced
        counting = {node.uuid: self.tree.by_uuid[node.uuid] for node in replaced}
        later = {node.uuid: record.raw for node, record in self.records(counting.values())}
        return [
            node
            for node, record in self.records(replaced)
            if record.raw != later.get(node.uuid, record.raw)  # The log may be rewritten under us.
        ]

    @property
    def carried(self) -> dict[str, int]:
        """How many records of its main logs name other sessions: a fork or a resume copied them."""
        named = self.tree.session_ids
        return {other: count for other, count in named.most_common() if other != self.id}

    @property
    def queued(self) -> list[QueuedPrompt]:
        """The prompts that were typed while the agent was busy, and that it never took."""
        return queued_in(self.paths, self.id)

    def _gather(self, traces: Traces, log: LogFile) -> None:
        for item in self.read(log):
            traces.see(item)


def tree_of(path: str | os.PathLike[str]) -> Tree:
    """Read the log at *path* and link its records."""
    return Tree(item for item in read_log(path) if isinstance(item, Placed))


def turns_of(nodes: Iterable[Node]) -> list[Turn]:
    """Cut a thread into turns; what stands before the first prompt is of none."""
    turns: list[Turn] = []
    for node in nodes:
        if node.is_prompt:
            turns.append(Turn(node, []))
        if turns:
            turns[-1].nodes.append(node)
    return turns


def opening_of(nodes: Iterable[Node]) -> list[Node]:
    """Return what stands in a thread before its first prompt."""
    return list(takewhile(lambda node: not node.is_prompt, nodes))


def records_of(
    paths: str | os.PathLike[str] | Sequence[Path], nodes: Iterable[Node]
) -> Iterator[tuple[Node, Record]]:
    """Read the records of *nodes*, which stand in the logs at *paths*, by their offsets."""
    if isinstance(paths, str | os.PathLike):
        yield from _records_in(paths, nodes)
        return
    for number, together in groupby(nodes, key=lambda node: node.log):
        yield from _records_in(paths[number], together)


def _records_in(
    path: str | os.PathLike[str], nodes: Iterable[Node]
) -> Iterator[tuple[Node, Record]]:
    source = open_source(path)
    try:
        if isinstance(source, Seekable):
            for node in nodes:
                record = decode_line(path, source.read_at(node.length, node.offset))
                if isinstance(record, Record):  # Else the log was rewritten under us.
                    yield node, record
            return
    finally:
        source.close()
    # A log without a way back: one pass collects what is wanted.
    wanted = {node.offset: node for node in nodes}
    found = {
        item.offset: item.record
        for item in read_log(path)
        if isinstance(item, Placed) and item.offset in wanted
    }
    yield from ((node, found[offset]) for offset, node in wanted.items() if offset in found)


def _main_logs(logs: tuple[LogFile, ...]) -> tuple[LogFile, ...]:
    """Choose the logs that are read: one of its own, or its shares of days' logs.

    Several logs of its own are copies of one; the first is the one that everybody reads.
    """
    own = next((log for log in logs if log.kind == "session"), None)
    if own is not None:
        return (own,)
    days = [log for log in logs if log.kind == "day"]
    return tuple(sorted(days, key=lambda log: log.path.name))


def _agent_logs(logs: tuple[LogFile, ...], main_logs: tuple[LogFile, ...]) -> tuple[LogFile, ...]:
    """Choose the agents' logs that are read: those of the main log's place, and what it lacks.

    Two logs of one agent in one place are two logs; one elsewhere, or an archive, is a copy.
    """
    agents = [log for log in logs if log.kind == "agent"]
    here = {(log.home, log.project_key) for log in main_logs}
    agents.sort(
        key=lambda log: ((log.home, log.project_key) not in here, log.compression is not None)
    )
    taken: dict[str | None, tuple[object, ...]] = {}
    found = []
    for log in agents:
        place = (log.home, log.project_key, log.compression)
        if taken.setdefault(log.agent_id, place) == place:
            found.append(log)
    return tuple(found)


def _agents_beside(main: LogFile, session_id: str) -> Iterator[LogFile]:
    """Find agents' logs that lie beside the main one; only their records tell whose they are."""
    for log in find_logs(main.home):
        beside = log.kind == "agent" and log.session_id is None
        if beside and log.project_key == main.project_key and owner_in(log.path) == session_id:
            yield log
