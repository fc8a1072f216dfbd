"""Sessions and projects that match what someone has typed so far, for a palette."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from turnlog.catalog.names import matching_projects
from turnlog.catalog.pages import IS_THERE, LISTED, ListConditions
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at

_LOOKED_AT: Final = 4_000
"""How many of the latest sessions are searched: typing must not wait for older ones."""
# The latest by the index on time, so that SQLite stops when it has enough.
_LATEST: Final = f"""
WITH {LISTED} SELECT listed.session, title, first_prompt, place, active_at FROM (
    SELECT id FROM sessions ORDER BY last_active_at DESC LIMIT {_LOOKED_AT}
) AS latest CROSS JOIN listed ON listed.id = latest.id
WHERE {IS_THERE} AND {{}} LIMIT ?
"""  # noqa: S608 - Ours.


class FoundSession(Struct, kw_only=True):
    """A session that matches what was typed."""

    id: str
    title: str | None
    project: str | None
    last_active_at: datetime | None


class QuickFind(Struct, kw_only=True):
    """What matches what was typed so far: sessions, the latest first, and projects."""

    sessions: list[FoundSession]
    projects: list[str]


def quick_find(index: Index, words: str, *, limit: int = 8) -> QuickFind:
    """Return sessions by the beginning of their id, or by words in title and first prompt.

    The titles and prompts of the latest 4,000 sessions are searched.
    """
    asked = ListConditions()
    typed = words.split()
    for word in typed:
        asked.keep_word(word, ("title", "first_prompt"), is_masked=index.is_masked)
    index.db.create_function(
        "is_part",
        2,
        lambda part, text: bool(text) and part.casefold() in index.shown(text).casefold(),
    )
    found = {row[0]: row for row in _by_id(index, typed, limit)}
    if len(found) < limit:
        rows = index.db.execute(_LATEST.format(asked.where), (*asked.values, limit))
        found = {**found, **{row[0]: row for row in rows}}
    return QuickFind(
        sessions=[
            FoundSession(
                id=session,
                title=title or prompt,
                project=place,
                last_active_at=instant_at(at),
            )
            for session, title, prompt, place, at in list(found.values())[:limit]
        ],
        projects=matching_projects(index.db, words.strip())[:limit] if typed else [],
    )


def _by_id(index: Index, typed: list[str], limit: int) -> list[tuple[str, str, str, str, int]]:
    if len(typed) != 1 or index.is_masked:
        return []
    begin = typed[0].lower()
    query = (
        f"WITH {LISTED} SELECT session, title, first_prompt, place, active_at FROM listed"  # noqa: S608
        f" WHERE session >= ? AND session < ? AND {IS_THERE} ORDER BY active_at DESC LIMIT ?"
    )
    return index.db.execute(query, (begin, f"{begin}\U0010ffff", limit)).fetchall()
