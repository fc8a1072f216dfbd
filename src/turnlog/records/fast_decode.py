"""Decode only what a summary needs of a line, at a fraction of the cost.

Nearly all bytes of a log are messages of assistants, tools and the program, and a summary needs
only their time, directory and model. Such lines become a QuickRecord, the rest of the line is
skipped, and consecutive ones become a QuickRun. Lines that a summary reads (prompts, titles,
turnlog's records), other dialects and unusual shapes are decoded in full. The summary is the same
either way; a property test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.record import Linked, Record


class _QuickBlock(Struct, frozen=True, gc=False):
    type: str
    tool_use_id: str | None = None


class _QuickMessage(Struct, frozen=True, gc=False):
    model: str | None = None
    content: str | tuple[_QuickBlock, ...] | None = None


class QuickRecord(Struct, frozen=True, rename="camel", gc=False):
    """The time, directory and model of one line."""

    type: str = ""
    at: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="timestamp")
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    is_sidechain: bool = False
    message: _QuickMessage | None = None


class QuickRun(Linked, frozen=True, kw_only=True, tag="(stretch)"):
    """Consecutive lines as one. It is in no log: fold it and drop it.

    The directory is that of the first line that has one, branch and version those of the last.
    """

    lines: int
    first_at: datetime | None
    at: datetime | None
    models: Mapping[str, int]


# A summary needs nothing else of these types, and no other dialect writes them.
_OUTSIDES_SUFFICE = frozenset(
    {"attachment", "file-history-snapshot", "progress", "queue-operation", "system"}
)

_decode_glance = msgspec.json.Decoder(QuickRecord).decode


def quick_decode(line: bytes | memoryview) -> QuickRecord | Record | Damage:
    """Decode as much of *line*, without its newline, as a summary needs."""
    try:
        seen = _decode_glance(line)
    except (ValueError, RecursionError):
        return decode(bytes(line))
    if seen.at is None or seen.at.tzinfo is UTC:
        kind, message = seen.type, seen.message
        if kind == "assistant":
            # Without a message it is another dialect, or empty.
            if message is not None:
                return seen
        elif kind in _OUTSIDES_SUFFICE or (kind == "user" and _is_of_a_tool(message)):
            return seen
    return decode(bytes(line))


def _is_of_a_tool(message: _QuickMessage | None) -> bool:
    """Return whether a message is a tool's result rather than a possible prompt."""
    if message is None or not isinstance(message.content, tuple):
        return False
    for block in message.content:  # Nearly always the first and only one.
        if block.type == "tool_result" and block.tool_use_id is not None:
            return True
    return False


def quick_run(records: Sequence[QuickRecord]) -> QuickRun:
    """Return *records*, at least one, as a single run."""
    first_at = last_at = cwd = git_branch = version = None
    models: dict[str, int] = {}
    for seen in records:
        at = seen.at
        if at is not None:
            if first_at is None or at < first_at:
                first_at = at
            if last_at is None or at > last_at:
                last_at = at
        cwd = cwd or seen.cwd
        git_branch = seen.git_branch or git_branch
        version = seen.version or version
        if seen.type == "assistant" and seen.message is not None:
            model = seen.message.model
            if model is not None:
                models[model] = models.get(model, 0) + 1
    return QuickRun(
        lines=len(records),
        first_at=first_at,
        at=last_at,
        cwd=cwd,
        git_branch=git_branch,
        version=version,
        is_sidechain=records[0].is_sidechain,
        models=models,
    )
