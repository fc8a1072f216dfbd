"""How safe is a session? Live, kept, restorable or gone: the same answer in every list.

    live        it is at its source, and no kept copy holds all of it
    kept        it is at its source, and a kept copy holds all of it
    restorable  it is gone at its source; a kept copy is what is read
    gone        it is gone, and only the index remembers it

What is kept is looked up in the catalogues, which are read once for every list. A copy holds all of
a log that has the size and the time at which it was copied, as whoever keeps tells it too.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from turnlog.layout.home_paths import kept_root

Keeping: TypeAlias = Literal["live", "kept", "gone", "restorable"]

_Stamp: TypeAlias = tuple[int, int]  # Size and time.


class Keepings:
    """Tells how safe logs are."""

    def __init__(self) -> None:
        self._kept_root = os.path.join(kept_root(), "")
        self._stamps: dict[str, dict[str, _Stamp]] = {}

    def of(self, home: str, path: str, *, is_gone: bool = False) -> Keeping:
        """Tell how safe the log at *path* in *home* is."""
        if is_gone:
            return "gone"
        if path.startswith(self._kept_root):
            return "restorable"
        stamps = self._of_home(home)
        kept = stamps.get(os.path.relpath(path, home).replace(os.sep, "/")) if stamps else None
        if kept is None:
            return "live"
        try:
            now = os.stat(path)
        except OSError:  # Gone since it was listed.
            return "restorable"
        return "kept" if kept == (now.st_size, now.st_mtime_ns) else "live"

    def _of_home(self, home: str) -> dict[str, _Stamp]:
        if home not in self._stamps:
            # Whoever keeps nothing does not wait for the room that does.
            if not os.path.isdir(self._kept_root):
                return {}
            from turnlog.keep.catalogue import Catalogue  # noqa: PLC0415

            found = Catalogue.of_home(home).current
            self._stamps[home] = {
                name: (kept.size_bytes, kept.mtime_ns) for name, kept in found.items()
            }
        return self._stamps[home]
