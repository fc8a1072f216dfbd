"""Secrets on their way to a server: Authorization headers, URLs and options with passwords."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final

from turnlog.redact.found import Found, places
from turnlog.redact.innocence import looks_chosen, looks_random, stands_for_another

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
_USER: Final = re.compile(
    rb"-u[ =]{0,2}(?:\\{0,7}[\"'])?([A-Za-z0-9._@+-]{1,80}):([^\s\"'`\\]{6,200})"
)
# To most programs -p is something else; to these it is the password, to some only without a blank.
_OPTION: Final = b" -p"
_COMMAND: Final = 200
_PROGRAM: Final = re.compile(
    rb"(?:(?:mysql|mariadb)[a-z-]*()|\bsshpass|\b(?:docker|podman) login)"
    rb"(?:[ ](?:[^\n|;&\\]|\\+[\"'])*)?\Z"
)
_GIVEN: Final = re.compile(rb"([ ]?)(?:\\{0,7}[\"'])?([^\s\"'`\\]{6,200})")
_PLAIN_PASSWORDS: Final = frozenset(
    b"password passwd pass pwd secret test token user username example pw mypassword".split()
)


def find_sent(data: bytes, low: bytes) -> Iterator[Found]:
    """Find what is sent to prove who one is; *low* is *data* in small letters."""
    for match in _BEARER.finditer(low):
        yield from _random(data, match.span(1), "bearer token")
    for match in _AUTH.finditer(low):
        if match[1] in (b"", b"basic "):
            yield from _user_and_password(data, *match.span(2))
        if match[1] != b"basic " and low.startswith(b"authorization", match.start() - 1):
            yield from _random(data, match.span(2), "authorization")
    for at in places(data, b"@"):
        yield from _url_password(data, at)
    for match in (*_USER.finditer(data), *_given(data)):
        if looks_chosen(match[2], is_quoted=True) and not stands_for_another(match[2]):
            yield Found(*match.span(2), "password", b"[redacted password]", match[2], _RANK)


def _given(data: bytes) -> Iterator[re.Match[bytes]]:
    """Find what programs are given as a password by a short option."""
    at = -1
    while (at := data.find(_OPTION, at + 1)) >= 0:
        program = _PROGRAM.search(data[max(0, at - _COMMAND) : at])
        given = _GIVEN.match(data, at + len(_OPTION)) if program else None
        if program and given and not (given[1] and program.lastindex):
            yield given


def _random(data: bytes, span: tuple[int, int], kind: str) -> Iterator[Found]:
    value = data[slice(*span)].rstrip(b".:")
    if looks_random(value) and not stands_for_another(value):
        masked = f"[redacted {kind}]".encode()
        yield Found(span[0], span[0] + len(value), kind, masked, value, _RANK)


def _user_and_password(data: bytes, start: int, end: int) -> Iterator[Found]:
    """Take what is ``user:password`` in base64, and nothing else."""
    value = data[start:end]
    if not _BASE64.fullmatch(value):
        return
    try:
        said = binascii.a2b_base64(value + b"=" * (-len(value) % 4))
        user, colon, password = said.decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return
    if colon and password and (user + password).isprintable():
        yield Found(start, end, "basic auth", b"[redacted basic auth]", value, _RANK)


def _url_password(data: bytes, at: int) -> Iterator[Found]:
    """Take what stands between a user and the @ at *at*, if a URL begins before it."""
    begin = data.rfind(b"://", max(0, at - _REACH), at)
    match = _URL.match(data, begin, at) if begin >= 0 else None
    if match is not None and _is_password(match[2], match[1]):
        yield Found(*match.span(2), "url password", b"***", match[2], _RANK)


def _is_password(value: bytes, user: bytes) -> bool:
    low = value.lower()
    if low in _PLAIN_PASSWORDS or low == user.lower() or stands_for_another(value):
        return False
    return not value.isdigit() or len(value) > 5  # Else it is rather a port.
