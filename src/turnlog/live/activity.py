"""What a session is doing now, told by the end of its log and by the program that runs it.

The program knows best: Claude Code says in its PID file whether it is busy, idle, or waits for a
person, and for what. What it is busy with stands in the log: a call without an answer is at work, a
prompt or a result without a response is being thought about. Only the end of a log is read, however
long it is, and then what is appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec
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
"""The tools that ask the person; until they are answered, nobody else is at work."""
ASKED_FOR: Final = {"permission prompt": "permission", "input needed": "an answer"}
"""What programs say that they wait for, as people say it."""
_LAST_RECORDS: Final = 200
_TEXT_LENGTH: Final = 500
# A response that ends with one of these is not the end of the turn.
_GOES_ON: Final = (None, "tool_use", "pause_turn")


class Doing(StrEnum):
    """What a session is doing."""

    WAITING = "waiting"  # For a person: a permission, an answer.
    CALLING = "calling"  # A tool is at work.
    THINKING = "thinking"  # The model was asked and has not answered.
    ANSWERING = "answering"
    IDLE = "idle"  # It has answered; the next prompt is the person's.
    QUIET = "quiet"  # Nothing says that it runs, nor that it ended.
    ENDED = "ended"
    CRASHED = "crashed"  # Whoever wrote it is gone without a goodbye.

    @property
    def is_at_work(self) -> bool:
        """Nobody needs to do anything for it to go on."""
        return self in (Doing.CALLING, Doing.THINKING, Doing.ANSWERING)


class LiveCall(Struct, kw_only=True):
    """A tool was asked and has not answered."""

    tool: str
    asked: str
    """Its most telling argument."""
    at: datetime | None
    subagent: str | None = None
    """The subagent that asked; null is the main one."""


class Activity(Struct):
    """What the last records of a log say; feed it with ``take``."""

    prompt: str | None = None
    model: str | None = None
    calls: dict[str, LiveCall] = field(default_factory=dict)
    last_at: datetime | None = None
    doing: Doing = Doing.IDLE
    """As far as the log alone can tell."""

    def take(self, record: Record, subagent: str | None = None) -> None:
        """Fold one more record in; *subagent* is whose log it stands in."""
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
        """When it began to do what it does."""
        begun = [call.at for call in self.calls.values() if call.at is not None]
        return min(begun) if begun and self.doing is not Doing.IDLE else self.last_at

    def _respond(self, record: Assistant, subagent: str | None) -> None:
        if record.model and not record.model.startswith("<"):
            self.model = record.model
        last: Any = None
        for last in record.blocks:
            if isinstance(last, CallBlock):
                self._call(last.id, last.name, last.input, record, subagent)
        stopped = record.message.stop_reason if record.message else None
        if record.is_api_error_message or stopped not in _GOES_ON:
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
            return  # Nobody asks the model anything.
        if meaning_of(record) is Meaning.PROMPT:
            self.calls.clear()  # Whatever had not answered by now was interrupted.
            said = prompt_preview(record.text)
            self.prompt = said or self.prompt
        self._become(Doing.THINKING)

    def _call(
        self, call_id: str, name: str | None, given: Any, record: Linked, subagent: str | None
    ) -> None:
        words = call_text(given, record.cwd).text[:_TEXT_LENGTH]
        self.calls[call_id] = LiveCall(
            tool=(name or "?")[:_TEXT_LENGTH], asked=words, at=record.at, subagent=subagent
        )
        self._become(Doing.CALLING)

    def _become(self, doing: Doing) -> None:
        """Do *doing*, unless calls are still at work."""
        if self.calls and doing is not Doing.IDLE:
            asks = all(call.tool in ASKING for call in self.calls.values())
            doing = Doing.WAITING if asks else Doing.CALLING
        elif doing is Doing.IDLE:
            self.calls.clear()
        self.doing = doing


class LogEnd:
    """The end of a log, and what is appended to it. *session* is whose records of it count."""

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
        """Read on; a log that cannot be read says nothing new."""
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
            if self.path.suffix != ".jsonl":  # Packed: it grows no more.
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
    """What the PID file of a Claude Code says beyond `Running`."""

    running: Running
    home: Home
    cwd: str | None = None
    waiting_for: str | None = None
    status_at: datetime | None = None

    @property
    def doing(self) -> Doing | None:
        """What it says it does; None if it is busy, or does not say."""
        return {"waiting": Doing.WAITING, "idle": Doing.IDLE}.get(self.running.status or "")


def programs(homes: Iterable[Home]) -> dict[str, Program]:
    """Tell by session which Claude Code runs it, or ran it when it was killed; the living count."""
    found: dict[str, Program] = {}
    for home in homes:
        for running in agent_processes(home):
            if running.session_id not in found or running.is_alive:
                found[running.session_id] = _program(running, home)
    return found


def _program(running: Running, home: Home) -> Program:
    try:
        said: Any = msgspec.json.decode(running.path.read_bytes())
    except (OSError, ValueError, RecursionError):  # It was replaced since.
        said = {}
    said = said if isinstance(said, dict) else {}
    return Program(
        running,
        home,
        cwd=_text(said.get("cwd")),
        waiting_for=_text(said.get("waitingFor")),
        status_at=_instant(said.get("statusUpdatedAt")),
    )


def _text(value: Any) -> str | None:
    return value[:_TEXT_LENGTH] if isinstance(value, str) and value else None


def _instant(value: Any) -> datetime | None:
    """Read milliseconds since 1970."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
