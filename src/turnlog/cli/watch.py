"""``turnlog watch``: what happens, as it happens."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from turnlog.cli.indexed import tell_notices
from turnlog.cli.options import (
    home_option,
    limit_option,
    poll_option,
    project_option,
    session_meant,
    session_option,
    since_option,
)
from turnlog.cli.watch_line import WatchedRow, is_noise, row_of, show_row
from turnlog.formats.projects import is_within

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from turnlog.formats import Home
    from turnlog.live.feed import FeedBatch, FeedItem


@click.command(
    name="watch",
    epilog="""\b
Examples:
  turnlog watch                     everything, until Ctrl-C
  turnlog watch --project .         what happens in this directory
  turnlog watch --session 5f0c      one session and its agents
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
        session=session_meant(session, homes) or "",
        wants_all=wants_all,
        quiet=quiet,
        left=limit or None,
    )

    def tell(change: FeedBatch) -> None:
        tell_notices(change.refreshed)
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
    """Give the homes to watch; one that is named need not be there yet."""
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
