"""Short names: the beginnings of ids that no other session or record in the index has."""

from __future__ import annotations

from typing import Final

from turnlog.api.homes import is_uuid
from turnlog.index.connection import Index
from turnlog.index.ids import long_uuid, short_uuid

_SHORTEST: Final = 8
_NEIGHBOURS: Final = (
    "SELECT max({0}) FROM {1} WHERE {0} < ?1",
    "SELECT min({0}) FROM {1} WHERE {0} > ?1",
)


class ShortNames:
    """Shortens the ids of sessions and the uuids of records."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def session(self, session_id: str) -> str:
        """Return the beginning of the id of a session, of at least eight characters."""
        return self._shortened(session_id, session_id, "session", "sessions")

    def record(self, uuid: str) -> str:
        """Return the beginning of the uuid of a record; one that is not a UUID stays whole."""
        if not is_uuid(uuid):
            return uuid
        return self._shortened(uuid, short_uuid(uuid), "uuid", "records")

    def _shortened(self, name: str, key: bytes | str | None, column: str, table: str) -> str:
        length = _SHORTEST
        for query in _NEIGHBOURS:
            ((found,),) = self._db.execute(query.format(column, table), (key,))
            length = max(length, 1 + _shared(name, long_uuid(found) or ""))
        return name[: length + (name[length - 1 : length] == "-")]


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
