"""What the first lines of a rollout say: whose subagent it is, and what it has of other sessions.

A rollout is listed often and its first lines never change, so they are read once by each process.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

import sys
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.records.damage import Damage
from turnlog.records.dialects.codex import CODEX
from turnlog.records.dialects.codex_usage import MARKS, OwnLines
from turnlog.storage.sources import BrokenArchive, Source, open_source

_FIRST_BYTES: Final = 4096
"""Where Codex has written the source and the parent of a session, before the long fields."""
_MOST_BYTES: Final = 4 * 1024 * 1024
_MARKS: Final = (b'"subagent"', b'"parent_thread_id"', b'"forked_from_id"')


class HistoryBase(Struct, frozen=True):
    """The part of another rollout that a fork begins with."""

    thread_id: str
    end_byte_offset: int
    end_ordinal_exclusive: int = 0


class RolloutHead(Struct, frozen=True):
    """What the first line of a rollout says about other sessions."""

    session_id: str | None = None
    """The session, if it is a subagent's."""
    forked_from: str | None = None
    base: HistoryBase | None = None

    @property
    def may_have_copies(self) -> bool:
        """Whether it may begin with a copy of another session's lines."""
        return self.base is None and (self.session_id or self.forked_from) is not None


class _Payload(Struct):
    id: str | None = None
    session_id: str | None = None
    parent_thread_id: str | None = None
    forked_from_id: str | None = None
    source: Any = None
    history_base: HistoryBase | None = None


class _Line(Struct):
    type: str
    payload: _Payload


_NOTHING: Final = RolloutHead()
_decode: Final = msgspec.json.Decoder(_Line).decode
_known: Final[dict[str, RolloutHead]] = {}
_own_starts: Final[dict[str, int]] = {}


def head_of(path: str) -> RolloutHead:
    """Return the head of the rollout at *path*, an empty one if it cannot be read."""
    head = _known.get(path)
    if head is None:
        head = _read(path)
        if head is None:
            return _NOTHING  # Not written yet.
        _known[path] = head
    return head


def own_start(path: str) -> int:
    """Return the offset of the first line that is not a copy, or 0 if there are no copies."""
    known = _own_starts.get(path)
    if known is not None or not head_of(path).may_have_copies:
        return known or 0
    from turnlog.storage.scan import FoundLines  # noqa: PLC0415 - Few logs have copies.

    own = OwnLines()
    try:
        with FoundLines(path, *MARKS) as lines:
            for offset, line in lines:
                fields = None if isinstance(line, Damage) else _fields(line)
                if fields is not None and own.take(fields):
                    _own_starts[path] = offset
                    return offset
    except (TurnlogError, OSError):
        return 0
    return sys.maxsize  # It has no turn of its own so far.


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and CODEX.recognises(fields) else None


def _read(path: str) -> RolloutHead | None:
    """Return the head of a rollout; None if its first line is not complete."""
    try:
        source = open_source(path)
    except (TurnlogError, OSError):
        return None
    try:
        line = _first_line(source)
        found = _decode(line) if line else None
    except (TurnlogError, OSError, BrokenArchive):
        return None
    except (ValueError, RecursionError):
        return _NOTHING  # Damaged.
    finally:
        source.close()
    if found is None:
        return _NOTHING if line is not None else None
    return _head(found.payload) if found.type == "session_meta" else _NOTHING


def _first_line(source: Source) -> bytes | None:
    """Return the first line, empty if it names no other session; None if it is not complete."""
    data = source.read(_FIRST_BYTES)
    if not any(mark in data for mark in _MARKS):
        return b"" if len(data) == _FIRST_BYTES or b"\n" in data else None
    while b"\n" not in data and len(data) < _MOST_BYTES:
        more = source.read(len(data))
        if not more:
            return None
        data += more
    return data.partition(b"\n")[0]


def _head(payload: _Payload) -> RolloutHead:
    source = payload.source.get("subagent") if isinstance(payload.source, dict) else None
    spawn = source.get("thread_spawn") if isinstance(source, dict) else None
    parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    if source is not None:
        parent = parent or payload.parent_thread_id
    session_id = None
    if isinstance(parent, str):
        # It names the first session where subagents start subagents.
        is_own = payload.session_id in (None, payload.id)
        session_id = parent if is_own else payload.session_id
    return RolloutHead(session_id, payload.forked_from_id, payload.history_base)
