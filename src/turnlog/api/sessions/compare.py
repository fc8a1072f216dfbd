"""Compare two sessions: prompts, figures, tools, files, errors and how they ended.

Records that a fork or a resume copied count for the session that made them, as in costs; only the
prompts of both sessions are compared with their copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest
from typing import Any, Final, Literal

from msgspec import Struct

from turnlog.api.files import list_edits
from turnlog.api.index import SUBAGENT, Index, instant_at, long_uuid
from turnlog.api.sessions.lists import IndexedSession, find_indexed, newest_records, session_figures
from turnlog.api.sessions.side_files import shown_path, whole_path
from turnlog.catalog.session_figures import ToolFigures
from turnlog.costs.lists import SessionCosts
from turnlog.export.record_blocks import Unmasked, answer_text, prompt_text
from turnlog.index.ids import IS_CALL, IS_PROMPT
from turnlog.records.record import Result, Spoken

MOST_PROMPTS: Final = 300
"""The most prompts of each session that are compared."""
MOST_EDITS: Final = 2_000
MOST_ERRORS: Final = 30
_LONGEST_PROMPT: Final = 2_000
_LONGEST_ANSWER: Final = 6_000
_LONGEST_ERROR: Final = 300
_ANSWERS: Final = 50
_PROMPTS: Final = f"""
SELECT r.id, r.length, r.uuid, r.at FROM records AS r JOIN logs AS l ON l.id = r.id >> 40
WHERE r.session = ? AND {IS_PROMPT} AND l.layout <> 'beside' AND {SUBAGENT} IS NULL
ORDER BY r.at, r.id LIMIT ?
"""  # noqa: S608 - Ours.
_ERRORS: Final = f"""
SELECT n.name, c.signature, count(*), min(c.result), c.call_id
FROM records AS r CROSS JOIN calls AS c ON c.record = r.id JOIN names AS n ON n.id = c.tool
WHERE r.session = ? AND c.is_error AND {IS_CALL} GROUP BY c.tool, c.signature
"""  # noqa: S608 - Ours.

Match = Literal["same", "changed", "only_a", "only_b"]


class PromptSide(Struct, kw_only=True):
    """A prompt of one session."""

    number: int
    """Which prompt of the session it is, counted from 1."""
    record: str | None
    at: datetime | None
    text: str
    """Its beginning."""


class PromptPair(Struct, kw_only=True):
    """A prompt of each session, or of one of them."""

    match: Match
    a: PromptSide | None
    b: PromptSide | None
    shared: int
    """How many characters both begin with."""


class ToolPair(Struct, kw_only=True):
    """How often each session called a tool, and how often that failed."""

    tool: str
    a_calls: int = 0
    a_errors: int = 0
    b_calls: int = 0
    b_errors: int = 0


class FileChange(Struct, kw_only=True):
    """The edits of a file in one session."""

    edits: int = 0
    added: int = 0
    removed: int = 0
    """Lines, as far as the log tells."""


class FilePair(Struct, kw_only=True):
    """A file that one session or both edited; *path* is relative to the project."""

    path: str
    a: FileChange | None = None
    b: FileChange | None = None


class ErrorPair(Struct, kw_only=True):
    """A kind of error, and how often it happened in each session."""

    tool: str
    text: str
    a: int = 0
    b: int = 0


class SessionSide(Struct, kw_only=True):
    """One of two compared sessions."""

    session: IndexedSession
    elapsed_ms: int | None
    """From its first record to its last."""
    calls: int
    errors: int
    """Calls that failed."""
    files: int
    """Files that it edited."""
    added: int
    removed: int
    unlisted_prompts: int
    """Prompts that were not compared because there are too many."""
    is_partial: bool
    """Whether older edits were left out because there are too many."""
    answer: str | None
    """The last answer, or its beginning."""
    answer_at: datetime | None
    answer_record: str | None


class SessionComparison(Struct, kw_only=True):
    """Two sessions side by side."""

    a: SessionSide
    b: SessionSide
    prompts: list[PromptPair]
    first_difference: int | None
    """Which of *prompts* is the first that differs, counted from 0; null if none does."""
    tools: list[ToolPair]
    """The most called first."""
    files: list[FilePair]
    errors: list[ErrorPair]
    """The most frequent first."""
    unlisted_errors: int


class _Side:
    """Reads one session."""

    def __init__(
        self, index: Index, name: str, out: Unmasked, costs: SessionCosts | None, now: datetime
    ) -> None:
        self._index, self._out = index, out
        self.number, self.session = find_indexed(index, name, costs=costs, now=now)
        figures = session_figures(index, self.number, files=0, subagents=0)
        self.tools: list[ToolFigures] = figures.calls
        found = list_edits(index, session=self.session.id, limit=MOST_EDITS)
        self._is_partial = found.next is not None
        self.files: dict[str, FileChange] = {}
        for edit in found.edits:
            whole = whole_path(edit.path, self.session.project)
            path = shown_path(whole, self.session.project)
            change = self.files.setdefault(path, FileChange())
            change.edits += 1
            change.added += edit.added or 0
            change.removed += edit.removed or 0
        self.prompts = list(self._prompts())
        self.errors = list(self._errors())

    def told(self) -> SessionSide:
        session = self.session
        elapsed_ms = None
        if session.started_at and session.last_active_at:
            elapsed_ms = round((session.last_active_at - session.started_at).total_seconds() * 1000)
        answer, answer_at, answer_record = self._answer()
        return SessionSide(
            session=session,
            elapsed_ms=elapsed_ms,
            calls=sum(each.calls for each in self.tools),
            errors=sum(each.errors for each in self.tools),
            files=len(self.files),
            added=sum(each.added for each in self.files.values()),
            removed=sum(each.removed for each in self.files.values()),
            unlisted_prompts=max(0, session.prompts - len(self.prompts))
            if len(self.prompts) == MOST_PROMPTS
            else 0,
            is_partial=self._is_partial,
            answer=answer,
            answer_at=answer_at,
            answer_record=answer_record,
        )

    def _prompts(self) -> Iterator[PromptSide]:
        rows = self._index.db.execute(_PROMPTS, (self.number, MOST_PROMPTS)).fetchall()
        for number, (record, length, uuid, at) in enumerate(rows, 1):
            read = self._index.record(record, length)
            text = "" if read is None else prompt_text(read, self._out)
            yield PromptSide(
                number=number, record=long_uuid(uuid), at=instant_at(at), text=text.strip()
            )

    def _errors(self) -> Iterator[tuple[tuple[str, bytes | None], int, Callable[[], str]]]:
        """Yield each kind of error, how often it happened, and a function for its text."""
        for tool, signature, count, result, call_id in self._index.db.execute(
            _ERRORS, (self.number,)
        ).fetchall():
            yield (tool, signature), count, partial(self._error, result, call_id)

    def _error(self, result: int, call_id: str | None) -> str:
        record = self._index.record(result)
        texts: list[Any] = []
        if isinstance(record, Result):
            texts = [record.text]
        elif isinstance(record, Spoken):
            texts = [each.text for each in record.results if each.tool_use_id == call_id]
        text = " ".join(self._out.text(texts[0]).split()) if texts else ""
        return text[:_LONGEST_ERROR]

    def _answer(self) -> tuple[str | None, datetime | None, str | None]:
        for at in newest_records(self._index, self.number, ["assistant"], limit=_ANSWERS):
            record = self._index.record(at.record, at.length)
            text = answer_text(record, self._out).strip() if record is not None else ""
            if text:
                return text[:_LONGEST_ANSWER], at.at, at.uuid
        return None, None, None


def compare_sessions(
    index: Index,
    a: str,
    b: str,
    *,
    costs: SessionCosts | None = None,
    now: datetime,
    out: Unmasked | None = None,
) -> SessionComparison:
    """Compare the sessions whose ids begin with *a* and *b*.

    Texts go through *out*.
    """
    out = out or Unmasked()
    one = _Side(index, a, out, costs, now)
    other = _Side(index, b, out, costs, now)
    prompts = list(_aligned(one.prompts, other.prompts))
    errors = _errors(one, other)
    return SessionComparison(
        a=one.told(),
        b=other.told(),
        prompts=prompts,
        first_difference=next(
            (place for place, pair in enumerate(prompts) if pair.match != "same"), None
        ),
        tools=_tools(one.tools, other.tools),
        files=[
            FilePair(path=path, a=one.files.get(path), b=other.files.get(path))
            for path in sorted({*one.files, *other.files})
        ],
        errors=errors[:MOST_ERRORS],
        unlisted_errors=max(0, len(errors) - MOST_ERRORS),
    )


def _aligned(a: list[PromptSide], b: list[PromptSide]) -> Iterator[PromptPair]:
    """Yield the prompts of both sessions in order, equal ones together."""
    one, other = ([" ".join(each.text.split()) for each in prompts] for prompts in (a, b))
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for what, a1, a2, b1, b2 in matcher.get_opcodes():
        for in_a, in_b in zip_longest(map(_cut, a[a1:a2]), map(_cut, b[b1:b2])):
            match: Match = "same" if what == "equal" else "changed"
            if in_a is None or in_b is None:
                match = "only_a" if in_b is None else "only_b"
            yield PromptPair(match=match, a=in_a, b=in_b, shared=_shared(in_a, in_b))


def _cut(prompt: PromptSide) -> PromptSide:
    prompt.text = prompt.text[:_LONGEST_PROMPT]
    return prompt


def _shared(one: PromptSide | None, other: PromptSide | None) -> int:
    if one is None or other is None:
        return 0
    pairs = enumerate(zip(one.text, other.text, strict=False))
    shorter = min(len(one.text), len(other.text))
    return next((place for place, (a, b) in pairs if a != b), shorter)


def _tools(a: list[ToolFigures], b: list[ToolFigures]) -> list[ToolPair]:
    pairs: dict[str, ToolPair] = {}
    for each in a:
        pair = pairs.setdefault(each.tool, ToolPair(tool=each.tool))
        pair.a_calls, pair.a_errors = each.calls, each.errors
    for each in b:
        pair = pairs.setdefault(each.tool, ToolPair(tool=each.tool))
        pair.b_calls, pair.b_errors = each.calls, each.errors
    return sorted(pairs.values(), key=lambda pair: (-pair.a_calls - pair.b_calls, pair.tool))


def _errors(one: _Side, other: _Side) -> list[ErrorPair]:
    """Return the kinds of errors of both sessions; only the listed ones are read."""
    counts: dict[tuple[str, bytes | None], list[Any]] = {}
    for place, side in enumerate((one, other)):
        for kind, count, text in side.errors:
            found = counts.setdefault(kind, [0, 0, text])
            found[place] += count
    order = sorted(counts.items(), key=lambda item: (-item[1][0] - item[1][1], item[0][0]))
    return [
        ErrorPair(tool=tool, text=text() if place < MOST_ERRORS else "", a=in_a, b=in_b)
        for place, ((tool, _), (in_a, in_b, text)) in enumerate(order)
    ]
