"""``turnlog top``: what agents are doing now, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.index_access import print_notices
from turnlog.cli.options import (
    home_option,
    json_option,
    poll_option,
    print_problems,
    project_option,
    show_json,
    when_option,
)
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from turnlog.live.sessions import Live


@click.command(
    name="top",
    epilog="""\b
Examples:
  turnlog top                    what runs now, and what was active in the last day
  turnlog top --project .        in this directory only
  turnlog top --since 7d         also what was active in the last week
  turnlog top --json             the same facts once, for a script
Exit code: 0 done, 1 nothing was found, 2 a mistake, 3 a failure.""",
)
@home_option
@json_option
@project_option
@when_option("--since", "Also what was active from WHEN on: 6h, today, 7d …  [default: 1d]")
@poll_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    project: str | None,
    since: datetime | None,
    poll: float | None,
) -> int:
    """See what agents are doing now: who is at work, who waits for you, what it costs.

    The list follows the logs by itself. Enter opens a session, ? shows what else can be typed.
    """
    if as_json:
        live = _live(homes, project, since)
        live.ask()
        print_notices(live.notices)
        document = live.look()
        show_json(document)
        return 0 if document.sessions else 1
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "top needs a terminal of its own",
            hint="turnlog watch prints what happens, turnlog top --json prints the facts once",
        )
    top_app = _app()
    from turnlog.sessions.watcher import check_poll

    check_poll(poll)
    top_app.TopApp(_live(homes, project, since), poll=poll).run()
    return 0


def _app() -> Any:
    """Import what draws; say what is missing if it is not installed."""
    try:
        import textual  # noqa: F401
    except ImportError:
        raise UsageError(
            "top is drawn with textual, which is not installed",
            hint="pip install 'turnlog[tui]'",
        ) from None
    from turnlog.cli.live import app

    return app


def _live(homes: tuple[str, ...], project: str | None, since: datetime | None) -> Live:
    from datetime import UTC, datetime, timedelta

    from turnlog.formats import all_homes, turnlog_home
    from turnlog.live.sessions import RECENT, Live
    from turnlog.pricing.cost import configured_prices
    from turnlog.records.dates import MachineZone

    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    recent = RECENT if since is None else max(timedelta(0), datetime.now(UTC) - since)
    return Live(
        all_homes(homes),
        prices,
        zone=MachineZone(),
        recent=recent,
        project=project,
    )
