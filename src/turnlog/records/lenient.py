"""Structs built field by field from whatever JSON there is.

The fast decoder takes a line whole or not at all. This is the other way: a field of the wrong
shape is left at its default and named, everything else is kept. It never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from turnlog.records.blocks import BLOCK_BY_TYPE, AnyBlock, UnknownBlock

S = TypeVar("S", bound=msgspec.Struct)

_REFUSALS = (msgspec.ValidationError, ValueError, TypeError, RecursionError)


def build(
    kind: type[S], fields: Mapping[str, Any], *, path: str = "", **given: Any
) -> tuple[S, tuple[str, ...]]:
    """Build a *kind* from *fields*, and name the fields that did not fit."""
    values: dict[str, Any] = dict(given)
    odd: list[str] = []
    for field in _wire_fields(kind):
        if field.name in given or field.encode_name not in fields:
            continue
        value = fields[field.encode_name]
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except _REFUSALS:
            where = f"{path}{field.encode_name}"
            mended, strays = _mend(field.type, value, where)
            odd += strays
            if mended is not None:
                values[field.name] = mended
    return kind(**values), tuple(odd)


@cache
def _wire_fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """List the fields of *kind* that stand on the wire; names in brackets never do."""
    return tuple(f for f in msgspec.structs.fields(kind) if not f.encode_name.startswith("("))


def _mend(wanted: Any, value: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """Make the most of a *value* that is not what was *wanted*."""
    options = get_args(wanted) or (wanted,)
    if value is None:
        return None, ()  # An explicit null says no more than an absent field.
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
        except _REFUSALS:
            pass
        try:
            mended, _ = build(kind, value)
            return mended  # type: ignore[return-value]
        except _REFUSALS:  # A required field is missing or unusable.
            pass
    return UnknownBlock(kind_name, value)
