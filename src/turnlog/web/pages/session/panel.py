"""The side panel: files, todos, plans, context, costs, tools and subagents, with links."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from turnlog.api.sessions.side_files import SessionFiles, TouchedFileRow, session_files
from turnlog.errors import NotFound
from turnlog.export import diffs
from turnlog.export.conversation import ToolCall, anchor_of
from turnlog.export.html.blocks import count_text, todo_list
from turnlog.export.html.charts import short
from turnlog.export.html.diff_table import diff_table
from turnlog.export.html.markdown import Highlighter, language_of
from turnlog.export.html.page import Child, Fragment, element, joined
from turnlog.pricing.money import shown
from turnlog.web.pages.session.outline import bars
from turnlog.web.pages.session.view import SessionView

_MOST_FILES: Final = 40
_MOST_EDITS: Final = 12
_MOST_TOOLS: Final = 20
_MOST_SUBAGENTS: Final = 60
_PLAN: Final = "ExitPlanMode"


def panel(view: SessionView) -> Fragment:
    """Return the content of the side panel."""
    parts = [
        ("Files changed", _files(view)),
        ("Todos", _todos(view)),
        ("Plans", _plans(view)),
        ("Context", _context(view)),
        ("Cost by turn", _costs(view)),
        ("Tools", _tools(view)),
        ("Subagents", _subagents(view)),
    ]
    drawn = [element("section", element("h2", name), body) for name, body in parts if body]
    return joined(drawn or element("p", "Nothing was changed or called.", class_="faint"))


def file_diff(view: SessionView, name: str) -> Fragment:
    """Return how a file changed during the session; *name* is a hash of its path."""
    row = next((row for row in _changed(view) if anchor_of(row.path) == name), None)
    if row is None or row.diff is None:
        return element("p", "It did not change.", class_="faint")
    text = row.diff.text
    if row.diff.problem:  # No versions were kept: the edits, one after the other.
        file = SessionFiles.of(view.reader.session).files.get(row.path)
        text = "".join(edit.patch for edit in file.edits) if file else ""
    hunks = diffs.hunks_of(view.reader.out.text(text))
    if not hunks:
        words = row.diff.problem or "Its changes are not in the logs."
        return element("p", view.reader.out.text(words), class_="faint")
    return diff_table(hunks, language_of(row.path), Highlighter())


def _changed(view: SessionView) -> list[TouchedFileRow]:
    try:
        return session_files(view.params.ctx.store.homes, view.id, diff=True).files
    except NotFound:  # Gone since it was listed.
        return []


def _files(view: SessionView) -> Child:
    found = _changed(view)
    rows = [_file(view, row) for row in found[:_MOST_FILES]]
    more = len(found) - _MOST_FILES
    note = element("p", f"and {more:,} more", class_="faint") if more > 0 else None
    return [rows, note] if rows else None


def _file(view: SessionView, row: TouchedFileRow) -> Fragment:
    added = sum(edit.added or 0 for edit in row.edits)
    removed = sum(edit.removed or 0 for edit in row.edits)
    if row.diff is not None and not row.diff.problem:
        added, removed = row.diff.added, row.diff.removed
    plus = element("span", f"+{added:,}", class_="plus")
    minus = element("span", f"\u2212{removed:,}", class_="minus")
    edits = [edit for edit in row.edits if edit.record][-_MOST_EDITS:]
    links = [
        [" ", element("a", edit.tool, href=view.url(record=edit.record, hash_="here"))]
        for edit in edits
    ]
    src = view.url("file", id=anchor_of(row.path))
    link = element("a", "Show the changes", href=src)
    folder, _, name = view.reader.out.text(row.shown).rpartition("/")
    summary = element(
        "summary",
        element("code", name),
        element("small", folder, title=folder),
        element("span", plus, " ", minus),
    )
    return element(
        "details",
        summary,
        element("p", "edited by", links, class_="edits") if links else None,
        element("div", link, data_src=src),
        class_="file",
    )


def _last_call(view: SessionView, tool: str) -> ToolCall | None:
    last = next((used.last for used in view.reader.tools() if used.tool == tool), None)
    block = view.thread.block(last) if last else None
    return block if isinstance(block, ToolCall) else None


def _todos(view: SessionView) -> Child:
    call = _last_call(view, "TodoWrite")
    todos = call.input.get("todos") if call and isinstance(call.input, dict) else None
    if call is None or not isinstance(todos, list):
        return None
    link = element("a", "where they were written", href=view.place(call.anchor))
    return [todo_list(todos), element("p", link)]


def _plans(view: SessionView) -> Child:
    call = _last_call(view, _PLAN)
    if call is None:
        return None
    plan = call.input.get("plan") if isinstance(call.input, dict) else None
    lines = plan.strip().splitlines() if isinstance(plan, str) else []
    words = lines[0].lstrip("# ")[:120] if lines else "the plan"
    return element("p", element("a", words or "the plan", href=view.place(call.anchor)))


def _context(view: SessionView) -> Child:
    turns = view.thread.outline.turns
    points = view.thread.context()
    if not points:
        return None
    drawn = bars(
        (
            (
                point.tokens,
                view.url(record=point.anchor, hash_="here"),
                f"turn {turns[point.turn].number}: {short(point.tokens)} tokens",
            )
            for point in points
        ),
        "Tokens read for each response",
    )
    words = f"{short(points[-1].tokens)} tokens now, at most {short(max(p.tokens for p in points))}"
    return [drawn, element("p", words, class_="faint")]


def _costs(view: SessionView) -> Child:
    turns = [turn for turn in view.thread.outline.turns if turn.cost_usd]
    drawn = bars(
        (
            (
                float(turn.cost_usd or 0),
                view.place(turn.anchor),
                f"turn {turn.number}: {shown(Decimal(turn.cost_usd or 0))}",
            )
            for turn in turns
        ),
        "Cost of each turn",
    )
    if drawn is None:
        return None
    dear = max(turns, key=lambda turn: Decimal(turn.cost_usd or 0))
    link = element("a", f"turn {dear.number}", href=view.place(dear.anchor))
    most = shown(Decimal(dear.cost_usd or 0))
    return [drawn, element("p", "most: ", link, f", {most}", class_="faint")]


def _tools(view: SessionView) -> Child:
    rows = []
    for used in view.reader.tools()[:_MOST_TOOLS]:
        failed = None
        if used.errors:
            words = count_text(used.errors, "error")
            failed = element("a", words, href=view.place(used.last_error), class_="bad")
        last = element("a", f"{used.calls:,}", href=view.place(used.last), title="The last call")
        rows.append(
            element(
                "tr",
                element("th", used.tool, scope="row"),
                element("td", last, class_="number"),
                element("td", failed, class_="number"),
            )
        )
    return element("table", rows) if rows else None


def _subagents(view: SessionView) -> Child:
    rows = []
    for subagent in view.reader.read.subagents[:_MOST_SUBAGENTS]:
        nodes = view.reader.read.subagent_trees[subagent.id].nodes
        clean = view.reader.out.text
        words = clean(subagent.description or subagent.kind or subagent.id)
        anchor = view.reader.calls.get(subagent.spawn.call_id) if subagent.spawn else None
        href = view.place(anchor) if anchor else view.url("agent", id=subagent.id)
        calls = count_text(sum(len(node.calls) for node in nodes), "call")
        rows.append(element("li", element("a", words, href=href), f" {calls}" if calls else None))
    return element("ul", rows) if rows else None
