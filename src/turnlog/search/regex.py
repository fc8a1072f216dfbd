"""Regular expressions from users, with a time limit.

Some expressions take years on some texts, and ``re`` cannot be interrupted. The ``regex`` library
has a ``timeout``, in seconds of processor time, and releases the GIL while it matches. It is
imported when a pattern is compiled, since the import takes 10 ms.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, TypeVar

BUDGET_SECONDS: Final = 5.0
SLOW_PATTERN: Final = "nested repetitions such as (a+)+ may never finish"
TOOK_TOO_LONG: Final = f"stopped, since the pattern took too long; {SLOW_PATTERN}"

# Time for the last match when the budget is used up, so that the hits so far are still shown.
_LAST_SECONDS: Final = 0.1
_MOST_STOPS: Final = 5
# The part of the budget that is reserved for reading candidates.
_READING: Final = 0.2
# In Python's syntax a brace that begins no repetition is literal, but `regex` reads `{e<=1}` as
# fuzzy matching. `\N{BULLET}` and other escapes stay as they are.
_BRACE: Final = r"(?s)\\N\{[^{}\\]{0,100}\}|\\.|\{(?!\d{1,10}\}|\d{0,10},\d{0,10}\})"

T = TypeVar("T")


def check_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return *text* compiled by ``re``, for short texts; raise ValueError if it is invalid."""
    try:
        with warnings.catch_warnings():  # About syntax that may change in a later Python.
            warnings.simplefilter("ignore")
            return re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def compile_pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> Any:
    """Return *text* compiled by ``regex``, whose methods accept ``timeout=seconds``.

    Raise ValueError if it is not valid in Python's own syntax.
    """
    import regex  # noqa: PLC0415

    check_pattern(text, flags)
    escaped = re.sub(_BRACE, lambda found: r"\{" if found[0] == "{" else found[0], text)
    try:
        return regex.compile(escaped, int(flags))
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


class TimeBudget:
    """How long a search may take, and what it had to skip."""

    def __init__(self, seconds: float = BUDGET_SECONDS) -> None:
        self._until = monotonic() + seconds
        self._seconds = seconds
        self.is_over = False
        self.is_short = False
        self.lost: set[int] = set()
        """Records that could not be read."""
        self.has_cut = False
        """Whether a text was too long to be matched as a whole."""
        self.stopped = 0
        """How often a pattern was stopped within a text."""

    def ends(self) -> bool:
        self.is_over = self.is_over or monotonic() > self._until
        return self.is_over

    def runs_short(self) -> bool:
        """Return whether it is time to read the candidates found so far and skip the rest."""
        self.is_short = self.is_short or monotonic() > self._until - _READING * self._seconds
        return self.is_short

    def limit(self, match: Callable[..., T], otherwise: T) -> T:
        """Return ``match(timeout=seconds)``, or *otherwise* if that takes too long."""
        if self.stopped >= _MOST_STOPS:
            return otherwise
        try:
            return match(timeout=max(_LAST_SECONDS, self._until - monotonic()))
        except TimeoutError:
            self.is_over = True
            self.stopped += 1
            return otherwise
