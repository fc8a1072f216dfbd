"""Echoes: records of progress that repeat what an agent said, and whether they may go.

An echo may go if the agent's own log says all that it says, under the same uuid and with the same
usage, and if no record of its log names it, as a parent or otherwise, that does not go as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

from turnlog.errors import NotFound
from turnlog.records.record import Record, User
from turnlog.sessions.reading.tree import Tree
from turnlog.storage.reader import Placed, Reader

_KEYS: Final = {"type", "agentId", "message", "normalizedMessages", "prompt"}
_UUID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Read = Callable[[], Reader]
"""Begins to read a log anew."""


class Echo(NamedTuple):
    """A record of progress, where it stands, and what it says of which agent."""

    offset: int
    uuid: str
    agent: str
    data: dict[str, Any]


def echoes_to_drop(echoes: Sequence[Echo], read: Read, agents: Mapping[str, Read]) -> list[Echo]:
    """Choose of *echoes*, given in the log's order, those that may go."""
    candidates = [echo for echo in echoes if _is_plain(echo)]
    repeated = _repeated(candidates, agents)
    candidates = [echo for echo in candidates if echo.uuid in repeated]
    if not candidates:
        return []
    mentions = _mentions(read, {echo.uuid for echo in candidates})
    with closing(read()) as reader:
        tree = Tree(item for item in reader if isinstance(item, Placed))
    bridges = {gap.bridged_to.uuid for gap in tree.gaps if gap.bridged_to is not None}
    bridges.update(gap.node.uuid for gap in tree.gaps)
    gone: set[int] = set()
    chosen = []
    for echo in reversed(candidates):  # The last first, since one may hang from another.
        if mentions[echo.uuid] <= gone | {echo.offset} and echo.uuid not in bridges:
            gone.add(echo.offset)
            chosen.append(echo)
    return chosen


def _is_plain(echo: Echo) -> bool:
    """Tell whether an echo says nothing but whom it repeats, and is called as mentions are."""
    is_named = _UUID.fullmatch(echo.uuid.encode(errors="replace")) is not None
    return is_named and set(echo.data) <= _KEYS and not echo.data.get("normalizedMessages")


def _mentions(read: Read, uuids: set[str]) -> dict[str, set[int]]:
    """Tell which records hold one of *uuids* anywhere; in what cannot be read nobody looks."""
    wanted = {uuid.encode() for uuid in uuids}
    found: dict[str, set[int]] = {}
    with closing(read()) as reader:
        for item in reader:
            if isinstance(item, Placed):
                for uuid in wanted.intersection(_UUID.findall(item.record.raw)):
                    found.setdefault(uuid.decode(), set()).add(item.offset)
    return found


def _repeated(echoes: Sequence[Echo], agents: Mapping[str, Read]) -> set[str]:
    """Give the uuids of the echoes whose content stands in their agents' own logs."""
    found: set[str] = set()
    by_agent: dict[str, dict[str, list[Echo]]] = {}
    for echo in echoes:
        message = echo.data.get("message")
        named = message.get("uuid") if isinstance(message, dict) else None
        if isinstance(named, str):
            by_agent.setdefault(echo.agent, {}).setdefault(named, []).append(echo)
    for agent, wanted in by_agent.items():
        prompt: str | None = None
        with suppress(NotFound), closing(agents[agent]()) as reader:
            for item in reader:
                record = item.record if isinstance(item, Placed) else None
                if prompt is None and isinstance(record, User):
                    prompt = record.text or None
                for echo in wanted.get(record.uuid or "", ()) if record else ():
                    if record is not None and _repeats(echo.data, record, prompt):
                        found.add(echo.uuid)
    return found


def _repeats(data: dict[str, Any], record: Record, prompt: str | None) -> bool:
    """Tell whether *record* says all that an echo says."""
    if data.get("prompt") not in (None, "", prompt):
        return False
    echo, own = data["message"], record.fields
    said, owned = echo.get("message"), own.get("message")
    if not isinstance(said, dict) or not isinstance(owned, dict):
        return False
    outside = {key: value for key, value in echo.items() if key != "message" and value is not None}
    inside = {key: value for key, value in said.items() if key != "content" and value is not None}
    return (
        all(own.get(key) == value for key, value in outside.items())
        and all(owned.get(key) == value for key, value in inside.items())
        and _blocks(said.get("content")) == _blocks(owned.get("content"))
    )


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
