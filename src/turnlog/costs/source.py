"""Where the figures of a report come from: the index, or the logs. The answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from turnlog.costs.indexed_usage import every_response, every_traced, used_in
from turnlog.errors import IndexUnavailable, TurnlogError, UsageError
from turnlog.index.connection import Index, open_fresh

if TYPE_CHECKING:
    from turnlog.catalog.period import Period
    from turnlog.costs.ledger import Question
    from turnlog.costs.scanned_usage import UsageScan
    from turnlog.formats import Home
    from turnlog.index.fallback import Fallback
    from turnlog.index.refresh.result import Stage
    from turnlog.pricing.cost import Prices


class UsageSource(Protocol):
    """What a report asks. An answer may hold more than its period: whoever reckons looks at it."""

    def sums(self, period: Period) -> UsageScan:
        """Return what was used in *period*, added up as far as no figure of a report is changed."""
        ...

    def responses(self, period: Period) -> UsageScan:
        """Return every response of *period*, one by one."""
        ...

    def traced(self, period: Period) -> UsageScan:
        """Return every response of *period* with its branch and its tools."""
        ...

    def titles(self, sessions: Iterable[str]) -> dict[str, str]:
        """Return the titles of *sessions*, as far as they are known without a whole reading."""
        ...


def usage_for(source: UsageSource, asked: Question, *, is_single: bool = False) -> UsageScan:
    """Return what a question is about; added up, if that changes no figure."""
    if asked.is_traced:
        return source.traced(asked.period)
    if is_single or asked.mode != "calculate":
        return source.responses(asked.period)
    return source.sums(asked.period)


class OpenIndex(Protocol):
    """How an index is opened; a command shows meanwhile how far it is."""

    def __call__(self, homes: Sequence[Home], *, stage: Stage, fallback: Fallback) -> Index: ...


@contextmanager
def open_source(
    homes: Sequence[Home],
    prices: Prices,
    *,
    no_index: bool = False,
    is_traced: bool = False,
    open_index: OpenIndex = open_fresh,
    tell: Callable[[str], None] | None = None,
) -> Iterator[UsageSource]:
    """Open the index, or read the logs without it; what is *is_traced* the logs do not tell.

    They are also read if the index cannot be had, and *tell* is told why.
    """
    if is_traced and no_index:
        raise UsageError(
            "which branch and which tools a response is of, only the index knows",
            hint="leave out no_index=True",
            code="index-needed",
        )
    index = None
    if not no_index:
        try:
            if is_traced:
                index = open_index(homes, stage="text", fallback="made")
            else:  # The logs tell the same, and are read faster than an index is made.
                index = open_index(homes, stage="usage", fallback="none")
        except IndexUnavailable as error:
            if is_traced:
                raise
            if tell is not None:
                tell(f"{error.message}; read the logs instead")
    if index is not None:
        with index:
            yield IndexSource(index, prices)
        return
    from turnlog.costs.scanned_usage import scan_usage  # noqa: PLC0415
    from turnlog.index.processes import processors  # noqa: PLC0415 - Seldom.

    yield LogsSource(scan_usage(homes, workers=processors()))


class IndexSource:
    """The index; it reads what is asked for and no more."""

    def __init__(self, index: Index, prices: Prices) -> None:
        self._index = index
        self._prices = prices

    def sums(self, period: Period) -> UsageScan:
        return used_in(self._index, period, self._prices)

    def responses(self, period: Period) -> UsageScan:
        return every_response(self._index, period)

    def traced(self, period: Period) -> UsageScan:
        return every_traced(self._index, period)

    def titles(self, sessions: Iterable[str]) -> dict[str, str]:
        """Ask the index, and the ends of logs of which it has read no more than the figures."""
        return {each: title for each in sessions if (title := self._title(each))}

    def _title(self, session: str) -> str | None:
        db = self._index.db
        asked = "SELECT title FROM sessions WHERE session = ? AND title IS NOT NULL"
        known = db.execute(asked, (session,)).fetchone()
        if known is not None:
            return str(known[0])
        from turnlog.sessions.metadata import read_head_tail  # noqa: PLC0415 - Mostly it is known.

        asked = "SELECT path FROM logs WHERE session = ? AND kind = 'session' AND gone_at IS NULL"
        for (path,) in db.execute(asked, (session,)):
            with suppress(TurnlogError, OSError):
                if title := read_head_tail(path).summary.title:
                    return title
        return None


class LogsSource:
    """The logs, read once and whole: what counts is known only when all were read."""

    def __init__(self, scan: UsageScan) -> None:
        self._scan = scan

    def sums(self, _period: Period) -> UsageScan:
        return self._scan

    responses = sums

    def traced(self, _period: Period) -> UsageScan:
        raise UsageError("branches and tools are known to the index only", hint="ask the index")

    def titles(self, _sessions: Iterable[str]) -> dict[str, str]:
        return {}
