"""Where the figures of a report come from: the index, or the logs. The answers are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from turnlog.errors import UsageError
from turnlog.questions.spending import every_response, spent
from turnlog.questions.traced import every_traced

if TYPE_CHECKING:
    from turnlog.index.opening import Index
    from turnlog.prices.cost import Prices
    from turnlog.questions.ledger import Period
    from turnlog.questions.usage_scan import UsageScan


class Source(Protocol):
    """What a report asks. An answer may hold more than its period: whoever reckons looks at it."""

    def sums(self, period: Period) -> UsageScan:
        """Give what was used in *period*, added up as far as no figure of a report is changed."""
        ...

    def responses(self, period: Period) -> UsageScan:
        """Give every response of *period*, one by one."""
        ...

    def traced(self, period: Period) -> UsageScan:
        """Give every response of *period* with its branch and its tools."""
        ...

    def titles(self) -> dict[str, str]:
        """Give the titles of sessions, as far as they are known without another reading."""
        ...


class IndexSource:
    """The index; it reads what is asked for and no more."""

    def __init__(self, index: Index, prices: Prices) -> None:
        self._index = index
        self._prices = prices

    def sums(self, period: Period) -> UsageScan:
        return spent(self._index, period, self._prices)

    def responses(self, period: Period) -> UsageScan:
        return every_response(self._index, period)

    def traced(self, period: Period) -> UsageScan:
        return every_traced(self._index, period)

    def titles(self) -> dict[str, str]:
        found = "SELECT session, title FROM sessions WHERE title IS NOT NULL"
        return dict(self._index.db.execute(found))


class LogsSource:
    """The logs, read once and whole: what counts is known only when all were read."""

    def __init__(self, scan: UsageScan) -> None:
        self._scan = scan

    def sums(self, _period: Period) -> UsageScan:
        return self._scan

    responses = sums

    def traced(self, _period: Period) -> UsageScan:
        raise UsageError(
            "branches and tools are known to the index only", hint="ask without --no-index"
        )

    def titles(self) -> dict[str, str]:
        return {}
