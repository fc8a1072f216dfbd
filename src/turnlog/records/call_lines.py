"""A call and its result in a few words: what was asked, and what came of it."""

from __future__ import annotations

import os
import re
from typing import Any, Final, NamedTuple

from turnlog.records.blocks import ImageBlock, ResultBlock, ToolReferenceBlock

# The argument that says most about a call, in the order in which they are looked for.
_TELLING: Final = (
    *("command", "file_path", "notebook_path", "pattern", "subject", "description", "query"),
    *("url", "skill", "prompt", "path", "question"),
)
_PATHS: Final = ("file_path", "notebook_path", "path")
_NUMBERED: Final = re.compile(r"\s*\d+[→\t]")
_TAG: Final = re.compile(r"</?(?:tool_use_error|persisted-output|error|result)>")
_LENGTH: Final = 400


class CallText(NamedTuple):
    """What to write of a call or a result where there is little room."""

    text: str
    suffix: str = ""
    """Written behind the text however much of that is cut."""
    is_path: bool = False
    """The end of the text tells more than its beginning."""


def call_text(given: Any, cwd: str | None) -> CallText:
    """Say what a call asked for: its most telling argument, else all of them."""
    if not isinstance(given, dict):
        return CallText(_short(given))
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return CallText(_inside(value[:_LENGTH], cwd), is_path=key in _PATHS)
    questions = given.get("questions")
    if isinstance(questions, list) and questions and isinstance(questions[0], dict):
        return CallText(_short(questions[0].get("question")))
    return CallText(" ".join(f"{key}={_short(value)}" for key, value in list(given.items())[:6]))


def result_text(result: ResultBlock, detail: Any, cwd: str | None) -> CallText:
    """Say what came of a call: what changed, else the first line and how many follow."""
    changed = _changes(detail)
    if changed is not None and not result.is_error:
        return CallText(changed)
    lines = [line for line in _text(result).splitlines() if line.strip()]
    if not lines:
        return CallText(_what_else(result))
    first = _TAG.sub("", _NUMBERED.sub("", lines[0][:_LENGTH], count=1)).strip()
    more = len(lines) - 1
    suffix = f" +{more:,} line{'s' if more > 1 else ''}" if more else ""
    return CallText(_inside(first, cwd) or "…", suffix)


def _changes(detail: Any) -> str | None:
    """Count the lines that an edit added and took away, where the tool has told them."""
    patch = detail.get("structuredPatch") if isinstance(detail, dict) else None
    if not isinstance(patch, list):
        return None
    if not patch and detail.get("type") == "create" and isinstance(detail.get("content"), str):
        count = len(detail["content"].splitlines())
        return f"created, {count:,} line{'' if count == 1 else 's'}"
    hunks = (hunk.get("lines") for hunk in patch if isinstance(hunk, dict))
    lines = [str(line) for hunk in hunks if isinstance(hunk, list) for line in hunk]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return f"+{added:,} -{removed:,} lines" if added or removed else None


def _text(result: ResultBlock) -> str:
    if isinstance(result.content, dict):
        return _short(result.content)
    return result.text


def _what_else(result: ResultBlock) -> str:
    """Name what an answer without text holds."""
    blocks = result.content if isinstance(result.content, tuple) else ()
    if any(isinstance(block, ImageBlock) for block in blocks):
        return "an image"
    tools = [block.tool_name for block in blocks if isinstance(block, ToolReferenceBlock)]
    return ", ".join(tools)[:_LENGTH] or "no output"


def _inside(text: str, cwd: str | None) -> str:
    """Leave out the project's directory, which every path would begin with."""
    if not cwd or len(cwd) < 2:
        return text
    inside = cwd.rstrip("/\\") + (os.sep if "/" in cwd else "\\")
    return text.replace(inside, "") or text


def _short(value: Any) -> str:
    match value:
        case str():
            return value[:_LENGTH]
        case list():
            return f"{len(value):,} item{'' if len(value) == 1 else 's'}"
        case dict():
            return f"{len(value):,} field{'' if len(value) == 1 else 's'}"
        case None:
            return ""
    return str(value)[:_LENGTH]
