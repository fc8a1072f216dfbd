"""``turnlog query``: ask about records, messages and calls.

The options of a resource are those of its parameters in ``questions.query_fields``: there is none
that does nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    project_option,
    resolve_session,
    session_option,
    show_json,
    since_option,
    until_option,
)
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from turnlog.api.query import Resource

_PATTERNS: Final = {
    "sequences": "Tools that are called one after another, again and again.",
    "files": "What calls did with each file.",
    "series": "How much happened in each hour, day or week.",
}
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
"""The option of each filter; a time range has two."""
_METAVARS: Final = {"content_match": "REGEX", "tool_name": "REGEX", "git_branch": "NAME"}
# These are those of other commands, and come behind a resource's own.
_SHARED: Final = {
    "time_range": (since_option, until_option),
    "project": (project_option,),
    "session_id": (session_option,),
}
# What a person wants to see, where a program gets everything.
_TABLES: Final = {
    "entries": ["at", "session_id", "type", "author", "gist"],
    "messages": ["at", "session_id", "role", "gist"],
    "tools": ["at", "session_id", "tool_name", "status", "input"],
}
_FIGURES: Final = ("sum", "avg", "min", "max")
_EXAMPLES: Final = """\b
Examples:
  turnlog query messages --role user --since yesterday
  turnlog query tools --group-by tool_name
  turnlog query tools --status error --extract at,tool_name,result
  turnlog query messages --group-by model --sum output
  turnlog query sequences --pattern "Read -> Edit"
  turnlog query '{"resource": "messages", "filter": {"role": "user"}}'
Exit code: 0 done, 1 nothing was found, 2 a mistake, 3 a failure."""


class Resources(click.Group):
    """The resources as commands; what looks like a whole query in JSON is one, too."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        from turnlog.api.query import RESOURCES

        return [*(each.name for each in RESOURCES), *_PATTERNS]

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        from turnlog.cli.app import with_completions

        return with_completions(self._named(name))

    def _named(self, name: str) -> click.Command:
        from turnlog.api.query import resource_named

        if name.lstrip().startswith(("{", "query(")):
            return _json_command(name)
        if name in _PATTERNS:
            found: click.Command = getattr(
                import_module("turnlog.cli.advanced.query_patterns"), name
            )
            return found
        try:
            return _resource_command(resource_named(name))
        except UsageError as error:
            raise UsageError(
                error.message, hint=f"{error.hint}; and {', '.join(_PATTERNS)}"
            ) from None


@click.group(
    name="query", cls=Resources, epilog=_EXAMPLES, subcommand_metavar="RESOURCE | JSON [OPTIONS]"
)
def command() -> None:
    """Ask about records, messages and calls; group and count them.

    RESOURCE --help tells its fields and filters. A whole query can be given as one argument in
    JSON, as meta-cc takes it; entries are also called records, and tools calls.
    """


def _resource_command(resource: Resource) -> click.Command:
    """Make the command of a resource from what is known of it."""
    from turnlog.cli.index_access import no_refresh_option

    def ask(**given: Any) -> int:
        return _ask_with_options(resource, given)

    fields = ", ".join(resource.fields)
    made = click.Command(
        resource.name,
        callback=ask,
        params=[*_filter_options(resource), *_outcome_options()],
        help=f"{resource.about}\n\nFields: {fields}. Paths into the record's own JSON have a dot:"
        " message.model, .version.",
        short_help=resource.about,
        epilog=_EXAMPLES,
    )
    shared = [option for name in resource.filters for option in _SHARED.get(name, ())]
    for option in (*shared, page_options, csv_option, json_option, no_refresh_option, home_option):
        option(made)
    return made


def _filter_options(resource: Resource) -> list[click.Parameter]:
    import msgspec

    from turnlog.api.query import QueryFilter

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


def _outcome_options() -> list[click.Parameter]:
    figures = [
        click.Option([f"--{name}"], metavar="FIELD", help=f"Give the {about} of a field.")
        for name, about in zip(_FIGURES, ("sum", "mean", "least", "greatest"), strict=True)
    ]
    formats = click.Choice(("table", "json", "jsonl", "tsv", "summary"))
    return [
        click.Option(["--extract"], metavar="FIELDS", help="Give these fields, such as at,text."),
        click.Option(["--group-by"], metavar="FIELD", help="One row for each value of a field."),
        click.Option(["--count"], is_flag=True, help="Count, instead of listing."),
        *figures,
        click.Option(["--sort"], metavar="FIELD", help="In this order.  [default: newest first]"),
        click.Option(["--desc/--asc"], default=None, help="The greatest or the least first."),
        click.Option(["--format", "form"], type=formats, default="table", show_default=True,
                     help="What to print; --json and --csv do too."),
    ]  # fmt: skip


def _ask_with_options(resource: Resource, given: dict[str, Any]) -> int:
    """Turn options into the query that they mean."""
    given["session_id"] = resolve_session(given.get("session"), given["homes"])
    filters = {name: given[name] for name in resource.filters if given.get(name) is not None}
    ends = {"start": given.get("since"), "end": given.get("until")}
    if any(ends.values()):
        filters["time_range"] = {end: at and at.isoformat() for end, at in ends.items()}
    figures = [(name, given[name]) for name in _FIGURES if given[name] is not None]
    if given["count"]:
        figures.append(("count", None))
    if len(figures) > 1:
        raise UsageError(
            "one figure at a time", hint="say one of --count, --sum, --avg, --min, --max"
        )
    extract, descends = given["extract"], given["desc"]
    form = "json" if given["as_json"] else "csv" if given["as_csv"] else given["form"]
    asked: dict[str, Any] = {
        "resource": resource.name,
        "filter": filters,
        "transform": {
            "extract": None if extract is None else [each.strip() for each in extract.split(",")],
            "group_by": given["group_by"],
        },
        "output": {
            "format": "json" if form in {"table", "csv"} else form,
            "limit": given["limit"],
            "offset": given["offset"],
            "sort_by": given["sort"],
            "sort_order": None if descends is None else "desc" if descends else "asc",
        },
    }
    if figures:
        asked["aggregate"] = dict(zip(("function", "field"), figures[0], strict=True))
    return ask(asked, given["homes"], form=form, no_refresh=given["no_refresh"])


def _json_command(text: str) -> click.Command:
    """Make the command that a whole query is."""
    from turnlog.cli.index_access import no_refresh_option

    def run(homes: tuple[str, ...], *, as_json: bool, as_csv: bool, no_refresh: bool) -> int:
        asked = read_query(text)
        output = asked.get("output")
        said = output.get("format") if isinstance(output, dict) else None
        form = "json" if as_json else "csv" if as_csv else said or "table"
        return ask(asked, homes, form=form, no_refresh=no_refresh)

    made = click.Command("query", callback=run, help="Answer a query in JSON.")
    for option in (csv_option, json_option, no_refresh_option, home_option):
        option(made)
    return made


def read_query(text: str) -> dict[str, Any]:
    """Read a query in JSON, or as the call in JavaScript that documents write."""
    import json

    plain = text.strip().rstrip(";")
    if plain.startswith("query(") and plain.endswith(")"):
        plain = plain.removeprefix("query(").removesuffix(")")
    # A name before a colon, outside of text, may stand without quotes.
    quoted = re.sub(
        r'"(?:\\.|[^"\\])*"|([A-Za-z_]\w*)(?=\s*:)',
        lambda found: found[0] if found[1] is None else f'"{found[1]}"',
        plain,
    )
    try:
        asked = json.loads(quoted)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the query is no JSON: {error}",
            hint='write it so: \'{"resource": "messages", "filter": {"role": "user"}}\'',
        ) from None
    if not isinstance(asked, dict):
        raise UsageError("the query is no JSON object", hint='it begins with {"resource": …')
    return asked


def ask(asked: Mapping[str, Any], homes: Sequence[str], *, form: str, no_refresh: bool) -> int:
    """Answer a query and print what was found."""
    from datetime import UTC, datetime

    from msgspec import structs

    from turnlog.api.query import answer, parse_query, resource_named
    from turnlog.cli.index_access import open_index
    from turnlog.cli.terminal.empty_results import print_nothing_found
    from turnlog.cli.terminal.output import print_rest, show_table
    from turnlog.formats import all_homes
    from turnlog.records.dates import MachineZone

    query = parse_query(asked)
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
        from turnlog.cli.terminal.output import show_csv_rows

        show_csv_rows(found.columns, found.rows)
    elif form in ("jsonl", "tsv"):
        sys.stdout.buffer.write(found.lines().encode("utf-8", "replace"))
    elif found.rows:
        show_table(found.columns, found.rows)
    else:
        filters = structs.asdict(query.filter) if query.filter else {}
        print_nothing_found(found.resource, homes, filters, hint="leave out a filter")
    print_rest(found.next, found.notes)
    return 0 if found.rows else 1
