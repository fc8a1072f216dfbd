"""Threads: the records from a root to a tip, in the order in which they were meant.

``main_thread`` is the conversation as the official SDK reads it: the newest tip of the main agent,
its ancestry up to the last compaction, and the parallel calls and results that hang beside it.
``whole_thread`` is the same and goes on: over compactions to what they summarised, and over missing
parents to what stood before. Both give nodes; ``visible`` keeps what a person would call messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from turnlog.sessions.tree import Gap, Node, Tree


def main_thread(tree: Tree) -> list[Node]:
    """Give the main thread since the last compaction, parallel results put back."""
    tip = main_tip(tree)
    if tip is None:
        return []
    path = _stop_at_gaps(tip, tree.gaps)
    return with_parallel(tree, path)


def whole_thread(tree: Tree, tip: Node | None = None) -> list[Node]:
    """Give the thread of *tip* (the main one's, unless given) from its very first record."""
    tip = tip or main_tip(tree)
    if tip is None:
        return []
    path = list(_across_boundaries(tree, tip))
    path.reverse()
    return with_parallel(tree, path)


def main_tip(tree: Tree) -> Node | None:
    """Choose the record that the conversation would go on from.

    Of the last things said above every tip: the newest in the log that is not an agent's, not a
    team member's and not injected; any other if there is none.
    """
    named = {node.parent_uuid for node in tree.nodes}
    ends = []
    for node in tree.nodes:
        if node.uuid in named:
            continue
        said = next((each for each in _named_ancestry(tree, node) if each.is_spoken), None)
        if said is not None:
            ends.append(said)
    if not ends:  # A ring has no end; where the tree has cut it is one.
        last = (
            next((each for each in tip.ancestry() if each.is_spoken), None) for tip in tree.tips
        )
        ends = [end for end in last if end is not None]
    mine = [end for end in ends if not (end.is_sidechain or end.is_team or end.is_meta)]
    return max(mine or ends, key=lambda node: node.position, default=None)


def visible(nodes: Iterable[Node]) -> list[Node]:
    """Keep what was said in the session itself, by person, model or tool."""
    return [
        node
        for node in nodes
        if node.is_spoken and not (node.is_meta or node.is_sidechain or node.is_team)
    ]


def _named_ancestry(tree: Tree, node: Node) -> Iterator[Node]:
    """Follow parents as the records name them, without bridges."""
    seen: set[str] = set()
    current: Node | None = node
    while current is not None and current.uuid not in seen:
        seen.add(current.uuid)
        yield current
        current = tree.by_uuid.get(current.parent_uuid) if current.parent_uuid else None


def _stop_at_gaps(tip: Node, gaps: Iterable[Gap]) -> list[Node]:
    bridged = {gap.node.uuid for gap in gaps}
    path = []
    for node in tip.ancestry():
        path.append(node)
        if node.uuid in bridged:
            break
    path.reverse()
    return path


def _across_boundaries(tree: Tree, tip: Node) -> Iterator[Node]:
    """Go up from *tip*; where a compaction cut the thread, go on at what it summarised."""
    seen: set[str] = set()
    node: Node | None = tip
    while node is not None and node.uuid not in seen:
        seen.add(node.uuid)
        yield node
        above = node.parent
        if above is None and node.logical_parent_uuid is not None:
            above = tree.by_uuid.get(node.logical_parent_uuid) or _before(tree, node)
        node = above


def _before(tree: Tree, node: Node) -> Node | None:
    """Give the last record of the same writer before *node* in the log."""
    earlier = [
        each for each in tree.nodes if each.position < node.position and each.same_writer(node)
    ]
    return earlier[-1] if earlier else None


def with_parallel(tree: Tree, path: list[Node]) -> list[Node]:
    """Put back the calls and results of parallel tools, which hang beside the path.

    One response with several calls is written as several records in a row, and each result hangs
    from its own call, so that a walk from the tip meets only one of them. What was missed goes
    right behind the response's last record on the path: first its records, then the results.
    """
    beside = _Beside(tree, path)
    last_of = {node.message_id: node for node in path if node.message_id}
    inserted: dict[str, list[Node]] = {}
    for message_id in dict.fromkeys(node.message_id for node in path if node.message_id):
        found = beside.of_message(message_id)
        if found:
            inserted[last_of[message_id].uuid] = found
    if not inserted:
        return path
    return [each for node in path for each in (node, *inserted.get(node.uuid, ()))]


class _Beside:
    """What belongs to the responses of a path without standing on it."""

    def __init__(self, tree: Tree, path: list[Node]) -> None:
        self.taken = {node.uuid for node in path}
        self.answered = {call for node in path for call in node.results}
        self.members: dict[str, list[Node]] = defaultdict(list)
        self.owner: dict[str, Node | None] = {}
        self.results_of: dict[str, list[Node]] = defaultdict(list)
        for node in tree.nodes:
            if node.message_id:
                self.members[node.message_id].append(node)
                for call in node.calls:
                    self._claim(call, node)
        for node in tree.nodes:
            if node.results and node.type == "user" and node.parent_uuid:
                self._hang(tree, node)

    def _claim(self, call: str, node: Node) -> None:
        """Note who made *call*; a call that two responses claim is nobody's."""
        owner = self.owner.get(call, node)
        same = owner is not None and owner.message_id == node.message_id
        self.owner[call] = node if same else None

    def _hang(self, tree: Tree, result: Node) -> None:
        """File *result* under every record it may belong to: parent, source, maker of its call."""
        places = [result.parent_uuid or ""]
        source = tree.by_uuid.get(result.source_uuid or "")
        makers = [self.owner.get(call) for call in result.results]
        places += [
            node.uuid for node in (source, *makers) if node is not None and node.same_writer(result)
        ]
        for place in dict.fromkeys(places):
            self.results_of[place].append(result)

    def of_message(self, message_id: str) -> list[Node]:
        """Give what the path missed of one response, in order."""
        members = self.members[message_id]
        uuids = {node.uuid for node in members}
        siblings = [node for node in members if node.uuid not in self.taken]
        hanging = {
            result.uuid: result
            for member in members
            for result in self.results_of[member.uuid]
            if result.uuid not in self.taken
        }
        results = [node for node in hanging.values() if node.parent_uuid in uuids]
        results += self._strays(results, hanging.values(), uuids)
        found = sorted(siblings, key=_when) + sorted(results, key=_when)
        self.taken.update(node.uuid for node in found)
        return found

    def _strays(
        self, placed: list[Node], hanging: Iterable[Node], uuids: set[str]
    ) -> Iterator[Node]:
        """Give results that hang elsewhere but answer a call of this response still open."""
        answered = {call for node in placed for call in node.results}
        for node in sorted(hanging, key=lambda each: each.position):
            if node.parent_uuid in uuids:
                continue
            owners = [(call, self.owner.get(call)) for call in node.results]
            if any(
                call not in answered
                and call not in self.answered
                and owner is not None
                and owner.uuid in uuids
                for call, owner in owners
            ):
                answered.update(node.results)
                yield node


def _when(node: Node) -> str:
    return node.timestamp
