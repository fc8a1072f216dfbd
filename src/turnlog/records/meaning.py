"""Who said it, and what it is in the course of a session.

A ``user`` record is often no human: a tool's result travels in one, and so does what the agent
program injects, which ``typed`` tells from what somebody typed. In an agent's own log the prompts
come from the agent that called it, and the answers are the agent's, not the main assistant's.

A prompt that counts is a record whose author is human. Everybody who counts prompts asks here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from turnlog.records.blocks import CallBlock, ResultBlock, ThinkingBlock
from turnlog.records.record import (
    Assistant,
    Attachment,
    Call,
    Linked,
    Progress,
    Record,
    Result,
    Spoken,
    Summary,
    System,
    SystemInit,
    User,
)
from turnlog.records.typed import is_typed

_OF_MODEL = (Assistant, Call)  # A tuple: a union would be made anew at every question.


class Author(StrEnum):
    """Whose words a record carries."""

    HUMAN = "human"
    ASSISTANT = "assistant"
    TOOL = "tool"
    AGENT = "agent"  # A subagent answering.
    CALLER = "caller"  # Whoever called the subagent.
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
    NOTICE = "notice"  # Written by the program where a person writes: output, news, interruptions.
    CONTEXT = "context"  # Slipped in by the program, for the model.
    STATE = "state"  # About the session, for the program.


def author_of(record: Record) -> Author:
    """Tell whose words *record* carries."""
    if isinstance(record, User):
        if ResultBlock in map(type, record.blocks):
            return Author.TOOL
        if record.is_meta or record.is_compact_summary:
            return Author.PROGRAM
        if not is_typed(record.blocks, record.origin, record.prompt_source):
            return Author.PROGRAM
        return Author.CALLER if is_in_agent(record) else Author.HUMAN
    if isinstance(record, _OF_MODEL):
        return Author.AGENT if is_in_agent(record) else Author.ASSISTANT
    return Author.TOOL if isinstance(record, Result) else Author.PROGRAM


def is_in_agent(record: Record) -> bool:
    """Tell whether *record* was written by an agent, or for one."""
    return isinstance(record, Linked) and (record.is_sidechain or record.agent_id is not None)


def meaning_of(record: Record, author: Author | None = None) -> Meaning:
    """Tell what *record* is; who knows its *author* may say so.

    Of several blocks the first that is more than text decides.
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
    """Tell what a block of a message by *author* is."""
    if isinstance(block, CallBlock):
        return Meaning.CALL
    if isinstance(block, ResultBlock):
        return Meaning.ERROR if block.is_error else Meaning.RESULT
    if isinstance(block, ThinkingBlock):
        return Meaning.THINKING
    if author in (Author.ASSISTANT, Author.AGENT):
        return Meaning.RESPONSE
    return Meaning.CONTEXT if author is Author.PROGRAM else Meaning.PROMPT
