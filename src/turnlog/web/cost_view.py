"""What the page of costs shows: the filters of its address, the figures, and narrowing links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Final, NamedTuple, cast

from msgspec import structs

from turnlog.api.arguments import shown_name
from turnlog.api.costs import (
    EMPTY,
    NAMELESS,
    CostBreakdown,
    Explanation,
    Figures,
    IndexSource,
    LedgerRow,
    Pace,
    Period,
    Question,
    ResponseRow,
    RowFilter,
    TimeStep,
    TimeUnit,
    Unit,
    UsageNames,
    breakdown,
    configured_week_start,
    explain_cost,
    filter_by_name,
    pace,
)
from turnlog.api.sessions.lists import uuids_at
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.pricing.money import shown
from turnlog.records.dates import WEEKDAYS
from turnlog.web.context import PageContext
from turnlog.web.report_strip import SWAPPED, ReportFilter

_FILTERS: Final[tuple[Unit, ...]] = ("project", "model", "subagent", "branch", "tag", "tool")
PARAMS: Final = (
    "since", "until", "project", "exact", "model", "subagent", "branch", "tag", "tool", "session",
    "time", "by", "inner", "show", "offset",
)  # fmt: skip
GROUPS: Final[dict[str, str]] = {
    "project": "project",
    "model": "model",
    "subagent": "subagent",
    "branch": "branch",
    "tag": "tag",
    "session": "session",
    "tool": "tool",
}
TIMES: Final[dict[str, str]] = {
    "": "",
    "hour": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
}
INNER: Final[dict[str, str]] = {"model": "model", "session": "session"}
_SHOWN: Final[dict[str, str]] = {"": "", "responses": "responses"}
MOST_ROWS: Final = 200
MOST_SESSIONS: Final = 20
_FEW_RESPONSES: Final = 300
"""Up to as many responses are listed without being asked for."""
PAGE: Final = 100
"""The number of responses on a page."""


class CostView(NamedTuple):
    """Everything that a page or a file of costs shows."""

    filter: ReportFilter
    found: CostBreakdown
    names: UsageNames
    pace: Pace
    behind: Explanation | None
    titles: dict[str, str]
    uuids: dict[tuple[str, int], str]

    @property
    def ctx(self) -> PageContext:
        return self.filter.params.ctx


@contextmanager
def opened_usage(ctx: PageContext) -> Iterator[IndexSource]:
    with ctx.store.index() as index:
        yield IndexSource(index, ctx.prices)


def cost_view(asked: ReportFilter, source: IndexSource, names: UsageNames) -> CostView | None:
    """Return what is asked for, or None if a field is invalid."""
    params, ctx = asked.params, asked.params.ctx
    unit = params.one_of("time", TIMES)
    group = cast("Unit", params.one_of("by", GROUPS))
    inner = cast("Unit", params.one_of("inner", INNER))
    show = params.one_of("show", _SHOWN)
    since, until = asked.period()
    only: list[RowFilter] = []
    for each in _FILTERS:
        parse = partial(filter_by_name, each, names=names, is_exact=params.is_on("exact"))
        found = asked.parse(each, parse)
        only += [found] if found else []
    if asked.problems:
        return None
    question = Question(
        by=(group,),
        zone=ctx.zone,
        week_starts=WEEKDAYS.index(configured_week_start()),
        period=Period(since=since, until=until, session=params.text("session") or None),
        only=tuple(only),
    )
    now = ctx.now()
    costs = breakdown(
        source,
        ctx.prices,
        question,
        unit=cast("TimeUnit", unit) if unit else None,
        group=group,
        inner=inner,
        now=now,
    )
    behind = None
    if show or question.period.session or costs.totals.messages <= _FEW_RESPONSES:
        behind = explain_cost(source, ctx.prices, structs.replace(question, by=()), "total")
    page = page_of(behind.rows, params.offset) if behind else []
    listed = costs.sessions[:MOST_SESSIONS]
    if group == "session":
        listed += costs.groups[:MOST_ROWS]
    if inner == "session":
        listed += costs.cells
    sessions = {name_in("session", row) for row in listed} | {row.session for row in page}
    return CostView(
        filter=asked,
        found=costs,
        names=names,
        pace=pace(source, ctx.prices, question, now=now),
        behind=behind,
        titles=source.titles(each for each in sessions if each),
        uuids=uuids_at(source.index, ((row.log, row.offset) for row in page)),
    )


def page_of(rows: Sequence[ResponseRow], offset: int) -> Sequence[ResponseRow]:
    """Return a page of responses; beyond the last one, the last."""
    offset = min(offset, last_offset(rows))
    return rows[offset : offset + PAGE]


def last_offset(rows: Sequence[ResponseRow]) -> int:
    return max(0, len(rows) - 1) // PAGE * PAGE


def instant_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


# -- links and names -------------------------------------------------------------------------


def usd_of(row: Figures) -> Decimal:
    return Decimal(row.cost_usd)


def dollars(value: float) -> str:
    return shown(Decimal(repr(value))) if value < 1e15 else f"${value:.2g}"


def name_in(unit: str, row: LedgerRow) -> str | None:
    name = getattr(row, unit)
    return name if isinstance(name, str) else None


def name_shown(view: CostView, unit: str, name: str | None) -> str:
    """Return a name for charts: short, and different from all others."""
    if unit == "session" and name:
        return view.ctx.clean(view.titles.get(name)) or name[:8]
    if unit == "project" and name:
        return view.ctx.clean(_unique_end(name, view.names.projects))
    return view.ctx.clean(shown_name(unit, name)) or "(empty)"


def _unique_end(path: str, paths: Sequence[str]) -> str:
    """Return as many of the last parts of *path* as no other path ends with."""
    parts = path.split("/")
    for number in range(1, len(parts)):
        end = "/".join(parts[-number:])
        if not any(each != path and each.endswith(f"/{end}") for each in paths):
            return end
    return path


def narrowed(view: CostView, *pairs: tuple[str, str | None], **more: str | None) -> OwnUrl:
    """Return the link to the responses in the rows with these names, grouped by something else."""
    changes: dict[str, str | None] = {"show": None, **more}
    for unit, name in pairs:
        if name is not None and view.ctx.clean(name) != name:
            continue  # The address would contain a secret.
        changes[unit] = NAMELESS if name is None else name or EMPTY
        if unit == "project":
            others = (each for each in view.names.projects if each != name)
            prefix = f"{name}/"
            changes["exact"] = "1" if any(each.startswith(prefix) for each in others) else None
    wanted = {**view.filter.values, **changes}
    if wanted.get(view.found.group):
        free = (each for each in ("project", "model", "session") if not wanted.get(each))
        changes["by"] = next(free, "session")
    return view.filter.link(**changes)


def period_of(view: CostView, step: TimeStep) -> dict[str, str | None]:
    """Return the parameters for the time of a bar."""
    zone = view.ctx.zone

    def written(at: datetime) -> str:
        local = at.astimezone(zone).replace(tzinfo=None)
        # A time that the clock shows twice, or with seconds, is written in UTC.
        if local.second or local.microsecond or local.replace(tzinfo=zone).astimezone(UTC) != at:
            return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        is_midnight = not local.hour and not local.minute
        return local.date().isoformat() if is_midnight else local.isoformat(timespec="minutes")

    return {"since": written(step.since_at), "until": written(step.until_at), "time": None}


def swap_link(words: Child, href: OwnUrl, **more: str | None) -> Fragment:
    return element("a", words, href=href, data_swap=SWAPPED, **more)
