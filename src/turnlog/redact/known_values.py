"""Known values: a secret masked in one place is masked everywhere else.

A password is recognizable where it has a name (``DB_PASSWORD=…``), but not where it is repeated.
Keys of a known shape are found everywhere anyway and are not collected here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from turnlog.redact.commands import find_command_passwords
from turnlog.redact.find import find_secrets
from turnlog.redact.headers import find_header_secrets
from turnlog.redact.names import find_named
from turnlog.redact.user_rules import Rules, UserPattern

# A short value, or one without both letters and digits, may be an ordinary word.
_SHORTEST: Final = 10
_LONGEST: Final = 200
_MOST: Final = 1000
_NAMELESS: Final = ("[redacted ", "***")


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
    return any(
        True
        for _ in chain(
            find_named(line, low), find_header_secrets(line, low), find_command_passwords(line)
        )
    )


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
        and not any(each.isspace() for each in value)
        and any(each.isdigit() for each in value)
        and any(each.isalpha() for each in value)
    )
