"""What a session is doing, from the end of its log and from the program that runs it.

Claude Code writes to its process file whether it is busy, idle or waiting, and for what. The log
shows what it is busy with: a call without a result is running, and a prompt or a result without a
response means that the model is thinking. Only the end of a log is read, and then what is appended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from turnlog.errors import TurnlogError
from turnlog.formats import Home
from turnlog.records.annotations import session_of
from turnlog.records.call_lines import call_text
from turnlog.records.meaning import Author, Meaning, author_of, is_interruption, is_news, meaning_of
from turnlog.records.record import (
    Assistant,
    Call,
    CallBlock,
    Linked,
    Record,
    Result,
    System,
    ThinkingBlock,
    User,
)
from turnlog.records.record_types import LastPrompt
from turnlog.records.session_summary import prompt_preview
from turnlog.sessions.state import Running, agent_processes
from turnlog.storage.reader import Placed
from turnlog.storage.tail import LogFollower, Restart, read_last

ASKING: Final = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""The tools that ask the person and wait for an answer."""
ASKED_FOR: Final = {"permission prompt": "permission", "input needed": "an answer"}
"""What programs wait for, in plain words."""
_LAST_RECORDS: Final = 200
_TEXT_LENGTH: Final = 500
# Stop reasons that do not end the turn.
_CONTINUES: Final = (None, "tool_use", "pause_turn")


class Doing(StrEnum):
    """What a session is doing."""

    WAITING = "waiting"  # For a permission or an answer.
    CALLING = "calling"  # A tool is running.
    THINKING = "thinking"  # The model has not responded yet.
    ANSWERING = "answering"
    IDLE = "idle"  # It waits for the next prompt.
    QUIET = "quiet"  # Unknown whether it runs or ended.
    ENDED = "ended"
    CRASHED = "crashed"  # Its writer died without a clean exit.

    @property
    def is_at_work(self) -> bool:
        """Whether it continues without a person."""
        return self in (Doing.CALLING, Doing.THINKING, Doing.ANSWERING)


class LiveCall(Struct, kw_only=True):
    """A call without a result."""

    tool: str
    asked: str
    """Its most important argument."""
    at: datetime | None
    subagent: str | None = None
    """The subagent that called; null for the main agent."""


class Activity(Struct):
    """The activity shown by the last records of a log, added with ``take``."""

    prompt: str | None = None
    model: str | None = None
    calls: dict[str, LiveCall] = field(default_factory=dict)
    last_at: datetime | None = None
    doing: Doing = Doing.IDLE
    """According to the log alone."""

    def take(self, record: Record, subagent: str | None = None) -> None:
        """Add a record; *subagent* is the owner of its log."""
        if isinstance(record, LastPrompt):
            self.prompt = self.prompt or record.last_prompt
            return
        if not isinstance(record, Linked) or (record.is_sidechain and subagent is None):
            return
        match record:
            case Assistant():
                self._respond(record, subagent)
            case User():
                self._hear(record)
            case Call():
                self._call(record.call_id or "", record.name, record.input, record, subagent)
            case Result():
                self.calls.pop(record.call_id or "", None)
                self._become(Doing.THINKING)
            case System(subtype="turn_duration"):
                self._become(Doing.IDLE)
            case _:
                return
        self.last_at = record.at or self.last_at

    @property
    def since_at(self) -> datetime | None:
        """When the current activity started."""
        started = [call.at for call in self.calls.values() if call.at is not None]
        return min(started) if started and self.doing is not Doing.IDLE else self.last_at

    def _respond(self, record: Assistant, subagent: str | None) -> None:
        if record.model and not record.model.startswith("<"):
            self.model = record.model
        last: Any = None
        for last in record.blocks:
            if isinstance(last, CallBlock):
                self._call(last.id, last.name, last.input, record, subagent)
        stopped = record.message.stop_reason if record.message else None
        if record.is_api_error_message or stopped not in _CONTINUES:
            self._become(Doing.IDLE)
        elif not isinstance(last, CallBlock):
            is_thought = isinstance(last, ThinkingBlock)
            self._become(Doing.THINKING if is_thought else Doing.ANSWERING)

    def _hear(self, record: User) -> None:
        for block in record.results:
            self.calls.pop(block.tool_use_id, None)
        if is_interruption(record.text):
            self.calls.clear()
            self.doing = Doing.IDLE
            return
        if author_of(record) is Author.PROGRAM and not is_news(record.text):
            return  # Not a message to the model.
        if meaning_of(record) is Meaning.PROMPT:
            self.calls.clear()  # Calls without a result by now were interrupted.
            self.prompt = prompt_preview(record.text) or self.prompt
        self._become(Doing.THINKING)

    def _call(
        self, call_id: str, name: str | None, arguments: Any, record: Linked, subagent: str | None
    ) -> None:
        words = call_text(arguments, record.cwd).text[:_TEXT_LENGTH]
        self.calls[call_id] = LiveCall(
            tool=(name or "?")[:_TEXT_LENGTH], asked=words, at=record.at, subagent=subagent
        )
        self._become(Doing.CALLING)

    def _become(self, doing: Doing) -> None:
        """Set *doing*, unless calls are still running."""
        if self.calls and doing is not Doing.IDLE:
            asks = all(call.tool in ASKING for call in self.calls.values())
            doing = Doing.WAITING if asks else Doing.CALLING
        elif doing is Doing.IDLE:
            self.calls.clear()
        self.doing = doing


class LogEnd:
    """Follows the end of a log; only records of *session* count, if given."""

    def __init__(
        self, path: Path, *, session: str | None = None, subagent: str | None = None
    ) -> None:
        self.path = path
        self.activity = Activity()
        self.changed_at = 0.0
        self._session, self._subagent = session, subagent
        self._follower: LogFollower | None = None
        self._seen: tuple[int, int] | None = None

    def look(self) -> Activity:
        """Read what was appended; an unreadable log changes nothing."""
        try:
            status = os.stat(self.path)
            self.changed_at = status.st_mtime
            seen = (status.st_size, status.st_mtime_ns)
            if seen != self._seen:
                self._read()
                self._seen = seen
        except (OSError, TurnlogError):
            pass
        return self.activity

    def _read(self) -> None:
        if self._follower is None:
            if self.path.suffix != ".jsonl":  # Compressed logs do not grow.
                self._take(read_last(self.path, _LAST_RECORDS))
                return
            last = read_last(self.path, _LAST_RECORDS)
            start = last[0].offset if last else 0
            self._follower = LogFollower(self.path, start=start)
        while items := self._follower.look():
            self._take(items)

    def _take(self, items: Iterable[Any]) -> None:
        for item in items:
            if isinstance(item, Restart):
                self.activity = Activity()
            elif isinstance(item, Placed) and self._is_mine(item.record):
                self.activity.take(item.record, self._subagent)

    def _is_mine(self, record: Record) -> bool:
        return self._session is None or session_of(record) == self._session


class Program(Struct, frozen=True):
    """An agent's process, and what it says about itself."""

    running: Running
    home: Home
    cwd: str | None = None
    waiting_for: str | None = None
    status_at: datetime | None = None

    @property
    def doing(self) -> Doing | None:
        """The activity it reports; None if it is busy or reports none."""
        return {"waiting": Doing.WAITING, "idle": Doing.IDLE}.get(self.running.status or "")


def programs(homes: Iterable[Home]) -> dict[str, Program]:
    """Return the process of each session, a live one if there are several."""
    by_session: dict[str, Program] = {}
    for home in homes:
        for running in agent_processes(home):
            if running.session_id not in by_session or running.is_alive:
                by_session[running.session_id] = Program(
                    running,
                    home,
                    cwd=_shortened(running.cwd),
                    waiting_for=_shortened(running.waiting_for),
                    status_at=running.status_at,
                )
    return by_session


def _shortened(text: str | None) -> str | None:
    return text[:_TEXT_LENGTH] if text else None
