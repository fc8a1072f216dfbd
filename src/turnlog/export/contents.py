"""The page that leads to several exported sessions: a list, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from turnlog.export.conversation import Head
from turnlog.export.html.page import Fragment, element, escaped, page
from turnlog.export.markdown import plain

_CSS: Final = """
td.title a { color: inherit; font-weight: 600; text-decoration-color: var(--line); }
td.title a:hover { color: var(--accent); }
td.when { white-space: nowrap; }
"""


class Listed(Struct, kw_only=True):
    """A session and the file that it was written to."""

    file: str
    session: Head
    turns: int


class ContentsDocument(Struct, kw_only=True):
    """What ``index.json`` of several exported sessions holds."""

    sessions: list[Listed]


def newest_first(listed: Sequence[Listed]) -> list[Listed]:
    """Sort sessions by when they were active last."""
    return sorted(listed, key=lambda each: str(each.session.last_active_at or ""), reverse=True)


def contents_page(listed: Sequence[Listed]) -> str:
    """Return the list as a page."""
    heads = ("session", "project", "when", "turns", "tokens", "cost")
    numbers = ("turns", "tokens", "cost")
    top = element("tr", [element("th", head, class_=_class(head, numbers)) for head in heads])
    rows = []
    for each in listed:
        head = each.session
        # Into the same directory, which no other address of a page leads to.
        title = Fragment(f'<a href="./{escaped(each.file)}">{escaped(head.title or head.id)}</a>')
        cells = [
            element("td", title, class_="title"),
            element("td", head.project or "", class_="faint"),
            element("td", _when(head), class_="faint when"),
            element("td", f"{each.turns:,}", class_="number"),
            element("td", f"{head.figures.tokens:,}", class_="number"),
            element("td", head.figures.cost, class_="number"),
        ]
        rows.append(element("tr", cells))
    table = element("div", element("table", top, rows), class_="scroll")
    count = f"{len(listed):,} session" + ("s" if len(listed) != 1 else "")
    return page("Sessions", [element("h1", count), table], css=_CSS)


def contents_markdown(listed: Sequence[Listed]) -> str:
    """Return the list as Markdown."""
    lines = ["# Sessions", ""]
    for each in listed:
        head = each.session
        told = (_when(head), f"{each.turns:,} turns", head.figures.cost)
        facts = ", ".join(fact for fact in told if fact)
        lines.append(f"- [{plain(head.title or head.id)}](./{each.file}) ({facts})")
    return "\n".join(lines) + "\n"


def _when(head: Head) -> str:
    return f"{head.last_active_at:%Y-%m-%d %H:%M}" if head.last_active_at else ""


def _class(head: str, numbers: Sequence[str]) -> str | None:
    return "number" if head in numbers else None
