"""What the agent program wraps in tags, unwrapped for people.

A prompt as the log has it is not always what was typed. Commands, shell lines, their output, files
that happened to be open and news of background tasks arrive as text in angle brackets. This cuts
such a text into pieces in the order in which they stand. Tags that nobody knows are somebody's own
words and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from turnlog.records.meaning import ASIDE_TAGS, COMMAND_TAGS, NEWS_TAGS, OUTPUT_TAGS


class TagKind(StrEnum):
    """What a piece of a prompt is."""

    SAID = "said"
    COMMAND = "command"  # "/review src" or "! make"
    OUTPUT = "output"  # What a command printed.
    NOTE = "note"  # Slipped in by the program.
    INTERRUPTED = "interrupted"


class TagPiece(NamedTuple):
    """A piece of a prompt."""

    kind: TagKind
    text: str


_TAGS: Final = (*COMMAND_TAGS, "bash-input", *OUTPUT_TAGS, *NEWS_TAGS, *ASIDE_TAGS)
_OPENED: Final = re.compile(rf"<({'|'.join(_TAGS)})>")
_INTERRUPTED: Final = re.compile(r"\[Request interrupted by user[^\[\]]*\]")
_TOLD: Final = re.compile(r"<(summary|status)>")
# Colours that a command gave its output; they mean nothing here and would be drawn as symbols.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def without_colours(text: str) -> str:
    """Leave out the colours that a program gave its output."""
    return _COLOURS.sub("", text) if "\x1b" in text else text


def unwrap(text: str) -> list[TagPiece]:
    """Cut *text* into what was typed and what the program made of it or added."""
    return [piece for piece in _joined(_pieces(text)) if piece.text]


class _Element(NamedTuple):
    tag: str
    inner: str
    start: int
    end: int


def _elements(opened: re.Pattern[str], text: str) -> Iterator[_Element]:
    """Find what stands between a tag and the next one that closes it.

    A tag that nothing closes is text. It is looked for once: the text may be full of it.
    """
    end = 0
    unclosed: set[str] = set()
    for found in opened.finditer(text):
        tag = found[1]
        if found.start() < end or tag in unclosed:
            continue
        close = text.find(f"</{tag}>", found.end())
        if close < 0:
            unclosed.add(tag)
            continue
        end = close + len(f"</{tag}>")
        yield _Element(tag, text[found.end() : close], found.start(), end)


def _pieces(text: str) -> Iterator[TagPiece]:
    end = 0
    for found in _elements(_OPENED, text):
        yield from _plain(text[end : found.start])
        yield _piece(found.tag, found.inner.strip())
        end = found.end
    yield from _plain(text[end:])


def _plain(text: str) -> Iterator[TagPiece]:
    end = 0
    for found in _INTERRUPTED.finditer(text):
        yield TagPiece(TagKind.SAID, text[end : found.start()].strip())
        yield TagPiece(TagKind.INTERRUPTED, found[0].strip("[]"))
        end = found.end()
    yield TagPiece(TagKind.SAID, text[end:].strip("\n").rstrip())


def _piece(tag: str, inner: str) -> TagPiece:
    match tag:
        case "command-name":
            return TagPiece(TagKind.COMMAND, inner)
        case "command-args":
            # A mark for the command before it, which alone knows its name.
            return TagPiece(TagKind.COMMAND, f" {inner}" if inner else "")
        case "command-message" | "command-contents" | "local-command-caveat":
            return TagPiece(TagKind.NOTE, "")  # Repeats the command, or speaks to the model.
        case "bash-input":
            return TagPiece(TagKind.COMMAND, f"! {inner}")
        case "task-notification":
            told = {found.tag: found.inner for found in _elements(_TOLD, inner)}
            return TagPiece(TagKind.NOTE, told.get("summary") or told.get("status") or inner)
        case _ if tag.endswith(("stdout", "stderr")):
            return TagPiece(TagKind.OUTPUT, without_colours(inner))
    return TagPiece(TagKind.NOTE, inner)


def _joined(pieces: Iterator[TagPiece]) -> Iterator[TagPiece]:
    """Put a command and its arguments together."""
    name: str | None = None
    for piece in pieces:
        if piece.kind is TagKind.COMMAND and piece.text.startswith(" "):
            yield TagPiece(TagKind.COMMAND, (name or "") + piece.text)
            name = None
        elif piece.kind is TagKind.COMMAND and piece.text.startswith("!"):
            yield piece
        elif piece.kind is TagKind.COMMAND and piece.text:
            if name is not None:
                yield TagPiece(TagKind.COMMAND, name)
            name = piece.text
        elif piece.text.strip():
            if name is not None:
                yield TagPiece(TagKind.COMMAND, name)
                name = None
            yield piece
    if name is not None:
        yield TagPiece(TagKind.COMMAND, name)
