"""One-line descriptions of a tool call and of its result."""

from __future__ import annotations

import os
import re
from typing import Any, Final, NamedTuple

from turnlog.records.record import ImageBlock, ResultBlock, ToolReferenceBlock

# The most informative argument of a call: the first of these that is present.
_MAIN_ARGUMENTS: Final = (
    *("command", "file_path", "notebook_path", "pattern", "subject", "description", "query"),
    *("url", "skill", "prompt", "path", "question"),
)
_PATHS: Final = ("file_path", "notebook_path", "path")
_NUMBERED: Final = re.compile(r"\s*\d+[→\t]")
_TAG: Final = re.compile(r"</?(?:tool_use_error|persisted-output|error|result)>")
_LENGTH: Final = 400


class CallText(NamedTuple):
    """The short text of a call or a result."""

    text: str
    suffix: str = ""
    """Follows the text, however much of that is cut."""
    is_path: bool = False
    """Cut the text at its beginning: the end of a path matters more."""


def call_text(arguments: Any, cwd: str | None) -> CallText:
    """Return the main argument of a call, or all of its arguments."""
    if not isinstance(arguments, dict):
        return CallText(_short(arguments))
    for key in _MAIN_ARGUMENTS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return CallText(_relative(value[:_LENGTH], cwd), is_path=key in _PATHS)
    questions = arguments.get("questions")
    if isinstance(questions, list) and questions and isinstance(questions[0], dict):
        return CallText(_short(questions[0].get("question")))
    return CallText(
        " ".join(f"{key}={_short(value)}" for key, value in list(arguments.items())[:6])
    )


def result_text(result: ResultBlock, detail: Any, cwd: str | None) -> CallText:
    """Return what a call changed, or the first line of its result and the number of other lines."""
    changed = _changes(detail)
    if changed is not None and not result.is_error:
        return CallText(changed)
    text = _short(result.content) if isinstance(result.content, dict) else result.text
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return CallText(_without_text(result))
    first = _TAG.sub("", _NUMBERED.sub("", lines[0][:_LENGTH], count=1)).strip()
    more = len(lines) - 1
    suffix = f" +{more:,} line{'s' if more > 1 else ''}" if more else ""
    return CallText(_relative(first, cwd) or "…", suffix)


def _changes(detail: Any) -> str | None:
    """Return the number of lines an edit added and removed, or None if it is unknown."""
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


def _without_text(result: ResultBlock) -> str:
    """Describe a result without text."""
    blocks = result.content if isinstance(result.content, tuple) else ()
    if any(isinstance(block, ImageBlock) for block in blocks):
        return "an image"
    tools = [block.tool_name for block in blocks if isinstance(block, ToolReferenceBlock)]
    return ", ".join(tools)[:_LENGTH] or "no output"


def _relative(text: str, cwd: str | None) -> str:
    """Remove the project's directory from paths."""
    if not cwd or len(cwd) < 2:
        return text
    prefix = cwd.rstrip("/\\") + (os.sep if "/" in cwd else "\\")
    return text.replace(prefix, "") or text


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
