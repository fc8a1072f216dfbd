"""Fold records into a session's summary: title, times, counts.

Listings feed it the first and last records of a log, other callers whole logs. Records come one by
one in log order, and any of them may be missing.

The title is the first available of: the name a person gave, the name a model gave, the last prompt,
a summary, the first prompt. A command that no model answers, such as ``/clear``, is used only if
there is nothing else. Only prompts typed by a human count, not those of a subagent in the same log.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from datetime import datetime
from typing import Final

from msgspec import Struct, field

from turnlog.records.blocks import TextBlock
from turnlog.records.fast_decode import QuickRun
from turnlog.records.meaning import Author, author_of, command_in, typed_text
from turnlog.records.record import Assistant, Linked, Record, Summary, SystemInit, User
from turnlog.records.record_types import AiTitle, CustomTitle, Format, LastPrompt, Relocated, Tag

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
        if isinstance(record, Format):
            self.cwd = self.cwd or record.cwd
            return
        if isinstance(record, Linked):
            self._take_surroundings(record)
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

    def _take_surroundings(self, record: Linked) -> None:
        if self.records == 0:
            self.is_sidechain = record.is_sidechain
        self.cwd = self.cwd or record.cwd
        self.git_branch = record.git_branch or self.git_branch
        self.version = record.version or self.version

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
