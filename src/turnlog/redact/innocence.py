"""What only looks like a secret: examples, placeholders, names, code, ids.

Masking too much is a fault, too. A value of a known shape is let go only if it is plainly an
example. One that is known by the name beside it must look random, or like a password that somebody
chose.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Final

_EXAMPLE: Final = re.compile(
    rb"(?i:example|placeholder|redacted|your[-_]?(?:api|key|token|secret|own|real|actual))"
    rb"|x{6}|X{6}|12345678|(?i:abcdefgh)"
)
# Short words come by chance: they count at the beginning of a word, and all in one case.
_SHORT_WORDS: Final = b"|".join(
    form
    for word in b"your fake mock todo fixme dummy bogus sample lorem insert replace".split()
    for form in (word, word.upper(), word.capitalize())
)
_STANDS_FOR: Final = re.compile(
    rb"(?i:redacted|placeholder|example|change[-_]?me|not[-_]?a[-_]?real|deadbeef|cafebabe)"
    rb"|\bxxx\b|xxxx|XXXX|\*\*\*|\.\.\.|\xe2\x80\xa6|1234567|abcdefg|process\.env|environ"
    rb"|\$\{|\{\{|\$\(|%\(|<[A-Za-z_ -]+>|\[[A-Za-z_ -]+\]"
    rb"|(?<![A-Za-z])(?:" + _SHORT_WORDS + rb")(?![a-z])"
)
_REFERENCE: Final = re.compile(rb"[$@%&*#{(<\[:]|--|~/|[a-z]+://")
_PATH: Final = re.compile(rb"\.{0,2}/[A-Za-z]")
_IDENTIFIER: Final = re.compile(rb"[A-Za-z_$][A-Za-z_$.]*\d{0,2}")
# Possessive throughout: words of words of letters would else be tried in every way there is.
_NAMED: Final = re.compile(rb"(?:(?>(?:[A-Z]?[a-z]++)++|[A-Z]++)(?:[._/:-]++|\d{0,3}\Z))++")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX: Final = re.compile(rb"[0-9a-f]+|[0-9A-F]+")
_DATED: Final = re.compile(rb"20\d\d-?[01]\d-?[0-3]\d")
_NAMES_ITSELF: Final = re.compile(
    rb"(?i)pass|pwd|secret|token|key|auth|cred|user|name|login|field|input|string|type|none|null"
    rb"|true|false|undefined|required|optional|hidden|invalid|valid|error|missing|empty|default|test"
)
_NAME_WITH_DIGITS: Final = re.compile(rb"[A-Za-z0-9_./:-]+")
_WELL_KNOWN: Final = frozenset(
    b"postgres root admin user guest mysql redis rabbitmq mongo minio minioadmin sa app dev local "
    b"demo foo bar foobar baz hello world letmein qwerty".split()
)
# The pairs of letters that make up about two thirds of English text and of the names in programs.
_COMMON_PAIRS: Final = frozenset(
    b"th he in er an re nd at on nt ha es st en ed to it ou ea hi is or ti as te et ng of al de se "
    b"le sa si ar ve ra ld ur ma me ke ic ll ss ee co io li ch la el ro ri ne no us ta di em ec ce "
    b"tr ns un pr om be ex ho ca wi ge mo po il ac ly lo id ey ie ut ad ap ai ag am ab ay ue sh sk "
    b"so".split()
)
_FEWEST_DIFFERENT: Final = 7
_COMMON_BY_CHANCE: Final = 0.14
_MOST_COMMON: Final = 0.42
_FEWEST_CHANGES: Final = 0.16
_LONG: Final = 32
_LOOKED_AT: Final = 160
"""As much of a value as is needed to judge it."""


def is_example(value: bytes) -> bool:
    """Tell whether a value of a known shape was made up to show the shape."""
    return _EXAMPLE.search(value) is not None


def is_varied(value: bytes) -> bool:
    """Tell whether a value of a known shape has enough different characters to be a real one."""
    return has_variety(value) and not is_example(value)


def is_mixed(value: bytes) -> bool:
    """Tell whether a value of a known shape is varied, and not all in small letters."""
    return is_varied(value) and any(_kind(each) in "A0" for each in value)


def stands_for_another(value: bytes) -> bool:
    """Tell whether *value* is a placeholder, or refers to where the secret is."""
    if _STANDS_FOR.search(value) or _REFERENCE.match(value):
        return True
    return len(set(value)) < 4 or value.lower() in _WELL_KNOWN


def is_uuid(value: bytes) -> bool:
    return _UUID.fullmatch(value) is not None


def is_hex(value: bytes) -> bool:
    return _HEX.fullmatch(value) is not None


def looks_random(value: bytes, shortest: int = 16) -> bool:
    """Tell whether nobody would have typed *value*: letters and digits, mixed, and no words."""
    value = value[:_LOOKED_AT]
    if len(value) < shortest or not has_variety(value):
        return False
    kinds = [_kind(each) for each in value]
    digits = kinds.count("0")
    if digits == len(value) or is_example(value) or is_uuid(value):
        return False
    if is_hex(value):
        return digits > 0
    if (_DATED.search(value) and len(value) < 40) or _NAMED.fullmatch(value):
        return False
    changes = sum(a != b for a, b in pairwise(kinds)) / (len(kinds) - 1)
    if not digits and ({"a", "A"} - set(kinds) or changes < 2 * _FEWEST_CHANGES):
        return False  # Names have no such mixture of cases.
    if len(value) >= _LONG and changes >= 3 * _FEWEST_CHANGES:
        return True
    return changes >= _FEWEST_CHANGES and not _is_wordy(value)


def looks_chosen(value: bytes, *, is_quoted: bool) -> bool:
    """Tell whether *value*, beside the name of a password, is one: no word, no name, no code."""
    if not 6 <= len(value) <= 200 or re.search(rb"\s", value):
        return False
    if looks_random(value):
        return True
    kinds = {_kind(each) for each in value}
    if len(kinds) < 2 or not kinds - {"a", "A"} or not kinds & {"a", "A"}:
        return False
    if _PATH.match(value):
        return False
    if not is_quoted and (_IDENTIFIER.fullmatch(value) or re.search(rb"[(){}\[\]]|[.:=]$", value)):
        return False
    if re.fullmatch(rb"[A-Za-z]+(?:[-_./: ][A-Za-z]+)*[.:!?]?", value):
        return False  # Words.
    return not (_NAME_WITH_DIGITS.fullmatch(value) and _NAMES_ITSELF.search(value))


def has_variety(value: bytes) -> bool:
    different = set(value)
    if len(different) < _FEWEST_DIFFERENT:
        return False
    return 2 * max(map(value.count, different)) <= len(value)


def _kind(byte: int) -> str:
    if 97 <= byte <= 122:
        return "a"
    if 65 <= byte <= 90:
        return "A"
    return "0" if 48 <= byte <= 57 else "-"


def _is_wordy(value: bytes) -> bool:
    """Tell whether more of its pairs of letters are common in words than chance would have it."""
    # In camelCase a new word begins where a capital letter does, so that pair tells nothing.
    pairs = [
        bytes((a | 0x20, b | 0x20))
        for a, b in pairwise(value)
        if _kind(a) in "aA" and _kind(b) in "aA" and (_kind(a) == "A" or _kind(b) == "a")
    ]
    if len(pairs) < 4:
        return False
    part = sum(pair in _COMMON_PAIRS for pair in pairs) / len(pairs)
    spread = math.sqrt(_COMMON_BY_CHANCE * (1 - _COMMON_BY_CHANCE) / len(pairs))
    return part > max(_MOST_COMMON, _COMMON_BY_CHANCE + 3 * spread)
