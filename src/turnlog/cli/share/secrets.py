"""``turnlog secrets``: find API keys, tokens and passwords in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import period_options, redaction_rules, report_options
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from turnlog.api.health.secrets import SecretRow, SecretsDocument

_SHOWN_PROBLEMS = 5
_WIDTH_BUT_SESSIONS = 76


@click.command(
    name="secrets",
    epilog="""\b
Examples:
  turnlog secrets scan                scan all logs
  turnlog secrets scan --since 7d     only records of the last 7 days
  turnlog secrets scan --project .    only sessions of this project
  turnlog secrets scan --json         include all sessions, logs and exports
In config.toml:
  [redact]
  patterns = ["ORCH-[0-9]{8}"]        # more secrets: regular expressions
  allow = [                           # false positives:
    "not-a-secret-1",                 # a value,
    "sha256:9f86d081884c7d65",        # sha256: and the id from --json,
    "re:^test-",                      # or a regular expression
  ]
Exit codes: 0 no secrets, 1 secrets found, 2 usage error, 3 failure.""",
)
@click.argument("what", required=False, type=click.Choice(["scan"]), metavar="[scan]")
@report_options
@period_options
def command(
    what: str | None,  # noqa: ARG001 - The only action, and the default.
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    **filters: Any,
) -> int:
    """Find API keys, tokens and passwords in the logs, and list each once.

    Detects known key formats, private keys, bearer tokens, passwords in URLs, and values of fields
    with names such as "password". Secrets are printed masked and are not stored.
    """
    from turnlog.api.health.secrets import SecretRow, scan_secrets
    from turnlog.api.homes import all_homes
    from turnlog.cli.terminal.console import bar

    rules = redaction_rules()
    with bar("scanning for secrets") as progress:
        found = scan_secrets(all_homes(homes), rules=rules, progress=progress, **filters)
    if not show_data(found, SecretRow, found.secrets, as_json=as_json, as_csv=as_csv):
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
        out.print(f"[dim]{found.uncounted:,} more occurrences were not analyzed.[/]")
    if found.secrets:
        out.print(
            "[dim]hint: revoke these secrets where they were issued.\n"
            "      turnlog secrets --help explains how to ignore false positives.[/]",
            soft_wrap=True,
        )
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        click.echo(f"warning: {safe(problem)}", err=True)
    if len(found.problems) > _SHOWN_PROBLEMS:
        more = len(found.problems) - _SHOWN_PROBLEMS
        click.echo(f"warning: {more:,} more could not be read", err=True)


def _cells(row: SecretRow, most: int) -> dict[str, Any]:
    from turnlog.cli.terminal.console import day

    shown = row.masked.removesuffix(f"[redacted {row.kind}]")
    return {
        "kind": row.kind,
        "secret": shown or "…",
        "first": day(row.first_at),
        "last": day(row.last_at),
        "times": row.times,
        "sessions": _few([session[:8] for session in row.sessions], most),
        "exports": " ".join(export.path for export in row.exports),
    }


def _few(names: list[str], most: int) -> str:
    """Join the first *most* names and the number of the others."""
    if len(names) > most:
        names = [*names[:most], f"+{len(names) - most:,}"]
    return " ".join(names) or "-"
