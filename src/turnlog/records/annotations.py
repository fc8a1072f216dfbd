"""turnlog's annotations: notes on other programs' records, and the format marker of a log.

A note is an object in the field ``turnlogNote`` at the very end of a line:

- ``session``: the record's session, where several share a log and the record does not name its own;
- ``was``: the line before it was rewritten in another dialect, ``was_base64`` if it is not UTF-8;
- ``part``: true for the further records that one line became; the line itself is on the first;
- ``kept``: the line is unchanged; true if it was like that where its session began.

Adding a note and removing it restores the same bytes. Notes can be stacked: the last one counts.

The marker, ``{"type":"turnlog","format":1,…}``, is the first line of each log turnlog creates. It
has no uuid and a type of its own, so Claude Code and the SDKs ignore it. See docs/log-format.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnlog.records.codec import decode, encode, escaped_json
from turnlog.records.lenient_json import BOM, NotJson, loads
from turnlog.records.record import Record
from turnlog.records.record_types import Marker

# Not ``turnlog``: dialects use that name for fields they have no place for.
KEY: Final = "turnlogNote"
_QUOTED: Final = b'"turnlogNote":'
FORMAT: Final = 1
_to_json = msgspec.json.Encoder().encode


def with_note(line: bytes, **note: str | bool) -> bytes:
    """Add a note to *line*, a JSON object, possibly with white space around it."""
    head, brace, rest = line.rpartition(b"}")
    comma = b"" if _is_empty(head) else b","
    return head + comma + _QUOTED + _encode(note) + brace + rest


def without_note(line: bytes) -> bytes:
    """Return *line* without its note."""
    note = note_on(line)
    if not note:
        return line
    head, found, rest = line.rpartition(_QUOTED + _encode(note) + b"}")
    if found and not rest.strip():
        if head.endswith(b","):
            return head[:-1] + b"}" + rest
        if _is_empty(head):
            return head + b"}" + rest
    return line  # The line was rewritten: the note is part of it now.


def note_on(line: bytes) -> dict[str, Any]:
    """Return the note on *line*, or an empty dict."""
    if _QUOTED not in line:
        return {}
    try:
        fields = loads(line)
    except NotJson:
        return {}
    return note_in(fields) if isinstance(fields, Mapping) else {}


def note_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note among the *fields* of a record."""
    note = fields.get(KEY)
    return note if isinstance(note, dict) else {}


def session_of(record: Record) -> str | None:
    """Return the session of the record, or None if the note does not name it."""
    noted = note_on(record.raw).get("session")
    return noted if isinstance(noted, str) else record.session_id


def _is_empty(head: bytes) -> bool:
    """Return whether an object that begins with *head* has no members so far."""
    return head.removeprefix(BOM).strip() == b"{"


def _encode(note: Mapping[str, Any]) -> bytes:
    try:
        return _to_json(note)
    except UnicodeEncodeError:
        return escaped_json(note)


def format_marker(writer: str, **more: str | None) -> bytes:
    """Return the marker line of a new log, with its newline; *more* adds fields."""
    fields = {key: value for key, value in more.items() if value is not None}
    return encode({"type": "turnlog", "format": FORMAT, "writer": writer} | fields) + b"\n"


def newer_format(head: bytes) -> int | None:
    """Return the format of a log that begins with *head*, if this version is too old for it."""
    for line in head.split(b"\n", 3)[:3]:
        if b'"turnlog"' in line:
            record = decode(line)
            if isinstance(record, Marker) and record.format is not None:
                return record.format if record.format > FORMAT else None
    return None
