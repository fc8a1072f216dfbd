"""Keys: the project, session and subpath of a log, as the SDK names them.

    {project_key, session_id}             projects/PROJECT/SESSION.jsonl
    {…, subpath: "subagents/agent-a1"}    projects/PROJECT/SESSION/subagents/agent-a1.jsonl
    {…, subpath: "../x"}                  projects/PROJECT/SESSION/opaque/+%2E%2E%2Fx.jsonl

So logs from Claude Code and from the SDK are in the same places. A subpath can be any string:
plain names are used as a path, others are escaped below ``opaque``. No key leaves its session's
directory, no two keys share a log, and the name of a log gives its subpath back.
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
# Other directories that turnlog and Claude Code use in a session's directory.
_TAKEN: Final = frozenset({OPAQUE, "blobs", "tool-results"})
_AS_THEY_ARE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_PIECE: Final = 200  # Characters of an opaque name that one directory's name takes.
_MAX_NAME_BYTES: Final = 255
_MAX_SUBPATH_BYTES: Final = 1000
_MAX_PARTS: Final = 16


class Key(NamedTuple):
    """A valid key. Without a subpath it names the main log."""

    project: str
    session: str
    subpath: str | None = None

    @property
    def name(self) -> str:
        """The path of the log in the home, separated by "/"."""
        session = f"projects/{self.project}/{self.session}"
        return session + LOG if self.subpath is None else f"{session}/{_inner(self.subpath)}{LOG}"

    @property
    def directory(self) -> str:
        """The directory of the session's other files."""
        return f"projects/{self.project}/{self.session}"

    @property
    def meta(self) -> str | None:
        """The path of the metadata file of a subagent log, or None for other logs."""
        log = read_name(self.name.rpartition("/")[2])
        is_agents = log is not None and log.kind == "subagent"
        if not is_agents or not self.name.startswith(f"{self.directory}/subagents/"):
            return None
        return self.name.removesuffix(LOG) + ".meta.json"

    def as_dict(self) -> dict[str, str]:
        """Return the key as the SDK spells it."""
        key = {"project_key": self.project, "session_id": self.session}
        return key if self.subpath is None else key | {"subpath": self.subpath}


def place(root: Path, name: str) -> Path:
    """Return the path of *name* in the home *root*."""
    return root.joinpath(*name.split("/"))


def read_key(key: object, *, of_session: bool = False) -> Key:
    """Validate a key from the SDK; *of_session* ignores the subpath."""
    if not isinstance(key, Mapping):
        raise UsageError(
            f"a key must be a mapping, not {_a(key)}",
            hint='as in {"project_key": "-home-ada-orchard", "session_id": "…"}',
        )
    unknown = sorted(str(each) for each in key if each not in _FIELDS)
    if unknown:
        raise UsageError(
            f"unknown field {unknown[0][:80]!r} in a key", hint=f"use {', '.join(sorted(_FIELDS))}"
        )
    project = check_project_key(key.get("project_key"))
    session = _check_session(key.get("session_id"))
    subpath = None if of_session else key.get("subpath")
    return Key(project, session, None if subpath is None else _check_subpath(subpath))


def check_project_key(text: object) -> str:
    """Return *text* if it is a valid project key, or raise."""
    if not isinstance(text, str):
        raise UsageError(f"a project key must be a string, not {_a(text)}", hint=_PROJECT_HINT)
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
        raise InvalidId(f"invalid project key {_shown(text)}", hint=_PROJECT_HINT)
    return text


def subpath_of(inner: str) -> str | None:
    """Return the subpath of the log *inner* in a session's directory, or None."""
    if not inner.endswith(LOG):
        return None
    name = inner.removesuffix(LOG)
    subpath = _decoded(name) if name.startswith(f"{OPAQUE}/") else name
    return subpath if subpath and _fits(subpath) and _inner(subpath) == name else None


def _check_session(text: object) -> str:
    if not isinstance(text, str):
        hint = "use letters, digits, '-' and '_'"
        raise UsageError(f"a session id must be a string, not {_a(text)}", hint=hint)
    check_session_id(text)
    log = read_name(text + LOG)
    if log is None or log.kind != "session":
        raise InvalidId(
            f"invalid session id {text!r}",
            hint="dates, 'history', 'journal' and names starting with 'agent-' are reserved",
        )
    return text


def _check_subpath(text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f"a subpath must be a string, not {_a(text)}", hint=_SUBPATH_HINT)
    if not text:
        raise UsageError("the subpath is empty", hint=_SUBPATH_HINT)
    if not _fits(text):
        raise UsageError(
            f"a subpath of {len(text):,} characters is too long",
            hint=f"the limit is {_MAX_SUBPATH_BYTES} bytes",
        )
    return text


def _fits(subpath: str) -> bool:
    return (
        len(subpath) <= _MAX_SUBPATH_BYTES
        and len(subpath.encode("utf-8", "surrogatepass")) <= _MAX_SUBPATH_BYTES
    )


def _inner(subpath: str) -> str:
    """Return the path of a subpath's log in its session's directory, without the suffix."""
    parts = subpath.split("/")
    # No dots: a directory "x.jsonl" would be in the way of a log.
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
    # A key can be megabytes long; the message must stay readable.
    shown = ascii(text[:81])
    return shown if len(shown) <= 80 else shown[:80] + "..."


_PROJECT_HINT: Final = (
    "use a directory name, such as project_key_for_directory() of claude-agent-sdk returns: "
    "at most 255 bytes, no separators, no dot at either end"
)
_SUBPATH_HINT: Final = "omit it for the main log, or use a name such as 'subagents/agent-a1'"
