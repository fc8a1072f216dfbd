"""One record on one line, for those who watch: when, where, who, what."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from turnlog.export.call_lines import call_text
from turnlog.formats.projects import last_part
from turnlog.records.blocks import CallBlock, ResultBlock, ThinkingBlock
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Call, Result, Spoken
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.live.feed import FeedItem
    from turnlog.records.record import Record

_NOISE: Final = (Meaning.STATE, Meaning.CONTEXT)
_TEXT: Final = 2_000
_STYLES: Final = {
    Meaning.PROMPT: "bold",
    Meaning.THINKING: "dim italic",
    Meaning.CALL: "cyan",
    Meaning.RESULT: "dim",
    Meaning.ERROR: "red",
    Meaning.SUMMARY: "magenta",
    Meaning.NOTICE: "dim",
    Meaning.CONTEXT: "dim",
    Meaning.STATE: "dim",
}


class WatchedCall(Struct, kw_only=True):
    """A tool was asked."""

    tool: str
    argument: str
    """Its most telling argument."""


class WatchedRow(Struct, kw_only=True):
    """One record, as `turnlog watch --json` prints it."""

    at: datetime | None
    project: str | None
    session: str | None
    agent: str | None
    author: str
    meaning: str
    type: str
    uuid: str | None
    text: str
    """Its beginning."""
    calls: list[WatchedCall] = field(default_factory=list)
    log: str
    offset: int


def is_noise(happened: FeedItem) -> bool:
    """Tell whether a record is of use to programs only."""
    record = happened.record
    return record is not None and meaning_of(record) in _NOISE


def row_of(happened: FeedItem) -> WatchedRow:
    """Say what a record says in a few words."""
    record = happened.record
    return WatchedRow(
        at=happened.at,
        project=happened.project,
        session=happened.session,
        agent=happened.agent,
        author=happened.author,
        meaning=meaning_of(record).value if record is not None else "",
        type=happened.type,
        uuid=record.uuid if record is not None else None,
        text=_text_of(record)[:_TEXT] if record is not None else "",
        calls=_calls_of(record, happened.project) if record is not None else [],
        log=happened.log,
        offset=happened.offset,
    )


def show_row(row: WatchedRow) -> None:
    """Print a record's line; on a terminal no longer than its width."""
    from rich.text import Text

    at = _clock(row.at) if row.at is not None else " " * 8
    project = last_part(row.project or "") or "?"
    out = _console()
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{at} ", "dim")
    line.append(f"{_fitted(inert(project), 14, out)} ", "cyan")
    line.append(f"{inert((row.session or '')[:8]).ljust(8)} ", "dim")
    line.append(f"{_fitted(inert(row.author), 9, out)} ")
    line.append(inert(_said(row)), _STYLES.get(Meaning(row.meaning), "") if row.meaning else "dim")
    if sys.stdout.isatty():
        out.print(line, overflow="ellipsis", no_wrap=True)
    else:
        out.print(line, soft_wrap=True)


def _clock(at: datetime) -> str:
    """Write the time of day, and the day if it is another than today."""
    local = at.astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M:%S}"


def _said(row: WatchedRow) -> str:
    text = " ".join(row.text.split())
    calls = [" ".join(f"{call.tool} {call.argument}".split()) for call in row.calls]
    if row.meaning in _NOISE:
        return f"{row.type}: {text}" if text else row.type
    prefix = {Meaning.ERROR: "✗ ", Meaning.RESULT: "↳ ", Meaning.SUMMARY: "summary: "}
    said = " · ".join(filter(None, (text, *calls)))
    if not said:
        said = "(thinking)" if row.meaning == Meaning.THINKING else "(no text)"
    return prefix.get(Meaning(row.meaning), "") + said if row.meaning else said


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


def _fitted(text: str, width: int, out: Console) -> str:
    from turnlog.cli.terminal import at_most

    most = at_most(width, out.width)
    return text.ljust(width) if len(text) <= most else text[: most - 1] + "…"


@cache
def _console() -> Console:
    from turnlog.cli.terminal import console

    return console()
