"""Chunks of logs become rows. One transaction holds the rows and the bookmarks behind them.

A chunk fits only where the bookmark stands at its beginning: if another process was faster, or the
log has become another one since, it is dropped, and so is the rest of that log. So writing a chunk
twice, or from two processes, changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from turnlog.index.database import transaction
from turnlog.index.ids import OFFSET_BITS, Names
from turnlog.index.refresh.bookmarks import Bookmark
from turnlog.index.refresh.chunks import Chunk, Unplaced, UsageChunk
from turnlog.index.refresh.text_ids import TextNumbering
from turnlog.index.usage.deduplicate import repeats_within, update_repeats
from turnlog.index.usage.entries import write_usage_rows

MOST_CHUNKS: Final = 500
"""So many go into one transaction, however little text they hold: a kill may lose them."""
# As far as SQLite can count; a file may claim to be from any time.
_FAR_NS: Final = 2**63 - 1

_BOOKMARK: Final = "SELECT generation, text_offset, usage_offset, home FROM logs WHERE id = ?"


class Writer:
    """Writes into one index; remembers the ids of names as long as it lives."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.names = Names(connection)
        self._paths = Names(connection, "paths", "path")
        self._sessions: dict[tuple[str, str], int] = {}
        self._texts: list[Unplaced] = []
        self._placing = TextNumbering(connection)
        self.dropped: set[int] = set()
        """Logs of which a chunk did not fit."""

    def write(self, chunk: Chunk) -> None:
        """Write a chunk within the transaction that is open; its texts wait for ``write_texts``."""
        if chunk.log in self.dropped:
            return
        known = self._db.execute(_BOOKMARK, (chunk.log,)).fetchone()
        if chunk.problem is not None:
            if known is not None:
                self._unreadable(chunk)
            return
        if known is None or not _fits(chunk, *known[:3]):
            self.dropped.add(chunk.log)
            return
        self._write(chunk, usage_offset=known[2], home=known[3])
        self._texts += chunk.texts

    def write_texts(self) -> None:
        """Write the texts that wait; to be called once, before the transaction is committed.

        They are put in order first: each time is a segment of the full-text tables, and the fewer
        there are, the sooner is everything written and found.
        """
        if not self._texts:
            return
        placed = self._placing.place(self._texts)
        db = self._db
        db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", placed.rows)
        for table, words in (("said", placed.said), ("answered", placed.answered)):
            insert = f"INSERT INTO {table} (rowid, text) VALUES (?, ?)"  # noqa: S608 - Ours.
            db.executemany(insert, words)

    def note_later(self, sessions: Iterable[str | None]) -> None:
        """Remember that the rows of *sessions* must be made anew."""
        self._db.executemany(
            "INSERT OR IGNORE INTO unnoted VALUES (?)", ((each,) for each in sessions if each)
        )

    def _write(self, chunk: Chunk, *, usage_offset: int, home: str) -> None:
        db = self._db
        base = chunk.log << OFFSET_BITS
        self._forget_from(base | chunk.start, base + (1 << OFFSET_BITS))  # What was provisional.
        sessions = {row[4] for row in chunk.records}
        ids = {each: self._session(each, home) if each else None for each in sessions}
        names = self.names
        db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    row[0],
                    row[1],
                    names[row[2]],
                    names[row[3]],
                    ids[row[4]],
                    row[5],
                    row[6],
                    row[7],
                    names[row[8]],
                    names[row[9]],
                    row[10],
                    row[11],
                )
                for row in chunk.records
            ),
        )
        db.executemany("INSERT INTO carried VALUES (?, ?)", chunk.carried)
        db.executemany("INSERT INTO damages VALUES (?, ?, ?, ?, ?)", chunk.damages)
        self._write_calls(chunk)
        self._write_usage(chunk, usage_offset)
        mark = chunk.bookmark
        db.execute(
            "UPDATE logs SET text_offset = ?, text_size_bytes = ?, text_mtime_ns = ?,"
            " text_fingerprint = ?, device = ?, inode = ?, folded = ?, tail_folded = ?,"
            " session = coalesce(session, ?), problem = NULL, gone_at = NULL WHERE id = ?",
            (
                *mark_values(mark),
                chunk.device,
                chunk.inode,
                chunk.folded,
                chunk.tail_folded,
                chunk.session,
                chunk.log,
            ),
        )
        update_repeats(db, repeats_within(db, base | chunk.start, base + (1 << OFFSET_BITS)))
        self.note_later((*sessions, chunk.session))

    def _write_calls(self, chunk: Chunk) -> None:
        self._db.executemany(
            "INSERT INTO calls (record, block, call_id, tool, digest, result, is_error,"
            " duration_us, signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((row[0], row[1], row[2], self.names[row[3]], row[4], *row[7:]) for row in chunk.calls),
        )
        self._db.executemany(
            "INSERT INTO touches VALUES (?, ?, ?, ?)",
            (
                (row[0], row[1], self._paths[row[5]], row[6])
                for row in chunk.calls
                if row[5] is not None
            ),
        )
        self._db.executemany(
            "UPDATE calls SET result = ?, is_error = ?, duration_us = ?, signature = ?"
            " WHERE record = ? AND block = ?",
            chunk.answers,
        )

    def _write_usage(self, chunk: Chunk, usage_offset: int) -> None:
        """Write what the ledger needs, unless an earlier pass was further than this chunk."""
        if usage_offset == chunk.usage_start and chunk.bookmark.offset >= usage_offset:
            write_usage(self._db, chunk, self.names, start=chunk.usage_start)

    def forget(self, log: int) -> None:
        """Forget everything that was read of a log that has become another one."""
        base = log << OFFSET_BITS
        db = self._db
        self.note_later(self.sessions_of(log))
        self._forget_from(base, base + (1 << OFFSET_BITS))
        # Who paid for what these sessions share with others depends on everything they have.
        db.execute(
            "INSERT OR IGNORE INTO unsettled SELECT name FROM sightings WHERE log = ?1 OR session"
            " IN (SELECT session FROM sightings WHERE log = ?1 AND session IS NOT NULL)",
            (log,),
        )
        for table in ("sightings", "skipped", "subagents"):
            db.execute(f"DELETE FROM {table} WHERE log = ?", (log,))  # noqa: S608 - Ours.
        db.execute(
            "UPDATE logs SET generation = generation + 1, usage_offset = 0, usage_size_bytes = -1,"
            " text_offset = 0, text_size_bytes = -1, folded = NULL, tail_folded = NULL, told = 0,"
            " synthetic = 0, tail_told = 0, tail_synthetic = 0, is_pending = 0 WHERE id = ?",
            (log,),
        )

    def has_moved(self, log: int) -> None:
        """Tell anew which of what a log says others say as well: the first goes by their places."""
        base = log << OFFSET_BITS
        self._db.execute(
            "INSERT OR IGNORE INTO unsettled SELECT name FROM sightings WHERE log = ?", (log,)
        )
        update_repeats(self._db, repeats_within(self._db, base, base + (1 << OFFSET_BITS)))

    def sessions_of(self, log: int) -> list[str]:
        """Name the sessions that a log says something of."""
        base = log << OFFSET_BITS
        found = self._db.execute(
            "SELECT session FROM logs WHERE id = ?1 UNION SELECT sessions.session FROM records"
            " JOIN sessions ON sessions.id = records.session"
            " WHERE records.id >= ?2 AND records.id < ?3",
            (log, base, base + (1 << OFFSET_BITS)),
        )
        return [row[0] for row in found]

    def _forget_from(self, low: int, high: int) -> None:
        """Forget the records whose ids lie in a range: provisional ones, or a whole log's."""
        db, within = self._db, (low, high)
        repeated = repeats_within(db, low, high)
        gone = db.execute("DELETE FROM records WHERE id >= ? AND id < ?", within).rowcount
        db.execute("DELETE FROM damages WHERE id >= ? AND id < ?", within)
        if gone <= 0:
            return
        for table in ("calls", "touches", "carried", "repeats", "sidechains"):
            db.execute(f"DELETE FROM {table} WHERE record >= ? AND record < ?", within)  # noqa: S608
        update_repeats(db, repeated)
        db.execute(
            "UPDATE calls SET result = NULL, is_error = NULL, duration_us = NULL, signature = NULL"
            " WHERE result >= ? AND result < ?",
            within,
        )
        dead = db.execute(
            "UPDATE texts SET record = NULL WHERE record >= ? AND record < ?", within
        ).rowcount
        db.execute("UPDATE about SET dead_texts = dead_texts + ?", (dead,))

    def _unreadable(self, chunk: Chunk) -> None:
        self._db.execute("UPDATE logs SET problem = ? WHERE id = ?", (chunk.problem, chunk.log))

    def _session(self, session: str, home: str) -> int:
        known = self._sessions.get((session, home))
        if known is None:
            self._db.execute(
                "INSERT OR IGNORE INTO sessions (session, home) VALUES (?, ?)", (session, home)
            )
            known = self._db.execute(
                "SELECT id FROM sessions WHERE session = ? AND home = ?", (session, home)
            ).fetchone()[0]
            self._sessions[session, home] = known
        return known

    def start_over(self) -> None:
        """Forget the ids: what gave them was rolled back."""
        self.names.clear()
        self._paths.clear()
        self._sessions = {}
        self._texts = []
        self._placing.start_over()


@contextmanager
def transaction_of(db: sqlite3.Connection, writer: Writer) -> Iterator[None]:
    """Hold a transaction; if it is undone, *writer* forgets what it knew of it."""
    try:
        with transaction(db):
            yield
    except BaseException:
        writer.start_over()
        raise


def _fits(chunk: Chunk, generation: int, text_offset: int, usage_offset: int) -> bool:
    """Return whether a chunk begins where the bookmarks stand; the ledger's may be further."""
    return (chunk.generation, chunk.start) == (generation, text_offset) and (
        usage_offset == chunk.usage_start or usage_offset >= chunk.bookmark.offset
    )


def write_usage(db: sqlite3.Connection, chunk: UsageChunk, names: Names, *, start: int) -> None:
    """Write what a log tells of responses from *start* on, folded into what it told before."""
    log = chunk.log
    write_usage_rows(db, log, chunk.sightings, names, is_more=start > 0)
    db.execute("DELETE FROM skipped WHERE log = ? AND offset >= ?", (log, start))
    db.executemany(
        "INSERT INTO skipped VALUES (?, ?, ?, ?)",
        ((log, each.offset, each.why, each.detail) for each in chunk.skipped),
    )
    db.execute(
        "UPDATE logs SET usage_offset = ?, usage_size_bytes = ?, usage_mtime_ns = ?,"
        " usage_fingerprint = ?, told = told + ?, synthetic = synthetic + ?, tail_told = ?,"
        " tail_synthetic = ?, is_pending = ?, device = ?, inode = ?, problem = NULL WHERE id = ?",
        (
            *mark_values(chunk.bookmark),
            chunk.told,
            chunk.synthetic,
            chunk.tail_told,
            chunk.tail_synthetic,
            chunk.is_pending,
            chunk.device,
            chunk.inode,
            log,
        ),
    )


def mark_values(mark: Bookmark) -> tuple[Any, ...]:
    mtime_ns = max(-_FAR_NS, min(mark.mtime_ns, _FAR_NS))
    return mark.offset, mark.size_bytes, mtime_ns, mark.fingerprint
