"""Mask the secrets in text, lines and JSON values, and change nothing else."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

from turnlog.redact.find import find_secrets, find_user_patterns
from turnlog.redact.names import is_secret_name, kind_of
from turnlog.redact.user_rules import NO_RULES, Rules

T = TypeVar("T", str, bytes)
_ROUNDS: Final = 8
_STRING: Final = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?')


def redact(text: T, rules: Rules = NO_RULES) -> T:
    """Return *text* with every secret masked; the same text if there is none.

    JSON in it stays JSON, unless a user's pattern matches a quote: use ``redact_line`` for raw
    lines of a log.
    """
    for _ in range(_ROUNDS):
        masked = _masked(text, rules)
        if masked == text:
            break
        text = masked  # Secrets glued to this one may be found now.
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
    """Return a line of JSON with every secret masked; only its strings change."""
    if rules.patterns:
        line = _STRING.sub(lambda match: _literal(match, rules), line)
    return redact(line, Rules((), rules.values, rules.digests, rules.allowed))


def redact_value(value: Any, rules: Rules = NO_RULES) -> Any:
    """Return plain JSON (dicts, lists, strings, numbers) with every secret masked."""
    if isinstance(value, dict | list | tuple):
        # Some are found only by their neighbours: the lines of a key, a variable's value.
        written = json.dumps(value).encode()
        masked = redact_line(written, rules)
        value = value if masked == written else json.loads(masked)
    return _walked(value, rules)


def _walked(value: Any, rules: Rules) -> Any:
    if isinstance(value, str):
        return redact(value, rules)
    if isinstance(value, dict):
        return {key: _named(key, each, rules) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_walked(each, rules) for each in value]
    return value


def _named(key: Any, value: Any, rules: Rules) -> Any:
    if isinstance(key, str) and isinstance(value, str):
        return redact_named(key, value, rules)
    return _walked(value, rules)


def redact_named(name: str, text: str, rules: Rules = NO_RULES) -> str:
    """Return *text* with every secret masked; its *name* may show that it is one."""
    masked = redact(text, rules)
    if masked != text or not is_secret_name(name):
        return masked
    kind = kind_of(name.encode("utf-8", "replace"), text.encode("utf-8", "surrogatepass"))
    return text if kind is None or rules.allows(text) else f"[redacted {kind}]"


def _literal(match: re.Match[bytes], rules: Rules) -> bytes:
    """Mask matches of the user's patterns in one string of a line; field names stay."""
    if match[2] is not None:
        return match[0]
    try:
        string = json.loads(match[1])
    except ValueError:
        return match[0]
    if (
        next(find_user_patterns(string, rules), None) is None
    ):  # The rest is found in the line itself.
        return match[0]
    masked = redact(string, rules)
    if masked == string:
        return match[0]
    return json.dumps(masked, ensure_ascii=False).encode("utf-8", "surrogatepass")
