"""Options and arguments that several commands share, and what they mean."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnlog.text import inert

if TYPE_CHECKING:
    from datetime import datetime

    from turnlog.config import SettingProblem
    from turnlog.formats import Home, LogFile, Problem
    from turnlog.redact import Rules

F = TypeVar("F", bound=Callable[..., Any])

home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    is_eager=True,  # A project may be named as it is called there.
    metavar="DIR",
    help="A directory in which an agent keeps its sessions; may be given several times.  "
    "[default: $CLAUDE_CONFIG_DIR, else ~/.claude and ~/.config/claude; and turnlog's own]",
)


def naming(homes: Iterable[str]) -> list[str]:
    """Return the arguments that name *homes*: what one command was told, the next one needs."""
    return [word for home in homes for word in ("--home", home)]


def to_type(command: str, homes: Iterable[str]) -> str:
    """Return a command line that asks the same *homes*, as a shell takes it."""
    return shlex.join([*command.split(), *naming(homes)])


def _one_shape(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001
    """Refuse an answer in two shapes at once."""
    if value and any(context.params.get(f"as_{shape}") for shape in ("json", "csv", "markdown")):
        raise click.UsageError("--json, --csv and --markdown are one or the other", ctx=context)
    return value


def _when(
    context: click.Context, _parameter: click.Parameter, value: str | None
) -> datetime | None:
    """Read a time as people say it; days are those of --timezone where there is one, or ours."""
    if value is None:
        return None
    from turnlog.api.arguments import resolve_instant, resolve_zone

    return resolve_instant(value, resolve_zone(context.params.get("timezone")))


def _where(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Read a directory as people say it: ``.`` is this one, a name that of a project."""
    if not value:
        return None
    from turnlog.api.arguments import resolve_project
    from turnlog.formats import all_homes

    return resolve_project(value, all_homes(context.params.get("homes") or ()))


class Count(click.ParamType[int]):
    """How many: 0 or more."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            count = int(value)
        except ValueError:
            count = -1
        return count if count >= 0 else self.fail(f"{value!r} is no count: 0 or more", param, ctx)


def when_option(name: str, about: str) -> Callable[[F], F]:
    """Return an option that takes a time as people say it, and gives it as a datetime."""
    return click.option(name, metavar="WHEN", callback=_when, help=about)


# One grammar: an option of these names means the same in every command, and a test says so.
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_one_shape,
    help="Print one JSON document and nothing else.",
)
csv_option = click.option(
    "--csv", "as_csv", is_flag=True, callback=_one_shape, help="Print comma-separated values."
)
markdown_option = click.option(
    "--markdown", "as_markdown", is_flag=True, callback=_one_shape, help="Print a Markdown table."
)
project_option = click.option(
    "--project",
    metavar="DIR",
    callback=_where,
    help="Only sessions that worked in DIR or below it: a path, a project's name, or . for here.",
)
session_option = click.option(
    "--session", metavar="SESSION", help="Only this session: the beginning of its id, or latest."
)
since_option = when_option("--since", "Only from WHEN on: 7d, yesterday, monday, 2026-11-01 …")
until_option = when_option("--until", "Only before WHEN, which is left out itself.")
timezone_option = click.option(
    "--timezone",
    metavar="ZONE",
    is_eager=True,  # Times are read by it.
    help="Whose days they are.  [default: this machine's]",
)
offset_option = click.option(
    "--offset",
    type=Count(),
    metavar="N",
    default=0,
    show_default=True,
    help="How many to leave out first.",
)
model_option = click.option("--model", metavar="NAME", help="Only models with NAME in their name.")
poll_option = click.option(
    "--poll",
    type=float,
    metavar="SECONDS",
    help="Look every so many seconds, instead of being told of changes by the system.",
)
write_option = click.option(
    "--write", is_flag=True, help="Do it. Without this, only show what would be done."
)
force_option = click.option("--force", is_flag=True, help="Replace what exists.")


def limit_option(default: int | None = 20, told: str = "") -> Callable[[F], F]:
    """Return the option that says how many; *told* is what it is by default, if not a number."""
    return click.option(
        "--limit",
        type=Count(),
        metavar="N",
        default=default,
        show_default=default is not None,
        help="How many to show; 0 shows all." + (f"  [default: {told}]" if told else ""),
    )


def period_options(function: F) -> F:
    """Add the options that say of when and where."""
    return since_option(until_option(project_option(function)))


def page_options(function: F) -> F:
    """Add the options that say how many."""
    return limit_option()(offset_option(function))


def resolve_session(name: str | None, homes: Iterable[str]) -> str | None:
    """Return the beginning of the ids that *name* means: itself, or that of the latest session."""
    if name is None:
        return None
    from turnlog.api.arguments import resolve_session_id
    from turnlog.formats import all_homes

    return resolve_session_id(name, all_homes(tuple(homes)))


def sessions_in(project: str | None, homes: Iterable[Home]) -> set[str | None] | None:
    """Give the ids of the sessions that worked in *project* or below it; None if none is named."""
    if project is None:
        return None
    from turnlog.api.sessions import list_sessions

    found = list_sessions(tuple(homes), project=project, archived=None, limit=None)
    return {row.id for row in found.sessions}


def logs_named(
    names: Iterable[str], homes: Iterable[str], problems: list[Problem]
) -> Iterator[LogFile]:
    """Return the logs that *names* mean: files, directories, ids' beginnings or ``latest``."""
    from turnlog.formats import Home, all_homes, find_everywhere
    from turnlog.sessions.owners import find_any_session

    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from find_everywhere((Home(path),), problems=problems)
        elif path.exists() or os.sep in name or name.endswith((".jsonl", ".gz", ".zst")):
            yield log_at(path)
        else:
            yield from find_any_session(all_homes(tuple(homes)), name, problems=problems)


def log_at(path: Path) -> LogFile:
    """Describe the file at *path* as the log it is taken for."""
    from turnlog.formats import Home, LogFile, read_name
    from turnlog.storage.sources import open_regular

    os.close(open_regular(path))  # A mistake in the name is told at once, not as a finding.
    name = read_name(path.name)
    kind = name.kind if name else "session"
    return LogFile(
        path=path,
        home=Home(path.parent),
        layout="flat",
        kind=kind,
        session_id=name.id if name and kind == "session" else path.name,
        agent_id=name.id if name and kind == "subagent" else None,
        project_key=None,
        compression=name.compression if name else None,
    )


def line_cap() -> int:
    """Return the length beyond which a line is damage: what is set, or the usual one."""
    from turnlog.config import load_config
    from turnlog.formats import turnlog_home
    from turnlog.storage.sources import LINE_CAP

    config = load_config(turnlog_home())
    print_problems(config.problems)
    return config.line_cap_bytes or LINE_CAP


def redaction_rules(*, is_rest_told: bool = False) -> Rules:
    """Return the rules for secrets with what config.toml adds; tell what of it cannot be read."""
    from turnlog.config import load_config
    from turnlog.formats import turnlog_home
    from turnlog.redact import rules_from

    config = load_config(turnlog_home())
    rules, problems = rules_from(config.redact)
    print_problems(problems if is_rest_told else (*config.problems, *problems))
    return rules


def print_problems(problems: Iterable[SettingProblem]) -> None:
    """Say on stderr which settings could not be read, and where; they change nothing."""
    from turnlog.config import problem_message
    from turnlog.formats import turnlog_home

    for problem in problems:
        click.echo(f"warning: {inert(problem_message(problem, turnlog_home()))}", err=True)


def show_json(document: object) -> None:
    """Print *document* as the one JSON document of a command."""
    import msgspec

    from turnlog.text import inert_json, utf8_safe

    try:
        data = msgspec.json.encode(document, enc_hook=os.fspath)
    except UnicodeEncodeError:  # A lone surrogate in somebody's title has no UTF-8 form.
        data = msgspec.json.encode(utf8_safe(msgspec.to_builtins(document, enc_hook=os.fspath)))
    sys.stdout.buffer.write(inert_json(msgspec.json.format(data)) + b"\n")


def print_unread(problems: list[Problem], what: str) -> None:
    """Say on stderr what is not in an answer because it could not be read: it is not *what*."""
    if not problems:
        return
    from turnlog.text import inert

    path, reason, more = str(problems[0].path), problems[0].reason, len(problems) - 1
    told = reason if path in reason else f"{path}: {reason}"
    others = f" (and {more:,} more)" if more else ""
    click.echo(f"warning: not {what}: {inert(told)}{others}", err=True)
    click.echo("hint: turnlog doctor shows what cannot be read", err=True)
