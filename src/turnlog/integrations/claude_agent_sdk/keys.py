"""Keys: the project, session and subpath that a framework names, and the log they stand for.

    {project_key, session_id}             projects/PROJECT/SESSION.jsonl
    {…, subpath: "subagents/agent-a1"}    projects/PROJECT/SESSION/subagents/agent-a1.jsonl
    {…, subpath: "../x"}                  projects/PROJECT/SESSION/opaque/+%2E%2E%2Fx.jsonl

So what Claude Code writes and what comes through the SDK lie in the same places. A subpath is
opaque: any text is one. Where its parts are plain names it is the path that it looks like; any
other is written in a plain alphabet, in a directory of its own. It promises that no key leaves its
session's directory, that no two share a log, and that a log's name gives its subpath back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.errors import InvalidId, UsageError
from turnlog.formats import check_session_id, looks_like_log, read_name
from turnlog.formats.ids import is_device

LOG: Final = ".jsonl"
OPAQUE: Final = "opaque"

_FIELDS: Final = frozenset({"project_key", "session_id", "subpath"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_UNSAFE_IN_NAME: Final = re.compile(r'[/\\:*?"<>|]')
# What turnlog and Claude Code keep in a session's directory beside its agents' logs.
_TAKEN: Final = frozenset({OPAQUE, "blobs", "tool-results"})
_AS_THEY_ARE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_PIECE: Final = 200  # Characters of an opaque name that one directory's name takes.
_MAX_NAME_BYTES: Final = 255
_MAX_SUBPATH_BYTES: Final = 1000
_MAX_PARTS: Final = 16


class Key(NamedTuple):
    """A checked key. Without a subpath it is a session's main log."""

    project: str
    session: str
    subpath: str | None = None

    @property
    def name(self) -> str:
        """The log's place beneath the home, with "/" between the parts."""
        session = f"projects/{self.project}/{self.session}"
        return session + LOG if self.subpath is None else f"{session}/{_inner(self.subpath)}{LOG}"

    @property
    def directory(self) -> str:
        """The place of what belongs to the session beside its main log."""
        return f"projects/{self.project}/{self.session}"

    @property
    def meta(self) -> str | None:
        """The place of what Claude Code keeps beside an agent's log; None if it is not one's."""
        log = read_name(self.name.rpartition("/")[2])
        is_agents = log is not None and log.kind == "subagent"
        if not is_agents or not self.name.startswith(f"{self.directory}/subagents/"):
            return None
        return self.name.removesuffix(LOG) + ".meta.json"

    def said(self) -> dict[str, str]:
        """The key as the SDK says it."""
        key = {"project_key": self.project, "session_id": self.session}
        return key if self.subpath is None else key | {"subpath": self.subpath}


def place(root: Path, name: str) -> Path:
    """Return the path of what is called *name* beneath the home *root*."""
    return root.joinpath(*name.split("/"))


def read_key(key: object, *, of_session: bool = False) -> Key:
    """Check what a framework gave as a key; *of_session* passes over a subpath."""
    if not isinstance(key, Mapping):
        raise UsageError(
            f"a key is a mapping, not {_a(key)}",
            hint='as in {"project_key": "-home-ada-orchard", "session_id": "…"}',
        )
    unknown = sorted(str(each) for each in key if each not in _FIELDS)
    if unknown:
        raise UsageError(
            f"a key has no {unknown[0][:80]!r}", hint=f"it has {', '.join(sorted(_FIELDS))}"
        )
    project = check_project_key(key.get("project_key"))
    session = _check_session(key.get("session_id"))
    subpath = None if of_session else key.get("subpath")
    return Key(project, session, None if subpath is None else _check_subpath(subpath))


def check_project_key(text: object) -> str:
    """Return *text* if it can be the name of a project's directory."""
    if not isinstance(text, str):
        raise UsageError(f"a project key is text, not {_a(text)}", hint=_PROJECT_HINT)
    is_one = (
        text
        and text.isprintable()  # No controls, no lone surrogates.
        and not text.startswith((".", " "))
        and not text.endswith((".", " "))
        and _UNSAFE_IN_NAME.search(text) is None
        and len(text.encode()) <= _MAX_NAME_BYTES
        and not looks_like_log(text)
        and not is_device(text.partition(".")[0])
    )
    if not is_one:
        raise InvalidId(f"{_shown(text)} is not a project key", hint=_PROJECT_HINT)
    return text


def subpath_of(inner: str) -> str | None:
    """Give the subpath whose log is called *inner* in its session's directory; None if none is."""
    if not inner.endswith(LOG):
        return None
    name = inner.removesuffix(LOG)
    subpath = _decoded(name) if name.startswith(f"{OPAQUE}/") else name
    return subpath if subpath and _fits(subpath) and _inner(subpath) == name else None


def _check_session(text: object) -> str:
    if not isinstance(text, str):
        hint = "the id that the SDK gives, or one of your own: letters, digits, '-' and '_'"
        raise UsageError(f"a session id is text, not {_a(text)}", hint=hint)
    check_session_id(text)
    log = read_name(text + LOG)
    if log is None or log.kind != "session":
        raise InvalidId(
            f"{text!r} cannot be the id of a session",
            hint="dates, 'history', 'journal' and names that begin with 'agent-' mean other files",
        )
    return text


def _check_subpath(text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f"a subpath is text, not {_a(text)}", hint=_SUBPATH_HINT)
    if not text:
        raise UsageError("an empty subpath names no log", hint=_SUBPATH_HINT)
    if not _fits(text):
        raise UsageError(
            f"a subpath of {len(text):,} characters is too long",
            hint=f"it may have {_MAX_SUBPATH_BYTES} bytes",
        )
    return text


def _fits(subpath: str) -> bool:
    return (
        len(subpath) <= _MAX_SUBPATH_BYTES
        and len(subpath.encode("utf-8", "surrogatepass")) <= _MAX_SUBPATH_BYTES
    )


def _inner(subpath: str) -> str:
    """Return the place of a subpath's log in its session's directory, without its ending."""
    parts = subpath.split("/")
    # No dots: a directory called "x.jsonl" would stand where another log should.
    is_plain = all(_PLAIN.fullmatch(part) and not is_device(part) for part in parts)
    if is_plain and parts[0].lower() not in _TAKEN and len(parts) <= _MAX_PARTS:
        return subpath
    written = "".join(
        chr(byte) if byte in _AS_THEY_ARE else f"%{byte:02X}"
        for byte in subpath.encode("utf-8", "surrogatepass")
    )
    pieces = (written[start : start + _PIECE] for start in range(0, len(written), _PIECE))
    return "/".join((OPAQUE, *("+" + piece for piece in pieces)))


def _decoded(name: str) -> str | None:
    written = "".join(part.removeprefix("+") for part in name.split("/")[1:])
    plain = re.sub(
        rb"%([0-9A-F]{2})",
        lambda found: bytes((int(found[1], 16),)),
        written.encode("utf-8", "surrogateescape"),
    )
    try:
        return plain.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _a(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _shown(text: str) -> str:
    # A hostile key may be megabytes long; the message must stay one readable line.
    shown = ascii(text[:81])
    return shown if len(shown) <= 80 else shown[:80] + "..."


_PROJECT_HINT: Final = (
    "the name of one directory, such as project_key_for_directory() of claude-agent-sdk gives; "
    "at most 255 bytes, no separators, no dot at either end"
)
_SUBPATH_HINT: Final = "leave it out for the main log, or name one, as in 'subagents/agent-a1'"
