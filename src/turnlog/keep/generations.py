"""The generations of a session's main log: what it was each time before it was rewritten."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from turnlog.keep.restorable import Restorable


class Generation(Struct, kw_only=True):
    """A copy of a session's main log, for people who choose one."""

    generation: int
    size_bytes: int
    kept_at: datetime | None
    is_newest: bool


def generations_of(session: Restorable) -> list[Generation]:
    """Give what a session's main log was in each generation, the oldest first."""
    found: dict[int, Generation] = {}
    for name in session.mains:
        copies = session.mirror.copies[name]
        for copy in copies:
            known = copy.known
            found[copy.generation] = Generation(
                generation=copy.generation,
                size_bytes=known.size_bytes if known else 0,
                kept_at=known.kept_at if known else None,
                is_newest=copy is copies[-1],
            )
    return [found[number] for number in sorted(found)]
