"""Count each API response once, however many records mention it.

An entry's response is identified by message id and request id, or by the record if it has neither.
Entries of one message in a sidechain, under another request, are replays. A message id alone is not
unique, since gateways use the clock: without a request id, entries form a response only if they can
be one stream, by one model, in one thread of one session, with growing output. Copies of a record
(same uuid, same line, or ``forkedFrom``) belong to the record's stream.

The entry with the largest output counts, then the most tokens, then the last, because early records
have preliminary figures. Figures of two records are never mixed.

A response belongs to the session that first paid: its own records win over replays, echoes and
declared copies. If two sessions claim it, the one that diverged first is older and wins. The
response is dated by the paying session's last record of it. A session's project is the directory of
its first response, also for its subagents.

Messages made up by the agent program count only if they claim tokens. The result depends neither on
the order of entries nor on how logs are split nor on duplicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import force_setattr

from turnlog.records.record import Record, SystemInit
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import (
    BEFORE_ALL,
    SYNTHETIC,
    Place,
    UsageEntry,
    UsageReader,
    folded,
    is_same_place,
    name_of,
    outweighs,
    place_of,
    says_the_same,
)

UNKNOWN: Final = "(unknown)"
"""The model name if no record has one."""


Seen = UsageEntry | dict[Place, UsageEntry]
"""All entries of one message: merged into one where they come from the same place."""

AFTER_ALL: Final = datetime.max.replace(tzinfo=UTC)


def model_name_of(model: str | None, speed: str | None) -> str:
    """Return a model as reports name it: fast mode has its own prices and so its own name."""
    name = model or UNKNOWN
    return f"{name}-fast" if speed == "fast" else name


class Response(Struct, frozen=True, gc=False):
    """One counted API response, or a further pass of it that is billed separately."""

    message_id: str | None
    request_id: str | None
    part: str
    session: str | None
    subagent: str | None
    is_sidechain: bool
    at: datetime | None
    """When its last record was written; None if unknown."""
    model: str | None
    counters: Counters
    speed: str | None
    service_tier: str | None
    inference_geo: str | None
    recorded_usd: Decimal | None
    """The cost recorded by the program that wrote the log (``costUSD``)."""
    cwd: str | None
    project: str | None
    """The directory its session began in."""
    log: str
    """The log that holds the record which counts, and its offset."""
    offset: int

    @property
    def model_name(self) -> str:
        """The model as reports name it."""
        return model_name_of(self.model, self.speed)

    @property
    def messages(self) -> int:
        """The number of messages: one, or zero for a further pass."""
        return 0 if self.part else 1

    @property
    def context(self) -> int:
        """The number of tokens the model read."""
        return self.counters.context


class ResponseGroup(Response, frozen=True, gc=False):
    """The sum of several responses that are equal for reports and prices."""

    messages: int = 0
    context: int = 0
    """A context that is priced like each of theirs."""


class Responses:
    """All responses seen so far. Call ``take`` for each entry, then ``settle``."""

    def __init__(self) -> None:
        self.synthetic = 0
        """Messages without tokens made up by the agent program."""
        self.is_contested = False
        """Whether several sessions claim one message: the payer is known only at the end."""
        self._nameless = 0
        self._seen: dict[str, Seen] = {}
        self._session_of: dict[str, str] = {}
        """One session for each message that has several entries."""

    def take(self, entry: UsageEntry) -> None:
        """Add an entry and take ownership of it: it may be changed."""
        name: str | None = entry.message_id
        if name is None or entry.part or entry.model == SYNTHETIC:
            name = self.name(entry)
        if name is not None:
            self.put(name, entry)

    def held(self) -> list[UsageEntry]:
        """Return the entries held so far, for another fold."""
        return [
            entry
            for seen in self._seen.values()
            for entry in ((seen,) if isinstance(seen, UsageEntry) else seen.values())
        ]

    def settle(self) -> list[Response]:
        """Return every response once, in the order first seen."""
        settled = [one for found in self.settle_by_name().values() for one in found]
        _place_in_projects(settled)
        return settled

    def drain(self) -> list[Response]:
        """Settle for good: each entry is freed when its response is built, to save memory."""
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

    def name(self, entry: UsageEntry) -> str | None:
        """Return the name of the entry's message, the same for all its requests, or None."""
        if entry.model == SYNTHETIC and not entry.counters.total:
            self.synthetic += 1
            return None
        name = name_of(entry)
        if name is None:
            self._nameless += 1
            name = f"nameless {self._nameless}"
        return name

    def put(self, name: str, entry: UsageEntry) -> None:
        """Add an entry of the message called *name*."""
        known = self._seen.setdefault(name, entry)
        if known is entry:
            return
        if isinstance(known, UsageEntry):
            if is_same_place(known, entry):
                self._seen[name] = folded(known, entry)
                return
            self._note_session(name, known)
            known = self._seen[name] = {place_of(known): known}
        place = place_of(entry)
        here = known.get(place)
        known[place] = entry if here is None else folded(here, entry)
        if here is None:
            self._note_session(name, entry)

    def _note_session(self, name: str, entry: UsageEntry) -> None:
        session = entry.session
        if session is not None and self._session_of.setdefault(name, session) != session:
            self.is_contested = True

    def now(self, name: str) -> list[Response]:
        """Return the responses of one name; the payer is decided without the other names."""
        seen = self._seen.get(name)
        return [] if seen is None else _settled(seen, None)


def _place_in_projects(responses: Iterable[Response]) -> None:
    """Set the project of sessions that changed directories to the one they began in."""
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
    """The usage of one session, current after each record.

    Records of its logs, the main one and the subagents', may be added in any order, unless their
    dialect tells usage in several lines: then call ``begin_log`` before the first of each log.
    """

    def __init__(self) -> None:
        self.odd = 0
        """Records with invalid usage values; see the rule in ``usage``."""
        self._folded = Responses()
        self._messages = 0
        self._counters = Counters()
        self._usage: dict[str, Counters] = {}
        self._counted: Counter[str] = Counter()
        self._stale: dict[str, list[Response]] = {}
        """Names with new entries, and the responses counted for each so far."""
        self._usual_model: str | None = None
        self._reader = UsageReader()

    def begin_log(self) -> None:
        """Note that the next records are of another log."""
        self._reader = UsageReader()

    def take(self, record: Record) -> None:
        """Add a record."""
        if isinstance(record, SystemInit):
            self._usual_model = record.model or self._usual_model
        for entry in self._reader.entries_of(record):
            self.odd += bool(entry.odd)
            entry.model = entry.model or self._usual_model
            name = self._folded.name(entry)
            if name is not None:
                if name not in self._stale:
                    self._stale[name] = self._folded.now(name)
                self._folded.put(name, entry)

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
        """The tokens by model name as in reports, ``…-fast`` for fast mode."""
        self._catch_up()
        return self._usage

    @property
    def responses(self) -> list[Response]:
        """Every response counted so far, to be priced or listed."""
        return self._folded.settle()

    def _catch_up(self) -> None:
        """Count what changed since the last call, each name once."""
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
                del self._usage[name]  # The response continued with another model.


def _settled(seen: Seen, older: SessionOrder | None) -> list[Response]:
    if isinstance(seen, UsageEntry):
        return [_response(Deduplicated(seen, seen, seen.last_at, seen.recorded_usd))]
    return [_response(deduplicate(group, older)) for group in by_response(seen.values())]


def _response(decision: Deduplicated) -> Response:
    counts, place = decision.counts, decision.place
    cwd = place.cwd or counts.cwd
    return Response(  # Positional, in the order above: there are many of them.
        counts.message_id,
        counts.request_id,
        counts.part,
        place.session,
        place.subagent,
        place.is_sidechain,
        decision.at,
        counts.model,
        counts.counters,
        counts.speed,
        counts.service_tier,
        counts.inference_geo,
        decision.recorded_usd,
        cwd,
        cwd,
        counts.log,
        counts.offset,
    )


class Deduplicated(Struct, frozen=True):
    """The decision about one response."""

    counts: UsageEntry
    """The entry whose figures count."""
    place: UsageEntry
    """The entry that names the paying session and its directory."""
    at: datetime | None
    recorded_usd: Decimal | None


def deduplicate(places: list[UsageEntry], older: SessionOrder | None) -> Deduplicated:
    """Decide about one response with entries in several places."""
    claimants = _claimants(places)
    payer = min(claimants, default=None)
    if len(claimants) > 1 and older is not None:
        payer = older.oldest(claimants)
    paid = [entry for entry in places if entry.session == payer]
    best = min(entry.rank for entry in paid)
    paid = [entry for entry in paid if entry.rank == best]
    counts = _heaviest(places)
    # Among equal entries, prefer the paying session's own.
    same = [entry for entry in paid if says_the_same(entry, counts)]
    costs = [entry.recorded_usd for entry in places if entry.recorded_usd is not None]
    return Deduplicated(
        _heaviest(same) if same else counts,
        min(paid, key=_where),
        _latest(paid) or _latest(places),
        max(costs, default=None),
    )


class SessionOrder:
    """Finds the oldest of several sessions that claim the same response.

    A fork holds a copy of everything before it. Of two sessions, the one that has nothing the other
    lacks, or had it first, is older.
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        shared = {
            name: by_response(found.values())
            for name, found in seen.items()
            if isinstance(found, dict)
        }
        rivals: set[str] = set()
        for claimants in (_claimants(places) for found in shared.values() for places in found):
            rivals.update(claimants if len(claimants) > 1 else ())
        self._claims: dict[str, dict[tuple[str, int], datetime]] = {
            session: {} for session in rivals
        }
        if rivals:
            for name, found in seen.items():
                responses = [[found]] if isinstance(found, UsageEntry) else shared[name]
                for number, places in enumerate(responses):
                    for entry in places:
                        claims = self._claims.get(entry.session or "")
                        if claims is not None:
                            at = entry.last_at or AFTER_ALL
                            claims[name, number] = min(at, claims.get((name, number), at))

    def oldest(self, sessions: Iterable[str]) -> str:
        """Return the oldest of *sessions*; if they cannot be distinguished, the first by name."""
        first, *others = sorted(sessions)
        for other in others:
            if self._left(other, first) < self._left(first, other):
                first = other
        return first

    def _left(self, session: str, other: str) -> datetime:
        """Return when *session* first had something that *other* does not have."""
        theirs = self._claims.get(other, {})
        own = (at for name, at in self._claims.get(session, {}).items() if name not in theirs)
        return min(own, default=BEFORE_ALL)


def _latest(entries: Iterable[UsageEntry]) -> datetime | None:
    return max((entry.last_at for entry in entries if entry.last_at is not None), default=None)


def by_response(places: Collection[UsageEntry]) -> list[list[UsageEntry]]:
    """Split the entries of one message into responses.

    A stream without a request id belongs to the first request of its session, if there is one.
    """
    groups = _by_request([entry for entry in places if entry.request_id is not None])
    streams = _streams([entry for entry in places if entry.request_id is None])
    if not groups or not streams:
        return groups or streams
    requests = [({entry.session for entry in group}, group) for group in sorted(groups, key=_age)]
    for stream in streams:
        makers = {entry.session for entry in stream}
        first = next((group for sessions, group in requests if sessions & makers), None)
        groups.append(stream) if first is None else first.extend(stream)
    return groups


def _by_request(places: Collection[UsageEntry]) -> list[list[UsageEntry]]:
    """Split entries into one group per request made outside a sidechain.

    Replays under another request belong to the first of them.
    """
    groups: dict[str | None, list[UsageEntry]] = {}
    for entry in places:
        if not entry.is_sidechain:
            groups.setdefault(entry.request_id, []).append(entry)
    if len(groups) <= 1:
        return [list(places)] if places else []
    first = min(groups, key=lambda request: _age(groups[request]))
    for entry in places:
        if entry.is_sidechain:
            groups[entry.request_id if entry.request_id in groups else first].append(entry)
    return list(groups.values())


def _age(group: Collection[UsageEntry]) -> tuple[datetime, str]:
    return _latest(group) or AFTER_ALL, min(entry.request_id or "" for entry in group)


def _streams(places: Iterable[UsageEntry]) -> list[list[UsageEntry]]:
    """Split entries without a request id into possible streams.

    A stream has one model, one thread and one session, and its output grows with time: gateways
    give one message id to everything answered in the same second. A copy of a record, such as a
    fork makes, belongs to the stream of the record.
    """
    ordered = sorted(places, key=lambda entry: (entry.at or BEFORE_ALL, entry.counters.output))
    joined = list(range(len(ordered)))  # Each points towards the first of its stream.
    last: dict[tuple[str | None, str | None, bool, str | None], int] = {}
    records: dict[str, int] = {}
    for number, entry in enumerate(ordered):
        thread = (entry.session, entry.subagent, entry.is_sidechain, entry.model)
        before = last.get(thread, number)
        last[thread] = number
        if ordered[before].counters.output <= entry.counters.output:
            _join(joined, before, number)
        for record in (entry.record_id, entry.copy_of):
            if record is not None:
                _join(joined, records.setdefault(record, number), number)
    streams: dict[int, list[UsageEntry]] = {}
    for number, entry in enumerate(ordered):
        streams.setdefault(_first(joined, number), []).append(entry)
    return list(streams.values())


def _join(joined: list[int], one: int, two: int) -> None:
    first, other = sorted((_first(joined, one), _first(joined, two)))
    joined[other] = first


def _first(joined: list[int], number: int) -> int:
    while joined[number] != number:
        joined[number] = joined[joined[number]]
        number = joined[number]
    return number


def _claimants(places: Iterable[UsageEntry]) -> set[str]:
    """Return the sessions with the strongest claim to a response."""
    claims = [entry for entry in places if entry.session is not None]
    best = min((entry.rank for entry in claims), default=None)
    return {entry.session for entry in claims if entry.session is not None and entry.rank == best}


def _heaviest(entries: Iterable[UsageEntry]) -> UsageEntry:
    return reduce(lambda one, two: two if outweighs(two, one) else one, entries)


def _where(entry: UsageEntry) -> tuple[Any, ...]:
    """Sort key for places: one that names a subagent comes first."""
    return (
        entry.subagent is None,
        entry.subagent or "",
        entry.is_sidechain,
        entry.cwd is None,
        entry.cwd or "",
    )
