"""``turnlog plans``: the plans that agents wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import page_options, period_options, report_options, session_option
from turnlog.cli.terminal.console import age, console, safe, safe_text, short_path, titled, when
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data, show_more, show_table

if TYPE_CHECKING:
    from turnlog.api.sessions.side_files import PlanRow, PlansDocument


@click.command(
    name="plans",
    epilog="""\b
Examples:
  turnlog plans                     the plans that changed last
  turnlog plans --session latest    plans of one session
  turnlog plans calm-river          one plan, its versions and its sessions
  turnlog plans calm-river --at v1  the text of one version
Exit codes: 0 success, 1 nothing found or unreadable files,
2 usage error, 3 failure.""",
)
@click.argument("name", metavar="[NAME]", required=False)
@report_options
@period_options
@session_option
@click.option("--at", metavar="vN", help="Show only the text of version N.")
@page_options
def command(
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    at: str | None,
    limit: int,
    offset: int,
    **filters: Any,
) -> int:
    """List plans, or show the plan whose name starts with NAME.

    No record links a plan to its sessions: each is listed with the reason it was matched. --since
    and --until filter by a plan's last change.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.side_files import PlanRow, find_plan, list_plans
    from turnlog.errors import UsageError

    if name is None and at is not None:
        raise UsageError("--at needs a plan", hint="name it: turnlog plans NAME --at v1")
    places, text = all_homes(homes), None
    if name is None:
        document = list_plans(places, limit=limit, offset=offset, **filters)
    else:
        document, text = find_plan(places, name, at, **filters)
    if not show_data(document, PlanRow, document.plans, as_json=as_json, as_csv=as_csv):
        if name is None:
            _show(document, homes, filters)
        else:
            _show_one(document.plans[0], text, only_text=at is not None)
    return 1 if not document.plans or any(row.problem for row in document.plans) else 0


def _show(document: PlansDocument, homes: tuple[str, ...], filters: dict[str, Any]) -> None:
    if not document.plans:
        print_nothing_found("plans", homes, filters, hint="agents write them in plan mode")
        return
    now = datetime.now(UTC)
    rows = [
        {
            "changed": age(now, row.changed_at),
            "name": row.name or "?",
            "title": row.title or "untitled",
            "versions": len(row.versions),
            "sessions": len(row.sessions),
            "note": row.problem or ("" if row.path else "file gone"),
        }
        for row in document.plans
    ]
    has_notes = any(row["note"] for row in rows)
    show_table([*rows[0]] if has_notes else [*rows[0]][:-1], rows)
    show_more(console(), document)


def _show_one(row: PlanRow, text: str | None, *, only_text: bool) -> None:
    out = console()
    if only_text:
        out.print(safe_text(row.versions[0].text or ""))
        return
    out.print(f"[bold]{titled(row.title)}[/]")
    out.print(f"[dim]{short_path(row.path) if row.path else 'file gone'}[/]\n")
    for session in row.sessions:
        reason = f"[dim]matched by {safe(session.hint)}[/]"
        out.print(f" [bold]{'session':<10}[/]{safe(session.id)} {reason}")
    for number, version in enumerate(row.versions, 1):
        at = when(version.at) or "?"
        out.print(f" [bold]{'version':<10}[/]v{number} {at} [dim]{version.origin}[/]")
    if row.problem:
        out.print(f" [red]✗[/] {safe(row.problem)}")
    if text is not None:
        out.print(f"\n{safe_text(text)}")
