"""One record of a session, whole, and the nearest parts of the conversation around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from os import fspath
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from turnlog.api.sessions.reading import (
    EVERYTHING,
    Gap,
    Node,
    RecordFilter,
    Session,
    ShowDocument,
    Subagent,
    locate_record,
    record_row,
    with_owner,
)
from turnlog.errors import NotFound, UsageError
from turnlog.export.conversation import (
    Answer,
    ConversationOptions,
    Mark,
    PromptPiece,
    Thinking,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.index.texts import texts_of
from turnlog.records.record import Record, System
from turnlog.sessions.reading.ranges import numbered
from turnlog.sessions.reading.threads import whole_thread
from turnlog.sessions.reading.tree import Lineage, Tree
from turnlog.storage.reader import Placed
from turnlog.text import utf8_safe

__all__ = ["AROUND", "Place", "document_of", "find_place"]

AROUND: Final = 3
"""How many prompts, answers and calls to show on each side unless told."""

_OFFSET: Final = re.compile(r"(.*)@([0-9]{1,15})", re.DOTALL)
_FAR: Final = 64
"""How many more records to look through for a call's result, or for a result's call."""
_FIRST_READ: Final = 16
_SOME: Final = 5

Pair = tuple[Node, Record]
Read = Callable[[Sequence[Node]], Iterable[Pair]]


class Place(Struct, kw_only=True):
    """A record and its neighbours in the conversation."""

    session: Session
    subagent: Subagent | None
    """The subagent that wrote it; None for the session itself."""
    node: Node | None
    """None if the record has no place in the tree, such as a title."""
    record: Record
    offset: int
    """Where it begins in its log."""
    asked: list[Record] = field(default_factory=list)
    """The records with the calls that it answers."""
    around: int = AROUND
    thinking: bool = False
    before: list[Pair] = field(default_factory=list)
    after: list[Pair] = field(default_factory=list)
    gaps: dict[str, Gap] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    earlier: int = 0
    """The number of steps before the first neighbour."""
    later: int = 0
    """The number of steps after the last neighbour."""

    @property
    def name(self) -> str:
        """The record's uuid, or its offset in the log, such as ``@1024``."""
        return self.record.uuid or f"@{self.offset}"

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The kinds and texts of the record that can be searched."""
        return [(text.kind.name.lower(), utf8_safe(text.text)) for text in texts_of(self.record)]

    @property
    def records(self) -> list[tuple[Node | None, Record]]:
        """The record between its neighbours."""
        return [*self.before, (self.node, self.record), *self.after]


class _Spot(NamedTuple):
    """Where a record is. Those without a place in the tree are read already."""

    subagent: Subagent | None
    tree: Tree
    found: Node | Placed


def find_place(
    session: Session,
    name: str,
    *,
    around: int = AROUND,
    thinking: bool = False,
    only: RecordFilter = EVERYTHING,
) -> Place:
    """Return the record called *name* and its neighbours.

    *name* is the beginning of a uuid, an offset in the main log such as ``@1024``, or one in
    another log of the session, ``LOG@1024``: LOG is the beginning of a subagent's id or of the
    log's file name. *around* is how many prompts, answers and calls to return on each side, with
    *thinking* also thoughts; *only* filters them.
    """
    spot = _spot(session, name)
    subagent, tree, found = spot

    def read(nodes: Iterable[Node]) -> Iterable[Pair]:
        if subagent is None:
            return session.records(nodes)
        return session.subagent_records(subagent, nodes)

    if isinstance(found, Node):
        record = next((record for _, record in read([found])), None)
        if record is None:
            raise _missing(f"the record {name[:80]!r} is no longer in its log")
    else:
        record = found.record
    earlier, later = _thread_around(session, spot)
    place = Place(
        session=session,
        subagent=subagent,
        node=found if isinstance(found, Node) else None,
        record=record,
        offset=found.offset,
        around=around,
        thinking=thinking,
        gaps=Lineage(tree).gaps,
    )
    _add_neighbours(place, earlier, later, lambda nodes: only.pairs(read(nodes)))
    _count_steps(place, earlier, later)
    return place


def document_of(place: Place) -> ShowDocument:
    """Return a place as it is printed; the record itself always has its thinking."""
    rows = [
        record_row(node, record, place.numbers, thinking=place.thinking or record is place.record)
        for node, record in place.records
    ]
    own = rows[len(place.before)]
    if not (own.text or own.thinking or own.calls or own.results):
        rows[len(place.before)] = structs.replace(
            own, text="\n".join(text for _, text in place.texts)
        )
    total = len(place.numbers)
    return ShowDocument(
        session=place.session.id,
        view="place",
        subagent=place.subagent.id if place.subagent else None,
        records=rows,
        place=len(place.before),
        earlier=place.earlier,
        next=total - place.later if place.later else None,
        total=total,
    )


# -- where it is ----------------------------------------------------------------------------


def _spot(session: Session, name: str) -> _Spot:
    offset = _OFFSET.fullmatch(name)
    if offset is not None and name not in session.tree.by_uuid:
        return _spot_at(session, offset[1], int(offset[2]))
    try:
        return _Spot(*locate_record(session, name))
    except NotFound:
        named = {
            placed.record.uuid: _Spot(subagent, tree, placed)
            for subagent, tree in _trees(session)
            for placed in tree.loose
            if (placed.record.uuid or "").startswith(name)
        }
        if not named:
            raise
    if len(named) > 1 and name not in named:
        some = ", ".join(sorted(map(str, named))[:_SOME])
        raise UsageError(
            f"{name[:80]!r} begins the uuids of {len(named)} records",
            hint=f"give more characters: {some}",
        )
    return named.get(name) or next(iter(named.values()))


def _trees(session: Session) -> Iterator[tuple[Subagent | None, Tree]]:
    """Yield the tree of the main logs, and that of each log of a subagent."""
    yield None, session.tree
    for subagent in session.subagents:
        if subagent.sidechain is None:
            yield subagent, session.subagent_tree(subagent)


def _spot_at(session: Session, log: str, offset: int) -> _Spot:
    """Return the record that contains the byte at *offset* of the log called *log*."""
    main = _spots_in(session.thread_paths, None, session.tree, offset)
    found = {path: spot for path, spot in main if _is_called(path, log) and path in session.paths}
    for subagent in session.subagents if log or not session.main_logs else ():
        if subagent.sidechain is None and (
            subagent.id.startswith(log) or _is_called(subagent.path, log)
        ):
            tree = session.subagent_tree(subagent)
            found.update(_spots_in((subagent.path,), subagent, tree, offset))
    if not found:
        raise _missing(f"no record at byte {offset:,} of {log[:80] or 'the main log'}")
    if len(found) > 1:
        logs = ", ".join(f"{path.name}@{offset}" for path in list(found)[:_SOME])
        raise UsageError(
            f"{len(found)} logs have a record at byte {offset:,}", hint=f"name one: {logs}"
        )
    ((_, spot),) = found.items()
    if spot.subagent is None and isinstance(spot.found, Node):
        return _Spot(*with_owner(session, spot.found))
    return spot


def _spots_in(
    paths: Sequence[Path], subagent: Subagent | None, tree: Tree, offset: int
) -> Iterator[tuple[Path, _Spot]]:
    """Yield the record at *offset* of each log that has one."""
    everything: Iterable[Node | Placed] = chain(tree.nodes, tree.replaced, tree.loose)
    for found in everything:
        if found.offset <= offset < found.offset + found.length:
            yield paths[found.log], _Spot(subagent, tree, found)


def _is_called(path: Path, name: str) -> bool:
    return path.name.startswith(name) or fspath(path) == name


def _missing(message: str) -> NotFound:
    return NotFound(message, hint="give a uuid or an offset in the log", code="no-such-record")


# -- what is around it ----------------------------------------------------------------------


def _thread_around(session: Session, spot: _Spot) -> tuple[list[Node], list[Node]]:
    """Return the records before and after, in the thread of the record.

    A record that is in no thread, such as a title or a tool's progress, is among those that were
    written before and after it.
    """
    subagent, tree, found = spot
    if isinstance(found, Node):
        whole = session.whole_thread if subagent is None else whole_thread(tree)
        for thread in (whole, whole_thread(tree, _newest_below(tree, found))):
            at = next((at for at, node in enumerate(thread) if node is found), None)
            if at is not None and (found.is_spoken or at + 1 < len(thread)):
                return thread[:at], thread[at + 1 :]
    own = [node for node in tree.nodes if not node.is_sidechain or subagent is not None]
    here = (found.log, found.offset)
    written = sorted(own or tree.nodes, key=lambda node: (node.log, node.offset))
    return (
        [node for node in written if (node.log, node.offset) < here],
        [node for node in written if (node.log, node.offset) > here],
    )


def _newest_below(tree: Tree, node: Node) -> Node:
    lineage = Lineage(tree)
    while below := lineage.below(node):
        node = below[-1]
    return node


class _Shown(NamedTuple):
    """What a view shows of a record."""

    is_item: bool
    """Whether it is a prompt, an answer or a call, and not only results."""
    calls: frozenset[str]
    results: frozenset[str]


def _shown(record: Record, *, thinking: bool) -> _Shown:
    if isinstance(record, System) and record.subtype != "compact_boundary":
        return _Shown(False, frozenset(), frozenset())
    options = ConversationOptions(thinking=thinking, images=False)
    blocks = list(Blocks(options, Unmasked()).of(record))
    calls = frozenset(block.id for block in blocks if isinstance(block, CallRequest))
    results = frozenset(block.id for block in blocks if isinstance(block, Answered))
    is_said = any(isinstance(block, PromptPiece | Answer | Thinking | Mark) for block in blocks)
    return _Shown(is_said or bool(calls), calls, results)


def _add_neighbours(place: Place, earlier: list[Node], later: list[Node], read: Read) -> None:
    own = _shown(place.record, thinking=True)
    before: list[tuple[Pair, _Shown]] = []
    needed, items, further = set(own.results), 0, 0
    for pair in _backwards(earlier, read):
        if items == place.around:
            further += 1
            if not needed or further > _FAR:
                break
        shown = _shown(pair[1], thinking=place.thinking)
        if shown.calls & needed:
            place.asked.append(pair[1])
            needed -= shown.calls
        if items < place.around and (shown.is_item or shown.results):
            # A call that the record answers belongs to it.
            items += shown.is_item and not shown.calls & own.results
            before.append((pair, shown))
    made = frozenset[str]().union(*(shown.calls for _, shown in before))
    before = [each for each in reversed(before) if each[1].is_item or each[1].results & made]
    place.before = [pair for pair, _ in before]
    answered = own.results.union(*(shown.results for _, shown in before))
    if place.around:
        place.after = list(_following(place, later, read, set((made | own.calls) - answered)))


def _following(place: Place, nodes: list[Node], read: Read, open_calls: set[str]) -> Iterator[Pair]:
    """Yield the next items, and the results of *open_calls* and of their own calls."""
    items = further = 0
    for pair in _forwards(nodes, read):
        if items == place.around:
            further += 1
            if not open_calls or further > _FAR:
                return
        shown = _shown(pair[1], thinking=place.thinking)
        is_next = shown.is_item and items < place.around
        if is_next or shown.results & open_calls:
            items += is_next
            open_calls |= shown.calls
            open_calls -= shown.results
            yield pair


def _backwards(nodes: list[Node], read: Read) -> Iterator[Pair]:
    """Read records from the last to the first, a few at a time."""
    end, size = len(nodes), _FIRST_READ
    while end > 0:
        begin = max(0, end - size)
        yield from reversed(list(read(nodes[begin:end])))
        end, size = begin, size * 4


def _forwards(nodes: list[Node], read: Read) -> Iterator[Pair]:
    begin, size = 0, _FIRST_READ
    while begin < len(nodes):
        yield from read(nodes[begin : begin + size])
        begin, size = begin + size, size * 4


def _count_steps(place: Place, earlier: list[Node], later: list[Node]) -> None:
    """Number the steps of the thread, and count those before and after the neighbours."""
    own = [place.node] if place.node is not None else []
    steps = list(numbered([*earlier, *own, *later]))
    place.numbers = {node.uuid: number for number, node in steps if number is not None}
    here = {node.uuid for node, _ in place.before} | {node.uuid for node, _ in place.after}
    here |= {node.uuid for node in own}
    places = [at for at, (_, node) in enumerate(steps) if node.uuid in here]
    first, last = (places[0], places[-1]) if places else (len(earlier), len(earlier) - 1)
    place.earlier = sum(number is not None for number, _ in steps[:first])
    place.later = sum(number is not None for number, _ in steps[last + 1 :])
