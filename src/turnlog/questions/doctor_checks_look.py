"""A closer look: what a repair or a recovery would mend, and what a resume would reach.

A resume reaches the main thread up to the last compaction. The agent does not see what else was
said since then: it is before a record that lost its parent, or on another branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile
from turnlog.questions.doctor_checks_survey import UNREACHED, Surveyed
from turnlog.sessions.reading.threads import main_thread, visible
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.recover import Recovery, examine
from turnlog.sessions.session import Session
from turnlog.storage.repair import Repair, repair


class Reach(NamedTuple):
    """How many records of what was said a resume would reach, since the last compaction."""

    reached: int
    said: int

    @property
    def is_poor(self) -> bool:
        """More is out of reach than in it."""
        return self.said - self.reached >= UNREACHED and 2 * self.reached < self.said

    def __str__(self) -> str:
        return f"reaches {self.reached:,} of {self.said:,} records"


class Planned(NamedTuple):
    """What a repair would do to a log."""

    log: LogFile
    plan: Repair


class Look(Struct):
    """What a closer look at a session found."""

    log: LogFile
    recovery: Recovery
    reach: Reach
    old_reach: Reach
    """The reach of Claude Code before 2.1.91, which stops at a missing parent."""


def plans_of(
    surveyed: Iterable[Surveyed],
    is_live: Callable[[LogFile], bool],
    progress: Callable[[int], None],
    cap: int,
) -> Iterator[Planned]:
    """Ask what a repair would do, of each log that may need one."""
    for seen in surveyed:
        if not seen.is_damaged or seen.problem or is_live(seen.log):
            continue
        try:
            plan = repair(seen.log.path, cap=cap)
        except (TurnlogError, OSError) as error:
            seen.problem = str(error)
            continue
        progress(seen.size_bytes)
        yield Planned(seen.log, plan)


def look_closer(
    surveyed: Iterable[Surveyed],
    is_live: Callable[[LogFile], bool],
    progress: Callable[[int], None],
) -> Iterator[Look]:
    """Examine the sessions that the survey suspects; one that cannot be read gets a problem."""
    for seen in surveyed:
        log = seen.log
        if not seen.is_tangled or log.kind != "session" or seen.problem or is_live(log):
            continue
        session = Session(log.session_id or "", [log])
        try:
            tree = session.tree
            look = Look(log, examine(session), reach_of(tree), reach_of(tree, bridged=False))
        except (TurnlogError, OSError) as error:
            seen.problem = str(error)
            continue
        progress(seen.size_bytes)
        yield look


def reach_of(tree: Tree, *, bridged: bool = True) -> Reach:
    """Return how much of a session a resume sends; unless *bridged*, an older program's."""
    thread = main_thread(tree, bridged=bridged)
    start = thread[0].position if thread and thread[0].is_boundary else -1
    on_it = {node.uuid for node in thread}
    said = [node for node in visible(tree.nodes) if node.position > start]
    return Reach(sum(node.uuid in on_it for node in said), len(said))
