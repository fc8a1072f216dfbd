"""What a page may look at: the sessions of some homes, and how their words leave.

Everything that a log says goes to a page through here. It is shown as it stands, as in a terminal,
unless the owner asked for masks: then it goes through the door of exports.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import cached_property

from turnlog.api.store import Store
from turnlog.export.exporter import known_lines
from turnlog.export.masking import Masking
from turnlog.formats.projects import last_part
from turnlog.live.sessions import Live
from turnlog.pricing.cost import Prices
from turnlog.records.dates import MachineZone
from turnlog.redact import Rules, gather_known
from turnlog.sessions.session import Session


class PageContext:
    """All that the pages of one server share."""

    def __init__(
        self,
        store: Store,
        prices: Prices,
        *,
        rules: Rules | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        """Show the sessions of *store* at these *prices*; with *rules*, mask what they find."""
        self.store, self.prices = store, prices
        self.zone = zone or MachineZone()
        self._rules = rules
        self.mask = None if rules is None else Masking(rules=rules).text
        """What takes secrets out of a text; None if they are shown."""

    def clean(self, text: str | None) -> str:
        """Return a text of a log as it may be shown."""
        return (text or "") if self.mask is None else self.mask(text or "")

    def project_name(self, path: str | None) -> str:
        """Name a project by the last part of its directory."""
        return self.clean(last_part(path or ""))

    def outgoing(self, session: Session) -> Masking:
        """Return the door for the words of a session."""
        if self._rules is None:
            return Masking(is_redacted=False)
        return Masking(rules=gather_known(known_lines((session,)), self._rules))

    @cached_property
    def live(self) -> Live:
        """What agents are doing; it remembers how far their logs were read."""
        return Live(
            self.store.homes,
            self.prices,
            zone=self.zone,
        )

    def now(self) -> datetime:
        return datetime.now(UTC)

    def when(self, at: datetime | None) -> str:
        """Write an instant by this machine's clock."""
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}" if at else ""
