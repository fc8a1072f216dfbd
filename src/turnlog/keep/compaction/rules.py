"""The rules of compaction: what may be removed from a log without changing any view.

- ``duplicates``: a line that occurs again later, byte for byte and with the same uuid. The last one
  stays, since it counts for the tree.
- ``states``: a title, tag, last prompt, mode, permission mode or agent's name that a later record
  of the same type and session replaces. The last one stays, and the last non-empty one.
- ``echoes``: a progress record that repeats an agent's record, with the same text, usage and uuid
  as in the subagent's own log. Only if no remaining record refers to it, and a later one still
  links the subagent to its call.
- ``blobs``: a tool's result on a line longer than 64 KiB is moved to a file (see
  ``storage.blobs``), unless it mentions usage or plans, which are searched without following blobs.

No rule applies to a line that is damaged, holds more than a record or lacks its newline, to the
first or last record of a log, to a record that was the first to state something (the directory, a
prompt, an agent's call, a written file), or to turnlog's own records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from turnlog.errors import NotFound
from turnlog.records import record_types
from turnlog.records.record import Call, Linked, Progress, Record, Result, Spoken, SystemInit, User
from turnlog.records.session_summary import SessionSummary
from turnlog.records.usage_entries import usage_entries_of
from turnlog.sessions.reading.subagents import Traces
from turnlog.sessions.reading.tree import Tree
from turnlog.sessions.side_files.file_changes import WRITERS, FileTraces
from turnlog.storage.blobs import blob_of
from turnlog.storage.reader import Placed, Reader

_KEYS: Final = {"type", "agentId", "message", "normalizedMessages", "prompt"}
_UUID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Read = Callable[[], Reader]
"""Starts reading a log again."""


class Echo(NamedTuple):
    """A progress record, its location, and what it says about an subagent."""

    offset: int
    uuid: str
    subagent: str
    data: dict[str, Any]


def echoes_to_drop(echoes: Sequence[Echo], read: Read, subagents: Mapping[str, Read]) -> list[Echo]:
    """Return those of *echoes*, given in log order, that may be removed."""
    candidates = [echo for echo in echoes if _is_plain(echo)]
    repeated = _repeated(candidates, subagents)
    candidates = [echo for echo in candidates if echo.uuid in repeated]
    if not candidates:
        return []
    mentions = _mentions(read, {echo.uuid for echo in candidates})
    with closing(read()) as reader:
        tree = Tree(item for item in reader if isinstance(item, Placed))
    bridges = {gap.bridged_to.uuid for gap in tree.gaps if gap.bridged_to is not None}
    bridges.update(gap.node.uuid for gap in tree.gaps)
    gone: set[int] = set()
    chosen = []
    for echo in reversed(candidates):  # The last first, since one may follow another.
        if mentions[echo.uuid] <= gone | {echo.offset} and echo.uuid not in bridges:
            gone.add(echo.offset)
            chosen.append(echo)
    return chosen


def _is_plain(echo: Echo) -> bool:
    """Return whether an echo contains nothing but the repeated record."""
    is_named = _UUID.fullmatch(echo.uuid.encode(errors="replace")) is not None
    return is_named and set(echo.data) <= _KEYS and not echo.data.get("normalizedMessages")


def _mentions(read: Read, uuids: set[str]) -> dict[str, set[int]]:
    """Return the records that contain one of *uuids* anywhere; unreadable lines are skipped."""
    wanted = {uuid.encode() for uuid in uuids}
    found: dict[str, set[int]] = {}
    with closing(read()) as reader:
        for item in reader:
            if isinstance(item, Placed):
                for uuid in wanted.intersection(_UUID.findall(item.record.raw)):
                    found.setdefault(uuid.decode(), set()).add(item.offset)
    return found


def _repeated(echoes: Sequence[Echo], subagents: Mapping[str, Read]) -> set[str]:
    """Return the uuids of the echoes whose content is in their subagents' own logs."""
    found: set[str] = set()
    by_subagent: dict[str, dict[str, list[Echo]]] = {}
    for echo in echoes:
        message = echo.data.get("message")
        named = message.get("uuid") if isinstance(message, dict) else None
        if isinstance(named, str):
            by_subagent.setdefault(echo.subagent, {}).setdefault(named, []).append(echo)
    for subagent, wanted in by_subagent.items():
        prompt: str | None = None
        with suppress(NotFound), closing(subagents[subagent]()) as reader:
            for item in reader:
                record = item.record if isinstance(item, Placed) else None
                if prompt is None and isinstance(record, User):
                    prompt = record.text or None
                for echo in wanted.get(record.uuid or "", ()) if record else ():
                    if record is not None and _repeats(echo.data, record, prompt):
                        found.add(echo.uuid)
    return found


def _repeats(data: dict[str, Any], record: Record, prompt: str | None) -> bool:
    """Return whether *record* contains everything that an echo does."""
    if data.get("prompt") not in (None, "", prompt):
        return False
    echo, own = data["message"], record.fields
    echoed, owned = echo.get("message"), own.get("message")
    if not isinstance(echoed, dict) or not isinstance(owned, dict):
        return False
    outside = {key: value for key, value in echo.items() if key != "message" and value is not None}
    inside = {key: value for key, value in echoed.items() if key != "content" and value is not None}
    return (
        all(own.get(key) == value for key, value in outside.items())
        and all(owned.get(key) == value for key, value in inside.items())
        and _blocks(echoed.get("content")) == _blocks(owned.get("content"))
    )


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


BLOB_BYTES: Final = 64 * 1024
_WORTH_BYTES: Final = 4096  # The minimum size of a file on disk.

# The last record of these types counts, wherever it is in the log.
SAID_BY: Final[dict[type[Record], str]] = {
    record_types.AgentName: "agent_name",
    record_types.AiTitle: "ai_title",
    record_types.CustomTitle: "custom_title",
    record_types.LastPrompt: "last_prompt",
    record_types.Mode: "mode",
    record_types.PermissionMode: "permission_mode",
    record_types.Tag: "tag",
}
# Lines with these are searched, not read: usage by the ledger, plans by their traces.
_USAGE: Final = (b'"usage"', b'"inputTokens"', b'"outputTokens"')
_PLANS: Final = (b'"planContent"', b'"planFilePath"', b'"plan"')


class Rule(StrEnum):
    """Why a line was removed from a log."""

    DUPLICATES = "duplicates"
    STATES = "states"
    ECHOES = "echoes"
    BLOBS = "blobs"


LOSSLESS: Final = (Rule.DUPLICATES, Rule.STATES, Rule.ECHOES)
"""Rules after which every other program reads the log as before."""


class LineChange(NamedTuple):
    """A line of *length* bytes and a newline that is removed, or replaced by a stub."""

    offset: int
    length: int
    rule: Rule
    saved_bytes: int
    """By how much the log shrinks."""
    blob_bytes: int = 0
    uuid: str | None = None


class _LogLine(NamedTuple):
    offset: int
    length: int
    is_held: bool
    """Whether it was the first to state something."""
    digest: bytes
    at: datetime | None
    says: bool = True


class _EchoLine(NamedTuple):
    """A line that may be an echo, and its content."""

    line: _LogLine
    echo: Echo


def changes_in(
    read: Read,
    read_line: Callable[[int, int], bytes],
    subagents: Mapping[str, Read],
    *,
    agent_id: str | None,
    rules: Sequence[Rule],
    blob_bytes: int = BLOB_BYTES,
) -> list[LineChange]:
    """Return what *rules* remove from a log, in log order.

    *read* starts reading the log, *read_line* returns some bytes of it, *subagents* start reading
    the logs of the session's subagents. *agent_id* is whose log this is, if any.
    """
    facts = _Facts(agent_id, blob_bytes)
    with closing(read()) as reader:
        for _, group in groupby(reader, key=attrgetter("line")):
            items = list(group)
            for item in items:
                if isinstance(item, Placed):
                    facts.take(item, is_alone=len(items) == 1)
    found: list[LineChange] = []
    if Rule.DUPLICATES in rules:
        found += facts.duplicates()
    if Rule.STATES in rules:
        found += facts.states()
    if Rule.ECHOES in rules:
        echoes = echoes_to_drop(facts.free_echoes(subagents), read, subagents)
        found += (_dropped(facts.line_of(echo), Rule.ECHOES, echo.uuid) for echo in echoes)
    if Rule.BLOBS in rules:
        gone = {change.offset for change in found}
        found += _blobs(facts, read_line, gone)
    # A line counts only if it is between newlines, or at the log's beginning.
    return sorted(change for change in found if _is_line(change, read_line))


def _is_line(change: LineChange, read_line: Callable[[int, int], bytes]) -> bool:
    before = read_line(change.offset - 1, 1) if change.offset else b"\n"
    return before == b"\n" == read_line(change.offset + change.length, 1)


class _Facts:
    """What the rules must know of a log, collected record by record."""

    def __init__(self, agent_id: str | None, blob_bytes: int) -> None:
        self.summary = SessionSummary()
        self.traces = Traces(caller=agent_id)
        self.files = FileTraces()
        self.copies: dict[str, list[_LogLine]] = {}
        self.state_lines: dict[tuple[str, str | None], list[_LogLine]] = {}
        self.echoes: list[_EchoLine] = []
        self.large: list[_LogLine] = []
        self.last_offset = -1
        self._agent_id = agent_id
        self._blob_bytes = blob_bytes
        self._slugs: set[str] = set()
        self._writers: set[str] = set()
        self._last_surroundings: dict[str, int] = {}

    def take(self, item: Placed, *, is_alone: bool) -> None:
        """Add a record; *is_alone*: nothing else is on its line."""
        record = item.record
        is_first = self.summary.records == 0
        is_held = self._is_first_to_state(item) or is_first
        if isinstance(record, record_types.Marker):
            return
        self.last_offset = item.offset
        if isinstance(record, Linked):
            for name in ("git_branch", "version"):
                if getattr(record, name):
                    self._last_surroundings[name] = item.offset
        if not is_alone or item.length != len(record.raw):  # Or it is in a blob already.
            return
        digest = blake2b(record.raw, digest_size=16).digest()
        line = _LogLine(item.offset, item.length, is_held, digest, record.at)
        if isinstance(record, Linked):
            if record.uuid is not None:
                self.copies.setdefault(record.uuid, []).append(line)
            self._take_echo(record, line)
            if self._is_movable(record, line):
                self.large.append(line)
        elif type(record) in SAID_BY and record.uuid is None:
            says = bool(getattr(record, SAID_BY[type(record)]))
            key = (record.type, record.session_id)
            self.state_lines.setdefault(key, []).append(line._replace(says=says))

    def duplicates(self) -> Iterator[LineChange]:
        for uuid, lines in self.copies.items():
            later: set[bytes] = set()
            for line in reversed(lines):
                if line.digest in later and not line.is_held:
                    yield _dropped(line, Rule.DUPLICATES, uuid)
                later.add(line.digest)

    def states(self) -> Iterator[LineChange]:
        for lines in self.state_lines.values():
            counts = {lines[-1].offset, *[line.offset for line in lines if line.says][-1:]}
            for line in lines:
                if line.offset not in counts and not line.is_held and self.is_inside(line):
                    yield _dropped(line, Rule.STATES)

    def is_inside(self, line: _LogLine) -> bool:
        """Return whether the session's times are the same without *line*."""
        began, ended = self.summary.started_at, self.summary.last_active_at
        if line.at is None:
            return True
        return began is not None and ended is not None and began < line.at < ended

    def is_last_to_tell(self, line: _LogLine) -> bool:
        """Return whether *line* is the last to name the branch or the version."""
        return line.offset in self._last_surroundings.values()

    def free_echoes(self, subagents: Container[str]) -> list[Echo]:
        """Return the echoes that only the parent links could still need."""
        last = {candidate.echo.subagent: candidate.echo.uuid for candidate in self.echoes}
        return [
            echo
            for line, echo in self.echoes
            if echo.subagent in subagents
            and last[echo.subagent] != echo.uuid
            and len(self.copies[echo.uuid]) == 1
            and not line.is_held
            and line.offset != self.last_offset
            and self.is_inside(line)
            and not self.is_last_to_tell(line)
        ]

    def line_of(self, echo: Echo) -> _LogLine:
        return self.copies[echo.uuid][0]

    def _is_first_to_state(self, item: Placed) -> bool:
        before = self._stated()
        record = item.record
        self.summary.take(record)
        self.traces.see(item)
        self.files.see(record, self._agent_id)
        is_first = before != self._stated() or isinstance(record, SystemInit)
        if isinstance(record, Linked):
            is_first = is_first or any(key in record.raw for key in _PLANS)
            if record.slug is not None:
                is_first = is_first or record.slug not in self._slugs
                self._slugs.add(record.slug)
        return self._is_of_writing(record) or is_first

    def _stated(self) -> tuple[object, ...]:
        summary, traces, files = self.summary, self.traces, self.files
        return (
            summary.prompts,
            summary.cwd,
            summary.first_prompt,
            summary.first_command,
            traces.first_prompt,
            len(traces.spawns),
            files.project,
            len(files.edits),
        )

    def _is_of_writing(self, record: Record) -> bool:
        """Return whether *record* is a call that writes a file, or its result."""
        calls: list[tuple[str | None, str | None]] = []
        answered: list[str | None] = []
        if isinstance(record, Call):
            calls = [(record.call_id, record.name)]
        elif isinstance(record, Result):
            answered = [record.call_id]
        elif isinstance(record, Spoken):
            calls = [(call.id, call.name) for call in record.calls]
            answered = [result.tool_use_id for result in record.results]
        wrote = [call_id for call_id, name in calls if name in WRITERS]
        self._writers.update(call_id for call_id in wrote if call_id is not None)
        return bool(wrote) or any(call_id in self._writers for call_id in answered)

    def _take_echo(self, record: Linked, line: _LogLine) -> None:
        if not isinstance(record, Progress) or record.kind != "agent_progress":
            return
        subagent = record.data.get("agentId")
        if isinstance(subagent, str) and record.uuid is not None:
            echo = Echo(line.offset, record.uuid, subagent, record.data)
            self.echoes.append(_EchoLine(line, echo))

    def _is_movable(self, record: Linked, line: _LogLine) -> bool:
        if line.length <= self._blob_bytes:
            return False
        answers = isinstance(record, Result) or (isinstance(record, User) and bool(record.results))
        raw = record.raw
        quiet = not any(key in raw for key in (*_USAGE, *_PLANS)) and not usage_entries_of(record)
        return answers and quiet


def _dropped(line: _LogLine, rule: Rule, uuid: str | None = None) -> LineChange:
    return LineChange(line.offset, line.length, rule, line.length + 1, uuid=uuid)


# -- blobs ----------------------------------------------------------------------------------


def _blobs(
    facts: _Facts, read_line: Callable[[int, int], bytes], gone: set[int]
) -> Iterator[LineChange]:
    for line in facts.large:
        if line.offset in gone or line.is_held or line.offset == facts.last_offset:
            continue
        blob = blob_of(read_line(line.offset, line.length))
        saved, packed = line.length - len(blob.stub), len(blob.packed)
        if saved - packed >= _WORTH_BYTES:
            yield LineChange(line.offset, line.length, Rule.BLOBS, saved, packed)
