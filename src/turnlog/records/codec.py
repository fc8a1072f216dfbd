"""Decode lines to records and encode records to lines. Any bytes give a record or a Damage.

``decode`` returns the full record. ``decode_envelope`` returns only ids, timestamp and location,
and skips the rest of the line, for scans.

``encode(decode(line)) == line`` for every line that is a record, because a record keeps its
original bytes. Other values are encoded strictly: NaN, cycles and arbitrary objects raise
NotSerialisable. Datetimes and UUIDs become strings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from turnlog.errors import NotSerialisable
from turnlog.records.damage import Damage, Reason, damage_at
from turnlog.records.dialects import BY_NAME, dialect_of
from turnlog.records.lenient_json import BOM, NotJson, loads_noting, walk_object
from turnlog.records.record import BLOCK_BY_TYPE, SAID, AnyBlock, Record, Unknown, UnknownBlock
from turnlog.records.record_types import (
    CLAUDE_KINDS,
    KIND_BY_TYPE,
    STATE_PREFIXES,
    STATE_TYPES,
    SessionRecord,
)

S = TypeVar("S", bound=Struct)

_REFUSALS = (ValueError, RecursionError)
_MISFITS = (ValueError, TypeError, RecursionError)  # ValidationError is a ValueError.

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


# Types that lines of other dialects may have; None means lines with ``role``.
_DIALECT_TYPES = frozenset({None, "user", "assistant", "tool_call", "tool_result"})


class Envelope(Struct, frozen=True, rename="camel"):
    """The ids, timestamp and location of a line."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | int | float | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    version: str | None = None


_decode_fast = msgspec.json.Decoder(Union[CLAUDE_KINDS]).decode  # noqa: UP007
envelope_decoder = msgspec.json.Decoder(Envelope)
_decode_envelope = envelope_decoder.decode


def decode(line: bytes) -> Record | Damage:
    """Decode one line, without its newline."""
    try:
        record: Record = _decode_fast(line)
    except _REFUSALS:
        return _decode_slowly(line)
    if record.odd or record.dialect != "claude":
        return _decode_slowly(line)
    if isinstance(record, SAID) and record.message is None:
        return _decode_slowly(line)  # Another dialect, or an empty message.
    force_setattr(record, "raw", line)
    return record


def decode_envelope(line: bytes) -> Envelope | Damage:
    """Decode the envelope of one line, without its newline."""
    try:
        envelope = _decode_envelope(line)
        if is_complete(envelope):
            return envelope
    except _REFUSALS:
        pass
    fields, _, damage = _read(line)
    return damage or build(Envelope, dialect_of(fields).to_house(fields))[0]


def is_complete(envelope: Envelope) -> bool:
    """Return whether *envelope* is complete; other dialects keep some fields elsewhere."""
    return envelope.session_id is not None or envelope.type not in _DIALECT_TYPES


def encode(value: Record | Mapping[str, Any]) -> bytes:
    """Encode *value* as one line without its newline; raise NotSerialisable if impossible."""
    if isinstance(value, dict):
        return _dump(value)
    if isinstance(value, Record):
        return value.raw or _dump(_in_dialect(value))
    if isinstance(value, Mapping):
        return _dump(dict(value))
    raise NotSerialisable(
        f"a {type(value).__name__} is not a record",
        hint="pass a record or a mapping with at least a 'type'",
    )


def _decode_slowly(line: bytes) -> Record | Damage:
    fields, noted, damage = _read(line)
    if damage:
        return damage
    dialect = dialect_of(fields)
    house = dialect.to_house(fields)
    name = house.get("type")
    known: dict[str, Any] = {"raw": line, "dialect": dialect.name}
    kind: type[Record]
    if not isinstance(name, str):
        kind, known["wire_type"] = Unknown, ""
    elif name in KIND_BY_TYPE:
        kind = KIND_BY_TYPE[name]
    else:
        is_state = name in STATE_TYPES or name.startswith(STATE_PREFIXES)
        kind, known["wire_type"] = (SessionRecord if is_state else Unknown), name
    record, odd = build(kind, house, **known)
    if noted or odd:
        force_setattr(record, "odd", (*noted, *odd))
    return record


def build(
    kind: type[S], fields: Mapping[str, Any], *, path: str = "", **known: Any
) -> tuple[S, tuple[str, ...]]:
    """Build a *kind* from *fields*; return it and the names of the fields that did not fit."""
    values: dict[str, Any] = dict(known)
    odd: list[str] = []
    for field in _wire_fields(kind):
        if field.name in known or field.encode_name not in fields:
            continue
        value = fields[field.encode_name]
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except _MISFITS:
            where = f"{path}{field.encode_name}"
            usable, strays = _usable_part(field.type, value, where)
            odd += strays
            if usable is not None:
                values[field.name] = usable
    return kind(**values), tuple(odd)


@cache
def _wire_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of *kind* that are in lines; names in parentheses never are."""
    return tuple(f for f in msgspec.structs.fields(kind) if not f.encode_name.startswith("("))


def _usable_part(wanted: Any, value: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """Return what can be used of a *value* that is not of the *wanted* type."""
    options = get_args(wanted) or (wanted,)
    if value is None:
        return None, ()  # An explicit null means the same as an absent field.
    if isinstance(value, dict):
        for option in options:
            if isinstance(option, type) and issubclass(option, msgspec.Struct):
                return build(option, value, path=f"{where}.")
    if isinstance(value, list) and any(get_origin(option) is tuple for option in options):
        return tuple(_block(item) for item in value), ()
    if isinstance(value, float) and value.is_integer() and int in options:
        return int(value), ()
    return None, (where,)


def _block(value: Any) -> AnyBlock:
    kind_name = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind_name, str):
        return UnknownBlock("", value)
    kind = BLOCK_BY_TYPE.get(kind_name)
    if kind is not None:
        try:
            return msgspec.convert(value, kind)  # type: ignore[return-value]
        except _MISFITS:
            pass
        try:
            usable, _ = build(kind, value)
            return usable  # type: ignore[return-value]
        except _MISFITS:  # A required field is missing or unusable.
            pass
    return UnknownBlock(kind_name, value)


def _read(line: bytes) -> tuple[dict[str, Any], tuple[str, ...], Damage | None]:
    """Return the object in *line*, or the damage."""
    try:
        value, noted = loads_noting(line)
    except NotJson as error:
        return {}, (), damage_at(line, _why_not(line, error), detail=str(error))
    if not isinstance(value, dict):
        return {}, (), damage_at(line, Reason.NOT_AN_OBJECT)
    return value, noted, None


def _why_not(line: bytes, error: NotJson) -> Reason:
    bare = line.removeprefix(BOM).strip(b" \t\r\n")
    if not bare:
        return Reason.BLANK
    if not bare.strip(b"\x00"):
        return Reason.NUL_RUN
    if bare.startswith(b"{") and (error.walk or walk_object(bare)).ran_out:
        return Reason.FRAGMENT
    return Reason.NOT_JSON


def _in_dialect(record: Record) -> dict[str, Any]:
    """Return the fields of a record that was never a line, in its dialect's shape."""
    return BY_NAME[record.dialect].from_house({"type": record.type} | _plain(record))


def _plain(value: Any) -> Any:
    """Convert structs to plain JSON, without unset fields."""
    if isinstance(value, UnknownBlock):
        return value.value
    if isinstance(value, Struct):
        config = value.__struct_config__
        plain = {"type": config.tag} if config.tag and not isinstance(value, Record) else {}
        for field in msgspec.structs.fields(value):
            item = getattr(value, field.name)
            unset = item is None or (not field.required and item == field.default)
            if not unset and not field.encode_name.startswith("("):
                plain[field.encode_name] = _plain(item)
        return plain
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _dump(fields: dict[str, Any]) -> bytes:
    try:
        try:
            line = _to_json(fields)
        except UnicodeEncodeError:
            line = escaped_json(fields)
            _refuse_foreign(fields)
            return line
        # The encoder accepts sets, bytes, dates and number keys, and writes NaN as null: decoding
        # would return something else. A tuple becomes a list, which is fine.
        if _reads_otherwise(line, fields):
            _refuse_foreign(fields)
        return line
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise NotSerialisable(
            f"the record cannot be written as JSON: {error}",
            hint="use only objects with text as keys, arrays, strings, finite numbers, booleans "
            "and null",
        ) from None


def _reads_otherwise(line: bytes, fields: dict[str, Any]) -> bool:
    try:
        return bool(_from_json(line) != fields)
    except (msgspec.DecodeError, RecursionError):  # Too deep for it, or a number too large.
        return True


def _refuse_foreign(fields: dict[str, Any]) -> None:
    """Raise if *fields* contain, at any depth, a value that JSON does not have."""
    left: list[Any] = [fields]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"a key is {key!r:.40}, and JSON has only text as keys")
            left += value.values()
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError("NaN and Infinity are not JSON")
        elif not isinstance(value, str | int | None):
            raise TypeError(f"it contains a {type(value).__name__}")


def escaped_json(value: Any) -> bytes:
    """Encode *value* as ASCII JSON: a lone surrogate has an escape, but no UTF-8 form."""
    import json  # noqa: PLC0415 - Hardly any record needs it.

    return json.dumps(value, separators=(",", ":")).encode("ascii")
