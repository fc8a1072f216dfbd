"""Validate a log, and repair a damaged one without discarding a byte.

``validate`` reads a log once. Every line is valid, corrupt or blank; bytes after the last newline
count only if they are a complete record. With *strict*, each record is also checked against the
rules of its type, and a line that JSON.parse of Node rejects is corrupt.

A repaired log has every complete record of the damaged one, byte for byte and in order, each on its
own line. Only records that JSON.parse rejects are rewritten: a byte order mark is removed, control
characters are escaped, NaN becomes null. Everything else goes to ``NAME.quarantine-TIME``, and the
damaged log becomes ``NAME.original-TIME``. Both are on disk, and the new log has been read back and
compared, before it replaces the old one. Where hard links work, the original is the damaged file
itself, so later writes to it are not lost.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from turnlog.errors import NotALog
from turnlog.records.annotations import FORMAT
from turnlog.records.damage import Damage, Reason
from turnlog.records.lenient_json import to_strict
from turnlog.records.record import Linked, Record, Unknown
from turnlog.records.record_types import Marker, breaches
from turnlog.storage import system
from turnlog.storage.logger import logger
from turnlog.storage.reader import Pending, Placed, Reader
from turnlog.storage.replace import NewFile, failed, locked
from turnlog.storage.sources import LINE_CAP, PlainSource, Source, open_source
from turnlog.storage.writer import LOCK_TIMEOUT
from turnlog.text import inert_bytes

_NO_EXCERPT: Final = (Reason.NUL_RUN, Reason.BROKEN_BLOB)
_DETAILED: Final = (Reason.BROKEN_ARCHIVE, Reason.BROKEN_BLOB)

# A log can be all damage; the list of findings must stay bounded.
MAX_FINDINGS: Final = 10_000


_MEANING: Final = {
    Reason.BLANK: "blank",
    Reason.FRAGMENT: "part of a record, {:,} bytes",
    Reason.NUL_RUN: "{:,} NUL bytes, as a power cut leaves them",
    Reason.NOT_AN_OBJECT: "JSON, but not an object",
    Reason.NOT_JSON: "not JSON",
    Reason.TOO_LONG: "a line of {:,} bytes, over the cap",
    Reason.BROKEN_ARCHIVE: "the archive does not unpack",
    Reason.BROKEN_BLOB: "moved out",
}


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"  # Bytes that are not a record.
    WARNING = "warning"  # A record that breaks a rule.
    NOTE = "note"  # Worth knowing.


class Finding(Struct, frozen=True, kw_only=True):
    """A problem in a log, and its location."""

    severity: Severity
    code: str
    line: int
    offset: int
    length: int
    message: str
    excerpt: str = ""


class Validation(Struct, kw_only=True):
    """The result of validating one log."""

    path: str
    size_bytes: int = 0
    total: int = 0
    valid: int = 0
    corrupt: list[int] = field(default_factory=list)
    """Line numbers with damage; if strict, also those that JSON.parse rejects."""
    blank: int = 0
    records: int = 0
    """Records found, including salvaged ones."""
    salvaged: int = 0
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0
    """The number of findings beyond the first ten thousand."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    is_sidechain: bool = False
    """Whether the first record is an agent's, so that this is not a session's main log."""
    versions: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    @property
    def is_valid(self) -> bool:
        """Whether there are no findings other than notes."""
        return not self.corrupt and all(f.severity is Severity.NOTE for f in self.findings)

    def add(self, finding: Finding) -> None:
        """Add a finding; beyond the limit, only count it."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
        else:
            self.unlisted += 1


def validate(
    path: str | os.PathLike[str], *, strict: bool = False, cap: int = LINE_CAP
) -> Validation:
    """Validate the log at *path* line by line; change nothing.

    *strict* also checks each record against the rules of its type, and each line for strict JSON.
    """
    with Reader(path, cap=cap) as reader:
        result = Validation(path=os.fspath(path), size_bytes=os.stat(path).st_size)
        line = 0
        for line, items in groupby(reader, key=attrgetter("line")):
            records = damages = refused = 0
            for item in items:
                if isinstance(item, Placed):
                    records += 1
                    _take_record(result, item, strict=strict)
                    refused += strict and _take_refused(result, item)
                else:
                    damages += 1
                    result.add(_of_damage(item))
            if records > 1 and not damages:
                message = f"{records} records on one line"
                where = item._replace(length=0) if isinstance(item, Placed) else item
                result.add(_finding(Severity.ERROR, "glued", where, message))
            if damages or records > 1:
                result.salvaged += records
            if damages or records > 1 or refused:
                result.corrupt.append(line)
        _take_end(result, reader)
    result.blank = reader.blank_lines
    # A line without a newline counts if it was classified: a complete record, or damage.
    result.total = reader.lines + (1 if line > reader.lines else 0)
    result.valid = result.total - result.blank - len(result.corrupt)
    return result


def _finding(
    severity: Severity, code: str, where: Placed | Damage | Pending, message: str, excerpt: str = ""
) -> Finding:
    return Finding(
        severity=severity,
        code=code,
        line=where.line,
        offset=where.offset,
        length=where.length,
        message=message,
        excerpt=excerpt,
    )


def _take_record(result: Validation, placed: Placed, *, strict: bool) -> None:
    record = placed.record
    # turnlog's own records come before the first.
    if isinstance(record, Linked) and result.records == result.types["turnlog"]:
        result.is_sidechain = record.is_sidechain
    result.records += 1
    result.types[record.type or "(none)"] += 1
    at = record.at
    if at is not None:
        result.first_at = min(at, result.first_at or at)
        result.last_at = max(at, result.last_at or at)
    if isinstance(record, Linked) and record.version:
        result.versions[record.version] += 1
    for code, message in _complaints(record, strict=strict):
        result.add(_finding(Severity.WARNING, code, placed, message))


def _take_refused(result: Validation, placed: Placed) -> bool:
    """Report a record that only turnlog can read."""
    _, refused = to_strict(placed.record.raw)
    if refused:
        message = f"JSON.parse refuses {' and '.join(refused)}"
        result.add(_finding(Severity.ERROR, "refused", placed, message))
    return bool(refused)


def _complaints(record: Record, *, strict: bool) -> Iterator[tuple[str, str]]:
    try:
        record.raw.decode()
    except UnicodeDecodeError:
        yield "not-utf8", "contains bytes that are not UTF-8"
    if isinstance(record, Marker) and (record.format or 0) > FORMAT:
        yield "newer-format", f"written in format {record.format}; this turnlog knows {FORMAT}"
    if strict:
        if isinstance(record, Unknown):
            yield "unknown-type", f"unknown type {record.type!r}"
        for message in breaches(record):
            yield "breach", message


def _of_damage(damage: Damage) -> Finding:
    message = _MEANING[damage.reason].format(damage.length)
    if damage.reason in _DETAILED:
        message += f": {damage.detail}"
    # An excerpt of NULs or of a stub would say less than the message.
    excerpt = "" if damage.reason in _NO_EXCERPT else inert_bytes(damage.excerpt)
    return _finding(Severity.ERROR, damage.reason.value, damage, message, excerpt)


def _take_end(result: Validation, reader: Reader) -> None:
    pending = reader.pending
    if pending is None:
        return
    if pending.record is not None:
        finding = Severity.NOTE, "no-final-newline", pending, "the last record has no newline"
    else:
        message = "the last line was cut short, or is being written"
        finding = Severity.WARNING, "torn-tail", pending, message
    result.add(_finding(*finding, inert_bytes(pending.excerpt)))


class Repair(Struct, kw_only=True):
    """What was, or would be, done to a log."""

    path: str
    written: bool = False
    records: int = 0
    salvaged: int = 0
    """Records among them found on a damaged line."""
    rewritten: int = 0
    """Records among them that JSON.parse rejected, rewritten so that it reads them."""
    blank: int = 0
    """Blank lines, which are removed."""
    quarantined: list[Damage] = field(default_factory=list)
    adds_newline: bool = False
    """The last record was complete but had no newline."""
    torn: bool = False
    """The last line was cut short."""
    original: str | None = None
    quarantine: str | None = None

    @property
    def needed(self) -> bool:
        """Whether there is anything to repair."""
        return bool(self.salvaged or self.rewritten or self.quarantined or self.adds_newline)

    @property
    def quarantined_bytes(self) -> int:
        """The number of bytes that were not records and went to the quarantine file."""
        return sum(damage.length for damage in self.quarantined)


def repair(
    path: str | os.PathLike[str],
    *,
    write: bool = False,
    cap: int = LINE_CAP,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> Repair:
    """Return how the log at *path* would be repaired; do it if *write* is true.

    Nothing is discarded: the damaged log and the bytes that were not records are kept in the files
    *original* and *quarantine*.
    """
    try:
        plan = Repair(path=os.fspath(path))
        source = open_source(path)
        for _ in _survivors(plan, source, cap):
            pass
        if write and not source.plain:
            raise NotALog(
                f"{os.fspath(path)} is compressed, and archives are never changed",
                path=path,
                hint="decompress it to another file, and repair that",
            )
        return _rewrite(Path(path), cap, lock_timeout) if write and plan.needed else plan
    except OSError as error:
        raise failed(error, "repair", path) from None


def _survivors(plan: Repair, source: Source, cap: int) -> Iterator[bytes]:
    """Yield every complete record as a line, and count in *plan* what happened to the rest."""
    # Stubs are ordinary records here: their lines are not in this log.
    with Reader(plan.path, cap=cap, tail="seal", source=source, follow_blobs=False) as reader:
        for _, group in groupby(reader, key=attrgetter("line")):
            items = list(group)
            records = [item for item in items if isinstance(item, Placed)]
            damages = [item for item in items if isinstance(item, Damage)]
            plan.records += len(records)
            plan.quarantined += damages
            if damages or len(records) > 1:
                plan.salvaged += len(records)
            for item in records:
                line, refused = to_strict(item.record.raw)
                plan.rewritten += bool(refused)
                yield line
        plan.blank = reader.blank_lines
        if reader.pending is not None:
            plan.adds_newline = reader.pending.record is not None
            plan.torn = not plan.adds_newline


def _rewrite(path: Path, cap: int, lock_timeout: float | None) -> Repair:
    """Write the new log, verify it, quarantine what is not in it, and replace the log."""
    plan = Repair(path=str(path), written=True)
    what = "the repaired copy of"
    with locked(path, lock_timeout) as held:
        damaged = PlainSource(os.dup(held.fd), 0, end=held.size_bytes)
        lines = (line + b"\n" for line in _survivors(plan, damaged, cap))
        # A new mtime: with the same size and mtime, the two could be mistaken for each other.
        fd = held.make_fresh(lines, what, is_as_old=False)
        if not _is_sound(held.fresh, PlainSource(fd, 0), plan.records, cap):
            raise held.unproved(what)
        held.keep_original()
        with NewFile(held.quarantine) as rest:
            for damage in plan.quarantined:
                rest.write(_quarantined(held.fd, damage, cap))
        plan.original, plan.quarantine = str(held.original), str(held.quarantine)
        held.take_place()
    logger.info("%s: repaired, %d records kept", path, plan.records)
    return plan


def _is_sound(path: Path, source: Source, records: int, cap: int) -> bool:
    """Return whether a log has exactly *records* records and nothing else."""
    count = 0
    with Reader(path, cap=cap, source=source, follow_blobs=False) as reader:
        for item in reader:
            if not isinstance(item, Placed):
                return False
            count += 1
    return count == records


def _quarantined(fd: int, damage: Damage, cap: int) -> bytes:
    """Describe a damaged range, with its bytes unless they are all NULs or too many."""
    described = {
        "offset": damage.offset,
        "length": damage.length,
        "line": damage.line,
        "reason": damage.reason.value,
    }
    if damage.reason is not Reason.NUL_RUN and damage.length <= cap:
        data = system.read_at(fd, damage.length, damage.offset)
        try:
            described["text"] = data.decode("utf-8")
        except UnicodeDecodeError:
            described["base64"] = base64.b64encode(data).decode("ascii")
    return msgspec.json.encode(described) + b"\n"
