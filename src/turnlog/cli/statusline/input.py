"""What Claude Code says when it asks for a status line: one JSON object on stdin.

Any of it may be missing, null or of another type, and it may not come at all: what is not said is
simply not known. Nothing here waits for long or raises. Small on purpose, and without imports that
take time.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time

from turnlog.costs.statusline_figures import (
    LARGE_WINDOW,
    end_of_file,
    number_of,
    text_of,
    window_of,
    within,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WAIT_SECONDS = 0.1
_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
_TAIL_BYTES = 1 << 17
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read_input() -> dict[str, Any]:
    """Return the object on stdin; an empty one if there is none."""
    found = _document(_stdin())
    return found if isinstance(found, dict) else {}


def model_name(told: dict[str, Any]) -> str:
    """Return the model's name as people say it; empty if it is not said."""
    model = told.get("model")
    names = (within(model, "display_name"), within(model, "id"), model)
    return next((name for name in (text_of(each, 60) for each in names) if name), "")


def session_id(told: dict[str, Any]) -> str:
    """Return the session's id; empty if what is said is none."""
    found = text_of(told.get("session_id"), 129)
    is_id = len(found) < 129 and found.isascii() and found.replace("-", "").isalnum()
    return found if is_id and not found.startswith("-") else ""


def log_path(told: dict[str, Any]) -> str:
    """Return where the session's log is said to be; empty if that is no path."""
    found = told.get("transcript_path")
    return found if isinstance(found, str) and os.path.isabs(found) else ""


def context_percent(told: dict[str, Any], noted_tokens: float | None) -> float | None:
    """Return how much of the model's context is in use.

    Claude Code knows best. Versions that do not say it have it in the last lines of the log; if
    those are too long to look at, *noted_tokens* are what the index knew.
    """
    window = told.get("context_window")
    percent = number_of(within(window, "used_percentage"))
    if percent is not None:
        return percent
    used = _tokens(within(window, "current_usage"))
    if used is None:
        used = _tokens_at_end(log_path(told))
    if used is None:
        used = noted_tokens
    return None if used is None else 100 * used / _window(told, used)


def _window(told: dict[str, Any], used: float) -> float:
    size = number_of(within(told, "context_window", "context_window_size"))
    if size:
        return size
    if told.get("exceeds_200k_tokens") is True:
        return LARGE_WINDOW
    return window_of(text_of(within(told, "model", "id")), used)


def _tokens_at_end(log: str) -> float | None:
    """Return what the model read for the last response in the log's last bytes."""
    try:
        data = end_of_file(log, _TAIL_BYTES) if log else b""
    except (OSError, ValueError):
        return None
    for line in reversed(data.split(b"\n")):
        if b'"usage"' not in line:
            continue
        record = _document(line)
        used = _tokens(within(record, "message", "usage"))
        if used and within(record, "isSidechain") is not True:
            return used
    return None


def _tokens(usage: object) -> float | None:
    if not isinstance(usage, dict):
        return None
    return sum(number_of(usage.get(name)) or 0 for name in _READ)


def _document(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _stdin() -> bytes:
    """Read stdin until it ends, a whole document has come, or time is up."""
    if sys.stdin is None or os.isatty(0):
        return b""
    deadline = time.monotonic() + _WAIT_SECONDS
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        try:
            if os.name == "posix" and not select.select([0], [], [], left)[0]:
                break
            chunk = os.read(0, _CHUNK_BYTES)
        except (OSError, ValueError):
            break
        if not chunk:
            break
        if len(data) <= _MOST_BYTES:  # The rest is read and dropped: whoever writes is not cut off.
            data += chunk
        # Whoever has said everything need not hang up for it to count.
        if len(data) < _CHUNK_BYTES and data.rstrip().endswith(b"}") and _document(data):
            break
    return data if len(data) <= _MOST_BYTES else b""
