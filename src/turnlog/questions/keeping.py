"""How safe is a session? Live, kept, restorable or gone: the same answer in every list.

    live        it is at its source, and no kept copy holds all of it
    kept        it is at its source, and a kept copy holds all of it
    restorable  it is gone at its source; a kept copy is what is read
    gone        it is gone, and only the index remembers it

What is kept is looked up in the catalogues, which are read once for every list, and a look shows
whether the copy is there. It holds all of a log that has the size and the time at which it was
copied, as whoever keeps tells it too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from turnlog.formats.homes import kept_root

if TYPE_CHECKING:
    from turnlog.keep.catalog import Catalogue

Keeping: TypeAlias = Literal["live", "kept", "gone", "restorable"]


class Keepings:
    """Tells how safe logs are."""

    def __init__(self) -> None:
        self._kept_root = os.path.join(kept_root(), "")
        self._catalogues: dict[str, Catalogue] = {}

    def of(self, home: str, path: str, *, is_gone: bool = False) -> Keeping:
        """Tell how safe the log at *path* in *home* is."""
        if is_gone:
            return "gone"
        if path.startswith(self._kept_root):
            return "restorable"
        catalogue = self._of_home(home)
        name = os.path.relpath(path, home).replace(os.sep, "/")
        if catalogue is None or name not in catalogue.current:
            return "live"
        try:
            now = os.stat(path)
        except OSError:  # Gone since it was listed.
            return "restorable"
        return "kept" if catalogue.has_all_of(name, now.st_size, now.st_mtime_ns) else "live"

    def _of_home(self, home: str) -> Catalogue | None:
        if home not in self._catalogues:
            # Whoever keeps nothing does not wait for the room that does.
            if not os.path.isdir(self._kept_root):
                return None
            from turnlog.keep.catalog import Catalogue  # noqa: PLC0415

            self._catalogues[home] = Catalogue.of_home(home)
        return self._catalogues[home]
