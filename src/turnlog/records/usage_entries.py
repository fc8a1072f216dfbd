"""Usage entries: what a line says about the usage of API responses.

A response appears many times: each record that carries a part of it repeats its usage, early ones
with preliminary figures; a fork copies it; an agent's progress echoes it. Each such mention is a
UsageEntry, and ``responses`` decides which count. Assistant records of every dialect and echoes in
``agent_progress`` have entries. Totals of other entries do not: ``toolUseResult.usage`` and
summaries of whole runs. Further passes that a response's own figures leave out are in
``iterations`` (an advisor's, compaction of the context); each is an entry of its own.

Lines are tried with up to two decoders: ``decode_line``, which accepts exactly today's usage object
and skips everything else, and the full ``decode``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

# No string annotations here: msgspec would have to evaluate them at every start.
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from turnlog.records.codec import build, decode, encode
from turnlog.records.damage import Damage
from turnlog.records.dates import instant
from turnlog.records.dialects import BY_NAME, dialect_of
from turnlog.records.dialects.leftovers import UsageConverter
from turnlog.records.record import Assistant, Progress, Record
from turnlog.records.usage import MAX_COUNT, Counters, counters_of, split_writes

Place = tuple[str | None, str | None, str | None, bool, int, str | None]
BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class Writes(Struct, gc=False, forbid_unknown_fields=True):
    five_minutes: Count = field(default=0, name="ephemeral_5m_input_tokens")
    one_hour: Count = field(default=0, name="ephemeral_1h_input_tokens")


class Tools(Struct, gc=False, forbid_unknown_fields=True):
    web_search_requests: Count = 0
    web_fetch_requests: Count = 0


class Pass(Struct, gc=False):
    type: str | None = None


class StrictUsage(Struct, gc=False, forbid_unknown_fields=True):
    """Exactly today's usage object: an unknown field sends the line to the next decoder."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation_input_tokens: Count | None = 0
    cache_read_input_tokens: Count | None = 0
    cache_creation: Writes | None = None
    server_tool_use: Tools | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    iterations: tuple[Pass, ...] | None = None
    output_tokens_details: dict[str, Count] | None = None


class UsageMessage(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: StrictUsage | None = None


class UsageOrigin(Struct, gc=False, rename="camel"):
    session_id: str | None = None
    message_uuid: str | None = None


class UsageRecord(Struct, gc=False, rename="camel"):
    """The fields of a response's record that concern its usage."""

    type: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    timestamp: str | int | float | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    cost_usd: float | None = field(default=None, name="costUSD")
    forked_from: UsageOrigin | None = None
    message: UsageMessage | None = None

    @property
    def copied_from(self) -> str | None:
        """The session it was copied from, "" if unknown; None if it is not a copy."""
        return None if self.forked_from is None else self.forked_from.session_id or ""


class ProgressData(Struct, gc=False, rename="camel"):
    type: str | None = None
    agent_id: str | None = None
    message: UsageRecord | None = None


class UsageLine(UsageRecord, gc=False, rename="camel"):
    """A progress record, which may contain an agent's whole message."""

    data: ProgressData | None = None


REFUSALS: Final = (ValueError, RecursionError)

decode_line = msgspec.json.Decoder(UsageLine).decode
_from_json = msgspec.json.Decoder().decode


SYNTHETIC: Final = "<synthetic>"
"""The model of messages made up by the agent program, such as error notices."""

_NOTHING: Final = Counters()
_PAID_APART: Final = ("advisor_message", "compaction")
_is_uuid = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}").fullmatch

# How close an entry is to the response itself.
OWN, ASIDE, ECHO, COPY = range(4)


class UsageEntry(Struct, gc=False, kw_only=True, array_like=True):
    """One mention of a response's usage, or several from one place, merged."""

    message_id: str | None = None
    request_id: str | None = None
    record_id: str | None = None
    """The record's id, if it has no request id: its uuid, or a digest of its bytes."""
    copy_of: str | None = None
    """The uuid of the record it was copied from, if it has no request id."""
    part: str = ""
    """Empty for the response itself, else which further pass of it this is."""
    session: str | None = None
    subagent: str | None = None
    is_sidechain: bool = False
    rank: int = OWN
    at: datetime | None = None
    last_at: datetime | None = None
    """The latest timestamp of the merged entries."""
    model: str | None = None
    counters: Counters
    speed: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    recorded_usd: Decimal | None = None
    cwd: str | None = None
    log: str = ""
    offset: int = 0
    odd: tuple[str, ...] = ()


def usage_entries_in(line: bytes) -> tuple[UsageEntry, ...] | Damage:
    """Return the entries in *line*, without its newline; the damage if it is not a record."""
    try:
        found = decode_line(line)
    except REFUSALS:
        return _slowly(line)
    if found.type == "assistant" and found.message is not None:
        return _entries(found, found.message, line)
    if found.type == "user":
        return ()
    if found.type == "progress":
        return _entries_in_progress(found, line)
    return _slowly(line)  # Another dialect, or an empty message.


class UsageReader:
    """Reads the usage in the lines of one log, in order, in any dialect."""

    def __init__(self) -> None:
        self._converters: dict[str, UsageConverter] = {}

    def entries_of(self, record: Record) -> tuple[UsageEntry, ...]:
        """Return the entries in *record*, as ``usage_entries_of`` does."""
        if BY_NAME[record.dialect].usage is None:
            return usage_entries_of(record)
        found = self.take(record.raw)
        return () if isinstance(found, Damage) else found

    def take(self, line: bytes) -> tuple[UsageEntry, ...] | Damage:
        """Return the entries in *line*, as ``usage_entries_in`` does."""
        try:
            fields = _from_json(line)
        except REFUSALS:
            return usage_entries_in(line)
        dialect = dialect_of(fields) if isinstance(fields, dict) else None
        if dialect is None or dialect.usage is None:
            return usage_entries_in(line)
        converter = self._converters.get(dialect.name)
        if converter is None:
            converter = self._converters[dialect.name] = dialect.usage()
        response = converter.take(fields)
        if response is None:
            return ()
        return _lenient_entries(build(UsageLine, response)[0], response, line)


def usage_entries_of(record: Record) -> tuple[UsageEntry, ...]:
    """Return the usage entries in *record*."""
    if not isinstance(record, Assistant) and not _is_echo(record):
        return ()
    found = usage_entries_in(record.raw or encode(record))
    return () if isinstance(found, Damage) else found


def usual_response(line: bytes) -> UsageLine | None:
    """Return *line* decoded if it is the usual record of a response with an id, else None."""
    try:
        found = decode_line(line)
    except REFUSALS:
        return None
    return found if is_usual_response(found) else None


def is_usual_response(found: UsageLine) -> bool:
    """Return whether a line is the usual record of a response with an id."""
    message = found.message
    if found.type != "assistant" or message is None or not message.id or message.usage is None:
        return False
    if not found.request_id and not found.uuid:
        return False  # The record is identified by its bytes.
    usage = message.usage
    return not (usage.iterations and _has_more(usage))


def supersedes(
    later: UsageLine, at: datetime | None, earlier: UsageLine, before_at: datetime | None
) -> bool:
    """Return whether *later* replaces both: same response, same place, nothing lost.

    Merging both would give the same at four times the cost: most records repeat the one before.
    Without a request id every record counts: a copy of any of them is a copy of the response.
    """
    message, before = later.message, earlier.message
    if message is None or before is None or message.id != before.id or not later.request_id:
        return False
    usage, less = message.usage, before.usage
    if usage is None or less is None:
        return False
    if usage.output_tokens <= less.output_tokens and (
        usage != less or message.model != before.model
    ):
        return False
    if not (
        later.request_id == earlier.request_id
        and later.session_id == earlier.session_id
        and later.agent_id == earlier.agent_id
        and later.is_sidechain == earlier.is_sidechain
        and later.cwd == earlier.cwd
        and later.copied_from == earlier.copied_from
        and earlier.cost_usd is None
    ):
        return False
    # Of two equal ones with equal timestamps the first counts, as in a merge.
    return bool(at and before_at and (at, usage.output_tokens) > (before_at, less.output_tokens))


def usual_usage_entry(found: UsageLine, at: datetime | None) -> UsageEntry:
    """Return the entry of a line that ``usual_response`` returned; *at* is its timestamp."""
    message = found.message
    assert message is not None
    assert message.usage is not None
    return _with_strict_usage(_entry(found, message, b"", at), message.usage)


def _entries(
    found: UsageRecord, message: UsageMessage, line: bytes
) -> tuple[UsageEntry, ...] | Damage:
    if message.usage is None:
        return ()
    if message.usage.iterations and _has_more(message.usage):
        return _slowly(line)
    entry = _entry(found, message, line, instant(found.timestamp))
    return (_with_strict_usage(entry, message.usage),)


def _with_strict_usage(entry: UsageEntry, usage: StrictUsage) -> UsageEntry:
    entry.counters = _counted(usage)
    entry.speed = usage.speed or None
    entry.service_tier = usage.service_tier or None
    entry.inference_geo = usage.inference_geo or None
    return entry


def _has_more(usage: StrictUsage) -> bool:
    """Return whether some passes are billed separately."""
    return any(iteration.type in _PAID_APART for iteration in usage.iterations or ())


def _entries_in_progress(
    found: UsageLine, line: bytes, fields: Mapping[str, Any] | None = None
) -> tuple[UsageEntry, ...] | Damage:
    """Return the subagent's message that a progress record may repeat.

    *fields* are those of the line if its usage needs lenient decoding.
    """
    data = found.data
    if data is None or data.type != "agent_progress" or data.message is None:
        return ()
    inner = data.message
    if inner.type != "assistant" or inner.message is None:
        return ()
    inner.session_id = inner.session_id or found.session_id
    inner.cwd = inner.cwd or found.cwd
    if inner.timestamp is None:
        inner.timestamp = found.timestamp
    if fields is None:
        echoes = _entries(inner, inner.message, line)
    else:
        echoes = _lenient_entries(inner, fields["data"]["message"], line)
    if not isinstance(echoes, Damage):
        for echo in echoes:
            echo.is_sidechain = True
            echo.subagent = data.agent_id or echo.subagent
            echo.rank = max(echo.rank, ECHO)
    return echoes


def _slowly(line: bytes) -> tuple[UsageEntry, ...] | Damage:
    """Read a line of another dialect, or one whose usage needs lenient decoding."""
    record = decode(line)
    if isinstance(record, Damage):
        return record
    fields = BY_NAME[record.dialect].to_house(record.fields)
    found, _ = build(UsageLine, fields)
    if isinstance(record, Assistant):
        return _lenient_entries(found, fields, line)
    return _entries_in_progress(found, line, fields) if _is_echo(record) else ()


def _is_echo(record: Record) -> bool:
    return isinstance(record, Progress) and record.kind == "agent_progress"


def _lenient_entries(
    found: UsageRecord, fields: Mapping[str, Any], line: bytes
) -> tuple[UsageEntry, ...]:
    """Return the entries of an assistant's record with *fields*, whatever its usage looks like."""
    message = fields.get("message")
    if not isinstance(message, dict) or message.get("usage") is None:
        return ()
    if found.forked_from is None and fields.get("forkedFrom") is not None:
        found.forked_from = UsageOrigin()  # A copy, of whatever.
    entry = _entry(found, found.message or UsageMessage(), line, instant(found.timestamp))
    return _with_usage(entry, message["usage"])


def _entry(
    found: UsageRecord, message: UsageMessage, line: bytes, at: datetime | None
) -> UsageEntry:
    """Return an entry with everything but the figures."""
    is_sidechain = found.is_sidechain is True
    session, rank = found.session_id or None, ASIDE if is_sidechain else OWN
    if found.forked_from is not None:
        session, rank = found.forked_from.session_id or session, COPY
    request_id = found.request_id or None
    record_id = copy_of = None
    if request_id is None:
        record_id = _record_id(found.uuid, found.timestamp, line)
        if found.forked_from is not None:
            copy_of = _copy_of(found.forked_from.message_uuid)
    return UsageEntry(
        message_id=message.id or None,
        request_id=request_id,
        record_id=record_id,
        copy_of=copy_of,
        session=session,
        subagent=found.agent_id or None,
        is_sidechain=is_sidechain,
        rank=rank,
        at=at,
        last_at=at,
        model=message.model or None,
        counters=_NOTHING,
        recorded_usd=None if found.cost_usd is None else _dollars(found.cost_usd),
        cwd=found.cwd or None,
    )


def _counted(usage: StrictUsage) -> Counters:
    """Return the counters of today's usage object, whose numbers are already within bounds."""
    apart = usage.cache_creation
    five_minutes = usage.cache_creation_input_tokens or 0
    one_hour = 0
    if apart is not None:
        five_minutes, one_hour = split_writes(five_minutes, apart.five_minutes, apart.one_hour)
    counters = Counters(
        usage.input_tokens,
        usage.output_tokens,
        five_minutes,
        one_hour,
        usage.cache_read_input_tokens or 0,
    )
    tools = usage.server_tool_use
    if tools is not None:
        counters.web_searches = tools.web_search_requests
        if tools.web_fetch_requests:
            counters.others["server_tool_use.web_fetch_requests"] = tools.web_fetch_requests
    if usage.output_tokens_details:
        for name, count in usage.output_tokens_details.items():
            if count:
                counters.others[f"output_tokens_details.{name}"] = count
    return counters


def _with_usage(entry: UsageEntry, usage: Any) -> tuple[UsageEntry, ...]:
    """Add the figures of any usage object; a value that is not an object counts as odd."""
    if not isinstance(usage, dict):
        entry.counters, entry.odd = Counters(), ("usage",)
        return (entry,)
    entry.counters, entry.odd = counters_of(usage)
    entry.speed = _text(usage, "speed")
    entry.service_tier = _text(usage, "service_tier")
    entry.inference_geo = _text(usage, "inference_geo")
    return (entry, *_further(entry, usage.get("iterations")))


def _further(entry: UsageEntry, iterations: Any) -> Iterator[UsageEntry]:
    """Yield the passes billed in addition to the response's own figures."""
    if not isinstance(iterations, list):
        return
    for number, iteration in enumerate(iterations):
        if isinstance(iteration, dict) and iteration.get("type") in _PAID_APART:
            counters, odd = counters_of(
                {key: value for key, value in iteration.items() if key not in ("type", "model")}
            )
            yield msgspec.structs.replace(
                entry,
                part=f"{iteration['type']} {number}",
                model=_text(iteration, "model") or entry.model,
                counters=counters,
                recorded_usd=None,
                odd=odd,
            )


def _dollars(value: Any) -> Decimal | None:
    """Return the cost a program recorded, or None if invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(repr(value)) if 0 <= value < 1e9 else None


def _record_id(uuid: str | None, timestamp: Any, line: bytes) -> str | None:
    """Return an id that copies of the record share and no other record has, or None.

    Programs that number their records use the same numbers in every log. Without a uuid and a
    timestamp, two records may be equal by chance.
    """
    if uuid:
        return uuid if _is_uuid(uuid) else f"{uuid} {timestamp}"
    if timestamp is None:
        return None
    from hashlib import blake2b  # noqa: PLC0415 - few need it, and it brings all of OpenSSL.

    return blake2b(line, digest_size=16).hexdigest()


def _copy_of(uuid: str | None) -> str | None:
    return uuid if uuid and _is_uuid(uuid) else None


def _text(where: Any, name: str) -> str | None:
    """Return a non-empty string, or None."""
    value = where.get(name) if isinstance(where, dict) else None
    return value if isinstance(value, str) and value else None


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
    winner, loser = (two, one) if outweighs(two, one) else (one, two)
    ends = loser.last_at
    if ends is not None and (winner.last_at is None or ends > winner.last_at):
        winner.last_at = ends
    if loser.recorded_usd is not None:
        winner.recorded_usd = max(winner.recorded_usd or loser.recorded_usd, loser.recorded_usd)
    return winner


def outweighs(one: UsageEntry, two: UsageEntry) -> bool:
    """Return whether *one* counts rather than *two*."""
    ours, theirs = one.counters, two.counters
    if ours.output != theirs.output:
        return ours.output > theirs.output
    if ours.total != theirs.total:
        return ours.total > theirs.total
    if one.at != two.at:
        return (one.at or BEFORE_ALL) > (two.at or BEFORE_ALL)
    if not says_the_same(one, two):
        return _sort_key(one) > _sort_key(two)
    ours_at = (one.request_id or "", one.log, one.offset)
    return ours_at < (two.request_id or "", two.log, two.offset)


def says_the_same(one: UsageEntry, two: UsageEntry) -> bool:
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
