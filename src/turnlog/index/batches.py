"""What goes into the index in one transaction: chunks of logs, and the words of their texts.

Batches are made by every process that reads logs, so that little is left for the one that writes. A
batch is written whole or not at all; a kill loses no more than those that wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct

from turnlog.index.chunks import Chunk, Unplaced
from turnlog.index.ids import OFFSET_BITS
from turnlog.index.placing import Placing, Row
from turnlog.index.segments import add_segments, beside, press
from turnlog.index.writing import Writer


class IdsTaken(Exception):
    """Another process wrote meanwhile, and gave its texts the ids of ours."""


class Batch(Struct, array_like=True):
    """Chunks whose texts have ids already, and their words, ready to be moved into the index."""

    chunks: list[Chunk]
    """Without their texts."""
    texts: list[Row]
    segments: bytes
    """As ``press`` makes them."""

    def beside(self, db: sqlite3.Connection) -> AbstractContextManager[None]:
        """Let its segments stand beside the index, and there alone; then it can be written."""
        pressed, self.segments = self.segments, b""
        return beside(db, pressed)


class Gathering:
    """The chunks that one process has read and not yet given away."""

    def __init__(self, placing: Placing, statements: Mapping[str, str]) -> None:
        """Place texts with *placing*, and press their words for tables of these *statements*."""
        self._placing, self._statements = placing, statements
        self._texts: list[Unplaced] = []
        self.chunks: list[Chunk] = []
        self.text_bytes = 0

    def add(self, chunk: Chunk) -> None:
        """Take *chunk*, and the texts out of it."""
        if chunk.problem is None:  # Else nothing of it will be written.
            self._texts += chunk.texts
            self.text_bytes += chunk.text_bytes
        chunk.texts = []
        self.chunks.append(chunk)

    def batch(self) -> Batch:
        """Give what was gathered, and begin anew."""
        placed = self._placing.place(self._texts)
        words = {"said": placed.said, "answered": placed.answered}
        made = Batch(self.chunks, placed.rows, press(self._statements, words))
        self.chunks, self.text_bytes = [], 0
        return made


def write_batch(db: sqlite3.Connection, writer: Writer, batch: Batch) -> None:
    """Write *batch*, which stands beside the index, within the transaction that is open."""
    for chunk in batch.chunks:
        writer.write(chunk)
    texts: Sequence[tuple[int, int | None, int, int]] = batch.texts
    if writer.dropped:  # Their words are in the segments: so they keep their ids, and are dead.
        texts = [
            (text, None if record >> OFFSET_BITS in writer.dropped else record, part, kind)
            for text, record, part, kind in batch.texts
        ]
        dead = sum(row[1] is None for row in texts)
        db.execute("UPDATE about SET dead_texts = dead_texts + ?", (dead,))
    before = db.total_changes
    db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?, ?)", texts)
    if db.total_changes - before < len(texts):
        raise IdsTaken
    add_segments(db)
