"""Which responses a question is about: a stretch of time, a project, a model, a session."""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats.projects import is_within

if TYPE_CHECKING:
    from turnlog.records.responses import Response


class Period(Struct, frozen=True, kw_only=True):
    """Which responses are asked for; half-open in time."""

    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    model: str | None = None
    session: str | None = None

    @property
    def is_part(self) -> bool:
        """Not everything is asked for."""
        return self != Period()

    def holds(self, response: "Response") -> bool:
        """Return whether *response* is asked for; one without a date is in no stretch of time."""
        at = response.at
        if (self.since or self.until) and at is None:
            return False
        return (
            (self.since is None or at is None or at >= self.since)
            and (self.until is None or at is None or at < self.until)
            and (self.project is None or is_within(response.project, self.project))
            and (self.model is None or self.model.lower() in response.model_name.lower())
            and (self.session is None or (response.session or "").startswith(self.session))
        )


def check_period(since: datetime | None, until: datetime | None) -> None:
    """Refuse a period that holds nothing."""
    if since is not None and until is not None and since >= until:
        raise UsageError(
            "the period ends before it begins", hint="since is before until", code="period-reversed"
        )
