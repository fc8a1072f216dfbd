"""The first stage of a refresh: only what the ledger needs, at the speed of a scan.

Lines that cannot tell of usage are not even cut out. The bookmark is the ledger's own, so the text
of the same log can be read later, or never.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

from turnlog.errors import TurnlogError
from turnlog.index.ids import Names
from turnlog.index.refresh.bookmarks import Bookmark, fingerprint, length_of
from turnlog.index.refresh.chunks import ChunkUsage, UsageChunk, Work
from turnlog.index.refresh.writer import write_usage
from turnlog.index.usage.scan import needles_of
from turnlog.storage.scan import BUFFER_BYTES, FoundLines

_BATCH_SIGHTINGS: Final = 20_000


def batched_usage(works: Iterable[Work]) -> Iterator[list[UsageChunk]]:
    """Read one log after the other; give what they tell in batches worth a transaction."""
    buffer = bytearray(BUFFER_BYTES)
    batch: list[UsageChunk] = []
    sightings = 0
    for work in works:
        batch.append(read_usage(work, buffer))
        sightings += len(batch[-1].sightings)
        if sightings >= _BATCH_SIGHTINGS:
            yield batch
            batch, sightings = [], 0
    if batch:
        yield batch


def read_usage(work: Work, buffer: bytearray) -> UsageChunk:
    """Read what a log tells from the ledger's bookmark on; never raise for its state."""
    usage = ChunkUsage(work)
    tellings = usage.tellings
    path = tellings.path
    told = synthetic = 0
    is_pending = False
    now: os.stat_result | None = None
    offset, problem = work.start, None
    try:
        now = os.stat(path)
        with FoundLines(
            path, *needles_of(work.log.layout), start=work.start, buffer=buffer
        ) as lines:
            for at, line in lines:
                if lines.is_pending:
                    usage.catch_up()
                    told, synthetic = tellings.told, usage.synthetic
                    is_pending = True
                for sighting in tellings.take(line, at, is_pending=is_pending):
                    usage.take(sighting)
            offset = lines.offset
    except (TurnlogError, OSError) as error:
        problem = str(error)
    rows = usage.rows()
    size_bytes = length_of(path, now) if now else 0
    if not is_pending:
        told, synthetic = tellings.told, usage.synthetic
    return UsageChunk(
        log=work.id,
        generation=work.generation,
        start=work.start,
        sightings=rows,
        skipped=tellings.skipped,
        told=told,
        synthetic=synthetic,
        tail_told=tellings.told - told,
        tail_synthetic=usage.synthetic - synthetic,
        is_pending=bool(tellings.pending),
        bookmark=Bookmark(
            offset,
            size_bytes,
            now.st_mtime_ns if now else 0,
            fingerprint(path, max(offset, size_bytes)),
        ),
        device=now.st_dev if now else 0,
        inode=now.st_ino if now else 0,
        problem=problem,
    )


def write_usage_chunk(db: sqlite3.Connection, chunk: UsageChunk, names: Names) -> None:
    """Write what a log tells, if its bookmark still stands where the reading began."""
    known = db.execute("SELECT generation, usage_offset FROM logs WHERE id = ?", (chunk.log,))
    if known.fetchone() != (chunk.generation, chunk.start):
        return
    if chunk.problem is not None:
        db.execute("UPDATE logs SET problem = ? WHERE id = ?", (chunk.problem, chunk.log))
        return
    write_usage(db, chunk, names, start=chunk.start)
