"""Read all logs of a session once: tree, title, damage, subagents, and notes for an outline.

``Session`` makes one pass over a log per question. An export asks all of them: title, tree,
subagents, damage. ``read_session`` answers them in one pass over each log. It also makes a note of
each record with something an outline shows: the beginning of a prompt, calls, errors, commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Final

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.export.conversation import DamageSummary
from turnlog.formats import LogFile
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Call, Record, Result, Spoken, System, TextBlock
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import MetadataFold, TitleCandidates
from turnlog.sessions.reading.subagents import Subagent, Traces, link_subagents
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.session import Session, of_subagent
from turnlog.storage.reader import Placed, Reader

_LONGEST_LABEL: Final = 1_000
_COMMIT: Final = re.compile(r"\bgit\b[^|;&\n]{0,80}\bcommit\b(?!-)")


class RecordNote(Struct, gc=False):
    """What an outline needs to know about a record."""

    label: str = ""
    """The beginning of a prompt."""
    characters: int = 0
    """The length of its text."""
    tools: tuple[str, ...] = ()
    """The tools that it calls."""
    errors: int = 0
    """Failed results and API errors."""
    commit: str = ""
    """The call of a successful or failed ``git commit``, by its id."""


class SessionRead(Struct):
    """The results of one pass over the logs."""

    tree: Tree
    summary: SessionSummary
    damaged: DamageSummary
    subagents: tuple[Subagent, ...]
    subagent_trees: dict[str, Tree] = field(default_factory=dict)
    notes: dict[str, RecordNote] = field(default_factory=dict)
    """By the uuids of the records, of all logs."""
    failed: set[str] = field(default_factory=set)
    """The ids of the calls that failed."""


def read_session(session: Session) -> SessionRead:
    """Read the logs of *session*, each once."""
    session.path  # noqa: B018 - Raises if the main log is missing.
    notes = _Notes()
    main = _Pass(Traces(), notes)
    tree = Tree(chain(notes.of(session.inherited_items()), main.items(session)))
    found: dict[str, tuple[Path, Traces]] = {}
    trees: dict[str, Tree] = {}
    for log in session.subagent_logs:
        if log.agent_id is not None:
            one = _Pass(Traces(caller=log.agent_id), notes)
            try:
                trees[log.agent_id] = Tree(one.of(session, log))
            except NotFound:  # Gone since it was listed.
                continue
            found[log.agent_id] = (log.path, one.traces)
    subagents = link_subagents(main.traces, found, session.path)
    members = main.traces.members()
    for subagent in subagents:
        if subagent.sidechain is not None:
            trees[subagent.id] = tree.sidechain(members[subagent.sidechain])
    return SessionRead(
        tree=tree,
        summary=session.as_listed(main.facts.summary, main.called),
        damaged=main.damaged,
        subagents=subagents,
        subagent_trees=trees,
        notes=notes.found,
        failed=notes.failed,
    )


class _Notes:
    """Makes notes of records."""

    def __init__(self) -> None:
        self.found: dict[str, RecordNote] = {}
        self.failed: set[str] = set()

    def of(self, items: Iterable[Placed]) -> Iterator[Placed]:
        """Yield *items*, noted."""
        for item in items:
            self.see(item)
            yield item

    def see(self, placed: Placed) -> None:
        """Note what an outline shows of a record."""
        record = placed.record
        note = _note(record)
        if note is not None:
            uuid = record.uuid or f"@{placed.log}:{placed.offset}"
            self.found[uuid] = note
        if isinstance(record, Spoken):
            self.failed.update(each.tool_use_id for each in record.results if each.is_error)
        elif isinstance(record, Result) and record.is_error:
            self.failed.add(record.call_id or "")


def _note(record: Record) -> RecordNote | None:
    if isinstance(record, Call):
        return RecordNote(tools=(intern(record.name or "?"),))
    if isinstance(record, Result):
        return RecordNote(errors=1) if record.is_error else None
    if isinstance(record, System):
        return RecordNote(errors=1) if meaning_of(record) is Meaning.ERROR else None
    if not isinstance(record, Spoken):
        return None
    blocks = record.blocks
    length = sum(len(each.text) for each in blocks if isinstance(each, TextBlock))
    note = RecordNote(
        characters=length,
        tools=tuple([intern(call.name) for call in record.calls]),
        errors=sum(bool(result.is_error) for result in record.results),
    )
    for call in record.calls:
        command = call.input.get("command") if isinstance(call.input, dict) else None
        if isinstance(command, str) and _COMMIT.search(command[:4000]):
            note.commit = call.id
    if record.type == "user" and not record.results:
        note.label = record.text[:_LONGEST_LABEL]
        note.characters = len(record.text)
    return note


class _Pass:
    """One pass over a log that collects titles, traces of subagents, damage and notes."""

    def __init__(self, traces: Traces, notes: _Notes) -> None:
        self.traces, self.notes = traces, notes
        self.facts, self.called = MetadataFold(), TitleCandidates()
        self.damaged = DamageSummary(places=0, size_bytes=0)

    def items(self, session: Session) -> Iterator[Placed]:
        """Yield the records of the main logs, in order."""
        for number, log in enumerate(session.main_logs):
            for item in self.of(session, log, number):
                yield item._replace(log=number) if number else item

    def of(self, session: Session, log: LogFile, number: int = 0) -> Iterator[Placed]:
        """Yield the records of one log, the one with that *number*."""
        # The log of a day has records of several sessions, so its damage is not attributed.
        items = session.read(log) if log.kind == "day" else self._whole(log)
        for item in items if log.agent_id is None else of_subagent(items, log):
            self.called.take(item.record, item.offset, self.facts)
            self.traces.see(item)
            self.notes.see(item._replace(log=number) if number else item)
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
