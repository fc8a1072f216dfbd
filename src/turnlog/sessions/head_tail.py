"""Summaries of sessions from both ends of their logs.

Lists need hundreds of them, so nothing between the ends is read, except if a log begins with a
command such as /clear: then its first prompt is searched. Names given in the middle are known if
the log was read completely before; *recall* returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from os import PathLike
from typing import NamedTuple

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile
from turnlog.records.record import Record
from turnlog.records.record_types import AiTitle, CustomTitle, Tag
from turnlog.records.session_summary import SessionSummary, is_local_command
from turnlog.sessions.metadata import PROMPT_BYTES, NamedTitle
from turnlog.sessions.state import SessionState
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import Ends, read_ends


class HeadTail(NamedTuple):
    """What both ends of a log say about its session."""

    summary: SessionSummary
    life: SessionState
    ends: Ends


def read_head_tail(
    path: str | PathLike[str],
    recall: Callable[[str | PathLike[str]], NamedTitle | None] | None = None,
) -> HeadTail:
    """Fold both ends of a log, with the lines they cut if those may hide a name or timestamp.

    *recall* returns the names known from reading the log beyond its beginning; None if unread.
    """
    for with_cut_lines in (False, True):
        ends = read_ends(path, with_cut_lines=with_cut_lines)
        found, life = SessionSummary(), SessionState()
        _fold(ends.head, found, life)
        prompt, command = found.first_prompt, found.first_command
        # The last prompt there is outdated, and summaries there are of earlier sessions.
        found.last_prompt = found.summary = None
        _fold(ends.tail, found, life)
        if ends.is_whole:
            break
        if command:
            found.first_prompt = prompt  # A prompt in the tail was not the first.
        names = found.custom_title, found.ai_title, found.last_prompt, found.summary, prompt
        if any(names) and any(record.at for record in ends.tail):
            break
    if recall is not None and not ends.is_whole and (named := recall(path)) is not None:
        _take_names(named, found, {type(record) for record in ends.tail})
    if is_local_command(found.first_command) and not (found.first_prompt or ends.is_whole):
        found.first_prompt = _first_prompt(path)
    return HeadTail(found, life, ends)


def _first_prompt(path: str | PathLike[str]) -> str | None:
    """Return the first prompt of a log that begins with a command such as /clear."""
    seen = SessionSummary()
    for item in read_log(path):
        if item.offset >= PROMPT_BYTES:
            break
        if isinstance(item, Placed):
            seen.take(item.record)
            if seen.first_prompt:
                break
    return seen.first_prompt


def _take_names(named: NamedTitle, found: SessionSummary, known: Collection[type[Record]]) -> None:
    """Use the names *named* before the end of a log, unless the end has *known* new ones."""
    if CustomTitle not in known:
        found.custom_title = named.custom_title
    if AiTitle not in known:
        found.ai_title = named.ai_title
    if Tag not in known:
        found.tag = named.tag


def last_activity(log: LogFile) -> datetime | None:
    """Return when the session of a main log was last active; None if lists omit it."""
    try:
        found, life, ends = read_head_tail(log.path)
    except (TurnlogError, OSError):
        return None
    if found.is_sidechain:
        return None
    return life.last_active_at or datetime.fromtimestamp(ends.changed_at, UTC)


def _fold(records: Iterable[Record], found: SessionSummary, life: SessionState) -> None:
    for record in records:
        found.take(record)
        life.take(record)
