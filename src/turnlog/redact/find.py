"""Finding secrets: every rule asked, overlaps settled, what is allowed let go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from turnlog.redact.commands import find_command_passwords
from turnlog.redact.escapes import find_escaped
from turnlog.redact.headers import find_header_secrets
from turnlog.redact.key_shapes import find_shapes
from turnlog.redact.names import find_named
from turnlog.redact.private_keys import find_blocks
from turnlog.redact.spans import SecretSpan
from turnlog.redact.user_rules import NO_RULES, Rules, digest_of

GUESSABLE_BYTES: Final = 20
"""A shorter secret may be one that a person chose, and that its digest would give away."""
_WINDOW: Final = 8192
_OVERLAP: Final = 1024
_ESCAPABLE: Final = frozenset(bytes((each,)) for each in b'nrtbfu"\\/')
_OWN_RANK: Final = 2
# A mask, as far as it can be told from its surroundings.
_MASK: Final = re.compile(
    r"(?:[A-Za-z0-9_./-]{0,24}\u2026[A-Za-z0-9_=-]{0,4})?\[redacted [A-Za-z0-9 .-]+\]"
)


class Secret(NamedTuple):
    """A secret: where it stands, what it is, and what may be shown in its place."""

    kind: str
    start: int
    end: int
    masked: str
    digest: str
    """The SHA-256 of the secret itself, however it was escaped where it stood."""
    guessable: bool
    """Whether it is so short that its digest should not be shown to others."""


def find_secrets(text: str | bytes, rules: Rules = NO_RULES) -> Iterator[Secret]:
    """Find the secrets in *text*, the first one first; places count its characters, or bytes."""
    if isinstance(text, bytes):
        data = text
        said = data.decode("utf-8", "surrogateescape") if rules.patterns else ""
        found = merge_overlaps(_own(said, rules), data, rules)
        places: Iterable[tuple[int, int]] = [(each.start, each.end) for each in found]
    else:
        data = text.encode("utf-8", "surrogatepass")
        found = merge_overlaps(_own(text, rules), data, rules)
        places = _characters(text, data, found)
    for each, (start, end) in zip(found, places, strict=True):
        yield Secret(
            each.kind,
            start,
            end,
            each.masked.decode("utf-8", "surrogatepass"),
            digest_of(_text(each.value)),
            len(each.value) < GUESSABLE_BYTES,
        )


def find_bytes(data: bytes) -> Iterator[SecretSpan]:
    """Ask every rule that holds for everybody, of *data* as it stands."""
    low = data.lower()
    yield from find_shapes(data)
    yield from find_blocks(data)
    yield from find_header_secrets(data, low)
    yield from find_command_passwords(data)
    yield from find_named(data, low)


def merge_overlaps(own: Iterable[SecretSpan], data: bytes, rules: Rules) -> list[SecretSpan]:
    """Return all that is to be masked in *data*, in order; what overlaps becomes one."""
    found = [*own, *find_bytes(data), *find_escaped(data, find_bytes)]
    found = [_whole(each, data) for each in found if not rules.allows(_text(each.value))]
    found.sort()
    settled: list[SecretSpan] = []
    for each in found:
        last = settled[-1] if settled else None
        if last is None or each.start >= last.end:
            settled.append(each)
            continue
        better = min(last, each, key=lambda one: (one.rank, one.start))
        settled[-1] = better._replace(start=last.start, end=max(last.end, each.end))
    return settled


def _whole(found: SecretSpan, data: bytes) -> SecretSpan:
    """Return the place without the half of an escape that it may begin or end with."""
    start, end = found.start, found.end
    if _is_escaped(data, start):
        start += 5 if data[start : start + 1] == b"u" else 1
    if _is_escaped(data, end):
        end -= 1
    return found._replace(start=start, end=end) if 0 <= start < end else found


def _is_escaped(data: bytes, at: int) -> bool:
    """Return whether a backslash right before *at* makes an escape of what stands there."""
    if at == 0 or data[at - 1] != 0x5C or data[at : at + 1] not in _ESCAPABLE:
        return False
    run = at - 1
    while run > 0 and data[run - 1] == 0x5C:
        run -= 1
    return (at - run) % 2 == 1


def find_user_patterns(text: str, rules: Rules) -> Iterator[tuple[int, int, str]]:
    """Find what people's own patterns find in *text*: where, and what it is called.

    A pattern sees a line, and of a long one only so much at a time: its time is bounded. What was
    masked already is left alone.
    """
    if not rules.patterns:
        return
    masks: list[tuple[int, int]] | None = None
    for begin, end in _windows(text):
        for pattern in rules.patterns:
            for match in pattern.regex.finditer(text, begin, end):
                start, stop = match.span(1 if pattern.regex.groups and match[1] else 0)
                if masks is None:  # Most texts have nothing to compare them with.
                    masks = [mask.span() for mask in _MASK.finditer(text)]
                if start < stop and not any(a < stop and start < b for a, b in masks):
                    yield start, stop, pattern.name


def _own(text: str, rules: Rules) -> Iterator[SecretSpan]:
    for start, stop, name in find_user_patterns(text, rules):
        first = len(_bytes(text[:start]))
        value = _bytes(text[start:stop])
        yield SecretSpan(
            first, first + len(value), name, f"[redacted {name}]".encode(), value, _OWN_RANK
        )


def _windows(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        line = text.find("\n", at)
        end = len(text) if line < 0 else line
        while end - at > _WINDOW:
            yield at, at + _WINDOW
            at += _WINDOW - _OVERLAP
        yield at, end
        at = end + 1


def _characters(text: str, data: bytes, found: list[SecretSpan]) -> Iterator[tuple[int, int]]:
    """Turn places in bytes into places in characters."""
    if len(text) == len(data):
        yield from ((each.start, each.end) for each in found)
        return
    at = characters = 0
    for each in found:
        start = characters + len(data[at : each.start].decode("utf-8", "surrogatepass"))
        end = start + len(data[each.start : each.end].decode("utf-8", "surrogatepass"))
        at, characters = each.end, end
        yield start, end


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
