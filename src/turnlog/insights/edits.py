"""Edits: which files were edited how often, and how many lines were added and removed.

An edit is a call that writes a file (Edit, MultiEdit, NotebookEdit, Write). It succeeded unless its
result is an error; edits without a result are not counted. Lines come from the patch in the
result, or from the content of a new file. They are read from the logs; if a log is gone or records
no lines, the lines are unknown. A file was right at the first try in a session that edited it
successfully exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from turnlog.errors import TurnlogError
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS
from turnlog.insights.scope import Evidence, Places, Scope, conditions, part_of
from turnlog.records.lenient_json import NotJson, loads
from turnlog.storage import Closing
from turnlog.storage.sources import Seekable, open_source

READ_AT_MOST: Final = 100_000
"""The most results that are read for their lines."""

_END_BYTES: Final = 4_096
_PATCH: Final = b'"structuredPatch":'
_HEAD: Final = b'{"toolUseResult":{'

Lines = tuple[int, int]
_Row = tuple[Any, ...]


class EditedFileRow(Struct, kw_only=True):
    """The edits of a file."""

    file: str
    edits: int
    failed: int
    sessions: int
    most_in_a_session: int
    """The most edits of it in one session."""
    added: int
    removed: int


class Edits(Struct, kw_only=True):
    """The edits of all files."""

    edits: int
    """Calls with a result that is not an error."""
    failed: int
    failure_rate: float | None
    files: int
    first_try_rate: float | None
    """The share of files, counted per session, that were edited once."""
    added: int
    removed: int
    unknown: int
    """Edits with an unknown number of lines."""
    rows: list[EditedFileRow]
    """The most edited first."""


class _File(Struct):
    edits: int = 0
    failed: int = 0
    added: int = 0
    removed: int = 0


def edits_of(index: Index, asked: Scope) -> Edits:
    """Return the figures of edits, files and lines."""
    files: dict[str, _File] = {}
    tries: dict[tuple[str, int | None], int] = {}
    unknown = 0
    for row, lines in edits_with_lines(index, asked):
        path, session, is_error = row[:3]
        file = files.setdefault(path, _File())
        if is_error:
            file.failed += 1
            continue
        file.edits += 1
        tries[path, session] = tries.get((path, session), 0) + 1
        if lines is None:
            unknown += 1
        else:
            file.added += lines[0]
            file.removed += lines[1]
    edits = sum(file.edits for file in files.values())
    failed = sum(file.failed for file in files.values())
    return Edits(
        edits=edits,
        failed=failed,
        failure_rate=part_of(failed, edits + failed),
        files=len({path for path, _ in tries}),
        first_try_rate=part_of(sum(count == 1 for count in tries.values()), len(tries)),
        added=sum(file.added for file in files.values()),
        removed=sum(file.removed for file in files.values()),
        unknown=unknown,
        rows=_rows_of(files, tries, asked),
    )


def explain_edits(index: Index, asked: Scope, file: str | None = None) -> Iterator[Evidence]:
    """Yield the edits of a file, or of all."""
    places = Places(index)
    for row, lines in edits_with_lines(index, asked, file):
        path, session, is_error, record, at, _, _ = row
        counts = {} if lines is None else {"added": lines[0], "removed": lines[1]}
        what = f"{path}: failed" if is_error else path
        yield places.behind(record, session, at, what, **counts)


def edits_with_lines(
    index: Index, asked: Scope, file: str | None = None
) -> Iterator[tuple[_Row, Lines | None]]:
    """Yield every edit with a result, in the order of results, with its lines if known."""
    where, values = conditions(index, asked)
    if file is not None:
        where += " AND p.path = ?"
        values.append(file)
    rows = index.db.execute(
        "SELECT p.path, r.session, c.is_error, r.id, r.at, a.id, a.length"  # noqa: S608 - No user input.
        " FROM touches AS f JOIN calls AS c ON c.record = f.record AND c.block = f.block"
        " JOIN records AS r ON r.id = f.record JOIN paths AS p ON p.id = f.path"
        " JOIN records AS a ON a.id = c.result"
        " WHERE f.action IN ('edit', 'write') AND c.call_id IS NOT NULL"
        f" AND c.is_error IS NOT NULL AND {where} ORDER BY a.id",
        values,
    )
    left = READ_AT_MOST
    with EditResults(index) as results:
        for row in rows:
            lines = None
            if not row[2] and left > 0:
                left -= 1
                lines = results.lines(row[5], row[6])
            yield row, lines


class EditResults(Closing):
    """Reads the lines of results, one log after another.

    Most of a result is the old content of the file, followed by the patch. So the end is read
    first, and the whole result only if that is not enough.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._log = -1
        self._source: Seekable | None = None

    def lines(self, record: int, length: int) -> Lines | None:
        """Return the lines that the edit with the result *record* added and removed."""
        if length > _END_BYTES:
            lines = self._at_the_end(record, length)
            if lines is not None:
                return lines
        data = self._index.raw(record, length)
        return None if data is None else lines_in(data)

    def _at_the_end(self, record: int, length: int) -> Lines | None:
        path, offset = self._index.place(record)
        try:
            if self._log != record >> OFFSET_BITS:
                self.close()
                self._log = record >> OFFSET_BITS
                source = open_source(path)
                if isinstance(source, Seekable):
                    self._source = source
                else:
                    source.close()
            if self._source is None:
                return None
            end = self._source.read_at(_END_BYTES, offset + length - _END_BYTES)
        except (TurnlogError, OSError):
            return None
        return lines_at_end(end)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None


def lines_at_end(end: bytes) -> Lines | None:
    """Return the lines of the patch in a result that ends with *end*, or None.

    The quotes of the field name are not escaped, so it is not inside a string. What follows must
    parse as the rest of a record, or the patch is not the result's own.
    """
    start = end.rfind(_PATCH)
    if start < 0:
        return None
    try:
        result = _decode(_HEAD + end[start:]).result
    except (ValueError, RecursionError):
        return None
    hunks = [bytes(hunk.lines) for hunk in (result.hunks if result else None) or ()]
    return _counted(hunks) if _has_lines(hunks) else None


def lines_in(line: bytes) -> Lines | None:
    """Return the lines that the edit with the result in *line* added and removed, or None.

    Only the patch is decoded, since most of the line is the old content of the file.
    """
    try:
        result = _decode(line).result
        if result is None:
            return None
        hunks = None if result.hunks is None else [bytes(hunk.lines) for hunk in result.hunks]
        content = bytes(result.content)
    except (ValueError, RecursionError):
        hunks, content = _decode_leniently(line)
    if content and not _has_lines(hunks or ()):
        text = _text(content)
        if text is not None:
            return len(text.splitlines()), 0  # A new file has no patch.
    return None if hunks is None else _counted(hunks)


def _has_lines(hunks: Iterable[bytes]) -> bool:
    return any(len(lines) > len(b"[]") for lines in hunks)


def _counted(hunks: list[bytes]) -> Lines:
    return sum(_begin(hunk, b"+") for hunk in hunks), sum(_begin(hunk, b"-") for hunk in hunks)


def _begin(lines: bytes, sign: bytes) -> int:
    """Count the strings of a JSON list that begin with *sign*, without decoding them.

    A quote before the sign begins a string unless it is escaped.
    """
    return lines.count(b'"' + sign) - lines.count(b'\\"' + sign)


class _Hunk(Struct, gc=False):
    lines: Raw = Raw()


class _EditResult(Struct, gc=False):
    hunks: list[_Hunk] | None = msgspec.field(default=None, name="structuredPatch")
    content: Raw = Raw()


class _Result(Struct, gc=False):
    result: _EditResult | None = msgspec.field(default=None, name="toolUseResult")


_decode = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode


def _text(data: bytes) -> str | None:
    try:
        return _decode_text(data)
    except (ValueError, RecursionError):
        pass
    try:  # msgspec rejects lone surrogates.
        value = loads(data)
    except NotJson:
        return None
    return value if isinstance(value, str) else None


def _decode_leniently(line: bytes) -> tuple[list[bytes] | None, bytes]:
    """Return the hunks and the content of a result whose fields may have any type."""
    try:
        record = loads(line)
    except NotJson:
        return None, b""
    result = record.get("toolUseResult") if isinstance(record, dict) else None
    if not isinstance(result, dict):
        return None, b""
    content = json.dumps(result.get("content")).encode()
    patch = result.get("structuredPatch")
    if not isinstance(patch, list):
        return None, content
    hunks = [hunk.get("lines") for hunk in patch if isinstance(hunk, dict)]
    return [
        json.dumps([text for text in lines if isinstance(text, str)]).encode()
        for lines in hunks
        if isinstance(lines, list)
    ], content


def _rows_of(
    files: dict[str, _File], tries: dict[tuple[str, int | None], int], asked: Scope
) -> list[EditedFileRow]:
    order = sorted(files, key=lambda path: (-files[path].edits, -files[path].failed, path))
    shown = asked.first(order)
    counts: dict[str, list[int]] = {path: [] for path in shown}
    for (path, _), count in tries.items():
        if path in counts:
            counts[path].append(count)
    return [
        EditedFileRow(
            file=path,
            edits=files[path].edits,
            failed=files[path].failed,
            sessions=len(counts[path]),
            most_in_a_session=max(counts[path], default=0),
            added=files[path].added,
            removed=files[path].removed,
        )
        for path in shown
    ]
