"""How long agents worked: turns, the longest of them, calls that nobody answered.

A turn is a prompt and all that follows it in its log until the next one of the same session. It
takes as long as it is from the prompt to the last record of an assistant, a subagent or a tool. In
one that nothing of the kind follows, such as a command that only printed something, no agent
worked; it is left out where times are compared. A turn is of the period in which its prompt was
typed. One that a fork carries along counts once, in the log in which it went on longest: a fork may
have left in the midst of it. All turns together are the time that agents worked.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS, instant_at
from turnlog.insights.prompts import PromptRecord, Typed, beginning
from turnlog.insights.scope import Evidence, Places, Scope

_MS: Final = 1_000
_WORKERS: Final = "SELECT id FROM names WHERE name IN ('assistant', 'subagent', 'tool')"
_LAST: Final = (
    "SELECT id, at FROM records WHERE id > ? AND id < ? AND session IS ? AND at IS NOT NULL"
    " AND author IN ({workers}) ORDER BY id DESC LIMIT 1"
)
_COUNT: Final = "SELECT count(*) FROM records WHERE id BETWEEN ? AND ? AND session IS ?"


class TurnFigures(NamedTuple):
    """A prompt, how long what followed took, and the last record of it."""

    prompt: PromptRecord
    duration_ms: int
    last: int
    is_worked: bool
    """An agent worked in it."""


class TurnRow(Struct, kw_only=True):
    """A long turn."""

    at: datetime | None
    duration_ms: int
    records: int
    """From the prompt to the last of them."""
    session: str | None
    project: str | None
    prompt: str
    """How it begins."""
    log: str
    offset: int


class Turns(Struct, kw_only=True):
    """How long agents worked."""

    turns: int
    working_ms: int
    average_ms: int | None
    """Of the turns in which an agent worked."""
    median_ms: int | None
    longest: list[TurnRow]


def turns_among(index: Index, typed: Typed) -> list[TurnFigures]:
    """Return the turns of the period."""
    threads: dict[tuple[int, int | None], list[PromptRecord]] = {}
    for prompt in typed.every:
        threads.setdefault((prompt.record >> OFFSET_BITS, prompt.session), []).append(prompt)
    asked = {prompt.record for prompt in typed.prompts}  # And what repeats them.
    workers = ",".join(str(number) for (number,) in index.db.execute(_WORKERS))
    last = _LAST.format(workers=workers)
    found: dict[int, TurnFigures] = {}
    for (log, _), prompts in threads.items():
        ends = [prompt.record for prompt in prompts[1:]] + [(log + 1) << OFFSET_BITS]
        for prompt, end in zip(prompts, ends, strict=True):
            if prompt.first in asked:
                turn = _turn(index, last, prompt, end)
                found[prompt.first] = _longest(index, found.get(prompt.first, turn), turn)
    return list(found.values())


def turn_figures(index: Index, turns: Sequence[TurnFigures], asked: Scope) -> Turns:
    """Add turns up, and show the longest."""
    worked = [turn for turn in turns if turn.is_worked]
    times = [turn.duration_ms for turn in worked]
    places = Places(index)
    return Turns(
        turns=len(turns),
        working_ms=sum(times),
        average_ms=round(sum(times) / len(times)) if times else None,
        median_ms=round(statistics.median(times)) if times else None,
        longest=[_row(index, places, turn, asked) for turn in asked.first(by_length(worked))],
    )


def by_length(turns: Sequence[TurnFigures]) -> list[TurnFigures]:
    """Return the longest first."""
    return sorted(turns, key=lambda turn: (-turn.duration_ms, turn.prompt.at or 0))


def explain_turns(index: Index, turns: Sequence[TurnFigures]) -> list[Evidence]:
    """Describe turns by their prompts, the longest first."""
    places = Places(index)
    return [
        places.behind(
            *turn.prompt[:3],
            beginning(index, turn.prompt.record),
            duration_ms=turn.duration_ms,
        )
        for turn in by_length(turns)
    ]


def _longest(index: Index, one: TurnFigures, two: TurnFigures) -> TurnFigures:
    """Choose between copies of a turn by what the logs say, in whatever order they were read."""
    if (one.is_worked, one.duration_ms) == (two.is_worked, two.duration_ms):
        return min(one, two, key=lambda turn: index.place(turn.prompt.record))
    return max(one, two, key=lambda turn: (turn.is_worked, turn.duration_ms))


def _turn(index: Index, last: str, prompt: PromptRecord, end: int) -> TurnFigures:
    found = index.db.execute(last, (prompt.record, end, prompt.session)).fetchone()
    if found is None or prompt.at is None:
        return TurnFigures(prompt, 0, prompt.record, is_worked=False)
    # Where clocks were set back, an answer may be older than its question.
    return TurnFigures(prompt, max(0, found[1] - prompt.at) // _MS, found[0], is_worked=True)


def _row(index: Index, places: Places, turn: TurnFigures, asked: Scope) -> TurnRow:
    session, project = places.session(turn.prompt.session)
    log, offset = index.place(turn.prompt.record)
    within = (turn.prompt.record, turn.last, turn.prompt.session)
    return TurnRow(
        at=instant_at(turn.prompt.at),
        duration_ms=turn.duration_ms,
        records=index.db.execute(_COUNT, within).fetchone()[0],
        session=session,
        project=project,
        prompt=beginning(index, turn.prompt.record, asked.mask),
        log=log,
        offset=offset,
    )
