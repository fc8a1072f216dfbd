"""The parts of a message.

Each kind is a frozen struct; a kind nobody has met yet is an UnknownBlock that keeps its value.
Free-form JSON (a tool's input, an image's source) is plain dicts and lists, to be read, not
changed: a record's bytes never follow such a change.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from collections.abc import Iterable
from typing import Any

from msgspec import Struct


class TextBlock(Struct, frozen=True, tag="text"):
    """What was said."""

    text: str
    citations: Any = None


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    """What the model thought before it answered."""

    thinking: str = ""
    signature: str | None = None


class RedactedThinkingBlock(Struct, frozen=True, tag="redacted_thinking"):
    data: str = ""


class CallBlock(Struct, frozen=True, tag="tool_use"):
    """A tool was asked."""

    id: str
    name: str
    input: Any = None
    caller: Any = None


class ResultBlock(Struct, frozen=True, tag="tool_result"):
    """A tool answered."""

    tool_use_id: str
    content: "str | tuple[Block, ...] | dict[str, Any] | None" = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """What a person would read of the answer."""
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
    """A block of a kind, or in a shape, that this version does not know."""

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

# What the fast decoder accepts. UnknownBlock has no tag on the wire: only the lenient way makes it.
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
    """Join the visible text of *blocks*; thinking, calls and results are not part of it."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def text_in(content: Any) -> str:
    """Return what a person would read of *content* as JSON has it: plain text, or blocks of it."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
