"""Refresh the index: read what was appended to the logs since their bookmarks.

    refresh(homes)                 # everything
    refresh(homes, stage="usage")  # usage only, which is faster

Every batch commits rows and bookmarks together, so a kill loses only the current batch, and the
next refresh continues from there. Two refreshes at once take turns; if they cannot, the chunks of
the slower one no longer fit and are dropped. Logs are read, never changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Final, Literal

from msgspec import MsgspecError, Struct, field

from turnlog.errors import BrokenIndex
from turnlog.index.database import (
    TEXT_BYTES_AT_ONCE,
    index_path,
    is_broken,
    move_aside,
    open_for_reading,
    open_index,
    private_directory,
    remove_index,
    transaction,
    unavailable,
)
from turnlog.index.freshness import (
    Freshness,
    changed_logs,
    has_leftovers,
    has_walked,
    note_directories,
)
from turnlog.index.refresh.plan import (
    RefreshPlan,
    SeenLog,
    changed_among,
    known_logs,
    look,
    look_again,
    make_plan,
)
from turnlog.index.refresh.sessions import note_sessions
from turnlog.index.refresh.writer import MOST_CHUNKS, Writer, write_usage_chunk
from turnlog.index.usage.deduplicate import deduplicate_all, make_lookup_tables
from turnlog.storage.locks import lock

if TYPE_CHECKING:
    from turnlog.formats import Home, Problem
    from turnlog.index.refresh.chunks import Readable

Stage = Literal["usage", "text"]
Progress = Callable[[int, int], None]
"""Called with the bytes processed so far and the bytes in all."""

# A smaller refresh is one transaction.
_LITTLE_BYTES: Final = 1_000_000
# The index is rebuilt when more than this part of its texts is dead.
_DEAD_PART: Final = 0.2
_DEAD_WORTH: Final = 10_000
_TURN_SECONDS: Final = 120
# How large a write-ahead log may be left behind; the next process to open the index reads it.
_MOST_WAITING_BYTES: Final = 1_000_000


class RefreshResult(Struct, kw_only=True):
    """What a refresh found and did."""

    logs: int = 0
    """How many logs and side files exist."""
    read: int = 0
    """How many of them were read, as a whole or from their bookmark."""
    read_bytes: int = 0
    replaced: list[str] = field(default_factory=list)
    """Logs that were read again from the start, since they were rewritten or replaced."""
    gone: list[str] = field(default_factory=list)
    """Logs that were found to be gone at their source."""
    forgotten: int = 0
    """How many logs were gone before and are missing in a rebuilt index."""
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Return whether there is nothing to report but the counts."""
        return not (self.replaced or self.gone or self.forgotten or self.problems or self.notices)


def refresh(
    homes: Sequence[Home],
    *,
    stage: Stage = "text",
    rebuild: bool = False,
    progress: Progress | None = None,
    look: Freshness | None = None,
) -> RefreshResult:
    """Bring the index of *homes* up to date; with *rebuild*, delete and recreate it.

    A recent *look* says which logs changed; if it has the index open, that connection is used and
    left open.
    """
    done = RefreshResult()
    with _turn(homes):
        if rebuild:
            done.forgotten = _gone_so_far(homes)
            remove_index(homes)
        for attempt in range(3):
            try:
                with _opened(homes, done.notices, None if attempt else look) as db:
                    changed = None if look is None else look.changed
                    _refresh(db, homes, stage, done, progress, changed=changed)
                    if _is_mostly_dead(db):
                        db.close()
                        done.notices.append("much of the index was stale: it was rebuilt")
                        remove_index(homes)
                        continue
                return done
            except (sqlite3.Error, MsgspecError, UnicodeDecodeError) as error:
                if not is_broken(error):
                    raise unavailable(index_path(homes), error) from error
                move_aside(index_path(homes), "broken", done.notices)
    raise BrokenIndex(
        "the index keeps breaking",
        path=index_path(homes),
        hint="the disk may be failing; checks and costs work without the index",
        code="index-broken-again",
    )


def _refresh(
    db: sqlite3.Connection,
    homes: Sequence[Home],
    stage: Stage,
    done: RefreshResult,
    progress: Progress | None,
    *,
    changed: list[str] | None,
) -> None:
    usage_only = stage == "usage"
    if changed is None or not has_walked(db, usage_only=usage_only):  # It may have been replaced.
        changed = changed_logs(db, usage_only=usage_only)
    if changed is not None:
        done.logs = db.execute("SELECT count(*) FROM logs WHERE gone_at IS NULL").fetchone()[0]
        seen = look_again(db, changed)
        listed = None
    else:
        listed = _Listed(time_ns(), {}, None if usage_only else {})
        seen = _walk(homes, done, listed)
    plan = None
    if seen if changed is not None else not _is_up_to_date(db, seen, usage_only=usage_only):
        writer = Writer(db)
        with transaction(db):
            plan = make_plan(db, seen, writer, usage_only=usage_only, is_all=changed is None)
            done.read, done.read_bytes = len(plan.works), plan.new_bytes
            done.replaced, done.gone = plan.replaced, plan.gone
            if listed is None and plan.new_bytes < _LITTLE_BYTES:
                # In one transaction, since each writes the same few pages again.
                _read(db, writer, plan, progress, usage_only=usage_only)
                _update_derived(db)
                return
    if listed is not None:
        # After the logs are stored, or a kill in between would hide them. After a problem, the next
        # refresh walks again.
        listed.note(db, is_trusted=not done.problems)
    if plan is not None:
        _read(db, writer, plan, progress, usage_only=usage_only)
    _update_derived(db)


def _read(
    db: sqlite3.Connection,
    writer: Writer,
    plan: RefreshPlan,
    progress: Progress | None,
    *,
    usage_only: bool,
) -> None:
    """Read the logs and write their rows, one transaction at a time."""
    done_bytes = 0

    def report(read_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += read_bytes
        if progress is not None:
            progress(done_bytes, plan.new_bytes)

    if usage_only:
        _read_usage(db, writer, plan, report)
    else:
        _read_text(writer, plan, report)


def _read_text(writer: Writer, plan: RefreshPlan, report: Callable[[int], None]) -> None:
    from turnlog.index.refresh.log_reader import read_logs  # noqa: PLC0415 - Costs do without.

    chunks = read_logs(plan.works, plan.new_bytes)
    while (first := next(chunks, None)) is not None:
        text_bytes = 0
        with writer.transaction():
            for chunk in chain((first,), islice(chunks, MOST_CHUNKS - 1)):
                writer.write(chunk)
                report(chunk.bookmark.offset - chunk.start)
                text_bytes += chunk.text_bytes
                if text_bytes >= TEXT_BYTES_AT_ONCE:
                    break
            writer.write_texts()


def _read_usage(
    db: sqlite3.Connection, writer: Writer, plan: RefreshPlan, report: Callable[[int], None]
) -> None:
    from turnlog.index.usage.scan import batched_usage  # noqa: PLC0415 - Only costs need it.

    for batch in batched_usage(plan.works):
        with writer.transaction():
            for chunk in batch:
                write_usage_chunk(db, chunk, writer.names)
        report(sum(chunk.bookmark.offset - chunk.start for chunk in batch))


def _update_derived(db: sqlite3.Connection) -> None:
    """Update the rows of messages and sessions from what was read."""
    if has_leftovers(db):
        deduplicate_all(db)
        with transaction(db):  # A reader that meets several schema changes at once gives up.
            make_lookup_tables(db)  # Unless there were messages, which need them earlier.
        note_sessions(db)


class _Listed(Struct, frozen=True):
    """The directories that a walk listed, with the mtimes they had before."""

    now_ns: int
    times: dict[str, int]
    times_beside: dict[str, int] | None
    """None if the walk did not include side files."""

    def note(self, db: sqlite3.Connection, *, is_trusted: bool) -> None:
        note_directories(db, self.times if is_trusted else {}, self.now_ns, is_beside=False)
        if self.times_beside is not None:
            times = self.times_beside if is_trusted else {}
            note_directories(db, times, self.now_ns, is_beside=True)


def _walk(homes: Sequence[Home], done: RefreshResult, listed: _Listed) -> dict[str, SeenLog]:
    """Return all logs of *homes*."""
    from turnlog.formats import find_everywhere  # noqa: PLC0415
    from turnlog.index.side_files import side_files_of  # noqa: PLC0415 - Seldom needed.

    done.problems = []
    beside = listed.times_beside
    side: Iterable[Readable] = () if beside is None else side_files_of(homes, beside)
    found = find_everywhere(homes, problems=done.problems, times=listed.times)
    seen = look(chain(found, side), done.problems)
    done.logs = len(seen)
    return seen


def _is_up_to_date(db: sqlite3.Connection, seen: dict[str, SeenLog], *, usage_only: bool) -> bool:
    return not any(changed_among(seen, known_logs(db), usage_only=usage_only))


@contextmanager
def _opened(
    homes: Sequence[Home], notices: list[str], look: Freshness | None
) -> Iterator[sqlite3.Connection]:
    """Open the index; close it without waiting for the disk if little was written.

    The last writer to close it writes back the write-ahead log and syncs. A reader that closes it
    last leaves the log for the next process.
    """
    path = index_path(homes)
    opened = None if look is None else look.opened(os.fspath(path))
    with ExitStack() as closings:
        db = closings.enter_context(closing(open_index(homes, notices=notices, opened=opened)))
        yield db
        if not _little_waits(path):
            return
        if opened is not None:
            closings.pop_all()
        elif reader := open_for_reading(homes):
            closings.callback(reader.close)
            db.close()


def _little_waits(path: Path) -> bool:
    """Return whether the write-ahead log is small enough to be left behind."""
    try:
        waiting, whole = os.stat(f"{path}-wal").st_size, os.stat(path).st_size
    except OSError:
        return False
    return waiting <= min(_MOST_WAITING_BYTES, whole // 4)


def _gone_so_far(homes: Sequence[Home]) -> int:
    """Count the logs that exist only in the index."""
    db = open_for_reading(homes)
    if db is None:
        return 0
    with closing(db), suppress(sqlite3.Error):
        return _gone(db)
    return 0


def _gone(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM logs WHERE gone_at IS NOT NULL").fetchone()[0])


def _is_mostly_dead(db: sqlite3.Connection) -> bool:
    """Return whether to rebuild the index: not while it has the only data of some log."""
    dead = int(db.execute("SELECT dead_texts FROM about").fetchone()[0])
    if dead < _DEAD_WORTH or _gone(db):
        return False
    texts = int(db.execute("SELECT count(*) FROM texts").fetchone()[0])
    return dead > texts * _DEAD_PART


@contextmanager
def _turn(homes: Sequence[Home]) -> Iterator[None]:
    """Wait while another process refreshes the same index, up to a timeout.

    Two at once would be correct, but do the work twice.
    """
    path = index_path(homes).with_suffix(".lock")
    try:
        private_directory(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError:
        yield  # Opening the index will report an unwritable directory.
        return
    try:
        lock(fd, _TURN_SECONDS)
        yield
    finally:
        os.close(fd)
