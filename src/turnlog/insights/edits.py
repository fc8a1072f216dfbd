"""Edit churn: which files were edited again and again, and how many lines came and went.

An edit is a call that writes a file (Edit, MultiEdit, NotebookEdit, Write). It went through unless
its result says otherwise; edits nobody answered are in no rate. Lines are those of the patch that
its result carries; of a new file, all of it. They stand in the log only and are read back, and
where a log is gone or says nothing of lines, they are counted as not known. A file was right at
the first try in a session in which one edit of it went through, and no second.
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
"""So many results are read for their lines."""

_END_BYTES: Final = 4_096
_PATCH: Final = b'"structuredPatch":'
_HEAD: Final = b'{"toolUseResult":{'

Lines = tuple[int, int]
_Row = tuple[Any, ...]


class EditedFileRow(Struct, kw_only=True):
    """A file that was edited."""

    file: str
    edits: int
    failed: int
    sessions: int
    most_in_a_session: int
    """How often it was edited in the session that edited it most."""
    added: int
    removed: int


class Edits(Struct, kw_only=True):
    """What was edited."""

    edits: int
    """Calls that were answered without an error."""
    failed: int
    failure_rate: float | None
    files: int
    first_try_rate: float | None
    """Of the files that a session edited, which part it edited once."""
    added: int
    removed: int
    unknown: int
    """Edits of which no log tells the lines."""
    rows: list[EditedFileRow]
    """The most edited first."""


class _File(Struct):
    edits: int = 0
    failed: int = 0
    added: int = 0
    removed: int = 0


def edits_of(index: Index, asked: Scope) -> Edits:
    """Count edits, files and lines."""
    files: dict[str, _File] = {}
    tries: dict[tuple[str, int | None], int] = {}
    unknown = 0
    for row, lines in edits_with_lines(index, asked):
        path, session, is_error = row[:3]
        file = files.get(path)
        if file is None:
            file = files[path] = _File()
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
    edits, failed = (sum(getattr(each, name) for each in files.values()) for name in _COUNTS)
    return Edits(
        edits=edits,
        failed=failed,
        failure_rate=part_of(failed, edits + failed),
        files=len({path for path, _ in tries}),
        first_try_rate=part_of(sum(count == 1 for count in tries.values()), len(tries)),
        added=sum(each.added for each in files.values()),
        removed=sum(each.removed for each in files.values()),
        unknown=unknown,
        rows=_rows_of(files, tries, asked),
    )


_COUNTS: Final = ("edits", "failed")


def explain_edits(index: Index, asked: Scope, file: str | None = None) -> Iterator[Evidence]:
    """Return the edits of a file, or of all."""
    places = Places(index)
    for row, lines in edits_with_lines(index, asked, file):
        path, session, is_error, record, at, _, _ = row
        counts = {} if lines is None else {"added": lines[0], "removed": lines[1]}
        what = f"{path}: failed" if is_error else path
        yield places.behind(record, session, at, what, **counts)


def edits_with_lines(
    index: Index, asked: Scope, file: str | None = None
) -> Iterator[tuple[_Row, Lines | None]]:
    """Give every answered edit, in the order of the results, with the lines it changed if known."""
    where, values = conditions(index, asked)
    if file is not None:
        where += " AND p.path = ?"
        values.append(file)
    rows = index.db.execute(
        "SELECT p.path, r.session, c.is_error, r.id, r.at, a.id, a.length"  # noqa: S608 - Ours.
        " FROM touches AS f JOIN calls AS c ON c.record = f.record AND c.block = f.block"
        " JOIN records AS r ON r.id = f.record JOIN paths AS p ON p.id = f.path"
        " JOIN records AS a ON a.id = c.result"
        " WHERE f.action IN ('edit', 'write') AND c.call_id IS NOT NULL"
        f" AND c.is_error IS NOT NULL AND {where} ORDER BY a.id",
        values,
    )
    left = READ_AT_MOST
    with _Results(index) as results:
        for row in rows:
            lines = None
            if not row[2] and left > 0:
                left -= 1
                lines = results.lines(row[5], row[6])
            yield row, lines


class _Results(Closing):
    """Reads the lines of results, one log after another.

    A result carries the file as it was before, which is most of it, and the patch behind that. So
    its end is looked at first, and all of it only where that is not enough.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._log = -1
        self._source: Seekable | None = None

    def lines(self, record: int, length: int) -> Lines | None:
        """Return the lines that the edit which *record* tells of added and removed."""
        if length > _END_BYTES:
            found = self._at_the_end(record, length)
            if found is not None:
                return found
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
    """Return the lines of the patch in a result that ends with *end*; None if it is not there.

    A quote that is not escaped ends the name of a field, so the name is no part of a text. What
    follows it must be the rest of a record, or the patch is not the result's own.
    """
    place = end.rfind(_PATCH)
    if place < 0:
        return None
    try:
        told = _decode(_HEAD + end[place:]).told
    except (ValueError, RecursionError):
        return None
    hunks = [bytes(hunk.lines) for hunk in (told.hunks if told else None) or ()]
    return _counted(hunks) if _has_lines(hunks) else None


def lines_in(result: bytes) -> Lines | None:
    """Give how many lines the edit that a result tells of added and removed; None if it is silent.

    Of the line only this is decoded: most of its bytes are the file as it was before.
    """
    try:
        told = _decode(result).told
        if told is None:
            return None
        hunks = None if told.hunks is None else [bytes(hunk.lines) for hunk in told.hunks]
        content = bytes(told.content)
    except (ValueError, RecursionError):
        hunks, content = _leniently(result)
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
    """Count the texts of a JSON list that begin with a sign, without decoding them.

    A quote before the sign opens such a text, unless it is one within a text, which is escaped.
    """
    return lines.count(b'"' + sign) - lines.count(b'\\"' + sign)


class _Hunk(Struct, gc=False):
    lines: Raw = Raw()


class _EditResult(Struct, gc=False):
    hunks: list[_Hunk] | None = msgspec.field(default=None, name="structuredPatch")
    content: Raw = Raw()


class _Result(Struct, gc=False):
    told: _EditResult | None = msgspec.field(default=None, name="toolUseResult")


_decode = msgspec.json.Decoder(_Result).decode
_decode_text = msgspec.json.Decoder(str).decode


def _text(data: bytes) -> str | None:
    try:
        return _decode_text(data)
    except (ValueError, RecursionError):
        pass
    try:  # A lone surrogate is no reason to know nothing.
        value = loads(data)
    except NotJson:
        return None
    return value if isinstance(value, str) else None


def _leniently(result: bytes) -> tuple[list[bytes] | None, bytes]:
    """Read what has another shape than it should: take what is there, believe nothing."""
    try:
        line = loads(result)
    except NotJson:
        return None, b""
    told = line.get("toolUseResult") if isinstance(line, dict) else None
    if not isinstance(told, dict):
        return None, b""
    hunks = told.get("structuredPatch")
    content = json.dumps(told.get("content")).encode()
    return list(_hunks(hunks)) if isinstance(hunks, list) else None, content


def _hunks(hunks: list[Any]) -> Iterator[bytes]:
    for hunk in hunks:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if isinstance(lines, list):
            yield json.dumps([line for line in lines if isinstance(line, str)]).encode()


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
