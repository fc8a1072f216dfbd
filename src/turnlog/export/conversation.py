"""The conversation model: a session as turns of prompts, answers, calls and marks.

A call carries its result, wherever that is in the log, and its subagents, each with turns of its
own. Compactions, gaps and branches are marks between blocks. Turns are read one at a time, so a
long session is never in memory as a whole. All texts have been masked by ``masking``.

These values have no layout: Markdown and HTML are rendered from them, and JSON is their fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from turnlog.errors import NotFound
from turnlog.pricing.money import shown

THREADS: Final = ("current", "whole", "all")
"""The threads that have names; other threads are named by a record."""
ToolDetail = Literal["none", "line", "full"]


class ConversationOptions(Struct, frozen=True, kw_only=True):
    """Which parts of a session to include."""

    thread: str = "whole"
    """``current`` (since the last compaction), ``whole``, ``all`` branches, or the beginning of a
    record's uuid for the thread up to that record."""
    turns: tuple[int, int | None] | None = None
    """The first and the last turn, counted from 1; None as the last means no limit."""
    tools: ToolDetail = "full"
    """No calls, one line for each, or calls with their inputs, results and subagents."""
    thinking: bool = True
    images: bool = True
    colors: bool = False
    """Keep the color escapes of terminals in results; only for a renderer that converts them."""
    is_deep: bool = True
    """Whether subagents have their turns."""

    @property
    def has_tools(self) -> bool:
        """Whether calls are included."""
        return self.tools != "none"

    def wants(self, number: int) -> bool:
        """Return whether to include the turn with this number."""
        if self.turns is None:
            return True
        first, last = self.turns
        return number >= first and (last is None or number <= last)


def no_such_turns(session_id: str, first: int, last: int | None, count: int) -> NotFound:
    """Return the error that a session, which has *count* turns, has none of those wanted."""
    turns = f"turn {first}" if first == last else f"turns {first}:{last or ''}"
    return NotFound(
        f"session {session_id} has no {turns}",
        hint=f"it has {count:,}, counted from 1" if count else "nothing was asked in it",
    )


def anchor_of(uuid: str) -> str:
    """Return how the ids of a record's blocks begin: with a hash of its uuid.

    Not with the beginning of the uuid: those of some programs begin alike, and logs may have
    anything. The kind of the block and its number among those of the record follow, so the ids are
    the same in pages that leave out tools or thinking.
    """
    return f"r{blake2b(uuid.encode(errors='surrogatepass'), digest_size=6).hexdigest()}"


class PromptPieceKind(StrEnum):
    """The kind of a piece of a prompt."""

    PROMPT = "prompt"
    CALLER = "caller"  # The prompt of a subagent.
    COMMAND = "command"
    OUTPUT = "output"
    NOTE = "note"
    INTERRUPTED = "interrupted"


_PROMPTS: Final = (PromptPieceKind.PROMPT, PromptPieceKind.COMMAND, PromptPieceKind.CALLER)


class MarkKind(StrEnum):
    """The kind of a mark between two blocks."""

    COMPACTION = "compaction"
    SUMMARY = "summary"
    GAP = "gap"
    ERROR = "error"
    BRANCH = "branch"
    DAMAGE = "damage"


class PromptPiece(Struct, tag="said", kw_only=True):
    """Text by a person, or by the agent program in their name."""

    anchor: str = ""
    """The id of the block, the same in every page and export; "" if it has none."""
    kind: PromptPieceKind
    text: str

    @property
    def is_prompt(self) -> bool:
        """Whether a person typed it, or a subagent's caller wrote it."""
        return self.kind in _PROMPTS


class Answer(Struct, tag="answer", kw_only=True):
    """Text of the model."""

    anchor: str = ""
    text: str
    is_error: bool = False


class Thinking(Struct, tag="thinking", kw_only=True):
    """The model's thinking."""

    anchor: str = ""
    text: str


class Picture(Struct, tag="image", kw_only=True):
    """An image in the log; *data* is base64, or None if it is excluded."""

    anchor: str = ""
    media_type: str
    data: str | None


class Mark(Struct, tag="mark", kw_only=True):
    """An event between blocks, such as a compaction or a gap."""

    anchor: str = ""
    kind: MarkKind
    text: str = ""
    at: datetime | None = None


class Other(Struct, tag="other", kw_only=True):
    """A record or block of an unknown kind."""

    anchor: str = ""
    kind: str
    text: str


class Hunk(Struct, kw_only=True):
    """A run of changed lines; each begins with a space, a plus or a minus."""

    old_start: int | None
    new_start: int | None
    lines: list[str]


class ToolResult(Struct, kw_only=True):
    """A tool's result."""

    text: str
    is_error: bool
    at: datetime | None = None
    images: list[Picture] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)
    """The changes to a file, if the tool reported them."""


class ToolCall(Struct, tag="call", kw_only=True):
    """A tool call, with its result if there is one."""

    anchor: str = ""
    id: str
    name: str
    input: Any
    asked: str
    """The call in a few words."""
    answered: str
    """The result in a few words."""
    at: datetime | None = None
    elapsed_ms: int | None = None
    result: ToolResult | None = None
    subagents: list[SubagentRun] = field(default_factory=list)


class SubagentRun(Struct, kw_only=True):
    """A subagent's conversation."""

    id: str
    kind: str | None
    description: str | None
    is_guess: bool = False
    """Whether it was matched to its call only by prompt or position."""
    is_orphan: bool = False
    turns: list[ConversationTurn] = field(default_factory=list)


class DamageSummary(Struct, kw_only=True):
    """How much of the logs is damaged."""

    places: int
    size_bytes: int


class SessionUsage(Struct, kw_only=True):
    """Usage and cost of the session with its subagents, estimated at API prices."""

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
        """All tokens."""
        written = self.cache_write_5m + self.cache_write_1h
        return self.input + self.output + written + self.cache_read

    @property
    def cost(self) -> str:
        """The cost for display; models without a price are not included."""
        return shown(Decimal(self.cost_usd)) + (" and more" if self.unpriced else "")


Block: TypeAlias = PromptPiece | Answer | Thinking | Picture | ToolCall | Mark | Other


class ConversationTurn(Struct, kw_only=True):
    """A prompt and everything up to the next one. Number 0 is before the first prompt."""

    number: int
    at: datetime | None
    ended_at: datetime | None
    blocks: list[Block]
    branch: str | None = None
    """The last record of its branch; None for the main branch."""
    anchor: str = ""
    """The id of the turn in pages."""

    @property
    def prompt(self) -> str:
        """The text of the prompt."""
        pieces = (block for block in self.blocks if isinstance(block, PromptPiece))
        return "\n\n".join(piece.text for piece in pieces if piece.is_prompt)

    @property
    def label(self) -> str:
        """The prompt, or the first text by the program."""
        texts = (block.text for block in self.blocks if isinstance(block, PromptPiece))
        return self.prompt or next(texts, "")

    @property
    def calls(self) -> int:
        """The number of tool calls."""
        return sum(isinstance(block, ToolCall) for block in self.blocks)


class Head(Struct, kw_only=True):
    """Metadata and totals of a session."""

    id: str
    title: str | None
    project: str | None
    git_branch: str | None
    models: list[str]
    started_at: datetime | None
    last_active_at: datetime | None
    thread: str
    figures: SessionUsage
    subagents: int
    damaged: DamageSummary
    other_branches: int
    """The number of branches that are not shown."""
    is_redacted: bool


class Conversation(Struct, kw_only=True):
    """A session to be exported; its turns are read lazily, once."""

    head: Head
    turns: Iterator[ConversationTurn]
    strays: Iterator[SubagentRun]
    """Subagents of no call in the turns; iterate after the turns."""


class ConversationDocument(Struct, kw_only=True):
    """The document of ``turnlog export --format json``."""

    session: Head
    turns: list[ConversationTurn]
    subagents: list[SubagentRun]
    """Subagents of no call in the turns."""


def document_of(conversation: Conversation) -> ConversationDocument:
    """Read the whole conversation."""
    turns = list(conversation.turns)
    return ConversationDocument(
        session=conversation.head, turns=turns, subagents=list(conversation.strays)
    )
