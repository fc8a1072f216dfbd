"""Complete records for a session's log: uuid, parent, timestamp, directory, branch.

Records come in Claude Code's shape or in that of the log's own dialect. Missing fields are added,
given ones stay. In a log of another dialect, prompts, responses, calls and results are translated;
what the dialect cannot hold stays in Claude Code's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from msgspec import to_builtins

from turnlog import __version__
from turnlog.errors import NotSerialisable, UsageError
from turnlog.records.codec import encode
from turnlog.records.dates import iso
from turnlog.records.dialects import dialect_of
from turnlog.records.dialects.translate import in_dialect
from turnlog.records.lenient_json import loads
from turnlog.records.record import Call, Record, Spoken
from turnlog.sessions.environment import process

Fields = dict[str, Any]

# Types whose records are part of the tree; all others only name their session.
TREE_TYPES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
_LINKS: Final = ("parentUuid", "logicalParentUuid")
_UUIDS: Final = frozenset({"uuid", "leafUuid", "sessionId", *_LINKS})
_PARTS: Final = UUID("6f2d6c52-9a0c-4d0e-8a53-6f0f6d2a3c11")
_LATER: Final = "\0"
"""A placeholder for a parent that is not known yet."""


class RecordStamper:
    """Completes records for one log of a session."""

    def __init__(
        self,
        *,
        session_id: str,
        cwd: str,
        branch: str = "",
        agent_id: str | None = None,
        dialect: str = "claude",
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.dialect = dialect
        self._cwd = cwd
        self._branch = branch
        self._tools: dict[str, str] = {}

    def mark(self, event: str, now: datetime, **more: Any) -> Fields:
        """Return a line of turnlog's own: what happened, and in which process."""
        mark = {
            "type": "turnlog",
            "event": event,
            "sessionId": self.session_id,
            "timestamp": iso(now),
        }
        return mark | {"process": to_builtins(process())} | more

    def place(
        self, record: Record | Mapping[str, Any], tip: str | None, now: datetime
    ) -> list[Fields]:
        """Return the lines for *record*, following the record *tip*."""
        if not isinstance(record, Record | Mapping):
            raise NotSerialisable(
                f"a {type(record).__name__} is not a record",
                hint="turnlog.build makes records, as in build.user(text)",
            )
        if isinstance(record, Record):  # Without fields, it was never a line.
            fields = _with_uuids_as_text(record.fields or loads(encode(record)))
        else:
            fields = _with_uuids_as_text(record)
        kind = fields.get("type")
        if not isinstance(kind, str) or not kind:
            raise UsageError("a record needs a type", hint='such as {"type": "user", …}')
        named = fields.get("sessionId", self.session_id)
        if named is None:
            del fields["sessionId"]
        elif named != self.session_id:
            raise UsageError(
                f"a record of session {named} does not belong to session {self.session_id}",
                hint="leave sessionId out, or fork the other session",
            )
        if self.dialect != "claude":
            # The log's dialect has no parents: records it cannot hold follow the one before, too.
            fields = {key: value for key, value in fields.items() if key not in _LINKS}
            dialect = dialect_of(fields).name
            if dialect == self.dialect:
                return [self._native(fields, now)]
            parts = in_dialect(fields, self.dialect, self._tools) if dialect == "claude" else None
            if parts:
                return self._placed_parts(parts, now)
        if kind in TREE_TYPES:
            return [self._linked(fields, tip, now)]
        stamp = {"timestamp": iso(now)} if kind == "queue-operation" else {}
        return [{**fields, "sessionId": self.session_id, **stamp, **fields}]

    def stamped(self, record: Record | Mapping[str, Any], now: datetime) -> list[Fields]:
        """Return the lines for *record*, to be placed again when their parent is known."""
        return [
            {key: value for key, value in line.items() if value is not _LATER}
            for line in self.place(record, _LATER, now)
        ]

    def see(self, record: Record) -> None:
        """Remember the names of tools: one dialect's results repeat those of their calls."""
        if self.dialect == "orchestrator":
            if isinstance(record, Call) and record.call_id and record.name:
                self._tools[record.call_id] = record.name
            elif isinstance(record, Spoken):
                self._tools.update((call.id, call.name) for call in record.calls)

    def _linked(self, fields: Fields, tip: str | None, now: datetime) -> Fields:
        """Place a record in Claude Code's shape."""
        placed: Fields = {
            "parentUuid": tip,
            "isSidechain": self.agent_id is not None,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self.session_id,
            "version": __version__,
            "gitBranch": self._branch,
        }
        if self.agent_id is not None:
            placed["agentId"] = self.agent_id
        placed |= fields
        placed.setdefault("uuid", str(uuid4()))
        placed.setdefault("timestamp", iso(now))
        return placed

    def _placed_parts(self, parts: list[Fields], now: datetime) -> list[Fields]:
        """Place the parts of one record. A retry after a crash gets the same uuids."""
        first = parts[0].setdefault("uuid", str(uuid4()))
        for number, part in enumerate(parts[1:], 1):
            part.setdefault("uuid", str(uuid5(_PARTS, f"{first}/{number}")))
        return [self._native(part, now) for part in parts]

    def _native(self, fields: Fields, now: datetime) -> Fields:
        """Place a record in the log's own dialect, which has no parents."""
        placed = dict(fields)
        placed.setdefault("uuid", str(uuid4()))
        if self.dialect == "flat":
            placed.setdefault("timestamp", round(now.timestamp() * 1000))
            return placed
        placed.setdefault("timestamp", iso(now))
        placed.setdefault("sessionId", self.session_id)
        placed.setdefault("cwd", self._cwd)
        name, call_id = placed.get("tool"), placed.get("toolCallId")
        if isinstance(name, str) and isinstance(call_id, str):
            self._tools[call_id] = name
        return placed


def names_itself(record: Record | Mapping[str, Any]) -> bool:
    """Return whether a record has a uuid of its own."""
    return (record.uuid if isinstance(record, Record) else record.get("uuid")) is not None


def _with_uuids_as_text(given: Mapping[str, Any]) -> Fields:
    """Return the fields of a record with its uuids as strings; raise if one is anything else.

    Readers ignore a uuid that is not a string: the thread would end there.
    """
    fields = dict(given)
    for key in _UUIDS & fields.keys():
        value = fields[key]
        if isinstance(value, UUID):
            fields[key] = str(value)
        elif key == "uuid" and value is None:
            del fields[key]
        elif value is not None and not (isinstance(value, str) and value):
            raise UsageError(
                f"{key} is {value!r:.60}, not a uuid",
                hint="pass text or a uuid.UUID, or leave it out",
            )
    return fields
