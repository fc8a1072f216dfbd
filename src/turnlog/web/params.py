"""What a request asks for: its fields, read as the command line reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from msgspec import Struct

from turnlog.api.arguments import resolve_instant, resolve_project
from turnlog.errors import UsageError
from turnlog.web.context import PageContext

PERIODS: Final[dict[str, str]] = {
    "30d": "the last 30 days",
    "7d": "the last 7 days",
    "today": "today",
    "90d": "the last 90 days",
    "1y": "the last year",
    "all": "all of the time",
}
"""Those that reports offer, the usual one first."""
_MOST_DIGITS: Final = 9


class Params(Struct, frozen=True):
    """The fields of one request."""

    fields: Mapping[str, str]
    desk: PageContext

    def text(self, name: str, default: str = "") -> str:
        """Return a field's text, or *default* if it is empty or was not sent."""
        return self.fields.get(name, "").strip() or default

    def is_on(self, name: str) -> bool:
        """Return whether a box was ticked."""
        return bool(self.text(name))

    def one_of(self, name: str, names: Mapping[str, str]) -> str:
        """Return one of *names*, the first if none was sent; any other is a mistake."""
        chosen = self.text(name, next(iter(names)))
        if chosen not in names:
            raise UsageError(
                f"{name} cannot be {chosen[:80]!r}", hint=f"it is one of {', '.join(names)}"
            )
        return chosen

    def moment(self, name: str, default: str = "") -> datetime | None:
        """Read a time as people say it."""
        return resolve_instant(self.text(name, default) or None, self.desk.zone)

    @property
    def period(self) -> str | None:
        """When a report begins, one of PERIODS; None if it is of all the time."""
        chosen = self.one_of("since", PERIODS)
        return None if chosen == "all" else chosen

    @property
    def project(self) -> str | None:
        """The directory that is meant, by its path or its name."""
        said = self.text("project")
        return resolve_project(said, self.desk.store.homes) if said else None

    @property
    def offset(self) -> int:
        """How many rows are on the pages before."""
        said = self.text("offset", "0")
        if not said.isdecimal() or len(said) > _MOST_DIGITS:
            raise UsageError(
                f"invalid offset: {said[:20]!r}",
                hint=f"use a number of at most {_MOST_DIGITS} digits",
            )
        return int(said)
