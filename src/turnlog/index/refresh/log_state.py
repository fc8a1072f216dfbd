"""What is folded of a log as it is read, and kept beside its bookmark to go on from.

The fold of a log up to its bookmark is stored with it, so that a log that grew is never read again
from the start to say what its session is called, which subagents it called, or which calls still
wait for their results, and results for their calls.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

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

# Calls that never got an answer are few; one that is older than that many others never will.
_OPEN_CALLS: Final = 1000
# Programs that write from several sides put a result a few lines before its call. One that is older
# than so many others of the kind has its call in another log.
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
    """The folds of one log."""

    sessions: dict[str, MetadataFold] = field(default_factory=dict)
    """By session: a day's log has several."""
    traces: Traces = field(default_factory=Traces)
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    last_second: int = 0
    """When the last record that says so was written: the next may not say."""
    session: str | None = None
    """Whose log it is, where its place does not tell."""
    called: TitleCandidates = field(default_factory=TitleCandidates)
    early_results: dict[str, EarlyResult] = field(default_factory=dict)

    def wait_for(self, call_id: str, call: OpenCall) -> None:
        """Remember a call until its result comes."""
        self.open_calls[call_id] = call
        if len(self.open_calls) > _OPEN_CALLS:
            del self.open_calls[next(iter(self.open_calls))]

    def hold(self, call_id: str, result: EarlyResult) -> None:
        """Remember a result until its call comes; the first, if several say that they are its."""
        self.early_results.setdefault(utf8_safe(call_id), result)  # As it is when it was packed.
        if len(self.early_results) > _EARLY_RESULTS:
            del self.early_results[next(iter(self.early_results))]

    def packed(self) -> bytes:
        """Return it as bytes. Long prompts are only ever compared, so digests do as well."""
        traces = self.traces
        traces.first_prompt = _short(traces.first_prompt)
        _shorten(traces.spawns)
        _shorten(traces.sidechains)
        try:
            return _pack(self)
        except UnicodeEncodeError:  # A lone surrogate, which JSON can spell and UTF-8 cannot.
            return _pack(utf8_safe(msgspec.to_builtins(self)))


def unpacked(data: bytes | None) -> LogState:
    """Return the folds that *data* holds; empty ones if there is none."""
    return _unpack(data) if data else LogState()


class Passing:
    """Lines that follow one another and of which a summary asks only when and where."""

    def __init__(self) -> None:
        self.lines = 0

    def take(self, line: LineFields, at: datetime | None) -> None:
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

    def into(self, fold: MetadataFold) -> None:
        """Fold what passed, and forget it."""
        if not self.lines:
            return
        passed = QuickRun(
            lines=self.lines,
            first_at=self.first_at,
            at=self.last_at,
            cwd=self.cwd,
            git_branch=self.branch,
            version=self.version,
            is_sidechain=self.is_sidechain,
            models=self.models,
        )
        fold.take(passed)
        fold.life.records += self.lines - 1  # It counted the stretch as one.
        fold.life.records_since_opened += self.lines - 1
        self.lines = 0


def repeats_title(folded: LogState, session: str, record: Record) -> bool:
    """Return whether *record* calls *session* what it is called already.

    Claude Code writes the title again after every turn: found once it is enough.
    """
    fold = folded.sessions.get(session)
    if fold is None:
        return False
    called = fold.summary
    match record:
        case AiTitle(ai_title=str(title)):
            before = called.ai_title
        case CustomTitle(custom_title=str(title)):
            before = called.custom_title
        case Tag(tag=str(title)):
            before = called.tag
        case _:
            return False
    return bool(utf8_safe(title) == utf8_safe(before))  # What was packed in between is sound.


def take_record(folded: LogState, session: str, record: Record, offset: int) -> None:
    """Fold one more record of *session* in, which stands at *offset*."""
    fold = folded.sessions.get(session)
    if fold is None:
        fold = folded.sessions[session] = MetadataFold()
    folded.called.take(record, offset, fold)


def _shorten(asked: dict[str, Any]) -> None:
    for name, each in asked.items():
        if each.prompt is not None and len(each.prompt) > _DIGEST_LENGTH:
            asked[name] = msgspec.structs.replace(each, prompt=_short(each.prompt))


def _short(prompt: str | None) -> str | None:
    if prompt is None or len(prompt) <= _DIGEST_LENGTH:
        return prompt
    return blake2b(prompt.encode(errors="surrogatepass"), digest_size=16).hexdigest()


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(LogState).decode
