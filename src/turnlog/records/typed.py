"""What a person typed, told from what the agent program writes in a person's name.

The program puts much of its own into ``user`` records: how a background task went, what a command
printed, that somebody stopped the agent, which file an editor has open. Newer programs say where
such a record comes from; of the others the first words of its texts tell. A command that was
invoked and a line for the shell stand in tags, too, but somebody typed them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from turnlog.records.blocks import CallBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock

COMMAND_TAGS: Final = ("command-name", "command-message", "command-args", "command-contents")
"""A command that was invoked, such as /review."""
OUTPUT_TAGS: Final = ("local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr")
"""What a command printed."""
NEWS_TAGS: Final = ("task-notification", "tick")
"""News that no one asked for. Whatever follows it is the program's as well."""
ASIDE_TAGS: Final = (
    *("local-command-caveat", "system-reminder", "session-start-hook", "user-prompt-submit-hook"),
    *("ide_opened_file", "ide_selection", "ide_diagnostics"),
)
"""What is slipped in beside a prompt, which may follow in the same text."""

_OF_OTHERS: Final = frozenset(
    {
        "task-notification",
        "auto-continuation",
        "coordinator",
        "observer",
        "observer-activity",
        "peer",
    }
)
"""Origins that are no human's, in the words of the agent program. A channel's may be one's."""

_WHOLLY_PROGRAMS: Final = re.compile(rf"\s*<(?:{'|'.join((*OUTPUT_TAGS, *NEWS_TAGS))})>")
_ASIDE: Final = re.compile(
    rf"\s*(?:<({'|'.join(ASIDE_TAGS)})>(?:.*?</\1>|.*)|\[Request interrupted by user[^\[\]]*\])",
    re.DOTALL,
)
_COMMAND: Final = re.compile(
    r"\s*(?=<command-).*?<command-name>(?=\s*+[^<])([^<]*+)</command-name>", re.DOTALL
)
_NEWS: Final = tuple(f"<{tag}>" for tag in NEWS_TAGS)
_OF_MODEL: Final = (ThinkingBlock, RedactedThinkingBlock, CallBlock)


def is_typed(blocks: Iterable[Any], origin: Any = None, source: str | None = None) -> bool:
    """Tell whether a person typed any of *blocks*; a pasted image or document is typed, too.

    *origin* and *source* are what the record itself says of where it comes from. Where nothing
    tells of the program, not even a word, it was a person.
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
        elif type(block) in _OF_MODEL:
            is_others = True
        else:
            return True
    return not is_others


def is_typed_text(text: str) -> bool:
    """Tell whether a person typed any of *text*."""
    typed = typed_text(text)
    return bool(typed) and not typed.isspace()


def typed_text(text: str) -> str:
    """Give *text* from where a person typed it; empty if nobody did."""
    return text[_where_typed(text) :]


def _where_typed(text: str) -> int:
    """Tell where what was typed begins: behind what the program slipped in before it."""
    if text.lstrip()[:1] not in {"<", "["}:
        return 0  # As nearly all do.
    if _WHOLLY_PROGRAMS.match(text):
        return len(text)
    end = 0
    while aside := _ASIDE.match(text, end):
        end = aside.end()
    return end


def is_news(text: str) -> bool:
    """Tell whether *text* is news that the program brings by itself."""
    return text.lstrip().startswith(_NEWS)


def is_interruption(text: str) -> bool:
    """Tell whether the program notes in *text* that a person stopped the agent."""
    found = _ASIDE.match(text)
    return found is not None and found[1] is None


def command_in(text: str) -> str | None:
    """Give the command that *text* is; one that only talks of a command is none."""
    found = _COMMAND.match(text)
    return found[1].strip() if found else None
