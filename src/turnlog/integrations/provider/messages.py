"""Read the messages of a session: its thread, one message, its ancestors.

The thread is the conversation from its first message, across compactions and gaps, without
abandoned branches. Records without content (attachments, heartbeats, turn durations) are not
messages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final, TypedDict

import msgspec

from turnlog.errors import NotFound, UsageError
from turnlog.integrations.provider.chat_messages import ROLES, ChatMessage
from turnlog.integrations.provider.writers import Project, check_ids, find_log, logs_in
from turnlog.records.record import Record, System
from turnlog.sessions.reading.filters import (
    RecordFilter,
    between,
    of_type,
    without_system,
    without_tools,
)
from turnlog.sessions.reading.threads import main_tip, whole_thread
from turnlog.sessions.reading.tree import Lineage, Node
from turnlog.sessions.session import Session, records_of, tree_of
from turnlog.storage.blobs import STUB, decode_line
from turnlog.storage.scan import FoundLines

_MESSAGES: Final = frozenset(ROLES)
_SAYS_SOMETHING: Final = RecordFilter(
    (
        lambda record: (
            not isinstance(record, System)
            or record.content is not None
            or record.message is not None
        ),
    )
)


class Selection(TypedDict, total=False):
    """Filters for messages; by default all are returned."""

    types: Iterable[str] | None
    """Only these roles: user, assistant, system."""
    since: datetime | None
    until: datetime | None
    """Only messages from *since* on and before *until*."""
    with_tools: bool
    """Include calls and results."""
    with_system: bool
    """Include messages that the program wrote itself."""


def filter_of(selection: Selection) -> RecordFilter:
    """Return a function that returns True for selected messages."""
    known = Selection.__annotations__
    for name in selection:
        if name not in known:
            raise UsageError(f"messages have no {name!r}", hint=f"select by {', '.join(known)}")
    only = between(selection.get("since"), selection.get("until"))
    types = selection.get("types")
    if types is not None:
        wanted = (types,) if isinstance(types, str) else tuple(types)
        for each in wanted:
            if each not in _MESSAGES:
                raise UsageError(
                    f"no message is of type {str(each)[:40]!r}", hint=f"use {', '.join(ROLES)}"
                )
        only = only & of_type(*wanted)
    if not selection.get("with_tools", True):
        only = only & without_tools()
    return only if selection.get("with_system", True) else only & without_system()


def check_limit(limit: int | None) -> int | None:
    """Return *limit*, or raise UsageError."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise UsageError(
            f"a limit of {str(limit)[:40]!r} cannot be meant",
            hint="give how many of the last are wanted, or leave it out for all",
        )
    return min(limit, sys.maxsize)


def last_messages(session: Session, only: RecordFilter, limit: int | None) -> list[ChatMessage]:
    """Return the *last* messages of the session that *only* accepts, oldest first."""
    if limit == 0:
        return []
    nodes = messages_in(thread_of(session))
    newest_first = (_SAYS_SOMETHING & only).pairs(session.records(reversed(nodes)))
    found = [ChatMessage.from_record(record) for _, record in islice(newest_first, limit)]
    return found[::-1]


def count_messages(session: Session) -> int:
    """Return the number of messages without filters."""
    nodes = messages_in(thread_of(session))
    notes = [node for node in nodes if node.type == "system"]
    said = sum(1 for _ in _SAYS_SOMETHING.pairs(session.records(notes)))
    return len(nodes) - len(notes) + said


def thread_of(session: Session) -> list[Node]:
    """Return the main thread, including notes after its last message."""
    tip = main_tip(session.tree)
    if tip is None:  # Nobody has said anything yet, except perhaps the program.
        return whole_thread(session.tree, max(session.tree.tips, key=_position, default=None))
    while after := [node for node in tip.children if not node.is_spoken and node.same_writer(tip)]:
        tip = max(after, key=_position)
    return whole_thread(session.tree, tip)


def messages_in(nodes: Iterable[Node]) -> list[Node]:
    """Return the records that are chat messages."""
    return [node for node in nodes if node.type in _MESSAGES]


def find_message(project: Project, message_id: str, session_id: str | None) -> ChatMessage:
    """Return a message by id, from any log of the project or one session."""
    return ChatMessage.from_record(_find(project, message_id, session_id)[1])


def ancestry_of(project: Project, message_id: str, session_id: str | None) -> list[ChatMessage]:
    """Return a message and its ancestors, oldest first."""
    path, _ = _find(project, message_id, session_id)
    tree = tree_of(path)
    node = tree.by_uuid.get(message_id)
    if node is None:
        raise _no_message(project, message_id)  # The log was rewritten under us.
    above = messages_in(Lineage(tree).ancestry(node).nodes)
    return [ChatMessage.from_record(record) for _, record in records_of(path, above)]


def forkable(
    project: Project, session_id: str, message_id: str | None
) -> tuple[Session, str | None]:
    """Return a session and the record to fork it at: the named one, or the last."""
    session = find_log(project, session_id)
    if message_id is None:
        thread = thread_of(session)
        return session, thread[-1].uuid if thread else None
    if message_id not in session.tree.by_uuid:
        raise _no_message(project, message_id, session_id)
    return session, message_id


def _find(project: Project, message_id: str, session_id: str | None) -> tuple[Path, Record]:
    if not isinstance(message_id, str) or not message_id:
        raise UsageError("a message is named by its uuid", hint="give the id of a message")
    if session_id is not None:
        check_ids(session_id)
    found: tuple[Path, Record] | None = None
    for path in _logs(project, session_id):
        for record in _records_named(path, message_id):
            found = path, record  # The last of several counts, as everywhere.
        if found is not None:
            break
    if found is None:
        raise _no_message(project, message_id, session_id)
    if found[1].type not in _MESSAGES:
        raise NotFound(
            f"the record {message_id} is a note of type {found[1].type!r}, no message",
            hint="turnlog show tells of every record",
        )
    return found


def _logs(project: Project, session_id: str | None) -> Iterator[Path]:
    """Return the logs to search for a message, main logs first."""
    logs = [
        (log.kind == "subagent", log.path)
        for owner, log in logs_in(project)
        if session_id in (None, owner)
    ]
    if not logs and session_id is not None:
        find_log(project, session_id)  # Raises, and says what to do.
    return (path for _, path in sorted(logs))


def _records_named(path: Path, uuid: str) -> Iterator[Record]:
    """Yield the records of a log with *uuid*; only lines that contain it are decoded."""
    needle = msgspec.json.encode(uuid) if uuid.isascii() else b'"uuid"'
    for _, line in FoundLines(path, needle, STUB):
        record = decode_line(path, line) if isinstance(line, bytes) else None
        if isinstance(record, Record) and record.uuid == uuid:
            yield record


def _no_message(project: Project, message_id: str, session_id: str | None = None) -> NotFound:
    where = f"session {session_id}" if session_id else project.directory
    return NotFound(
        f"no message {message_id[:80]!r} in {where}",
        hint="messages are named by their whole uuid, as get_session_messages tells it",
    )


def _position(node: Node) -> int:
    return node.position
