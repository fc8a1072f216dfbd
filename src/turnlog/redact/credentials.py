"""Credentials for servers: Authorization headers, URLs, SQL, and options of commands.

For most programs ``-u`` and ``-p`` mean something else than user and password, so the program's
name is searched in the same command before the option. An option begins after a blank or a quote:
the ``-u`` in ``my-ubuntu:22.04`` is not an option.
"""

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

# Options of commands.
_COMMAND: Final = 600
"""How far back the program is searched: there may be many options in between."""
_BETWEEN: Final = rb"[ =]{0,2}(?:\\{0,7}[\"'](?:, ?\\{0,7}[\"'])?)?"
_VALUE: Final = rb"(?!-)([^\s\"'`\\]{4,200})"
_OPTION: Final = re.compile(
    rb"-(?=[A-Za-z-])(?:(?<=[\s\"'`(]-)|(?<=\\[nrt]-))(?:(?:[A-Za-z]{0,4}[uU]|-user|-proxy-user|a|-auth)"
    + (_BETWEEN + rb"([^\s:\"'`\\{}<>$/]{0,100}):" + _VALUE)
    + (rb"|([paPw])(" + _BETWEEN + rb")" + _VALUE + rb")")
)
_TAKES_USER: Final = re.compile(rb"\b(?:curl|https?|xhs?)(?=[\s\"'\\])")
_TAKES: Final = {
    option: re.compile(rb"\b(?:" + programs + rb")(?=[\s\"'\\])")
    for option, programs in {
        b"p": rb"sshpass|mongo(?:sh|dump|restore|export|import)?|(?:docker|podman|az|oras) login",
        b"a": rb"redis-cli",
        b"w": rb"ldap[a-z]{3,8}",
        b"P": rb"sqlcmd|bcp|mosquitto_[a-z]+|ipmitool|zip|unzip",
    }.items()
}
# These accept a password only without a blank.
_TAKES_GLUED: Final = re.compile(rb"\b(?:mysql|mariadb|7z|sshpass)[a-z_-]*(?=[\s\"'\\])")
_SEPARATOR: Final = re.compile(rb"(?<!\\)\n|[|;] |&&|(?<!\\)\\n")


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
    return not names_itself(value) and _NO_PASSWORD.match(value) is None


def find_command_passwords(data: bytes) -> Iterator[SecretSpan]:
    """Yield the passwords in command options."""
    for match in _OPTION.finditer(data):
        start = match.start()
        command = _SEPARATOR.split(data[max(0, start - _COMMAND) : start])[-1]
        if match[3]:
            group, is_given = 5, _takes(command, match[3], match[4])
        else:
            group, is_given = 2, _TAKES_USER.search(command) is not None
        value = match[group]
        if not is_given and (match[3] or not _is_strong(match[1], value)):
            continue
        if is_placeholder(value) or value.lower() == (match[1] or b"").lower():
            continue
        if looks_chosen(value, is_quoted=True, is_given=is_given):
            yield SecretSpan(*match.span(group), "password", b"[redacted password]", value, _RANK)


def _takes(command: bytes, option: bytes, between: bytes) -> bool:
    """Return whether the program in *command* takes a password with *option*."""
    if between.startswith((b" ", b"=")) or b"," in between:
        return _TAKES[option].search(command) is not None
    return option == b"p" and _TAKES_GLUED.search(command) is not None


def _is_strong(user: bytes, value: bytes) -> bool:
    """Return whether *value* is a password for any program."""
    if not user or user.isdigit() or b"/" in value or re.search(rb"\.\d", value):
        return False
    return looks_random(value) or all(
        re.search(part, value) for part in (rb"[a-z]", rb"[A-Z]", rb"\d")
    )
