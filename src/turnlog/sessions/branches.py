"""Branches: the ways a conversation went, where a person went back and said something else.

Most forks of a tree are no branches: parallel calls and their results, signs of life of a tool,
notes that hang beside. Those belong to the thread that they happened in. What is left are the
threads that say something no other one does, and for each the record at which it parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from turnlog.sessions.ranges import count_steps
from turnlog.sessions.threads import main_tip, whole_thread
from turnlog.sessions.tree import Node, Tree


class Branch(Struct, frozen=True):
    """A thread that says something of its own."""

    tip: Node
    """The last thing said in it."""
    parting: Node | None
    """The last record that it shares with a branch before it in the list; None for a first one."""
    steps: int
    """How many steps it has, from the very first."""
    own_steps: int
    """How many of them stand in no branch before it in the list."""
    own_prompts: tuple[Node, ...]
    """The prompts among those."""
    is_main: bool

    @property
    def is_agents(self) -> bool:
        """It is an agent's thread, in a log that it shares with the session."""
        return self.tip.is_sidechain


def branches_of(tree: Tree) -> list[Branch]:
    """Give the branches of *tree*: the main one, then the others, the newest first."""
    main = main_tip(tree)
    found: list[Branch] = []
    taken: set[str] = set()
    walked: set[str] = set()
    for tip in (main, *_other_tips(tree)):
        if tip is None or not _says_more(tip, taken, walked):
            continue
        thread = whole_thread(tree, tip)
        own = [node for node in thread if node.uuid not in taken]
        # Parallel results are put back behind their response: what is own need not be the end.
        shared = thread[: thread.index(own[0])]
        found.append(
            Branch(
                tip=tip,
                parting=shared[-1] if shared else None,
                steps=count_steps(thread),
                own_steps=count_steps(own),
                own_prompts=tuple(node for node in own if node.is_prompt),
                is_main=tip is main,
            )
        )
        taken.update(node.uuid for node in thread)
    return found


def _says_more(tip: Node, taken: set[str], walked: set[str]) -> bool:
    """Tell whether something on the way to *tip* stands in no branch so far.

    A tip may stand in one, put back beside its response, without what leads to it.
    """
    more = False
    for node in tip.ancestry():
        if node.uuid in walked:
            break
        walked.add(node.uuid)
        more = more or (node.is_spoken and node.uuid not in taken)
    return more


def _other_tips(tree: Tree) -> Iterator[Node]:
    """Give the last thing said above every tip, the newest first."""
    said = (
        next((node for node in tip.ancestry() if node.is_spoken), None)
        for tip in reversed(tree.tips)
    )
    return iter(sorted({node.uuid: node for node in said if node}.values(), key=_newest_first))


def _newest_first(node: Node) -> int:
    return -node.position
