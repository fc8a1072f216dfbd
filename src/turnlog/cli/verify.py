"""``turnlog verify``: whether what is kept can be had back."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import Struct

from turnlog.cli.options import csv_option, home_option, json_option, show_json
from turnlog.cli.refresh import Unread
from turnlog.formats import Home, all_homes
from turnlog.keep.catalog import kept_homes
from turnlog.keep.verify import HomeVerifyReport, VerifyFinding, bytes_to_verify, verify


class VerifyTotals(Struct, kw_only=True):
    """All homes together."""

    copies: int
    generations: int
    archives: int
    size_bytes: int
    packed_bytes: int
    same: int
    behind: int
    behind_bytes: int
    differs: int
    gone: int
    unkept: int
    unkept_bytes: int


class VerifyDocument(Struct, kw_only=True):
    """What `turnlog verify --json` prints."""

    findings: list[VerifyFinding]
    homes: list[HomeVerifyReport]
    totals: VerifyTotals
    problems: list[Unread]
    """What could not be looked at."""
    next: int | None = None


@click.command(
    name="verify",
    epilog="""\b
Examples:
  turnlog verify                     everything that is kept
  turnlog verify --home ~/.claude    what is kept of one home
  turnlog verify --json | jq '.findings[].path'
Exit code: 0 all is well, 1 something is missing, altered, extra or stale, 2 a mistake,
3 a failure.""",
)
@home_option
@json_option
@csv_option
def command(homes: tuple[str, ...], *, as_json: bool, as_csv: bool) -> int:
    """Read every kept copy and archive again, and compare.

    Each is compared with its digest, and with the file it is a copy of if that is still there.
    That a file has grown since, was rewritten or is gone is told, and is no fault. That it was
    rewritten and its size and time do not show it is one: the next turnlog keep then copies it
    anew. Nothing else is changed.
    """
    from turnlog.cli.terminal import progress

    found = _homes(all_homes(homes), is_named=bool(homes))
    with progress("verifying", bytes_to_verify(found)) as advance:
        done = verify(found, advance=advance)
    names = VerifyTotals.__struct_fields__
    totals = VerifyTotals(
        **{name: sum(getattr(home, name) for home in done.homes) for name in names}
    )
    document = VerifyDocument(
        findings=done.findings,
        homes=done.homes,
        totals=totals,
        problems=[Unread(path=str(each.path), reason=each.reason) for each in done.problems],
    )
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.csv_shown import show_csv

        show_csv(VerifyFinding, document.findings)
    else:
        from turnlog.cli.verify_shown import show

        show(document)
    return 1 if done.findings else 0


def _homes(homes: tuple[Home, ...], *, is_named: bool) -> tuple[Home, ...]:
    """Give the homes that are meant: those named, else also those that are gone but kept."""
    if is_named:
        return homes
    known = {os.path.realpath(home) for home in homes}
    more = (home for home, _ in kept_homes() if os.path.realpath(home) not in known)
    return (*homes, *(Home(Path(home)) for home in more))
