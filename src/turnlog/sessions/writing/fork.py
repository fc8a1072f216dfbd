"""Fork a session: start a new one from a copy of a thread up to some record.

The thread is copied from its very first record, across compactions, with its parallel results, in
log order. Copies get new uuids, since uuids should be unique in a home, and name their origin
(``forkedFrom``). Links between them are kept; what only made sense in the old session (its team,
its slug, tool progress) is left out. In a log of Claude Code's, records of other dialects are
translated. The old session is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final
from uuid import uuid4

from turnlog.sessions.convert.translate import ClaudeTranslator
from turnlog.sessions.reading.threads import whole_thread
from turnlog.sessions.reading.tree import Node, find_record
from turnlog.sessions.session import Session
from turnlog.sessions.writing.writer import SessionWriter

_COPIED: Final = frozenset(
    {"user", "assistant", "system", "attachment", "tool_use", "tool_call", "tool_result"}
)
_LEFT_BEHIND: Final = ("teamName", "agentName", "slug", "sourceToolAssistantUUID", "session_id")
_LINKS: Final = ("parentUuid", "logicalParentUuid")
_BATCH: Final = 200


def fork_records(
    session: Session, at: str | None = None, *, for_claude: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the records of a fork of *session* at the record *at*, or at its newest tip.

    *for_claude* translates records of other dialects to Claude Code's.
    """
    nodes = thread_to(session, at)
    renamed = {node.uuid: str(uuid4()) for node in nodes}
    translator = ClaudeTranslator(
        session_id="",
        former_id=session.id,
        cwd=session.summary.cwd or os.getcwd(),
        began_at=session.summary.started_at or datetime.now(UTC),
    )
    for node, record in session.records(nodes):
        copied = record.fields
        if record.dialect == "claude":
            translator.observe(record)
        elif for_claude:
            translated = translator.translate(record)
            if not translated:
                continue
            # Those dialects have no parents: each record follows the one before.
            copied = {key: value for key, value in translated[0].items() if key not in _LINKS}
        fields = {key: value for key, value in copied.items() if key not in _LEFT_BEHIND}
        for link in _LINKS:
            if fields.get(link) is not None:
                fields[link] = _link(node, fields[link], renamed)
        fields.pop("sessionId", None)
        fields["uuid"] = renamed[node.uuid]
        fields["forkedFrom"] = {"sessionId": session.id, "messageUuid": node.uuid}
        yield fields


def fork(session: Session, into: SessionWriter, at: str | None = None) -> int:
    """Write a fork of *session* with *into*, a new session's writer; return the record count.

    It is the thread that ends in the record *at*, a uuid prefix, or in the newest tip.
    """
    count = 0
    records = fork_records(session, at, for_claude=into.dialect == "claude")
    while True:
        batch = list(islice(records, _BATCH))
        into.append_many(batch)
        count += len(batch)
        if len(batch) < _BATCH:
            break
    title = session.summary.title
    if title:
        into.append({"type": "custom-title", "customTitle": f"{title} (fork)"})
    return count


def thread_to(session: Session, at: str | None) -> list[Node]:
    """Return the nodes that a fork at the record *at* would copy."""
    tree = session.tree
    tip = find_record(tree, at) if at is not None else None
    nodes = [node for node in whole_thread(tree, tip) if node.type in _COPIED]
    return sorted(nodes, key=lambda node: node.position)


def _link(node: Node, named: str, renamed: dict[str, str]) -> str | None:
    """Return the new uuid of a linked record; one that was left out is bridged upwards."""
    if named in renamed:
        return renamed[named]
    above = node.parent
    while above is not None and above.uuid not in renamed:
        above = above.parent
    return renamed[above.uuid] if above is not None else None
