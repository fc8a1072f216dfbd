"""``turnlog secrets``: which keys, tokens and passwords are in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    period_options,
    redaction_rules,
    show_json,
)

if TYPE_CHECKING:
    from turnlog.health.secrets import SecretRow, SecretsDocument

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
In config.toml:
  [redact]
  patterns = ["ORCH-[0-9]{8}"]        # what is a secret here: Python regular expressions
  allow = [                           # what is none
    "not-a-secret-1",                 # a value,
    "sha256:9f86d081884c7d65",        # sha256: and its id, as --json gives it,
    "re:^test-",                      # or a pattern that finds something in it
  ]
Exit code: 0 none was found, 1 some were, 2 a mistake in the call, 3 a failure.""",
)
@click.argument("what", required=False, type=click.Choice(["scan"]), metavar="[scan]")
@home_option
@json_option
@csv_option
@period_options
def command(
    what: str | None,  # noqa: ARG001 - There is one thing to do, and it may be named.
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    **asked: Any,
) -> int:
    """Find keys, tokens and passwords in the logs; one row for each, however often it stands.

    Known shapes of keys, private keys, bearer tokens, passwords in URLs, and values beside telling
    names. They are shown masked and stored nowhere.
    """
    from turnlog.cli.index_access import bar
    from turnlog.formats import all_homes
    from turnlog.health.secrets import scan_secrets

    rules = redaction_rules()
    with bar("looking for secrets") as progress:
        found = scan_secrets(all_homes(homes), rules=rules, progress=progress, **asked)
    if as_json:
        show_json(found)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv
        from turnlog.health.secrets import SecretRow

        show_csv(SecretRow, found.secrets)
    else:
        _show(found)
    return 1 if found.secrets else 0


def _show(found: SecretsDocument) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, size
    from turnlog.cli.terminal.output import show_table

    out = console()
    if found.secrets:
        most = max(1, (out.width - _WIDTH_BUT_SESSIONS) // 9)
        rows = [_cells(row, most) for row in found.secrets]
        has_exports = any(row.exports for row in found.secrets)
        columns = ["kind", "secret", "first", "last", "times", "sessions"]
        show_table([*columns, "exports"] if has_exports else columns, rows)
        out.print()
    read = f"{counted(found.logs, 'log')}, {size(found.size_bytes)}"
    what = counted(len(found.secrets), "secret") if found.secrets else "No secrets"
    out.print(f"[bold]{what}[/] found in {read}.", soft_wrap=True)
    if found.uncounted:
        out.print(f"[dim]{found.uncounted:,} further occurrences were too many to tell apart.[/]")
    if found.secrets:
        out.print(
            "[dim]hint: whoever has the logs has these; replace them where they were issued.\n"
            "      turnlog secrets --help tells how to allow one that is none.[/]",
            soft_wrap=True,
        )
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        click.echo(f"warning: {safe(problem)}", err=True)
    if len(found.problems) > _SHOWN_PROBLEMS:
        more = len(found.problems) - _SHOWN_PROBLEMS
        click.echo(f"warning: and {more:,} more that could not be read", err=True)


def _cells(row: SecretRow, most: int) -> dict[str, Any]:
    from turnlog.cli.terminal.console import day

    shown = row.masked.removesuffix(f"[redacted {row.kind}]")
    return {
        "kind": row.kind,
        "secret": shown or "…",
        "first": day(row.first_at),
        "last": day(row.last_at),
        "times": row.times,
        "sessions": _few([each[:8] for each in row.sessions], most),
        "exports": " ".join(each.path for each in row.exports),
    }


def _few(names: list[str], most: int) -> str:
    """Name as many as there is room for, and count the others."""
    if len(names) > most:
        names = [*names[:most], f"+{len(names) - most:,}"]
    return " ".join(names) or "-"
