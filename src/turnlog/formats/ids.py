"""Session and agent ids: validate and create them.

A valid id is one plain path component on every platform: no separator, no dot, no drive, no Windows
device, nothing that could leave its directory.
"""

from __future__ import annotations

import re

from turnlog.errors import InvalidId

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_SUBAGENT = re.compile(r"[A-Za-z0-9_-]{1,128}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# Windows opens the device for a file with one of these names, whatever its suffix.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)

_SESSION_HINT = (
    "a session id begins with a letter or a digit and has at most 128 characters, "
    "each a letter, a digit, '-' or '_'"
)
_SUBAGENT_HINT = "a subagent id has 1 to 128 characters, each a letter, a digit, '-' or '_'"
_DEVICE_HINT = "Windows keeps this name for a device; choose another id"


def check_session_id(text: str) -> str:
    """Return *text* if it is a valid session id; raise InvalidId otherwise."""
    return _check(text, _SESSION, "a session id", _SESSION_HINT)


def check_subagent_id(text: str) -> str:
    """Return *text* if it is a valid subagent id; raise InvalidId otherwise."""
    return _check(text, _SUBAGENT, "a subagent id", _SUBAGENT_HINT)


def is_session_id(text: str) -> bool:
    return _SESSION.fullmatch(text) is not None and not is_device(text)


def is_subagent_id(text: str) -> bool:
    return _SUBAGENT.fullmatch(text) is not None and not is_device(text)


def is_uuid(text: str) -> bool:
    """Return whether *text* is a UUID as in file names: five groups, in either case."""
    return _UUID.fullmatch(text) is not None


def is_device(text: str) -> bool:
    """Return whether *text* is a Windows device name such as CON or NUL."""
    return text.lower() in _DEVICES


def new_session_id() -> str:
    import uuid  # Ids are checked everywhere but seldom created.

    return str(uuid.uuid4())


def new_subagent_id() -> str:
    """Return a new subagent id in Claude Code's early short form: an "a" and six hex digits."""
    import secrets

    return "a" + secrets.token_hex(3)


def _check(text: str, grammar: re.Pattern[str], what: str, hint: str) -> str:
    if not isinstance(text, str):
        raise InvalidId(f"a {type(text).__name__} is not {what}", hint="ids are text")
    # fullmatch, because "$" would accept a trailing newline.
    if grammar.fullmatch(text) is None:
        raise InvalidId(f"{_shown(text)} is not {what}", hint=hint)
    if is_device(text):
        raise InvalidId(f"{_shown(text)} cannot be {what}", hint=_DEVICE_HINT)
    return text


def _shown(text: str) -> str:
    # A hostile id may be megabytes long; the message must stay one readable line.
    return repr(text) if len(text) <= 80 else repr(text[:80]) + "..."
