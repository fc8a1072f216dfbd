"""``turnlog search``: find what was said, in every session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from turnlog.cli.indexed import no_refresh_option
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    session_meant,
    session_option,
    show_json,
)

_ALL: Final = 1_000_000


@click.command(
    name="search",
    epilog="""\b
Examples:
  turnlog search retry backoff                 both words, the best hits first
  turnlog search '"connection refused"'        a phrase
  turnlog search 'migrat* -rollback since:2w'  beginnings, refusals, time
  turnlog search 'tool:Bash is:error docker'   what went wrong in Bash
  turnlog search 'file:*.sql type:call'        what was done with SQL files
  turnlog search --results ENOSPC              also in what tools answered
  turnlog search --exact 'foo(bar, '           exactly this piece of text
  turnlog search --regex 'def \\w+_at\\('        a regular expression
  turnlog search -- -draft release             the query begins with a dash""",
)
@click.argument("query", nargs=-1)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@session_option
@click.option("--results", is_flag=True, help="Search what tools answered, too.")
@click.option("--newest", is_flag=True, help="Sort by time alone.")
@click.option("--exact", is_flag=True, help="The query is a piece of text, not words.")
@click.option("--regex", is_flag=True, help="The query is a regular expression.")
@click.option(
    "-C", "--context", type=click.IntRange(0, 50), default=0, metavar="N", help="Lines around hits."
)
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords in what is shown.")
@click.option("--all-hits", is_flag=True, help="Not only the best three of each session.")
@page_options
def command(query: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Find what was said, in every session.

    QUERY is words, "phrases", -refusals, OR, begin* and filters: project: session: tool: file:
    model: branch: role: type: is: before: after: since:. What tools answered is searched with
    --results only, or by type:result. Case counts in --exact and --regex if the query has a
    capital letter.
    """
    text = " ".join(query)
    if not text.strip() and not any(
        options[name] for name in ("project", "since", "until", "session")
    ):
        raise click.UsageError("what should be searched for?")
    if options["exact"] and options["regex"]:
        raise click.UsageError("--exact and --regex cannot be given together")
    from turnlog.cli.indexed import open_index
    from turnlog.formats import all_homes
    from turnlog.search.search import search

    now = datetime.now(UTC)
    session = session_meant(options["session"], homes)
    with open_index(all_homes(homes), no_refresh=options["no_refresh"]) as index:
        found = search(
            index,
            text,
            now=now,
            zone=_zone(),
            project=options["project"],
            since=options["since"],
            until=options["until"],
            session=session,
            with_results=options["results"],
            newest=options["newest"],
            exact=options["exact"],
            regex=options["regex"],
            limit=options["limit"] or _ALL,
            offset=options["offset"],
            context=options["context"],
            per_session=0 if options["all_hits"] else None,
            mask=_mask() if options["redact"] else None,
        )
    if options["as_json"]:
        show_json(found)
    elif options["as_csv"]:
        from turnlog.cli.csv_shown import show_csv
        from turnlog.search.hits import Hit

        show_csv(Hit, found.hits, more=found.next)
    else:
        from turnlog.cli.hits_shown import show_hits

        show_hits(found, text, now=now, options=options | {"homes": homes}, out=sys.stdout)
    return 0 if found.hits else 1


def _mask() -> Callable[[str], str]:
    from functools import partial

    from turnlog.cli.options import redaction_rules
    from turnlog.redact import redact

    return partial(redact, rules=redaction_rules())


def _zone() -> Any:
    from turnlog.records.time_zone import MachineZone

    return MachineZone()
