"""Author and meaning of a record: who wrote it, and its role in the session.

A ``user`` record is often not a human's: it may carry a tool's result or text injected by the agent
program, such as task notifications, command output or open editor files. Newer programs name the
origin; otherwise the first words of the text decide. Invoked commands and shell lines are in tags
too, but a person typed them. In an agent's own log, prompts come from the calling agent.

A prompt counts if its author is human. All code that counts prompts uses this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from msgspec import structs

from turnlog.records.record import (
    Assistant,
    Attachment,
    Call,
    CallBlock,
    Linked,
    Progress,
    Record,
    RedactedThinkingBlock,
    Result,
    ResultBlock,
    Spoken,
    Summary,
    System,
    SystemInit,
    TextBlock,
    ThinkingBlock,
    User,
)

COMMAND_TAGS: Final = ("command-name", "command-message", "command-args", "command-contents")
"""An invoked command, such as /review."""
OUTPUT_TAGS: Final = ("local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr")
"""The output of a command."""
NEWS_TAGS: Final = ("task-notification", "tick")
"""Notifications. The text that follows them is the program's as well."""
ASIDE_TAGS: Final = (
    *("local-command-caveat", "system-reminder", "session-start-hook", "user-prompt-submit-hook"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics"),
)
"""Injected context; a prompt may follow in the same text."""

_OF_OTHERS: Final = {
    "task-notification", "auto-continuation", "coordinator", "observer", "observer-activity",
    "peer",
}  # fmt: skip
"""Origins that are not human, as the agent program names them. A channel's may be human."""

_WHOLLY_PROGRAMS: Final = re.compile(rf"\s*<(?:{'|'.join((*OUTPUT_TAGS, *NEWS_TAGS))})>")
_ASIDE: Final = re.compile(
    rf"\s*(?:<({'|'.join(ASIDE_TAGS)})>(?:.*?</\1>|.*)|\[Request interrupted by user[^\[\]]*\])",
    re.DOTALL,
)
_COMMAND: Final = re.compile(
    r"\s*(?=<command-).*?<command-name>(?=\s*+[^<])([^<]*+)</command-name>", re.DOTALL
)
_NEWS: Final = tuple(f"<{tag}>" for tag in NEWS_TAGS)
_MODEL_BLOCKS: Final = (ThinkingBlock, RedactedThinkingBlock, CallBlock)


def is_typed(blocks: Iterable[Any], origin: Any = None, source: str | None = None) -> bool:
    """Return whether a person typed any of *blocks*; pasted images and documents count.

    *origin* and *source* are the record's own fields. Without any sign of the program, the author
    is a person.
    """
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if source == "system" or (isinstance(kind, str) and kind in _OF_OTHERS):
        return False
    if kind == "human":
        return True
    is_others = False
    for block in blocks:
        if type(block) is TextBlock:
            if is_typed_text(block.text):
                return True
            is_others = is_others or bool(block.text.strip())
        elif type(block) in _MODEL_BLOCKS:
            is_others = True
        else:
            return True
    return not is_others


def is_typed_text(text: str) -> bool:
    """Return whether a person typed any of *text*."""
    typed = typed_text(text)
    return bool(typed) and not typed.isspace()


def typed_text(text: str) -> str:
    """Return the part of *text* that a person typed, or ""."""
    return text[_where_typed(text) :]


def _where_typed(text: str) -> int:
    """Return where the typed part begins: after what the program injected before it."""
    if text.lstrip()[:1] not in {"<", "["}:
        return 0  # As for nearly all texts.
    if _WHOLLY_PROGRAMS.match(text):
        return len(text)
    end = 0
    while aside := _ASIDE.match(text, end):
        end = aside.end()
    return end


def is_news(text: str) -> bool:
    """Return whether *text* is a notification by the program."""
    return text.lstrip().startswith(_NEWS)


def is_interruption(text: str) -> bool:
    """Return whether *text* is the program's note that a person interrupted the agent."""
    found = _ASIDE.match(text)
    return found is not None and found[1] is None


def command_in(text: str) -> str | None:
    """Return the command that *text* invokes; None if it only mentions one."""
    found = _COMMAND.match(text)
    return found[1].strip() if found else None


_OF_MODEL = (Assistant, Call)  # A tuple: a union would be built at every call.


class Author(StrEnum):
    """Who wrote a record."""

    HUMAN = "human"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUBAGENT = "subagent"  # A subagent.
    CALLER = "caller"  # The agent that called the subagent.
    PROGRAM = "program"  # The agent program itself.


class Meaning(StrEnum):
    """What a record or block is."""

    PROMPT = "prompt"
    RESPONSE = "response"
    THINKING = "thinking"
    CALL = "call"
    RESULT = "result"
    ERROR = "error"
    SUMMARY = "summary"
    NOTICE = "notice"  # By the program in a person's name: output, news, interruptions.
    CONTEXT = "context"  # Injected by the program, for the model.
    STATE = "state"  # About the session, for the program.


def author_of(record: Record) -> Author:
    """Return who wrote *record*."""
    if isinstance(record, User):
        if ResultBlock in map(type, record.blocks):
            return Author.TOOL
        if record.is_meta or record.is_compact_summary:
            return Author.PROGRAM
        if not is_typed(record.blocks, record.origin, record.prompt_source):
            return Author.PROGRAM
        return Author.CALLER if is_in_subagent(record) else Author.HUMAN
    if isinstance(record, _OF_MODEL):
        return Author.SUBAGENT if is_in_subagent(record) else Author.ASSISTANT
    return Author.TOOL if isinstance(record, Result) else Author.PROGRAM


def is_in_subagent(record: Record) -> bool:
    """Return whether *record* was written by or for a subagent."""
    return isinstance(record, Linked) and (record.is_sidechain or record.agent_id is not None)


def as_subagents(record: Record, agent_id: str | None) -> Record:
    """Return a record of a subagent's log, marked as such if its format does not do that."""
    if not isinstance(record, Linked) or is_in_subagent(record):
        return record
    return structs.replace(record, is_sidechain=True, agent_id=agent_id)


def meaning_of(record: Record, author: Author | None = None) -> Meaning:
    """Return what *record* is; pass its *author* if known.

    Of several blocks, the first that is more than text decides.
    """
    match record:
        case User():
            if record.is_compact_summary is True:
                return Meaning.SUMMARY
            author = author or author_of(record)
            if author is Author.PROGRAM:
                return Meaning.CONTEXT if record.is_meta else Meaning.NOTICE
            if author is not Author.TOOL:
                return Meaning.PROMPT
            return _meaning_of_blocks(record, author, Meaning.PROMPT)
        case Assistant():
            if record.is_api_error_message is True:
                return Meaning.ERROR
            return _meaning_of_blocks(record, author or author_of(record), Meaning.RESPONSE)
        case Call():
            return Meaning.CALL
        case Result(is_error=failed):
            return Meaning.ERROR if failed else Meaning.RESULT
        case Summary():
            return Meaning.SUMMARY
        case System(subtype="api_error"):
            return Meaning.ERROR
        case System() | Attachment() | Progress() | SystemInit():
            return Meaning.CONTEXT
    return Meaning.STATE


def _meaning_of_blocks(record: Spoken, author: Author, plain: Meaning) -> Meaning:
    for block in record.blocks:
        meaning = meaning_of_block(block, author)
        if meaning is not plain:
            return meaning
    return plain


def meaning_of_block(block: Any, author: Author) -> Meaning:
    """Return what a block of a message by *author* is."""
    if isinstance(block, CallBlock):
        return Meaning.CALL
    if isinstance(block, ResultBlock):
        return Meaning.ERROR if block.is_error else Meaning.RESULT
    if isinstance(block, ThinkingBlock):
        return Meaning.THINKING
    if author in (Author.ASSISTANT, Author.SUBAGENT):
        return Meaning.RESPONSE
    return Meaning.CONTEXT if author is Author.PROGRAM else Meaning.PROMPT
