"""Which of what lies in the trash is meant, and putting it back."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.errors import AmbiguousSession, NotFound
from turnlog.formats.find import LATEST
from turnlog.keep.deleting import put_back
from turnlog.keep.trash import Trash
from turnlog.keep.trashed import Trashed


def trashed_named(found: Sequence[Trashed], name: str) -> list[Trashed]:
    """Give the entries that are meant: one by its name, or all of one session."""
    if entry := [each for each in found if each.name == name]:
        return entry
    if found and name == LATEST:
        return [max(found, key=lambda each: each.entry.deleted_at)]
    ids = {one for each in found for one in each.entry.sessions}
    meant = {name} & ids or {one for one in ids if name and one.startswith(name)}
    if not meant:
        raise NotFound(
            f"nothing in the trash belongs to a session whose id begins with {name[:80]!r}",
            hint="turnlog trash shows what is there",
        )
    if len(meant) > 1:
        raise AmbiguousSession(
            f"{name!r} begins the ids of {len(meant)} deleted sessions",
            hint="give more characters of the id",
        )
    return [each for each in found if meant & set(each.entry.sessions)]


def put_all_back(trash: Trash, found: Sequence[Trashed]) -> None:
    """Put back what was deleted of one session; not if that was more than once."""
    if len({each.entry.home for each in found}) < len(found):
        names = ", ".join(each.name for each in found)
        raise AmbiguousSession(
            f"this session was deleted several times: {names}", hint="name one of these entries"
        )
    for each in found:
        put_back(trash, each)
