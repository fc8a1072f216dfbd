"""Recover a session after a crash, for turnlog and for the program that wrote it.

``examine`` reports what is wrong and changes nothing. ``recover`` then makes the smallest change:

- Records on damaged lines are separated by a repair, and records with a wrong parent (null in
  mid-log, or a cycle of parents) get the record before them as their parent. Both rewrite the log
  and keep the old one.
- A truncated last line is terminated by the next append.
- A record whose parent is missing gets one: a new record with the missing uuid, linked to the
  record before the gap. If calls of that record have no result, the missing record was the result,
  and the new one replaces it, marked as an error.
- A call without a result gets such a replacement too if other calls of its response have results. A
  call of a response without any results was interrupted, which is not damage.
- The last record appended is linked to the end of the main thread.

A recovery never moves the main thread to an older tip. Claude Code resumes the newest leaf, by its
position in the log and by what the last prompt's record names, older versions by timestamp. So the
old end stays the last in the log, and appended records have the timestamp of their neighbour.

The model sees only the replaced results. The recovery is recorded in the log, so that it can be
undone, and a second recovery finds nothing to do.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import MAXYEAR, datetime, timedelta
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

from msgspec import Struct, structs, to_builtins

from turnlog.errors import UnsafeRecovery, UsageError
from turnlog.formats.format import refuse_rewriting
from turnlog.records.codec import decode, encode
from turnlog.records.dates import instant, iso
from turnlog.records.lenient_json import loads
from turnlog.records.record import Linked, Record
from turnlog.sessions.reading.threads import across_boundaries, main_end, main_tip, newest_leaf
from turnlog.sessions.reading.tree import GapReason, Node, Tree
from turnlog.sessions.session import Session
from turnlog.sessions.state import Running
from turnlog.sessions.writing import build
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage.atomic_files import size_at
from turnlog.storage.reader import Placed
from turnlog.storage.repair import Repair, repair
from turnlog.storage.replace import Locked, Replacement, chunks, rewrite
from turnlog.storage.sources import opened_regular
from turnlog.storage.system import read_at

_BATCH: Final = 200
_WRITTEN_DOWN: Final = ("salvaged", "torn", "relinked", "bridges", "lost")
_LOST: Final = "[The result of this call was lost.]"


class Bridge(Struct, frozen=True, kw_only=True):
    """A missing parent, and the record used instead."""

    missing: str
    child: str
    to: str
    answers: list[str] = []
    """Calls whose results were lost with it."""


class Relink(Struct, frozen=True, kw_only=True):
    """A record whose parent is wrong, and the parent that a recovery gives it."""

    record: str
    to: str | None
    reason: Literal["null", "ring", "missing"]
    is_prompt: bool = False
    """Whether it begins a turn: a person may have gone back to the start on purpose."""


class Recovery(Struct, kw_only=True):
    """What is wrong with a session, and whether it has been recovered.

    `turnlog recover SESSION --json` prints it.
    """

    id: str
    path: str
    written: bool = False
    crashed: bool = False
    damaged: int = 0
    """Ranges of bytes that are not a record."""
    salvaged: int = 0
    """Records on damaged lines."""
    torn: bool = False
    """Whether the last line was cut short, or lacks its newline."""
    bridges: list[Bridge] = []
    relinked: list[Relink] = []
    """Records of the main thread that start it again in mid-log, or that share a missing parent
    with another record, and the first of each cycle.
    """
    cycles: list[str] = []
    """Records that are their own ancestors; the first of each cycle."""
    lost: list[str] = []
    """Calls whose results are missing, though others of their response were answered."""
    interrupted: list[str] = []
    """Calls without an answer. They are left as they are."""
    originals: list[str] = []
    """Logs as they were before they were rewritten."""
    lacking: int = 0
    """Records that a kept copy holds and the logs do not: run turnlog restore --force first."""

    @property
    def needed(self) -> bool:
        """Whether there is anything to recover."""
        return bool(
            self.crashed or self.salvaged or self.torn or self.bridges or self.relinked or self.lost
        )


class TouchedLog(Struct, frozen=True, kw_only=True, rename="camel"):
    """A log as a recovery found or rewrote it, before anything was appended."""

    log: str
    """Its path, relative to the directory of the main log."""
    size_bytes: int
    sha256: str
    original: str | None = None
    """The name of the original log, if it was rewritten."""


def examine(session: Session, running: Running | None = None) -> Recovery:
    """Return what is wrong with *session*; *running* is what its program left about itself."""
    return _examine(session, running)[0]


def recover(
    session: Session, resume: Callable[[], SessionWriter], running: Running | None = None
) -> Recovery:
    """Recover *session*; *resume* opens it for writing once its logs are readable.

    Raises UnsafeRecovery, with nothing written, if the main thread would end earlier than now.
    """
    refuse_if_running(session, running)
    found, repairs = _examine(session, running)
    if not found.needed:
        return found
    _refuse_older_tip(session, found)
    leaves = _leaves(session.tree)
    originals: dict[Path, str] = {}
    # An append terminates only the log that it appends to.
    others = [plan for plan in repairs if plan.path != found.path or session.format.shares_logs]
    cut = [plan for plan in others if plan.torn or plan.adds_newline]
    if cut or found.relinked or any(plan.salvaged for plan in repairs):
        refuse_rewriting(session.logs)
    for plan in repairs:
        if plan.salvaged or plan in cut:
            done = repair(plan.path, write=True)
            if done.original:
                originals[Path(plan.path)] = done.original
                found.originals.append(done.original)
    if originals:  # Salvaged records may be the missing parents of others.
        session = Session(session.id, session.logs)
        _look_at(session.tree, found)
    if found.relinked:
        original = os.fspath(_relink(session, found.relinked))
        originals.setdefault(session.path, original)
        found.originals.append(original)
        session = Session(session.id, session.logs)
    lines = _additions(found, session.tree, leaves)
    with resume() as writer:
        touched = [_touched(path, writer.path, originals.get(path)) for path in originals]
        if writer.path not in originals:
            touched.append(_touched(writer.path, writer.path, None))
        appended: list[str | None] = []
        for start in range(0, len(lines), _BATCH):
            appended += writer.append_many(lines[start : start + _BATCH])
        facts = to_builtins(found)
        writer.mark(
            "recovered",
            **{key: facts[key] for key in _WRITTEN_DOWN},
            appended=appended,
            logs=to_builtins(touched),
        )
    found.written = True
    return found


def _examine(session: Session, running: Running | None) -> tuple[Recovery, list[Repair]]:
    subagents = [log.path for log in session.logs if log.kind == "subagent" and not log.compression]
    repairs = [repair(path) for path in (*session.paths, *subagents)]
    left_behind = running is not None and running.was_killed(session.facts.life)
    found = Recovery(
        id=session.id,
        path=str(session.path),
        crashed=session.facts.life.crashed or left_behind,
        damaged=sum(len(plan.quarantined) for plan in repairs),
        salvaged=sum(plan.salvaged for plan in repairs),
        torn=any(plan.torn or plan.adds_newline for plan in repairs),
    )
    _look_at(session.tree, found)
    return found, repairs


def _look_at(tree: Tree, found: Recovery) -> None:
    """Record what is wrong with the tree."""
    calls = _Calls(tree)
    found.cycles = [gap.node.uuid for gap in tree.gaps if gap.reason is GapReason.CYCLE]
    found.bridges = _bridges(tree, calls)
    found.relinked = [*_rings(tree), *_severed(tree), *_siblings(tree, found.bridges)]
    bridged = {call for bridge in found.bridges for call in bridge.answers}
    left = [call for call in calls.open if call not in bridged]
    found.lost = [call for call in left if calls.is_half_answered(call)]
    found.interrupted = [call for call in left if not calls.is_half_answered(call)]


def _rings(tree: Tree) -> Iterator[Relink]:
    """Yield the first record of each cycle of parents, outside of subagents."""
    for gap in tree.gaps:
        if gap.reason is GapReason.CYCLE and not gap.node.is_sidechain:
            to = None if gap.bridged_to is None else gap.bridged_to.uuid
            yield Relink(record=gap.node.uuid, to=to, reason="ring")


def _siblings(tree: Tree, bridges: list[Bridge]) -> Iterator[Relink]:
    """Return the records of the main thread whose missing parent is replaced for another child.

    Claude Code takes the record before them for their parent, which may descend from that child:
    with the replaced parent it would resume less than before.
    """
    end = main_end(tree)
    thread = {node.uuid for node in across_boundaries(tree, end)} if end is not None else set()
    firsts = {bridge.missing: bridge.child for bridge in bridges}
    for gap in tree.gaps:
        child = firsts.get(gap.named) if gap.reason is GapReason.MISSING else None
        if child not in (None, gap.node.uuid) and gap.node.uuid in thread and gap.bridged_to:
            yield Relink(record=gap.node.uuid, to=gap.bridged_to.uuid, reason="missing")


def _severed(tree: Tree) -> Iterator[Relink]:
    """Return the records at which the main thread starts again, though more comes before them.

    A record without a parent starts a thread. In mid-log that is right for a compaction, which
    names what it summarized, and for a person who went back to the very start; otherwise a parent
    was lost.
    """
    mine = [node for node in tree.nodes if not node.is_sidechain and node.type != "progress"]
    first = next((node.position for node in mine if node.is_spoken), 0)
    known: set[str] = set()
    for end in dict.fromkeys((main_end(tree), newest_leaf(tree))):
        own: set[str] = set()
        link: Relink | None = None
        node = end
        while node is not None:
            way: list[Node] = []
            for each in across_boundaries(tree, node):
                way.append(each)
                if each.uuid in own or each.uuid in known:
                    break
            top = way[-1]
            if top.uuid in own:  # It descends from this thread, so it cannot be above it.
                break
            if link is not None:
                yield link
            own.update(each.uuid for each in way)
            node = None if top.uuid in known else _lost_parent(top, mine, first)
            if node is not None:
                message = next((each for each in reversed(way) if each.is_spoken), top)
                link = Relink(
                    record=top.uuid, to=node.uuid, reason="null", is_prompt=message.is_prompt
                )
        known |= own


def _lost_parent(root: Node, mine: list[Node], first: int) -> Node | None:
    """Return the record that *root* should follow, or None if it rightly has no parent.

    *mine* are the main agent's records, whose first message is at position *first*.
    """
    names_parent = root.parent_uuid is not None or root.logical_parent_uuid is not None
    if names_parent or root.is_chained or root.is_sidechain or root.is_boundary:
        return None
    if root.position <= first:
        return None
    return mine[bisect_left(mine, root.position, key=lambda node: node.position) - 1]


class _Calls:
    """The calls of a session in Claude Code's dialect, and which of them were answered."""

    def __init__(self, tree: Tree) -> None:
        self.made_by = {
            call: node
            for node in tree.nodes
            for call in node.calls
            if not (node.is_sidechain or node.is_chained)
        }
        answered = {call for node in tree.nodes for call in node.results}
        self.open = [call for call in self.made_by if call not in answered]
        self._answered_messages = {
            node.message_id for call, node in self.made_by.items() if call in answered
        }

    def is_half_answered(self, call: str) -> bool:
        """Return whether other calls of the same response were answered."""
        message_id = self.made_by[call].message_id
        return message_id is not None and message_id in self._answered_messages

    def open_at(self, node: Node) -> list[str]:
        """Return the open calls of the response that *node* belongs to."""
        return [
            call
            for call in self.open
            if self.made_by[call] is node
            or (node.message_id is not None and self.made_by[call].message_id == node.message_id)
        ]


def _bridges(tree: Tree, calls: _Calls) -> list[Bridge]:
    """Return the missing parents, each once, that can be linked to another record.

    If a child of the missing parent is above the record before the gap, linking the two would make
    a cycle: that parent stays missing.
    """
    missing = [gap for gap in tree.gaps if gap.reason is GapReason.MISSING]
    unbridged = {gap.named for gap in missing if gap.bridged_to is None}
    found: dict[str, Bridge] = {}
    for gap in missing:
        # The missing parent must have a uuid that a record can have.
        is_plain = bool(gap.named.strip()) and not gap.node.is_sidechain
        if gap.bridged_to is not None and gap.named not in unbridged and is_plain:
            bridge = Bridge(
                missing=gap.named,
                child=gap.node.uuid,
                to=gap.bridged_to.uuid,
                answers=calls.open_at(gap.bridged_to),
            )
            found.setdefault(gap.named, bridge)
    return list(found.values())


def _additions(found: Recovery, tree: Tree, leaves: set[str]) -> list[dict[str, Any]]:
    """Return the records to append, in order.

    *tree* has its records relinked already; *leaves* are the leaves that the log had before.
    """
    makers = _Calls(tree).made_by
    end = main_end(tree)
    lines = []
    for bridge in found.bridges:
        line = _stand_in(bridge.answers) if bridge.answers else _note("A record is missing here.")
        at = instant(tree.by_uuid[bridge.child].timestamp)
        lines.append(_placed(line | {"uuid": bridge.missing}, bridge.to, at))
    for call in found.lost:
        # A leaf off the thread; meta, so that the SDK does not take it for the thread's end.
        line = _stand_in([call]) | {"isMeta": True}
        at = instant(makers[call].timestamp)
        if at is not None and end is not None:
            at = min(at, _tick(instant(end.timestamp) or at, -1))
        lines.append(_placed(line, makers[call].uuid, at))
    if lines and end is not None:
        words = f"turnlog recovered this session: {len(lines)} lost records were replaced."
        lines.append(_placed(_note(words), end.uuid, _end_time(end, leaves)))
    return lines


def _placed(line: dict[str, Any], parent: str, at: datetime | None) -> dict[str, Any]:
    """Link a record to *parent* and set its timestamp.

    Claude Code up to 2.1.91 resumes the leaf with the newest timestamp: a record from now would
    become that leaf.
    """
    stamp = {} if at is None else {"timestamp": iso(at)}
    return {"uuid": str(uuid4())} | line | {"parentUuid": parent} | stamp


def _end_time(end: Node, leaves: set[str]) -> datetime | None:
    """Return the timestamp of the record that is appended to *end*.

    It is that of *end*, or just after that of a leaf that has become an ancestor of *end*: clocks
    step back, and such a leaf may have been the newest.
    """
    at = instant(end.timestamp)
    if at is None:
        return None
    above = [instant(node.timestamp) for node in end.ancestry() if node.uuid in leaves]
    newest = max(each or at for each in [*above, at])
    return at if newest == at else _tick(newest, 1)


def _tick(at: datetime, milliseconds: int) -> datetime:
    """Move *at* a little, if the calendar allows."""
    return at + timedelta(milliseconds=milliseconds) if 1 < at.year < MAXYEAR else at


def _leaves(tree: Tree) -> set[str]:
    """Return the records that no other record names as its parent."""
    return tree.by_uuid.keys() - {node.parent_uuid for node in tree.nodes}


def _refuse_older_tip(session: Session, found: Recovery) -> None:
    """Raise UnsafeRecovery if the main thread would end earlier after the recovery."""
    before = main_tip(session.tree)
    if before is None:
        return
    relinked = Tree(_relinked(session, found)) if found.relinked else session.tree
    lines = _additions(found, relinked, _leaves(session.tree))
    decoded = (decode(encode(line)) for line in lines)
    added = (Placed(record, 0, 0) for record in decoded if isinstance(record, Record))
    after = main_tip(Tree(chain(_relinked(session, found), added)))
    same = None if after is None else session.tree.by_uuid.get(after.uuid)
    if same is None or same.position < before.position:
        raise UnsafeRecovery(
            f"recovering session {session.id} would move its main thread to an older end",
            hint="nothing was written; look at its branches",
            code="unsafe-recovery",
            about=session.id[:8],
        )


def _relinked(session: Session, found: Recovery) -> Iterator[Placed]:
    """Yield the records of *session* with the parents that a recovery gives them."""
    parents = {link.record: link.to for link in found.relinked}
    for item in session.items():
        record = item.record
        if isinstance(record, Linked) and record.uuid in parents:
            record = structs.replace(record, parent_uuid=parents[record.uuid])
            item = item._replace(record=record)  # noqa: PLW2901 - The same item, relinked.
        yield item


def _relink(session: Session, links: list[Relink]) -> Path:
    """Rewrite the main log with the parents of *links*; return the path of the old log."""
    nodes = sorted((session.tree.by_uuid[link.record] for link in links), key=lambda n: n.offset)
    parents = {link.record: link.to for link in links}

    def relinked(held: Locked) -> Iterator[Replacement]:
        for node in nodes:
            line = read_at(held.fd, node.length, node.offset)
            fields = loads(line)
            if fields.get("uuid") != node.uuid:
                raise UnsafeRecovery(
                    f"{held.path} changed while it was recovered",
                    hint="end the program that writes it, then recover it again",
                )
            fields["parentUuid"] = parents[node.uuid]
            yield Replacement(node.offset, node.length, (encode(fields),))

    return rewrite(session.path, relinked, "recovery")


def _touched(path: Path, main: Path, original: str | None) -> TouchedLog:
    """Describe a log so that an undo can detect changes."""
    size = size_at(path)
    return TouchedLog(
        log=os.path.relpath(path, main.parent),
        size_bytes=size,
        sha256=digest_of(path, size),
        original=None if original is None else os.path.basename(original),
    )


def digest_of(path: Path, size_bytes: int) -> str:
    """Return the SHA-256 of the first *size_bytes* of a file."""
    digest = sha256()
    if size_bytes:
        with opened_regular(path) as fd:
            for piece in chunks(fd, 0, size_bytes):
                digest.update(piece)
    return digest.hexdigest()


def _note(words: str) -> dict[str, Any]:
    """Return a record that is part of the tree but never sent to a model."""
    return build.system(words) | {"isMeta": True}


def _stand_in(calls: list[str]) -> dict[str, Any]:
    """Return a record that answers *calls* in place of the one that was lost."""
    blocks = [
        {"type": "tool_result", "tool_use_id": call, "content": _LOST, "is_error": True}
        for call in calls
    ]
    return build.user(blocks)


def refuse_if_running(session: Session, running: Running | None) -> None:
    """Raise UsageError if a running process writes *session*."""
    if session.facts.life.is_running or (running is not None and running.is_alive):
        raise UsageError(
            f"session {session.id} is being written",
            hint="end the program that writes it, then try again",
        )
