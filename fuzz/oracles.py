"""What must hold for every input. Each oracle takes bytes and raises if a promise is broken.

Cheap checks run on every input. Dearer ones run on the inputs whose checksum picks them, so that
the same bytes always take the same way and a finding can be replayed. Now and then an input is
repeated until it is large: what takes quadratic time shows as a hang there and nowhere else.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from zlib import crc32

import msgspec

from turnlog.errors import NotSerialisable
from turnlog.records.codec import Envelope, decode, decode_envelope, encode
from turnlog.records.damage import Damage, Reason
from turnlog.records.lenient_json import walk_object
from turnlog.records.meaning import author_of, meaning_of
from turnlog.records.record import Assistant, Record, Spoken, User
from turnlog.storage.salvage import salvage

from .reading import check_reader, is_nothing

_LARGE_BYTES = 32 * 1024
_strict = msgspec.json.Decoder().decode


def enlarged(data: bytes, mark: int) -> bytes:
    """Repeat one input in sixteen thousand until it is large."""
    if mark & 0x3FFF == 7 and data:
        return data * (_LARGE_BYTES // len(data) + 1)
    return data


# -- decoder ------------------------------------------------------------------------------------


def check_decoder(data: bytes) -> None:
    """A record or a damage, the same bytes back, and every view of it without an exception."""
    mark = crc32(data)
    data = enlarged(data, mark)
    found = decode(data)
    thin = decode_envelope(data)
    if isinstance(found, Damage):
        assert isinstance(thin, Damage), "an envelope for what is no record"
        assert (found.offset, found.length, found.excerpt) == (0, len(data), data[:100])
        assert thin.reason is found.reason
        return
    assert isinstance(found, Record)
    assert isinstance(thin, Envelope), "no envelope for a record"
    assert encode(found) == data, "encoding gives other bytes"
    assert thin.uuid == found.uuid, "envelope and record differ in uuid"
    if found.dialect == "claude":
        assert (thin.type or "") == found.type, "envelope and record differ in type"
    for name in _properties(type(found)):
        getattr(found, name)
    author_of(found)
    meaning_of(found)
    if isinstance(found, Spoken) and found.message is not None:
        _look_into(found.message)
    if not mark & 0xFF:
        _check_reencoding(found)


def _look_into(message: Any) -> None:
    for block in message.blocks:
        for name in _properties(type(block)):
            getattr(block, name)
    if message.usage is not None:
        for name in _properties(type(message.usage)):
            getattr(message.usage, name)


@cache
def _properties(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if isinstance(getattr(kind, name), property))


def _check_reencoding(record: Record) -> None:
    """A record without its bytes becomes a line of the same type, or is refused by name."""
    try:
        line = encode(msgspec.structs.replace(record, raw=b""))
    except NotSerialisable:
        return
    again = decode(line)
    assert isinstance(again, Record), "what was encoded does not decode"
    assert b"\n" not in line, "a newline inside a line"
    if record.type:
        assert type(again) is type(record), "what was encoded decodes as another type"


# -- salvage ------------------------------------------------------------------------------------


def check_salvage(data: bytes) -> None:
    """The pieces lie end to end, records are their own slices, glued records are both found."""
    mark = crc32(data)
    data = enlarged(data, mark)
    done = 0
    pieces = salvage(data)
    assert len(pieces) <= 64 + len(data) // 4, "so many pieces that a long line fills the memory"
    for piece in pieces:
        assert piece.start == done < piece.end, "pieces do not lie end to end"
        done = piece.end
        if piece.record is not None:
            assert piece.record.raw == data[piece.start : done], "a record of other bytes"
        else:
            _check_rubble(data[piece.start : done], piece.reason)
    assert done == len(data), "bytes left over"
    if not mark & 15 and len(data) < _LARGE_BYTES:
        _check_glued(data)


def _check_rubble(data: bytes, reason: Reason) -> None:
    if reason is Reason.BLANK:
        assert is_nothing(data), "bytes hidden as blank"
    elif reason is Reason.NUL_RUN:
        assert not data.strip(b"\x00"), "bytes hidden as NULs"
    else:
        assert reason in (Reason.FRAGMENT, Reason.NOT_JSON), "rubble without a reason"


def _check_glued(data: bytes) -> None:
    """Two whole records on one line, or behind NULs, are two records, with all their members."""
    if not (data.startswith(b'{"') and data[2:3].isalpha()):
        return
    try:
        fields = _strict(data)
    except (ValueError, RecursionError):
        return
    whole = data.rstrip(b" \t\r\n")
    walk = walk_object(whole)
    assert walk.whole, "the walker breaks on what the decoder takes"
    members = {_strict(whole[a:b]): _strict(whole[c:d]) for a, b, c, d in walk.members}
    assert members == fields, "the walker finds other members"
    record = decode(whole)
    # Behind NULs, which stand for lost bytes, an object must prove itself: it may be a part.
    proven = isinstance(record, User | Assistant) and None not in (record.session_id, record.uuid)
    for between in (b"", b"\x00\x00") if proven else (b"",):
        found = [p.record.raw for p in salvage(whole + between + whole) if p.record is not None]
        assert found == [whole, whole], "a whole record is lost in a glued line"


ORACLES = {"decoder": check_decoder, "salvage": check_salvage, "reader": check_reader}
