"""``turnlog watch``: what happens, as it happens.

One record on one line, for those who watch: when, where, who, what.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct, field

from turnlog.cli.index_access import print_notices
from turnlog.cli.options import (
    home_option,
    limit_option,
    poll_option,
    project_option,
    resolve_session,
    session_option,
    since_option,
)
from turnlog.formats.projects import is_within, last_part
from turnlog.records.call_lines import call_text
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Call, CallBlock, Result, ResultBlock, Spoken, ThinkingBlock
from turnlog.text import inert

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rich.console import Console

    from turnlog.formats import Home
    from turnlog.live.feed import FeedBatch, FeedItem
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
    subagent: str | None
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
    """Return whether a record is of use to programs only."""
    record = happened.record
    return record is not None and meaning_of(record) in _NOISE


def row_of(happened: FeedItem) -> WatchedRow:
    """Say what a record says in a few words."""
    record = happened.record
    return WatchedRow(
        at=happened.at,
        project=happened.project,
        session=happened.session,
        subagent=happened.subagent,
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
    from turnlog.cli.terminal.console import at_most

    most = at_most(width, out.width)
    return text.ljust(width) if len(text) <= most else text[: most - 1] + "…"


@cache
def _console() -> Console:
    from turnlog.cli.terminal.console import console

    return console()


@click.command(
    name="watch",
    epilog="""\b
Examples:
  turnlog watch                     everything, until Ctrl-C
  turnlog watch --project .         what happens in this directory
  turnlog watch --session 5f0c      one session and its subagents
  turnlog watch --since 10min       first what happened in the last ten minutes
  turnlog watch --json | jq .text   one JSON document a line
Exit code: 0 done, also by Ctrl-C, 2 a mistake, 3 a failure.""",
)
@home_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document for each record, one a line."
)
@project_option
@session_option
@since_option
@limit_option(0)
@click.option("--all", "wants_all", is_flag=True, help="Also what programs note for themselves.")
@click.option("--quiet", is_flag=True, help="Show nothing; only keep the index fresh.")
@poll_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    project: str | None,
    session: str | None,
    since: datetime | None,
    limit: int,
    wants_all: bool,
    quiet: bool,
    poll: float | None,
) -> int:
    """Keep the index fresh, and show each record as it is written.

    A line tells when, the project, the session, who, and what. With --since it begins with what
    happened from then on; with --limit it ends by itself. A home that is not there yet is waited
    for.
    """
    from turnlog.live.feed import watch

    stop = threading.Event()
    shown = _Shown(
        as_json=as_json,
        project=project,
        session=resolve_session(session, homes) or "",
        wants_all=wants_all,
        quiet=quiet,
        left=limit or None,
    )

    def tell(change: FeedBatch) -> None:
        print_notices(change.refreshed.notices)
        if not shown.show(change):
            stop.set()

    watched = _homes(homes)
    restore = _until_interrupted(stop)
    try:
        watch(watched, on_change=tell, poll=poll, stop=stop, since=since)
    finally:
        restore()
    return 0


class _Shown(Struct, kw_only=True):
    """What is shown, and how many are left to show."""

    as_json: bool
    project: str | None
    session: str
    wants_all: bool
    quiet: bool
    left: int | None

    def show(self, change: FeedBatch) -> bool:
        """Show what is wanted of a change; tell whether more may come."""
        for happened in change.happened:
            if not self._is_wanted(happened):
                continue
            if not self.quiet:
                self._print(row_of(happened))
            if self.left is not None:
                self.left -= 1
                if self.left <= 0:
                    break
        sys.stdout.flush()
        return self.left is None or self.left > 0

    def _is_wanted(self, happened: FeedItem) -> bool:
        if not (happened.session or "").startswith(self.session):
            return False
        if self.project is not None and not is_within(happened.project, self.project):
            return False
        return self.wants_all or not is_noise(happened)

    def _print(self, row: WatchedRow) -> None:
        if self.as_json:
            sys.stdout.buffer.write(_json_line(row))
        else:
            show_row(row)


def _json_line(row: WatchedRow) -> bytes:
    import json

    import msgspec

    from turnlog.text import inert_json

    try:
        return inert_json(msgspec.json.encode(row)) + b"\n"
    except UnicodeEncodeError:  # A lone surrogate has no UTF-8 form; its escape is JSON as well.
        plain: dict[str, Any] = msgspec.to_builtins(row)
        return json.dumps(plain).encode("ascii") + b"\n"


def _until_interrupted(stop: threading.Event) -> Callable[[], None]:
    """Let Ctrl-C end the watch between two changes; a second one ends it at once."""
    before = signal.getsignal(signal.SIGINT)

    def interrupted(_signal: int, _frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    def restore() -> None:
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupted)
    return restore


def _homes(names: tuple[str, ...]) -> tuple[Home, ...]:
    """Return the homes to watch; one that is named need not be there yet."""
    from pathlib import Path

    from turnlog.formats import Home, all_homes, find_homes

    if not names:
        if find_homes():
            return all_homes()
        awaited = os.environ.get("CLAUDE_CONFIG_DIR", "").strip() or "~/.claude"
        return (Home(Path(awaited).expanduser().absolute()), *all_homes())
    found: list[Home] = []
    for name in names:
        path = Path(name).expanduser().absolute()
        found += (Home(path),) if not os.path.lexists(path) else all_homes((name,))
    return tuple(dict.fromkeys(found))
