"""Values as cells of comma-separated values.

Texts are inert. A spreadsheet would run a text that begins like a formula, so it gets a quote
before it; numbers do not.
"""

from __future__ import annotations

import json
import os
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from turnlog.text import inert

_FORMULA: Final = ("=", "+", "-", "@")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?", re.ASCII)


def cell(value: Any) -> str:
    """Return *value* as text: instants in ISO 8601, lists and objects as JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case os.PathLike():
            return _text(os.fspath(value))
        case list() | tuple() | dict() | msgspec.Struct():
            return _json(value) if value else ""
    return str(value)


def _json(value: Any) -> str:
    try:
        return _text(msgspec.json.encode(value, enc_hook=os.fspath).decode())
    except UnicodeEncodeError:  # A lone surrogate: it has an escape, but no UTF-8 form.
        return _text(json.dumps(msgspec.to_builtins(value, enc_hook=os.fspath)))


def _text(value: str) -> str:
    text = inert(value, keep="\n\t")
    is_formula = text.lstrip(" \t\n")[:1] in _FORMULA and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text
