"""Ancestors and descendants of a record, found by a prefix of its uuid.

``Lineage`` knows the parent and children of every record of a tree, and optionally continues across
compactions to what they summarized. The result is a forest whatever the log says: cyclic links are
rejected, missing parents are bridged to the record before, and each such gap on the way is
reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from turnlog.errors import NotFound, UsageError
from turnlog.sessions.reading.tree import Gap, GapReason, Node, Tree

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
            hint="turnlog show SESSION --json tells the uuid of every record",
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
        for each in self._upwards(node):
            if depth is not None and len(nodes) > depth:
                return Ancestry(nodes[::-1], gaps, is_cut=True)
            # The gap above the last one shown was not crossed.
            if nodes and nodes[-1].uuid in self.gaps:
                gaps.append(self.gaps[nodes[-1].uuid])
            nodes.append(each)
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

    def _upwards(self, node: Node) -> Iterator[Node]:
        above: Node | None = node
        while above is not None:
            yield above
            above = self.above(above)

    def _link(self, node: Node, named: str) -> None:
        """Link *node*, where a compaction cut the thread, to what it names."""
        target = self.tree.summarised(node)
        if named not in self.tree.by_uuid:
            self.gaps[node.uuid] = Gap(node, named, GapReason.MISSING, target)
        if target is None:
            return
        if self._root(target) is node:
            self.gaps[node.uuid] = Gap(node, named, GapReason.CYCLE, None)
            return
        self._summarised[node.uuid] = target
        self._went_on[target.uuid].append(node)

    def _root(self, node: Node) -> Node:
        """Return the first record above *node*, shortening the paths for later calls."""
        path = []
        while (above := self._higher.get(node.uuid) or self.above(node)) is not None:
            path.append(node)
            node = above
        self._higher.update((each.uuid, node) for each in path)
        return node


def _check(depth: int | None) -> None:
    if depth is not None and depth < 0:
        raise UsageError(f"a depth of {depth} leads nowhere", hint="give 0 or more steps")
