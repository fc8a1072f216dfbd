"""File changes as diffs.

The patch that an edit reports is used as it is. Otherwise the old and the new text are compared;
texts too long to compare are shown as all old lines, then all new ones.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from turnlog.export.conversation import Hunk, ToolCall
from turnlog.export.html.page import Fragment, escaped

_COMPARED_LINES: Final = 600
_AROUND: Final = 3
_HUNK_HEAD: Final = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")
_ELEMENTS: Final = {"-": "del", "+": "ins", "@": "em"}


def changes_of(call: ToolCall) -> list[Hunk] | None:
    """Return the changes that a call made to a file; None if it was not an edit."""
    arguments = call.input if isinstance(call.input, dict) else {}
    if call.result is not None and call.result.hunks:
        return call.result.hunks
    edits = arguments.get("edits") if call.name == "MultiEdit" else [arguments]
    if call.name not in ("Edit", "MultiEdit") or not isinstance(edits, list):
        return None
    return [hunk for edit in edits for hunk in _edit(edit)]


def diff_of(old: str, new: str) -> list[Hunk]:
    """Compare two texts line by line."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _COMPARED_LINES:
        lines = [*("-" + line for line in before), *("+" + line for line in after)]
        return [Hunk(old_start=None, new_start=None, lines=lines)]
    found = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_AROUND):
        lines = []
        for what, i1, i2, j1, j2 in group:
            if what == "equal":
                lines += [" " + line for line in before[i1:i2]]
            else:
                lines += ["-" + line for line in before[i1:i2]]
                lines += ["+" + line for line in after[j1:j2]]
        found.append(Hunk(old_start=None, new_start=None, lines=lines))
    return found


def hunks_of(text: str) -> list[Hunk]:
    """Parse a unified diff."""
    found: list[Hunk] = []
    for line in text.splitlines():
        head = _HUNK_HEAD.match(line)
        if head is not None:
            found.append(Hunk(old_start=int(head[1]), new_start=int(head[2]), lines=[]))
        elif found and line[:1] in ("+", "-", " "):
            found[-1].lines.append(line)
    return found


def counted(hunks: Iterable[Hunk]) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    lines = [line for hunk in hunks for line in hunk.lines]
    added = sum(line.startswith("+") for line in lines)
    return added, sum(line.startswith("-") for line in lines)


def as_text(hunks: Iterable[Hunk]) -> str:
    """Return changes as a unified diff."""
    return "\n".join(line for hunk in hunks for line in _with_head(hunk))


def as_html(hunks: Iterable[Hunk]) -> Fragment:
    """Return changes as HTML; runs of added and removed lines are elements."""
    lines = (line for hunk in hunks for line in _with_head(hunk))
    drawn = []
    for kind, run in groupby(lines, key=lambda line: _ELEMENTS.get(line[:1])):
        text = escaped("\n".join(run) + "\n")
        drawn.append(f"<{kind}>{text}</{kind}>" if kind else text)
    return Fragment(f'<pre class="diff" tabindex="0">{"".join(drawn)}</pre>')


def _edit(edit: Any) -> list[Hunk]:
    if not isinstance(edit, dict):
        return []
    old, new = edit.get("old_string"), edit.get("new_string")
    if not isinstance(old, str) and not isinstance(new, str):
        return []
    return diff_of(old if isinstance(old, str) else "", new if isinstance(new, str) else "")


def _with_head(hunk: Hunk) -> Iterator[str]:
    if hunk.old_start is not None and hunk.new_start is not None:
        yield f"@@ -{hunk.old_start} +{hunk.new_start} @@"
    # A line without a known prefix is unchanged.
    yield from (line if line[:1] in ("+", "-", " ") else f" {line}" for line in hunk.lines)
