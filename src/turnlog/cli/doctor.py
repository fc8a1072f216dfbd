"""``turnlog doctor``: how everything is, on one page."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from turnlog.cli.indexed import no_refresh_option
from turnlog.cli.options import csv_option, home_option, json_option, line_cap, show_json

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.health.doctor import Checkup
    from turnlog.index.connection import Index


@click.command(
    name="doctor",
    epilog="""\b
Examples:
  turnlog doctor                 how all your homes are
  turnlog doctor --all           every case, each with the command that mends it
  turnlog doctor --json          the same for scripts
Exit code: 0 all is well, 1 something asks to be done or looked at, 2 a mistake, 3 a failure.""",
)
@home_option
@json_option
@csv_option
@no_refresh_option
@click.option("--all", "everything", is_flag=True, help="List every case, not just the worst.")
def command(
    homes: tuple[str, ...], *, as_json: bool, as_csv: bool, no_refresh: bool, everything: bool
) -> int:
    """Show the health of all homes: what is damaged, unsafe or about to be lost, and the way out.

    Checks logs, threads, what lies beside them, permissions, disk space, the index and the agent's
    own cleanup. Each finding comes with the command that mends it. Nothing is changed.
    """
    from turnlog.formats import all_homes

    began = time.monotonic()
    checkup = _check_up(all_homes(homes), homes, no_refresh=no_refresh)
    if as_json:
        show_json(checkup)
    elif as_csv:
        from turnlog.cli.csv_shown import show_csv
        from turnlog.health.doctor import DoctorFinding

        show_csv(DoctorFinding, checkup.findings)
    else:
        from turnlog.cli.doctor_shown import show
        from turnlog.cli.terminal import console

        out = console()
        show(out, checkup, everything=everything)
        if checkup.homes:
            took = time.monotonic() - began
            out.print(f"\n [dim]Checked in {took:.1f} s; nothing was changed.[/]")
    return 0 if checkup.healthy and checkup.homes else 1


def _check_up(homes: tuple[Home, ...], named: tuple[str, ...], *, no_refresh: bool) -> Checkup:
    from turnlog.cli.terminal import progress
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.health.doctor import CheckContext, check_up

    index, why = _index(homes, no_refresh=no_refresh)
    patient = CheckContext(
        homes,
        own=turnlog_home(),
        now=datetime.now(UTC),
        index=index,
        no_index=why,
        named=named,
        elsewhere=all_homes() if named else (),
        cap=line_cap(),
    )
    try:
        with progress("Looking closer", patient.to_read_bytes) as advance:
            patient.progress = advance
            return check_up(patient)
    finally:
        if index is not None:
            index.close()


def _index(homes: tuple[Home, ...], *, no_refresh: bool) -> tuple[Index | None, str]:
    """Open the index; None, and why, if there is none to be had: the logs tell the same."""
    import sqlite3

    from turnlog.cli.indexed import open_index
    from turnlog.errors import TurnlogError

    if not homes:
        return None, ""
    try:
        return open_index(homes, no_refresh=no_refresh, fallback="none"), ""
    except (TurnlogError, OSError, sqlite3.Error) as error:
        return None, str(error)
