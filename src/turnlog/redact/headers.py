"""Credentials sent to servers: Authorization headers, URLs and SQL with passwords."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final

from turnlog.redact.false_positives import is_placeholder, looks_chosen, looks_random, names_itself
from turnlog.redact.spans import SecretSpan, places

_RANK: Final = 4
_TOKEN: Final = rb"([A-Za-z0-9._~+/=-]{16,4000})"
_BEARER: Final = re.compile(rb"bearer(?:[ ]|\\{0,7}[\"'] ?[:=+] ?\\{0,7}[\"'])" + _TOKEN)
_AUTH: Final = re.compile(
    rb"u(?<=au)th(?:orization)?(?:\\{0,7}[\"'])?[ ]?[:=][ ]?(?:\\{0,7}[\"'`])?"
    rb"(basic |token |bot |apikey |api-key |key |)([a-z0-9._~+/=:-]{8,4000})"
)
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{8,400}={0,2}")
_URL: Final = re.compile(rb"://([^\s/:@\"'`\\<>?#]{0,100}):([^\s/@\"'`\\<>]{3,200})\Z")
_REACH: Final = 310
_IDENTIFIED: Final = b"identified by "
_BY: Final = re.compile(rb"(?:password )?(?:\\{0,7}')([^\s\"'`\\]{4,200})")
# A port, or part of a regular expression.
_NO_PASSWORD: Final = re.compile(rb"\d{1,5}(?:[?#,;&]|\Z)|.*?[\[\](){}^+*|][\[\](){}^+*|]")
_PLAIN_PASSWORDS: Final = frozenset(
    b"password passwd pass pwd secret test token user username example pw mypassword".split()
) | {b"open sesame"}


def find_header_secrets(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Yield credentials in headers, URLs and SQL; *low* is *data* in lower case."""
    for match in _BEARER.finditer(low):
        yield from _random(data, match.span(1), "bearer token")
    for match in _AUTH.finditer(low):
        if match[1] in (b"", b"basic "):
            yield from _user_and_password(data, *match.span(2))
        if match[1] != b"basic " and low.startswith(b"authorization", match.start() - 1):
            yield from _random(data, match.span(2), "authorization")
    for at in places(data, b"@"):
        yield from _url_password(data, at)
    for at in places(low, _IDENTIFIED):
        yield from _identified(data, at + len(_IDENTIFIED))


def _identified(data: bytes, at: int) -> Iterator[SecretSpan]:
    match = _BY.match(data, at)
    if match is None or is_placeholder(match[1]):
        return
    if looks_chosen(match[1], is_quoted=True, is_given=True):
        yield SecretSpan(*match.span(1), "password", b"[redacted password]", match[1], _RANK)


def _random(data: bytes, span: tuple[int, int], kind: str) -> Iterator[SecretSpan]:
    value = data[slice(*span)].rstrip(b".:")
    if looks_random(value) and not is_placeholder(value):
        masked = f"[redacted {kind}]".encode()
        yield SecretSpan(span[0], span[0] + len(value), kind, masked, value, _RANK)


def _user_and_password(data: bytes, start: int, end: int) -> Iterator[SecretSpan]:
    """Yield base64 values that decode to ``user:password``."""
    value = data[start:end]
    if not _BASE64.fullmatch(value):
        return
    try:
        decoded = binascii.a2b_base64(value + b"=" * (-len(value) % 4))
        user, colon, password = decoded.decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return
    if not (user + password).isprintable() or not _is_password(password.encode(), user.encode()):
        return
    if colon and password:
        yield SecretSpan(start, end, "basic auth", b"[redacted basic auth]", value, _RANK)


def _url_password(data: bytes, at: int) -> Iterator[SecretSpan]:
    """Yield the password between a user and the @ at *at*, if a URL begins before it."""
    begin = data.rfind(b"://", max(0, at - _REACH), at)
    match = _URL.match(data, begin, at) if begin >= 0 else None
    if match is not None and match[1].endswith(b"[") and match[2].endswith(b"]"):
        return  # user[:password]@host
    if match is not None and _is_password(match[2], match[1]):
        yield SecretSpan(*match.span(2), "url password", b"***", match[2], _RANK)


def _is_password(value: bytes, user: bytes) -> bool:
    low = value.lower()
    if low in _PLAIN_PASSWORDS or low == user.lower() or is_placeholder(value):
        return False
    if names_itself(value):
        return False
    return _NO_PASSWORD.match(value) is None
