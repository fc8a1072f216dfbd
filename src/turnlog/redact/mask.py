"""Mask the secrets in text, lines and JSON values, and change nothing else.

A secret masked in one place is masked everywhere: a password is recognizable where it has a name
(``DB_PASSWORD=…``), but not where it is repeated. ``gather_known`` collects such values. Keys of a
known shape are found everywhere anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, TypeVar

from turnlog.redact.credentials import find_command_passwords, find_header_secrets
from turnlog.redact.find import find_secrets, find_user_patterns
from turnlog.redact.names import find_named, is_secret_name, kind_of
from turnlog.redact.user_rules import NO_RULES, Rules, UserPattern

T = TypeVar("T", str, bytes)
_ROUNDS: Final = 8
_STRING: Final = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:)?')
# A short value, or one without both letters and digits, may be an ordinary word.
_SHORTEST: Final = 10
_LONGEST: Final = 200
_MOST: Final = 1000
_NAMELESS: Final = ("[redacted ", "***")


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


def _walked(value: Any, rules: Rules, name: Any = None) -> Any:
    if isinstance(value, str):
        return redact_named(name, value, rules) if isinstance(name, str) else redact(value, rules)
    if isinstance(value, dict):
        return {key: _walked(item, rules, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walked(item, rules) for item in value]
    return value


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
    if next(find_user_patterns(string, rules), None) is None:
        return match[0]  # Other secrets are found in the line itself.
    masked = redact(string, rules)
    if masked == string:
        return match[0]
    return json.dumps(masked, ensure_ascii=False).encode("utf-8", "surrogatepass")


def gather_known(lines: Iterable[bytes], rules: Rules) -> Rules:
    """Return *rules* extended by the values that are secrets anywhere in *lines* of JSON."""
    known: dict[str, str] = {}
    for line in lines:
        if not rules.patterns and not _names_any(line):
            continue
        for secret in find_secrets(line, rules):
            if not secret.masked.startswith(_NAMELESS) or len(known) >= _MOST:
                continue
            value = _without_escapes(line[secret.start : secret.end])
            if _is_unmistakable(value) and not rules.allows(value):
                known.setdefault(value, secret.kind)
    kinds: dict[str, list[str]] = {}
    for value in sorted(known, key=len, reverse=True):  # One may begin with another.
        kinds.setdefault(known[value], []).append(re.escape(value))
    patterns = (UserPattern(kind, re.compile("|".join(values))) for kind, values in kinds.items())
    return Rules((*rules.patterns, *patterns), rules.values, rules.digests, rules.allowed)


def _names_any(line: bytes) -> bool:
    """Return whether a value may follow a telling name: a quick check that is mostly enough."""
    low = line.lower()
    found = chain(
        find_named(line, low), find_header_secrets(line, low), find_command_passwords(line)
    )
    return next(found, None) is not None


def _without_escapes(written: bytes) -> str:
    """Return part of a JSON string without escapes, however often it was escaped."""
    text = written.decode("utf-8", "replace")
    while "\\" in text:
        try:
            plain = json.loads(f'"{text}"')
        except ValueError:
            break
        if plain == text:
            break
        text = plain
    return text


def _is_unmistakable(value: str) -> bool:
    return (
        _SHORTEST <= len(value) <= _LONGEST
        and not any(map(str.isspace, value))
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
    )
