"""Options that several commands share, helpers to resolve them, and the index of a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnlog.cli.terminal.console import bar
from turnlog.text import inert

if TYPE_CHECKING:
    from datetime import datetime

    from turnlog.api.homes import Home, LogFile, Problem
    from turnlog.api.index import Index
    from turnlog.api.refresh import Fallback, Stage
    from turnlog.config import SettingProblem
    from turnlog.pricing.cost import Prices
    from turnlog.redact import Rules


F = TypeVar("F", bound=Callable[..., Any])

home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    is_eager=True,  # Needed to resolve --project.
    metavar="DIR",
    help="Agent's home; repeatable.  [default: ~/.claude and others]",
)


def home_arguments(homes: Iterable[str]) -> list[str]:
    """Return *homes* as ``--home`` arguments."""
    return [word for home in homes for word in ("--home", home)]


def command_line(command: str, homes: Iterable[str]) -> str:
    """Return *command* with *homes* as a line for a shell."""
    import shlex

    return shlex.join([*command.split(), *home_arguments(homes)])


def _one_shape(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001
    """Reject two output formats at once."""
    if value and any(context.params.get(f"as_{shape}") for shape in ("json", "csv", "markdown")):
        raise click.UsageError("--json, --csv and --markdown are mutually exclusive", ctx=context)
    return value


def _when(
    context: click.Context, _parameter: click.Parameter, value: str | None
) -> datetime | None:
    """Parse a date or duration, in --timezone if the command has it."""
    if value is None:
        return None
    from turnlog.api.arguments import resolve_instant, resolve_zone

    return resolve_instant(value, resolve_zone(context.params.get("timezone")))


def _where(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Resolve a project: a path, ``.``, or a project's name."""
    if not value:
        return None
    from turnlog.api.arguments import resolve_project
    from turnlog.api.homes import all_homes

    return resolve_project(value, all_homes(context.params.get("homes") or ()))


class Count(click.ParamType[int]):
    """An integer, 0 or more."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            count = int(value)
        except ValueError:
            count = -1
        return count if count >= 0 else self.fail(f"{value!r} is not 0 or more", param, ctx)


def when_option(name: str, about: str) -> Callable[[F], F]:
    """Return an option for a date or duration, parsed to a datetime."""
    return click.option(name, metavar="WHEN", callback=_when, help=about)


# These options mean the same in every command; tests/cli/test_grammar.py checks it.
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_one_shape,
    help="Print a JSON document.",
)
csv_option = click.option("--csv", "as_csv", is_flag=True, callback=_one_shape, help="Print CSV.")
markdown_option = click.option(
    "--markdown", "as_markdown", is_flag=True, callback=_one_shape, help="Print a Markdown table."
)
project_option = click.option(
    "--project",
    metavar="DIR",
    callback=_where,
    help="Only sessions in DIR or below: a path, a project name, or . for this directory.",
)
session_option = click.option(
    "--session", metavar="SESSION", help="Only this session: the start of its id, or latest."
)
since_option = when_option("--since", "Since WHEN: 7d, yesterday, monday, 2026-11-01 …")
until_option = when_option("--until", "Before WHEN (exclusive).")
timezone_option = click.option(
    "--timezone",
    metavar="ZONE",
    is_eager=True,  # Needed to parse dates.
    help="Time zone for day boundaries.  [default: local]",
)
offset_option = click.option(
    "--offset",
    type=Count(),
    metavar="N",
    default=0,
    show_default=True,
    help="Number of results to skip.",
)
tool_option = click.option("--tool", metavar="NAME", help="Only this tool, such as Bash.")
model_option = click.option("--model", metavar="NAME", help="Only models whose name contains NAME.")
poll_option = click.option(
    "--poll",
    type=float,
    metavar="SECONDS",
    help="Poll for changes instead of watching the file system.",
)
yes_option = click.option(
    "--yes", is_flag=True, help="Make the changes; without it, only show them."
)


def dry_run(deed: str) -> str:
    """Return the last line of a dry run: how to do *deed*."""
    return f"Nothing was changed. Run again with --yes to {deed}."


no_refresh_option = click.option(
    "--no-refresh",
    is_flag=True,
    help="Use the index as it is, without reading new records first.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")
for_option = click.option(
    "--for",
    "target",
    metavar="DIR",
    help="Make DIR the project of the copy.  [default: as in its records]",
)


def to_option(default: str = "") -> Callable[[F], F]:
    """Return the ``--to`` option; it is required if there is no *default*."""
    return click.option(
        "--to",
        metavar="HOME",
        required=not default,
        help="Home to write to; created if needed."
        + (f"  [default: {default}]" if default else ""),
    )


def layout_option(default: str = "") -> Callable[[F], F]:
    """Return the ``--layout`` option; it is required if there is no *default*."""
    from turnlog.api.homes import FORMATS

    return click.option(
        "--layout",
        type=click.Choice([layout.name for layout in FORMATS]),
        required=not default,
        help="Layout to write." + (f"  [default: {default}]" if default else ""),
    )


def _turns(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int, int | None] | None:
    """Parse 3, 3:7, 3: or :7."""
    if value is None:
        return None
    first, colon, last = value.strip().partition(":")
    if not (first or last) or not all(each.isdecimal() for each in (first, last) if each):
        raise click.BadParameter(f"invalid range {value!r}: use 3, 3:7, 3: or :7")
    begin = int(first or 1)
    end = int(last) if last else None if colon else begin
    if end is not None and end < begin:
        raise click.BadParameter(f"{value!r} ends before it starts")
    return begin, end


turns_option = click.option(
    "--turns", metavar="A:B", callback=_turns, help="Only turns A to B, starting at 1."
)
thread_option = click.option(
    "--thread",
    metavar="THREAD",
    default="whole",
    show_default=True,
    help="current (since the last compaction), whole, all branches, or a RECORD: up to it.",
)


def tools_option(default: str) -> Callable[[F], F]:
    """Return the ``--tools`` option."""
    return click.option(
        "--tools",
        type=click.Choice(("none", "line", "full")),
        default=default,
        show_default=True,
        help="No tool calls, one line for each, or inputs and outputs in full.",
    )


def limit_option(default: int | None = 20, shown_default: str = "") -> Callable[[F], F]:
    """Return the ``--limit`` option; *shown_default* describes a default that is not a number."""
    return click.option(
        "--limit",
        type=Count(),
        metavar="N",
        default=default,
        show_default=default is not None,
        help="Number of results; 0 for all."
        + (f"  [default: {shown_default}]" if shown_default else ""),
    )


def report_options(function: F) -> F:
    """Add --home, --json and --csv."""
    return home_option(json_option(csv_option(function)))


def period_options(function: F) -> F:
    """Add --since, --until and --project."""
    return since_option(until_option(project_option(function)))


def page_options(function: F) -> F:
    """Add --limit and --offset."""
    return limit_option()(offset_option(function))


def resolve_session(
    name: str | None, homes: Iterable[str], *, must_exist: bool = True
) -> str | None:
    """Return the id prefix that *name* stands for: itself, or the id of the latest session."""
    if name is None:
        return None
    from turnlog.api.arguments import resolve_session_id
    from turnlog.api.homes import all_homes

    return resolve_session_id(name, all_homes(tuple(homes)), must_exist=must_exist)


def logs_named(
    names: Iterable[str], homes: Iterable[str], problems: list[Problem]
) -> Iterator[LogFile]:
    """Yield the logs for *names*: files, directories, starts of session ids, or ``latest``."""
    from turnlog.api import homes as api

    return api.logs_named(names, api.all_homes(tuple(homes)), problems)


def line_cap() -> int:
    """Return the length above which a line counts as damage; warn about invalid settings."""
    from turnlog.api import arguments

    return arguments.line_cap(print_problems)


def redaction_rules() -> Rules:
    """Return the rules for secrets, with those in config.toml; warn about invalid settings."""
    from turnlog.api import arguments

    return arguments.redaction_rules(print_problems)


def configured_prices() -> Prices:
    """Return the prices, with those in config.toml; warn about invalid settings."""
    from turnlog.api import arguments

    return arguments.configured_prices(print_problems)


def print_problems(problems: Iterable[SettingProblem]) -> None:
    """Warn on stderr about invalid settings, which are ignored."""
    from turnlog.api.homes import turnlog_home
    from turnlog.config import problem_message

    for problem in problems:
        click.echo(f"warning: {inert(problem_message(problem, turnlog_home()))}", err=True)


def show_json(document: object) -> None:
    """Print *document* as JSON."""
    import msgspec

    from turnlog.text import inert_json, utf8_safe

    try:
        data = msgspec.json.encode(document, enc_hook=os.fspath)
    except UnicodeEncodeError:  # A lone surrogate, as in a title.
        data = msgspec.json.encode(utf8_safe(msgspec.to_builtins(document, enc_hook=os.fspath)))
    sys.stdout.buffer.write(inert_json(msgspec.json.format(data)) + b"\n")


def print_unread(problems: list[Problem], what: str) -> None:
    """Warn on stderr about files that could not be read and are therefore not *what*."""
    if not problems:
        return
    path, reason, more = str(problems[0].path), problems[0].reason, len(problems) - 1
    first = reason if path in reason else f"{path}: {reason}"
    others = f" (and {more:,} more)" if more else ""
    click.echo(f"warning: not {what}: {inert(first)}{others}", err=True)
    click.echo("hint: turnlog doctor lists what cannot be read", err=True)


def open_index(
    homes: Sequence[Home],
    *,
    no_refresh: bool = False,
    stage: Stage = "text",
    fallback: Fallback = "made",
) -> Index:
    """Open the index of *homes*, refreshed first unless *no_refresh*."""
    from turnlog.api.index import open_fresh

    with bar() as progress:
        index = open_fresh(
            homes, stage=stage, is_stale_allowed=no_refresh, progress=progress, fallback=fallback
        )
    if index.refreshed is not None:
        print_notices(index.refreshed.notices)
    return index


def print_notices(notices: Sequence[str]) -> None:
    """Print notices on stderr."""
    for notice in notices:
        click.echo(f"notice: {inert(notice)}", err=True)
