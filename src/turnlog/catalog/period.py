"""The filter that most reports share: a range of time, a project, a model, a session."""

# Without postponed annotations, which msgspec would have to evaluate at every start.

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats.projects import is_within

if TYPE_CHECKING:
    from turnlog.records.responses import Response


class Period(Struct, frozen=True, kw_only=True):
    """A filter for responses; the range of time is half-open."""

    since: datetime | None = None
    until: datetime | None = None
    project: str | None = None
    model: str | None = None
    session: str | None = None

    def holds(self, response: "Response") -> bool:
        """Return whether *response* passes; an undated one is in no range of time."""
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
    """Raise UsageError if the period is empty."""
    if since is not None and until is not None and since >= until:
        raise UsageError(
            "the period ends before it begins",
            hint="since must be before until",
            code="period-reversed",
        )
