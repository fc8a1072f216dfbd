"""The index, as whoever answers an agent may read it: no secret ever comes out of a log.

Answers show how texts begin, and a secret that was cut in two is not known any more. So lines are
masked where they are read, whole, before anything is made of them; what a pattern is matched with
is masked too, or it could ask a secret out letter by letter. What the index itself has (titles,
names, paths) is masked on its way out like everything else.
"""

from __future__ import annotations

from turnlog.index.opening import Index
from turnlog.redact import Rules, redact_line


class MaskedIndex(Index):
    """Reads with another index, which stays its owner's to close, and masks what it reads."""

    def __init__(self, index: Index, rules: Rules) -> None:
        super().__init__(index.db, index.refreshed)
        self._index = index
        self._rules = rules

    def raw(self, record: int, length: int | None = None) -> bytes | None:
        data = self._index.raw(record, length)
        return None if data is None else redact_line(data, self._rules)

    def close(self) -> None:
        """Whoever opened the other index closes it."""
