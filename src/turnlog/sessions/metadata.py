"""Metadata and titles of a session, folded from its records.

All of it except the pin, which is in the journal, comes from the log, so it cannot be outdated or
lost.

Lists need hundreds of summaries, so they read only the ends of logs (`read_head_tail`), except if a
log begins with a command such as /clear: then its first prompt is searched. So that a session has
the same title everywhere, code that reads a whole log notes where each candidate for the title is,
and ignores what lists ignore.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile
from turnlog.records.record import Record, Summary
from turnlog.records.record_types import AiTitle, CustomTitle, LastPrompt, Marker, Tag
from turnlog.records.session_summary import SessionSummary, is_local_command
from turnlog.records.tags import tags_in
from turnlog.sessions.state import SessionState, State
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import ENDS_BYTES, Seekable, open_source

if TYPE_CHECKING:
    from turnlog.storage.tail import Ends


class Metadata(Struct, frozen=True, kw_only=True):
    """A session's metadata at one moment."""

    id: str
    project: str | None
    title: str | None
    tags: list[str]
    is_pinned: bool
    started_at: datetime | None
    last_active_at: datetime | None
    ended_at: datetime | None
    state: State
    crashed: bool
    records: int
    prompts: int
    models: dict[str, int]
    git_branch: str | None
    git_commit: str | None
    version: str | None


class MetadataFold(Struct):
    """Collects metadata; call ``take`` for each record of a session."""

    summary: SessionSummary = field(default_factory=SessionSummary)
    life: SessionState = field(default_factory=SessionState)
    git_commit: str | None = None
    """The commit that was checked out when the session was created."""

    def take(self, record: Record) -> None:
        """Add a record."""
        self.life.take(record)
        self.summary.take(record)
        if isinstance(record, Marker):
            self.git_commit = self.git_commit or record.git_commit

    def metadata(
        self, session_id: str, *, is_pinned: bool = False, now: datetime | None = None
    ) -> Metadata:
        """Return the metadata at *now*."""
        found, life = self.summary, self.life
        return Metadata(
            id=session_id,
            project=found.cwd,
            title=found.title,
            tags=tags_in(found.tag),
            is_pinned=is_pinned,
            started_at=found.started_at,
            last_active_at=found.last_active_at,
            ended_at=life.ended_at,
            state=life.state(now or datetime.now(UTC)),
            crashed=life.crashed,
            records=found.records,
            prompts=found.prompts,
            models=found.models,
            git_branch=found.git_branch,
            git_commit=self.git_commit,
            version=found.version,
        )


PROMPT_BYTES: Final = 1024 * 1024
"""How far the first prompt is searched in a log that begins with a command such as /clear."""


class NamedTitle(Struct):
    """The names given to a session by a person or a model, anywhere in its log."""

    custom_title: str | None = None
    ai_title: str | None = None
    tag: str | None = None


class TitleCandidates(Struct, array_like=True, gc=False):
    """The candidates for a session's title, with their offsets in its log."""

    last_prompt: int = 0
    summary: int = 0
    first_prompt: int = 0

    def take(self, record: Record, offset: int, fold: MetadataFold) -> None:
        """Add a record, located at *offset*."""
        was_prompted = fold.summary.first_prompt is not None
        fold.take(record)
        if isinstance(record, LastPrompt):
            self.last_prompt = offset
        elif isinstance(record, Summary):
            self.summary = offset
        elif not was_prompted and fold.summary.first_prompt is not None:
            self.first_prompt = offset

    def as_listed(self, summary: SessionSummary, size_bytes: int) -> SessionSummary:
        """Use the title that lists show, which read only the ends of the log.

        A last prompt or summary before its end is outdated, or of earlier sessions.
        """
        if size_bytes <= ENDS_BYTES:
            return summary
        called = msgspec.structs.replace(summary)
        if self.last_prompt < size_bytes - ENDS_BYTES:
            called.last_prompt = None
        if self.summary < size_bytes - ENDS_BYTES:
            called.summary = None
        if called.first_command is not None:
            is_local = is_local_command(called.first_command)
            if self.first_prompt >= (PROMPT_BYTES if is_local else ENDS_BYTES):
                called.first_prompt = None
        return called


def size_listed(path: str | PathLike[str]) -> int:
    """Return the log size that lists use; 0 if they have to read the whole log."""
    source = open_source(path)
    try:
        return source.size_bytes if isinstance(source, Seekable) else 0
    finally:
        source.close()


class HeadTail(NamedTuple):
    """What both ends of a log say about its session."""

    summary: SessionSummary
    life: SessionState
    ends: "Ends"


def read_head_tail(
    path: str | PathLike[str],
    recall: Callable[[str | PathLike[str]], NamedTitle | None] | None = None,
) -> HeadTail:
    """Fold both ends of a log, with the lines they cut if those may hide a name or timestamp.

    *recall* returns the names known from reading the log beyond its beginning; None if unread.
    """
    from turnlog.storage.tail import read_ends  # noqa: PLC0415 - A refresh does not need it.

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
