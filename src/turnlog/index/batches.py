"""What goes into the index in one transaction: chunks of logs, and the words of their texts.

Batches are made by every process that reads logs, so that little is left for the one that writes. A
batch is written whole or not at all; a kill loses no more than those that wait.
"""

from __future__ import annotations

import sqlite3

from msgspec import Struct

from turnlog.index.chunks import Chunk
from turnlog.index.ids import OFFSET_BITS
from turnlog.index.placing import Placing, Row, Text, texts_of
from turnlog.index.segments import Press, Segment, add_segment
from turnlog.index.writing import Writer


class IdsTaken(Exception):
    """Another process wrote meanwhile, and gave its texts the ids of ours."""


class Batch(Struct, array_like=True):
    """Chunks whose texts have ids already, and their words, ready to be moved into the index."""

    chunks: list[Chunk]
    """Without their texts."""
    texts: list[Row]
    said: Segment | None
    answered: Segment | None


class Gathering:
    """The chunks that one process has read and not yet given away."""

    def __init__(self, placing: Placing, press: Press) -> None:
        self._placing, self._press = placing, press
        self._texts: list[Text] = []
        self.chunks: list[Chunk] = []
        self.text_bytes = 0

    def add(self, chunk: Chunk) -> None:
        """Take *chunk*, and the texts out of it."""
        if chunk.problem is None:  # Else nothing of it will be written.
            self._texts += texts_of(chunk)
            self.text_bytes += chunk.text_bytes
        chunk.texts = []
        self.chunks.append(chunk)

    def batch(self) -> Batch:
        """Give what was gathered, and begin anew."""
        placed = self._placing.place(self._texts)
        said = self._press.segment("said", placed.said)
        answered = self._press.segment("answered", placed.answered)
        made = Batch(self.chunks, placed.rows, said, answered)
        self.chunks, self.text_bytes = [], 0
        return made


def write_batch(db: sqlite3.Connection, writer: Writer, batch: Batch) -> None:
    """Write *batch* within the transaction that is open; ``segments`` says through what."""
    for chunk in batch.chunks:
        writer.write(chunk)
    texts: list[tuple[int, int | None, int, int]] = [*batch.texts]
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
    for table, segment in (("said", batch.said), ("answered", batch.answered)):
        if segment is not None:
            add_segment(db, table, segment)
