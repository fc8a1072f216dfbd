"""Find secrets: run all rules, merge overlaps, drop what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from turnlog.redact.credentials import find_command_passwords, find_header_secrets
from turnlog.redact.key_shapes import find_shapes
from turnlog.redact.names import find_named
from turnlog.redact.private_keys import find_blocks
from turnlog.redact.spans import SecretSpan, find_escaped
from turnlog.redact.user_rules import NO_RULES, Rules, digest_of

GUESSABLE_BYTES: Final = 20
"""A shorter secret may be a chosen one, which its digest would reveal."""
_WINDOW: Final = 8192
_OVERLAP: Final = 1024
_ESCAPABLE: Final = frozenset(bytes((byte,)) for byte in b'nrtbfu"\\/')
_OWN_RANK: Final = 2
# A mask, as far as it can be recognized.
_MASK: Final = re.compile(
    r"(?:[A-Za-z0-9_./-]{0,24}\u2026[A-Za-z0-9_=-]{0,4})?\[redacted [A-Za-z0-9 .-]+\]"
)


class Secret(NamedTuple):
    """A secret: its position, its kind, and what to show instead."""

    kind: str
    start: int
    end: int
    masked: str
    digest: str
    """The SHA-256 of the secret itself, without escapes."""
    guessable: bool
    """Whether it is too short for its digest to be shown."""


def find_secrets(text: str | bytes, rules: Rules = NO_RULES) -> Iterator[Secret]:
    """Yield the secrets in *text* in order; positions count characters, or bytes."""
    if isinstance(text, bytes):
        data = text
        text_of_data = data.decode("utf-8", "surrogateescape") if rules.patterns else ""
        found = merge_overlaps(_own(text_of_data, rules), data, rules)
        places: Iterable[tuple[int, int]] = [(span.start, span.end) for span in found]
    else:
        data = text.encode("utf-8", "surrogatepass")
        found = merge_overlaps(_own(text, rules), data, rules)
        places = _characters(text, data, found)
    for span, (start, end) in zip(found, places, strict=True):
        yield Secret(
            span.kind,
            start,
            end,
            span.masked.decode("utf-8", "surrogatepass"),
            digest_of(_text(span.value)),
            len(span.value) < GUESSABLE_BYTES,
        )


def find_bytes(data: bytes) -> Iterator[SecretSpan]:
    """Yield what the built-in rules find in *data* as it is."""
    low = data.lower()
    yield from find_shapes(data)
    yield from find_blocks(data)
    yield from find_header_secrets(data, low)
    yield from find_command_passwords(data)
    yield from find_named(data, low)


def merge_overlaps(own: Iterable[SecretSpan], data: bytes, rules: Rules) -> list[SecretSpan]:
    """Return the spans to mask in *data*, in order; overlapping ones are merged."""
    found = [*own, *find_bytes(data), *find_escaped(data, find_bytes)]
    found = [
        _without_half_escapes(span, data) for span in found if not rules.allows(_text(span.value))
    ]
    found.sort()
    merged: list[SecretSpan] = []
    for span in found:
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
            continue
        better = min(last, span, key=lambda span: (span.rank, span.start, -span.end))
        merged[-1] = better._replace(start=last.start, end=max(last.end, span.end))
    return merged


def _without_half_escapes(found: SecretSpan, data: bytes) -> SecretSpan:
    """Return the span without half an escape at its start or end."""
    start, end = found.start, found.end
    if _is_escaped(data, start):
        start += 5 if data[start : start + 1] == b"u" else 1
    if _is_escaped(data, end):
        end -= 1
    return found._replace(start=start, end=end) if 0 <= start < end else found


def _is_escaped(data: bytes, at: int) -> bool:
    """Return whether a backslash before *at* makes that character an escape."""
    if at == 0 or data[at - 1] != 0x5C or data[at : at + 1] not in _ESCAPABLE:
        return False
    run = at - 1
    while run > 0 and data[run - 1] == 0x5C:
        run -= 1
    return (at - run) % 2 == 1


def find_user_patterns(text: str, rules: Rules) -> Iterator[tuple[int, int, str]]:
    """Yield the span and name of span match of the user's patterns in *text*.

    A pattern gets one line at a time, and long lines in parts, so its time is bounded. Existing
    masks are left alone.
    """
    if not rules.patterns:
        return
    masks: list[tuple[int, int]] | None = None
    for begin, end in _windows(text):
        for pattern in rules.patterns:
            for match in pattern.regex.finditer(text, begin, end):
                start, stop = match.span(1 if pattern.regex.groups and match[1] else 0)
                if masks is None:  # Most texts have no match.
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
    """Convert byte positions to character positions."""
    if len(text) == len(data):
        yield from ((span.start, span.end) for span in found)
        return
    at = characters = 0
    for span in found:
        start = characters + len(data[at : span.start].decode("utf-8", "surrogatepass"))
        end = start + len(data[span.start : span.end].decode("utf-8", "surrogatepass"))
        at, characters = span.end, end
        yield start, end


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
