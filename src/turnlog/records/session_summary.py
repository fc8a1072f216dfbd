"""Fold records into a session's summary: title, times, counts.

Listings feed it the first and last records of a log, other callers whole logs. Records come one by
one in log order, and any of them may be missing.

The title is the first available of: the name a person gave, the name a model gave, the last prompt,
a summary, the first prompt. A command that no model answers, such as ``/clear``, is used only if
there is nothing else. Only prompts typed by a human count, not those of a subagent in the same log.

``quick_decode`` decodes only what a summary needs of a line, at a fraction of the cost. Nearly all
bytes of a log are messages of assistants, tools and the program, of which only time, directory and
model are needed. Such lines become a QuickRecord, and consecutive ones a QuickRun. Prompts, titles,
turnlog's records, other dialects and unusual shapes are decoded in full. The summary is the same
either way; a property test compares the two.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.meaning import Author, author_of, command_in, typed_text
from turnlog.records.record import Assistant, Linked, Record, Summary, SystemInit, TextBlock, User
from turnlog.records.record_types import AiTitle, CustomTitle, LastPrompt, Marker, Relocated, Tag

PROMPT_LENGTH: Final = 200

_LOCAL_COMMANDS: Final = frozenset(
    (
        "add-dir", "agents", "bashes", "clear", "compact", "config", "context", "copy", "cost",
        "doctor", "effort", "exit", "export", "extra-usage", "fast", "feedback", "help", "hooks",
        "ide", "install-github-app", "keybindings", "login", "logout", "mcp", "memory", "model",
        "output-style", "permissions", "plugin", "privacy-settings", "quit", "rate-limit-options",
        "release-notes", "reload-plugins", "remote-control", "rename", "resume", "rewind",
        "sandbox", "skills", "stats", "status", "statusline", "stickers", "tasks", "terminal-setup",
        "theme", "todos", "upgrade", "usage", "vim",
    )
)  # fmt: skip
"""Commands that Claude Code handles itself, without a model."""


class SessionSummary(Struct):
    """What is known of a session so far; call ``take`` for each record."""

    records: int = 0
    prompts: int = 0
    started_at: datetime | None = None
    last_active_at: datetime | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    models: dict[str, int] = field(default_factory=dict)
    tag: str | None = None
    """As it was written; records/tags.py reads it."""
    custom_title: str | None = None
    ai_title: str | None = None
    last_prompt: str | None = None
    summary: str | None = None
    first_prompt: str | None = None
    first_command: str | None = None
    is_sidechain: bool = False
    """Whether the first record is a subagent's, so that this is not a session of its own."""

    @property
    def title(self) -> str | None:
        return (
            self.custom_title
            or self.ai_title
            or (None if is_local_command(self.last_prompt) else self.last_prompt)
            or self.summary
            or self.first_prompt
            or self.first_command
            or self.last_prompt
        )

    def take(self, record: Record) -> None:
        """Add a record; turnlog's own records only set the directory."""
        if isinstance(record, Marker):
            self.cwd = self.cwd or record.cwd
            return
        if isinstance(record, Linked):
            if self.records == 0:
                self.is_sidechain = record.is_sidechain
            self.cwd = self.cwd or record.cwd
            self.git_branch = record.git_branch or self.git_branch
            self.version = record.version or self.version
        self._take_time(record.at)
        if isinstance(record, QuickRun):
            self._take_time(record.first_at)
            self.records += record.lines
            for model, count in record.models.items():
                self.models[model] = self.models.get(model, 0) + count
            return
        self.records += 1
        match record:
            case CustomTitle(custom_title=title):
                self.custom_title = title or None
            case AiTitle(ai_title=title):
                self.ai_title = title or self.ai_title
            case LastPrompt(last_prompt=prompt):
                self.last_prompt = _one_line(prompt) if prompt else self.last_prompt
            case Tag(tag=tag):
                self.tag = tag or None
            case Relocated(relocated_cwd=cwd):
                self.cwd = cwd or self.cwd
            case Summary():
                self.summary = _one_line(record.text) or self.summary
            case Assistant(model=str(model)):
                self.models[model] = self.models.get(model, 0) + 1
            case SystemInit(model=str(model)):
                self.models.setdefault(model, 0)
            case User():
                self._take_prompt(record)

    def _take_time(self, at: datetime | None) -> None:
        if at is None:
            return
        if self.started_at is None or at < self.started_at:
            self.started_at = at
        if self.last_active_at is None or at > self.last_active_at:
            self.last_active_at = at

    def _take_prompt(self, record: User) -> None:
        if author_of(record) is not Author.HUMAN:
            return
        self.prompts += 1
        if self.first_prompt is not None:
            return
        # Editors add their context in a separate block before the human's.
        for block in record.blocks:
            if not isinstance(block, TextBlock):
                continue
            self.first_prompt = prompt_preview(block.text)
            if self.first_prompt is not None:
                return
            if self.first_command is None:
                self.first_command = command_in(block.text)


def prompt_preview(text: str) -> str | None:
    """Return the typed text on one line, truncated; None for commands and the program's text."""
    shell, closed, _ = text.partition("<bash-input>")[2].partition("</bash-input>")
    if closed:
        return _one_line(f"! {shell.strip()}")
    if command_in(text) is not None:
        return None
    return _one_line(typed_text(text)) or None


def is_local_command(text: str | None) -> bool:
    """Return whether *text* is a command that no model answers, such as ``/clear``."""
    words = (text or "").split(maxsplit=1)
    return bool(words) and words[0].startswith("/") and words[0][1:] in _LOCAL_COMMANDS


def _one_line(text: str) -> str:
    # N words have more than N characters: no more of a long text needs to be split.
    line = " ".join(text.split(None, PROMPT_LENGTH)[:PROMPT_LENGTH])
    return line if len(line) <= PROMPT_LENGTH else line[:PROMPT_LENGTH].rstrip() + "…"


class _QuickBlock(Struct, frozen=True, gc=False):
    type: str
    tool_use_id: str | None = None


class _QuickMessage(Struct, frozen=True, gc=False):
    model: str | None = None
    content: str | tuple[_QuickBlock, ...] | None = None


class QuickRecord(Struct, frozen=True, rename="camel", gc=False):
    """The time, directory and model of one line."""

    type: str = ""
    at: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="timestamp")
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    is_sidechain: bool = False
    message: _QuickMessage | None = None


class QuickRun(Linked, frozen=True, kw_only=True, tag="(stretch)"):
    """Consecutive lines as one. It is in no log: fold it and drop it.

    The directory is that of the first line that has one, branch and version those of the last.
    """

    lines: int
    first_at: datetime | None
    at: datetime | None
    models: Mapping[str, int]


# A summary needs nothing else of these types, and no other dialect writes them.
_QUICK_TYPES = {"attachment", "file-history-snapshot", "progress", "queue-operation", "system"}

_decode_quickly = msgspec.json.Decoder(QuickRecord).decode


def quick_decode(line: bytes | memoryview) -> QuickRecord | Record | Damage:
    """Decode as much of *line*, without its newline, as a summary needs."""
    try:
        seen = _decode_quickly(line)
    except (ValueError, RecursionError):
        return decode(bytes(line))
    if seen.at is None or seen.at.tzinfo is UTC:
        kind, message = seen.type, seen.message
        if kind == "assistant":
            # Without a message it is another dialect, or empty.
            if message is not None:
                return seen
        elif kind in _QUICK_TYPES or (kind == "user" and _is_of_a_tool(message)):
            return seen
    return decode(bytes(line))


def _is_of_a_tool(message: _QuickMessage | None) -> bool:
    """Return whether a message is a tool's result rather than a possible prompt."""
    if message is None or not isinstance(message.content, tuple):
        return False
    for block in message.content:  # Nearly always the first and only one.
        if block.type == "tool_result" and block.tool_use_id is not None:
            return True
    return False


def quick_run(records: Sequence[QuickRecord]) -> QuickRun:
    """Return *records*, at least one, as a single run."""
    first_at = last_at = cwd = git_branch = version = None
    models: dict[str, int] = {}
    for seen in records:
        at = seen.at
        if at is not None:
            if first_at is None or at < first_at:
                first_at = at
            if last_at is None or at > last_at:
                last_at = at
        cwd = cwd or seen.cwd
        git_branch = seen.git_branch or git_branch
        version = seen.version or version
        if seen.type == "assistant" and seen.message is not None:
            model = seen.message.model
            if model is not None:
                models[model] = models.get(model, 0) + 1
    return QuickRun(
        lines=len(records),
        first_at=first_at,
        at=last_at,
        cwd=cwd,
        git_branch=git_branch,
        version=version,
        is_sidechain=records[0].is_sidechain,
        models=models,
    )


# No string annotations here: msgspec would have to evaluate them at every start.
