"""File names that collide on some file systems: they differ only in case or Unicode form.

Names collide as well where their directories do. Whether two names really are one, only the file
system can tell.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator

from msgspec import Struct, field


def folded(name: str) -> str:
    """Return a key that is equal for names that may collide."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def prefixes(name: str) -> Iterator[str]:
    """Return the directories in a name, the outermost first, and the name itself."""
    end = name.find("/")
    while end >= 0:
        yield name[:end]
        end = name.find("/", end + 1)
    yield name


class Spellings(Struct):
    """The spellings of names in several trees, which are numbered."""

    known: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, tree: int, name: str) -> None:
        """Add a name and its directories to a tree."""
        for part in prefixes(name):
            self.known.setdefault((tree, folded(part)), part)

    def get(self, tree: int, name: str) -> str | None:
        """Return the name in a tree that collides with *name*, or None."""
        return self.known.get((tree, folded(name)))

    def place(self, name: str) -> int:
        """Add *name* to the first tree where nothing collides with it; return the tree's number."""
        tree = 0
        while any(self.get(tree, part) not in (None, part) for part in prefixes(name)):
            tree += 1
        self.add(tree, name)
        return tree


def is_spelled(path: str) -> bool:
    """Return whether the directory of *path* lists its name in this spelling.

    Another Unicode form counts as the same: some file systems normalize names.
    """
    above, name = os.path.split(path)
    names = os.listdir(above)
    wanted = unicodedata.normalize("NFC", name)
    return name in names or any(unicodedata.normalize("NFC", each) == wanted for each in names)
