"""A session as a page of Markdown that an agent can read at once: facts, then what was said last.

Written from the end: of a long session the latest turns stand here, as many as fit, and above them
that others are left out. Text from the log stands as a quotation; a heading in it is none of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from turnlog.api.session_figures import (
    RecordPosition,
    SessionFigures,
    newest_records,
    session_figures,
)
from turnlog.index.texts import TextKind
from turnlog.mcp.context import BoundedIndex, KnownSession, ToolContext
from turnlog.mcp.tool_names import spelled
from turnlog.mcp.untrusted_text import Cleaner, frame_bytes, framed

SPEAKERS: Final = ("human", "assistant")
SAID: Final = frozenset({TextKind.PROMPT, TextKind.RESPONSE})
"""What people saw, of all that records hold."""
_LONGEST: Final = 1_500
_AT_ONCE: Final = 100
_MOST_RECORDS: Final = 2_000
_ROOM_FOR_OURS: Final = 500
_LISTED: Final = 10


def session_page(desk: ToolContext, index: BoundedIndex, known: KnownSession) -> str:
    """Write the page of a session, framed, no larger than an answer may be."""
    cleaner = Cleaner(desk.rules, longest=_LONGEST)
    figures = session_figures(index, known.number)
    head = "\n".join(facts(cleaner, figures))
    left = desk.settings.answer_bytes - frame_bytes() - _ROOM_FOR_OURS
    head = head.encode()[: left // 2].decode(errors="ignore")
    left -= len(head.encode())
    said: list[str] = []
    is_all = False
    for each in latest_said(index, known.number, cleaner):
        if each is None:
            is_all = True
            break
        size = len(each.encode()) + 2
        if size > left:
            break
        said.append(each)
        left -= size
    above = "" if is_all else "\n\n… what came before is left out"
    page = head + above + "".join(f"\n\n{each}" for each in reversed(said))
    ours = (
        ""
        if is_all
        else "`session_turns` returns all of it; `session_overview` returns a whole record."
    )
    return framed(page, spelled(ours, desk.prefix))


def latest_said(index: BoundedIndex, number: int, cleaner: Cleaner) -> Iterator[str | None]:
    """Return what was said, the newest first; None at the end if nothing is left."""
    for offset in range(0, _MOST_RECORDS, _AT_ONCE):
        found = newest_records(index, number, SPEAKERS, limit=_AT_ONCE, offset=offset)
        for each in found:
            parts = index.texts(each.record, each.length)
            text = "\n\n".join(part.text for part in parts if part.kind in SAID)
            if text.strip():
                yield _section(cleaner, each, text)
        if len(found) < _AT_ONCE:
            yield None
            return


def facts(cleaner: Cleaner, figures: SessionFigures) -> Iterator[str]:
    """Return what is known of a session, a line each."""
    yield f"# {_line(cleaner, figures.title or 'untitled')}"
    yield ""
    calls = ", ".join(
        f"{each.tool} {each.calls:,}" + (f" ({each.errors:,} failed)" if each.errors else "")
        for each in figures.calls[:_LISTED]
    )
    files = ", ".join(each.path for each in figures.files[:_LISTED] if each.changes)
    tokens = figures.input + figures.cache_write_5m + figures.cache_write_1h + figures.cache_read
    for name, value in (
        ("session", figures.id),
        ("project", figures.project),
        ("branch", figures.git_branch),
        ("time", f"{day(figures.started_at)} to {day(figures.last_active_at)} UTC"),
        ("models", ", ".join(figures.models)),
        ("prompts", f"{figures.prompts:,} in {figures.records:,} records"),
        ("tokens", f"{tokens:,} in, {figures.output:,} out" if figures.messages else ""),
        ("calls", calls),
        ("files changed", files),
        ("subagents", f"{figures.subagents_in_all:,}" if figures.subagents_in_all else ""),
    ):
        if value:
            yield f"- {name}: {_line(cleaner, value)}"


def day(at: datetime | None) -> str:
    return "?" if at is None else f"{at:%Y-%m-%d %H:%M}"


def quoted(text: str) -> str:
    """Set a text apart as a quotation, every line of it."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _section(cleaner: Cleaner, placed: RecordPosition, text: str) -> str:
    record = f" (record {_line(cleaner, placed.uuid)})" if placed.uuid else ""
    return f"## {placed.author}, {day(placed.at)}{record}\n\n{quoted(cleaner.text(text))}"


def _line(cleaner: Cleaner, text: str) -> str:
    """Return a text on one line."""
    return " ".join(cleaner.text(text).split())
