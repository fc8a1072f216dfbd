"""Filters over a session's records, applied one by one in a stream.

    only = between(since, until) & without_tools()
    for node, record in only.pairs(session.records(session.thread)): ...

A filter is a pure value. Filters combine with ``&`` in any order to the same effect: each judges
the record as it is in the log, and only what all of them keep is trimmed. A trimmed record is a new
one without the unwanted blocks; the log and the original line stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import NotSerialisable, UsageError
from turnlog.records.codec import decode, encode
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import (
    Call,
    CallBlock,
    Record,
    Result,
    ResultBlock,
    Spoken,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
)

K = TypeVar("K")
Keeps = Callable[[Record], bool]

# Tools that the API itself runs (server_tool_use, web_search_tool_result …) count as well.
_TOOL_BLOCKS: Final = ("tool_use", "tool_result")


class RecordFilter(Struct, frozen=True):
    """Which records to keep, and whether to remove calls and results from them."""

    keeps: tuple[Keeps, ...] = ()
    drops_tools: bool = False

    def __and__(self, other: RecordFilter) -> RecordFilter:
        """Return the filter that keeps what both keep."""
        return RecordFilter((*self.keeps, *other.keeps), self.drops_tools or other.drops_tools)

    def __call__(self, record: Record) -> Record | None:
        """Return what is left of *record*, or None."""
        if not all(keeps(record) for keeps in self.keeps):
            return None
        return _without_tools(record) if self.drops_tools else record

    def records(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield what is left of *records*."""
        return (kept for kept in map(self, records) if kept is not None)

    def pairs(self, pairs: Iterable[tuple[K, Record]]) -> Iterator[tuple[K, Record]]:
        """Yield what is left of records paired with something, such as their nodes."""
        for key, record in pairs:
            kept = self(record)
            if kept is not None:
                yield key, kept


EVERYTHING: Final = RecordFilter()


def of_type(*types: str) -> RecordFilter:
    """Keep records of these types, as spelled in their logs."""
    wanted = frozenset(types)
    return RecordFilter((lambda record: record.type in wanted,))


def by_author(*authors: Author) -> RecordFilter:
    """Keep records by these authors."""
    wanted = frozenset(authors)
    return RecordFilter((lambda record: author_of(record) in wanted,))


def between(since: datetime | None = None, until: datetime | None = None) -> RecordFilter:
    """Keep records from *since* until before *until*.

    A record without a timestamp is in no range.
    """
    for at in (since, until):
        if at is not None and at.tzinfo is None:
            raise UsageError(
                f"{at.isoformat()} has no time zone",
                hint="give an aware datetime, such as datetime(2026, 1, 1, tzinfo=UTC)",
            )
    if since is None and until is None:
        return EVERYTHING

    def keeps(record: Record) -> bool:
        at = record.at
        if at is None:
            return False
        return (since is None or at >= since) and (until is None or at < until)

    return RecordFilter((keeps,))


def without_tools() -> RecordFilter:
    """Remove calls and results, and messages that are empty without them."""
    return RecordFilter(drops_tools=True)


def without_system() -> RecordFilter:
    """Remove what the agent program wrote for itself or the model.

    Summaries stay: they replace what was said.
    """

    def keeps(record: Record) -> bool:
        return author_of(record) is not Author.PROGRAM or meaning_of(record) is Meaning.SUMMARY

    return RecordFilter((keeps,))


def only_prompts() -> RecordFilter:
    """Keep the prompts that begin a turn."""
    return RecordFilter((lambda record: meaning_of(record) is Meaning.PROMPT,))


def _without_tools(record: Record) -> Record | None:
    if isinstance(record, Call | Result):
        return None
    if not isinstance(record, Spoken) or not any(map(_is_tool, record.blocks)):
        return record
    rest = tuple(block for block in record.blocks if not _is_tool(block))
    return None if all(map(_is_blank, rest)) else _with_blocks(record, rest)


def _with_blocks(record: Spoken, rest: tuple[Any, ...]) -> Record:
    """Return a record like *record*, in its own dialect, with *rest* as its blocks."""
    fields = record.fields
    holder = fields["message"] if isinstance(fields.get("message"), dict) else fields
    content = holder.get("content")
    if isinstance(content, list):
        holder["content"] = [each for each in content if not _is_tool_json(each)]
        fields.pop("toolUseResult", None)
        try:
            made = decode(encode(fields))
        except NotSerialisable:  # The line contains what JSON does not have, such as NaN.
            made = None
        if isinstance(made, type(record)) and made.blocks == rest:
            return made
    message = replace(record.message, content=rest) if record.message else None
    return replace(record, raw=b"", message=message)


def _is_blank(block: Any) -> bool:
    if isinstance(block, TextBlock):
        return not block.text.strip()
    return isinstance(block, ThinkingBlock) and not block.thinking.strip()


def _is_tool(block: Any) -> bool:
    if isinstance(block, UnknownBlock):
        return block.type.endswith(_TOOL_BLOCKS)
    return isinstance(block, CallBlock | ResultBlock)


def _is_tool_json(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind.endswith(_TOOL_BLOCKS)
