"""How long a search may go on, and what it had to leave out."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

PATIENCE_SECONDS: Final = 5.0
_LAST_SECONDS: Final = 0.1
"""So long a match may take when patience is over: what was found is still shown."""
_MOST_STOPS: Final = 5
_LOOKING: Final = 0.2
"""So much of it is kept for a look at what may be a hit."""

SLOW_PATTERN: Final = "repetitions within repetitions, such as (a+)+, may take for ever"
TOOK_TOO_LONG: Final = f"stopped, since the pattern took too long; {SLOW_PATTERN}"
"""What is said where a pattern was stopped."""

T = TypeVar("T")


class TimeBudget:
    """How long a search may go on, and what it had to leave out."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._until = monotonic() + seconds
        self._seconds = seconds
        self.is_over = False
        self.is_short = False
        self.lost: set[int] = set()
        """Records that could not be read back."""
        self.has_cut = False
        """Whether a text was too long to be matched whole."""
        self.stopped = 0
        """How often a pattern was stopped within a text."""

    def ends(self) -> bool:
        self.is_over = self.is_over or monotonic() > self._until
        return self.is_over

    def runs_short(self) -> bool:
        """Return whether what was found so far should be looked at now, and the rest be left."""
        self.is_short = self.is_short or monotonic() > self._until - _LOOKING * self._seconds
        return self.is_short

    def bear(self, match: Callable[..., T], otherwise: T) -> T:
        """Return what ``match(timeout=seconds)`` returns, or *otherwise* if it takes too long."""
        if self.stopped >= _MOST_STOPS:
            return otherwise
        try:
            return match(timeout=max(_LAST_SECONDS, self._until - monotonic()))
        except TimeoutError:
            self.is_over = True
            self.stopped += 1
            return otherwise
