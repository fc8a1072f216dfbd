"""Prompts, commands, interruptions, turns and compactions.

A prompt is a record by a human. Commands and interruptions are recognized by their text: the
full-text index finds candidates, and the log is read to confirm them.

A turn is a prompt and everything after it in its log until the next prompt of the same session. Its
duration is the time from the prompt to the last record of an assistant, a subagent or a tool; a
turn without one, such as a command that only prints something, is not part of averages. A turn
belongs to the period of its prompt. Copies of a turn in forks count once, as the longest of them,
since a fork may have started in the middle of it.

A compaction is a record marked as the summary of a context. In newer logs, the record above it
holds the trigger and the size of the context.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from turnlog.index.connection import Index
from turnlog.index.ids import IS_BESIDE, OFFSET_BITS, instant_at
from turnlog.index.refresh.line_decoder import OF_SUBAGENT
from turnlog.index.texts import TextKind
from turnlog.insights.scope import Evidence, Places, Scope, conditions, first_text, is_within
from turnlog.records.dates import LocalTimes
from turnlog.records.meaning import command_in, is_interruption
from turnlog.records.record import ImageBlock, Record, Spoken, System, TextBlock
from turnlog.records.session_summary import prompt_preview

_MARKS: Final = ("command name", "request interrupted by user")
_LONGEST_COMMAND: Final = 80


class PromptRecord(NamedTuple):
    """A record by a human."""

    record: int
    session: int | None
    at: int | None
    first: int
    """The record that it is a copy of, after a fork or a resume; otherwise itself."""


class Marked(NamedTuple):
    """A record of a command or of an interruption."""

    prompt: PromptRecord
    command: str | None
    is_interruption: bool


class Typed(NamedTuple):
    """What people typed in the period; *every* also holds other times and copies."""

    prompts: list[PromptRecord]
    marks: list[Marked]
    every: list[PromptRecord]


class CommandRow(Struct, kw_only=True):
    """A typed command, such as /review."""

    command: str
    count: int
    sessions: int


def typed_in(index: Index, asked: Scope) -> Typed:
    """Return what people typed, in the order of logs and offsets."""
    every = list(map(PromptRecord._make, _prompt_rows(index, asked, _BY_HUMANS, with_repeats=True)))
    marks = [_marked(index, PromptRecord._make(row)) for row in _candidates(index, asked)]
    return Typed(
        prompts=prompts_within(every, asked),
        marks=[mark for mark in marks if is_within(asked, mark.prompt.at)],
        every=every,
    )


def prompts_within(prompts: Sequence[PromptRecord], asked: Scope) -> list[PromptRecord]:
    """Return the prompts of a period, each once."""
    return [
        prompt
        for prompt in prompts
        if prompt.first == prompt.record and is_within(asked, prompt.at)
    ]


def prompts_by_day(prompts: Sequence[PromptRecord], asked: Scope) -> dict[str, int]:
    """Count prompts by day."""
    local = LocalTimes(asked.zone)
    days = (local.name("day", at) for prompt in prompts if (at := instant_at(prompt.at)))
    return Counter(days)


def commands_of(marks: Sequence[Marked]) -> list[CommandRow]:
    """Count commands, the most frequent first."""
    sessions: dict[str, list[int | None]] = {}
    for mark in marks:
        if mark.command is not None:
            sessions.setdefault(mark.command, []).append(mark.prompt.session)
    rows = [
        CommandRow(command=command, count=len(uses), sessions=len(set(uses)))
        for command, uses in sessions.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.command))


def explain_commands(index: Index, typed: Typed, command: str | None) -> Iterator[Evidence]:
    """Yield the prompts with *command*, or with any."""
    places = Places(index)
    for mark in typed.marks:
        if mark.command is not None and command in {None, mark.command}:
            yield places.behind(*mark.prompt[:3], mark.command)


def explain_interruptions(index: Index, typed: Typed) -> Iterator[Evidence]:
    """Yield the records of interruptions."""
    places = Places(index)
    for mark in typed.marks:
        if mark.is_interruption:
            yield places.behind(*mark.prompt[:3], "interrupted by a person")


def explain_prompts(
    index: Index, typed: Typed, mask: Callable[[str], str] = str
) -> Iterator[Evidence]:
    """Yield the prompts, with their first words."""
    places = Places(index)
    for prompt in typed.prompts:
        yield places.behind(*prompt[:3], preview_of(index, prompt.record, mask))


def preview_of(index: Index, record: int, mask: Callable[[str], str] = str) -> str:
    """Return the first words or the command of a prompt; empty if its log is gone."""
    prompt = index.record(record)
    for text in map(mask, _texts(prompt)):
        preview = command_in(text) or prompt_preview(text)
        if preview:
            return preview
    blocks = prompt.blocks if isinstance(prompt, Spoken) else ()
    return "[an image]" if any(isinstance(block, ImageBlock) for block in blocks) else ""


def _prompt_rows(
    index: Index, asked: Scope, condition: str, *more: Any, with_repeats: bool = False
) -> Iterator[Any]:
    always = structs.replace(asked, since=None, until=None)
    where, values = conditions(index, always, with_repeats=with_repeats)
    return index.db.execute(
        "SELECT r.id, r.session, r.at, coalesce(repeats.first, r.id) FROM records AS r"  # noqa: S608
        " LEFT JOIN repeats ON repeats.record = r.id"
        f" WHERE {condition} AND NOT {IS_BESIDE} AND {where} ORDER BY r.id",
        (*more, *values),
    )


def _candidates(index: Index, asked: Scope) -> Iterator[Any]:
    """Return the records since the start of the period that may be commands or interruptions.

    Newer programs record commands that they answer themselves as system records.
    """
    words = " OR ".join(f'"{mark}"' for mark in _MARKS)
    within = (
        "r.id IN (SELECT record FROM texts WHERE id IN"
        " (SELECT rowid FROM said WHERE said MATCH ? AND rowid >= ?))"
    )
    condition = f"{within} AND {_BY_HUMANS_OR_PROGRAM}"
    return _prompt_rows(index, asked, condition, words, first_text(asked))


def _marked(index: Index, prompt: PromptRecord) -> Marked:
    texts = _texts(index.record(prompt.record))
    commands = [name[:_LONGEST_COMMAND] for text in texts if (name := command_in(text))]
    return Marked(prompt, commands[0] if commands else None, any(map(is_interruption, texts)))


def _texts(record: Record | None) -> list[str]:
    if isinstance(record, System):
        return [record.text]
    blocks = record.blocks if isinstance(record, Spoken) else ()
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def _named(name: str) -> str:
    return f"(SELECT id FROM names WHERE name = '{name}')"  # noqa: S608 - No user input.


_BY_HUMANS: Final = f"(r.author = {_named('human')} AND r.type = {_named('user')})"
# A subagent's log repeats the interruption recorded in its caller's.
_BY_HUMANS_OR_PROGRAM: Final = (
    f"({_BY_HUMANS} OR (r.author = {_named('program')} AND NOT r.flags & {OF_SUBAGENT}"
    f" AND r.type IN ({_named('user')}, {_named('system')})))"
)

# -- turns ----------------------------------------------------------------------------------

_MS: Final = 1_000
_WORKERS: Final = "SELECT id FROM names WHERE name IN ('assistant', 'subagent', 'tool')"
_LAST: Final = (
    "SELECT id, at FROM records WHERE id > ? AND id < ? AND session IS ? AND at IS NOT NULL"
    " AND author IN ({workers}) ORDER BY id DESC LIMIT 1"
)
_COUNT: Final = "SELECT count(*) FROM records WHERE id BETWEEN ? AND ? AND session IS ?"


class TurnFigures(NamedTuple):
    """A prompt, the duration of its turn and the turn's last record."""

    prompt: PromptRecord
    duration_ms: int
    last: int
    is_worked: bool
    """Whether an agent did anything in it."""


class TurnRow(Struct, kw_only=True):
    """A long turn."""

    at: datetime | None
    duration_ms: int
    records: int
    """From the prompt to the last record."""
    session: str | None
    project: str | None
    prompt: str
    """Its first words."""
    log: str
    offset: int


class Turns(Struct, kw_only=True):
    """How long agents worked."""

    turns: int
    working_ms: int
    average_ms: int | None
    """For the turns in which an agent worked."""
    median_ms: int | None
    longest: list[TurnRow]


def turns_among(index: Index, typed: Typed) -> list[TurnFigures]:
    """Return the turns of the period."""
    threads: dict[tuple[int, int | None], list[PromptRecord]] = {}
    for prompt in typed.every:
        threads.setdefault((prompt.record >> OFFSET_BITS, prompt.session), []).append(prompt)
    wanted = {prompt.record for prompt in typed.prompts}
    workers = ",".join(str(number) for (number,) in index.db.execute(_WORKERS))
    last = _LAST.format(workers=workers)
    turns: dict[int, TurnFigures] = {}
    for (log, _), prompts in threads.items():
        ends = [prompt.record for prompt in prompts[1:]] + [(log + 1) << OFFSET_BITS]
        for prompt, end in zip(prompts, ends, strict=True):
            if prompt.first in wanted:
                turn = _turn(index, last, prompt, end)
                turns[prompt.first] = _longest(index, turns.get(prompt.first, turn), turn)
    return list(turns.values())


def turn_figures(index: Index, turns: Sequence[TurnFigures], asked: Scope) -> Turns:
    """Return the totals of turns, and the longest."""
    worked = [turn for turn in turns if turn.is_worked]
    times = [turn.duration_ms for turn in worked]
    places = Places(index)
    return Turns(
        turns=len(turns),
        working_ms=sum(times),
        average_ms=round(sum(times) / len(times)) if times else None,
        median_ms=round(statistics.median(times)) if times else None,
        longest=[_turn_row(index, places, turn, asked) for turn in asked.first(by_length(worked))],
    )


def by_length(turns: Sequence[TurnFigures]) -> list[TurnFigures]:
    """Return *turns*, the longest first."""
    return sorted(turns, key=lambda turn: (-turn.duration_ms, turn.prompt.at or 0))


def explain_turns(
    index: Index, turns: Sequence[TurnFigures], mask: Callable[[str], str] = str
) -> list[Evidence]:
    """Return the prompts of turns, the longest first."""
    places = Places(index)
    return [
        places.behind(
            *turn.prompt[:3],
            preview_of(index, turn.prompt.record, mask),
            duration_ms=turn.duration_ms,
        )
        for turn in by_length(turns)
    ]


def _longest(index: Index, one: TurnFigures, two: TurnFigures) -> TurnFigures:
    """Choose between copies of a turn, whatever the order in which logs were read."""
    if (one.is_worked, one.duration_ms) == (two.is_worked, two.duration_ms):
        return min(one, two, key=lambda turn: index.place(turn.prompt.record))
    return max(one, two, key=lambda turn: (turn.is_worked, turn.duration_ms))


def _turn(index: Index, last: str, prompt: PromptRecord, end: int) -> TurnFigures:
    row = index.db.execute(last, (prompt.record, end, prompt.session)).fetchone()
    if row is None or prompt.at is None:
        return TurnFigures(prompt, 0, prompt.record, is_worked=False)
    # After a clock was set back, a response may be older than its prompt.
    return TurnFigures(prompt, max(0, row[1] - prompt.at) // _MS, row[0], is_worked=True)


def _turn_row(index: Index, places: Places, turn: TurnFigures, asked: Scope) -> TurnRow:
    session, project = places.session(turn.prompt.session)
    log, offset = index.place(turn.prompt.record)
    within = (turn.prompt.record, turn.last, turn.prompt.session)
    return TurnRow(
        at=instant_at(turn.prompt.at),
        duration_ms=turn.duration_ms,
        records=index.db.execute(_COUNT, within).fetchone()[0],
        session=session,
        project=project,
        prompt=preview_of(index, turn.prompt.record, asked.mask),
        log=log,
        offset=offset,
    )


# -- compactions ----------------------------------------------------------------------------


class ContextCompaction(NamedTuple):
    """A summary that replaced a context."""

    record: int
    session: int | None
    at: int | None
    trigger: str | None
    """auto or manual, as recorded."""
    tokens: int | None
    """The size of the context before."""


class Compactions(Struct, kw_only=True):
    """The number of compactions, and the size of contexts before them."""

    compactions: int
    automatic: int
    manual: int
    sessions: int
    average_tokens: int | None
    """Of the contexts before, where recorded."""


def compactions_of(index: Index, asked: Scope) -> list[ContextCompaction]:
    """Return the compactions of the period, in the order of logs and offsets."""
    where, values = conditions(index, asked)
    rows = index.db.execute(
        "SELECT DISTINCT r.id, r.session, r.at, r.parent FROM texts AS t"  # noqa: S608
        " JOIN records AS r ON r.id = t.record"
        " WHERE t.kind = ? AND t.id >= ? AND r.type ="
        f" (SELECT id FROM names WHERE name = 'user') AND {where} ORDER BY r.id",
        (int(TextKind.SUMMARY), first_text(asked), *values),
    ).fetchall()
    return [
        ContextCompaction(record, session, at, *_boundary(index, record, parent))
        for record, session, at, parent in rows
    ]


def compaction_figures(compactions: Sequence[ContextCompaction]) -> Compactions:
    """Return the totals of compactions."""
    triggers = Counter(compaction.trigger for compaction in compactions)
    sizes = [row.tokens for row in compactions if row.tokens is not None]
    return Compactions(
        compactions=len(compactions),
        automatic=triggers["auto"],
        manual=triggers["manual"],
        sessions=len({compaction.session for compaction in compactions}),
        average_tokens=round(sum(sizes) / len(sizes)) if sizes else None,
    )


def explain_compactions(
    index: Index, compactions: Iterable[ContextCompaction]
) -> Iterator[Evidence]:
    """Yield the records of compactions."""
    places = Places(index)
    for row in compactions:
        figures = {} if row.tokens is None else {"tokens": row.tokens}
        yield places.behind(*row[:3], row.trigger or "unknown trigger", **figures)


def _boundary(index: Index, record: int, parent: Any) -> tuple[str | None, int | None]:
    """Return the trigger and the size of the context from the record above a summary."""
    if parent is None:
        return None, None
    row = index.db.execute(
        "SELECT id, length FROM records WHERE uuid = ? AND type ="
        " (SELECT id FROM names WHERE name = 'system') ORDER BY id >> ? <> ?, id LIMIT 1",
        (parent, OFFSET_BITS, record >> OFFSET_BITS),
    ).fetchone()
    boundary = None if row is None else index.record(*row)
    metadata = boundary.compact_metadata if isinstance(boundary, System) else None
    if not isinstance(metadata, dict):
        return None, None
    trigger, tokens = metadata.get("trigger"), metadata.get("preTokens")
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0
    return trigger if isinstance(trigger, str) else None, tokens if is_count else None
