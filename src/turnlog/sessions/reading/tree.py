"""The tree of a log's records, linked by parent; ancestors and descendants of a record.

Each record names its parent, several may share one, and some name a parent that does not exist. The
tree keeps one small node per record, so that a log of a gigabyte fits; records are read again by
offset when needed.

- Every record with a uuid has a node; of several with one uuid the last counts, as in Claude Code,
  and the others are in *replaced*.
- Every node is reachable from some tip. A missing parent is replaced by the record before the child
  in the log, and so is the parent of a cycle's first record; both are in *gaps*.
- Records without a uuid (titles, snapshots, modes) are in *loose*. Dialects without parents, and
  sometimes without uuids, have nodes too: each record follows the one before.

``Lineage`` optionally continues across compactions to what they summarized.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct, field, structs

from turnlog.errors import NotFound, UsageError
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Assistant, Linked, Spoken, System, User
from turnlog.records.record_types import LastPrompt
from turnlog.storage.reader import Placed

# Two dialects have separate records for calls and results.
_SPOKEN: Final = frozenset({"user", "assistant", "tool_use", "tool_call", "tool_result"})


class Node(Struct, eq=False):
    """A record's position in the tree. *parent* is the node above it, bridges included."""

    uuid: str
    type: str
    position: int
    """How many linked records come before it in the log."""
    offset: int
    length: int
    log: int = 0
    """The index of its log among the session's main logs."""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    timestamp: str = ""
    agent_id: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_team: bool = False
    is_prompt: bool = False
    """Whether it begins a turn."""
    is_chained: bool = False
    """Whether its dialect has no parents: each record follows the one before."""
    is_boundary: bool = False
    """Whether it is a compaction: what is above it was summarized."""
    message_id: str | None = None
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    source_uuid: str | None = None
    """The record whose call this one answers, if the log says so."""
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)

    def __repr__(self) -> str:
        # Without its neighbours, which would print the whole tree.
        return f"Node({self.uuid!r}, {self.type!r}, offset={self.offset})"

    @property
    def is_spoken(self) -> bool:
        return self.type in _SPOKEN

    def same_writer(self, other: Node) -> bool:
        """Return whether both were written by the same subagent, or both by the main one."""
        return self.is_sidechain == other.is_sidechain and self.agent_id == other.agent_id

    def ancestry(self) -> Iterator[Node]:
        """Yield this node, its parent, and so on up to a root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


class GapReason(StrEnum):
    """Why a record's parent is not the one it names."""

    MISSING = "missing"  # No record of this log has that uuid.
    CYCLE = "cycle"  # The record is its own ancestor.


class Gap(Struct, frozen=True):
    """A parent that could not be followed, and the record used instead."""

    node: Node
    named: str
    reason: GapReason
    bridged_to: Node | None


class Tree:
    """The nodes of one log and their links."""

    def __init__(self, items: Iterable[Placed]) -> None:
        self.by_uuid: dict[str, Node] = {}
        self.replaced: list[Node] = []
        self.loose: list[Placed] = []
        self.gaps: list[Gap] = []
        self._preceding: dict[str, Node] = {}
        self.session_ids: Counter[str] = Counter()
        """How many records name each session."""
        self.leaf_uuid: str | None = None
        """The leaf that the last ``last-prompt`` record names: Claude Code's own note of where a
        resume continues.
        """
        for placed in items:
            if placed.record.session_id is not None:
                self.session_ids[placed.record.session_id] += 1
            node = _node(placed, len(self.by_uuid) + len(self.replaced))
            if node is None:
                self.loose.append(placed)
                if isinstance(placed.record, LastPrompt) and placed.record.leaf_uuid:
                    self.leaf_uuid = placed.record.leaf_uuid
                continue
            former = self.by_uuid.pop(node.uuid, None)
            if former is not None:
                self.replaced.append(former)
            self.by_uuid[node.uuid] = node
        self._hang()

    def sidechain(self, uuids: Iterable[str]) -> Tree:
        """Return a tree of only the subagent's records with these *uuids*, linked to each other."""
        part = Tree(())
        for node in filter(None, map(self.by_uuid.get, uuids)):
            if not node.is_sidechain:  # A later record of the session has the same uuid.
                continue
            part.by_uuid[node.uuid] = structs.replace(node, parent=None, children=[])
        for node in part.by_uuid.values():
            if node.parent_uuid in self.by_uuid and node.parent_uuid not in part.by_uuid:
                node.parent_uuid = None
        part.replaced = [node for node in self.replaced if node.uuid in part.by_uuid]
        part._hang()
        return part

    def _hang(self) -> None:
        """Order the nodes and set their parents and children."""
        self.nodes = sorted(self.by_uuid.values(), key=lambda node: node.position)
        self._link()
        self._cut_cycles()
        for node in self.nodes:
            if node.parent is not None:
                node.parent.children.append(node)

    @property
    def roots(self) -> list[Node]:
        return [node for node in self.nodes if node.parent is None]

    @property
    def prompts(self) -> list[Node]:
        """What a person typed, on any branch, in log order; not agents' prompts."""
        return [
            node
            for node in self.nodes
            if node.is_prompt and not node.is_sidechain and node.agent_id is None
        ]

    @property
    def tips(self) -> list[Node]:
        """Nodes without children; every node is above some tip."""
        return [node for node in self.nodes if not node.children]

    @property
    def branchings(self) -> list[Node]:
        """Nodes with more than one child."""
        return [node for node in self.nodes if len(node.children) > 1]

    def summarised(self, node: Node) -> Node | None:
        """Return the record that a compaction names as the last one it summarized.

        If it is missing: the record that the same writer wrote before the compaction.
        """
        if node.logical_parent_uuid is None:
            return None
        return self.by_uuid.get(node.logical_parent_uuid) or self._preceding.get(node.uuid)

    def _link(self) -> None:
        before: dict[tuple[bool, str | None], Node] = {}
        for node in self.nodes:
            writer = (node.is_sidechain, node.agent_id)
            if node.is_chained:
                node.parent = before.get(writer)
                node.parent_uuid = node.parent.uuid if node.parent else None
            elif node.parent_uuid is not None:
                node.parent = self.by_uuid.get(node.parent_uuid)
                if node.parent is None:
                    node.parent = before.get(writer)
                    self.gaps.append(Gap(node, node.parent_uuid, GapReason.MISSING, node.parent))
            if node.logical_parent_uuid is not None and writer in before:
                self._preceding[node.uuid] = before[writer]
            before[writer] = node

    def _cut_cycles(self) -> None:
        """Make the first record of every cycle a root.

        A cycle that only a bridge closes loses the bridge: the record before a missing parent's
        child may descend from that child.
        """
        bridges = {gap.node.position: index for index, gap in enumerate(self.gaps)}
        firsts: set[int] = set()
        settled: set[int] = set()
        for start in self.nodes:
            path: dict[int, Node] = {}
            node: Node | None = start
            while node is not None and node.position not in settled:
                if node.position in path:
                    ring = list(path)[list(path).index(node.position) :]
                    bridged = next((place for place in ring if place in bridges), None)
                    cut = path[min(ring) if bridged is None else bridged]
                    cut.parent = None
                    if bridged is None:
                        firsts.add(cut.position)
                    else:
                        index = bridges[bridged]
                        self.gaps[index] = Gap(cut, cut.parent_uuid or "", GapReason.MISSING, None)
                    break
                path[node.position] = node
                node = node.parent
            settled.update(path)
        if firsts:
            self._bridge_cycles(firsts)

    def _bridge_cycles(self, firsts: set[int]) -> None:
        """Link the first record of every cycle to the record before it, if not a descendant."""
        before: dict[tuple[bool, str | None], Node] = {}
        roots: dict[str, Node] = {}
        for node in self.nodes:
            writer = (node.is_sidechain, node.agent_id)
            if node.position in firsts:
                earlier = before.get(writer)
                if earlier is not None and _root_of(earlier, _parent, roots) is not node:
                    node.parent = earlier
                named = node.parent_uuid or ""
                self.gaps.append(Gap(node, named, GapReason.CYCLE, node.parent))
            before[writer] = node


def _parent(node: Node) -> Node | None:
    return node.parent


def _root_of(node: Node, above: Callable[[Node], Node | None], known: dict[str, Node]) -> Node:
    """Return the first record above *node*; *known* shortens the paths for later calls."""
    path = []
    while (higher := known.get(node.uuid) or above(node)) is not None:
        path.append(node)
        node = higher
    known.update((each.uuid, node) for each in path)
    return node


def _node(placed: Placed, position: int) -> Node | None:
    """Return the node of a record, or None if it is not part of the tree."""
    record = placed.record
    chained = record.dialect != "claude" and isinstance(record, Linked)
    if not isinstance(record, Linked) or (record.uuid is None and not chained):
        return None
    node = Node(
        uuid=record.uuid or f"@{placed.log}:{placed.offset}",
        type=record.type,
        position=position,
        offset=placed.offset,
        length=placed.length,
        log=placed.log,
        parent_uuid=record.parent_uuid or None,
        logical_parent_uuid=record.logical_parent_uuid,
        timestamp=record.timestamp if isinstance(record.timestamp, str) else "",
        agent_id=record.agent_id,
        is_sidechain=record.is_sidechain,
        is_meta=bool(record.is_meta),
        is_team=bool(record.team_name),
        is_chained=chained and record.parent_uuid is None,
    )
    if isinstance(record, System):
        node.is_boundary = record.subtype == "compact_boundary"
    elif isinstance(record, Spoken):
        node.is_prompt = meaning_of(record) is Meaning.PROMPT
        node.calls = tuple(call.id for call in record.calls)
        node.results = tuple(result.tool_use_id for result in record.results)
        if isinstance(record, Assistant) and record.message:
            node.message_id = record.message.id or None
        elif isinstance(record, User):
            node.source_uuid = record.source_tool_assistant_uuid
    return node


_SHOWN = 5


class Ancestry(Struct, frozen=True):
    """The records from the first one reached down to the requested one."""

    nodes: list[Node]
    gaps: list[Gap]
    """The gaps crossed, newest first."""
    is_cut: bool
    """Whether there are more above, beyond the depth."""


class Descendant(Struct, frozen=True):
    """A record and how many steps it is below the requested one."""

    node: Node
    depth: int


class Descent(Struct, frozen=True):
    """A record and its descendants; each follows its parent, in log order."""

    steps: list[Descendant]
    gaps: list[Gap]
    is_cut: bool
    """Whether there are more below, beyond the depth."""

    @property
    def nodes(self) -> list[Node]:
        return [step.node for step in self.steps]


def find_record(tree: Tree, text: str) -> Node:
    """Return the record whose uuid is *text* or begins with it; ambiguous prefixes are errors."""
    if not text:
        raise UsageError("an empty uuid names no record", hint="give its first characters")
    if text in tree.by_uuid:
        return tree.by_uuid[text]
    named = [node for node in tree.nodes if node.uuid.startswith(text)]
    if not named:
        raise NotFound(
            f"no record's uuid begins with {text[:80]!r}",
            hint="give the beginning of a record's uuid",
            code="no-such-record",
        )
    if len(named) > 1:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        found = ", ".join(f"{node.uuid} ({node.type})" for node in named[:_SHOWN])
        raise UsageError(
            f"{text[:80]!r} begins the uuids of {len(named)} records",
            hint=f"give more characters: {found}{more}",
        )
    return named[0]


class Lineage:
    """Parents and children of the records of *tree*, across compactions if *across*."""

    def __init__(self, tree: Tree, *, across: bool = True) -> None:
        self.tree = tree
        self.gaps = {gap.node.uuid: gap for gap in tree.gaps}
        self._summarised: dict[str, Node] = {}
        self._went_on: dict[str, list[Node]] = defaultdict(list)
        self._higher: dict[str, Node] = {}
        for node in tree.nodes if across else ():
            if node.parent is None and node.logical_parent_uuid is not None:
                self._link(node, node.logical_parent_uuid)

    def above(self, node: Node) -> Node | None:
        """Return the record before *node* in its thread."""
        return node.parent or self._summarised.get(node.uuid)

    def below(self, node: Node) -> list[Node]:
        """Return the records that follow *node* directly, in log order."""
        after = self._went_on.get(node.uuid)
        if not after:
            return node.children
        return sorted((*node.children, *after), key=lambda each: each.position)

    def ancestry(self, node: Node, *, depth: int | None = None) -> Ancestry:
        """Return *node* and its ancestors, at most *depth* steps up."""
        _check(depth)
        nodes: list[Node] = []
        gaps: list[Gap] = []
        above: Node | None = node
        while above is not None:
            if depth is not None and len(nodes) > depth:
                return Ancestry(nodes[::-1], gaps, is_cut=True)
            # The gap above the last one shown was not crossed.
            if nodes and nodes[-1].uuid in self.gaps:
                gaps.append(self.gaps[nodes[-1].uuid])
            nodes.append(above)
            above = self.above(above)
        top = self.gaps.get(nodes[-1].uuid)
        return Ancestry(nodes[::-1], [*gaps, top] if top else gaps, is_cut=False)

    def descendants(self, node: Node, *, depth: int | None = None) -> Descent:
        """Return *node* and its descendants, at most *depth* steps down."""
        _check(depth)
        steps: list[Descendant] = []
        gaps: list[Gap] = []
        is_cut = False
        waiting = [Descendant(node, 0)]
        while waiting:
            step = waiting.pop()
            steps.append(step)
            if step.depth and step.node.uuid in self.gaps:
                gaps.append(self.gaps[step.node.uuid])
            below = self.below(step.node)
            if depth is not None and step.depth >= depth:
                is_cut = is_cut or bool(below)
                continue
            waiting += (Descendant(each, step.depth + 1) for each in reversed(below))
        return Descent(steps, gaps, is_cut)

    def _link(self, node: Node, named: str) -> None:
        """Link *node*, where a compaction cut the thread, to what it names."""
        target = self.tree.summarised(node)
        if named not in self.tree.by_uuid:
            self.gaps[node.uuid] = Gap(node, named, GapReason.MISSING, target)
        if target is None:
            return
        if _root_of(target, self.above, self._higher) is node:
            self.gaps[node.uuid] = Gap(node, named, GapReason.CYCLE, None)
            return
        self._summarised[node.uuid] = target
        self._went_on[target.uuid].append(node)


def _check(depth: int | None) -> None:
    if depth is not None and depth < 0:
        raise UsageError(f"invalid depth: {depth}", hint="give 0 or more steps")
