"""Sessions as rows, for spreadsheets and databases: messages, calls and records.

The columns are a promise: they keep their names, meanings and order, and new ones come last. The
messages are the ledger's responses, each once, with its figures and its exact cost, so that their
sums are the ledger's sums. Days are UTC's. Texts have been through ``outgoing``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from typing import Any, Final, Literal, NamedTuple

from msgspec import json

from turnlog.catalog.period import Period
from turnlog.costs.usage import TracedResponse, UsageSource
from turnlog.export.conversation import ConversationOptions
from turnlog.export.csv_cells import cell
from turnlog.export.masking import Masking
from turnlog.export.record_blocks import Blocks, CallRequest
from turnlog.formats import is_uuid
from turnlog.pricing.cost import Prices
from turnlog.records.meaning import author_of, meaning_of
from turnlog.records.record import Assistant, Linked, Record, Result, Spoken
from turnlog.sessions.session import Session
from turnlog.storage.reader import Placed

TableName = Literal["messages", "calls", "records"]
Kind = Literal["text", "instant", "day", "count", "flag", "money"]
Row = tuple[Any, ...]


class Column(NamedTuple):
    """A column: its name, what its values are, and what they mean."""

    name: str
    kind: Kind
    means: str


_WHEN: Final = (
    Column("day", "day", "the day of `at`, UTC; empty if nothing dates it"),
    Column("at", "instant", "when it was written, UTC"),
    Column("session", "text", "the session's id"),
    Column("subagent", "text", "the subagent's id; empty for the main one"),
    Column("project", "text", "the directory it worked in"),
    Column("branch", "text", "the git branch"),
)
TABLES: Final[dict[TableName, tuple[Column, ...]]] = {
    "messages": (
        *_WHEN,
        Column("model", "text", "as reports name it; `-fast` at its end for fast mode"),
        Column("message_id", "text", "the provider's id of the response"),
        Column("request_id", "text", "the provider's id of the request"),
        Column("tools", "text", "the tools it called, sorted and joined by +"),
        Column("messages", "count", "1; 0 for a further pass of the same response"),
        Column("input", "count", "tokens read that no cache had"),
        Column("output", "count", "tokens written"),
        Column("cache_write_5m", "count", "tokens put into the cache for five minutes"),
        Column("cache_write_1h", "count", "tokens put into the cache for an hour"),
        Column("cache_read", "count", "tokens read from the cache"),
        Column("web_searches", "count", "searches that the provider made"),
        Column("cost_usd", "money", "at the API's prices, exact; empty if no price is known"),
        Column("unpriced", "text", "why it has no cost, if it has none"),
    ),
    "calls": (
        *_WHEN,
        Column("tool", "text", "the tool that was asked"),
        Column("call_id", "text", "the call's id"),
        Column("record", "text", "the uuid of the record that asks"),
        Column("is_error", "flag", "whether it failed; empty if nobody answered"),
        Column("elapsed_ms", "count", "from the record that asks to the one that answers"),
        Column("input", "text", "what it was given, as JSON"),
        Column("result", "text", "what it answered"),
    ),
    "records": (
        *_WHEN,
        Column("uuid", "text", "the record's id"),
        Column("parent", "text", "the record it follows"),
        Column("type", "text", "as its log spells it"),
        Column("author", "text", "human, assistant, tool, subagent, caller or program"),
        Column("meaning", "text", "prompt, response, thinking, call, result, error, …"),
        Column("model", "text", "the model that wrote it"),
        Column("message_id", "text", "the response that it carries a part of"),
        Column("text", "text", "what a person would read of it"),
        Column("size_bytes", "count", "the length of its line"),
        Column("log", "text", "the log it stands in"),
        Column("offset", "count", "and where in it"),
    ),
}


class Tables:
    """The rows of some sessions."""

    def __init__(
        self, sessions: Callable[[], Iterable[Session]], out: Masking, period: Period
    ) -> None:
        self._sessions, self._out, self._period = sessions, out, period

    def messages(
        self, source: UsageSource, prices: Prices, only: frozenset[str] | None
    ) -> Iterator[Row]:
        """Return the responses that the ledger counts; of the sessions in *only*, if given."""
        for each in source.traced(self._period).responses:
            if not self._period.holds(each) or (only is not None and each.session not in only):
                continue
            bill = prices.bill((each,))
            used, name = each.counters, self._name
            traced = each if isinstance(each, TracedResponse) else None
            yield (
                _day(each.at),
                each.at,
                name(each.session),
                name(each.subagent),
                name(each.project),
                name(traced.branch if traced else None),
                name(each.model_name),
                each.message_id,
                each.request_id,
                name(traced.tools if traced else None),
                each.messages,
                used.input,
                used.output,
                used.cache_write_5m,
                used.cache_write_1h,
                used.cache_read,
                used.web_searches,
                None if bill.unpriced else bill.total_usd,
                bill.unpriced[0].reason if bill.unpriced else None,
            )

    def calls(self) -> Iterator[Row]:
        """Return every call of the sessions once, and what came of it."""
        blocks = Blocks(ConversationOptions(images=False), self._out)
        elsewhere: set[tuple[str, ...]] = set()
        for _, session, subagent, items in self._read():
            records = [item.record for item in items]
            answers = {each.id: each for record in records for each in blocks.answers(record)}
            here: set[str] = set()
            told: set[tuple[str, ...]] = set()
            for record in records:
                for asked in blocks.of(record):
                    if not isinstance(asked, CallRequest):
                        continue
                    names = _names_of(asked, record)
                    if (asked.id and asked.id in here) or not elsewhere.isdisjoint(names):
                        continue
                    here.add(asked.id)
                    told.update(names)
                    if self._is_wanted(asked.at):
                        call = blocks.call(asked, answers.get(asked.id))
                        yield (
                            *self._where(record, session, subagent),
                            call.name,
                            call.id,
                            self._name(record.uuid),
                            call.result.is_error if call.result else None,
                            call.elapsed_ms,
                            json.encode(call.input).decode(),
                            call.result.text if call.result else None,
                        )
            elsewhere |= told

    def records(self) -> Iterator[Row]:
        """Return every record of the sessions."""
        for path, session, subagent, items in self._read():
            for item in items:
                record = item.record
                if not self._is_wanted(record.at):
                    continue
                message = record.message if isinstance(record, Assistant) else None
                yield (
                    *self._where(record, session, subagent),
                    self._name(record.uuid),
                    self._name(record.parent_uuid if isinstance(record, Linked) else None),
                    self._name(record.type),
                    str(author_of(record)),
                    str(meaning_of(record)),
                    self._name(message.model if message else None),
                    self._name(message.id if message else None),
                    self._text(record),
                    len(record.raw),
                    self._name(path),
                    item.offset,
                )

    def _read(self) -> Iterator[tuple[str, Session, str | None, Iterator[Placed]]]:
        for session in self._sessions():
            for log in session.read_logs:
                yield str(log.path), session, log.agent_id, session.read(log)

    def _where(self, record: Record, session: Session, subagent: str | None) -> Row:
        linked = record if isinstance(record, Linked) else None
        if subagent is None and linked is not None and linked.is_sidechain:
            inner = session.sidechain_subagents.get(linked.uuid or "")
            subagent = inner.id if inner else None
        named = linked.agent_id if linked else None
        return (
            _day(record.at),
            record.at,
            self._name(session.id),
            self._name(subagent or named),
            self._name(linked.cwd if linked else None),
            self._name(linked.git_branch if linked else None),
        )

    def _text(self, record: Record) -> str | None:
        text = record.text
        if isinstance(record, Spoken) and record.results and not text:
            text = "\n".join(each.text for each in record.results)
        if isinstance(record, Result) and not isinstance(record.content, str):
            text = record.text
        return self._out.text(text) if text else None

    def _name(self, name: str | None) -> str | None:
        return self._out.name(name) if name else None

    def _is_wanted(self, at: datetime | None) -> bool:
        since, until = self._period.since, self._period.until
        if at is None:
            return since is None and until is None
        return (since is None or at >= since) and (until is None or at < until)


def as_csv(table: TableName, rows: Iterable[Row]) -> Iterator[bytes]:
    """Return rows as comma-separated values, the names of the columns first.

    A spreadsheet takes a text that begins like a formula for one; a quote before it says otherwise.
    """
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(column.name for column in TABLES[table])
    for row in rows:
        writer.writerow([cell(value) for value in row])
        if held.tell() > 1 << 16:
            yield held.getvalue().encode()
            held.seek(0)
            held.truncate()
    yield held.getvalue().encode()


def _names_of(asked: CallRequest, record: Record) -> list[tuple[str, ...]]:
    """Name a call such that the copy that a fork or a resume made of it has one of the names.

    It has the same record, or says of which it is a copy; or it is a part of the same response.
    """
    linked = record if isinstance(record, Linked) else None
    copied = linked.forked_from if linked else None
    origin = copied.get("messageUuid") if isinstance(copied, dict) else None
    uuids = (each for each in (record.uuid, origin) if isinstance(each, str) and is_uuid(each))
    names: list[tuple[str, ...]] = [("record", asked.id, uuid) for uuid in uuids]
    message = record.message.id if isinstance(record, Assistant) and record.message else None
    if message and asked.id:
        names.append(("response", asked.id, message, repr(asked.input)))
    return names


def _day(at: datetime | None) -> date | None:
    return at.date() if at else None
