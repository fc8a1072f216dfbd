"""Which part of a session is shown: a thread, a context, a record's ancestry, the log's end.

A view names its records once and reads them as often as it is asked, one by one. It knows what was
left out of it, and where the log has gaps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct, field

from turnlog.errors import NotFound, UsageError
from turnlog.records.record import Linked, Record
from turnlog.sessions.reading.context import Context, context_of
from turnlog.sessions.reading.filters import EVERYTHING, RecordFilter
from turnlog.sessions.reading.ranges import ThreadRange, last_of, numbered, range_of
from turnlog.sessions.reading.subagents import Subagent
from turnlog.sessions.reading.threads import whole_thread, with_parallel
from turnlog.sessions.reading.tree import Gap, Lineage, Node, Tree, find_record
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed
from turnlog.storage.tail import read_last

Pair = tuple[Node | None, Record]
_NOTES: Final = 32
"""About so many notes stand at the end of a log."""

ViewName = Literal["whole", "main", "thread", "context", "ancestry", "end"]


class ShowOptions(Struct, frozen=True, kw_only=True):
    """What the caller wants to see."""

    thread: str | None = None
    """``whole``, ``main``, or the beginning of a record's uuid."""
    context: bool = False
    at: str | None = None
    depth: int | None = None
    last: int | None = None
    span: tuple[int | None, int | None] | None = None
    prompts: bool = False
    """All that was typed, whichever branch it stands on, unless one was chosen."""
    only: RecordFilter = EVERYTHING

    @property
    def wants_the_end(self) -> bool:
        """Nothing but the last steps, for which a long log need not be read."""
        chosen = self.thread or self.context or self.at or self.only != EVERYTHING
        return self.last is not None and not chosen


class SessionSelection(Struct):
    """A part of a session. *nodes* is None where only the end of the log was read."""

    session: Session
    name: ViewName
    nodes: list[Node] | None
    only: RecordFilter
    kept: list[Node] = field(default_factory=list)
    """Records from before a context that are seen with it."""
    context: Context | None = None
    end: list[Record] = field(default_factory=list)
    gaps: dict[str, Gap] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    earlier: int | None = 0
    """How many steps were left out before it; None if nobody has counted."""
    next: int | None = None
    """The number of the step that follows it, if any does."""
    total: int | None = None
    subagent: Subagent | None = None
    """The subagent whose records it shows; None for the session itself."""

    @property
    def is_part(self) -> bool:
        """Something of the session is not in it."""
        return self.name != "whole" or self.earlier != 0 or self.next is not None

    def pairs(self) -> Iterator[Pair]:
        """Read its records."""
        if self.nodes is None:
            return ((None, record) for record in self.end)
        return self.read(self.nodes)

    def kept_pairs(self) -> Iterator[Pair]:
        """Read the records that a context keeps from before it."""
        return self.read(self.kept)

    def subagent_pairs(self, subagent: Subagent) -> Iterator[Pair]:
        """Read the records of a subagent."""
        found = self.session.subagent_records(
            subagent, whole_thread(self.session.subagent_tree(subagent))
        )
        return ((node, record) for node, record in self.only.pairs(found))

    def read(self, nodes: list[Node]) -> Iterator[tuple[Node, Record]]:
        """Read the records of *nodes*, as far as they are wanted."""
        session, subagent = self.session, self.subagent
        found = (
            session.records(nodes)
            if subagent is None
            else session.subagent_records(subagent, nodes)
        )
        return ((node, record) for node, record in self.only.pairs(found))


def choose(session: Session, asked: ShowOptions) -> SessionSelection:
    """Find what of *session* was asked for."""
    if asked.last is not None and asked.last < 0:
        raise UsageError(f"--last is {asked.last}", hint="give a number of steps, 0 or more")
    if asked.wants_the_end:
        return _end(session, asked.last or 0)
    view = _thread(session, asked)
    nodes = view.nodes or []
    if asked.only != EVERYTHING and (asked.last is not None or asked.span is not None):
        # What is counted is what is shown, so it has to be known first.
        nodes = [node for node, _ in view.read(nodes)]
    view.numbers = {node.uuid: number for number, node in numbered(nodes) if number is not None}
    view.total = len(view.numbers)
    part: ThreadRange[Node] | None = None
    if asked.last is not None:
        part = last_of(nodes, asked.last)
    elif asked.span is not None:
        part = range_of(nodes, *asked.span)
    if part is not None:
        view.nodes = part.items
        view.earlier, view.next = part.earlier, part.stop if part.later else None
    shown = {node.uuid for node in view.nodes or ()}
    view.gaps = {uuid: gap for uuid, gap in view.gaps.items() if uuid in shown}
    return view


def _thread(session: Session, asked: ShowOptions) -> SessionSelection:
    """Return the nodes that were asked for, before anything is counted off."""
    if asked.at is not None:
        return _ancestry(session, asked, asked.at)
    tree = session.tree
    view = SessionSelection(session, "whole", [], asked.only, gaps=Lineage(tree).gaps)
    tip = None
    if asked.thread not in (None, "whole", "main"):
        tip = find_record(tree, asked.thread or "")
        view.subagent = session.sidechain_subagents.get(tip.uuid) if tip.is_sidechain else None
    if asked.context:
        view.name, view.context = "context", context_of(tree, session.records, tip)
        view.nodes = view.context.nodes
        view.kept = list(view.context.digest.kept) if view.context.digest else []
    elif tip is not None:
        view.name, view.nodes = "thread", whole_thread(tree, tip)
    elif asked.thread == "main":
        view.name, view.nodes = "main", session.thread
    elif asked.prompts and asked.thread is None:
        view.nodes = tree.prompts
    else:
        view.nodes = session.whole_thread
    return view


def _ancestry(session: Session, asked: ShowOptions, at: str) -> SessionSelection:
    """Return what leads to a record, in the log in which it stands."""
    subagent, tree, node = _where(session, at)
    lineage = Lineage(tree)
    up = lineage.ancestry(node, depth=asked.depth)
    gone_over = {gap.node.uuid for gap in up.gaps}
    return SessionSelection(
        session,
        "ancestry",
        with_parallel(tree, up.nodes),
        asked.only,
        gaps={uuid: gap for uuid, gap in lineage.gaps.items() if uuid in gone_over},
        earlier=None if up.is_cut else 0,
        subagent=subagent,
    )


def _where(session: Session, text: str) -> tuple[Subagent | None, Tree, Node]:
    """Find the record whose uuid begins with *text*: in the main log, else in a subagent's."""
    try:
        node = find_record(session.tree, text)
    except NotFound:
        for subagent in session.subagents:
            tree = session.subagent_tree(subagent)
            with suppress(NotFound):
                return subagent, tree, find_record(tree, text)
        raise
    inner = session.sidechain_subagents.get(node.uuid) if node.is_sidechain else None
    if inner is None:
        return None, session.tree, node
    tree = session.subagent_tree(inner)
    return inner, tree, tree.by_uuid[node.uuid]


def _end(session: Session, last: int) -> SessionSelection:
    """Return the last steps in the log's order, and whether there are others before them.

    Logs end in notes of the program that show nothing, titles and modes, any number of them: what
    is counted are steps, and as much is read as they take.
    """
    view = SessionSelection(session, "end", None, EVERYTHING)
    wanted = _NOTES + 4 * last
    while True:
        records = _last_records(session, wanted)
        is_all = len(records) < wanted
        own = [record for record in records if not _is_in_sidechain(record)]
        part = last_of(own or (records if is_all else []), last)
        if part.earlier or is_all:
            break
        wanted *= 4
    view.end = part.items
    view.earlier = 0 if is_all and not part.earlier else None
    return view


def _is_in_sidechain(record: Record) -> bool:
    """Return whether a subagent wrote *record* into the main log."""
    return isinstance(record, Linked) and record.is_sidechain


def _last_records(session: Session, count: int) -> list[Record]:
    if session.format.shares_logs:
        placed = list(deque(session.items(), maxlen=count))
    else:
        items = read_last(session.path, count)
        placed = [item for item in items if isinstance(item, Placed)]
    return [item.record for item in placed]
