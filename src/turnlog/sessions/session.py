"""Read one session: its logs, its tree, its threads and turns, its subagents.

The main log and the subagents' logs are found by the session's id. Where sessions share the logs of
days, it has several main logs and only its own records in them count. Everything is read on demand,
and nothing is written. Nodes of the tree are converted back to records one by one, by offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Self

from msgspec import Struct

from turnlog.errors import AmbiguousSession, NotFound
from turnlog.formats import Format, Home, LayoutName, LogFile, format_named
from turnlog.formats.format import InheritedPart
from turnlog.records.meaning import as_subagents
from turnlog.records.record import Record
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import Metadata, MetadataFold, TitleCandidates, size_listed
from turnlog.sessions.owners import find_any_session, find_orphaned_subagents, owner_in, read_day
from turnlog.sessions.reading.prompt_queue import QueuedPrompt, queued_in
from turnlog.sessions.reading.subagents import Subagent, Traces, link_subagents
from turnlog.sessions.reading.threads import main_thread, whole_thread
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.sessions.totals import Account, SessionTotals
from turnlog.storage.blobs import decode_line
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import Seekable, open_source


class Turn(Struct):
    """A prompt and everything until the next."""

    prompt: Node
    nodes: list[Node]


class Session:
    """A session to read. *logs* are its main logs, first, and its subagents'.

    ``items`` yields its records in log order, ``records`` those of its whole thread. Everything is
    read on first use and cached; get the session from the store again to see later appends.
    """

    def __init__(self, session_id: str, logs: Sequence[LogFile]) -> None:
        self.id = session_id
        self.logs = tuple(logs)
        self.main_logs = _main_logs(self.logs)
        self.subagent_logs = _subagent_logs(self.logs, self.main_logs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @classmethod
    def find(cls, homes: Iterable[Home], text: str) -> Self:
        """Return the session whose id begins with *text*, or the ``latest``.

        If there is none, it may have lost its main log, and only its agents' logs name it.
        """
        homes = tuple(homes)
        try:
            return cls._of(homes, text)
        except NotFound:
            left = find_orphaned_subagents(homes, text)
            if not left:
                raise
            return cls(left[0].session_id or "", left)

    @classmethod
    def _of(cls, homes: Iterable[Home], text: str) -> Self:
        unnamed: list[LogFile] = []
        logs = find_any_session(homes, text, unnamed=unnamed)
        session_id = logs[0].session_id or ""
        return cls(session_id, [*logs, *_agents_next_to(logs[0], session_id, unnamed)])

    @classmethod
    def find_exactly(cls, homes: Iterable[Home], session_id: str) -> Self | None:
        """Return the session with exactly this id, or None."""
        try:
            found = cls._of(homes, session_id)
        except (NotFound, AmbiguousSession):
            return None
        return found if found.id == session_id else None

    @property
    def main_log(self) -> LogFile:
        """The main log; of several, the newest. Raises NotFound if it is lost."""
        if not self.main_logs:
            raise NotFound(
                f"session {self.id} has lost its main log; only its subagents' are left",
                hint="read its subagents",
                code="only-subagents",
                about=self.id,
            )
        return self.main_logs[-1]

    @property
    def path(self) -> Path:
        """The path of the main log; of several, the newest."""
        return self.main_log.path

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of all its main logs."""
        return tuple(log.path for log in self.main_logs)

    @property
    def read_logs(self) -> tuple[LogFile, ...]:
        """The logs with its whole conversation; of several copies only the first."""
        return (*self.main_logs, *self.subagent_logs)

    def read(self, log: LogFile) -> Iterator[Placed]:
        """Read the session's records in one of its logs."""
        if log.kind == "day":
            return (dated.placed for dated in read_day(log) if dated.session_id == self.id)
        items = (item for item in read_log(log.path) if isinstance(item, Placed))
        return items if log.agent_id is None else of_subagent(items, log)

    def items(self) -> Iterator[Placed]:
        """Yield the records of the main logs, in order; ``item.record`` is the record.

        Damage is skipped: ``turnlog.read_log(session.path)`` returns it, too.
        """
        self.main_log  # noqa: B018 - Raises if it is lost.
        for number, log in enumerate(self.main_logs):
            items = self.read(log)
            yield from (item._replace(log=number) for item in items) if number else items

    @cached_property
    def inherited(self) -> Sequence[InheritedPart]:
        """The parts of other sessions' logs that a fork continues without a copy of them."""
        return self.format.inherited(self.main_log) if self.main_logs else ()

    def inherited_items(self) -> Iterator[Placed]:
        """Yield the records that a fork continues; they are in ``tree``, but not its own."""
        for number, part in enumerate(self.inherited, len(self.main_logs)):
            for item in read_log(part.log.path):
                if item.offset >= part.end:
                    break
                if isinstance(item, Placed):
                    yield item._replace(log=number)

    @property
    def thread_paths(self) -> tuple[Path, ...]:
        """The paths of all logs with records of its thread, as nodes number them."""
        return (*self.paths, *(part.log.path for part in self.inherited))

    @property
    def format(self) -> Format:
        """The format of the current main log."""
        return format_named(self.layout)

    @property
    def layout(self) -> LayoutName:
        """The layout of its main log."""
        return self.main_log.layout

    @cached_property
    def facts(self) -> MetadataFold:
        """What the main logs say about the session itself."""
        found, called = MetadataFold(), TitleCandidates()
        for item in self.items():
            called.take(item.record, item.offset, found)
        found.summary = self.as_listed(found.summary, called)
        return found

    def as_listed(self, summary: SessionSummary, called: TitleCandidates) -> SessionSummary:
        """Set the title that lists show, given the candidates in its main logs.

        Its shares of days' logs are always read completely.
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
        """Metadata of the session; the store also knows whether it is pinned."""
        found = self.facts.metadata(self.id)
        if found.crashed:
            # Its writer may have ended after the log was read, and before we checked the process.
            del self.facts
            found = self.facts.metadata(self.id)
        return found

    @property
    def totals(self) -> SessionTotals:
        """Usage and cost of the session, including its agents."""
        account = Account()
        for log in self.read_logs:
            account.begin_log()
            for item in self.read(log):
                account.take(item.record)
        return account.priced(session_id=self.id)

    @cached_property
    def tree(self) -> Tree:
        """Its records, each with its parent and its children."""
        return Tree(chain(self.inherited_items(), self.items()))

    @cached_property
    def thread(self) -> list[Node]:
        """The conversation as the agent would continue it: since the last compaction."""
        return main_thread(self.tree)

    @cached_property
    def whole_thread(self) -> list[Node]:
        """The conversation from its very first record, across compactions and gaps."""
        return whole_thread(self.tree)

    @property
    def turns(self) -> list[Turn]:
        """The turns of the whole thread, from its first prompt on."""
        return turns_of(self.whole_thread)

    @property
    def opening(self) -> list[Node]:
        """The records of the whole thread before the first prompt; they belong to no turn."""
        return opening_of(self.whole_thread)

    @cached_property
    def subagents(self) -> tuple[Subagent, ...]:
        """The subagents, each with the call that started it if known.

        Their records are in logs of their own, or in sidechains of the main log.
        """
        found: dict[str, tuple[Path, Traces]] = {}
        for log in self.subagent_logs:
            if log.agent_id is not None:
                traces = Traces(caller=log.agent_id)
                self._gather(traces, log)
                found[log.agent_id] = (log.path, traces)
        return link_subagents(self._main_traces, found, self.path if self.main_logs else None)

    def subagent_tree(self, subagent: Subagent) -> Tree:
        """Return the tree of one of its agents' records."""
        if subagent.sidechain is None:
            log = next(log for log in self.subagent_logs if log.path == subagent.path)
            return Tree(self.read(log))
        return self.tree.sidechain(self._sidechains.get(subagent.sidechain, ()))

    def subagent_records(
        self, subagent: Subagent, nodes: Iterable[Node]
    ) -> Iterator[tuple[Node, Record]]:
        """Yield the records of *nodes* of a subagent's tree."""
        return records_of(subagent.path if subagent.sidechain is None else self.thread_paths, nodes)

    @cached_property
    def sidechain_subagents(self) -> dict[str, Subagent]:
        """The subagents of the records in sidechains of the main log, by the records' uuids."""
        of_start = {subagent.sidechain: subagent for subagent in self.subagents}
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
        """Yield the records of *nodes*, or of the whole thread.

        ``thread``, ``whole_thread``, ``turns`` and ``tree`` consist of nodes.
        """
        return records_of(self.thread_paths, self.whole_thread if nodes is None else nodes)

    @property
    def conflicts(self) -> list[Node]:
        """The records that a later one with the same uuid and other content replaced.

        Identical duplicates do not count.
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
        """How many records of its main logs name other sessions: copied by a fork or resume."""
        named = self.tree.session_ids
        return {other: count for other, count in named.most_common() if other != self.id}

    @property
    def queued(self) -> list[QueuedPrompt]:
        """The prompts typed while the agent was busy that it never took."""
        return queued_in(self.paths, self.id)

    def _gather(self, traces: Traces, log: LogFile) -> None:
        for item in self.read(log):
            traces.see(item)


def of_subagent(items: Iterable[Placed], log: LogFile) -> Iterator[Placed]:
    """Yield the own records of a subagent's log, marked as a subagent's."""
    start = log.format.own_start(log.path)
    for item in items:
        if not 0 < item.offset < start:
            yield item._replace(record=as_subagents(item.record, log.agent_id))


def tree_of(path: str | os.PathLike[str]) -> Tree:
    """Read the log at *path* and link its records."""
    return Tree(item for item in read_log(path) if isinstance(item, Placed))


def turns_of(nodes: Iterable[Node]) -> list[Turn]:
    """Split a thread into turns, without what precedes the first prompt."""
    turns: list[Turn] = []
    for node in nodes:
        if node.is_prompt:
            turns.append(Turn(node, []))
        if turns:
            turns[-1].nodes.append(node)
    return turns


def opening_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the part of a thread before its first prompt."""
    return list(takewhile(lambda node: not node.is_prompt, nodes))


def records_of(
    paths: str | os.PathLike[str] | Sequence[Path], nodes: Iterable[Node]
) -> Iterator[tuple[Node, Record]]:
    """Yield the records of *nodes*, which are in the logs at *paths*, by their offsets."""
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
                if isinstance(record, Record):  # Otherwise the log was rewritten under us.
                    yield node, record
            return
    finally:
        source.close()
    # A log without random access: one pass collects what is needed.
    wanted = {node.offset: node for node in nodes}
    found = {
        item.offset: item.record
        for item in read_log(path)
        if isinstance(item, Placed) and item.offset in wanted
    }
    yield from ((node, found[offset]) for offset, node in wanted.items() if offset in found)


def _main_logs(logs: tuple[LogFile, ...]) -> tuple[LogFile, ...]:
    """Return the main logs to read: one of its own, or its shares of days' logs.

    Several logs of its own are copies; the first is the one to read.
    """
    own = next((log for log in logs if log.kind == "session"), None)
    if own is not None:
        return (own,)
    days = [log for log in logs if log.kind == "day"]
    return tuple(sorted(days, key=lambda log: log.path.name))


def _subagent_logs(
    logs: tuple[LogFile, ...], main_logs: tuple[LogFile, ...]
) -> tuple[LogFile, ...]:
    """Return the subagents' logs to read: those next to the main log, and others it lacks.

    Two logs of one subagent in one place are two logs; one elsewhere, or an archive, is a copy.
    """
    subagents = [log for log in logs if log.kind == "subagent"]
    here = {(log.home, log.project_key) for log in main_logs}
    subagents.sort(
        key=lambda log: ((log.home, log.project_key) not in here, log.compression is not None)
    )
    taken: dict[str | None, tuple[object, ...]] = {}
    found = []
    for log in subagents:
        place = (log.home, log.project_key, log.compression)
        if taken.setdefault(log.agent_id, place) == place:
            found.append(log)
    return tuple(found)


def _agents_next_to(
    main: LogFile, session_id: str, unnamed: Iterable[LogFile]
) -> Iterator[LogFile]:
    """Return subagents' logs next to the main one; only their records name their session."""
    for log in unnamed:
        is_candidate = log.kind == "subagent"
        is_here = (log.home, log.project_key) == (main.home, main.project_key)
        if is_candidate and is_here and owner_in(log.path) == session_id:
            yield log


class LostSession(Session):
    """What is left of a session. It has no messages of its own."""

    @property
    def layout(self) -> LayoutName:
        """The layout of the logs that are left."""
        return self.logs[0].layout

    @cached_property
    def facts(self) -> MetadataFold:
        """When and where its subagents worked; its title and messages are lost."""
        seen = MetadataFold()
        for log in self.logs:
            for item in self.read(log):
                seen.take(item.record)
        summary = SessionSummary(
            started_at=seen.summary.started_at,
            last_active_at=seen.summary.last_active_at,
            cwd=seen.summary.cwd,
            git_branch=seen.summary.git_branch,
            version=seen.summary.version,
            models=seen.summary.models,
        )
        return MetadataFold(summary=summary, life=seen.life)

    @cached_property
    def tree(self) -> Tree:
        return Tree(())


def readable_session(session: Session) -> Session:
    """Return *session* in a readable form: by its subagents alone, if its main log is gone."""
    return session if session.main_logs else LostSession(session.id, session.logs)
