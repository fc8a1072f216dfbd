"""``turnlog secrets``: which keys, tokens and passwords are in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import home_option, json_option, show_json, tell_problems

if TYPE_CHECKING:
    from turnlog.questions.secrets import SecretRow, SecretsDocument
    from turnlog.redact import Rules

_SHOWN_PROBLEMS = 5
_WIDTH_BUT_SESSIONS = 76


@click.command(
    name="secrets",
    epilog="""\b
Examples:
  turnlog secrets scan                all logs of all sessions
  turnlog secrets scan --since 7d     only what was said since
  turnlog secrets scan --project .    only sessions of this project
  turnlog secrets scan --json         with every session, log and export
Exit code: 0 none was found, 1 some were, 2 a mistake in the call, 3 a failure.""",
)
@click.argument("what", required=False, type=click.Choice(["scan"]), metavar="[scan]")
@home_option
@json_option
@click.option("--project", metavar="DIR", help="Only sessions that worked in DIR or below it.")
@click.option("--since", metavar="WHEN", help="7d, yesterday, 2026-11-01: only what came after.")
def command(
    what: str | None,  # noqa: ARG001 - There is one thing to do, and it may be named.
    homes: tuple[str, ...],
    *,
    as_json: bool,
    project: str | None,
    since: str | None,
) -> int:
    """Find keys, tokens and passwords in the logs; one row for each, however often it stands.

    Known shapes of keys, private keys, bearer tokens, passwords in URLs, and values beside telling
    names. They are shown masked and stored nowhere. Patterns of your own, and what is none, go
    into config.toml under [redact].
    """
    from turnlog.cli.indexed import bar, moment_here
    from turnlog.layout import all_homes
    from turnlog.questions.secrets import scan_secrets

    rules = rules_set()
    with bar("looking for secrets") as progress:
        found = scan_secrets(
            all_homes(homes),
            rules=rules,
            project=project,
            since=moment_here(since),
            progress=progress,
        )
    if as_json:
        show_json(found)
    else:
        _show(found)
    return 1 if found.secrets else 0


def rules_set() -> Rules:
    """Give the rules that config.toml adds, and say on stderr which could not be read."""
    from turnlog.config import load_config
    from turnlog.layout import turnlog_home
    from turnlog.redact import rules_from

    config = load_config(turnlog_home())
    rules, problems = rules_from(config.redact)
    tell_problems((*config.problems, *problems))
    return rules


def _show(found: SecretsDocument) -> None:
    from turnlog.cli.query_shown import show_table
    from turnlog.cli.terminal import console, counted, safe, size

    out = console()
    if found.secrets:
        most = max(1, (out.width - _WIDTH_BUT_SESSIONS) // 9)
        rows = [_cells(row, most) for row in found.secrets]
        has_exports = any(row.exports for row in found.secrets)
        columns = ["kind", "secret", "first", "last", "times", "sessions"]
        show_table([*columns, "exports"] if has_exports else columns, rows)
        out.print()
    read = f"{counted(found.logs, 'log')}, {size(found.size_bytes)}"
    out.print(f"[bold]{counted(len(found.secrets), 'secret')}[/] in {read}.", soft_wrap=True)
    if found.uncounted:
        out.print(f"[dim]{found.uncounted:,} further occurrences were too many to tell apart.[/]")
    if found.secrets:
        out.print(
            "[dim]hint: whoever has the logs has these; replace them where they were issued.\n"
            "      docs/secrets.md tells how to allow one that is none.[/]",
            soft_wrap=True,
        )
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        click.echo(f"warning: {safe(problem)}", err=True)
    if len(found.problems) > _SHOWN_PROBLEMS:
        more = len(found.problems) - _SHOWN_PROBLEMS
        click.echo(f"warning: and {more:,} more that could not be read", err=True)


def _cells(row: SecretRow, most: int) -> dict[str, Any]:
    shown = row.masked.removesuffix(f"[redacted {row.kind}]")
    return {
        "kind": row.kind,
        "secret": shown or "…",
        "first": _day(row.first_at),
        "last": _day(row.last_at),
        "times": row.times,
        "sessions": _few([each[:8] for each in row.sessions], most),
        "exports": " ".join(each.path for each in row.exports),
    }


def _few(names: list[str], most: int) -> str:
    """Name as many as there is room for, and count the others."""
    if len(names) > most:
        names = [*names[:most], f"+{len(names) - most:,}"]
    return " ".join(names) or "-"


def _day(at: Any) -> str:
    return "" if at is None else f"{at.astimezone():%Y-%m-%d}"
