"""Usage and cost of a session, including its agents.

Each response counts once, wherever in the session's logs it is. Costs use the prices of the day of
each response and are computed on first use, then updated as records arrive.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.formats import subagent_logs_near, turnlog_home
from turnlog.pricing.cost import Bill, Prices, RunningBill, configured_prices
from turnlog.records.responses import Response, RunningTotals
from turnlog.records.usage import Counters
from turnlog.storage.reader import Placed, Reader


class SessionTotals(Struct, frozen=True, kw_only=True):
    """The usage and cost of one session. Costs are estimates at API prices."""

    messages: int
    """API responses, each counted once."""
    tokens: Counters
    by_model: dict[str, Counters]
    cost_usd: Decimal
    unpriced: list[str] = field(default_factory=list)
    """Models without a known price; their tokens are not part of any cost."""
    carried_messages: int = 0
    """Responses copied by a fork or a resume: they count for another session."""
    carried_usd: Decimal = Decimal(0)
    """Their cost."""


class Account(RunningTotals):
    """A session's totals, which also follow the logs of its subagents."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[Path, int] = {}
        self._running: RunningBill | None = None

    def read_subagents(self, main: Path, session_id: str) -> None:
        """Read what was added to the subagents' logs next to the *main* one."""
        for path in subagent_logs_near(main, session_id):
            try:
                reader = Reader(path, start=self._read.get(path, 0), tail="wait")
            except NotFound:
                continue  # Gone since it was listed.
            with reader:
                for item in reader:
                    if isinstance(item, Placed):
                        self.take(item.record)
                self._read[path] = reader.offset

    def priced(self, *, session_id: str | None = None) -> SessionTotals:
        """Return the totals and their cost, at the default prices.

        With a session id, they include what was copied from other sessions.
        """
        bill = self._bill()
        everything = () if session_id is None else self.responses
        carried = [each for each in everything if each.session not in {session_id, None}]
        return SessionTotals(
            messages=self.messages,
            tokens=copy.deepcopy(self.counters),
            by_model=copy.deepcopy(self.usage),
            cost_usd=bill.total_usd,
            unpriced=sorted({each.model for each in bill.unpriced}),
            carried_messages=sum(each.messages for each in carried),
            carried_usd=usual_prices().bill(carried).total_usd if carried else Decimal(0),
        )

    def _bill(self) -> Bill:
        if self._folded.is_contested:
            return usual_prices().bill(self.responses)
        self._catch_up()
        if self._running is None:
            self._running = RunningBill(usual_prices())
            for response in self.responses:
                self._running.take(response)
        return self._running.now()

    def _count(self, responses: Iterable[Response], times: int) -> None:
        super()._count(responses, times)
        if self._running is not None:
            for response in responses:
                self._running.take(response, times)


@cache
def usual_prices() -> Prices:
    """Load the prices once; `turnlog prices` reports invalid settings."""
    return configured_prices(turnlog_home())[0]
