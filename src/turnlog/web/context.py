"""What pages share: the sessions, masking, and the parameters of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final

from msgspec import Struct

from turnlog.api.arguments import projects_named, resolve_instant
from turnlog.api.homes import last_part
from turnlog.api.live import Live
from turnlog.api.sessions.lists import list_projects
from turnlog.api.sessions.reader import SessionReaders
from turnlog.api.sessions.reading import Session
from turnlog.api.store import Store
from turnlog.errors import UsageError
from turnlog.export.exporter import known_lines
from turnlog.export.masking import Masking
from turnlog.export.record_blocks import Unmasked
from turnlog.pricing.cost import Prices
from turnlog.records.dates import MachineZone
from turnlog.redact import Rules, gather_known


class PageContext:
    """What all pages of one server share."""

    def __init__(
        self,
        store: Store,
        prices: Prices,
        *,
        rules: Rules | None = None,
        zone: tzinfo | None = None,
        is_read_only: bool = False,
    ) -> None:
        """Show the sessions of *store* at these *prices*; with *rules*, mask secrets."""
        self.store, self.prices = store, prices
        self.is_read_only = is_read_only
        """Whether titles, tags and pins cannot be changed."""
        self.zone = zone or MachineZone()
        self._rules = rules
        self.mask = None if rules is None else Masking(rules=rules).text
        """Masks the secrets in a text; None if they are shown."""

    def clean(self, text: str | None) -> str:
        """Return a text from a log, masked if needed."""
        return (text or "") if self.mask is None else self.mask(text or "")

    def project_name(self, path: str | None) -> str:
        """Return the last part of a project's path."""
        return self.clean(last_part(path or ""))

    def outgoing(self, session: Session) -> Unmasked:
        """Return the masking for the text of a session."""
        if self._rules is None:
            return Unmasked()
        return Masking(rules=gather_known(known_lines((session,)), self._rules))

    @cached_property
    def readers(self) -> SessionReaders:
        """The sessions that are read, with what one pass over their logs found."""
        return SessionReaders(self.outgoing)

    @cached_property
    def live(self) -> Live:
        """What agents are doing now."""
        return Live(self.store.homes, self.prices, zone=self.zone)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def when(self, at: datetime | None) -> str:
        """Return an instant in this machine's time zone."""
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}" if at else ""


def one_project(name: str, known: Sequence[str]) -> str:
    """Return the one directory of *known* that has this name; raise UsageError if several have."""
    found = projects_named(name, known)
    if len(found) > 1:
        raise UsageError(
            f"{name} is the name of {len(found)} projects", hint=f"use {' or '.join(found)}"
        )
    return found[0]


_MOST_DIGITS: Final = 9


class Params(Struct, frozen=True):
    """The parameters of a request."""

    fields: Mapping[str, str]
    ctx: PageContext
    pairs: Sequence[tuple[str, str]] = ()
    """Every name and value, for parameters that are given several times."""

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter, or *default* if it is empty or missing."""
        return self.fields.get(name, "").strip() or default

    def every(self, name: str) -> list[str]:
        """Return all values of a parameter that are not empty."""
        return [value.strip() for key, value in self.pairs if key == name and value.strip()]

    def is_on(self, name: str) -> bool:
        """Return whether a box is checked."""
        return bool(self.text(name))

    def one_of(self, name: str, names: Mapping[str, str]) -> str:
        """Return one of *names*, by default the first; raise UsageError for any other."""
        chosen = self.text(name, next(iter(names)))
        if chosen not in names:
            raise UsageError(
                f"{name} cannot be {chosen[:80]!r}", hint=f"it is one of {', '.join(names)}"
            )
        return chosen

    def moment(self, name: str, default: str = "") -> datetime | None:
        """Parse a time such as 7d."""
        return resolve_instant(self.text(name, default) or None, self.ctx.zone)

    @property
    def project(self) -> str | None:
        """The directory of a project, given by path or name; it has to be one with sessions."""
        name = self.text("project")
        if not name:
            return None
        with self.ctx.store.index() as index:
            known = [row.path for row in list_projects(index).projects if row.path]
        return one_project(name, known)

    @property
    def offset(self) -> int:
        """The number of rows on earlier pages."""
        return self.number("offset", 0)

    def number(self, name: str, default: int) -> int:
        """Return a number that is not negative; raise UsageError for anything else."""
        given = self.text(name, str(default))
        if not (given.isascii() and given.isdecimal()) or len(given) > _MOST_DIGITS:
            raise UsageError(
                f"invalid {name}: {given[:20]!r}",
                hint=f"use a number of at most {_MOST_DIGITS} digits",
            )
        return int(given)
