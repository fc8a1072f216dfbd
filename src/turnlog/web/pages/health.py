"""The page of health: findings with their commands, deletions to come, what is kept, where."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from turnlog.api.health.doctor import DoctorFinding, Example
from turnlog.api.health.summary import HealthSummary, SessionGroup, health_summary
from turnlog.export.html.charts import count, counted
from turnlog.export.html.insights_page import card
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, choice, framed

_AHEAD: Final[dict[str, str]] = {
    "7": "the next 7 days",
    "30": "the next 30 days",
    "365": "the next year",
}
_SHOWN: Final = 4
_MOST_LOSSES: Final = 100
_SECTIONS: Final = (
    ("act", "Act now", "bad"),
    ("look", "Worth a look", "warn"),
    ("note", "Good to know", "faint"),
)
_RUNNERS: Final = {"claude": "when a session ends", "none": "every hour"}
_KEEPING: Final = {
    "live": "",
    "kept": "kept",
    "gone": "no copy",
    "restorable": "restorable",
}


def health_page(params: Params) -> str:
    """Return the state of everything; with ``all``, check all logs first."""
    ctx = params.ctx
    ahead = params.one_of("days", _AHEAD)
    found = health_summary(
        ctx.store.homes,
        now=ctx.now(),
        everything=params.is_on("all"),
        within_days=int(ahead),
    )
    return framed(
        "Health",
        "Health",
        element("h1", "Health"),
        element("div", list(_cards(found)), class_="cards"),
        _section("findings", "Findings", _findings(found, ctx)),
        _section("deletions", "About to be deleted", _losses(found, ctx, ahead, params)),
        _section("copies", "Kept copies", _kept(found, ctx)),
        _section("restorable", "Restorable", _restorable(found, ctx)),
        _section("places", "Index and files", _places(found, ctx)),
        styles=("health",),
    )


def _section(name: str, title: str, body: Child) -> Fragment:
    head = element("h2", title, id=f"{name}-title")
    return element("section", head, body, id=name, aria_labelledby=f"{name}-title")


def _cards(found: HealthSummary) -> Iterator[Fragment]:
    urgent = sum(each.urgency == "act" for each in found.checkup.findings)
    yield card(count(urgent), "to act on now")
    unkept = sum(not loss.is_kept for loss in found.keep.losses)
    yield card(count(unkept), "about to be deleted without a copy")
    yield card(count(sum(home.sessions for home in found.keep.homes)), "sessions kept")
    yield card(count(len(found.trash.entries)), "in the trash")


# -- findings -------------------------------------------------------------------------------


def _findings(found: HealthSummary, ctx: PageContext) -> Iterator[Child]:
    checkup = found.checkup
    for urgency, title, kind in _SECTIONS:
        listed = [each for each in checkup.findings if each.urgency == urgency]
        if listed:
            yield element("h3", title, class_=kind)
            yield element("ul", [_finding(each, ctx) for each in listed], class_="findings")
    for check in checkup.checks:
        if check.problem:
            yield element(
                "p", f"Could not check {check.looks_at}: {ctx.clean(check.problem)}",
                class_="note bad",
            )  # fmt: skip
    if not checkup.findings:
        yield element("p", "No problems found.", class_="good")
    passed = [each.looks_at for each in checkup.checks if not each.findings and not each.problem]
    if passed:
        yield element("p", f"Nothing found: {', '.join(passed)}.", class_="faint")
    if found.is_complete:
        words = f"All {counted(checkup.logs, 'log')} were checked."
    else:
        damage = (
            f" {counted(found.damaged, 'session')} known to have damage." if found.damaged else ""
        )
        words = f"Logs were not read.{damage} "
    yield element(
        "p",
        words,
        None
        if found.is_complete
        else element("a", "Check all logs", href=address("/health", all=1), class_="button"),
        f" Nothing is changed. {ctx.when(checkup.checked_at)}",
        class_="faint",
    )


def _finding(finding: DoctorFinding, ctx: PageContext) -> Fragment:
    first, rest = finding.examples[:_SHOWN], finding.examples[_SHOWN:]
    listed = [element("ul", [_example(each, finding, ctx) for each in first])]
    if rest or finding.unlisted:
        more = f"{counted(len(rest) + finding.unlisted, 'more case')}"
        unlisted = f"{counted(finding.unlisted, 'case')} not listed" if finding.unlisted else None
        listed.append(
            element(
                "details",
                element("summary", more),
                element("ul", [_example(each, finding, ctx) for each in rest]),
                element("p", unlisted) if unlisted else None,
            )
        )
    return element(
        "li",
        element("p", ctx.clean(finding.message), class_="message"),
        _command(finding.command, ctx) if finding.mends_all else None,
        listed,
    )


def _example(example: Example, finding: DoctorFinding, ctx: PageContext) -> Fragment:
    detail = ctx.clean(example.detail)
    if example.session:
        words = ctx.clean(example.title) or f"session {example.session[:8]}"
        what: Child = element("a", words, href=address(f"/session/{example.session}"))
    else:
        what = element("code", ctx.clean(example.path))
    own = example.command if not finding.mends_all else None
    return element("li", what, f" {detail}", _command(own, ctx) if own else None)


def _command(command: str, ctx: PageContext) -> Fragment | None:
    """Return a command with a button that copies it."""
    text = ctx.clean(command)
    if not text:
        return None
    copy = element("button", "Copy", type="button", data_copy=text, class_="needs-js",
                   aria_label=f"Copy {text}")  # fmt: skip
    return element("p", element("code", text), " ", copy, class_="command")


# -- what is deleted, kept and restorable ---------------------------------------------------


def _losses(found: HealthSummary, ctx: PageContext, ahead: str, params: Params) -> Iterator[Child]:
    periods = {home.cleanup_days for home in found.keep.homes if home.cleanup_days is not None}
    if periods:
        days = " or ".join(map(str, sorted(periods)))
        yield element("p", f"Claude Code deletes sessions that did not change for {days} days.")
    yield element(
        "form",
        element("input", type="hidden", name="all", value="1") if params.is_on("all") else None,
        element("label", "Look ahead: ", choice("days", ahead, "how far", list(_AHEAD.items()))),
        element("button", "Show"),
        action=OwnUrl("/health"),
        class_="asked",
    )
    losses = found.keep.losses
    if not losses:
        yield element("p", f"Nothing is deleted within {_AHEAD[ahead]}.")
        return
    if not all(loss.is_kept for loss in losses):
        yield _command(_with_homes("turnlog keep", found), ctx)
    rows = [
        element(
            "tr",
            _time("deleted", None if loss.is_due else loss.deleted_at, ctx, "at the next start"),
            _cell("session", _session_link(loss.id, loss.title, ctx)
                  if loss.kind == "session" else f"subagent log {loss.id[:8]}"),
            _cell("size", _size(loss.size_bytes), is_number=True),
            _cell("copy", "kept" if loss.is_kept else element("b", "no copy", class_="bad")),
        )
        for loss in losses[:_MOST_LOSSES]
    ]  # fmt: skip
    yield _table(("deleted", "session", "size", "copy"), rows, numbers=("size",))
    if len(losses) > _MOST_LOSSES:
        yield element("p", f"{counted(len(losses) - _MOST_LOSSES, 'more')} not shown")


def _kept(found: HealthSummary, ctx: PageContext) -> Iterator[Child]:
    rows = [
        element(
            "tr",
            _cell("home", element("code", ctx.clean(home.home)),
                  None if home.is_there else " (gone)"),
            _cell("sessions", count(home.sessions), is_number=True),
            _cell("gone at the source", count(home.gone), is_number=True),
            _cell("size", _size(home.packed_bytes), is_number=True),
            _cell("changed since", counted(home.behind_sessions, "session"), is_number=True),
            _time("last run", home.last_run_at, ctx, "never"),
        )
        for home in found.keep.homes
    ]  # fmt: skip
    heads = ("home", "sessions", "gone at the source", "size", "changed since", "last run")
    yield _table(heads, rows, numbers=heads[1:5])
    for installed in found.keep.installed:
        state = {"installed": "runs", "refused": f"cannot run: {installed.reason}"}.get(
            installed.state, "does not run"
        )
        runner = _RUNNERS.get(installed.kind, installed.kind)
        words = f"{runner}: turnlog keep {state}"
        yield element("p", ctx.clean(words), class_="faint")
    if any(each.state in ("missing", "outdated") for each in found.keep.installed):
        yield element("p", "Keep sessions automatically:")
        yield _command(_with_homes("turnlog hooks install keep", found), ctx)
    if any(home.behind_sessions for home in found.keep.homes):
        yield element("p", "Keep what changed:")
        yield _command(_with_homes("turnlog keep", found), ctx)
    for problem in found.keep.problems:
        yield element("p", ctx.clean(problem), class_="note")


def _restorable(found: HealthSummary, ctx: PageContext) -> Iterator[Child]:
    yield element("h3", f"Gone at their source: {count(found.gone.total)}")
    yield _sessions(found.gone, found, ctx)
    yield element("h3", f"Archived: {count(found.archived.total)}")
    yield _sessions(found.archived, found, ctx)
    yield element("h3", f"In the trash: {count(len(found.trash.entries))}")
    rows = [
        element(
            "tr",
            _cell("session", ctx.clean(entry.title) or f"session {entry.session[:8]}"),
            _time("deleted", entry.deleted_at, ctx),
            _time("kept until", entry.purge_after_at, ctx),
            _cell("size", _size(entry.size_bytes), is_number=True),
            _cell("restore", _command(f"turnlog trash restore {entry.session[:8]}", ctx)),
        )
        for entry in found.trash.entries[:_MOST_LOSSES]
    ]
    if rows:
        heads = ("session", "deleted", "kept until", "size", "restore")
        yield _table(heads, rows, numbers=("size",))
    for problem in found.trash.problems:
        yield element("p", ctx.clean(f"{problem.path}: {problem.reason}"), class_="note bad")


def _sessions(group: SessionGroup, found: HealthSummary, ctx: PageContext) -> Child:
    rows = [
        element(
            "tr",
            _cell("session", _session_link(row.id, row.title, ctx)),
            _cell("project", ctx.project_name(row.project)),
            _time("last active", row.last_active_at, ctx),
            _cell("copy", _KEEPING[row.keeping] if row.path else "only logs of subagents"),
            _cell(
                "restore",
                _command(_with_homes(f"turnlog restore {row.id[:8]}", found), ctx)
                if row.archived or row.keeping == "restorable"
                else "",
            ),
        )
        for row in group.sessions
    ]
    heads = ("session", "project", "last active", "copy", "restore")
    more = group.total - len(rows)
    return [
        _table(heads, rows) if rows else None,
        element("p", f"{count(more)} more: ", element("code", "turnlog restore")) if more else None,
    ]


# -- places ---------------------------------------------------------------------------------


def _places(found: HealthSummary, ctx: PageContext) -> Iterator[Child]:
    checkup, facts = found.checkup, found.index
    yield element(
        "dl",
        [_fact("home", element("code", ctx.clean(home))) for home in checkup.homes],
        _fact("sessions", f"{count(checkup.sessions)} in {counted(checkup.logs, 'log')},"
                          f" {_size(checkup.size_bytes)}"),
        _fact("index", element("code", ctx.clean(facts.path)),
              f" {_size(facts.size_bytes)}, {counted(facts.logs, 'log')},"
              f" {counted(facts.records, 'record')}, made by turnlog {facts.made_by}")
        if facts
        else _fact("index", "cannot be read"),
        _fact("turnlog", element("code", ctx.clean(found.footprint.data_directory)),
              f" {_size(found.footprint.size_bytes)}"),
        class_="places",
    )  # fmt: skip
    rows = [
        element(
            "tr",
            _cell("file", element("code", ctx.clean(file.path))),
            _cell("what", ctx.clean(file.what)),
            _cell("size", _size(file.size_bytes) if file.size_bytes is not None else "",
                  is_number=True),
            _cell("remove", _command(file.remove, ctx)),
        )
        for file in found.footprint.files
    ]  # fmt: skip
    if rows:
        table = _table(("file", "what", "size", "remove"), rows, numbers=("size",))
        yield element(
            "details", element("summary", "What turnlog made, and how to remove it"), table
        )


def _fact(name: str, *words: Child) -> list[Fragment]:
    return [element("dt", name), element("dd", words)]


def _table(heads: tuple[str, ...], rows: list[Fragment], numbers: tuple[str, ...] = ()) -> Fragment:
    top = [element("th", each, class_="number" if each in numbers else None, scope="col")
           for each in heads]  # fmt: skip
    return element(
        "table", element("thead", element("tr", top)), element("tbody", rows), class_="stacked"
    )


def _cell(name: str, *children: Child, is_number: bool = False) -> Fragment:
    """Return a cell; on a phone, its *name* is shown before it."""
    return element("td", children, data_name=name, class_="number" if is_number else None)


def _time(name: str, at: datetime | None, ctx: PageContext, otherwise: str = "") -> Fragment:
    return element("td", ctx.when(at) or otherwise, data_name=name, class_="time")


def _session_link(session: str, title: str | None, ctx: PageContext) -> Fragment:
    words = ctx.clean(title) or f"session {session[:8]}"
    return element("a", words, href=address(f"/session/{session}"))


def _with_homes(command: str, found: HealthSummary) -> str:
    """Return *command* for the homes of this server."""
    return " ".join([command, *(f"--home {shlex.quote(home)}" for home in found.named)])


def _size(size_bytes: int) -> str:
    """Format a size."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


ROUTES: Final[dict[str, Callable[[Params], str]]] = {"/health": health_page}
