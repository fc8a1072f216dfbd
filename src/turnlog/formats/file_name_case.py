"""Names that some file systems take for one: they differ in case, or in how they are composed.

Two names meet as well where their directories do. Which names a file system really takes for one,
only it can tell.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator

from msgspec import Struct, field


def folded(name: str) -> str:
    """Return what names have in common that some file system may take for one."""
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
    """How names are spelt in some trees, which are told apart by their numbers."""

    known: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, tree: int, name: str) -> None:
        """Remember a name in a tree, and its directories."""
        for part in prefixes(name):
            self.known.setdefault((tree, folded(part)), part)

    def get(self, tree: int, name: str) -> str | None:
        """Return the name in a tree that may be taken for *name*; None if there is none."""
        return self.known.get((tree, folded(name)))

    def place(self, name: str) -> int:
        """Add *name* to the first tree where nothing can be taken for it; give its number."""
        tree = 0
        while any(self.get(tree, part) not in (None, part) for part in prefixes(name)):
            tree += 1
        self.add(tree, name)
        return tree


def is_spelt(path: str) -> bool:
    """Return whether its directory lists the name that *path* ends in.

    It may list it in another composition: some file systems store names so.
    """
    above, name = os.path.split(path)
    names = os.listdir(above)
    wanted = unicodedata.normalize("NFC", name)
    return name in names or any(unicodedata.normalize("NFC", each) == wanted for each in names)
