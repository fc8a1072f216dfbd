"""A hit: a text that was found, read back from its log, with what is known of its record."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct, field, structs

from turnlog.index.connection import Index
from turnlog.index.ids import SUBAGENT, instant_at, long_uuid
from turnlog.index.texts import Text, TextKind
from turnlog.search.filters import IS_GONE
from turnlog.search.match import Span
from turnlog.search.patterns import ScanMatch
from turnlog.search.snippets import LOOKED_AT, Marker, make_snippet

_RECORDS: Final = f"""
SELECT r.id, r.length, r.at, w.name, m.name, r.flags, r.uuid, s.session, s.title, p.path,
       {SUBAGENT}, {IS_GONE}
FROM json_each(?) a
CROSS JOIN records r ON r.id = a.value
JOIN logs l ON l.id = r.id >> 40
LEFT JOIN names w ON w.id = r.author
LEFT JOIN names m ON m.id = r.model
LEFT JOIN sessions s ON s.id = r.session
LEFT JOIN projects p ON p.id = s.project
"""  # noqa: S608 - Ours.
_CALLS: Final = """
SELECT c.{0}, n.name, c.is_error FROM json_each(?) a CROSS JOIN calls c ON c.{0} = a.value
LEFT JOIN names n ON n.id = c.tool
ORDER BY c.{0}, c.block
"""
# What was looked at to decide whether it is a hit is mostly shown next.
_KEPT_TEXTS: Final = 100
_KEPT_CHARACTERS: Final = 100_000
_KINDS: Final = {int(kind): kind.name.lower() for kind in TextKind}


class Hit(Struct, kw_only=True):
    """A text that was found, and where its record stands."""

    session: str | None
    project: str | None
    title: str | None
    subagent: str | None
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


class HitView(NamedTuple):
    """How a text is shown: where its matches stand, and how much of it."""

    marker: Marker
    near: Callable[[str], int | None]
    """Tells where a long text has its first match."""
    width: int
    context: int
    mask: Callable[[str], str] | None = None
    """What a text goes through before anything of it is shown."""


class HitFacts:
    """What the index knows of hits: of many at once, and what they share only once."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.records: dict[int, tuple[Any, ...]] = {}
        """What is shown of each record, as the index has it."""
        self._calls: dict[tuple[int, int], list[tuple[str | None, int | None]]] = {}
        self._texts: dict[int, list[Text]] = {}

    def learn(self, found: Sequence[ScanMatch]) -> None:
        """Look up all that will be asked of the records of *found*."""
        db = self.index.db
        ids = json.dumps(list({each.record for each in found}))
        self.records = {row[0]: row[1:] for row in db.execute(_RECORDS, (ids,))}
        self._calls = {}
        for kind, column in ((TextKind.CALL, "record"), (TextKind.RESULT, "result")):
            of_kind = {each.record for each in found if each.kind == kind}
            if of_kind:
                asked = _CALLS.format(column), (json.dumps(list(of_kind)),)
                for record, tool, is_error in db.execute(*asked):
                    self._calls.setdefault((kind, record), []).append((tool, is_error))

    def texts(self, record: int, length: int | None = None) -> list[Text]:
        """Read the texts of a record from its log; of some that were read just now, not again."""
        texts = self._texts.pop(record, None)
        if texts is None:
            texts = self.index.texts(record, length)
        return texts

    def text(self, record: int, part: int) -> Text | None:
        """Read one text of a record, which may soon be asked for again."""
        texts = self.texts(record)
        if sum(len(each.text) for each in texts) < _KEPT_CHARACTERS:
            self._texts[record] = texts
            if len(self._texts) > _KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]
        return texts[part] if part < len(texts) else None

    def calls(self, found: ScanMatch) -> list[tuple[str | None, int | None]]:
        """Return the tool of each call or result of a record, and whether it failed."""
        return self._calls.get((found.kind, found.record), [])


def read_hit(known: HitFacts, found: ScanMatch, look: HitView) -> Hit | None:
    """Read a text of which enough is *known* back; None if it is not there any more."""
    index, record = known.index, found.record
    row = known.records.get(record)
    if row is None:
        return None
    length, at, author, model, flags, uuid, session, title, project, subagent, is_gone = row
    texts = known.texts(record, length)
    if found.part >= len(texts) or texts[found.part].kind != found.kind:
        return None
    text = texts[found.part].text
    if look.mask is not None:  # All of it: a snippet would cut what a secret is known by.
        text = look.mask(text)
    tool, failed = _tool_of(known, found, texts)
    place = look.near(text) if len(text) > LOOKED_AT else None
    piece = make_snippet(text, look.marker, near=place, width=look.width, context=look.context)
    log, offset = index.place(record)
    hit = Hit(
        session=session or None,
        project=project,
        title=title,
        subagent=subagent,
        at=instant_at(at),
        kind=_KINDS[found.kind],
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
        gone=bool(is_gone),
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


def _tool_of(known: HitFacts, found: ScanMatch, texts: list[Text]) -> tuple[str | None, bool]:
    """Return which tool a call or result is of, and whether it failed."""
    calls = known.calls(found)
    if not calls:
        return None, False
    alike = [part for part, text in enumerate(texts) if text.kind == found.kind]
    which = alike.index(found.part) if len(alike) == len(calls) else 0
    return calls[which][0] or None, bool(calls[which][1])
