"""Read a session in windows: its outline, some of its turns, one block, and where words are.

The logs are read once, and again only when they have changed. ``SessionReaders`` keeps the results
of that pass for the sessions that were read last, up to a number of records.
"""

from __future__ import annotations

import os
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.api.homes import Home
from turnlog.errors import NotFound
from turnlog.export.conversation import (
    Answer,
    ConversationOptions,
    ConversationTurn,
    Head,
    Mark,
    Other,
    PromptPiece,
    SubagentRun,
    Thinking,
    anchor_of,
)
from turnlog.export.conversation_builder import (
    ConversationBuilder,
    SubagentThread,
    TurnPart,
    responses_of,
    usage_of,
)
from turnlog.export.outline import SessionOutline, Window, outline_of, windows_of
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked, without_colors
from turnlog.export.session_read import SessionRead, read_session
from turnlog.records.dates import instant
from turnlog.records.responses import Response
from turnlog.sessions.reading.subagents import Subagent
from turnlog.sessions.reading.tree import Node
from turnlog.sessions.session import Session

_MOST_RECORDS: Final = 30_000
"""How many records the kept sessions may have together."""
_MOST_PLACES: Final = 500
_AROUND: Final = 60
_ANCHOR: Final = re.compile(r"(r[0-9a-f]{12})(-[a-z]\d{1,6})?")
_SHORTEST_UUID: Final = 4
_MOST_NESTED: Final = 8

Fingerprint = tuple[tuple[str, int, int], ...]


class FoundPlace(Struct, kw_only=True):
    """A block with the words that were looked for."""

    anchor: str
    turn: int
    """The number of its turn."""
    kind: str
    """Who said it, or the name of the tool."""
    subagent: str | None
    snippet: str
    highlight: tuple[int, int]


class FoundPlaces(Struct, kw_only=True):
    """The places with the words; *is_cut* if there are more."""

    places: list[FoundPlace]
    is_cut: bool


class Location(NamedTuple):
    """Where a record is: its window, its block, and the subagents around it, outermost first."""

    window: int
    anchor: str
    is_block: bool
    """Whether the block was named, and is to be opened."""
    subagents: dict[str, int]
    """The window of each subagent."""


class _Place(NamedTuple):
    subagent: Subagent | None
    node: Node


class SessionReader:
    """One state of a session's logs; *out* masks what is returned."""

    def __init__(self, session: Session, out: Unmasked) -> None:
        self.session, self.out = session, out
        self.read: SessionRead = read_session(session)
        self.read.tree.loose.clear()  # They hold whole records.
        for tree in self.read.subagent_trees.values():
            tree.loose.clear()
        self.responses: list[Response] = responses_of(session)
        self._threads: dict[str, ThreadReader] = {}

    @property
    def records(self) -> int:
        """How many records it keeps in memory."""
        trees = self.read.subagent_trees.values()
        return len(self.read.tree.nodes) + sum(len(tree.nodes) for tree in trees)

    def thread(self, name: str) -> ThreadReader:
        """Return a thread: ``whole``, ``current`` or ``all``."""
        found = self._threads.get(name)
        if found is None:
            found = self._threads[name] = ThreadReader(self, name)
        return found

    def thread_with(self, name: str, record: str) -> ThreadReader:
        """Return the thread *name*, or all branches if only another one has the *record*."""
        thread = self.thread(name)
        return thread if thread.locate(record) is not None else self.thread("all")

    @cached_property
    def places(self) -> dict[str, _Place]:
        """Every record of every log by the beginning of its blocks' ids."""
        found = {anchor_of(node.uuid): _Place(None, node) for node in self.read.tree.nodes}
        for subagent in self.read.subagents:
            for node in self.read.subagent_trees[subagent.id].nodes:
                found[anchor_of(node.uuid)] = _Place(subagent, node)
        return found

    @cached_property
    def calls(self) -> dict[str, str]:
        """The id of the block of each call, by the call's id."""
        return {
            call: f"{anchor_of(place.node.uuid)}-c{number}"
            for place in self.places.values()
            for number, call in enumerate(place.node.calls)
        }

    @cached_property
    def subagents(self) -> dict[str, Subagent]:
        """The subagents by their ids."""
        return {each.id: each for each in self.read.subagents}

    def resolve(self, name: str) -> str | None:
        """Return the id of a block named by that id, by a uuid's beginning, or by a call's id."""
        found = _ANCHOR.fullmatch(name)
        if found is not None and found[1] in self.places:
            return name
        if name in self.calls:
            return self.calls[name]
        if len(name) < _SHORTEST_UUID:
            return None
        nodes = (place.node for place in self.places.values())
        return next((self._shown(node) for node in nodes if node.uuid.startswith(name)), None)

    def at(self, at: datetime) -> str | None:
        """Return the id of what was written at that time, by the session or by a subagent."""
        same = (place.node for place in self.places.values() if instant(place.node.timestamp) == at)
        found = next(same, None)
        if found is None:
            nodes = self.read.tree.nodes
            later = (node for node in nodes if (when := instant(node.timestamp)) and when >= at)
            found = next(later, None)
        return None if found is None else self._shown(found)

    def _shown(self, node: Node) -> str:
        """Return the id of a record; of a result, the id of its call."""
        if node.results:
            return self.calls.get(node.results[0], anchor_of(node.uuid))
        return anchor_of(node.uuid)

    def tools(self) -> list[ToolUse]:
        """Return the tools that were called, the most used first, with those of subagents."""
        used: dict[str, ToolUse] = {}
        for anchor, place in self.places.items():
            note = self.read.notes.get(place.node.uuid)
            names = note.tools if note else ()
            for number, (call, tool) in enumerate(zip(place.node.calls, names, strict=False)):
                one = used.setdefault(tool, ToolUse(tool=self.out.name(tool)))
                one.calls += 1
                one.last = f"{anchor}-c{number}"
                if call in self.read.failed:
                    one.errors += 1
                    one.last_error = one.last
        return sorted(used.values(), key=lambda one: (-one.calls, one.tool))


class ToolUse(Struct, kw_only=True):
    """How often a tool was called and failed, with the ids of the last ones."""

    tool: str
    calls: int = 0
    errors: int = 0
    last: str = ""
    last_error: str = ""


class ContextPoint(Struct, kw_only=True):
    """How many tokens the model read for one response of the main thread."""

    tokens: int
    turn: int
    """The index of the turn."""
    anchor: str
    at: datetime | None


class ThreadReader:
    """A thread of a session in windows."""

    def __init__(self, reader: SessionReader, name: str) -> None:
        self.reader, self.name = reader, name
        choice = ConversationOptions(thread=name, colors=True, is_deep=False)
        self._builder = ConversationBuilder(reader.session, choice, reader.out, reader.read)
        self.parts: list[TurnPart] = self._builder.parts
        self.windows: list[Window] = windows_of(self.parts, reader.read.notes)
        self._subagents: dict[str, tuple[SubagentThread, list[Window]]] = {}

    @cached_property
    def head(self) -> Head:
        """Metadata and totals."""
        return self._builder.head(usage_of(self.reader.responses))

    @cached_property
    def outline(self) -> SessionOutline:
        """The turns in a few words."""
        reader = self.reader
        return outline_of(reader.read, self.parts, reader.responses, reader.out)

    @cached_property
    def _window_of(self) -> dict[str, int]:
        return {
            anchor_of(node.uuid): number
            for number, window in enumerate(self.windows)
            for _, part in window.parts
            for node in part.nodes
        }

    def window_of_turn(self, number: int) -> int | None:
        """Return the window in which the turn with this number begins."""
        for index, window in enumerate(self.windows):
            for place, (_, part) in enumerate(window.parts):
                is_begun = place == 0 and window.is_cut
                if part.number >= number and not is_begun and not part.is_opening:
                    return index
        return None

    def turns(self, window: int) -> Iterator[tuple[ConversationTurn, bool]]:
        """Yield the turns of a window, and whether each is the rest of one."""
        found = self.windows[window]
        for place, (_, part) in enumerate(found.parts):
            yield self._builder.turn(part), place == 0 and found.is_cut

    def strays(self) -> list[SubagentRun]:
        """Return the subagents of no call."""
        return [
            self._builder.subagent(each, 0) for each in self.reader.read.subagents if each.is_orphan
        ]

    def subagent_windows(self, subagent: str) -> list[Window]:
        """Return the windows of a subagent's thread; raise NotFound if there is no such one."""
        return self._subagent(subagent)[1]

    def subagent_turns(self, subagent: str, window: int) -> Iterator[ConversationTurn]:
        """Yield the turns of a window of a subagent's thread."""
        thread, windows = self._subagent(subagent)
        for _, part in windows[window].parts if window < len(windows) else ():
            yield thread.turn(part)

    def _subagent(self, name: str) -> tuple[SubagentThread, list[Window]]:
        found = self._subagents.get(name)
        if found is None:
            subagent = self.reader.subagents.get(name)
            if subagent is None:
                raise NotFound(f"there is no subagent {name[:80]!r}", hint="reload the session")
            thread = SubagentThread(self._builder, subagent)
            found = (thread, windows_of(thread.parts, self.reader.read.notes))
            self._subagents[name] = found
        return found

    def locate(self, name: str) -> Location | None:
        """Return where a block is, or None if it is not in this thread."""
        anchor = self.reader.resolve(name)
        if anchor is None:
            return None
        record = anchor.partition("-")[0]
        place = self.reader.places.get(record)
        inner: dict[str, int] = {}
        outer = record
        while place is not None and place.subagent is not None and len(inner) < _MOST_NESTED:
            agent = place.subagent
            inner[agent.id] = self._window_in(agent.id, outer)
            if agent.spawn is None:  # After all turns.
                return Location(max(0, len(self.windows) - 1), anchor, "-" in anchor, inner)
            outer = self.reader.calls.get(agent.spawn.call_id, "").partition("-")[0]
            place = self.reader.places.get(outer)
        window = self._window_of.get(outer)
        if window is None:
            return None
        return Location(window, anchor, "-" in anchor, inner)

    def _window_in(self, subagent: str, record: str) -> int:
        for number, window in enumerate(self.subagent_windows(subagent)):
            if any(
                anchor_of(node.uuid) == record for _, part in window.parts for node in part.nodes
            ):
                return number
        return 0

    def block(self, anchor: str) -> Any:
        """Return a block by its id; raise NotFound if there is none."""
        place = self.reader.places.get(anchor.partition("-")[0])
        if place is not None:
            part = TurnPart(0, [place.node])
            if place.subagent is not None:
                turn = self._subagent(place.subagent.id)[0].turn(part)
            else:
                record = anchor_of(place.node.uuid)
                window = self._window_of.get(record)
                if window is None and self.name != "all":
                    return self.reader.thread("all").block(anchor)
                for _, each in self.windows[window].parts if window is not None else ():
                    if place.node in each.nodes:
                        part = each._replace(nodes=[place.node], is_branch_start=False)
                turn = self._builder.turn(part)
            for block in turn.blocks:
                if block.anchor == anchor:
                    return block
        raise NotFound(f"there is no block {anchor[:80]!r}", hint="reload the session")

    def neighbour(self, kind: str, anchor: str, step: int) -> str | None:
        """Return the next prompt, error or call after a block or turn, or before it."""
        order = self._order
        record, _, block = anchor.partition("-")
        now = (order.get(record, 0), int(block[1:]) if block[1:].isdecimal() else 0)
        if record not in order:  # A turn.
            found = next((part for part in self.parts if part.anchor == record), None)
            now = (order[anchor_of(found.nodes[0].uuid)] if found else -1, -1)
        places = [(self._at(each), each) for each in self._places_of(kind)]
        if kind == "prompt":
            now = (now[0], 0)
            begin = ((part, anchor_of(part.nodes[0].uuid)) for part in self.parts)
            places = [((order[at], 0), part.anchor) for part, at in begin if not part.is_opening]
        later = [each for at, each in places if (at > now if step > 0 else at < now)]
        return (later[0] if step > 0 else later[-1]) if later else None

    def _at(self, anchor: str) -> tuple[int, int]:
        record, _, block = anchor.partition("-")
        return self._order.get(record, -1), int(block[1:] or 0) if block else 0

    def _places_of(self, kind: str) -> list[str]:
        if kind == "error":
            return [mark.anchor for mark in self.outline.marks if mark.kind == "error"]
        nodes = (node for part in self.parts for node in part.nodes)
        if kind == "call":
            return [
                f"{anchor_of(node.uuid)}-c{number}"
                for node in nodes
                for number in range(len(node.calls))
            ]
        return [f"{anchor_of(part.nodes[0].uuid)}-s0" for part in self.parts if not part.is_opening]

    @cached_property
    def _order(self) -> dict[str, int]:
        nodes = (node for part in self.parts for node in part.nodes)
        return {anchor_of(node.uuid): place for place, node in enumerate(nodes)}

    def find(self, words: str) -> FoundPlaces:
        """Return the places with *words*, in order, those in subagents after their calls."""
        wanted = words.casefold()
        places: list[FoundPlace] = []
        for found in self._find(wanted):
            places.append(found)
            if len(places) >= _MOST_PLACES:
                return FoundPlaces(places=places, is_cut=True)
        return FoundPlaces(places=places, is_cut=False)

    def _find(self, wanted: str) -> Iterator[FoundPlace]:
        if not wanted:
            return
        of_call = {
            each.spawn.call_id: each
            for each in self.reader.read.subagents
            if each.spawn is not None
        }
        shown: set[str] = set()

        def within(subagent: Subagent, turn: int, depth: int) -> Iterator[FoundPlace]:
            shown.add(subagent.id)
            thread, _ = self._subagent(subagent.id)
            for part in thread.parts:
                yield from search(thread.records(part), subagent, turn, depth)

        def search(
            records: Iterable[Any], subagent: Subagent | None, turn: int, depth: int
        ) -> Iterator[FoundPlace]:
            for node, record in records:
                yield from self._find_in(node, record, wanted, turn, subagent)
                for call in node.calls if depth < _MOST_NESTED else ():
                    inner = of_call.get(call)
                    if inner is not None and inner.id not in shown:
                        yield from within(inner, turn, depth + 1)

        for part in self.parts:
            yield from search(self._builder.records(part), None, part.number, 0)
        last = self.parts[-1].number if self.parts else 0
        for subagent in self.reader.read.subagents:
            if subagent.is_orphan:
                yield from within(subagent, last, 0)

    def _find_in(
        self, node: Node, record: Any, wanted: str, turn: int, subagent: Subagent | None
    ) -> Iterator[FoundPlace]:
        blocks = Blocks(_EVERYTHING, Unmasked(), is_subagent=subagent is not None)
        counts: Counter[str] = Counter()
        for block in blocks.of(record):
            kind, text, letter = _searched(block)
            anchor = f"{anchor_of(node.uuid)}-{letter}{counts[letter]}"
            counts[letter] += not isinstance(block, Answered)
            if isinstance(block, Answered):
                anchor = self.reader.calls.get(block.id, anchor)
            at = text.casefold().find(wanted)
            if at < 0:
                continue
            if self.reader.out.is_redacted:
                text = self.reader.out.text(text)
                at = text.casefold().find(wanted)
                if at < 0:
                    continue
            start = max(0, at - _AROUND)
            snippet = text[start : at + len(wanted) + _AROUND]
            yield FoundPlace(
                anchor=anchor,
                turn=turn,
                kind=self.reader.out.name(kind),
                subagent=self.reader.out.text(subagent.id) if subagent else None,
                snippet=snippet,
                highlight=(at - start, min(len(snippet), at - start + len(wanted))),
            )

    def context(self) -> list[ContextPoint]:
        """Return how the context grew, response by response."""
        at_message: dict[str, tuple[int, str]] = {}
        for index, part in enumerate(self.parts):
            for node in part.nodes:
                if node.message_id:
                    at_message.setdefault(node.message_id, (index, anchor_of(node.uuid)))
        return [
            ContextPoint(tokens=each.context, turn=found[0], anchor=found[1], at=each.at)
            for each in self.reader.responses
            if not each.part and each.context and (found := at_message.get(each.message_id or ""))
        ]


_EVERYTHING: Final = ConversationOptions(images=False)


def _searched(block: Any) -> tuple[str, str, str]:
    """Return who said a block, its text, and the letter of its kind in ids."""
    match block:
        case PromptPiece():
            return str(block.kind), block.text, "s"
        case Answer():
            return "answer", block.text, "a"
        case Thinking():
            return "thinking", block.text, "t"
        case Mark():
            return str(block.kind), block.text, "m"
        case Other():
            return block.kind, block.text, "o"
        case CallRequest():
            return block.name, "\n".join(_strings(block.input)), "c"
        case Answered():
            return "result", without_colors(block.block.text), "c"
    return "image", "", "i"


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < _MOST_NESTED:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, int | float):
        yield str(value)


class SessionReaders:
    """The sessions that were read last, as long as their logs do not change."""

    def __init__(self, masking: Callable[[Session], Unmasked]) -> None:
        self._masking = masking
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[Fingerprint, SessionReader]] = OrderedDict()
        self._busy: dict[str, Lock] = {}

    def get(self, homes: Sequence[Home], name: str) -> tuple[SessionReader, str]:
        """Return the reader of a session, by the beginning of its id, and a tag of its state."""
        session = Session.find(homes, name)
        session.path  # noqa: B018 - Raises if the main log is missing.
        with self._lock:
            busy = self._busy.setdefault(session.id, Lock())
        with busy:  # Only one request reads a log.
            state = _fingerprint(session)
            with self._lock:
                kept = self._kept.get(session.id)
                if kept is not None and kept[0] == state:
                    self._kept.move_to_end(session.id)
                    return kept[1], _tag(state)
            reader = SessionReader(session, self._masking(session))
            with self._lock:
                self._kept[session.id] = (state, reader)
                self._kept.move_to_end(session.id)
                self._trim()
        return reader, _tag(state)

    def _trim(self) -> None:
        total = sum(reader.records for _, reader in self._kept.values())
        while total > _MOST_RECORDS and len(self._kept) > 1:
            name, (_, oldest) = self._kept.popitem(last=False)
            self._busy.pop(name, None)
            total -= oldest.records


def _fingerprint(session: Session) -> Fingerprint:
    found = []
    for log in session.logs:
        try:
            stat = os.stat(log.path)
        except OSError:
            continue
        found.append((str(log.path), stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _tag(state: Fingerprint) -> str:
    return f"{hash(state) & (1 << 64) - 1:016x}"
