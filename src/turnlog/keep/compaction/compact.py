"""Compact the logs of a session without changing any view of it.

``rules`` define what may be removed. The new log is written next to the old one, under its lock,
and read back; every view of both is computed and compared (``views``), and only then it replaces
the old one in one step. The old log stays as ``NAME.original-TIME``, and the new one keeps its
mtime, by which agents and people sort sessions. A kill at any moment leaves the old log or the new
one. What a program without locks appends meanwhile is carried over. A rule that would change a view
of a log is skipped there.

It is a dry run unless *write* is true. Running sessions, archives and shared logs are not changed,
and damage stays byte for byte. Lines are moved to blobs only in turnlog's own home, or on request:
agent programs do not follow blobs and would resume the session without them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, field

from turnlog.errors import LogError, NotALog, NotFound, UsageError
from turnlog.formats import LogFile, turnlog_home
from turnlog.formats.flat.meta import LiveMeta
from turnlog.formats.flat.registry import update_registry, write_meta
from turnlog.formats.format import refuse_rewriting
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.activity import refuse_if_program_runs, refuse_if_written
from turnlog.keep.compaction.rules import BLOB_BYTES, LOSSLESS, LineChange, Read, Rule, changes_in
from turnlog.keep.compaction.views import differences, views_of
from turnlog.keep.session_files import SessionFileIndex
from turnlog.records.record import Record
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import put
from turnlog.storage.blobs import Blob, blob_of, blob_place, whole_line
from turnlog.storage.logger import logger
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.replace import Locked, chunks, failed, locked
from turnlog.storage.sources import LINE_CAP, PlainSource, opened_regular
from turnlog.storage.system import read_at
from turnlog.storage.writer import LOCK_TIMEOUT

WAIT: Final = "compact it when it has ended"
T = TypeVar("T")
# The rule most likely to have changed a view is dropped first.
_LEFT_OUT_FIRST: Final = (Rule.ECHOES, Rule.DUPLICATES, Rule.STATES, Rule.BLOBS)


class Saving(Struct, kw_only=True):
    """What one rule removes from a log."""

    rule: Rule
    lines: int = 0
    size_bytes: int = 0
    """By how much the log shrinks."""
    blob_bytes: int = 0
    """The compressed size of what is moved to blobs."""


class LeftOut(Struct, frozen=True):
    """A rule that was not applied, and the views it would have changed."""

    rule: Rule
    views: list[str]


class CompactedLog(Struct, kw_only=True):
    """What was, or would be, done to one log."""

    path: str
    agent_id: str | None
    size_bytes: int
    savings: list[Saving] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    written: bool = False
    original: str | None = None

    @property
    def saved_bytes(self) -> int:
        """The space saved, including blobs."""
        return sum(each.size_bytes - each.blob_bytes for each in self.savings)


class Compaction(Struct, kw_only=True):
    """What was, or would be, done to a session."""

    session: str
    blobs: bool
    """Whether lines may be moved to blobs."""
    written: bool = False
    logs: list[CompactedLog] = field(default_factory=list)

    @property
    def needed(self) -> bool:
        """Whether there is something to gain."""
        return any(log.savings for log in self.logs)

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)

    @property
    def saved_bytes(self) -> int:
        return sum(log.saved_bytes for log in self.logs)


def compact(
    session: Session,
    *,
    write: bool = False,
    blobs: bool | None = None,
    blob_bytes: int = BLOB_BYTES,
    cap: int = LINE_CAP,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> Compaction:
    """Return what can be removed from the logs of *session*; do it if *write* is true.

    With *blobs*, long tool results are moved out of the logs; by default only in turnlog's own
    home.
    """
    logs = plain_logs(session)
    if write:
        refuse_unreadable(SessionFileIndex(logs[0].home).unseen)
        refuse_running(session, logs)
    own = os.path.realpath(turnlog_home())
    may_move = os.path.realpath(logs[0].home) == own if blobs is None else blobs
    rules = (*LOSSLESS, Rule.BLOBS) if may_move else LOSSLESS

    def compacted(log: LogFile) -> CompactedLog:
        work = _LogCompaction(session, log, rules, blob_bytes, cap)
        return work.rewrite(lock_timeout) if write else work.plan()

    done = Compaction(session=session.id, blobs=may_move)
    done.logs = each_log(logs, compacted, "compaction")
    done.written = any(log.written for log in done.logs)
    if done.written and logs[0].format.has_registry:
        live = LiveMeta(logs[0].path.parent, session.id)
        live.refresh()
        write_meta(live.directory, live.meta())
        update_registry(live.directory, live.meta())
    return done


def each_log(logs: Sequence[LogFile], work: Callable[[LogFile], T], what: str) -> list[T]:
    """Return the results of *work* on *logs*; a subagent's log may vanish meanwhile."""
    done = []
    for log in logs:
        try:
            done.append(work(log))
        except NotFound:
            if log is logs[0]:
                raise
        except OSError as error:
            raise failed(error, what, log.path) from None
    return done


class _LogCompaction:
    """The compaction of one log."""

    def __init__(
        self, session: Session, log: LogFile, rules: Sequence[Rule], blob_bytes: int, cap: int
    ) -> None:
        self.session = session
        self.log = log
        self.rules = list(rules)
        if log.kind == "subagent" and log.session_id is None:
            # Its own directory would not be recognized as the session's.
            self.rules = [rule for rule in rules if rule is not Rule.BLOBS]
        self.blob_bytes = blob_bytes
        self.cap = cap
        self.done = CompactedLog(path=str(log.path), agent_id=log.agent_id, size_bytes=0)
        self._made: list[Path] = []

    def plan(self) -> CompactedLog:
        """Return what there is to do."""
        with opened_regular(self.log.path) as fd:
            size = os.fstat(fd).st_size
            self._note(self._changes(fd, size), size)
        return self.done

    def rewrite(self, lock_timeout: float | None) -> CompactedLog:
        """Do it, if there is something to gain."""
        with locked(self.log.path, lock_timeout) as held:
            refuse_if_written(self.session.id, self.log.path, hint=WAIT)
            try:
                while changes := self._changes(held.fd, held.size_bytes):
                    fd = held.make_fresh(self._pieces(held, changes), "the compacted copy of")
                    try:
                        changed = self._compare(held, fd, os.fstat(fd).st_size, changes)
                    finally:
                        os.close(fd)
                    if not changed:
                        held.keep_original()
                        held.take_place()
                        self.done.written = True
                        self.done.original = str(held.original)
                        break
                    applied = {change.rule for change in changes}
                    rule = next(rule for rule in _LEFT_OUT_FIRST if rule in applied)
                    self.rules.remove(rule)
                    self.done.left_out.append(LeftOut(rule, changed))
                    held.fresh.unlink()
            finally:
                if not held.is_replaced:
                    for path in self._made:
                        path.unlink(missing_ok=True)
            self._note(changes, held.size_bytes)
        if self.done.written:
            logger.info("%s: compacted, %d bytes saved", self.log.path, self.done.saved_bytes)
        return self.done

    def _changes(self, fd: int, size: int) -> list[LineChange]:
        found = changes_in(
            partial(self._reader, fd, size),
            lambda offset, length: read_at(fd, length, offset),
            self._subagents(),
            agent_id=self.log.agent_id,
            rules=self.rules,
            blob_bytes=self.blob_bytes,
        )
        return found if sum(each.saved_bytes - each.blob_bytes for each in found) > 0 else []

    def _pieces(self, held: Locked, changes: list[LineChange]) -> Iterator[bytes]:
        """Yield the new log: the old one without removed lines, and with stubs for moved ones."""
        done = 0
        for change in changes:
            yield from chunks(held.fd, done, change.offset)
            if change.rule is Rule.BLOBS:
                line = read_at(held.fd, change.length, change.offset)
                blob = blob_of(line)
                self._put(blob, line)
                yield blob.stub + b"\n"
            done = change.offset + change.length + 1
        yield from chunks(held.fd, done, held.size_bytes)

    def _put(self, blob: Blob, line: bytes) -> None:
        """Write a blob durably, unless it exists."""
        path = self.log.path
        if whole_line(path, blob.stub, cap=self.cap) == line:
            return
        place = blob_place(path, blob.sha256)
        put(path.parent, place.relative_to(path.parent).parts, [blob.packed], overwrite=True)
        self._made.append(place)
        if whole_line(path, blob.stub, cap=self.cap) != line:
            raise LogError(
                f"the blob at {place} does not read back as written",
                path=place,
                hint="the disk may be failing; the log itself was not touched",
            )

    def _compare(self, held: Locked, fd: int, size: int, changes: list[LineChange]) -> list[str]:
        dropped = [change for change in changes if change.rule is not Rule.BLOBS]
        echoes = frozenset(each.uuid for each in changes if each.rule is Rule.ECHOES if each.uuid)
        view = partial(
            views_of,
            self.log,
            without=echoes,
            elsewhere=self._elsewhere if echoes else None,
            now=datetime.now(UTC),
        )
        before = view(held.path, partial(self._reader, held.fd, held.size_bytes))
        after = view(held.fresh, partial(self._reader, fd, size))
        return differences(before, after, len(dropped))

    def _note(self, changes: Iterable[LineChange], size_bytes: int) -> None:
        savings: dict[Rule, Saving] = {}
        for change in changes:
            saving = savings.setdefault(change.rule, Saving(rule=change.rule))
            saving.lines += 1
            saving.size_bytes += change.saved_bytes
            saving.blob_bytes += change.blob_bytes
        self.done.size_bytes = size_bytes
        self.done.savings = [savings[rule] for rule in Rule if rule in savings]

    def _reader(self, fd: int, size: int) -> Reader:
        return Reader(self.log.path, cap=self.cap, source=PlainSource(os.dup(fd), 0, end=size))

    def _subagents(self) -> dict[str, Read]:
        return {
            log.agent_id: partial(Reader, log.path, cap=self.cap)
            for log in self.session.logs
            if log.agent_id is not None and log.path != self.log.path
        }

    def _elsewhere(self) -> Iterator[Record]:
        """Read the session's other logs."""
        for log in self.session.logs:
            if log.path != self.log.path and (
                log.kind == "subagent" or log in self.session.main_logs
            ):
                with suppress(NotFound), Reader(log.path, cap=self.cap) as reader:
                    yield from (item.record for item in reader if isinstance(item, Placed))


def plain_logs(session: Session) -> list[LogFile]:
    """Return the logs of *session* to rewrite, the main one first; raise if they must not be."""
    main = session.main_log
    if main.kind == "day":
        raise UsageError(
            f"session {session.id} shares the logs of days with others",
            hint="convert it into a session with its own log",
            code="shared-log",
        )
    if main.compression is not None or main.is_kept:
        raise NotALog(
            f"{main.path} is compressed, and archives are never changed",
            path=main.path,
            hint="unarchive or restore the session first",
        )
    subagents = [log for log in session.logs if log.kind == "subagent"]
    logs = [main, *(log for log in subagents if log.compression is None and not log.is_kept)]
    refuse_rewriting(logs)
    return logs


def refuse_running(session: Session, logs: Iterable[LogFile]) -> None:
    """Raise if *session* is running."""
    refuse_if_program_runs(session.id, {log.home for log in session.logs}, hint=WAIT)
    for log in logs:
        with suppress(NotFound):
            refuse_if_written(session.id, log.path, hint=WAIT)
