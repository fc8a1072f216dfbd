"""Pages of files: recent edits in all sessions, the history of one file, the diff of one edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnlog.api.arguments import projects_named
from turnlog.api.files import EditDiff, FileEdit, FileEdits, edit_diff, list_edits
from turnlog.api.homes import last_part
from turnlog.api.sessions.lists import list_projects
from turnlog.api.sessions.reading import Session
from turnlog.api.sessions.side_files import shown_path
from turnlog.errors import NotFound
from turnlog.export.diffs import as_html
from turnlog.export.html.charts import count, counted
from turnlog.export.html.page import Child, Fragment, OwnUrl, element, joined
from turnlog.export.record_blocks import Unmasked
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, framed, pager
from turnlog.web.report_strip import ALL, ReportFilter

_LIMIT: Final = 50
_PARAMS: Final = ("path", "words", "project", "since", "until")
_NOTHING: Final = FileEdits(edits=[], next=None, total=0, files=0, sessions=0)


def files_page(params: Params) -> str:
    """Return recent edits of files, or with ``path`` all edits of one file."""
    ctx, asked = params.ctx, ReportFilter("/files", params, _PARAMS, usual=ALL)
    file, found = asked.values.get("path", ""), _NOTHING
    with ctx.store.index() as index:
        projects = sorted({row.path for row in list_projects(index).projects if row.path})
        chosen = asked.parse("project", lambda text: projects_named(text, projects))
        since, until = asked.period()
        if not asked.problems:
            found = list_edits(
                index,
                file=file or None,
                words=params.text("words").split(),
                projects=chosen,
                since=since,
                until=until,
                prompts=bool(file),
                mask=ctx.mask or str,
                limit=_LIMIT,
                offset=params.offset,
            )
    return framed(
        f"{last_part(ctx.clean(file))}: edits" if file else "Files",
        "Files",
        element("div", _heading(ctx.clean(file)), id="head"),
        asked.strip(
            None if file else asked.text_field("words", "words in the path", "src test.py"),
            asked.text_field("project", "project", "all", projects),
            hidden=("path",),
        ),
        element("section", _edits(found, asked), id="figures", data_live=True, aria_label="Edits"),
        styles=("costs", "files"),
    )


def _edits(found: FileEdits, asked: ReportFilter) -> Child:
    ctx, file, offset = asked.params.ctx, asked.values.get("path", ""), asked.params.offset
    if asked.problems:
        return element("p", "Correct the marked fields to see edits.", class_="note bad")
    if not found.total:
        return element("p", "No edits found.")
    if not found.edits:
        last = (found.total - 1) // _LIMIT * _LIMIT
        link = element("a", "Go to the last page", href=asked.link(offset=str(last)), rel="last")
        return element("p", f"There are only {counted(found.total, 'edit')}. ", link)
    figures = [
        counted(found.total, "edit"),
        f" of {counted(found.files, 'file')}" if not file or found.files > 1 else "",
        f" in {counted(found.sessions, 'session')}",
    ]
    return [
        element("p", figures, class_="faint"),
        element("ol", [_edit(edit, ctx, file) for edit in found.edits], class_="edits"),
        pager("/files", asked.values, offset, _LIMIT, found.next is not None),
    ]


def diff_page(params: Params) -> str:
    """Return what one edit changed; with ``part``, only the diff itself."""
    ctx, session, record = params.ctx, params.text("session"), params.text("record")
    block = params.text("block", "0")
    if not (session and record and block.isdecimal() and len(block) < 6):
        raise NotFound("there is no such edit", hint="choose one from the list of edits")
    with ctx.store.index() as index:
        diff = edit_diff(index, session, record, int(block), _masking(ctx, session))
    drawn = element("div", _diff(diff), class_="changes")
    if params.is_on("part"):
        return joined(drawn)
    place = element("a", "Show it in its session", href=_place(session, record))
    return framed("Edit", "Files", element("h1", "One edit"), element("p", place), drawn,
                  styles=("files",))  # fmt: skip


def _masking(ctx: PageContext, session: str) -> Unmasked:
    return Unmasked() if ctx.mask is None else ctx.outgoing(Session.find(ctx.store.homes, session))


def _heading(file: str) -> list[Fragment]:
    if not file:
        return [element("h1", "Files")]
    return [
        element("p", element("a", "← all files", href=OwnUrl("/files"))),
        element("h1", last_part(file)),
        element("p", element("code", file), class_="faint"),
    ]


def _edit(edit: FileEdit, ctx: PageContext, file: str) -> Fragment:
    """Return one edit; in the history of a *file*, with the prompt behind it."""
    return element(
        "li",
        element("p", _when(edit, ctx, file) if file else _path(edit, ctx), _lines(edit),
                class_="what"),
        element("p", _who(edit, ctx, file), class_="faint"),
        _prompt(edit, ctx) if file else None,
        _changes(edit),
    )  # fmt: skip


def _path(edit: FileEdit, ctx: PageContext) -> Child:
    path = ctx.clean(edit.path)
    shown = shown_path(path, ctx.clean(edit.project) or None)
    name = last_part(shown)
    # A path with a masked secret leads nowhere.
    link = address("/files", path=edit.path) if path == edit.path else None
    folder = shown.removesuffix(name).rstrip("/\\")
    return [
        element("a", element("b", name), href=link, title=path),
        [" ", element("span", folder, class_="faint")] if folder else None,
    ]


def _when(edit: FileEdit, ctx: PageContext, file: str) -> Child:
    return [
        _place_link(edit, ctx.when(edit.at) or "undated"),
        f" {ctx.clean(edit.path)}" if edit.path != file else None,
    ]


def _lines(edit: FileEdit) -> Child:
    if edit.added is None or edit.removed is None:
        return None
    return [
        [" ", element("span", f"+{count(edit.added)}", class_="added")],
        [" ", element("span", f"-{count(edit.removed)}", class_="removed")],
    ]


def _who(edit: FileEdit, ctx: PageContext, file: str) -> Child:
    title = ctx.clean(edit.title) or (f"session {edit.session[:8]}" if edit.session else "")
    facts: list[Child] = [
        _place_link(edit, title) if title else None,
        ctx.project_name(edit.project),
        None if file else ctx.when(edit.at),
        ctx.clean(edit.tool),
        f"subagent {ctx.clean(edit.subagent)}" if edit.subagent else None,
    ]
    known = [fact for fact in facts if fact]
    return [[" · " if number else None, fact] for number, fact in enumerate(known)]


def _prompt(edit: FileEdit, ctx: PageContext) -> Fragment | None:
    if not edit.prompt:
        return None
    said = ctx.clean(edit.prompt)
    if edit.session and edit.prompt_record:
        return element(
            "blockquote", element("a", said, href=_place(edit.session, edit.prompt_record))
        )
    return element("blockquote", said)


def _changes(edit: FileEdit) -> Fragment | None:
    """Return the folded diff, which is loaded when it is opened."""
    if not edit.session or not edit.record:
        return None
    asked: dict[str, str | int] = {
        "session": edit.session,
        "record": edit.record,
        "block": edit.block,
    }
    link = element("a", "Show the changes", href=address("/files/diff", **asked))
    return element(
        "details",
        element("summary", "Changes"),
        element("div", link, data_src=address("/files/diff", **asked, part="1")),
    )


def _diff(diff: EditDiff) -> list[Fragment]:
    if diff.hunks is None:
        return [element("p", "The log does not say what was changed.")]
    parts = [element("div", as_html(diff.hunks), class_="scroll", tabindex="0", role="region",
                     aria_label="Changes")]  # fmt: skip
    if diff.unlisted:
        parts.append(element("p", f"{counted(diff.unlisted, 'more line')} not shown"))
    return parts


def _place(session: str, record: str) -> OwnUrl:
    """Return the URL of a record in its session."""
    return address(f"/session/{session}", record=record)


def _place_link(edit: FileEdit, words: str) -> Child:
    if edit.session is None:
        return words
    link = _place(edit.session, edit.record) if edit.record else address(f"/session/{edit.session}")
    return element("a", words, href=link)


ROUTES: Final[dict[str, Callable[[Params], str]]] = {
    "/files": files_page,
    "/files/diff": diff_page,
}
