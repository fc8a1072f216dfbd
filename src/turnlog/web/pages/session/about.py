"""What the index knows of a session: its tags, its pin and its copied responses; and a form."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.api.sessions.lists import IndexedSession, find_indexed
from turnlog.errors import NotFound
from turnlog.export.html.page import Child, Fragment, element, joined
from turnlog.web.layout import address, copied_responses
from turnlog.web.pages.session.view import SessionView


def about(view: SessionView) -> Child:
    """Return tags, pin and copies; with a form where they may be changed."""
    ctx = view.params.ctx
    with ctx.store.index() as index:
        try:
            row = find_indexed(index, view.id)[1]
        except NotFound:  # In no index yet.
            return None
    parts = [
        *_labels(row, view),
        element("a", "compare with another session", href=address("/compare", a=view.id)),
        None if ctx.is_read_only else _form(row, view),
    ]
    return element(
        "div",
        joined(parts),
        element("p", copied, class_="notice") if (copied := copied_responses(row)) else None,
        id="about",
    )


def _labels(row: IndexedSession, view: SessionView) -> Iterator[Child]:
    if row.pinned:
        yield element("span", "\u2605 pinned", class_="pin")
    for tag in row.tags:
        words = f"#{view.params.ctx.clean(tag)}"
        is_shown = words[1:] == tag  # A link would tell what is masked.
        yield element("a", words, href=address("/", tag=tag)) if is_shown else words


def _form(row: IndexedSession, view: SessionView) -> Fragment:
    """Return the fields; only what was changed is sent (static/labels.js)."""
    clean = view.params.ctx.clean
    # A field has one line: a title of several would look changed.
    title, tags = (" ".join(clean(text).split()) for text in (row.title, ", ".join(row.tags)))
    fields = (
        element("label", element("span", "title"), element("input", name="title", value=title)),
        element("label", element("span", "tags"), element(
            "input", name="tags", value=tags, placeholder="billing, urgent")),
        element("label", element("input", type="checkbox", name="pinned", checked=row.pinned),
                " pinned: never delete it"),
        element("button", "Save"),
        element("output"),
    )  # fmt: skip
    form = element("form", fields, data_labels=view.id, data_about=view.url("about"))
    return element("details", element("summary", "title, tags and pin"), form, class_="needs-js")
