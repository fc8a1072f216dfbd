"""Bringing a log back before it is gone on with: one that is archived, packed, or gone but kept.

What is appended to must lie in its place as its agent writes it. So all that is missing of the
session in its project is restored, as ``turnlog restore`` does it: proved, nothing overwritten.
"""

from __future__ import annotations

from pathlib import Path

from turnlog.adapters.claude_finding import find_log
from turnlog.adapters.claude_keys import Key, place
from turnlog.formats import Home
from turnlog.keep.archive.flat import unpack_in_place
from turnlog.keep.restore.restorable import Restorable, mirrors, project_of
from turnlog.keep.restore.restore import restore


def bring_back(root: Path, key: Key) -> None:
    """Put the log of *key* in its place, if it was written before and lies elsewhere."""
    if place(root, key.name).exists():
        return
    found = find_log(root, key)
    if found is None:
        return
    if found.path.is_relative_to(root) and found.path.parent == place(root, key.name).parent:
        unpack_in_place(found.path)
        return
    for mirror in mirrors((Home(root),)):
        owned = [name for name, owner in mirror.owners.items() if owner == key.session]
        here = [name for name in owned if project_of(name) == key.project]
        if key.name in mirror.copies and key.name not in here:
            here.append(key.name)  # Its name alone does not tell whose it is.
        if key.name in here:
            restore(Restorable(key.session, mirror, here))
