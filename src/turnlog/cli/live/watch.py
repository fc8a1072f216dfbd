"""``turnlog watch``: print records as they are written, one per line."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from turnlog.cli import options
from turnlog.cli.terminal.console import at_most, console
from turnlog.cli.terminal.tables import cut_right
from turnlog.records.meaning import Meaning
from turnlog.text import inert

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from turnlog.api.live import FeedBatch, FeedItem, WatchedRow

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


_NARROW = 60
"""Columns below which there is no room for the project and the author."""


def show_row(row: WatchedRow) -> None:
    """Print a record on one line, on a terminal cut to its width."""
    from rich.text import Text

    from turnlog.api.homes import last_part

    at = _clock(row.at) if row.at is not None else " " * 8
    project = last_part(row.project or "") or "?"
    out = _console()
    line = Text(no_wrap=True, overflow="ellipsis")
    is_narrow = out.width < _NARROW
    line.append(f"{at} ", "dim")
    if not is_narrow:
        line.append(f"{_fitted(inert(project), 14, out)} ", "cyan")
    line.append(f"{inert((row.session or '')[:8]).ljust(8)} ", "dim")
    if not is_narrow:
        line.append(f"{_fitted(inert(row.author), 9, out)} ")
    line.append(inert(_text(row)), _STYLES.get(Meaning(row.meaning), "") if row.meaning else "dim")
    if sys.stdout.isatty():
        out.print(line, overflow="ellipsis", no_wrap=True)
    else:
        out.print(line, soft_wrap=True)


def _clock(at: datetime) -> str:
    """Return the local time, with the date if it is not today."""
    local = at.astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%Y-%m-%d %H:%M:%S}"


def _text(row: WatchedRow) -> str:
    text = " ".join(row.text.split())
    calls = [" ".join(f"{call.tool} {call.argument}".split()) for call in row.calls]
    if row.meaning in (Meaning.STATE, Meaning.CONTEXT):
        return f"{row.type}: {text}" if text else row.type
    prefix = {Meaning.ERROR: "✗ ", Meaning.RESULT: "↳ ", Meaning.SUMMARY: "summary: "}
    line = " · ".join(filter(None, (text, *calls)))
    if not line:
        line = "(thinking)" if row.meaning == Meaning.THINKING else "(no text)"
    return prefix.get(Meaning(row.meaning), "") + line if row.meaning else line


def _fitted(text: str, width: int, out: Console) -> str:
    from rich.cells import cell_len

    shown = cut_right(text, at_most(width, out.width))
    return shown + " " * (width - cell_len(shown))


@cache
def _console() -> Console:
    return console()


@click.command(
    name="watch",
    epilog="""\b
Examples:
  turnlog watch                     everything, until Ctrl-C
  turnlog watch --project .         sessions in this directory
  turnlog watch --session 5f0c      one session and its subagents
  turnlog watch --since 10min       start with the last ten minutes
  turnlog watch --json | jq .text   one JSON document per line
Exit codes: 0 success, also after Ctrl-C, 2 usage error, 3 failure.""",
)
@options.home_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document per line.")
@options.project_option
@options.session_option
@options.since_option
@options.limit_option(0)
@click.option("--all", "wants_all", is_flag=True, help="Also print internal records.")
@click.option("--quiet", is_flag=True, help="Print nothing; only update the index.")
@options.poll_option
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
    """Print records as they are written, and keep the index up to date.

    Each line has the time, project, session, author and text of a record. With --limit the command
    ends by itself. Homes that do not exist yet are waited for.
    """
    from turnlog.api.homes import homes_to_watch
    from turnlog.api.live import watch

    stop = threading.Event()
    printer = _Printer(
        as_json=as_json,
        project=project,
        session=options.resolve_session(session, homes, must_exist=False) or "",
        wants_all=wants_all,
        quiet=quiet,
        left=limit or None,
    )

    def show(batch: FeedBatch) -> None:
        options.print_notices(batch.refreshed.notices)
        if not printer.show(batch):
            stop.set()

    watched = homes_to_watch(homes)
    restore = _until_interrupted(stop)
    try:
        watch(watched, on_change=show, poll=poll, stop=stop, since=since)
    finally:
        restore()
    return 0


class _Printer(Struct, kw_only=True):
    """Prints records that match the filters, and counts down to the limit."""

    as_json: bool
    project: str | None
    session: str
    wants_all: bool
    quiet: bool
    left: int | None

    def show(self, batch: FeedBatch) -> bool:
        """Print the matching records, and return whether the limit is not reached."""
        from turnlog.api.live import row_of

        for item in batch.happened:
            if not self._matches(item):
                continue
            if not self.quiet:
                self._print(row_of(item))
            if self.left is not None:
                self.left -= 1
                if self.left <= 0:
                    break
        sys.stdout.flush()
        return self.left is None or self.left > 0

    def _matches(self, item: FeedItem) -> bool:
        from turnlog.api.homes import is_within
        from turnlog.api.live import is_noise

        if not (item.session or "").startswith(self.session):
            return False
        if self.project is not None and not is_within(item.project, self.project):
            return False
        return self.wants_all or not is_noise(item)

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
    except UnicodeEncodeError:  # A lone surrogate: escape it.
        plain: dict[str, Any] = msgspec.to_builtins(row)
        return json.dumps(plain).encode("ascii") + b"\n"


def _until_interrupted(stop: threading.Event) -> Callable[[], None]:
    """Make Ctrl-C set *stop*, and a second one interrupt; return a function that undoes it."""
    before = signal.getsignal(signal.SIGINT)

    def interrupted(_signal: int, _frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    def restore() -> None:
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupted)
    return restore
