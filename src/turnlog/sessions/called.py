"""What a session is called: one rule for lists, which read the ends of logs, and for all others.

A list of hundreds cannot read their logs whole (`glanced`). So that a session has one title,
whoever does read its log whole notes where in it stands what it may be called, and
leaves aside what a list leaves aside.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

from os import PathLike
from typing import Final

import msgspec
from msgspec import Struct

from turnlog.records.record import Record, Summary
from turnlog.records.record_types import LastPrompt
from turnlog.records.session_summary import SessionSummary, is_local_command
from turnlog.sessions.metadata import MetadataFold
from turnlog.storage.lines import ENDS_BYTES
from turnlog.storage.sources import Seekable, open_source

PROMPT_BYTES: Final = 1024 * 1024
"""So far is the first prompt looked for in a log that begins with a command such as /clear."""


class Named(Struct):
    """What a session was named, by a person or a model, anywhere in its log."""

    custom_title: str | None = None
    ai_title: str | None = None
    tag: str | None = None


class Called(Struct, array_like=True, gc=False):
    """Where what a session may be called stands in its log."""

    last_prompt: int = 0
    summary: int = 0
    first_prompt: int = 0

    def take(self, record: Record, offset: int, fold: MetadataFold) -> None:
        """Fold in one more record, which stands at *offset*."""
        was_prompted = fold.summary.first_prompt is not None
        fold.take(record)
        if isinstance(record, LastPrompt):
            self.last_prompt = offset
        elif isinstance(record, Summary):
            self.summary = offset
        elif not was_prompted and fold.summary.first_prompt is not None:
            self.first_prompt = offset

    def as_listed(self, summary: SessionSummary, size_bytes: int) -> SessionSummary:
        """Call a session as the list does that reads only the ends of its log, as others do too.

        What was asked last, or summed up, before its end is of sessions before it, or long past.
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
    """Tell how long the log at *path* is for that list; 0 if it has to read the log whole."""
    source = open_source(path)
    try:
        return source.size_bytes if isinstance(source, Seekable) else 0
    finally:
        source.close()
