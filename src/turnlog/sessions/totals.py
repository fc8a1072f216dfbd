"""What a session used and what that cost, its agents included.

Each response counts once, wherever in the session's logs it is written. Costs are reckoned when
they are asked for, at the prices of the day of each response.
"""

from __future__ import annotations

import copy
from decimal import Decimal
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.layout import agent_logs_beside, turnlog_home
from turnlog.log.reader import Placed, Reader
from turnlog.prices.configured import configured_prices
from turnlog.prices.cost import Prices
from turnlog.records.counters import Counters
from turnlog.records.responses import Totals


class SessionTotals(Struct, frozen=True, kw_only=True):
    """The account of one session. Costs are estimates at the API's prices."""

    messages: int
    """API responses, each counted once."""
    tokens: Counters
    by_model: dict[str, Counters]
    cost_usd: Decimal
    unpriced: list[str] = field(default_factory=list)
    """Models without a known price; their tokens are in no cost."""


class Account(Totals):
    """A session's totals, which also follow the logs of its agents."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[Path, int] = {}

    def read_agents(self, main: Path, session_id: str) -> None:
        """Take what the agents' logs beside the *main* one have said since the last time."""
        for path in agent_logs_beside(main, session_id):
            try:
                reader = Reader(path, start=self._read.get(path, 0), tail="wait")
            except NotFound:
                continue  # Gone since it was listed.
            with reader:
                for item in reader:
                    if isinstance(item, Placed):
                        self.take(item.record)
                self._read[path] = reader.offset

    def priced(self, prices: Prices | None = None) -> SessionTotals:
        """Give the totals and what they cost, at the usual prices unless others are given."""
        bill = (prices or usual_prices()).bill(self.responses)
        return SessionTotals(
            messages=self.messages,
            tokens=copy.deepcopy(self.counters),
            by_model=copy.deepcopy(self.usage),
            cost_usd=bill.total_usd,
            unpriced=sorted({each.model for each in bill.unpriced}),
        )


@cache
def usual_prices() -> Prices:
    """Load the prices once; settings that cannot be read are `turnlog prices`' to report."""
    return configured_prices(turnlog_home())[0]
