"""``turnlog query``: filter, group and count records, messages and tool calls."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct, structs

from turnlog.api.arguments import resolve_project, resolve_zone
from turnlog.api.homes import all_homes
from turnlog.api.query import (
    LONGEST,
    RESOURCES,
    SHORTEST,
    FileAccess,
    Resource,
    SeriesPoint,
    answer,
    comparable,
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
    limit_option,
    no_refresh_option,
    offset_option,
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

_INTERVALS = ("hour", "day", "week", "month")
_METRICS = ("calls", "errors", "error_rate", "messages", "tokens", "prompts")
_BAR = 30
_LONGEST_GAP = 3
_TABLES: Final = {
    "entries": ["at", "session_id", "type", "author", "gist"],
    "messages": ["at", "session_id", "role", "gist"],
    "tools": ["at", "session_id", "tool_name", "status", "input"],
}
"""The columns that a terminal shows; --json has all fields."""
_FUNCTIONS: Final = ("count", "sum", "avg", "min", "max")
_EXAMPLES: Final = """\b
Examples:
  turnlog query messages role=user --since yesterday
  turnlog query tools tool=Bash status=error --fields at,input,result
  turnlog query tools --by tool --aggregate avg:duration_ms
  turnlog query messages --by model --aggregate sum:output
  turnlog query sequences --pattern "Read -> Edit"
  turnlog query series tokens --by week
  turnlog query '{"resource": "messages", "filter": {"role": "user"}}'
Exit codes: 0 success, 1 nothing found, 2 usage error, 3 failure."""
_EXAMPLES_OF: Final = {
    "entries": """
  turnlog query entries type=summary
  turnlog query entries content_type=thinking --since 7d
  turnlog query entries 'content~connection (reset|refused)'
  turnlog query entries --by type --sort count --reverse
  turnlog query entries .version~^2 --fields at,type,.version""",
    "messages": """
  turnlog query messages role=user --since yesterday
  turnlog query messages model~opus tool=WebSearch
  turnlog query messages --by model --aggregate sum:output
  turnlog query messages --aggregate count --aggregate avg:output
  turnlog query messages branch=main role=user --fields at,text""",
    "tools": """
  turnlog query tools tool=Bash status=error --fields at,input,result
  turnlog query tools 'tool~Bash|Task' 'input~test'
  turnlog query tools status!=success --by tool
  turnlog query tools --by tool --aggregate avg:duration_ms --sort count
  turnlog query tools action=edit --by file --limit 5""",
}


_PARAMETERS: Final = (
    click.argument("where", metavar="[FILTER]...", nargs=-1),
    click.option("--fields", metavar="FIELDS", help="Fields to print, such as at,tool,result."),
    click.option("--by", metavar="FIELD", help="Count rows by the values of a field."),
    click.option(
        "--aggregate",
        "aggregates",
        multiple=True,
        metavar="FUNC:FIELD",
        help=f"Compute {', '.join(_FUNCTIONS)}, in total or with --by; repeatable.",
    ),
    click.option("--sort", metavar="FIELD", help="Sort by a field.  [default: newest first]"),
    click.option("--reverse", is_flag=True, help="Reverse the order."),
    since_option,
    until_option,
    project_option,
    session_option,
    limit_option(),
    offset_option,
    json_option,
    csv_option,
    no_refresh_option,
    home_option,
)


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

    RESOURCE --help lists its fields. A query can also be given as one JSON argument, in the format
    of meta-cc. "records" is an alias of entries, "calls" of tools.
    """


def _resource_command(resource: Resource) -> click.Command:
    """Return the command that queries *resource*."""

    def run_query(**options: Any) -> int:
        return _run_with_options(resource, options)

    made = click.Command(
        resource.name,
        callback=run_query,
        help=_help(resource),
        short_help=resource.about,
        epilog=f"\b\nExamples:{_EXAMPLES_OF[resource.name]}",
    )
    for parameter in _PARAMETERS:
        parameter(made)
    return made


def _help(resource: Resource) -> str:
    fields = comparable(resource)
    names = ", ".join(name for name in fields if name in resource.fields)
    extra = ", ".join(name for name in fields if name not in resource.fields)
    also = f" To filter only: {extra}." if extra else ""
    values = "; ".join(
        f"{name} is {', '.join(each.values)}" for name, each in fields.items() if each.values
    )
    return f"""{resource.about}

    FILTER is FIELD=VALUE, FIELD!=VALUE or FIELD~REGEX; all filters must match.

    Fields: {names}.{also} A field with a dot is a path into the record's JSON: message.model,
    .version. Short names: tool, session, branch, parent.

    Values: {values}; is_error is true, false.
    """


def _run_with_options(resource: Resource, options: dict[str, Any]) -> int:
    """Run the query that *options* describe."""
    homes, where, fields = options["homes"], options["where"], options["fields"]
    filters: dict[str, Any] = {
        "session_id": resolve_session(options["session"], homes),
        "project": options["project"],
    }
    ends = {"start": options["since"], "end": options["until"]}
    if any(ends.values()):
        filters["time_range"] = {end: at and at.isoformat() for end, at in ends.items()}
    aggregates = [_aggregate(text) for text in options["aggregates"]]
    count = {"function": "count", "field": None}
    if options["by"] is not None and count not in aggregates:
        aggregates.insert(0, count)
    # By default the newest or the most come first, and a field is sorted from its smallest value.
    is_descending = (options["sort"] is None) is not options["reverse"]
    query: dict[str, Any] = {
        "resource": resource.name,
        "filter": filters,
        "transform": {
            "extract": None if fields is None else [name.strip() for name in fields.split(",")],
            "group_by": options["by"],
        },
        "aggregate": aggregates or None,
        "output": {
            "limit": options["limit"],
            "offset": options["offset"],
            "sort_by": options["sort"] and options["sort"].replace(":", "_"),
            "sort_order": "desc" if is_descending else "asc",
        },
        "where": [_resolved(text, homes) for text in where],
    }
    form = "json" if options["as_json"] else "csv" if options["as_csv"] else "table"
    hint = _hint_for(resource, options)
    return _run(query, homes, form=form, no_refresh=options["no_refresh"], hint=hint)


def _hint_for(resource: Resource, options: dict[str, Any]) -> str:
    """Return what to try if the query of *options* has no rows."""
    where: tuple[str, ...] = options["where"]
    given = [f"--{name}" for name in ("session", "project", "since", "until") if options[name]]
    tips = [f"leave out {' or '.join([*where, *given])}"] if where or given else []
    texts = {name for name, field in resource.fields.items() if field[2:] == ("text", ())}
    for text in where:
        name, _, value = text.partition("=")
        if name in texts - {"session_id", "project"}:
            tips.append(f"{name}~{value} matches a part of it")
    return "; ".join(tips)


def _resolved(text: str, homes: tuple[str, ...]) -> str:
    """Return a filter with a session or project resolved as in --session and --project."""
    field, equals, value = re.fullmatch(r"(\w*)(!?=|)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if equals and field in ("session", "session_id"):
        return f"{field}{equals}{resolve_session(value, homes)}"
    if equals and field == "project":
        return f"{field}{equals}{resolve_project(value, all_homes(homes))}"
    return text


def _aggregate(text: str) -> dict[str, str | None]:
    """Parse FUNC:FIELD."""
    function, _, field = text.partition(":")
    if function not in _FUNCTIONS:
        raise UsageError(
            f"unknown function {function!r}",
            hint=f"use {', '.join(_FUNCTIONS)}, as in --aggregate avg:duration_ms",
        )
    return {"function": function, "field": field.strip() or None}


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


def _run(
    document: Mapping[str, Any],
    homes: Sequence[str],
    *,
    form: str,
    no_refresh: bool,
    hint: str = "use fewer filters",
) -> int:
    """Run a query and print the result, or *hint* if it has no rows."""
    query = parse_query(document)
    is_listed = query.transform.group_by is None and not query.aggregates
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
        print_nothing_found(found.resource, homes, hint=hint)
    print_rest(found.next, found.notes)
    return 0 if found.rows else 1


def _range(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    """Parse A:B, of which either may be missing, or one number."""
    first, colon, last = value.partition(":")
    try:
        start = int(first) if first else SHORTEST
        return start, int(last) if last else LONGEST if colon else start
    except ValueError:
        raise click.BadParameter(f"{value!r} is not A:B", context, parameter) from None


@click.command(
    name="sequences",
    short_help="List sequences of tools that recur.",
    epilog="""\b
Examples:
  turnlog query sequences --since 30d
  turnlog query sequences --length 3: --min 1      of 3 or more calls
  turnlog query sequences --pattern "Read -> Edit\"""",
)
@report_options
@no_refresh_option
@period_options
@click.option("--pattern", metavar="TOOLS", help='Only this sequence, such as "Read -> Edit".')
@click.option("--min", "least", default=3, show_default=True, help="Minimum number of occurrences.")
@click.option(
    "--length",
    "lengths",
    default="2:5",
    show_default=True,
    metavar="A:B",
    callback=_range,
    help="Sequences of A to B calls.",
)
@page_options
def sequences(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    least: int,
    lengths: tuple[int, int],
    limit: int,
    **filters: Any,
) -> int:
    """List sequences of tools that recur."""
    shortest, longest = lengths
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = tool_sequences(
            index,
            min_occurrences=least,
            shortest=shortest,
            longest=longest,
            limit=limit or None,
            **filters,
        )
    columns = ["count", "sessions", "last_at", "sequence"]
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv, "hint": "try --min 1"}
    return _list(found, "sequences", ToolSequence, columns, filters | shape)


@click.command(
    name="files",
    short_help="Count reads, edits and writes of each file.",
    epilog="""\b
Examples:
  turnlog query files --since 7d          the most used files of a week
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
    hint = "turnlog query files lists them all" if file else ""
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv, "hint": hint}
    return _list(found, "files", FileAccess, columns, filters | shape)


@click.command(
    name="series",
    short_help="Plot activity by hour, day, week or month.",
    epilog="""\b
Examples:
  turnlog query series --since 30d              calls per day
  turnlog query series tokens --by week
  turnlog query series error_rate --since 7d --csv""",
)
@click.argument("metric", metavar="[METRIC]", type=click.Choice(_METRICS), default="calls")
@report_options
@no_refresh_option
@period_options
@click.option(
    "--by",
    "interval",
    type=click.Choice(_INTERVALS),
    default="day",
    show_default=True,
    help="Length of an interval.",
)
@timezone_option
def series(
    metric: Metric,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    interval: Interval,
    timezone: str | None,
    **filters: Any,
) -> int:
    """Plot activity by hour, day, week or month.

    METRIC is calls (the default), errors, error_rate, messages, tokens or prompts.
    """
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
        print_nothing_found(noun, options["homes"], options, hint=options["hint"])
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
