"""Write chunks of logs to the index: rows and bookmarks in one transaction.

A chunk fits only if the bookmark is at its beginning. If another process was faster, or the log was
replaced, it is dropped, and so is the rest of that log. So writing a chunk twice, or from two
processes, changes nothing.

The id of a text is its second and a number. If all numbers of a second are taken, its texts get ids
of the following seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final, NamedTuple

from turnlog.index.database import transaction
from turnlog.index.ids import OFFSET_BITS, SECOND_BITS, Names
from turnlog.index.refresh.chunks import Bookmark, Chunk, UsageChunk
from turnlog.index.texts import ANSWERED
from turnlog.index.usage.deduplicate import repeats_within, update_repeats
from turnlog.index.usage.entries import write_usage_rows

MOST_CHUNKS: Final = 500
"""How many go into one transaction at most: a kill loses them."""
# The largest integer of SQLite; an mtime may be anything.
_FAR_NS: Final = 2**63 - 1
# How far the texts of a crowded second may spread before the table is queried again.
_SECONDS_AHEAD: Final = 1000
_TAKEN: Final = f"""
SELECT id >> {SECOND_BITS}, max(id) FROM texts WHERE id >= ? AND id < ? GROUP BY 1
"""  # noqa: S608 - A number of ours.

_WaitingText = tuple[int, int, int, int, bytes, bytes | None, int | None]
"""A text without an id, as in a chunk, and its session."""
_BOOKMARK: Final = "SELECT generation, text_offset, usage_offset, home FROM logs WHERE id = ?"


class Writer:
    """Writes to one index; caches the ids of names."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.names = Names(connection)
        self._paths = Names(connection, "paths", "path")
        self._sessions: dict[tuple[str, str], int] = {}
        self._texts: list[_WaitingText] = []
        self._numbering = TextNumbering(connection)
        self.dropped: set[int] = set()
        """Logs with a chunk that did not fit."""

    def write(self, chunk: Chunk) -> None:
        """Write a chunk in the open transaction; its texts wait for ``write_texts``."""
        if chunk.log in self.dropped:
            return
        known = self._db.execute(_BOOKMARK, (chunk.log,)).fetchone()
        if chunk.problem is not None:
            if known is not None:
                write_problem(self._db, chunk)
            return
        if known is None or not _fits(chunk, *known[:3]):
            self.dropped.add(chunk.log)
            return
        sessions = self._write(chunk, usage_offset=known[2], home=known[3])
        self._texts += [(*text, sessions[text[1]]) for text in chunk.texts]

    def write_texts(self) -> None:
        """Write the waiting texts; to be called once, before the transaction is committed.

        Each call writes a segment of the full-text tables, and fewer segments are faster.
        """
        if not self._texts:
            return
        numbered = self._numbering.number(self._texts)
        db = self._db
        db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?)", numbered.rows)
        db.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", numbered.said)
        db.executemany("INSERT INTO stems (rowid, text) VALUES (?, ?)", numbered.split)
        db.executemany("INSERT INTO answered (rowid, text) VALUES (?, ?)", numbered.answered)

    def note_later(self, sessions: Iterable[str | None]) -> None:
        """Mark the rows of *sessions* to be rewritten."""
        self._db.executemany(
            "INSERT OR IGNORE INTO pending_sessions VALUES (?)",
            ((name,) for name in sessions if name),
        )

    def _write(self, chunk: Chunk, *, usage_offset: int, home: str) -> dict[int, int | None]:
        """Write everything but the texts; return the session of each record."""
        db = self._db
        base = chunk.log << OFFSET_BITS
        self._forget_from(base | chunk.start, base + (1 << OFFSET_BITS))  # Provisional rows.
        sessions = {row[4] for row in chunk.records}
        ids = {name: self._session(name, home) if name else None for name in sessions}
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
        return {row[0]: ids[row[4]] for row in chunk.records}

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
        """Write the usage of a chunk, unless usage was read further before."""
        if usage_offset == chunk.usage_start and chunk.bookmark.offset >= usage_offset:
            write_usage(self._db, chunk, self.names, start=chunk.usage_start)

    def forget(self, log: int) -> None:
        """Delete everything that was read of a log that was replaced."""
        base = log << OFFSET_BITS
        db = self._db
        self.note_later(self.sessions_of(log))
        self._forget_from(base, base + (1 << OFFSET_BITS))
        # Which session pays for a shared response depends on all responses of these sessions.
        db.execute(
            "INSERT OR IGNORE INTO pending_usage SELECT name FROM usage_entries WHERE log = ?1"
            " OR session IN"
            " (SELECT session FROM usage_entries WHERE log = ?1 AND session IS NOT NULL)",
            (log,),
        )
        for table in ("usage_entries", "skipped", "subagents"):
            db.execute(f"DELETE FROM {table} WHERE log = ?", (log,))  # noqa: S608 - Ours.
        db.execute(
            "UPDATE logs SET generation = generation + 1, usage_offset = 0, usage_size_bytes = -1,"
            " text_offset = 0, text_size_bytes = -1, folded = NULL, tail_folded = NULL,"
            " usage_count = 0, synthetic = 0, tail_usage_count = 0, tail_synthetic = 0,"
            " is_pending = 0 WHERE id = ?",
            (log,),
        )

    def has_moved(self, log: int) -> None:
        """Deduplicate the records of a log again: which copy is the first depends on its path."""
        base = log << OFFSET_BITS
        self._db.execute(
            "INSERT OR IGNORE INTO pending_usage SELECT name FROM usage_entries WHERE log = ?",
            (log,),
        )
        update_repeats(self._db, repeats_within(self._db, base, base + (1 << OFFSET_BITS)))

    def sessions_of(self, log: int) -> list[str]:
        """Return the sessions with records in a log."""
        base = log << OFFSET_BITS
        rows = self._db.execute(
            "SELECT session FROM logs WHERE id = ?1 UNION SELECT sessions.session FROM records"
            " JOIN sessions ON sessions.id = records.session"
            " WHERE records.id >= ?2 AND records.id < ?3",
            (log, base, base + (1 << OFFSET_BITS)),
        )
        return [row[0] for row in rows]

    def _forget_from(self, low: int, high: int) -> None:
        """Delete the records in a range of ids: provisional ones, or those of a whole log."""
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
        """Forget the ids of a transaction that was rolled back."""
        self.names.clear()
        self._paths.clear()
        self._sessions = {}
        self._texts = []
        self._numbering.start_over()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in a transaction, and start over if it is rolled back."""
        try:
            with transaction(self._db):
                yield
        except BaseException:
            self.start_over()
            raise


class NumberedTexts(NamedTuple):
    """Texts with their ids, and the words for each of the full-text tables, ordered by id."""

    rows: list[tuple[int, int, int, int, int | None, int]]
    """Rows of the table of texts."""
    said: list[tuple[int, bytes]]
    split: list[tuple[int, bytes]]
    """What was said, with identifiers split."""
    answered: list[tuple[int, bytes]]


class TextNumbering:
    """Assigns ids to texts, and remembers them."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._last: dict[int, int] = {}  # The last id that is taken in each second, if known.
        self._newest = 0  # The second of the newest id when it was last queried.
        self._version = -1

    def start_over(self) -> None:
        """Forget the ids that were assigned."""
        self._last, self._version = {}, -1

    def number(self, texts: list[_WaitingText]) -> NumberedTexts:
        """Assign an id to each text. Sort *texts* by time, and clear the list."""
        texts.sort(key=itemgetter(0))
        until = self._look_up(texts[0][0], texts[-1][0]) if texts else 0
        numbered = NumberedTexts([], [], [], [])
        free = 0
        for second, record, part, kind, words, split, session in texts:
            free = max(free + 1, second << SECOND_BITS)
            while True:
                if (at := free >> SECOND_BITS) > until:
                    until = self._look_up(at, at)
                if self._last.get(at, -1) < free:
                    break
                free = self._last[at] + 1
            numbered.rows.append((free, record, part, kind, session, len(words)))
            if kind in ANSWERED:
                numbered.answered.append((free, words))
            else:
                numbered.said.append((free, words))
                numbered.split.append((free, split or words))
        self._last.update((row[0] >> SECOND_BITS, row[0]) for row in numbered.rows)
        texts.clear()
        return numbered

    def _look_up(self, first: int, last: int) -> int:
        """Look up the ids taken from *first* to *last* and a little beyond; return how far."""
        db = self._db
        last += _SECONDS_AHEAD
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:  # Another process wrote since.
            self._version, self._last = version, {}
            newest = db.execute("SELECT max(id) FROM texts").fetchone()[0] or 0
            self._newest = newest >> SECOND_BITS
        low, high = first << SECOND_BITS, (min(self._newest, last) + 1) << SECOND_BITS
        if low < high:
            self._last |= dict(db.execute(_TAKEN, (low, high)))
        return last


def _fits(chunk: Chunk, generation: int, text_offset: int, usage_offset: int) -> bool:
    """Return whether a chunk begins at the bookmarks; the one for usage may be further."""
    return (chunk.generation, chunk.start) == (generation, text_offset) and (
        usage_offset == chunk.usage_start or usage_offset >= chunk.bookmark.offset
    )


def write_usage(db: sqlite3.Connection, chunk: UsageChunk, names: Names, *, start: int) -> None:
    """Write the usage of a chunk from *start* on, folded into what the log had before."""
    log = chunk.log
    write_usage_rows(db, log, chunk.usage_rows, names, is_more=start > 0)
    db.execute("DELETE FROM skipped WHERE log = ? AND offset >= ?", (log, start))
    db.executemany(
        "INSERT INTO skipped VALUES (?, ?, ?, ?)",
        ((log, item.offset, item.why, item.detail) for item in chunk.skipped),
    )
    db.execute(
        "UPDATE logs SET usage_offset = ?, usage_size_bytes = ?, usage_mtime_ns = ?,"
        " usage_fingerprint = ?, usage_count = usage_count + ?, synthetic = synthetic + ?,"
        " tail_usage_count = ?, tail_synthetic = ?, is_pending = ?, device = ?, inode = ?,"
        " problem = NULL WHERE id = ?",
        (
            *mark_values(chunk.bookmark),
            chunk.usage_count,
            chunk.synthetic,
            chunk.tail_usage_count,
            chunk.tail_synthetic,
            chunk.is_pending,
            chunk.device,
            chunk.inode,
            log,
        ),
    )


def write_usage_chunk(db: sqlite3.Connection, chunk: UsageChunk, names: Names) -> None:
    """Write a chunk of usage alone, if its bookmark is still where the reading began."""
    known = db.execute("SELECT generation, usage_offset FROM logs WHERE id = ?", (chunk.log,))
    if known.fetchone() != (chunk.generation, chunk.start):
        return
    if chunk.problem is not None:
        write_problem(db, chunk)
    else:
        write_usage(db, chunk, names, start=chunk.start)


def write_problem(db: sqlite3.Connection, chunk: UsageChunk) -> None:
    """Write why a log could not be read."""
    db.execute("UPDATE logs SET problem = ? WHERE id = ?", (chunk.problem, chunk.log))


def mark_values(mark: Bookmark) -> tuple[Any, ...]:
    mtime_ns = max(-_FAR_NS, min(mark.mtime_ns, _FAR_NS))
    return mark.offset, mark.size_bytes, mtime_ns, mark.fingerprint
