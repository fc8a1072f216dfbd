"""``turnlog top``: what agents are doing, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from turnlog.cli import options
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime


@click.command(
    name="top",
    epilog="""\b
Examples:
  turnlog top                    running or active in the last day
  turnlog top --project .        in this directory only
  turnlog top --since 7d         running or active in the last week
  turnlog top --json             print the current state once, for a script
Exit codes: 0 success, 1 nothing found, 2 usage error, 3 failure.""",
)
@options.home_option
@options.json_option
@options.project_option
@options.when_option(
    "--since", "Also show sessions active since WHEN: 6h, today, 7d …  [default: 1d]"
)
@options.poll_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    project: str | None,
    since: datetime | None,
    poll: float | None,
) -> int:
    """Show what agents are doing, which ones wait for you, and what they cost.

    The list updates itself. Press Enter to open a session, ? for help.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.live import check_poll, live_sessions

    live = live_sessions(
        all_homes(homes), options.configured_prices(), project=project, since=since
    )
    if as_json:
        live.ask()
        options.print_notices(live.notices)
        document = live.look()
        options.show_json(document)
        return 0 if document.sessions else 1
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "top needs a terminal",
            hint="turnlog watch prints records, turnlog top --json prints the state once",
        )
    from turnlog.cli.live.app import TopApp

    check_poll(poll)
    TopApp(live, poll=poll).run()
    return 0
