"""The user's own rules: additional patterns, and values that are never masked.

    [redact]
    patterns = ["ORCH-[0-9]{8}", { name = "badge", pattern = "badge=([a-z]+)" }]
    allow = ["not-a-secret-1", "sha256:9f86d081884c7d65", "re:^test-"]

Patterns are Python regular expressions for text. If one has a group, the first group is the secret
and the rest of the match stays. *allow* lists whole values, prefixes of their SHA-256 (16 digits or
more, so that a value need not be written down), or patterns to search in them. Invalid entries, and
patterns that take too long, are reported and have no effect.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from time import thread_time
from typing import Any, Final

from msgspec import Struct

from turnlog.config import SettingProblem

DIGEST_DIGITS: Final = 16
_SETTINGS: Final = ("patterns", "allow")
_LONGEST: Final = 1000
_SLOW: Final = 0.02
_PROBES: Final = (*range(8, 33, 4), 64, 128, 256, 512, 1024)
_USUAL: Final = "a0A _-./"


class UserPattern(Struct, frozen=True):
    """A user's pattern, and the name of its secrets."""

    name: str
    regex: re.Pattern[str]


class Rules(Struct, frozen=True):
    """Rules in addition to the built-in ones."""

    patterns: tuple[UserPattern, ...] = ()
    values: frozenset[str] = frozenset()
    digests: tuple[str, ...] = ()
    allowed: tuple[re.Pattern[str], ...] = ()

    def allows(self, value: str) -> bool:
        """Return whether *value* must never be masked."""
        if value in self.values or any(regex.search(value) for regex in self.allowed):
            return True
        return bool(self.digests) and digest_of(value).startswith(self.digests)


NO_RULES: Final = Rules()


class _InvalidRule(Exception):
    """Internal: converted to a problem."""


def digest_of(value: str) -> str:
    """Return the digest by which a secret is recognized."""
    from hashlib import sha256  # noqa: PLC0415 - It brings OpenSSL; secrets are few.

    return sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


def rules_from(settings: Mapping[str, Any]) -> tuple[Rules, tuple[SettingProblem, ...]]:
    """Parse the plain ``[redact]`` table of config.toml."""
    problems = [
        SettingProblem(f"redact.{name}", f"no such setting; there are {', '.join(_SETTINGS)}")
        for name in settings
        if name not in _SETTINGS
    ]
    patterns = list(_each(settings, "patterns", _pattern, problems))
    values: set[str] = set()
    digests: list[str] = []
    allowed: list[re.Pattern[str]] = []
    for value in _each(settings, "allow", _allowed, problems):
        if isinstance(value, re.Pattern):
            allowed.append(value)
        elif value.startswith("sha256:"):
            digests.append(value.removeprefix("sha256:"))
        else:
            values.add(value)
    rules = Rules(tuple(patterns), frozenset(values), tuple(digests), tuple(allowed))
    return rules, tuple(problems)


def _each(
    settings: Mapping[str, Any], name: str, read: Any, problems: list[SettingProblem]
) -> Iterator[Any]:
    listed = settings.get(name, [])
    if not isinstance(listed, list):
        problems.append(SettingProblem(f"redact.{name}", "a list is expected"))
        return
    for number, value in enumerate(listed):
        try:
            yield read(value)
        except _InvalidRule as error:
            problems.append(SettingProblem(f"redact.{name}[{number}]", str(error)))


def _pattern(value: Any) -> UserPattern:
    name, text = "pattern", value
    if isinstance(value, Mapping):
        name, text = value.get("name", name), value.get("pattern")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9 ]{0,30}", name):
            raise _InvalidRule("a name is letters, digits and blanks, at most 31 of them")
    return UserPattern(name, _regex(text))


def _allowed(value: Any) -> str | re.Pattern[str]:
    if not isinstance(value, str) or not value:
        raise _InvalidRule("a value, sha256:… or re:… is expected")
    if value.startswith("re:"):
        return _regex(value.removeprefix("re:"))
    digest = value.removeprefix("sha256:").lower()
    if value.startswith("sha256:"):
        if not re.fullmatch(rf"[0-9a-f]{{{DIGEST_DIGITS},64}}", digest):
            raise _InvalidRule(f"a digest has {DIGEST_DIGITS} to 64 hexadecimal digits")
        return f"sha256:{digest}"
    return value


def _regex(text: Any) -> re.Pattern[str]:
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        raise _InvalidRule("a regular expression is expected, in a string")
    try:
        with warnings.catch_warnings():  # About syntax that later Pythons change.
            warnings.simplefilter("ignore")
            regex = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise _InvalidRule(f"cannot be read: {error}") from None
    if regex.search(""):
        raise _InvalidRule("it finds something in an empty text, and so everywhere")
    for size in _PROBES:
        for probe in _probes(text):
            if all(_seconds(regex, (probe * size)[:size] + "\x00") > _SLOW for _ in range(3)):
                raise _InvalidRule(
                    "it may take for ever: repetitions within repetitions, such as (a+)+"
                )
    return regex


def _seconds(regex: re.Pattern[str], text: str) -> float:
    """Return the CPU time of a search: other processes must not count against the pattern."""
    began = thread_time()
    regex.search(text)
    return thread_time() - began


def _probes(text: str) -> Iterable[str]:
    """Return texts that may be slow to match: the pattern's own characters, repeated."""
    own = "".join(dict.fromkeys(filter(str.isalnum, text)))[:24]
    return [*dict.fromkeys(_USUAL + own), own or "a", "ab", "a0"]
