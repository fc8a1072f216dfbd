"""Threads: the records from a root to a tip, in conversation order; and branches, where they part.

``main_thread`` is the conversation that `claude --resume` sends to the API: the newest leaf of the
main agent, its ancestry up to the last compaction, and the parallel calls and results of its
responses. The official SDK reads the same, except after a missing parent and in a session that
ended with meta records. ``whole_thread`` continues across compactions to what they summarized. Both
return nodes; ``visible`` keeps only messages.

A branch begins where a person went back and said something else. Most forks in a tree are not
branches: parallel calls and their results, tool progress, notes. Those belong to the thread in
which they happened. Sidechains are subagents of the session (see ``subagents``), unless the log has
nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from turnlog.sessions.reading.ranges import count_steps, numbered
from turnlog.sessions.reading.tree import Node, Tree


def main_thread(tree: Tree, *, bridged: bool = True) -> list[Node]:
    """Return the main thread since the last compaction, with parallel results.

    Unless *bridged*, it starts after the last gap: Claude Code before 2.1.91 and the official SDK
    stop at a missing parent.
    """
    tip = main_tip(tree)
    if tip is None:
        return []
    gaps = set() if bridged else {gap.node.uuid for gap in tree.gaps}
    path = []
    for node in tip.ancestry():
        path.append(node)
        if node.uuid in gaps:
            break
    return with_parallel(tree, path[::-1])


def whole_thread(tree: Tree, tip: Node | None = None) -> list[Node]:
    """Return the thread of *tip* (the main one's, unless given) from its very first record."""
    tip = tip or main_tip(tree)
    if tip is None:
        return []
    return with_parallel(tree, list(across_boundaries(tree, tip))[::-1])


def main_tip(tree: Tree) -> Node | None:
    """Return the last record said in the thread that `claude --resume` continues, or None."""
    end = main_end(tree)
    return None if end is None else _last_said(end)


def main_end(tree: Tree) -> Node | None:
    """Return the last record of the thread that `claude --resume` continues, or None.

    This is the newest leaf of the main agent, whatever its type. The leaf that the last
    ``last-prompt`` record names wins if the newest leaf does not descend from it: a person went
    back to an older branch.
    """
    newest = newest_leaf(tree)
    named = tree.by_uuid.get(tree.leaf_uuid or "")
    if newest is None or named is None or named.is_sidechain or _last_said(named) is None:
        return newest
    return newest if any(node is named for node in newest.ancestry()) else named


def newest_leaf(tree: Tree) -> Node | None:
    """Return the newest leaf of the main agent, or of any agent if it has none.

    Subagents' records and progress do not count as leaves, or as children of a leaf.
    """
    resumable = [node for node in tree.nodes if not (node.is_sidechain or node.type == "progress")]
    return _newest_leaf(resumable) or _newest_leaf(tree.nodes)


def _newest_leaf(nodes: list[Node]) -> Node | None:
    """Return the last of *nodes* that is not a parent of another and leads to a message."""
    parents = {node.parent.uuid for node in nodes if node.parent is not None}
    silent: set[str] = set()  # Each record is visited once, however many leaves share it.
    for leaf in reversed(nodes):
        if leaf.uuid in parents:
            continue
        for node in takewhile(lambda node: node.uuid not in silent, leaf.ancestry()):
            if node.is_spoken:
                return leaf
            silent.add(node.uuid)
    return None


def _last_said(node: Node) -> Node | None:
    """Return *node* or its nearest ancestor that is a message by a person, model or tool."""
    return next((each for each in node.ancestry() if each.is_spoken), None)


def visible(nodes: Iterable[Node]) -> list[Node]:
    """Return only the session's own messages, by person, model or tool."""
    return [
        node
        for node in nodes
        if node.is_spoken and not (node.is_meta or node.is_sidechain or node.is_team)
    ]


def last_said(leaves: Iterable[Node], *, with_sidechains: bool = True) -> list[Node]:
    """Return the first message at or above each of *leaves*, each record once."""
    found: dict[str, Node] = {}
    walked: set[str] = set()
    for leaf in leaves:
        node: Node | None = leaf
        # Where another leaf's walk has been, there is nothing more to find.
        while node is not None and node.uuid not in walked:
            walked.add(node.uuid)
            if node.is_spoken and (with_sidechains or not node.is_sidechain):
                found[node.uuid] = node
                break
            node = node.parent
    return list(found.values())


def across_boundaries(tree: Tree, tip: Node) -> Iterator[Node]:
    """Go up from *tip*; where a compaction cut the thread, continue at what it summarized."""
    seen: set[str] = set()
    node: Node | None = tip
    while node is not None and node.uuid not in seen:
        seen.add(node.uuid)
        yield node
        node = node.parent or tree.summarised(node)


def with_parallel(tree: Tree, path: list[Node]) -> list[Node]:
    """Add the calls and results of parallel tools, which are not on the path."""
    return Parallel(tree).put_back(path)


class Parallel:
    """Adds parallel calls and results to paths of *tree*, each record once.

    One response with several calls is written as several consecutive records, and each result
    follows its own call, so that a walk from the tip visits only one of them. The others are added
    right after the response's last record on the path: first its records, then the results.
    """

    def __init__(self, tree: Tree) -> None:
        self.taken: set[str] = set()
        """Records that are on a path or were added so far."""
        self.answered: set[str] = set()
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

    def put_back(self, path: list[Node]) -> list[Node]:
        """Return *path* with what its responses lack, unless an earlier path had it."""
        self.taken.update(node.uuid for node in path)
        self.answered.update(call for node in path for call in node.results)
        last_of = {node.message_id: node for node in path if node.message_id}
        inserted: dict[str, list[Node]] = {}
        for message_id in dict.fromkeys(node.message_id for node in path if node.message_id):
            # Removed, since afterwards nothing of the response is left to add.
            found = self._of_message(self.members.pop(message_id, ()))
            if found:
                inserted[last_of[message_id].uuid] = found
        if not inserted:
            return path
        return [each for node in path for each in (node, *inserted.get(node.uuid, ()))]

    def _claim(self, call: str, node: Node) -> None:
        """Note which response made *call*; a call that two responses claim belongs to none."""
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

    def _of_message(self, members: Sequence[Node]) -> list[Node]:
        """Return the records of one response that are not on the path, in order."""
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
        found = [
            *sorted(siblings, key=lambda node: node.timestamp),
            *sorted(results, key=lambda node: node.timestamp),
        ]
        self.taken.update(node.uuid for node in found)
        return found

    def _strays(
        self, placed: list[Node], hanging: Iterable[Node], uuids: set[str]
    ) -> Iterator[Node]:
        """Return results elsewhere that answer an open call of this response."""
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


class Branch(Struct, frozen=True):
    """A thread with content of its own."""

    tip: Node
    """Its last message."""
    parting: Node | None
    """The last record that it shares with an earlier branch in the list; None for a first one."""
    steps: int
    """The number of its steps, from the very first."""
    own: list[Node]
    """The records of its thread that are in no earlier branch in the list."""
    is_main: bool

    @property
    def own_steps(self) -> int:
        """The number of steps that are in no earlier branch in the list."""
        return count_steps(self.own)

    @property
    def own_prompts(self) -> tuple[Node, ...]:
        """The prompts that are in no earlier branch in the list."""
        return tuple(node for node in self.own if node.is_prompt)

    @property
    def is_subagent(self) -> bool:
        """Whether it is a subagent's thread in the session's log."""
        return self.tip.is_sidechain


def branches_of(tree: Tree) -> list[Branch]:
    """Return the branches of *tree*: the main one, then the others, newest first.

    Each record is visited for one branch only, so the work grows with the log and not with the
    total length of its threads.
    """
    main = main_tip(tree)
    parallel = Parallel(tree)
    found: list[Branch] = []
    walked: set[str] = set()
    silent: set[str] = set()
    """From these records upwards, everything is already in a branch."""
    steps_at: dict[str, int] = {}
    # The sidechains of a main log are subagents, not branches, unless it is all sidechain.
    leaves = last_said(tree.tips, with_sidechains=main is not None and main.is_sidechain)
    others = sorted(leaves, key=lambda node: -node.position)
    for tip in (main, *others) if main else ():
        path: list[Node] = []
        above: Node | None = None
        says_more = False
        for node in across_boundaries(tree, tip):
            if node.uuid in walked:
                above = node
                break
            if node.uuid in silent and not says_more:
                break
            path.append(node)
            says_more = says_more or (node.is_spoken and node.uuid not in parallel.taken)
        if not says_more:
            silent.update(node.uuid for node in path)
            continue
        walked.update(node.uuid for node in path)
        shared = {node.uuid for node in path if node.uuid in parallel.taken}
        thread = parallel.put_back(path[::-1])
        first = next(place for place, node in enumerate(thread) if node.uuid not in shared)
        parting = thread[first - 1] if first else above
        steps = steps_at[parting.uuid] if parting else 0
        if parting and parting.message_id and parting.message_id == thread[first].message_id:
            steps -= 1  # The response is counted on both sides.
        for number, node in numbered(thread[first:]):
            steps += number is not None
            steps_at.setdefault(node.uuid, steps)
        own = [node for node in thread if node.uuid not in shared]
        found.append(Branch(tip=tip, parting=parting, steps=steps, own=own, is_main=tip is main))
    return found
