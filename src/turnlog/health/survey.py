"""Find the logs that need a closer look, and examine them.

Examining a log reads it several times, so the index is used to find suspects in one pass over its
records. A survey may suspect an intact log, but rarely misses one; without an index, every log is
suspect.

An examination finds what a repair or a recovery would change, and what a resume would reach: the
main thread up to the last compaction. The agent does not see anything else since then, such as
records before a missing parent or on another branch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile
from turnlog.formats.supported import dialect_of
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS, short_uuid
from turnlog.index.refresh.line_decoder import OF_SUBAGENT, SLIPPED_IN
from turnlog.records.record import System
from turnlog.records.record_types import LastPrompt
from turnlog.sessions.reading.threads import main_thread, visible
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.recover import Recovery, examine
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import size_at
from turnlog.storage.repair import Repair, repair

UNREACHED: Final = 10
"""Fewer messages out of reach are not reported, since people go back and try again."""

_LOG_OF: Final = (1 << OFFSET_BITS) - 1
_SPOKEN: Final = ("user", "assistant", "tool_use", "tool_call", "tool_result")
_Row = tuple[int, int, int, bytes | str | None, bytes | str | None, int]


class Surveyed(Struct):
    """The survey of a log. By default, it is suspect."""

    log: LogFile
    size_bytes: int = 0
    records: int | None = None
    problem: str | None = None
    is_damaged: bool = True
    """It may have damage, or records that other programs do not see."""
    is_tangled: bool = True
    """Parents or results may be missing, or a resume may reach only a part."""
    open_calls: int | None = None
    """The number of calls without a result; None if unknown."""


def survey(logs: Iterable[LogFile], index: Index | None) -> list[Surveyed]:
    """Return the survey of *logs*."""
    by_path = {os.fspath(log.path): log for log in logs}
    known = _known(by_path, index) if index is not None else {}
    return [
        known.get(path) or Surveyed(log=log, size_bytes=size_at(path))
        for path, log in by_path.items()
    ]


def _known(by_path: dict[str, LogFile], index: Index) -> dict[str, Surveyed]:
    """Return the surveys of the logs in the index, by path."""
    db = index.db
    logs = {
        row[0]: row[1:]
        for row in db.execute(
            "SELECT id, path, layout, kind, text_size_bytes, problem FROM logs"
            " WHERE gone_at IS NULL AND layout <> 'beside'"
        )
    }
    damaged = {row[0] >> OFFSET_BITS for row in db.execute("SELECT id FROM damages")}
    open_calls = dict(
        db.execute(
            f"SELECT record >> {OFFSET_BITS}, count(*) FROM calls"  # noqa: S608 - No user input.
            " WHERE result IS NULL AND call_id IS NOT NULL GROUP BY 1"
        )
    )
    surveyed: dict[str, Surveyed] = {}
    rows_of = _Rows(db)
    for log, (path, layout, kind, size_bytes, problem) in sorted(logs.items()):
        if path not in by_path:
            continue
        rows = rows_of(log)
        waiting = open_calls.get(log, 0)
        is_tree = dialect_of(layout) == "claude" and kind == "session"
        surveyed[path] = Surveyed(
            log=by_path[path],
            size_bytes=max(0, size_bytes),
            records=len(rows),
            problem=problem,
            is_damaged=log in damaged or _is_glued(rows) or _ends_early(rows, size_bytes),
            is_tangled=(is_tree and _is_tangled(index, rows, rows_of))
            or (kind == "session" and bool(waiting) and _is_half_answered(db, log)),
            open_calls=waiting,
        )
    return surveyed


class _Rows:
    """The records of each log, in one pass over the table."""

    def __init__(self, db: sqlite3.Connection) -> None:
        ids = dict(db.execute("SELECT name, id FROM names").fetchall())
        self.spoken = {ids[name] for name in _SPOKEN if name in ids}
        self.progress = ids.get("progress")
        self.last_prompt = ids.get("last-prompt")
        rows = db.execute("SELECT id, length, type, uuid, parent, flags FROM records ORDER BY id")
        self._groups: Iterator[Any] = groupby(rows, key=lambda row: row[0] >> OFFSET_BITS)
        self._next: tuple[int, list[_Row]] | None = self._step()

    def _step(self) -> tuple[int, list[_Row]] | None:
        for log, rows in self._groups:
            return log, list(rows)
        return None

    def __call__(self, log: int) -> list[_Row]:
        """Return the records of *log*; call it with increasing ids."""
        while self._next is not None and self._next[0] < log:
            self._next = self._step()
        if self._next is None or self._next[0] != log:
            return []
        rows = self._next[1]
        self._next = self._step()
        return rows


def _is_glued(rows: list[_Row]) -> bool:
    """Return whether two records are on one line."""
    end = -1
    for row in rows:
        if row[0] <= end:
            return True
        end = row[0] + row[1]
    return False


def _ends_early(rows: list[_Row], size_bytes: int) -> bool:
    """Return whether more than a newline follows the last record."""
    end = (rows[-1][0] & _LOG_OF) + rows[-1][1] if rows else 0
    return size_bytes > end + 1


class _Sketch:
    """The tree of one log from the index: parents, and which records are messages."""

    def __init__(self, rows: list[_Row], rows_of: _Rows) -> None:
        self.rows = rows
        self.above: dict[Any, Any] = {}
        self.place: dict[Any, int] = {}
        self.said: set[Any] = set()
        self.mine: dict[Any, int] = {}
        """The messages of the main agent, and their positions."""
        self.resumable: dict[Any, Any] = {}
        """The records that a resume may end with, and their parents."""
        self.is_broken = False
        """A parent is missing, null or after its child, or a record occurs twice."""
        is_begun = False
        for place, (_, _, kind, uuid, parent, flags) in enumerate(rows):
            if uuid is None:
                continue
            is_known = parent is None or parent in self.above
            if uuid in self.above or (self.above and not is_known):
                self.is_broken = True
            self.above[uuid] = parent
            self.place[uuid] = place
            if not flags & OF_SUBAGENT and kind != rows_of.progress:
                self.resumable[uuid] = parent
            if kind in rows_of.spoken:
                self.said.add(uuid)
                if not flags & OF_SUBAGENT:
                    self.is_broken = self.is_broken or (parent is None and is_begun)
                    is_begun = True
                if not flags & (OF_SUBAGENT | SLIPPED_IN):
                    self.mine[uuid] = place
        # The first parent may be in another log, but not later in this one.
        self.is_broken = self.is_broken or next(iter(self.above.values()), None) in self.above

    def way(self, uuid: Any, seen: set[Any] | None = None) -> Iterator[Any]:
        """Yield a record and its ancestors, up to the root or one in *seen*."""
        seen = set() if seen is None else seen
        while uuid in self.above and uuid not in seen:
            seen.add(uuid)
            yield uuid
            uuid = self.above[uuid]

    def end(self, named: Any) -> Any:
        """Return the last record that a resume sends, as `main_end` does, or None.

        *named* is the leaf that the last prompt's record names.
        """
        newest = self._newest(self.resumable) or self._newest(self.above)
        if newest is None or named not in self.resumable or named in self.way(newest):
            return newest
        return named

    def _newest(self, above: dict[Any, Any]) -> Any:
        """Return the last leaf of *above* with a message among its ancestors."""
        parents = set(above.values())
        leaves = sorted((uuid for uuid in above if uuid not in parents), key=self.place.__getitem__)
        silent: set[Any] = set()
        for leaf in reversed(leaves):
            if not self.said.isdisjoint(self.way(leaf, silent)):
                return leaf
        return None


def _is_tangled(index: Index, rows: list[_Row], rows_of: _Rows) -> bool:
    """Return whether a parent is missing or misplaced, or a resume may reach only a part."""
    sketch = _Sketch(rows, rows_of)
    if sketch.is_broken:
        return True
    end = sketch.end(_named_leaf(index, rows, rows_of.last_prompt))
    if end is None:
        return False
    way = list(sketch.way(end))
    start = sketch.place[way[-1]]
    if start and way[-1] not in sketch.said and _is_boundary(index, rows[start]):
        said = {uuid for uuid, place in sketch.mine.items() if place > start}
    else:
        said = set(sketch.mine)
    reached = len(said.intersection(way))
    return len(said) - reached >= UNREACHED and reached < 0.6 * len(said)


def _named_leaf(index: Index, rows: list[_Row], last_prompt: int | None) -> bytes | str | None:
    """Return the leaf that the last prompt's record names, as stored in the index."""
    row = next((row for row in reversed(rows) if row[2] == last_prompt), None)
    record = None if row is None else index.record(row[0], row[1])
    return short_uuid(record.leaf_uuid) if isinstance(record, LastPrompt) else None


def _is_boundary(index: Index, row: _Row) -> bool:
    record = index.record(row[0], row[1])
    return isinstance(record, System) and record.subtype == "compact_boundary"


def _is_half_answered(db: sqlite3.Connection, log: int) -> bool:
    """Return whether a response has both calls with and without a result."""
    within = (log << OFFSET_BITS, (log + 1) << OFFSET_BITS)
    rows = db.execute(
        "SELECT records.message, calls.result IS NULL FROM calls"
        " JOIN records ON records.id = calls.record"
        " WHERE calls.record >= ? AND calls.record < ? AND calls.call_id IS NOT NULL",
        within,
    )
    answered: set[str] = set()
    waiting: set[str] = set()
    for message, is_open in rows:
        if message is not None:
            (waiting if is_open else answered).add(message)
    return bool(answered & waiting)


class Reach(NamedTuple):
    """How many messages since the last compaction a resume would reach."""

    reached: int
    said: int

    @property
    def is_poor(self) -> bool:
        """Whether less than half is reached."""
        return self.said - self.reached >= UNREACHED and 2 * self.reached < self.said

    def __str__(self) -> str:
        return f"reaches {self.reached:,} of {self.said:,} records"


class Planned(NamedTuple):
    """What a repair would do to a log."""

    log: LogFile
    plan: Repair


class SessionReview(Struct):
    """The result of examining a session."""

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
    """Yield the planned repair of each log that may need one."""
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
) -> Iterator[SessionReview]:
    """Examine the suspect sessions; record a problem for those that cannot be read."""
    for seen in surveyed:
        log = seen.log
        if not seen.is_tangled or log.kind != "session" or seen.problem or is_live(log):
            continue
        session = Session(log.session_id or "", [log])
        try:
            tree = session.tree
            look = SessionReview(
                log, examine(session), reach_of(tree), reach_of(tree, bridged=False)
            )
        except (TurnlogError, OSError) as error:
            seen.problem = str(error)
            continue
        progress(seen.size_bytes)
        yield look


def reach_of(tree: Tree, *, bridged: bool = True) -> Reach:
    """Return what a resume reaches; if not *bridged*, with an older Claude Code."""
    thread = main_thread(tree, bridged=bridged)
    start = thread[0].position if thread and thread[0].is_boundary else -1
    on_it = {node.uuid for node in thread}
    said = [node for node in visible(tree.nodes) if node.position > start]
    return Reach(sum(node.uuid in on_it for node in said), len(said))
