"""The texts of a record: what a person may look for in it, piece by piece.

One function tells them, in an order that is always the same, for those who index a record and for
those who later show what was found in it. A text is named by its record and its number.

What tools answered is told apart from what was said: it is most of the bytes, and mostly files.
"""

# Annotations are no strings here: a tuple with names would compile them at every start.

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple

from turnlog.records.blocks import (
    CallBlock,
    DocumentBlock,
    ResultBlock,
    TextBlock,
    ThinkingBlock,
)
from turnlog.records.meaning import Author, author_of
from turnlog.records.record import (
    SAID,
    Assistant,
    Attachment,
    Call,
    FileHistory,
    QueueOperation,
    Record,
    Result,
    Summary,
    System,
    Unknown,
    User,
)
from turnlog.records.record_types import AiTitle, CustomTitle, Tag

# Deeper than that nobody nests what a person would look for.
_DEPTH: Final = 20


class Kind(IntEnum):
    """What a text is in the course of a session."""

    PROMPT = 1
    RESPONSE = 2
    THINKING = 3
    CALL = 4
    """What a tool was given."""
    RESULT = 5
    """What it answered."""
    TITLE = 6
    SUMMARY = 7
    CONTEXT = 8
    """What the agent program slipped in."""
    NOTE = 9
    """What the agent program said itself."""
    PLAN = 10
    TODO = 11
    HISTORY = 12
    """A prompt in the home's own list of them."""


# Looked up once: a member of an enum takes as long as a call, and there is one for every text.
_CALL, _CONTEXT, _RESULT, _THINKING = Kind.CALL, Kind.CONTEXT, Kind.RESULT, Kind.THINKING
_PROMPT, _RESPONSE = Kind.PROMPT, Kind.RESPONSE

WEIGHTS: Final[dict[Kind, float]] = {
    Kind.PROMPT: 1.0,
    Kind.TITLE: 1.0,
    Kind.RESPONSE: 0.9,
    Kind.SUMMARY: 0.8,
    Kind.PLAN: 0.8,
    Kind.HISTORY: 0.7,
    Kind.TODO: 0.6,
    Kind.THINKING: 0.5,
    Kind.CALL: 0.5,
    Kind.RESULT: 0.3,
    Kind.NOTE: 0.3,
    Kind.CONTEXT: 0.2,
}
"""How much a hit counts: what a human said or saw first."""

ANSWERED: Final = frozenset({Kind.RESULT, Kind.CONTEXT})
"""The kinds that stand apart, and are searched only if asked for."""


class Text(NamedTuple):
    kind: Kind
    text: str


def texts_of(record: Record) -> list[Text]:
    """Give the texts of *record*; none is empty."""
    if isinstance(record, SAID):  # Nearly all are.
        return texts_of_blocks(record.blocks, _plain_of(record))
    return [text for text in _texts(record) if text.text]


def texts_of_blocks(blocks: Iterable[Any], plain: Kind) -> list[Text]:
    """Give the texts of a message's blocks, of which *plain* text is this; none is empty."""
    found = (text_of_block(block, plain) for block in blocks)
    return [Text(*each) for each in found if each[1]]


def text_of_block(block: Any, plain: Kind) -> tuple[Kind, str]:
    """Give the text of a block and what it is, *plain* text being this; empty if it has none."""
    shape = type(block)
    if shape is ResultBlock:
        return _RESULT, block.text
    if shape is CallBlock:
        return _CALL, leaves(block.input)
    if shape is TextBlock:
        return plain, block.text
    if shape is ThinkingBlock:
        return _THINKING, block.thinking
    return _CONTEXT, block.title or "" if shape is DocumentBlock else ""


def leaves(value: Any) -> str:
    """Join every text in free-form JSON; keys are not what anybody looks for."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    _gather(value, _DEPTH, found)
    return "\n".join(found)


def _plain_of(record: Assistant | User) -> Kind:
    """Tell what plain text is in a message."""
    if isinstance(record, Assistant):
        return _RESPONSE
    if record.is_compact_summary is True:
        return Kind.SUMMARY
    if author_of(record) is not Author.PROGRAM:
        return _PROMPT
    return _CONTEXT if record.is_meta else Kind.NOTE  # As ``meaning_of`` has it.


def _texts(record: Record) -> Iterator[Text]:
    match record:
        case CustomTitle(custom_title=str(title)) | AiTitle(ai_title=str(title)):
            yield Text(Kind.TITLE, title)
        case Tag(tag=str(tag)):
            yield Text(Kind.TITLE, tag)
        case Summary():
            yield Text(Kind.SUMMARY, record.text)
        case System():
            yield Text(Kind.NOTE, record.text)
        case Attachment():
            yield Text(Kind.CONTEXT, leaves(record.attachment))
        case QueueOperation():
            yield Text(Kind.NOTE, leaves(record.content))
        case FileHistory():
            yield Text(Kind.CALL, "\n".join(filter(None, (record.path, record.snippet))))
        case Call():
            yield Text(Kind.CALL, leaves(record.input))
        case Result():
            yield Text(Kind.RESULT, record.text or leaves(record.content))
        case Unknown():
            yield Text(Kind.NOTE, leaves(record.fields.get("content")))


def _gather(value: Any, depth: int, found: list[str]) -> None:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        if isinstance(each, str):
            found.append(each)
        elif depth > 1:
            _gather(each, depth - 1, found)
