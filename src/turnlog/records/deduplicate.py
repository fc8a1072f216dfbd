"""Decide which usage entry of a response counts, and which session paid for it.

Pure functions. ``responses`` explains the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from msgspec import Struct

from turnlog.records.usage_entries import UsageEntry

Place = tuple[str | None, str | None, str | None, bool, int, str | None]
Seen = UsageEntry | dict[Place, UsageEntry]
"""All entries of one message: merged into one where they come from the same place."""

BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)
AFTER_ALL: Final = datetime.max.replace(tzinfo=UTC)


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
    paid = [each for each in places if each.session == payer]
    best = min(each.rank for each in paid)
    paid = [each for each in paid if each.rank == best]
    counts = _heaviest(places)
    # Among equal entries, prefer the paying session's own.
    same = [each for each in paid if _says_the_same(each, counts)]
    costs = [each.recorded_usd for each in places if each.recorded_usd is not None]
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
        self._claims: dict[str, dict[tuple[str, int], datetime]] = {each: {} for each in rivals}
        if rivals:
            for name, found in seen.items():
                responses = [[found]] if isinstance(found, UsageEntry) else shared[name]
                for number, places in enumerate(responses):
                    self._claim((name, number), places)

    def _claim(self, response: tuple[str, int], places: Iterable[UsageEntry]) -> None:
        for each in places:
            claims = self._claims.get(each.session or "")
            if claims is not None:
                at = each.last_at or AFTER_ALL
                claims[response] = min(at, claims.get(response, at))

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


def name_of(entry: UsageEntry) -> str | None:
    """Return the name of the entry's message, equal for all its requests; None if it has none."""
    name = entry.message_id
    if name is None:
        name = entry.request_id and f"request {entry.request_id}"
    if name is None:
        record = entry.copy_of or entry.record_id
        name = record and f"record {record}"
    return f"{name} {entry.part}" if name is not None and entry.part else name


def place_of(entry: UsageEntry) -> Place:
    return (
        entry.request_id,
        entry.session,
        entry.subagent,
        entry.is_sidechain,
        entry.rank,
        entry.record_id,
    )


def is_same_place(one: UsageEntry, two: UsageEntry) -> bool:
    return (
        one.request_id == two.request_id
        and one.session == two.session
        and one.subagent == two.subagent
        and one.is_sidechain == two.is_sidechain
        and one.rank == two.rank
        and one.record_id == two.record_id
    )


def folded(one: UsageEntry, two: UsageEntry) -> UsageEntry:
    """Merge two entries from one place into the one that counts."""
    winner, loser = (two, one) if _outweighs(two, one) else (one, two)
    ends = loser.last_at
    if ends is not None and (winner.last_at is None or ends > winner.last_at):
        winner.last_at = ends
    if loser.recorded_usd is not None:
        winner.recorded_usd = max(winner.recorded_usd or loser.recorded_usd, loser.recorded_usd)
    return winner


def _outweighs(one: UsageEntry, two: UsageEntry) -> bool:
    """Return whether *one* counts rather than *two*."""
    ours, theirs = one.counters, two.counters
    if ours.output != theirs.output:
        return ours.output > theirs.output
    if ours.total != theirs.total:
        return ours.total > theirs.total
    if one.at != two.at:
        return (one.at or BEFORE_ALL) > (two.at or BEFORE_ALL)
    if not _says_the_same(one, two):
        return _sort_key(one) > _sort_key(two)
    ours_at = (one.request_id or "", one.log, one.offset)
    return ours_at < (two.request_id or "", two.log, two.offset)


def _says_the_same(one: UsageEntry, two: UsageEntry) -> bool:
    return one is two or (
        one.counters == two.counters
        and one.model == two.model
        and one.speed == two.speed
        and one.service_tier == two.service_tier
        and one.inference_geo == two.inference_geo
        and one.cwd == two.cwd
    )


def _sort_key(entry: UsageEntry) -> tuple[Any, ...]:
    """Return all fields of an entry as a sort key, so that the choice is deterministic."""
    counters = entry.counters
    figures = tuple(getattr(counters, name) for name in counters.__struct_fields__[:-1])
    terms = (entry.speed, entry.service_tier, entry.inference_geo)
    texts = (*terms, entry.model, entry.cwd)
    return (*(text or "" for text in texts), figures, sorted(counters.others.items()))


def _latest(sightings: Iterable[UsageEntry]) -> datetime | None:
    return max((each.last_at for each in sightings if each.last_at is not None), default=None)


def by_response(places: Collection[UsageEntry]) -> list[list[UsageEntry]]:
    """Split the entries of one message into responses.

    A stream without a request id belongs to the first request of its session, if there is one.
    """
    groups = _by_request([each for each in places if each.request_id is not None])
    streams = _streams([each for each in places if each.request_id is None])
    if not groups or not streams:
        return groups or streams
    requests = [({each.session for each in group}, group) for group in sorted(groups, key=_age)]
    for stream in streams:
        makers = {each.session for each in stream}
        first = next((group for sessions, group in requests if sessions & makers), None)
        groups.append(stream) if first is None else first.extend(stream)
    return groups


def _by_request(places: Collection[UsageEntry]) -> list[list[UsageEntry]]:
    """Split entries into one group per request made outside a sidechain.

    Replays under another request belong to the first of them.
    """
    groups: dict[str | None, list[UsageEntry]] = {}
    for each in places:
        if not each.is_sidechain:
            groups.setdefault(each.request_id, []).append(each)
    if len(groups) <= 1:
        return [list(places)] if places else []
    first = min(groups, key=lambda request: _age(groups[request]))
    for each in places:
        if each.is_sidechain:
            groups[each.request_id if each.request_id in groups else first].append(each)
    return list(groups.values())


def _age(group: Collection[UsageEntry]) -> tuple[datetime, str]:
    return _latest(group) or AFTER_ALL, min(each.request_id or "" for each in group)


def _streams(places: Iterable[UsageEntry]) -> list[list[UsageEntry]]:
    """Split entries without a request id into possible streams.

    A stream has one model, one thread and one session, and its output grows with time: gateways
    give one message id to everything answered in the same second. A copy of a record, such as a
    fork makes, belongs to the stream of the record.
    """
    ordered = sorted(places, key=lambda each: (each.at or BEFORE_ALL, each.counters.output))
    joined = list(range(len(ordered)))  # Each points towards the first of its stream.
    last: dict[tuple[str | None, str | None, bool, str | None], int] = {}
    records: dict[str, int] = {}
    for number, each in enumerate(ordered):
        thread = (each.session, each.subagent, each.is_sidechain, each.model)
        before = last.get(thread, number)
        last[thread] = number
        if ordered[before].counters.output <= each.counters.output:
            _join(joined, before, number)
        for record in (each.record_id, each.copy_of):
            if record is not None:
                _join(joined, records.setdefault(record, number), number)
    streams: dict[int, list[UsageEntry]] = {}
    for number, each in enumerate(ordered):
        streams.setdefault(_first(joined, number), []).append(each)
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
    claims = [each for each in places if each.session is not None]
    best = min((each.rank for each in claims), default=None)
    return {each.session for each in claims if each.session is not None and each.rank == best}


def _heaviest(sightings: Iterable[UsageEntry]) -> UsageEntry:
    return reduce(lambda one, two: two if _outweighs(two, one) else one, sightings)


def _where(entry: UsageEntry) -> tuple[Any, ...]:
    """Sort key for places: one that names a subagent comes first."""
    return (
        entry.subagent is None,
        entry.subagent or "",
        entry.is_sidechain,
        entry.cwd is None,
        entry.cwd or "",
    )
