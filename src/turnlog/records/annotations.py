"""Notes that turnlog puts on records which are not its own, and takes off again without a trace.

A note is a field called ``turnlogNote`` at the very end of the line, an object that says what the
record itself cannot:

- ``session``: whose record it is, where several sessions share a log and the record names none or
  another;
- ``was``: the line it was before it was rewritten in another dialect, ``was_base64`` if that line
  is not UTF-8;
- ``part``: true for the further records that one line became; the line itself is on the first;
- ``kept``: the line stands as it was; true if it stood like that where its session began.

Putting a note on and taking it off gives the same bytes, so a record that was carried from one
layout to another and back is the record it was. Notes may stand upon notes: the last one counts.

The mark that says which version of turnlog's conventions a log follows.

It is one record, ``{"type":"turnlog","format":1,…}``, at the head of each log turnlog creates. It
has no uuid and a type of its own, so Claude Code's reader, the SDK's and the seeds' pass over it.
A log without it is somebody else's, and is read all the same. See docs/log-format.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnlog.records.codec import decode, encode
from turnlog.records.lenient_json import BOM, NotJson, loads
from turnlog.records.record import Record
from turnlog.records.record_types import Format

# Not ``turnlog``: under that name dialects put aside what they have no place for.
KEY: Final = "turnlogNote"
_QUOTED: Final = b'"turnlogNote":'
_to_json = msgspec.json.Encoder().encode


def with_note(line: bytes, **said: str | bool) -> bytes:
    """Put a note on *line*, which is a JSON object, possibly with white space around it."""
    head, brace, rest = line.rpartition(b"}")
    comma = b"" if _is_empty(head) else b","
    return head + comma + _QUOTED + _encode(said) + brace + rest


def without_note(line: bytes) -> bytes:
    """Return *line* as it was before a note was put on it."""
    note = note_on(line)
    if not note:
        return line
    head, found, rest = line.rpartition(_QUOTED + _encode(note) + b"}")
    if found and not rest.strip():
        if head.endswith(b","):
            return head[:-1] + b"}" + rest
        if _is_empty(head):
            return head + b"}" + rest
    return line  # Somebody has written the line anew: the note has become part of it.


def note_on(line: bytes) -> dict[str, Any]:
    """Read the note on *line*; empty if there is none."""
    if _QUOTED not in line:
        return {}
    try:
        fields = loads(line)
    except NotJson:
        return {}
    return note_in(fields) if isinstance(fields, Mapping) else {}


def note_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the note among the *fields* of a record."""
    note = fields.get(KEY)
    return note if isinstance(note, dict) else {}


def session_of(record: Record) -> str | None:
    """Return whose record it is; None if it does not say."""
    noted = note_on(record.raw).get("session")
    return noted if isinstance(noted, str) else record.session_id


def _is_empty(head: bytes) -> bool:
    """Return whether nothing stands in an object so far, of which *head* is the beginning."""
    return head.removeprefix(BOM).strip() == b"{"


def _encode(note: Mapping[str, Any]) -> bytes:
    try:
        return _to_json(note)
    except UnicodeEncodeError:  # A lone surrogate has an escape, but no UTF-8.
        import json  # noqa: PLC0415 - Hardly any note needs it.

        return json.dumps(note, separators=(",", ":")).encode("ascii")


FORMAT: Final = 1


def format_marker(writer: str, **more: str | None) -> bytes:
    """Return the marker's line, newline included, for a new log; *more* may say whose it is."""
    said = {key: value for key, value in more.items() if value is not None}
    return encode({"type": "turnlog", "format": FORMAT, "writer": writer} | said) + b"\n"


def newer_format(head: bytes) -> int | None:
    """Give the format of a log whose first bytes are *head*, if this version is too old for it."""
    for line in head.split(b"\n", 3)[:3]:
        if b'"turnlog"' in line:
            record = decode(line)
            if isinstance(record, Format) and record.format is not None:
                return record.format if record.format > FORMAT else None
    return None
