"""Carry lines from one log to another so that they can be restored exactly.

A converted log says so in its first line, with the session's original layout and id. A line that
differs from the original, or would be misread, has a note: translated (``was``, ``part``), in need
of its session's id (``session``), or unchanged (``kept``). Reading removes all of that and returns
the original lines; carrying adds what another log needs. Lines added after the conversion have no
note and are originals like any other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from turnlog.errors import NotSerialisable
from turnlog.formats.log_file import LayoutName, LogFile
from turnlog.formats.supported import dialect_of
from turnlog.records.annotations import format_marker, note_on, session_of, with_note, without_note
from turnlog.records.codec import decode, encode
from turnlog.records.damage import Damage
from turnlog.records.record import Record
from turnlog.records.record_types import Marker
from turnlog.sessions.convert.translate import Translator
from turnlog.sessions.owners import heads_a_log
from turnlog.sessions.session import Session
from turnlog.sessions.writing.writer import WRITER
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import LINE_CAP


class CarryOrigin(NamedTuple):
    """Where a session, or one log of it, began."""

    layout: LayoutName
    id: str
    project: str | None = None
    """The name of its directory under projects/."""
    is_beside: bool = False
    """Whether it is a subagent's log next to the main one, as in early versions."""
    cwd: str | None = None
    """The session's directory, as far as an earlier conversion knew it."""

    def head(self, session_id: str, cwd: str, agent_id: str | None) -> bytes:
        """Return the first line of a converted log."""
        return format_marker(
            WRITER,
            sessionId=session_id,
            agentId=agent_id,
            cwd=cwd,
            convertedFrom=self.layout,
            originalId=self.id,
            originalProject=self.project,
            originalPlace="beside" if self.is_beside else None,
        ).rstrip(b"\n")


class Original(NamedTuple):
    """A line as it was before any conversion.

    *is_first_hand* means that it is known to have been like this where its session began.
    """

    line: bytes
    record: Record
    is_first_hand: bool


class SourceLog:
    """A log of a session, or its share of several days' logs, read in its original form."""

    def __init__(self, session: Session, logs: Sequence[LogFile]) -> None:
        self.session = session
        self.logs = tuple(logs)
        self._damage = 0

    @cached_property
    def origin(self) -> CarryOrigin:
        """Where the log began: elsewhere, if it was converted, or here."""
        found = self._converted
        if found is not None:
            return found
        log = self.logs[-1]
        is_beside = log.kind == "subagent" and log.session_id is None
        project = log.project_key or (log.path.parent.name if log.kind == "day" else None)
        return CarryOrigin(self.session.layout, self.session.id, project, is_beside)

    @property
    def is_converted(self) -> bool:
        return self._converted is not None

    @cached_property
    def _converted(self) -> CarryOrigin | None:
        for number, record in enumerate(self._records()):
            if number > 0 or record.type != "system_init":  # Which comes first in a flat log.
                return origin_in(record)
        return None

    @property
    def agent_id(self) -> str | None:
        return self.logs[0].agent_id

    @property
    def changed_at(self) -> datetime:
        """The mtime of the log."""
        return datetime.fromtimestamp(self.logs[0].path.stat().st_mtime, UTC)

    @property
    def damage(self) -> int:
        """The damaged ranges of the last read; in a day's log they may be another session's."""
        found = self._damage
        for path in (log.path for log in self.logs if log.kind == "day"):
            with read_log(path) as reader:
                found += sum(not isinstance(item, Placed) for item in reader)
                found += reader.pending is not None and reader.pending.record is None
        return found

    def originals(self) -> Iterator[Original]:
        """Yield the log's lines in their original form."""
        has_head = self.is_converted
        for record in self._records():
            if not self.is_converted:
                yield Original(record.raw, record, is_first_hand=True)
            elif has_head and origin_in(record) is not None:
                has_head = False
            else:
                yield from _original(record)

    def _records(self) -> Iterator[Record]:
        self._damage = 0
        for log in self.logs:
            if log.kind == "day":
                yield from (item.record for item in self.session.read(log))
                continue
            with read_log(log.path) as reader:
                for item in reader:
                    if isinstance(item, Placed):
                        yield item.record
                    else:
                        self._damage += 1
                if reader.pending is not None and reader.pending.record is None:
                    self._damage += 1


class CarriedLines(NamedTuple):
    """The lines that an original became, and its time; *is_made* marks lines of our own."""

    lines: list[bytes]
    at: datetime | None = None
    is_told: bool = False
    is_made: bool = False


class Carrier:
    """Carries the originals of one log to another.

    *shared_by* is the session's id if several share the new log; *is_nameless* means that its
    records need no id. Without *is_marked* the new log has no first line of ours, so notes would
    never be removed: only a log that returns unchanged to its original layout is written that way.
    """

    def __init__(
        self,
        origin: CarryOrigin,
        translator: Translator | None,
        *,
        shared_by: str | None = None,
        is_nameless: bool = False,
        is_home: bool = False,
        is_marked: bool = True,
    ) -> None:
        self._origin = origin
        self._translator = translator
        self._shared_by = shared_by
        self._is_nameless = is_nameless
        self._is_home = is_home
        self._is_marked = is_marked

    def carry(self, original: Original) -> CarriedLines:
        """Return the lines that *original* becomes."""
        translated = self._translate(original)
        if translated is not None:
            notes = [
                _was(original.line) | self._kept(original),
                *[{"part": True}] * len(translated),
            ]
            lines = [
                self._noted(line, decode(line), note)
                for line, note in zip(translated, notes, strict=False)
            ]
            if max(map(len, lines)) <= LINE_CAP:
                return CarriedLines(lines, original.record.at, is_told=True)
        line = self._as_it_is(original)
        if len(line) > LINE_CAP:
            raise NotSerialisable(
                f"a record of {len(original.line):,} bytes has no room for a note",
                hint=f"with it the line would be longer than the cap of {LINE_CAP:,} bytes",
            )
        return CarriedLines([line], original.record.at)

    def _translate(self, original: Original) -> list[bytes] | None:
        if self._translator is None:
            return None
        if self._is_home and original.is_first_hand:
            self._translator.observe(original.record)
            return None
        translated = self._translator.translate(original.record)
        try:
            return [encode(fields) for fields in translated] if translated else None
        except NotSerialisable:  # NaN, for example: its readers may accept it as it is.
            return None

    def _as_it_is(self, original: Original) -> bytes:
        line, record = original.line, original.record
        if self._shared_by is not None and heads_a_log(record):
            # It would be taken for the head of the whole log, which belongs to no session.
            mark = {"type": "turnlog", "event": "kept", "sessionId": self._shared_by}
            return with_note(encode(mark), **_was(line))
        note = self._kept(original)
        if not note and self._is_marked and note_on(line):
            note = {"kept": False}  # A foreign note must not be taken for ours.
        return self._noted(line, record, note)

    def _kept(self, original: Original) -> dict[str, Any]:
        """Mark lines that Claude Code's own log had in another dialect, to be restored later."""
        foreign = dialect_of(self._origin.layout) == "claude" != original.record.dialect
        return {"kept": True} if foreign and original.is_first_hand and self._is_marked else {}

    def _noted(self, line: bytes, record: Record | Damage, note: Mapping[str, Any]) -> bytes:
        """Add *note* to *line*, and the session's id if the line has none."""
        whole = dict(note)
        if self._shared_by is not None and isinstance(record, Record):
            # A note on top of another hides the other's content.
            session = record.session_id if whole else session_of(record)
            if session != self._shared_by and not (session is None and self._is_nameless):
                whole["session"] = self._shared_by
        return with_note(line, **whole) if whole else line


def origin_in(record: Record) -> CarryOrigin | None:
    """Return the origin in the first record of a converted log; None for other records."""
    if not isinstance(record, Marker) or record.event is not None:
        return None
    fields = record.fields
    layout, session_id = fields.get("convertedFrom"), fields.get("originalId")
    if not isinstance(layout, str) or not isinstance(session_id, str) or not dialect_of(layout):
        return None
    project = fields.get("originalProject")
    return CarryOrigin(
        layout,
        session_id,
        project if isinstance(project, str) else None,
        fields.get("originalPlace") == "beside",
        record.cwd,
    )


def _original(record: Record) -> Iterator[Original]:
    """Remove what a conversion added; None if the line was made by it."""
    note = note_on(record.raw)
    if note.get("part") is True:
        return
    first_hand = note.get("kept") is True
    line = (_line_before(note) or without_note(record.raw)) if note else record.raw
    before = decode(line) if note else record
    if isinstance(before, Record):
        yield Original(line, before, first_hand)
    else:  # A note that is not ours.
        yield Original(record.raw, record, is_first_hand=False)


def _was(line: bytes) -> dict[str, Any]:
    try:
        return {"was": line.decode("utf-8")}
    except UnicodeDecodeError:
        return {"was_base64": base64.b64encode(line).decode("ascii")}


def _line_before(note: Mapping[str, Any]) -> bytes | None:
    text, packed = note.get("was"), note.get("was_base64")
    try:
        if isinstance(text, str):
            return text.encode("utf-8")
        return base64.b64decode(packed, validate=True) if isinstance(packed, str) else None
    except ValueError:
        return None
