"""Edits of files across sessions: list them, and show what one of them changed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from turnlog.api.index import Index
from turnlog.errors import NotFound
from turnlog.export.conversation import ConversationOptions, Hunk, ToolCall
from turnlog.export.diffs import changes_of, counted
from turnlog.export.record_blocks import Blocks, CallRequest, Unmasked
from turnlog.insights.file_edits import FileEdit, FileEdits, find_edit, list_edits

__all__ = ["EditDiff", "FileEdit", "FileEdits", "edit_diff", "list_edits"]

MOST_LINES: Final = 2_000
"""The most lines of a diff that are shown."""
_CONTENT: Final = {"Write": "content", "NotebookEdit": "new_source"}


class EditDiff(Struct, kw_only=True):
    """What an edit changed."""

    hunks: list[Hunk] | None
    """None if the log does not tell."""
    added: int
    removed: int
    unlisted: int
    """Lines that were left out because there are too many."""


def edit_diff(
    index: Index, session: str, record: str, block: int, out: Unmasked | None = None
) -> EditDiff:
    """Return what the edit at a *block* of a *record* changed; its texts go through *out*."""
    place = find_edit(index, session, record, block)
    asked = None if place is None else index.record(place.record)
    if place is None or asked is None:
        raise NotFound("the edit is not in the index or its log is gone", hint="reload the list")
    answered = index.record(place.result)
    blocks = Blocks(ConversationOptions(), out or Unmasked())
    requests = (each for each in blocks.of(asked) if isinstance(each, CallRequest))
    answers = () if answered is None else blocks.answers(answered)
    request = next((each for each in requests if each.id == place.call_id), None)
    answer = next((each for each in answers if each.id == place.call_id), None)
    call = blocks.call(request, answer)
    hunks = changes_of(call) or _written(call)
    if hunks is None:
        return EditDiff(hunks=None, added=0, removed=0, unlisted=0)
    added, removed = counted(hunks)
    shown, unlisted = _first_lines(hunks)
    return EditDiff(hunks=shown, added=added, removed=removed, unlisted=unlisted)


def _written(call: ToolCall) -> list[Hunk] | None:
    """Return the content of a new file as added lines."""
    given: Any = call.input if isinstance(call.input, dict) else {}
    content = given.get(_CONTENT.get(call.name, ""))
    if not isinstance(content, str):
        return None
    lines = [f"+{line}" for line in content.splitlines()]
    return [Hunk(old_start=None, new_start=None, lines=lines)]


def _first_lines(hunks: list[Hunk]) -> tuple[list[Hunk], int]:
    left, shown = MOST_LINES, []
    for hunk in hunks:
        if left > 0:
            lines = hunk.lines[:left]
            shown.append(Hunk(old_start=hunk.old_start, new_start=hunk.new_start, lines=lines))
            left -= len(lines)
    total = sum(len(hunk.lines) for hunk in hunks)
    return shown, total - sum(len(hunk.lines) for hunk in shown)
