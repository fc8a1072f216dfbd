"""Masking: text with its secrets replaced, and nothing else changed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from turnlog.redact.finding import find_secrets
from turnlog.redact.names import is_telling, kind_of
from turnlog.redact.rules import NO_RULES, Rules

T = TypeVar("T", str, bytes)
_ROUNDS: Final = 8
_STRING: Final = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?')


def redact(text: T, rules: Rules = NO_RULES) -> T:
    """Give *text* with every secret masked; the same text if there is none.

    JSON in it stays JSON, unless somebody's own pattern takes a quote: for raw lines of a log there
    is ``redact_line``.
    """
    for _ in range(_ROUNDS):
        masked = _masked(text, rules)
        if masked == text:
            break
        text = masked  # What a secret hid, glued to it, may be found now that it is gone.
    return text


def _masked(text: T, rules: Rules) -> T:
    pieces: list[T] = []
    at = 0
    for secret in find_secrets(text, rules):
        masked = secret.masked if isinstance(text, str) else secret.masked.encode()
        pieces += (text[at : secret.start], masked)
        at = secret.end
    if not pieces:
        return text
    pieces.append(text[at:])
    return text[:0].join(pieces)


def redact_line(line: bytes, rules: Rules = NO_RULES) -> bytes:
    """Give a line of JSON with every secret masked; it is the same JSON but for its strings."""
    if rules.patterns:
        line = _STRING.sub(lambda match: _literal(match, rules), line)
    return redact(line, Rules((), rules.values, rules.digests, rules.allowed))


def redact_value(value: Any, rules: Rules = NO_RULES) -> Any:
    """Give plain JSON (dicts, lists, strings, numbers) with every secret masked."""
    if isinstance(value, str):
        return redact(value, rules)
    if isinstance(value, dict):
        return {key: _named(key, each, rules) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(each, rules) for each in redact_together(value, rules)]
    return value


def redact_together(values: Sequence[Any], rules: Rules = NO_RULES) -> Sequence[Any]:
    """Mask what only several texts together tell, if all of *values* are texts: lines of a key."""
    if len(values) < 2 or not all(isinstance(each, str) for each in values):
        return values
    written = json.dumps(values).encode()
    masked = redact_line(written, rules)
    return values if masked == written else json.loads(masked)


def _named(key: Any, value: Any, rules: Rules) -> Any:
    """Mask a value; its key may tell what the value itself does not."""
    if isinstance(key, str) and isinstance(value, str) and is_telling(key):
        said = value.encode("utf-8", "surrogatepass")
        kind = kind_of(key.encode("utf-8", "replace"), said)
        masked = redact(value, rules)
        if kind is not None and masked == value and not rules.allows(value):
            return f"[redacted {kind}]"
        return masked
    return redact_value(value, rules)


def _literal(match: re.Match[bytes], rules: Rules) -> bytes:
    """Mask what people's own patterns find in one string of a line; names of fields stay."""
    if match[2] is not None:
        return match[0]
    try:
        said = json.loads(match[1])
    except ValueError:
        return match[0]
    masked = redact(said, rules)
    if masked == said:
        return match[0]
    return json.dumps(masked, ensure_ascii=False).encode("utf-8", "surrogatepass")
