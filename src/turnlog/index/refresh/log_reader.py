"""Read one log from its bookmark on, as chunks of rows that can be committed one by one.

This only reads and folds: it writes nothing and knows no SQL, so child processes can do it for a
large refresh. It never raises for the state of a log. A chunk ends after a newline and has the
bookmark for that place.

The last line may lack its newline. If it is a record already, its rows are provisional: the
bookmark stays before it, and the next reading yields it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from turnlog.errors import TurnlogError
from turnlog.formats.log_file import LogFile
from turnlog.formats.supported import dialect_of, format_named
from turnlog.index.ids import BESIDE
from turnlog.index.refresh.chunks import Bookmark, Chunk, Work, length_of
from turnlog.index.refresh.line_decoder import (
    LineFields,
    RecordFacts,
    answers,
    facts_of,
    fast_line,
    fast_line_in,
    names_subagent,
)
from turnlog.index.refresh.log_state import (
    LineRun,
    LogState,
    fold_record,
    repeats_title,
    unpacked,
)
from turnlog.index.refresh.rows import ChunkRows
from turnlog.index.usage.scan import ChunkUsage, needles_of
from turnlog.records.codec import decode
from turnlog.records.damage import Damage, Reason
from turnlog.records.dates import instant, instant_of_ns
from turnlog.records.dialects import BY_NAME
from turnlog.records.meaning import Author, as_subagents
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
_MESSAGE_TEXT_BYTES: Final = 4 * 1024 * 1024
# Starting a child takes as long as reading this much.
_WORTH_A_CHILD_BYTES: Final = 8_000_000
# With more children, writing is the bottleneck.
_MOST_CHILDREN: Final = 3

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Chunk]).decode


def read_logs(works: Sequence[Work], size_bytes: int) -> Iterator[Chunk]:
    """Yield the chunks of all *works*, about *size_bytes* in all; those of one log in order.

    A large refresh is read by child processes, while this one writes the index.
    """
    left = {work.id: work for work in works}
    if size_bytes >= _WORTH_A_CHILD_BYTES:
        yield from _read_by_children(works, left)
    for work in left.values():  # Also those of a child that was killed or could not be started.
        yield from chunks_of(work)


def _read_by_children(works: Sequence[Work], left: dict[int, Work]) -> Iterator[Chunk]:
    """Read *works* in children; *left* is what they have not read."""
    from turnlog.index import processes  # noqa: PLC0415 - Few refreshes are large.

    count = min(processes.processors() - 1, _MOST_CHILDREN)
    if count < 1 or not processes.can_fork():
        return
    shares = [works[first::count] for first in range(count)]
    with processes.Children(_messages, shares) as children:
        for _, message in children.messages():
            for chunk in _unpack(message):
                work = left.pop(chunk.log)
                if not chunk.is_last:
                    left[work.id] = msgspec.structs.replace(
                        work, start=chunk.bookmark.offset, folded=chunk.folded
                    )
                yield chunk


def _messages(works: Iterable[Work]) -> Iterator[bytes]:
    """Read *works* in a child; yield packed lists of chunks."""
    chunks: list[Chunk] = []
    text_bytes = 0
    for work in works:
        for chunk in chunks_of(work):
            chunks.append(chunk)
            text_bytes += chunk.text_bytes
            if text_bytes >= _MESSAGE_TEXT_BYTES:
                yield _pack(chunks)
                chunks, text_bytes = [], 0
    yield _pack(chunks)


def chunks_of(work: Work) -> Iterator[Chunk]:
    """Read a log or a side file from its bookmark on."""
    if work.log.layout != BESIDE:
        yield from LogReading(work).chunks()
        return
    from turnlog.index.side_files import PROMPTS  # noqa: PLC0415 - Mostly logs are read.

    if work.log.kind == PROMPTS:
        yield from PromptsReading(work).chunks()
    else:
        yield whole_file(work)


class LogReading:
    """Reads one log."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.path = os.fspath(work.log.path)
        self.folded: LogState = unpacked(work.folded)
        self.folded.traces.caller = work.log.agent_id
        self.usage = ChunkUsage(work)
        self._is_day = work.log.kind == "day"
        self._nameless = ""
        if self._is_day and isinstance(work.log, LogFile):
            from turnlog.sessions.owners import anonymous_id  # noqa: PLC0415 - Few logs are of a day.

            self._nameless = anonymous_id(work.log)
        self._is_fast = dialect_of(work.log.layout) == "claude" and not self._is_day
        self._needles = needles_of(work.log.layout)
        self._dialect = BY_NAME[dialect_of(work.log.layout) or "claude"]
        self._with_usage = {needle.strip(b'"').decode() for needle in self._needles}
        self._agent_id = work.log.agent_id if work.log.layout != BESIDE else None
        self._own_start = 0
        if not self._is_fast and work.log.layout != BESIDE:
            self._own_start = format_named(work.log.layout).own_start(self.path)
        self._run = LineRun()
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
            self.usage.lines.skip(at, "damaged", why.reason.value)
            is_broken = True
        self._fold_run()
        folded = self.folded.packed()
        self.usage.add_held()
        count, synthetic = self.usage.lines.count, self.usage.synthetic
        is_tail = bool(splitter.pending_length) and not is_broken
        if is_tail and not splitter.pending_too_long:
            self._tail(splitter.pending, splitter.offset)
        last = self._chunk(splitter.offset, before, log, is_last=True)
        if is_tail:
            last.tail_folded = last.folded
            last.folded = folded
            last.is_pending = bool(self.usage.lines.pending)
        last.tail_usage_count = last.usage_count - count
        last.tail_synthetic = last.synthetic - synthetic
        last.usage_count, last.synthetic = count, synthetic
        yield last

    def _tail(self, data: bytes, offset: int) -> None:
        """Process what follows the last newline, if it is a record."""
        record = decode(data)
        if isinstance(record, Record):
            self._take(data, offset)
        elif any(needle in data for needle in self._needles) and offset >= self.work.usage_start:
            self.usage.lines.pending += 1

    def _take(self, data: bytes, offset: int) -> None:
        """Process one line."""
        self._lines += 1
        length = len(data)
        whole = whole_line(self.path, data)
        if isinstance(whole, Damage):
            self._rows.damaged(whole.moved(offset))
            return
        data = whole
        line = fast_line(data) if self._is_fast else self._fast_line(data, offset)
        if line is None:
            self._take_whole(data, offset, length)
            return
        at = instant(line.timestamp)
        self._run.add(line, at)
        if line.type == "assistant":
            if offset >= self.work.usage_start:
                self._take_usage(line, at, data, offset)
        elif line.type == "progress":
            self._see_progress(line, data, offset)
        self._see_side(line)
        session = self.folded.session or self._whose(line.session_id)
        asks_for_subagent = self._rows.add_line(line, at, offset, length, session)
        if asks_for_subagent or (line.type == "user" and self._is_of_subagent(line)):
            record = decode(data)
            if isinstance(record, Record):
                self.folded.traces.see(Placed(record, offset, length, 0))

    def _fast_line(self, data: bytes, offset: int) -> LineFields | None:
        """Decode a line of another dialect fast; None if it needs to be decoded in full."""
        if self._dialect.usage is None or 0 < offset < self._own_start:
            return None  # turnlog's own dialects have few lines.
        line = fast_line_in(data, self._dialect)
        if line is None:
            return None
        if line.type in self._with_usage and offset >= self.work.usage_start:
            for entry in self.usage.lines.take(data, offset):
                self.usage.add(entry)
        if self._agent_id is not None:
            line.is_sidechain, line.agent_id = True, self._agent_id
        return line

    def _take_usage(self, line: LineFields, at: datetime | None, data: bytes, offset: int) -> None:
        if is_usual_response(line):
            entry = self.usage.lines.take_usual(line, at, offset)
            if entry is not None:
                self.usage.add(entry)
        elif line.message is not None and line.message.usage is not None:
            for entry in self.usage.lines.take_unusual(data, offset, is_pending=False):
                self.usage.add(entry)

    def _take_whole(self, data: bytes, offset: int, length: int) -> None:
        """Process a line that needs to be decoded in full; salvage what can be salvaged."""
        if offset >= self.work.usage_start and any(needle in data for needle in self._needles):
            for entry in self.usage.lines.take(data, offset):
                self.usage.add(entry)
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
        self._fold_run()
        if self._agent_id is not None:
            record = as_subagents(record, self._agent_id)
        is_copy = 0 < offset < self._own_start
        if not is_copy:
            self.folded.traces.see(Placed(record, offset, length, 0))
        if self._is_day:
            from turnlog.records.annotations import session_of  # noqa: PLC0415
            from turnlog.sessions.owners import heads_a_log  # noqa: PLC0415

            if heads_a_log(record):
                return
            session = session_of(record) or self._nameless
        else:
            session = self.folded.session or self._whose(record.session_id)
        facts = facts_of(record)
        if repeats_title(self.folded, session, record):
            facts.texts = []
        fold_record(self.folded, session, record, offset)
        if not is_copy:
            self._rows.add(facts, offset, length, session)

    def _whose(self, named: str | None) -> str:
        """Return the session of a record: the log's, or the first one that a record names."""
        session = self.work.log.session_id or utf8_safe(named)
        if session is not None:
            self.folded.session = session
            if "" in self.folded.sessions:
                self.folded.sessions[session] = self.folded.sessions.pop("")
        return session or ""

    def _see_progress(self, line: LineFields, data: bytes, offset: int) -> None:
        progress = line.data
        if progress is None or progress.type != "agent_progress":
            return
        if progress.agent_id is not None and line.parent_call_id is not None:
            self.folded.traces.progress_of_subagent[progress.agent_id] = line.parent_call_id
        if offset >= self.work.usage_start and b'"usage"' in data:
            for entry in self.usage.lines.take(data, offset):
                self.usage.add(entry)

    def _see_side(self, line: LineFields) -> None:
        """Note whether a line of a main log belongs to a sidechain or to the session itself."""
        traces = self.folded.traces
        if traces.caller is None:
            if line.is_sidechain is True:
                traces.see_sidechain(line.uuid, line.parent_uuid, line.agent_id)
            elif line.type in ("user", "assistant"):
                traces.has_main = True

    def _is_of_subagent(self, line: LineFields) -> bool:
        """Return whether a tool result may say which subagent was called."""
        traces = self.folded.traces
        return traces.first_prompt is None or names_subagent(line) or answers(line, traces.waiting)

    def _fold_run(self) -> None:
        if self._run.lines:
            session = self.folded.session or ""
            fold = self.folded.sessions.get(session)
            if fold is None:
                fold = self.folded.sessions[session] = MetadataFold()
            self._run.fold_into(fold)

    def only(self, facts: RecordFacts, data: bytes, digest: bytes, seen: os.stat_result) -> Chunk:
        """Return the chunk of a file that is one record."""
        if data:
            self._rows.add(facts, 0, len(data), self.work.log.session_id or "")
        chunk = self._chunk(0, seen, None, is_last=True)
        chunk.bookmark = Bookmark(0, length_of(self.path, seen), seen.st_mtime_ns, digest)
        return chunk

    def unreadable(self, error: Exception) -> Chunk:
        """Return a chunk that says why the log cannot be read; earlier chunks stay."""
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
        """Return the rows since the last chunk, with the bookmark after them."""
        self._fold_run()
        usage_rows = self.usage.rows()
        usage, rows = self.usage.lines, self._rows
        # Before its end a log counts as only this long, so the next refresh finds it grown.
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
            usage_rows=usage_rows,
            skipped=usage.skipped,
            usage_count=usage.count,
            synthetic=self.usage.synthetic,
            tail_usage_count=0,
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
        usage.skipped = []
        if not is_last:
            usage.count = self.usage.synthetic = 0
        self._begin(offset)
        return chunk


class PromptsReading(LogReading):
    """Reads a home's list of prompts, a log whose records have their own shape."""

    def _take_record(self, record: Record, offset: int, length: int) -> None:
        from turnlog.index.side_files import PROMPTS, texts_of_side  # noqa: PLC0415

        fields = record.fields
        at = instant(fields.get("timestamp"))
        session = fields.get("sessionId")
        texts = texts_of_side(PROMPTS, record.raw)
        facts = RecordFacts(
            "prompt", Author.HUMAN, None, None, at, None, None, None, 0, texts, [], []
        )
        named = session if isinstance(session, str) else ""
        self._rows.add(facts, offset, length, named)


def whole_file(work: Work) -> Chunk:
    """Return the chunk of a file that is replaced as a whole; its digest identifies it."""
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
    facts = RecordFacts(kind, Author.ASSISTANT, None, None, at, None, None, None, 0, texts, [], [])
    return reading.only(facts, data, digest, seen)
