"""``turnlog retain``: which sessions have expired, and letting them go."""

from __future__ import annotations

import click

from turnlog.cli.options import csv_option, json_option, project_option, show_json, write_option


@click.command(
    name="retain",
    epilog="""\b
Examples:
  turnlog retain                              what would go by config.toml, and why
  turnlog retain --days 90 --write            move what is older to the trash
  turnlog retain --home ~/.claude --orphans   what sessions that are gone left behind
In config.toml:
  [retention]
  enabled = true                              # off unless this says so
  days = 30                                   # without a record for so long
  grace_days = 30                             # so long it stays in the trash
  archive_first = true                        # nothing goes without a kept copy
  [retention.projects."~/src/orchard"]
  never = true                                # or days = 90
A setting that cannot be used means that nothing is deleted.
Exit code: 0 done, 1 something could not be read or moved, 2 a mistake, 3 a failure.""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="A directory in which an agent keeps its sessions; may be given several times.  "
    "[default: turnlog's own; others only if they are named]",
)
@json_option
@csv_option
@click.option(
    "--days",
    type=int,
    metavar="N",
    help="Sessions without a record for N days expire; what a project's table says stays.",
)
@project_option
@click.option("--orphans", is_flag=True, help="Also what is left of sessions that are not there.")
@click.option(
    "--archive-first", is_flag=True, help="Keep a verified copy first; what has none stays."
)
@write_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    days: int | None,
    project: str | None,
    orphans: bool,
    archive_first: bool,
    write: bool,
) -> int:
    """Move sessions that nobody has used for long to the trash.

    Off unless config.toml turns it on, or --days is given. A session's age is that of its latest
    record, not that of its files. What runs, is locked, pinned or was touched within the hour
    stays. Kept copies stay, too; turnlog delete takes them along.
    """
    from turnlog.formats import Home, all_homes, find_homes, turnlog_home
    from turnlog.keep.retention.retention import retain_configured

    own = turnlog_home()
    mine = (Home(own),) if own.is_dir() else ()
    named = find_homes(homes) if homes else mine  # Agents' homes only if they are named.
    report = retain_configured(
        named,
        days=days,
        project=project,
        with_orphans=orphans,
        archive_first=archive_first,
        write=write,
        elsewhere=all_homes(),
        own=own,
    )
    if as_json:
        show_json(report)
    elif as_csv:
        from turnlog.cli.csv_shown import show_csv
        from turnlog.keep.retention.expiry import ExpiredSession

        show_csv(ExpiredSession, report.sessions)
    else:
        from turnlog.cli.retain_shown import show

        show(report, named or (Home(own),), own, with_orphans=orphans)
    return 1 if report.problems else 0
