"""The outline of a session, and its division into windows that a page loads one by one.

A window is a run of records that makes a page of bearable size: some turns, or a part of a long
one. Windows are cut from the beginning, so all but the last stay the same while a log grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from turnlog.export.conversation import anchor_of
from turnlog.export.conversation_builder import TurnPart
from turnlog.export.record_blocks import Unmasked, unwrap
from turnlog.export.session_read import RecordNote, SessionRead
from turnlog.pricing.money import dollars
from turnlog.records.dates import instant
from turnlog.records.responses import Response
from turnlog.sessions.reading.subagents import Subagent
from turnlog.sessions.reading.tree import Node
from turnlog.sessions.totals import usual_prices

_MOST_RECORDS: Final = 64
_MOST_CHARACTERS: Final = 40_000
_LONGEST_LABEL: Final = 160
_TAGS: Final = re.compile(r"</?(?:local-)?(?:command|bash)-[a-z-]{1,20}>")
_NOTHING: Final = RecordNote()

MarkName = Literal["error", "compaction", "subagent", "commit"]


class Window(NamedTuple):
    """Consecutive records of a thread: turns, or parts of them, by their indexes."""

    parts: list[tuple[int, TurnPart]]
    """The index of each turn, and the records of it."""
    is_cut: bool
    """Whether it begins in the middle of a turn."""


class PlaceMark(Struct, kw_only=True):
    """An event in a session that is worth a look."""

    kind: MarkName
    anchor: str
    turn: int
    """The index of the turn."""
    position: float
    """How far from the beginning, from 0 to 1."""
    text: str


class TurnOutline(Struct, kw_only=True):
    """A turn in a few words and figures."""

    index: int
    """The turns of all branches, counted from 0."""
    number: int
    anchor: str
    label: str
    """The beginning of the prompt."""
    at: datetime | None
    ended_at: datetime | None
    calls: int
    errors: int
    cost_usd: str | None
    compactions: int
    subagents: int
    commits: int
    is_branch: bool


class SessionOutline(Struct, kw_only=True):
    """The turns of a session, and the events in it."""

    turns: list[TurnOutline]
    marks: list[PlaceMark]


def windows_of(parts: Sequence[TurnPart], notes: Mapping[str, RecordNote]) -> list[Window]:
    """Divide turns into windows."""
    found: list[Window] = []
    now: list[tuple[int, TurnPart]] = []
    records = characters = 0
    is_cut = False
    for index, part in enumerate(parts):
        nodes: list[Node] = []
        is_first = True
        for node in part.nodes:
            size = notes.get(node.uuid, _NOTHING).characters
            is_full = records >= _MOST_RECORDS or characters + size > _MOST_CHARACTERS
            # A result stays with its call.
            if records and is_full and not node.results and node.type != "tool_result":
                if nodes:
                    now.append((index, _piece(part, nodes, is_first=is_first)))
                    is_first = False
                found.append(Window(now, is_cut))
                is_cut = not is_first
                now, nodes, records, characters = [], [], 0, 0
            nodes.append(node)
            records += 1
            characters += size
        if nodes:
            now.append((index, _piece(part, nodes, is_first=is_first)))
    if now:
        found.append(Window(now, is_cut))
    return found


def _piece(part: TurnPart, nodes: list[Node], *, is_first: bool) -> TurnPart:
    is_start = part.is_branch_start and is_first
    return part._replace(nodes=nodes, is_branch_start=is_start)


def outline_of(
    read: SessionRead, parts: Sequence[TurnPart], responses: Iterable[Response], out: Unmasked
) -> SessionOutline:
    """Return the outline of the turns in *parts*."""
    spent = _cost_by_message(responses)
    agents = {
        each.spawn.call_id: each for each in read.subagents if each.spawn and not each.spawn.caller
    }
    of_agent = _cost_by_subagent(read, responses)
    total = sum(len(part.nodes) for part in parts) or 1
    turns: list[TurnOutline] = []
    marks: list[PlaceMark] = []
    before = 0
    for index, part in enumerate(parts):
        seen = [
            PlaceMark(
                kind=kind,
                anchor=f"{anchor_of(node.uuid)}-{block}",
                turn=index,
                position=(before + place) / total,
                text=text,
            )
            for place, node in enumerate(part.nodes)
            for kind, text, block in _events(node, read, agents)
        ]
        before += len(part.nodes)
        marks += seen
        atto = [spent.pop(node.message_id, None) for node in part.nodes if node.message_id]
        atto += [
            of_agent.pop(agents[call].id, None)
            for node in part.nodes
            for call in node.calls
            if call in agents
        ]
        priced = [each for each in atto if each is not None]
        times = [at for node in (part.nodes[0], part.nodes[-1]) if (at := instant(node.timestamp))]
        counted = [mark.kind for mark in seen]
        turns.append(
            TurnOutline(
                index=index,
                number=part.number,
                anchor=part.anchor,
                label=_label(part, read.notes, out),
                at=times[0] if times else None,
                ended_at=times[-1] if times else None,
                calls=sum(len(read.notes.get(node.uuid, _NOTHING).tools) for node in part.nodes),
                errors=counted.count("error"),
                cost_usd=f"{dollars(sum(priced)):f}" if priced else None,
                compactions=counted.count("compaction"),
                subagents=counted.count("subagent"),
                commits=counted.count("commit"),
                is_branch=part.branch is not None,
            )
        )
    return SessionOutline(turns=turns, marks=marks)


def _events(
    node: Node, read: SessionRead, agents: Mapping[str, Subagent]
) -> Iterator[tuple[MarkName, str, str]]:
    note = read.notes.get(node.uuid, _NOTHING)
    if node.is_boundary:
        yield "compaction", "compaction", "m0"
    for number, (call, tool) in enumerate(zip(node.calls, note.tools, strict=False)):
        if call in read.failed:
            yield "error", f"{tool} failed", f"c{number}"
        elif call == note.commit:
            yield "commit", "git commit", f"c{number}"
        if call in agents:
            words = agents[call].description or agents[call].kind or "subagent"
            yield "subagent", words, f"c{number}"
    if note.errors and not node.results and not node.calls:
        yield "error", "API error" if node.type == "system" else "failed", "m0"


def _label(part: TurnPart, notes: Mapping[str, RecordNote], out: Unmasked) -> str:
    """Return what was typed, or the first text by the program."""
    said = notes.get(part.nodes[0].uuid, _NOTHING).label
    if part.is_opening:
        said = next(
            (label for node in part.nodes if (label := notes.get(node.uuid, _NOTHING).label)), ""
        )
    pieces = unwrap(out.text(said))
    typed = [piece for piece in pieces if piece.is_prompt]
    text = " ".join(piece.text for piece in typed or pieces[:1])
    text = _TAGS.sub(" ", text)  # Of an element that was cut.
    return " ".join(text.split())[:_LONGEST_LABEL]


def _cost_by_message(responses: Iterable[Response]) -> dict[str | None, int]:
    """Return the cost of each message, in attodollars."""
    prices = usual_prices()
    found: dict[str | None, int] = {}
    for response in responses:
        quote = prices.quote_for(response)
        if quote.price is not None and response.message_id:
            cost = quote.attodollars(response.counters)
            found[response.message_id] = found.get(response.message_id, 0) + cost
    return found


def _cost_by_subagent(read: SessionRead, responses: Iterable[Response]) -> dict[str, int]:
    """Return the cost of each subagent, in attodollars."""
    spent = _cost_by_message(responses)
    found = {}
    for subagent in read.subagents:
        nodes = read.subagent_trees[subagent.id].nodes
        messages = dict.fromkeys(node.message_id for node in nodes if node.message_id)
        found[subagent.id] = sum(spent.get(each, 0) for each in messages)
    return found
