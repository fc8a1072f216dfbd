"""The content blocks of a message.

Each kind is a frozen struct; unknown kinds become UnknownBlock, which keeps the value. Free-form
JSON (a tool's input, an image's source) is plain dicts and lists. Treat them as read-only: changing
them does not change the record's bytes.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from collections.abc import Iterable
from typing import Any

from msgspec import Struct


class TextBlock(Struct, frozen=True, tag="text"):
    """Text."""

    text: str
    citations: Any = None


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    """The model's thinking before it answered."""

    thinking: str = ""
    signature: str | None = None


class RedactedThinkingBlock(Struct, frozen=True, tag="redacted_thinking"):
    data: str = ""


class CallBlock(Struct, frozen=True, tag="tool_use"):
    """A tool call."""

    id: str
    name: str
    input: Any = None
    caller: Any = None


class ResultBlock(Struct, frozen=True, tag="tool_result"):
    """A tool result."""

    tool_use_id: str
    content: "str | tuple[Block, ...] | dict[str, Any] | None" = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The readable text of the result."""
        if isinstance(self.content, str):
            return self.content
        return text_of(self.content) if isinstance(self.content, tuple) else ""


class ImageBlock(Struct, frozen=True, tag="image"):
    source: Any = None


class DocumentBlock(Struct, frozen=True, tag="document"):
    source: Any = None
    title: str | None = None


class ToolReferenceBlock(Struct, frozen=True, tag="tool_reference"):
    tool_name: str = ""


class UnknownBlock(Struct, frozen=True):
    """A block of a kind or shape that this version does not know."""

    type: str
    value: Any


KnownBlock = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | CallBlock
    | ResultBlock
    | ImageBlock
    | DocumentBlock
    | ToolReferenceBlock
)

# What the fast decoder accepts. UnknownBlock has no tag: only the lenient decoder builds it.
Block = KnownBlock
AnyBlock = KnownBlock | UnknownBlock

BLOCK_BY_TYPE: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        TextBlock,
        ThinkingBlock,
        RedactedThinkingBlock,
        CallBlock,
        ResultBlock,
        ImageBlock,
        DocumentBlock,
        ToolReferenceBlock,
    )
}


def text_of(blocks: Iterable[Any]) -> str:
    """Join the visible text of *blocks*, without thinking, calls and results."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def text_in(content: Any) -> str:
    """Return the readable text of *content* as JSON: a string, or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
