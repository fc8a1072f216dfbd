"""The tags of a session, in the one ``tag`` that Claude Code has for it, separated by commas.

>>> tags_in("billing, urgent")
['billing', 'urgent']
>>> join_tags(["billing", "urgent"])
'billing, urgent'
"""

from __future__ import annotations

from collections.abc import Iterable


def tags_in(text: str | None) -> list[str]:
    """Return the tags in the tag of a session, each once, in their order."""
    return list(dict.fromkeys(filter(None, (tag.strip() for tag in (text or "").split(",")))))


def join_tags(tags: Iterable[str]) -> str:
    """Return *tags* as one tag; an empty one clears a session's tags."""
    return ", ".join(tags_in(",".join(tags)))
