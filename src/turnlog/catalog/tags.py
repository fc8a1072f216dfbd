"""The tags of sessions, from the index."""

from __future__ import annotations

from turnlog.index.connection import Index
from turnlog.records.tags import tags_in


def tags_by_session(index: Index) -> dict[str, list[str]]:
    """Return the tags of every session that has some, by its id.

    Copies of a session in several homes have the tags of all of them.
    """
    tags: dict[str, list[str]] = {}
    for session, tag in index.db.execute(
        "SELECT session, tag FROM sessions WHERE tag IS NOT NULL ORDER BY session, home"
    ):
        tags[session] = tags_in(",".join([*tags.get(session, ()), tag]))
    return {session: names for session, names in tags.items() if names}
