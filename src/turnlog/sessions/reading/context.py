"""The context an agent would continue from: a thread's newest summary and what follows it.

Logs express a summary in three ways, which all become a ``Digest``:

- A compaction: a ``compact_boundary``, which cuts the thread, and after it a record marked
  ``isCompactSummary`` with the text; very old logs have the text alone. Some records may be kept
  (``preservedMessages``, or the first and last of a ``preservedSegment``).
- A ``summary`` record whose content has summary, messageCount and summarizedUntil, the uuid or time
  up to which it covers the thread.
- A ``summary`` record with a leafUuid. Claude Code wrote these to name a finished thread and still
  resumed all of it, so they are labels and cut nothing; in turnlog's own logs they count.

The newest digest is the one that covers the most. Gaps are bridged, as in the whole thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from turnlog.records.dates import instant
from turnlog.records.record import Record, Summary, System, User
from turnlog.records.record_types import Marker
from turnlog.sessions.reading.ranges import count_steps
from turnlog.sessions.reading.threads import whole_thread
from turnlog.sessions.reading.tree import Node, Tree
from turnlog.storage.reader import Placed

Read = Callable[[Iterable[Node]], Iterable[tuple[Node, Record]]]
"""Reads the records of nodes, one by one, as ``Session.records`` does."""


class SummaryKind(StrEnum):
    """How a log expresses a summary."""

    COMPACTION = "compaction"
    SUMMARY = "summary"
    LABEL = "label"  # The name of a thread; the agent still has all of it.


class Digest(Struct, frozen=True, kw_only=True):
    """A summary that replaces the records before it."""

    kind: SummaryKind
    text: str
    at: datetime | None
    node: Node | None
    """The record with the text; None if it is outside the tree or missing."""
    boundary: Node | None = None
    until: Node | None
    """The last record of the thread that it covers."""
    named: str | None
    """That record, or the time, as the log names it."""
    messages: int | None
    """How many messages it replaces, if the log says so."""
    kept: tuple[Node, ...] = ()
    """Records before it that were kept as they are."""
    lost: tuple[str, ...] = ()
    """Uuids of records that should have been kept and are missing."""
    kept_come_first: bool = False
    """Whether the agent sees those before the summary instead of after it."""


class Context(Struct, frozen=True):
    """What an agent would see of a thread."""

    digest: Digest | None
    nodes: list[Node]
    """What follows the digest; the whole thread if there is none."""
    summarised: int
    """How many messages of the thread the digest replaces."""


class _Cut(Struct, frozen=True):
    """A digest, and the index in the thread where the rest begins."""

    digest: Digest
    index: int
    order: tuple[int, int]


def context_of(tree: Tree, read: Read, tip: Node | None = None, *, labels: bool = False) -> Context:
    """Return what the agent would see if it continued from *tip*, or from the main thread's.

    With *labels*, names that Claude Code gave a thread also replace what they name.
    """
    thread = whole_thread(tree, tip)
    cuts = [
        cut
        for cut in _cuts(tree, read, thread)
        if labels or cut.digest.kind is not SummaryKind.LABEL
    ]
    newest = max(cuts, key=lambda cut: (cut.index, cut.order), default=None)
    if newest is None:
        return Context(None, thread, 0)
    digest = newest.digest
    seen = {node.uuid for node in (*digest.kept, digest.node, digest.boundary) if node is not None}
    following = [node for node in thread[newest.index :] if node.uuid not in seen]
    gone = (node for node in thread[: newest.index] if node.uuid not in seen)
    return Context(digest, following, count_steps(gone))


def digests_of(tree: Tree, read: Read, tip: Node | None = None) -> list[Digest]:
    """Return every summary of a part of the thread of *tip*, the one that covers most last."""
    cuts = _cuts(tree, read, whole_thread(tree, tip))
    return [cut.digest for cut in sorted(cuts, key=lambda cut: (cut.index, cut.order))]


def _cuts(tree: Tree, read: Read, thread: list[Node]) -> list[_Cut]:
    if not thread:
        return []
    return [*_compactions(tree, read, thread), *_summaries(tree, read, thread)]


# -- compactions ----------------------------------------------------------------------------


def _compactions(tree: Tree, read: Read, thread: list[Node]) -> Iterator[_Cut]:
    place = {node.uuid: index for index, node in enumerate(thread)}
    words = _compact_summaries(tree, read)
    boundaries = [node for node in tree.nodes if node.is_boundary]
    claimed: set[str] = set()
    for boundary, record in read(boundaries):
        summary = _summary_after(boundary, words, place)
        if summary is not None:
            claimed.add(summary[0].uuid)
        cut = _compaction(tree, thread, place, (boundary, record), summary)
        if cut is not None:
            yield cut
    for node, record in words.values():
        if node.uuid not in claimed and node.uuid in place:
            index = place[node.uuid]
            digest = Digest(
                kind=SummaryKind.COMPACTION,
                text=record.text,
                at=record.at,
                node=node,
                until=thread[index - 1] if index else None,
                named=None,
                messages=None,
            )
            yield _Cut(digest, index + 1, _order(node))


def _compaction(
    tree: Tree,
    thread: list[Node],
    place: dict[str, int],
    marked: tuple[Node, Record],
    summary: tuple[Node, User] | None,
) -> _Cut | None:
    """Return the cut that a boundary makes in *thread*; None if it does not concern this thread."""
    boundary, record = marked
    metadata = record.compact_metadata if isinstance(record, System) else None
    kept, lost, anchor = _kept(tree, metadata if isinstance(metadata, dict) else {})
    node = summary[0] if summary else None
    if boundary.uuid in place:
        index = place[boundary.uuid]
        behind = max(index, place.get(node.uuid, 0) if node else 0) + 1
    else:
        # The next message may follow the last record that was kept, past the boundary.
        index = behind = 1 + max(
            (place[each.uuid] for each in kept if each.uuid in place), default=-1
        )
        later = index and index < len(thread) and thread[index].position > boundary.position
        if not later or not boundary.same_writer(thread[index]):
            return None
    stayed = {each.uuid for each in kept}
    before = (each for each in reversed(thread[:index]) if each.uuid not in stayed)
    digest = Digest(
        kind=SummaryKind.COMPACTION,
        text=summary[1].text if summary else "",
        at=record.at,
        node=node,
        boundary=boundary,
        until=next(before, None),
        named=boundary.logical_parent_uuid,
        messages=_count(metadata, "messagesSummarized"),
        kept=tuple(kept),
        lost=tuple(lost),
        kept_come_first=bool(kept) and anchor == boundary.uuid,
    )
    return _Cut(digest, behind, _order(boundary))


def _compact_summaries(tree: Tree, read: Read) -> dict[str, tuple[Node, User]]:
    """Read the records that may be a compaction's summary, and return those that are."""
    maybe = [
        node for node in tree.nodes if node.type == "user" and not (node.is_prompt or node.results)
    ]
    return {
        node.uuid: (node, record)
        for node, record in read(maybe)
        if isinstance(record, User) and record.is_compact_summary
    }


def _summary_after(
    boundary: Node, words: dict[str, tuple[Node, User]], place: dict[str, int]
) -> tuple[Node, User] | None:
    """Return a compaction's summary: the first below its boundary before the next one.

    Something, such as a hook's output, may be between the two.
    """
    below = [boundary]
    for node in below:
        found = [child for child in node.children if child.uuid in words]
        if found:
            return words[max(found, key=lambda each: (each.uuid in place, each.position)).uuid]
        below += (each for each in node.children if not (each.is_spoken or each.is_boundary))
    return None


def _kept(tree: Tree, metadata: dict[str, Any]) -> tuple[list[Node], list[str], str | None]:
    """Return the records that a compaction kept, those that are missing, and the anchor."""
    messages, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    if isinstance(messages, dict):
        named = messages.get("uuids")
        uuids = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
        kept = [tree.by_uuid[each] for each in dict.fromkeys(uuids) if each in tree.by_uuid]
        lost = [each for each in uuids if each not in tree.by_uuid]
        return kept, lost, _text(messages, "anchorUuid")
    if not isinstance(segment, dict):
        return [], [], None
    head, tail = _text(segment, "headUuid"), _text(segment, "tailUuid")
    anchor = _text(segment, "anchorUuid")
    run: list[Node] = []
    for node in tree.by_uuid[tail].ancestry() if tail in tree.by_uuid else ():
        run.append(node)
        if node.uuid == head:
            return run[::-1], [], anchor
    # Without both ends, the extent of the segment is unknown.
    return [], [each for each in (head, tail) if each and each not in tree.by_uuid], anchor


# -- records of type summary ----------------------------------------------------------------


def _summaries(tree: Tree, read: Read, thread: list[Node]) -> Iterator[_Cut]:
    marks = (_place(each) for each in tree.loose if isinstance(each.record, Marker))
    by_turnlog = min(marks, default=None)
    for placed in tree.loose:
        if isinstance(placed.record, Summary):
            own = by_turnlog is not None and by_turnlog < _place(placed)
            yield from _summary(tree, thread, placed.record, None, _place(placed), own=own)
    nodes = [node for node in tree.nodes if node.type == "summary"]
    for node, record in read(nodes):
        if isinstance(record, Summary):
            own = by_turnlog is not None and by_turnlog < _order(node)
            yield from _summary(tree, thread, record, node, _order(node), own=own)


def _summary(
    tree: Tree,
    thread: list[Node],
    record: Summary,
    node: Node | None,
    order: tuple[int, int],
    *,
    own: bool,
) -> Iterator[_Cut]:
    older = record.content if isinstance(record.content, dict) else {}
    if record.leaf_uuid is not None and not older:
        named: str | None = record.leaf_uuid
        index = _index(thread, record.leaf_uuid)
    else:
        until = older.get("summarizedUntil")
        named = str(until) if until is not None else None
        index = _reach(tree, thread, until, record, order)
    if index is None:
        return  # It covers another thread, or another session.
    digest = Digest(
        kind=SummaryKind.SUMMARY if older or own else SummaryKind.LABEL,
        text=record.text,
        at=record.at,
        node=node,
        until=thread[index],
        named=named,
        messages=_count(older, "messageCount"),
    )
    yield _Cut(digest, index + 1, order)


def _reach(
    tree: Tree, thread: list[Node], until: Any, record: Summary, order: tuple[int, int]
) -> int | None:
    """Return how far into the thread a summary reaches: to what it names, else to its position."""
    if isinstance(until, str) and until in tree.by_uuid:
        return _index(thread, until)
    at = instant(until) or record.at
    if at is not None:
        times = [(index, instant(node.timestamp)) for index, node in enumerate(thread)]
        return max((index for index, when in times if when and when <= at), default=None)
    earlier = [index for index, node in enumerate(thread) if _order(node) < order]
    return max(earlier, default=None)


def _index(thread: list[Node], uuid: str) -> int | None:
    return next((index for index, node in enumerate(thread) if node.uuid == uuid), None)


def _place(placed: Placed) -> tuple[int, int]:
    return placed.log, placed.offset


def _order(node: Node) -> tuple[int, int]:
    return node.log, node.offset


def _count(metadata: Any, key: str) -> int | None:
    found = metadata.get(key) if isinstance(metadata, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _text(metadata: dict[str, Any], key: str) -> str | None:
    found = metadata.get(key)
    return found if isinstance(found, str) else None
