"""``turnlog query``: filter, group and count records, messages and tool calls.

The options of a resource are made from its filters in `turnlog.api.query`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import Struct, structs

from turnlog.api.arguments import resolve_zone
from turnlog.api.homes import all_homes
from turnlog.api.query import (
    RESOURCES,
    FileAccess,
    QueryFilter,
    Resource,
    SeriesPoint,
    answer,
    file_access,
    parse_query,
    resource_named,
    time_series,
    tool_sequences,
)
from turnlog.api.query import Sequence as ToolSequence
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    no_refresh_option,
    open_index,
    page_options,
    period_options,
    project_option,
    report_options,
    resolve_session,
    session_option,
    show_json,
    since_option,
    timezone_option,
    until_option,
)
from turnlog.cli.terminal.console import console, counted
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import print_rest, show_csv, show_csv_rows, show_table
from turnlog.errors import UsageError
from turnlog.records.dates import MachineZone

if TYPE_CHECKING:
    from turnlog.api.query import Interval, Metric, Series

_INTERVALS = ("hour", "day", "week")
_METRICS = ("calls", "errors", "error_rate", "messages", "tokens", "prompts")
_BAR = 30
_LONGEST_GAP = 3
OPTIONS: Final = {
    "type": "--type",
    "session_id": "--session",
    "uuid": "--uuid",
    "parent_uuid": "--parent",
    "git_branch": "--branch",
    "role": "--role",
    "content_type": "--content",
    "content_match": "--match",
    "tool_name": "--tool",
    "tool_status": "--status",
    "has_error": "--errors/--no-errors",
    "project": "--project",
}
"""The option of each filter, except the time range."""
_METAVARS: Final = {"content_match": "REGEX", "tool_name": "REGEX", "git_branch": "NAME"}
_SHARED: Final = {
    "time_range": (since_option, until_option),
    "project": (project_option,),
    "session_id": (session_option,),
}
_TABLES: Final = {
    "entries": ["at", "session_id", "type", "author", "gist"],
    "messages": ["at", "session_id", "role", "gist"],
    "tools": ["at", "session_id", "tool_name", "status", "input"],
}
"""The columns that a terminal shows; --json has all fields."""
_FIGURES: Final = ("sum", "avg", "min", "max")
_EXAMPLES: Final = """\b
Examples:
  turnlog query messages --role user --since yesterday
  turnlog query tools --group-by tool_name
  turnlog query tools --status error --extract at,tool_name,result
  turnlog query messages --group-by model --sum output
  turnlog query sequences --pattern "Read -> Edit"
  turnlog query '{"resource": "messages", "filter": {"role": "user"}}'
Exit codes: 0 success, 1 nothing found, 2 usage error, 3 failure."""


class Resources(click.Group):
    """The resources and patterns as commands; a query in JSON is one, too."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*(resource.name for resource in RESOURCES), *_PATTERNS]

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        from turnlog.cli.app import with_completions

        return with_completions(self._find(name))

    def _find(self, name: str) -> click.Command:
        if name.lstrip().startswith(("{", "query(")):
            return _json_command(name)
        if name in _PATTERNS:
            return _PATTERNS[name]
        try:
            return _resource_command(resource_named(name))
        except UsageError as error:
            hint = f"{error.hint}; and {', '.join(_PATTERNS)}"
            raise UsageError(error.message, hint=hint) from None


@click.group(
    name="query", cls=Resources, epilog=_EXAMPLES, subcommand_metavar="RESOURCE | JSON [OPTIONS]"
)
def command() -> None:
    """Filter, group and count records, messages and tool calls.

    RESOURCE --help lists its fields and filters. A query can also be given as one JSON argument, in
    the format of meta-cc. "records" is an alias of entries, "calls" of tools.
    """


def _resource_command(resource: Resource) -> click.Command:
    """Return a command with an option for each filter of *resource*."""

    def run_query(**options: Any) -> int:
        return _run_with_options(resource, options)

    fields = ", ".join(resource.fields)
    made = click.Command(
        resource.name,
        callback=run_query,
        params=[*_filter_options(resource), *_output_options()],
        help=f"{resource.about}\n\nFields: {fields}. Use a dot for paths into a record's JSON:"
        " message.model, .version.",
        short_help=resource.about,
        epilog=_EXAMPLES,
    )
    shared = [option for name in resource.filters for option in _SHARED.get(name, ())]
    for option in (*shared, page_options, csv_option, json_option, no_refresh_option, home_option):
        option(made)
    return made


def _filter_options(resource: Resource) -> list[click.Parameter]:
    schema = msgspec.json.schema(QueryFilter)["$defs"]["QueryFilter"]["properties"]
    options: list[click.Parameter] = []
    for name in resource.filters:
        if name in _SHARED:
            continue
        about = schema[name].get("description", "")
        if name == "has_error":
            options.append(click.Option([OPTIONS[name], name], default=None, help=about))
            continue
        choices = resource.roles if name == "role" else _choices(schema[name])
        kind = click.Choice(choices) if choices else None
        metavar = None if choices else _METAVARS.get(name, "TEXT")
        options.append(click.Option([OPTIONS[name], name], type=kind, metavar=metavar, help=about))
    return options


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    for each in (schema, *schema.get("anyOf", ())):
        if "enum" in each:
            return tuple(value for value in each["enum"] if value is not None)
    return ()


def _output_options() -> list[click.Parameter]:
    figures = [
        click.Option([f"--{name}"], metavar="FIELD", help=f"Print the {about} of a field.")
        for name, about in zip(_FIGURES, ("sum", "mean", "minimum", "maximum"), strict=True)
    ]
    formats = click.Choice(("table", "json", "jsonl", "tsv", "summary"))
    return [
        click.Option(["--extract"], metavar="FIELDS", help="Fields to print, such as at,text."),
        click.Option(["--group-by"], metavar="FIELD", help="Print one row per value of a field."),
        click.Option(["--count"], is_flag=True, help="Print only the number of rows."),
        *figures,
        click.Option(["--sort"], metavar="FIELD", help="Sort by a field.  [default: newest first]"),
        click.Option(["--desc/--asc"], default=None, help="Sort order."),
        click.Option(["--format", "form"], type=formats, default="table", show_default=True,
                     help="Output format; see also --json and --csv."),
    ]  # fmt: skip


def _run_with_options(resource: Resource, options: dict[str, Any]) -> int:
    """Run the query that *options* describe."""
    options["session_id"] = resolve_session(options.get("session"), options["homes"])
    filters = {name: options[name] for name in resource.filters if options.get(name) is not None}
    ends = {"start": options.get("since"), "end": options.get("until")}
    if any(ends.values()):
        filters["time_range"] = {end: at and at.isoformat() for end, at in ends.items()}
    figures = [(name, options[name]) for name in _FIGURES if options[name] is not None]
    if options["count"]:
        figures.append(("count", None))
    if len(figures) > 1:
        raise UsageError(
            "only one figure at a time", hint="use one of --count, --sum, --avg, --min, --max"
        )
    extract, descends = options["extract"], options["desc"]
    form = "json" if options["as_json"] else "csv" if options["as_csv"] else options["form"]
    query: dict[str, Any] = {
        "resource": resource.name,
        "filter": filters,
        "transform": {
            "extract": None if extract is None else [name.strip() for name in extract.split(",")],
            "group_by": options["group_by"],
        },
        "output": {
            "format": "json" if form in {"table", "csv"} else form,
            "limit": options["limit"],
            "offset": options["offset"],
            "sort_by": options["sort"],
            "sort_order": None if descends is None else "desc" if descends else "asc",
        },
    }
    if figures:
        query["aggregate"] = dict(zip(("function", "field"), figures[0], strict=True))
    return _run(query, options["homes"], form=form, no_refresh=options["no_refresh"])


def _json_command(text: str) -> click.Command:
    """Return a command that runs a query in JSON."""

    def run_query(homes: tuple[str, ...], *, as_json: bool, as_csv: bool, no_refresh: bool) -> int:
        query = read_query(text)
        output = query.get("output")
        named = output.get("format") if isinstance(output, dict) else None
        form = "json" if as_json else "csv" if as_csv else named or "table"
        return _run(query, homes, form=form, no_refresh=no_refresh)

    made = click.Command("query", callback=run_query, help="Run a query in JSON.")
    for option in (csv_option, json_option, no_refresh_option, home_option):
        option(made)
    return made


def read_query(text: str) -> dict[str, Any]:
    """Parse a query in JSON, or written as a JavaScript call: ``query({resource: "tools"})``."""
    plain = text.strip().rstrip(";")
    if plain.startswith("query(") and plain.endswith(")"):
        plain = plain.removeprefix("query(").removesuffix(")")
    # Quote bare names before a colon, outside of strings.
    quoted = re.sub(
        r'"(?:\\.|[^"\\])*"|([A-Za-z_]\w*)(?=\s*:)',
        lambda match: match[0] if match[1] is None else f'"{match[1]}"',
        plain,
    )
    try:
        query = json.loads(quoted)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"invalid JSON query: {error}",
            hint='use \'{"resource": "messages", "filter": {"role": "user"}}\'',
        ) from None
    if not isinstance(query, dict):
        raise UsageError("the query is not a JSON object", hint='it starts with {"resource": …')
    return query


def _run(document: Mapping[str, Any], homes: Sequence[str], *, form: str, no_refresh: bool) -> int:
    """Run a query and print the result."""
    query = parse_query(document)
    is_listed = query.transform.group_by is None and query.aggregate is None
    if form == "table" and is_listed and query.transform.extract is None:
        shown = _TABLES[resource_named(query.resource).name]
        query = structs.replace(query, transform=structs.replace(query.transform, extract=shown))
    with open_index(all_homes(tuple(homes)), no_refresh=no_refresh) as index:
        found = answer(index, query, now=datetime.now(UTC), zone=MachineZone())
    if form == "json":
        show_json(found)
        return 0 if found.rows else 1
    if form == "csv":
        show_csv_rows(found.columns, found.rows)
    elif form in ("jsonl", "tsv"):
        sys.stdout.buffer.write(found.lines().encode("utf-8", "replace"))
    elif found.rows:
        show_table(found.columns, found.rows)
    else:
        filters = structs.asdict(query.filter) if query.filter else {}
        print_nothing_found(found.resource, homes, filters, hint="use fewer filters")
    print_rest(found.next, found.notes)
    return 0 if found.rows else 1


@click.command(
    name="sequences",
    short_help="List sequences of tools that recur.",
    epilog="""\b
Examples:
  turnlog query sequences --since 30d
  turnlog query sequences --pattern "Read -> Edit\"""",
)
@report_options
@no_refresh_option
@period_options
@click.option("--pattern", metavar="TOOLS", help='Only this sequence, such as "Read -> Edit".')
@click.option("--min", "least", default=3, show_default=True, help="Minimum number of occurrences.")
@click.option("--shortest", default=2, show_default=True, help="Minimum number of calls.")
@click.option("--longest", default=5, show_default=True, help="Maximum number of calls.")
@page_options
def sequences(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    least: int,
    limit: int,
    **filters: Any,
) -> int:
    """List sequences of tools that recur."""
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = tool_sequences(index, min_occurrences=least, limit=limit or None, **filters)
    columns = ["count", "sessions", "last_at", "sequence"]
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv}
    return _list(found, "sequences", ToolSequence, columns, filters | shape)


@click.command(
    name="files",
    short_help="Count reads, edits and writes of each file.",
    epilog="""\b
Examples:
  turnlog query files --since 7d          files of the last 7 days, most used first
  turnlog query files src/app.py          one file, in any directory""",
)
@click.argument("file", metavar="[FILE]", required=False)
@report_options
@no_refresh_option
@period_options
@page_options
def files(
    file: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    limit: int,
    **filters: Any,
) -> int:
    """Count reads, edits and writes of each file.

    FILE is a path as it was logged, or the end of one, such as src/app.py.
    """
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = file_access(index, file, limit=limit or None, **filters)
    columns = ["reads", "edits", "writes", "sessions", "last_at", "file"]
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv}
    return _list(found, "files", FileAccess, columns, filters | shape)


@click.command(
    name="series",
    short_help="Plot activity by hour, day or week.",
    epilog="""\b
Examples:
  turnlog query series --since 30d                       calls per day
  turnlog query series --metric tokens --interval week
  turnlog query series --metric error_rate --since 7d --csv""",
)
@report_options
@no_refresh_option
@period_options
@click.option(
    "--interval",
    type=click.Choice(_INTERVALS),
    default="day",
    show_default=True,
    help="Length of an interval.",
)
@click.option(
    "--metric",
    type=click.Choice(_METRICS),
    default="calls",
    show_default=True,
    help="What to count.",
)
@timezone_option
def series(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    interval: Interval,
    metric: Metric,
    timezone: str | None,
    **filters: Any,
) -> int:
    """Plot activity by hour, day or week."""
    zone = resolve_zone(timezone)
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = time_series(index, interval, metric, zone=zone, **filters)
    if as_json:
        show_json(found)
    elif as_csv:
        show_csv(SeriesPoint, found.points)
    elif found.points:
        _show_series(found, zone)
        print_rest(None, found.notes)
    else:
        print_nothing_found(metric.replace("_", " "), homes, filters)
    return 0 if found.points else 1


def _list(
    found: Any, noun: str, kind: type[Struct], columns: list[str], options: dict[str, Any]
) -> int:

    listed = getattr(found, noun)
    if options["as_json"]:
        show_json(found)
    elif options["as_csv"]:
        show_csv(kind, listed, more=found.next)
    elif listed:
        show_table(columns, [structs.asdict(row) for row in listed])
        print_rest(found.next)
    else:
        print_nothing_found(noun, options["homes"], options, hint="try --min 1")
    return 0 if listed else 1


def _show_series(found: Series, zone: tzinfo) -> None:
    out = console()
    most = max((point.value or 0 for point in found.points), default=0) or 1
    for is_empty, group in groupby(found.points, key=lambda point: not point.value):
        points = list(group)
        if is_empty and len(points) > _LONGEST_GAP:
            out.print(f"[dim]…  {counted(len(points), found.interval)} without activity[/]")
            continue
        for point in points:
            out.print(_point_line(found, point, zone, most))


def _point_line(found: Series, point: SeriesPoint, zone: tzinfo, most: float) -> str:
    try:
        at = point.at.astimezone(zone)
    except OverflowError:
        at = point.at
    value = point.value
    is_rate = found.metric == "error_rate"
    shown = "-" if value is None else f"{value:.1%}" if is_rate else f"{value:,}"
    bar = "█" * round((value or 0) / most * _BAR)
    form = "%Y-%m-%d %H:%M" if found.interval == "hour" else "%Y-%m-%d"
    return f"{at.strftime(form)}  {shown:>14}  [cyan]{bar}[/]".rstrip()


_PATTERNS: Final = {"sequences": sequences, "files": files, "series": series}
