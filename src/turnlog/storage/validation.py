"""Validate a log: count its lines and list what is wrong with them.

``validate`` reads a log once and changes nothing. Every line is valid, corrupt or blank, so ``total
== valid + corrupt + blank``; bytes after the last newline count only if they are a complete record.
With *strict*, each record is also checked against the rules of its type, and a line that JSON.parse
of Node rejects is corrupt even if turnlog can read it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec import Struct, field

from turnlog.records.annotations import FORMAT
from turnlog.records.damage import Damage, Reason
from turnlog.records.lenient_json import to_strict
from turnlog.records.record import Linked, Record, Unknown
from turnlog.records.record_types import Format
from turnlog.records.required_fields import breaches
from turnlog.storage.lines import LINE_CAP
from turnlog.storage.reader import Placed, Reader
from turnlog.text import inert_bytes

_NO_PICTURE: Final = (Reason.NUL_RUN, Reason.BROKEN_BLOB)
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
                result.add(_glued(line, item.offset, records))
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


def _glued(line: int, offset: int, records: int) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        code="glued",
        line=line,
        offset=offset,
        length=0,
        message=f"{records} records on one line",
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
        result.add(
            Finding(
                severity=Severity.WARNING,
                code=code,
                line=placed.line,
                offset=placed.offset,
                length=placed.length,
                message=message,
            )
        )


def _take_refused(result: Validation, placed: Placed) -> bool:
    """Report a record that only turnlog can read."""
    _, refused = to_strict(placed.record.raw)
    if refused:
        result.add(
            Finding(
                severity=Severity.ERROR,
                code="refused",
                line=placed.line,
                offset=placed.offset,
                length=placed.length,
                message=f"JSON.parse refuses {' and '.join(refused)}",
            )
        )
    return bool(refused)


def _complaints(record: Record, *, strict: bool) -> Iterator[tuple[str, str]]:
    if not _is_utf8(record.raw):
        yield "not-utf8", "contains bytes that are not UTF-8"
    if isinstance(record, Format) and (record.format or 0) > FORMAT:
        yield "newer-format", f"written in format {record.format}; this turnlog knows {FORMAT}"
    if strict:
        if isinstance(record, Unknown):
            yield "unknown-type", f"unknown type {record.type!r}"
        for message in breaches(record):
            yield "breach", message


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _of_damage(damage: Damage) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        code=damage.reason.value,
        line=damage.line,
        offset=damage.offset,
        length=damage.length,
        message=_MEANING[damage.reason].format(damage.length)
        + (f": {damage.detail}" if damage.reason in _DETAILED else ""),
        # An excerpt of NULs or of a stub would say less than the message.
        excerpt="" if damage.reason in _NO_PICTURE else inert_bytes(damage.excerpt),
    )


def _take_end(result: Validation, reader: Reader) -> None:
    pending = reader.pending
    if pending is None:
        return
    whole = pending.record is not None
    result.add(
        Finding(
            severity=Severity.NOTE if whole else Severity.WARNING,
            code="no-final-newline" if whole else "torn-tail",
            line=pending.line,
            offset=pending.offset,
            length=pending.length,
            message="the last record has no newline"
            if whole
            else "the last line was cut short, or is being written",
            excerpt=inert_bytes(pending.excerpt),
        )
    )
