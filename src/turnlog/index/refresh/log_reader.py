"""One log, from its bookmark on, as chunks of rows that can be committed by themselves.

Reads and folds; writes nothing and knows no SQL, so that another process can do it. Never raises
for the state of a log. A chunk ends after a newline and carries the bookmark that stands there.

The last line may lack its newline: still being written, or written so. If it is a record already,
it is given, as provisional: the bookmark stays before it, and the next reading gives it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from turnlog.errors import TurnlogError
from turnlog.formats.log_file import LogFile
from turnlog.formats.supported import DIALECTS
from turnlog.index.ids import BESIDE
from turnlog.index.refresh.bookmarks import Bookmark, length_of
from turnlog.index.refresh.chunks import Chunk, ChunkUsage, Work
from turnlog.index.refresh.line_decoder import (
    LineFields,
    RecordFacts,
    answers,
    fast_line,
    found_in_record,
    names_subagent,
)
from turnlog.index.refresh.log_state import LogState, Passing, repeats_title, take_record, unpacked
from turnlog.index.refresh.rows import ChunkRows
from turnlog.index.usage.scan import needles_of
from turnlog.records.codec import decode
from turnlog.records.damage import Damage, Reason
from turnlog.records.dates import instant, instant_of_ns
from turnlog.records.meaning import Author
from turnlog.records.record import Record
from turnlog.records.usage_entries import is_usual_response
from turnlog.sessions.metadata import MetadataFold
from turnlog.storage.blobs import whole_line
from turnlog.storage.reader import Placed, pieces_of
from turnlog.storage.sources import (
    BrokenArchive,
    FramedSource,
    Seekable,
    Source,
    Splitter,
    fingerprint_by,
    open_source,
)
from turnlog.text import utf8_safe

_CHUNK_TEXT_BYTES: Final = 4 * 1024 * 1024
_CHUNK_LINES: Final = 20_000


def chunks_of(work: Work) -> Iterator[Chunk]:
    """Read a log, or what lies beside the logs, from its bookmark on."""
    if work.log.layout != BESIDE:
        yield from LogReading(work).chunks()
        return
    from turnlog.index.side_files import PROMPTS  # noqa: PLC0415 - Most of what is read are logs.

    if work.log.kind == PROMPTS:
        yield from PromptsReading(work).chunks()
    else:
        yield whole_file(work)


class LogReading:
    """The reading of one log."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.path = os.fspath(work.log.path)
        self.folded: LogState = unpacked(work.folded)
        self.folded.traces.caller = work.log.agent_id
        self.usage = ChunkUsage(work)
        self._is_day = work.log.kind == "day"
        self._nameless = ""
        if self._is_day and isinstance(work.log, LogFile):
            from turnlog.sessions.owners import anonymous_id  # noqa: PLC0415 - Days are few.

            self._nameless = anonymous_id(work.log)
        self._is_fast = DIALECTS.get(work.log.layout) == "claude" and not self._is_day
        self._needles = needles_of(work.log.layout)
        self._passing = Passing()
        self._rows = ChunkRows(self.folded, work.id)
        self._begin(work.start)

    def chunks(self) -> Iterator[Chunk]:
        """Read the log to its end."""
        try:
            source = open_source(self.path, self.work.start)
        except (TurnlogError, OSError) as error:
            yield self.unreadable(error)
            return
        try:
            yield from self._chunks(source)
        except (TurnlogError, OSError) as error:
            yield self.unreadable(error)
        finally:
            source.close()

    def _chunks(self, source: Source) -> Iterator[Chunk]:
        log = source if isinstance(source, Seekable) else None
        before = os.fstat(log.fd) if log is not None else os.stat(self.path)
        splitter = Splitter(self.work.start)
        is_broken = False
        try:
            while chunk := source.read(splitter.chunk_bytes):
                for data in splitter.feed(chunk):
                    offset = splitter.advance(data)
                    if isinstance(data, bytes):
                        self._take(data, offset)
                    elif isinstance(data, Damage):
                        self._rows.damaged(data.moved(offset))
                if self._rows.text_bytes > _CHUNK_TEXT_BYTES or self._lines > _CHUNK_LINES:
                    yield self._chunk(splitter.offset, before, log, is_last=False)
        except BrokenArchive as error:
            at = splitter.offset + splitter.pending_length
            why = Damage(reason=Reason.BROKEN_ARCHIVE, offset=at, length=0, detail=str(error))
            self._rows.damaged(why)
            self.usage.tellings.skip(at, "damaged", why.reason.value)
            is_broken = True
        self._settle_passing()
        folded = self.folded.packed()
        self.usage.catch_up()
        told, synthetic = self.usage.tellings.told, self.usage.synthetic
        is_tail = bool(splitter.pending_length) and not is_broken
        if is_tail and not splitter.pending_too_long:
            self._tail(splitter.pending, splitter.offset)
        last = self._chunk(splitter.offset, before, log, is_last=True)
        if is_tail:
            last.tail_folded = last.folded
            last.folded = folded
            last.is_pending = bool(self.usage.tellings.pending)
        last.tail_told, last.tail_synthetic = last.told - told, last.synthetic - synthetic
        last.told, last.synthetic = told, synthetic
        yield last

    def _tail(self, data: bytes, offset: int) -> None:
        """Take what follows the last newline, if it is a record."""
        record = decode(data)
        if isinstance(record, Record):
            self._take(data, offset)
        elif any(needle in data for needle in self._needles) and offset >= self.work.usage_start:
            self.usage.tellings.pending += 1

    def _take(self, data: bytes, offset: int) -> None:
        """Take one line."""
        self._lines += 1
        length = len(data)
        whole = whole_line(self.path, data)
        if isinstance(whole, Damage):
            self._rows.damaged(whole.moved(offset))
            return
        data = whole
        line = fast_line(data) if self._is_fast else None
        if line is None:
            self._take_whole(data, offset, length)
            return
        at = instant(line.timestamp)
        self._passing.take(line, at)
        if line.type == "assistant":
            if offset >= self.work.usage_start:
                self._take_usage(line, at, data, offset)
        elif line.type == "progress":
            self._see_progress(line, data, offset)
        self._see_side(line)
        session = self.folded.session or self._whose(line.session_id)
        asks_for_subagent = self._rows.remember_line(line, at, offset, length, session)
        if asks_for_subagent or (line.type == "user" and self._is_of_subagent(line)):
            record = decode(data)
            if isinstance(record, Record):
                self.folded.traces.see(Placed(record, offset, length, 0))

    def _take_usage(self, line: LineFields, at: datetime | None, data: bytes, offset: int) -> None:
        tellings = self.usage.tellings
        if is_usual_response(line):
            sighting = tellings.take_told(line, at, offset)
            if sighting is not None:
                self.usage.take(sighting)
        elif line.message is not None and line.message.usage is not None:
            for sighting in tellings.take_unusual(data, offset, is_pending=False):
                self.usage.take(sighting)

    def _take_whole(self, data: bytes, offset: int, length: int) -> None:
        """Take a line that is not one of the many: decode all of it, mend what can be mended."""
        if offset >= self.work.usage_start and any(needle in data for needle in self._needles):
            for sighting in self.usage.tellings.take(data, offset):
                self.usage.take(sighting)
        record = decode(data)
        if isinstance(record, Record):
            self._take_record(record, offset, length)
        elif record.reason is not Reason.BLANK:
            for piece in pieces_of(data, record, offset, log=self.path):
                if isinstance(piece, Damage):
                    self._rows.damaged(piece)
                else:
                    self._take_record(piece.record, piece.offset, piece.length)

    def _take_record(self, record: Record, offset: int, length: int) -> None:
        self._settle_passing()
        self.folded.traces.see(Placed(record, offset, length, 0))
        if self._is_day:
            from turnlog.records.annotations import session_of  # noqa: PLC0415
            from turnlog.sessions.owners import heads_a_log  # noqa: PLC0415

            if heads_a_log(record):
                return
            session = session_of(record) or self._nameless
        else:
            session = self.folded.session or self._whose(record.session_id)
        found = found_in_record(record)
        if repeats_title(self.folded, session, record):
            found.texts = []
        take_record(self.folded, session, record, offset)
        self._rows.remember(found, offset, length, session)

    def _whose(self, told: str | None) -> str:
        """Return whose record it is: the log's place says so, else the first record that does."""
        session = self.work.log.session_id or utf8_safe(told)
        if session is not None:
            self.folded.session = session
            if "" in self.folded.sessions:
                self.folded.sessions[session] = self.folded.sessions.pop("")
        return session or ""

    def _see_progress(self, line: LineFields, data: bytes, offset: int) -> None:
        told = line.data
        if told is None or told.type != "agent_progress":
            return
        if told.agent_id is not None and line.parent_call_id is not None:
            self.folded.traces.progress_of_subagent[told.agent_id] = line.parent_call_id
        if offset >= self.work.usage_start and b'"usage"' in data:
            for sighting in self.usage.tellings.take(data, offset):
                self.usage.take(sighting)

    def _see_side(self, line: LineFields) -> None:
        """Take note of which side a main log's line is on: the session's or a sidechain's."""
        traces = self.folded.traces
        if traces.caller is None:
            if line.is_sidechain is True:
                traces.see_sidechain(line.uuid, line.parent_uuid, line.agent_id)
            elif line.type in ("user", "assistant"):
                traces.has_main = True

    def _is_of_subagent(self, line: LineFields) -> bool:
        """Return whether what a tool answered may say which subagent was asked, or asked itself."""
        traces = self.folded.traces
        return traces.first_prompt is None or names_subagent(line) or answers(line, traces.waiting)

    def _settle_passing(self) -> None:
        if self._passing.lines:
            session = self.folded.session or ""
            fold = self.folded.sessions.get(session)
            if fold is None:
                fold = self.folded.sessions[session] = MetadataFold()
            self._passing.into(fold)

    def only(self, found: RecordFacts, data: bytes, digest: bytes, seen: os.stat_result) -> Chunk:
        """Return the one record that a file holds."""
        if data:
            self._rows.remember(found, 0, len(data), self.work.log.session_id or "")
        chunk = self._chunk(0, seen, None, is_last=True)
        chunk.bookmark = Bookmark(0, length_of(self.path, seen), seen.st_mtime_ns, digest)
        return chunk

    def unreadable(self, error: Exception) -> Chunk:
        """Return why the log cannot be read on; what was read of it stays."""
        chunk = self._chunk(self._start, None, None, is_last=True)
        chunk.problem = str(error)
        return chunk

    def _begin(self, offset: int) -> None:
        self._start = offset
        self._lines = 0
        self._rows.clear()

    def _chunk(
        self, offset: int, seen: os.stat_result | None, log: Seekable | None, *, is_last: bool
    ) -> Chunk:
        """Return what was gathered, with the bookmark that stands behind it, and begin anew."""
        self._settle_passing()
        sightings = self.usage.rows()
        tellings, rows = self.usage.tellings, self._rows
        # Until its end a log has not been seen whole: whoever goes on finds it grown.
        size_bytes = offset
        if is_last and seen is not None:
            size_bytes = log.size_bytes if isinstance(log, FramedSource) else seen.st_size
        chunk = Chunk(
            log=self.work.id,
            generation=self.work.generation,
            start=self._start,
            usage_start=max(self._start, self.work.usage_start),
            records=rows.records,
            carried=rows.carried,
            texts=rows.texts,
            calls=rows.calls,
            answers=rows.answers,
            damages=rows.damages,
            sightings=sightings,
            skipped=tellings.skipped,
            told=tellings.told,
            synthetic=self.usage.synthetic,
            tail_told=0,
            tail_synthetic=0,
            is_pending=False,
            bookmark=Bookmark(
                offset,
                size_bytes,
                seen.st_mtime_ns if seen is not None else 0,
                fingerprint_by(log.read_at, max(offset, size_bytes)) if log is not None else None,
            ),
            device=seen.st_dev if seen is not None else 0,
            inode=seen.st_ino if seen is not None else 0,
            folded=self.folded.packed(),
            tail_folded=None,
            session=self.folded.session or self.work.log.session_id,
            problem=None,
            is_last=is_last,
            text_bytes=rows.text_bytes,
        )
        tellings.skipped = []
        if not is_last:
            tellings.told = self.usage.synthetic = 0
        self._begin(offset)
        return chunk


class PromptsReading(LogReading):
    """The reading of a home's list of prompts: a log whose records have a shape of their own."""

    def _take_record(self, record: Record, offset: int, length: int) -> None:
        from turnlog.index.side_files import PROMPTS, texts_of_side  # noqa: PLC0415

        fields = record.fields
        at = instant(fields.get("timestamp"))
        session = fields.get("sessionId")
        texts = texts_of_side(PROMPTS, record.raw)
        found = RecordFacts(
            "prompt", Author.HUMAN, None, None, at, None, None, None, 0, texts, [], []
        )
        named = session if isinstance(session, str) else ""
        self._rows.remember(found, offset, length, named)


def whole_file(work: Work) -> Chunk:
    """Return a file that is replaced as a whole: one record, known by the digest of its content."""
    from turnlog.index.side_files import content_of, texts_of_side  # noqa: PLC0415

    reading = LogReading(work)
    try:
        seen = os.stat(reading.path)
        data, digest = content_of(reading.path)
    except OSError as error:
        return reading.unreadable(error)
    kind = work.log.kind
    at = instant_of_ns(seen.st_mtime_ns)
    texts = texts_of_side(kind, data)
    found = RecordFacts(kind, Author.ASSISTANT, None, None, at, None, None, None, 0, texts, [], [])
    return reading.only(found, data, digest, seen)
