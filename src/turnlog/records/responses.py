"""The fold that counts each API response once, whatever was written of it and where.

Sightings of one response are told by the message's id and the request's; by the record where there
is neither. Of one message's sightings under several requests, those in a sidechain are replays of
the others. Requests that each have a sighting outside a sidechain are responses of their own.

A message id alone identifies no response: gateways use the clock, so parallel sessions share ids.
Without a request, sightings are one response where they can be one stream: by one model, in one
thread of one session, with an output that grows. Copies of a record (same uuid, the same line, or
``forkedFrom``) are of the record's stream.

Of a response's sightings the one with the largest output counts, then the one with the most tokens,
then the last: early records carry counts that are not final. It counts whole; figures of two
records are never mixed.

It is given to the session that first paid. A session's own records beat replays, echoes and copies
that say whose they are (``forkedFrom``, or another session's id). Where two sessions both claim a
response as their own, as after a fork that rewrote its ids, the one that went its own way first is
the older: the other follows it until the fork and has nothing of its own before. It is dated by the
last record that the paying session has of it.

A session's project is the directory in which it was first answered, also for its agents: a session
that changes directories on its way stays one project's.

Messages that the agent program made up itself are not responses, unless they claim tokens: those
are counted under the model they name, so that no token is in a total and in no row.

The result does not depend on the order of sightings, on how logs are cut, nor on repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from turnlog.records.deduplicate import (
    AFTER_ALL,
    Deduplicated,
    Seen,
    SessionOrder,
    by_response,
    deduplicate,
    folded,
    is_same_place,
    name_of,
    place_of,
)
from turnlog.records.record import Record, SystemInit
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import SYNTHETIC, UsageEntry, usage_entries_of

UNKNOWN: Final = "(unknown)"
"""The model's name where no record tells it."""


class Response(Struct, frozen=True, gc=False):
    """One API response, or a further pass of one that is paid apart, counted."""

    message_id: str | None
    request_id: str | None
    part: str
    session: str | None
    agent: str | None
    is_sidechain: bool
    at: datetime | None
    """When its last record was written; None if no record tells."""
    model: str | None
    counters: Counters
    speed: str | None
    service_tier: str | None
    inference_geo: str | None
    recorded_usd: Decimal | None
    """What the program that wrote the log thought it cost (``costUSD``)."""
    cwd: str | None
    project: str | None
    """The directory its session began in."""
    log: str
    """The log that holds the record which counts, and where in it."""
    offset: int

    @property
    def model_name(self) -> str:
        """The model as reports name it: fast mode has prices of its own, and so a name."""
        name = self.model or UNKNOWN
        return f"{name}-fast" if self.speed == "fast" else name

    @property
    def messages(self) -> int:
        """How many messages it is: one, but none for a further pass of the same."""
        return 0 if self.part else 1

    @property
    def context(self) -> int:
        """How many tokens the model read at once."""
        return self.counters.context


class ResponseGroup(Response, frozen=True, gc=False):
    """Several responses added up that differ in nothing a report or a price asks for."""

    count: int = 0
    largest: int = 0
    """A context that is priced as each of theirs is."""

    @property
    def messages(self) -> int:
        return self.count

    @property
    def context(self) -> int:
        return self.largest


class Responses:
    """Every response sighted so far. Feed it with ``take``, then ``settle``."""

    def __init__(self) -> None:
        self.synthetic = 0
        """Messages without tokens that the agent program made up itself."""
        self.is_contested = False
        """Whether several sessions tell of one message: who paid is known when all is settled."""
        self._nameless = 0
        self._seen: dict[str, Seen] = {}
        self._told_by: dict[str, str] = {}
        """A session that tells of each message that has several sightings."""

    def take(self, sighting: UsageEntry) -> None:
        """Fold one more sighting in, and take it over: it may be changed."""
        name: str | None = sighting.message_id
        if name is None or sighting.part or sighting.model == SYNTHETIC:
            name = self.name(sighting)
        if name is not None:
            self.put(name, sighting)

    def held(self) -> list[UsageEntry]:
        """Return what was folded so far, for another fold to take."""
        return [
            sighting
            for seen in self._seen.values()
            for sighting in ((seen,) if isinstance(seen, UsageEntry) else seen.values())
        ]

    def settle(self) -> list[Response]:
        """Return every response once, in the order in which they were first sighted."""
        settled = [each for found in self.settle_by_name().values() for each in found]
        _place_in_projects(settled)
        return settled

    def drain(self) -> list[Response]:
        """Settle for good: each sighting goes when its response is there, so both need one room."""
        older = SessionOrder(self._seen)
        settled: list[Response] = []
        for name in list(self._seen):
            settled += _settled(self._seen.pop(name), older)
        _place_in_projects(settled)
        return settled

    def settle_by_name(self) -> dict[str, list[Response]]:
        """Return every response once, by name; each in the directory it was made in."""
        older = SessionOrder(self._seen)
        return {name: _settled(seen, older) for name, seen in self._seen.items()}

    def name(self, sighting: UsageEntry) -> str | None:
        """Name what *sighting* tells of, all requests of one message alike; None: of nothing."""
        if sighting.model == SYNTHETIC and not sighting.counters.total:
            self.synthetic += 1
            return None
        name = name_of(sighting)
        if name is None:
            self._nameless += 1
            name = f"nameless {self._nameless}"
        return name

    def put(self, name: str, sighting: UsageEntry) -> None:
        """Fold in one more sighting of what is called *name*."""
        known = self._seen.setdefault(name, sighting)
        if known is sighting:
            return
        if isinstance(known, UsageEntry):
            if is_same_place(known, sighting):
                self._seen[name] = folded(known, sighting)
                return
            self._note_session(name, known)
            known = self._seen[name] = {place_of(known): known}
        place = place_of(sighting)
        here = known.get(place)
        known[place] = sighting if here is None else folded(here, sighting)
        if here is None:
            self._note_session(name, sighting)

    def _note_session(self, name: str, sighting: UsageEntry) -> None:
        session = sighting.session
        if session is not None and self._told_by.setdefault(name, session) != session:
            self.is_contested = True

    def now(self, name: str) -> list[Response]:
        """Return the responses of one name; who paid is decided without the other names."""
        seen = self._seen.get(name)
        return [] if seen is None else _settled(seen, None)


def _place_in_projects(responses: Iterable[Response]) -> None:
    """Give the responses of sessions that changed directories the one their session began in."""
    seen: dict[str | None, str | None] = {}
    moved = {
        response.session
        for response in responses
        if seen.setdefault(response.session, response.cwd) != response.cwd
    }
    moved.discard(None)
    if not moved:
        return
    first: dict[str | None, tuple[bool, datetime, str]] = {}
    of_moved = [response for response in responses if response.session in moved]
    for response in of_moved:
        if response.cwd is not None:
            began = (response.is_sidechain, response.at or AFTER_ALL, response.cwd)
            first[response.session] = min(began, first.get(response.session, began))
    for response in of_moved:
        force_setattr(response, "project", first[response.session][2])


class RunningTotals:
    """What a session used, current after each record; for those who write or read one.

    Records of its several logs, the main one's and the agents', may be taken in any order.
    """

    def __init__(self) -> None:
        self.odd = 0
        """Records whose usage held something odd; ``counters`` has the rule."""
        self._folded = Responses()
        self._messages = 0
        self._counters = Counters()
        self._usage: dict[str, Counters] = {}
        self._counted: Counter[str] = Counter()
        self._stale: dict[str, list[Response]] = {}
        """Names with new sightings, and the responses that were counted for each."""
        self._usual_model: str | None = None

    def take(self, record: Record) -> None:
        """Fold one more record in."""
        if isinstance(record, SystemInit):
            self._usual_model = record.model or self._usual_model
            return
        for sighting in usage_entries_of(record):
            self.odd += bool(sighting.odd)
            sighting.model = sighting.model or self._usual_model
            name = self._folded.name(sighting)
            if name is not None:
                if name not in self._stale:
                    self._stale[name] = self._folded.now(name)
                self._folded.put(name, sighting)

    @property
    def messages(self) -> int:
        """The number of responses."""
        self._catch_up()
        return self._messages

    @property
    def counters(self) -> Counters:
        """The tokens of all models together."""
        self._catch_up()
        return self._counters

    @property
    def usage(self) -> dict[str, Counters]:
        """The tokens by the model's name as reports say it, ``…-fast`` for fast mode."""
        self._catch_up()
        return self._usage

    @property
    def responses(self) -> list[Response]:
        """Every response counted so far, for those who price or list them."""
        return self._folded.settle()

    def _catch_up(self) -> None:
        """Count what changed since the last time, each name once."""
        stale, self._stale = self._stale, {}
        for name, before in stale.items():
            after = self._folded.now(name)
            if before != after:
                self._count(before, -1)
                self._count(after, 1)

    def _count(self, responses: Iterable[Response], times: int) -> None:
        for response in responses:
            name = response.model_name
            self._messages += times * response.messages
            self._counters.add(response.counters, times)
            self._usage.setdefault(name, Counters()).add(response.counters, times)
            self._counted[name] += times
            if not self._counted[name]:
                del self._usage[name]  # The response went on with another model.


def _settled(seen: Seen, older: SessionOrder | None) -> list[Response]:
    if isinstance(seen, UsageEntry):
        return [_response(seen, seen, seen.last_at, seen.recorded_usd)]
    return [_agreed(deduplicate(group, older)) for group in by_response(seen.values())]


def _agreed(on: Deduplicated) -> Response:
    return _response(on.counts, on.place, on.at, on.recorded_usd)


def _response(
    counts: UsageEntry, place: UsageEntry, at: datetime | None, recorded_usd: Decimal | None
) -> Response:
    cwd = place.cwd or counts.cwd
    return Response(  # By position, in the order above: there are many of them.
        counts.message_id,
        counts.request_id,
        counts.part,
        place.session,
        place.agent,
        place.is_sidechain,
        at,
        counts.model,
        counts.counters,
        counts.speed,
        counts.service_tier,
        counts.inference_geo,
        recorded_usd,
        cwd,
        cwd,
        counts.log,
        counts.offset,
    )
