"""A hit: a text that was found, read back from its log, with what is known of its record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from turnlog.index.ids import instant_at, long_uuid
from turnlog.index.opening import Index
from turnlog.index.texts import Kind, Text
from turnlog.questions.matching import Span
from turnlog.questions.scan_search import Found
from turnlog.questions.snippets import LOOKED_AT, Marker, make_snippet

_DETAILS: Final = """
SELECT r.length, r.at, au.name, mo.name, r.flags, r.uuid, s.session, s.title, p.path, l.agent,
       l.gone_at
FROM records r
JOIN logs l ON l.id = r.id >> 40
LEFT JOIN names au ON au.id = r.author
LEFT JOIN names mo ON mo.id = r.model
LEFT JOIN sessions s ON s.id = r.session
LEFT JOIN projects p ON p.id = s.project
WHERE r.id = ?
"""
_CALLS: Final = """
SELECT n.name, c.is_error FROM calls c JOIN names n ON n.id = c.tool WHERE c.{} = ? ORDER BY c.block
"""


class Hit(Struct, kw_only=True):
    """A text that was found, and where its record stands."""

    session: str | None
    project: str | None
    title: str | None
    agent: str | None
    at: datetime | None
    kind: str
    author: str
    tool: str | None
    model: str | None
    is_error: bool
    uuid: str | None
    log: str
    offset: int
    length: int
    snippet: str
    highlights: list[Span]
    """Where in the snippet the matches stand."""
    score: float
    gone: bool
    """Whether its log is gone at its source."""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    more: int | None = None
    """How many further hits its session has that are not on this page, if that is known."""


class Look(NamedTuple):
    """How a text is shown: where its matches stand, and how much of it."""

    marker: Marker
    near: Callable[[str], int | None]
    """Tells where a long text has its first match."""
    width: int
    context: int
    mask: Callable[[str], str] | None = None
    """What a text goes through before anything of it is shown."""


def read_hit(index: Index, found: Found, look: Look) -> Hit | None:
    """Read a text back; None if it is not there any more."""
    record = found.record
    row = index.db.execute(_DETAILS, (record,)).fetchone()
    if row is None:
        return None
    length, at, author, model, flags, uuid, session, title, project, agent, gone_at = row
    texts = index.texts(record, length)
    if found.part >= len(texts) or texts[found.part].kind != found.kind:
        return None
    text = texts[found.part].text
    if look.mask is not None:  # All of it: a snippet would cut what a secret is known by.
        text = look.mask(text)
    tool, failed = _tool_of(index, found, texts)
    place = look.near(text) if len(text) > LOOKED_AT else None
    piece = make_snippet(text, look.marker, near=place, width=look.width, context=look.context)
    log, offset = index.place(record)
    hit = Hit(
        session=session or None,
        project=project,
        title=title,
        agent=agent,
        at=instant_at(at),
        kind=Kind(found.kind).name.lower(),
        author=author or "",
        tool=tool,
        model=model,
        is_error=bool(flags & 1) or failed,
        uuid=long_uuid(uuid),
        log=log,
        offset=offset,
        length=length,
        snippet=piece.text,
        highlights=piece.highlights,
        score=round(found.score, 6),
        gone=gone_at is not None,
        before=piece.before,
        after=piece.after,
    )
    return hit if look.mask is None else _masked(hit, look.mask)


def _masked(hit: Hit, mask: Callable[[str], str]) -> Hit:
    """Mask whatever else is text, too: a title, or an id that somebody made of what was said."""
    told = {name: getattr(hit, name) for name in hit.__struct_fields__}
    return structs.replace(
        hit, **{name: mask(said) for name, said in told.items() if isinstance(said, str)}
    )


def _tool_of(index: Index, found: Found, texts: list[Text]) -> tuple[str | None, bool]:
    """Tell which tool a call or result is of, and whether it failed."""
    if found.kind not in (Kind.CALL, Kind.RESULT):
        return None, False
    column = "record" if found.kind == Kind.CALL else "result"
    calls = index.db.execute(_CALLS.format(column), (found.record,)).fetchall()
    if not calls:
        return None, False
    alike = [part for part, text in enumerate(texts) if text.kind == found.kind]
    which = alike.index(found.part) if len(alike) == len(calls) else 0
    return calls[which][0] or None, bool(calls[which][1])
