"""Fields of a query that are read from the logs, since the index stores no text.

The number of records that are read for one query is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turnlog.index.connection import Index
from turnlog.index.texts import TextKind, leaves, text_of_block, texts_of
from turnlog.query.fields import MESSAGES, RECORDS, TOOLS, Resource
from turnlog.records.record import (
    AnyBlock,
    Call,
    CallBlock,
    Record,
    RedactedThinkingBlock,
    Result,
    ResultBlock,
    Spoken,
    ThinkingBlock,
    UnknownBlock,
)

READ_AT_MOST: Final = 100_000
"""The most records that are read for one query."""


class RecordText:
    """Reads records, up to a limit."""

    def __init__(self, index: Index, at_most: int = READ_AT_MOST) -> None:
        self._index = index
        self._left = at_most
        self.is_spent = False

    def record(self, number: int, length: int | None = None) -> Record | None:
        """Read a record; None if it is gone, or the limit was reached."""
        if self._left <= 0:
            self.is_spent = True
            return None
        self._left -= 1
        return self._index.record(number, length)

    def parts(self, first: int, last: int, message: str | None, session: Any) -> list[Record]:
        """Read the records of a log with the parts of one message."""
        if first == last:
            found = self.record(first)
            return [] if found is None else [found]
        rows = self._index.db.execute(
            "SELECT id, length FROM records WHERE id BETWEEN ? AND ? AND message = ?"
            " AND session IS ? ORDER BY id",
            (first, last, message, session),
        ).fetchall()
        return [each for row in rows if (each := self.record(*row)) is not None]


def input_of(record: Record | None, block: int) -> Any:
    """Return what a call was given."""
    if isinstance(record, Call):
        return record.input
    blocks = record.blocks if isinstance(record, Spoken) else ()
    found = blocks[block] if block < len(blocks) else None
    return found.input if isinstance(found, CallBlock) else None


def answer_of(record: Record | None, call_id: str | None) -> str | None:
    """Return what a call was answered, of the record that answers it."""
    if isinstance(record, Result):
        return record.text or leaves(record.content)
    for block in record.blocks if isinstance(record, Spoken) else ():
        if isinstance(block, ResultBlock) and block.tool_use_id == call_id:
            return block.text
    return None


def content_of(record: Record | None) -> str | None:
    """Return all the text of a record."""
    return None if record is None else "\n".join(each.text for each in texts_of(record))


def gist_of(records: Sequence[Record]) -> str | None:
    """Return what records say or ask of tools; what they think only if there is nothing else."""
    if not records:
        return None
    told: list[str] = []
    thought: list[str] = []
    for record in records:
        for block in record.blocks if isinstance(record, Spoken) else ():
            _, text = text_of_block(block, TextKind.RESPONSE)
            if isinstance(block, ThinkingBlock | RedactedThinkingBlock):
                thought.append(text or "(thinking)")
            elif isinstance(block, CallBlock):
                told.append(f"{block.name}: {text}" if text else block.name)
            else:
                told.append(text or f"({_type_of(block)})")
        if not isinstance(record, Spoken):
            told.append(content_of(record) or "")
    return "\n".join(filter(None, told)) or "\n".join(dict.fromkeys(thought))


def _type_of(block: AnyBlock) -> str:
    return block.type if isinstance(block, UnknownBlock) else str(block.__struct_config__.tag)


def value_at(record: Record | None, path: str) -> Any:
    """Return the value at a path such as message.content.0.type in a record's own JSON."""
    value: Any = None if record is None else record.fields
    for part in path.strip(".").split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    return value


def read_row(
    reader: RecordText, resource: Resource, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    """Read the fields and paths of one row that are only in its log."""
    return _ROW_READERS[resource.name](reader, hidden, wanted)


def read_match(reader: RecordText, resource: Resource, hidden: Sequence[Any]) -> str:
    """Return the text of a row that a pattern is looked for in."""
    if resource is TOOLS:
        found = read_row(reader, resource, hidden, ("input", "result"))
        return f"{leaves(found['input'])}\n{found['result'] or ''}"
    name = "text" if resource is MESSAGES else "content"
    return read_row(reader, resource, hidden, (name,))[name] or ""


def _read_record(
    reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    record = reader.record(*hidden)
    whole = {
        "content": lambda: content_of(record),
        "gist": lambda: gist_of([record] if record is not None else []),
    }
    return {name: whole[name]() if name in whole else value_at(record, name) for name in wanted}


def _read_message(
    reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    first, _, last, message, session = hidden
    records = reader.parts(first, last, message, session)
    head = records[0] if records else None
    whole = {"text": lambda: _said(records), "gist": lambda: gist_of(records)}
    return {name: whole[name]() if name in whole else value_at(head, name) for name in wanted}


def _said(records: Sequence[Record]) -> str | None:
    texts = (each.text for each in records if isinstance(each, Spoken))
    return "\n".join(filter(None, texts)) if records else None


def _read_call(reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
    number, length, block, result, call_id = hidden
    record = reader.record(number, length) if set(wanted) - {"result"} else None
    given: dict[str, Any] = {}
    for name in wanted:
        if name == "input":
            given[name] = input_of(record, block)
        elif name == "result":
            given[name] = None if result is None else answer_of(reader.record(result), call_id)
        else:
            given[name] = value_at(record, name)
    return given


_RowReader = Callable[[RecordText, Sequence[Any], Sequence[str]], dict[str, Any]]
_ROW_READERS: Final[Mapping[str, _RowReader]] = {
    RECORDS.name: _read_record,
    MESSAGES.name: _read_message,
    TOOLS.name: _read_call,
}
