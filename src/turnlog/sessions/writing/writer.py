"""Append to a session: records get their place in the tree as they are written.

Missing fields are added. The parent is the last record of the thread at the moment of writing,
looked up under the log's lock, even if another process wrote it. A record whose uuid is in the log
already is not written again, so an append with an unknown outcome may be repeated.

A writer's first append adds an ``opened`` record with this process, ``close`` an ``ended`` record;
between them the session is running or, if the process is gone, crashed. ``totals`` and ``metadata``
cover the whole session, including what others appended.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar, cast

from turnlog import __version__
from turnlog.errors import NotFound, UsageError
from turnlog.formats import new_subagent_id, subagent_log_near
from turnlog.formats.projects import absolute
from turnlog.records.annotations import format_marker
from turnlog.records.codec import Envelope, decode, encode
from turnlog.records.damage import Damage
from turnlog.records.record import Linked, Record
from turnlog.sessions.environment import Clock, git_branch, git_commit, utc_now
from turnlog.sessions.journal import Journal
from turnlog.sessions.metadata import Metadata, MetadataFold
from turnlog.sessions.totals import Account, SessionTotals
from turnlog.sessions.writing import build
from turnlog.sessions.writing.stamp import TREE_TYPES, RecordStamper, names_itself
from turnlog.storage.atomic_files import size_at
from turnlog.storage.locks import interrupted, is_owned, refuse_if_abandoned
from turnlog.storage.reader import Placed, read_log, scan_log
from turnlog.storage.tail import read_last
from turnlog.storage.writer import LOCK_TIMEOUT, Appended, Decide, Durability, LogWriter, News

Method = TypeVar("Method", bound=Callable[..., Any])

_all: weakref.WeakSet[Shared] = weakref.WeakSet()


class Shared:
    """May be used by several threads: its ``synchronized`` methods run one at a time."""

    path: Path

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.ownership = threading.Condition(self.turn)
        _all.add(self)

    def after_fork_in_child(self) -> None:
        """Release what threads of the parent held: they do not survive the fork."""
        self.turn = threading.RLock()
        self.ownership = threading.Condition(self.turn)


def synchronized(method: Method) -> Method:
    """Run *method* in one thread at a time, and never inside another such method.

    A signal handler or a destructor may interrupt its thread anywhere, even between writing a
    record and making it the next one's parent. Its calls are refused then. So a ``synchronized``
    method must not call another one.
    """

    @wraps(method)
    def in_turn(shared: Shared, /, *args: Any, **more: Any) -> Any:
        if is_owned(shared.ownership):
            raise interrupted(shared.path)
        refuse_if_abandoned(shared.turn, shared.path)
        with shared.turn:
            return method(shared, *args, **more)

    return cast(Method, in_turn)


def _after_fork_in_child() -> None:
    for shared in list(_all):
        shared.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


WRITER: Final = f"turnlog {__version__}"

# How far back the tip of a log is searched before the log is read from the start.
_LOOK_BACK: Final = 200


class Fold(Protocol):
    """Something that takes a session's records one by one."""

    def take(self, record: Record, /) -> None: ...


F = TypeVar("F", bound=Fold)
Records = Sequence[Record | Mapping[str, Any]]


class SessionWriter(Shared):
    """Appends to one log of a session: the main one, or a subagent's if *agent_id* is given.

    Threads may share one or have their own, as processes do; all may write to one session. A
    ``with`` block that ends with an exception leaves the session crashed.
    """

    archive_with: Callable[[], object] | None = None
    """Archives the session after close; set by the store that opened it."""

    def __init__(
        self,
        path: Path,
        *,
        session_id: str,
        cwd: str | os.PathLike[str],
        agent_id: str | None = None,
        dialect: str = "claude",
        root: Path | None = None,
        create: bool = True,
        durability: Durability = "fsync",
        lock_timeout: float | None = LOCK_TIMEOUT,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__()
        self.path = path
        self.session_id = session_id
        self.agent_id = agent_id
        self.cwd = absolute(cwd)
        self._root = root
        self._create = create
        self._durability: Durability = durability
        self._lock_timeout = lock_timeout
        self._clock = clock
        self._placer = RecordStamper(
            session_id=session_id,
            cwd=self.cwd,
            branch=git_branch(Path(self.cwd)) or "",
            agent_id=agent_id,
            dialect=dialect,
        )
        self._tip: str | None = None
        self._is_reading = False
        """Set while news is read; still set at the next append if that was interrupted."""
        self._uuids: set[str] | None = None
        self._folds: dict[type[Fold], Fold] = {}
        self._opened = False
        self._opening: dict[str, Any] = {}
        self._closed = False
        self._log = self._open(path)
        self._find_tip()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r})"

    @property
    def tip(self) -> str | None:
        """The uuid of the record that the next one will follow."""
        return self._tip

    @property
    def dialect(self) -> str:
        """The log's own dialect."""
        return self._placer.dialect

    @property
    @synchronized
    def totals(self) -> SessionTotals:
        """Current usage and cost of the session, including its agents."""
        account = self._folded(Account)
        if self.agent_id is None:
            account.read_subagents(self.path, self.session_id)
        return account.priced()

    @property
    @synchronized
    def metadata(self) -> Metadata:
        """Current metadata of the session, without the pin, which only the store knows."""
        pins = Journal.in_root(self._root).pins() if self._root else ()
        found = self._folded(MetadataFold)
        return found.metadata(self.session_id, is_pinned=self.session_id in pins, now=self._clock())

    def append(self, record: Record | Mapping[str, Any]) -> str | None:
        """Append one record; return its uuid, or None if records of its type have none.

        It is durable on return. A repeated uuid is not written again.
        """
        return self._append_alone([record])[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> list[str | None]:
        """Append *records* in one write, each the parent of the next."""
        return self._append_alone(list(records))

    @synchronized
    def _append_alone(self, records: Records) -> list[str | None]:
        return self._append(records)

    @synchronized
    def stamped(
        self, records: Iterable[Record | Mapping[str, Any]]
    ) -> tuple[list[list[dict[str, Any]]], int]:
        """Return records as lines with uuid and timestamp, to be appended later, and their size."""
        now = self._clock()
        made = [self._placer.stamped(record, now) for record in records]
        lines = self._log.lines_of(line for each in made for line in each)
        return made, sum(map(len, lines))

    @synchronized
    def update(
        self, *, title: str | None = None, tag: str | None = None, pinned: bool | None = None
    ) -> None:
        """Set title and tag; an empty one is cleared. Durable on return."""
        self._label(build.labels(title, tag))
        if pinned is not None and self._root is not None:
            Journal.in_root(self._root).pin(self.session_id, pinned=pinned)

    @synchronized
    def mark(self, event: str, **more: Any) -> None:
        """Append a record of turnlog's own; other readers ignore it."""
        if not self._opened:
            self._append(())
        self._append_mark(self._placer.mark(event, self._clock(), **more))

    def subagent(self, agent_id: str | None = None) -> SessionWriter:
        """Start a subagent: a log of its own in the same session, with a new id by default."""
        made = agent_id or new_subagent_id()
        return SessionWriter(
            subagent_log_near(self.path, self.session_id, made),
            session_id=self.session_id,
            cwd=self.cwd,
            agent_id=made,
            dialect=self.dialect,
            root=self._root,
            durability=self._durability,
            lock_timeout=self._lock_timeout,
            clock=self._clock,
        )

    @synchronized
    def folded(self, kind: type[F]) -> F:
        """Return the fold of *kind* over all records so far; it is kept current from now on."""
        return self._folded(kind)

    @synchronized
    def close(self, *, archive: bool = False) -> None:
        """Record the end, if anything was written, and close the log; then *archive* it."""
        if archive and self.archive_with is None:
            raise UsageError(
                f"this writer of session {self.session_id} cannot archive it",
                hint="close it, then archive the session with a store",
            )
        if not self._closed:
            try:
                if self._opened:
                    self._mark_end()
                    self._opened = False
            finally:
                self._leave()
        if archive and self.archive_with is not None:
            self.archive_with()

    @synchronized
    def abandon(self) -> None:
        """Close the log without recording the end: the session looks crashed."""
        self._leave()

    def after_fork_in_child(self) -> None:
        """Make a forked child register itself in the log with its first append."""
        super().after_fork_in_child()
        self._opened, self._opening = False, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # After an exception the session did not end properly, and must not look as if it had.
        if kind is None:
            self.close()
        else:
            self.abandon()

    # -- what layouts do in their own way -----------------------------------------------------

    def _append(self, records: Records) -> list[str | None]:
        """Append *records* in one write; return their uuids."""
        uuids: list[str | None] = []
        written: list[dict[str, Any]] = []
        # State for after the write; what others wrote holds whatever happens to these records.
        tip: str | None = None
        fresh: set[str] = set()
        writes = self._log.written

        def decide(news: News) -> list[dict[str, Any]]:
            nonlocal tip
            self._take_news(news)
            tip = self._tip
            if not self._opened:
                written.append(self._placer.mark("opened", self._clock(), **self._opening))
            for record in records:
                lines = self._placer.place(record, tip, self._clock())
                uuids.append(lines[0].get("uuid"))
                named = names_itself(record)
                for line in lines:
                    uuid = line.get("uuid")
                    if uuid is not None:
                        if named and (uuid in fresh or self._has(uuid)):
                            continue
                        fresh.add(uuid)
                        if line["type"] in TREE_TYPES or self.dialect != "claude":
                            tip = uuid  # The next record follows it.
                    written.append(line)
            return written

        try:
            placed = self._append_after(decide)
            self._tip, self._opened = tip, True
            if self._uuids is not None:
                self._uuids |= fresh
            self._take_own(written, placed)
        except BaseException:
            if self._log.written != writes:
                self._opened = True
                self._forget()  # An interrupt: what was written comes back as news.
            raise
        return uuids

    def _label(self, records: Records) -> None:
        """Append title and tag, if given."""
        if records:
            self._append(records)

    def _mark_end(self) -> None:
        self._append_mark(self._placer.mark("ended", self._clock()))

    def _head(self) -> bytes:
        """Return the first lines of a new log."""
        return format_marker(
            WRITER,
            sessionId=self.session_id,
            agentId=self.agent_id,
            cwd=self.cwd,
            gitCommit=git_commit(Path(self.cwd)),
        )

    def _logs(self) -> Sequence[Path]:
        """Return the logs that hold the session's records, the current one last."""
        return (self.path,)

    def _is_mine(self, _record: Record) -> bool:
        """Return whether a record of the log belongs to this session."""
        return True

    def _uuids_in(self, path: Path) -> Iterator[str]:
        """Return the uuids of the session's records in one of its logs."""
        try:
            for item in scan_log(path):
                if isinstance(item, Envelope) and item.uuid is not None:
                    yield item.uuid
        except NotFound:
            return

    # -- the rest -----------------------------------------------------------------------------

    def _open(self, path: Path) -> LogWriter:
        self._beginning = self._head()
        return LogWriter(
            path,
            create=self._create,
            durability=self._durability,
            head=self._beginning,
            lock_timeout=self._lock_timeout,
            root=self._root,
        )

    def _leave(self) -> None:
        """Close the log."""
        self._closed = True
        self._log.close()

    def _folded(self, kind: type[F]) -> F:
        if not self._closed:
            self._append_after(self._after)
        found = self._folds.get(kind)
        if found is None:
            found = kind()
            for record in self._past():
                found.take(record)
            self._folds[kind] = found
        assert isinstance(found, kind)
        return found

    def _append_mark(self, line: dict[str, Any]) -> None:
        self._take_own([line], self._append_after(lambda news: self._after(news, line)))

    def _after(self, news: News, *lines: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Read the news, then write *lines*, if any."""
        self._take_news(news)
        return lines

    def _has(self, uuid: str) -> bool:
        if self._uuids is None:  # Not needed so far: most callers leave uuids to us.
            self._uuids = {each for path in self._logs() for each in self._uuids_in(path)}
        return uuid in self._uuids

    def _find_tip(self) -> None:
        """Search the last records for the tip, and note how far the log is known."""
        recent = self._find_tip_in(self.path)
        # Without a tip among the last records, the first append reads the log from its start.
        if recent and self._tip is not None:
            # Everything after the last line seen is news, even if it was added while we looked.
            last = recent[-1]
            unfinished = last.offset + last.length >= size_at(self.path)
            self._log.seen = last.offset + (0 if unfinished else last.length + 1)

    def _find_tip_in(self, path: Path) -> list[Placed | Damage]:
        try:
            recent = read_last(path, _LOOK_BACK)
        except NotFound:
            return []
        for item in recent:
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._see(item.record)
        return recent

    def _append_after(self, decide: Decide) -> tuple[Appended, ...]:
        """Pass what others appended to *decide*, and append what it returns."""
        if self._is_reading:  # An interrupt came while news was read, and some of it is lost.
            self._forget()
        return self._log.append_after(decide)

    def _take_news(self, news: News) -> None:
        if news.restarted:
            self._forget()
        self._is_reading = True
        for item in news.items:
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._see(item.record)
                self._fold(item.record)
        self._is_reading = False

    def _forget(self) -> None:
        """Forget what the log contains; the next append reads it from its start."""
        self._log.seen = 0  # First: an interrupt after it only makes the next append read more.
        self._tip, self._uuids = None, None
        self._folds.clear()

    def _take_own(self, lines: Iterable[dict[str, Any]], placed: Sequence[Appended]) -> None:
        """Pass what was just written to the folds, unless it will come back as news."""
        if not placed or self._log.seen != placed[-1].offset + placed[-1].length + 1:
            return
        if not self._folds:
            return
        head = self._beginning.split(b"\n")[:-1] if self._log.began else []
        for line in (*head, *map(encode, lines)):
            record = decode(line)
            if isinstance(record, Record):
                self._fold(record)

    def _fold(self, record: Record) -> None:
        for fold in self._folds.values():
            fold.take(record)

    def _past(self) -> Iterator[Record]:
        """Read everything up to where this writer has seen the log."""
        for path in self._logs():
            end = self._log.seen if path == self.path and not self._closed else None
            for item in read_log(path):
                if end is not None and item.offset >= end:
                    break
                if isinstance(item, Placed) and self._is_mine(item.record):
                    yield item.record

    def _see(self, record: Record) -> None:
        self._placer.see(record)
        if not isinstance(record, Linked) or record.uuid is None:
            return
        if self._uuids is not None:
            self._uuids.add(record.uuid)
        if record.dialect != "claude":
            self._tip = record.uuid
            return
        mine = record.is_sidechain == (self.agent_id is not None)
        if mine and record.type in TREE_TYPES and not record.is_meta:
            self._tip = record.uuid
