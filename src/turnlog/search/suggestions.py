"""What to suggest for words that no text has, and for filters that leave nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

from turnlog.search.language import FieldFilter, Node, conjuncts, joined
from turnlog.search.sql import count_of

_SHORTEST: Final = 4
"""Shorter words have too many neighbours."""
_SAME_LETTERS: Final = 2
"""How many letters a misspelled word begins with correctly."""
_CLOSE: Final = 0.8
_FEW: Final = 3


def similar_word(db: sqlite3.Connection, word: str) -> str | None:
    """Return the most similar word that texts have, or None; needs ``make_vocabulary``."""
    if len(word) < _SHORTEST:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - Few searches find nothing.

    head = word[:_SAME_LETTERS]
    rows = db.execute(
        "SELECT term, doc FROM temp.counts_said WHERE term >= ? AND term < ?",
        (head, head + "\U0010ffff"),
    )
    counts = {term: doc for term, doc in rows if abs(len(term) - len(word)) <= 2}
    close = get_close_matches(word, counts, cutoff=_CLOSE)
    return max(close, key=counts.__getitem__, default=None)


def without_dates(tree: Node | None) -> Node | None:
    """Return *tree* without its dates; None if it has none, or nothing else."""
    nodes = conjuncts(tree)
    rest = [node for node in nodes if not (isinstance(node, FieldFilter) and node.at is not None)]
    return joined(rest) if len(rest) < len(nodes) else None


def another_time_note(at: datetime | None, zone: tzinfo | None) -> str:
    """Return the note that texts from another time match, the latest from *at*."""
    when = "" if at is None else f", the latest from {at.astimezone(zone).date()}"
    return f"only texts from another time match{when}"


def unknown_notes(db: sqlite3.Connection, words: Iterable[str]) -> list[str]:
    """Return notes on *words* that no text has, or only tool results."""
    words = list(dict.fromkeys(words))
    in_results = [word for word in words if count_of(db, "answered", word)]
    nowhere = [word for word in words if word not in in_results]
    return [
        f"{start} " + " or ".join(f'"{word}"' for word in some[:_FEW])
        for start, some in (("only tool output has", in_results), ("no text has", nowhere))
        if some
    ]
