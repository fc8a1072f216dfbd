"""``turnlog export``: sessions as files to read, to share and to reckon with."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import force_option, home_option, period_options, redaction_rules
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from turnlog.api.arguments import Period
    from turnlog.cli.share.export_files import Export
    from turnlog.export.conversation import ConversationOptions

FORMATS: Final = ("md", "html", "json", "jsonl", "csv", "parquet")
_SUFFIXES: Final = {f".{name}": name for name in FORMATS} | {
    ".markdown": "md",
    ".htm": "html",
    ".pq": "parquet",
}


def _turns(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, int | None] | None:
    """Read 3, 3-7, 3- or -7."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d*)(-?)(\d*)", value.strip())
    if not found or not (found[1] or found[3]):
        raise click.BadParameter(f"{value!r} is no range of turns: say 3, 3-7, 3- or -7")
    first = int(found[1] or 0)
    last = int(found[3]) if found[3] else None if found[2] else first
    if last is not None and last < first:
        raise click.BadParameter(f"{value!r} ends before it begins")
    return first, last


@click.command(
    name="export",
    epilog="""\b
Examples:
  turnlog export latest -o session.html    a page: folded tools, diffs, search
  turnlog export 5f0c                      as Markdown, on the screen
  turnlog export 5f0c --turns 3-7 --no-tools -o talk.md
  turnlog export --project . --since 7d -o week/
  turnlog export --since 30d -o usage.csv  what was used, by response
  turnlog export --since 30d --table calls -o calls.csv
  turnlog export --project . -o p.parquet  for DuckDB, pandas, Spark
  turnlog export 5f0c --no-redact -o copy.jsonl""",
)
@click.argument("names", metavar="[SESSION]...", nargs=-1)
@home_option
@period_options
@click.option(
    "-o",
    "--output",
    "target",
    metavar="PATH",
    callback=lambda _context, _option, value: None if value == "-" else value,
    help="A file, or a directory for several sessions; - is the screen.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(FORMATS),
    help="As what; told by the ending of PATH too.  [default: md, html into a directory]",
)
@click.option(
    "--thread",
    type=click.Choice(("main", "whole", "all")),
    default="whole",
    show_default=True,
    help="Since the last compaction, from the very first record, or every branch.",
)
@click.option("--turns", metavar="A-B", callback=_turns, help="Only turns A to B, from 1.")
@click.option("--no-tools", is_flag=True, help="Without calls, results and subagents.")
@click.option(
    "--thinking/--no-thinking", default=True, show_default=True, help="What the model thought."
)
@click.option("--no-images", is_flag=True, help="Say that there was an image, without it.")
@click.option(
    "--table",
    type=click.Choice(("messages", "calls", "records")),
    default="messages",
    show_default=True,
    help="Which rows, as CSV; Parquet has them all.",
)
@click.option(
    "--redact/--no-redact",
    "is_redacted",
    default=True,
    show_default=True,
    help="Mask secrets: keys, tokens, passwords.",
)
@force_option
def command(names: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Write sessions as Markdown, a web page, JSON, their own lines, or tables.

    SESSION is the beginning of an id, or "latest"; or say --project or --since. Secrets are masked
    unless --no-redact is given. Pages are files of their own: nothing in them runs or asks for
    anything. Without -o, text goes to the screen.
    """
    from turnlog.formats import all_homes

    period = _period(options)
    if not names and period.since is None and period.until is None and period.project is None:
        raise click.UsageError("name a session (or latest), or say --project or --since")
    if names and (period.since or period.until or period.project):
        raise click.UsageError("name sessions, or say --project and --since; not both")
    from turnlog.cli.share.export_files import Export

    export = Export(
        homes=all_homes(homes),
        names=names,
        period=period,
        shape=_shape(options),
        target=Path(options["target"]) if options["target"] else None,
        is_directory=_is_directory(options["target"]),
        choice=_choice(options),
        table=options["table"],
        is_redacted=options["is_redacted"],
        rules=redaction_rules(),
        force=options["force"],
    )
    _check(export)
    return export.run()


def _shape(options: dict[str, Any]) -> str:
    """Tell as what: as was said, as the ending of the path says, or as is usual."""
    target: str | None = options["target"]
    told = _SUFFIXES.get(Path(target).suffix.lower()) if target else None
    if options["shape"]:
        return str(options["shape"])
    if target and not told and not _is_directory(target):
        raise UsageError(
            f"no format is known by the ending {Path(target).suffix[:20]!r}",
            hint="--format says as what; a directory's name ends in /",
        )
    return told or ("html" if target else "md")


def _is_directory(target: str | None) -> bool:
    """Return whether *target* is meant as a directory: it is one, ends in /, or has no ending."""
    if target is None:
        return False
    return target.endswith("/") or Path(target).is_dir() or not Path(target).suffix


def _choice(options: dict[str, Any]) -> ConversationOptions:
    from turnlog.export.conversation import ConversationOptions

    return ConversationOptions(
        thread=options["thread"],
        turns=options["turns"],
        tools=not options["no_tools"],
        thinking=options["thinking"],
        images=not options["no_images"],
    )


def _period(options: dict[str, Any]) -> Period:
    from turnlog.api.arguments import Period

    return Period(since=options["since"], until=options["until"], project=options["project"])


def _check(export: Export) -> None:
    """Refuse what cannot be meant, before anything is read."""
    if export.shape == "parquet" and export.target is None:
        raise click.UsageError("Parquet goes into a directory: say -o DIR.parquet")
    if export.shape == "html" and export.target is None and sys.stdout.isatty():
        raise click.UsageError("a page is for a browser: say -o session.html")
    target = export.target
    if target is not None and not target.absolute().parent.is_dir():
        raise UsageError(
            f"no directory {target.absolute().parent}", hint="make it first, or name another"
        )
