"""Passwords in commands: ``curl -u user:PASSWORD``, ``mysql -pPASSWORD``.

For most programs ``-u`` and ``-p`` mean something else, so the program's name is searched in the
same command before the option. An option begins after a blank or a quote: the ``-u`` in
``my-ubuntu:22.04`` is not an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from turnlog.redact.false_positives import is_placeholder, looks_chosen, looks_random
from turnlog.redact.spans import SecretSpan

_RANK: Final = 4
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
    for option, programs in (
        (
            b"p",
            rb"sshpass|mongo(?:sh|dump|restore|export|import)?|(?:docker|podman|az|oras) login",
        ),
        (b"a", rb"redis-cli"),
        (b"w", rb"ldap[a-z]{3,8}"),
        (b"P", rb"sqlcmd|bcp|mosquitto_[a-z]+|ipmitool|zip|unzip"),
    )
}
# These accept a password only without a blank.
_TAKES_GLUED: Final = re.compile(rb"\b(?:mysql|mariadb|7z|sshpass)[a-z_-]*(?=[\s\"'\\])")
_SEPARATOR: Final = re.compile(rb"(?<!\\)\n|[|;] |&&|(?<!\\)\\n")


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
        re.search(each, value) for each in (rb"[a-z]", rb"[A-Z]", rb"\d")
    )
