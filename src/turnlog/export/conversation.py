"""A session as people read it, whatever it is drawn with: turns, and in each what happened.

A call carries its result, wherever in the log that stands, and the subagents that it asked for,
each with turns of its own. Compactions, gaps and what a branch parts from are marks between blocks.
Turns are read one at a time, so that a page of a long session never stands in memory whole. Every
text has been through ``outgoing``.

These are values without a look: Markdown, HTML and JSON are made of the same ones, and JSON is just
their fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from turnlog.pricing.money import shown

ThreadName = Literal["main", "whole", "all"]


class ConversationOptions(Struct, frozen=True, kw_only=True):
    """Which parts of a session are wanted."""

    thread: ThreadName = "whole"
    """Since the last compaction, from the very first record, or every branch."""
    turns: tuple[int, int | None] | None = None
    """The first and the last, counted from 1; None for the last is as far as it goes."""
    tools: bool = True
    thinking: bool = True
    images: bool = True

    def wants(self, number: int) -> bool:
        """Return whether the turn of that number is wanted."""
        if self.turns is None:
            return True
        first, last = self.turns
        return number >= first and (last is None or number <= last)


class PromptPieceKind(StrEnum):
    """What a piece of a prompt is."""

    PROMPT = "prompt"
    CALLER = "caller"  # A subagent was asked by the one that called it.
    COMMAND = "command"
    OUTPUT = "output"
    NOTE = "note"
    INTERRUPTED = "interrupted"


_ASKING: Final = (PromptPieceKind.PROMPT, PromptPieceKind.COMMAND, PromptPieceKind.CALLER)


class MarkKind(StrEnum):
    """What happened between two blocks."""

    COMPACTION = "compaction"
    SUMMARY = "summary"
    GAP = "gap"
    ERROR = "error"
    BRANCH = "branch"
    DAMAGE = "damage"


class PromptPiece(Struct, tag="said", kw_only=True):
    """A person, or the agent program for them, said something."""

    kind: PromptPieceKind
    text: str

    @property
    def is_prompt(self) -> bool:
        """Whether it asks for something: it was typed, or an agent's caller wrote it."""
        return self.kind in _ASKING


class Answer(Struct, tag="answer", kw_only=True):
    """The model answered."""

    text: str
    is_error: bool = False


class Thinking(Struct, tag="thinking", kw_only=True):
    """The model thought."""

    text: str


class Picture(Struct, tag="image", kw_only=True):
    """An image that the log itself holds; *data* is base64, and None if it was left out."""

    media_type: str
    data: str | None


class Mark(Struct, tag="mark", kw_only=True):
    """Something that is neither said nor done."""

    kind: MarkKind
    text: str = ""
    at: datetime | None = None


class Other(Struct, tag="other", kw_only=True):
    """Something of a kind that this version has not met."""

    kind: str
    text: str


class Hunk(Struct, kw_only=True):
    """A run of changed lines; each begins with a space, a plus or a minus."""

    old_start: int | None
    new_start: int | None
    lines: list[str]


class ToolResult(Struct, kw_only=True):
    """What a tool answered."""

    text: str
    is_error: bool
    at: datetime | None = None
    images: list[Picture] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)
    """What it changed in a file, where it said so."""


class ToolCall(Struct, tag="call", kw_only=True):
    """A tool was asked, and answered or not."""

    id: str
    name: str
    input: Any
    asked: str
    """In a few words."""
    answered: str
    at: datetime | None = None
    elapsed_ms: int | None = None
    result: ToolResult | None = None
    subagents: list[SubagentRun] = field(default_factory=list)


class SubagentRun(Struct, kw_only=True):
    """What a subagent did."""

    id: str
    kind: str | None
    description: str | None
    is_guess: bool = False
    """Only its prompt or its position tells which call asked for it."""
    is_orphan: bool = False
    turns: list[ConversationTurn] = field(default_factory=list)


class DamageSummary(Struct, kw_only=True):
    """How much of the logs is no record."""

    places: int
    size_bytes: int


class SessionUsage(Struct, kw_only=True):
    """What the session used and cost, its subagents included; an estimate at the API's prices."""

    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    cost_usd: str
    unpriced: list[str]

    @property
    def tokens(self) -> int:
        """All tokens together."""
        written = self.cache_write_5m + self.cache_write_1h
        return self.input + self.output + written + self.cache_read

    @property
    def cost(self) -> str:
        """The cost as people read it; that of models without a price is not in it."""
        return shown(Decimal(self.cost_usd)) + (" and more" if self.unpriced else "")


Block: TypeAlias = PromptPiece | Answer | Thinking | Picture | ToolCall | Mark | Other


class ConversationTurn(Struct, kw_only=True):
    """A prompt and all that follows until the next. Number 0 stands before the first prompt."""

    number: int
    at: datetime | None
    ended_at: datetime | None
    blocks: list[Block]
    branch: str | None = None
    """The last record of the branch that it stands in, if that is not the main one."""

    @property
    def prompt(self) -> str:
        """What was asked."""
        said = (each for each in self.blocks if isinstance(each, PromptPiece))
        return "\n\n".join(each.text for each in said if each.is_prompt)

    @property
    def label(self) -> str:
        """What it is about: what was asked, else what the program had to say."""
        said = (each.text for each in self.blocks if isinstance(each, PromptPiece))
        return self.prompt or next(said, "")

    @property
    def calls(self) -> int:
        """How many tools were asked."""
        return sum(isinstance(each, ToolCall) for each in self.blocks)


class Head(Struct, kw_only=True):
    """What is known of a session."""

    id: str
    title: str | None
    project: str | None
    git_branch: str | None
    models: list[str]
    started_at: datetime | None
    last_active_at: datetime | None
    thread: ThreadName
    figures: SessionUsage
    subagents: int
    damaged: DamageSummary
    other_branches: int
    """How many ways the conversation went that this thread does not show."""
    is_redacted: bool


class Conversation(Struct, kw_only=True):
    """A session to be drawn; its turns are read when they are asked for, once."""

    head: Head
    turns: Iterator[ConversationTurn]
    strays: Iterator[SubagentRun]
    """The subagents that no call in the turns has asked for; ask when all turns were read."""


class ConversationDocument(Struct, kw_only=True):
    """What ``turnlog export --format json`` writes."""

    session: Head
    turns: list[ConversationTurn]
    subagents: list[SubagentRun]
    """Those that no call in the turns has asked for."""


def document_of(conversation: Conversation) -> ConversationDocument:
    """Return a conversation whole."""
    turns = list(conversation.turns)
    return ConversationDocument(
        session=conversation.head, turns=turns, subagents=list(conversation.strays)
    )
