"""What agents are doing now, and each record as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from turnlog.api.homes import Home
from turnlog.formats.find import subagent_logs_near
from turnlog.live.activity import ASKED_FOR, Doing
from turnlog.live.feed import FeedBatch, FeedItem, watch
from turnlog.live.sessions import RECENT, Live, LiveDocument, LiveSession, shared_by, urgency
from turnlog.live.watch import LiveNews, LiveWatch
from turnlog.pricing.cost import Prices
from turnlog.records.call_lines import call_text
from turnlog.records.dates import MachineZone
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import (
    Call,
    CallBlock,
    Record,
    Result,
    ResultBlock,
    Spoken,
    ThinkingBlock,
)
from turnlog.sessions.watcher import changes as file_changes
from turnlog.sessions.watcher import check_poll
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import LogFollower, Restart, read_last

__all__ = [
    "ASKED_FOR",
    "Doing",
    "FeedBatch",
    "FeedItem",
    "Live",
    "LiveDocument",
    "LiveNews",
    "LiveSession",
    "LiveWatch",
    "LogFollower",
    "Placed",
    "Restart",
    "WatchedRow",
    "check_poll",
    "file_changes",
    "is_noise",
    "live_sessions",
    "read_last",
    "read_log",
    "row_of",
    "shared_by",
    "subagent_logs_near",
    "urgency",
    "watch",
]

_NOISE: Final = (Meaning.STATE, Meaning.CONTEXT)
_TEXT: Final = 2_000


class WatchedCall(Struct, kw_only=True):
    """A call of a tool."""

    tool: str
    argument: str
    """Its main argument."""


class WatchedRow(Struct, kw_only=True):
    """One record, as `turnlog watch --json` prints it."""

    at: datetime | None
    project: str | None
    session: str | None
    subagent: str | None
    author: str
    meaning: str
    type: str
    uuid: str | None
    text: str
    """The beginning of its text."""
    calls: list[WatchedCall] = field(default_factory=list)
    log: str
    offset: int


def is_noise(item: FeedItem) -> bool:
    """Return whether a record is only of interest to programs."""
    record = item.record
    return record is not None and meaning_of(record) in _NOISE


def row_of(item: FeedItem) -> WatchedRow:
    """Return a record as it is printed."""
    record = item.record
    return WatchedRow(
        at=item.at,
        project=item.project,
        session=item.session,
        subagent=item.subagent,
        author=item.author,
        meaning=meaning_of(record).value if record is not None else "",
        type=item.type,
        uuid=record.uuid if record is not None else None,
        text=_text_of(record)[:_TEXT] if record is not None else "",
        calls=_calls_of(record, item.project) if record is not None else [],
        log=item.log,
        offset=item.offset,
    )


def _text_of(record: Record) -> str:
    match record:
        case Spoken():
            found = record.text
            for block in record.blocks:
                if not found and isinstance(block, ResultBlock):
                    found = block.text
                elif not found and isinstance(block, ThinkingBlock):
                    found = block.thinking
            return found
        case Result():
            return record.text
    return record.text


def _calls_of(record: Record, cwd: str | None) -> list[WatchedCall]:
    if isinstance(record, Call):
        return [_call(record.name or "", record.input, cwd)]
    if not isinstance(record, Spoken):
        return []
    blocks = (block for block in record.blocks if isinstance(block, CallBlock))
    return [_call(block.name, block.input, cwd) for block in blocks]


def _call(tool: str, given: Any, cwd: str | None) -> WatchedCall:
    return WatchedCall(tool=tool, argument=call_text(given, cwd).text)


def live_sessions(
    homes: Sequence[Home],
    prices: Prices,
    *,
    project: str | None = None,
    since: datetime | None = None,
) -> Live:
    """Return the sessions that run now or were active since *since*, by default for a day."""
    recent = RECENT if since is None else max(timedelta(0), datetime.now(UTC) - since)
    return Live(tuple(homes), prices, zone=MachineZone(), recent=recent, project=project)
