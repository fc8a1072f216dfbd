"""The texts of a record that can be searched, and the words by which they are found.

One function returns the texts of a record, always in the same order, for indexing and for showing
hits. A text is identified by its record and its number. Tool results are kept apart from what was
said: they are most of the bytes, and mostly file contents.

SQLite's tokenizer splits text at spaces and punctuation. Chinese, Japanese and Korean do not put
spaces between words, so each of their characters becomes a word, and a word in a query becomes a
phrase of such words. Index and query use the same function. Punctuation, symbols and emoji are not
words; they are found as literal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from turnlog.records.meaning import Author, author_of
from turnlog.records.record import (
    SAID,
    Assistant,
    Attachment,
    Call,
    CallBlock,
    DocumentBlock,
    FileHistory,
    QueueOperation,
    Record,
    Result,
    ResultBlock,
    Summary,
    System,
    TextBlock,
    ThinkingBlock,
    Unknown,
    User,
)
from turnlog.records.record_types import AiTitle, CustomTitle, Tag

_DEPTH: Final = 20


class TextKind(IntEnum):
    """The kind of a text."""

    PROMPT = 1
    RESPONSE = 2
    THINKING = 3
    CALL = 4
    """The input of a tool."""
    RESULT = 5
    """The result of a tool."""
    TITLE = 6
    SUMMARY = 7
    CONTEXT = 8
    """Context that the agent program added."""
    NOTE = 9
    """A note of the agent program."""
    PLAN = 10
    TODO = 11
    HISTORY = 12
    """A prompt in the home's history."""


# Looked up once, since a member of an enum takes as long as a call.
_CALL, _CONTEXT, _RESULT, _THINKING = (
    TextKind.CALL,
    TextKind.CONTEXT,
    TextKind.RESULT,
    TextKind.THINKING,
)
_PROMPT, _RESPONSE = TextKind.PROMPT, TextKind.RESPONSE

WEIGHTS: Final[dict[TextKind, float]] = {
    TextKind.TITLE: 1.1,
    TextKind.PROMPT: 1.0,
    TextKind.RESPONSE: 0.95,
    TextKind.SUMMARY: 0.9,
    TextKind.PLAN: 0.9,
    TextKind.HISTORY: 0.8,
    TextKind.TODO: 0.7,
    TextKind.THINKING: 0.8,
    TextKind.CALL: 0.8,
    TextKind.RESULT: 0.5,
    TextKind.NOTE: 0.1,
    TextKind.CONTEXT: 0.1,
}
"""The weight of hits: what people wrote or saw counts most."""

ANSWERED: Final = frozenset({TextKind.RESULT, TextKind.CONTEXT})
"""The kinds in the table ``answered``, which is searched only on request."""


class Text(NamedTuple):
    kind: TextKind
    text: str


def texts_of(record: Record) -> list[Text]:
    """Return the texts of *record*; none is empty."""
    if isinstance(record, SAID):  # Nearly all are.
        plain = _plain_of(record)
        found = (text_of_block(block, plain) for block in record.blocks)
        return [Text(*text) for text in found if text[1]]
    return [text for text in _texts(record) if text.text]


def text_of_block(block: Any, plain: TextKind) -> tuple[TextKind, str]:
    """Return the kind and text of a block; a text block is of the kind *plain*."""
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
    """Join all strings in free-form JSON, without keys."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    _gather(value, _DEPTH, found)
    return "\n".join(found)


def _plain_of(record: Assistant | User) -> TextKind:
    """Return the kind of text blocks in a message."""
    if isinstance(record, Assistant):
        return _RESPONSE
    if record.is_compact_summary is True:
        return TextKind.SUMMARY
    if author_of(record) is not Author.PROGRAM:
        return _PROMPT
    return _CONTEXT if record.is_meta else TextKind.NOTE  # As ``meaning_of`` has it.


def _texts(record: Record) -> Iterator[Text]:
    match record:
        case CustomTitle(custom_title=str(title)) | AiTitle(ai_title=str(title)):
            yield Text(TextKind.TITLE, title)
        case Tag(tag=str(tag)):
            yield Text(TextKind.TITLE, tag)
        case Summary():
            yield Text(TextKind.SUMMARY, record.text)
        case System():
            yield Text(TextKind.NOTE, record.text)
        case Attachment():
            yield Text(TextKind.CONTEXT, leaves(record.attachment))
        case QueueOperation():
            yield Text(TextKind.NOTE, leaves(record.content))
        case FileHistory():
            yield Text(TextKind.CALL, "\n".join(filter(None, (record.path, record.snippet))))
        case Call():
            yield Text(TextKind.CALL, leaves(record.input))
        case Result():
            yield Text(TextKind.RESULT, record.text or leaves(record.content))
        case Unknown():
            yield Text(TextKind.NOTE, leaves(record.fields.get("content")))


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


_ALONE: Final = (
    "(["
    "\u1100-\u11ff"  # Hangul, by letters
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u303c"
    "\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3100-\u318f\u31a0-\u31bf"  # Bopomofo, more Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul, by syllables
    "\uff66-\uff9f\uffa0-\uffdc"  # Half-width kana and Hangul
    "\U0001aff0-\U0001b16f"  # More kana
    "\U00020000-\U0003ffff"  # More Han
    "])"
)

# In UTF-8 these begin with one of few bytes, which is ten times as fast to check.
_LEAD_OF_FOUR: Final = 0xF0  # All others lead three bytes.
_LEADS: Final = {0xE1, *range(0xE3, 0xEE), 0xEF, _LEAD_OF_FOUR}
_NO_LEADS: Final = bytes(set(range(256)) - _LEADS)

_CASE_CHANGE: Final = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHAPES: Final = bytes(
    ord("A") if 65 <= byte <= 90 else ord("a") if chr(byte).isalnum() and byte < 128 else 32
    for byte in range(256)
)


def as_words(text: str) -> str:
    """Return *text* with spaces between words, as the full-text tables need it."""
    return text if text.isascii() else as_indexed(text).decode()


def as_indexed(text: str) -> bytes:
    """Return ``as_words(text)`` in UTF-8, which saves SQLite the conversion."""
    if text.isascii():
        return text.encode()
    data = text.encode(errors="replace")
    leads = data.translate(None, _NO_LEADS)
    if not leads:
        return data
    # Mostly it is a word or two, or an emoji, in a long text.
    begin = data.find(leads[0])
    end = data.rfind(leads[-1]) + (4 if leads[-1] == _LEAD_OF_FOUR else 3)
    parted = " ".join(_alone().split(data[begin:end].decode()))
    return data[:begin] + parted.encode() + data[end:]


def split_identifiers(words: bytes) -> bytes:
    """Return *words* with a space between the words of identifiers such as ``parseHttpUrl``."""
    # Translating and searching bytes is much faster than a regular expression on every text.
    if b"aA" not in (shape := words.translate(_SHAPES)) and b"AAa" not in shape:
        return words
    return _CASE_CHANGE.sub(b" ", words)


@cache
def _alone() -> re.Pattern[str]:
    return re.compile(_ALONE)
