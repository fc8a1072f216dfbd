"""Who said it, and what it is in the course of a session.

A ``user`` record is often no human: a tool's result travels in one, and so does what the agent
program injects. In an agent's own log the prompts come from the agent that called it, and the
answers are the agent's, not the main assistant's.
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
    Summary,
    System,
    SystemInit,
    User,
)


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
    CONTEXT = "context"  # Slipped in by the program, for the model.
    STATE = "state"  # About the session, for the program.


def author_of(record: Record) -> Author:
    """Tell whose words *record* carries."""
    in_agent = isinstance(record, Linked) and (record.is_sidechain or record.agent_id is not None)
    if isinstance(record, Assistant | Call):
        return Author.AGENT if in_agent else Author.ASSISTANT
    if isinstance(record, Result):
        return Author.TOOL
    if isinstance(record, User):
        if any(isinstance(block, ResultBlock) for block in record.blocks):
            return Author.TOOL
        if record.is_meta or record.is_compact_summary:
            return Author.PROGRAM
        return Author.CALLER if in_agent else Author.HUMAN
    return Author.PROGRAM


def meaning_of(record: Record) -> Meaning:
    """Tell what *record* is; of several blocks the first that is more than text decides."""
    match record:
        case Call():
            return Meaning.CALL
        case Result(is_error=failed):
            return Meaning.ERROR if failed else Meaning.RESULT
        case User(is_compact_summary=True) | Summary():
            return Meaning.SUMMARY
        case User() if author_of(record) is Author.PROGRAM:
            return Meaning.CONTEXT
        case Assistant(is_api_error_message=True) | System(subtype="api_error"):
            return Meaning.ERROR
        case User() | Assistant():
            found = [meaning_of_block(block, author_of(record)) for block in record.blocks]
            plain = Meaning.RESPONSE if isinstance(record, Assistant) else Meaning.PROMPT
            return next((meaning for meaning in found if meaning is not plain), plain)
        case System() | Attachment() | Progress() | SystemInit():
            return Meaning.CONTEXT
    return Meaning.STATE


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
