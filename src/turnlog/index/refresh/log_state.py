"""The state of reading a log, stored with its bookmark.

A log that grew is never read again from the start to find its title, the subagents it called, or
the calls that wait for their results and the results that wait for their calls.
"""

# Without postponed annotations, which msgspec would have to evaluate at every start.

from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from turnlog.index.refresh.line_decoder import LineFields
from turnlog.records.record import Record
from turnlog.records.record_types import AiTitle, CustomTitle, Tag
from turnlog.records.session_summary import QuickRun
from turnlog.sessions.metadata import MetadataFold, TitleCandidates
from turnlog.sessions.reading.subagents import Traces
from turnlog.text import utf8_safe

# Few calls never get a result; one that is older than this many others never will.
_OPEN_CALLS: Final = 1000
# Programs with several writers may put a result a few lines before its call. One that is older than
# this many others has its call in another log.
_EARLY_RESULTS: Final = 100
_DIGEST_LENGTH: Final = 32


class OpenCall(Struct, array_like=True, gc=False):
    """A call without its result, by the offset of its record."""

    offset: int
    block: int
    at_us: int | None


class EarlyResult(Struct, array_like=True, gc=False):
    """A result before its call, by the offset of its record."""

    offset: int
    is_error: bool
    duration_us: int | None
    signature: bytes | None
    at_us: int | None


class LogState(Struct, array_like=True):
    """What was folded of one log."""

    sessions: dict[str, MetadataFold] = field(default_factory=dict)
    """By session; the log of a day has several."""
    traces: Traces = field(default_factory=Traces)
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    last_second: int = 0
    """The time of the last dated record, for undated ones after it."""
    session: str | None = None
    """The session, if the path of the log does not name it."""
    called: TitleCandidates = field(default_factory=TitleCandidates)
    early_results: dict[str, EarlyResult] = field(default_factory=dict)

    def wait_for(self, call_id: str, call: OpenCall) -> None:
        """Store a call until its result is read."""
        self.open_calls[call_id] = call
        if len(self.open_calls) > _OPEN_CALLS:
            del self.open_calls[next(iter(self.open_calls))]

    def hold(self, call_id: str, result: EarlyResult) -> None:
        """Store a result until its call is read; the first, if a call has several."""
        self.early_results.setdefault(utf8_safe(call_id), result)  # As it will be packed.
        if len(self.early_results) > _EARLY_RESULTS:
            del self.early_results[next(iter(self.early_results))]

    def packed(self) -> bytes:
        """Return the state as bytes; long prompts are only compared, so digests replace them."""
        traces = self.traces
        traces.first_prompt = _short(traces.first_prompt)
        _shorten(traces.spawns)
        _shorten(traces.sidechains)
        try:
            return _pack(self)
        except UnicodeEncodeError:  # A lone surrogate.
            return _pack(utf8_safe(msgspec.to_builtins(self)))


def unpacked(data: bytes | None) -> LogState:
    """Return the state packed in *data*, or an empty one."""
    return _unpack(data) if data else LogState()


class LineRun:
    """Consecutive lines of which the metadata needs only time, place and model."""

    def __init__(self) -> None:
        self.lines = 0

    def add(self, line: LineFields, at: datetime | None) -> None:
        if not self.lines:
            self.first_at = self.last_at = at
            self.cwd, self.branch, self.version = line.cwd, line.git_branch, line.version
            self.is_sidechain = line.is_sidechain is True
            self.models: dict[str, int] = {}
        else:
            if at is not None:
                if self.first_at is None or self.last_at is None:
                    self.first_at = self.last_at = at
                elif at > self.last_at:
                    self.last_at = at
                elif at < self.first_at:
                    self.first_at = at
            self.cwd = self.cwd or line.cwd
            self.branch = line.git_branch or self.branch
            self.version = line.version or self.version
        self.lines += 1
        if line.type == "assistant" and line.message is not None:
            model = line.message.model
            if model is not None:
                self.models[model] = self.models.get(model, 0) + 1

    def fold_into(self, fold: MetadataFold) -> None:
        """Fold the lines, and start a new run."""
        if not self.lines:
            return
        run = QuickRun(
            lines=self.lines,
            first_at=self.first_at,
            at=self.last_at,
            cwd=self.cwd,
            git_branch=self.branch,
            version=self.version,
            is_sidechain=self.is_sidechain,
            models=self.models,
        )
        fold.take(run)
        fold.life.records += self.lines - 1  # The run was counted as one.
        fold.life.records_since_opened += self.lines - 1
        self.lines = 0


def repeats_title(folded: LogState, session: str, record: Record) -> bool:
    """Return whether *record* is a title that *session* has already.

    Claude Code writes the title again after every turn; it is indexed once.
    """
    fold = folded.sessions.get(session)
    if fold is None:
        return False
    summary = fold.summary
    match record:
        case AiTitle(ai_title=str(title)):
            before = summary.ai_title
        case CustomTitle(custom_title=str(title)):
            before = summary.custom_title
        case Tag(tag=str(title)):
            before = summary.tag
        case _:
            return False
    return bool(utf8_safe(title) == utf8_safe(before))  # It may have been packed in between.


def fold_record(folded: LogState, session: str, record: Record, offset: int) -> None:
    """Fold the record of *session* at *offset* into the state."""
    fold = folded.sessions.get(session)
    if fold is None:
        fold = folded.sessions[session] = MetadataFold()
    folded.called.take(record, offset, fold)


def _shorten(calls: dict[str, Any]) -> None:
    for name, call in calls.items():
        if call.prompt is not None and len(call.prompt) > _DIGEST_LENGTH:
            calls[name] = msgspec.structs.replace(call, prompt=_short(call.prompt))


def _short(prompt: str | None) -> str | None:
    if prompt is None or len(prompt) <= _DIGEST_LENGTH:
        return prompt
    return blake2b(prompt.encode(errors="surrogatepass"), digest_size=16).hexdigest()


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(LogState).decode
