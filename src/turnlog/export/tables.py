"""Sessions as tables of messages, calls and records, written as CSV or Parquet.

Columns keep their names, meanings and order; new ones are added at the end. Messages are the
ledger's responses, each once with its exact cost, so sums equal the ledger's. Days are in UTC.
Texts have been masked by ``masking``.

Parquet is a directory per table, split by day, for DuckDB, pandas and Spark:

    DIR/messages/day=2026-11-01/part-0-0.parquet

It needs pyarrow, the extra ``turnlog[parquet]``.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import json

from turnlog.catalog.period import Period
from turnlog.costs.usage import TracedResponse, UsageSource
from turnlog.errors import UsageError
from turnlog.export.conversation import ConversationOptions
from turnlog.export.csv_cells import cell
from turnlog.export.masking import Masking
from turnlog.export.record_blocks import Blocks, CallRequest
from turnlog.formats import is_uuid
from turnlog.pricing.cost import Prices
from turnlog.records.dates import is_between
from turnlog.records.meaning import author_of, meaning_of
from turnlog.records.record import Assistant, Linked, Record, Spoken
from turnlog.sessions.session import Session
from turnlog.storage.atomic_files import temporary_name
from turnlog.storage.reader import Placed
from turnlog.storage.system import sync, sync_directory_at

TableName = Literal["messages", "calls", "records"]
Kind = Literal["text", "instant", "day", "count", "flag", "money"]
Row = tuple[Any, ...]

MARK: Final = "_turnlog.json"
SCHEMA_VERSION: Final = 1
UNDATED: Final = date(1970, 1, 1)
"""The day of undated rows: pandas cannot read a partition without one."""
_ROWS: Final = 8192


class Column(NamedTuple):
    """A column: its name, the kind of its values, and their meaning."""

    name: str
    kind: Kind
    means: str


_WHEN: Final = (
    Column("day", "day", "the day of `at`, UTC; empty if undated"),
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
        Column("input", "count", "uncached input tokens"),
        Column("output", "count", "output tokens"),
        Column("cache_write_5m", "count", "tokens written to the cache for five minutes"),
        Column("cache_write_1h", "count", "tokens written to the cache for an hour"),
        Column("cache_read", "count", "tokens read from the cache"),
        Column("web_searches", "count", "web searches by the provider"),
        Column("cost_usd", "money", "exact, at API prices; empty if no price is known"),
        Column("unpriced", "text", "why it has no cost, if so"),
    ),
    "calls": (
        *_WHEN,
        Column("tool", "text", "the name of the tool"),
        Column("call_id", "text", "the call's id"),
        Column("record", "text", "the uuid of the record with the call"),
        Column("is_error", "flag", "whether it failed; empty without a result"),
        Column("elapsed_ms", "count", "from the call's record to the result's"),
        Column("input", "text", "its arguments, as JSON"),
        Column("result", "text", "its result"),
    ),
    "records": (
        *_WHEN,
        Column("uuid", "text", "the record's id"),
        Column("parent", "text", "the uuid of its parent"),
        Column("type", "text", "as its log spells it"),
        Column("author", "text", "human, assistant, tool, subagent, caller or program"),
        Column("meaning", "text", "prompt, response, thinking, call, result, error, …"),
        Column("model", "text", "the model that wrote it"),
        Column("message_id", "text", "the provider's id of its response"),
        Column("text", "text", "its readable text"),
        Column("size_bytes", "count", "the length of its line"),
        Column("log", "text", "the path of its log"),
        Column("offset", "count", "its offset in the log"),
    ),
}


class Tables:
    """Yields the rows of some sessions."""

    def __init__(
        self, sessions: Callable[[], Iterable[Session]], out: Masking, period: Period
    ) -> None:
        self._sessions, self._out, self._period = sessions, out, period

    def messages(
        self, source: UsageSource, prices: Prices, only: frozenset[str] | None
    ) -> Iterator[Row]:
        """Yield the responses that the ledger counts, of the sessions in *only* if given."""
        for response in source.traced(self._period).responses:
            if not self._period.holds(response):
                continue
            if only is not None and response.session not in only:
                continue
            bill = prices.bill((response,))
            used, name = response.counters, self._name
            traced = response if isinstance(response, TracedResponse) else None
            yield (
                _day(response.at),
                response.at,
                name(response.session),
                name(response.subagent),
                name(response.project),
                name(traced.branch if traced else None),
                name(response.model_name),
                response.message_id,
                response.request_id,
                name(traced.tools if traced else None),
                response.messages,
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
        """Yield every call of the sessions once, with its result."""
        blocks = Blocks(ConversationOptions(images=False), self._out)
        elsewhere: set[tuple[str, ...]] = set()
        for _, session, subagent, items in self._read():
            records = [item.record for item in items]
            answers = {answer.id: answer for record in records for answer in blocks.answers(record)}
            here: set[str] = set()
            names_here: set[tuple[str, ...]] = set()
            for record in records:
                for asked in blocks.of(record):
                    if not isinstance(asked, CallRequest):
                        continue
                    names = _names_of(asked, record)
                    if (asked.id and asked.id in here) or not elsewhere.isdisjoint(names):
                        continue
                    here.add(asked.id)
                    names_here.update(names)
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
            elsewhere |= names_here

    def records(self) -> Iterator[Row]:
        """Yield every record of the sessions."""
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
            text = "\n".join(result.text for result in record.results)
        return self._out.text(text) if text else None

    def _name(self, name: str | None) -> str | None:
        return self._out.name(name) if name else None

    def _is_wanted(self, at: datetime | None) -> bool:
        return is_between(at, self._period.since, self._period.until)


def as_csv(table: TableName, rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield rows as comma-separated values, after a header row."""
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
    """Return names for a call, at least one of which its copies in forks and resumes share.

    A copy has the same record uuid, names the uuid it was copied from, or is in the same response.
    """
    linked = record if isinstance(record, Linked) else None
    copied = linked.forked_from if linked else None
    origin = copied.get("messageUuid") if isinstance(copied, dict) else None
    uuids = (uuid for uuid in (record.uuid, origin) if isinstance(uuid, str) and is_uuid(uuid))
    names: list[tuple[str, ...]] = [("record", asked.id, uuid) for uuid in uuids]
    message = record.message.id if isinstance(record, Assistant) and record.message else None
    if message and asked.id:
        names.append(("response", asked.id, message, repr(asked.input)))
    return names


def _day(at: datetime | None) -> date | None:
    return at.date() if at else None


def write_parquet(target: Path, tables: Mapping[TableName, Iterable[Row]], *, force: bool) -> int:
    """Write *tables* as Parquet into the directory *target*; return its size in bytes.

    The directory is created under a temporary name and renamed when it is complete. An existing one
    is replaced only if turnlog wrote it, as ``_turnlog.json`` in it shows.
    """
    arrow = _arrow()
    if os.path.lexists(target):
        _refuse(target, force=force)
    made = target.with_name(temporary_name())
    os.mkdir(made, 0o700)
    try:
        for name, rows in tables.items():
            _write(arrow, made / name, name, rows)
        about = {"schema": SCHEMA_VERSION, "tables": list(tables)}
        (made / MARK).write_bytes(msgspec.json.encode(about) + b"\n")
        size = _finish(made)
        _rename(made, target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return size


def schema_of(name: TableName) -> Any:
    """Return the pyarrow schema of a table."""
    arrow = _arrow()
    kinds = {
        "text": arrow.string(),
        "instant": arrow.timestamp("us", tz="UTC"),
        "day": arrow.date32(),
        "count": arrow.int64(),
        "flag": arrow.bool_(),
        "money": arrow.decimal128(38, 18),
    }
    return arrow.schema([(column.name, kinds[column.kind]) for column in TABLES[name]])


def _write(arrow: Any, place: Path, name: TableName, rows: Iterable[Row]) -> None:
    from pyarrow import dataset

    schema = schema_of(name)
    days = dataset.partitioning(arrow.schema([schema.field("day")]), flavor="hive")
    os.mkdir(place, 0o700)
    # In batches: given an iterator, the library would read it in another thread.
    for number, batch in enumerate(_batches(arrow, schema, rows)):
        dataset.write_dataset(
            batch,
            place,
            format="parquet",
            partitioning=days,
            basename_template=f"part-{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
            max_partitions=1 << 16,
            use_threads=False,
        )


def _batches(arrow: Any, schema: Any, rows: Iterable[Row]) -> Iterator[Any]:
    """Yield batches of rows as columns; at least one batch, possibly empty."""
    left = iter(rows)
    some = list(islice(left, _ROWS))
    while True:
        columns = zip(*some, strict=True) if some else [()] * len(schema)
        arrays = [
            arrow.array(_fitting(values, field), field.type)
            for values, field in zip(columns, schema, strict=True)
        ]
        yield arrow.Table.from_arrays(arrays, schema=schema)
        some = list(islice(left, _ROWS))
        if not some:
            return


def _fitting(values: tuple[Any, ...], field: Any) -> list[Any]:
    """Return *values* within the limits of the column: a log may claim any number of tokens."""
    if field.name == "day":
        return [day or UNDATED for day in values]
    if str(field.type) != "int64":
        return list(values)
    return [None if value is None else min(value, (1 << 63) - 1) for value in values]


def _finish(directory: Path) -> int:
    """Make the files durable and private; return their size."""
    size = 0
    for root, folders, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            os.chmod(path, 0o600)
            fd = os.open(path, os.O_RDONLY)
            try:
                sync(fd)
                size += os.fstat(fd).st_size
            finally:
                os.close(fd)
        for name in folders:
            os.chmod(os.path.join(root, name), 0o700)
    return size


def _rename(made: Path, target: Path) -> None:
    """Rename the directory to *target*; move an existing one out of the way first."""
    old = made.with_suffix(".old") if os.path.lexists(target) else None
    if old is not None:
        os.rename(target, old)
    os.rename(made, target)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    sync_directory_at(target.parent)


def _refuse(target: Path, *, force: bool) -> None:
    if not force:
        raise UsageError(
            f"{target} exists", hint="pass force=True to replace it", code="file-exists"
        )
    if target.is_symlink() or not target.is_dir() or not (target / MARK).is_file():
        is_empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
        if not is_empty:
            raise UsageError(
                f"{target} was not made by turnlog export, and is not replaced",
                hint="name a directory that does not exist yet",
            )


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            hint="install it with: pip install 'turnlog[parquet]'",
        ) from None
    return pa
