"""The tool ``session_turns``: an outline of a session's turns, or one turn in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field

from turnlog.api.index import OFFSET_BITS, Index
from turnlog.errors import NotFound, UsageError
from turnlog.mcp.context import KnownSession, ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.session_flow import RecordLines, Thread, find_record, thread_of
from turnlog.mcp.tool import (
    OFFSETS,
    Limit,
    PageStart,
    SessionName,
    Tool,
    extent,
    instant_text,
    record_name,
    sparse,
)
from turnlog.mcp.tools.session import unread_notes
from turnlog.text import one_line

_CALLS: Final = 6
_SHOWN: Final = 300
_STEP_BITS: Final = 10
_LOG_SHIFT: Final = OFFSET_BITS + _STEP_BITS
_STEPS: Final = (1 << _STEP_BITS) - 1


def session_turns(
    ctx: ToolContext,
    page: PageStart,
    *,
    session: SessionName,
    turn: Annotated[
        int | None,
        Field(
            description="Return this turn in full: 1 is the first, -1 the last.",
            ge=-1_000_000,
            le=1_000_000,
        ),
    ] = None,
    record: Annotated[
        str | None,
        Field(
            description="Return the turn from this record on, in full: the `record` of another"
            " answer.",
            min_length=1,
            max_length=200,
        ),
    ] = None,
    subagent: Annotated[
        str | None,
        Field(
            description="Read this subagent's turns instead: its id or a prefix.",
            min_length=1,
            max_length=128,
        ),
    ] = None,
    newest: Annotated[bool, Field(description="Latest turns first.")] = False,
    limit: Limit = 20,
) -> ToolAnswer:
    """List a session's turns: the prompt, one line per call, and the answer.

    With `turn` or `record`: one turn in full, every call with its input and result.
    """
    if turn is not None and record is not None:
        raise UsageError("turn and record cannot be combined", hint="leave out one of them")
    with ctx.index() as index:
        known = ctx.session(index, session)
        if record is not None:
            thread, start = find_record(index, known, record, subagent)
            flow = _Flow(index, known, thread)
            answer = flow.in_full(flow.turn_at(start), start, page, limit)
        else:
            flow = _Flow(index, known, thread_of(index, known, subagent))
            if turn is None:
                answer = flow.outline(page, limit, newest=newest)
            else:
                number = flow.numbered(turn)
                answer = flow.in_full(number, flow.start(number), page, limit)
        answer.notes = unread_notes(index)
        return answer


class _Flow:
    """The turns of one thread."""

    def __init__(self, index: Index, known: KnownSession, thread: Thread) -> None:
        self._index, self._known, self._thread = index, known, thread
        self._prompts = thread.prompts(index)
        self._lines = RecordLines(index, is_subagent=thread.subagent is not None)

    def outline(self, page: PageStart, limit: int, *, newest: bool) -> ToolAnswer:
        """List the turns in a few lines each."""
        count = len(self._prompts)
        numbers = range(count, 0, -1) if newest else range(1, count + 1)
        wanted = numbers[page.place : page.place + limit]
        end = page.place + len(wanted)
        return ToolAnswer(
            about=self._about(title=self._known.title),
            noun="flow",
            rows=[self._line(number) for number in wanted],
            offset=page.place,
            next=end if end < count else None,
            rest="`session_turns` with turn returns a turn in full.",
        )

    def in_full(self, number: int, start: int, page: PageStart, limit: int) -> ToolAnswer:
        """Return a turn step by step.

        A position packs the log, the offset in it, and the step within the record.
        """
        thread, skipped = self._thread, 0
        if page.place:
            log = thread.logs[min(page.place >> _LOG_SHIFT, len(thread.logs) - 1)]
            start = log << OFFSET_BITS | (page.place >> _STEP_BITS & OFFSETS)
            skipped = page.place & _STEPS
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        following = None
        for record, length in thread.records(self._index, start, self._end(number)):
            which = thread.logs.index(record >> OFFSET_BITS)
            place = which << _LOG_SHIFT | (record & OFFSETS) << _STEP_BITS
            if len(rows) >= limit:
                following = place
                break
            for step, each in enumerate(self._lines.steps(record, length)[:_STEPS]):
                if record != start or step >= skipped:
                    rows.append(each)
                    places.append(place | step)
        return ToolAnswer(
            about=self._about(turn=number),
            noun="steps",
            rows=rows,
            places=places,
            next=following,
            rest="`session_overview` with session and record returns a whole record.",
        )

    def numbered(self, turn: int) -> int:
        """Return *turn* counted from 1; 0 is what precedes the first prompt."""
        count = len(self._prompts)
        number = turn if turn >= 0 else count + 1 + turn
        if not 0 <= number <= count or (turn < 0 and number == 0):
            raise NotFound(f"no turn {turn}", hint=f"the session has {count}, counted from 1")
        return number

    def turn_at(self, record: int) -> int:
        """Return the number of the turn that contains a record."""
        here = self._order(record)
        return sum(self._order(each.record) <= here for each in self._prompts)

    def start(self, number: int) -> int:
        """Return the first record of a turn; for turn 0, the start of the log."""
        return self._prompts[number - 1].record if number else self._thread.logs[0] << OFFSET_BITS

    def _end(self, number: int) -> int | None:
        return self._prompts[number].record if number < len(self._prompts) else None

    def _order(self, record: int) -> tuple[int, int]:
        return self._thread.logs.index(record >> OFFSET_BITS), record

    def _about(self, **more: Any) -> dict[str, Any]:
        fields = {"session": self._known.id, "subagent": self._thread.subagent}
        return sparse(fields | more | {"turns": len(self._prompts)})

    def _line(self, number: int) -> dict[str, Any]:
        prompt = self._prompts[number - 1]
        calls: list[str] = []
        count, answer, last = 0, "", prompt.at
        for start, end in self._ranges(number):
            lines, here = self._lines.calls(self._thread, start, end, _CALLS - len(calls))
            calls += [each.text for each in lines]
            count += here
            answer = self._lines.answer(self._thread, start, end) or answer
            here_at = self._thread.last_at(self._index, start, end)
            last = max(filter(None, (last, here_at)), default=None)
        took = None if last is None or prompt.at is None else (last - prompt.at) // 1_000_000
        return sparse(
            {
                "turn": number,
                "record": record_name(prompt.uuid, prompt.record),
                "at": instant_text(prompt.at),
                "seconds": took or None,
                "prompt": one_line(self._lines.prompt(prompt.record), _SHOWN),
                "calls": calls,
                "more_calls": count - len(calls) or None,
                "answer": one_line(answer, _SHOWN),
            }
        )

    def _ranges(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of records that a turn covers, one per log."""
        start, end, logs = self.start(number), self._end(number), self._thread.logs
        last = len(logs) - 1 if end is None else logs.index(end >> OFFSET_BITS)
        for log in logs[logs.index(start >> OFFSET_BITS) : last + 1]:
            low, high = extent(log)
            is_end = end is not None and end >> OFFSET_BITS == log
            yield (
                max(low, start) if start >> OFFSET_BITS == log else low,
                (end if is_end and end is not None else high + 1),
            )


TURNS = Tool(session_turns, title="How a past session went")
