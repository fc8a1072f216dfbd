"""``turnlog plans``: what was agreed before it was done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    session_option,
    sessions_in,
    show_json,
)
from turnlog.records.dates import is_between

if TYPE_CHECKING:
    from turnlog.sessions.side_files.plans import Plan, PlanVersion


class PlanSession(Struct, kw_only=True):
    """A session that a plan seems to belong to, and what hints at it: path, content or slug."""

    id: str
    hint: str


class PlanVersionRow(Struct, kw_only=True):
    """One text that a plan had; *text* is null in a list of plans."""

    sha256: str
    title: str | None
    at: datetime | None
    origin: str
    session: str | None
    size_bytes: int
    text: str | None


class PlanRow(Struct, kw_only=True):
    """A plan, its versions, oldest first, and its sessions. No *path*: the file is gone."""

    name: str | None
    title: str | None
    changed_at: datetime | None
    versions: list[PlanVersionRow]
    sessions: list[PlanSession]
    problem: str | None
    path: str | None
    home: str | None


class PlansDocument(Struct, kw_only=True):
    """What `turnlog plans --json` prints."""

    plans: list[PlanRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int


@click.command(
    name="plans",
    epilog="""\b
Examples:
  turnlog plans                    the plans that changed last
  turnlog plans --session latest   those that seem to belong to one session
  turnlog plans calm-river         one plan, its versions and its sessions
  turnlog plans calm-river --version 3fa9     the text it had then
Exit code: 0 done, 1 nothing was found or a file could not be read, 2 a mistake, 3 a failure.""",
)
@click.argument("name", metavar="[NAME]", required=False)
@home_option
@json_option
@csv_option
@period_options
@session_option
@click.option("--version", "digest", metavar="SHA256", help="Show this version's text only.")
@page_options
def command(
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    project: str | None,
    since: datetime | None,
    until: datetime | None,
    session: str | None,
    digest: str | None,
    limit: int,
    offset: int,
) -> int:
    """List plans, or show the one whose name begins with NAME. Nothing is changed.

    Which sessions a plan belongs to is nowhere recorded; each is shown with what hints at it.
    --since and --until go by when a plan changed last.
    """
    from turnlog.errors import UsageError
    from turnlog.formats import all_homes
    from turnlog.sessions.owners import find_any_session
    from turnlog.sessions.side_files.plans import find_plans, with_kept_versions

    if digest is not None and name is None:
        raise UsageError("--version needs a plan", hint="name it: turnlog plans NAME --version …")
    found_homes = all_homes(homes)
    plans = [each for each in find_plans(found_homes) if is_between(each.changed_at, since, until)]
    wanted = sessions_in(project, found_homes)
    if session is not None:
        one = find_any_session(found_homes, session)[0].session_id
        wanted = {one} if wanted is None else wanted & {one}
    if wanted is not None:
        plans = [each for each in plans if any(link.session_id in wanted for link in each.sessions)]
    first = offset if name is None else 0
    end = first + limit if limit and name is None else len(plans)
    if name is not None:
        plans = [with_kept_versions(_only(plans, name), found_homes)]
        end = 1
    document = PlansDocument(
        plans=[_row(each, texts=name is not None) for each in plans[first:end]],
        next=end if end < len(plans) else None,
        total=len(plans),
    )
    if digest is not None:
        document.plans[0].versions = [_version(document.plans[0], digest)]
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(PlanRow, document.plans, more=document.next)
    elif name is not None:
        _show_one(document.plans[0], plans[0].text, only_text=digest is not None)
    else:
        narrowed = {"project": project, "since": since, "until": until, "session": session}
        _show(document, homes, narrowed)
    return 1 if not document.plans or any(row.problem for row in document.plans) else 0


def _only(plans: list[Plan], name: str) -> Plan:
    from turnlog.errors import NotFound, UsageError

    same = [each for each in plans if each.name == name]
    found = same or [each for each in plans if (each.name or each.title or "").startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"no plan's name begins with {name[:80]!r}", hint="turnlog plans lists them")
    places = ", ".join(each.path or each.name or "?" for each in found[:5])
    raise UsageError(f"{name!r} begins {len(found)} plans: {places}", hint="give more of the name")


def _version(row: PlanRow, digest: str) -> PlanVersionRow:
    from turnlog.errors import NotFound

    found = [each for each in row.versions if digest and each.sha256.startswith(digest.lower())]
    if len(found) != 1:
        many = "several versions" if found else "no version"
        raise NotFound(f"{many} begin with {digest[:80]!r}", hint="turnlog plans NAME lists them")
    return found[0]


def _row(plan: Plan, *, texts: bool) -> PlanRow:
    return PlanRow(
        name=plan.name,
        title=plan.title,
        changed_at=plan.changed_at,
        versions=[_version_row(each, texts=texts) for each in plan.versions],
        sessions=[PlanSession(id=each.session_id, hint=each.hint.value) for each in plan.sessions],
        problem=plan.problem,
        path=plan.path,
        home=plan.home,
    )


def _version_row(version: PlanVersion, *, texts: bool) -> PlanVersionRow:
    return PlanVersionRow(
        sha256=version.sha256,
        title=version.title,
        at=version.at,
        origin=version.origin.value,
        session=version.session_id,
        size_bytes=len(version.text.encode()),
        text=version.text if texts else None,
    )


def _show(found: PlansDocument, homes: tuple[str, ...], asked: dict[str, Any]) -> None:
    from turnlog.cli.terminal.console import age, console
    from turnlog.cli.terminal.output import show_table

    out = console()
    if not found.plans:
        from turnlog.cli.terminal.empty_results import print_nothing_found

        print_nothing_found("plans", homes, asked, hint="an agent writes one in its plan mode")
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
        for row in found.plans
    ]
    has_notes = any(row["note"] for row in rows)
    show_table([*rows[0]] if has_notes else [*rows[0]][:-1], rows)
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")


def _show_one(row: PlanRow, text: str | None, *, only_text: bool) -> None:
    from turnlog.cli.terminal.console import console, safe, safe_text, short_path, titled, when

    out = console()
    if only_text:
        out.print(safe_text(row.versions[0].text or ""))
        return
    out.print(f"[bold]{titled(row.title)}[/]")
    out.print(f"[dim]{short_path(row.path) if row.path else 'its file is gone'}[/]\n")
    for each in row.sessions:
        out.print(f" [bold]{'session':<10}[/]{safe(each.id)} [dim]by {safe(each.hint)}, a hint[/]")
    for version in row.versions:
        at = when(version.at) or "?"
        out.print(f" [bold]{'version':<10}[/]{version.sha256[:12]} {at} [dim]{version.origin}[/]")
    if row.problem:
        out.print(f" [red]✗[/] {safe(row.problem)}")
    if text is not None:
        out.print(f"\n{safe_text(text)}")
