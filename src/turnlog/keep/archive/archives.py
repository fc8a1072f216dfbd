"""Find out which sessions are archived.

In a flat store those are the sessions whose log is in ``compressed/``. Elsewhere the log stays as
it is, or is gone and a copy is kept, so turnlog's journal records it. An entry is valid while the
log is gone or has the same size: a session that continued is no longer archived.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from turnlog.errors import TurnlogError
from turnlog.formats import journal_log, turnlog_home
from turnlog.formats.flat.format import is_flat_archive
from turnlog.formats.home_paths import kept_root
from turnlog.formats.supported import registry_layouts

if TYPE_CHECKING:
    from turnlog.sessions.journal import ArchivedFact, Journal


def journal() -> Journal:
    """Return the journal that records archives; it is next to the kept copies."""
    from turnlog.sessions.journal import Journal  # noqa: PLC0415 - It brings all that writes logs.

    return Journal.in_root(turnlog_home())


class Archives:
    """The archived sessions of all homes."""

    def __init__(self, facts: Mapping[tuple[str, str], ArchivedFact]) -> None:
        self._facts = facts
        self._kept = os.path.join(kept_root(), "")

    @property
    def ids(self) -> list[str]:
        """The ids in the journal."""
        return sorted({session_id for _, session_id in self._facts})

    @classmethod
    def load(cls) -> Archives:
        """Read the journal; if it is unreadable, no session is hidden from lists."""
        try:
            is_there = os.path.isfile(journal_log(turnlog_home()))
            return cls(journal().archived() if is_there else {})
        except (TurnlogError, OSError):
            return cls({})

    def fact(
        self, session_id: str, home: str | os.PathLike[str], path: str, size_bytes: int
    ) -> ArchivedFact | None:
        """Return the entry of an archived session; None if it is not, or has changed since.

        *path* is that of its log and *size_bytes* the size of its own records in it.
        """
        found = self._facts.get((_true_path(os.fspath(home)), session_id)) if self._facts else None
        if found is None or path.startswith(self._kept):
            return found
        return found if found.size_bytes == size_bytes else None

    def holds(
        self,
        session_id: str,
        home: str | os.PathLike[str],
        path: str,
        layout: str,
        size_bytes: int,
    ) -> bool:
        """Return whether a session is archived."""
        if layout in registry_layouts() and not path.startswith(self._kept):
            return is_flat_archive(path)
        return self.fact(session_id, home, path, size_bytes) is not None


@cache
def _true_path(home: str) -> str:
    return os.path.realpath(home)
