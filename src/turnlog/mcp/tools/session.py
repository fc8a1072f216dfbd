"""The tool ``session_overview``: the figures of a session, or one record in full."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Struct
from pydantic import Field

from turnlog.api.sessions.lists import newest_records, placed_record, session_figures
from turnlog.mcp.context import LARGEST_RECORD_BYTES, BoundedIndex, KnownSession, ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.session_flow import find_record
from turnlog.mcp.tool import PageStart, SessionName, Tool

_PIECE = 1_900
_PROMPTS = 10


class PromptLine(Struct, kw_only=True):
    """A prompt that was typed."""

    uuid: str | None
    at: datetime | None
    text: str


class RecordHeader(Struct, kw_only=True):
    """A record that is returned in full."""

    session: str
    uuid: str | None
    at: datetime | None
    author: str
    characters: int


class TextPiece(Struct, kw_only=True):
    """A piece of one of a record's texts."""

    kind: str
    begins_at: int
    text: str


def session_overview(
    ctx: ToolContext,
    page: PageStart,
    *,
    session: SessionName,
    record: Annotated[
        str | None,
        Field(
            description="Return this record in full instead: the `record` of another answer.",
            min_length=1,
            max_length=200,
        ),
    ] = None,
    subagent: Annotated[
        str | None,
        Field(
            description="With record: the subagent whose record it is.",
            min_length=1,
            max_length=128,
        ),
    ] = None,
) -> ToolAnswer:
    """Summarize one session: times, tokens, models, tool calls and errors, files changed,
    subagents, latest prompts. With `record`: one record in full.
    """  # noqa: D205
    with ctx.index() as index:
        known = ctx.session(index, session)
        if record is not None:
            return _whole(ctx, index, known, find_record(index, known, record, subagent)[1], page)
        figures = session_figures(index, known.number)
        placed = newest_records(
            index, known.number, ["human"], limit=_PROMPTS + 1, offset=page.place
        )
        prompts = [
            PromptLine(uuid=each.uuid, at=each.at, text=_text(index, each.record, each.length))
            for each in placed[:_PROMPTS]
        ]
        following = page.place + _PROMPTS if len(placed) > _PROMPTS else None
        return ToolAnswer(
            about=figures,
            noun="latest_prompts",
            rows=prompts,
            offset=page.place,
            next=following,
            notes=unread_notes(index),
            rest="`session_overview` with record returns a whole record.",
        )


def _whole(
    ctx: ToolContext, index: BoundedIndex, known: KnownSession, record: int, page: PageStart
) -> ToolAnswer:
    """Return one record's texts in pieces that are never shortened."""
    placed = placed_record(index, record)
    pieces, at = [], 0
    for kind, raw in index.texts(placed.record, placed.length):
        text = ctx.mask(raw)  # Before cutting: half a secret is not recognized.
        for begins_at in range(0, len(text), _PIECE):
            piece = text[begins_at : begins_at + _PIECE]
            pieces.append(TextPiece(kind=kind.name.lower(), begins_at=begins_at, text=piece))
        at += len(text)
    header = RecordHeader(
        session=known.id, uuid=placed.uuid, at=placed.at, author=placed.author, characters=at
    )
    return ToolAnswer(
        about=header,
        noun="pieces",
        rows=pieces[page.place :],
        offset=page.place,
        notes=unread_notes(index),
    )


def _text(index: BoundedIndex, record: int, length: int) -> str:
    return "\n".join(each.text for each in index.texts(record, length))


def unread_notes(index: BoundedIndex) -> list[str]:
    """Return a note about records that were too large to read, if any."""
    if not index.unread:
        return []
    size = f"{LARGEST_RECORD_BYTES // 1_000_000} MB"
    return [f"{index.unread:,} records are larger than {size} and were not read"]


SESSION = Tool(session_overview, title="One past session")
