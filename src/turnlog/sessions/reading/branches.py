"""Branches of a conversation: where a person went back and said something else.

Most forks in a tree are not branches: parallel calls and their results, tool progress, notes. Those
belong to the thread in which they happened. Branches are the threads that say something no other
does, each with the record where it forks off.

Sidechains are not branches either but subagents of the session (see ``subagents``), unless the log
has nothing else.
"""

from __future__ import annotations

from msgspec import Struct

from turnlog.sessions.reading.ranges import count_steps, numbered
from turnlog.sessions.reading.threads import Parallel, across_boundaries, last_said, main_tip
from turnlog.sessions.reading.tree import Node, Tree


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
