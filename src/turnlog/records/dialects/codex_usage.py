"""The usage in Codex's logs, which several lines tell together.

A ``token_usage_record`` has the usage of one response. Before 0.169 there was only ``token_count``,
with the total of the session and the last step, written again whenever something else changed: it
counts if the total is new, and not in a turn that has records. Model and directory are those of the
turn.

Forks and subagents may begin with a copy of another session's lines, which its own log counts.
Codex's ids have the time: a turn that is older than the session is of another one.

Cached and cache-write tokens are part of Codex's input, reasoning is part of its output.
"""

from __future__ import annotations

from typing import Any, Final

from turnlog.records.dialects.leftovers import Fields

MARKS: Final = (
    b'"token_count"', b'"token_usage_record"', b'"turn_context"', b'"task_started"',
    b'"session_meta"',
)  # fmt: skip
"""Bytes of which each line that `CodexUsage` needs has at least one."""
_COUNTS: Final = (
    "input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens",
    "reasoning_output_tokens",
)  # fmt: skip
_TURNS: Final = ("turn_context", "task_started")

Total = tuple[int, ...]


class OwnLines:
    """Finds where the own lines of a session begin, after lines that it copied from another."""

    def __init__(self) -> None:
        self.is_own = True
        self._id: str | None = None
        self._first_ordinal: int | None = None

    def take(self, fields: Fields) -> bool:
        """Return whether a line is the session's own, or else a copy."""
        payload = fields["payload"]
        if fields["type"] == "session_meta":
            if self._id is None:
                self._begin(payload)
        elif not self.is_own and self._first_ordinal is not None:
            self.is_own = _whole(fields.get("ordinal")) >= self._first_ordinal
        elif not self.is_own and kind_of(fields) in _TURNS:
            self.is_own = _time_in(payload.get("turn_id")) >= _time_in(self._id)
        return self.is_own

    def _begin(self, payload: Fields) -> None:
        self._id = payload.get("id") if isinstance(payload.get("id"), str) else ""
        first = payload.get("subagent_history_start_ordinal")
        self._first_ordinal = first if isinstance(first, int) else None
        source = payload.get("source")
        is_subagent = isinstance(source, dict) and "subagent" in source
        may_copy = is_subagent or bool(payload.get("forked_from_id"))
        self.is_own = not may_copy or bool(payload.get("history_base"))


class CodexUsage:
    """Converts the lines of one log, in order, to records of responses with their usage."""

    def __init__(self) -> None:
        self._own = OwnLines()
        self._turn = ""
        self._model: Any = None
        self._cwd: Any = None
        self._total: Total = ()
        self._has_records = False
        """Whether the turn has records, so that its totals do not count."""

    def take(self, fields: Fields) -> Fields | None:
        """Return the response whose usage is in a line, in Claude Code's shape, or None."""
        payload, kind = fields["payload"], kind_of(fields)
        is_own = self._own.take(fields)
        used = None
        if kind == "session_meta":
            self._turn = self._turn or payload.get("id") or ""
            self._cwd = payload.get("cwd", self._cwd)
        elif kind in _TURNS:
            self._begin_turn(payload)
        elif kind == "token_usage_record":
            self._has_records = True
            turn = payload.get("turn_id") or self._turn
            used = self._response(payload.get("response_id"), turn, payload.get("usage"), fields)
        elif kind == "token_count":
            used = self._counted(payload.get("info"), fields)
        return used if is_own else None

    def _begin_turn(self, payload: Fields) -> None:
        turn = payload.get("turn_id")
        if isinstance(turn, str) and turn != self._turn:
            self._turn, self._has_records = turn, False
        self._model = payload.get("model", self._model)
        self._cwd = payload.get("cwd", self._cwd)

    def _counted(self, info: Any, fields: Fields) -> Fields | None:
        """Return the response of a ``token_count``, unless it was counted before."""
        if not isinstance(info, dict):
            return None
        before, self._total = self._total, _total_of(info.get("total_token_usage"))
        if self._has_records or self._total == before:
            return None
        step = info.get("last_token_usage")
        if not isinstance(step, dict):
            known = before or (0,) * len(_COUNTS)
            pairs = zip(_COUNTS, self._total, known, strict=True)
            step = {name: max(0, now - then) for name, now, then in pairs}
        name = f"{self._turn} {'/'.join(map(str, self._total))}"
        return self._response(name, self._turn, step, fields)

    def _response(self, name: Any, turn: Any, used: Any, fields: Fields) -> Fields | None:
        if not isinstance(used, dict):
            return None
        read = _whole(used.get("cached_input_tokens"))
        written = _whole(used.get("cache_write_input_tokens"))
        fresh = max(0, _whole(used.get("input_tokens")) - read - written)
        usage = {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": used.get("output_tokens"),
            "output_tokens_details": {"reasoning_tokens": used.get("reasoning_output_tokens")},
        }
        return {
            "type": "assistant",
            "requestId": turn,
            "timestamp": fields.get("timestamp"),
            "cwd": self._cwd,
            "message": {"id": name, "model": self._model, "usage": usage},
        }


def kind_of(fields: Fields) -> Any:
    """Return the type of a line: an event's own, or else the line's."""
    return fields["payload"].get("type") if fields["type"] == "event_msg" else fields["type"]


def _total_of(total: Any) -> Total:
    return tuple(_whole(total.get(name)) for name in _COUNTS) if isinstance(total, dict) else ()


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _time_in(text: Any) -> str:
    """Return the time that a UUID of version 7 begins with, or what sorts after any."""
    is_dated = isinstance(text, str) and len(text) == 36 and text[14] == "7"
    return text[:13].lower() if is_dated else "~"
